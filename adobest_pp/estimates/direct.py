"""What answers say by themselves about groups of people who may have weights: unbiased estimates and their variances.

One answer of a person who was asked by a mechanism gives a *score* s of length K with E[s | x] = J·(e_x − near), where
e_x is 1 in the person's category and J is known. So near + (Σ w J)⁻¹ Σ w s is an unbiased estimate of the weighted
shares, whatever the weights have to do with x, and the sum of the squares of its terms is its variance: that of the
sample, of the weights and of privacy together, as in any survey [1]_.

There are two kinds of scores. `naming_scores` count the answers that name a category: their intervals are binomial.
`efficient_scores` are derivatives of ln P(answer | θ), which use all that an answer says, for every mechanism.

References
----------
.. [1] C.-E. Särndal, B. Swensson and J. Wretman (1992), Model Assisted Survey Sampling, Springer, chapters 5 and 6.
"""

from typing import NamedTuple

import numpy as np

from adobest_pp._numerics import zero_sum_basis
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.responses import Responses
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.likelihood.without_prior import UNKNOWN, Direct, counts_say_all, direct_of_variance
from adobest_pp.mechanisms import Mechanism, Published

# Groups of fewer effective people are counted by those of the largest weight.
FEW_PEOPLE = 50
# The error where `weighted_estimate` or another estimate finds no solution.
UNDETERMINED = "responses must determine the share of every category, got answers that do not"


class Scores(NamedTuple):
    """The scores of all answers.

    Attributes
    ----------
    near : array of shape (K,)
        The shares around which the scores are taken.
    of_row : array of shape (U, K)
        The score of each row of evidence.
    row, kind : array of int, shape (n,)
        The row of evidence of each person, and which question the person was asked, in `slopes`.
    slopes : array of shape (R, K, K)
        J of each question.
    """

    near: Floats
    of_row: Floats
    row: Integers
    kind: Integers
    slopes: Floats


class Weighted(NamedTuple):
    """The estimate of one group of people.

    Attributes
    ----------
    estimate : array of shape (K,)
        Unbiased shares.
    slope, inverse : array of shape (K, K)
        Σ w J and its inverse, for vectors whose sum is zero.
    variance : array of shape (K,)
        Of each share, from the terms of its sum: right whatever the weights have to do with x.
    left : array of shape (K,)
        What calibration to margins leaves of the variance: 1 without it.
    terms : array of shape (people, K)
        What each person of the group adds to the error of the estimate, after calibration.
    """

    estimate: Floats
    slope: Floats
    inverse: Floats
    variance: Floats
    left: Floats
    terms: Floats


def efficient_scores(responses: Responses, near: Floats) -> Scores:
    """Return the derivatives of ln P(answer | θ) at `near`, and the information of each question."""
    evidence, row = responses.evidence_and_index()
    published, answers = responses.published(), responses.answers
    # The question of each person, and a person who was asked each of them.
    kind, first = np.zeros(len(responses), dtype=np.int64), np.zeros(1, dtype=np.int64)
    if published.row.size:
        _, first, kind = np.unique(published.row, return_index=True, return_inverse=True)
    slopes = [
        responses.mechanism.total_information(
            answers[i : i + 1], Published(published.row[i : i + 1], published.subsets), near
        )
        for i in first.tolist()
    ]
    return Scores(near, evidence.matrix() / row_probabilities(near, evidence)[:, None], row, kind, np.array(slopes))


def naming_scores(responses: Responses, near: Floats) -> Scores | None:
    """Return the counts of categories that answers name, as scores; None where they do not say all (`counts_say_all`).

    The estimate is the same for every `near`.
    """
    mechanism = responses.mechanism
    naming = mechanism.naming()
    if naming is None or not counts_say_all(mechanism):
        return None
    evidence, row = responses.evidence_and_index()
    (truth, other), matrix = naming, evidence.matrix()
    names = np.asarray(matrix > matrix.min(axis=1, keepdims=True), dtype=np.float64)
    of_row = (names - other) / (truth - other) - near
    return Scores(near, of_row, row, np.zeros(row.size, dtype=np.int64), np.eye(near.size)[None])


def best_scores(responses: Responses, near: Floats) -> Scores:
    """Return the counts where they say all, and the derivatives otherwise."""
    return naming_scores(responses, near) or efficient_scores(responses, near)


