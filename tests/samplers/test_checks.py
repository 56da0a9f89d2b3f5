"""Signs that draws are not of the posterior: chains that do not move, disagree, or stay in one of its modes."""

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy import special, stats

import adobest_pp as ad
import oracles
from adobest_pp.samplers import checks
from adobest_pp.samplers.checks import EMPTY, empty_category_check, rank_rhat
from oracles import rows_of
from tests.strategies import simulated

NAMES = ["a", "b", "c"]


def two(n_first, n_second, epsilon=1.0):
    return ad.Responses.from_arrays(ad.SRR(2, epsilon), np.repeat([0, 1], [n_first, n_second]))


def probabilities(responses, rho, i):
    """P(θ_i < e^−14) and P(θ_i > ½) of two categories, on a fine grid of log-odds that ends where nothing is left."""
    odds = np.concatenate(
        [-np.geomspace(60 / rho, 20, 4000), np.linspace(-20, 20, 4001)[1:-1], np.geomspace(20, 60 / rho, 4000)]
    )
    shares = special.expit(np.stack([odds, -odds], axis=1))
    if i:
        shares = shares[:, ::-1]
    rows = rows_of(responses)
    logs = np.array([oracles.log_likelihood(share, rows) for share in shares]) if len(rows) else np.zeros(odds.size)
    logs -= rho * (np.logaddexp(0, odds) + np.logaddexp(0, -odds))
    density = np.exp(logs - logs.max())
    parts = [odds <= -14, odds >= 0]
    return [np.trapezoid(density[part], odds[part]) / np.trapezoid(density, odds) for part in parts]


