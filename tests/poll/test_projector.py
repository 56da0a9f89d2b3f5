"""The projector's page in a browser: the steps of a class, another ε, exports that our readers read, and axe-core."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.poll.polls import PollQuestion, prepare_class, read_plan
from tests.poll.harness import answer, join, serious, served
from tests.report.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
N = 12


@pytest.fixture
def problems():
    found = []
    yield found
    assert found == []


def people_answer(server, question=0, tokens=None):
    """Let people answer as their devices would; return their tokens."""
    asked = server.poll.published[question]
    tokens = tokens or [join(server)["token"] for _ in range(N)]
    for i, token in enumerate(tokens):
        sent = np.asarray(
            asked.mechanism.privatize(i % 3, subset=asked.subset)
            if asked.subset is not None
            else asked.mechanism.privatize(i % 3)
        )
        assert answer(server, token, sent.tolist(), question, asked.number).status == 200
    return tokens


def projector(context, server, problems):
    """Open the page; whatever it logs, or asks of another host, is a problem."""
    page, home = context.new_page(), f"http://127.0.0.1:{server.port}/"
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("request", lambda each: each.url.startswith((home, f"blob:{home}", "data:")) or problems.append(each.url))
    page.goto(f"{home}projector#key={server.key}")
    page.locator("#counts", has_text="joined").wait_for()
    return page


def fitted(page, n=N):
    page.locator("#fit", has_text=f"intervals from {n} answers").wait_for(timeout=120_000, state="attached")


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["srr", "subset-selection", "hadamard-response", "rrrr", "design"])
def test_rounds_another_epsilon_and_exports(browser, tmp_path, problems, mechanism):
    """Answers in two rounds where the question changes; simulated people at another ε; files that our readers read."""
    question = PollQuestion("Which?", ["a", "b", "c", "d"], 2.0, mechanism, people=400)
    changes = mechanism in ("rrrr", "design")
    with (
        served(tmp_path / "poll.db", question, random_seed=1) as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        people_answer(server)
        page = projector(context, server, problems)
        fitted(page)
        if changes:
            page.locator("#next").click()
            page.locator("#next:enabled").wait_for()
            assert page.locator("#problem").inner_text() == ""  # it may be the same question: few have answered
        people_answer(server)
        fitted(page, 2 * N)
        page.locator("#epsilon").focus()
        page.keyboard.press("Home")
        page.locator("#replay").click()
        shown = page.locator("#simulated", has_text="ε = 0.25")
        shown.wait_for(timeout=60_000)
        assert "Simulated: 24 people" in shown.inner_text()
        assert page.locator("#triangle").is_hidden()
        for kind in ("nc", "parquet"):
            with page.expect_download() as waiting:
                page.locator(f"[data-format={kind}]").click()
            waiting.value.save_as(tmp_path / f"answers.{kind}")
    kept = ad.Responses.read(tmp_path / "poll.db")
    read = ad.Responses.from_netcdf(tmp_path / "answers.nc")
    assert len(kept) == len(read) == 2 * N
    np.testing.assert_array_equal(read.answers, kept.answers)
    assert read.categories == kept.categories
    gathered = ad.gather(tmp_path / "answers.parquet", progressbar=False)
    for one, other in zip(gathered.evidence(), read.evidence(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_the_report(browser, tmp_path, problems):
    with (
        served(tmp_path / "poll.db", PollQuestion("Which of <these>?", ["a", "b", "c"], 2.0)) as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        people_answer(server)
        page = projector(context, server, problems)
        fitted(page)
        with page.expect_download(timeout=300_000) as waiting:
            page.locator("[data-format=html]").click()
        waiting.value.save_as(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Which of &lt;these&gt;?" in text
    assert "<these>" not in text


@pytest.mark.long
def test_the_class_by_keyboard_alone(browser, tmp_path, problems):
    prepare_class(tmp_path / "class.db")
    steps = read_plan()["steps"]
    with (
        served(tmp_path / "class.db") as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        tokens = people_answer(server)
        people_answer(server, 1, tokens)
        page = projector(context, server, problems)
        fitted(page)
        for number, step in enumerate(steps, start=1):
            page.locator("#plan-title", has_text=f"{number} of 8: {step['title']}").wait_for()
            seen = [each.get_attribute("id") for each in page.locator("main > section").all() if each.is_visible()]
            assert sorted(seen) == sorted(step["show"])
            assert page.locator("#say li").all_inner_texts() == step["say"]
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 1280
            if step["title"] == "Show of hands":
                tab_to(page, "#counted input")
                for count in (4, 4, 4, 0):
                    page.keyboard.type(str(count))
                    page.keyboard.press("Tab")
                page.locator("#held", has_text="of 4 intervals contain").wait_for()
            if step["title"] == "Guess a person":
                tab_to(page, "#pick")
                page.keyboard.press("Enter")
                page.locator("#picked table").wait_for()
                page.wait_for_function("() => document.activeElement.id === 'pick'")
            page.keyboard.press("ArrowRight" if number % 2 else "PageDown")
        page.keyboard.press("PageUp")
        page.locator("#plan-title", has_text="7 of 8").wait_for()
        tab_to(page, "#forward")
        page.keyboard.press("Enter")
        page.locator("#plan-title", has_text="8 of 8").wait_for()
        tab_to(page, "#close")
        page.keyboard.press("Enter")
        page.locator("#close:enabled", has_text="Really").wait_for()
        assert "closed" not in page.locator("#counts").text_content()
        tab_to(page, "#close")
        page.keyboard.press("Enter")
        page.locator("#counts", has_text="closed").wait_for()
        # Another question from its tab: what was counted for the first one is not shown with it.
        page.locator("#tabs button").nth(1).click()
        page.locator("#estimates-title", has_text="handed in").wait_for()


def tab_to(page, selector):
    for _ in range(40):
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {selector}")


@pytest.mark.long
def test_the_focus_stays_while_answers_come_in(browser, tmp_path, problems):
    prepare_class(tmp_path / "class.db")
    with served(tmp_path / "class.db") as server, browser.new_context() as context:
        page = projector(context, server, problems)
        page.locator("#tabs button").nth(2).focus()
        people_answer(server)
        page.locator("#counts", has_text=f"{N} answered").wait_for(timeout=60_000)
        assert (
            page.evaluate("() => [...document.querySelectorAll('#tabs button')].indexOf(document.activeElement)") == 2
        )


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_of_axe_on_the_projector(browser, tmp_path, axe, scheme):
    prepare_class(tmp_path / "class.db")
    create = PollQuestion("Which?", ["a", "b", "c"], 2.0, "design")
    options = {"viewport": {"width": 1280, "height": 800}, "color_scheme": scheme, "bypass_csp": True}
    with served(tmp_path / "class.db") as server, browser.new_context(**options) as context:
        people_answer(server)
        page = projector(context, server, [])
        fitted(page)
        for _ in read_plan()["steps"]:
            assert serious(page, axe) == []
            page.keyboard.press("ArrowRight")
    with served(tmp_path / "poll.db", create) as server, browser.new_context(**options) as context:
        people_answer(server)
        page = projector(context, server, [])
        fitted(page)
        page.locator("#pick").click()
        page.locator("#picked table").wait_for()
        page.locator("#replay").click()
        page.locator("#simulated", has_text="Simulated").wait_for(timeout=60_000)
        assert serious(page, axe) == []
