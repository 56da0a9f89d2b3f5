"""Do the answers fit the mechanism that they are read under? The NumPy core of `diagnostics.goodness_of_fit`.

Answers are summed up by counts whose expectations, given the published subsets, are linear in θ and whose covariances
are known in closed form (`count`). For a draw of θ the distance of the counts from what θ predicts, in units of that
covariance, follows χ² if θ is the truth; its tail probability, averaged over the posterior, is the posterior predictive
p-value, without simulating anything.
"""

from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from adobest_pp.mechanisms import RRRR, SRR, Mechanism, SubsetSelection
from adobest_pp.responses import Responses

__all__ = ["FALSE_ALARM", "LEVEL", "Fit", "check_fit", "misfit_in_words"]

# Whatever the model, a posterior predictive p-value of at most α comes by chance with probability 2α at most (Meng
# 1994, Annals of Statistics 22): answers are said not to fit from this p-value on, which is a false alarm in at most
LEVEL = 0.005
FALSE_ALARM = 2 * LEVEL

# With fewer expected, a count is not nearly normal; beyond so many categories, those that are most probable stand for
# the rest; and more draws than these do not change the p-value noticeably.
LEAST_EXPECTED = 5.0
MOST_CATEGORIES = 40
MOST_DRAWS = 400

# Directions whose variance is below this share of the greatest are fixed, but for rounding.
FIXED = 1e-9


class Fit(NamedTuple):
    """How far the answers are from what the posterior predicts.

    `statistic` is the mean distance over the draws, which has `freedom` degrees of freedom; θ cannot absorb `spare` of
    them. Without any answers to count, `freedom` is 0 and the p-value NaN.
    """

    statistic: float
    p_value: float
    freedom: int
    spare: int


class Counts(NamedTuple):
    """M counts of answers: what they are, what is expected (``constant + slope @ theta``), and their covariance."""

    observed: NDArray[np.float64]
    constant: NDArray[np.float64]
    slope: NDArray[np.float64]
    covariance: NDArray[np.float64]


def check_fit(theta: NDArray[np.float64], responses: Responses) -> Fit:
    """Return the posterior predictive check of the answers, for draws of θ of shape (n, K)."""
    draws = theta[np.linspace(0, len(theta) - 1, min(len(theta), MOST_DRAWS)).astype(np.int64)]
    mean = theta.mean(axis=0)
    mean = mean / mean.sum()
    if len(responses) == 0:
        return Fit(np.nan, np.nan, 0, 0)
    listed = np.sort(np.argsort(-mean, kind="stable")[:MOST_CATEGORIES])
    counts = count(responses.mechanism, responses, mean, listed)
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
    """Return a sentence where the answers do not fit, and nothing where they do or where nothing could be checked."""
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


