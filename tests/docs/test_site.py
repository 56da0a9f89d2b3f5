"""The built site: no warning, no broken link, nothing from another host, every public name, and a search that finds.

The long tests build the pages without running their examples; the slow one builds all of it, as ``make docs`` does.
"""

import fcntl
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import adobest_pp
from adobest_pp.teaching.pages import LESSONS
from tests.docs.blocks import DOCS, ROOT
from tests.report.browser import CHROMIUM, chromium

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install the package chromium")


def build(out, execute, *options):
    """Build the site in a folder, once: processes that share the folder wait for the one that builds."""
    out.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-n", "-W", "--keep-going", "-d", str(out / "trees")]
    environment = os.environ | {"DOCS_EXECUTE": execute, "PYTHONPATH": str(ROOT)}
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "built").exists():
            done = subprocess.run(
                [*command, *options, str(DOCS), str(out / "html")],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            (out / "built").touch()
    return out / "html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without results of examples; workers of one run share it."""
    base = tmp_path_factory.getbasetemp()
    return build((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site", "off")


class Links(HTMLParser):
    """What a page loads, what it links to, and the places in it that can be linked to."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.linked, self.places = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.linked.append(given["href"])
        elif tag == "link" and "canonical" not in given.get("rel", ""):
            self.loaded.append(given.get("href", ""))
        else:
            self.loaded += [given[key] for key in ("src", "srcset", "data", "poster") if given.get(key)]


@pytest.fixture(scope="module")
def pages(site):
    return {page: Links(page) for page in site.rglob("*.html") if "_static" not in page.relative_to(site).parts}


def foreign(addresses):
    return [address for address in addresses if re.match(r"(https?:)?//", address)]


@pytest.mark.long
def test_nothing_is_loaded_from_another_host(site, pages):
    assert {page.name: foreign(found.loaded) for page, found in pages.items() if foreign(found.loaded)} == {}
    for sheet in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert foreign(re.findall(r"(?:url\(|@import )['\"]?([^'\")]+)", text)) == [], sheet.name


def test_a_page_that_loads_from_another_host_would_be_noticed(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text('<script src="https://192.0.2.1/a.js"></script><link rel="stylesheet" href="//192.0.2.1/a.css">')
    assert len(foreign(Links(page).loaded)) == 2


@pytest.mark.long
def test_no_internal_link_is_broken(site, pages):
    broken = []
    for page, found in pages.items():
        for address in found.linked + found.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            there = target.is_file() and (
                not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].places
            )
            if not there:
                broken.append((page.relative_to(site).as_posix(), address))
    assert broken == []


@pytest.mark.long
def test_formulas_are_mathml(site, pages):
    page = site / "explanation" / "ldp.html"
    assert page.read_text(encoding="utf-8").count("<math") > 5
    assert not any("mathjax" in address.lower() for address in pages[page].loaded)


def public_names():
    """Return every public function, class and constant, by the modules that declare it, modules within modules too."""
    waiting = ["adobest_pp", *(f"adobest_pp.{name}" for name in adobest_pp._MODULES), "adobest_pp.report"]
    found = set()
    for module in map(import_module, waiting):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.ismodule(thing):
                waiting += [thing.__name__] if thing.__name__ not in waiting else []
            elif not name.startswith("__"):
                found.add((module.__name__, name))
    return found


@pytest.mark.long
def test_every_public_name_has_a_page(site):
    written = {path.stem for path in (site / "api" / "generated").glob("*.html")}
    names = public_names()
    assert len(names) > 60
    assert [
        f"{module}.{name}"
        for module, name in sorted(names)
        if f"{module}.{name}" not in written and f"adobest_pp.{name}" not in written
    ] == []


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


IMAGES = """(async () => {
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  const images = [...document.images].filter(image => image.getBoundingClientRect().width > 0);
  return {
    shown: images.filter(image => image.naturalWidth > 100).length,
    broken: images.filter(image => !image.naturalWidth).length,
  };
})()"""
FOUND = """(async () => {
  for (let i = 0; i < 100 && !document.querySelector('#search-results li a'); i++)
    await new Promise(r => setTimeout(r, 100));
  await new Promise(r => setTimeout(r, 300));
  return [...document.querySelectorAll('#search-results li a')].map(link => link.getAttribute('href'));
})()"""


def open_page(browser, address, expression):
    """Open a page; return what an expression is there, the errors in its console, and what it asks for."""
    errors, asked = [], []
    with browser.new_context() as context:
        context.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        context.on("weberror", lambda failure: errors.append(str(failure.error)))
        context.on("request", lambda request: asked.append(request.url))
        tab = context.new_page()
        tab.goto(address, wait_until="load")
        return tab.evaluate(expression), errors, asked


@pytest.mark.long
@in_a_browser
def test_search_finds_the_page(site, browser):
    found, errors, _ = open_page(browser, (site / "search.html").as_uri() + "?q=contraction", FOUND)
    assert any("explanation/contraction.html" in link for link in found)
    assert errors == []


@pytest.mark.long
@in_a_browser
@pytest.mark.parametrize("page", ["index.html", "explanation/sgld.html", "api/index.html"])
def test_pages_open_without_an_error(site, browser, page):
    seen, errors, asked = open_page(browser, (site / page).as_uri(), IMAGES)
    assert errors == []
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
    assert seen["broken"] == 0
    assert seen["shown"] >= (page == "index.html")


@pytest.mark.slow
@in_a_browser
def test_the_whole_site_with_its_examples(tmp_path, browser):
    html = build(tmp_path, "on", "-j", "2")
    plots = [name for name in import_module("adobest_pp.plots").__all__ if name.startswith("plot_")]
    seen, errors, _ = open_page(browser, (html / "gallery.html").as_uri(), IMAGES)
    assert errors == []
    assert seen["shown"] >= len(plots)
    assert seen["broken"] == 0
    pages = [address for address in Links(html / "course.html").linked if re.fullmatch(r"lessons/\w+\.html", address)]
    assert {f"lessons/{lesson.name}.html" for lesson in LESSONS} <= set(pages)
    assert [address for address in pages if not (html / address).is_file()] == []


def test_pictures_are_small():
    pictures = list((DOCS / "pictures").iterdir())
    assert pictures
    assert [path.name for path in pictures if path.stat().st_size > 150_000] == []


def test_files_of_the_site_are_not_committed():
    listed = subprocess.run(["git", "ls-files", "docs"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert not any(Path(line).parts[1] in {"_build", "api"} for line in listed.splitlines())
