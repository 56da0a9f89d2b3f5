"""One run by SGLD: what it shares with others, and what it is made of."""

from dataclasses import replace

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.online import simulate
from adobest_pp.samplers.schedules import ConstantSteps
from adobest_pp.studies import runs
from adobest_pp.studies.design import Cell

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
