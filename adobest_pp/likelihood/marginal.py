"""The marginal log-likelihood of collapsed responses and its gradient, compiled.

The compiled functions are written for any non-negative vector: ``base`` multiplies Σθ, so that h is exactly (Gθ)[y]
also off the simplex, and the gradient is the plain derivative of the value. The public ones take probabilities only.
"""

import warnings

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_count, check_positive, check_probabilities, check_theta
from adobest_pp.data.evidence import Evidence

__all__ = ["gradient", "log_likelihood", "maximum_likelihood", "phi_gradient"]

# Of factors between this and its reciprocal, the product of two is a number of full precision.
SMALLEST_FACTOR = 1e-150


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
    value = _log_likelihood(_check_theta(theta, evidence), evidence)
    return float(value + evidence.constant)


def gradient(theta: ArrayLike, evidence: Evidence) -> NDArray[np.float64]:
    """Return the gradient of the log-likelihood with respect to θ, of shape (K,): Σ count · g_i / h.

    h is written with Σθ, so that the derivative is that of a function of K free numbers, taken on the simplex.
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
    `tolerance` of its maximum: being concave, it cannot exceed its value by more than max ∇ − n. A warning is given
    where that takes more than `max_iterations`.

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
    """Return θ near the maximum of the likelihood, and a bound on how far its logarithm is below."""
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
def row_probability(u, theta, total, masses, evidence):  # type: ignore[no-untyped-def]
    """Return h of one row, of θ, its sum and the masses of all sets: the one place that says what h is."""
    own = evidence.own[u] * theta[evidence.category[u]]
    return evidence.base[u] * total + own + evidence.inside[u] * masses[evidence.set_index[u]]


@njit(cache=True)
def row_probabilities(theta, evidence):  # type: ignore[no-untyped-def]
    """Return h of every row of evidence."""
    masses = set_masses(theta, evidence)
    total = theta.sum()
    h = np.empty(evidence.base.size)
    for u in range(h.size):
        h[u] = row_probability(u, theta, total, masses, evidence)
    return h


@njit(cache=True)
def set_mass(v, theta, evidence):  # type: ignore[no-untyped-def]
    """Return θ(S) of one set, or of a pattern, whose numbers follow those of the sets."""
    mass = 0.0
    if v < evidence.offsets.size - 1:
        for j in range(evidence.offsets[v], evidence.offsets[v + 1]):
            mass += theta[evidence.members[j]]
        return mass
    pattern = evidence.patterns[v - evidence.offsets.size + 1]
    for i in range(theta.size):
        mass += pattern[i] * theta[i]
    return mass


@njit(cache=True)
def add_to_set(v, amount, evidence, slope):  # type: ignore[no-untyped-def]
    """Add to `slope` the derivative of ``amount·θ(S)`` with respect to θ, for one set or pattern."""
    if v < evidence.offsets.size - 1:
        for j in range(evidence.offsets[v], evidence.offsets[v + 1]):
            slope[evidence.members[j]] += amount
        return
    pattern = evidence.patterns[v - evidence.offsets.size + 1]
    for i in range(slope.size):
        slope[i] += amount * pattern[i]


@njit(cache=True)
def set_masses(theta, evidence):  # type: ignore[no-untyped-def]
    """Return θ(S) of every set and pattern, and one 0 more: rows without a set have index −1 and find it at the end."""
    masses = np.zeros(evidence.offsets.size + len(evidence.patterns))
    for v in range(masses.size - 1):
        masses[v] = set_mass(v, theta, evidence)
    return masses


@njit(cache=True)
def _log_likelihood(theta, evidence):  # type: ignore[no-untyped-def]
    h = row_probabilities(theta, evidence)
    value = 0.0
    for u in range(h.size):
        if h[u] <= 0.0:
            return -np.inf
        value += evidence.count[u] * np.log(h[u])
    return value


@njit(cache=True)
def value_and_gradient(theta, evidence):  # type: ignore[no-untyped-def]
    """Return the log-likelihood without its constant, and its gradient with respect to θ."""
    value, slope, pull = value_and_pull(theta, set_masses(theta, evidence), evidence)
    for v in range(pull.size - 1):
        add_to_set(v, pull[v], evidence, slope)
    return value, slope


@njit(cache=True)
def value_and_pull(theta, masses, evidence):  # type: ignore[no-untyped-def]
    """Return the value, the gradient without what comes through the sets, and the derivative with respect to masses."""
    total = theta.sum()
    slope = np.zeros(theta.size)
    pull = np.zeros(masses.size)
    value, shared, product = 0.0, 0.0, 1.0
    count = evidence.count
    for u in range(count.size):
        h = row_probability(u, theta, total, masses, evidence)
        if h <= 0.0:
            return -np.inf, np.full(theta.size, np.nan), pull
        # A logarithm costs more than the rest of a row; where rows are single answers, one serves very many.
        if count[u] == 1 and SMALLEST_FACTOR < h < 1 / SMALLEST_FACTOR:
            product *= h
            if not SMALLEST_FACTOR < product < 1 / SMALLEST_FACTOR:
                value += np.log(product)
                product = 1.0
        else:
            value += count[u] * np.log(h)
        weight = count[u] / h
        shared += weight * evidence.base[u]
        slope[evidence.category[u]] += weight * evidence.own[u]
        pull[evidence.set_index[u]] += weight * evidence.inside[u]
    return value + np.log(product), slope + shared, pull


@njit(cache=True)
def _accelerated_em(theta, tolerance, max_iterations, evidence):  # type: ignore[no-untyped-def]
    n = evidence.count.sum()
    gap = np.inf
    for _ in range(max_iterations):
        value, slope = value_and_gradient(theta, evidence)
        gap = slope.max() - n
        if gap <= tolerance:
            break
        first = theta * slope / n
        _, slope = value_and_gradient(first, evidence)
        second = first * slope / n
        step, turn = first - theta, second - 2.0 * first + theta
        length = np.sqrt((step**2).sum() / max((turn**2).sum(), 1e-300))
        leap = np.maximum(theta + 2.0 * length * step + length**2 * turn, 0.1 * second)
        leap /= leap.sum()
        reached, _ = value_and_gradient(leap, evidence)
        theta = leap if reached > value else second / second.sum()
    return theta / theta.sum(), gap