@singledispatch
def count(mechanism: Mechanism, responses: Responses, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts:
    """Return the counts of a mechanism's answers, and their covariance at θ.

    Parameters
    ----------
    mechanism : SRR, RRRR or SubsetSelection
        What the answers are read under.
    responses : Responses
        The answers, at least one.
    theta : array of shape (K,)
        Where the covariance is taken.
    listed : array of int
        The categories to count.
    """
    raise ValueError(f"mechanism must be SRR, RRRR or SubsetSelection, got {mechanism!r}")


@count.register
def _(mechanism: SRR, responses: Responses, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts:
    """Count each category. Any counts within reach are fitted by some θ."""
    n, k = len(responses), mechanism.n_categories
    base, own = mechanism.linear_form()
    p = base + own * theta[listed]
    observed = np.bincount(responses.answers, minlength=k)[listed].astype(np.float64)
    slope = n * own * np.eye(k)[listed]
    return Counts(observed, np.full(listed.size, n * base), slope, n * (np.diag(p) - np.outer(p, p)))


@count.register
def _(mechanism: RRRR, responses: Responses, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts:
    """Count each category apart inside and outside the published subset, and answers inside it by its size.

    Given the subsets answers are independent, and where these were chosen by earlier answers the sums are martingales
    with the same variances.
    """
    answers, index, subsets = responses.answers, responses.subset_index, responses.subsets
    k, size = mechanism.n_categories, subsets.sum(axis=1)
    people = np.bincount(index, minlength=len(subsets)).astype(np.float64)
    inner, inner_own, outer, outer_own, cross = (column[size][:, None] for column in mechanism.coefficients)
    of_size = (size[:, None] == np.unique(size)[None, :]).astype(np.float64)

    inside = subsets[index, answers]
    observed = [np.bincount(answers[inside == side], minlength=k)[listed] for side in (True, False)]
    observed += [of_size.T @ np.bincount(index[inside], minlength=len(subsets))]

    members = subsets.astype(np.float64)
    near, far = members[:, listed], 1 - members[:, listed]
    eye = np.eye(k)[listed]
    slopes = [(people @ (near * inner_own))[:, None] * eye]
    slopes += [(people @ (far * outer_own))[:, None] * eye + (people[:, None] * (cross - outer) * far).T @ members]
    slopes += [of_size.T @ (people[:, None] * inner_own * members)]
    constants = [people @ (near * inner), people @ (far * outer), of_size.T @ (people * inner[:, 0] * size)]

    mass = (members @ theta)[:, None]
    of_inner = near * (inner + inner_own * theta[listed])
    of_outer = far * (outer + outer_own * theta[listed] + (cross - outer) * mass)
    of_any = inner * size[:, None] + inner_own * mass
    means = np.hstack([of_inner, of_outer, of_size * of_any])
    squares = np.diag(people @ means)  # what is counted once has itself for its square
    first, last = slice(0, listed.size), slice(2 * listed.size, None)
    squares[first, last] = (people[:, None] * of_inner).T @ of_size
    squares[last, first] = squares[first, last].T
    covariance = squares - (people[:, None] * means).T @ means
    return Counts(np.concatenate(observed).astype(np.float64), np.concatenate(constants), np.vstack(slopes), covariance)


@count.register
def _(
    mechanism: SubsetSelection, responses: Responses, theta: NDArray[np.float64], listed: NDArray[np.int64]
) -> Counts:
    """Count answers that hold a category, two neighbors in the list, or the most probable one and another.

    The first alone would be fitted by some θ wherever they are within reach.
    """
    n, k, d = len(responses), mechanism.n_categories, mechanism.size
    pairs = [(i, j) for i, j in zip(listed, np.roll(listed, -1), strict=True) if i != j]
    pairs += [(int(theta.argmax()), j) for j in listed if j != theta.argmax()]
    masks = np.zeros((listed.size + len(pairs), k), dtype=bool)
    masks[np.arange(listed.size), listed] = True
    for row, pair in zip(masks[listed.size :], pairs, strict=True):
        row[list(pair)] = True
    masks = np.unique(masks, axis=0)
    sizes = masks.sum(axis=1)

    evidence = responses.evidence()
    answers = np.zeros((len(evidence), k))
    answers[np.repeat(np.arange(len(evidence)), np.diff(evidence.offsets)), evidence.members] = 1.0
    held = answers @ masks.T == sizes
    observed = evidence.count @ held

    # P(A ⊆ Z) = constant(|A|) + slope(|A|)·θ(A), from how many of the sets Z hold so many given categories.
    shares = np.cumprod([1.0] + [max(d - i, 0) / max(k - i, 1) for i in range(5)])
    odds = np.expm1(mechanism.epsilon)
    whole = 1 + odds * d / k
    constant, slope = (shares[:-1] + odds * shares[1:]) / whole, odds * (shares[:-1] - shares[1:]) / whole
    both = sizes[:, None] + sizes - masks.astype(np.int64) @ masks.T
    mass = masks @ theta
    joint = constant[both] + slope[both] * (mass[:, None] + mass - (masks * theta) @ masks.T)
    single = constant[sizes] + slope[sizes] * mass
    return Counts(
        observed.astype(np.float64),
        n * constant[sizes],
        n * slope[sizes][:, None] * masks,
        n * (joint - np.outer(single, single)),
    )
