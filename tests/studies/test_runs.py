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
        ).estimate
        for schedule in (ConstantSteps(0.5 / 200), None)
    )
    assert found["tv"] == np.abs(program - theta).sum() / 2 != np.abs(plain - theta).sum() / 2
    assert found["mean_size"] == 0
    assert found["true_epsilon"] == pytest.approx(1.0, abs=1e-9)
