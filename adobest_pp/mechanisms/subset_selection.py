"""Subset selection (Ye and Barg): the answer is a set of categories that contains the truth more often than not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_answers, check_epsilon, check_integer, check_n_categories, check_private
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, ExtremalMechanism, Published, refuse_subset, rows_of
from adobest_pp.mechanisms.exact import UNIT, exp_weight, source_of, uniform_subsets
from adobest_pp.mechanisms.information import from_sets_of_size

MAX_OUTPUTS = 20_000
_ROWS_AT_ONCE = 1 << 16
_MOST_PAIRED = 40


@dataclass(frozen=True, init=False)
class SubsetSelection(ExtremalMechanism):
    """Subset selection, the minimax-optimal mechanism when nothing is known about θ [1]_.

    The answer is a set Z of d categories, with odds e^ε : 1 of any set that contains the truth against any
    set that does not.

    Parameters
    ----------
    n_categories : int
        Number of categories K, at least 2.
    epsilon : float
        Privacy budget of one answer.
    size : int, optional
        Number d of categories in an answer, 1 … K−1. By default the one with the least worst-case squared
        error, near K/(e^ε+1).

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

    def __init__(self, n_categories: int, epsilon: float, size: int | None = None) -> None:
        k, budget = check_n_categories(n_categories), check_epsilon(epsilon)
        object.__setattr__(self, "n_categories", k)
        object.__setattr__(self, "epsilon", budget)
        best = _best_size(k, budget) if size is None else check_integer(size, "size", 1, k - 1)
        object.__setattr__(self, "size", best)

    @property
    def n_outputs(self) -> int:
        """The number of possible answers, C(K, d)."""
        return math.comb(self.n_categories, self.size)

    def outputs(self) -> NDArray[np.int64]:
        """Return every possible answer in lexicographic order, of shape (C(K, d), d)."""
        if self.n_outputs > MAX_OUTPUTS:
            raise ValueError(
                f"SubsetSelection with {self.n_categories} categories and size {self.size} has about "
                f"10^{math.log10(self.n_outputs):.1f} possible answers; at most {MAX_OUTPUTS} are enumerated: "
                "use fewer categories"
            )
        return np.array(list(combinations(range(self.n_categories), self.size)), dtype=np.int64)

    def transition_matrix(self) -> NDArray[np.float64]:
        """Return ``G[z, x] = P(Z = outputs()[z] | X=x)``, of shape (C(K, d), K), where that is not too large."""
        return np.where(self._contains(), 1 + math.expm1(self.epsilon), 1.0) * math.exp(self._log_weight)

    def information(self, theta: NDArray[np.float64], *, subset: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the information of one answer by all sets of its size; see `Mechanism.information`."""
        refuse_subset(self, subset)
        weight = 1 / (1 + math.expm1(self.epsilon) * self.size / self.n_categories)
        return from_sets_of_size(theta, math.expm1(self.epsilon), self.size, weight)

    @property
    def answer_dims(self) -> dict[str, int]:
        """An answer lists its d members."""
        return {"member": self.size}

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """An answer is a set, in one column."""
        return ("answer",)

    @property
    def answer_type(self) -> np.dtype[Any]:
        """The integer type that members of answers are stored in."""
        return np.min_scalar_type(-self.n_categories)

    def check_answers(self, answers: ArrayLike) -> NDArray[np.int64]:
        """Return rows of d increasing categories, or raise ValueError."""
        rows = rows_of(answers, self.size, f"rows of {self.size} categories each")
        check_answers(rows, self.n_categories)
        if np.any(np.diff(rows, axis=1) <= 0):
            raise ValueError(
                "answers must list categories in increasing order, each once: any other order could reveal the truth"
            )
        return rows

    def support(self, answers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the answers as masks: the support of a set is the set."""
        masks = np.zeros((len(answers), self.n_categories), dtype=bool)
        np.put_along_axis(masks, answers.astype(np.int64), True, axis=1)
        return masks

    def answers_of_sets(self, masks: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the members of each set."""
        return np.nonzero(masks)[1].reshape(len(masks), self.size)

    def log_weight(self, answers: NDArray[Any]) -> NDArray[np.float64]:
        """Return the same for all answers."""
        return np.full(len(answers), self._log_weight)

    def log_weight_of_size(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the same for all answers, which must have one size."""
        wrong = sizes[sizes != self.size]
        if wrong.size:
            raise ValueError(f"answers must be sets of {self.size} categories each, got one of {wrong[0]}")
        return np.full(len(sizes), self._log_weight)

    def answer_counts(
        self, answers: NDArray[Any], published: Published, theta: NDArray[np.float64], listed: NDArray[np.int64]
    ) -> Counts:
        """Count answers that hold a category, two neighbors in the list, or the most probable one and another.

        The first alone would be fitted by some θ wherever they are within reach. Of a long list, only some categories
        are paired.
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
            held = np.concatenate(
                [support.sum(axis=0)[listed], [np.sum(support[:, i] & support[:, j]) for i, j in pairs]]
            )
            observed += held.astype(np.int64)

        # P(A ⊆ Z) = constant(|A|) + slope(|A|)·θ(A), from how many of the sets Z hold so many given categories.
        shares = np.cumprod([1.0] + [max(d - i, 0) / max(k - i, 1) for i in range(5)])
        odds = math.expm1(self.epsilon)
        whole = 1 + odds * d / k
        constant, slope = (shares[:-1] + odds * shares[1:]) / whole, odds * (shares[:-1] - shares[1:]) / whole
        numbers = masks.astype(np.float64)  # products of integers are slow
        both = sizes[:, None] + sizes - (numbers @ numbers.T).astype(np.int64)
        mass = numbers @ theta
        joint = constant[both] + slope[both] * (mass[:, None] + mass - (numbers * theta) @ numbers.T)
        single = constant[sizes] + slope[sizes] * mass
        return Counts(
            observed.astype(np.float64),
            n * constant[sizes],
            n * slope[sizes][:, None] * masks,
            n * (joint - np.outer(single, single)),
        )

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        k, d = self.n_categories, self.size
        own = 1 / (1 + (k - d) / d * math.exp(-self.epsilon))
        return own, (d - own) / (k - 1)

    def drawing(self) -> Drawing:
        """Draw the truth, whether the set holds it, and the rest of the set."""
        from adobest_pp.mechanisms.drawing import draw_set

        weight = self.size * math.exp(self.epsilon)
        return Drawing(draw_set, np.array([[weight / (weight + self.n_categories - self.size), self.size]]))

    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomize private categories into sets; see `Mechanism.privatize`.

        Categories of a set are in increasing order, so that the order tells nothing.
        """
        refuse_subset(self, subset)
        truth = check_private(x, self.n_categories)
        flat = truth.ravel()
        answers = np.empty((flat.size, self.size), dtype=np.int64)
        for start in range(0, flat.size, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            answers[part] = self._privatize(flat[part], rng)
        return answers.reshape(*truth.shape, self.size)

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[z, x] that the production path draws against; columns have equal sums."""
        contains = self._contains()
        weights = np.full(contains.shape, UNIT, dtype=object)
        weights[contains] = self._keep
        return weights

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the one case there is: any answer, with a category in it and one outside."""
        answer = tuple(range(self.size))
        yield AuditCase(self.size, [answer], [0, self.size], np.array([[self._keep, UNIT]], dtype=object))

    def _privatize(self, x: NDArray[np.int64], rng: np.random.Generator | None) -> NDArray[np.int64]:
        source = source_of(rng)
        k, d, rows = self.n_categories, self.size, np.arange(x.size)
        contains = source.bernoulli(d * self._keep, d * self._keep + (k - d) * UNIT, x.size)
        rest = np.zeros((x.size, k - 1), dtype=bool)
        for is_in in (True, False):
            # On a device both sizes are drawn for everybody: how long one takes would tell whether the truth is in.
            drawn = np.flatnonzero((contains == is_in) | (rng is None))
            subsets = uniform_subsets(source, k - 1, d - is_in, drawn.size)
            rest[drawn] = np.where((contains == is_in)[drawn, None], subsets, rest[drawn])
        others = np.arange(k - 1)
        mask = np.empty((x.size, k), dtype=bool)
        mask[rows[:, None], others + (others >= x[:, None])] = rest
        mask[rows, x] = contains
        return np.nonzero(mask)[1].reshape(x.size, d)

    def _contains(self) -> NDArray[np.bool_]:
        outputs = self.outputs()
        contains = np.zeros((len(outputs), self.n_categories), dtype=bool)
        np.put_along_axis(contains, outputs, True, axis=1)
        return contains

    @property
    def _log_weight(self) -> float:
        """The logarithm of w, the lesser probability of an answer; 1/C(K, d) leaves double precision for large K."""
        k, d = self.n_categories, self.size
        odds = (d * math.exp(self.epsilon) + k - d) / (k - d)
        return -math.log(odds) - math.log(math.comb(k - 1, d))

    @cached_property
    def _keep(self) -> int:
        return exp_weight(self.epsilon)


def _best_size(n_categories: int, epsilon: float) -> int:
    """Return the d that minimizes the worst-case risk; factors without d are left out."""
    d = np.arange(1, n_categories)
    rest = n_categories - d
    # Divided by e^ε, so that a large budget does not overflow.
    risk = (d + rest * math.exp(-epsilon)) ** 2 / (d * rest)
    return int(d[np.argmin(risk)])


def _pairs(listed: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return pairs (i, j), i < j, of categories that are listed side by side, and of `first` and another."""
    some = listed[np.linspace(0, listed.size - 1, min(listed.size, _MOST_PAIRED)).astype(np.int64)]
    pairs = np.vstack([np.column_stack([some, np.roll(some, -1)]), np.column_stack([np.full(some.size, first), some])])
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
