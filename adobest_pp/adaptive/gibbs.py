"""Gibbs sampling on the records of the loop: the paper's alternative to SGLD, on counts.

A sweep draws the categories behind all answers given θ, then θ given the categories. The paper allocates people one by
one, which costs O(tK) at step t. Here equal responses are one row with a count. Binomials split each row among the
answer itself, the members of its set and the other categories, and the parts are pooled over the rows of a set. So a
sweep has the same distribution and costs O(rows + sets·K), whatever the number of people.

References
----------
.. [1] W. Hörmann (1993), The generation of binomial random variates, Journal of Statistical Computation and
   Simulation 46.
.. [2] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM TOMS 26(3).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from adobest_pp._numerics import normal, normalize_logs, uniform
from adobest_pp._types import Floats
from adobest_pp.adaptive.records import KINDS, ROWS

# A share is never exactly zero, so that its logarithm is finite.
_LEAST = 1e-300


class GibbsState(NamedTuple):
    """Work space of a sweep: the number of people in each category, shape (K,). Only φ is kept between sweeps."""

    allocation: Floats


def new_gibbs_state(prior: Floats) -> GibbsState:
    """Return the work space for K categories."""
    return GibbsState(np.zeros(prior.size))


@njit(cache=True, error_model="numpy")
def gibbs_updates(state, phi, records, prior, n_updates, mean, first_kept, work):  # type: ignore[no-untyped-def]
    """Run `n_updates` sweeps from φ, in place; add θ after sweep `first_kept` and later ones to `mean`.

    Returns how many θ were added. Here φ is θ itself and sums to one.
    """
    for j in range(n_updates):
        _allocate(state, phi, records, work.allocation)
        for i in range(phi.size):
            phi[i] = log_gamma_variate(state, prior[i] + work.allocation[i])
        normalize_logs(phi, _LEAST)
        if j >= first_kept:
            for i in range(phi.size):
                mean[i] += phi[i]
    return max(n_updates - first_kept, 0)


@njit(cache=True, error_model="numpy")
def _allocate(state, phi, records, allocation):  # type: ignore[no-untyped-def]
    """Draw how many people are in each category given θ = φ/Σφ and all answers."""
    near, far, own = records.near, records.far, records.own
    members, starts, stops = records.members, records.starts, records.stops
    n_kinds = records.used[KINDS]
    # The mass of the members of each set, and the pools of people to allocate inside and outside of it.
    mass, inside = records.level, records.pull
    total = 0.0
    for i in range(phi.size):
        total += phi[i]
        allocation[i] = 0.0
    outside = np.zeros(n_kinds)
    for v in range(n_kinds):
        mass[v] = 0.0
        inside[v] = 0.0
        for i in range(starts[v], stops[v]):
            mass[v] += phi[members[i]]
    for row in range(records.used[ROWS]):
        v, y, count = records.row_kind[row], records.row_answer[row], records.row_count[row]
        itself = own[v] * phi[y]
        close, rest = near[v] * mass[v], far[v] * max(total - mass[v], 0.0)
        part = binomial(state, count, itself / (itself + close + rest))
        allocation[y] += part
        count -= part
        part = binomial(state, count, close / (close + rest))
        inside[v] += part
        outside[v] += count - part
    for v in range(n_kinds):
        left, weight = inside[v], mass[v]
        for i in range(starts[v], stops[v]):
            if left == 0.0:
                break
            x = members[i]
            part = binomial(state, left, phi[x] / weight) if i + 1 < stops[v] else left
            allocation[x] += part
            left -= part
            weight -= phi[x]
        _scatter_others(state, phi, outside[v], max(total - mass[v], 0.0), members[starts[v] : stops[v]], allocation)


@njit(cache=True, error_model="numpy")
def _scatter_others(state, phi, left, weight, members, allocation):  # type: ignore[no-untyped-def]
    """Allocate `left` people among the categories outside `members` (sorted), whose mass is `weight`."""
    place, last = 0, -1
    for x in range(phi.size):
        if left == 0.0:
            return
        if place < members.size and members[place] == x:
            place += 1
            continue
        part = binomial(state, left, phi[x] / weight) if weight > 0.0 else 0.0
        allocation[x] += part
        left -= part
        weight -= phi[x]
        last = x
    allocation[last] += left  # left over by rounding of the weights


@njit(cache=True, error_model="numpy")
def binomial(state, n, p):  # type: ignore[no-untyped-def]
    """Draw from the binomial distribution; n and the result are whole numbers as floats.

    This uses inversion if few trials succeed or fail, and transformed rejection [1]_ (algorithm BTRS) otherwise.
    """
    if n <= 0.0 or not p > 0.0:
        return 0.0
    if p >= 1.0:
        return n
    flipped = p > 0.5
    p = 1.0 - p if flipped else p
    k = _by_inversion(state, n, p) if n * p < 10.0 else _by_rejection(state, n, p)
    return n - k if flipped else k


@njit(cache=True, error_model="numpy")
def _by_inversion(state, n, p):  # type: ignore[no-untyped-def]
    odds = p / (1.0 - p)
    chance = math.exp(n * math.log1p(-p))
    left, k = uniform(state), 0.0
    while left >= chance and k < n:
        left -= chance
        k += 1.0
        chance *= odds * (n - k + 1.0) / k
    return k


@njit(cache=True, error_model="numpy")
def _by_rejection(state, n, p):  # type: ignore[no-untyped-def]
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    mode = math.floor((n + 1.0) * p)
    while True:
        u, v = uniform(state) - 0.5, 1.0 - uniform(state)
        edge = 0.5 - abs(u)
        k = math.floor((2.0 * a / edge + b) * u + n * p + 0.5)
        if k < 0.0 or k > n:
            continue
        if edge >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        bound = math.lgamma(mode + 1.0) + math.lgamma(n - mode + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
        if math.log(v * alpha / (a / (edge * edge) + b)) <= bound + (k - mode) * math.log(p / (1.0 - p)):
            return k


@njit(cache=True, error_model="numpy")
def log_gamma_variate(state, shape):  # type: ignore[no-untyped-def]
    """Draw the logarithm of a Gamma(shape, 1) variate [2]_; the variate itself underflows if the shape is small."""
    boost = 0.0
    if shape < 1.0:
        boost = math.log1p(-uniform(state)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if math.log1p(-uniform(state)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v) + boost
