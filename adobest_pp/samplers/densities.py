"""The posterior of θ on unconstrained coordinates, compiled to C functions that NUTS calls.

θ ~ Dirichlet(ρ), or θ ~ Dirichlet(a·ρ) with a learned: ln a ~ N(−1, 1). The coordinates are K−1 of ψ ~ Dirichlet, one
for each category that is boosted, and ln a where it is learned, in this order.

Where a concentration ρ of the prior is below one, ln θ of an empty category spreads over 1/ρ and ends at a cliff, which
NUTS cannot follow. There θ ∝ ψ·U^(1/ρ), with ψ ~ Dirichlet(ρ+1) and U uniform, is the same prior [1]_, and ln(−ln U) is
one more coordinate, with a scale of one. We call such a category boosted. Categories that the answers show to be held
do not need it (docs/math.md, section 4).

References
----------
.. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
   Mathematical Software 26(3).
"""

import functools
import math
from typing import Any

import numba
import numpy as np
from numba import carray, njit, types
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.model.simplex import log_theta, pull_to_free

__all__ = ["compiled_functions", "log_density", "pack"]

_REALS = types.CPointer(types.double)
_LOG_DENSITY = types.int64(types.uint64, _REALS, _REALS, _REALS, types.voidptr)
_EXPAND = types.int64(types.uint64, types.uint64, _REALS, _REALS, types.voidptr)
_HEADER = 7
_LARGEST_LOG = 700.0


def pack(
    prior: NDArray[np.float64], boosted: NDArray[np.bool_], learned: bool, evidence: Evidence
) -> NDArray[np.int64]:
    """Join prior and evidence in one block of 8-byte words, after the sizes that tell where each array begins."""
    n_tables = len(evidence.codes)
    # Where masses are looked up, the lists of members are not read.
    members = evidence.members[:0] if n_tables else evidence.members
    of_sets = evidence.offsets.size, len(evidence.patterns), members.size, n_tables
    sizes = (learned, prior.size, evidence.n_rows, *of_sets)
    rows = evidence[: Evidence._fields.index("members")]
    parts = (np.array(sizes), prior, boosted.astype(np.int64), *rows, evidence.offsets, evidence.patterns)
    whole = b"".join(part.tobytes() + bytes(-part.nbytes % 8) for part in (*parts, members, evidence.codes))
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
    rows = _HEADER + 2 * k
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
    value, gradient = log_density(
        carray(free_, dim), reals[_HEADER : _HEADER + k], words[_HEADER + k : rows], learned, evidence
    )
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
    weights = carray(block_, _HEADER + k, np.float64)[_HEADER:]
    boosted = carray(block_, _HEADER + 2 * k, np.int64)[_HEADER + k :]
    free = carray(free_, dim)
    prior = concentrations(free, weights, learned)
    _, theta = boosted_theta(free, prior, boosted)
    out = carray(expanded_, n_expanded)
    for i in range(k):
        out[i] = theta[i]
    if learned:
        out[k] = np.exp(free[dim - 1])
    return 0


@njit(cache=True)
def concentrations(free, weights, learned):  # type: ignore[no-untyped-def]
    """Return ρ of the Dirichlet: the given one, times a where it is learned."""
    return weights * np.exp(free[free.size - 1]) if learned else weights.copy()


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
def log_density(free, weights, boosted, learned, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of the free coordinates, up to a constant, and its gradient."""
    prior = concentrations(free, weights, learned)
    log_psi, theta = boosted_theta(free, prior, boosted)
    value, slope = value_and_gradient(theta, evidence)
    average = 0.0
    for i in range(theta.size):
        average += slope[i] * theta[i]
    gradient = np.empty(free.size)
    extra = theta.size - 1
    by_scale = 0.0
    for i in range(theta.size):
        slope[i] = theta[i] * (slope[i] - average)
        # The Jacobian of the softmax is Πψ, which turns the exponents of the Dirichlet from ρ−1 into ρ.
        by_scale += prior[i] * log_psi[i]
        if boosted[i]:
            gap = np.exp(free[extra])
            value += free[extra] - gap
            gradient[extra] = 1 - gap - slope[i] * gap / prior[i]
            by_scale += slope[i] * gap / prior[i]
            prior[i] += 1
            extra += 1
        value += prior[i] * log_psi[i]
        slope[i] += prior[i]
    by_free = pull_to_free(slope, np.exp(log_psi))
    for i in range(by_free.size):
        gradient[i] = by_free[i]
    if learned:
        constant, by_constant = _scale_density(free[extra], prior, boosted)
        value += constant
        gradient[extra] = by_scale + by_constant
    return value, gradient


@njit(cache=True)
def _scale_density(log_scale, exponents, boosted):  # type: ignore[no-untyped-def]
    """Return what depends on a alone, the logarithms of its prior and of Γ(Σ)/ΠΓ, and the derivative."""
    mean, sd = LOG_CONCENTRATION
    distance = (log_scale - mean) / sd
    total, scaled = 0.0, 0.0
    value, slope = -0.5 * distance**2, -distance / sd
    for i in range(exponents.size):
        part = exponents[i] - (1.0 if boosted[i] else 0.0)
        total += exponents[i]
        scaled += part
        value -= math.lgamma(exponents[i])
        slope -= part * digamma(exponents[i])
    return value + math.lgamma(total), slope + scaled * digamma(total)


@njit(cache=True)
def digamma(x):  # type: ignore[no-untyped-def]
    """Return the derivative of ln Γ at x > 0: upwards by its recurrence, and there by its asymptotic series."""
    below = 0.0
    while x < 8.0:
        below += 1.0 / x
        x += 1.0
    s = 1.0 / (x * x)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - below
