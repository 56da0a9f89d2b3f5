"""SGLD with control variates where the prior is strong, or learned to be: shares that are all alike.

Moments are held to four Monte Carlo errors (one false alarm in 16 000 each, on fixed seeds) and 2 % of an sd.
"""

import math

import numpy as np
import pytest
from arviz_stats.base import array_stats

import adobest_pp as ad
import oracles
from adobest_pp._numerics import seed_state
from adobest_pp.samplers.checks import width_check
from adobest_pp.samplers.sgld_cv import sampler as sgld_cv
from adobest_pp.samplers.sgld_cv.dynamics import FULL, step_at
from tests.samplers import harness

BIAS = 0.02


def answered(mechanism, theta, n, seed):
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(theta), size=n, p=theta)
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(truth, rng=rng))


def even(mechanism, n, seed=1):
    return answered(mechanism, np.full(mechanism.n_categories, 1 / mechanism.n_categories), n, seed)


def sampled(responses, prior, sampler="sgld_cv", **settings):
    defaults = {"draws": 2000, "tune": 500, "random_seed": 3, "progressbar": False}
    return ad.sample(responses, sampler, prior, **(defaults | settings))


def warnings_of(caplog):
    """Of the sampler; that answers do not fit together is another matter."""
    return [record.getMessage() for record in caplog.records if "'sgld_cv'" in record.getMessage()]


# Draws


@pytest.mark.parametrize(
    ("mechanism", "n", "seed", "sizes"),
    [
        # Chains were frozen in these two: a floor of the scale put all coordinates at the end of their tables.
        (ad.SRR(10, 5.0), 100_000, 1, {}),
        (ad.SubsetSelection(10, 2.0), 20_000, 0, {}),
        # In this short run the sds were up to 2.5 times too large: the step was too long where a is large.
        (ad.UnaryEncoding(4, 1.0), 5000, 0, {"draws": 300, "tune": 300, "chains": 2, "random_seed": 0}),
    ],
    ids=["srr", "subset_selection", "unary_encoding"],
)
def test_even_shares_under_the_learned_prior_are_those_of_nuts(mechanism, n, seed, sizes, caplog):
    responses = even(mechanism, n, seed)
    trees = sampled(responses, "learned", **sizes), sampled(responses, "learned", "nuts")
    assert not warnings_of(caplog)
    quantities = [
        np.concatenate(
            [tree["posterior"]["theta"].values, np.log(tree["posterior"]["concentration"].values)[..., None]], axis=-1
        )
        for tree in trees
    ]
    for kind, value in (("mean", np.mean), ("sd", np.std)):
        found, exact = (value(draws, axis=(0, 1)) for draws in quantities)
        errors = [array_stats.mcse(draws, chain_axis=0, draw_axis=1, method=kind) for draws in quantities]
        tolerance = 4 * np.hypot(*errors) + BIAS * quantities[1].std(axis=(0, 1))
        assert (np.abs(found - exact) <= tolerance).all(), kind


def moments_on_a_grid(rows, rho):
    """Mean and sd of both shares, by the trapezoid rule: polynomials of a rule for Beta laws overflow at such ρ."""
    first = np.linspace(0, 1, 100_001)[1:-1]
    distinct, count = np.unique(rows, axis=0, return_counts=True)
    theta = np.stack([first, 1 - first])
    log_density = count @ np.log(distinct @ theta) + (rho - 1) * np.log(theta).sum(axis=0)
    mass = np.exp(log_density - log_density.max())
    mean = theta @ mass / mass.sum()
    return mean, np.sqrt(theta**2 @ mass / mass.sum() - mean**2)


@pytest.mark.parametrize("rho", [100.0, 1000.0, 30_000.0])
@pytest.mark.parametrize("theta", [(0.5, 0.5), (1.0, 0.0)], ids=["agrees", "contradicts"])
def test_strong_priors_are_the_exact_posterior(rho, theta, caplog):
    """Chains were frozen, or left the finite numbers from a start where the prior has nothing."""
    responses = answered(ad.SRR(2, 1.0), theta, 3000, seed=2)
    mean, sd = moments_on_a_grid(oracles.rows_of(responses), rho)
    draws = sampled(responses, rho)["posterior"]["theta"].values
    for i in range(2):
        harness.check_moment(draws[..., i], "mean", mean[i], BIAS * sd[i])
        harness.check_moment(draws[..., i], "sd", sd[i], BIAS * sd[i])
    assert not warnings_of(caplog)


