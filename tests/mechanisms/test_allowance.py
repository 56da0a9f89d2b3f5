"""The account of ε on a person's device: it refuses to overspend, forgets nothing, and never holds x."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.mechanisms import Mechanism, Overspent, PublishedQuestion, read_question
from tests.refusals import refuses


@pytest.fixture
def path(tmp_path):
    return tmp_path / "allowance.json"


def test_budgets_of_different_questions_add_up(path):
    allowance = ad.Allowance.create(path, epsilon=2.0)
    allowance.answer("drinking", ad.SRR(3, 1.0), 2)
    allowance.answer("smoking", ad.SubsetSelection(4, 0.5), 0)
    assert allowance.spent == {"drinking": 1.0, "smoking": 0.5}
    assert allowance.left == 0.5
    before = path.read_bytes()
    with pytest.raises(Overspent, match=r"question 'income' must cost at most 0.5, .* got 0.6"):
        allowance.answer("income", ad.SRR(3, 0.6), 1)
    assert path.read_bytes() == before
    allowance.answer("income", ad.SRR(3, 0.5), 1)
    assert allowance.left == 0
    assert ad.Allowance.open(path).spent == allowance.spent
    assert repr(allowance) == "<Allowance: ε = 2, 0 left after 3 questions>"


def test_tenths_add_up_to_one(path):
    allowance = ad.Allowance.create(path, epsilon=1.0)
    for i in range(10):
        allowance.answer(f"{i}", ad.SRR(2, 0.1), 0)
    with pytest.raises(Overspent):
        allowance.answer("more", ad.SRR(2, 1e-6), 0)


def test_a_question_is_answered_once_whatever_happens(path):
    """Asked a hundred times, also after a restart and with another x, the device sends one answer."""
    mechanism = ad.SRR(50, 1.0)
    first = ad.Allowance.create(path, epsilon=1.0).answer("q", mechanism, 7)
    again = {ad.Allowance.open(path).answer("q", mechanism, x % 50) for x in range(100)}
    assert again == {first}
    with refuses("question"):
        ad.Allowance.open(path).answer("q", ad.SRR(50, 0.9), 7)


def test_a_memoized_question_costs_once_for_all_waves(path):
    mechanism = ad.Memoized.from_budgets(4, 2.0, 1.0, n_waves=5)
    allowance = ad.Allowance.create(path, epsilon=2.0)
    answers = [allowance.answer("q", mechanism, 3, wave=wave) for wave in range(5)]
    assert allowance.spent == {"q": 2.0}
    assert [allowance.answer("q", mechanism, 0, wave=wave) for wave in range(5)] == answers
    assert ad.Responses.from_arrays(mechanism, [answers]).evidence().n_rows == 1
    with refuses("wave"):
        allowance.answer("q", mechanism, 3, wave=5)
    with refuses("wave"):
        allowance.answer("p", ad.SRR(3, 1.0), 2, wave=1)


def test_changes_are_charged_at_the_start(path):
    mechanism = ad.Memoized(ad.SRR(3, 1.0), ad.SRR(3, 0.5), 5)
    with pytest.raises(Overspent):
        ad.Allowance.create(path, epsilon=1.5).answer("q", mechanism, 0, changes=1)
    path.unlink()
    allowance = ad.Allowance.create(path, epsilon=2.0)
    allowance.answer("q", mechanism, 0, changes=1)
    assert allowance.spent == {"q": mechanism.epsilon_of_changes(1)} == {"q": 2.0}
    allowance.answer("q", mechanism, 2, wave=1, changes=1)
    assert allowance.left == 0
    with refuses("changes"):
        allowance.answer("p", ad.SRR(3, 1.0), 2, changes=1)


def test_waves_are_drawn_from_the_permanent_answer_of_the_category(path, monkeypatch):
    """With answers that repeat the permanent one nearly always, a change of x changes the answer, and back again."""
    mechanism = ad.Memoized(ad.SRR(3, 25.0), ad.SRR(3, 25.0), 4)
    allowance = ad.Allowance.create(path, epsilon=25.0)
    assert [allowance.answer("q", mechanism, x, wave=wave) for wave, x in enumerate([1, 2, 2, 1])] == [1, 2, 2, 1]


def test_what_is_kept_has_the_same_form_for_every_x(path, monkeypatch):
    """The file depends on x through the answers alone: with the same draws, it is the same to the byte."""
    contents = set()
    for x in range(3):
        monkeypatch.setattr(Mechanism, "privatize", lambda self, given, **_: np.zeros(np.shape(given), dtype=int))
        allowance = ad.Allowance.create(path, epsilon=5.0)
        allowance.answer("memoized", ad.Memoized(ad.SRR(3, 1.0), ad.SRR(3, 1.0), 2), x)
        allowance.answer("once", ad.SRR(3, 1.0), x)
        monkeypatch.undo()
        contents.add(path.read_bytes())
        path.unlink()
    assert len(contents) == 1
    kept = json.loads(contents.pop())["content"]["questions"]
    assert {*kept["memoized"]} == {"epsilon", "asked", "answers", "permanent"}
    assert len(kept["memoized"]["permanent"]) == 3
    assert {*kept["once"]} == {"epsilon", "asked", "answers"}


def test_published_questions_and_ticks(path):
    text = PublishedQuestion(0, ad.RRRR(4, 1.0), ("a", "b", "c", "d"), (0, 1)).to_json()
    allowance = ad.Allowance.create(path, epsilon=3.0)
    assert allowance.answer("published", read_question(text, epsilon=1.0), 2) in range(4)
    ticks = ad.Ticks(5, epsilon=2.0)
    answer = allowance.answer("ticks", ticks, [1, 0, 0, 1, 0])
    np.testing.assert_array_equal(ticks.check_answers(answer), [answer])
    assert allowance.left == 0


@pytest.mark.parametrize("x", [3, -1, 1.0, "a", [1], [1, 2], [[1], [1, 2]], None, True])
def test_a_wrong_x_is_neither_shown_nor_charged(path, x):
    allowance = ad.Allowance.create(path, epsilon=3.0)
    for mechanism in (ad.SRR(3, 1.0), ad.Memoized(ad.SRR(3, 1.0), ad.SRR(3, 1.0), 2)):
        with refuses("x"):
            allowance.answer("q", mechanism, x)
    for ticks in (x, [[1, 0, 1], [1, 0, 1]]):
        with refuses("x"):
            allowance.answer("ticks", ad.Ticks(3, 1.0), ticks)
    assert ad.Allowance.open(path).spent == {}


def test_a_full_disk_answers_nothing_and_charges_nothing(path, monkeypatch):
    allowance = ad.Allowance.create(path, epsilon=1.0)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="nothing was changed"):
        allowance.answer("q", ad.SRR(3, 1.0), 1)
    monkeypatch.undo()
    assert allowance.left == ad.Allowance.open(path).left == 1.0
    assert os.listdir(path.parent) == [path.name]


def test_files_that_are_not_whole_are_refused(path):
    ad.Allowance.create(path, epsilon=1.0).answer("q", ad.SRR(3, 1.0), 1)
    with pytest.raises(FileExistsError):
        ad.Allowance.create(path, epsilon=9.0)
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    for content in (b"", whole[:-20], whole.replace(b'"epsilon": 1.0', b'"epsilon": 9.0'), b"{}", b"[]"):
        path.write_bytes(content)
        with refuses("path"):
            ad.Allowance.open(path)
    path.unlink()
    with refuses("path", FileNotFoundError):
        ad.Allowance.open(path)


SPEND = """
import sys, adobest_pp as ad
allowance = ad.Allowance.open(sys.argv[1])
for i in range(20):
    try:
        allowance.answer(f"{sys.argv[2]}-{i}", ad.SRR(2, 0.1), 0)
        print(i)
    except ad.mechanisms.Overspent:
        pass
"""


def test_two_processes_together_do_not_overspend(path):
    ad.Allowance.create(path, epsilon=1.0)
    line = [sys.executable, "-c", SPEND, str(path)]
    running = [subprocess.Popen([*line, name], stdout=subprocess.PIPE, text=True) for name in ("one", "two")]
    answered = [len(process.communicate()[0].split()) for process in running]
    assert sum(answered) == len(ad.Allowance.open(path).spent) == 10


def test_what_another_process_spent_is_seen(path):
    first, second = ad.Allowance.create(path, epsilon=1.0), ad.Allowance.open(path)
    first.answer("one", ad.SRR(2, 0.6), 0)
    with pytest.raises(Overspent):
        second.answer("two", ad.SRR(2, 0.6), 0)
    assert second.left == pytest.approx(0.4)


def test_bad_arguments(path):
    for epsilon in (0, -1, float("inf"), "1"):
        with refuses("epsilon"):
            ad.Allowance.create(path, epsilon)
    allowance = ad.Allowance.create(path, 1.0)
    for name in ("", " ", 3, "x" * 201):
        with refuses("name"):
            allowance.answer(name, ad.SRR(3, 1.0), 0)
    with refuses("question"):
        allowance.answer("q", "srr", 0)
