"""The compiled core of the likelihood: h of a row, masses of sets, value and gradient.

Samplers, PyTensor Ops and diagnostics call these functions. Four other places evaluate h in a form of their own, and
tests compare each of them with this file or with the same oracle: the online loop, which keeps one code a response
(`adobest_pp.adaptive.records`); `sgld_cv`, which reads rows in batches
(`adobest_pp.samplers.sgld_cv.control_variates`); the regression, which writes no θ down
(`adobest_pp.likelihood.logit`); and the plain PyTensor graph for JAX and second derivatives (`adobest_pp.model.ops`).

θ may be any non-negative vector: ``base`` multiplies Σθ, so h is exactly (Gθ)[y] off the simplex too, and the gradient
is the plain derivative of the value (docs/math.md, section 2).

Where there are thousands of sets, as with subset selection, their masses are looked up. Categories are taken ten at a
time. A table has the sums of θ over all 2¹⁰ subsets of ten categories, each one addition from another. The mass of a
set is then the sum of one entry of each table, and the derivative runs the same way back.
"""

import numpy as np
from numba import njit

from adobest_pp.evidence import BITS, Evidence

# The product of two factors between this and its reciprocal keeps full precision.
SMALLEST_FACTOR = 1e-150


@njit(cache=True, inline="always")
def row_parts(u, theta, total, mass, evidence):  # type: ignore[no-untyped-def]
    """Return the parts of h of one row: ``base·Σθ``, ``own·θ[y]`` and ``inside·θ(S)``. `mass` is θ(S), or 0."""
    own = evidence.own[u] * theta[evidence.category[u]]
    return evidence.base[u] * total, own, evidence.inside[u] * mass


@njit(cache=True, inline="always")
def row_probability(u, theta, total, mass, evidence):  # type: ignore[no-untyped-def]
    """Return h of one row."""
    spread, own, inside = row_parts(u, theta, total, mass, evidence)
    return spread + own + inside


@njit(cache=True, inline="always")
def row_pull(u, weight, evidence, slope):  # type: ignore[no-untyped-def]
    """Add the derivative of ``weight·h`` with respect to θ[y] to `slope`; return those with respect to Σθ and θ(S)."""
    slope[evidence.category[u]] += weight * evidence.own[u]
    return weight * evidence.base[u], weight * evidence.inside[u]


@njit(cache=True, inline="always")
def add_log(value, product, count, h):  # type: ignore[no-untyped-def]
    """Return value + ln product + count·ln h, still as a sum and a product.

    A logarithm costs more than the rest of a row; where rows are single answers, one serves very many.
    """
    if count != 1 or not SMALLEST_FACTOR < h < 1 / SMALLEST_FACTOR:
        return value + count * np.log(h), product
    product *= h
    if SMALLEST_FACTOR < product < 1 / SMALLEST_FACTOR:
        return value, product
    return value + np.log(product), 1.0


@njit(cache=True)
def row_probabilities(theta, evidence):  # type: ignore[no-untyped-def]
    """Return h of every row of evidence."""
    masses = set_masses(theta, evidence)
    total = theta.sum()
    h = np.empty(evidence.base.size)
    for u in range(h.size):
        h[u] = row_probability(u, theta, total, masses[evidence.set_index[u]], evidence)
    return h


@njit(cache=True)
def value_and_gradient(theta, evidence):  # type: ignore[no-untyped-def]
    """Return the log-likelihood without its constant, and its gradient with respect to θ.

    Where a row is impossible under θ, the value is −inf and the gradient NaN.
    """
    masses = set_masses(theta, evidence)
    total = theta.sum()
    slope = np.zeros(theta.size)
    pull = np.zeros(masses.size)
    value, shared, product = 0.0, 0.0, 1.0
    count = evidence.count
    for u in range(count.size):
        v = evidence.set_index[u]
        h = row_probability(u, theta, total, masses[v], evidence)
        if h <= 0.0:
            slope.fill(np.nan)
            return -np.inf, slope
        value, product = add_log(value, product, count[u], h)
        by_total, by_mass = row_pull(u, count[u] / h, evidence, slope)
        shared += by_total
        pull[v] += by_mass
    for i in range(slope.size):
        slope[i] += shared
    _add_to_sets(pull, evidence, slope)
    return value + np.log(product), slope


@njit(cache=True)
def set_mass(v, theta, evidence):  # type: ignore[no-untyped-def]
    """Return θ(S) of one set, or of a pattern, whose numbers follow those of the sets."""
    mass = 0.0
    if v < evidence.offsets.size - 1:
        for j in range(evidence.offsets[v], evidence.offsets[v + 1]):
            mass += theta[evidence.members[j]]
        return mass
    for i in range(theta.size):
        mass += evidence.patterns[v - evidence.offsets.size + 1, i] * theta[i]
    return mass


@njit(cache=True)
def add_to_set(v, amount, evidence, slope):  # type: ignore[no-untyped-def]
    """Add the derivative of ``amount·θ(S)`` with respect to θ to `slope`, for one set or pattern."""
    if v < evidence.offsets.size - 1:
        for j in range(evidence.offsets[v], evidence.offsets[v + 1]):
            slope[evidence.members[j]] += amount
        return
    for i in range(slope.size):
        slope[i] += amount * evidence.patterns[v - evidence.offsets.size + 1, i]


@njit(cache=True)
def set_masses(theta, evidence):  # type: ignore[no-untyped-def]
    """Return θ(S) of every set and pattern, and one 0 more: rows without a set have index −1 and find it at the end."""
    masses = np.zeros(evidence.offsets.size + len(evidence.patterns))
    codes = evidence.codes
    if len(codes) == 0:
        for v in range(masses.size - 1):
            masses[v] = set_mass(v, theta, evidence)
        return masses
    table = np.zeros(2**BITS)
    for t in range(len(codes)):
        for i in range(t * BITS, min((t + 1) * BITS, theta.size)):
            width = 1 << (i - t * BITS)
            for j in range(width):
                table[width + j] = table[j] + theta[i]
        for v in range(codes.shape[1]):
            masses[v] += table[codes[t, v]]
    return masses


@njit(cache=True)
def _add_to_sets(pull, evidence, slope):  # type: ignore[no-untyped-def]
    """Add the derivatives of ``pull[v]·θ(S)`` with respect to θ to `slope`, for all sets and patterns."""
    codes = evidence.codes
    if len(codes) == 0:
        for v in range(pull.size - 1):
            add_to_set(v, pull[v], evidence, slope)
        return
    for t in range(len(codes)):
        table = np.zeros(2**BITS)
        for v in range(codes.shape[1]):
            table[codes[t, v]] += pull[v]
        for i in range(min((t + 1) * BITS, slope.size) - 1, t * BITS - 1, -1):
            width = 1 << (i - t * BITS)
            for j in range(width):
                slope[i] += table[width + j]
                table[j] += table[width + j]


# The likelihood where people have different θ: one row of a matrix (G, K) for each group, or for each person.
#
# Responses of one group that tell the same are one pair (group, row of evidence) with a weight. Each pair costs as much
# as its row has members, so the cost is that of the distinct pairs. Nothing of the size of θ is made but its gradient.

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
            value, product = add_log(value, product, weight[p], h)
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
