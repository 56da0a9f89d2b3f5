"""The best ε-LDP question for a given θ, with a certificate; and the next question of a collection in rounds.

Every convex measure of an ε-LDP mechanism is optimized by an extremal one, a weighted family of sets [1]_. The summed
variance of an efficient estimator is a convex function of the weights (docs/math.md, section 8). `set_families` finds
sets and weights.

A collection in rounds asks by subset selection first, the best question while nothing is known. Before each later round
the exact posterior is sampled. Its mean estimates θ, and its covariance tells what is already known.
`optimal_mechanism` then finds the family of sets whose answers leave the least uncertainty at the end. If it gains next
to nothing over subset selection, as for an even θ, subset selection is asked again.

References
----------
.. [1] P. Kairouz, S. Oh and P. Viswanath (2016), Extremal mechanisms for local differential privacy, Journal of Machine
   Learning Research 17.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from adobest_pp._checks import (
    MAX_EPSILON,
    check_count,
    check_integer,
    check_numbers,
    check_prior,
    check_probabilities,
    check_real,
    is_learned,
)
from adobest_pp._numerics import zero_sum_basis
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers, Masks
from adobest_pp.answers.responses import Responses
from adobest_pp.design.set_families import FEW_SETS, GAP, MOST_ENUMERATED, Objective, Problem, best_family, variances_of
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.set_family import SetFamily
from adobest_pp.mechanisms.subset_selection import SubsetSelection

# The most categories for which the information of an answer, of K² numbers, is inverted.
MOST_INVERTED = 2000
# The most categories of a design. The search takes half a minute for 200 of them and some minutes for 400.
MOST_DESIGNED = 1000

CRITERIA = ("variance", "worst")
# Ranges in which the arithmetic is sound.
EPSILONS, LEFT = (1e-3, MAX_EPSILON), (1e-6, 1e18)
# The smallest gap that is not lost in rounding, and the largest that still needs a search.
GAPS = (1e-5, 0.1)
# A share of the least information that answers of SRR have in any direction.
TRIFLE = 1e-5
# Values that differ by less than this share are equal.
TIE = 1e-3

# Rounds: their default number. A family is asked if it is predicted to lower the summed error by at least this share,
# which is twice that share of the variance; the search stops at half of that.
ROUNDS, LEAST_GAIN, ROUND_GAP = 8, 0.005, 0.005
# Draws behind a design, in each of two chains: enough for a covariance. And draws behind an estimate.
CHAINS, DRAWS, DRAWS_PER_CATEGORY, TUNE, FINAL_DRAWS = 2, 250, 10, 300, 1000
# Standard deviations below this share of the largest count as this share: nobody needs them smaller.
LEAST_SD = 0.01


@dataclass(frozen=True)
class Design:
    """The best question that was found, and how good it is.

    Attributes
    ----------
    mechanism : SetFamily or SubsetSelection
        Exactly ε-LDP. Subset selection if its value is at least 0.1 % smaller than that of the best family found.
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
        """The largest possible improvement, as a share of the value."""
        return 1 - self.lower_bound / self.value

    def __str__(self) -> str:
        """Return the mechanism, its value and the proved gap."""
        proved = "not proved optimal" if math.isnan(self.lower_bound) else f"within {max(self.gap, 0):.2%} of the best"
        return f"{self.mechanism}; value {self.value:.6g}, {proved}"


