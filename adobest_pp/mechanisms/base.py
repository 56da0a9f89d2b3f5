"""The mechanism protocol: everything that the package asks of a mechanism.

A new mechanism is one class. `FiniteMechanism` needs the exact weights of a small table and derives the rest.
`ExtremalMechanism` needs the support sets of answers; `NumberedMechanism` is for those whose answers are numbers.
`Mechanism` itself is for anything else.
"""

import math
import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import (
    check_answers,
    check_numbers,
    check_private,
    check_probabilities,
    check_subset,
    check_theta,
)
from adobest_pp._text import brief
from adobest_pp._types import Answers, Bits, Floats, Integers, Masks
from adobest_pp.evidence import Evidence, pattern_rows, structured_rows, support_rows, unique_rows
from adobest_pp.mechanisms.exact import UNIT, Columns, Source, exp_weight, source_of
from adobest_pp.mechanisms.guessing import guess_bound, guess_from_matrix, guess_from_members
from adobest_pp.mechanisms.information import from_matrix, from_supports

# The most possible answers that `outputs` and `transition_matrix` list.
MAX_OUTPUTS = 20_000
# With at most this many possible answers, a check of fit counts every one of them.
MAX_COUNTED = 1024
# Entries of support sets that are in memory at a time.
_ENTRIES_AT_ONCE = 1 << 24
# If the table of all support sets has more entries than this, a mechanism's `structure` is used in its place.
FEW_ENTRIES = 1 << 16


class AuditCase(NamedTuple):
    """Exact weights of one published mechanism: enough of them to find its worst probability ratio.

    P(Y = outputs[i] | X = inputs[j]) is proportional to ``weights[i, j]``, with the same factor for all i and j, or to
    ``weights[i, j] / totals[j]`` if `totals` are given. All are integers or fractions.
    """

    size: int
    outputs: list[Any]
    inputs: list[int]
    weights: NDArray[np.object_]
    totals: list[int] | None = None


class Published(NamedTuple):
    """What was published to n people: each person's row of `subsets` (V, K). Both are empty if nothing was."""

    row: Integers
    subsets: Masks


class Drawing(NamedTuple):
    """A compiled function that draws one answer, ``kernel(rng, theta, row, subsets, table)``, and its table."""

    kernel: Callable[..., Any]
    table: Floats


class Counts(NamedTuple):
    """M observed counts of answers, with their expectation ``constant + slope @ theta`` and their covariance."""

    observed: Floats
    constant: Floats
    slope: Floats
    covariance: Floats


