"""The server of a poll takes an answer a person, and refuses all else in one sentence."""

import http.client
import json
import re
import socket

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.device import read_device
from adobest_pp.poll.polls import PollQuestion, create_poll
from adobest_pp.poll.server import serve_poll
from tests.poll.harness import COLORS, answer, ask, join, served, wait_for

PAGES = [
    "/",
    "/poll",
    "/adobest.js",
    "/person.js",
    "/person.css",
    "/en.json",
    "/de.json",
    "/projector",
    "/projector.js",
]
HOSTILE = PollQuestion("<script>alert('\"')</script> & ?", ["<b>a</b>", "\"'`${x}", "</script>", "حزب"], 2.0, "srr")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("poll") / "poll.db", COLORS, HOSTILE) as made:
        made.folder = tmp_path_factory.getbasetemp()
        yield made


def refused(reply, status=range(400, 500)):
    assert reply.status in status, (reply.status, reply.text)
    assert re.fullmatch(r"[^\n]{5,200}\.\n", reply.text), reply.text
    assert "Traceback" not in reply.text
    return True


def test_every_reply_has_a_strict_policy_and_no_cookie(server):
    for path in [*PAGES, "/nowhere", "/projector/events", "/join", "/answer"]:
        headers = ask(server, path).headers
        policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert not {"set-cookie", "server", "access-control-allow-origin"} & set(headers)


def test_pages_load_nothing_else_and_state_the_hash_of_the_module(server):
    page = ask(server, "/").text
    assert f'integrity="{json.loads(ask(server, "/poll").text)["hash"]}"' in page
    assert ask(server, "/adobest.js").text.encode() == read_device()
    for path in PAGES:
        for found in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", ask(server, path).text):
            assert found == "http://www.w3.org/2000/svg"
    seen = [path for path in PAGES if not path.startswith("/projector") and path != "/de.json"]
    assert sum(len(ask(server, path).text.encode()) for path in seen) < 60 * 1024


def test_a_person_answers_once(server):
    token, before = join(server)["token"], server.poll.counts[0]
    assert answer(server, token, [1]).status == 200
    assert refused(answer(server, token, [1]), [409])
    assert refused(answer(server, token, [2]), [409])
    assert answer(server, token, 2, question=1).status == 200
    wait_for(server, before + 1)
    assert server.poll.counts[0] == before + 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1",
        1.0,
        True,
        -1,
        3,
        10**30,
        [],
        [0, 1],
        [3],
        [True],
        ["0"],
        [[0]],
        {},
        {"a": 1},
        [0.0],
        [None],
        [0] * 9000,
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_answer_is_refused(server, value):
    token = join(server)["token"]
    assert refused(answer(server, token, value), [400])
    assert answer(server, token, [0]).status == 200  # the token is not spent


@pytest.mark.parametrize(
    ("question", "number"),
    [(2, 0), (-1, 0), (None, 0), ("0", 0), (0, 1), (0, -1), (0, None), (0, 1.5), (True, 0), (0, 10**30)],
)
def test_what_was_not_asked_is_refused(server, question, number):
    assert refused(answer(server, join(server)["token"], [0], question, number), [400])


def test_two_answers_at_once_are_refused(server):
    token = join(server)["token"]
    assert refused(answer(server, token, [1, 2], question=1), [400])
    assert answer(server, token, 1, question=1).status == 200


def test_one_number_as_a_list_is_the_same_answer(server):
    """Stored as it is checked: lists of different shapes would not go into one collection."""
    before = server.poll.counts[1]
    assert answer(server, join(server)["token"], [3], question=1).status == 200
    assert answer(server, join(server)["token"], 3, question=1).status == 200
    wait_for(server, before + 2, 1)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b"{" * 60_000, b"[" * 60_000,
        b'{"a":1,"a":2}', b'{"a":NaN}',
        b'{"token":"\\ud800","question":0,"number":0,"answer":0}', b'{"question":1' + b"0" * 5000 + b"}", b"\0" * 100,
        b'{"question":{},"number":[],"answer":{}}', b"{}",
    ],
)  # fmt: skip
def test_malformed_bodies_are_refused(server, raw):
    for path in ("/answer",):
        assert refused(ask(server, path, raw=raw))


def test_other_kinds_and_sizes_are_refused(server):
    assert refused(ask(server, "/answer", raw=b"x" * (1 << 17)), [413])
    assert refused(ask(server, "/answer", {}, headers={"Content-Type": "text/plain"}), [415])
    assert refused(ask(server, "/answer", {}, headers={"Content-Type": None}), [415])
    assert refused(ask(server, "/nowhere"), [404])
    assert refused(ask(server, "/../pyproject.toml"), [404])
    assert refused(ask(server, "/en.json/../../polls.py"), [404])
    assert refused(ask(server, "/%2e%2e/polls.py"), [404])
    assert refused(ask(server, "/answer"), [405])
    assert refused(ask(server, "/poll", {}), [405])
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert refused(ask(server, "/answer", {}, method=method), [405])


