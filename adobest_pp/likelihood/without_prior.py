"""What answers say without a prior: whether they fit their mechanism, and an unbiased estimate of each share."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import chdtrc

from adobest_pp._numerics import zero_sum_basis
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import set_masses, value_and_gradient
from adobest_pp.mechanisms import Mechanism
from adobest_pp.transforms import add_structured, structured_masses

# Do the answers fit the mechanism that they are read under? The NumPy core of `diagnostics.goodness_of_fit`.
#
# The answers are summarized by counts. Given the published subsets, their expectations are linear in θ and their
# covariances are known in closed form (`Mechanism.answer_counts`). The distance of the counts from what θ predicts, in
# units of that covariance, follows χ² if θ is the truth. Its minimum over θ has two parts:
#
# - the minimum over all vectors with sum 1, whatever their signs: χ² with as many degrees of freedom as θ cannot
#   absorb, whatever the truth;
# - what the best vector of probabilities adds to that: at most the distance of the truth, so at most χ² with the
#   degrees of freedom that θ absorbs.
#
# Neither needs a prior or draws of θ. Nothing is simulated.

# Answers do not fit if the p-value is at most this: it happens to at most this share of right answers, whatever the
# truth.
LEVEL = FALSE_ALARM = 0.01

# Counts with a smaller expectation under even shares are left out: they are not nearly normal. A choice by the answers
# themselves would make right answers look wrong, so the answers leave out only counts that are far smaller under the
# shares that fit best. With more than `MOST_CATEGORIES`, that many evenly spaced categories are counted.
LEAST_EXPECTED, FAR_SMALLER = 10.0, 0.3
MOST_CATEGORIES = 500

# Directions with a variance below this share of the largest have none, except for rounding. Directions of θ that move
# the counts by less than this many standard deviations do not move them.
FIXED, STILL = 1e-9, 1e-6


class Fit(NamedTuple):
    """How far the answers are from what any θ predicts.

    `statistic` is the least distance over all θ. It has `freedom` degrees of freedom, and θ cannot absorb `spare` of
    them. Without answers to count, `freedom` is 0 and the p-value is NaN.
    """

    statistic: float
    p_value: float
    freedom: int
    spare: int


def check_fit(responses: Responses | Gathered) -> Fit:
    """Return how well the answers fit the mechanism that they are read under."""
    nothing = Fit(np.nan, np.nan, 0, 0)
    if len(responses) == 0:
        return nothing
    k = responses.n_categories
    listed = np.linspace(0, k - 1, min(k, MOST_CATEGORIES)).astype(np.int64)
    # The covariance is first that at even shares, and then that at the shares that fit best under it.
    even = np.full(k, 1 / k)
    found, theta = nothing, even
    for _ in range(2):
        counts = responses.answer_counts(theta, listed)
        if counts is None:
            return nothing
        enough = counts.constant + counts.slope @ even >= LEAST_EXPECTED
        enough &= counts.constant + counts.slope @ theta >= FAR_SMALLER * LEAST_EXPECTED
        if not enough.any():
            return nothing
        whiten = _whiten(counts.covariance[np.ix_(enough, enough)])
        if not len(whiten):
            return nothing
        columns, place = _alike(counts.slope[enough], listed)
        rest, slope = whiten @ (counts.observed - counts.constant)[enough], whiten @ columns
        found, shares = _nearest(rest, slope)
        theta = (shares / np.bincount(place))[place]
    return found


def _alike(slope: Floats, listed: Integers) -> tuple[Floats, Integers]:
    """Return distinct columns, and the column of each category. Categories that are not listed often share one."""
    k = slope.shape[1]
    others = np.setdiff1d(np.arange(k), listed)
    if not others.size or np.any(slope[:, others] != slope[:, others[:1]]):
        return slope, np.arange(k)
    place = np.full(k, listed.size)
    place[listed] = np.arange(listed.size)
    return np.column_stack([slope[:, listed], slope[:, others[0]]]), place


def _nearest(rest: Floats, slope: Floats) -> tuple[Fit, Floats]:
    """Return the fit of whitened counts (r,) that θ predicts as slope·θ, and the probabilities that come nearest."""
    # The minimum over vectors with sum 1, whatever their signs.
    left, sizes, _ = np.linalg.svd(slope - slope.mean(axis=1, keepdims=True), full_matrices=False)
    absorbed = left[:, sizes > STILL]
    centered = rest - slope.mean(axis=1)
    linear = float(np.sum((centered - absorbed @ (absorbed.T @ centered)) ** 2))
    # The minimum over probabilities. For θ with sum 1 the distance is |Cθ|, and the solution of (Cθ, Σθ) = (0, 1) by
    # least squares over θ ≥ 0 has the direction of the θ with sum 1 for which that is smallest.
    apart = np.linalg.qr(slope - rest[:, None], mode="r")
    scale = np.linalg.norm(apart, axis=0).min() or 1.0
    solution, _ = nnls(np.vstack([apart / scale, np.ones(slope.shape[1])]), np.append(np.zeros(len(apart)), 1.0))
    theta = solution / solution.sum()
    nearest = max(float(np.sum((apart @ theta) ** 2)), linear)
    freedom, taken = len(rest), absorbed.shape[1]
    spare = freedom - taken
    # Each part that exists has its share of the false alarms.
    p_values = [chdtrc(spare, linear)] * (spare > 0) + [chdtrc(taken, nearest - linear)] * (taken > 0)
    p_value = min(1.0, len(p_values) * float(min(p_values)))
    return Fit(nearest, p_value, freedom, spare), theta


def misfit_in_words(p_value: float) -> str:
    """Return a sentence if the answers do not fit, and "" if they fit or if nothing could be checked."""
    if not p_value <= LEVEL:
        return ""
    return (
        f"The answers do not fit the mechanism that they are read under (p = {p_value:.2g}, a false alarm in at most "
        f"{FALSE_ALARM:.0%} of collections): check that ε, the mechanism and the published subsets are those that the "
        "devices used, for the estimate is wrong otherwise."
    )


def _whiten(covariance: Floats) -> Floats:
    """Return the matrix, of shape (rank, M), that gives counts of this covariance unit variances."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    usable = scale > 0
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=usable)
    values, vectors = np.linalg.eigh(covariance * np.outer(inverse, inverse))
    free = values > FIXED * max(values[-1], 0)
    return np.asarray((vectors[:, free] / np.sqrt(values[free])).T * inverse)


