"""The compiled log-density against the definitions, and its gradient."""

import ctypes

import numpy as np
import pytest

import adobest_pp as ad
import oracles
from adobest_pp.model import simplex as _simplex
from adobest_pp.samplers import nuts
from adobest_pp.samplers.nuts import learned_log_density
from oracles import rows_of
from tests.strategies import simulated

RESPONSES = simulated(ad.RRRR(5, 1.0), 100, seed=4)
ROWS = rows_of(RESPONSES)
EVIDENCE = RESPONSES.evidence()
WEIGHTS = np.array([1.0, 0.3, 2.5, 0.8, 1.4])
BOOSTED = np.array([False, True, False, True, False])


def by_hand(free):
    """ψ from its coordinates, θ ∝ ψ·U^(1/ρ), and the densities of ψ and of ln(−ln U)."""
    log_psi = _simplex.log_theta(free[:4])
    gaps = np.exp(free[4:6])
    theta = np.exp(log_psi)
    theta[BOOSTED] *= np.exp(-gaps / WEIGHTS[BOOSTED])
    log_prior = ((WEIGHTS + BOOSTED) * log_psi).sum() + (free[4:6] - gaps).sum()
    return oracles.log_likelihood(theta / theta.sum(), ROWS) + log_prior


def call(free, block):
    """Call the C function: what it returns, and what it writes over −7."""
    gradient, value = np.full(free.size, -7.0), np.full(1, -7.0)
    pointers = (array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in (free, gradient, value))
    code = nuts.compiled_functions()[0].ctypes(free.size, *pointers, block.ctypes.data)
    return code, value[0], gradient


def test_the_c_function_writes_value_and_gradient():
    rng = np.random.default_rng(3)
    given, learned = rng.normal(size=6), rng.normal(size=6)
    expected, slope = nuts.log_density(given, WEIGHTS, BOOSTED.astype(float), EVIDENCE)
    code, value, gradient = call(given, nuts.pack(WEIGHTS, BOOSTED, EVIDENCE))
    assert (code, value) == (0, expected)
    np.testing.assert_array_equal(gradient, slope)
    shifts = BOOSTED.astype(float)
    expected, slope = learned_log_density(learned, WEIGHTS, shifts, -1.5, 0.7, EVIDENCE)
    code, value, gradient = call(learned, nuts.pack(WEIGHTS, shifts, EVIDENCE, (-1.5, 0.7)))
    assert (code, value) == (0, expected)
    np.testing.assert_array_equal(gradient, slope)


def test_the_density_has_its_gradient_and_the_posterior_behind_it():
    for free in np.random.default_rng(1).normal(size=(5, 6)):
        value, slope = nuts.log_density(free, WEIGHTS, BOOSTED.astype(float), EVIDENCE)
        assert value == pytest.approx(by_hand(free))
        numeric = [(by_hand(free + step) - by_hand(free - step)) / 2e-6 for step in 1e-6 * np.eye(6)]
        np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)


def test_the_c_function_looks_masses_up_where_there_are_many_sets():
    mechanism, rng = ad.SubsetSelection(20, 0.5), np.random.default_rng(1)
    answers = mechanism.privatize(rng.choice(20, size=3000), rng=rng)
    evidence = ad.Responses.from_arrays(mechanism, answers).evidence()
    assert len(evidence.codes) == 2
    free, prior = rng.normal(size=39), np.full(20, 0.5)
    expected, slope = nuts.log_density(free, prior, np.ones(20), evidence)
    code, value, gradient = call(free, nuts.pack(prior, np.full(20, True), evidence))
    assert (code, value) == (0, expected)
    np.testing.assert_array_equal(gradient, slope)
