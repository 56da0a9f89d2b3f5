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
from adobest_pp.online.records import KINDS, RESPONSES, ROWS

__all__ = ["ExactState", "hamiltonian_updates", "new_exact_state"]

# Step sizes in units of the metric, drawn anew for each trajectory, and the greatest number of steps of one: of six
# choices the one with the most effective draws per gradient, on K = 4 … 50, ε = 0.5 … 5.
SHORTEST_STEP, LONGEST_STEP, MOST_STEPS = 0.15, 0.45, 16


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
def hamiltonian_updates(state, phi, records, prior, n_updates, mean, first_kept, exact):  # type: ignore[no-untyped-def]
    """Run trajectories from φ, in place, until `n_updates` gradients have been taken; the last one is completed.

    θ of each trajectory that begins after `first_kept` gradients is added to `mean`. Returns how many trajectories
    there were, how many of them were accepted, and how many are in `mean`.
    """
    k = phi.size
    _update_metric(records, prior, exact)
    for i in range(k):
        exact.z[i] = math.log(max(phi[i], 1e-300))
    spent, trajectories, accepted, kept = 0, 0, 0, 0
    while spent < n_updates:
        n_steps = 1 + integer(state, MOST_STEPS)
        accepted += _trajectory(state, n_steps, phi, records, prior, exact)
        trajectories += 1
        total = 0.0
        for i in range(k):
            phi[i] = math.exp(exact.z[i])
            total += phi[i]
        if spent >= first_kept:
            kept += 1
            for i in range(k):
                mean[i] += phi[i] / total
        spent += n_steps
    return trajectories, accepted, kept


@njit(cache=True, error_model="numpy")
def _trajectory(state, n_steps, phi, records, prior, exact):  # type: ignore[no-untyped-def]
    """Propose the end of one trajectory of the leapfrog integrator for z; return whether it was accepted."""
    k = phi.size
    step = SHORTEST_STEP + (LONGEST_STEP - SHORTEST_STEP) * uniform(state)
    for i in range(k):
        exact.momentum[i] = normal(state)
        exact.candidate[i] = exact.z[i]
    before = _log_density(exact.candidate, phi, records, prior, exact.slope)
    for i in range(k):
        before -= 0.5 * exact.momentum[i] ** 2
    after = before
    for _ in range(n_steps):
        for i in range(k):
            exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
            exact.candidate[i] += step * exact.width[i] * exact.momentum[i]
        after = _log_density(exact.candidate, phi, records, prior, exact.slope)
        for i in range(k):
            exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
    for i in range(k):
        after -= 0.5 * exact.momentum[i] ** 2
    # A trajectory that left the finite numbers compares false, and is rejected.
    accept = math.log1p(-uniform(state)) < after - before
    if accept:
        exact.z[:] = exact.candidate
    return accept


@njit(cache=True, error_model="numpy")
def _log_density(z, phi, records, prior, slope):  # type: ignore[no-untyped-def]
    """Return the log-density of z = ln φ and write its gradient into `slope`; φ = e^z is written too."""
    total, value = 0.0, 0.0
    for i in range(z.size):
        phi[i] = math.exp(z[i])
        total += phi[i]
        value += prior[i] * z[i] - phi[i]
        slope[i] = 0.0
    n_kinds = _levels(phi, total, records)
    for row in range(records.used[ROWS]):
        v, y, count = records.row_kind[row], records.row_answer[row], records.row_count[row]
        h = records.level[v] + records.own[v] * phi[y]
        value += count * math.log(h)
        records.pull[v] += count / h
        slope[y] += records.own[v] * count / h
    shared = -records.used[RESPONSES] / total
    for v in range(n_kinds):
        shared += records.pull[v] * records.far[v]
        for i in range(records.offsets[v], records.offsets[v + 1]):
            slope[records.members[i]] += records.pull[v] * (records.near[v] - records.far[v])
    for i in range(z.size):
        slope[i] = prior[i] + phi[i] * (slope[i] + shared - 1.0)
    return value - records.used[RESPONSES] * math.log(total)


@njit(cache=True, error_model="numpy")
def _update_metric(records, prior, exact):  # type: ignore[no-untyped-def]
    """Take one step of expectation-maximization for θ, and the information about ln θ_i at it.

    A response has the score p_i − θ_i, with p_i = θ_i·g_i/h the probability that i is behind it. Its square is summed
    over the responses, apart for what all categories share, what members of a set differ by, and the answer itself
    (which is outside its set, where the weight is 1).
    """
    theta = exact.center
    expected, information, squares = exact.slope, exact.width, exact.candidate
    expected[:] = 0.0
    information[:] = 0.0
    squares[:] = 0.0
    n_kinds = _levels(theta, 1.0, records)
    spread = 0.0
    for row in range(records.used[ROWS]):
        v, y, count = records.row_kind[row], records.row_answer[row], records.row_count[row]
        near, far, own = records.near[v], records.far[v], records.own[v]
        h = records.level[v] + own * theta[y]
        records.pull[v] += count / h
        expected[y] += count * own / h
        information[y] += count * (((1.0 + own) / h - 1.0) ** 2 - (1.0 / h - 1.0) ** 2)
        spread += count * (far / h - 1.0) ** 2
        difference = count * ((near / h - 1.0) ** 2 - (far / h - 1.0) ** 2)
        for i in range(records.offsets[v], records.offsets[v + 1]):
            squares[records.members[i]] += difference
    shared = 0.0
    for v in range(n_kinds):
        shared += records.pull[v] * records.far[v]
        for i in range(records.offsets[v], records.offsets[v + 1]):
            expected[records.members[i]] += records.pull[v] * (records.near[v] - records.far[v])
    weight = prior.sum() + records.used[RESPONSES]
    for i in range(theta.size):
        precision = exact.prior_precision[i] + theta[i] ** 2 * max(information[i] + squares[i] + spread, 0.0)
        exact.width[i] = 1.0 / math.sqrt(precision)
        theta[i] = (prior[i] + theta[i] * (expected[i] + shared)) / weight


@njit(cache=True, error_model="numpy")
def _levels(phi, total, records):  # type: ignore[no-untyped-def]
    """Write the part of h that all answers of a kind share into `level`, clear `pull`; return the number of kinds."""
    n_kinds = records.used[KINDS]
    for v in range(n_kinds):
        mass = 0.0
        for i in range(records.offsets[v], records.offsets[v + 1]):
            mass += phi[records.members[i]]
        records.level[v] = records.near[v] * mass + records.far[v] * max(total - mass, 0.0)
        records.pull[v] = 0.0
    return n_kinds
