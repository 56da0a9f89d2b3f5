"""Langevin dynamics on log-ratios in the metric of the information [1]_: all directions mix alike, whatever ε.

The coordinates are y_i = ln(θ_i/θ_K), those of `mirrored`, and a step is y ← y + (h/2)·C·∇ + √h·C^½·W, with C constant:
the inverse of the information about y at the mode. A linear change of coordinates changes C with them, so that no
category is special. Of an empty category the answers tell nothing about ln θ_i: what the prior tells, the variance
ψ′(ρ_i) of the logarithm of its Gamma variable, bounds the variances.

References
----------
.. [1] M. Girolami and B. Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, Journal of
   the Royal Statistical Society B 73(2).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import polygamma

from adobest_pp.samplers.control_variates import Anchor
from adobest_pp.samplers.mirrored import by_log_ratio, move_log_ratios

__all__ = ["LogRatio", "advance_log_ratio", "metric_at"]


class LogRatio(NamedTuple):
    """ρ of the prior, C and the lower triangular L with C = L·Lᵀ, each of shape (K−1, K−1)."""

    prior: NDArray[np.float64]
    metric: NDArray[np.float64]
    factor: NDArray[np.float64]


def metric_at(anchor: Anchor, prior: NDArray[np.float64]) -> LogRatio:
    """Return the diffusion whose metric is the information about log-ratios at an anchor."""
    theta, k = anchor.theta, prior.size
    jacobian = (np.diag(theta) - np.outer(theta, theta))[:, : k - 1]
    of_logs = polygamma(1, prior)
    of_prior = np.diag(of_logs[:-1]) + of_logs[-1]
    metric = np.linalg.inv(jacobian.T @ anchor.information @ jacobian + np.linalg.inv(of_prior))
    metric = (metric + metric.T) / 2
    return LogRatio(prior, metric, np.linalg.cholesky(metric))


@njit(cache=True)
def advance_log_ratio(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move y by (h/2)·C·∇ + √h·L·W, and φ to θ of it."""
    k, root, metric, factor = phi.size, math.sqrt(step), diffusion.metric, diffusion.factor
    by_log_ratio(phi, diffusion.prior, slope)
    moves = np.zeros(k)
    for i in range(k - 1):
        for j in range(k - 1):
            moves[i] += 0.5 * step * metric[i, j] * slope[j]
        for j in range(i + 1):
            moves[i] += root * factor[i, j] * noise[j]
    return move_log_ratios(phi, moves)
