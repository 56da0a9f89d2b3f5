"""A server of the lessons, on this machine alone, for the person who started it alone."""

import html
import os
import signal
import socket
import tempfile
import threading
import time
import webbrowser
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from adobest_pp._checks import check_integer
from adobest_pp._interrupts import raising_interrupts
from adobest_pp.teaching.guard import GO_ON, Guard
from adobest_pp.teaching.lessons import LESSONS, folder, lesson_file
from adobest_pp.teaching.running import TRUST

__all__ = ["build_app", "teach"]

HOST = "127.0.0.1"
MISSING = "the lessons need marimo: install it with pip install 'adobest-pp[teach]'"


def build_app() -> Any:
    """Return the ASGI application: the table of contents at ``/``, lesson 1 at ``/1``, and so on.

    It lets everybody in, also pages of other sites: serve it behind a `Guard`.
    """
    try:
        import marimo
    except ImportError:
        raise ValueError(MISSING) from None
    server = marimo.create_asgi_app(quiet=True)
    for number in range(1, len(LESSONS) + 1):
        server = server.with_app(path=f"/{number}", root=str(lesson_file(number)))
    return server.with_app(path="", root=str(lesson_file(0))).build()


def teach(lesson: int = 0, browser: bool = True, port: int | None = None, trust_exercises: bool = False) -> None:
    """Serve the lessons until Ctrl-C, and open one in the browser.

    Parameters
    ----------
    lesson : int, default 0
        The lesson to open; 0 is the table of contents.
    browser : bool, default True
        Whether to open a browser, or only to print the address.
    port : int, optional
        The port; a free one by default.
    trust_exercises : bool, default False
        Whether to run the code of exercises also where this system cannot confine it.
    """
    lesson_file(lesson)
    if trust_exercises:
        os.environ[TRUST] = "1"
    with chdir(folder()):  # marimo takes settings, also where to import from, from the folder that it is started in
        _serve(lesson, browser, port)


def _serve(lesson: int, browser: bool, port: int | None) -> None:
    app = build_app()
    import uvicorn

    chosen = _free_port(port)
    guard = Guard(app, chosen)
    address = f"http://{HOST}:{chosen}{guard.path(str(lesson or ''))}"
    settings = uvicorn.Config(
        guard, host=HOST, port=chosen, log_level="error", proxy_headers=False, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(settings)
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="adobest-teach-") as private,
        raising_interrupts(signal.SIGTERM),  # so that the folder goes
    ):
        door = Path(private) / "lessons.html" if browser else None
        threading.Thread(target=_when_ready, args=(server, address, door), daemon=True).start()
        server.run()


def _when_ready(server: Any, address: str, door: Path | None) -> None:
    """Print the address, and open it by way of a file: every user can see what a browser is started with."""
    while not server.started:
        time.sleep(0.05)
    print(f"The lessons are at {address} (Ctrl-C ends).", flush=True)  # noqa: T201
    if door is not None:
        door.write_text(GO_ON.format(html.escape(address)), encoding="utf-8")
        webbrowser.open(door.as_uri())


def _free_port(port: int | None) -> int:
    """Return the port that is asked for, or any; raise ValueError if it is taken."""
    number = 0 if port is None else check_integer(port, "port", 1, 65535)
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind((HOST, number))
        except OSError:
            raise ValueError(f"port must be a free one of this machine, got {number}") from None
        return int(free.getsockname()[1])
