"""The attack on the lessons, played against the server that a person starts, by those who would.

The attacker reads marimo's own token from the page, opens its socket, and hands in code for the exercise of lesson 1.
"""

import http.client
import json
import re
import socket
from typing import NamedTuple

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.lessons.test_running import confines

SESSION = "s_attack"
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

    def headers(self):
        given = {"Host": self.host, "Origin": self.origin, "Cookie": self.cookie}
        return {name: value for name, value in given.items() if value is not None}

    def request(self, method, path, body=None, **others):
        connection = http.client.HTTPConnection(self.server.host, timeout=60)
        try:
            connection.request(method, self.folder + path, body, headers=self.headers() | others)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        assert not [name for name in reply.headers if name.lower().startswith("access-control-")]
        if reply.status == 403:
            assert reply.headers.get("Set-Cookie") is None
            assert self.server.token not in text
            raise Refused(403)
        return text

    def connect(self):
        name, port = self.server.host.split(":")
        try:
            return connect(
                f"ws://{self.host}{self.folder}1/ws?session_id={SESSION}",
                sock=socket.create_connection((name, int(port)), 60),
                origin=self.origin,
                additional_headers={} if self.cookie is None else {"Cookie": self.cookie},
            )
        except InvalidStatus as problem:
            raise Refused(problem.response.status_code) from None

    def hand_in(self, code, token, element):
        headers = {"Marimo-Session-Id": SESSION, "Marimo-Server-Token": token, "Content-Type": "application/json"}
        body = json.dumps({"objectIds": [element], "values": [code]})
        return self.request("POST", "1/api/kernel/set_ui_element_value", body, **headers)

    def run(self, code):
        """Play the whole attack; return what the lesson shows of the code."""
        token = re.search(r'marimo-server-token data-token="([^"]+)"', self.request("GET", "1/")).group(1)
        with self.connect() as lesson:
            shown = heard(lesson, r"object-id='([^']+)' random-id='[^']+'><marimo-form")
            self.hand_in(code, token, shown.group(1))
            return heard(lesson, r"<b>(Right|Not yet)\.</b>[^/]*</div>.*?</div>").group()


def heard(lesson, pattern):
    """Wait until the lesson shows something."""
    text = ""
    while (found := re.search(pattern, text)) is None:
        text += lesson.recv(60)
    return found


def attacker(server, **others):
    """Somebody who knows what the person's browser knows, but for what is said."""
    folder = server.address.partition(server.host)[2]
    known = {"folder": folder, "host": server.host, "origin": f"http://{server.host}", "cookie": server.cookie}
    return Attacker(server, **(known | others))


@confines
def test_the_person_can_hand_in_code_that_can_do_nothing(server, tmp_path):
    """The attack works as far as the person may go: their code is run, shows what it prints, and writes no file."""
    place = tmp_path / "written"
    shown = attacker(server).run(CODE.format(place=str(place)))
    assert "Not yet." in shown
    assert "The code tries to do more than compute" in shown
    assert "<pre>it ran\\n</pre>" in shown
    assert not place.exists()
    assert not server.trap.exists()  # of the folder that the server was started in


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
        lambda: attack.request("GET", "1/"),
        lambda: attack.request("OPTIONS", "1/api/kernel/set_ui_element_value"),
        attack.connect,
        lambda: attack.hand_in("1", "x", "nWHF-2"),
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
