"""Consent form and page for the data-protection officer: what they say follows from the survey."""

import html
import math
import re
import tomllib

import numpy as np
import pytest

from adobest_pp.survey import EXAMPLE, Survey
from adobest_pp.survey.pages import DRAFT, protection_in_words, values_of, write_texts
from oracles.mechanisms import best_guess, subset_selection_matrix
from tests.cli.test_main import run_here


def survey_of(**changes):
    text = EXAMPLE
    for before, after in changes.values():
        assert before in text
        text = text.replace(before, after)
    return Survey.model_validate(tomllib.loads(text))


def pages(survey, folder):
    return [html.unescape(path.read_text(encoding="utf-8")) for path in write_texts(survey, folder)]


def test_texts_say_what_epsilon_means_for_one_person(tmp_path):
    survey = survey_of()
    consent, officer = pages(survey, tmp_path)
    for page in (consent, officer):
        assert DRAFT in page
        assert survey.organization in page
        assert f"factor of at most {math.exp(2):.3g}" in page
        assert "89 % sure" in page  # e^2/(1 + e^2) = 88.08 %, rounded up
        assert "asked openly" in page or "stored as given" in page
        assert "in a file that we hold" in page or "central collection" in page
        assert "To be filled in" in page
    assert "one is drawn for you at random" in consent
    assert "region, age, born, weight" in consent
    # The best guess from one answer to the question of two categories.
    guess = best_guess(subset_selection_matrix(2, 1, survey.budget.epsilon), np.array(survey.questions[1].shares))
    cells = re.findall(r"<tr><td>Did you drive.*?</td><td>(\d+) %</td><td>(\d+) %</td></tr>", consent)
    assert cells == [("67", f"{100 * guess:.0f}")]


def test_devices_waves_and_pairs_change_the_texts(tmp_path):
    devices = survey_of(a=("on_devices = false", "on_devices = true"), b=("same = false", "same = true"))
    consent, officer = pages(devices, tmp_path / "devices")
    assert "Your true answer never leaves your device." in consent
    assert "in a file that we hold" not in consent
    assert "We ask you 3 times in all." in consent
    assert "central collection" not in officer
    assert "nobody's true answer was collected" in protection_in_words(devices)[0]
    pair = survey_of(a=('spend = "auto"', 'spend = "pair"'))
    assert "two are drawn for you at random" in pages(pair, tmp_path / "pair")[0]
    assert values_of(pair)["answer_epsilon"] == "1"
    assert "two questions were drawn" in protection_in_words(pair)[2]


def test_text_of_a_survey_is_escaped_and_nothing_is_overwritten(tmp_path, capsys):
    hostile = survey_of(a=("Health and habits", "<script>alert(1)</script>"))
    raw = write_texts(hostile, tmp_path)[0].read_text(encoding="utf-8")
    assert "<script>" not in raw
    with pytest.raises(FileExistsError, match="folder must"):
        write_texts(hostile, tmp_path)
    path = tmp_path / "survey.toml"
    path.write_text(EXAMPLE, encoding="utf-8")
    done = run_here(capsys, "survey", "texts", path, "--out", tmp_path / "texts")
    assert done.returncode == 0, done.stderr
    assert "checked by a lawyer" in " ".join(done.stdout.split())


def test_large_budgets_are_never_told_as_certainty():
    for epsilon in (0.5, 4.0, 8.0, 20.0):
        sure = values_of(survey_of(a=("epsilon = 2.0", f"epsilon = {epsilon}")))["sure"]
        assert 100 / (1 + math.exp(-epsilon)) <= float(sure.removesuffix(" %")) < 100
