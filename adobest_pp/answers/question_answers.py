"""What a collection holds in memory: published questions, and the answers to them in the order they came."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer, check_subset
from adobest_pp._labels import check_labels
from adobest_pp.answers.responses import Column, Responses, checked_answers
from adobest_pp.answers.store import Content, read_content
from adobest_pp.mechanisms import Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.mixed import Mixed
from adobest_pp.mechanisms.published_question import PublishedQuestion


class QuestionAnswers:
    """Published questions, each once, and the answers to them. It only grows.

    Either all questions are of one mechanism that publishes subsets, or none of their mechanisms publishes any.

    Parameters
    ----------
    categories : sequence of str
        The labels.
    """

    def __init__(self, categories: Sequence[str]) -> None:
        self.categories = tuple(categories)
        self.questions: list[PublishedQuestion] = []
        # Each row is the number of the question and the answer, padded with zeros to the longest.
        self._width = 1
        self._rows = Column((1 + self._width,), np.dtype(np.int64))
        # How many answers count. It is set last: an interrupted call leaves it as it was.
        self._n = 0
        # The numbers of the first `_indexed` questions, by their subset.
        self._places: dict[tuple[int, ...] | None, list[int]] = {}
        self._indexed = 0
        self._joined: tuple[tuple[int, int], Responses] | None = None

    def __len__(self) -> int:
        return self._n

    def find(self, mechanism: Mechanism, subset: tuple[int, ...] | None) -> int:
        """Return the number of a question, or −1 if it was not published."""
        while self._indexed < len(self.questions):
            self._places.setdefault(self.questions[self._indexed].subset, []).append(self._indexed)
            self._indexed += 1
        places = self._places.get(subset, ())
        return next((i for i in places if self.questions[i].mechanism == mechanism), -1)

    def publish(self, mechanism: Mechanism, subset: tuple[int, ...] | None) -> None:
        """Add a question that is new."""
        if _width(mechanism) > self._width:
            wider = Column((1 + _width(mechanism),), np.dtype(np.int64))
            rows = np.zeros((self._n, 1 + _width(mechanism)), dtype=np.int64)
            rows[:, : 1 + self._width] = self._rows.first(self._n)
            wider.write(0, rows)
            self._rows, self._width = wider, _width(mechanism)
        self.questions.append(PublishedQuestion(len(self.questions), mechanism, self.categories, subset))

    def append(self, answers: NDArray[np.int64], number: int) -> None:
        """Add checked answers to the question of this number."""
        rows = np.zeros((len(answers), 1 + self._width), dtype=np.int64)
        rows[:, 0] = number
        width = _width(self.questions[number].mechanism)
        rows[:, 1 : 1 + width] = answers.reshape(len(answers), width)
        self._rows.write(self._n, rows)
        self._n += len(answers)

    def check_answers(self, answers: Any, number: int) -> NDArray[Any]:
        """Return answers to a question as its mechanism stores them, or raise ValueError."""
        return checked_answers(self.questions[number].mechanism, self.categories, answers)

    def runs(self, first: int) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the answers from number `first` on, as runs of answers to one question, each with its number."""
        rows = self._rows.first(self._n)[first:]
        starts = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        return [(int(part[0, 0]), part[:, 1:]) for part in np.split(rows, starts[1:]) if len(part)]

    @property
    def responses(self) -> Responses:
        """All answers: of the one mechanism, under the published subsets if there are any, or of a `Mixed`."""
        joined, size = self._joined, (len(self.questions), self._n)
        # Make them again if the caller has appended to them.
        if joined is None or joined[0] != size or len(joined[1]) != self._n:
            joined = self._joined = (size, self._join())
        return joined[1]

    def _join(self) -> Responses:
        rows, first = self._rows.first(self._n), self.questions[0].mechanism
        mechanisms = list(dict.fromkeys(each.mechanism for each in self.questions))
        if len(mechanisms) > 1:
            width = 1 + max(map(_width, mechanisms))
            return Responses.from_arrays(Mixed(mechanisms), rows[:, :width], categories=self.categories)
        width = _width(first)
        answers = rows[:, 1 : 1 + width] if first.answer_dims else rows[:, 1]
        if not first.publishes_subset:
            return Responses.from_arrays(first, answers, categories=self.categories)
        masks = np.zeros((len(self.questions), first.n_categories), dtype=bool)
        for mask, question in zip(masks, self.questions, strict=True):
            mask[list(question.subset or ())] = True
        return Responses.from_arrays(first, answers, masks, rows[:, 0], self.categories)

    @classmethod
    def stored(cls, content: Content) -> "QuestionAnswers":
        """Return what the file of a collection holds, or raise ValueError if its events are inconsistent."""
        header = content.header
        mechanism = mechanism_from_settings(header.get("mechanism", {}))
        labels = header.get("categories")
        held = cls(check_labels(labels if isinstance(labels, list) else [], mechanism.n_categories))
        waiting: list[Any] = []
        number = 0
        for event in content.events:
            if "answers" in event:
                to = check_integer(event.get("question"), "question", 0, len(held.questions) - 1)
                if to != number:
                    held._append_all(waiting, number)
                    waiting, number = [], to
                if not isinstance(event["answers"], list):
                    raise ValueError("answers must be a list")
                waiting += event["answers"]
            else:
                held._append_all(waiting, number)
                waiting = []
                held.publish(*question_of(event, mechanism))
        held._append_all(waiting, number)
        if not held.questions:
            raise ValueError("it has not published a question")
        return held

    def _append_all(self, answers: list[Any], number: int) -> None:
        if answers:
            self.append(self.check_answers(answers, number), number)


def read_collection(path: str | os.PathLike[str]) -> Responses:
    """Read all answers in the file of a collection, or raise ValueError if it is damaged."""
    content = read_content(path)
    try:
        return QuestionAnswers.stored(content).responses
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as reason:
        raise ValueError(f"path must name an undamaged collection, got {os.fspath(path)!r}: {reason}") from None


def event_of(asked: Mechanism, subset: tuple[int, ...] | None, mechanism: Mechanism) -> dict[str, Any]:
    """Return the event that publishes a question in a collection of this mechanism."""
    event: dict[str, Any] = {} if asked == mechanism else {"mechanism": asked.settings()}
    return event | ({} if subset is None else {"subset": list(subset)})


def question_of(event: dict[str, Any], mechanism: Mechanism) -> tuple[Mechanism, tuple[int, ...] | None]:
    """Return the question that an event publishes: another mechanism, or that of the collection, and the subset."""
    asked = mechanism_from_settings(event["mechanism"]) if "mechanism" in event else mechanism
    if asked.n_categories != mechanism.n_categories:
        raise ValueError("questions must all have the same number of categories")
    if not asked.publishes_subset:
        return asked, None
    mask = check_subset(event.get("subset"), asked.n_categories)
    return asked, tuple(np.flatnonzero(mask).tolist())


def _width(mechanism: Mechanism) -> int:
    """Return how many numbers an answer has."""
    return int(np.prod([*mechanism.answer_dims.values()], dtype=int))
