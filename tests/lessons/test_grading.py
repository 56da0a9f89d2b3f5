"""A folder of students' files is graded whole, whatever is in it, and so is a class that works at the same time."""

import asyncio
import csv
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from adobest_pp.cli.main import main
from adobest_pp.teaching import running, serving
from adobest_pp.teaching.grading import exercises, grade_folder, handed_in
from tests.lessons.test_running import confines
from tests.refusals import refuses

pytestmark = confines
BELIEF = exercises()["belief"]


def test_a_folder_of_students(tmp_path, monkeypatch):
    """Right, wrong, hanging, exiting, hungry and stealing code; in both layouts; and files that are none."""
    monkeypatch.setattr(running, "SECONDS", 1.0)
    code = {
        "anna": BELIEF.solution,
        "ben": BELIEF.start,
        "=cmd": "while True: pass",
        "dora": "import sys\nsys.exit(1)",
        "emil": "x = [0] * 10**10",
        "fay": "import os\nprint(os.environ)",
        "gus": "from adobest_pp.teaching import grading\nbelief = grading.exercises",
    }
    for student, text in code.items():
        (tmp_path / "in" / student).mkdir(parents=True)
        (tmp_path / "in" / student / "belief.py").write_text(text)
    (tmp_path / "in" / "belief_hans.py").write_text(BELIEF.solution)
    (tmp_path / "in" / "belief_ida.py").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "in" / "notes.py").write_text("print('no exercise')")
    began = time.monotonic()
    graded = {row.student: row for row in grade_folder(tmp_path / "in", tmp_path / "grades.csv")}
    assert time.monotonic() - began < 60
    assert {student for student, row in graded.items() if row.right} == {"anna", "hans"}
    assert set(graded) == {*code, "hans", "ida"}
    messages = {
        "=cmd": "stopped after",
        "dora": "ends Python",
        "emil": "memory",
        "fay": "belief",
        "gus": "can import",
        "ida": "cannot be read",
    }
    for student, word in messages.items():
        assert word in graded[student].message, graded[student]
    with (tmp_path / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["student", "exercise", "right", "message"]
    assert {row["student"]: row["right"] for row in rows}["anna"] == "yes"
    assert "'=cmd" in {row["student"] for row in rows}  # no formula for a spreadsheet
    with pytest.raises(FileExistsError, match="out"):
        grade_folder(tmp_path / "in", tmp_path / "grades.csv")
    with refuses("folder"):
        grade_folder(tmp_path / "nowhere", tmp_path / "other.csv")


def test_a_file_belongs_to_the_exercise_with_the_longest_name(tmp_path):
    (tmp_path / "odds_of_truth_anna.py").touch()
    found = [each[:2] for each in handed_in(tmp_path, ["odds", "odds_of_truth", "odds_of"])]
    assert found == [("anna", "odds_of_truth")]


def test_the_command(tmp_path, capsys):
    (tmp_path / "belief_anna.py").write_text(BELIEF.solution)
    command = ["teach", "--check", str(tmp_path), "--out", str(tmp_path / "g.csv")]
    for options, status in (([], 0), ([], 2), (["--overwrite"], 0)):
        with pytest.raises(SystemExit) as end:
            main([*command, *options])
        assert (end.value.code or 0) == status
    assert "1 of 1 are right, of 1 students" in capsys.readouterr().out


def ask(course, path, content=None):
    """Send a request to the lessons, without a guard; return the answer."""
    body = b"" if content is None else json.dumps(content).encode()
    scope = {"type": "http", "method": "GET" if content is None else "POST", "path": path, "query_string": b""}
    scope |= {"headers": [(b"content-length", str(len(body)).encode())], "client": ("192.0.2.1", 9), "root_path": ""}
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    asyncio.run(course.app(scope, receive, send))
    text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
    return SimpleNamespace(status=sent[0]["status"], text=text)


def check(course, code):
    reply = ask(course, "/check", {"lesson": "one_answer", "exercise": "belief", "code": code})
    return SimpleNamespace(status=reply.status, **(json.loads(reply.text) if reply.status == 200 else {}))


def test_hints_and_solution_come_after_different_wrong_tries():
    course = serving.Course()
    for tries, hints in ((1, 1), (1, 1), (2, 2), (3, 3)):  # the same code again is no new try
        found = check(course, f"x = {tries}")
        assert (found.right, found.hints) == (False, hints)
        assert found.solution == (BELIEF.solution if hints == 3 else None)
    assert check(course, BELIEF.solution).right


@pytest.mark.long
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "def belief(*a):\n    while True: pass",
        "import sys\nsys.exit()",
        "x = [0] * 10**10",
        "import socket",
        "from adobest_pp.teaching.pages import load",
    ],
)
def test_bad_code_is_stopped_within_five_seconds_and_the_lesson_goes_on(code):
    course = serving.Course()
    began = time.monotonic()
    assert not check(course, code).right
    assert time.monotonic() - began < 5 + 1  # a second for a busy machine
    assert check(course, BELIEF.solution).right


def test_a_person_has_one_try_at_a_time():
    course = serving.Course()
    course._busy.add("192.0.2.1")
    assert check(course, "x = 1").status == 429
    course._busy = {str(i) for i in range(serving.MOST_WAITING)}
    assert check(course, "x = 1").status == 503


def test_a_class_gets_the_students_edition():
    course = serving.Course(live=False, poll="http://192.0.2.7:8000/")
    assert check(course, "x = 1").status == 404  # exercises are off
    assert "<textarea" not in ask(course, "/one_answer.html").text
    assert ask(course, "/one_answer-slides.html").status == 404
    assert "http://192.0.2.7:8000/" in ask(course, "/").text
    assert ask(serving.Course(lecturer=True, live=False), "/one_answer-slides.html").status == 200
    for options in ({"lecturer": True}, {"trust_exercises": True}):
        with pytest.raises(ValueError, match="must not be given with --host"):
            serving.teach(host="0.0.0.0", **options)


@pytest.mark.long
def test_a_class_from_the_terminal():
    """Students come with the printed address, and get a cookie, the student's page and their code run."""
    command = [sys.executable, "-m", "adobest_pp", "teach", "--host", "0.0.0.0", "--exercises"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            shown = next(line for line in server.stdout if "http://" in line)
            port, path = re.search(r"Students open the lessons at http://[^:/]+:(\d+)(/\S+)", shown).groups()
            host = f"127.0.0.1:{port}"

            def ask_server(method, path, body=None, **headers):
                with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
                    connection.request(method, path, body, headers={"Origin": f"http://{host}"} | headers)
                    reply = connection.getresponse()
                    return reply.status, reply.headers, reply.read().decode()

            assert ask_server("GET", "/one_answer.html")[0] == 403
            cookie = ask_server("GET", path)[1]["Set-Cookie"].partition(";")[0]
            folder = path.partition("?")[0]
            assert path in ask_server("GET", f"{folder}join.html", Cookie=cookie)[2]  # for the projector
            status, _, page = ask_server("GET", f"{folder}one_answer.html", Cookie=cookie)
            assert (status, "<textarea" in page, "For the lecturer" in page) == (200, True, False)
            body = json.dumps({"lesson": "one_answer", "exercise": "belief", "code": BELIEF.solution})
            assert json.loads(ask_server("POST", f"{folder}check", body, Cookie=cookie)[2])["right"]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
