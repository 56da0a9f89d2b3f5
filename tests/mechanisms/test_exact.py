"""The exact path: rational bounds, integer weights, and draws that follow them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles
from adobest_pp import RRRR, SRR, SubsetSelection
from adobest_pp.mechanisms import exact
from tests.refusals import refuses
from tests.strategies import epsilons, rrrr_with_subset


@given(st.floats(0, 30))
def test_exponentials_are_bracketed(exponent):
    lower, upper = exact.exp_bounds(exponent)
    oracle_lower, oracle_upper = oracles.exp_bracket(exponent)
    assert lower <= oracle_upper
    assert upper >= oracle_lower
    assert upper - lower <= lower * Fraction(1, 10**55)


@given(st.floats(1e-9, 30))
def test_weights_are_rounded_down_and_near(exponent):
    oracle_lower, _ = oracles.exp_bracket(exponent)
    weight = Fraction(exact.exp_weight(exponent), exact.UNIT)
    assert weight <= oracle_lower
    assert weight >= oracle_lower * (1 - Fraction(1, 2**60))


@given(st.fractions(1, 10**12))
def test_the_bound_on_a_logarithm_is_the_least_float_that_is_certain(ratio):
    bound = exact.log_upper_bound(ratio)
    assert oracles.exp_bracket(bound)[0] >= ratio
    assert bound == 0 or oracles.exp_bracket(np.nextafter(bound, 0))[0] < ratio


def test_no_ratio_is_no_loss():
    assert exact.log_upper_bound(Fraction(1)) == 0
    assert RRRR.from_budgets(3, 0.0, 0.0).epsilon == 0


def worst_ratio(weights):
    return max(Fraction(max(row), min(row)) for row in weights)


@given(rrrr_with_subset())
def test_rrrr_weights_keep_the_promise_exactly(case):
    mechanism, subset = case
    weights = mechanism.exact_weights(subset)
    assert len({sum(column) for column in weights.T}) == 1
    assert worst_ratio(weights) <= oracles.exp_bracket(mechanism.epsilon)[0]
    probabilities = (weights / weights[:, 0].sum()).astype(float)
    np.testing.assert_allclose(probabilities, mechanism.transition_matrix(subset), rtol=1e-12)


@given(st.integers(2, 7), epsilons)
def test_other_weights_keep_the_promise_exactly(k, epsilon):
    for mechanism in (SRR(k, epsilon), SubsetSelection(k, epsilon)):
        weights = mechanism.exact_weights()
        assert len({sum(column) for column in weights.T}) == 1
        assert worst_ratio(weights) <= oracles.exp_bracket(epsilon)[0]
        probabilities = (weights / weights[:, 0].sum()).astype(float)
        np.testing.assert_allclose(probabilities, mechanism.transition_matrix(), rtol=1e-12)


# Every chi-square test below draws fresh entropy; at 1e-8 each, all of them together raise a false alarm less than
# once in a million runs.
EXACT_LEVEL = 1e-8
SIMULATION_LEVEL = 1e-4
PATHS = [pytest.param(None, EXACT_LEVEL, id="exact"), pytest.param(20261, SIMULATION_LEVEL, id="simulation")]


def generator(seed):
    return None if seed is None else np.random.default_rng(seed)


def assert_follows(observed, probabilities, level):
    result = stats.chisquare(observed, probabilities * observed.sum())
    assert result.pvalue > level


@pytest.mark.parametrize(("seed", "level"), PATHS)
def test_srr_follows_its_matrix(seed, level):
    mechanism, rng = SRR(5, 1.0), generator(seed)
    for x in (0, 4):
        answers = mechanism.privatize(np.full(40_000, x), rng=rng)
        assert_follows(np.bincount(answers, minlength=5), mechanism.transition_matrix()[:, x], level)


@pytest.mark.parametrize("subset", [[], [2], [1, 4], [0, 1, 2, 3, 5]])
@pytest.mark.parametrize(("seed", "level"), PATHS)
def test_rrrr_follows_its_matrix(subset, seed, level):
    mechanism, rng = RRRR(6, 1.5, 0.7), generator(seed)
    for x in (1, 4):
        answers = mechanism.privatize(np.full(40_000, x), subset=subset, rng=rng)
        assert_follows(np.bincount(answers, minlength=6), mechanism.transition_matrix(subset)[:, x], level)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("seed", "level"), PATHS)
def test_subset_selection_follows_its_matrix(size, seed, level):
    mechanism, rng = SubsetSelection(5, 1.0, size), generator(seed)
    places = {tuple(output): i for i, output in enumerate(mechanism.outputs())}
    answers = mechanism.privatize(np.full(40_000, 3), rng=rng)
    observed = np.bincount([places[tuple(answer)] for answer in answers], minlength=len(places))
    assert_follows(observed, mechanism.transition_matrix()[:, 3], level)


@pytest.mark.parametrize("path", [None, 3])
def test_shapes_and_types_of_answers(path):
    srr, rrrr, selection = SRR(4, 1.0), RRRR(4, 1.0), SubsetSelection(4, 1.0, 2)
    assert type(srr.privatize(1, rng=generator(path))) is int
    assert type(rrrr.privatize(np.int8(1), subset=[0], rng=generator(path))) is int
    assert selection.privatize(1, rng=generator(path)).shape == (2,)
    x = np.arange(4, dtype=np.uint8).reshape(2, 2)
    assert srr.privatize(x, rng=generator(path)).shape == (2, 2)
    assert rrrr.privatize(x, subset=[0], rng=generator(path)).shape == (2, 2)
    assert selection.privatize(x, rng=generator(path)).shape == (2, 2, 2)
    assert srr.privatize([], rng=generator(path)).shape == (0,)


def test_simulation_repeats_and_the_exact_path_does_not():
    mechanism, x = RRRR(6, 1.0), np.zeros(200, dtype=int)
    first, second = (mechanism.privatize(x, subset=[0, 1], rng=np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(mechanism.privatize(x, subset=[0, 1]), mechanism.privatize(x, subset=[0, 1]))


def test_nothing_but_a_generator_is_taken_for_randomness():
    for rng in (0, np.random.RandomState(0), np.random):
        with refuses("rng"):
            SRR(3, 1.0).privatize(0, rng=rng)


def test_extreme_budgets_stay_exact():
    assert SRR(3, 30.0).privatize(2) == 2
    tiny = SRR(3, 1e-300)
    assert set(tiny.exact_weights().ravel()) == {exact.UNIT}
    assert math.isclose(RRRR(5, 30.0, 1.0).transition_matrix([0]).sum(), 5)
