"""A whole survey by commands alone, from its file to the report; every number is checked against the simulation."""

import csv
import html
import json
import math
import re
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from adobest_pp import SRR, Responses
from adobest_pp.answers.store import PublicColumns
from adobest_pp.estimates import association, pooling
from adobest_pp.survey import Survey, read_answers
from adobest_pp.survey.collecting import Answers
from adobest_pp.survey.pages import overview
from adobest_pp.survey.results import estimate_answers, estimate_survey
from tests.cli.test_main import run_here
from validation.simulated_survey import (
    AGES,
    CELLS,
    LABELS,
    REGIONS,
    WAVES,
    rows_of,
    simulate,
    survey_text,
    truth_of,
    write_people,
)

SHIFTS = dict(zip(WAVES, (0.0, 0.15, 0.3), strict=True))


def run_survey(folder, capsys, n, seed, epsilon=3.0):
    """Run a survey by commands, and return what was simulated by wave."""
    path, rng = folder / "survey.toml", np.random.default_rng(seed)
    path.write_text(survey_text(n, epsilon), encoding="utf-8")
    simulated = {}
    for i, wave in enumerate(WAVES):
        simulated[wave] = simulate(n, rng, shift=SHIFTS[wave])
        people = folder / f"people-{wave}.csv"
        write_people(people, rows_of(simulated[wave], rng, first_id=n * i))
        for command in (("check", path, "--people", people), ("collect", path, people, "--wave", wave, "--quiet")):
            done = run_here(capsys, "survey", *command)
            assert done.returncode == 0, done.stderr
    for command in (("plan", path), ("report", path, "--out", folder / "report")):
        done = run_here(capsys, "survey", *command)
        assert done.returncode == 0, done.stderr
    return simulated


