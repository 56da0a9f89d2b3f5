"""Hamiltonian Monte Carlo on the records of the loop: draws of Θ_t from the true posterior.

It moves z = ln φ, which is unconstrained, and accepts or rejects whole trajectories, so it leaves the posterior given
the responses invariant [1]_. The metric is diagonal and comes from a running estimate of θ that depends only on the
responses, never on the chain. So every kernel is correct for the posterior given the responses so far.

References
----------
.. [1] R. M. Neal (2011), MCMC using Hamiltonian dynamics, Handbook of Markov Chain Monte Carlo.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from adobest_pp._numerics import integer, normal, uniform
from adobest_pp._types import Floats
from adobest_pp.adaptive.records import KINDS, RESPONSES, ROWS

# The range of step sizes in units of the metric, drawn anew for each trajectory, and the largest number of steps. Of
# six choices, this one had the most effective draws per gradient for K = 4 … 50, ε = 0.5 … 5.
SHORTEST_STEP, LONGEST_STEP, MOST_STEPS = 0.15, 0.45, 16


class ExactState(NamedTuple):
    """What the exact sampler keeps between rounds (the first two arrays), and its work space; each of shape (K,)."""

    center: Floats
    prior_precision: Floats
    width: Floats
    slope: Floats
    momentum: Floats
    z: Floats
    candidate: Floats


def new_exact_state(prior: Floats) -> ExactState:
    """Return the state before any response: the running estimate is the prior mean."""
    from scipy.special import polygamma

    empty = [np.empty(prior.size) for _ in range(5)]
    # ln of a Gamma(ρ, 1) variable has variance ψ′(ρ).
    return ExactState(prior / prior.sum(), 1 / polygamma(1, prior), *empty)


@njit(cache=True, error_model="numpy")
def hamiltonian_updates(state, phi, records, prior, n_updates, mean, first_kept, exact):  # type: ignore[no-untyped-def]
    """Run trajectories from φ, in place, until at least `n_updates` gradients have been computed.

    Adds θ of each trajectory that ends after more than `first_kept` gradients to `mean`: at least that of the last, or
    none if `first_kept` is `n_updates`. Returns the numbers of trajectories, of accepted ones, and of those added.
    """
    k = phi.size
    _update_metric(records, prior, exact)
    for i in range(k):
        exact.z[i] = math.log(max(phi[i], 1e-300))
    spent, trajectories, accepted, kept = 0, 0, 0, 0
    while spent < n_updates:
        n_steps = 1 + integer(state, np.int64(MOST_STEPS))
        accepted += _trajectory(state, n_steps, phi, records, prior, exact)
        trajectories += 1
        total = 0.0
        for i in range(k):
            phi[i] = math.exp(exact.z[i])
            total += phi[i]
        spent += n_steps
        if first_kept < min(spent, n_updates):
            kept += 1
            for i in range(k):
                mean[i] += phi[i] / total
    return trajectories, accepted, kept


@njit(cache=True, error_model="numpy")
def _trajectory(state, n_steps, phi, records, prior, exact):  # type: ignore[no-untyped-def]
    """Propose the end of one leapfrog trajectory for z; return whether it was accepted."""
    k = phi.size
    step = SHORTEST_STEP + (LONGEST_STEP - SHORTEST_STEP) * uniform(state)
    for i in range(k):
        exact.momentum[i] = normal(state)
        exact.candidate[i] = exact.z[i]
    before = _log_density(exact.candidate, phi, records, prior, exact.slope, np.bool_(True))
    for i in range(k):
        before -= 0.5 * exact.momentum[i] ** 2
    after = before
    for j in range(n_steps):
        for i in range(k):
            exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
            exact.candidate[i] += step * exact.width[i] * exact.momentum[i]
        after = _log_density(exact.candidate, phi, records, prior, exact.slope, j == n_steps - 1)
        for i in range(k):
            exact.momentum[i] += 0.5 * step * exact.width[i] * exact.slope[i]
    for i in range(k):
        after -= 0.5 * exact.momentum[i] ** 2
    # A trajectory that became NaN or infinite compares false and is rejected.
    accept = math.log1p(-uniform(state)) < after - before
    if accept:
        for i in range(k):
            exact.z[i] = exact.candidate[i]
    return accept


@njit(cache=True, error_model="numpy")
def _log_density(z, phi, records, prior, slope, with_value):  # type: ignore[no-untyped-def]
    """Write φ = e^z and the gradient of the log-density of z into `phi` and `slope`; return the value if `with_value`.

    Only the ends of a trajectory need the value, whose logarithms cost more than everything else.
    """
    # Unpack the fields once: see `langevin_updates`.
    near, far, own = records.near, records.far, records.own
    members, starts, stops = records.members, records.starts, records.stops
    level, pull = records.level, records.pull
    row_kind, row_answer, row_count = records.row_kind, records.row_answer, records.row_count
    n, n_kinds = records.used[RESPONSES], records.used[KINDS]
    total, value = 0.0, 0.0
    for i in range(z.size):
        phi[i] = math.exp(z[i])
        total += phi[i]
        value += prior[i] * z[i] - phi[i]
        slope[i] = 0.0
    _levels(phi, total, n_kinds, near, far, members, starts, stops, level, pull)
    for row in range(records.used[ROWS]):
        v, y, count = row_kind[row], row_answer[row], row_count[row]
        h = level[v] + own[v] * phi[y]
        if with_value:
            value += count * math.log(h)
        weight = count / h
        pull[v] += weight
        slope[y] += own[v] * weight
    shared = _pull_sets(n_kinds, near, far, members, starts, stops, pull, slope) - n / total
    for i in range(z.size):
        slope[i] = prior[i] + phi[i] * (slope[i] + shared - 1.0)
    return value - n * math.log(total)


@njit(cache=True, error_model="numpy")
def _update_metric(records, prior, exact):  # type: ignore[no-untyped-def]
    """Compute the information about ln θ_i at the running estimate, then update it by expectation-maximization.

    A response has the score p_i − θ_i, where p_i = θ_i·g_i/h is the probability that category i is behind it. The
    squared scores are summed in three parts: what all categories share, what the members of a set add, and what the
    answer itself adds (it is outside its set, where the weight is 1).
    """
    near, far, own = records.near, records.far, records.own
    members, starts, stops = records.members, records.starts, records.stops
    level, pull, n_kinds = records.level, records.pull, records.used[KINDS]
    row_kind, row_answer, row_count = records.row_kind, records.row_answer, records.row_count
    theta, expected, information = exact.center, exact.slope, exact.width
    expected[:] = 0.0
    information[:] = 0.0
    _levels(theta, 1.0, n_kinds, near, far, members, starts, stops, level, pull)
    spread = 0.0
    for row in range(records.used[ROWS]):
        v, y, count = row_kind[row], row_answer[row], row_count[row]
        h = level[v] + own[v] * theta[y]
        pull[v] += count / h
        expected[y] += count * own[v] / h
        information[y] += count * (((1.0 + own[v]) / h - 1.0) ** 2 - (1.0 / h - 1.0) ** 2)
        spread += count * (far[v] / h - 1.0) ** 2
        difference = count * ((near[v] / h - 1.0) ** 2 - (far[v] / h - 1.0) ** 2)
        for i in range(starts[v], stops[v]):
            information[members[i]] += difference
    shared = _pull_sets(n_kinds, near, far, members, starts, stops, pull, expected)
    weight = prior.sum() + records.used[RESPONSES]
    for i in range(theta.size):
        precision = exact.prior_precision[i] + theta[i] ** 2 * max(information[i] + spread, 0.0)
        exact.width[i] = 1.0 / math.sqrt(precision)
        theta[i] = (prior[i] + theta[i] * (expected[i] + shared)) / weight


@njit(cache=True, error_model="numpy", inline="always")
def _levels(phi, total, n_kinds, near, far, members, starts, stops, level, pull):  # type: ignore[no-untyped-def]
    """Write the part of h that all answers of a kind share into `level`; set `pull` to zero."""
    for v in range(n_kinds):
        mass = 0.0
        for i in range(starts[v], stops[v]):
            mass += phi[members[i]]
        level[v] = near[v] * mass + far[v] * max(total - mass, 0.0)
        pull[v] = 0.0


@njit(cache=True, error_model="numpy", inline="always")
def _pull_sets(n_kinds, near, far, members, starts, stops, pull, slope):  # type: ignore[no-untyped-def]
    """Add to `slope` the part of `pull` that only the members of each set get; return the part of all categories."""
    shared = 0.0
    for v in range(n_kinds):
        shared += pull[v] * far[v]
        for i in range(starts[v], stops[v]):
            slope[members[i]] += pull[v] * (near[v] - far[v])
    return shared
