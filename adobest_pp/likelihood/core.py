"""The compiled core of the likelihood: h of a row, masses of sets, value and gradient.

Samplers, PyTensor Ops and diagnostics call these functions. Four other places evaluate h in a form of their own, and
tests compare each of them with this file or with the same oracle: the online loop, which keeps one code per response
(`adobest_pp.adaptive.records`); `sgld_cv`, which reads rows in batches
(`adobest_pp.samplers.sgld_cv.control_variates`); the regression, which stores no θ (`adobest_pp.likelihood.logit`);
and the plain PyTensor graph for JAX and second derivatives (`adobest_pp.model.ops`).

θ may be any non-negative vector: ``base`` multiplies Σθ, so h is exactly (Gθ)[y] off the simplex too, and the gradient
is the plain derivative of the value (docs/math.md, section 2).

If there are thousands of sets, as with subset selection, their masses are looked up. Categories are taken ten at a
time. A table has the sums of θ over all 2¹⁰ subsets of ten categories, each one addition from another. The mass of a
set is then the sum of one entry of each table, and the derivative goes the same way backwards. Sets that a mechanism
only numbers, as Hadamard response does for thousands of categories, get their masses from a fast transform
(`adobest_pp.transforms`).
"""

import numpy as np
from numba import njit

from adobest_pp.evidence import BITS, Evidence
from adobest_pp.transforms import add_structured, blocks, is_member, n_structured, structured_masses

