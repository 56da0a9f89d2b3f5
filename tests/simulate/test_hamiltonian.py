"""The exact sampler of the loop draws from the true posterior."""

import numpy as np
import pytest
from scipy import special, stats

import adobest_pp as ad
import oracles
from adobest_pp._numerics import normal, seed_state, uniform
from adobest_pp.adaptive.hamiltonian import (
    LONGEST_STEP,
    SHORTEST_STEP,
    _trajectory,
    hamiltonian_updates,
    new_exact_state,
)
from adobest_pp.adaptive.records import new_records, publish, record
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.simulate import simulate_adaptive
from oracles import rows_of
from tests.simulate.test_gradients import collected, log_posterior

MOMENTS = {2: oracles.posterior_moments_k2, 3: oracles.posterior_moments_k3}


def standard_errors_away(values, expected, n_batches=100):
    """How far the mean of a chain is from `expected`, by the standard error of the means of its batches."""
    means = values.reshape(n_batches, -1, values.shape[1]).mean(axis=1)
    return (means.mean(axis=0) - expected) / (means.std(axis=0, ddof=1) / np.sqrt(n_batches))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    ("epsilon", "n", "prior"), [(1.0, 60, 1.0), (0.2, 200, 1.0), (5.0, 40, 1.0), (1.0, 5, 0.5), (2.0, 30, 4.0)]
)
def test_mean_and_sd_are_those_of_quadrature(k, epsilon, n, prior):
    """Within 4 Monte Carlo standard errors: false alarm 1.2e-4 for each of 40 numbers, 5e-3 in all."""
    concentration = prior * np.arange(1, k + 1)
    records, rows, _ = collected(ad.RRRR(k, epsilon), n, seed=k + n, counted=True)
    mean, sd = MOMENTS[k](rows, concentration)
    state, exact, phi = seed_state(7), new_exact_state(concentration), np.full(k, concentration.mean())
    draws = np.empty((20_500, k))
    for j in range(len(draws)):
        hamiltonian_updates(state, phi, records, concentration, 20, phi, 20, exact)
        draws[j] = phi / phi.sum()
    draws = draws[500:]
    assert np.abs(standard_errors_away(draws, mean)).max() < 4
    assert np.abs(standard_errors_away((draws - mean) ** 2, sd**2)).max() < 4


@pytest.mark.long
@pytest.mark.parametrize("prior", [0.4, 1.0, 3.0])
def test_a_draw_of_the_prior_stays_one_when_moved_given_its_own_answers(prior):
    """The joint law of φ and answers given φ is kept by a kernel that is exact given the answers.

    Kolmogorov–Smirnov on each φ_i, false alarm 1e-5 each, 1.2e-4 in all.
    """
    k, n, replicates = 4, 25, 3000
    mechanism = ad.RRRR(k, 1.5)
    rng = np.random.default_rng(11)
    subsets = [(rng.permutation(k), size) for size in (0, 1, 2, 3)]
    matrices = [mechanism.transition_matrix(order[:size]) for order, size in subsets]
    concentration = prior * np.array([1.0, 1.0, 2.0, 3.0])
    state, moved, distance = seed_state(11), np.empty((replicates, k)), 0.0
    for i in range(replicates):
        phi = rng.gamma(concentration)
        before = phi / phi.sum()
        records = new_records(mechanism.coefficients, n, counted=True)
        asked = rng.integers(4, size=n)
        ends = np.cumsum([matrix @ before for matrix in matrices], axis=1)[asked, :-1]
        for v, answer in zip(asked, (rng.random(n)[:, None] > ends).sum(axis=1), strict=True):
            record(records, int(answer), publish(records, *subsets[v], mechanism.coefficients), subsets[v][1])
        hamiltonian_updates(state, phi, records, concentration, 30, phi, 30, new_exact_state(concentration))
        moved[i] = phi
        distance += np.abs(phi / phi.sum() - before).sum() / 2
    assert distance / replicates > 0.05  # a kernel that stays where it is would pass the rest
    for column, a in zip(moved.T, concentration, strict=True):
        assert stats.kstest(column, stats.gamma(a).cdf).pvalue > 1e-5


