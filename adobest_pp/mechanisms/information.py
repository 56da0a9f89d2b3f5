"""Fisher information of θ in one answer: from the matrix or, if there are too many answers, from their sets.

An answer with support A has P(A) = w_A·(1 + a·θ(A)), so the information is Σ_A w_A q_A q_Aᵀ/(1 + aθ(A)) with
q_A = 1 + a·1_A. The identity 1/(1 + aθ(A)) = ∫ e^(−s)·Π_{l∈A} e^(−s·a·θ_l) ds turns the sum over random sets into an
integral over products with one factor per category.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._types import Floats, Integers, Masks

# The trapezoidal rule in ln s. Its error falls as e^(−π²/h), so these nodes give about 14 digits.
_STEP = 0.25
_NODES = np.exp(np.arange(-36.0, 4.0, _STEP))
_WEIGHTS = _STEP * _NODES * np.exp(-_NODES)
# Entries of support sets that are in memory at a time.
_ENTRIES_AT_ONCE = 1 << 22


def from_matrix(matrix: Floats, theta: Floats) -> Floats:
    """Return Gᵀ diag(1/(Gθ)) G, of shape (K, K), for G[y, x] = P(y|x)."""
    chance = matrix @ theta
    possible = chance > 0
    return np.asarray((matrix[possible].T / chance[possible]) @ matrix[possible])


def from_supports(
    support: Callable[[Integers], Masks], answers: Integers, theta: Floats, odds: float, weight: float
) -> Floats:
    """Return the information of answers that all have the same w, some support sets at a time."""
    total = np.zeros((theta.size, theta.size))
    at_once = max(1, _ENTRIES_AT_ONCE // theta.size)
    for start in range(0, len(answers), at_once):
        rows = 1 + odds * support(answers[start : start + at_once])
        total += weight * (rows.T / (rows @ theta)) @ rows
    return total


def from_independent_sets(theta: Floats, odds: float, share: float, weight: float) -> Floats:
    """Return the information if each category is in A independently with probability `share`.

    Terms that are constant in a row or in a column are left out: they do not act on vectors whose sum is zero.
    """
    decay = np.exp(-odds * _NODES[:, None] * theta)
    factor = 1 - share + share * decay
    inside = share * decay / factor
    return _pairs(inside, _WEIGHTS * np.prod(factor, axis=1), weight * odds**2)


def from_sets_of_size(theta: Floats, odds: float, size: int, weight: float) -> Floats:
    """Return the same if A is uniform among the sets of `size` categories.

    Sums over these sets are coefficients of z^d in Π(1 + z·e^(−s·a·θ_l)), integrated on a circle through the saddle
    point.
    """
    from threadpoolctl import threadpool_limits

    k = theta.size
    decay = np.exp(-odds * _NODES[:, None] * theta)
    radius = _saddle(decay, size)
    angle = 2 * np.pi * np.arange(k + 1) / (k + 1)
    log_sets = math.lgamma(k + 1) - math.lgamma(size + 1) - math.lgamma(k - size + 1)
    total = np.zeros((k, k))
    # The matrices are small. On a busy machine, BLAS threads that waited for each other took forty times as long.
    with threadpool_limits(1, "blas"):
        for turn in angle[: (k + 1) // 2 + 1]:  # the other half are complex conjugates
            z = radius * np.exp(1j * turn)
            terms = z[:, None] * decay
            logs = np.log1p(terms).sum(axis=1) - size * np.log(z) - log_sets
            both = 2.0 if 0 < turn < np.pi else 1.0
            total += both * _pairs(terms / (1 + terms), _WEIGHTS * np.exp(logs), weight * odds**2 / (k + 1)).real
    return total


def _pairs(inside: NDArray[Any], weights: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return Σ weights·inside_i·inside_j, and Σ weights·inside_i on the diagonal."""
    result = (inside.T * weights) @ inside
    np.fill_diagonal(result, weights @ inside)
    return np.asarray(scale * result)


def _saddle(decay: Floats, size: int) -> Floats:
    """Return, for each row, the r at which Σ r·x/(1 + r·x) equals the size, by bisection in ln r."""
    low, high = np.full(len(decay), -50.0), np.full(len(decay), 1e4)
    for _ in range(100):
        middle = (low + high) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.sum(1 / (1 + np.exp(-middle)[:, None] / np.maximum(decay, 1e-300)), axis=1)
        low, high = np.where(mean < size, middle, low), np.where(mean < size, high, middle)
    return np.asarray(np.exp(np.minimum((low + high) / 2, 600.0)))
