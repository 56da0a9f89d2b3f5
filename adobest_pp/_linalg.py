"""Linear algebra that several rooms use."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

# The smallest normal double: a lower bound that keeps positive numbers positive.
TINY = 2.2250738585072014e-308


def zero_sum_basis(n_categories: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the vectors whose sum is zero: rows, of shape (K−1, K)."""
    return np.asarray(np.linalg.svd(np.ones((1, n_categories)))[2][1:])


@njit(cache=True)
def normalize_logs(values, least):  # type: ignore[no-untyped-def]
    """Turn logarithms into shares that sum to one, in place. Before normalizing, none is below `least`."""
    largest = -np.inf
    for i in range(values.size):
        largest = max(largest, values[i])
    total = 0.0
    for i in range(values.size):
        values[i] = max(math.exp(values[i] - largest), least)
        total += values[i]
    for i in range(values.size):
        values[i] /= total
