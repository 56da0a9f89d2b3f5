"""The course: what a lesson asks and claims, as values that a test can check: statements, questions and exercises.

The lessons themselves are marimo notebooks in `lessons/`. `pages` says where they are. Only `showing`, `serving` and
`pages` need marimo.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from adobest_pp.teaching.running import Confined, NotRun

NOT_CHECKED = "Exercises are not checked by an optimized Python: start adobest teach without -O and PYTHONOPTIMIZE."


@dataclass(frozen=True)
class Statement:
    """A sentence with a number in it, and what the code computes for that number."""

    text: str
    claimed: float
    computed: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the number in the sentence is still what the code computes."""
        return abs(self.computed - self.claimed) <= self.tolerance

    def __str__(self) -> str:
        return self.text if self.holds else f"{self.text} **(No longer true: the code computes {self.computed:.4g}.)**"


def state(text: str, claimed: float, computed: float, tolerance: float | None = None) -> Statement:
    """Return a sentence whose ``{}`` is the claimed number, with what the code computes for it.

    Parameters
    ----------
    text : str
        The sentence, with ``{}`` (or ``{:.0%}`` and the like) where the number belongs.
    claimed : float
        The number that readers see.
    computed : float
        What the code computes.
    tolerance : float, optional
        How far the two may differ. By default half a unit of the last digit of `claimed`, as of a rounded number.

    Examples
    --------
    >>> import math
    >>> print(state("At ε = 1 the odds change by a factor of up to {}.", 2.7, math.exp(1)))
    At ε = 1 the odds change by a factor of up to 2.7.
    """
    digits = len(repr(claimed).partition(".")[2]) if isinstance(claimed, float) else 0
    allowed = 0.5000001 * 10.0**-digits if tolerance is None else tolerance
    return Statement(text.format(claimed), float(claimed), float(computed), allowed)


@dataclass(frozen=True)
class OldPrediction:
    """A question to answer before looking.

    Parameters
    ----------
    text : str
        The question.
    options : mapping of str to str
        What can be answered, and what to say to each: why it is right, or why not.
    right : str
        The right one of them.
    proof : bool
        What the code says: true if the right option is right.
    """

    text: str
    options: Mapping[str, str]
    right: str
    proof: bool

    def __post_init__(self) -> None:
        if self.right not in self.options:
            raise ValueError(f"right must be one of the options, got {self.right!r}")

    def verdict(self, answer: str | None) -> tuple[bool, str] | None:
        """Return whether an answer is right, and why or why not; None while there is no answer."""
        if answer is None:
            return None
        return answer == self.right, self.options[answer]


class OldGrade(NamedTuple):
    """Whether an exercise is right, what to say to it, and what the code printed."""

    right: bool
    message: str
    printed: str = ""


@dataclass(frozen=True)
class OldExercise:
    """A function to write.

    Parameters
    ----------
    text : str
        What it must do.
    name : str
        Its name.
    start, solution : str
        The code that the reader begins with, and code that does it.
    check : callable
        Takes a function that calls the reader's, with numbers or lists of them, and returns its number; raises
        AssertionError with a hint if that is wrong.
    """

    text: str
    name: str
    start: str
    solution: str
    check: Callable[[Callable[..., Any]], None]

    def grade(self, code: str) -> OldGrade:
        """Have the reader's code run by a process that can do nothing but compute, and check what it returns."""
        if sys.flags.optimize:  # then Python leaves out every `assert` of the check
            return OldGrade(False, NOT_CHECKED)
        try:
            with Confined(code, self.name) as process:
                right, message = self._check(process)
        except NotRun as problem:
            return OldGrade(False, str(problem))
        return OldGrade(right, message, process.printed)

    def _check(self, process: Confined) -> tuple[bool, str]:
        try:
            process.define()
            self.check(process.call)
        except AssertionError as problem:
            return False, str(problem) or "The result is not right yet."
        except NotRun as problem:
            return False, str(problem)
        except Exception as problem:  # of a check that cannot compute with the reader's number
            return False, f"Python says: {type(problem).__name__}: {problem}"
        return True, "That is right."


Exercise, Prediction = OldExercise, OldPrediction
