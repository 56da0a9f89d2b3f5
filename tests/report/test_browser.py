"""The report as a person sees it: opened in a browser, it shows all, asks nobody and complains of nothing."""

import pytest

from adobest_pp.report.folder import POLICY
from tests.report.browser import CHROMIUM, chromium, visit

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install the package chromium")

FIGURES = ["estimate", "comparison", "traces", "ranks", "contraction"]
LOOK = """(async () => {
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  return {
    shown: [...document.images].filter(image => image.naturalWidth > 100 && image.getBoundingClientRect().width > 100)
                               .map(image => image.id),
    scripts: document.scripts.length,
    bold: document.querySelectorAll('b').length,
    title: document.title,
    text: document.body.innerText,
    wider: document.documentElement.scrollWidth > window.innerWidth,
  };
})()"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def seen(hostile_report, browser):
    return visit(browser, hostile_report / "report.html", LOOK)


def test_all_figures_are_shown(seen):
    assert seen.result["shown"] == FIGURES
    assert not seen.result["wider"]


def test_nothing_is_logged(seen):
    assert seen.problems == []


def test_no_host_is_asked(seen):
    assert any(address.startswith("file:") for address in seen.requests)
    assert [address for address in seen.requests if not address.startswith(("file:", "data:"))] == []


def test_labels_arrive_as_text(seen):
    assert seen.result["scripts"] == 0
    assert seen.result["bold"] == 0
    assert "<script>alert(1)</script>" in seen.result["text"]
    assert "[red]" in seen.result["text"]
    assert seen.result["title"] == "Is <b>this</b> “safe”?"


def test_the_check_would_notice(browser, tmp_path):
    """A page with a script that fails, a picture from a host and one that is broken: everything is reported."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<html><body><script>console.error('planted'); missing()</script>"
        "<img id='far' src='http://192.0.2.1/a.png'><img id='broken' src='data:image/png;base64,AAAA'></body></html>"
    )
    bad = visit(browser, page, LOOK.replace("await Promise.all", "void Promise.all"))
    assert any("planted" in problem for problem in bad.problems)
    assert any("missing" in problem for problem in bad.problems)
    assert any(address.startswith("http://192.0.2.1") for address in bad.requests)
    assert bad.result["shown"] == []


def test_what_the_policy_stops_is_noticed(browser, tmp_path):
    page = tmp_path / "stopped.html"
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page.write_text(f"<html><head>{policy}</head><body><script>missing()</script></body></html>")
    (problem,) = visit(browser, page, LOOK).problems
    assert "Content Security Policy" in problem
