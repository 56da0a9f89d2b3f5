"""Subset selection (Ye and Barg): the answer is a set, likelier if it contains the truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_answers, check_epsilon, check_integer, check_n_categories
from adobest_pp._types import Answers, Bits, Floats, Integers, Masks
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, ExtremalMechanism, Published, rows_of
from adobest_pp.mechanisms.exact import UNIT, Source, uniform_subsets
from adobest_pp.mechanisms.guessing import guess_from_sets
from adobest_pp.mechanisms.information import from_sets_of_size

_ROWS_AT_ONCE = 1 << 16
# The most listed categories that a check of fit pairs.
_MOST_PAIRED = 40


@dataclass(frozen=True, init=False)
class SubsetSelection(ExtremalMechanism):
    """Subset selection, the minimax-optimal mechanism if nothing is known about θ [1]_.

    The answer is a set of d categories. Every set that contains the truth is e^ε times as likely as any other set.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    size : int, optional
        Number d of categories in an answer, 1 … K−1. The default minimizes the worst-case squared error; it is near
        K/(e^ε+1).

    References
    ----------
    .. [1] M. Ye and A. Barg (2018), Optimal schemes for discrete distribution estimation under locally
       differential privacy, IEEE Transactions on Information Theory 64(8).

    Examples
    --------
    >>> from adobest_pp import SubsetSelection
    >>> SubsetSelection(20, epsilon=1.0).size
    5
    """

    n_categories: int
    epsilon: float
    size: int
    answer_columns = ("answer",)  # an answer is a set
    _people_at_once = _ROWS_AT_ONCE

    def __init__(self, n_categories: int, epsilon: float, size: int | None = None) -> None:
        k, budget = check_n_categories(n_categories), check_epsilon(epsilon)
        best = _best_size(k, budget) if size is None else check_integer(size, "size", 1, k - 1)
        self._set(n_categories=k, epsilon=budget, size=best)

    @property
    def n_outputs(self) -> int:
        """The number of possible answers, C(K, d)."""
        return math.comb(self.n_categories, self.size)

    def outputs(self) -> Integers:
        """Return every possible answer in lexicographic order, of shape (C(K, d), d)."""
        self._check_few_outputs()
        return np.array(list(combinations(range(self.n_categories), self.size)), dtype=np.int64)

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        weight = 1 / (1 + math.expm1(self.epsilon) * self.size / self.n_categories)
        return from_sets_of_size(theta, math.expm1(self.epsilon), self.size, weight)

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        # Of the sets of d categories, C(K−r, d−1) begin at place r.
        k, d, place = self.n_categories, self.size, np.arange(1, self.n_categories)
        first = d / k * np.cumprod(np.append(1.0, np.maximum(k - place - d + 1, 0) / (k - place)))
        weight = 1 / (1 + math.expm1(self.epsilon) * d / k)
        return guess_from_sets(np.sort(theta)[::-1], math.exp(self.epsilon), first, weight)

    @property
    def answer_dims(self) -> dict[str, int]:
        """An answer lists its d members."""
        return {"member": self.size}

    @property
    def answer_type(self) -> np.dtype[Any]:
        """The integer type that members of answers are stored in."""
        return np.min_scalar_type(-self.n_categories)

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return rows of d increasing categories, or raise ValueError."""
        rows = rows_of(answers, self.size, f"rows of {self.size} categories each")
        check_answers(rows, self.n_categories)
        if np.any(np.diff(rows, axis=1) <= 0):
            raise ValueError("answers must list distinct categories in increasing order: other orders could reveal x")
        return rows

    def support(self, answers: Answers) -> Masks:
        """Return the answers as masks: the support of a set is the set itself."""
        masks = np.zeros((len(answers), self.n_categories), dtype=bool)
        np.put_along_axis(masks, answers.astype(np.int64), True, axis=1)
        return masks

    def answers_of_sets(self, masks: Bits) -> Answers:
        """Return the members of each set."""
        return np.nonzero(masks)[1].reshape(len(masks), self.size)

    def log_weight(self, answers: Answers) -> Floats:
        """Return ln w, the same for all answers."""
        return np.full(len(answers), self._log_weight)

    def log_weight_of_size(self, sizes: Integers) -> Floats:
        """Return ln w, the same for all answers, or raise ValueError if a set has another size than d."""
        wrong = sizes[sizes != self.size]
        if wrong.size:
            raise ValueError(f"answers must be sets of {self.size} categories each, got one of {wrong[0]}")
        return np.full(len(sizes), self._log_weight)

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count answers with a listed category, with two neighbors in the list, or with the likeliest and another.

        Almost any counts of single categories fit some θ, so they alone test little. If the list is long, only some of
        its categories are paired.
        """
        n, k, d = len(answers), self.n_categories, self.size
        pairs = _pairs(listed, int(theta.argmax()))
        singles, masks = np.eye(k, dtype=bool)[listed], np.zeros((len(pairs), k), dtype=bool)
        np.put_along_axis(masks, pairs, values=True, axis=1)
        masks = np.vstack([singles, masks])
        sizes = masks.sum(axis=1)
        observed = np.zeros(len(masks), dtype=np.int64)
        for start in range(0, n, _ROWS_AT_ONCE):
            support = self.support(answers[start : start + _ROWS_AT_ONCE])
            observed += [*support.sum(axis=0)[listed], *(np.sum(support[:, i] & support[:, j]) for i, j in pairs)]

        # P(A ⊆ Z) = constant(|A|) + slope(|A|)·θ(A), from the share of the sets Z that contain |A| given categories.
        shares = np.cumprod([1.0] + [max(d - i, 0) / max(k - i, 1) for i in range(5)])
        odds = math.expm1(self.epsilon)
        whole = 1 + odds * d / k
        constant, slope = (shares[:-1] + odds * shares[1:]) / whole, odds * (shares[:-1] - shares[1:]) / whole
        numbers = masks.astype(np.float64)  # products of integers are slow
        both = sizes[:, None] + sizes - (numbers @ numbers.T).astype(np.int64)
        mass = numbers @ theta
        joint = constant[both] + slope[both] * (mass[:, None] + mass - (numbers * theta) @ numbers.T)
        single = constant[sizes] + slope[sizes] * mass
        covariance = n * (joint - np.outer(single, single))
        return Counts(observed.astype(np.float64), n * constant[sizes], n * slope[sizes][:, None] * masks, covariance)

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        k, d = self.n_categories, self.size
        own = 1 / (1 + (k - d) / d * math.exp(-self.epsilon))
        return own, (d - own) / (k - 1)

    def drawing(self) -> Drawing:
        """Draw the truth, whether the set contains it, and the rest of the set."""
        weight = self.size * math.exp(self.epsilon)
        return self._drawing("draw_set", [[weight / (weight + self.n_categories - self.size), self.size]])

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[z, x] that the production path draws from; columns have equal sums."""
        return self._weights_by_support(self.support(self.outputs()))

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: any answer, with a category in it and one outside."""
        answer = tuple(range(self.size))
        yield AuditCase(self.size, [answer], [0, self.size], np.array([[self._keep, UNIT]], dtype=object))

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw whether the set contains the truth, and the rest of it. Members are listed in increasing order."""
        k, d, rows = self.n_categories, self.size, np.arange(x.size)
        contains = source.bernoulli(d * self._keep, d * self._keep + (k - d) * UNIT, x.size)
        rest = np.zeros((x.size, k - 1), dtype=bool)
        for is_in in (True, False):
            # A device draws both for everybody: the time that one takes would reveal whether the truth is in the set.
            drawn = np.flatnonzero((contains == is_in) | source.on_device)
            subsets = uniform_subsets(source, k - 1, d - is_in, drawn.size)
            rest[drawn] = np.where((contains == is_in)[drawn, None], subsets, rest[drawn])
        others = np.arange(k - 1)
        mask = np.empty((x.size, k), dtype=bool)
        mask[rows[:, None], others + (others >= x[:, None])] = rest
        mask[rows, x] = contains
        return np.nonzero(mask)[1].reshape(x.size, d)

    @property
    def _log_weight(self) -> float:
        """The logarithm of w, the smaller probability of an answer. For large K, w itself underflows."""
        k, d = self.n_categories, self.size
        odds = (d * math.exp(self.epsilon) + k - d) / (k - d)
        return -math.log(odds) - math.log(math.comb(k - 1, d))


def _best_size(n_categories: int, epsilon: float) -> int:
    """Return the d that minimizes the worst-case risk, up to factors that do not depend on d."""
    d = np.arange(1, n_categories)
    rest = n_categories - d
    # Divided by e^ε: no overflow for large budgets.
    risk = (d + rest * math.exp(-epsilon)) ** 2 / (d * rest)
    return int(d[np.argmin(risk)])


def _pairs(listed: Integers, first: int) -> Integers:
    """Return pairs (i, j), i < j, of neighbors in the list, and of `first` and another category."""
    some = listed[np.linspace(0, listed.size - 1, min(listed.size, _MOST_PAIRED)).astype(np.int64)]
    pairs = np.vstack([np.column_stack([some, np.roll(some, -1)]), np.column_stack([np.full(some.size, first), some])])
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
