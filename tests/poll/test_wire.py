"""Every byte between browser and server, and every byte on disk: none of them depends on what a person chose.

A search for "x" would find nothing if x were encoded. So people with different choices answer, until each choice has
sent the same randomized answer. Then whatever the browser sent, and whatever is on disk, must be the same but for the
token. A page that adds the choice to its requests is noticed, however it writes it.
"""

import hashlib
import re
import socket
import socketserver
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from adobest_pp.poll import polls, server
from adobest_pp.poll.polls import PollQuestion
from tests.poll.harness import served
from tests.report.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
LABELS = ["qwazzle-none", "qwazzle-once", "qwazzle-more"]
TARGET = 2
# What stays in the browser.
STORED = """() => JSON.stringify(
  [Object.entries(localStorage).sort(), Object.entries(sessionStorage), document.cookie, location.href]
)"""


@contextmanager
def recorded(port):
    """Listen on loopback, hand every byte on to a port, and yield the new port with what went up and what came down."""
    up, down = [], []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", port)) as behind:
                sent, received = bytearray(), bytearray()
                up.append(sent)
                down.append(received)
                thread = threading.Thread(target=pump, args=(behind, self.request, received), daemon=True)
                thread.start()
                pump(self.request, behind, sent)
                thread.join(5)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        yield proxy.server_address[1], up, down
        proxy.shutdown()


def pump(source, target, kept):
    try:
        while data := source.recv(1 << 16):
            kept += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them hung up


def requests_of(up):
    """Split what browsers sent into requests, each with its body."""
    found = []
    for stream in up:
        rest = bytes(stream)
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = re.search(rb"(?im)^content-length: *(\d+)", head)
            size = int(length[1]) if length else 0
            found.append((head, rest[:size]))
            rest = rest[size:]
    return found


def dumped(folder):
    """The rows of every database, and the bytes of every file, as they are now."""
    rows = []
    for path in sorted(folder.iterdir()):
        if path.read_bytes()[:6] == b"SQLite":
            with closing(sqlite3.connect(path)) as connection:
                rows += [f"{path.name}: {line}" for line in connection.iterdump()]
    return rows, b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def person(browser, folder, x, change=None):
    """One person chooses x on a phone, in a poll of their own; return everything that was sent and is kept."""
    folder.mkdir()
    with (
        served(folder / "poll.db", PollQuestion("Which?", LABELS, 1.0, "srr"), random_seed=1) as poll,
        recorded(poll.port) as (port, up, down),
        browser.new_context(locale="en-US", user_agent="SECRET-AGENT") as context,
    ):
        poll._hosts.add(f"127.0.0.1:{port}")
        if change is not None:
            poll._pages["person.js"] = change(poll._pages["person.js"])
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("#question-0 input").nth(x).check()
        page.locator("#question-0 button").click()
        page.locator("#question-0 [role=status]", has_text="counted").wait_for()
        token = page.evaluate(
            "() => localStorage.getItem(Object.keys(localStorage).find((key) => key.endsWith(':token')))"
        )
        stored = page.evaluate(STORED).replace(poll.poll.settings["name"], "*")
        open_rows, open_bytes = dumped(folder)
    rows, raw = dumped(folder)
    (answer,) = re.findall(rb'"answer":(\[\d\]|\d)', b"".join(body for _, body in requests_of(up)))
    own = [token.encode(), str(port).encode()]
    return {
        "answer": int(answer.strip(b"[]")),
        "token": token,
        "sent": sorted(masked(head + b"\n" + body, own) for head, body in requests_of(up)),
        "stored": masked(stored.encode(), own),
        "rows": [masked_row(row) for row in rows],
        "open_rows": open_rows,
        "raw": open_bytes + raw,
        "up": b"".join(bytes(each) for each in up),
        "down": b"".join(bytes(each) for each in down),
    }


def masked(text, secrets):
    for secret in secrets:
        text = text.replace(secret, b"*")
    return text