# An unbiased estimate of each share, and its error.
#
# In a posterior, categories learn from each other. If most shares are zero, it takes a small share for zero as well:
# that makes its mean accurate, and makes its intervals miss rare answers. An interval that covers a share whatever the
# others are must rest on the evidence about that share alone, which is here (docs/math.md, section 2). With more than
# `MOST_CATEGORIES`, the information is not inverted, so mechanisms without symmetry have no such estimate, except for
# those with public hash functions.

# Directions with less than this share of the largest information are not identified.
UNKNOWN = 1e-12
# The relative error at which a system of equations counts as solved, and the most products with its matrix.
SOLVED, MOST_PRODUCTS = 1e-7, 200


class Direct(NamedTuple):
    """An unbiased estimate of each share, and how its variance depends on the share.

    The estimate has the variance of the share of `n` answers that name the category, over gain². An answer names it
    with probability h = other + gain·share, so that is h(1 − h)/(n·gain²).

    Attributes
    ----------
    estimate : array of shape (K,)
        Shares. They may be below 0 or above 1.
    other, gain : array of shape (K,)
        The probability that an answer names the category if it is not the truth, and how much larger it is otherwise.
    n : array of shape (K,)
        The number of answers; if they say more than whether they name the category, the number with equal information.
    """

    estimate: Floats
    other: Floats
    gain: Floats
    n: Floats

    def sd(self, share: Floats) -> Floats:
        """Return the standard deviation of the estimate of each category if this is its share."""
        h = self.other + self.gain * share
        return np.asarray(np.sqrt(np.maximum(h * (1 - h), 0.0) / self.n) / self.gain)


def direct_estimate(responses: Responses | Gathered, near: Floats, groups: Integers | None = None) -> Direct | None:
    """Return what the answers alone say about each share; None without answers, or if they do not identify the shares.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected.
    near : array of shape (K,)
        A first estimate, such as a posterior mean. It determines the weights of the answers, unless all of them name
        equally many categories: the estimate is unbiased with any weights, and efficient with those of the truth.
    groups : array of int, shape (K,), optional
        The group of each category, 0 … G−1, none of them empty. The estimates are then those of the G sums.
    """
    if not len(responses):
        return None
    evidence, mechanism = responses.evidence(), responses.mechanism
    naming, k = mechanism.naming(), evidence.n_categories
    if naming is not None and (k > MOST_CATEGORIES or counts_say_all(mechanism)):
        found = direct_of_counts(named(evidence), len(responses), mechanism, groups)
        return found if found is None or groups is None else _as_they_vary(found, evidence, mechanism, groups)
    if k > MOST_CATEGORIES:
        return _by_hashes(near, evidence, mechanism, groups)
    try:
        information = responses.information(near)
    except NotImplementedError:
        return None
    return _one_step(near, evidence, information, mechanism, groups)


