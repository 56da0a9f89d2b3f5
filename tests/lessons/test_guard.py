"""Nobody reaches the lessons without the secret: the guard before an application that counts its visitors."""

import asyncio
import re
from http.cookies import SimpleCookie
from types import SimpleNamespace

import pytest

from adobest_pp.teaching.serving import Guard

PORT = 8123
HOST = f"127.0.0.1:{PORT}"
OWN, EVIL = f"http://{HOST}", "http://evil.example"
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


@pytest.fixture
def guard():
    """A guard of an application that is as open as can be, and notes what reaches it."""
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        elif scope["type"] == "http":
            headers = [(b"Access-Control-Allow-Origin", b"*"), (b"access-control-allow-credentials", b"true")]
            headers += [(b"content-type", b"text/plain"), (b"referrer-policy", b"unsafe-url")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"what is guarded"})

    made = Guard(app, PORT)
    made.seen = seen
    return made


def talk(guard, path="1/", method="GET", query="", headers=(), folder=None):
    """Send a request, or open a socket (method "SOCKET"); return the answer."""
    socket = method == "SOCKET"
    whole = (guard.folder + "/" if folder is None else folder) + path
    scope = {
        "type": "websocket" if socket else "http",
        "path": whole,
        "raw_path": whole.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    } | ({} if socket else {"method": method})
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"} if socket else {"type": "http.request", "body": b""}

    asyncio.run(guard(scope, receive, send))
    headers = [(name.decode().lower(), value.decode()) for name, value in sent[0].get("headers", ())]
    assert not [name for name, _ in headers if name.startswith("access-control-")]
    if socket:
        return SimpleNamespace(status={"websocket.accept": 101, "websocket.close": 403}[sent[0]["type"]])
    assert (
        dict(headers).items()
        >= {
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "content-security-policy": "frame-ancestors 'self'",
        }.items()
    )
    assert len({name for name, _ in headers}) == len(headers)
    return SimpleNamespace(status=sent[0]["status"], headers=dict(headers), body=sent[1]["body"].decode())


def with_cookie(guard, **others):
    return [("host", HOST), ("cookie", f"{guard.cookie}={guard.token}"), *others.items()]


def test_the_printed_address_lets_in(guard):
    path, query = guard.path("3").split("?")
    reply = talk(guard, "3", query=query, headers=[("host", HOST)])
    assert (reply.status, guard.seen) == (200, [])
    (cookie,) = SimpleCookie(reply.headers["set-cookie"]).values()
    assert (cookie.key, cookie.value) == (f"adobest_{PORT}", guard.token)
    assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == (f"{guard.folder}/", "Strict", True)
    assert re.search(r'content="0; url=([^"]+)"', reply.body).group(1) == path
    assert guard.token not in reply.body

    headers = [("host", HOST), ("cookie", f'other={{"a;b"}}; {cookie.OutputString().partition(";")[0]}; more')]
    assert talk(guard, "3", headers=headers).body == "what is guarded"
    assert talk(guard, "3/api", "POST", headers=[*headers, ("origin", OWN)]).status == 200
    assert talk(guard, "3/ws", "SOCKET", headers=[*headers, ("origin", OWN)]).status == 101
    assert [scope["path"] for scope in guard.seen] == ["/3", "/3/api", "/3/ws"]
    assert guard.token not in str(guard.seen)  # what is not handed on cannot be shown


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "[::1]"])
def test_other_names_of_this_machine_are_its_own(guard, host):
    headers = [("host", f"{host}:{PORT}"), ("cookie", f"{guard.cookie}={guard.token}")]
    assert talk(guard, headers=headers).status == 200


def test_hosts_are_a_choice_of_the_server():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    guard = Guard(app, 80, ["class.example"])
    cookie = ("cookie", f"{guard.cookie}={guard.token}")
    hosts = {"class.example": 200, "class.example:80": 200, "127.0.0.1": 403, "class.example:81": 403}
    for host, status in hosts.items():
        assert talk(guard, headers=[("host", host), cookie]).status == status


@pytest.mark.parametrize("method", [*METHODS, "SOCKET"])
@pytest.mark.parametrize(
    "others",
    [[], [("origin", OWN)], [("origin", EVIL)], [("cookie", "adobest_8123=")], [("cookie", "adobest_8123=AAAA\xff")]],
)
def test_without_the_secret_nobody_is_let_in(guard, method, others):
    """Another user's program can send any header; what it lacks is the token."""
    for folder in (None, "/", ""):
        reply = talk(guard, method=method, headers=[("host", HOST), *others], folder=folder)
        assert reply.status == 403
        if method != "SOCKET":
            assert reply.body.startswith("Open the lessons at the address that adobest teach printed in the terminal")
    assert guard.seen == []


@pytest.mark.parametrize("method", [*METHODS, "SOCKET"])
@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:9999", f"https://{HOST}", "http://localhost:8123"])
def test_pages_of_others_are_refused_even_with_the_secret(guard, method, origin):
    query = f"token={guard.token}"
    assert talk(guard, method=method, headers=with_cookie(guard, origin=origin)).status == 403
    assert talk(guard, method=method, headers=[("host", HOST), ("origin", origin)], query=query).status == 403
    assert guard.seen == []


@pytest.mark.parametrize("method", [*METHODS, "SOCKET"])
@pytest.mark.parametrize("host", [f"evil.example:{PORT}", "evil.example", "127.0.0.1", "127.0.0.1:9", "", None])
def test_a_name_that_is_pointed_at_this_machine_is_refused_even_with_the_secret(guard, method, host):
    """DNS rebinding: Host and Origin are the attacker's, and agree."""
    headers = [("cookie", f"{guard.cookie}={guard.token}"), ("origin", f"http://{host}")]
    headers += [] if host is None else [("host", host)]
    assert talk(guard, method=method, headers=headers).status == 403
    assert talk(guard, method=method, headers=headers, query=f"token={guard.token}").status == 403
    assert guard.seen == []


def test_what_is_said_twice_is_refused(guard):
    for double in (("host", HOST), ("host", "evil.example")):
        assert talk(guard, headers=[*with_cookie(guard), double]).status == 403
    assert talk(guard, headers=[*with_cookie(guard, origin=OWN), ("origin", EVIL)]).status == 403
    assert talk(guard, headers=[("host", HOST)], query=f"token={guard.token}&token=x").status == 403
    assert guard.seen == []


def test_what_changes_something_says_where_it_is_from(guard):
    for method in ("POST", "PUT", "DELETE", "SOCKET"):
        assert talk(guard, method=method, headers=with_cookie(guard)).status == 403
    assert guard.seen == []


def test_a_token_in_the_address_opens_no_socket_and_posts_nothing(guard):
    query = f"token={guard.token}"
    for method in ("POST", "SOCKET"):
        assert talk(guard, method=method, headers=[("host", HOST), ("origin", OWN)], query=query).status == 403
    assert guard.seen == []


def test_a_path_in_the_address_is_no_html(guard):
    reply = talk(guard, '"><script>', query=f"token={guard.token}", headers=[("host", HOST)])
    assert "<script>" not in reply.body


def test_starting_and_stopping_reach_the_application(guard):
    asyncio.run(guard({"type": "lifespan"}, None, None))
    assert [scope["type"] for scope in guard.seen] == ["lifespan"]


def test_secrets_are_long_and_new():
    one, other = Guard(None, PORT), Guard(None, PORT)
    assert len(one.token) == 43
    assert one.token != other.token
    assert one.folder != other.folder
