"""Who may talk to the server of the lessons: the person who was given its address, and nobody else.

A port of this machine is open to every program and user of it, and to every web page that its browser shows. So nothing
reaches the lessons without a secret:

- The printed address has a token. Whoever brings it is given a cookie, and sent on to the address without the token.
- The lessons are below a folder with a random name, and the cookie is for that folder alone: a browser would show other
  cookies of 127.0.0.1 to the servers of every other port, which may be another user's.
- ``Host`` must be an address that the server is meant to have, so that no foreign name can be pointed at it (DNS
  rebinding), and ``Origin`` must be its own.
- No answer allows a foreign page to read or frame it, whatever the application says.
"""

import hmac
import html
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote

__all__ = ["LOCAL", "Guard"]

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
        hosts, origins = _header(scope, b"host"), _header(scope, b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts or not scope["path"].startswith(f"{self.folder}/"):
            return False
        if not origins:  # browsers leave it out where nothing is changed, and only there
            return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        return origins == [f"http://{hosts[0]}"]

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
        """Give the cookie, and go on to the same address without the token.

        A redirect would not do: where a page of another site has the link, browsers keep a strict cookie from it.
        """
        cookie = f"{self.cookie}={self.token}; Path={self.folder}/; HttpOnly; SameSite=Strict"
        page = GO_ON.format(html.escape(quote(scope["path"])))
        await _answer(send, 200, b"text/html; charset=utf-8", page, [(b"set-cookie", cookie.encode())])


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