def optimal_mechanism(
    theta: ArrayLike,
    epsilon: float,
    prior_precision: ArrayLike | None = None,
    n_left: float = 1,
    criterion: str = "variance",
    weights: ArrayLike | None = None,
    start: SetFamily | SubsetSelection | None = None,
    gap: float = GAP,
    max_sets: int | None = None,
) -> Design:
    """Find the ε-LDP mechanism whose answers tell most about θ.

    Parameters
    ----------
    theta : array of shape (K,)
        The expected shares; they sum to one.
    epsilon : float
        Privacy budget of one answer.
    prior_precision : array of shape (K, K), optional
        What is already known: the pseudo-inverse of the posterior covariance. Nothing by default.
    n_left : float, default 1
        The number of answers still to come.
    criterion : {"variance", "worst"}
        The sum of the variances of the categories, or the largest of them.
    weights : array of shape (K,) or (r, K), optional
        For ``"variance"``: weights of the categories in the sum, or contrasts, one per row, whose variances are summed.
    start : SetFamily or SubsetSelection, optional
        The design for a similar θ. The search starts with the sets of a family.
    gap : float, default 0.0005
        How close to the optimum the search has to come, as a share of the value. A larger gap takes less time.
    max_sets : int, optional
        The most sets that the family may have, at least 2K; 8K by default. Fewer sets are shorter to publish, and may
        cost a few percent of the value.

    Returns
    -------
    Design
        The mechanism, its value, and a lower bound for all ε-LDP mechanisms.

    Notes
    -----
    Up to 20 categories all sets are tried, and the bound is proved. Beyond, up to 1,000, local search finds the sets,
    and nothing is proved. Subset selection has far more sets than a family, and may be better for more than 15
    categories, most of all for an even θ. Then subset selection is returned.

    See Also
    --------
    asymptotic_variance : The same value of any mechanism, for one answer and no prior knowledge.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> design = ad.optimal_mechanism([0.7, 0.1, 0.1, 0.1], epsilon=2.0)
    >>> ad.audit(design.mechanism).holds, design.gap < 0.001
    (True, True)
    """
    epsilon, share = check_within(epsilon, "epsilon", EPSILONS), check_within(gap, "gap", GAPS)
    sets = None if max_sets is None else check_integer(max_sets, "max_sets", 2 * np.size(theta))
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(map(repr, CRITERIA))}, got {brief(criterion)}")
    worst = criterion == "worst"
    if weights is not None and worst:
        raise ValueError(f"weights must be left out with criterion 'worst', got {brief(weights)}")
    shares = check_probabilities(theta)
    _check_size(shares.size, "theta")
    k, basis = shares.size, zero_sum_basis(shares.size).T
    n_left = check_within(n_left, "n_left", LEFT)
    precision = np.zeros((k - 1, k - 1))
    if prior_precision is not None:
        precision = basis.T @ _check_precision(prior_precision, k) @ basis
    cost = basis.T @ _check_weights(weights, k) @ basis
    problem = Problem(shares, math.expm1(epsilon), precision, n_left, cost, basis)
    objective = Objective(_with_trifle(problem), worst)
    # The matrices are small: on a busy machine, BLAS threads would spend most of the time waiting for each other.
    with threadpool_limits(1, "blas"):
        best, bound = best_family(objective, epsilon, _masks_of(start, k), share, sets)
    family = SetFamily(best.masks, best.weights, epsilon)
    if objective.problem.precision is problem.precision:
        value = objective.value(best)
    else:
        value = best.value_of_known_directions(problem)
    selection = SubsetSelection(k, epsilon)
    covariance = np.linalg.inv(precision + n_left * basis.T @ selection.information(shares) @ basis)
    of_selection = float(variances_of(covariance, basis).max() if worst else np.sum(cost * covariance))
    # A tie goes to the family, which is what the caller asks for.
    if of_selection < value * (1 - TIE):
        return Design(selection, of_selection, bound)
    return Design(family, value, bound)


def _with_trifle(problem: Problem) -> Problem:
    """Return the problem that is searched: if C leaves directions out, with a tiny precision in every direction.

    Otherwise the search would give those directions up, and the precision would become singular. The tiny precision
    never raises the bound, and it is not part of the reported value.
    """
    k, odds = len(problem.theta), problem.odds
    if np.linalg.matrix_rank(problem.cost, hermitian=True) == k - 1:
        return problem
    least = problem.n_left * odds**2 / ((k + odds) * (1 + odds * problem.theta.max()))
    return replace(problem, precision=problem.precision + TRIFLE * least * np.eye(k - 1))


def check_within(given: Any, name: str, bounds: tuple[float, float]) -> float:
    """Return a number within the bounds, or raise ValueError."""
    low, high = bounds
    return check_real(given, name, f"a number from {low:g} to {high:g}", lambda x: low <= x <= high)


def _check_precision(given: ArrayLike, k: int) -> Floats:
    """Return a positive semi-definite matrix, or raise ValueError."""
    allowed = f"a symmetric, positive semi-definite matrix of shape ({k}, {k})"
    matrix = _check_numbers(given, "prior_precision", allowed)
    if matrix.shape != (k, k) or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * np.abs(matrix).max()):
        raise ValueError(f"prior_precision must be {allowed}, got {brief(given)}")
    lowest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    if lowest < -1e-9 * np.abs(matrix).max():
        raise ValueError(f"prior_precision must be {allowed}, got one with the eigenvalue {lowest:.3g}")
    return (matrix + matrix.T) / 2


