"""SGLD on models with observed variables of several lengths, of none, and of no concern to it."""

import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from tests.samplers import harness

RNG = np.random.default_rng(2)
LARGE, SMALL, SINGLE = RNG.poisson(4.0, size=40), RNG.poisson(4.0, size=25), 6
SHARES = np.array([1.5, 0.7])


def two_populations():
    """Two Gamma rates; the second is seen in both populations and in one more count. The slope is known."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, shape=2, default_transform=None)
        shift = pm.Normal("shift")
        pm.Poisson("large", rate[0] + rate[1], observed=pm.Data("counts", LARGE))
        pm.Poisson("small", rate[1], observed=SMALL)
        pm.Poisson("single", rate[1], observed=SINGLE)
        pm.Normal("unrelated", shift, observed=np.zeros(7))
    return model


def slope(rate, large, small, scales):
    by_sum = scales[0] * (large / rate.sum() - 1).sum()
    by_second = scales[1] * (small / rate[1] - 1).sum() + SINGLE / rate[1] - 1
    return 1 / rate - 1 + [by_sum, by_sum + by_second]


def test_each_population_has_a_batch_of_its_own_scaled_by_its_own_length():
    with two_populations() as model:
        step = ad.SGLD(model["rate"], batch_size=30)
    assert step.populations == (40, 25)
    gradient = step.estimator.gradient
    batch = np.r_[RNG.integers(0, 40, 30), RNG.integers(0, 25, 25)]
    expected = slope(SHARES, LARGE[batch[:30]], SMALL[batch[30:]], (40 / 30, 1.0))
    np.testing.assert_allclose(gradient(SHARES, batch, 1e-9), expected)
    everything = np.zeros(0, dtype=np.int64)
    np.testing.assert_allclose(gradient(SHARES, everything, 1e-9), slope(SHARES, LARGE, SMALL, (1, 1)))
    steps, batches, _ = step.settings.randomness(np.random.default_rng(1), 0, 500, step.populations, 2)
    np.testing.assert_allclose(steps, 0.5 / 40)
    assert batches.shape == (500, 55)
    assert set(batches[:, :30].ravel()) == set(range(40))
    assert set(batches[:, 30:].ravel()) == set(range(25))


def test_batches_follow_data_that_change_and_may_come_to_have_one_length():
    with two_populations() as model:
        step = ad.SGLD(model["rate"], batch_size=2)
        for n, populations in ((25, (25,)), (0, (0, 25))):
            model.set_data("counts", LARGE[:n])
            step.setup_chain(np.random.default_rng(0), 0, 1)
            assert step.populations == populations
            expected = slope(SHARES, LARGE[:n][[3, 4][:n]], SMALL[[3, 4]], (12.5, 12.5))
            np.testing.assert_allclose(step.estimator.gradient(SHARES, np.array([3, 4]), 1e-9), expected)


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [None, 20])
def test_the_posterior_of_two_populations(batch_size):
    """Of the second rate alone, whose posterior given both is Gamma; the rest of the model goes to other steps."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, default_transform=None)
        shift = pm.Normal("shift")
        for name, counts in (("large", LARGE), ("small", SMALL), ("single", SINGLE)):
            pm.Poisson(name, rate, observed=counts)
        pm.Normal("unrelated", shift, observed=np.zeros(7))
        options = {"batch_size": batch_size, "step_size": 0.003, "diffusion": "preconditioned", "updates_per_draw": 5}
        steps = [ad.SGLD(rate, **options), pm.Slice([shift])]
        quiet = {"progressbar": False, "compute_convergence_checks": False}
        trace = pm.sample(1000, tune=200, chains=2, cores=1, random_seed=1, step=steps, model=model, **quiet)
    total, n = 2 + LARGE.sum() + SMALL.sum() + SINGLE, 1 + 40 + 25 + 1
    mean, sd = total / n, np.sqrt(total) / n
    harness.check_moment(trace["posterior"]["rate"].values, "mean", mean, tolerance=0.1 * sd)
    harness.check_moment(trace["posterior"]["rate"].values, "sd", sd, tolerance=0.2 * sd)
    harness.check_moment(trace["posterior"]["shift"].values, "sd", np.sqrt(1 / 8))
