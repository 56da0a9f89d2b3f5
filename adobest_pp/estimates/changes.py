"""The change of shares between two surveys of the same question, with its interval: of the same people or of others.

The change is the difference of the two unbiased estimates. Each estimate is a sum with one term for each person. People
who answered both times have a term in each, and the covariance of the two estimates is the sum over these people of the
products of their terms. This holds whoever changed, whatever the mechanism drew anew, and for any weights. Without such
people the covariance is zero.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adobest_pp._types import Floats

# People who are counted as changed, one in each direction, in addition to those who did: that nobody was seen to change
# does not prove that nobody does.
MORE_CHANGES = 2


class Measured(NamedTuple):
    """One survey of a question: unbiased estimates with their intervals (K,), terms (n, K), and the people's names."""

    estimate: Floats
    lower: Floats
    upper: Floats
    terms: Floats
    people: Sequence[Any]


class Change(NamedTuple):
    """The share after minus the share before, the ends of its interval, and how many people answered both times."""

    change: Floats
    lower: Floats
    upper: Floats
    people: int


def change_between(before: Measured, after: Measured) -> Change:
    """Return the change of each share with an interval of the same probability as those of the two shares.

    The interval of a difference follows from those of the two shares [1]_: their distances to the estimates are added
    like two errors with the correlation of the estimates.

    References
    ----------
    .. [1] G. Y. Zou (2007), Toward using confidence intervals to compare correlations, Psychological Methods 12(4),
       399-413; G. Y. Zou and A. Donner (2008), Construction of confidence limits about effect measures: a general
       approach, Statistics in Medicine 27, 1693-1702.
    """
    first, second = (np.clip(each.estimate, each.lower, each.upper) for each in (before, after))
    correlation, people = _correlation(before, after)
    change = second - first
    down = _joined(second - after.lower, before.upper - first, correlation)
    up = _joined(after.upper - second, first - before.lower, correlation)
    return Change(change, np.maximum(change - down, -1.0), np.minimum(change + up, 1.0), people)


def _joined(one: Floats, two: Floats, correlation: Floats) -> Floats:
    """Return the half of an interval of a difference from halves of the two intervals."""
    return np.asarray(np.sqrt(np.maximum(one**2 + two**2 - 2 * correlation * one * two, 0.0)))


def _correlation(before: Measured, after: Measured) -> tuple[Floats, int]:
    """Return the correlation of the two estimates of each share, and how many people answered both times."""
    place = {person: i for i, person in enumerate(before.people)}
    pairs = [(place[person], j) for j, person in enumerate(after.people) if person in place]
    if not pairs:
        return np.zeros(before.estimate.size), 0
    first, second = np.array(pairs).T
    covariance = np.sum(before.terms[first] * after.terms[second], axis=0)
    # Two people who changed add 2/n² to the variance of a difference of two shares, so the covariance loses half of it.
    covariance -= MORE_CHANGES / 2 / (len(before.people) * len(after.people))
    size = np.sqrt(np.sum(before.terms**2, axis=0) * np.sum(after.terms**2, axis=0))
    found = np.divide(covariance, size, out=np.zeros_like(size), where=size > 0)
    return np.clip(found, -1.0, 1.0), len(pairs)
