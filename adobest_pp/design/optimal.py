"""The best ε-LDP question for a given θ, with a certificate.

Every convex measure of an ε-LDP mechanism is best for an extremal one, a weighted family of sets [1]_, and the summed
variance of an efficient estimator is a convex function of the weights (docs/math.md, section 8). `column_generation`
finds sets and weights.

References
----------
.. [1] P. Kairouz, S. Oh and P. Viswanath (2016), Extremal mechanisms for local differential privacy, Journal of Machine
   Learning Research 17.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from adobest_pp._checks import as_numbers, check_epsilon, check_positive, check_probabilities
from adobest_pp._text import brief
from adobest_pp.design.column_generation import GAP, Target, best_family
from adobest_pp.design.set_program import Problem, sum_zero_basis
from adobest_pp.mechanisms.set_family import SetFamily

__all__ = ["CRITERIA", "Design", "optimal_mechanism"]

CRITERIA = ("variance", "worst")
# Numbers with which the arithmetic is sound.
LEAST_EPSILON, LEFT = 1e-3, (1e-6, 1e18)
# Gaps that the search can tell from rounding, and that still are a search.
GAPS = (1e-5, 0.1)
# A share of the information of the answers that are left.
TRIFLE = 1e-3


@dataclass(frozen=True)
class Design:
    """The best question that was found, and how good it is.

    Attributes
    ----------
    mechanism : SetFamily
        Exactly ε-LDP.
    value : float
        The criterion: by default the sum over the categories of the variances after the answers that are left.
    lower_bound : float
        No ε-LDP mechanism has a smaller value. NaN for more than 20 categories, where nothing is proved.
    """

    mechanism: SetFamily
    value: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """By what share of its value the design may be improved at most."""
        return 1 - self.lower_bound / self.value


def optimal_mechanism(
    theta: ArrayLike,
    epsilon: float,
    prior_precision: ArrayLike | None = None,
    n_left: float = 1,
    criterion: str = "variance",
    weights: ArrayLike | None = None,
    start: SetFamily | None = None,
    gap: float = GAP,
) -> Design:
    """Find the ε-LDP mechanism whose answers tell most about θ.

    Parameters
    ----------
    theta : array of shape (K,)
        Where people are thought to be; sums to one.
    epsilon : float
        Privacy budget of one answer.
    prior_precision : array of shape (K, K), optional
        What is known already: the pseudo-inverse of the posterior covariance. Nothing by default.
    n_left : float, default 1
        The answers still to come.
    criterion : {"variance", "worst"}
        The sum of the variances of the categories, or the largest of them.
    weights : array of shape (K,) or (r, K), optional
        For ``"variance"``: weights of the categories in the sum; or contrasts, one a row, whose variances are added.
    start : SetFamily, optional
        A design for a similar θ, to begin with.
    gap : float, default 0.0005
        How near to the optimum the search may end, as a share of the value: a larger one takes less time.

    Returns
    -------
    Design
        The mechanism, its value, and what no ε-LDP mechanism goes below.

    See Also
    --------
    asymptotic_variance : The same value of any mechanism, for one answer and nothing known.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> design = ad.optimal_mechanism([0.7, 0.1, 0.1, 0.1], epsilon=2.0)
    >>> ad.audit(design.mechanism).holds, design.gap < 0.001
    (True, True)
    """
    epsilon = check_epsilon(epsilon)
    share = check_positive(gap, "gap")
    if not GAPS[0] <= share <= GAPS[1]:
        raise ValueError(f"gap must be a number from {GAPS[0]:g} to {GAPS[1]:g}, got {share:g}")
    target = Target(*_problem(theta, epsilon, prior_precision, n_left, criterion, weights))
    # The matrices are small: threads that wait for each other would take most of the time on a busy machine.
    with threadpool_limits(1, "blas"):
        best, bound = best_family(target, epsilon, _masks_of(start, len(target.problem.theta)), share)
    mechanism = SetFamily(best.masks, best.weights, epsilon)
    return Design(mechanism, target.value(best), bound)


def _problem(
    theta: ArrayLike,
    epsilon: float,
    prior_precision: ArrayLike | None,
    n_left: float,
    criterion: str,
    weights: ArrayLike | None,
) -> tuple[Problem, bool]:
    """Return the problem, and whether the largest variance counts; or raise ValueError."""
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(map(repr, CRITERIA))}, got {brief(criterion)}")
    if weights is not None and criterion == "worst":
        raise ValueError(f"weights must be left out for criterion 'worst', got {brief(weights)}")
    shares = check_probabilities(theta)
    k = shares.size
    basis = sum_zero_basis(k)
    n_left = check_positive(n_left, "n_left")
    if not LEFT[0] <= n_left <= LEFT[1]:
        raise ValueError(f"n_left must be a number from {LEFT[0]:g} to {LEFT[1]:g}, got {n_left:g}")
    if epsilon < LEAST_EPSILON:
        raise ValueError(f"epsilon must be at least {LEAST_EPSILON:g} for a design, got {epsilon:g}")
    precision = np.zeros((k - 1, k - 1))
    if prior_precision is not None:
        precision = basis.T @ _check_precision(prior_precision, k) @ basis
    cost = basis.T @ _check_weights(weights, k) @ basis
    if np.linalg.matrix_rank(cost, hermitian=True) < k - 1:
        # Directions that nobody asks about would be given up, and the precision become singular. To know a trifle of
        # every direction lowers the value by next to nothing, and never raises the bound.
        precision = precision + TRIFLE * n_left * math.expm1(epsilon) ** 2 / (k + math.expm1(epsilon)) * np.eye(k - 1)
    return Problem(shares, math.expm1(epsilon), precision, n_left, cost, basis), criterion == "worst"


def _check_precision(given: ArrayLike, k: int) -> NDArray[np.float64]:
    """Return a positive semi-definite matrix, or raise ValueError."""
    allowed = f"a symmetric, positive semi-definite matrix of shape ({k}, {k})"
    matrix = _numbers(given, "prior_precision", allowed)
    if matrix.shape != (k, k) or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
        raise ValueError(f"prior_precision must be {allowed}, got {brief(given)}")
    lowest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if lowest < -1e-9 * np.abs(matrix).max():
        raise ValueError(f"prior_precision must be {allowed}, got one with the eigenvalue {lowest:.3g}")
    return (matrix + matrix.T) / 2


def _check_weights(given: ArrayLike | None, k: int) -> NDArray[np.float64]:
    """Return the matrix whose product with the covariance is summed up, or raise ValueError."""
    if given is None:
        return np.eye(k)
    allowed = f"{k} non-negative numbers that are not all zero, or contrasts of {k} categories, one a row"
    array = _numbers(given, "weights", allowed)
    if array.ndim == 1 and array.shape == (k,) and array.min() >= 0 and array.max() > 0:
        return np.diag(array)
    if array.ndim == 2 and array.shape[1] == k and np.ptp(array, axis=1).max(initial=0) > 0:
        return np.asarray(array.T @ array)
    raise ValueError(f"weights must be {allowed}, got {brief(given)}")


def _numbers(given: ArrayLike, name: str, allowed: str) -> NDArray[np.float64]:
    try:
        array = as_numbers(given, "fiu").astype(np.float64)
    except TypeError:
        raise ValueError(f"{name} must be {allowed}, got {brief(given)}") from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be {allowed}, got {brief(given)}")
    return array


def _masks_of(start: SetFamily | None, k: int) -> NDArray[np.bool_]:
    """Return the sets of a design, or none."""
    if start is None:
        return np.zeros((0, k), dtype=bool)
    if not isinstance(start, SetFamily) or start.n_categories != k:
        raise ValueError(f"start must be a SetFamily of {k} categories, got {brief(start)}")
    return start.support(np.arange(len(start.sets)))
