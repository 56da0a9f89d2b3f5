"""The kernel Stein discrepancy of draws of θ from their posterior, which needs only the gradient of its log-density.

The isometric log-ratio maps θ to K−1 unconstrained numbers z. Their posterior has the density

    ln p(z) = ln P(answers | θ) + Σ ρ_i ln θ_i + constant,

because the Jacobian of θ(z) is proportional to Πθ_i. It has no boundary.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from adobest_pp._linalg import TINY
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient

BATCH = 256

# The largest share of the draws of a category that may be below the smallest floating-point number. The log-ratios of
# such draws are not known, and the gradient at the smallest number is not their gradient.
MAX_UNDERFLOW = 0.01


def holds_for(theta: NDArray[np.float64]) -> bool:
    """Tell whether nearly all log-ratios of the draws θ (n, K) are known. Otherwise right draws may fail the test."""
    return bool((theta < TINY).mean(axis=0).max() <= MAX_UNDERFLOW)


def log_ratios(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the isometric log-ratios of θ (n, K), of shape (n, K−1)."""
    return np.asarray(np.log(np.maximum(theta, TINY)) @ basis(theta.shape[1]))


def basis(n_categories: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the vectors that sum to 0 (Helmert's), of shape (K, K−1)."""
    k = n_categories
    columns = np.triu(np.ones((k, k - 1)))
    columns[np.arange(1, k), np.arange(k - 1)] = -np.arange(1, k)
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def scores(theta: NDArray[np.float64], evidence: Evidence, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the gradient of the log-posterior with respect to the isometric log-ratios at θ (n, K), shape (n, K−1).

    With respect to ln θ it is θ_i (g_i − Σθ_j g_j) + ρ_i − θ_i Σρ, with g the gradient of the log-likelihood.
    """
    slopes = np.array([value_and_gradient(row, evidence)[1] for row in np.ascontiguousarray(theta)])
    pull = theta * slopes
    by_log = pull - theta * pull.sum(axis=1, keepdims=True) + prior - theta * prior.sum()
    return np.asarray(by_log @ basis(theta.shape[1]))


def scale_of(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L with LLᵀ the covariance of the log-ratios of θ (n, K). L⁻¹ gives every direction the same scale."""
    covariance = np.atleast_2d(np.cov(log_ratios(theta), rowvar=False))
    # The floor keeps L⁻¹ finite in directions in which hardly anything moves.
    floor = 1e-10 * max(float(np.trace(covariance)) / len(covariance), TINY**0.5)
    return np.asarray(np.linalg.cholesky(covariance + floor * np.eye(len(covariance))))


def stein_kernel(points: NDArray[np.float64], slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Stein kernel of every pair of points, of shape (n, n).

    The kernel is the inverse multiquadric (1 + |x−y|²/d)^(−½) in d dimensions. With it, the discrepancy tends to 0 only
    if the draws converge to the target; this is not so with a Gaussian kernel [1]_.

    Parameters
    ----------
    points : array of shape (n, d)
        Of unit scale in every direction.
    slopes : array of shape (n, d)
        The gradient of the log-density at the points.

    References
    ----------
    .. [1] J. Gorham and L. Mackey, Measuring sample quality with kernels, ICML 2017.
    """
    d = points.shape[1]
    square = squareform(pdist(points, "sqeuclidean")) / d
    u = 1 + square
    own = np.einsum("ij,ij->i", slopes, points)
    cross = slopes @ points.T
    # (s_x − s_y)·(x − y), the sum of the two mixed terms.
    mixed = own[:, None] + own[None, :] - cross - cross.T
    return np.asarray(slopes @ slopes.T * u**-0.5 + mixed / d * u**-1.5 + u**-1.5 - 3 * square / d * u**-2.5)


def stein_test(
    kernel: NDArray[np.float64], resamples: int, level: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the discrepancy, the threshold that right draws exceed with probability `level`, and the p-value.

    The test is the wild bootstrap [1]_: it flips the signs of independent draws at random. This does not change the
    distribution of the discrepancy of right draws, and makes that of wrong draws smaller.

    Parameters
    ----------
    kernel : array of shape (n, n)
        The Stein kernel of n independent draws.
    resamples : int
        How often signs are flipped. The p-value is at least 1/(1 + resamples).
    level : float
        Level of the test.
    rng : Generator
        Draws the signs.

    References
    ----------
    .. [1] K. Chwialkowski, H. Strathmann and A. Gretton, A kernel test of goodness of fit, ICML 2016.
    """
    n = len(kernel)
    values = []
    for start in range(0, resamples, BATCH):
        signs = rng.choice([-1.0, 1.0], size=(min(BATCH, resamples - start), n))
        values.append(np.einsum("bi,bi->b", signs @ kernel, signs))
    null = np.concatenate(values) / n**2
    observed = kernel.sum() / n**2
    p_value = (1 + np.sum(null >= observed - 1e-12)) / (1 + resamples)
    return float(np.sqrt(max(observed, 0))), float(np.sqrt(max(np.quantile(null, 1 - level), 0))), float(p_value)
