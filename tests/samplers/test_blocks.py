"""Moves of blocks against quadrature, against NUTS, and against their own pieces."""

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad

import adobest_pp as ad
from adobest_pp.likelihood import core
from adobest_pp.likelihood.marginal import grid_posterior
from adobest_pp.samplers import blocks


def answered(mechanism, n, seed, fall=1.0):
    rng = np.random.default_rng(seed)
    shares = np.arange(1.0, mechanism.n_categories + 1) ** -fall
    people = rng.choice(shares.size, size=n, p=shares / shares.sum())
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(people, rng=rng))


@pytest.mark.parametrize(
    ("mechanism", "rho"),
    [
        (ad.SRR(3, epsilon=1.0), 0.3),
        (ad.HadamardResponse(3, epsilon=1.0), 1.0),
        (ad.SubsetSelection(3, epsilon=2.0), 3.0),
    ],
    ids=repr,
)
def test_draws_have_the_posterior_of_a_grid(mechanism, rho):
    """Means and sds within 4.5 standard errors: one run in some ten thousand fails by chance."""
    responses = answered(mechanism, 300, 1)
    exact = grid_posterior(responses, rho, cells=300)
    tree = ad.sample(responses, "blocks", rho, draws=4000, tune=500, chains=4, random_seed=2, progressbar=False)
    theta = tree.posterior.theta
    from arviz_stats.base import array_stats

    effective = array_stats.ess(theta.values, chain_axis=0, draw_axis=1)
    flat = theta.values.reshape(-1, 3)
    assert (np.abs(flat.mean(axis=0) - exact.mean()) < 4.5 * exact.sd() / np.sqrt(effective)).all()
    np.testing.assert_allclose(flat.std(axis=0), exact.sd(), rtol=4.5 * np.sqrt(1 / effective.min()))


