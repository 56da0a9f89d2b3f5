"""The course as a person sees it: lessons open, sliders move their pictures, questions say right and wrong."""

import re
import threading
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from adobest_pp.teaching.pages import LESSONS
from tests.lessons.test_lessons import lesson
from tests.report.browser import CHROMIUM, chromium, visit

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install the package chromium")

PATIENCE = 120_000  # milliseconds, for machines that do other things as well
PICTURE = "div.picture img"
CHANGED = f"before => {{ const now = document.querySelector('{PICTURE}'); return now && now.src !== before }}"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser):
    with browser.new_context(viewport={"width": 1100, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.problems, page.hosts = [], set()
        page.on("console", lambda m: page.problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on(
            "request", lambda request: page.hosts.add(re.sub("^(data:|blob:|[a-z]+://[^/]+).*", r"\1", request.url))
        )
        yield page


def changing(tab, act):
    """Do something, wait until the picture is another one."""
    before = tab.locator(PICTURE).get_attribute("src")
    act()
    tab.wait_for_function(CHANGED, arg=before)


def move(slider):
    """Move a slider by one step, back from its end."""
    at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
    slider.press("ArrowLeft" if at_end else "ArrowRight")


def choose_next(choices):
    """Choose the next one of a list, or the first after the last."""
    place = choices.evaluate("list => (list.selectedIndex + 1) % list.options.length")
    choices.select_option(index=place)


def test_the_lesson_that_was_asked_for_is_opened(server, tab):
    limit = time.monotonic() + 60
    while not server.opened.is_file() and time.monotonic() < limit:
        time.sleep(0.05)
    opened = server.opened.read_text()
    assert server.told == f"The lessons are at {server.page(3)} (Ctrl-C ends).\n"
    assert server.token not in opened  # every user of the machine can see the command that starts a browser
    assert Path(unquote(urlsplit(opened).path)).parent.stat().st_mode & 0o077 == 0  # but not look into this folder
    tab.goto(opened)
    tab.wait_for_url(f"{server.address}3/")  # without the token
    tab.wait_for_selector(PICTURE)
    assert tab.problems == []


def test_other_sites_can_link_to_the_lessons_and_nothing_else(server, browser):
    """A terminal in a web page has the address as a link: a redirect with a strict cookie would not arrive there."""
    with _other_site(f'<a href="{server.page()}">lessons</a>') as (port, cookies), browser.new_context() as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.goto(f"http://localhost:{port}/")
        tab.get_by_text("lessons").click()
        tab.wait_for_url(server.address)
        tab.wait_for_selector("table")
        tab.goto(f"http://127.0.0.1:{port}/")  # for a browser the same site: ports do not matter, also for cookies
        code = """async address => {
            const told = []
            await fetch('/')
            try { await fetch(address + '1/', {credentials: 'include'}); told.push('read') } catch { }
            const socket = new WebSocket(address.replace('http', 'ws') + '1/ws?session_id=x')
            await new Promise(done => {
                socket.onopen = () => { told.push('connected'); done() }
                socket.onerror = done
            })
            return told }"""
        assert tab.evaluate(code, server.address) == []
    assert len(cookies) >= 3
    assert set(cookies) == {None}


@contextmanager
def _other_site(page):
    """A page at another port; return that, and the cookies that browsers send there."""
    cookies = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *given):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site.server_port, cookies
        site.shutdown()


@pytest.mark.parametrize("number", range(1, len(LESSONS) + 1))
def test_a_lesson(server, tab, number):
    used = sum(server.process.cpu_times()[:2])
    tab.goto(server.page(number))
    tab.wait_for_selector(PICTURE)
    # Cold start. Seconds of the processor, because other tests may run beside this one.
    assert sum(server.process.cpu_times()[:2]) - used < 10
    assert tab.locator("h1").inner_text() == f"{number} · {LESSONS[number - 1].title}"

    sliders, lists = tab.locator("[role=slider]"), tab.locator("select")
    assert sliders.count() >= 2
    assert sliders.count() + lists.count() == 3
    for i in range(lists.count()):
        assert _at_once(server.process, tab, partial(choose_next, lists.nth(i)))
        changing(tab, partial(lists.nth(i).select_option, index=0))  # not every choice has a use for every slider
    for i in range(sliders.count()):
        assert _at_once(server.process, tab, partial(move, sliders.nth(i)))
    _ask(tab)

    _practise(tab)
    assert tab.problems == []
    assert tab.hosts <= {f"http://{server.host}", "data:", "blob:", f"ws://{server.host}"}


def _at_once(process, tab, act):
    """Whether the server computes for at most 300 ms until a new picture is there, in the best of three warm moves."""
    changing(tab, act)
    for _ in range(3):
        began = sum(process.cpu_times()[:2])
        changing(tab, act)
        if sum(process.cpu_times()[:2]) - began <= 0.3:
            return True
    return False


def _ask(tab):
    """Give every answer to every question: one of three is right."""
    radios = tab.locator("[role=radio]")
    assert radios.count() == 6
    for first in (0, 3):
        heard = []
        for i in range(first, first + 3):
            told = tab.locator("div.verdict").all_inner_texts()
            radios.nth(i).click()
            tab.wait_for_function(
                "told => { const now = [...document.querySelectorAll('div.verdict')].map(each => each.innerText);"
                " return now.length > told.length || now.some((text, i) => text !== told[i]) }",
                arg=told,
            )
            new = [text for text in tab.locator("div.verdict").all_inner_texts() if text not in told]
            heard.append(new[0].split()[0])
        assert sorted(heard) == ["Not", "Not", "Right."]


def _practise(tab):
    """Hand in the code to begin with, which is not right yet, and then the solution that the page has folded."""
    solution = tab.locator("details", has_text="A solution").locator("pre").text_content()
    tab.get_by_role("button", name="Check it").click()
    tab.get_by_text("Not yet.").wait_for()
    tab.locator(".cm-content").click()
    tab.keyboard.press("Control+A")
    tab.keyboard.insert_text(solution)
    tab.get_by_role("button", name="Check it").click()
    tab.get_by_text("That is right.").wait_for()


def test_the_table_of_contents_leads_to_every_lesson(server, tab):
    tab.goto(server.page())
    tab.wait_for_selector("table")
    links = [link.get_attribute("href") for link in tab.locator("table a").all()]
    assert links == [f"./{number}" for number in range(1, len(LESSONS) + 1)]
    for number in range(1, len(LESSONS) + 1):
        request = urllib.request.Request(f"{server.address}{number}", headers={"Cookie": server.cookie})
        with urllib.request.urlopen(request) as reply:
            assert reply.status == 200
    tab.locator("table a").first.click()
    tab.wait_for_selector(PICTURE)
    assert tab.problems == []


def test_pages_show_all_and_ask_nobody(browser, tmp_path):
    from adobest_pp.teaching.pages import page_of

    for number in (1, 4):
        path = tmp_path / f"{number}.html"
        path.write_text(page_of(number, lesson(number)[0]), encoding="utf-8")
        seen = visit(
            browser,
            path,
            "({wide: [...document.images].every(image => image.naturalWidth > 100),"
            " fits: document.documentElement.scrollWidth <= window.innerWidth, title: document.title})",
        )
        assert seen.problems == []
        assert [address for address in seen.requests if not address.startswith(("file:", "data:"))] == []
        assert seen.result == {"wide": True, "fits": True, "title": f"{number} · {LESSONS[number - 1].title}"}
