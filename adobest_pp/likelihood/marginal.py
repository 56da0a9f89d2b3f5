"""The marginal log-likelihood of collapsed responses, its gradient and its maximum, with checked arguments."""

import warnings

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_count, check_positive, check_probabilities, check_theta
from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient

__all__ = ["gradient", "log_likelihood", "maximum_likelihood", "phi_gradient"]


def log_likelihood(theta: ArrayLike, evidence: Evidence) -> float:
    """Return ln P(answers | θ).

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum of 1 to within 1e-6, by which they are divided.
    evidence : Evidence
        Collapsed responses.

    Returns
    -------
    float
        ``-inf`` when an answer is impossible under θ.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> round(ad.likelihood.log_likelihood([0.5, 0.5], responses.evidence()), 4)
    -2.0794
    """
    _check_evidence(evidence)
    value, _ = value_and_gradient(_check_theta(theta, evidence), evidence)
    return float(value + evidence.constant)


def gradient(theta: ArrayLike, evidence: Evidence) -> NDArray[np.float64]:
    """Return the gradient of the log-likelihood with respect to θ, of shape (K,): Σ count · g_i / h.

    The derivative is that of a function of K free numbers, because h is written with Σθ, taken on the simplex.
    """
    _check_evidence(evidence)
    _, slope = value_and_gradient(_check_theta(theta, evidence), evidence)
    return np.asarray(slope)


def phi_gradient(phi: ArrayLike, evidence: Evidence) -> NDArray[np.float64]:
    """Return the gradient with respect to φ of the log-likelihood of θ = φ/Σφ: Σ count · (g_i/h − 1)/Σφ."""
    _check_evidence(evidence)
    phi = check_theta(phi, evidence.n_categories, "phi")
    total = phi.sum()
    return np.asarray((gradient(phi / total, evidence) - evidence.n_responses) / total)


def maximum_likelihood(
    evidence: Evidence, tolerance: float = 1e-6, max_iterations: int = 100_000
) -> NDArray[np.float64]:
    """Return the θ of greatest likelihood.

    Expectation-maximization from the uniform θ, θ ← θ·∇/n, accelerated [1]_. It stops when the log-likelihood is within
    `tolerance` of its maximum: it is concave, so it cannot exceed its value by more than max ∇ − n. A warning is given
    if that takes more than `max_iterations`.

    References
    ----------
    .. [1] R. Varadhan and C. Roland (2008), Simple and globally convergent methods for accelerating the convergence of
       any EM algorithm, Scandinavian Journal of Statistics 35(2).
    """
    _check_evidence(evidence)
    if evidence.n_responses == 0:
        raise ValueError("evidence must hold at least one response, got none")
    largest_gap = check_positive(tolerance, "tolerance")
    theta, gap = climb(evidence, largest_gap, check_count(max_iterations, "max_iterations"))
    if gap > largest_gap:
        warnings.warn(
            f"the log-likelihood may still be {gap:.2g} below its maximum after {max_iterations} iterations",
            stacklevel=2,
        )
    return theta


def climb(evidence: Evidence, tolerance: float, max_iterations: int) -> tuple[NDArray[np.float64], float]:
    """Return θ near the maximum of the likelihood, and a bound on how far its log-likelihood is below the maximum."""
    start = np.full(evidence.n_categories, 1 / evidence.n_categories)
    theta, gap = _accelerated_em(start, tolerance, max_iterations, evidence)
    return np.asarray(theta), float(gap)


def _check_theta(theta: ArrayLike, evidence: Evidence) -> NDArray[np.float64]:
    probabilities = check_probabilities(theta, evidence.n_categories)
    return probabilities / probabilities.sum()


def _check_evidence(evidence: Evidence) -> None:
    if not isinstance(evidence, Evidence):
        raise ValueError(f"evidence must be an Evidence, as of Responses.evidence(), got {type(evidence).__name__}")


@njit(cache=True)
def _accelerated_em(start, tolerance, max_iterations, evidence):  # type: ignore[no-untyped-def]
    n, theta, gap = evidence.count.sum(), start.copy(), np.inf
    first, second, leap = np.empty(theta.size), np.empty(theta.size), np.empty(theta.size)
    for _ in range(max_iterations):
        value, slope = value_and_gradient(theta, evidence)
        gap = -np.inf
        for i in range(theta.size):
            gap = max(gap, slope[i] - n)
            first[i] = theta[i] * slope[i] / n
        if gap <= tolerance:
            break
        _, slope = value_and_gradient(first, evidence)
        along, across = 0.0, 0.0
        for i in range(theta.size):
            second[i] = first[i] * slope[i] / n
            along += (first[i] - theta[i]) ** 2
            across += (second[i] - 2.0 * first[i] + theta[i]) ** 2
        length = np.sqrt(along / max(across, 1e-300))
        for i in range(theta.size):
            step, turn = first[i] - theta[i], second[i] - 2.0 * first[i] + theta[i]
            leap[i] = max(theta[i] + 2.0 * length * step + length**2 * turn, 0.1 * second[i])
        _normalize(leap)
        reached, _ = value_and_gradient(leap, evidence)
        if not reached > value:
            _normalize(second)
            leap, second = second, leap
        theta, leap = leap, theta
    _normalize(theta)
    return theta, gap


@njit(cache=True)
def _normalize(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in values:
        total += value
    for i in range(values.size):
        values[i] /= total
