"""The simulated answers of the loop follow Algorithm 2 of the paper."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

import adobest_pp as ad
import oracles
from adobest_pp._numerics import seed_state, uniform
from adobest_pp.mechanisms.drawing import simulate_answer

K, N = 7, 20_000


@njit
def frequencies(state, n, x, order, size, coefficients):
    counts = np.zeros(order.size, dtype=np.int64)
    for _ in range(n):
        counts[simulate_answer(uniform(state), x, order, size, coefficients)] += 1
    return counts


@pytest.mark.parametrize("size", range(K))
@pytest.mark.parametrize(("epsilon", "kappa"), [(0.5, 0.8), (2.0, 1.0), (4.0, 0.3)])
def test_frequencies_of_every_answer_to_every_category(size, epsilon, kappa):
    """Chi-square for each of the K columns of G, false alarm 1e-6 each; 147 of them, 1.5e-4 in all."""
    mechanism = ad.RRRR(K, epsilon, kappa)
    order = np.random.default_rng(size).permutation(K)
    matrix = oracles.rrrr_matrix(K, order[:size], mechanism.epsilon1, mechanism.epsilon2(size))
    state = seed_state(size)
    for x in range(K):
        counts = frequencies(state, N, x, order, size, mechanism.coefficients)
        assert stats.chisquare(counts, N * matrix[:, x]).pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("size", [0, 1, 3, K - 1])
def test_answers_as_the_uniform_number_runs_from_0_to_1(size, epsilon):
    """The answer takes each value on a part of [0, 1) that is as long as its probability: no statistics needed."""
    mechanism = ad.RRRR(K, epsilon)
    order = np.arange(K)[::-1].copy()
    matrix = oracles.rrrr_matrix(K, order[:size], mechanism.epsilon1, mechanism.epsilon2(size))
    n = 20_000
    for x in range(K):
        grid = (np.arange(n) + 0.5) / n
        answers = [simulate_answer(u, x, order, size, mechanism.coefficients) for u in grid]
        np.testing.assert_allclose(np.bincount(answers, minlength=K) / n, matrix[:, x], atol=1.01 / n)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 30.0])
@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
def test_the_greatest_uniform_number_gives_an_answer_in_range(epsilon, u):
    mechanism = ad.RRRR(K, epsilon)
    for size in range(K):
        for x in range(K):
            assert 0 <= simulate_answer(u, x, np.arange(K), size, mechanism.coefficients) < K


def test_what_rounding_leaves_over_goes_to_the_last_category():
    """Probabilities that sum to a little less than 1: an answer beyond them is one of the others all the same."""
    coefficients = ad.RRRR(K, 30.0).coefficients
    short = coefficients._replace(
        inner_own=coefficients.inner_own * (1 - 1e-15), outer_own=coefficients.outer_own * (1 - 1e-15)
    )
    for size in range(K):
        for x in range(K):
            answer = simulate_answer(1 - 2**-53, x, np.arange(K), size, short)
            assert answer == (K - 1 if x < K - 1 else max(K - 2, 0))