def counts_say_all(mechanism: Mechanism) -> bool:
    """Tell whether all answers name equally many categories, so that estimates from counts sum to one."""
    naming = mechanism.naming()
    size = 0.5 if naming is None else naming[0] + (mechanism.n_categories - 1) * naming[1]
    return abs(size - round(size)) < 1e-9


def direct_of_counts(counts: Floats, n: int, mechanism: Mechanism, groups: Integers | None = None) -> Direct | None:
    """Return the estimates from how many answers name each category, for a mechanism that treats all alike."""
    naming = mechanism.naming()
    if naming is None or not n:
        return None
    truth, other = naming
    gain = np.full(counts.size, truth - other)
    if groups is None:
        return Direct((counts / n - other) / gain, np.full(counts.size, other), gain, np.full(counts.size, float(n)))
    # How much more often a group is named than its part of all categories, as answers differ in how many they name.
    sizes = np.bincount(groups)
    excess = np.bincount(groups, counts) - sizes / counts.size * counts.sum()
    likeness = _binary_groups(naming, counts_say_all(mechanism), sizes)
    return Direct(sizes / counts.size + excess / (n * gain[0]), *likeness, np.full(sizes.size, float(n)))


def _binary_groups(naming: tuple[float, float], is_fixed: bool, sizes: Integers) -> tuple[Floats, Floats]:
    """Return `other` and `gain` of binary answers whose share of "yes" has the variance of the sum over a group.

    The sum has the weight w_i = 1 − g/K for the g categories of the group, and −g/K for all others. Given the truth x,
    the variance of the categories that an answer names, with these weights, is the same for all x in the group, and for
    all x outside. So the variance of the estimate is a quadratic function of the share t of the group, (t·A₁ +
    (1 − t)·A₀ + t(1 − t))/n, and there are n binary answers whose variance is the same for every t. `is_fixed` tells
    whether all answers name equally many categories.
    """
    k = int(sizes.sum())
    (truth, other), share = naming, sizes / k
    own, rest = truth * (1 - truth), other * (1 - other)
    # Covariances of naming two categories, one of which is the truth, and none of which is. If all answers name equally
    # many categories, their sums are zero; otherwise an answer names any two independently of each other.
    with_truth = -own / (k - 1) if is_fixed else 0.0
    without = -(rest + with_truth) / (k - 2) if is_fixed and k > 2 else 0.0
    each, all_of_them = own - rest - 2 * with_truth + 2 * without, sizes * (1 - share) * (rest - without)
    outside, inside = ((weight**2 * each + all_of_them) / (truth - other) ** 2 for weight in (share, 1 - share))
    slant = outside - inside - 1
    gain = 1 / np.sqrt(4 * np.maximum(outside, 0.0) + slant**2)
    return np.clip((1 + gain * slant) / 2, 0.0, 1.0), gain


def _as_they_vary(direct: Direct, evidence: Evidence, mechanism: Mechanism, groups: Integers) -> Direct:
    """Return the estimates with the variances that the sums have among the answers.

    That is the variance of `_binary_groups` if an answer names any two categories independently of each other, given
    the truth. For Hadamard response it is not, if the truth is the product of the two.
    """
    naming, n = mechanism.naming(), float(evidence.n_responses)
    assert naming is not None
    people = direct.n.copy()
    for g, size in enumerate(np.bincount(groups).tolist()):
        weights = (groups == g) - size / groups.size
        alone = np.where(evidence.own > 0, weights[evidence.category], 0.0)
        scores = alone + set_masses(weights, evidence)[evidence.set_index]
        mean = np.sum(evidence.count * scores) / n
        variance = np.sum(evidence.count * (scores - mean) ** 2) / n / (naming[0] - naming[1]) ** 2
        h = direct.other[g] + direct.gain[g] * direct.estimate[g]
        expected = h * (1 - h) / direct.gain[g] ** 2
        people[g] *= expected / variance if variance > 0 and expected > 0 else 1.0
    return direct._replace(n=people)


