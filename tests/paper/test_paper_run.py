"""The paper's run function: its study files, the runs of before bit for bit, and what the authors' program does."""

import csv
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import adobest_pp as ad
import oracles
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.samplers.sgld.settings import ConstantSteps
from adobest_pp.simulate import simulate_adaptive
from adobest_pp.studies import Run, cells_of, read_study, run_once
from validation.paper.methods import LABELS, UTILITIES, alpha_of, method_label
from validation.paper.paper_run import MEASURES, _check, paper_run, seed_of, truth_of
from validation.paper.published import published_epsilon2, published_mechanism

FOLDER = Path(__file__).parents[2] / "validation" / "paper"
STUDIES = {name: read_study(FOLDER / f"{name}.toml") for name in sorted(path.stem for path in FOLDER.glob("*.toml"))}
SEMI = [f"semi_adaptive_{alpha}" for alpha in (0.2, 0.6, 0.8, 0.9, 0.95)]
HONEST = {"K": 4, "epsilon": 1.0, "kappa": 0.9, "rho": 0.3, "method": "honest", "people_per_category": 50}
SRR = {name: value for name, value in HONEST.items() if name != "kappa"} | {"method": "nonadaptive"}


def measured(cell, *names):
    return paper_run(Run(1, 3, cell, names), **cell)


def key(cell):
    return tuple(cell.get(name) for name in ("K", "epsilon", "kappa", "rho", "method"))


def test_the_paper_is_there_whole():
    cells = cells_of(STUDIES["paper"])
    grid = set(product([10, 20], [0.5, 1.0, 5.0], [0.8, 0.9], [0.01, 0.1, 1.0], UTILITIES))
    grid |= set(product([10, 20], [0.5, 1.0, 5.0], [None], [0.01, 0.1, 1.0], ["nonadaptive", *SEMI]))
    assert {key(cell) for cell in cells} == grid
    assert len(cells) == len(grid) == 324
    assert {(cell["budgets"], cell["people_per_category"]) for cell in cells} == {("theorem1", 500)}


def test_the_quick_one_is_the_start_of_the_whole_one():
    whole, quick = STUDIES["paper"], STUDIES["paper_quick"]
    assert replace(quick, name=whole.name, runs=whole.runs) == whole
    assert (whole.runs, quick.runs) == (50, 3)


def test_as_published_has_settings_of_the_paper():
    whole, published = STUDIES["paper"], STUDIES["paper_as_published"]
    assert {key(cell) for cell in cells_of(published)} == {key(cell) for cell in cells_of(whole)}
    assert {cell["budgets"] for cell in cells_of(published)} == {"published"}
    assert (published.seed, published.settings) == (whole.seed, whole.settings)
    assert published.runs <= whole.runs


def test_equal_privacy_has_runs_of_the_paper():
    whole, part = STUDIES["paper"], STUDIES["equal_privacy"]
    assert all(cell in cells_of(whole) for cell in cells_of(part))
    assert (part.seed, part.settings) == (whole.seed, whole.settings)
    assert part.runs <= whole.runs
    assert {"tv", "exact_tv"} <= set(part.measures)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_run(name):
    STUDIES[name].check()
    assert STUDIES[name].name == name


def golden():
    with (Path(__file__).parent / "golden_runs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["paper", "paper_as_published", "equal_privacy"])
def test_runs_are_those_that_were_recorded(name):
    """75 runs of the program as it was when the paper's stores were made, with 50 people for each category.

    Sums may be rounded otherwise on another processor, which moves the last digits; other random numbers or another
    formula would move the first.
    """
    study = STUDIES[name]
    for row in (row for row in golden() if row["study"] == name):
        numbers = {n: float(row[n]) for n in ("epsilon", "kappa", "rho") if row[n]}
        cell = {"K": int(row["K"]), "method": row["method"], "people_per_category": 50} | numbers
        cell["budgets"] = "published" if name == "paper_as_published" else "theorem1"
        recorded = {measure: row[measure] for measure in MEASURES if row[measure]}
        found = run_once(replace(study, measures=tuple(recorded)), cell, int(row["run"]))
        assert found == pytest.approx({name: float.fromhex(text) for name, text in recorded.items()}, rel=1e-9), cell


@pytest.mark.parametrize("budgets", ["theorem1", "published"])
def test_semi_adaptive_spends_all_of_epsilon_inside_the_subset(budgets, monkeypatch):
    """As the authors' program does (AdOBEst_LDP.m, lines 32 to 34): ε₁ = ε and ε₂ = 0, which is κ = 1 and keeps ε."""
    asked = []

    def ask(theta, policy, **options):
        asked.append((policy.mechanism, policy.utility, policy.alpha, policy.schedule))
        return simulate_adaptive(theta, policy, **options)

    monkeypatch.setattr("validation.paper.paper_run.simulate_adaptive", ask)
    found = measured(SRR | {"method": "semi_adaptive_0.8", "budgets": budgets}, "true_epsilon")
    ((mechanism, *rest),) = asked
    assert found["true_epsilon"] == mechanism.epsilon == 1.0
    assert (mechanism.epsilon1, [mechanism.epsilon2(size) for size in range(1, 3)]) == (1.0, [0.0, 0.0])
    assert rest == ["semi_adaptive", 0.8, ConstantSteps(0.5 / 200) if budgets == "published" else None]


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 2.0}, {"kappa": 0.8}, {"method": "mse"}, {"budgets": "published"}, {"people_per_category": 7}],
    ids=str,
)
def test_cells_share_their_truths_and_nothing_else(change, monkeypatch):
    """So methods are compared in pairs, on the same θ*, with people and answers of their own."""
    asked = []
    monkeypatch.setattr(
        "validation.paper.paper_run.simulate_adaptive",
        lambda theta, *_, random_seed, **__: asked.append((theta, random_seed.entropy)) or pytest.skip(),
    )
    for cell in (HONEST, HONEST | change):
        with pytest.raises(pytest.skip.Exception):
            measured(cell, "tv")
    np.testing.assert_array_equal(asked[0][0], asked[1][0])
    assert asked[0][1] != asked[1][1]


