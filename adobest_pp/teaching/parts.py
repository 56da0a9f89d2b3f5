"""The parts of a lesson as values: what it says, asks, shows and checks. `pages` makes pages of them.

A lesson is a Python file in `lessons/` with a list `PARTS` of these values, from top to bottom, and a JavaScript file
of the same name with its pictures. Text is Markdown. `state` makes a text with numbers, and keeps what the code
computes for each of them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

from adobest_pp.teaching.running import Confined, NotRun

NOT_CHECKED = "Exercises are not checked by an optimized Python: start adobest teach without -O and PYTHONOPTIMIZE."
HINTS = 3


class Number(NamedTuple):
    """A number as readers see it, and what the code computes for it."""

    shown: str
    computed: float

    @property
    def value(self) -> float:
        """The number that readers see."""
        return float(self.shown.replace(",", "").replace("−", "-"))

    @property
    def holds(self) -> bool:
        """Whether the two agree within half a unit of the last digit shown."""
        digits = len(self.shown.partition(".")[2])
        return abs(self.computed - self.value) <= 0.5000001 * 10.0**-digits


class Text(str):
    """Text with numbers in it that a test can check."""

    numbers: tuple[Number, ...]


def state(text: str, *numbers: tuple[str | float, float]) -> Text:
    """Return a text with a number in place of each ``{}``, and what the code computes for it.

    Parameters
    ----------
    text : str
        The text, with ``{}`` where a number belongs.
    *numbers : pairs
        The number that readers see, and what the code computes. They must agree within half a unit of the last digit
        shown: write ``"0.50"`` for a number that is known to two digits.

    Examples
    --------
    >>> import math
    >>> text = state("At ε = 1 the odds change by a factor of up to {}.", ("2.7", math.exp(1)))
    >>> print(text)
    At ε = 1 the odds change by a factor of up to 2.7.
    >>> text.numbers[0].holds
    True
    """
    made = tuple(Number(str(shown), float(computed)) for shown, computed in numbers)
    found = Text(text.format(*(f"{n.shown}" if n.holds else f"{n.shown} (now {n.computed:.6g})" for n in made)))
    found.numbers = made
    return found


def numbers_in(part: Any) -> Iterator[Number]:
    """Yield the numbers of every text in a part, or in a list of parts."""
    if isinstance(part, Text):
        yield from part.numbers
    elif isinstance(part, Number):
        yield part
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from numbers_in(key)
            yield from numbers_in(value)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for each in part:
            yield from numbers_in(each)
    elif is_dataclass(part):
        for field in fields(part):
            yield from numbers_in(getattr(part, field.name))


@dataclass(frozen=True)
class Prose:
    """Text to read. A ``## heading`` at its beginning starts a section."""

    text: str
    slide: str | None = None  # a few words for the slide; without them, the text is for the speaker


@dataclass(frozen=True)
class Prediction:
    """A question to answer before looking. What follows it is hidden until then, up to the next question or section."""

    text: str
    options: Mapping[str, str]  # the possible answers, and the reply to each: why it is right or wrong
    right: str  # the right option
    proof: bool  # what the code computes: true if the right option is right

    def __post_init__(self) -> None:
        if self.right not in self.options:
            raise ValueError(f"right must be one of the options, got {self.right!r}")


@dataclass(frozen=True)
class Slider:
    """A slider over a list of values."""

    name: str  # for the picture's functions
    label: str  # for readers
    values: Sequence[float]  # the positions, in order
    start: float  # the first position: one of the values
    unit: str = ""  # shown and spoken after the value, such as "%" or "people"

    def __post_init__(self) -> None:
        if self.start not in self.values:
            raise ValueError(f"start must be one of the values of {self.name}, got {self.start!r}")


@dataclass(frozen=True)
class Menu:
    """A list to choose a text from, with the first one chosen at first. The picture's functions get the text."""

    name: str
    label: str
    values: Sequence[str]

    @property
    def start(self) -> str:
        """The first text."""
        return self.values[0]


@dataclass(frozen=True)
class Picture:
    """A picture that its controls change.

    In the JavaScript file, ``pictures.NAME`` has ``compute(settings, data)``, ``draw(numbers, settings)`` and
    ``say(numbers, settings)``. Tests compare the numbers with those of `compute` here.
    """

    name: str
    description: str  # what the picture shows, for people who do not see it
    controls: Sequence[Slider | Menu]  # their names are the keys of `settings`
    compute: Callable[..., Mapping[str, Any]]  # from settings as keyword arguments to numbers


class Grade(NamedTuple):
    """Whether an exercise is right, the reply to it, and what the code printed."""

    right: bool
    message: str
    printed: str = ""


@dataclass(frozen=True)
class Numeric:
    """A question for a number, for pages that run no Python."""

    text: str
    answer: tuple[str, float]  # the right number as readers see it, and what the code computes
    tolerance: float  # how far an answer may be from what the code computes
    unit: str  # shown after the box
    why: str  # the reply to a right answer, and to readers who gave up

    @property
    def number(self) -> Number:
        """The right number, which tests check like the numbers in texts."""
        return Number(*self.answer)


@dataclass(frozen=True)
class Exercise:
    """A function to write.

    `check` calls the reader's function with numbers or lists of them, and raises AssertionError with a message if a
    number that it returns is wrong. Each wrong try shows one more of three hints, and after these the solution.
    """

    text: str  # what the function must do
    name: str
    start: str  # the code that the reader begins with
    solution: str
    check: Callable[[Callable[..., Any]], None]
    hints: Sequence[str]  # each helps more than the one before
    twin: Numeric | Prediction  # what pages that run no Python ask instead

    def __post_init__(self) -> None:
        if len(self.hints) != HINTS:
            raise ValueError(f"hints must be {HINTS}, got {len(self.hints)}")

    def grade(self, code: str) -> Grade:
        """Run the reader's code in a process that can only compute, and check what it returns."""
        if sys.flags.optimize:  # then Python leaves out every `assert` of the check
            return Grade(False, NOT_CHECKED)
        try:
            with Confined(code, self.name) as process:
                right, message = self._check(process)
        except NotRun as problem:
            return Grade(False, str(problem))
        return Grade(right, message, process.printed)

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


@dataclass(frozen=True)
class Notes:
    """What the lecturer does and says here, and for how many minutes: only in the lecturer's edition."""

    text: str
    minutes: int


@dataclass(frozen=True)
class Takeaway:
    """The one sentence of the lesson to remember."""

    text: str


type Part = Prose | Prediction | Picture | Exercise | Notes | Takeaway