def table_of(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def naming(k, d, epsilon):
    """Return how likely an answer of subset selection names the true category, and another one, from the definition."""
    odds = math.exp(epsilon)
    total = odds * comb(k - 1, d - 1) + comb(k - 1, d)
    other = odds * (comb(k - 2, d - 2) if d > 1 else 0) + comb(k - 2, d - 1)
    return odds * comb(k - 1, d - 1) / total, other / total


def direct_estimate(answers, people, rows, label, column):
    """Return the weighted shares of a group and its effective people, from the answers and the definition."""
    mechanism = answers.responses.mechanism
    k, d = mechanism.n_categories, mechanism.size
    truth, other = naming(k, d, mechanism.epsilon)
    sets = np.zeros((len(rows), k))
    np.put_along_axis(sets, answers.responses.answers.reshape(len(rows), -1), 1.0, axis=1)
    cells = [CELLS[i] for i in people.cells[rows - 1]]
    weights = np.round(people.weights[rows - 1], 6)
    for age, share in AGES.items():
        mine = np.array([cell[1] == age for cell in cells])
        weights[mine] *= share / weights[mine].sum()
    if column:
        weights *= [cell[("region", "age").index(column)] == label for cell in cells]
    shares = weights @ ((sets - other) / (truth - other)) / weights.sum()
    return shares, weights.sum() ** 2 / (weights**2).sum()


def check_report(folder, simulated, n):
    """Check every number of a report, and return how many intervals hold the truth, of how many."""
    survey, report = folder / "survey.toml", folder / "report"
    estimates, changes, response = (table_of(report / f"{name}.csv") for name in ("estimates", "changes", "response"))
    left_out = json.loads((report / "estimates.json").read_text(encoding="utf-8"))["left_out"]
    assert all(each["people"] < 15 for each in left_out)  # who answers what is drawn at random, so a group may be small
    rows = len(estimates) + sum(len(LABELS[each["question"]]) for each in left_out)
    assert rows == len(WAVES) * (1 + len(REGIONS) + len(AGES)) * sum(map(len, LABELS.values()))
    truth = {(wave, name): truth_of(name, SHIFTS[wave]) for wave in WAVES for name in LABELS}
    inside = []
    for wave, people in simulated.items():
        drawn = np.zeros(n, dtype=int)
        for name, labels in LABELS.items():
            answers = read_answers(survey, wave, name)
            rows, silent = (np.array(part["row"]) for part in answers.public)
            # Who was asked, and who gave no answer, by group.
            drawn[rows - 1] += 1
            drawn[silent - 1] += 1
            assert (people.codes[name][rows - 1] >= 0).all()
            assert (people.codes[name][silent - 1] < 0).all()
            for row in response:
                if (row["wave"], row["question"]) == (wave, name):
                    mine = [_is_in(row, CELLS[cell]) for cell in people.cells]
                    gave, gave_none = (sum(mine[i - 1] for i in part) for part in (rows, silent))
                    assert (int(row["asked"]), int(row["answered"])) == (gave + gave_none, gave)
            # Every share and interval.
            for row in estimates:
                if (row["wave"], row["question"]) == (wave, name):
                    i = labels.index(row["category"])
                    shares, effective = direct_estimate(answers, people, rows, row["group"], row["column"])
                    assert float(row["direct"]) == pytest.approx(shares[i], abs=1e-9)
                    assert float(row["effective_people"]) == pytest.approx(effective, rel=1e-6)
                    assert int(row["people"]) == sum(_is_in(row, CELLS[cell]) for cell in people.cells[rows - 1])
                    assert 0 <= float(row["lower"]) <= float(row["share"]) <= float(row["upper"]) <= 1
                    share = truth[wave, name][row["column"], row["group"]][i]
                    inside.append(float(row["lower"]) <= share <= float(row["upper"]))
        assert (drawn == 1).all()  # one question was drawn for each person
    _check_changes(estimates, changes)
    _check_pages(report, estimates, changes)
    return sum(inside), len(inside)


def _is_in(row, cell):
    return not row["column"] or cell[("region", "age").index(row["column"])] == row["group"]


def _check_changes(estimates, changes):
    """Check changes against the formula of Zou and Donner."""
    everybody = {(row["wave"], row["question"], row["category"]): row for row in estimates if not row["column"]}
    assert len(changes) == (len(WAVES) - 1) * sum(map(len, LABELS.values()))
    for row in changes:
        ends = []
        for wave in (row["before"], row["after"]):
            found = everybody[wave, row["question"], row["category"]]
            low, high = float(found["lower"]), float(found["upper"])
            ends.append((min(max(float(found["direct"]), low), high), low, high))
        (p1, l1, u1), (p2, l2, u2) = ends
        assert float(row["change"]) == pytest.approx(p2 - p1, abs=1e-12)
        assert float(row["lower"]) == pytest.approx(p2 - p1 - math.sqrt((p2 - l2) ** 2 + (u1 - p1) ** 2), abs=1e-12)
        assert float(row["upper"]) == pytest.approx(p2 - p1 + math.sqrt((u2 - p2) ** 2 + (p1 - l1) ** 2), abs=1e-12)


def _check_pages(report, estimates, changes):
    """Check that all files of the report have the same numbers, to the last digit that they show."""
    content = json.loads((report / "estimates.json").read_text(encoding="utf-8"))
    for row, plain in zip(estimates, content["estimates"], strict=True):
        assert all(float(row[key]) == plain[key] for key in ("share", "lower", "upper", "direct", "privacy"))
    openpyxl = pytest.importorskip("openpyxl")
    sheet = openpyxl.load_workbook(report / "estimates.xlsx")["estimates"]
    header, *rows = sheet.iter_rows(values_only=True)
    place = header.index("share")
    # A workbook keeps 15 digits of a number.
    assert [each[place] for each in rows] == pytest.approx([float(row["share"]) for row in estimates], rel=1e-14)
    page = html.unescape((report / "index.html").read_text(encoding="utf-8"))
    shown = re.findall(r"<td>(\d+\.\d %) \(([^()]+)\)</td>", page)
    everybody = {(row["wave"], row["question"], row["category"]): row for row in estimates if not row["column"]}
    wanted = [everybody[wave, name, label] for name in LABELS for label in LABELS[name] for wave in WAVES]
    assert shown == [(f"{100 * float(row['share']):.1f} %", row["interval"]) for row in wanted]
    moved = re.findall(r": ([+-]\d+\.\d) points \(([+-]\d+\.\d) to ([+-]\d+\.\d)\)", page)
    expected = [tuple(f"{100 * float(row[key]):+.1f}" for key in ("change", "lower", "upper")) for row in changes]
    assert moved == expected
    for wave in WAVES:
        mine = [row for row in estimates if row["wave"] == wave]
        of_wave = table_of(report / wave / "estimate.csv")
        assert [row["share"] for row in of_wave] == [row["share"] for row in mine]
        page = html.unescape((report / wave / "report.html").read_text(encoding="utf-8"))
        cells = re.findall(r"<td[^>]*>(\d+\.\d %)<small>([^<]+)</small></td>", page)
        assert cells == [(f"{100 * float(r['share']):.1f} %", r["interval"]) for r in _by_row(mine)]


def _by_row(rows):
    """Return the rows of groups in the order of a page: by question, column and group."""
    return [row for row in rows if row["column"]]


def check_coverage(inside, of):
    """Intervals of 95 % hold the truth as often as they say; categories of a question depend on each other."""
    # With half as many independent pairs, the false-alarm rate is below one in 100,000.
    assert of - inside <= 2 * binom.ppf(1 - 1e-5, of // 2, 0.05)


@pytest.mark.long
def test_a_survey_goes_from_its_file_to_the_report_by_commands_alone(tmp_path, capsys, monkeypatch):
    n = 900
    monkeypatch.setattr(pooling, "SWEEPS", 100)  # the long test draws as many as people get
    simulated = run_survey(tmp_path, capsys, n, seed=11)
    check_coverage(*check_report(tmp_path, simulated, n))
    # Nothing is overwritten unasked, and a second run has the same numbers.
    report = tmp_path / "report"
    before = (report / "estimates.json").read_bytes()
    refused = run_here(capsys, "survey", "report", tmp_path / "survey.toml", "--out", report)
    assert refused.returncode == 2
    assert "--out must name a folder without a report" in refused.stderr
    done = run_here(capsys, "survey", "estimate", tmp_path / "survey.toml", "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / "estimates.json").read_bytes() == before
    printed = " ".join(done.stdout.split())
    assert "About cannabis?" in printed
    # x is in no file but that of the people.
    for path in [*report.rglob("*"), *(tmp_path / "survey-answers").rglob("*")]:
        if path.is_file():
            assert b"person-1" not in path.read_bytes(), path


@pytest.mark.long
def test_a_survey_of_3000_people_in_three_waves(tmp_path, capsys):
    simulated = run_survey(tmp_path, capsys, 3000, seed=12)
    check_coverage(*check_report(tmp_path, simulated, 3000))


def test_groups_of_one_are_left_out_and_named(tmp_path, capsys):
    path, rng = tmp_path / "survey.toml", np.random.default_rng(3)
    path.write_text(survey_text(200, 4.0, "split", ["1"]), encoding="utf-8")
    people = simulate(200, rng, blank=0.0)
    rows = rows_of(people, rng)
    for row in rows:
        row["region"] = "North"
    rows[7]["region"] = "Lonely"
    write_people(tmp_path / "people.csv", rows)
    assert run_here(capsys, "survey", "collect", path, tmp_path / "people.csv").returncode == 0
    assert run_here(capsys, "survey", "report", path, "--out", tmp_path / "report").returncode == 0
    rows = table_of(tmp_path / "report" / "estimates.csv")
    assert {row["group"] for row in rows if row["column"] == "region"} == {"North"}
    page = html.unescape((tmp_path / "report" / "index.html").read_text(encoding="utf-8"))
    assert "cannabis, 1, region: Lonely (1)" in page


def test_weights_and_margins_go_into_every_table(monkeypatch):
    """Two questions to the same people in different orders; nobody of the East has answered."""
    about = {
        "title": "Habits",
        "budget": {"epsilon": 6.0, "associations": True},
        "people": {"expected": 120, "weight": "w", "groups": ["region"]},
        "margins": {"region": {"North": 0.5, "South": 0.3, "East": 0.2}},
        "questions": [{"name": name, "text": name, "labels": ["no", "yes"]} for name in "ab"],
    }
    monkeypatch.setattr(pooling, "SWEEPS", 100)
    survey, rng = Survey.model_validate(about), np.random.default_rng(3)
    weights, regions, answers = rng.choice([1.0, 4.0], size=120), np.where(np.arange(120) % 3, "North", "South"), {}
    given = {"a": rng.integers(2, size=120)}
    given["b"] = np.where(weights > 1, given["a"], 1 - given["a"])
    wave = survey.waves[0]
    orders = {"a": np.arange(120), "b": rng.permutation(120)}
    for name, order in orders.items():
        public = {"person": order, "w": weights[order], "region": regions[order]}
        answered = {column: values.tolist() for column, values in public.items()}
        silent = {"person": [7, 500], "w": [1.0, 1.0], "region": ["South", "North"]}  # 7 has answered later
        responses = Responses.from_arrays(SRR(2, 3.0), given[name][order], categories=["no", "yes"])
        answers[wave, name] = Answers(responses, PublicColumns(answered, silent))
    result = estimate_answers(survey, answers)
    in_order = [Responses.from_arrays(SRR(2, 3.0), given[name], categories=["no", "yes"]) for name in "ab"]
    expected = association(*in_order, weights=weights, random_seed=1)["cramers_v"].item()
    assert result.associations["cramers_v"].item() == pytest.approx(expected)
    raked = weights.copy()
    for region, share in (("North", 0.5), ("South", 0.3)):
        raked[regions == region] *= share / raked[regions == region].sum()
    named = raked @ given["a"] / raked.sum()
    truth, other = SRR(2, 3.0).naming()
    shares = result.estimates.set_index(["question", "column", "group", "category"])["direct"]
    assert shares["a", "", "everybody", "yes"] == pytest.approx((named - other) / (truth - other))
    asked = result.response.set_index(["question", "column", "group"])
    assert asked.loc[("b", "", "everybody"), ["asked", "answered"]].tolist() == [121, 120]
    assert asked.loc[("b", "region", "North"), ["asked", "answered"]].tolist() == [81, 80]


def test_labels_in_another_order_than_people_were_asked_with_are_refused(monkeypatch):
    """Medians and quartiles go by the order."""
    monkeypatch.setattr(pooling, "SWEEPS", 100)
    question = {"name": "a", "text": "a", "labels": ["low", "middle", "high"], "ordered": True}
    about = {"title": "Habits", "budget": {"epsilon": 3.0}, "people": {"expected": 60}, "questions": [question]}
    survey = Survey.model_validate(about)
    responses = Responses.from_arrays(SRR(3, 3.0), np.arange(60) % 3, categories=["high", "low", "middle"])
    with pytest.raises(ValueError, match=r"question 'a', wave '.*': labels and bins must be those"):
        estimate_answers(survey, {(survey.waves[0], "a"): Answers(responses, PublicColumns({}, {}))})


@pytest.mark.long
def test_associations_are_those_of_people_who_answered_both(tmp_path, capsys):
    path, rng = tmp_path / "survey.toml", np.random.default_rng(5)
    text = survey_text(1200, 12.0, "pair", ["1"]).replace("spend =", "associations = true\nspend =")
    path.write_text(text, encoding="utf-8")
    people = simulate(1200, rng, blank=0.02)
    # Who drives after drinking is who uses cannabis; the other questions have nothing to do with each other.
    people.codes["drink_drive"][:] = np.where(people.codes["cannabis"] > 0, 1, 0)
    people.codes["debt"][:] = rng.choice(4, size=1200)
    people.codes["income_hidden"][:] = rng.choice(3, size=1200)
    write_people(tmp_path / "people.csv", rows_of(people, rng))
    assert run_here(capsys, "survey", "collect", path, tmp_path / "people.csv", "--quiet").returncode == 0
    result = estimate_survey(path)
    found = result.associations.set_index(["first", "second"])
    assert len(found) == 6
    assert 1200 * 0.7 < found["people"].sum() <= 1200
    assert found.loc[("cannabis", "drink_drive"), "cramers_v_lower"] > 0.6
    assert found.loc[("income_hidden", "debt"), "cramers_v_lower"] < 0.1
    page = html.unescape(overview(result, ["1"]))
    assert "<td>cannabis and drink_drive</td>" in page
    assert "they go together" in page


def test_a_survey_without_answers_is_told_in_one_sentence(tmp_path, capsys):
    path = tmp_path / "survey.toml"
    path.write_text(survey_text(100), encoding="utf-8")
    done = run_here(capsys, "survey", "estimate", path)
    assert done.returncode == 2
    assert "the survey must have answers, got none: adobest survey collect" in done.stderr
