"""Three phones and a projector go through a poll, in a browser."""

import json

import pytest

import adobest_pp as ad
from adobest_pp.poll.polls import PollQuestion
from tests.poll.harness import serious, served, wait_for
from tests.report.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LABELS = ["<b>never</b>", "حزب الخضر", "once “or” twice"]


@pytest.fixture
def problems():
    found = []
    yield found
    assert found == []


def phone(browser, server, problems, **options):
    """Open the page of a poll on a new phone."""
    context = browser.new_context(**PHONE | {"locale": "en-US"} | options)
    return tab(context, server, problems)


def tab(context, server, problems):
    page = context.new_page()
    page.requests = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: page.requests.append(request))
    page.goto(f"http://127.0.0.1:{server.port}/")
    page.locator("#questions legend, #questions h2").first.wait_for()
    return page


def choose(page, x, question=0):
    page.locator(f"#question-{question} input").nth(x).check()
    page.locator(f"#question-{question} button").click()


def counted(page, question=0):
    page.locator(f"#question-{question} [role=status]", has_text="counted").wait_for()


def posted(page, path):
    return [json.loads(each.post_data) for each in page.requests if each.method == "POST" and each.url.endswith(path)]


def test_what_leaves_the_phone_is_the_randomized_answer_alone(browser, tmp_path, problems):
    question = PollQuestion("How often?", LABELS, 1.0)
    with served(tmp_path / "poll.db", question) as server:
        page = phone(browser, server, problems)
        asked = [each.url for each in page.requests]
        choose(page, 1)
        counted(page)
        (sent,) = posted(page, "/answer")
        assert set(sent) == {"token", "question", "number", "answer"}
        assert set(asked) == {each.url for each in page.requests if each.method == "GET"} | {f"{page.url}join"}
        assert all(each.url.startswith(page.url) for each in page.requests)
        assert page.url == f"http://127.0.0.1:{server.port}/"
        assert page.locator("input").count() == 0  # what was chosen is nowhere on the page
        kept = dict(page.evaluate("() => Object.entries(localStorage)"))
        assert {name.rpartition(":")[2] if "done" not in name else "done" for name in kept} == {"token", "done"}
        assert page.evaluate("() => [document.cookie, sessionStorage.length, history.length]")[:2] == ["", 0]
        shown = page.locator("#question-0 .sent strong").inner_text()
        assert shown == LABELS[sent["answer"][0]]
        assert page.locator("tr.named").count() == 1
        page.context.close()
    assert ad.Responses.read(tmp_path / "poll.db").answers.tolist() == [sent["answer"]]


@pytest.mark.parametrize("methods", [["setItem"], ["getItem", "setItem", "removeItem"]])  # full, or blocked
def test_a_browser_that_cannot_store_anything_is_counted_once(browser, tmp_path, problems, methods):
    with served(tmp_path / "poll.db", PollQuestion("How often?", LABELS, 1.0)) as server:
        context = browser.new_context(**PHONE)
        for method in methods:
            context.add_init_script(f"Storage.prototype.{method} = () => {{ throw new DOMException('no storage'); }}")
        page = tab(context, server, problems)
        choose(page, 1)
        counted(page)
        (sent,) = posted(page, "/answer")
        context.close()
    assert ad.Responses.read(tmp_path / "poll.db").answers.tolist() == [sent["answer"]]


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["subset-selection", "rrrr", "srr", "hadamard-response", "design"])
def test_three_phones_and_the_projector(browser, tmp_path, problems, mechanism):
    """A whole poll of each mechanism: answers, an estimate, a next round where there is one, more answers, the end."""
    question = PollQuestion("Which?", ["a", "b", "c", "d"], 2.0, mechanism, people=40)
    with served(tmp_path / "poll.db", question, random_seed=1) as server:
        phones = [phone(browser, server, problems) for _ in range(3)]
        late = phone(browser, server, problems)  # loads the first question, and answers it after the next round
        for x, page in enumerate(phones):
            choose(page, x)
        for page in phones:
            counted(page)
        for _ in range(5):
            page = phone(browser, server, problems)
            choose(page, 0)
            counted(page)
            page.context.close()
        wait_for(server, 8)
        projector = browser.new_page(viewport={"width": 1280, "height": 800})
        projector.on("pageerror", lambda problem: problems.append(str(problem)))
        projector.goto(f"http://127.0.0.1:{server.port}/projector#key={server.key}")
        projector.locator("#fit", has_text="intervals from 8 answers").wait_for(timeout=120_000)
        assert server.key not in projector.url
        assert "9 joined · 8 answered" in projector.locator("#counts").inner_text()
        assert projector.locator("#code svg").count() == 1
        changes = mechanism in ("rrrr", "design")
        assert projector.locator("#next").is_visible() == changes
        if changes:
            projector.locator("#next").click()
            projector.locator("#next:enabled").wait_for()
        choose(late, 1)
        counted(late)
        fresh = phone(browser, server, problems)
        choose(fresh, 2)
        counted(fresh)
        wait_for(server, 10)
        projector.locator("#pick").click()
        projector.locator("#picked table").wait_for()
        projector.locator("#close").click()
        projector.locator("#close:enabled", has_text="Really").click()
        projector.locator("#counts", has_text="closed").wait_for()
        closed = phone(browser, server, problems)
        closed.locator("#question-0 [role=status]", has_text="closed").wait_for()
        for page in (*phones, late, fresh, closed):
            page.context.close()
        projector.close()
    assert len(ad.Responses.read(tmp_path / "poll.db")) == 10


