"""Headless Chromium through its own debugging pipe: what a page logs, asks for and shows."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 60


@dataclass
class Visit:
    """What happened while a page was open."""

    problems: list[str] = field(default_factory=list)  # console messages, exceptions, entries of the browser's log
    requests: list[str] = field(default_factory=list)  # every address asked for
    result: object = None  # of the expression


def visit(page: Path, expression: str) -> Visit:
    """Open a file, wait until it has loaded, and evaluate an expression there."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (reads, to_browser), (from_browser, writes) = os.pipe(), os.pipe()
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # The browser reads commands from descriptor 3 and writes to 4.
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", *command],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        try:
            return _Session(to_browser, from_browser).visit(page, expression)
        finally:
            process.kill()
            process.wait()
            os.close(to_browser)
            os.close(from_browser)


class _Session:
    def __init__(self, to_browser, from_browser):
        self._out, self._in = to_browser, from_browser
        os.set_blocking(from_browser, False)
        self._buffer, self._number, self._target = b"", 0, None
        self._seen = Visit()
        self._loaded = False

    def visit(self, page, expression):
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._target = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._note(self._next())
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        self._seen.result = answer["result"].get("value")
        return self._seen

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._target:
            message["sessionId"] = self._target
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            assert time.monotonic() < deadline, "the browser did not answer"
            try:
                part = os.read(self._in, 1 << 16)
                assert part, "the browser ended"
                self._buffer += part
            except BlockingIOError:
                time.sleep(0.01)
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, content = event.get("method"), event.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self._seen.problems.append(json.dumps(content))
        elif method == "Network.requestWillBeSent":
            self._seen.requests.append(content["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
