"""Run the code of an exercise: never here, always by `confined.py` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

SECONDS = 4.0  # with its start, code is stopped within five seconds
STARTING_SECONDS = 60.0  # for a busy machine; a start takes a fifth of a second
LONGEST_CODE, LONGEST_REPLY, LONGEST_PRINT = 20_000, 10_000, 2_000
TRUST = "ADOBEST_TRUST_EXERCISES"  # set by `adobest teach --trust-exercises`
OFF = (
    "Exercises are not run: this system cannot keep their code from your files and the network (that takes Linux on "
    "x86-64 or 64-bit ARM). To run them anyway, start adobest teach --trust-exercises, and enter only code that you "
    "trust."
)
KEPT = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # variables without which some Pythons do not start
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class NotRun(Exception):
    """The code could not be run to its end; the message is a sentence for the reader."""


class Confined:
    """A process that can only compute, to run code in; use it as a context manager.

    It returns numbers as JSON: nothing that the code makes is ever run or unpickled here.
    """

    def __init__(self, code: str, name: str) -> None:
        self.code, self.name = code, name
        self.printed = ""
        self._late = False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="adobest-exercise-"))
            program = [sys.executable, "-I", "-X", "utf8", str(Path(__file__).with_name("confined.py"))]
            self._process = subprocess.Popen(
                [*program, *(_folder_of_numpy() if "numpy" in self.code else ())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=ONE_THREAD | {name: os.environ[name] for name in KEPT if name in os.environ},
                start_new_session=True,
            )
            stack.callback(self._end)
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()
            self._timer = self._clock(STARTING_SECONDS)
            ready = self._reply()
            self._timer.cancel()
            self.is_locked = ready.get("locked") is True
            self._timer = self._clock(SECONDS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def define(self) -> None:
        """Run the code, and raise NotRun unless it defines the function."""
        if not (self.is_locked or _trusted()):
            raise NotRun(OFF)
        if len(self.code) > LONGEST_CODE:
            raise NotRun(f"The code must have at most {LONGEST_CODE:,} characters, got {len(self.code):,}.")
        if not self._ask(code=self.code, name=self.name).get("callable"):
            raise NotRun(f"There is no function called {self.name} yet.")

    def call(self, *arguments: Any) -> int | float:
        """Call the function that the code defines, and return its number."""
        value = self._ask(name=self.name, arguments=arguments).get("value")
        if not isinstance(value, int | float):
            raise NotRun(f"{self.name} must return a number.")
        return value

    def _ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply; raise NotRun if there is none, or if it reports a problem."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, and so will the replies
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        reply = self._reply()
        if "problem" in reply:
            raise NotRun(str(reply["problem"]))
        return reply

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline(LONGEST_REPLY)
        if line.endswith(b"\n") or len(line) == LONGEST_REPLY:
            with suppress(ValueError, RecursionError):
                reply = json.loads(line)
                if isinstance(reply, dict):
                    return reply
            raise NotRun("The code interferes with the program that checks it.")
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:  # it keeps running and says nothing
            self._kill()
            status = self._process.wait()
        if self._late:
            raise NotRun(f"The code was stopped after {SECONDS:g} seconds: is there a loop that never ends?")
        how = f"exit code {status}" if status >= 0 else f"signal {-status}"
        raise NotRun(f"The code ended Python ({how}), so there is nothing to check.")

    def _listen(self) -> None:
        """Keep the beginning of what is printed, and read the rest so that the process does not block."""
        assert self._process.stderr is not None
        kept = b""
        with suppress(OSError, ValueError):
            while piece := os.read(self._process.stderr.fileno(), 2**16):
                kept = (kept + piece)[: 4 * LONGEST_PRINT]
                text = kept.decode(errors="replace")
                self.printed = text if len(text) <= LONGEST_PRINT else f"{text[:LONGEST_PRINT]} … (cut)"

    def _clock(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self._stop)
        timer.daemon = True
        timer.start()
        return timer

    def _stop(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        """End the process, and those that it may have started if it was not confined."""
        if self._process.returncode is not None:
            return  # another process may have its number by now
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _end(self) -> None:
        self._timer.cancel()
        self._kill()
        self._process.wait()
        self._listener.join(1.0)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with suppress(OSError):
                stream.close()


@cache
def _can_lock() -> bool:
    try:
        with Confined("", "") as process:
            return process.is_locked
    except (NotRun, OSError):
        return False


def can_run() -> bool:
    """Return whether exercises are run: if the system confines them, or if the person trusts them."""
    return _trusted() or _can_lock()


def _trusted() -> bool:
    return os.environ.get(TRUST) == "1"


def _folder_of_numpy() -> list[str]:
    """Return the folder of NumPy, where an isolated Python may not look for it, such as the user's."""
    found = find_spec("numpy")
    return [str(Path(found.origin).parents[1])] if found and found.origin else []