def named(evidence: Evidence) -> Floats:
    """Return how many answers name each category, of shape (K,): by their set, or as their own category."""
    k, count = evidence.n_categories, evidence.count
    alone = np.bincount(evidence.category, count * (evidence.own > 0), minlength=k)
    has_set = (evidence.set_index >= 0) & (evidence.set_index < evidence.n_sets)
    of_set = np.bincount(evidence.set_index[has_set], count[has_set], minlength=evidence.n_sets)
    alone += np.bincount(evidence.members, np.repeat(of_set, np.diff(evidence.offsets)), minlength=k)
    first = evidence.n_sets + len(evidence.patterns)
    if evidence.structure.size:
        is_structured = evidence.set_index >= first
        places, weights = evidence.set_index[is_structured] - first, count[is_structured]
        add_structured(np.bincount(places, weights, minlength=evidence.n_masses - first), evidence.structure, alone)
    return np.asarray(alone)


def _by_hashes(near: Floats, evidence: Evidence, mechanism: Mechanism, groups: Integers | None) -> Direct | None:
    """Return the estimates from how many answers name each category, if public hash functions decide what they name.

    An answer z has the probability w·(1 + o·θ(A_z)). So the share of the answers that name x has the mean
    w·(F + o·(AᵀAθ)_x), if x is in F sets. The solution is unbiased for these functions, unlike an estimate that takes
    them for random ones. They are fixed, but behave like random ones: answers name any two categories independently of
    each other, and the variance is larger by a factor that is known.
    """
    found, k = mechanism.naming_over_hashes(), near.size
    if found is None:
        return None
    (truth, other, factor), n, weight = found, float(evidence.n_responses), math.exp(evidence.log_scale[0])

    def sums(masses: Floats) -> Floats:
        total = np.zeros(k)
        add_structured(masses, evidence.structure, total)
        return total

    def product(theta: Floats) -> Floats:
        masses = np.zeros(mechanism.n_outputs)
        structured_masses(theta.ravel(), evidence.structure, masses)
        return sums(masses)

    counts = (named(evidence) / (n * weight) - sums(np.ones(mechanism.n_outputs))) / math.expm1(mechanism.epsilon)
    operator = LinearOperator((k, k), product, dtype=np.float64)
    estimate, unsolved = cg(operator, counts, near, rtol=SOLVED, maxiter=MOST_PRODUCTS)
    if unsolved:
        return None
    gain, people = truth - other, n / factor
    if groups is None:
        return Direct(estimate, np.full(k, other), np.full(k, gain), np.full(k, people))
    sizes = np.bincount(groups)
    shares = np.bincount(groups, estimate) - sizes / k * (estimate.sum() - 1)
    return Direct(shares, *_binary_groups((truth, other), False, sizes), np.full(sizes.size, people))


def _one_step(
    near: Floats, evidence: Evidence, information: Floats, mechanism: Mechanism, groups: Integers | None
) -> Direct | None:
    """Return the estimate after one step of Fisher scoring, which is linear in the answers and unbiased."""
    start = near / near.sum()
    basis = zero_sum_basis(start.size).T
    inner = basis.T @ information @ basis
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    if values[0] <= UNKNOWN * values[-1]:
        return None
    turned = basis @ vectors
    slope = value_and_gradient(start, evidence)[1]
    estimate = start + turned @ ((turned.T @ slope) / values)
    alike = mechanism.naming()
    naming: tuple[ArrayLike, ArrayLike] | None = alike
    if groups is not None:
        sizes = np.bincount(groups)
        members = np.equal.outer(np.arange(sizes.size), groups).astype(np.float64)
        start, estimate, turned = members @ start, members @ estimate, members @ turned
        if alike is not None:
            other, gain = _binary_groups(alike, counts_say_all(mechanism), sizes)
            naming = (other + gain, other)
    variance = np.sum(turned**2 / values, axis=1)
    return direct_of_variance(start, estimate, variance, evidence.n_responses, naming, mechanism.epsilon)


def direct_of_variance(
    near: Floats,
    estimate: Floats,
    variance: Floats,
    n: float,
    naming: tuple[ArrayLike, ArrayLike] | None,
    epsilon: float,
) -> Direct:
    """Return unbiased estimates with these variances at `near` as estimates from counts of answers.

    `naming` are the probabilities of `Mechanism.naming`, the same for all entries or one for each; the number of
    answers then follows from the variances. Without it there are n answers, and the probabilities follow.
    """
    if naming is not None:
        truth, other = (np.broadcast_to(np.asarray(each, dtype=np.float64), near.shape) for each in naming)
        gain = truth - other
        h = other + gain * near
        return Direct(estimate, other, gain, h * (1 - h) / (gain**2 * variance))
    # n binary answers with these variances that use all of ε.
    people, odds = np.full(near.size, float(n)), math.expm1(epsilon)
    raised = 1 + odds * near
    other = 1 / np.maximum(people * variance * odds**2 / raised + raised, odds + 2)
    return Direct(estimate, other, odds * other, people)