@pytest.mark.parametrize(
    ("responses", "rho"), [(two(70, 52), 1e-3), (two(70, 52), 0.03), (two(6, 1), 0.01), (two(400, 100, 4.0), 1e-3)]
)
def test_the_probabilities_of_empty_and_of_the_majority_are_those_of_quadrature(responses, rho):
    """Of two categories it depends on the answers alone, not on the draw, be it inside or at an end."""
    draws = np.array([[0.7, 0.3], [1.0, 0.0], [1e-300, 1.0]])
    checked = empty_category_check(draws, np.full((3, 2), rho), responses.evidence())
    by_hand = np.transpose([probabilities(responses, rho, i) for i in (0, 1)])
    np.testing.assert_allclose(checked.expected, by_hand, rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(checked.error, 0, atol=1e-12)
    np.testing.assert_allclose(checked.found, [[1 / 3, 1 / 3], [2 / 3, 1 / 3]])


def test_exact_draws_are_empty_as_often_as_they_should_be():
    """Everybody answers truthfully, so draws are Dirichlet(ρ + counts): within 4 standard errors of 100 draws."""
    prior = np.array([0.02, 0.05, 0.01, 0.03])
    responses = ad.Responses.from_arrays(ad.SRR(4, 30.0), np.array([0, 0, 0, 1]))
    rng = np.random.default_rng(1)
    draws = rng.dirichlet(prior + np.array([3, 1, 0, 0]), size=100)
    checked = empty_category_check(draws, np.broadcast_to(prior, draws.shape), responses.evidence())
    found, expected = checked.found[0], checked.expected[0]
    np.testing.assert_allclose(expected[:2], 0, atol=1e-3)
    exact = stats.beta(prior[2:], 4 + prior.sum() - prior[2:]).cdf(EMPTY)
    assert np.all(np.abs(found[2:] - exact) < 4 * np.sqrt(exact * (1 - exact) / 100))
    assert np.all(np.abs(checked.found - checked.expected) < 2 / np.sqrt(100))
    assert np.all(checked.error < 0.05)


def test_without_answers_it_is_the_prior():
    draws = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    checked = empty_category_check(draws, np.full((2, 3), 0.01), ad.Responses(ad.SRR(3, 1.0)).evidence())
    share = stats.beta(0.01, 0.02)
    np.testing.assert_allclose(checked.expected, [[share.cdf(EMPTY)] * 3, [share.sf(0.5)] * 3], rtol=1e-3)


def test_a_chain_at_a_corner_is_reported(caplog):
    """Most draws of the first share are exactly 1, where quadrature has a mean of 0.82 and an sd of 0.18."""
    ad.sample(two(70, 52), "nuts", prior=1e-3, draws=200, tune=300, random_seed=1, progressbar=False)
    messages = [record.getMessage() for record in caplog.records]
    assert any("'1' is empty in" in message and "instead of 44." in message for message in messages)
    assert any("have not converged" in message for message in messages)


def test_chains_that_agree_on_one_of_two_modes_are_reported(caplog):
    """Nothing is constant and all chains are alike, but draws without the third category, or with, are as likely."""
    responses = ad.Responses.from_arrays(ad.SRR(3, 1.0), np.repeat([0, 1, 2], [200, 130, 130]))
    rng = np.random.default_rng(1)
    inside = rng.dirichlet([37, 12, 12], size=(4, 200))
    outside = inside * [1, 1, 1e-20]
    outside /= outside.sum(axis=-1, keepdims=True)
    prior = np.full((800, 3), 1e-3)
    for draws in (inside, outside):
        checks._warn_of_modes(draws, prior, responses.evidence(), NAMES, "nuts")
        checks._warn_unless_converged(draws, "nuts")
    messages = [record.getMessage() for record in caplog.records]
    assert any("'c' is empty in 0.0% instead of" in message for message in messages)
    assert any("'c' is empty in 100.0% instead of" in message for message in messages)
    assert not any("converged" in message for message in messages)


@pytest.mark.parametrize("visits", [True, False])
def test_a_mode_with_a_tenth_of_the_posterior_is_not_missed_in_silence(visits):
    """Draws that never go to the other vertex are reported; independent ones are not, but for 1 run in 8000."""
    responses, rho = two(2, 0), 0.01
    assert 0.1 < probabilities(responses, rho, 0)[0] < 0.12
    grid = ad.likelihood.grid_posterior(responses, rho, 1000)
    masses = grid.mass * (visits | (grid.theta[:, 0] >= EMPTY))
    theta = np.random.default_rng(1).choice(grid.theta[:, 0], size=400, p=masses / masses.sum())
    draws = np.stack([theta, 1 - theta], axis=1).reshape(4, 100, 2)
    warned = checks._warn_of_modes(draws, np.full((400, 2), rho), responses.evidence(), NAMES[:2], "sgld_cv")
    assert warned is not visits


@pytest.mark.parametrize("seed", range(2))
def test_a_mode_of_two_percent_that_holds_most_of_the_variance_is_not_missed_in_silence(seed, caplog):
    """The sd of these draws was 0.22 to 0.36 of that of quadrature, in every chain, and nothing was said."""
    responses = two(7, 3)
    exact = ad.likelihood.grid_posterior(responses, 0.01, 1000)
    tree = ad.sample(responses, "sgld_cv", prior=0.01, random_seed=seed, progressbar=False)
    assert tree["posterior"]["theta"].values[..., 0].std() < 0.5 * exact.sd()[0]
    (message,) = [record.getMessage() for record in caplog.records if "missed" in record.getMessage()]
    assert "'0' is empty in 0.0% instead of 1.6%" in message
    assert message.endswith("so use a larger one, or 'nuts'.")


def test_a_mode_that_is_not_empty_is_missed_by_its_majority():
    """Of a share that most of the posterior has next to none of, the rest is a mode: neither side is empty there."""
    responses, rho = two(18, 12), 0.01
    empty, majority = probabilities(responses, rho, 1)
    rng = np.random.default_rng(1)
    share = rng.choice([1e-30, 0.1], size=(4, 1000), p=[empty, 1 - empty]) * rng.uniform(0.5, 1, size=(4, 1000))
    draws = np.stack([1 - share, share], axis=-1)
    assert majority > 5 * probabilities(responses, rho, 0)[0]
    assert checks._warn_of_modes(draws, np.full((4000, 2), rho), responses.evidence(), NAMES[:2], "sgld_cv")


def test_a_sparse_fit_that_is_right_is_not_reported(caplog):
    responses = simulated(ad.SRR(4, 2.0), 300, seed=1)
    ad.sample(responses, "nuts", prior=0.09, draws=300, tune=500, random_seed=1, progressbar=False)
    assert not any("missed" in record.getMessage() for record in caplog.records)


def test_draws_that_do_not_move_are_reported(caplog):
    theta = np.random.default_rng(1).dirichlet(np.ones(3), size=(4, 150))
    assert checks._warn_of_constants(theta, NAMES, "gibbs").all()
    assert not caplog.records
    theta[..., 1] = 0.0
    assert checks._warn_of_constants(theta, NAMES, "gibbs").tolist() == [True, False, True]
    assert "all draws of 'b' (0) are the same" in caplog.records[0].getMessage()


@pytest.mark.parametrize("fault", ["a chain that does not move", "a chain apart", "a trend", "slow", "no number"])
def test_chains_that_disagree_are_reported(fault, caplog):
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(4, 400, 2))
    checks._warn_unless_converged(theta, "nuts")
    checks._warn_unless_converged(theta[:1], "nuts")  # one chain says nothing about convergence
    assert not caplog.records
    if fault == "a chain that does not move":
        theta[1] = 0.3
    elif fault == "a chain apart":
        theta[1] += 2
    elif fault == "a trend":
        theta += np.linspace(0, 4, 400)[:, None]
    elif fault == "no number":
        theta[2, 7, 1] = np.nan
    else:
        theta = np.repeat(rng.normal(size=(4, 10, 2)), 40, axis=1)
    checks._warn_unless_converged(theta, "nuts")
    assert "have not converged" in caplog.records[0].getMessage()


