"""Polls on loopback: the device in JavaScript, the server with many clients, and the page. ``--small`` only prints.

Targets: a draw at K = 50 below 5 ms, the audit of a design with 4K sets at K = 50 below 500 ms; 500 clients with 50
answers a second for 60 s: p99 below 200 ms and nothing lost; a fit every half second delays p99 by at most 100 ms;
start-up with 10,000 answers below 3 s; the page below 60 KiB and interactive within 300 ms.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from timing import show

import adobest_pp as ad
from adobest_pp.device import read_device, write_device
from adobest_pp.mechanisms import PublishedQuestion
from adobest_pp.poll import PollQuestion, create_poll

K = 50
RECORD = "--small" not in sys.argv
PROGRAM = """
import { readQuestion } from "./adobest.js";
import { readFileSync } from "node:fs";
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const timed = (run) => { const start = performance.now(); run(); return performance.now() - start; };
const rows = JSON.parse(readFileSync(0, "utf8")).map((text) => {
  let question;
  const first = timed(() => { question = readQuestion(text, { epsilon: 1 }); });
  const draw = timed(() => question.privatize(0));
  const read = Array.from({ length: 20 }, () => timed(() => readQuestion(text, { epsilon: 1 })));
  const draws = Array.from({ length: 500 }, (_, i) => timed(() => question.privatize(i % question.categories.length)));
  return [first, median(read), draw, median(draws), Math.max(...draws)];
});
console.log(JSON.stringify(rows));
"""

# When the first option can be chosen, in milliseconds since the navigation began.
INTERACTIVE = """new MutationObserver((_, observer) => {
  if (!document.querySelector("input")) return;
  window.interactive = performance.now();
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });"""


def design() -> ad.SetFamily:
    """Return a design with 4K sets: every shift of four sets, with weights that rounding leaves unequal."""
    rng = np.random.default_rng(1)
    bases = [[0], [0, 5, 11, 17, 30], list(range(13)), list(range(0, 40, 2))]
    sets = [sorted((member + shift) % K for member in base) for base in bases for shift in range(K)]
    return ad.SetFamily(sets, np.repeat(rng.random(4) + 0.1, K) * (1 + 1e-11 * rng.random(4 * K)), 1.0)


def device(folder: str) -> None:
    """Print times in Node: the first reading and draw of a process, and medians when the code is warm."""
    asked = {
        "SRR": (ad.SRR(K, 1.0), None),
        "subset selection": (ad.SubsetSelection(K, 1.0), None),
        "Hadamard response": (ad.HadamardResponse(K, 1.0), None),
        "RRRR, 5 in the subset": (ad.RRRR(K, 1.0), tuple(range(5))),
        "design of 4K sets": (design(), None),
    }
    labels = tuple(f"category {x}" for x in range(K))
    texts = [PublishedQuestion(0, mechanism, labels, subset).to_json() for mechanism, subset in asked.values()]
    write_device(folder)
    node = shutil.which("node")
    if node is None:
        print("Node is not installed: the device is not timed")
        return
    command = [node, "--input-type=module", "--eval", PROGRAM]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=folder)
    headings = [
        "question, K = 50",
        "first reading and audit, ms",
        "warm, ms",
        "first draw, ms",
        "warm, ms",
        "longest, ms",
    ]
    times = zip(asked, json.loads(done.stdout), strict=True)
    show("device", headings, [[name, *(f"{value:.2f}" for value in row)] for name, row in times], RECORD)


class Server:
    """A poll on a free port, in a process of its own."""

    def __init__(self, path: Path) -> None:
        start = time.perf_counter()
        command = [sys.executable, "-m", "adobest_pp", "poll", "serve", str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("People answer at"):
                self.port = int(line.rstrip("/\n").rpartition(":")[2])
            if "#key=" in line:
                self.key = line.strip().rpartition("=")[2]
            if "Ctrl-C" in line:
                break
        while asyncio.run(self.status()) != 200:
            time.sleep(0.02)
        self.seconds = time.perf_counter() - start

    async def status(self) -> int:
        """Return the status of a small request; 0 if nobody listens."""
        try:
            return (await self.request("/poll"))[0]
        except OSError:
            return 0

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def request(self, path: str, body: object = None, on: Any = None) -> tuple[int, bytes]:
        """Return status and body of the reply, on a connection that stays open, or on a new one."""
        reader, writer = on or await self.open()
        own = f"127.0.0.1:{self.port}"
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {own}\r\n"
        if body is not None:
            head += f"Origin: http://{own}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(head.encode() + b"\r\n" + content)
        headers = await reader.readuntil(b"\r\n\r\n")
        length = int(headers.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        text = await reader.readexactly(length)
        if on is None:
            writer.close()
        return int(headers[9:12]), text

    async def watch(self) -> int:
        """Read the projector's events until cancelled, and count the estimates."""
        reader, writer = await self.open()
        own, fits = f"127.0.0.1:{self.port}", 0
        writer.write(
            f"GET /projector/events HTTP/1.1\r\nHost: {own}\r\nAuthorization: Bearer {self.key}\r\n\r\n".encode()
        )
        try:
            while line := await reader.readline():
                fits += b'"half_width"' in line
        except asyncio.CancelledError:
            writer.close()
        return fits

    def stop(self) -> None:
        """End the server, with all answers in their collections."""
        self.process.terminate()
        self.process.wait()