def test_a_reload_and_a_second_tab_do_not_count_twice(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        first = phone(browser, server, problems)
        second = tab(first.context, server, problems)
        choose(first, 0)
        counted(first)
        counted(second)  # the other tab knows
        assert posted(second, "/answer") == []
        first.reload()
        counted(first)
        assert first.locator("input").count() == 0
        third = tab(first.context, server, problems)
        counted(third)
        assert server.poll.desk.joined == 1
        wait_for(server, 1)
        # A tab that has forgotten, as if storage was cleared for the answers alone: the server knows.
        third.evaluate(
            "() => { for (const key in localStorage) if (key.includes('done')) localStorage.removeItem(key); }"
        )
        third.reload()
        choose(third, 1)
        counted(third)
        assert server.poll.counts == [1]
        problems[:] = [each for each in problems if "409" not in each]  # the browser's own line on the refusal
        first.context.close()


def test_offline_and_back(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        page = phone(browser, server, problems)
        page.context.set_offline(True)
        choose(page, 1)
        page.locator("#question-0 [role=status]", has_text="No connection").wait_for()
        (waiting,) = [
            json.loads(value)
            for name, value in page.evaluate("() => Object.entries(localStorage)")
            if "waiting" in name
        ]
        assert set(waiting) == {"question", "number", "answer"}
        page.context.set_offline(False)
        counted(page)
        assert [each["answer"] for each in posted(page, "/answer")][-1] == waiting["answer"]  # not drawn again
        page.context.close()
        wait_for(server, 1)
        problems[:] = [each for each in problems if "ERR_INTERNET_DISCONNECTED" not in each]
    assert ad.Responses.read(tmp_path / "poll.db").answers.tolist() == [waiting["answer"]]


@pytest.mark.parametrize(
    ("status", "text"), [(200, "<html>Sign in to this network</html>"), (200, "{}"), (429, "slow down"), (404, "gone")]
)
def test_a_reply_that_is_not_of_the_server_counts_nothing(browser, tmp_path, problems, status, text):
    """The answer waits, is sent again as it was drawn, and the page says that it is counted only once it is."""
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        page = phone(browser, server, problems)
        page.route("**/answer", lambda route: route.fulfill(status=status, body=text))
        choose(page, 1)
        page.locator("#question-0 [role=status]", has_text="No connection").wait_for()
        assert server.poll.counts == [0]
        page.unroute("**/answer")
        page.reload()
        counted(page)
        first, *others = [each["answer"] for each in posted(page, "/answer")]
        assert others
        assert others == [first] * len(others)
        page.context.close()
        wait_for(server, 1)
        problems[:] = [each for each in problems if str(status) not in each]
    assert ad.Responses.read(tmp_path / "poll.db").answers.tolist() == [first]


def test_who_cannot_join_is_not_asked(browser, tmp_path, problems):
    """An answer without a token would be drawn and sent for nothing, and drawn again after a reload."""
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        page = browser.new_context(**PHONE).new_page()
        page.route("**/join", lambda route: route.fulfill(status=507, body="This could not be kept: disk full."))
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.locator("#problem", has_text="could not be loaded").wait_for()
        assert page.locator("input").count() == 0
        page.unroute("**/join")
        page.reload()
        choose(page, 1)
        counted(page)
        page.context.close()


def test_a_question_that_breaks_its_promise_is_not_answered(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        content = json.loads(server.poll.texts[0])
        server.poll.texts[0] = json.dumps(content | {"odds": [content["odds"][0] + 1]})
        page = phone(browser, server, problems)
        page.locator("#question-0 [role=status]", has_text="does not keep").wait_for()
        assert page.locator("input").count() == 0
        page.context.close()


def test_another_module_is_not_run(browser, tmp_path):
    """The page states the hash of the module: one that was changed on the way does not load, and nothing is asked."""
    with (
        served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server,
        browser.new_context(**PHONE) as context,
    ):
        changed = server._pages["adobest.js"] + b"\n"
        context.route("**/adobest.js", lambda route: route.fulfill(body=changed, content_type="text/javascript"))
        page, logged = context.new_page(), []
        page.on("console", lambda message: logged.append(message.text))
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.wait_for_timeout(500)
        assert any("integrity" in line for line in logged)
        assert page.locator("#questions section").count() == 0


@pytest.mark.long
def test_labels_are_text_in_their_own_direction(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("<img src=x onerror=alert(1)>?", LABELS, 1.0)) as server:
        page = phone(browser, server, problems)
        assert page.locator("#question-0 label bdi").all_inner_texts() == LABELS
        assert page.locator("img, b").count() == 0
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        page.context.close()


def test_keyboard_alone(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        page = phone(browser, server, problems, is_mobile=False, has_touch=False)
        for _ in range(3):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.type") == "radio":
                break
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        counted(page)
        assert page.evaluate("() => document.activeElement.tagName") == "H2"  # where a screen reader goes on
        page.context.close()


@pytest.mark.long
def test_public_columns_are_chosen_openly(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("How often?", LABELS, 1.0), public={"region": ["a", "b"]}) as server:
        page = phone(browser, server, problems)
        page.locator("#question-0 input").nth(1).check()
        assert page.locator("#question-0 button").is_disabled()  # until the region is chosen
        page.locator("#about select").select_option("b")
        page.locator("#question-0 button").click()
        counted(page)
        (sent,) = posted(page, "/answer")
        assert sent["public"] == {"region": "b"}
        assert page.locator("#about").is_hidden()
        page.context.close()


@pytest.mark.long
def test_german(browser, tmp_path, problems):
    with served(tmp_path / "poll.db", PollQuestion("Which?", LABELS, 1.0)) as server:
        page = phone(browser, server, problems, locale="de-DE")
        assert page.locator("#question-0 button").inner_text() == "Zufällig veränderte Antwort senden"
        assert page.evaluate("() => document.documentElement.lang") == "de"
        page.locator("#language").select_option("en")
        page.get_by_role("button", name="Send a randomized answer").wait_for()
        english, german = (json.loads(server._pages[f"{name}.json"]) for name in ("en", "de"))
        assert english.keys() == german.keys()
        page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_of_axe(browser, tmp_path, axe, scheme):
    asked = [PollQuestion("Which?", LABELS, 1.0), PollQuestion("Where?", ["here", "there"], 1.0, "srr")]
    with served(tmp_path / "poll.db", *asked) as server:
        context = browser.new_context(**PHONE | {"color_scheme": scheme, "bypass_csp": True})
        page = tab(context, server, [])
        for summary in page.locator("summary").all():
            summary.click()
        choose(page, 1)
        counted(page)
        assert serious(page, axe) == []
        context.close()
