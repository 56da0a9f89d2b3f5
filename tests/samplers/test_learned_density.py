"""The coordinates of a learned prior: their density against the definitions, and NUTS against quadrature."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import special, stats

import adobest_pp as ad
import oracles
from adobest_pp.samplers import nuts
from oracles import rows_of
from tests.samplers.test_densities import call
from tests.strategies import simulated

RESPONSES = simulated(ad.RRRR(5, 1.0), 100, seed=4)
ROWS = rows_of(RESPONSES)
EVIDENCE = RESPONSES.evidence()
SCALES = np.array([0.1, 0.03, 0.2, 0.05, 0.02])
SHIFTS = np.array([0.0, 1.0, 1.0, 0.0, 0.5])
MEAN, SD = -1.5, 0.7


def log_phi(coordinates, log_a):
    """ln φ from the definition: φ = s·L(u), L = −ln(1 − exp(−e^u)), u = w − c·ln a."""
    return np.log(SCALES) + np.log(-np.log1p(-np.exp(-np.exp(coordinates - SHIFTS * log_a))))


def by_hand(free):
    """The Dirichlet density of θ, as of ln θ, the normal ones of ln a and ln Σφ, and a Jacobian by differences."""
    w, log_a = free[:5], free[5]
    logs = log_phi(w, log_a)
    log_total = special.logsumexp(logs)
    theta = np.exp(logs - log_total)
    slopes = (log_phi(w + 1e-6, log_a) - log_phi(w - 1e-6, log_a)) / 2e-6
    a = np.exp(log_a)
    value = oracles.log_likelihood(theta, ROWS) + stats.norm(MEAN, SD).logpdf(log_a)
    value += stats.dirichlet(np.full(5, a)).logpdf(theta) + np.log(theta).sum() + np.log(-slopes).sum()
    return value + stats.norm(0, np.sqrt((SCALES**2).sum())).logpdf(log_total)


def points(n):
    """Categories that are held and such that are empty, and a small and large."""
    rng = np.random.default_rng(1)
    return np.column_stack([rng.normal(size=(n, 5)) * 2 - 1, rng.normal(size=n) - 1])


def test_the_density_is_the_posterior_on_the_coordinates():
    differences = [
        nuts.learned_log_density(free, SCALES, SHIFTS, MEAN, SD, EVIDENCE)[0] - by_hand(free) for free in points(8)
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-6)


def test_the_gradient_is_that_of_the_density():
    def value(free):
        return nuts.learned_log_density(free, SCALES, SHIFTS, MEAN, SD, EVIDENCE)[0]

    far = np.array([-60.0, -45.0, 3.69, 4.2, -3.0, -1.0])
    for free in [*points(5), far]:
        _, slope = nuts.learned_log_density(free, SCALES, SHIFTS, MEAN, SD, EVIDENCE)
        numeric = [(value(free + step) - value(free - step)) / 2e-6 for step in 1e-6 * np.eye(6)]
        np.testing.assert_allclose(slope, numeric, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("change", [[0, 0, 0, 0, 0, -760.0], [0, 0, 0, 0, 0, 800.0], [np.nan] * 6, [900.0] * 6])
def test_there_is_no_density_where_something_is_no_number(change):
    """A division by zero inside would be lost on the way to C, with value and gradient of another point and code 0."""
    block = nuts.pack(SCALES, SHIFTS, EVIDENCE, (MEAN, SD))
    assert call(points(1)[0] + change, block)[0] == 1


def test_the_coordinates_suit_the_answers():
    """SRR with ε = 2, and counts that are expected if three of five categories are held: s against theory."""
    mechanism, truth, n = ad.SRR(5, 2.0), np.array([0.5, 0.3, 0.2, 0.0, 0.0]), 10_000
    q = 1 / (np.exp(2.0) + 4)
    h = q + (np.exp(2.0) - 1) * q * truth
    answers = np.repeat(np.arange(5), np.round(n * h).astype(int))
    evidence = ad.Responses.from_arrays(mechanism, answers).evidence()
    scales, shifts, start = nuts.choose_coordinates(evidence, -1.0)
    # The variance of the unbiased estimator (share of answers y − q)/(p − q).
    np.testing.assert_allclose(scales, np.sqrt(h * (1 - h) / n) / ((np.exp(2.0) - 1) * q), rtol=0.02)
    assert shifts.tolist() == [0, 0, 0, 1, 1]
    theta = nuts.learned_theta(start, scales, shifts)
    np.testing.assert_allclose(theta, truth, atol=0.02)


# ε, the answers 0 and 1 of SRR with two categories, and whether at most one category may be empty.
DATA = [(0.5, 273, 227, True), (0.5, 600, 400, True), (1.0, 30, 3, True), (3.0, 200, 8, True)]
DATA += [(1.0, 10, 10, False), (1.0, 1, 0, False)]


@pytest.mark.parametrize(("epsilon", "zeros", "ones", "one_vertex"), DATA)
def test_nuts_agrees_with_quadrature_and_mixes(epsilon, zeros, ones, one_vertex):
    """Four statements each at 4 MCSE: one false alarm in 16 000 a piece, on fixed seeds.

    And a quarter of the draws must be effective: in the coordinates that fixed priors have, 2 to 15 % of those of ln a
    were (with ln a ~ N(−1, 1)), and its smallest percentile was off by 0.1 and more. Where either category may be
    empty, the posterior has two modes if a is small: about 17 % are effective and one draw in a thousand diverges, so
    that only agreement is asked for.
    """
    responses = ad.Responses.from_arrays(ad.SRR(2, epsilon), np.repeat([0, 1], [zeros, ones]))
    log_a, theta, weights = oracles.learned_posterior_k2(rows_of(responses))
    tree = nuts.sample_nuts(
        responses, prior="learned", draws=5000, tune=1000, chains=4, random_seed=5, progressbar=False
    )
    found, share = np.log(tree["posterior"]["concentration"].values), tree["posterior"]["theta"].values[..., 1]
    # At the middle of each cell of the grid.
    cumulative = weights.sum(axis=1).cumsum() - weights.sum(axis=1) / 2
    low, high = np.interp([0.02, 0.98], cumulative, log_a)
    expected = {
        "mean": weights.sum(axis=1) @ log_a,
        "low": 0.02,
        "high": 0.02,
        "empty": weights[theta > 1 - 1e-6].sum(),
    }
    draws = {"mean": found, "low": found < low, "high": found > high, "empty": share < 1e-6}
    for name, values in draws.items():
        error = max(array_stats.mcse(values.astype(float), method="mean"), 1 / values.size)
        assert abs(values.mean() - expected[name]) < 4 * error + 2e-4, name
    if one_vertex:
        assert array_stats.ess(found) > 0.25 * found.size
        assert int(tree["sample_stats"]["diverging"].sum()) <= 2


def test_digamma():
    x = np.concatenate([np.geomspace(1e-6, 1e6, 100), [1.0, 7.999, 8.0]])
    found = [nuts.digamma(value) for value in x]
    np.testing.assert_allclose(found, special.digamma(x), rtol=1e-12, atol=1e-13)
