"""A collection in rounds: given the answers so far, the best question for the people who are left.

The first round is by subset selection, the best question while nothing is known. Before each other round, the exact
posterior is sampled; its mean is where people are thought to be, and its covariance tells what is known already.
`optimal_mechanism` then finds the family of sets whose answers leave the least uncertainty in the end
(docs/math.md, section 8). Where it gains next to nothing over subset selection, as for an even θ, that is kept.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_prior, is_learned
from adobest_pp._text import brief
from adobest_pp.answers.responses import Responses
from adobest_pp.design.optimal import LEAST_EPSILON, optimal_mechanism
from adobest_pp.design.set_program import sum_zero_basis
from adobest_pp.design.set_search import FEW_SETS
from adobest_pp.mechanisms import Mechanism, SetFamily, SubsetSelection
from adobest_pp.mechanisms.base import ExtremalMechanism
from adobest_pp.samplers.choice import quick_draws

Floats = NDArray[np.float64]

ROUNDS = 8
# A family is asked if it is predicted to lower the summed error by at least this share; variances count twice that, and
# the search ends at half of it.
LEAST_GAIN, GAP = 0.005, 0.005
# Draws behind a design, of each of two chains: enough for a covariance. And draws behind an estimate.
CHAINS, DRAWS, DRAWS_PER_CATEGORY, TUNE, FINAL_DRAWS = 2, 250, 10, 300, 1000
# Standard deviations below this share of the largest count as that much: nobody needs them smaller.
LEAST_SD = 0.01


@dataclass(frozen=True)
class Question:
    """What to ask the people of a round, and what was known when it was chosen.

    Attributes
    ----------
    mechanism : ExtremalMechanism
        What their devices run.
    mean : array of shape (K,)
        The posterior mean so far.
    variance : float
        The trace of the posterior covariance so far.
    predicted : float
        The trace that is predicted for the end, after all people who are left have been asked this question.
    of_selection : float
        The same for subset selection.
    reason : str
        Why this question.
    """

    mechanism: ExtremalMechanism
    mean: Floats
    variance: float
    predicted: float
    of_selection: float
    reason: str

    def describe(self) -> dict[str, Any]:
        """Return plain values to store: the question, and its prediction."""
        return {
            "question": self.mechanism.settings(),
            "reason": self.reason,
            "variance": self.variance,
            "predicted_variance": self.predicted,
            "predicted_variance_of_subset_selection": self.of_selection,
        }


def round_ends(n_people: int, rounds: int) -> NDArray[np.int64]:
    """Return how many people have been asked at the end of each round; rounds have the same size, but for rounding."""
    return np.arange(1, rounds + 1) * n_people // rounds


def check_start(mechanism: Any) -> SubsetSelection:
    """Return the mechanism of the first round, or raise ValueError."""
    if not isinstance(mechanism, SubsetSelection):
        raise ValueError(f"mechanism must be a SubsetSelection to ask in rounds, got {brief(mechanism)}")
    if mechanism.epsilon < LEAST_EPSILON:
        raise ValueError(f"epsilon must be at least {LEAST_EPSILON:g} for a design, got {mechanism.epsilon:g}")
    return mechanism


def check_rounds(rounds: Any, n_people: int) -> int:
    """Return the number of rounds, at most one a person, or raise ValueError; 8 if it is None."""
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
    """Return draws of θ from the exact posterior, of shape (draws in all, K)."""
    return quick_draws(responses, prior, draws, max(TUNE, draws), CHAINS, seed)


def next_question(
    responses: Responses,
    first: SubsetSelection,
    n_left: int,
    prior: Floats | str = "learned",
    seed: int = 0,
    start: ExtremalMechanism | None = None,
) -> Question:
    """Return the best question for the people who are left.

    Parameters
    ----------
    responses : Responses
        The answers so far, of any mechanisms; at least one.
    first : SubsetSelection
        The question that is asked where a design gains next to nothing.
    n_left : int
        How many people are still to be asked, in all rounds.
    prior : array of shape (K,) or "learned"
        Concentrations of the Dirichlet prior, or one that is learned.
    seed : int
        Of the draws. Equal seeds give equal questions.
    start : ExtremalMechanism, optional
        The question of the round before: `first`, or the family that the search begins with.
    """
    k = first.n_categories
    theta = posterior_draws(responses, prior, seed, max(DRAWS, DRAWS_PER_CATEGORY * k))
    mean, basis = theta.mean(axis=0), sum_zero_basis(k)
    covariance = basis.T @ np.cov(theta.T) @ basis
    precision = np.linalg.inv(covariance + 1e-14 * np.eye(k - 1))
    variances = _variances(first, mean, precision, n_left, basis)
    weights = 1 / np.sqrt(np.maximum(variances, LEAST_SD**2 * variances.max()))
    design = optimal_mechanism(
        mean,
        first.epsilon,
        prior_precision=basis @ precision @ basis.T,
        n_left=n_left,
        weights=weights / weights.max(),
        start=None if start is None or start == first else cast(SetFamily, start),
        gap=GAP,
        max_sets=FEW_SETS * k,
    )
    better = _variances(design.mechanism, mean, precision, n_left, basis)
    gain = 1 - float(np.sqrt(better).sum() / np.sqrt(variances).sum())
    told = f"a design is predicted to lower the summed error of subset selection by {max(gain, 0.0):.1%}"
    of_selection, variance = float(variances.sum()), float(np.trace(covariance))
    if gain < LEAST_GAIN:
        return Question(first, mean, variance, of_selection, of_selection, f"{told}: not worth it")
    return Question(design.mechanism, mean, variance, float(better.sum()), of_selection, told)


def _variances(mechanism: Mechanism, theta: Floats, precision: Floats, n_left: int, basis: Floats) -> Floats:
    """Return the variance of each category that is predicted after so many answers, of shape (K,)."""
    information = basis.T @ mechanism.information(theta) @ basis
    covariance = np.linalg.inv(precision + n_left * information)
    return np.asarray(np.sum((basis @ covariance) * basis, axis=1))