def plain_trajectory(state, n_steps, z, rows, prior, width):
    """The leapfrog for unit momenta in z/width and Metropolis' rule: where it ends, and whether it is kept."""

    def slope(at):
        theta = np.exp(at) / np.exp(at).sum()
        return prior - np.exp(at) + theta * (oracles.gradient(theta, rows) - len(rows))

    step = SHORTEST_STEP + (LONGEST_STEP - SHORTEST_STEP) * uniform(state)
    momentum = np.array([normal(state) for _ in z])
    at, energy = z.copy(), momentum @ momentum / 2 - log_posterior(z, rows, prior)
    for _ in range(n_steps):
        momentum = momentum + step / 2 * width * slope(at)
        at = at + step * width * momentum
        momentum = momentum + step / 2 * width * slope(at)
    gain = energy - (momentum @ momentum / 2 - log_posterior(at, rows, prior))
    kept = 1 - uniform(state) < np.exp(min(gain, 0.0))
    return (at if kept else z), kept


def test_trajectories_are_leapfrogs_that_are_kept_by_their_energy():
    """With steps so wide that many are refused: where nearly all are kept, a wrong rule would not be noticed."""
    k, n_kept = 4, 0
    records, rows, _ = collected(ad.RRRR(k, 2.0), 60, seed=5, counted=True)
    prior, rng = np.array([0.5, 1.0, 2.0, 3.0]), np.random.default_rng(5)
    for seed in range(200):
        state, exact = seed_state(seed), new_exact_state(prior)
        exact.z[:], exact.width[:] = np.log(rng.gamma(5 * prior) / 5), 4 * (prior + 5) ** -0.5
        n_steps = 1 + seed % 4
        expected, kept = plain_trajectory(state.copy(), n_steps, exact.z.copy(), rows, prior, exact.width)
        assert _trajectory(state, n_steps, np.empty(k), records, prior, exact) == kept
        np.testing.assert_allclose(exact.z, expected, rtol=1e-7, atol=1e-7)
        n_kept += kept
    assert 40 < n_kept < 160


def test_the_estimate_of_a_whole_run_is_the_posterior_mean():
    """Over 20 runs, the differences in posterior sds have mean zero (t-test, false alarm 1e-5) and are all small."""
    differences = []
    for seed in range(20):
        run = simulate_adaptive(
            [0.6, 0.3, 0.1],
            AdaptiveSubset(ad.RRRR(3, 1.0), sampler="exact", adapt_every=10),
            n_people=150,
            final_updates=40_000,
            random_seed=seed,
        )
        mean, sd = oracles.posterior_moments_k3(rows_of(run.responses), np.ones(3))
        differences.append((run.chain_mean - mean) / sd)
    assert np.abs(differences).max() < 0.2
    assert stats.ttest_1samp(np.array(differences)[:, :2], 0).pvalue.min() > 1e-5


def posterior_of_two(rows, prior):
    """Log-odds of θ_1 on a grid, and their distribution function."""
    odds = np.linspace(-60, 60, 12_001)
    theta = special.expit(np.stack([odds, -odds], axis=1))
    logs = np.array([oracles.log_likelihood(share, rows) for share in theta]) + np.log(theta) @ prior
    cdf = np.cumsum(np.exp(logs - logs.max()))
    return odds, cdf / cdf[-1]


def p_value_after_moving(own_center, replicates=2500, calls=10):
    """Of Kolmogorov and Smirnov, that draws of the posterior are still of it after some calls of one trajectory each.

    Answers say so little that θ_1 is anywhere from 0.7 to 1, and its complement, with ρ = 0.3, on all scales.
    """
    prior, rng, state = np.array([0.3, 0.3]), np.random.default_rng(1), seed_state(1)
    records, rows, _ = collected(ad.RRRR(2, 0.5), 300, seed=1, counted=True)
    odds, cdf = posterior_of_two(rows, prior)
    exact, moved = new_exact_state(prior), np.empty(replicates)
    for i, start in enumerate(np.interp(rng.random(replicates), cdf, odds)):
        phi = rng.gamma(prior.sum()) * special.expit([start, -start])
        for _ in range(calls):
            if own_center:
                exact.center[:] = phi / phi.sum()
            hamiltonian_updates(state, phi, records, prior, 1, phi, 1, exact)
        moved[i] = np.log(phi[0] / phi[1])
    return stats.kstest(moved, lambda at: np.interp(at, odds, cdf)).pvalue


def test_the_metric_does_not_follow_the_chain():
    """False alarm 1e-5. With a metric around the chain's own θ the same test finds that the posterior is left."""
    assert p_value_after_moving(own_center=False) > 1e-5
    assert p_value_after_moving(own_center=True) < 1e-12