def test_other_hosts_and_pages_are_refused(server):
    port = server.port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        "",
        f"127.0.0.1:{port}.evil",
    ):
        assert refused(ask(server, "/poll", headers={"Host": host}), [403, 400])
    for origin in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{port + 1}",
        None,
        "",
        f"http://127.0.0.1:{port}.evil",
    ):
        assert refused(ask(server, "/join", {}, headers={"Origin": origin}), [403])
    assert refused(ask(server, "/poll", headers={"Origin": "http://evil.example"}), [403])


def test_the_projector_needs_its_key(server):
    paths = ["events", "guess?question=0", "export?question=0&format=nc"]
    for key in (
        None,
        "",
        "Bearer",
        "Bearer x",
        f"Basic {server.key}",
        f"Bearer {server.key}x",
        server.key,
        "Bearer \xe9",
    ):
        for path in paths:
            assert refused(ask(server, f"/projector/{path}", headers={"Authorization": key}), [401])
        for path in ("close", "next", "elsewhere"):
            assert refused(ask(server, f"/projector/{path}", {"question": 0}, headers={"Authorization": key}), [401])
    assert server.poll.desk.is_open


def with_key(server, path, body=None):
    return ask(server, f"/projector/{path}", body, headers={"Authorization": f"Bearer {server.key}"})


def test_the_key_is_compared_in_constant_time(server, monkeypatch):
    seen = []
    monkeypatch.setattr("adobest_pp.poll.server.hmac.compare_digest", lambda *given: seen.append(given))
    assert refused(with_key(server, "guess?question=0"), [401])
    assert len(seen) == 1


def test_bad_requests_with_the_key_are_refused(server):
    for question in ("", "x", "-1", "2", "00000", "1e3", "%C2%B2"):
        assert refused(with_key(server, f"guess?question={question}"), [400])
    assert refused(with_key(server, "next", {"question": 0}), [409])
    assert refused(with_key(server, "export?question=0&format=exe"), [400])
    assert refused(with_key(server, "guess?question=1"), [409])  # nobody has looked, so there is no estimate
    assert refused(with_key(server, "elsewhere", {"question": 9, "epsilon": 1}), [400])


def test_text_of_others_is_only_ever_data(server):
    poll = json.loads(ask(server, "/poll").text)
    assert poll["questions"][1]["text"] == HOSTILE.text
    assert ask(server, "/poll").headers["content-type"] == "application/json"
    assert HOSTILE.text not in ask(server, "/").text


def test_nothing_about_people_is_kept(server, capfd):
    token = join(server)["token"]
    assert answer(server, token, [0]).status == 200
    wait_for(server, 1)
    kept = b"".join(path.read_bytes() for path in server.folder.rglob("*") if path.is_file())
    assert b"SECRET-AGENT" not in kept
    assert b"127.0.0.1" not in kept
    assert capfd.readouterr() == ("", "")


def test_fuzzed_requests_get_a_sentence(server):
    """Valid requests with changes at random, and bytes at random (seed 1): a refusal in one sentence, or an answer."""
    n, rng, counts = 1500, np.random.default_rng(1), []
    token = join(server)["token"]
    valid = json.dumps({"token": token, "question": 0, "number": 0, "answer": [0]}).encode()
    for _ in range(n):
        body = bytearray(valid if rng.random() < 0.8 else rng.bytes(int(rng.integers(300))))
        for _ in range(int(rng.integers(1, 6))):
            if body:
                place = int(rng.integers(len(body)))
                body[place : place + int(rng.integers(3))] = rng.bytes(int(rng.integers(4)))
        path = ["/answer", "/join", "/projector/close", "/%00", "/poll"][int(rng.integers(5))]
        reply = ask(server, path, raw=bytes(body))
        counts.append(reply.status)
        assert reply.status == 200 or refused(reply)
    assert counts.count(200) <= n / 3  # joining, mostly
    assert server.poll.desk.is_open