def _check_weights(given: ArrayLike | None, k: int) -> Floats:
    """Return the matrix C of the criterion Tr[C·covariance], or raise ValueError."""
    if given is None:
        return np.eye(k)
    allowed = f"{k} non-negative numbers that are not all zero, or contrasts of {k} categories, one per row"
    array = _check_numbers(given, "weights", allowed)
    if array.ndim == 1 and array.shape == (k,) and array.min() >= 0 and array.max() > 0:
        return np.diag(array)
    if array.ndim == 2 and array.shape[1] == k and np.ptp(array, axis=1).max(initial=0) > 0:
        return np.asarray(array.T @ array)
    raise ValueError(f"weights must be {allowed}, got {brief(given)}")


def _check_numbers(given: ArrayLike, name: str, allowed: str) -> Floats:
    array = check_numbers(given, "fiu", name, allowed).astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be {allowed}, got {brief(given)}")
    return array


def _masks_of(start: SetFamily | SubsetSelection | None, k: int) -> Masks:
    """Return the sets of a family; none for subset selection, which has too many."""
    if start is None or (isinstance(start, SubsetSelection) and start.n_categories == k):
        return np.zeros((0, k), dtype=bool)
    if not isinstance(start, SetFamily) or start.n_categories != k:
        raise ValueError(f"start must be a SetFamily or SubsetSelection of {k} categories, got {brief(start)}")
    return start.support(np.arange(len(start.sets)))


# How much one answer of a mechanism tells, and how far that is from the most that ε-LDP allows.


