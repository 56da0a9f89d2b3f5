"""Do the answers fit the mechanism that they are read under? The NumPy core of `diagnostics.goodness_of_fit`.

The answers are summarized by counts. Given the published subsets, their expectations are linear in θ and their
covariances are known in closed form (`Mechanism.answer_counts`). For a draw of θ the distance of the counts from what θ
predicts, in units of that covariance, follows χ² if θ is the truth. Its tail probability, averaged over the posterior,
is the posterior predictive p-value. Nothing is simulated.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from adobest_pp.data.gathered import Gathered
from adobest_pp.data.responses import Responses

__all__ = ["FALSE_ALARM", "LEVEL", "Fit", "check_fit", "misfit_in_words"]

# Answers are said not to fit at this p-value and below. In any model, a posterior predictive p-value of at most α has
# probability at most 2α (Meng 1994, Annals of Statistics 22), which bounds the rate of false alarms.
LEVEL = 0.005
FALSE_ALARM = 2 * LEVEL

# Counts with a smaller expectation are left out: they are not nearly normal. Of more categories than this, only the
# most probable are counted. More draws than this do not change the p-value noticeably.
LEAST_EXPECTED = 5.0
MOST_CATEGORIES = 40
MOST_DRAWS = 400

# A direction whose variance is below this share of the largest has none, but for rounding.
FIXED = 1e-9


class Fit(NamedTuple):
    """How far the answers are from what the posterior predicts.

    `statistic` is the mean distance over the draws. It has `freedom` degrees of freedom, and θ cannot absorb `spare` of
    them. Without answers to count, `freedom` is 0 and the p-value is NaN.
    """

    statistic: float
    p_value: float
    freedom: int
    spare: int


def check_fit(theta: NDArray[np.float64], responses: Responses | Gathered) -> Fit:
    """Return the posterior predictive check of the answers, for draws of θ of shape (n, K)."""
    draws = theta[np.linspace(0, len(theta) - 1, min(len(theta), MOST_DRAWS)).astype(np.int64)]
    mean = theta.mean(axis=0)
    mean = mean / mean.sum()
    if len(responses) == 0:
        return Fit(np.nan, np.nan, 0, 0)
    listed = np.sort(np.argsort(-mean, kind="stable")[:MOST_CATEGORIES])
    counts = responses.answer_counts(mean, listed)
    if counts is None:
        return Fit(np.nan, np.nan, 0, 0)
    enough = counts.constant + counts.slope @ mean >= LEAST_EXPECTED
    if not enough.any():
        return Fit(np.nan, np.nan, 0, 0)
    observed, constant, slope = counts.observed[enough], counts.constant[enough], counts.slope[enough]
    whiten = _whiten(counts.covariance[np.ix_(enough, enough)])
    if not len(whiten):
        return Fit(np.nan, np.nan, 0, 0)
    distances = (((observed - constant - draws @ slope.T) @ whiten.T) ** 2).sum(axis=1)
    taken = np.linalg.matrix_rank(whiten @ (slope - slope.mean(axis=1, keepdims=True)), tol=1e-6)
    p_value = float(chdtrc(len(whiten), distances).mean())
    return Fit(float(distances.mean()), p_value, len(whiten), len(whiten) - int(taken))


def misfit_in_words(p_value: float) -> str:
    """Return a sentence if the answers do not fit, and an empty text if they do or if nothing could be checked."""
    if not p_value <= LEVEL:
        return ""
    return (
        f"The answers do not fit the mechanism that they are read under (p = {p_value:.2g}, a false alarm in at most "
        f"{FALSE_ALARM:.0%} of collections): check that ε, the mechanism and the published subsets are those that the "
        "devices used, for the estimate is wrong otherwise."
    )


def _whiten(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix, of shape (rank, M), that gives counts of this covariance unit variances."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    usable = scale > 0
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=usable)
    values, vectors = np.linalg.eigh(covariance * np.outer(inverse, inverse))
    free = values > FIXED * max(values[-1], 0)
    return np.asarray((vectors[:, free] / np.sqrt(values[free])).T * inverse)
