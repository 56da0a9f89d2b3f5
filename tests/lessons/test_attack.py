"""The attack on the lessons, played against the server that a person starts, by those who would."""

import http.client
import json
from typing import NamedTuple

import pytest

from tests.lessons.test_running import confines

CODE = "print('it', 'ran')\nopen({place!r}, 'w')\n"


class Refused(Exception):
    """The server let nobody in; with its status."""


class Attacker(NamedTuple):
    """What somebody who is no browser, or a browser with a foreign page, sends with everything."""

    server: object
    folder: str
    host: str
    origin: str | None
    cookie: str | None

    def request(self, method, path, body=None):
        given = {"Host": self.host, "Origin": self.origin, "Cookie": self.cookie}
        headers = {name: value for name, value in given.items() if value is not None}
        connection = http.client.HTTPConnection(self.server.host, timeout=60)
        try:
            connection.request(method, self.folder + path, body, headers=headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        assert not [name for name in reply.headers if name.lower().startswith("access-control-")]
        if reply.status == 403:
            assert reply.headers.get("Set-Cookie") is None
            assert self.server.token not in text
            raise Refused(403)
        return reply.status, text

    def hand_in(self, code, **others):
        content = {"lesson": "one_answer", "exercise": "belief", "code": code} | others
        return self.request("POST", "check", json.dumps(content))


def attacker(server, **others):
    """Somebody who knows what the person's browser knows, but for what is said."""
    folder = server.address.partition(server.host)[2]
    known = {"folder": folder, "host": server.host, "origin": f"http://{server.host}", "cookie": server.cookie}
    return Attacker(server, **(known | others))


@confines
def test_the_person_can_hand_in_code_that_can_do_nothing(server, tmp_path):
    """The attack works as far as the person may go: their code is run, shows what it prints, and writes no file."""
    place = tmp_path / "written"
    status, text = attacker(server).hand_in(CODE.format(place=str(place)))
    found = json.loads(text)
    assert status == 200
    assert not found["right"]
    assert found["message"].startswith("The code tries to do more than compute")
    assert found["printed"] == "it ran\n"
    assert not place.exists()


@confines
def test_what_is_not_understood_is_refused(server):
    person = attacker(server)
    assert person.hand_in("1", lesson="no such")[0] == 400
    assert person.hand_in("1", exercise="no such")[0] == 404
    assert person.hand_in("1", exercise=["belief"])[0] in (400, 404)
    assert person.request("POST", "check", "[" * 50_000)[0] == 400
    assert person.request("POST", "check", "x" * 200_000)[0] == 413
    assert person.request("GET", "no_such.html")[0] == 404
    assert person.request("GET", "../one_answer.py")[0] == 404


EVIL = "http://evil.example"
ATTACKERS = {
    "a web page": {"origin": EVIL, "cookie": None},
    "a web page that knows no folder": {"origin": EVIL, "cookie": None, "folder": "/"},
    "a web page, from a browser with the cookie": {"origin": EVIL},
    "a page of another port, from a browser with the cookie": {"origin": "http://127.0.0.1:9"},
    "a sandboxed frame, from a browser with the cookie": {"origin": "null"},
    "a program of another user": {"origin": None, "cookie": None},
    "a program that claims to be the page": {"cookie": None},
    "a program with a guess": {"cookie": "adobest=AAAA"},
    "a name that is pointed here": {"host": "evil.example", "origin": EVIL, "cookie": None},
    "a name that is pointed here, with the cookie": {"host": "evil.example", "origin": EVIL},
}


@pytest.mark.parametrize("who", ATTACKERS)
def test_nobody_else_gets_in(server, who):
    attack = attacker(server, **ATTACKERS[who])
    for act in (
        lambda: attack.request("GET", "one_answer.html"),
        lambda: attack.request("OPTIONS", "check"),
        lambda: attack.hand_in("1"),
    ):
        with pytest.raises(Refused, match="403"):
            act()


def test_the_token_is_no_use_to_a_page_of_others(server):
    with pytest.raises(Refused):
        attacker(server, origin=EVIL, cookie=None).request("GET", f"?token={server.token}")
    with pytest.raises(Refused):
        attacker(server, host="evil.example", origin=None, cookie=None).request("GET", f"?token={server.token}")


def test_the_server_is_open_to_this_machine_alone(server):
    listening = [one.laddr for one in server.process.net_connections() if one.status == "LISTEN"]
    assert [f"{ip}:{port}" for ip, port in listening] == [server.host]