def weighted_estimate(scores: Scores, weights: Floats, calibrated_by: Integers | None = None) -> Weighted | None:
    """Return the estimate of the people whose weight is positive; None if their answers do not determine every share.

    Parameters
    ----------
    scores : Scores
        Of all people.
    weights : array of shape (n,)
        Weights, 0 for people outside the group.
    calibrated_by : array of int, shape (n, C), optional
        The cells of C margins that the weights were adjusted to. What they explain is no longer an error.
    """
    basis = zero_sum_basis(scores.near.size).T
    slope = np.tensordot(np.bincount(scores.kind, weights, minlength=len(scores.slopes)), scores.slopes, axes=1)
    inner = basis.T @ slope @ basis
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    if not values[0] > UNKNOWN * values[-1]:
        return None
    turned = basis @ vectors
    inverse = (turned / values) @ turned.T
    total = np.bincount(scores.row, weights, minlength=len(scores.of_row)) @ scores.of_row
    step = inverse @ total
    # What each person adds to the estimate, per unit of weight.
    inside = np.flatnonzero(weights)
    expected = (scores.slopes @ step)[scores.kind[inside]]
    terms = rest = (scores.of_row[scores.row[inside]] - expected) @ inverse.T
    squares = weights[inside] ** 2
    variance = squares @ terms**2 * (inside.size / max(inside.size - 1, 1))
    left = np.ones(variance.size)
    if calibrated_by is not None:
        everybody = np.zeros((weights.size, left.size))
        everybody[inside] = terms
        rest = (everybody - _explained(everybody, weights, calibrated_by))[inside]
        left = np.divide(squares @ rest**2, squares @ terms**2, out=left, where=variance > 0)
    slopes = basis @ inner @ basis.T
    return Weighted(scores.near + step, slopes, inverse, variance, left, weights[inside, None] * rest)


def _explained(terms: Floats, weights: Floats, cells: Integers) -> Floats:
    """Return what the cells of margins explain of the terms, by weighted least squares."""
    columns = [np.eye(int(column.max()) + 1)[column] for column in cells.T]
    design = np.hstack(columns)
    root = np.sqrt(weights)[:, None]
    found, *_ = np.linalg.lstsq(design * root, terms * root, rcond=None)
    return np.asarray(design @ found)


def direct_of_group(
    scores: Scores, weights: Floats, calibrated_by: Integers | None, mechanism: Mechanism
) -> Direct | None:
    """Return what the answers of the people with a positive weight say of each share, as `covering_intervals` takes it.

    Where all weights are equal it is that of `direct_estimate` for these people alone.
    """
    found = weighted_estimate(scores, weights, calibrated_by)
    if found is None:
        return None
    n = np.full(scores.near.size, cautious_people(weights))
    naming = mechanism.naming()
    is_even = np.ptp(weights[weights > 0]) == 0
    if naming is not None and counts_say_all(mechanism):
        other, gain = np.full(n.size, naming[1]), np.full(n.size, naming[0] - naming[1])
        if not is_even:
            h = np.clip(other + gain * found.estimate, 0.0, 1.0)
            counted = np.divide(h * (1 - h), gain**2 * found.variance, out=n.copy(), where=found.variance > 0)
            n = np.clip(counted, 1.0, n)
        return Direct(found.estimate, other, gain, n / found.left)
    if is_even:
        return direct_of_variance(
            scores.near, found.estimate, np.diag(found.inverse) * found.left, n[0], naming, mechanism.epsilon
        )
    # No more than as many people of equal weight know: a few heavy weights may not show how much they vary.
    equal = np.diag(found.inverse) * (weights.sum() / n[0])
    variance = np.maximum(found.variance, equal) * found.left
    near = scores.near if naming is None else np.clip(found.estimate, 0.0, 1.0)
    return direct_of_variance(near, found.estimate, variance, n[0], naming, mechanism.epsilon)


def effective_people(weights: Floats) -> float:
    """Return how many people of equal weight know as much: (Σw)²/Σw² [1]_.

    References
    ----------
    .. [1] L. Kish (1965), Survey Sampling, Wiley, section 11.7.
    """
    return float(weights.sum() ** 2 / np.sum(weights**2))


def heaviest_people(weights: Floats) -> float:
    """Return how many people of the largest weight there would be: Σw/max w, at most the effective people."""
    return float(weights.sum() / weights.max())


def cautious_people(weights: Floats) -> float:
    """Return how many people of equal weight an interval counts: if they are few, those of the largest weight alone.

    An answer that only few people give may be missing in a small group. If these people have large weights, the group
    does not show how much is missing, and its effective people are too many [1]_.

    References
    ----------
    .. [1] E. L. Korn and B. I. Graubard (1998), Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data, Survey Methodology 24(2).
    """
    effective = effective_people(weights)
    return effective if effective >= FEW_PEOPLE else heaviest_people(weights)


def rake(weights: Floats, cells: Integers, margins: list[Floats], tolerance: float = 1e-10) -> Floats:
    """Return weights whose shares in the cells of each column are the margins, by iterative proportional fitting [1]_.

    References
    ----------
    .. [1] W. E. Deming and F. F. Stephan (1940), On a least squares adjustment of a sampled frequency table when the
       expected marginal totals are known, Annals of Mathematical Statistics 11(4).
    """
    raked = weights / weights.sum()
    for _ in range(1000):
        farthest = 0.0
        for column, shares in zip(cells.T, margins, strict=True):
            ratio = shares / np.bincount(column, raked, minlength=shares.size)
            raked = raked * ratio[column]
            farthest = max(farthest, float(np.abs(ratio - 1).max()))
        if farthest < tolerance:
            return raked * weights.sum()
    raise ValueError("margins must be shares that some weights of these people have, got margins that contradict them")