class Mechanism(ABC):
    """A randomized mechanism on K categories that runs on a person's device.

    Attributes
    ----------
    n_categories : int
        Number of categories K.
    epsilon : float
        Privacy budget of one answer.
    publishes_subset : bool
        Whether a subset of the categories is published before people answer.
    answers_are_categories : bool
        Whether an answer is itself a category, so that tables of answers may contain its label.
    """

    n_categories: int
    epsilon: float
    publishes_subset: ClassVar[bool] = False
    answers_are_categories: ClassVar[bool] = False

    # What the device does.

    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> int | Answers:
        """Randomize private categories.

        Parameters
        ----------
        x : int or array of int
            Private categories, 0 … K−1.
        subset : indices or boolean mask, optional
            The published subset. Required if the mechanism publishes one, refused otherwise.
        rng : numpy.random.Generator, optional
            None is the production path: exact, from the operating system's entropy. A Generator is for simulation
            only: reproducible, but its probabilities are rounded and its state can be guessed.

        Returns
        -------
        int or array of int
            Answers: the shape of `x`, followed by the shape of one answer.

        Notes
        -----
        ε covers the answer, not the time it takes. The production path draws the same randomness and does the same
        operations for every x; rare redraws depend on the entropy alone. ``python -m validation.side_channel`` measures
        the differences in time that remain.
        """
        mask = self._check_published(subset)
        truth = check_private(x, self.n_categories)
        flat, source, n = truth.ravel(), source_of(rng), self._people_at_once
        parts = [self.randomize(flat[i : i + n], source, mask) for i in range(0, max(flat.size, 1), n)]
        answers = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if truth.ndim == 0 and not self.answer_dims:
            return int(answers[0])
        return answers.reshape(*truth.shape, *self.answer_dims.values())

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Answers:
        """Draw the answers of n people, one row each, from a source of randomness: the core of `privatize`.

        Parameters
        ----------
        x : array of int, shape (n,)
            Checked private categories.
        source : Source
            If ``source.on_device``, the work must not depend on x.
        subset : boolean mask of shape (K,)
            The published subset; empty if the mechanism publishes none.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither randomize nor a privatize of its own")

    @property
    def _people_at_once(self) -> int:
        """How many people `randomize` gets at a time, to bound its memory. Draws for a seed depend on it."""
        return sys.maxsize

    @abstractmethod
    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the exact weights of the production path, one case for each mechanism that can be published."""

    @cached_property
    def _keep(self) -> int:
        """The integer that stands for e^ε, rounded down, as `UNIT` stands for 1."""
        return exp_weight(self.epsilon)

    def _weights_by_support(self, support: Masks) -> NDArray[np.object_]:
        """Return a table of integers: e^ε where a category is in the support set of an answer, 1 elsewhere."""
        return np.where(support, np.array(self._keep, dtype=object), np.array(UNIT, dtype=object))

    def published_odds(self, subset: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the integers that stand for e^ε in the exact weights of a question, in units of `exact.UNIT`.

        They are published with it, so that a device in another language audits and draws with the same integers.
        """
        return (self._keep,)

    # What an answer is.

    @property
    def answer_dims(self) -> dict[str, int]:
        """The names and lengths of the axes of one answer; empty if an answer is one number."""
        return {}

    @property
    def n_outputs(self) -> int:
        """The number of possible answers. If an answer is one number, they are 0 … n_outputs−1."""
        return self.n_categories

    def outputs(self) -> Integers:
        """Return every possible answer, in the order of the rows of the transition matrix."""
        return np.arange(self.n_outputs)

    def _check_few_outputs(self) -> None:
        """Raise ValueError if there are too many possible answers to list them."""
        if self.n_outputs > MAX_OUTPUTS:
            name = f"{type(self).__name__} with {self.n_categories} categories"
            raise ValueError(f"{name} has more than {MAX_OUTPUTS:,} possible answers: too many to list")

    @property
    def answer_type(self) -> np.dtype[Any]:
        """The integer type that answers are stored in."""
        return np.min_scalar_type(-self.n_outputs)

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """The columns of a table of answers: one for each number of an answer, or one only if an answer is a set."""
        numbers = math.prod(self.answer_dims.values())
        return tuple(f"answer_{i}" for i in range(numbers)) if self.answer_dims else ("answer",)

    def support(self, answers: Answers) -> Masks | None:
        """Return the support sets of checked answers as masks of shape (n, K); None if they have none."""
        return None

    def as_sets(self) -> "ExtremalMechanism | None":
        """Return the mechanism itself if answers are gathered as their support sets, in packed bits, else None."""
        return None

    def components(self) -> "tuple[Mechanism, ...]":
        """Return the mechanisms that this one is made of: the parts of `Mixed`, otherwise only itself."""
        return (self,)

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return one answer or several as an array with one row per answer, or raise ValueError."""
        array = check_answers(answers, self.n_outputs)
        if array.ndim > 1:
            raise ValueError(f"answers must be an index or a list of indices, got an array of shape {array.shape}")
        return np.atleast_1d(array)

    def budgets(self, answers: Answers) -> Floats:
        """Return the privacy budget of each of n checked answers, of shape (n,)."""
        return np.full(len(answers), self.epsilon)

    # What an answer says about θ.

    @abstractmethod
    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return the evidence of checked answers, and the row of each answer in it."""

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts | None:
        """Return counts of answers with their expectation and covariance, to check whether the answers fit.

        Parameters
        ----------
        answers, published
            Checked answers, at least one, and what was published.
        theta : array of shape (K,)
            The θ at which the covariance is computed.
        listed : array of int
            The categories to count.

        Returns
        -------
        Counts or None
            None if the mechanism has nothing to count; then the fit is not checked.
        """
        return None

    def _named_counts(self, n: int, observed: Floats, theta: Floats, listed: Integers) -> Counts:
        """Return how many of n answers name each listed category, as `answer_counts` does.

        An answer that is a category names no other one. An answer of another mechanism names any two categories
        independently of each other, given the truth.
        """
        naming = self.naming()
        assert naming is not None
        other, gain = naming[1], naming[0] - naming[1]
        single = other + gain * theta[listed]
        joint = np.zeros((listed.size, listed.size))
        if not self.answers_are_categories:
            joint += other**2 + other * gain * (theta[listed][:, None] + theta[listed])
        np.fill_diagonal(joint, single)
        slope = np.zeros((listed.size, self.n_categories))
        slope[np.arange(listed.size), listed] = n * gain
        return Counts(observed, np.full(listed.size, n * other), slope, n * (joint - np.outer(single, single)))

    def naming(self) -> tuple[float, float] | None:
        """Return the probabilities that an answer names the truth, and that it names any other given category.

        An answer names the categories of its support set. None if these probabilities differ between categories or are
        not known: the intervals of `intervals.summary` then use `information`.
        """
        return None

    def naming_over_hashes(self) -> tuple[float, float, float] | None:
        """Return what `naming` is on average over public hash functions, and a factor; None without such functions.

        The factor is by how much the variance of the shares is above that of infinitely many functions. None also if
        the functions cannot tell all categories apart.
        """
        return None

    def total_information(self, answers: Answers, published: Published, theta: Floats) -> Floats:
        """Return the Fisher information of θ in all of these answers, given what was published; see `information`."""
        if not self.publishes_subset:
            return len(answers) * self.information(theta)
        people = np.bincount(published.row, minlength=len(published.subsets))
        total = np.zeros((self.n_categories, self.n_categories))
        for count, subset in zip(people.tolist(), published.subsets, strict=True):
            total += count * self.information(theta, subset=subset) if count else 0.0
        return total

    def drawing(self) -> Drawing:
        """Return the compiled function that draws an answer of a person with frequencies θ, for simulation only.

        Without one, predictive sampling in PyMC runs `privatize` in Python, and PyTensor warns about it.
        """
        raise NotImplementedError

    def _drawing(self, kernel: str, table: ArrayLike) -> Drawing:
        """Return a function of `adobest_pp.mechanisms.drawing`, which loads Numba, with its table."""
        from adobest_pp.mechanisms import drawing

        return Drawing(getattr(drawing, kernel), np.asarray(table, dtype=np.float64))

    def information(self, theta: ArrayLike, *, subset: ArrayLike | None = None) -> Floats:
        """Return the Fisher information of θ in one answer, of shape (K, K), for vectors whose sum is zero."""
        return self._information(check_theta(theta, self.n_categories), self._check_published(subset))

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        """Return `information` for a checked subset; by default from `transition_matrix`."""
        return from_matrix(self._matrix(subset), theta)

    def _matrix(self, subset: Masks) -> Floats:
        matrix_of: Callable[..., Floats] | None = getattr(self, "transition_matrix", None)
        if matrix_of is None:
            raise NotImplementedError(f"{type(self).__name__} has neither information nor transition_matrix")
        return matrix_of(subset) if self.publishes_subset else matrix_of()

    def best_guess(self, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
        """Return the probability of a right guess of a person's category, from one answer and θ.

        Parameters
        ----------
        theta : array of shape (K,)
            The shares of the categories.
        subset : indices or boolean mask, optional
            The published subset. Required if the mechanism publishes one, refused otherwise.

        Returns
        -------
        float
            Σ_z max_x θ_x·P(z|x), the probability that the best guess is right. Without an answer it would be the
            largest share; `guess_bound` is the most that ε allows. It is exact for every mechanism of this package (for
            local hashing, on average over random hashes), except if the waves of a `Memoized` have too many answers to
            list: then it is that of the permanent answer, which is larger. For a mechanism of your own with too many
            answers, it is `guess_bound`.

        Examples
        --------
        >>> from adobest_pp import SRR, SubsetSelection
        >>> even = [0.05] * 20
        >>> round(SRR(20, epsilon=2.0).best_guess(even), 3), round(SubsetSelection(20, epsilon=2.0).best_guess(even), 3)
        (0.28, 0.225)
        """
        mask = self._check_published(subset)
        shares = check_probabilities(theta, self.n_categories)
        return min(1.0, self._best_guess(shares / shares.sum(), mask))

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        """Return `best_guess` for checked arguments: from `transition_matrix`, unless it has too many rows."""
        if not hasattr(self, "transition_matrix") or self.n_outputs > MAX_OUTPUTS:
            return guess_bound(self.epsilon, theta)
        return guess_from_matrix(self._matrix(subset), theta)

    def published_with(self, answers: Answers, published: Published) -> Published:
        """Return what was published to each person, as `evidence` and `drawing` take it; `Mixed` adds the part."""
        return published

    def simulate(self, truth: Integers, published: Published, rng: np.random.Generator) -> Integers:
        """Draw answers of people with these categories, under the published subsets. For simulation only."""
        if not self.publishes_subset:
            return np.asarray(self.privatize(truth, rng=rng))
        answers = np.empty((truth.size, *self.answer_dims.values()), dtype=np.int64)
        for row in np.unique(published.row):
            is_row = published.row == row
            answers[is_row] = self.privatize(truth[is_row], subset=published.subsets[row], rng=rng)
        return answers

    def _check_published(self, subset: ArrayLike | None) -> Masks:
        """Return the published subset as a mask, empty for a mechanism that publishes none, or raise ValueError."""
        if self.publishes_subset:
            return check_subset(subset, self.n_categories)
        if subset is not None:
            raise ValueError(f"subset must be left out for {type(self).__name__}, got {brief(subset)}")
        return np.zeros(0, dtype=bool)

    # How it is named and stored.

    def settings(self) -> dict[str, Any]:
        """Return plain values from which `mechanism_from_settings` builds an equal mechanism: K, ε and its own."""
        own = {part.name: getattr(self, part.name) for part in fields(self) if part.init}  # type: ignore[arg-type]
        values = {"n_categories": self.n_categories, "epsilon": self.epsilon} | own
        return {"mechanism": type(self).__name__} | {name: _plain(value) for name, value in values.items()}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build a mechanism of this class from `settings`; other keys are ignored."""
        return cls(**{part.name: settings[part.name] for part in fields(cls) if part.init})  # type: ignore[arg-type]

    def _set(self, **values: Any) -> None:
        """Set attributes of a frozen dataclass while it is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


class FiniteMechanism(Mechanism):
    """A mechanism with few possible answers 0 … m−1, given by its integer weights alone.

    A subclass is a frozen dataclass with `n_categories`, `epsilon` and the method `exact_weights`; the rest follows.
    """

    @abstractmethod
    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x], of any size: P(Y=y | X=x) is W[y, x] over the sum of column x."""

    def transition_matrix(self) -> Floats:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (m, K)."""
        return quotients(self._weights)

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Answers:
        """Draw answers from the columns of the weights."""
        return source.choose(self._columns, x)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case, without the answers that never occur."""
        outputs = [y for y, row in enumerate(self._weights) if any(row)]
        weights = np.array([self._weights[y] for y in outputs], dtype=object)
        yield AuditCase(0, outputs, list(range(self.n_categories)), weights, self._column_sums)

    @property
    def n_outputs(self) -> int:
        """The number m of possible answers."""
        return len(self._weights)

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return the rows of the transition matrix that occur."""
        return pattern_rows(answers, self.transition_matrix())

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts | None:
        """Count every answer, whatever categories are listed."""
        return output_counts(answers, self.transition_matrix(), theta)

    def drawing(self) -> Drawing:
        """Draw from the cumulative table of the answers."""
        return self._drawing("draw_from_table", np.cumsum(self.transition_matrix(), axis=0))

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        """Return `best_guess` from the matrix, however many rows it has."""
        return guess_from_matrix(self.transition_matrix(), theta)

    @cached_property
    def _columns(self) -> Columns:
        """The cumulative weights of each category."""
        return Columns([list(accumulate(column)) for column in zip(*self._weights, strict=True)])

    @cached_property
    def _weights(self) -> list[list[int]]:
        """The rows of `exact_weights`, or ValueError if they do not define a mechanism."""
        table = np.asarray(self.exact_weights(), dtype=object)
        name, k = f"exact_weights of {type(self).__name__}", self.n_categories
        if table.ndim != 2 or table.shape[1] != k or k < 2:
            raise ValueError(
                f"{name} must be a table W[y, x] with one column for each of the n_categories = {brief(k)} (at least "
                f"2), got an array of shape {table.shape}"
            )
        rows = [_integers(row, f"{name} must be integers of at least 0") for row in table.tolist()]
        if not all(map(any, zip(*rows, strict=True))) or not rows:
            raise ValueError(f"{name} must have a positive weight in every column, got a column of zeros")
        return rows

    @cached_property
    def _column_sums(self) -> list[int]:
        return [sum(column) for column in zip(*self._weights, strict=True)]


class ExtremalMechanism(Mechanism):
    """A mechanism whose answers have one of two probabilities, w or e^ε·w: an answer is its support set.

    If A is the set of categories for which an answer z is the likelier, P(z) = w·(1 + (e^ε − 1)·θ(A)).
    """

    @abstractmethod
    def support(self, answers: Answers) -> Masks:
        """Return the support sets of checked answers as masks of shape (n, K)."""

    @abstractmethod
    def log_weight(self, answers: Answers) -> Floats:
        """Return ln w of checked answers, of shape (n,). Answers with the same support set must have the same w."""

    def log_weight_of_size(self, sizes: Integers) -> Floats:
        """Return ln w of support sets of these sizes, if it depends on their size alone.

        A mechanism that has this method, and whose answers are several numbers, is gathered `as_sets`.
        """
        raise NotImplementedError

    def as_sets(self) -> "ExtremalMechanism | None":
        """Return the mechanism itself if an answer is several numbers and the size of its set determines its weight."""
        has_weights = type(self).log_weight_of_size is not ExtremalMechanism.log_weight_of_size
        return self if has_weights and self.answer_dims else None

    def structure(self) -> Integers:
        """Return how to multiply by all support sets without listing their members; empty if there is no such way.

        It is one block of integers for `adobest_pp.transforms`: the kind, the length of the block, the number of
        answers m, and what the kind needs. Answers must be the numbers 0 … m−1.
        """
        return np.zeros(0, dtype=np.int64)

    def matvec(self, theta: Floats) -> Floats:
        """Return the masses θ(A) of the support sets of all possible answers, of shape (m,).

        Examples
        --------
        >>> import adobest_pp as ad
        >>> ad.HadamardResponse(3, epsilon=1.0).matvec(np.array([0.5, 0.3, 0.2])).tolist()
        [1.0, 0.3, 0.5, 0.2]
        """
        vector, block = _vector(theta, self.n_categories, "theta"), self.structure()
        if not block.size:
            return np.asarray(self.support(self.outputs()) @ vector)
        from adobest_pp.transforms import structured_masses

        masses = np.zeros(int(block[2]))
        structured_masses(vector, block, masses)
        return masses

    def rmatvec(self, weights: Floats) -> Floats:
        """Return Σ weights[z]·1[x ∈ A_z] over all possible answers z, of shape (K,): the transpose of `matvec`."""
        vector, block = _vector(weights, self.n_outputs, "weights"), self.structure()
        if not block.size:
            return np.asarray(vector @ self.support(self.outputs()))
        from adobest_pp.transforms import add_structured

        sums = np.zeros(self.n_categories)
        add_structured(vector, block, sums)
        return sums

    def transition_matrix(self) -> Floats:
        """Return ``G[y, x] = P(Y = outputs()[y] | X=x)``, of shape (n_outputs, K), or raise ValueError if too large."""
        answers = self.outputs()
        return np.asarray(
            np.exp(np.where(self.support(answers), self.log_odds, 0.0) + self.log_weight(answers)[:, None])
        )

    def evidence_of_sets(self, packed: Bits, count: Integers) -> Evidence:
        """Return the evidence of distinct support sets, as packed bits of shape (n, ⌈K/8⌉), with counts."""
        scale = self.log_weight_of_size(np.bitwise_count(packed).sum(axis=1, dtype=np.int64))
        rows, inside = np.arange(len(packed)), math.expm1(self.log_odds)
        return support_rows(packed, inside, scale, rows, self.n_categories)._replace(count=count)

    def support_counts(self, masks: Bits, theta: Floats, listed: Integers) -> Counts | None:
        """Return `answer_counts` of answers of which only the support sets are known, as masks of shape (n, K)."""
        return self.answer_counts(self.answers_of_sets(masks), nothing_published(self.n_categories), theta, listed)

    def answers_of_sets(self, masks: Bits) -> Answers:
        """Return the answers with these support sets; by default an answer is the mask."""
        return masks

    @property
    def log_odds(self) -> float:
        """The logarithm of the ratio of the two probabilities: ε, if the production path uses all of it."""
        return self.epsilon

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return one row for each distinct support set."""
        block, inside = self.structure(), math.expm1(self.log_odds)
        if block.size and self.n_outputs * self.n_categories > FEW_ENTRIES:
            scales = self.log_weight(np.arange(self.n_outputs))
            return structured_rows(answers.astype(np.int64), inside, scales, block, self.n_categories)
        n = max(1, _ENTRIES_AT_ONCE // self.n_categories)
        parts = [np.packbits(self.support(answers[i : i + n]), axis=1) for i in range(0, len(answers), n)]
        packed = np.concatenate(parts) if parts else np.zeros((0, -(-self.n_categories // 8)), dtype=np.uint8)
        first, row_of = unique_rows(packed)
        scale = self.log_weight(answers[first])
        return support_rows(packed[first], inside, scale, row_of, self.n_categories), row_of


class NumberedMechanism(ExtremalMechanism):
    """An extremal mechanism whose answers are the numbers 0 … m−1, all with the same w.

    A subclass defines `n_outputs`, `support`, `_is_member` and `_weight`.
    """

    @property
    @abstractmethod
    def _weight(self) -> float:
        """The probability w of an answer whose support set does not contain the truth."""

    @abstractmethod
    def _is_member(self, x: int, answers: Integers) -> Masks:
        """Return for each of these answers whether category x is in its support set."""

    def outputs(self) -> Integers:
        """Return every possible answer, 0 … m−1, or raise ValueError if there are too many to list."""
        self._check_few_outputs()
        return np.arange(self.n_outputs)

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x] that the production path draws from; columns have equal sums."""
        return self._weights_by_support(self.support(self.outputs()))

    @property
    def _log_weight(self) -> float:
        return math.log(self._weight)

    def log_weight(self, answers: Answers) -> Floats:
        """Return ln w, the same for all answers."""
        return np.full(len(answers), self._log_weight)

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        return from_supports(self.support, np.arange(self.n_outputs), theta, math.expm1(self.epsilon), self._weight)

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        m = self.n_outputs
        return guess_from_members(theta, math.exp(self.epsilon), m * self._weight, m, self._is_member)

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts | None:
        """Count each answer, if there are not too many."""
        return None if self.n_outputs > MAX_COUNTED else output_counts(answers, self.transition_matrix(), theta)


def _plain(value: Any) -> Any:
    """Return a setting as a value of JSON: a fraction as text such as ``1/6``, a mechanism as its settings."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mechanism):
        return value.settings()
    return value.tolist() if hasattr(value, "tolist") else str(value) if isinstance(value, Fraction) else value


def _vector(values: ArrayLike, size: int, name: str) -> Floats:
    """Return `size` numbers as an array, or raise ValueError: compiled functions do not check the length."""
    array = check_numbers(values, "fiu", name, f"{size:,} numbers")
    if array.shape != (size,):
        raise ValueError(f"{name} must be {size:,} numbers, got an array of shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _integers(row: list[Any], allowed: str) -> list[int]:
    """Return a row of weights as Python integers, or raise ValueError with what is `allowed`."""
    if {*map(type, row)} != {int}:
        try:
            row = [operator.index(weight) for weight in row]
        except TypeError:
            wrong = next(weight for weight in row if not hasattr(weight, "__index__"))
            raise ValueError(f"{allowed}, got {brief(wrong)}") from None
    if min(row) < 0:
        raise ValueError(f"{allowed}, got {brief(min(row))}")
    return row


# What several mechanisms share.


def rows_of(answers: ArrayLike, width: int, allowed: str) -> Integers:
    """Return one answer of `width` integers, or several as rows, or raise ValueError with what is `allowed`."""
    array = check_numbers(answers, "biu", "answers", allowed)
    rows = np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"answers must be {allowed}, got an array of shape {array.shape}")
    return rows


def nothing_published(n_categories: int) -> Published:
    """Return what a mechanism that publishes no subset has published."""
    return Published(np.zeros(0, dtype=np.int64), np.zeros((0, n_categories), dtype=bool))


def quotients(weights: list[list[int]]) -> Floats:
    """Return integer weights over the sums of their columns, correctly rounded."""
    sums = [sum(column) for column in zip(*weights, strict=True)]
    rows = [[weight / total for weight, total in zip(row, sums, strict=True)] for row in weights]
    return np.array(rows, dtype=np.float64)


def output_counts(answers: Answers, matrix: Floats, theta: Floats, counted: Integers | None = None) -> Counts:
    """Return how often each answer 0 … m−1 occurs, as `Mechanism.answer_counts` does; counts are multinomial.

    If only some answers are `counted`, `matrix` has a row for each of them.
    """
    n, chance = len(answers), matrix @ theta
    listed = np.arange(len(matrix)) if counted is None else counted
    observed = np.bincount(answers, minlength=int(listed.max()) + 1)[listed].astype(np.float64)
    return Counts(observed, np.zeros(len(matrix)), n * matrix, n * (np.diag(chance) - np.outer(chance, chance)))
