"""A server of the lessons: for the person who started it, or for a class in one network."""

import asyncio
import hmac
import html
import ipaddress
import json
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable, Container, Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from adobest_pp._checks import check_integer
from adobest_pp._progress import raising_interrupts
from adobest_pp._text import brief
from adobest_pp.teaching.pages import LESSONS, lesson_of, makers, parts_of
from adobest_pp.teaching.parts import HINTS, Exercise
from adobest_pp.teaching.running import OFF, TRUST, can_run

HOST = "127.0.0.1"
MISSING = "the lessons need Starlette, uvicorn and segno: install adobest-pp with its extra `teach`"
# Nothing about people is logged.
UVICORN: dict[str, Any] = {
    "log_level": "error",
    "access_log": False,
    "proxy_headers": False,
    "server_header": False,
    "date_header": False,
    "timeout_graceful_shutdown": 2,
    "timeout_keep_alive": 15,
}
MOST_CODE = 100_000  # bytes of a request
AT_ONCE, MOST_WAITING = 2, 100  # exercises that run at the same time, and people who wait


def teach(
    lesson: int = 0,
    browser: bool = True,
    port: int | None = None,
    trust_exercises: bool = False,
    lecturer: bool = False,
    host: str = HOST,
    exercises: bool = False,
    poll: str | None = None,
) -> None:
    """Serve the lessons until Ctrl-C, and open one, or the table of contents (0), in the browser.

    The port is a free one by default. A host that other machines can reach is for a class: everybody with the printed
    address gets the students' edition, and finds the class's poll there. `exercises` runs the code of a class, which
    this system must be able to confine; `trust_exercises` runs your own code even if it cannot.
    """
    name = lesson_of(lesson).name if lesson else "index"
    is_class = not _is_local(host)
    if is_class and (lecturer or trust_exercises):
        wrong = "--lecturer" if lecturer else "--trust-exercises"
        raise ValueError(f"{wrong} must not be given with --host {brief(host)}: it is for you alone, not for a class")
    if trust_exercises:
        os.environ[TRUST] = "1"
    live = can_run() if exercises or not is_class else False
    if exercises and not live:
        raise ValueError(f"--exercises must be left out on this system. {OFF}")
    try:
        import segno
        import uvicorn
    except ImportError:
        raise ValueError(MISSING) from None
    course = Course(lecturer, live, poll)
    if name != "index":
        course.page(name)  # so that the browser does not wait for it
    listening = listen(host, port)
    chosen = listening.getsockname()[1]
    guard = Guard(course.app, chosen, (*LOCAL, reachable(host)))
    address = f"http://{reachable(host)}:{chosen}{guard.path('' if name == 'index' else f'{name}.html')}"
    server = uvicorn.Server(uvicorn.Config(guard, **UVICORN))
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="adobest-teach-") as private,
        raising_interrupts(signal.SIGTERM),  # so that the folder is removed
    ):
        if is_class:
            course.address = address
            segno.make(address, error="m").terminal(compact=True)
        door = Path(private) / "lessons.html" if browser and not is_class else None
        who = "Students open the lessons at" if is_class else "The lessons are at"
        threading.Thread(
            target=_when_ready, args=(server, f"{who} {address} (Ctrl-C ends).", address, door), daemon=True
        ).start()
        server.run(sockets=[listening])


