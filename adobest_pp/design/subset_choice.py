"""The choice of a subset, compiled: what the online loop calls at every step.

One rule everywhere. Categories are ordered by θ, equal ones by index. Sizes whose utilities agree to within `TIE`
(relative) are tied and the smallest of them is taken, so that values that are equal and were rounded apart stay tied.
"""

import numpy as np
from numba import njit

from adobest_pp.design import utility_kernels as kernels

__all__ = ["TIE", "UTILITY_CODES", "best_size", "choose_size", "semi_adaptive_size", "sort_descending"]

TIE = 1e-12
RUN = 32  # up to here insertion beats merging

NONADAPTIVE, SEMI_ADAPTIVE, FISHER, ENTROPY, TV1, TV2, MSE, HONEST = range(8)
UTILITY_CODES = {
    "nonadaptive": NONADAPTIVE,
    "semi_adaptive": SEMI_ADAPTIVE,
    "fisher": FISHER,
    "entropy": ENTROPY,
    "tv1": TV1,
    "tv2": TV2,
    "mse": MSE,
    "honest": HONEST,
}


@njit(cache=True, error_model="numpy")
def choose_size(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
    """Return the size k that a utility chooses; the subset is then ``order[:k]``.

    Parameters
    ----------
    code : int
        One of `UTILITY_CODES`. A plain number, so that one compiled function serves all and is cached on disk.
    alpha : float
        The mass that ``semi_adaptive`` asks for; the others ignore it.
    theta : float64[K]
        Non-negative, not all zero; divided by its sum here, so that φ does as well.
    coefficients : Coefficients
        Of the RRRR mechanism.
    order : int64[K]
        Any permutation of 0 … K−1, replaced by the order of θ: the order of the step before makes that cheap.
    smallest_size : int
        The first candidate: 0 (then SRR is among them), or more. ``nonadaptive`` is SRR, 0, whatever is given, and
        leaves `order` alone.
    """
    if code == NONADAPTIVE:
        return 0
    ranked = sort_descending(theta, order)
    if code == SEMI_ADAPTIVE:
        return max(smallest_size, semi_adaptive_size(alpha, ranked))
    if code == FISHER:
        values = kernels.fisher(ranked, coefficients)
    elif code == ENTROPY:
        values = kernels.entropy(ranked, coefficients)
    elif code == TV1:
        values = kernels.tv1(ranked, coefficients)
    elif code == TV2:
        values = kernels.tv2(ranked, coefficients)
    elif code == MSE:
        values = kernels.mse(ranked, coefficients)
    else:
        values = kernels.honest(ranked, coefficients)
    return best_size(values, smallest_size)


@njit(cache=True, error_model="numpy")
def best_size(values, smallest_size):  # type: ignore[no-untyped-def]
    """Return the smallest size, from `smallest_size` up, whose value is within `TIE` of the greatest."""
    best = values[smallest_size]
    for k in range(smallest_size + 1, values.size):
        best = max(best, values[k])
    level = best - TIE * abs(best)
    k = smallest_size
    while values[k] < level:
        k += 1
    return k


@njit(cache=True, error_model="numpy")
def semi_adaptive_size(alpha, ranked):  # type: ignore[no-untyped-def]
    """Return the smallest k in 0 … K−1 whose k greatest probabilities reach `alpha`, or K−1 if none do."""
    mass = 0.0
    k = 0
    # Eight tenths add up to a little less than 0.8, and reach it.
    while k < ranked.size - 1 and mass < alpha - TIE:
        mass += ranked[k]
        k += 1
    return k


@njit(cache=True, error_model="numpy")
def sort_descending(theta, order):  # type: ignore[no-untyped-def]
    """Put `order` in the order of θ, greatest first and equal ones by index; return θ in it, divided by its sum."""
    n = order.size
    for start in range(0, n, RUN):
        _insertion_sort(theta, order, start, min(start + RUN, n))
    width = RUN
    while width < n:
        for start in range(0, n - width, 2 * width):
            _merge(theta, order, start, start + width, min(start + 2 * width, n))
        width *= 2
    ranked = np.empty(theta.size)
    total = 0.0
    for i in range(theta.size - 1, -1, -1):
        ranked[i] = theta[order[i]]
        total += ranked[i]
    for i in range(theta.size):
        ranked[i] /= total
    return ranked


@njit(cache=True, error_model="numpy")
def _precedes(theta, i, j):  # type: ignore[no-untyped-def]
    return theta[i] > theta[j] or (theta[i] == theta[j] and i < j)


@njit(cache=True, error_model="numpy")
def _insertion_sort(theta, order, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start + 1, stop):
        item = order[i]
        j = i
        while j > start and _precedes(theta, item, order[j - 1]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@njit(cache=True, error_model="numpy")
def _merge(theta, order, start, middle, stop):  # type: ignore[no-untyped-def]
    """Merge two sorted runs; runs that are in order already, as most are from one step to the next, cost nothing."""
    if not _precedes(theta, order[middle], order[middle - 1]):
        return
    left = order[start:middle].copy()
    i, j, place = 0, middle, start
    while i < left.size:
        if j < stop and _precedes(theta, order[j], left[i]):
            order[place] = order[j]
            j += 1
        else:
            order[place] = left[i]
            i += 1
        place += 1