@pytest.mark.parametrize("learned", [True, False])
def test_divergences_are_reported_with_what_works_there(learned, caplog):
    diverging = xr.Dataset({"diverging": (("chain", "draw"), [[False, True, False], [False, True, True]])})
    checks._warn_of_divergences(diverging, learned)
    (record,) = caplog.records
    assert "3 of 6 draws diverged" in record.getMessage()
    # `sample` refuses Gibbs sampling for the learned prior.
    assert ("'gibbs'" in record.getMessage()) == (not learned)


@pytest.mark.parametrize(
    ("rho", "diffusion"),
    [(0.2, "reflected"), pytest.param(0.2, "cox_ingersoll_ross", marks=pytest.mark.long), (1.0, "reflected")],
)
def test_reflections_that_make_small_shares_too_large_are_reported(rho, diffusion, caplog):
    """At zero a reflected step cannot hold the mass of a prior below 1, however short it is."""
    responses = two(95, 5, 3.0)
    steps = {"step_size": 0.02 / 100} if diffusion == "reflected" else {}
    options = {"batch_size": None, "diffusion": diffusion, "updates_per_draw": 50, "draws": 500, **steps}
    tree = ad.sample(responses, "sgld", prior=rho, tune=200, random_seed=1, progressbar=False, **options)
    grid = ad.likelihood.grid_posterior(responses, rho, 1000)
    shift = (tree["posterior"]["theta"].values[..., 1].mean() - grid.mean()[1]) / grid.sd()[1]
    biased = (rho, diffusion) == (0.2, "reflected")
    assert (abs(shift) > 0.5) == biased
    messages = [record.getMessage() for record in caplog.records if "coordinates at zero" in record.getMessage()]
    assert len(messages) == biased
    if biased:
        assert messages[0].endswith("use diffusion='cox_ingersoll_ross', or 'nuts'.")


@pytest.mark.parametrize(
    ("rho", "step", "answers"), [(0.2, 0.1, (100, 0)), (0.2, 0.003, (100, 0)), (0.2, 0.1, (50, 50))]
)
def test_steps_on_log_ratios_that_make_small_shares_too_wide_are_reported(rho, step, answers, caplog):
    """ln θ of an empty category spreads over 1/ρ below a cliff, which steps that suit the spread overshoot."""
    responses, rho = two(*answers, 3.0), 0.2
    options = {"batch_size": None, "diffusion": "log_ratio", "step_size": step, "updates_per_draw": 40}
    tree = ad.sample(responses, "sgld", prior=rho, draws=2000, tune=500, random_seed=1, progressbar=False, **options)
    right = ad.likelihood.grid_posterior(responses, rho, 1000).sd()[1]
    biased = (step, answers) == (0.1, (100, 0))
    assert (tree["posterior"]["theta"].values[..., 1].std() > 1.2 * right) == biased
    messages = [record.getMessage() for record in caplog.records if "are too wide" in record.getMessage()]
    assert len(messages) == biased


@pytest.mark.parametrize(("chains", "draws"), [(2, 100), (4, 61), (8, 4)])
def test_r_hat_of_all_categories_is_that_of_arviz(chains, draws):
    rng = np.random.default_rng(chains)
    values = rng.standard_normal((chains, draws, 5))
    values[..., 1] = np.exp(20 * values[..., 1])
    values[0, :, 2] += 3
    values[1, :, 3] *= 5
    values[..., 4] = np.round(values[..., 4])
    ours, theirs = rank_rhat(values), array_stats.rhat(values, chain_axis=0, draw_axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert (ours[2:4] > 1.1).all()


def test_chains_that_do_not_move_or_have_nan_never_agree():
    values = np.random.default_rng(1).standard_normal((2, 50, 3))
    values[0, 3, 0] = np.nan
    values[..., 1] = 2.0
    assert (rank_rhat(values) <= 10).tolist() == [False, False, True]
