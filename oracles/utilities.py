"""The six utilities from dense matrices, in double precision or with as many digits as asked for."""

from decimal import Decimal

import numpy as np


# `matrix` is G[y, x] and `theta` the probabilities, as float arrays or as object arrays of Decimal: the same
# definitions (section 4.3 of the paper) then run in double precision or with as many digits as the context has.
def fisher_utility(matrix, theta, last=-1):
    """U1: F = AᵀD⁻¹A, A[y, j] = G[y, j] − G[y, last], for the other K−1 components of θ."""
    free = np.delete(np.arange(theta.size), last)
    difference = matrix[:, free] - matrix[:, [last]]
    return -_inverse(difference.T @ (difference / (matrix @ theta)[:, None])).trace()


def entropy_utility(matrix, theta):
    """U2."""
    h = matrix @ theta
    return (h * _ln(h)).sum()


def tv1_utility(matrix, theta):
    """U3."""
    return (abs(matrix - (matrix @ theta)[:, None]) * theta).sum() / 2


def tv2_utility(matrix, theta):
    """U4."""
    return -abs(matrix @ theta - theta).sum() / 2


def mse_utility(matrix, theta):
    """U5, by the proposition of the paper."""
    return ((matrix * theta) ** 2 / (matrix @ theta)[:, None]).sum() - 1


def honest_utility(matrix, theta):
    """U6."""
    return (matrix.diagonal() * theta).sum()


DENSE_UTILITIES = {
    "fisher": fisher_utility,
    "entropy": entropy_utility,
    "tv1": tv1_utility,
    "tv2": tv2_utility,
    "mse": mse_utility,
    "honest": honest_utility,
}


def squared_error(matrix, theta, estimator):
    """E‖e_X − estimator(Y)‖² for an estimator with a row for every answer; the least is −U5."""
    joint = matrix * theta[None, :]
    return sum(joint[y, x] * ((estimator[y] - np.eye(theta.size)[x]) ** 2).sum() for y, x in np.ndindex(joint.shape))


def precise_rrrr_matrix(n_categories, size, epsilon1, epsilon2):
    """G for S = {0, …, size−1} in Decimal, from the table in section 1 of docs/math.md."""
    e1, e2, rest = Decimal(epsilon1).exp(), Decimal(epsilon2).exp(), n_categories - size
    keep = e1 / (e1 + size) if size else Decimal(1)
    matrix = np.empty((n_categories, n_categories), dtype=object)
    matrix[:size, :] = 1 / (e1 + size)
    matrix[size:, :size] = 1 / (rest * (e1 + size))
    matrix[size:, size:] = keep / (e2 + rest - 1)
    for x in range(n_categories):
        matrix[x, x] *= e1 if x < size else e2
    return matrix


def precise(theta):
    """The same numbers as Decimals, divided by their sum."""
    exact = np.array([Decimal(float(value)) for value in theta], dtype=object)
    return exact / exact.sum()


def _ln(values):
    return np.array([value.ln() for value in values], dtype=object) if values.dtype == object else np.log(values)


def _inverse(matrix):
    if matrix.dtype != object:
        return np.linalg.inv(matrix)
    n = len(matrix)
    joined = np.hstack([matrix, np.array([[Decimal(i == j) for j in range(n)] for i in range(n)], dtype=object)])
    for i in range(n):
        pivot = max(range(i, n), key=lambda row: abs(joined[row, i]))
        joined[[i, pivot]] = joined[[pivot, i]]
        joined[i] = joined[i] / joined[i, i]
        for row in range(n):
            if row != i:
                joined[row] = joined[row] - joined[row, i] * joined[i]
    return joined[:, n:]
