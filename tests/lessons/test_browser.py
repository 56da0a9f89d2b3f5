"""The course as a person sees it: by keyboard, wide and narrow, light and dark, live and as a page without Python."""

import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from adobest_pp.teaching import Exercise, Numeric, Picture, Prediction
from adobest_pp.teaching.pages import (
    LESSONS,
    contents_page,
    handout_page,
    lesson_page,
    makers,
    parts_of,
    slides_page,
)
from tests.lessons.test_lessons import NUMBERS
from tests.lessons.test_running import confines
from tests.poll.conftest import axe  # noqa: F401
from tests.poll.harness import serious
from tests.report.browser import CHROMIUM, chromium

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install the package chromium")

SIZES = {"wide": (1280, 900), "narrow": (390, 844), "screen": (1280, 720)}
# One lesson in one look stays in `make test`; the others are long.
LOOKS = [(number, width, scheme) for number in NUMBERS for width in ("wide", "narrow") for scheme in ("light", "dark")]
QUICK = (1, "narrow", "dark")
EACH_LOOK = [pytest.param(*look, marks=[] if look == QUICK else [pytest.mark.long]) for look in LOOKS]
PATIENCE = 30_000


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@contextmanager
def visiting(browser, address, width="wide", scheme="light"):
    """Open a page; nothing may be logged, and nothing asked of another host."""
    across, down = SIZES[width]
    with browser.new_context(viewport={"width": across, "height": down}, color_scheme=scheme) as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        problems, asked = [], []
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(address)
        yield tab
        assert problems == []
        own = f"{urlsplit(address).scheme}://{urlsplit(address).netloc}"
        assert [url for url in asked if not url.startswith((own, "data:,"))] == []


def focus_by_keyboard(tab, element, backwards=False):
    """Press Tab until an element has the focus."""
    for _ in range(200):
        if element.evaluate("it => it === document.activeElement"):
            return
        tab.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"Tab does not reach {element}")


def predict(tab, number):
    """Answer every prediction by keyboard: what follows is hidden before, and shown after. The second half is right."""
    for i, question in enumerate(parts_of(number, Prediction)):
        form, behind = tab.locator(f"#prediction-{i}"), tab.locator(f"#behind-{i}")
        assert not behind.is_visible()
        right = list(question.options).index(question.right)
        for choice in [j for j in range(len(question.options)) if j != right] + [right]:
            radios = form.locator("input")
            radios.nth(choice).focus()
            tab.keyboard.press("Space")
            focus_by_keyboard(tab, form.get_by_role("button", name="Predict"))
            tab.keyboard.press("Enter")
            assert form.locator(".verdict").inner_text().startswith("Right." if choice == right else "Not quite.")
            assert behind.is_visible()
    count = len(parts_of(number, Prediction))
    assert tab.locator("#summary p").first.inner_text().startswith(f"You predicted 0 of {count} right.")


def move_everything(tab, number):
    """Move every control by keyboard through all of its values: the picture changes, and the value is spoken."""
    for i, picture in enumerate(parts_of(number, Picture)):
        place = tab.locator(f"#picture-{i}")
        for j, control in enumerate(picture.controls):
            knob = place.locator(f"#picture-{i}-{j}")
            assert place.locator(f"label[for=picture-{i}-{j}]").inner_text()
            knob.focus()
            seen = [place.locator(".panels").inner_html()]
            if hasattr(control, "unit"):
                tab.keyboard.press("Home")
            for k in range(len(control.values)):
                if hasattr(control, "unit"):
                    spoken = knob.get_attribute("aria-valuetext")
                    assert spoken.endswith(control.unit)
                    assert float(spoken.removesuffix(control.unit).replace(",", "")) == control.values[k]
                seen.append(place.locator(".panels").inner_html())
                tab.keyboard.press("ArrowRight" if hasattr(control, "unit") else "ArrowDown")
            assert len(set(seen)) >= min(2, len(control.values)), (picture.name, control.name)
        assert place.locator(".panels svg text").count() > 3
        wide = place.evaluate(
            "it => [...it.querySelectorAll('svg')].every(s => s.getBoundingClientRect().right <= innerWidth)"
        )
        assert wide


def practise_without_python(tab, number):
    """Give wrong answers until the hints are used up, then the right one."""
    for i, exercise in enumerate(parts_of(number, Exercise)):
        form, twin = tab.locator(f"#exercise-{i}"), exercise.twin
        verdict, button = form.locator(".verdict"), form.get_by_role("button", name="Check it")
        if isinstance(twin, Numeric):
            box = form.locator("input")
            for wrong in range(3):
                box.fill(str(twin.answer[1] + (2 + wrong) * twin.tolerance))
                box.press("Enter")
                assert verdict.inner_text().startswith("Not quite.")
                assert form.locator(".hints li").count() == wrong + 1
                assert form.locator("details:has-text('The answer')").is_visible() == (wrong == 2)
            for accepted in (twin.answer[0], str(twin.answer[1] - 0.99 * twin.tolerance)):
                box.fill(accepted)
                box.press("Enter")
                assert verdict.inner_text().startswith("Right.")
        else:
            for option, text in enumerate(twin.options):
                form.locator("input").nth(option).check()
                button.press("Enter")
                assert verdict.inner_text().startswith("Right." if text == twin.right else "Not quite.")


