"""Questions with an order and numbers in bins: from the file of people to the tables and the page."""

import csv
import html
import json

import numpy as np
import pytest

from adobest_pp.collect.people_table import NO_VALUE, as_bins
from adobest_pp.estimates import numbers_in_bins, ordered_quantiles
from adobest_pp.survey import collect_wave, read_answers, read_survey
from adobest_pp.survey.collecting import read_people
from adobest_pp.survey.results import estimate_survey
from tests.cli.test_main import run_here

LABELS, EDGES = ["never", "yearly", "monthly", "daily"], [0, 10, 20, 50]
HABITS = {"young": [0.65, 0.05, 0.25, 0.05], "old": [0.05, 0.05, 0.80, 0.10]}
DRINKS = {"young": [0.60, 0.20, 0.20], "old": [0.05, 0.05, 0.90]}

SURVEY = """\
title = "Habits"

[budget]
epsilon = 10.0
spend = "split"

[people]
expected = 1500
groups = ["age"]
weight = "weight"
missing = ["n/a"]

[margins.age]
young = 0.5
old = 0.5

[[questions]]
name = "habit"
text = "How often?"
labels = ["never", "yearly", "monthly", "daily"]
ordered = true

[[questions]]
name = "drinks"
text = "How many?"
bins = [0, 10, 20, 50]
"""


@pytest.fixture
def survey(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY, encoding="utf-8")
    return path