# The places of the counts in evidence, and of what follows them.
_COUNT = Evidence._fields.index("count")
_AFTER_COUNT = _COUNT + 1
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

    A logarithm costs more than the rest of a row. For rows that are single answers, one serves many of them.
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

    If a row is impossible under θ, the value is −inf and the gradient NaN.
    """
    return _value_and_gradient(theta, evidence, blocks(evidence.structure))


@njit(cache=True)
def _value_and_gradient(theta, evidence, structure):  # type: ignore[no-untyped-def]
    if structure is not None:
        return _value_and_gradient_by_passes(theta, evidence)
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


# The same for answers that repeat and sets that are only numbered. Transforms are so fast that the logarithms of the
# rows would take most of the time. A pass over the rows for each step can be vectorized, unlike calls of `math.log`:
# ln h = e·ln 2 + 2·atanh((m − 1)/(m + 1)) for h = m·2^e with m from √½ to √2.

_LN2 = 0.6931471805599453
_ROOT = 0x3FE6A09E667F3BCD  # the bits of √½
_MANTISSA = 0x000FFFFFFFFFFFFF
_C1, _C3, _C5, _C7, _C9, _C11, _C13, _C15, _C17 = (2.0 / n for n in range(1, 19, 2))


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def write_logarithms(x, out):  # type: ignore[no-untyped-def]
    """Write ln x of positive normal numbers, to within eight units in the last place of e·ln 2 or the rest."""
    words = x.view(np.int64)
    exponents = np.empty(x.size)
    bits = out.view(np.int64)
    for i in range(x.size):
        shifted = words[i] - _ROOT
        exponents[i] = np.float64(shifted >> 52)
        bits[i] = (shifted & _MANTISSA) + _ROOT
    for i in range(x.size):
        f = (out[i] - 1.0) / (out[i] + 1.0)
        s = f * f
        high = ((((_C17 * s + _C15) * s + _C13) * s + _C11) * s + _C9) * s + _C7
        out[i] = exponents[i] * _LN2 + f * (((high * s + _C5) * s + _C3) * s + _C1)


@njit(cache=True, error_model="numpy")
def _value_and_gradient_by_passes(theta, evidence):  # type: ignore[no-untyped-def]
    masses = set_masses(theta, evidence)
    total, least = theta.sum(), np.inf
    base, own, inside, category = evidence.base, evidence.own, evidence.inside, evidence.category
    set_index, count = evidence.set_index, evidence.count
    slope, pull, h = np.zeros(theta.size), np.zeros(masses.size), np.empty(base.size)
    for u in range(h.size):
        h[u] = base[u] * total + own[u] * theta[category[u]] + inside[u] * masses[set_index[u]]
    for u in range(h.size):
        least = h[u] if h[u] < least else least
    # The logarithms above take NaN for a number.
    if not least > SMALLEST_FACTOR or not total < np.inf:
        slope.fill(np.nan)
        return -np.inf, slope
    logs = np.empty(h.size)
    write_logarithms(h, logs)
    value, shared = 0.0, 0.0
    for u in range(h.size):
        value += count[u] * logs[u]
        weight = count[u] / h[u]
        shared += weight * base[u]
        if own[u] != 0.0:
            slope[category[u]] += weight * own[u]
        pull[set_index[u]] += weight * inside[u]
    for i in range(slope.size):
        slope[i] += shared
    _add_to_sets(pull, evidence, slope)
    return value, slope


@njit(cache=True)
def information_diagonal(theta, evidence):  # type: ignore[no-untyped-def]
    """Return Σ count·(g_x/h − 1)² for every category x: the information about θ_x if all others change in proportion.

    θ must sum to one. This costs as much as a gradient, and needs no array of K² numbers. The category of a row is not
    in its set (docs/math.md, section 2).
    """
    masses = set_masses(theta, evidence)
    total, shared = theta.sum(), 0.0
    found, linear, square = np.zeros(theta.size), np.zeros(masses.size), np.zeros(masses.size)
    for u in range(evidence.count.size):
        v = evidence.set_index[u]
        h = row_probability(u, theta, total, masses[v], evidence)
        rest, own, inside = evidence.base[u] / h - 1.0, evidence.own[u] / h, evidence.inside[u] / h
        shared += evidence.count[u] * rest * rest
        found[evidence.category[u]] += evidence.count[u] * own * (own + 2.0 * rest)
        linear[v] += evidence.count[u] * 2.0 * rest * inside
        square[v] += evidence.count[u] * inside * inside
    n_sets = evidence.offsets.size - 1
    for d in range(len(evidence.patterns)):
        for i in range(theta.size):
            weight = evidence.patterns[d, i]
            found[i] += weight * (linear[n_sets + d] + weight * square[n_sets + d])
        linear[n_sets + d] = square[n_sets + d] = 0.0
    _add_to_sets(linear + square, evidence, found)
    return found + shared


# One set. A loop over rows takes the arrays out of the evidence first, and calls one function for sets with members and
# another for all other sets. Numba counts references to every array that a function is given, unless the function is so
# simple that it need not. With the whole evidence in one function, that took five times as long as the sum itself; one
# inlined function for both kinds of sets made updates of SGLD two to six times slower.


@njit(cache=True)
def listed_mass(v, theta, offsets, members):  # type: ignore[no-untyped-def]
    """Return θ(S) of a set with members."""
    mass = 0.0
    for j in range(offsets[v], offsets[v + 1]):
        mass += theta[members[j]]
    return mass


@njit(cache=True)
def add_to_listed(v, amount, offsets, members, slope):  # type: ignore[no-untyped-def]
    """Add the derivative of ``amount·θ(S)`` with respect to θ to `slope`, for a set with members."""
    for j in range(offsets[v], offsets[v + 1]):
        slope[members[j]] += amount


@njit(cache=True)
def other_mass(d, theta, patterns, structure):  # type: ignore[no-untyped-def]
    """Return θ(S) of a set without members: pattern d, or after all patterns a set of the structure."""
    mass = 0.0
    if structure is None or d < len(patterns):
        for i in range(theta.size):
            mass += patterns[d, i] * theta[i]
        return mass
    for i in range(theta.size):
        if is_member(i, d - len(patterns), structure):
            mass += theta[i]
    return mass


@njit(cache=True)
def add_to_other(d, amount, patterns, structure, slope):  # type: ignore[no-untyped-def]
    """Add the derivative of ``amount·θ(S)`` with respect to θ to `slope`, for a pattern or a set of the structure."""
    if structure is None or d < len(patterns):
        for i in range(slope.size):
            slope[i] += amount * patterns[d, i]
        return
    for i in range(slope.size):
        if is_member(i, d - len(patterns), structure):
            slope[i] += amount


@njit(cache=True)
def set_masses(theta, evidence):  # type: ignore[no-untyped-def]
    """Return θ(S) of every set and pattern, and a 0 at the end, for the index −1 of rows without a set."""
    offsets, members, patterns, codes = evidence.offsets, evidence.members, evidence.patterns, evidence.codes
    n_sets = offsets.size - 1
    masses = np.zeros(n_sets + len(patterns) + n_structured(evidence.structure) + 1)
    structured_masses(theta, blocks(evidence.structure), masses[n_sets + len(patterns) :])
    for d in range(len(patterns)):
        masses[n_sets + d] = other_mass(d, theta, patterns, None)
    for v in range(codes.shape[1] if len(codes) else 0, n_sets):
        masses[v] = listed_mass(v, theta, offsets, members)
    if len(codes) == 0:
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
    offsets, members, patterns, codes = evidence.offsets, evidence.members, evidence.patterns, evidence.codes
    n_sets = offsets.size - 1
    add_structured(pull[n_sets + len(patterns) :], blocks(evidence.structure), slope)
    for v in range(codes.shape[1] if len(codes) else 0, n_sets):
        add_to_listed(v, pull[v], offsets, members, slope)
    for d in range(len(patterns)):
        add_to_other(d, pull[n_sets + d], patterns, None, slope)
    for t in range(len(codes)):
        table = np.zeros(2**BITS)
        for v in range(codes.shape[1]):
            table[codes[t, v]] += pull[v]
        for i in range(min((t + 1) * BITS, slope.size) - 1, t * BITS - 1, -1):
            width = 1 << (i - t * BITS)
            for j in range(width):
                slope[i] += table[width + j]
                table[j] += table[width + j]


# The likelihood if people have different θ: one row of a matrix (G, K) for each group, or for each person.
#
# Equal responses of one group are one pair (group, row of evidence) with a weight. The cost of a pair grows with the
# members of its row, so the total cost is that of the distinct pairs. The only array of the size of θ is its gradient.

# The rounding error that θ may have: how far below zero, or how far its sum from one.
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
    `on_simplex`, a θ off the simplex gives −inf and zeros, if its group has responses.
    """
    if len(theta) == 1 and row.size == evidence.base.size and (not on_simplex or is_simplex(theta[0])):
        one = value_and_gradient(theta[0], _weighted(evidence, weight))
        return one[0], one[1].reshape(theta.shape)
    offsets, members, patterns = evidence.offsets, evidence.members, evidence.patterns
    structure, n_sets = blocks(evidence.structure), offsets.size - 1
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
            mass = 0.0
            if 0 <= v < n_sets:
                mass = listed_mass(v, theta[g], offsets, members)
            elif v >= 0:
                mass = other_mass(v - n_sets, theta[g], patterns, structure)
            h = row_probability(u, theta[g], total, mass, evidence)
            if h <= 0.0:
                slope.fill(np.nan)
                return -np.inf, slope
            value, product = add_log(value, product, weight[p], h)
            by_total, by_mass = row_pull(u, weight[p] / h, evidence, slope[g])
            shared += by_total
            if 0 <= v < n_sets:
                add_to_listed(v, by_mass, offsets, members, slope[g])
            elif v >= 0:
                add_to_other(v - n_sets, by_mass, patterns, structure, slope[g])
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
    offsets, members, patterns = evidence.offsets, evidence.members, evidence.patterns
    structure, n_sets = blocks(evidence.structure), offsets.size - 1
    last, total, valid = -1, 0.0, False
    for p in range(h.size):
        g, u, v = group[p], row[p], evidence.set_index[row[p]]
        if g != last:
            last, total, valid = g, theta[g].sum(), is_simplex(theta[g])
        if valid:
            mass = 0.0
            if 0 <= v < n_sets:
                mass = listed_mass(v, theta[g], offsets, members)
            elif v >= 0:
                mass = other_mass(v - n_sets, theta[g], patterns, structure)
            h[p] = row_probability(u, theta[g], total, mass, evidence)
    return h


@njit(cache=True)
def _weighted(evidence, weight):  # type: ignore[no-untyped-def]
    """Return the evidence with other counts. Compiled code has no ``_replace``."""
    return Evidence(*evidence[:_COUNT], weight, *evidence[_AFTER_COUNT:])  # type: ignore[call-arg]
