"""The likelihood and its gradients, from one row of G for each response."""

import numpy as np


def log_likelihood(theta, rows):
    """Σ ln Σ_x g(x) θ_x over the (n, K) matrix of each response's row of G."""
    return float(np.log(rows @ theta).sum())


def gradient(theta, rows):
    """Derivative of the above by θ."""
    return (rows / (rows @ theta)[:, None]).sum(axis=0)


def phi_gradient_of_the_paper(phi, rows):
    """Proposition 4 of the paper: the K×(K−1) Jacobian and differences with the last category."""
    total, k = phi.sum(), phi.size
    jacobian = np.eye(k)[:, : k - 1] / total - phi[None, : k - 1] / total**2
    h = rows @ (phi / total)
    return sum(jacobian @ ((row[: k - 1] - row[k - 1]) / value) for row, value in zip(rows, h, strict=True))