def masked_row(row):
    """Leave out what is random in every poll: its secret and name, the spent token, and hashes."""
    row = re.sub(r"X'[0-9A-Fa-f]{24,}'", "X'*'", row)
    row = re.sub(r"\b[0-9a-f]{32,}\b", "*", row)
    return re.sub(r'"name": "[\w-]{12}"', '"name": "*"', row)


def people_with_one_answer(browser, folder, change=None):
    """For each choice, a person whose browser has sent the answer TARGET: one in five at least does."""
    found = []
    for x in range(3):
        for attempt in range(100):  # none of 100 sends it with probability 1e-10
            one = person(browser, folder / f"{x}-{attempt}", x, change)
            if one["answer"] == TARGET:
                found.append(one)
                break
    assert len(found) == 3
    return found


def leaks(people):
    """Return which of the records differ between people who chose differently and sent the same answer."""
    return [name for name in ("sent", "stored", "rows") if any(one[name] != people[0][name] for one in people[1:])]


@pytest.mark.long
def test_nothing_that_is_sent_or_kept_depends_on_the_choice(browser, tmp_path):
    people = people_with_one_answer(browser, tmp_path)
    assert leaks(people) == []
    for one in people:
        assert len(one["sent"]) >= 8, "the proxy saw no requests"
        assert b"qwazzle" in one["down"], "the proxy saw no questions"
        assert b"qwazzle" not in one["up"]
        assert b"SECRET-AGENT" in one["up"]
        assert b"SECRET-AGENT" not in one["raw"]
        assert links(one) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "code",
    [
        b'post("answer", { x: index + Number(chosenNow), token:',
        b'post("answer?" + btoa("c" + chosenNow), { token:',
        b'post("answer", { pad: "z".repeat(7 ^ chosenNow), token:',
        b'post((sessionStorage.setItem("seen", chosenNow + 5), "answer"), { token:',
    ],
)
def test_a_page_that_sends_or_stores_the_choice_is_noticed(browser, tmp_path, code):
    def change(page):
        assert page.count(b'post("answer", { token:') == 1
        assert page.count(b"const randomized") == 1
        page = page.replace(b'post("answer", { token:', code)
        page = page.replace(b"const randomized", b"chosenNow = Number(chosen.value); const randomized")
        return page.replace(b"let texts", b"let chosenNow = 0; let texts", 1)

    assert leaks(people_with_one_answer(browser, tmp_path, change)) == ["stored" if b"Storage" in code else "sent"]


def links(one):
    """Where a token, or what is kept of it, stands on disk outside of the table of spent tokens."""
    body = one["token"].rpartition(".")[0]
    pieces = {one["token"], body, body.partition(".")[2], one["token"].rpartition(".")[2]}
    pieces |= {hashlib.sha256(piece.encode()).hexdigest() for piece in pieces}
    found = [piece for piece in pieces if piece.encode() in one["raw"] or bytes.fromhex(hexed(piece)) in one["raw"]]
    spent = [re.search(r"X'(\w+)'", row)[1] for row in one["open_rows"] if 'INTO "spent"' in row]
    assert len(spent) == 1
    return found + [row for row in one["open_rows"] if spent[0] in row and 'INTO "spent"' not in row]


def hexed(piece):
    return piece if re.fullmatch(r"(?:[0-9a-f]{2})+", piece) else piece.encode().hex()


@pytest.mark.long
@pytest.mark.parametrize("kept", ["token", "key"])
def test_a_server_that_writes_the_token_beside_the_answer_is_noticed(browser, tmp_path, monkeypatch, kept):
    monkeypatch.setattr(server, "PERIOD", 3600)  # answers stay in the inbox while the server runs
    assert links(person(browser, tmp_path / "honest", 0)) == []
    take = polls.Desk.take

    def faulty(desk, token, *given):
        take(desk, token, *given)
        (key,) = desk._connection.execute("SELECT token FROM spent").fetchone()
        desk._connection.execute("UPDATE inbox SET id = ?", (token.encode() if kept == "token" else key,))

    monkeypatch.setattr(polls.Desk, "take", faulty)
    assert links(person(browser, tmp_path / "faulty", 0)) != []