async def load(server: Server, clients: int, rate: int, seconds: int) -> tuple[list[float], int]:
    """Return how long answers take, if so many come in a second, and how many were acknowledged."""
    connections = [await server.open() for _ in range(clients)]
    took: list[float] = []
    acknowledged = 0

    async def person(i: int, delay: float) -> None:
        nonlocal acknowledged
        await asyncio.sleep(delay)
        _, joined = await server.request("/join", {}, connections[i])
        token, start = json.loads(joined)["token"], time.perf_counter()
        answer = {"token": token, "question": 0, "number": 0, "answer": [i % 4]}
        status, _ = await server.request("/answer", answer, connections[i])
        took.append(time.perf_counter() - start)
        acknowledged += status == 200

    # Clients take turns, so that no connection has two requests at a time.
    for start in range(0, rate * seconds, clients):
        people = range(min(clients, rate * seconds - start))
        await asyncio.gather(*(person(i, i / rate) for i in people))
    for _, writer in connections:
        writer.close()
    return took, acknowledged


async def under_load(server: Server, clients: int, rate: int, seconds: int, watched: bool) -> list[object]:
    watcher = asyncio.create_task(server.watch()) if watched else None
    took, acknowledged = await load(server, clients, rate, seconds)
    fits = 0
    if watcher is not None:
        watcher.cancel()
        fits = await watcher
    p50, p99 = np.percentile(took, [50, 99]) * 1000
    return [clients, len(took), acknowledged, fits, f"{p50:.1f}", f"{p99:.1f}", f"{1000 * max(took):.1f}"]


def server(folder: str) -> None:
    """Print how long answers take, with and without somebody at the projector, and the start-up of a large poll."""
    clients, rate, seconds = (500, 50, 60) if RECORD else (50, 25, 4)
    question = PollQuestion("Which?", ["a", "b", "c", "d"], 1.0)
    rows = []
    for watched in (False, True):
        path = Path(folder) / f"poll-{watched}.db"
        create_poll(path, [question])
        running = Server(path)
        row = asyncio.run(under_load(running, clients, rate, seconds, watched))
        running.stop()
        rows.append(["yes" if watched else "no", *row, len(ad.Responses.read(path))])
    headings = [
        "projector",
        "clients",
        "answers",
        "acknowledged",
        "estimates",
        "p50, ms",
        "p99, ms",
        "longest, ms",
        "kept",
    ]
    show("server", headings, rows, RECORD)
    path = Path(folder) / "large.db"
    create_poll(path, [question])
    with ad.Collection.open(path) as collection:
        for _ in range(10):  # as the server records them: many at a time
            collection.record(ad.SubsetSelection(4, 1.0).privatize(np.zeros(1000, dtype=int)))
    running = Server(path)
    running.stop()
    show("start", ["answers kept", "start-up, s"], [[10_000, f"{running.seconds:.2f}"]], RECORD)


def page(folder: str) -> None:
    """Print what the page weighs and how long it takes until somebody can choose, in Chromium with an empty cache."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is not installed: the page is not timed")
        return
    from playwright.sync_api import sync_playwright

    path = Path(folder) / "page.db"
    create_poll(path, [PollQuestion("Which?", [f"category {x}" for x in range(10)], 1.0)])
    running = Server(path)
    times, sizes = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(10):
            context = browser.new_context(viewport={"width": 390, "height": 844})
            tab = context.new_page()
            tab.add_init_script(INTERACTIVE)
            tab.goto(f"http://127.0.0.1:{running.port}/")
            tab.locator("legend").wait_for()
            times.append(tab.evaluate("() => interactive"))
            sizes.append(
                tab.evaluate("() => performance.getEntries().reduce((sum, e) => sum + (e.transferSize ?? 0), 0)")
            )
            context.close()
        browser.close()
    running.stop()
    row = [f"{max(sizes) / 1024:.1f}", f"{np.median(times):.0f}", f"{max(times):.0f}"]
    show("page", ["page in all, KiB", "interactive, ms", "longest of 10, ms"], [row], RECORD)


def main() -> None:
    with TemporaryDirectory() as folder:
        device(folder)
        print(f"adobest.js has {len(read_device()):,} bytes")
        server(folder)
        page(folder)


if __name__ == "__main__":
    main()