@pytest.mark.parametrize("mechanism", [ad.HadamardResponse(12, epsilon=2.0), ad.RRRR(8, epsilon=2.0)], ids=repr)
def test_the_learned_prior_is_that_of_nuts(mechanism):
    """As above, with the errors of both."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(3)
    subset = {"subset": [0, 1]} if mechanism.publishes_subset else {}
    responses = ad.Responses(mechanism)
    responses.append(mechanism.privatize(rng.integers(3, size=2000) ** 2, rng=rng, **subset), **subset)
    found = []
    for sampler, draws in (("blocks", 3000), ("nuts", 1000)):
        options = {"draws": draws, "tune": 500, "chains": 2, "random_seed": 4, "progressbar": False}
        posterior = ad.sample(responses, sampler, "learned", **options).posterior
        theta, log_a = posterior.theta.values, np.log(posterior.concentration.values)
        values = np.dstack([theta, theta**2, log_a, log_a**2])
        effective = array_stats.ess(values, chain_axis=0, draw_axis=1)
        found.append((values.mean(axis=(0, 1)), values.std(axis=(0, 1)) / np.sqrt(effective)))
    (mean, error), (other, other_error) = found
    assert (np.abs(mean - other) < 4.5 * np.hypot(error, other_error)).all()


def test_a_table_is_a_density():
    a = 0.2
    sums = np.zeros((blocks.N_FALLING + blocks.N_EVEN, blocks.EDGES.size))
    heights = np.empty_like(sums)
    for beta in (-30.0, -2.03, 0.0, 3.14, 5.99):
        below = math.exp(blocks._log_q(blocks.LOG_FIRST_EDGE - 1e-9, a, beta, sums, heights)) / a
        inside = [
            math.exp(blocks._log_q(x, a, beta, sums, heights) - (0.0 if x < 0 else x)) * width
            for x, width in zip(blocks.LOG_MIDDLES[1:], blocks.WIDTHS[1:], strict=True)
        ]
        assert below + sum(inside) == pytest.approx(1.0, abs=1e-6)
        # And it is near the one that it stands for.
        ratio = [
            blocks._log_q(x, a, beta, sums, heights) - (a * x + beta * math.exp(x) - 0.5 * math.exp(2 * x))
            for x in np.log([1e-9, 1e-3, 0.1, 0.5, 1.0, 2.0])
        ]
        assert np.ptp(ratio) < (0.4 if beta > -10 else 3.0)
    held = quad(lambda x: math.exp(blocks._log_q(x, a, 9.0, sums, heights)), -5, 5, points=[2.2])[0]
    assert held == pytest.approx(1.0, abs=1e-6)


def test_a_table_draws_what_it_says():
    """Shares of 40,000 draws below some places, within 4.5 standard errors."""
    a, n, state = 0.2, 40_000, blocks.seed_state(11)
    sums = np.zeros((blocks.N_FALLING + blocks.N_EVEN, blocks.EDGES.size))
    heights = np.empty_like(sums)
    for beta in (-3.0, 0.02, 4.0):
        drawn = np.array([blocks._draw(state, a, beta, sums, heights) for _ in range(n)])
        row = sums[blocks.row_of(beta)] / sums[blocks.row_of(beta), -1]
        for j in (0, 30, blocks.N_LOGARITHMIC, blocks.N_LOGARITHMIC + 20):
            error = math.sqrt(max(row[j] * (1 - row[j]), 1e-4) / n)
            assert np.mean(drawn < math.log(blocks.EDGES[j])) == pytest.approx(row[j], abs=4.5 * error)


def test_a_quantile_moves_there_and_back():
    k, log_edge = 100, math.log(0.01)
    levels = np.empty((2, blocks.N_LEVELS))
    blocks._fill_quantiles(0.1, k, log_edge, levels[0])
    blocks._fill_quantiles(0.3, k, log_edge, levels[1])
    for x in log_edge - np.array([1e-9, 0.01, 1.0, 5.0, 11.9, 12.1, 50.0]):
        moved, slope = blocks._moved_quantile(x, 0.1, log_edge, levels[0], 0.3, levels[1])
        back, back_slope = blocks._moved_quantile(moved, 0.3, log_edge, levels[1], 0.1, levels[0])
        assert back == pytest.approx(x, abs=1e-9)
        assert slope == pytest.approx(-back_slope, abs=1e-9)
        nudged = blocks._moved_quantile(x - 1e-7, 0.1, log_edge, levels[0], 0.3, levels[1])[0]
        assert (moved - nudged) / 1e-7 == pytest.approx(math.exp(slope), rel=1e-3)


def test_the_diagonal_of_the_information_is_that_of_the_matrix():
    for mechanism in (ad.HadamardResponse(12, epsilon=1.0), ad.SRR(5, epsilon=1.0), ad.SubsetSelection(8, epsilon=1.0)):
        evidence = answered(mechanism, 500, 5).evidence()
        theta = np.random.default_rng(6).dirichlet(np.ones(mechanism.n_categories))
        relative = evidence.matrix() / (evidence.matrix() @ theta)[:, None] - 1
        np.testing.assert_allclose(core.information_diagonal(theta, evidence), evidence.count @ relative**2, rtol=1e-9)


def test_a_run_repeats_and_says_what_it_was():
    responses = answered(ad.HadamardResponse(300, epsilon=2.0), 20_000, 7)
    assert responses.evidence().structure.size
    trees = [
        ad.sample(responses, "blocks", "learned", draws=50, tune=50, chains=2, random_seed=8, progressbar=False)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(trees[0].posterior.theta, trees[1].posterior.theta)
    record = json.loads(trees[0].attrs["sampler_choices"])
    assert {*record} == {"block_size", "accepted_blocks", "accepted_concentrations"}
    assert all(0.1 < rate < 0.9 for rate in record["accepted_blocks"])
    assert trees[0].posterior.theta.values.min() > 0


def test_several_concentrations_are_refused():
    responses = answered(ad.SRR(3, epsilon=1.0), 10, 9)
    with pytest.raises(ValueError, match="prior must be one concentration"):
        ad.sample(responses, "blocks", [1.0, 1.0, 2.0], progressbar=False)