# The step


def test_the_step_suits_every_concentration():
    """At any a the curvature, measured there, is at most what the step at that a is made for."""
    chain = sgld_cv.Chains(even(ad.SRR(6, 2.0), 5000).evidence(), "learned", 2, 0)
    chain.warm_up(300, lambda _: None)
    chosen, places = chain.choices, chain.x
    for a in (0.1, 1.0, 10.0, 1e3, 1e5):
        prior = chain.target.prior._replace(log_scale=np.array([math.log(a)]))
        there = chain.target._replace(prior=prior)
        met = sgld_cv.largest_curvature(places, there, FULL, seed_state(1))
        step = step_at(a, chosen.step, chosen.stiff_from, chosen.stiffness)
        # The power method may fall short of the largest eigenvalue by some percent, where the step was chosen.
        assert step * math.sqrt(met) <= 1.1 * sgld_cv.REACH
    assert step < chosen.step / 10


def test_steps_are_shorter_by_the_root_of_the_curvature():
    assert step_at(5.0, 0.6, 10.0, 3.0) == 0.6
    assert step_at(11.0, 0.6, 10.0, 3.0) == pytest.approx(0.3)
    assert step_at(1e9, 0.6, math.inf, 0.0) == 0.6


# Nothing wrong is silent


def test_frozen_chains_are_told(monkeypatch, caplog):
    made = sgld_cv.coordinates_of

    def frozen(*arguments):
        coordinates, x = made(*arguments)
        return coordinates._replace(factor=1e-5 * coordinates.factor), x

    monkeypatch.setattr(sgld_cv, "coordinates_of", frozen)
    evidence = even(ad.SRR(4, 2.0), 5000).evidence()
    sgld_cv.sgld_cv_draws(evidence, np.ones(4), 200, 140, 2, 1)
    expected = "The chains of 'sgld_cv' hardly move: draws of 4 of 4 categories are narrower than the answers allow"
    assert [message.split(";")[0] for message in warnings_of(caplog)] == [expected]


def test_too_narrow_draws_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    shares, n = np.array([0.5, 0.3, 0.2]), 10_000
    draws, information = rng.dirichlet(n * shares, size=200), np.diag(n / shares)
    flat = np.ones(3)
    assert not width_check(draws, flat, information).any()
    narrower = draws.mean(axis=0) + 0.1 * (draws - draws.mean(axis=0))
    assert width_check(narrower, flat, information).all()
    assert not width_check(narrower[:50], flat, information).any()
    # A prior that is as strong as a hundred times the answers allows it.
    assert not width_check(narrower, 100 * n * shares, information).any()


def test_a_share_beside_empty_ones_may_be_narrower_than_its_information():
    """θ ≤ 1 ends the posterior; and where only one category is held, there is no warning."""
    draws = np.random.default_rng(0).dirichlet([1000.0, 0.01, 0.01], size=500)
    assert not width_check(draws, np.full(3, 0.01), np.diag([1000.0, 1000.0, 1000.0])).any()


def run_of(virial):
    chains = len(virial)
    draws = np.full((chains, 300, 3), 1 / 3)
    return sgld_cv.ChainRuns(draws, draws[:, 0], np.zeros((chains, 1)), np.repeat(virial[..., None], 3, axis=2))


def test_bursts_do_not_excuse_their_own_bias():
    quiet = 1 + 0.2 * np.random.default_rng(0).standard_normal((2, 20))
    assert run_of(quiet).is_right()
    burst = quiet.copy()
    burst[0, 7] = 60.0
    bias, error = run_of(burst).bias
    assert (bias < 4.5 * error).all()  # its own error would excuse it
    assert not run_of(burst).is_right()


def test_a_chain_that_does_not_move_does_not_agree():
    theta = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 100))
    assert sgld_cv._agree(theta)
    assert sgld_cv._agree(np.concatenate([theta, np.zeros((4, 100, 1))], axis=2))  # an empty category
    theta[:] = theta[:, :1]
    assert not sgld_cv._agree(theta)
