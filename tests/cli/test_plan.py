"""``adobest plan`` and ``adobest mechanisms``, as a person runs them."""

import json
import math
from importlib import import_module

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.estimates import people_for_association
from tests.cli.test_main import run_here

PLAN = ("plan", "--categories", 4, "--mechanism", "srr", "--mechanism", "unary-encoding")


def test_a_plan_is_what_the_library_makes(capsys):
    done = run_here(
        capsys, "plan", "--epsilon", 1, "--half-width", 0.02, "--categories", "a,b,c,d", "--seed", 1, "--json"
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    made = ad.plan("uneven", epsilon=1.0, half_width=0.02, categories=list("abcd"), random_seed=1)
    assert [row["mechanism"] for row in content["plans"]] == made.table["mechanism"].values.tolist()
    for row in content["plans"]:
        assert {"mechanism", "epsilon", "people", "half_width"} <= set(row)
        assert row["people"] == made.table["people"].sel(mechanism=row["mechanism"]).item()
        assert row["epsilon"] == 1
        assert row["best_guess"] == made.table["best_guess"].sel(mechanism=row["mechanism"]).item()
        assert row["error"] == made.table["error"].sel(mechanism=row["mechanism"]).item()
    assert content["recommended"] == made.recommended
    assert content["found"] == "people"
    assert list(content["theta"]) == list("abcd")


def test_the_error_of_a_simulation_is_shown(capsys, monkeypatch):
    def widths(candidate, theta, people, prior, rng):
        return np.full(theta.size, rng.uniform(0.01, 0.03))

    monkeypatch.setattr(import_module("adobest_pp.design.plan"), "simulated_half_widths", widths)
    done = run_here(capsys, *PLAN, "--people", 50, "--epsilon", 1, "--shape", "sparse", "--seed", 1)
    flat = " ".join(done.stdout.split())
    assert " ± 4% " in flat or " ± 5% " in flat
    assert "“error”: the standard error of the half-width in the simulation; it depends on the seed." in flat


def test_it_says_what_epsilon_means_for_a_person(capsys):
    done = run_here(capsys, *PLAN, "--people", 50_000, "--epsilon", 2, "--shape", "even")
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert f"at most e^ε = {math.exp(2):.3g}; from 1:1 to at most {math.exp(2):.3g}:1, or 88 %" in flat
    assert f"twice costs 2ε = 4: a factor of at most {math.exp(4):.3g}" in flat
    guess, bound = ad.SRR(4, 2.0).best_guess([0.25] * 4), ad.mechanisms.guess_bound(2.0, [0.25] * 4)
    assert f"sees one answer guesses the person's category right with a probability of {100 * guess:.0f} %" in flat
    assert f"without the answer it is 25 %, and no mechanism of this ε allows more than {100 * bound:.0f} %" in flat
    assert "Take srr: the simplest" in flat
    assert "Without any privacy it would be a half-width of" in flat


def test_the_figure_is_written_and_never_overwritten(capsys, tmp_path):
    target = tmp_path / "plan.png"
    line = (*PLAN, "--people", 50_000, "--half-width", 0.02, "--no-simulate", "--out", target)
    assert run_here(capsys, *line).returncode == 0
    assert target.read_bytes().startswith(b"\x89PNG")
    again = run_here(capsys, *line)
    assert again.returncode == 2
    assert "--out must" in again.stderr
    assert not again.stdout


def test_a_pilot_is_read(capsys, tmp_path):
    mechanism = ad.SRR(3, 4.0)
    answers = mechanism.privatize([0] * 300 + [1] * 200 + [2] * 100, rng=np.random.default_rng(1))
    ad.Responses.from_arrays(mechanism, answers, categories=["red", "green", "blue"]).to_netcdf(tmp_path / "pilot.nc")
    line = ("plan", "--responses", tmp_path / "pilot.nc", "--people", 50_000, "--epsilon", 1, "--mechanism", "srr")
    done = run_here(capsys, *line, "--json", "--seed", 1)
    assert done.returncode == 0, done.stderr
    shares = json.loads(done.stdout)["theta"]
    assert list(shares) == ["red", "green", "blue"]
    assert shares["red"] == pytest.approx(0.5, abs=0.06)


def test_each_answer_of_an_association_has_half_of_the_budget(capsys):
    done = run_here(capsys, "plan", "--association", 0.5, "--categories", 3, "--epsilon", 4, "--json")
    assert done.returncode == 0, done.stderr
    each, table = ad.SRR(3, 2.0), 0.5 / 9 + 0.5 / 3 * np.eye(3)
    assert json.loads(done.stdout)["people"]["srr"] == people_for_association(each, each, table)


def test_what_is_unreachable_is_null(capsys):
    line = (*PLAN[:3], "--theta", "0.4,0.3,0.2,0.1", "--people", 2000, "--half-width", 0.019, "--no-simulate", "--json")
    done = run_here(capsys, *line)
    rows = {row["mechanism"]: row for row in json.loads(done.stdout)["plans"]}
    assert rows["unary-encoding"]["epsilon"] is None
    assert rows["srr"]["epsilon"] > 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--categories", 4, "--people", 1000), "two of people, epsilon and half_width must be given"),
        (("--people", 1000, "--epsilon", 1), "--categories must be given"),
        (("--categories", 4, "--people", 1000, "--half-width", 0.001), "half_width must be above 0.0251"),
        (("--theta", "0.5,0.5", "--shape", "even", "--people", 9, "--epsilon", 1), "must not be given together"),
        (("--categories", 4, "--people", 1000, "--epsilon", 1, "--out", "a.txt"), "--out must end in .png"),
        (("--categories", "a,,b", "--people", 1000, "--epsilon", 1), "--categories must be labels"),
    ],
)
def test_impossible_plans_end_with_a_sentence(capsys, options, expected):
    done = run_here(capsys, "plan", *options)
    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout


def test_mechanisms_are_told_with_their_audits(capsys, tmp_path):
    done = run_here(capsys, "mechanisms", "--categories", 5, "--epsilon", 1, "--json", "--out", tmp_path / "all.svg")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    rows = {row["mechanism"]: row for row in content["mechanisms"]}
    assert list(rows) == [
        "srr",
        "subset-selection",
        "hadamard-response",
        "projective-geometry-response",
        "unary-encoding",
        "local-hashing",
        "count-mean-sketch",
        "rrrr",
        "design",
    ]
    assert content["proved"]
    for name, row in rows.items():
        assert row["holds"], name
        assert row["privacy_loss"] == pytest.approx(1, abs=1e-6)
        assert 0 < row["efficiency"] <= 1 + 1e-9
        assert row["when"]
    assert rows["srr"]["efficiency"] == pytest.approx(ad.efficiency(ad.SRR(5, 1.0), [0.2] * 5))
    assert rows["srr"]["best_guess"] == pytest.approx(math.e / (math.e + 4))
    assert rows["unary-encoding"]["bits"] == 5
    assert (tmp_path / "all.svg").read_text().count("<svg") == 1


def test_the_table_of_mechanisms_for_people(capsys):
    done = run_here(capsys, "mechanisms", "--categories", 3, "--epsilon", 1, "--theta", "0.8,0.1,0.1")
    assert done.returncode == 0, done.stderr
    assert "subset-selection" in done.stdout
    assert "100%" in done.stdout
    assert "BROKEN" not in done.stdout
    many = run_here(capsys, "mechanisms", "--categories", 25, "--epsilon", 1)
    assert "no bound is proved" in " ".join(many.stdout.split())
