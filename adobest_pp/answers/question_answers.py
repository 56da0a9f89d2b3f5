"""Answers to several questions, in the order they came: what a collection in rounds holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp.answers.responses import Column, Responses
from adobest_pp.mechanisms import Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.mixed import Mixed

__all__ = ["QUESTIONS", "QuestionAnswers"]


# The attribute of a file that has the questions, and marks it as that of a collection in rounds.
QUESTIONS = "collector_questions"


class QuestionAnswers:
    """Published questions, at least one and each once, and the answers to them; it only grows.

    Parameters
    ----------
    questions : sequence of Mechanism
        The questions so far, all of the same number of categories.
    categories : sequence of str
        The labels.
    """

    def __init__(self, questions: Sequence[Mechanism], categories: Sequence[str]) -> None:
        self.questions = list(questions)
        self.categories = tuple(categories)
        # The number of the question, and behind it the answer with zeros up to the longest.
        self._width = max(map(_width, self.questions))
        self._rows = Column((1 + self._width,), np.dtype(np.int64))
        # How many answers count. It is set last: an interrupted call leaves it as it was.
        self._n = 0
        self._joined: tuple[int, int, Responses] | None = None

    def __len__(self) -> int:
        return self._n

    def publish(self, question: Mechanism) -> int:
        """Return the number of a question, which is added if it is new."""
        if question in self.questions:
            return self.questions.index(question)
        if _width(question) > self._width:
            wider = Column((1 + _width(question),), np.dtype(np.int64))
            rows = np.zeros((self._n, 1 + _width(question)), dtype=np.int64)
            rows[:, : 1 + self._width] = self._rows.first(self._n)
            wider.write(0, rows)
            self._rows, self._width = wider, _width(question)
        self.questions.append(question)
        return len(self.questions) - 1

    def append(self, answers: NDArray[np.int64], number: int) -> None:
        """Add checked answers to the question of this number."""
        rows = np.zeros((len(answers), 1 + self._width), dtype=np.int64)
        rows[:, 0] = number
        width = _width(self.questions[number])
        rows[:, 1 : 1 + width] = answers.reshape(len(answers), width)
        self._rows.write(self._n, rows)
        self._n += len(answers)

    @property
    def responses(self) -> Responses:
        """All answers, of the one question or of a `Mixed` of all."""
        if self._joined is None or self._joined[:2] != (self._n, len(self.questions)):
            rows, only = self._rows.first(self._n), self.questions[0]
            if len(self.questions) == 1:
                answers = rows[:, 1:] if only.answer_dims else rows[:, 1]
                joined = Responses.from_arrays(only, answers, categories=self.categories)
            else:
                joined = Responses.from_arrays(Mixed(self.questions), rows, categories=self.categories)
            self._joined = (self._n, len(self.questions), joined)
        return self._joined[2]

    @classmethod
    def stored(cls, responses: Responses, settings: Any, events: Sequence[Mapping[str, Any]]) -> "QuestionAnswers":
        """Return what a file has: its responses, the settings of its questions, and the events of its journal.

        Raise ValueError if they do not fit together.
        """
        if not isinstance(settings, list) or not settings:
            raise ValueError(f"the attribute {QUESTIONS!r} must be a list of at least one question")
        questions = [mechanism_from_settings(each) for each in settings]
        parts = list(responses.mechanism.parts) if isinstance(responses.mechanism, Mixed) else [responses.mechanism]
        if parts != questions:
            raise ValueError(f"the attribute {QUESTIONS!r} must have the questions that were answered")
        held = cls(questions, responses.categories)
        answers = responses.answers.astype(np.int64)
        rows = answers if len(parts) > 1 else np.column_stack([np.zeros(len(answers), dtype=np.int64), answers])
        held._rows.write(0, rows.reshape(len(answers), 1 + held._width))
        held._n = len(answers)
        for event in events:
            if "settings" in event:
                held.publish(mechanism_from_settings(event["settings"]))
            if "answers" in event:
                number = check_integer(event.get("question"), "question", 0, len(held.questions) - 1)
                held.append(held.questions[number].check_answers(event["answers"]), number)
        return held


def _width(question: Mechanism) -> int:
    """Return how many numbers an answer has."""
    return int(np.prod([*question.answer_dims.values()], dtype=int))
