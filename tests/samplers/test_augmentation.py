"""The compiled Gibbs sweep: allocation against each person's probabilities, and simulation-based calibration."""

import numpy as np
import pytest
from scipy import stats

from adobest_pp import RRRR, SRR, Channel, Responses, SubsetSelection
from adobest_pp.samplers.gibbs import allocate, dirichlet, gibbs_chain
from oracles import rows_of
from tests.strategies import simulated

# Chance of a false alarm of one statistical check; the seeds are fixed.
FALSE_ALARM = 1e-4

MATRIX = np.array([[0.5, 0.1, 0.3, 0.2, 0.4], [0.2, 0.3, 0.3, 0.5, 0.1], [0.3, 0.6, 0.4, 0.3, 0.5]])
MECHANISMS = [
    SRR(5, 1.0),
    RRRR(5, 2.0, 0.8),  # answers outside a subset are less likely from inside it,
    RRRR.from_budgets(5, 0.1, 3.0),  # more likely,
    RRRR.from_budgets(5, 6.0, 0.0),  # or hardly possible
    SubsetSelection(5, 1.0, size=2),
    Channel(MATRIX),  # rows of any form
]


def allocations(responses, theta, n_draws, seed=0):
    evidence = responses.evidence()
    rng = np.random.default_rng(seed)
    out = np.empty((n_draws, theta.size), dtype=np.int64)
    for allocation in out:
        allocate(rng, theta, evidence, allocation)
    return out


def each_person(responses, theta):
    """P(x | y, θ) of every response, of shape (n, K), straight from the rows of G."""
    is_matrix = isinstance(responses.mechanism, Channel)
    weights = (MATRIX[responses.answers] if is_matrix else rows_of(responses)) * theta
    return weights / weights.sum(axis=1, keepdims=True)


def test_the_mechanisms_cover_both_signs_of_inside():
    inside = np.concatenate([simulated(mechanism, 200, seed=3).evidence().inside for mechanism in MECHANISMS])
    assert (inside < 0).any()
    assert (inside > 0).any()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_one_person_is_allocated_with_the_right_probabilities(mechanism):
    theta = np.array([0.05, 0.5, 0.1, 0.3, 0.05])
    n_draws = 4000
    for seed in range(6):
        responses = simulated(mechanism, 1, seed)
        (expected,) = each_person(responses, theta)
        counts = allocations(responses, theta, n_draws, seed).sum(axis=0)
        assert counts.sum() == n_draws
        seen = expected > 1e-12
        assert counts[~seen].sum() == 0
        assert stats.chisquare(counts[seen], n_draws * expected[seen] / expected[seen].sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [30, 3000])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_many_people_are_allocated_with_the_right_moments(mechanism, n):
    """The allocation is a sum of independent categoricals: its means and its covariances are known."""
    theta = np.array([0.05, 0.5, 0.1, 0.3, 0.05])
    responses = simulated(mechanism, n, seed=4)
    people = each_person(responses, theta)
    mean, covariance = people.sum(axis=0), np.diag(people.sum(axis=0)) - people.T @ people
    draws = allocations(responses, theta, 4000)
    assert (draws.sum(axis=1) == n).all()
    worst = stats.norm.isf(FALSE_ALARM / 2)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - mean) < worst * sd / np.sqrt(len(draws))).all()
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(products.mean(axis=0) - covariance) < (worst + 1) * error).all()


def test_allocation_of_nobody():
    assert allocations(Responses(SRR(5, 1.0)), np.full(5, 0.2), 3).sum() == 0


def test_categories_without_mass_get_nobody():
    theta = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    for mechanism in MECHANISMS:
        draws = allocations(simulated(mechanism, 50, seed=1), theta, 20)
        assert (draws[:, 2] == 50).all()


def test_dirichlet_has_its_moments():
    concentration = np.array([0.05, 0.7, 1.0, 6.0])
    rng = np.random.default_rng(2)
    draws = np.empty((20_000, 4))
    for draw in draws:
        dirichlet(rng, concentration, draw)
    exact = stats.dirichlet(concentration)
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    errors = (draws.mean(axis=0) - exact.mean()) / np.sqrt(exact.var() / len(draws))
    assert np.abs(errors).max() < stats.norm.isf(FALSE_ALARM / 2)
    for i, a in enumerate(concentration):
        assert stats.kstest(draws[:, i], stats.beta(a, concentration.sum() - a).cdf).pvalue > FALSE_ALARM


def test_dirichlet_of_tiny_concentration_is_positive_and_finite():
    rng = np.random.default_rng(2)
    draws = np.empty((2000, 3))
    for draw in draws:
        dirichlet(rng, np.full(3, 1e-4), draw)
    assert np.isfinite(draws).all()
    assert (draws > 0).all()
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    # Practically all of the mass is on one category, and each has its turn.
    assert stats.chisquare(np.bincount(draws.argmax(axis=1), minlength=3)).pvalue > FALSE_ALARM


@pytest.mark.long
def test_simulation_based_calibration():
    """Ranks of the truth among draws are uniform if truth and data come from the model (Talts et al. 2018)."""
    n_replications, n_ranks, thin, prior = 1000, 20, 20, np.array([0.6, 1.0, 1.0, 2.0])
    rng = np.random.default_rng(9)
    mechanism = RRRR(4, 2.0, 0.7)
    ranks = np.empty((n_replications, 4), dtype=np.int64)
    for replication in range(n_replications):
        theta = rng.dirichlet(prior)
        responses = Responses(mechanism)
        for _ in range(5):
            subset = rng.choice(4, size=rng.integers(0, 4), replace=False)
            people = rng.choice(4, size=12, p=theta)
            responses.append(mechanism.privatize(people, subset=subset, rng=rng), subset)
        n_draws = 100 + thin * (n_ranks - 1)
        blocks = gibbs_chain(responses.evidence(), prior, n_draws, rng)
        draws = np.concatenate([block for block, _ in blocks])[100::thin]
        ranks[replication] = (draws < theta).sum(axis=0)
    for i in range(4):
        assert stats.chisquare(np.bincount(ranks[:, i], minlength=n_ranks)).pvalue > FALSE_ALARM
