"""A server that is killed while people answer loses no acknowledged answer, and counts none twice."""

import http.client
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest

import adobest_pp as ad
from adobest_pp.poll.polls import OpenPoll, PollQuestion, create_poll
from tests.poll.harness import answer, ask, join

N = 20_000  # every client sends a number of its own, so that each answer can be recognized


def start(path, port):
    command = [sys.executable, "-m", "tests.poll.killed_server", str(path), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "Ctrl-C" in line:
            return process
    raise AssertionError("the server did not start")


@pytest.mark.parametrize(
    "kills", [1, pytest.param(5, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.slow)]
)
def test_kills_lose_and_double_nothing(tmp_path, kills):
    path = tmp_path / "poll.db"
    create_poll(path, [PollQuestion("Which?", [str(i) for i in range(N)], 1.0, "srr")])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = SimpleNamespace(port=free.getsockname()[1])
    numbers, acknowledged, over = iter(range(N)), [], threading.Event()
    waits = random.Random(1)

    def person():
        """Join, answer, and repeat the same request until there is a reply, as the page does."""
        while not over.is_set():
            number, token = next(numbers), None
            while not over.is_set():
                try:
                    token = token or join(server)["token"]
                    reply = answer(server, token, number)
                except (OSError, ValueError, http.client.HTTPException):  # the connection broke off
                    time.sleep(0.05)
                    continue
                assert reply.status in (200, 409), reply.text
                acknowledged.append(number)
                break

    process = start(path, server.port)
    people = [threading.Thread(target=person) for _ in range(4)]
    for each in people:
        each.start()
    for _ in range(kills):
        time.sleep(waits.uniform(0.2, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process = start(path, server.port)
    time.sleep(0.5)
    over.set()
    for each in people:
        each.join()
    assert ask(server, "/poll").status == 200
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    poll = OpenPoll(path)
    poll.close()
    counts = Counter(ad.Responses.read(path).answers.tolist())
    assert len(acknowledged) > 10 * kills
    assert set(acknowledged) <= set(counts)
    assert set(counts.values()) == {1}
    assert len(counts) <= len(acknowledged) + len(people)  # at most one of each person was not acknowledged
