"""Answers to one question that come from several mechanisms, or from one with several budgets."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._text import brief
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import Evidence, merged
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, Mechanism, Published, nothing_published, rows_of
from adobest_pp.mechanisms.registry import mechanism_from_settings

# Fills up answers that are shorter than the longest.
PADDING = 0


@dataclass(frozen=True, init=False)
class Mixed(Mechanism):
    """The mechanisms of people who did not all run the same one: `concat` returns it.

    An answer is the number of its part, then the numbers of the part's own answer, then zeros up to the length of the
    longest answer. Which part a person ran is public.

    Parameters
    ----------
    parts : sequence of Mechanism
        Two or more, all with the same number of categories.

    Attributes
    ----------
    epsilon : float
        The largest of the budgets, which holds for everybody.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.mechanisms.Mixed([ad.SRR(3, epsilon=1.0), ad.SRR(3, epsilon=2.0)]).epsilon
    2.0
    """

    parts: tuple[Mechanism, ...]
    n_categories: int = field(init=False, repr=False)
    epsilon: float = field(init=False, repr=False)

    def __init__(self, parts: Any) -> None:
        given = tuple(parts) if isinstance(parts, list | tuple) else ()
        if len(given) < 2 or not all(isinstance(part, Mechanism) and not isinstance(part, Mixed) for part in given):
            raise ValueError(f"parts must be two or more mechanisms, none of them mixed, got {brief(parts)}")
        sizes = sorted({part.n_categories for part in given})
        if len(sizes) > 1:
            raise ValueError(f"parts must have equal numbers of categories, got {sizes[0]} and {sizes[-1]}")
        self._set(parts=given, n_categories=sizes[0], epsilon=max(part.epsilon for part in given))

    def components(self) -> tuple[Mechanism, ...]:
        """Return the parts."""
        return self.parts

    @property
    def publishes_subset(self) -> bool:  # type: ignore[override]
        """Whether any part publishes a subset. People of the other parts then have the empty subset."""
        return any(part.publishes_subset for part in self.parts)

    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> int | Answers:
        """Raise ValueError: a device runs one part."""
        raise ValueError("privatize must be called on one of the parts: a device runs one mechanism")

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the cases of every part. `audit` holds each part to its own budget."""
        for part in self.parts:
            yield from part.audit_cases()

    @property
    def answer_dims(self) -> dict[str, int]:
        """The number of the part, and the numbers of its answer."""
        return {"number": 1 + max(self._widths)}

    @property
    def answer_type(self) -> np.dtype[Any]:
        """An unsigned integer type that holds the answers of every part."""
        return np.result_type(np.uint16, *(np.dtype(f"u{part.answer_type.itemsize}") for part in self.parts))

    @property
    def n_outputs(self) -> int:
        """The number of possible answers."""
        return sum(part.n_outputs for part in self.parts)

    def outputs(self) -> Integers:
        """Return every possible answer, part by part."""
        return np.concatenate([self.answers_of(i, part.outputs()) for i, part in enumerate(self.parts)])

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return one answer or several as rows, or raise ValueError."""
        allowed = f"rows of {1 + max(self._widths)} integers: the part, 0 to {len(self.parts) - 1}, and its answer"
        rows = rows_of(answers, 1 + max(self._widths), allowed).astype(np.int64)
        wrong = (rows[:, 0] < 0) | (rows[:, 0] >= len(self.parts))
        if wrong.any():
            raise ValueError(f"answers must be {allowed}, got the part {rows[wrong][0, 0]}")
        for i, width in enumerate(self._widths):
            mine = rows[rows[:, 0] == i]
            self.parts[i].check_answers(self._own(i, mine))
            if (mine[:, 1 + width :] != PADDING).any():
                raise ValueError(f"answers must be {allowed}, got extra numbers after an answer of part {i}")
        return rows

    def answers_of(self, part: int, answers: Answers) -> Integers:
        """Return answers of one part as answers of this mechanism."""
        rows = np.full((len(answers), 1 + max(self._widths)), PADDING, dtype=np.int64)
        rows[:, 0] = part
        rows[:, 1 : 1 + self._widths[part]] = np.reshape(answers, (len(answers), self._widths[part]))
        return rows

    def budgets(self, answers: Answers) -> Floats:
        """Return the budget of each answer's part."""
        return np.asarray(np.array([part.epsilon for part in self.parts])[answers[:, 0]])

    def published_with(self, answers: Answers, published: Published) -> Published:
        """Return each person's part and row of the subset as one number, part + len(parts)·row."""
        row = published.row if self.publishes_subset else np.zeros(len(answers), dtype=np.int64)
        subsets = published.subsets if self.publishes_subset else np.zeros((1, self.n_categories), dtype=bool)
        return Published(answers[:, 0] + len(self.parts) * row, subsets)

    def simulate(self, truth: Integers, published: Published, rng: np.random.Generator) -> Integers:
        """Draw the answers of all people. For simulation only."""
        answers = np.empty((truth.size, 1 + max(self._widths)), dtype=np.int64)
        for i, part in enumerate(self.parts):
            mine, own = self._published_to(i, published)
            answers[mine] = self.answers_of(i, part.simulate(truth[mine], own, rng))
        return answers

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Merge the evidence of the parts."""
        found, people = [], []
        for i, part in enumerate(self.parts):
            mine, own = self._published_to(i, published)
            evidence, rows = part.evidence(self._own(i, answers[mine]), own)
            found.append(evidence)
            people.append((mine, rows))
        evidence, places = merged(found)
        row_of = np.empty(len(answers), dtype=np.int64)
        for (mine, rows), place in zip(people, places, strict=True):
            row_of[mine] = place[rows]
        return evidence, row_of

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts | None:
        """Count the answers of every part that has counts; parts are independent."""
        found = []
        for i, part in enumerate(self.parts):
            mine, own = self._published_to(i, published)
            counts = part.answer_counts(self._own(i, answers[mine]), own, theta, listed) if mine.any() else None
            found += [] if counts is None else [counts]
        if not found:
            return None
        sizes = np.cumsum([0, *(counts.observed.size for counts in found)])
        covariance = np.zeros((sizes[-1], sizes[-1]))
        for start, end, counts in zip(sizes[:-1], sizes[1:], found, strict=True):
            covariance[start:end, start:end] = counts.covariance
        observed, constant, slope = (np.concatenate([counts[j] for counts in found]) for j in range(3))
        return Counts(observed, constant, slope, covariance)

    def total_information(self, answers: Answers, published: Published, theta: Floats) -> Floats:
        """Add up the information of the parts; see `Mechanism.total_information`."""
        total = np.zeros((self.n_categories, self.n_categories))
        for i, part in enumerate(self.parts):
            mine, own = self._published_to(i, published)
            if mine.any():
                total += part.total_information(self._own(i, answers[mine]), own, theta)
        return total

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        # The part whose answers are easiest to guess.
        published = [subset if part.publishes_subset else np.zeros(0, dtype=bool) for part in self.parts]
        return max(part._best_guess(theta, mask) for part, mask in zip(self.parts, published, strict=True))

    def drawing(self) -> Drawing:
        """Draw with the function of the person's part."""
        tables = [part.drawing().table for part in self.parts]
        rows = np.cumsum([0, *(len(table) for table in tables)])
        table = np.zeros((rows[-1], max(each.shape[1] for each in tables)))
        kernel: Any = None
        for i, (part, each) in enumerate(zip(self.parts, tables, strict=True)):
            table[rows[i] : rows[i + 1], : each.shape[1]] = each
            kernel = _drawing_part(i, part.drawing().kernel, self._widths[i], (*rows[i : i + 2], each.shape[1]), kernel)
        return Drawing(_drawing_any(kernel, len(self.parts), 1 + max(self._widths)), table)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build the mechanism of these settings."""
        parts = settings["parts"]
        if not isinstance(parts, list):
            raise ValueError(f"parts must be a list of settings of mechanisms, got {brief(parts)}")
        return cls([mechanism_from_settings(part) for part in parts])

    @cached_property
    def _widths(self) -> list[int]:
        """The length of an answer of each part."""
        return [math.prod(part.answer_dims.values()) for part in self.parts]

    def _own(self, part: int, answers: Answers) -> Answers:
        """Return answers of this mechanism, all of one part, as answers of that part."""
        own = answers[:, 1 : 1 + self._widths[part]]
        return own if self.parts[part].answer_dims else own[:, 0]

    def _published_to(self, part: int, published: Published) -> tuple[Masks, Published]:
        """Return the people of one part as a mask, and what was published to them, as that part takes it."""
        mine = published.row % len(self.parts) == part
        if not self.parts[part].publishes_subset:
            return mine, nothing_published(self.n_categories)
        return mine, Published(published.row[mine] // len(self.parts), published.subsets)


def _drawing_part(
    part: int, kernel: Callable[..., Any], width: int, place: tuple[int, int, int], others: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return the compiled function that writes an answer of this part into `answer`, or calls `others`."""
    from numba import njit

    start, end, columns = map(int, place)

    @njit
    def draw(rng, theta, wanted, row, subsets, table, answer):  # type: ignore[no-untyped-def]
        if others is None or wanted == part:
            answer[1 : 1 + width] = kernel(rng, theta, row, subsets, table[start:end, :columns])
        else:
            others(rng, theta, wanted, row, subsets, table, answer)

    return draw  # type: ignore[no-any-return]


def _drawing_any(draw_part: Callable[..., Any], n_parts: int, length: int) -> Callable[..., Any]:
    from numba import njit

    @njit
    def draw(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
        answer = np.zeros(length, dtype=np.int64)
        answer[0] = row % n_parts
        draw_part(rng, theta, answer[0], row // n_parts, subsets, table, answer)
        return answer

    return draw  # type: ignore[no-any-return]
