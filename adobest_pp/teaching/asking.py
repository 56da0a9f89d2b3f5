"""What a lesson asks and claims, as values that a test can check: statements, questions and exercises."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Exercise", "Question", "Statement", "state"]


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
class Question:
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


@dataclass(frozen=True)
class Exercise:
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
        Takes the function; raises AssertionError with a hint if it is wrong.
    """

    text: str
    name: str
    start: str
    solution: str
    check: Callable[[Callable[..., Any]], None]

    def grade(self, code: str) -> tuple[bool, str]:
        """Run the reader's own code, on the reader's own machine, and return whether it is right, and a hint if not."""
        names: dict[str, Any] = {}
        try:
            exec(code, names)
            if not callable(names.get(self.name)):
                return False, f"There is no function called {self.name} yet."
            self.check(names[self.name])
        except AssertionError as problem:
            return False, str(problem) or "The result is not right yet."
        except Exception as problem:  # whatever the reader's code raises is part of the lesson
            return False, f"Python says: {type(problem).__name__}: {problem}"
        return True, "That is right."