def asymptotic_variance(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the summed variance of an efficient estimator of θ from one answer. Divide it by n for n answers.

    Parameters
    ----------
    mechanism : Mechanism
        Any mechanism whose `information` is known, as for all mechanisms of this package.
    theta : array of shape (K,)
        The true shares; they sum to one.
    subset : array, optional
        The published subset, for a mechanism that publishes one.

    Returns
    -------
    float
        Tr[(BᵀFB)⁻¹], with F the Fisher information and B a basis of the vectors whose sum is zero; ``inf`` if the
        answers do not identify θ.

    Notes
    -----
    Subset selection, unary encoding and local hashing have too many answers to list: see
    `adobest_pp.mechanisms.information`. For local hashing it is the mean over random hashes.

    With more than 2,000 categories F is not inverted where that can be avoided: if the number of answers that name a
    category identifies its share, this is the summed variance of these estimates, which are nearly efficient.

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
    by_counts = variances_of_counts(mechanism, shares) if shares.size > MOST_INVERTED and subset is None else None
    if by_counts is not None:
        return float(by_counts.sum())
    values = np.linalg.eigvalsh(reduced_information(mechanism, shares, subset)[0])
    return float(np.sum(1 / values)) if identifies(values) else math.inf


def variances_of_counts(mechanism: Mechanism, theta: Floats) -> Floats | None:
    """Return n times the variances of shares that are estimated from how many answers name each category.

    None if these do not determine the shares.
    """
    alike = mechanism.naming()
    found = mechanism.naming_over_hashes() if alike is None else (*alike, 1.0)
    if found is None:
        return None
    truth, other, factor = found
    h = other + (truth - other) * theta
    return np.asarray(factor * h * (1 - h) / (truth - other) ** 2)


def reduced_information(mechanism: Mechanism, theta: Floats, subset: ArrayLike | None) -> tuple[Floats, Floats]:
    """Return BᵀFB, of shape (K−1, K−1), and B."""
    basis = zero_sum_basis(theta.size).T
    information = basis.T @ mechanism.information(theta, subset=subset) @ basis
    return (information + information.T) / 2, basis


def identifies(eigenvalues: Floats) -> bool:
    """Tell whether information with these eigenvalues, in ascending order, is invertible."""
    return bool(eigenvalues[0] > 1e-12 * eigenvalues[-1])


def efficiency(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the least variance of any mechanism with the same ε, divided by the variance of this one: at most 1.

    Parameters
    ----------
    mechanism, theta, subset
        As in `asymptotic_variance`.

    Returns
    -------
    float
        A proved lower bound divided by the variance; NaN for more than 20 categories, where no bound is proved.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> round(ad.efficiency(ad.SRR(4, epsilon=4.0), [0.25] * 4), 3)
    1.0
    """
    variance = asymptotic_variance(mechanism, theta, subset=subset)
    if mechanism.n_categories > MOST_ENUMERATED:
        return math.nan
    return optimal_mechanism(theta, mechanism.epsilon).lower_bound / variance


# A collection in rounds: given the answers so far, the best question for the people who are left.


@dataclass(frozen=True)
class Question:
    """What to ask the people of a round, and what was known when it was chosen.

    `variance` is the trace of the posterior covariance so far, `predicted` the trace predicted for the end if everybody
    who is left is asked this question, and `of_selection` the same for subset selection.
    """

    mechanism: SetFamily | SubsetSelection
    mean: Floats
    variance: float
    predicted: float
    of_selection: float
    reason: str

    def describe(self) -> dict[str, Any]:
        """Return plain values to store: the question and its prediction."""
        return {
            "question": self.mechanism.settings(),
            "reason": self.reason,
            "variance": self.variance,
            "predicted_variance": self.predicted,
            "predicted_variance_of_subset_selection": self.of_selection,
        }


def round_ends(n_people: int, rounds: int) -> Integers:
    """Return how many people have been asked by the end of each round. Rounds have equal sizes, up to rounding."""
    return np.arange(1, rounds + 1) * n_people // rounds


def check_start(mechanism: Any) -> SubsetSelection:
    """Return the mechanism of the first round, or raise ValueError."""
    if not isinstance(mechanism, SubsetSelection):
        raise ValueError(f"mechanism must be a SubsetSelection to ask in rounds, got {brief(mechanism)}")
    check_within(mechanism.epsilon, "epsilon of a design", EPSILONS)
    _check_size(mechanism.n_categories, "mechanism")
    return mechanism


def _check_size(n_categories: int, name: str) -> None:
    if n_categories > MOST_DESIGNED:
        raise ValueError(
            f"{name} must have at most {MOST_DESIGNED:,} categories for a design, got {n_categories:,}: "
            "ask everybody by SubsetSelection or ProjectiveGeometryResponse"
        )


def check_rounds(rounds: Any, n_people: int) -> int:
    """Return the number of rounds, by default 8 and at most one per person, or raise ValueError."""
    if rounds is None:
        return min(ROUNDS, n_people)
    n_rounds = check_count(rounds, "rounds")
    if n_rounds > n_people:
        raise ValueError(f"rounds must be at most the number of people, {n_people}, got {n_rounds}")
    return n_rounds


def check_design_prior(prior: Any, n_categories: int, categories: Any = None) -> Floats | str:
    """Return the concentrations, or "learned", or raise ValueError."""
    return "learned" if is_learned(prior) else check_prior(prior, n_categories, categories)


def posterior_draws(responses: Responses, prior: Floats | str, seed: int, draws: int) -> Floats:
    """Return draws of θ from the exact posterior, of shape (2·draws, K)."""
    from adobest_pp.samplers.choice import quick_draws

    return quick_draws(responses, prior, draws, max(TUNE, draws), CHAINS, seed)


def next_question(
    responses: Responses,
    first: SubsetSelection,
    n_left: int,
    prior: Floats | str = "learned",
    seed: int = 0,
    start: SetFamily | SubsetSelection | None = None,
) -> Question:
    """Return the best question for the `n_left` people who are still to be asked, in all rounds.

    `responses` are the answers so far, at least one, of any mechanisms. `first` is asked again if a design gains next
    to nothing. The search starts at `start`, the question of the last round. Equal seeds give equal questions.
    """
    k = first.n_categories
    theta = posterior_draws(responses, prior, seed, max(DRAWS, DRAWS_PER_CATEGORY * k))
    mean, basis = theta.mean(axis=0), zero_sum_basis(k).T
    covariance = basis.T @ np.cov(theta.T) @ basis
    precision = np.linalg.inv(covariance + 1e-14 * np.eye(k - 1))

    def predict(mechanism: Mechanism) -> Floats:
        """Return the variance of each category after the answers that are left."""
        information = basis.T @ mechanism.information(mean) @ basis
        return variances_of(np.linalg.inv(precision + n_left * information), basis)

    variances = predict(first)
    weights = 1 / np.sqrt(np.maximum(variances, LEAST_SD**2 * variances.max()))
    design = optimal_mechanism(
        mean,
        first.epsilon,
        prior_precision=basis @ precision @ basis.T,
        n_left=n_left,
        weights=weights / weights.max(),
        start=start,
        gap=ROUND_GAP,
        max_sets=FEW_SETS * k,
    )
    better = predict(design.mechanism)
    gain = 1 - float(np.sqrt(better).sum() / np.sqrt(variances).sum())
    reason = f"a design is predicted to lower the summed error of subset selection by {max(gain, 0.0):.1%}"
    of_selection, variance = float(variances.sum()), float(np.trace(covariance))
    if gain < LEAST_GAIN:
        return Question(first, mean, variance, of_selection, of_selection, f"{reason}: not worth it")
    return Question(design.mechanism, mean, variance, float(better.sum()), of_selection, reason)
