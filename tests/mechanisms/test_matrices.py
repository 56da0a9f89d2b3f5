"""Transition matrices against the algorithms they come from."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from adobest_pp import RRRR, SRR, SubsetSelection, privacy_loss
from tests.strategies import epsilons, kappas, rrrr_with_subset


@given(st.integers(2, 12), epsilons)
def test_srr_is_the_definition(k, epsilon):
    matrix = SRR(k, epsilon).transition_matrix()
    expected = [[oracles.srr_probability(y, x, range(k), epsilon) for x in range(k)] for y in range(k)]
    np.testing.assert_allclose(matrix, expected, rtol=1e-13)
    assert privacy_loss(matrix) == pytest.approx(epsilon, abs=1e-12)


@given(rrrr_with_subset())
def test_rrrr_is_algorithm_2(case):
    mechanism, subset = case
    matrix = mechanism.transition_matrix(subset)
    epsilon2 = oracles.theorem_epsilon2(mechanism.n_categories, len(subset), mechanism.epsilon, mechanism.kappa)
    expected = oracles.rrrr_matrix(mechanism.n_categories, subset, mechanism.epsilon1, epsilon2)
    np.testing.assert_allclose(matrix, expected, rtol=1e-9)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-13)
    assert privacy_loss(matrix) <= mechanism.epsilon + 1e-12


@given(st.integers(2, 30), epsilons, kappas)
def test_epsilon2_is_theorem_1(k, epsilon, kappa):
    mechanism = RRRR(k, epsilon, kappa)
    for size in range(k):
        # The printed formula cancels when kappa is near 1, hence an absolute tolerance.
        expected = oracles.theorem_epsilon2(k, size, epsilon, kappa)
        assert mechanism.epsilon2(size) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_epsilon2_keeps_its_digits_as_kappa_tends_to_one():
    # To first order epsilon2 = c/(c-1) * (1-kappa) * epsilon.
    mechanism = RRRR(10, 1.0, 1 - 2.0**-40)
    assert mechanism.epsilon2(4) == pytest.approx(6 / 5 * 2.0**-40, rel=1e-9)


@given(rrrr_with_subset())
def test_a_mask_and_indices_are_the_same_subset(case):
    mechanism, subset = case
    mask = np.isin(np.arange(mechanism.n_categories), subset)
    assert np.array_equal(mechanism.transition_matrix(mask), mechanism.transition_matrix(subset))
    assert np.array_equal(mechanism.transition_matrix(set(subset)), mechanism.transition_matrix(subset[::-1]))


def test_the_empty_subset_is_srr_whatever_kappa():
    for kappa in (0.1, 0.9, 1.0):
        np.testing.assert_allclose(
            RRRR(7, 1.3, kappa).transition_matrix([]), SRR(7, 1.3).transition_matrix(), rtol=1e-14
        )


@given(st.integers(2, 7), epsilons, st.data())
def test_subset_selection_is_the_definition(k, epsilon, data):
    size = data.draw(st.integers(1, k - 1))
    mechanism = SubsetSelection(k, epsilon, size)
    matrix = mechanism.transition_matrix()
    np.testing.assert_allclose(matrix, oracles.subset_selection_matrix(k, size, epsilon), rtol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-12)
    assert privacy_loss(matrix) == pytest.approx(epsilon, abs=1e-12)


@given(st.integers(2, 40), epsilons)
def test_subset_selection_chooses_the_size_of_least_risk(k, epsilon):
    e = math.exp(epsilon)
    risk = [(k - 1) ** 2 * (d * e + k - d) ** 2 / (k * d * (k - d) * (e - 1) ** 2) for d in range(1, k)]
    chosen = SubsetSelection(k, epsilon).size
    assert risk[chosen - 1] == pytest.approx(min(risk), rel=1e-12)
    assert abs(chosen - k / (e + 1)) <= 1


def test_subset_selection_says_when_it_has_too_many_outputs():
    mechanism = SubsetSelection(40, 1.0)
    with pytest.raises(ValueError, match="possible answers"):
        mechanism.transition_matrix()
    assert np.isfinite(SubsetSelection(3000, 0.5).log_weight(np.zeros((1, 1)))).all()


def test_from_budgets_reports_the_loss_it_has():
    mechanism = RRRR.from_budgets(6, 0.4, [0.5] * 6)
    losses = [privacy_loss(mechanism.transition_matrix(range(size))) for size in range(6)]
    assert mechanism.epsilon == pytest.approx(max(losses), abs=1e-12)
    assert mechanism.kappa is None
    assert mechanism == RRRR.from_budgets(6, 0.4, 0.5)
    assert mechanism.epsilon2(3) == 0.5


def test_from_budgets_of_theorem_1_gives_epsilon_back():
    proved = RRRR(9, 1.2, 0.8)
    rebuilt = RRRR.from_budgets(9, proved.epsilon1, [proved.epsilon2(size) for size in range(9)])
    assert rebuilt.epsilon == pytest.approx(1.2, abs=1e-12)
    np.testing.assert_allclose(rebuilt.transition_matrix([1, 5]), proved.transition_matrix([1, 5]), rtol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_answer_names_a_category_as_often_as_the_sets_that_hold_it_are_drawn(size):
    sets = list(combinations(range(5), size))
    weights = np.array([math.exp(1.3) if 0 in each else 1.0 for each in sets])
    expected = [weights[[x in each for each in sets]].sum() / weights.sum() for x in (0, 1)]
    assert SubsetSelection(5, 1.3, size=size).naming() == pytest.approx(expected, rel=1e-12)
    if size == 1:
        assert SRR(5, 1.3).naming() == pytest.approx(expected, rel=1e-12)
