"""The mechanism protocol: everything that the package asks of a mechanism, and nothing else.

A new mechanism is one class. `FiniteMechanism` needs the exact weights of a small table and derives the rest;
`ExtremalMechanism` needs the support set of an answer; `Mechanism` itself is for anything else.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_answers, check_private
from adobest_pp._text import brief
from adobest_pp.evidence import Evidence, pattern_rows, support_rows, unique_rows
from adobest_pp.mechanisms.exact import Columns, source_of
from adobest_pp.mechanisms.information import from_matrix

# Answers whose support sets are unpacked at a time.
_ANSWERS_AT_ONCE = 1 << 16


class AuditCase(NamedTuple):
    """Exact weights of one published mechanism, enough of them to find its worst probability ratio.

    ``weights[i, j]`` is proportional to P(Y = outputs[i] | X = inputs[j]), with one factor for all of them. With
    `totals`, ``weights[i, j] / totals[j]`` is. All are integers or fractions.
    """

    size: int
    outputs: list[Any]
    inputs: list[int]
    weights: NDArray[np.object_]
    totals: list[int] | None = None


class Published(NamedTuple):
    """What was published to the people: the row of `subsets` (V, K) for each of n; no rows where nothing was."""

    row: NDArray[np.int64]
    subsets: NDArray[np.bool_]


class Drawing(NamedTuple):
    """A compiled function that draws one answer, ``kernel(rng, theta, row, subsets, table)``, and its table."""

    kernel: Callable[..., Any]
    table: NDArray[np.float64]


class Counts(NamedTuple):
    """M counts of answers: what they are, what is expected (``constant + slope @ theta``), and their covariance."""

    observed: NDArray[np.float64]
    constant: NDArray[np.float64]
    slope: NDArray[np.float64]
    covariance: NDArray[np.float64]


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
        Whether an answer is itself a category, so that tables of answers may hold its label.
    """

    n_categories: int
    epsilon: float
    publishes_subset: ClassVar[bool] = False
    answers_are_categories: ClassVar[bool] = False

    # What the device does.

    @abstractmethod
    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> int | NDArray[np.int64]:
        """Randomize private categories.

        Parameters
        ----------
        x : int or array of int
            Private categories, 0 … K−1.
        subset : indices or boolean mask, optional
            The published subset. It must be given if the mechanism publishes one, and only then.
        rng : numpy.random.Generator, optional
            None is the production path: exact, from the operating system's entropy. A Generator is for simulation
            only: reproducible, but its probabilities are rounded and its state can be guessed.

        Returns
        -------
        int or array of int
            Answers: the shape of `x`, and behind it that of one answer.

        Notes
        -----
        ε covers the answer, not the time it takes. On the production path the randomness drawn and the operations on it
        are the same for every x; rare redraws depend on the entropy alone. ``python -m validation.side_channel``
        measures what is left.
        """

    @abstractmethod
    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the exact weights of the production path, one case for each mechanism that can be published."""

    # What an answer is.

    @property
    def answer_dims(self) -> dict[str, int]:
        """The names and lengths of the axes of one answer; none where an answer is one number."""
        return {}

    @property
    def n_outputs(self) -> int:
        """The number of possible answers; where an answer is one number, they are 0 … n_outputs−1."""
        return self.n_categories

    def outputs(self) -> NDArray[np.int64]:
        """Return every possible answer, in the order of the rows of the transition matrix."""
        return np.arange(self.n_outputs)

    @property
    def answer_type(self) -> np.dtype[Any]:
        """The integer type that answers are stored in."""
        return np.min_scalar_type(-self.n_outputs)

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """The columns that hold the numbers of an answer in a table of answers; one, where an answer is a set."""
        numbers = int(np.prod([*self.answer_dims.values()], dtype=int))
        return tuple(f"answer_{i}" for i in range(numbers)) if self.answer_dims else ("answer",)

    def support(self, answers: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return the support sets of checked answers as masks of shape (n, K); None if they have none."""
        return None

    def as_sets(self) -> "ExtremalMechanism | None":
        """Return the mechanism itself if answers are gathered as their support sets, in packed bits, else None."""
        return None

    def components(self) -> "tuple[Mechanism, ...]":
        """Return the mechanisms that it is composed of: those of `Mixed`, else itself."""
        return (self,)

    def check_answers(self, answers: ArrayLike) -> NDArray[np.int64]:
        """Return one answer or several as an array with one row an answer, or raise ValueError."""
        array = check_answers(answers, self.n_outputs)
        if array.ndim > 1:
            raise ValueError(f"answers must be one index or a row of them, got an array of shape {array.shape}")
        return np.atleast_1d(array)

    def budgets(self, answers: NDArray[Any]) -> NDArray[np.float64]:
        """Return the privacy budget behind each of n checked answers, of shape (n,)."""
        return np.full(len(answers), self.epsilon)

    # What an answer tells.

    @abstractmethod
    def evidence(self, answers: NDArray[Any], published: Published) -> tuple[Evidence, NDArray[np.int64]]:
        """Collapse checked answers into evidence, and tell the row of each answer."""

    def answer_counts(
        self, answers: NDArray[Any], published: Published, theta: NDArray[np.float64], listed: NDArray[np.int64]
    ) -> Counts | None:
        """Return counts of answers with their expectation and covariance, for checking whether answers fit.

        Parameters
        ----------
        answers, published
            Checked answers, at least one, and what was published.
        theta : array of shape (K,)
            Where the covariance is taken.
        listed : array of int
            The categories to count.

        Returns
        -------
        Counts or None
            None if a mechanism has nothing to count: then nothing is checked.
        """
        return None

    def naming(self) -> tuple[float, float] | None:
        """Return the probabilities that an answer names the truth, and that it names any other given category.

        An answer names the categories of its support set. None where the probabilities are not the same for all
        categories, or where nobody has worked them out: intervals of `intervals.summary` then rest on `information`.
        """
        return None

    def total_information(
        self, answers: NDArray[Any], published: Published, theta: NDArray[np.float64]
    ) -> NDArray[np.float64]:
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

        Without one, predictive sampling in PyMC runs `privatize` in Python, and PyTensor warns that it does.
        """
        raise NotImplementedError

    def information(self, theta: NDArray[np.float64], *, subset: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the Fisher information of θ in one answer, of shape (K, K), for vectors whose sum is zero.

        By default it comes from `transition_matrix`, where the mechanism has one.
        """
        matrix_of: Callable[..., NDArray[np.float64]] | None = getattr(self, "transition_matrix", None)
        if matrix_of is None:
            raise NotImplementedError(f"{type(self).__name__} does not tell its information")
        if not self.publishes_subset:
            refuse_subset(self, subset)
            return from_matrix(matrix_of(), theta)
        if subset is None:
            raise ValueError(f"subset must be given for {type(self).__name__}, which publishes one")
        return from_matrix(matrix_of(subset), theta)

    def published_with(self, answers: NDArray[Any], published: Published) -> Published:
        """Return what was published to each person, as `evidence` and `drawing` take it; `Mixed` adds the part."""
        return published

    def simulate(self, truth: NDArray[np.int64], published: Published, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw answers of people with these categories, under the published subsets. For simulation only."""
        if not self.publishes_subset:
            return np.asarray(self.privatize(truth, rng=rng))
        answers = np.empty((truth.size, *self.answer_dims.values()), dtype=np.int64)
        for row in np.unique(published.row):
            is_row = published.row == row
            answers[is_row] = self.privatize(truth[is_row], subset=published.subsets[row], rng=rng)
        return answers

    # How it is named and stored.

    def settings(self) -> dict[str, Any]:
        """Return plain values from which `mechanism_from_settings` builds an equal mechanism."""
        names = [part.name for part in fields(self) if part.init]  # type: ignore[arg-type]
        return {"mechanism": type(self).__name__, **{name: _plain(getattr(self, name)) for name in names}}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build a mechanism of this class from `settings`; more keys than needed do no harm."""
        return cls(**{part.name: settings[part.name] for part in fields(cls) if part.init})  # type: ignore[arg-type]


class FiniteMechanism(Mechanism):
    """A mechanism with few possible answers 0 … m−1, given by its integer weights alone.

    A subclass is a frozen dataclass with `n_categories`, `epsilon` and the method `exact_weights`; the rest follows.
    """

    @abstractmethod
    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x], of any size: P(Y=y | X=x) is W[y, x] over the sum of column x."""

    def transition_matrix(self) -> NDArray[np.float64]:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (m, K)."""
        # The quotient of two integers is rounded correctly, as that of a fraction is.
        rows = [[w / total for w, total in zip(row, self._column_sums, strict=True)] for row in self._weights]
        return np.array(rows, dtype=np.float64)

    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> int | NDArray[np.int64]:
        """Randomize private categories; see `Mechanism.privatize`."""
        refuse_subset(self, subset)
        truth = check_private(x, self.n_categories)
        answer = source_of(rng).choose(self._columns, truth.ravel())
        return int(answer[0]) if truth.ndim == 0 else answer.reshape(truth.shape)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the one case there is, without answers that nobody gives."""
        outputs = [y for y, row in enumerate(self._weights) if any(row)]
        weights = np.array([self._weights[y] for y in outputs], dtype=object)
        yield AuditCase(0, outputs, list(range(self.n_categories)), weights, self._column_sums)

    @property
    def n_outputs(self) -> int:
        """The number m of possible answers."""
        return len(self._weights)

    def evidence(self, answers: NDArray[Any], published: Published) -> tuple[Evidence, NDArray[np.int64]]:
        """Collapse to the rows of the transition matrix."""
        return pattern_rows(answers, self.transition_matrix())

    def answer_counts(
        self, answers: NDArray[Any], published: Published, theta: NDArray[np.float64], listed: NDArray[np.int64]
    ) -> Counts:
        """Count each answer; there are as many as the mechanism has outputs, whatever is listed."""
        n, matrix = len(answers), self.transition_matrix()
        observed = np.bincount(answers, minlength=len(matrix)).astype(np.float64)
        return Counts(observed, np.zeros(len(matrix)), n * matrix, multinomial(n, matrix @ theta))

    def drawing(self) -> Drawing:
        """Draw from the cumulative table of the answers."""
        from adobest_pp.mechanisms.drawing import draw_from_table

        return Drawing(draw_from_table, np.cumsum(self.transition_matrix(), axis=0))

    @cached_property
    def _columns(self) -> Columns:
        """The cumulative weights of each category."""
        return Columns([list(accumulate(column)) for column in zip(*self._weights, strict=True)])

    @cached_property
    def _weights(self) -> list[list[int]]:
        """The rows of `exact_weights`, or ValueError if they are no mechanism."""
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

    With A the categories for which an answer z is the likelier, P(z) = w·(1 + (e^ε − 1)·θ(A)).
    """

    @abstractmethod
    def support(self, answers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the support sets of checked answers as masks of shape (n, K)."""

    @abstractmethod
    def log_weight(self, answers: NDArray[Any]) -> NDArray[np.float64]:
        """Return ln w of checked answers, of shape (n,); answers with one support set must have one w."""

    def log_weight_of_size(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln w of support sets of these sizes, if it depends on their size alone.

        A mechanism that has this method, and whose answers are several numbers, is gathered `as_sets`.
        """
        raise NotImplementedError

    def as_sets(self) -> "ExtremalMechanism | None":
        """Return the mechanism itself if answers of several numbers have one weight for each size of set."""
        has_weights = type(self).log_weight_of_size is not ExtremalMechanism.log_weight_of_size
        return self if has_weights and self.answer_dims else None

    def evidence_of_sets(self, packed: NDArray[np.uint8], count: NDArray[np.int64]) -> Evidence:
        """Return the evidence of distinct support sets, as packed bits of shape (n, ⌈K/8⌉), with counts."""
        scale = self.log_weight_of_size(np.bitwise_count(packed).sum(axis=1, dtype=np.int64))
        rows, inside = np.arange(len(packed)), math.expm1(self.log_odds)
        return support_rows(packed, inside, scale, rows, self.n_categories)._replace(count=count)

    def support_counts(
        self, masks: NDArray[np.uint8], theta: NDArray[np.float64], listed: NDArray[np.int64]
    ) -> Counts | None:
        """Return `answer_counts` of answers of which only the support sets are known, as masks of shape (n, K)."""
        nothing = Published(np.zeros(0, dtype=np.int64), np.zeros((0, self.n_categories), dtype=bool))
        return self.answer_counts(self.answers_of_sets(masks), nothing, theta, listed)

    def answers_of_sets(self, masks: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the answers with these support sets; by default an answer is the mask."""
        return masks

    @property
    def log_odds(self) -> float:
        """The logarithm of the two probabilities' ratio: ε, where the production path uses all of it."""
        return self.epsilon

    def evidence(self, answers: NDArray[Any], published: Published) -> tuple[Evidence, NDArray[np.int64]]:
        """Collapse to the distinct support sets."""
        parts = [
            np.packbits(self.support(answers[start : start + _ANSWERS_AT_ONCE]), axis=1)
            for start in range(0, len(answers), _ANSWERS_AT_ONCE)
        ]
        packed = np.concatenate(parts) if parts else np.zeros((0, -(-self.n_categories // 8)), dtype=np.uint8)
        first, row_of = unique_rows(packed)
        scale = self.log_weight(answers[first])
        inside = math.expm1(self.log_odds)
        return support_rows(packed[first], inside, scale, row_of, self.n_categories), row_of


def _integers(row: list[Any], allowed: str) -> list[int]:
    """Return a row of weights as integers of Python, or raise ValueError with what is `allowed`."""
    if {*map(type, row)} != {int}:
        try:
            row = [operator.index(weight) for weight in row]
        except TypeError:
            wrong = next(weight for weight in row if not hasattr(weight, "__index__"))
            raise ValueError(f"{allowed}, got {brief(wrong)}") from None
    if min(row) < 0:
        raise ValueError(f"{allowed}, got {brief(min(row))}")
    return row


def multinomial(n: int, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the covariance of multinomial counts."""
    return np.asarray(n * (np.diag(probabilities) - np.outer(probabilities, probabilities)))


def rows_of(answers: ArrayLike, width: int, allowed: str) -> NDArray[np.int64]:
    """Return one answer of `width` integers, or several as rows, or raise ValueError with what is `allowed`."""
    try:
        array = as_numbers(answers, "biu")
    except TypeError:
        raise ValueError(f"answers must be {allowed}, got {brief(answers)}") from None
    rows = np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"answers must be {allowed}, got an array of shape {array.shape}")
    return rows


def refuse_subset(mechanism: Mechanism, subset: ArrayLike | None) -> None:
    """Raise ValueError if a subset is given to a mechanism that publishes none."""
    if subset is not None:
        raise ValueError(
            f"subset must be left out for {type(mechanism).__name__}, which publishes none, got {brief(subset)}"
        )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
