"""One run by SGLD: what it shares with others, and what it is made of."""

from dataclasses import replace

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.mechanisms import audit
from adobest_pp.online import simulate
from adobest_pp.samplers.schedules import ConstantSteps
from adobest_pp.studies import runs
from adobest_pp.studies.grid import Cell
from adobest_pp.studies.published import published_mechanism

HONEST = Cell(4, 1.0, 0.9, 0.3, "rrrr", "honest", "flat", "sgld", "theorem1", 50)
SRR = replace(HONEST, method="nonadaptive", kappa=None)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 2.0},
        {"kappa": 0.8},
        {"method": "mse"},
        {"budgets": "published"},
        {"sampler": "exact"},
        {"people_per_category": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_cells_share_their_truths_and_nothing_else(change):
    """So methods are compared in pairs, on the same θ*, with people and answers of their own."""
    other = replace(HONEST, **change)
    np.testing.assert_array_equal(runs.truth_of(1, other, 3), runs.truth_of(1, HONEST, 3))
    assert runs.seed_of(1, other, 3).entropy != runs.seed_of(1, HONEST, 3).entropy


def test_every_run_has_its_own_truth_and_people():
    seen = [(1, HONEST, 3), (2, HONEST, 3), (1, HONEST, 4), (1, replace(HONEST, rho=0.4), 3)]
    seen.append((1, replace(HONEST, n_categories=5), 3))
    assert len({tuple(runs.truth_of(*one)) for one in seen}) == len(seen)
    assert len({runs.seed_of(*one).entropy for one in seen}) == len(seen)
    # From random numbers of its own: from the same ones, a ρ that is hardly another would give hardly another truth.
    near = replace(HONEST, rho=HONEST.rho + 1e-12)
    assert not np.allclose(runs.truth_of(1, near, 3), runs.truth_of(1, HONEST, 3), atol=1e-3)


def test_srr_of_the_program_is_srr_with_its_constant_step():
    cell = replace(SRR, budgets="published")
    found = runs.run_once(cell, 1, 3, ["tv", "mean_size", "true_epsilon"])
    theta = runs.truth_of(1, cell, 3)
    program, plain = (
        simulate(
            theta,
            ad.RRRR(4, 1.0, 0.3),  # with the empty subset only, κ is nowhere
            "nonadaptive",
            n_people=200,
            schedule=schedule,
            final_updates=2000,
            random_seed=runs.seed_of(1, cell, 3),
        ).chain_mean
        for schedule in (ConstantSteps(0.5 / 200), None)
    )
    assert found["tv"] == np.abs(program - theta).sum() / 2 != np.abs(plain - theta).sum() / 2
    assert found["mean_size"] == 0
    assert found["true_epsilon"] == pytest.approx(1.0, abs=1e-9)


def test_the_true_epsilon_of_a_run_is_the_greatest_of_the_subsets_that_it_published():
    """Not the least, nor that of sizes which were never published: with published budgets each size has its own."""
    mechanism = published_mechanism(5, 1.0, 0.8)
    losses = {row.size: row.loss for row in audit(mechanism).rows}
    assert losses[1] > losses[2] > losses[3] > losses[4]
    outcome = runs._Outcome(ad.Responses(mechanism), np.array([3, 2, 4, 2], dtype=np.int32), None)
    assert runs._measure("true_epsilon", outcome, np.full(5, 0.2)) == losses[2]


def test_what_the_program_leaves_out_is_the_empty_subset():
    program = Cell(4, 5.0, 0.8, 1.0, "rrrr", "fisher", "flat", "sgld", "published", 50)
    sizes = [
        runs.run_once(cell, 1, 3, ["mean_size"])["mean_size"]
        for cell in (program, replace(program, budgets="theorem1"))
    ]
    assert sizes[0] >= 1 > sizes[1]


def test_a_share_that_is_next_to_nothing_and_an_exact_zero_give_the_same_run(monkeypatch):
    """Below ρ = 0.1 NumPy's Dirichlet returns zeros, and draws through logarithms 1e-200: nobody holds either."""
    found = []
    for least in (0.0, 1e-200):
        theta = np.array([least, 0.7, least, 0.3])
        monkeypatch.setattr(runs, "truth_of", lambda *_, theta=theta: theta)
        found.append(runs.run_once(HONEST, 1, 3, ["tv", "mean_size", "honest"]))
    assert found[0] == found[1]