def test_srr_of_the_program_is_srr_with_its_constant_step():
    cell = SRR | {"budgets": "published"}
    found = measured(cell, "tv", "mean_size", "true_epsilon")
    run = Run(1, 3, cell)
    theta = truth_of(run, 4, 0.3)
    settings = {"n_categories": 4, "kappa": None, "mechanism": "rrrr", "sampler": "sgld"}
    kept = {name: value for name, value in cell.items() if name != "K"}
    program, plain = (
        simulate_adaptive(
            theta,
            # With the empty subset only, κ is nowhere.
            AdaptiveSubset(ad.RRRR(4, 1.0, 0.3), "nonadaptive", schedule=schedule),
            n_people=200,
            final_updates=2000,
            random_seed=seed_of(run, **settings, **kept),
        ).chain_mean
        for schedule in (ConstantSteps(0.5 / 200), None)
    )
    assert found["tv"] == np.abs(program - theta).sum() / 2 != np.abs(plain - theta).sum() / 2
    assert found["mean_size"] == 0
    assert found["true_epsilon"] == pytest.approx(1.0, abs=1e-9)


def test_what_the_program_leaves_out_is_the_empty_subset():
    program = HONEST | {"epsilon": 5.0, "kappa": 0.8, "rho": 1.0, "method": "fisher"}
    sizes = [
        measured(program | {"budgets": budgets}, "mean_size")["mean_size"] for budgets in ("published", "theorem1")
    ]
    assert sizes[0] >= 1 > sizes[1]


@pytest.mark.parametrize(("k", "epsilon", "kappa"), [*product([10, 20], [0.5, 1.0, 5.0], [0.8, 0.9])])
def test_the_published_budgets_are_those_of_the_program_and_break_the_promise(k, epsilon, kappa):
    for size in range(k):
        assert published_epsilon2(size, epsilon, kappa) == oracles.program_epsilon2(size, epsilon, kappa)
    mechanism = published_mechanism(k, epsilon, kappa)
    assert mechanism.epsilon1 == kappa * epsilon
    assert mechanism.epsilon > epsilon + 0.3


def test_every_method_has_a_label():
    for cell in cells_of(STUDIES["paper"]):
        assert method_label(cell["method"]) != cell["method"]
    assert method_label("semi_adaptive_0.9") == "semi-adaptive α = 0.9"
    assert set(UTILITIES) <= set(LABELS)


@pytest.mark.parametrize("mass", ["0", "1", "0.5", "0.9999999", "0.12345678901", "1e-07"])
def test_a_mass_may_have_any_number_of_digits(mass):
    assert alpha_of(f"semi_adaptive_{mass}") == float(mass)
    with pytest.raises(ValueError, match=rf"written shortest, 'semi_adaptive_{mass}', got"):
        alpha_of(f"semi_adaptive_+{mass}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "honst"}, "method must be one of nonadaptive, .* got 'honst'"),
        ({"method": "semi_adaptive_1.5"}, "the mass .* number from 0 to 1, got 'semi_adaptive_1.5'"),
        ({"method": "semi_adaptive_-0"}, "written shortest, 'semi_adaptive_0', got 'semi_adaptive_-0'"),
        ({"method": "semi_adaptive_0.90"}, "written shortest, 'semi_adaptive_0.9', got 'semi_adaptive_0.90'"),
        ({"method": "nonadaptive"}, "kappa must be left out for 'nonadaptive', .* got 0.9 with 'nonadaptive'"),
        ({"kappa": None}, "kappa must be given for the six utilities, got None with 'honest'"),
        ({"kappa": 1.1}, "kappa must be a number above 0 and at most 1, got 1.1"),
        ({"budgets": "publshed"}, "budgets must be one of 'theorem1', 'published', got 'publshed'"),
        ({"budgets": "published", "method": "semi_adaptive_0.9"}, "kappa must be left out .* got 0.9 with 'semi"),
        ({"K": 1}, "n_categories must be an integer from 2"),
        ({"rho": 0}, "rho must be a positive number, got 0"),
        ({"people_per_category": 0}, "people_per_category must be an integer of at least 1"),
    ],
)
def test_what_cannot_be_run_is_refused(changes, message):
    _check(**HONEST)
    with pytest.raises(ValueError, match=message):
        _check(**HONEST | changes)