def remembers(tab):
    """Whether the browser has kept anything: it need not for a page that is opened from a file."""
    return tab.evaluate("(() => { try { return localStorage.length > 0; } catch { return false; } })()")


@pytest.mark.parametrize(("number", "width", "scheme"), EACH_LOOK)
def test_a_page_without_python(browser, axe, tmp_path, number, width, scheme):  # noqa: F811
    path = tmp_path / "lesson.html"
    path.write_text(lesson_page(number), encoding="utf-8")
    with visiting(browser, path.as_uri(), width, scheme) as tab:
        assert tab.locator("h1").inner_text() == f"{number} · {LESSONS[number - 1].title}"
        assert tab.locator("#picture-0 svg").count() >= 1
        predict(tab, number)
        move_everything(tab, number)
        practise_without_python(tab, number)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.reload()
        assert tab.locator("#behind-0").is_visible() == remembers(tab)
        assert serious(tab, axe) == []


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_slides_and_handout(browser, axe, tmp_path, number):  # noqa: F811
    """Every slide fits the screen, pictures move, notes are in the speaker's window; both print as they should."""
    deck, sheet = tmp_path / "deck.html", tmp_path / "sheet.html"
    deck.write_text(slides_page(number), encoding="utf-8")
    sheet.write_text(handout_page(number), encoding="utf-8")
    with visiting(browser, deck.as_uri(), "screen") as tab:
        slides = tab.locator(".slide")
        for i in range(slides.count()):
            assert slides.nth(i).is_visible()
            assert slides.locator("visible=true").count() == 1
            tab.wait_for_function("() => document.documentElement.scrollHeight <= innerHeight")
            assert not slides.nth(i).locator(".notes").is_visible()
            if (knob := slides.nth(i).locator("input[type=range]")).count():
                before = slides.nth(i).locator(".panels").inner_html()
                knob.first.press("Home" if knob.first.input_value() != "0" else "End")
                assert slides.nth(i).locator(".panels").inner_html() != before
                assert serious(tab, axe) == []
            tab.keyboard.press("PageDown")
        with tab.expect_popup() as opened:
            tab.get_by_role("button", name="Speaker notes").click()
        opened.value.locator(f".slide:nth-child({slides.count()}) .notes").wait_for()
        assert pages_printed(tab, landscape=True) == slides.count()
    with visiting(browser, sheet.as_uri()) as tab:
        assert pages_printed(tab, format="A4") == 1
        assert serious(tab, axe) == []


def pages_printed(tab, **options):
    return len(re.findall(rb"/Type\s*/Page[^s]", tab.pdf(**options)))


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_picture_is_there_within_a_second(browser, tmp_path, number):
    """The script draws before the document is interactive. The best of five, because other tests may run beside it."""
    path = tmp_path / "lesson.html"
    path.write_text(lesson_page(number), encoding="utf-8")
    times = []
    with visiting(browser, path.as_uri()) as tab:
        for _ in range(5):
            tab.reload()
            assert tab.locator("#picture-0 svg").count() >= 1
            times.append(tab.evaluate("performance.getEntriesByType('navigation')[0].domInteractive"))
    assert min(times) < 1000, times


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_of_contents(browser, axe, tmp_path, scheme):  # noqa: F811
    path = tmp_path / "index.html"
    path.write_text(contents_page(), encoding="utf-8")
    with visiting(browser, path.as_uri(), "narrow", scheme) as tab:
        assert tab.locator(".lessons a").count() == len(LESSONS)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(tab, axe) == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["homework", "syllabus", "exam"])
def test_problems_and_plans(browser, axe, tmp_path, name):  # noqa: F811
    path = tmp_path / "page.html"
    path.write_text(makers(lecturer=True)[name](), encoding="utf-8")
    for scheme in ("light", "dark"):
        with visiting(browser, path.as_uri(), "narrow", scheme) as tab:
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert serious(tab, axe) == []


def test_what_was_predicted_is_remembered(browser, tmp_path):
    """In one of three tries: now and then Chromium forgets what a page that is opened from a file has stored."""
    path = tmp_path / "lesson.html"
    path.write_text(lesson_page(1), encoding="utf-8")
    kept = []
    for _ in range(3):
        with visiting(browser, path.as_uri()) as tab:
            tab.locator("#prediction-0").get_by_role("button", name="Show me").click()
            tab.reload()
            kept.append(tab.locator("#behind-0").is_visible())
    assert any(kept)


