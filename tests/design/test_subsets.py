"""The subset that is chosen: nested sets suffice, ties, labels, and the compiled choice is the same choice."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

import adobest_pp as ad
import oracles
from adobest_pp.design import UTILITIES, UTILITY_CODES
from adobest_pp.design.utilities import choose_size
from tests.design.test_utilities import epsilons, kappas, weights
from tests.refusals import refuses


@pytest.mark.parametrize(("n_categories", "epsilon", "kappa"), [(2, 1.0, 0.9), (5, 5.0, 0.8), (7, 0.5, 0.9)])
def test_honest_over_nested_sets_is_honest_over_every_set_by_algorithm_2(n_categories, epsilon, kappa):
    theta = np.random.default_rng(n_categories).dirichlet(np.full(n_categories, 0.5))
    values = {}
    for size in range(n_categories):
        second = oracles.theorem_epsilon2(n_categories, size, epsilon, kappa)
        for subset in combinations(range(n_categories), size):
            matrix = oracles.rrrr_matrix(n_categories, subset, kappa * epsilon, second)
            values[frozenset(subset)] = matrix.diagonal() @ theta
    mechanism = ad.RRRR(n_categories, epsilon, kappa)
    chosen = ad.select_subset(theta, mechanism, "honest")
    assert frozenset(chosen.tolist()) == max(values, key=values.__getitem__)
    assert ad.utility(theta, mechanism, "honest").max() == pytest.approx(max(values.values()), rel=1e-12)


@settings(max_examples=25)
@given(weights(most=10), epsilons, kappas)
def test_honest_over_nested_sets_is_honest_over_all_2_to_the_k(theta, epsilon, kappa):
    n = theta.size
    mechanism = ad.RRRR(n, epsilon, kappa)
    masks = (np.arange(2**n - 1)[:, None] >> np.arange(n)) & 1  # all but the full set
    sizes = masks.sum(axis=1)
    matrices = [mechanism.transition_matrix(range(size)) for size in range(n)]
    inside = np.array([matrix[0, 0] for matrix in matrices])[sizes]
    outside = np.array([matrix[-1, -1] for matrix in matrices])[sizes]
    every = masks @ theta * inside + (1 - masks) @ theta * outside
    assert ad.utility(theta, mechanism, "honest").max() == pytest.approx(every.max(), rel=1e-12)


@settings(max_examples=40)
@given(weights(), epsilons, kappas)
def test_permuting_the_categories_permutes_the_subset(theta, epsilon, kappa):
    permutation = np.random.default_rng(theta.size).permutation(theta.size)
    mechanism = ad.RRRR(theta.size, epsilon, kappa)
    for name in UTILITIES:
        subset = ad.select_subset(theta, mechanism, name)
        permuted = ad.select_subset(theta[permutation], mechanism, name)
        assert permuted.size == subset.size
        np.testing.assert_array_equal(theta[permutation][permuted], theta[subset])
        if np.unique(theta).size == theta.size:
            np.testing.assert_array_equal(permutation[permuted], subset)


@pytest.mark.parametrize("n_categories", [2, 3, 20, 64, 65, 200])
def test_the_compiled_choice_is_the_public_one_from_whatever_order_it_starts(n_categories):
    rng = np.random.default_rng(n_categories)
    mechanism = ad.RRRR(n_categories, 1.0, 0.9)
    for theta in (
        rng.dirichlet(np.full(n_categories, 0.1)),
        np.full(n_categories, 1 / n_categories),
        np.roll(np.repeat([2.0, 1.0], [n_categories // 2, n_categories - n_categories // 2]), 1),
    ):
        probabilities = theta / theta.sum()
        for name, code in UTILITY_CODES.items():
            if name == "nonadaptive":
                expected = np.empty(0, dtype=np.int64)
            elif name == "semi_adaptive":
                expected = ad.semi_adaptive_subset(probabilities, 0.6)
            else:
                expected = ad.select_subset(probabilities, mechanism, name)
            for start in (np.arange(n_categories), rng.permutation(n_categories)):
                order = start.copy()
                size = choose_size(code, 0.6, theta, mechanism.coefficients, order, 0)
                np.testing.assert_array_equal(order[:size], expected)
                if name != "nonadaptive":
                    np.testing.assert_array_equal(order, np.argsort(-theta, kind="stable"))


def test_candidates_can_start_at_one():
    mechanism, theta = ad.RRRR(5, 1.0, 0.8), np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    assert ad.select_subset(theta, mechanism, "fisher").size == 0
    values = ad.utility(theta, mechanism, "fisher")
    size = choose_size(UTILITY_CODES["fisher"], 0.0, theta, mechanism.coefficients, np.arange(5), 1)
    assert size == 1 + np.argmax(values[1:])
    assert choose_size(UTILITY_CODES["semi_adaptive"], 0.0, theta, mechanism.coefficients, np.arange(5), 1) == 1


def test_equal_utilities_choose_the_smaller_subset_also_when_rounding_parts_them():
    for n_categories in range(2, 40):
        # With κ = 1 and uniform θ, no subset and all but one category are the same mechanism.
        uniform = np.full(n_categories, 1 / n_categories)
        mechanism = ad.RRRR(n_categories, 1.7, kappa=1.0)
        for name in ("entropy", "tv1", "tv2"):
            values = ad.utility(uniform, mechanism, name)
            assert values[-1] == pytest.approx(values[0], rel=1e-12, abs=1e-15)
        assert ad.select_subset(uniform, mechanism, "tv2").size == 0
        assert ad.select_subset(uniform, mechanism, "fisher").size == 0
    # X is known: no mechanism leaves any error, so all are tied.
    assert ad.select_subset([0.0, 1.0, 0.0], ad.RRRR(3, 1.0), "mse").size == 0


def test_equal_probabilities_enter_by_index():
    steps = ad.Utility("two", "k = 2", lambda ranked, coefficients: -np.abs(np.arange(ranked.size) - 2.0))
    np.testing.assert_array_equal(ad.select_subset([0.1, 0.3, 0.3, 0.3], ad.RRRR(4, 1.0), steps), [1, 2])


@pytest.mark.parametrize(
    ("theta", "alpha", "expected"),
    [
        ([0.2, 0.1, 0.6, 0.1], 0.0, []),
        ([0.2, 0.1, 0.6, 0.1], 0.5, [2]),
        ([0.2, 0.1, 0.6, 0.1], 0.6, [2]),
        ([0.2, 0.1, 0.6, 0.1], 0.61, [2, 0]),
        ([0.2, 0.1, 0.6, 0.1], 1.0, [2, 0, 1]),  # all four are no candidate
        ([0.0, 1.0], 1.0, [1]),
        ([0.1] * 10, 0.8, [0, 1, 2, 3, 4, 5, 6, 7]),  # a sum of eight tenths is 0.7999999999999999
    ],
)
def test_semi_adaptive_takes_the_fewest_that_reach_alpha(theta, alpha, expected):
    np.testing.assert_array_equal(ad.semi_adaptive_subset(theta, alpha), expected)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan, "0.5", None, True])
def test_semi_adaptive_refuses_a_mass_that_is_none(alpha):
    with refuses("alpha"):
        ad.semi_adaptive_subset([0.5, 0.5], alpha)


@pytest.mark.parametrize("theta", [[1.0], [], [[0.5, 0.5]], 1.0, ["a", "b"]])
def test_semi_adaptive_refuses_a_theta_that_is_none(theta):
    with refuses("theta"):
        ad.semi_adaptive_subset(theta, 0.5)
