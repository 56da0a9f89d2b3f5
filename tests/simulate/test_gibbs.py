"""The Gibbs sampler of the loop: its variates have the laws they claim, and it samples the true posterior."""

import numpy as np
import pytest
from numba import njit
from scipy import special, stats

import adobest_pp as ad
from adobest_pp._numerics import seed_state
from adobest_pp.adaptive.gibbs import binomial, gibbs_updates, log_gamma_variate, new_gibbs_state
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.simulate import simulate_adaptive
from tests.simulate.test_gradients import collected
from tests.simulate.test_hamiltonian import MOMENTS, standard_errors_away


@njit
def binomials(state, n, p, out):
    for i in range(out.size):
        out[i] = binomial(state, n, p)


@njit
def log_gammas(state, shape, out):
    for i in range(out.size):
        out[i] = log_gamma_variate(state, shape)


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.3), (7, 0.02), (40, 0.2), (25, 0.5), (100, 0.9), (1000, 0.011), (10**6, 0.37), (10**9, 4e-9)]
)
def test_binomials_have_their_law(n, p):
    """Chi-squared over 40 equal parts at the most; false alarm 1e-5 each, 8e-5 in all."""
    out = np.empty(200_000)
    binomials(seed_state(3), float(n), p, out)
    cuts = np.unique(stats.binom.ppf(np.linspace(0, 1, 41)[1:-1], n, p))
    expected = np.diff(stats.binom.cdf(cuts, n, p), prepend=0.0, append=1.0) * out.size
    seen = np.bincount(np.searchsorted(cuts, out), minlength=cuts.size + 1)
    assert out.min() >= 0
    assert out.max() <= n
    kept = expected > 1e-9
    statistic = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
    assert seen[~kept].sum() == 0
    assert stats.chi2.sf(statistic, kept.sum() - 1) > 1e-5


def test_edges_of_the_binomial():
    state = seed_state(1)
    assert [binomial(state, 0.0, 0.5), binomial(state, 9.0, 0.0), binomial(state, 9.0, 1.0)] == [0.0, 0.0, 9.0]


@pytest.mark.parametrize("shape", [1e-3, 0.2, 1.0, 2.5, 1e4])
def test_gammas_have_their_law(shape):
    """Kolmogorov–Smirnov, false alarm 1e-5 each."""
    out = np.empty(50_000)
    log_gammas(seed_state(5), shape, out)
    # ln G for a small shape underflows as a number; by its own law, −shape·ln G of the smallest is exponential.
    if shape < 0.01:
        assert stats.kstest(-shape * out[out < -10], stats.expon(loc=10 * shape).cdf).pvalue > 1e-5
        low = special.gammainc(shape, np.exp(-10.0))
        assert stats.binomtest(int((out < -10).sum()), out.size, low).pvalue > 1e-5
    else:
        assert stats.kstest(np.exp(out), stats.gamma(shape).cdf).pvalue > 1e-5


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("epsilon", "n", "prior"), [(1.0, 60, 1.0), (5.0, 40, 1.0), (1.0, 5, 0.5), (2.0, 30, 4.0)])
def test_mean_and_sd_are_those_of_quadrature(k, epsilon, n, prior):
    """Within 4.2 Monte Carlo standard errors: false alarm 2.7e-5 for each of 40 numbers, 1.1e-3 in all."""
    concentration = prior * np.arange(1, k + 1)
    records, rows, _ = collected(ad.RRRR(k, epsilon), n, seed=k + n, counted=True)
    mean, sd = MOMENTS[k](rows, concentration)
    state, work, phi = seed_state(7), new_gibbs_state(concentration), np.full(k, 1 / k)
    draws = np.empty((20_500, k))
    for j in range(len(draws)):
        gibbs_updates(state, phi, records, concentration, 5, phi, 5, work)
        draws[j] = phi
    draws = draws[500:]
    assert np.abs(standard_errors_away(draws, mean)).max() < 4.2
    assert np.abs(standard_errors_away((draws - mean) ** 2, sd**2)).max() < 4.2


def test_the_loop_runs_it():
    run = simulate_adaptive(
        [0.6, 0.3, 0.1], AdaptiveSubset(ad.RRRR(3, 3.0), sampler="gibbs"), n_people=3000, random_seed=1
    )
    assert run.settings["sampler"] == "gibbs"
    assert np.abs(run.chain_mean - [0.6, 0.3, 0.1]).max() < 0.06  # five standard errors of an honest answer
