"""The likelihood where people have different θ: one row of a matrix (G, K) for each group, or for each person.

Responses of one group that tell the same are one pair (group, row of evidence) with a weight. Each pair costs as much
as its row has members, so the cost is that of the distinct pairs. Nothing of the size of θ is made but its gradient.
"""

import numpy as np
from numba import njit

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import (
    SMALLEST_FACTOR,
    add_to_set,
    row_probabilities,
    row_probability,
    row_pull,
    set_mass,
    value_and_gradient,
)

__all__ = ["SIMPLEX_TOLERANCE", "is_simplex", "pair_probabilities", "pairs_value_and_gradient"]

# How far from a sum of one, or below zero, a θ may be and still count as one that arithmetic has rounded.
SIMPLEX_TOLERANCE = 1e-6


@njit(cache=True)
def is_simplex(theta):  # type: ignore[no-untyped-def]
    """Tell whether a vector is non-negative and sums to one, up to rounding."""
    total = 0.0
    for value in theta:
        if not value >= -SIMPLEX_TOLERANCE:
            return False
        total += value
    return abs(total - 1.0) <= SIMPLEX_TOLERANCE


@njit(cache=True)
def pairs_value_and_gradient(theta, group, row, weight, evidence, on_simplex):  # type: ignore[no-untyped-def]
    """Return the log-likelihood without its constant, and its gradient with respect to θ, of shape (G, K).

    Pairs are distinct, and sorted by group and row. A pair that is impossible under θ gives −inf and NaN. With
    `on_simplex`, so does a θ off the simplex, if its group has responses, but with a gradient of zeros.
    """
    if len(theta) == 1 and row.size == evidence.base.size and (not on_simplex or is_simplex(theta[0])):
        one = value_and_gradient(theta[0], _weighted(evidence, weight))
        return one[0], one[1].reshape(theta.shape)
    slope = np.zeros(theta.shape)
    value, product, p = 0.0, 1.0, 0
    for g in range(len(theta)):
        if p == group.size or group[p] != g:
            continue
        if on_simplex and not is_simplex(theta[g]):
            return -np.inf, np.zeros(theta.shape)
        total, shared = theta[g].sum(), 0.0
        while p < group.size and group[p] == g:
            u, v = row[p], evidence.set_index[row[p]]
            h = row_probability(u, theta[g], total, set_mass(v, theta[g], evidence) if v >= 0 else 0.0, evidence)
            if h <= 0.0:
                slope.fill(np.nan)
                return -np.inf, slope
            # As in the core: one logarithm serves very many single answers.
            if weight[p] == 1 and SMALLEST_FACTOR < h < 1 / SMALLEST_FACTOR:
                product *= h
                if not SMALLEST_FACTOR < product < 1 / SMALLEST_FACTOR:
                    value += np.log(product)
                    product = 1.0
            else:
                value += weight[p] * np.log(h)
            by_total, by_mass = row_pull(u, weight[p] / h, evidence, slope[g])
            shared += by_total
            if v >= 0:
                add_to_set(v, by_mass, evidence, slope[g])
            p += 1
        for i in range(theta.shape[1]):
            slope[g, i] += shared
    return value + np.log(product), slope


@njit(cache=True)
def pair_probabilities(theta, group, row, evidence):  # type: ignore[no-untyped-def]
    """Return h of every pair, and 0 where θ of its group is off the simplex."""
    h = np.zeros(group.size)
    if len(theta) == 1 and row.size == evidence.base.size:
        return row_probabilities(theta[0], evidence) if is_simplex(theta[0]) else h
    last, total, valid = -1, 0.0, False
    for p in range(h.size):
        g, u, v = group[p], row[p], evidence.set_index[row[p]]
        if g != last:
            last, total, valid = g, theta[g].sum(), is_simplex(theta[g])
        if valid:
            h[p] = row_probability(u, theta[g], total, set_mass(v, theta[g], evidence) if v >= 0 else 0.0, evidence)
    return h


@njit(cache=True)
def _weighted(evidence, weight):  # type: ignore[no-untyped-def]
    """Return the evidence with other counts."""
    return Evidence(
        evidence.base,
        evidence.own,
        evidence.inside,
        evidence.log_scale,
        evidence.category,
        evidence.set_index,
        weight,
        evidence.members,
        evidence.offsets,
        evidence.patterns,
        evidence.codes,
    )
