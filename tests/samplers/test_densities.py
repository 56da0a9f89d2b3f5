"""The compiled log-density against the definitions, its gradient, and the program in models/ that says the same."""

import ctypes

import numpy as np
import pytest
from scipy import special

import adobest_pp as ad
import oracles
from adobest_pp.model import simplex as _simplex
from adobest_pp.samplers import densities
from models import sparse
from oracles import rows_of
from tests.strategies import simulated

RESPONSES = simulated(ad.RRRR(5, 1.0), 100, seed=4)
ROWS = rows_of(RESPONSES)
EVIDENCE = RESPONSES.evidence()
WEIGHTS = np.array([1.0, 0.3, 2.5, 0.8, 1.4])
BOOSTED = np.array([False, True, False, True, False])


def by_hand(free, learned):
    """ψ from its coordinates, θ ∝ ψ·U^(1/ρ), and the densities of ψ, of ln(−ln U) and of ln a with the constants."""
    log_psi = _simplex.log_theta(free[:4])
    prior = WEIGHTS * (np.exp(free[6]) if learned else 1.0)
    gaps = np.exp(free[4:6])
    theta = np.exp(log_psi)
    theta[BOOSTED] *= np.exp(-gaps / prior[BOOSTED])
    exponents = prior + BOOSTED
    log_prior = (exponents * log_psi).sum() + (free[4:6] - gaps).sum()
    if learned:
        log_prior += special.gammaln(exponents.sum()) - special.gammaln(exponents).sum() - (free[6] + 1) ** 2 / 2
    return oracles.log_likelihood(theta / theta.sum(), ROWS) + log_prior


def call(free, weights=WEIGHTS, boosted=BOOSTED, evidence=EVIDENCE):
    """Call the C function with the learned prior: what it returns, and what it writes over −7."""
    block = densities.pack(weights, boosted, True, evidence)
    gradient, value = np.full(free.size, -7.0), np.full(1, -7.0)
    pointers = (array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in (free, gradient, value))
    code = densities.compiled_functions()[0].ctypes(free.size, *pointers, block.ctypes.data)
    return code, value[0], gradient


def test_the_c_function_writes_value_and_gradient():
    free = np.random.default_rng(3).normal(size=7)
    expected, slope = densities.log_density(free, WEIGHTS, BOOSTED, True, EVIDENCE)
    code, value, gradient = call(free)
    assert (code, value) == (0, expected)
    np.testing.assert_array_equal(gradient, slope)


@pytest.mark.parametrize("log_scale", [-760.0, -1e4, 800.0, np.nan, np.inf, -np.inf])
def test_there_is_no_density_where_the_concentration_is_no_number(log_scale):
    """A division by zero inside would be lost on the way to C, with value and gradient of another point and code 0."""
    free = np.random.default_rng(3).normal(size=7)
    free[-1] = log_scale
    assert call(free)[0] == 1


@pytest.mark.parametrize("learned", [False, True])
def test_the_density_has_its_gradient_and_the_posterior_behind_it(learned):
    dim = 7 if learned else 6
    for free in np.random.default_rng(1).normal(size=(5, dim)):
        value, slope = densities.log_density(free, WEIGHTS, BOOSTED, learned, EVIDENCE)
        assert value == pytest.approx(by_hand(free, learned))
        numeric = [
            (by_hand(free + step, learned) - by_hand(free - step, learned)) / 2e-6 for step in 1e-6 * np.eye(dim)
        ]
        np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)


def test_the_learned_prior_is_that_of_the_sparse_program():
    """Of Gamma variables γ, ψ = γ/Σγ is independent of Σγ ~ Gamma(K(a+1)), which the compiled density has not."""
    k = 5
    density = sparse.build(RESPONSES).compile_logp(mode="FAST_COMPILE")
    differences = []
    for free in np.random.default_rng(2).normal(size=(6, 2 * k)):
        log_total = float(free[0] + 2)
        shape = k * (np.exp(free[-1]) + 1)
        point = {
            "concentration_log__": free[-1],
            "boosted_log__": _simplex.log_theta(free[: k - 1]) + log_total,
            "gap_log__": free[k - 1 : -1],
        }
        value, _ = densities.log_density(free, np.ones(k), np.full(k, True), True, EVIDENCE)
        of_total = shape * log_total - np.exp(log_total) - special.gammaln(shape)
        differences.append(float(density(point)) - value - of_total)
    # Coordinates are logarithms in both, so the Jacobian is a constant.
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9)


def test_digamma():
    x = np.concatenate([np.geomspace(1e-6, 1e6, 100), [1.0, 7.999, 8.0]])
    np.testing.assert_allclose([densities.digamma(value) for value in x], special.digamma(x), rtol=1e-12, atol=1e-13)


def test_the_c_function_looks_masses_up_where_there_are_many_sets():
    mechanism, rng = ad.SubsetSelection(20, 0.5), np.random.default_rng(1)
    answers = mechanism.privatize(rng.choice(20, size=3000), rng=rng)
    evidence = ad.Responses.from_arrays(mechanism, answers).evidence()
    assert len(evidence.codes) == 2
    boosted, free = np.full(20, True), rng.normal(size=40)
    expected, slope = densities.log_density(free, np.ones(20), boosted, True, evidence)
    code, value, gradient = call(free, np.ones(20), boosted, evidence)
    assert (code, value) == (0, expected)
    np.testing.assert_array_equal(gradient, slope)
