"""The poll of `adobest class`: written once, resumed, never overwritten."""

import sqlite3
from contextlib import closing
from importlib.resources import files
from unittest import mock

import numpy as np
import pytest

from adobest_pp.poll import projection
from adobest_pp.poll.polls import PollQuestion, create_poll, prepare_class, read_plan
from adobest_pp.teaching.pages import LESSONS
from tests.cli.test_main import run_here
from tests.poll.harness import answer, join, served, wait_for
from tests.refusals import refuses


def contents(folder):
    """What the files hold: opening a database changes bytes of its header."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.read_bytes()[:6] == b"SQLite":
            with closing(sqlite3.connect(path)) as connection:
                found[path.name] = list(connection.iterdump())
        else:
            found[path.name] = path.read_bytes()
    return found


def test_the_class_is_written_once_and_resumed(tmp_path):
    path = tmp_path / "class.db"
    assert prepare_class(path)
    with served(path) as server:
        assert answer(server, join(server)["token"], [1]).status == 200
        wait_for(server, 1)
        assert server._state()["steps"] == read_plan()["steps"]
        assert server.poll.total_epsilon == 3 * read_plan()["epsilon"]
    before = contents(tmp_path)
    assert not prepare_class(path)
    assert not prepare_class(path, read_plan()["epsilon"])
    assert contents(tmp_path) == before
    with served(path) as server:
        assert server.poll.counts == [1, 0, 0]


def test_another_epsilon_or_another_poll_is_refused_and_left_alone(tmp_path):
    prepare_class(tmp_path / "class.db", 1.0)
    create_poll(tmp_path / "poll.db", [PollQuestion("Which?", ["a", "b"])])
    (tmp_path / "text.db").write_text("not a poll", encoding="utf-8")
    before = contents(tmp_path)
    with refuses("epsilon"):
        prepare_class(tmp_path / "class.db", 2.0)
    with refuses("out"):
        prepare_class(tmp_path / "poll.db")
    with pytest.raises(FileNotFoundError):
        prepare_class(tmp_path / "text.db")
    with pytest.raises(ValueError, match="epsilon"):
        prepare_class(tmp_path / "new.db", -1.0)
    assert contents(tmp_path) == before


def test_the_command_writes_and_then_resumes(tmp_path, capsys):
    with mock.patch("adobest_pp.poll.server.serve_poll") as serve:
        first = run_here(capsys, "class", "--out", tmp_path / "class.db", "--epsilon", 1)
        second = run_here(capsys, "class", "--out", tmp_path / "class.db", "--host", "0.0.0.0", "--port", 8000)
        third = run_here(capsys, "class", "--out", tmp_path / "class.db", "--epsilon", 3)
    assert (first.returncode, second.returncode, third.returncode) == (0, 0, 2)
    assert first.stdout.startswith("Wrote")
    assert second.stdout.startswith("Resume")
    assert "epsilon must be that of the class" in third.stderr
    assert [call.args for call in serve.call_args_list] == [
        (tmp_path / "class.db", "127.0.0.1", None, None),
        (tmp_path / "class.db", "0.0.0.0", 8000, None),
    ]
    assert "Example: adobest class" in run_here(capsys, "class", "--help").stdout


def test_the_plan_shows_panels_that_are_there():
    """Eight steps of 40 minutes; every panel is one of the page, every lesson one of the course."""
    plan = read_plan()
    page = files("adobest_pp.poll").joinpath("pages/projector.html").read_text(encoding="utf-8")
    assert len(plan["steps"]) == 8
    assert sum(step["minutes"] for step in plan["steps"]) == 40
    assert len(plan["questions"]) == 3
    for step in plan["steps"]:
        assert set(step) <= {"title", "minutes", "question", "show", "say", "lesson"}
        assert all(f'<section id="{panel}"' in page for panel in step["show"])
        assert 0 <= step.get("question", 0) < 3
        if "lesson" in step:
            assert LESSONS[step["lesson"]["number"] - 1].title == step["lesson"]["title"]


@pytest.mark.slow
def test_the_show_of_hands_is_mostly_inside_the_intervals():
    """What the plan says about a class of 30: at most about one class in five has an interval that misses.

    200 classes with fixed hands. If a class misses with probability 0.2, more than 61 miss with probability 0.0003.
    """
    from adobest_pp import Responses, SubsetSelection

    rng, plan = np.random.default_rng(27), read_plan()
    mechanism = SubsetSelection(4, plan["epsilon"])
    hands = np.repeat(range(4), [9, 9, 6, 6])
    shares, missed, inside = np.bincount(hands) / len(hands), 0, 0
    for seed in range(200):
        responses = Responses.from_arrays(mechanism, mechanism.privatize(hands, rng=rng))
        found = projection.estimate(responses, seed)
        held = (np.array(found["lower"]) <= shares) & (shares <= np.array(found["upper"]))
        missed += not held.all()
        inside += held.sum()
    assert missed <= 61
    assert inside >= 0.95 * 800 - 3 * np.sqrt(0.95 * 0.05 * 800)
