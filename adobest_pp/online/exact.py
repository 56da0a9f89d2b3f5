"""Hamiltonian Monte Carlo on the records of the loop: draws of Θ_t from the true posterior.

It moves z = ln φ, which is unconstrained, and accepts or rejects whole trajectories, so the posterior given the
responses is invariant [1]_. Its metric is diagonal and comes from a running estimate of θ that depends on the responses
alone, never on the chain: as responses come in, every kernel is a correct one for the posterior of its time.

References
----------
.. [1] R. M. Neal (2011), MCMC using Hamiltonian dynamics, Handbook of Markov Chain Monte Carlo.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.fast_random import integer, normal, uniform
from adobest_pp.online.records import FIRST_SET, INSIDE, RESPONSES, SETS

__all__ = ["ExactState", "hamiltonian_updates", "new_exact_state"]

# Tuned on K = 4 … 50, ε = 0.5 … 5 (benchmarks/online.py prints the effective sample sizes): step sizes in units of
# the metric, drawn anew for each trajectory, and the greatest number of steps of one.
SHORTEST_STEP, LONGEST_STEP, MOST_STEPS = 0.25, 0.75, 8


class ExactState(NamedTuple):
    """What the exact sampler keeps between rounds, and its work space; each of shape (K,)."""

    center: NDArray[np.float64]
    prior_precision: NDArray[np.float64]
    width: NDArray[np.float64]
    slope: NDArray[np.float64]
    momentum: NDArray[np.float64]
    z: NDArray[np.float64]
    candidate: NDArray[np.float64]


def new_exact_state(prior: NDArray[np.float64]) -> ExactState:
    """Return the state before any response: the running estimate is the prior mean."""
    from scipy.special import polygamma

    empty = [np.empty(prior.size) for _ in range(5)]
    # ln of a Gamma(ρ, 1) variable has variance ψ′(ρ).
    return ExactState(prior / prior.sum(), 1 / polygamma(1, prior), *empty)


@njit(cache=True, error_model="numpy")
def hamiltonian_updates(state, phi, records, prior, coefficients, n_updates, mean, first_kept, exact):  # type: ignore[no-untyped-def]
    """Make `n_updates` trajectories from φ, in place; arguments as of `langevin_updates`. Returns how many moved."""
    k = phi.size
    _update_metric(records, prior, coefficients, exact)
    for i in range(k):
        exact.z[i] = math.log(max(phi[i], 1e-300))
    moved = 0
    for j in range(n_updates):
        step = SHORTEST_STEP + (LONGEST_STEP - SHORTEST_STEP) * uniform(state)
        n_steps = 1 + integer(state, MOST_STEPS)
        for i in range(k):
            exact.momentum[i] = normal(state)
            exact.candidate[i] = exact.z[i]
        energy = _log_density(exact.candidate, phi, records, prior, coefficients, exact.slope)
        for i in range(k):
            energy -= 0.5 * exact.momentum[i] ** 2
        for _ in range(n_steps):
            for i in range(k):
                exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
                exact.candidate[i] += step * exact.width[i] * exact.momentum[i]
            density = _log_density(exact.candidate, phi, records, prior, coefficients, exact.slope)
            for i in range(k):
                exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
        for i in range(k):
            density -= 0.5 * exact.momentum[i] ** 2
        # A trajectory that left the finite numbers compares false, and is rejected.
        if math.log1p(-uniform(state)) < density - energy:
            exact.z[:] = exact.candidate
            moved += 1
        total = 0.0
        for i in range(k):
            phi[i] = math.exp(exact.z[i])
            total += phi[i]
        if j >= first_kept:
            for i in range(k):
                mean[i] += phi[i] / total
    return moved


@njit(cache=True, error_model="numpy")
def _log_density(z, phi, records, prior, coefficients, slope):  # type: ignore[no-untyped-def]
    """Return the log-density of z = ln φ and write its gradient into `slope`; φ = e^z is written too."""
    k = z.size
    total, value = 0.0, 0.0
    for i in range(k):
        phi[i] = math.exp(z[i])
        total += phi[i]
        value += prior[i] * z[i] - phi[i]
        slope[i] = 0.0
    n = records.used[RESPONSES]
    value -= n * math.log(total)
    shared = -n / total
    for kind in range(FIRST_SET):
        odds = _odds(kind, coefficients)
        for i in range(k):
            if records.counts[kind, i] > 0:
                h = total + odds * phi[i]
                value += records.counts[kind, i] * math.log(h)
                shared += records.counts[kind, i] / h
                slope[i] += odds * records.counts[kind, i] / h
    for v in range(records.used[SETS]):
        level = _level(v, phi, total, records)
        pull = 0.0
        for y in range(k):
            count = records.counts[FIRST_SET + v, y]
            if count > 0:
                h = level + records.own[v] * phi[y]
                value += count * math.log(h)
                pull += count / h
                slope[y] += records.own[v] * count / h
        shared += pull * records.far[v]
        for i in range(records.offsets[v], records.offsets[v + 1]):
            slope[records.members[i]] += pull * (records.near[v] - records.far[v])
    for i in range(k):
        slope[i] = prior[i] + phi[i] * (slope[i] + shared - 1.0)
    return value


@njit(cache=True, error_model="numpy")
def _update_metric(records, prior, coefficients, exact):  # type: ignore[no-untyped-def]
    """Take one step of expectation-maximization for θ, and the information about ln θ_i at it.

    A response has the score p_i − θ_i, with p_i = θ_i·g_i/h the probability that i is behind it. Its square is summed
    over the responses, apart for what all categories share, what members of a set differ by, and the answer itself.
    """
    theta, k = exact.center, exact.center.size
    expected, information = exact.slope, exact.width
    expected[:] = 0.0
    information[:] = 0.0
    shared, spread = 0.0, 0.0
    for kind in range(FIRST_SET):
        odds = _odds(kind, coefficients)
        for i in range(k):
            count = records.counts[kind, i]
            if count > 0:
                h = 1.0 + odds * theta[i]
                shared += count / h
                spread += count * (1.0 / h - 1.0) ** 2
                expected[i] += count * odds / h
                information[i] += count * (((1.0 + odds) / h - 1.0) ** 2 - (1.0 / h - 1.0) ** 2)
    for v in range(records.used[SETS]):
        level = _level(v, theta, 1.0, records)
        near, far, own = records.near[v], records.far[v], records.own[v]
        pull, square = 0.0, 0.0
        for y in range(k):
            count = records.counts[FIRST_SET + v, y]
            if count > 0:
                h = level + own * theta[y]
                pull += count / h
                spread += count * (far / h - 1.0) ** 2
                square += count * ((near / h - 1.0) ** 2 - (far / h - 1.0) ** 2)
                expected[y] += count * own / h
                information[y] += count * (((1.0 + own) / h - 1.0) ** 2 - (1.0 / h - 1.0) ** 2)
        shared += pull * far
        for i in range(records.offsets[v], records.offsets[v + 1]):
            expected[records.members[i]] += pull * (near - far)
            information[records.members[i]] += square
    weight = prior.sum() + records.used[RESPONSES]
    for i in range(k):
        precision = exact.prior_precision[i] + theta[i] ** 2 * max(information[i] + spread, 0.0)
        exact.width[i] = 1.0 / math.sqrt(precision)
        theta[i] = (prior[i] + theta[i] * (expected[i] + shared)) / weight


@njit(cache=True, error_model="numpy", inline="always")
def _odds(kind, coefficients):  # type: ignore[no-untyped-def]
    last = coefficients.inner.size - 1
    if kind == INSIDE:
        return coefficients.inner_own[last] / coefficients.inner[last]
    return coefficients.outer_own[0] / coefficients.outer[0]


@njit(cache=True, error_model="numpy")
def _level(v, phi, total, records):  # type: ignore[no-untyped-def]
    """Return the part of h that all answers outside set v share."""
    mass = 0.0
    for i in range(records.offsets[v], records.offsets[v + 1]):
        mass += phi[records.members[i]]
    return records.near[v] * mass + records.far[v] * max(total - mass, 0.0)