def test_broken_connections_do_no_harm(server):
    for sent in (
        b"",
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\r\n",
        b"POST /answer HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
        b"A" * 70_000,
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(sent)
    assert ask(server, "/poll").status == 200


def test_a_closed_poll_takes_no_answers(tmp_path):
    with served(tmp_path / "poll.db", COLORS) as server:
        early, late = join(server)["token"], join(server)["token"]
        assert answer(server, early, [0]).status == 200
        assert json.loads(with_key(server, "close", {}).text) == {"open": False}
        assert refused(answer(server, late, [0]), [410])
        assert refused(ask(server, "/join", {}), [410])
        assert not json.loads(ask(server, "/poll").text)["open"]
    assert len(ad.Responses.read(tmp_path / "poll.db")) == 1
    with served(tmp_path / "poll.db") as server:  # for good
        assert refused(answer(server, late, [0]), [410])


def shown(server):
    """Return what the projector shows now: the first event of its stream."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", "/projector/events", headers={"Authorization": f"Bearer {server.key}"})
        return json.loads(connection.getresponse().readline().removeprefix(b"data: "))
    finally:
        connection.close()


def test_one_question_is_drawn_for_each_person(tmp_path):
    with served(tmp_path / "poll.db", COLORS, HOSTILE, each_person="one") as server:
        poll = json.loads(ask(server, "/poll").text)
        assert (poll["each_person"], poll["total_epsilon"]) == ("one", 2.0)
        drawn = [join(server) for _ in range(40)]
        assert {each["question"] for each in drawn} == {0, 1}  # fails by chance with probability 2⁻³⁹
        for each in drawn:
            own, other = each["question"], 1 - each["question"]
            assert refused(answer(server, each["token"], [0], other), [403])
            assert answer(server, each["token"], [0], own).status == 200
            if each is drawn[0]:
                wait_for(server, 1, own)
                assert refused(with_key(server, f"export?question={own}&format=nc"), [409])  # of so few answers
        for question in (0, 1):
            wait_for(server, sum(each["question"] == question for each in drawn), question)
        assert (shown(server)["joined"], shown(server)["answered"]) == (40, 40)  # the answers to both questions


def test_all_questions_add_up(server):
    assert json.loads(ask(server, "/poll").text)["total_epsilon"] == 3.0


def test_the_command_prints_the_address_and_the_key_once(tmp_path, monkeypatch, capsys):
    from adobest_pp.cli.main import main

    path = str(tmp_path / "poll.db")
    with pytest.raises(SystemExit):
        main(["poll", "new", "Which?", "Where?", "--categories", "a,b,c", "--epsilon", "0.5", "--out", path])
    assert "ε = 1." in capsys.readouterr().out
    started = []
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: started.append((self.config.app, sockets)))
    with pytest.raises(SystemExit):
        main(["poll", "serve", path])
    said = capsys.readouterr().out
    ((app, (listening,)),) = started
    host, port = listening.getsockname()
    assert host == "127.0.0.1"
    assert said.count(app.key) == 1
    assert f"People answer at http://127.0.0.1:{port}/" in said
    assert "█" in said  # the QR code
    app.poll.close()
    listening.close()


@pytest.mark.parametrize(
    "address", ["poll.example.org", "poll.example.org:8000/", "//host/", "ftp://host/", "https:///x", ""]
)
def test_an_address_that_browsers_cannot_open_is_refused(tmp_path, address):
    """Otherwise the server would start, and refuse everybody who comes by it."""
    create_poll(tmp_path / "poll.db", [COLORS])
    with pytest.raises(ValueError, match="address must be one such as"):
        serve_poll(tmp_path / "poll.db", address=address)


def test_answers_go_on_moving_after_an_error_that_nobody_foresaw(tmp_path, monkeypatch, capfd):
    with served(tmp_path / "poll.db", COLORS) as server:
        monkeypatch.setattr("adobest_pp.poll.server.PERIOD", 0.01)
        drain, problems = server.poll.drain, [KeyError("first"), TypeError("second")]
        monkeypatch.setattr(
            server.poll, "drain", lambda: (_ for _ in ()).throw(problems.pop()) if problems else drain()
        )
        assert answer(server, join(server)["token"], [1]).status == 200
        wait_for(server, 1)
    assert capfd.readouterr().err.count("adobest: ") == 2


def test_public_columns_come_with_the_answer(tmp_path):
    asked = {"region": ["north", "south"], "age": ["young", "old"]}
    with served(tmp_path / "poll.db", COLORS, public=asked) as server:
        assert json.loads(ask(server, "/poll").text)["public"] == asked
        token, sent = join(server)["token"], {"question": 0, "number": 0, "answer": [1]}
        for wrong in (None, {}, {"region": "north"}, {"region": "east", "age": "old"}, {"region": ["north"], "age": 1}):
            assert refused(ask(server, "/answer", sent | {"token": token, "public": wrong}), [400])
        shown = {"region": "south", "age": "old", "name": "Ada"}
        assert ask(server, "/answer", sent | {"token": token, "public": shown}).status == 200
    found = ad.Collection.open(tmp_path / "poll.db")
    assert found.public.answered == {"region": ["south"], "age": ["old"]}  # what was not asked for is not kept
    assert found.responses.answers.tolist() == [[1]]
    found.close()
