"""What the answers say of each share by themselves, without a prior: an unbiased estimate, and its error.

A posterior spreads what it knows about all categories over each of them. If most shares are zero it takes a small one
for zero as well: that is what makes its mean accurate, and what makes its intervals miss rare answers. The interval of
one share that holds it whatever the others are rests on that share's own evidence, which is here (docs/math.md,
section 2).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._linalg import zero_sum_basis
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.mechanisms import Mechanism

# Of more categories, the information of mechanisms without symmetry is not inverted.
MOST_CATEGORIES = 500
# Directions with less than this share of the largest information are not identified.
UNKNOWN = 1e-12


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
        The number of answers; where they tell more than whether they name the category, that of as much information.
    """

    estimate: NDArray[np.float64]
    other: NDArray[np.float64]
    gain: NDArray[np.float64]
    n: NDArray[np.float64]

    def sd(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of the estimate of each category if this is its share."""
        h = self.other + self.gain * share
        return np.asarray(np.sqrt(np.maximum(h * (1 - h), 0.0) / self.n) / self.gain)


def direct_estimate(responses: Responses | Gathered, near: NDArray[np.float64]) -> Direct | None:
    """Return what answers say of each share by themselves; None where there are no answers, or they do not tell.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected.
    near : array of shape (K,)
        A first estimate, such as a posterior mean. It chooses the weights of the answers, unless all of them name
        equally many categories: the estimate is unbiased with any weights, and efficient with those of the truth.
    """
    if not len(responses):
        return None
    evidence, mechanism = responses.evidence(), responses.mechanism
    naming, k = mechanism.naming(), evidence.n_categories
    if naming is not None and (k > MOST_CATEGORIES or counts_say_all(mechanism)):
        return direct_of_counts(named(evidence), len(responses), mechanism)
    if k > MOST_CATEGORIES:
        return None
    try:
        information = responses.information(near)
    except NotImplementedError:
        return None
    return _one_step(near, evidence, information, mechanism)


def counts_say_all(mechanism: Mechanism) -> bool:
    """Tell whether all answers name equally many categories: estimates from counts then sum to one, as shares do."""
    naming = mechanism.naming()
    size = 0.5 if naming is None else naming[0] + (mechanism.n_categories - 1) * naming[1]
    return abs(size - round(size)) < 1e-9


def direct_of_counts(counts: NDArray[np.float64], n: int, mechanism: Mechanism) -> Direct | None:
    """Return what the numbers of answers that name each category say, for a mechanism that treats all alike."""
    naming = mechanism.naming()
    if naming is None or not n:
        return None
    truth, other = naming
    gain = np.full(counts.size, truth - other)
    return Direct((counts / n - other) / gain, np.full(counts.size, other), gain, np.full(counts.size, float(n)))


def named(evidence: Evidence) -> NDArray[np.float64]:
    """Return how many answers name each category, of shape (K,): by their set, or by themselves."""
    k, count = evidence.n_categories, evidence.count
    alone = np.bincount(evidence.category, count * (evidence.own > 0), minlength=k)
    has_set = (evidence.set_index >= 0) & (evidence.set_index < evidence.n_sets)
    of_set = np.bincount(evidence.set_index[has_set], count[has_set], minlength=evidence.n_sets)
    return np.asarray(alone + np.bincount(evidence.members, np.repeat(of_set, np.diff(evidence.offsets)), minlength=k))


def _one_step(
    near: NDArray[np.float64], evidence: Evidence, information: NDArray[np.float64], mechanism: Mechanism
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
    variance = np.sum(turned**2 / values, axis=1)
    naming = mechanism.naming()
    if naming is not None:
        other, gain = np.full(start.size, naming[1]), np.full(start.size, naming[0] - naming[1])
        h = other + gain * start
        return Direct(estimate, other, gain, h * (1 - h) / (gain**2 * variance))
    # As many binary answers that have this variance and use all of ε.
    n, odds = np.full(start.size, float(evidence.n_responses)), math.expm1(mechanism.epsilon)
    raised = 1 + odds * start
    other = 1 / np.maximum(n * variance * odds**2 / raised + raised, odds + 2)
    return Direct(estimate, other, odds * other, n)
