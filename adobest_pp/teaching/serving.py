"""A server of the lessons, on this machine alone, for the person who started it alone."""

import hmac
import html
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable, Container, Iterable, MutableMapping
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from adobest_pp._checks import check_integer
from adobest_pp._progress import raising_interrupts
from adobest_pp.teaching.pages import LESSONS, folder, lesson_file
from adobest_pp.teaching.running import TRUST

HOST = "127.0.0.1"
MISSING = "the lessons need marimo: run `make install` in a checkout, or install adobest-pp with its extra `teach`"


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


# Who may talk to the server of the lessons: the person who was given its address, and nobody else.
#
# A port of this machine is open to every program and user of it, and to every web page that its browser shows. So
# nothing reaches the lessons without a secret:
#
# - The printed address has a token. Whoever brings it is given a cookie, and sent on to the address without the token.
# - The lessons are below a folder with a random name, and the cookie is for that folder alone: a browser would show
#   other cookies of 127.0.0.1 to the servers of every other port, which may be another user's.
# - ``Host`` must be an address that the server is meant to have, so that no foreign name can be pointed at it (DNS
#   rebinding), and ``Origin`` must be its own.
# - No answer allows a foreign page to read or frame it, whatever the application says.


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = ("127.0.0.1", "localhost", "[::1]")
REFUSED = (
    "Open the lessons at the address that adobest teach printed in the terminal: nobody else may use this server.\n"
)
GO_ON = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Lessons</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={}">
"""
HEADERS = {
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": b"frame-ancestors 'self'",
    b"x-content-type-options": b"nosniff",
}


class Guard:
    """An ASGI application that lets only requests and sockets with the secret reach another.

    Parameters
    ----------
    app : ASGI application
        What is guarded. It sees paths without the random folder.
    port : int
        The port that the server listens at.
    hosts : iterable of str
        The names and addresses, without a port, under which browsers may know the server.
    """

    def __init__(self, app: Application, port: int, hosts: Iterable[str] = LOCAL) -> None:
        self.app = app
        self.token = secrets.token_urlsafe(32)
        self.folder = f"/{secrets.token_urlsafe(9)}"
        self.cookie = f"adobest_{port}"
        names = [host.lower() for host in hosts]
        self.hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    def path(self, page: str = "") -> str:
        """Return the path of a page with the token, for the person who started the server."""
        return f"{self.folder}/{page}?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a socket, or let it through."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif not self._is_ours(scope):
            await _refuse(scope, send)
        elif self._has_token(scope):
            await self._welcome(scope, send)
        elif self._has_cookie(scope):
            await self.app(self._inside(scope), receive, _closed(send))
        else:
            await _refuse(scope, send)

    def _is_ours(self, scope: Scope) -> bool:
        """Whether it is meant for this server, and comes from its own pages or from no page."""
        return scope["path"].startswith(f"{self.folder}/") and is_own(scope, self.hosts)

    def _has_token(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and self._is_secret(given[0])

    def _has_cookie(self, scope: Scope) -> bool:
        cookies = [each.strip().partition("=") for line in _header(scope, b"cookie") for each in line.split(";")]
        return any(name == self.cookie and self._is_secret(value) for name, _, value in cookies)

    def _is_secret(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _inside(self, scope: Scope) -> Scope:
        """Return the scope as the application sees it: at the root, and without the secret."""
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]
        path = scope["path"].removeprefix(self.folder)
        return {**scope, "path": path, "raw_path": quote(path).encode(), "headers": headers}

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Set the cookie, and forward to the same address without the token.

        A redirect would not do: where a page of another site has the link, browsers keep a strict cookie from it.
        """
        cookie = f"{self.cookie}={self.token}; Path={self.folder}/; HttpOnly; SameSite=Strict"
        page = GO_ON.format(html.escape(quote(scope["path"])))
        await _answer(send, 200, b"text/html; charset=utf-8", page, [(b"set-cookie", cookie.encode())])


def is_own(scope: Scope, hosts: Container[str], schemes: Iterable[str] = ("http",)) -> bool:
    """Tell whether a request is for one of these hosts, and comes from a page of the same host or from no page."""
    given, origins = _header(scope, b"host"), _header(scope, b"origin")
    if len(given) != 1 or given[0].lower() not in hosts:
        return False
    if not origins:  # browsers leave it out where nothing is changed, and only there
        return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    return len(origins) == 1 and origins[0] in [f"{scheme}://{given[0]}" for scheme in schemes]


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _closed(send: Send) -> Send:
    """Return a `send` that takes from every answer what would open it to foreign pages."""

    async def closed(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", ()) if not _opens(name.lower())]
            message = {**message, "headers": kept + list(HEADERS.items())}
        await send(message)

    return closed


def _opens(name: bytes) -> bool:
    return name.startswith(b"access-control-") or name in HEADERS


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":  # before it is accepted: servers answer 403
        await send({"type": "websocket.close", "code": 1008, "reason": REFUSED.strip()})
    else:
        await _answer(send, 403, b"text/plain; charset=utf-8", REFUSED)


async def _answer(send: Send, status: int, kind: bytes, text: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    body = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *HEADERS.items(), *more]})
    await send({"type": "http.response.body", "body": body})
