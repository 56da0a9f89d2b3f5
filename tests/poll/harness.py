"""A poll on loopback, and a client that may send anything."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import uvicorn

from adobest_pp.poll.polls import OpenPoll, PollQuestion, create_poll
from adobest_pp.poll.server import UVICORN, PollServer

COLORS = PollQuestion("Which color?", ["red", "green", "blue"], 1.0)


@contextmanager
def served(path, *questions, **options):
    """Serve a new poll, or one that is there, in a thread; yield the server with its port."""
    if questions:
        create_poll(path, questions, **options)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        poll = PollServer(OpenPoll(path), f"http://127.0.0.1:{port}/")
        server = uvicorn.Server(uvicorn.Config(poll, **UVICORN | {"timeout_graceful_shutdown": 1}))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        poll.port = port
        try:
            yield poll
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def ask(server, path, body=None, *, method=None, headers=(), raw=None):
    """Send a request as a page of the poll does, with `headers` in place of or beside its own (None leaves one out)."""
    host = f"127.0.0.1:{server.port}"
    content = raw if raw is not None else None if body is None else json.dumps(body).encode()
    sent = {"Host": host, "User-Agent": "SECRET-AGENT"}
    if content is not None:
        sent |= {"Origin": f"http://{host}", "Content-Type": "application/json"}
    sent |= dict(headers)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method or ("GET" if content is None else "POST"), path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if content is not None:
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        reply = connection.getresponse()
        text = reply.read().decode()
        return SimpleNamespace(status=reply.status, text=text, headers={k.lower(): v for k, v in reply.getheaders()})
    finally:
        connection.close()


def join(server):
    return json.loads(ask(server, "/join", {}).text)


def answer(server, token, value, question=0, number=0):
    return ask(server, "/answer", {"token": token, "question": question, "number": number, "answer": value})


def wait_for(server, count, question=0):
    """Wait until the collection has so many answers."""
    for _ in range(3000):  # a minute: meanwhile a design may be chosen
        if server.poll.counts[question] >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{server.poll.counts} answers, not {count}")


def serious(page, axe):
    """Return the serious and critical findings of axe-core on a page."""
    page.evaluate(axe)  # a script in the page would be against its policy
    listed = "async () => (await axe.run()).violations.map((each) => [each.impact, each.id, each.nodes[0].html])"
    return [each for each in page.evaluate(listed) if each[0] in ("serious", "critical")]