def write_people(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["habit", "drinks", "age", "weight"], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    return path


def person(**values):
    return {"habit": "never", "drinks": "1", "age": "young", "weight": "1"} | values


def simulate(rng):
    """Draw 1,200 young and 300 old people, who are half of the population each."""
    rows = []
    for age, n in (("young", 1200), ("old", 300)):
        places = rng.choice(3, size=n, p=DRINKS[age])
        drinks = rng.uniform(np.array(EDGES)[places], np.array(EDGES)[places + 1])
        habits = rng.choice(LABELS, size=n, p=HABITS[age])
        weights = rng.choice([0.9, 1.0, 1.1], size=n)
        for habit, number, weight in zip(habits.tolist(), drinks.tolist(), weights.tolist(), strict=True):
            rows.append(person(habit=habit, drinks=f"{number:.3f}".replace(".", ","), age=age, weight=weight))
    return rows


def stored(survey, name):
    """Return stored answers, and their weights after post-stratification, from the definition."""
    answers = read_answers(survey, "1", name)
    ages, weights = np.array(answers.public.answered["age"]), answers.weights("weight")
    for age in ("young", "old"):
        weights[ages == age] *= 0.5 / weights[ages == age].sum()
    return answers.responses, weights


def test_every_number_is_that_of_the_answers_and_holds_the_truth(survey, tmp_path, capsys):
    """All truths are at least five standard errors inside what is asserted: a false alarm has less than 1e-5."""
    people = write_people(tmp_path / "people.csv", simulate(np.random.default_rng(1)))
    for command in (("collect", survey, people, "--quiet"), ("report", survey, "--out", tmp_path / "report")):
        done = run_here(capsys, "survey", *command)
        assert done.returncode == 0, done.stderr
    with open(tmp_path / "report" / "scales.csv", encoding="utf-8-sig", newline="") as file:
        table = {(row["question"], row["measure"]): row for row in csv.DictReader(file)}
    quartiles = ["lower quartile", "median", "upper quartile"]
    assert [*table] == [*(("habit", each) for each in quartiles), *(("drinks", each) for each in ("mean", *quartiles))]
    # The same from the stored answers.
    responses, weights = stored(survey, "habit")
    found = ordered_quantiles(responses, weights=weights)
    for i, measure in enumerate(quartiles):
        row = table["habit", measure]
        expected = [found[name].values[i] for name in ("category", "lower", "upper")]
        assert [row[name] for name in ("value", "lower", "upper")] == expected
    responses, weights = stored(survey, "drinks")
    found = numbers_in_bins(responses, EDGES, weights=weights)
    for name, mean in (("value", "mean"), ("lower", "mean_lower"), ("upper", "mean_upper")):
        shown = [float(table["drinks", measure][name]) for measure in ("mean", *quartiles)]
        np.testing.assert_allclose(shown, [found[mean].item(), *found[name].values], rtol=1e-9)
    # The truth: half of the population is old, which a fifth of the sample is.
    assert [table["habit", each]["value"] for each in quartiles] == ["never", "monthly", "monthly"]
    assert [table["habit", each]["lower"] for each in quartiles] == ["never", "monthly", "monthly"]
    assert [table["habit", each]["upper"] for each in quartiles] == ["never", "monthly", "monthly"]
    shares = np.mean([*DRINKS.values()], axis=0)
    cumulated = np.concatenate([[0], np.cumsum(shares)])
    truth = {"mean": shares @ [5, 15, 35]}
    truth |= {each: np.interp(q, cumulated, EDGES) for each, q in zip(quartiles, (0.25, 0.5, 0.75), strict=True)}
    for measure, value in truth.items():
        row = table["drinks", measure]
        assert float(row["lower"]) <= value <= float(row["upper"]), measure
    assert float(table["drinks", "mean"]["value"]) == pytest.approx(truth["mean"], abs=2.5)
    _check_same_numbers(table, survey, tmp_path / "report", capsys)


def _check_same_numbers(table, survey, report, capsys):
    """Check that JSON, workbook, page and terminal have the numbers of the table."""
    content = json.loads((report / "estimates.json").read_text(encoding="utf-8"))
    assert content["questions"][1]["bins"] == EDGES
    page = html.unescape((report / "index.html").read_text(encoding="utf-8"))
    printed = " ".join(run_here(capsys, "survey", "estimate", survey).stdout.split())
    for row, plain in zip(table.values(), content["scales"], strict=True):
        assert [str(each) for each in plain.values()] == [*row.values()]
        assert f"<th>{row['measure']}</th><td>{row['in_words']}</td>" in page
        assert f"{row['measure']}, 1: {row['in_words']}" in printed
    assert "at or below the upper one. Only bins of numbers were kept" in page
    openpyxl = pytest.importorskip("openpyxl")
    assert "in estimates.json and estimates.xlsx." in page
    _, *rows = openpyxl.load_workbook(report / "estimates.xlsx")["scales"].iter_rows(values_only=True)
    for row, cells in zip(table.values(), rows, strict=True):
        value = row["value"] if row["question"] == "habit" else float(row["value"])
        assert cells[3] == value
    # Shares of neighbors are smoothed, and sum up to what quantiles are made of.
    result = estimate_survey(survey)
    for name in ("habit", "drinks"):
        dataset = result.datasets["1", name]
        assert dataset.attrs["ordered"] == 1
        responses, weights = stored(survey, name)
        cumulated = np.cumsum(dataset["share"].sel(group="everybody").values)[:-1]
        np.testing.assert_allclose(cumulated, ordered_quantiles(responses, weights=weights)["at_most"], atol=1e-6)


def test_numbers_are_in_the_bins_that_numpy_counts():
    edges = [-1.5, 0, 2, 10]
    texts = ["-1,5", "-1.0", "0", "", "1.999", "2", "10", "n/a", "1e1", ".5"]
    codes = as_bins(texts, "x", edges, ["n/a"])
    numbers = [float(text.replace(",", ".")) for text in texts if text not in ("", "n/a")]
    assert [i for i, code in enumerate(codes) if code == NO_VALUE] == [3, 7]
    np.testing.assert_array_equal(np.bincount(codes[codes >= 0]), np.histogram(numbers, edges)[0])
    np.testing.assert_array_equal(codes[codes >= 0], [0, 0, 1, 1, 2, 2, 2, 1])


@pytest.mark.parametrize("value", ["seventeen", "50.5", "-0.25", "1.234,5", "nan", "inf", "1e999", "77"])
def test_a_value_in_no_bin_is_refused_without_showing_it(survey, tmp_path, value):
    people = write_people(tmp_path / "people.csv", [person(), person(drinks="n/a"), person(drinks=value)])
    with pytest.raises(ValueError, match="question 'drinks': column 'drinks' must hold numbers from 0 to 50") as info:
        collect_wave(survey, people, progressbar=False)
    message = str(info.value)
    assert "not that of person 3 (it is not shown)" in message
    assert value not in message.replace("missing", "").replace("means", "")
    assert "\n" not in message
    assert info.value.__cause__ is None
    assert not (tmp_path / "survey-answers").exists()


def test_numbers_may_come_from_a_table_with_types(survey, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"habit": LABELS[:3], "drinks": [9.5, None, 50.0], "age": ["old"] * 3, "weight": [1.0] * 3}
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    found = read_people(read_survey(survey), tmp_path / "people.parquet")
    assert found.codes["drinks"].tolist() == [0, NO_VALUE, 2]


def test_bins_that_were_changed_after_asking_are_refused(survey, tmp_path):
    people = write_people(tmp_path / "people.csv", simulate(np.random.default_rng(2))[1100:1300])
    collect_wave(survey, people, progressbar=False)
    survey.write_text(SURVEY.replace("[0, 10, 20, 50]", "[0, 10, 20, 60]"), encoding="utf-8")
    with pytest.raises(ValueError, match="question 'drinks', wave '1': labels and bins must be those"):
        estimate_survey(survey)
