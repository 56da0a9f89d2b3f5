"""How likely the best guess from one answer is right, against sums over every answer."""

import itertools
import math

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.mechanisms import Mechanism, Mixed, guess_bound
from oracles.mechanisms import best_guess, largest_guess
from tests.own_mechanism import Neighbors
from tests.refusals import refuses

FANO = [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]]


def shares(k):
    """Shares of every kind: even, random, with ties and with zeros, in no order."""
    rng = np.random.default_rng(k)
    yield np.full(k, 1 / k)
    for concentration in (0.1, 1.0, 10.0):
        yield rng.dirichlet(np.full(k, concentration))
    yield rng.permutation(np.array([0.0, *[1 / (k - 1)] * (k - 1)]))
    yield rng.permutation(np.array([0.5, 0.5, *[0.0] * (k - 2)]))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_it_is_the_sum_over_all_answers(k, epsilon):
    mechanisms = [ad.SRR(k, epsilon), ad.HadamardResponse(k, epsilon), Neighbors(k, epsilon)]
    mechanisms += [ad.ProjectiveGeometryResponse(k, epsilon), ad.ProjectiveGeometryResponse(k, epsilon, 3)]
    mechanisms += [ad.CountMeanSketch(k, epsilon, n_hashes=5)]
    mechanisms += [ad.SubsetSelection(k, epsilon, size) for size in range(1, k)]
    mechanisms += [ad.UnaryEncoding(k, epsilon, kind) for kind in ("optimized", "symmetric")]
    mechanisms += [ad.SetFamily(FANO, [1] * 7, epsilon)] if k == 7 else []
    for theta in shares(k):
        for mechanism in mechanisms:
            expected = best_guess(mechanism.transition_matrix().tolist(), theta.tolist())
            assert mechanism.best_guess(theta) == pytest.approx(expected, rel=1e-12), mechanism
            assert theta.max() * (1 - 1e-12) <= expected <= guess_bound(epsilon, theta) * (1 + 1e-12)


@pytest.mark.parametrize("kappa", [0.3, 0.9, 1.0])
def test_of_every_published_subset(kappa):
    mechanism = ad.RRRR(5, epsilon=1.0, kappa=kappa)
    for theta in shares(5):
        for subset in itertools.chain.from_iterable(itertools.combinations(range(5), size) for size in range(5)):
            expected = best_guess(mechanism.transition_matrix(list(subset)).tolist(), theta.tolist())
            assert mechanism.best_guess(theta, subset=list(subset)) == pytest.approx(expected, rel=1e-12), subset
    with refuses("subset"):
        mechanism.best_guess(theta)


@pytest.mark.parametrize(("k", "g"), [(3, 2), (4, 3)])
def test_of_hashing_it_is_the_mean_over_all_hashes(k, g):
    mechanism = ad.LocalHashing(k, 1.3, g)
    inside, outside = (x / (math.exp(1.3) + g - 1) for x in (math.exp(1.3), 1.0))
    for theta in shares(k):
        each = [
            best_guess([[inside if h == v else outside for h in hashes] for v in range(g)], theta.tolist())
            for hashes in itertools.product(range(g), repeat=k)
        ]
        assert mechanism.best_guess(theta) == pytest.approx(np.mean(each), rel=1e-12)


def test_randomized_response_reaches_the_bound_at_even_shares():
    for k, epsilon in [(2, 0.5), (10, 1.0), (100, 3.0)]:
        expected = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        assert ad.SRR(k, epsilon).best_guess(np.full(k, 1 / k)) == pytest.approx(expected)
        assert guess_bound(epsilon, np.full(k, 1 / k)) == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_bound_is_the_best_of_all_mechanisms(k, epsilon):
    for theta in shares(k):
        assert guess_bound(epsilon, theta) == pytest.approx(largest_guess(theta, epsilon), rel=1e-7)
        assert guess_bound(0.0, theta) == pytest.approx(theta.max())


def test_many_categories_take_no_time_and_stay_below_the_bound():
    theta = np.random.default_rng(1).dirichlet(np.full(5000, 0.3))
    bound = guess_bound(2.0, theta)
    for mechanism in (
        ad.SRR(5000, 2.0),
        ad.SubsetSelection(5000, 2.0),
        ad.HadamardResponse(5000, 2.0),
        ad.ProjectiveGeometryResponse(5000, 2.0),
        ad.CountMeanSketch(5000, 2.0),
        ad.UnaryEncoding(5000, 2.0),
        ad.LocalHashing(5000, 2.0),
    ):
        assert theta.max() <= mechanism.best_guess(theta) <= bound
    assert theta.max() <= ad.RRRR(5000, 2.0).best_guess(theta, subset=np.argsort(theta)[-100:]) <= bound


def test_a_mechanism_of_several_has_the_largest_of_its_parts():
    theta, parts = [0.5, 0.3, 0.2], (ad.SRR(3, 2.0), ad.RRRR(3, 1.0))
    mixed = Mixed(parts).best_guess(theta, subset=[0])
    assert mixed == max(parts[0].best_guess(theta), parts[1].best_guess(theta, subset=[0]))


def test_an_attack_is_right_as_often_as_told():
    """Simulated: the best guess of 100,000 people, by the posterior; false alarm 6e-5 (four standard errors)."""
    theta, mechanism, n = np.array([0.45, 0.3, 0.15, 0.1]), ad.SubsetSelection(4, 2.0), 100_000
    rng = np.random.default_rng(5)
    x = rng.choice(4, size=n, p=theta)
    odds = np.where(mechanism.support(mechanism.privatize(x, rng=rng)), math.exp(2.0), 1.0)
    right = np.mean((odds * theta).argmax(axis=1) == x)
    found = mechanism.best_guess(theta)
    assert abs(right - found) < 4 * math.sqrt(found * (1 - found) / n)


def test_without_a_table_it_is_the_bound():
    class Silent(Mechanism):
        """A mechanism of one's own of which only the budget is known."""

        n_categories, epsilon = 3, 1.0
        audit_cases = evidence = None

    assert Silent().best_guess([0.5, 0.3, 0.2]) == guess_bound(1.0, [0.5, 0.3, 0.2])


@pytest.mark.parametrize("theta", [[0.5, 0.5], [0.5, 0.4, 0.3], [-0.1, 0.6, 0.5], "even"])
def test_what_is_no_share_is_refused(theta):
    with refuses("theta"):
        ad.SRR(3, 1.0).best_guess(theta)


@pytest.mark.parametrize("epsilon", [-1.0, math.inf, "1"])
def test_what_is_no_budget_is_refused(epsilon):
    with refuses("epsilon"):
        guess_bound(epsilon, [0.5, 0.5])
