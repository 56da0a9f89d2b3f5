"""Variances of mechanisms against sums over all of their answers."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import adobest_pp as ad
from adobest_pp.design.overview import Candidate, candidate, mechanism_table, shape, unit_half_widths
from adobest_pp.likelihood.without_prior import direct_estimate
from adobest_pp.mechanisms import information
from oracles import designs
from tests.design.blas import blas_threads
from tests.refusals import refuses


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (4, 1.0), (5, 6.0), (7, 0.3)])
@pytest.mark.parametrize("concentration", [0.05, 1.0])
def test_variances_are_those_of_the_matrix(k, epsilon, concentration):
    theta = np.random.default_rng(k).dirichlet(np.full(k, concentration))
    for mechanism in (
        ad.SRR(k, epsilon),
        ad.SubsetSelection(k, epsilon),
        *(ad.SubsetSelection(k, epsilon, size) for size in range(1, k)),
        ad.UnaryEncoding(k, epsilon),
        ad.UnaryEncoding(k, epsilon, "symmetric"),
        ad.HadamardResponse(k, epsilon),
        ad.ProjectiveGeometryResponse(k, epsilon),
        ad.CountMeanSketch(k, epsilon, n_hashes=20),
        ad.Channel(ad.SRR(k, epsilon).transition_matrix()),
    ):
        expected = designs.summed_variance(designs.information(mechanism.transition_matrix(), theta))
        assert ad.asymptotic_variance(mechanism, theta) == pytest.approx(expected, rel=1e-9), mechanism


def test_of_a_published_subset():
    theta, mechanism = np.array([0.5, 0.2, 0.2, 0.1]), ad.RRRR(4, 1.0, kappa=0.9)
    expected = designs.summed_variance(designs.information(mechanism.transition_matrix([0, 1]), theta))
    assert ad.asymptotic_variance(mechanism, theta, subset=[0, 1]) == pytest.approx(expected)


def test_matrices_of_sets_are_multiplied_by_one_thread(monkeypatch):
    """Threads that wait for each other made it forty times slower on a busy machine."""
    seen = []
    plain = information._pairs
    monkeypatch.setattr(information, "_pairs", lambda *given: seen.append(blas_threads()) or plain(*given))
    with threadpool_limits(2, "blas"):
        ad.asymptotic_variance(ad.SubsetSelection(20, 1.0), np.full(20, 0.05))
        assert set(seen) == {1}
        assert blas_threads() == 2


def test_hashing_is_the_mean_over_its_hashes():
    theta, mechanism = np.array([0.5, 0.3, 0.2]), ad.LocalHashing(3, 1.0)
    total = np.zeros((3, 3))
    for seed in range(4000):
        total += designs.information(mechanism.transition_matrix(seed), theta)
    # The standard error over 4000 hashes is about 1 %.
    assert ad.asymptotic_variance(mechanism, theta) == pytest.approx(designs.summed_variance(total / 4000), rel=0.04)


def test_many_categories_are_compared_by_their_counts():
    """Beyond 500 categories intervals rest on how many answers name each, and so do plans; nothing is inverted."""
    k, people = 3000, 200_000
    table = mechanism_table(k, 2.0)
    efficiency = table["efficiency"].to_series()
    assert efficiency.notna().all()
    assert efficiency["count-mean-sketch"] == pytest.approx(7 / 8, abs=0.01)  # r = 8; see its docstring
    assert efficiency["subset-selection"] == 1.0
    assert 0.99 < efficiency["projective-geometry-response"] < 1.0
    bits = table["bits"].to_series()
    assert bits["projective-geometry-response"] < 13 < bits["local-hashing"] < bits["subset-selection"]
    theta = shape("uneven", k)
    for name in ("projective-geometry-response", "hadamard-response", "count-mean-sketch"):
        one, rng = candidate(name, theta, 2.0), np.random.default_rng(1)
        answers = one.mechanism.privatize(rng.choice(k, size=people, p=theta), rng=rng)
        responses = ad.Responses.from_arrays(one.mechanism, answers)
        sd = direct_estimate(responses, theta).sd(theta)
        np.testing.assert_allclose(unit_half_widths(one, theta), 1.959964 * sd * np.sqrt(people), rtol=1e-6)
    too_few = Candidate(ad.CountMeanSketch(k, 2.0, n_hashes=100))
    assert np.isinf(unit_half_widths(too_few, theta)).all()


@pytest.mark.parametrize("epsilons", [[], 1.0, [0.005], [1.0, 1.0], [2.0, 1.0], [np.nan], [31.0], ["1"], None])
def test_budgets_of_a_table_are_refused_by_their_name(epsilons):
    with refuses("epsilons"):
        ad.design.efficiency_table(4, epsilons)
    with refuses("epsilon"):
        mechanism_table(4, 0.005)


def test_answers_that_do_not_tell_have_no_variance():
    assert ad.asymptotic_variance(ad.Channel(np.full((2, 3), 0.5)), [0.2, 0.3, 0.5]) == np.inf


def test_efficiency_is_at_most_one_and_one_for_the_best():
    theta = [0.7, 0.1, 0.1, 0.1]
    best = ad.optimal_mechanism(theta, 2.0).mechanism
    assert 0.999 < ad.efficiency(best, theta) <= 1 + 1e-9
    assert ad.efficiency(ad.HadamardResponse(4, 2.0), theta) < 0.9


def test_a_subset_is_given_where_one_is_published():
    with refuses("subset"):
        ad.asymptotic_variance(ad.RRRR(3, 1.0), [0.5, 0.3, 0.2])
    with refuses("subset"):
        ad.asymptotic_variance(ad.SRR(3, 1.0), [0.5, 0.3, 0.2], subset=[0])


def test_what_is_no_mechanism_is_refused():
    with refuses("mechanism"):
        ad.asymptotic_variance("srr", [0.5, 0.5])
    with refuses("theta"):
        ad.asymptotic_variance(ad.SRR(3, 1.0), [0.5, 0.5])


def test_thousands_of_categories_need_no_matrix(monkeypatch):
    theta = shape("uneven", 10_000)
    monkeypatch.setattr(np.linalg, "eigvalsh", None)
    for mechanism in (ad.HadamardResponse(10_000, 2.0), ad.CountMeanSketch(10_000, 2.0)):
        one = Candidate(mechanism)
        expected = np.sum((unit_half_widths(one, theta) / 1.959964) ** 2)
        assert ad.asymptotic_variance(mechanism, theta) == pytest.approx(expected, rel=1e-6)
        assert np.isnan(ad.efficiency(mechanism, theta))
