"""The posterior of θ on unconstrained coordinates, compiled to C functions that NUTS calls.

Under a given prior, θ ~ Dirichlet(ρ), the coordinates are K−1 of ψ ~ Dirichlet, and one for each category that is
boosted. Where a concentration ρ is below one, ln θ of an empty category spreads over 1/ρ and ends at a cliff, which
NUTS cannot follow. There θ ∝ ψ·U^(1/ρ), with ψ ~ Dirichlet(ρ+1) and U uniform, is the same prior [1]_, and ln(−ln U) is
one more coordinate, with a scale of one. We call such a category boosted. Categories that the answers show to be held
do not need it (docs/math.md, section 4).

Under a prior that is learned, the coordinates are those of `adobest_pp.samplers.learned_density`.

References
----------
.. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
   Mathematical Software 26(3).
"""

import functools
from typing import Any

import numba
import numpy as np
from numba import carray, njit, types
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.model.simplex import log_theta, pull_to_free
from adobest_pp.samplers.learned_density import learned_log_density, learned_theta

__all__ = ["compiled_functions", "log_density", "pack"]

_REALS = types.CPointer(types.double)
_LOG_DENSITY = types.int64(types.uint64, _REALS, _REALS, _REALS, types.voidptr)
_EXPAND = types.int64(types.uint64, types.uint64, _REALS, _REALS, types.voidptr)
_HEADER = 7
_LARGEST_LOG = 700.0


def pack(
    first: NDArray[np.float64],
    second: NDArray[np.float64] | NDArray[np.bool_],
    evidence: Evidence,
    learned: tuple[float, float] | None = None,
) -> NDArray[np.int64]:
    """Join prior and evidence in one block of 8-byte words, after the sizes that tell where each array begins.

    Parameters
    ----------
    first, second : array of shape (K,)
        Of a given prior, its concentrations and which categories are boosted; of a learned one, scales and shifts.
    evidence : Evidence
        Collapsed responses.
    learned : tuple of float, optional
        Mean and standard deviation of ln a, of a prior that is learned.
    """
    n_tables = len(evidence.codes)
    # Where masses are looked up, the lists of members are not read.
    members = evidence.members[:0] if n_tables else evidence.members
    of_sets = evidence.offsets.size, len(evidence.patterns), members.size, n_tables
    sizes = (learned is not None, first.size, evidence.n_rows, *of_sets)
    prior = np.concatenate([first, second, learned or (0.0, 0.0)])
    rows = evidence[: Evidence._fields.index("members")]
    parts = (np.array(sizes), prior, *rows, evidence.offsets, evidence.patterns, members, evidence.codes)
    whole = b"".join(part.tobytes() + bytes(-part.nbytes % 8) for part in parts)
    return np.frombuffer(whole, dtype=np.int64).copy()


@functools.cache
def compiled_functions() -> tuple[Any, Any]:
    """Return the C functions for nutpie, compiled or read from Numba's cache."""
    return numba.cfunc(_LOG_DENSITY, cache=True)(_log_density), numba.cfunc(_EXPAND, cache=True)(_expand)


def _log_density(dim, free_, gradient_, value_, block_):  # type: ignore[no-untyped-def]
    header = carray(block_, _HEADER, np.int64)
    learned, k, u, o, d, m, t = header[0], header[1], header[2], header[3], header[4], header[5], header[6]
    # Where a is 0 or infinite in double precision, or NaN, there is no density: no step may end there.
    if learned and not abs(carray(free_, dim)[dim - 1]) < _LARGEST_LOG:
        return 1
    prior = _HEADER + 2 * k
    rows = prior + 2
    offsets = rows + 7 * u
    patterns = offsets + o
    members = patterns + d * k
    codes = members + (m + 1) // 2
    n_codes = t * (o - 1)
    reals = carray(block_, members, np.float64)
    words = carray(block_, members, np.int64)
    evidence = Evidence(
        reals[rows : rows + u],
        reals[rows + u : rows + 2 * u],
        reals[rows + 2 * u : rows + 3 * u],
        reals[rows + 3 * u : rows + 4 * u],
        words[rows + 4 * u : rows + 5 * u],
        words[rows + 5 * u : rows + 6 * u],
        words[rows + 6 * u : offsets],
        carray(block_, 2 * members + m, np.int32)[2 * members :],
        words[offsets:patterns],
        reals[patterns:members].reshape(d, k),
        carray(block_, 4 * codes + n_codes, np.uint16)[4 * codes :].reshape(t, o - 1),
    )
    free, first, second = carray(free_, dim), reals[_HEADER : _HEADER + k], reals[_HEADER + k : prior]
    if learned:
        value, gradient = learned_log_density(free, first, second, reals[prior], reals[prior + 1], evidence)
    else:
        value, gradient = log_density(free, first, second, evidence)
    carray(value_, 1)[0] = value
    out = carray(gradient_, dim)
    finite = np.isfinite(value)
    for i in range(dim):
        out[i] = gradient[i]
        finite &= np.isfinite(gradient[i])
    return 0 if finite else 1


def _expand(dim, n_expanded, free_, expanded_, block_):  # type: ignore[no-untyped-def]
    """Write θ, and a after it where it is learned."""
    header = carray(block_, _HEADER, np.int64)
    learned, k = header[0], header[1]
    free, prior = carray(free_, dim), carray(block_, _HEADER + 2 * k, np.float64)[_HEADER:]
    theta = learned_theta(free, prior[:k], prior[k:]) if learned else boosted_theta(free, prior[:k], prior[k:])[1]
    out = carray(expanded_, n_expanded)
    for i in range(k):
        out[i] = theta[i]
    if learned:
        out[k] = np.exp(free[dim - 1])
    return 0


@njit(cache=True)
def boosted_theta(free, prior, boosted):  # type: ignore[no-untyped-def]
    """Return ln ψ and θ of the free coordinates."""
    n = prior.size
    log_psi = log_theta(free[: n - 1])
    theta = log_psi.copy()
    extra = n - 1
    largest = -np.inf
    for i in range(n):
        if boosted[i]:
            theta[i] -= np.exp(free[extra]) / prior[i]
            extra += 1
        largest = max(largest, theta[i])
    total = 0.0
    for i in range(n):
        theta[i] = np.exp(theta[i] - largest)
        total += theta[i]
    for i in range(n):
        theta[i] /= total
    return log_psi, theta


@njit(cache=True)
def log_density(free, prior, boosted, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of the free coordinates under a given prior, up to a constant, and its gradient."""
    log_psi, theta = boosted_theta(free, prior, boosted)
    value, slope = value_and_gradient(theta, evidence)
    average = 0.0
    for i in range(theta.size):
        average += slope[i] * theta[i]
    gradient = np.empty(free.size)
    extra = theta.size - 1
    for i in range(theta.size):
        slope[i] = theta[i] * (slope[i] - average)
        # The Jacobian of the softmax is Πψ, which turns the exponents of the Dirichlet from ρ−1 into ρ.
        exponent = prior[i]
        if boosted[i]:
            gap = np.exp(free[extra])
            value += free[extra] - gap
            gradient[extra] = 1 - gap - slope[i] * gap / prior[i]
            exponent += 1
            extra += 1
        value += exponent * log_psi[i]
        slope[i] += exponent
    by_free = pull_to_free(slope, np.exp(log_psi))
    for i in range(by_free.size):
        gradient[i] = by_free[i]
    return value, gradient
