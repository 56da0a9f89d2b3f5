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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from adobest_pp._checks import as_numbers, check_epsilon, check_integer, check_positive, check_probabilities
from adobest_pp._text import brief
from adobest_pp.design.set_program import Problem, sum_zero_basis
from adobest_pp.design.set_search import GAP, Objective, best_family
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.set_family import SetFamily
from adobest_pp.mechanisms.subset_selection import SubsetSelection

CRITERIA = ("variance", "worst")
# Numbers with which the arithmetic is sound.
LEAST_EPSILON, LEFT = 1e-3, (1e-6, 1e18)
# Gaps that the search can tell from rounding, and that still are a search.
GAPS = (1e-5, 0.1)
# A share of the least information that the answers of SRR would have in any direction.
TRIFLE = 1e-5
# Values nearer than this are equal.
TIE = 1e-3


@dataclass(frozen=True)
class Design:
    """The best question that was found, and how good it is.

    Attributes
    ----------
    mechanism : SetFamily or SubsetSelection
        Exactly ε-LDP. Subset selection where no family as good was found, with a value that is 0.1 % larger at most.
    value : float
        The criterion: by default the sum over the categories of the variances after the answers that are left.
    lower_bound : float
        No ε-LDP mechanism has a smaller value. NaN for more than 20 categories, where nothing is proved.
    """

    mechanism: SetFamily | SubsetSelection
    value: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """By what share of its value the design may be improved at most."""
        return 1 - self.lower_bound / self.value

    def __str__(self) -> str:
        """Say what was found, and how good it is."""
        if isinstance(self.mechanism, SubsetSelection):
            found = f"subset selection, sets of {self.mechanism.size}: no better family of sets was found"
        else:
            found = f"a family of {len(self.mechanism.sets)} sets"
        proved = "nothing is proved" if math.isnan(self.lower_bound) else f"at most {max(self.gap, 0):.2%} too large"
        return f"{found}; value {self.value:.6g}, {proved}"


def optimal_mechanism(
    theta: ArrayLike,
    epsilon: float,
    prior_precision: ArrayLike | None = None,
    n_left: float = 1,
    criterion: str = "variance",
    weights: ArrayLike | None = None,
    start: SetFamily | None = None,
    gap: float = GAP,
    max_sets: int | None = None,
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
    max_sets : int, optional
        How many sets the family may have, at least 2K; 8K by default. Fewer take less to publish, and may cost some
        percent of the value.

    Returns
    -------
    Design
        The mechanism, its value, and what no ε-LDP mechanism goes below.

    Notes
    -----
    Up to 20 categories all sets are tried, and the bound is proved. Beyond, sets are found by local search, and nothing
    is proved. Subset selection has far more sets than a family, and may be better for more than 15 categories, most of
    all for an even θ. Then subset selection is returned.

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
    sets = None if max_sets is None else check_integer(max_sets, "max_sets", 2 * np.size(theta))
    problem, worst = _problem(theta, epsilon, prior_precision, n_left, criterion, weights)
    objective = Objective(_with_trifle(problem), worst)
    # The matrices are small: threads that wait for each other would take most of the time on a busy machine.
    with threadpool_limits(1, "blas"):
        best, bound = best_family(objective, epsilon, _masks_of(start, len(problem.theta)), share, sets)
    mechanism = SetFamily(best.masks, best.weights, epsilon)
    value = (
        objective.value(best)
        if objective.problem.precision is problem.precision
        else best.value_of_known_directions(problem)
    )
    selection = SubsetSelection(len(problem.theta), epsilon)
    of_selection = _value_of(selection, problem, worst)
    # A tie goes to the family, which is what the caller asks for.
    if of_selection < value * (1 - TIE):
        return Design(selection, of_selection, bound)
    return Design(mechanism, value, bound)


def _value_of(mechanism: Mechanism, problem: Problem, worst: bool) -> float:
    """Return the criterion of any mechanism that tells of all directions."""
    basis = problem.basis
    covariance = np.linalg.inv(
        problem.precision + problem.n_left * basis.T @ mechanism.information(problem.theta) @ basis
    )
    return float(np.sum((basis @ covariance) * basis, axis=1).max() if worst else np.sum(problem.cost * covariance))


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
    return Problem(shares, math.expm1(epsilon), precision, n_left, cost, basis), criterion == "worst"


def _with_trifle(problem: Problem) -> Problem:
    """Return the problem that is searched: with a trifle known of every direction, if some are not asked about.

    Those would be given up, and the precision become singular. The trifle never raises the bound, and the value that is
    reported is without it.
    """
    k, odds = len(problem.theta), problem.odds
    if np.linalg.matrix_rank(problem.cost, hermitian=True) == k - 1:
        return problem
    least = problem.n_left * odds**2 / ((k + odds) * (1 + odds * problem.theta.max()))
    return replace(problem, precision=problem.precision + TRIFLE * least * np.eye(k - 1))


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


# How much one answer of a mechanism tells, and how far that is from the most that ε-LDP allows.


def asymptotic_variance(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the summed variance of an efficient estimator of θ, for one answer: divide it by n for n of them.

    Parameters
    ----------
    mechanism : Mechanism
        Any that tells its information, as those of this package do.
    theta : array of shape (K,)
        The truth; sums to one.
    subset : array, optional
        The published subset, for a mechanism that publishes one.

    Returns
    -------
    float
        Tr[(BᵀFB)⁻¹], with F the Fisher information and B a basis of the vectors whose sum is zero; ``inf`` where the
        answers do not determine θ.

    Notes
    -----
    Subset selection, unary encoding and local hashing have too many answers to list: see
    `adobest_pp.mechanisms.information`. For local hashing it is the mean over random hashes.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> theta = [0.25, 0.25, 0.25, 0.25]
    >>> srr, selection = ad.SRR(4, epsilon=1.0), ad.SubsetSelection(4, epsilon=1.0, size=1)
    >>> round(ad.asymptotic_variance(srr, theta), 9) == round(ad.asymptotic_variance(selection, theta), 9)
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, got {brief(mechanism)}")
    shares = check_probabilities(theta, mechanism.n_categories)
    basis = sum_zero_basis(mechanism.n_categories)
    information = basis.T @ mechanism.information(shares, subset=subset) @ basis
    values = np.linalg.eigvalsh((information + information.T) / 2)
    if values[0] <= 1e-12 * values[-1]:
        return np.inf
    return float(np.sum(1 / values))


def efficiency(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the least variance that any mechanism of the same ε can have, over that of this one: at most 1.

    Parameters
    ----------
    mechanism, theta, subset
        As of `asymptotic_variance`.

    Returns
    -------
    float
        A proved bound over the variance; NaN for more than 20 categories, where no bound is proved.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> round(ad.efficiency(ad.SRR(4, epsilon=4.0), [0.25] * 4), 3)
    1.0
    """
    variance = asymptotic_variance(mechanism, theta, subset=subset)
    return optimal_mechanism(theta, mechanism.epsilon).lower_bound / variance