@pytest.mark.long
def test_looking_first_is_counted_as_such(browser, tmp_path):
    path = tmp_path / "lesson.html"
    path.write_text(lesson_page(1), encoding="utf-8")
    with visiting(browser, path.as_uri()) as tab:
        look = tab.locator("#prediction-0").get_by_role("button", name="Show me")
        tab.locator("#prediction-0").get_by_role("button", name="Predict").click()
        assert tab.locator("#prediction-0 .verdict").inner_text().startswith("Choose an answer first")
        assert not tab.locator("#behind-0").is_visible()
        look.click()
        assert tab.locator("#behind-0").is_visible()
        assert not look.is_visible()
        assert tab.locator("#summary p").first.inner_text().startswith("You looked first at one question.")
        tab.locator("#summary button").click()
        tab.wait_for_load_state()
        assert not tab.locator("#behind-0").is_visible()
        assert tab.locator("#summary p").first.inner_text() == "No predictions yet."


@pytest.mark.long
def test_the_lesson_that_was_asked_for_is_opened(server, browser):
    limit = time.monotonic() + 60
    while not server.opened.is_file() and time.monotonic() < limit:
        time.sleep(0.05)
    opened = server.opened.read_text()
    assert server.printed == f"The lessons are at {server.page('one_answer.html')} (Ctrl-C ends).\n"
    assert server.token not in opened  # every user of the machine can see the command that starts a browser
    assert Path(unquote(urlsplit(opened).path)).parent.stat().st_mode & 0o077 == 0  # but not look into this folder
    with browser.new_context() as context:
        tab = context.new_page()
        tab.goto(opened)
        tab.wait_for_url(f"{server.address}one_answer.html")  # without the token
        assert tab.locator("#picture-0 svg").count() >= 1


def hand_in(tab, form, code):
    form.locator("textarea").fill(code)
    form.get_by_role("button", name="Check it").click()
    form.locator(".verdict.right, .verdict.wrong").wait_for()
    return form.locator(".verdict").inner_text()


@confines
@pytest.mark.long
@pytest.mark.parametrize(("number", "width", "scheme"), LOOKS)
def test_a_lesson_live(server, browser, axe, number, width, scheme):  # noqa: F811
    """Wrong tries bring hints and then the solution, prints and errors are shown, and the lesson goes on."""
    with visiting(browser, server.page(f"{LESSONS[number - 1].name}.html"), width, scheme) as tab:
        predict(tab, number)
        move_everything(tab, number)
        for i, exercise in enumerate(parts_of(number, Exercise)):
            form = tab.locator(f"#exercise-{i}")
            assert form.locator("textarea").input_value() == exercise.start
            # What an earlier visitor of this address has tried counts: all looks share the server.
            before = 0
            for wrong in ("print('here')\nx = 1", "import os\nos.listdir('/')", "1 / 0"):
                assert hand_in(tab, form, wrong).startswith("Not yet.")
                assert form.locator(".hints li").count() >= before + 1 or before == 3
                before = form.locator(".hints li").count()
                assert form.locator(".printed").is_visible() == ("print" in wrong)
                assert form.locator("details").is_visible() == (before == 3)
            assert before == 3
            assert form.locator("details pre").text_content() == exercise.solution
            assert hand_in(tab, form, exercise.solution) == "Right."
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(tab, axe) == []


@confines
def test_an_exercise_by_keyboard(server, browser):
    with visiting(browser, server.page("one_answer.html")) as tab:
        box = tab.locator("#exercise-0 textarea")
        box.fill("")
        tab.keyboard.press("Tab")
        tab.keyboard.type("x = 1")
        assert box.input_value() == "    x = 1"
        box.fill(parts_of(1, Exercise)[0].solution)
        tab.keyboard.press("Escape")
        tab.keyboard.press("Tab")
        assert tab.locator("#exercise-0 button[type=submit]").evaluate("it => it === document.activeElement")
        tab.keyboard.press("Enter")
        tab.locator("#exercise-0 .verdict.right").wait_for()


@pytest.mark.long
def test_other_sites_can_link_to_the_lessons_and_nothing_else(server, browser):
    """A terminal in a web page has the address as a link: a redirect with a strict cookie would not arrive there."""
    with _other_site(f'<a href="{server.page()}">lessons</a>') as (port, cookies), browser.new_context() as context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.goto(f"http://localhost:{port}/")
        tab.get_by_text("lessons").click()
        tab.wait_for_url(server.address)
        tab.wait_for_selector(".lessons")
        tab.goto(f"http://127.0.0.1:{port}/")  # for a browser the same site: ports do not matter, also for cookies
        code = """async address => {
            const done = []
            await fetch('/')
            try { await fetch(address + 'index.html', {credentials: 'include'}); done.push('read') } catch { }
            return done }"""
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
