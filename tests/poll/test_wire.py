"""Every byte between a phone and the server, by a recording proxy, and every byte on disk: none of them tells x."""

import re
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from adobest_pp.poll.polls import PollQuestion
from tests.poll.harness import served, wait_for
from tests.report.browser import CHROMIUM, chromium

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@contextmanager
def recording_proxy(port):
    """Forward connections to a port; yield the proxy's own port, and the bytes that clients have sent."""
    sent, listening = [], socket.create_server(("127.0.0.1", 0))
    sockets, threads = [listening], []

    def pump(source, target, record):
        try:
            while part := source.recv(65536):
                if record is not None:
                    record.append(part)
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept():
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            upstream, record = socket.create_connection(("127.0.0.1", port)), []
            sent.append(record)
            sockets.extend([client, upstream])
            for ends in ((client, upstream, record), (upstream, client, None)):
                threads.append(threading.Thread(target=pump, args=ends, daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listening.getsockname()[1], lambda: b"\r\n".join(b"".join(record) for record in sent)
    finally:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for each in (accepting, *threads):
            each.join(10)
        for each in sockets:
            each.close()


# Entropy that is given: two words of 64 bits, the lower half of each first.
STUB = "(words) => { crypto.getRandomValues = (buffer) => { buffer.fill(0); buffer.set(words); return buffer; }; }"

KEPT = """() => JSON.stringify(
  [Object.entries(localStorage).sort(), sessionStorage.length, document.cookie, location.href]
)"""


def sent_by(browser, server, x, words, labels):
    """Return the bytes that a phone sends whose owner chooses x, with its token replaced."""
    with recording_proxy(server.port) as (port, sent), browser.new_context() as context:
        server._hosts.add(f"127.0.0.1:{port}")
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("legend").wait_for()
        page.evaluate(STUB, words)
        page.get_by_label(labels[x], exact=True).check()
        page.get_by_role("button").click()
        page.locator("[role=status]", has_text="counted").wait_for()
        kept = page.evaluate(KEPT)
        page.wait_for_timeout(200)
        data = sent() + b"\r\n" + kept.encode()
    assert not any(label.encode() in data for label in labels)
    data = re.sub(rb"a\.[\w-]{22}\.[0-9a-f]{32}", b"TOKEN", data)
    data = re.sub(rb"127\.0\.0\.1:\d+", b"HOST", data.replace(server.poll.settings["name"].encode(), b"NAME"))
    assert data.count(b"POST /answer HTTP/1.1") == 1
    # Which request is on which connection, and which file comes from a cache, is the browser's business: all lines.
    return {*re.sub(rb"(GET|POST) /", rb"\r\n\1 /", data).split(b"\r\n")}


def test_two_people_with_different_truths_send_the_same_bytes(tmp_path):
    """By randomized response on three options both send option 2: what they chose changes no byte, here or on disk."""
    labels = ["ZEBRAONE", "ZEBRATWO", "ZEBRASIX"]
    most = 2**32 - 1  # not kept: above every threshold; then the offset to the answer
    found = {}
    with chromium() as browser:
        for x, offset in ((0, 1), (1, 0)):
            path = tmp_path / str(x) / "poll.db"
            path.parent.mkdir()
            with served(path, PollQuestion("Which?", labels, 1.0, "srr"), random_seed=1) as server:
                data = sent_by(browser, server, x, [most, most, offset, 0], labels)
                assert sum(b'"answer":2' in line for line in data) == 1
                wait_for(server, 1)
            disk = b"".join(each.read_bytes() for each in sorted(path.parent.iterdir()))
            found[x] = (data, disk.count(b"ZEBRA"))
            assert b'{"answers":[2],"question":0}' in disk
    assert found[0][0] ^ found[1][0] == set()
    assert found[0][1] == found[1][1]
