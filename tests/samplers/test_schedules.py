"""Schedules of one's own: broadcast, checked, and the paper's rebuilt from what is stored."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.samplers.sgld.settings import LangevinSettings, evaluate_schedule
from tests.strategies import simulated

RESPONSES = simulated(ad.SRR(3, 1.0), 20, seed=1)
SHORT = {"draws": 5, "tune": 1, "chains": 1, "random_seed": 1, "progressbar": False}


@pytest.mark.parametrize("schedule", [ad.ConstantSteps(0.5), ad.DecayingSteps(0.5), ad.PaperSteps()])
def test_checked_steps_are_those_of_the_schedule(schedule):
    updates, n = 1 + np.arange(6).reshape(3, 2), np.arange(3)[:, None]
    steps = evaluate_schedule(schedule, updates, n)
    assert steps.shape == (3, 2)
    np.testing.assert_array_equal(steps, schedule(updates, n))


def test_one_number_and_one_for_each_round_stand_for_all_updates():
    updates, n = 1 + np.arange(6).reshape(3, 2), np.arange(3)[:, None]
    np.testing.assert_array_equal(evaluate_schedule(lambda t, n: 1, updates, n), np.ones((3, 2)))
    np.testing.assert_array_equal(
        evaluate_schedule(lambda t, n: 1 / (n + 1), updates, n), [[1] * 2, [1 / 2] * 2, [1 / 3] * 2]
    )
    steps = evaluate_schedule(lambda t, n: 0.1, updates, n)
    assert steps.flags.c_contiguous
    assert steps.dtype == np.float64


def test_steps_go_on_where_the_last_block_ended():
    schedule = ad.DecayingSteps(0.5, 0.6)
    steps, _, _ = LangevinSettings.of(schedule=schedule).randomness(np.random.default_rng(1), 100, 3, [20], 2)
    np.testing.assert_array_equal(steps, schedule(np.array([101, 102, 103]), 20))


def test_a_schedule_that_returns_one_number_is_a_constant_step():
    one = ad.sample(RESPONSES, "sgld", schedule=lambda t, n: 0.001, **SHORT)
    two = ad.sample(RESPONSES, "sgld", step_size=0.001, **SHORT)
    np.testing.assert_array_equal(one["posterior"]["theta"], two["posterior"]["theta"])


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda t, n: -1.0, "returned -1.0"),
        (lambda t, n: np.where(t < 3, 0.1, np.nan), "returned nan"),
        (lambda t, n: np.inf, "returned inf"),
        (lambda t, n: 0 * t, "returned 0.0"),
        (lambda t, n: np.ones(7), r"returned an array of shape \(7,\)"),
        (lambda t, n: None, "returned None"),
        (lambda t, n: "small", "returned 'small'"),
    ],
)
def test_refuses_what_is_not_a_step_size(schedule, message):
    with pytest.raises(ValueError, match=f"schedule must be a function that returns positive numbers.*{message}"):
        ad.sample(RESPONSES, "sgld", schedule=schedule, **SHORT)