def _when_ready(server: Any, text: str, address: str, door: Path | None) -> None:
    """Print the address, and open it through a file: every user can see the arguments of a browser."""
    while not server.started:
        time.sleep(0.05)
    print(text, flush=True)  # noqa: T201
    if door is not None:
        door.write_text(GO_ON.format(html.escape(address)), encoding="utf-8")
        webbrowser.open(door.as_uri())


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens, or raise ValueError."""
    number = 0 if port is None else check_integer(port, "port", 1, 65535)
    found = None
    try:
        family = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0][0]
        # With its protocol, or asyncio would leave Nagle's algorithm on: 40 ms an answer.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, number))
    except OSError as problem:
        if found is not None:
            found.close()
        raise ValueError(
            f"host and port must be free ones of this machine, got {brief(host)} and {number}: {problem}"
        ) from None
    return found


def reachable(host: str) -> str:
    """Return the address to print for a host; for a wildcard, that of this machine in its network. Sends nothing."""
    if host in ("0.0.0.0", "::", ""):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        return HOST
    return f"[{host}]" if ":" in host else host


class Course:
    """The pages of an edition, and the exercises, whose code runs here if `live`.

    `app` answers everybody, including pages of other sites: serve it behind a `Guard`.
    """

    def __init__(self, lecturer: bool = False, live: bool = True, poll: str | None = None) -> None:
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ImportError:
            raise ValueError(MISSING) from None
        self._lecturer, self._live, self._poll = lecturer, live, poll
        self.address: str | None = None  # of the lessons, for a class
        self._numbers = {lesson.name: number for number, lesson in enumerate(LESSONS, start=1)}
        self._pages: dict[str, str] = {}
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._wrong: dict[tuple[str, str], set[int]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.app: Application = Starlette(
            routes=[
                Route("/", self._show),
                Route("/{name}.html", self._show),
                *([Route("/check", self._check, methods=["POST"])] if live else []),
            ]
        )

    def page(self, name: str) -> str | None:
        """Return a page by the name of its file, without ending; None if there is none."""
        with self._lock:
            if name not in self._pages:
                make = makers(self._lecturer, self._live, self._poll, self.address).get(name)
                if make is None:
                    return None
                self._pages[name] = make()
            return self._pages[name]

    async def _show(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import HTMLResponse, PlainTextResponse

        page = await run_in_threadpool(self.page, request.path_params.get("name", "index"))
        return PlainTextResponse("There is no such page.\n", 404) if page is None else HTMLResponse(page)

    async def _check(self, request: Any) -> Any:
        """Run the code of an exercise, and return its grade; after three different wrong tries with the solution."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse, PlainTextResponse

        if (
            not request.headers.get("content-length", "").isdecimal()
            or int(request.headers["content-length"]) > MOST_CODE
        ):
            return PlainTextResponse(f"The code must have at most {MOST_CODE:,} bytes.\n", 413)
        try:
            content = json.loads(await request.body())
            lesson, name, code = self._numbers[content["lesson"]], str(content["exercise"]), str(content["code"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return PlainTextResponse("The request was not understood.\n", 400)
        who = request.client.host if request.client else ""
        if who in self._busy:
            return PlainTextResponse("Your last try is still running.\n", 429)
        if len(self._busy) >= MOST_WAITING:
            return PlainTextResponse("Too many people are waiting. Try again in a minute.\n", 503)
        self._busy.add(who)
        try:
            async with self._turns:  # first come, first served; one try per person at a time
                exercise = (await run_in_threadpool(self._exercises, lesson)).get(name)
                if exercise is None:
                    return PlainTextResponse("There is no such exercise.\n", 404)
                grade = await run_in_threadpool(exercise.grade, code)
        finally:
            self._busy.discard(who)
        wrong = self._wrong.setdefault((who, exercise.name), set())
        if not grade.right:
            wrong.add(hash(code))
        solution = exercise.solution if len(wrong) >= HINTS else None
        return JSONResponse(grade._asdict() | {"hints": min(len(wrong), HINTS), "solution": solution})

    def _exercises(self, number: int) -> dict[str, Exercise]:
        with self._lock:
            return {each.name: each for each in parts_of(number, Exercise)}


# Access to the server of the lessons: only for people who were given its address.
#
# A port of this machine is open to all its programs and users, and to every web page that its browser shows. So nothing
# reaches the lessons without a secret:
#
# - The printed address has a token. It is exchanged for a cookie, and the browser goes on to the address without it.
# - The lessons are in a folder with a random name, and the cookie is for that folder alone: a browser would send other
#   cookies of 127.0.0.1 to the servers of every other port, which may belong to another user.
# - ``Host`` must be an address of the server, so that no foreign name can point at it (DNS rebinding), and ``Origin``
#   must be its own.
# - No answer lets a foreign page read or frame it, whatever headers the application sets.

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
    """An ASGI application that lets only requests and sockets with the secret reach `app`.

    `app` sees paths without the random folder. `hosts` are the names and addresses of the server, without `port`.
    """

    def __init__(self, app: Application, port: int, hosts: Iterable[str] = LOCAL) -> None:
        self.app = app
        self.token = secrets.token_urlsafe(32)
        self.folder = f"/{secrets.token_urlsafe(9)}"
        self.cookie = f"adobest_{port}"
        names = [host.lower() for host in hosts]
        self.hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    def path(self, page: str = "") -> str:
        """Return the path of a page with the token."""
        return f"{self.folder}/{page}?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a socket, or pass it on."""
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
        """Tell whether a request is for this server, and comes from its own pages or from no page."""
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
        """Return the scope for the application: at the root, and without the secret."""
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]
        path = scope["path"].removeprefix(self.folder)
        return {**scope, "path": path, "raw_path": quote(path).encode(), "headers": headers}

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Set the cookie, and forward to the same address without the token.

        A redirect is not enough: if a page of another site has the link, browsers would not send a strict cookie.
        """
        cookie = f"{self.cookie}={self.token}; Path={self.folder}/; HttpOnly; SameSite=Strict"
        page = GO_ON.format(html.escape(quote(scope["path"])))
        await _answer(send, 200, b"text/html; charset=utf-8", page, [(b"set-cookie", cookie.encode())])


def is_own(scope: Scope, hosts: Container[str], schemes: Iterable[str] = ("http",)) -> bool:
    """Tell whether a request is for one of these hosts, and comes from a page of the same host or from no page."""
    given, origins = _header(scope, b"host"), _header(scope, b"origin")
    if len(given) != 1 or given[0].lower() not in hosts:
        return False
    if not origins:  # browsers leave it out only for requests that change nothing
        return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    return len(origins) == 1 and origins[0] in [f"{scheme}://{given[0]}" for scheme in schemes]


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _closed(send: Send) -> Send:
    """Return a `send` that removes headers which would open an answer to foreign pages."""

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
