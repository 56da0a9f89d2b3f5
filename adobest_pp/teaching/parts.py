"""The parts of a lesson as values: what it says, asks, shows and checks. `pages` makes pages of them, tests check them.

A lesson is a Python file in `lessons/` with a list `PARTS` of these values, from top to bottom, and a JavaScript file
of the same name with its pictures. Text is Markdown. A text with numbers is made by `state`, which keeps what the code
computes for each number.
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
    """Text to read.

    Parameters
    ----------
    text : str
        Markdown. A ``## heading`` at its beginning starts a section.
    slide : str, optional
        What the slide says in its place, in a few words. Without it, the slides leave this text to the speaker.
    """

    text: str
    slide: str | None = None


@dataclass(frozen=True)
class Prediction:
    """A question to answer before looking. What follows it is hidden until then, up to the next question or section.

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


@dataclass(frozen=True)
class Slider:
    """A slider over a list of values.

    Parameters
    ----------
    name : str
        What the picture's functions call it.
    label : str
        What readers call it.
    values : sequence of float
        Where it can stand, in order.
    start : float
        Where it stands at first: one of them.
    unit : str, default ""
        Shown and spoken after the value, such as ``"%"`` or ``"people"``.
    """

    name: str
    label: str
    values: Sequence[float]
    start: float
    unit: str = ""

    def __post_init__(self) -> None:
        if self.start not in self.values:
            raise ValueError(f"start must be one of the values of {self.name}, got {self.start!r}")


@dataclass(frozen=True)
class Menu:
    """A list to choose one of several texts from, the first at first. The picture's functions get the text."""

    name: str
    label: str
    values: Sequence[str]

    @property
    def start(self) -> str:
        """The first one."""
        return self.values[0]


@dataclass(frozen=True)
class Picture:
    """A picture that its controls change.

    Parameters
    ----------
    name : str
        Its name in the JavaScript file: ``pictures.NAME`` has ``compute(settings, data)``, ``draw(numbers, settings)``
        and ``say(numbers, settings)``.
    description : str
        What the picture shows, for those who do not see it.
    controls : sequence of Slider and Menu
        Their names are the keys of `settings`.
    compute : callable
        The same numbers as ``compute`` of JavaScript, from keyword arguments: tests compare the two.
    """

    name: str
    description: str
    controls: Sequence[Slider | Menu]
    compute: Callable[..., Mapping[str, Any]]


class Grade(NamedTuple):
    """Whether an exercise is right, what to say to it, and what the code printed."""

    right: bool
    message: str
    printed: str = ""


@dataclass(frozen=True)
class Numeric:
    """A question for a number, for pages that run no Python.

    Parameters
    ----------
    text : str
        The question.
    answer : pair
        The right number as readers see it, and what the code computes.
    tolerance : float
        How far an answer may be from what the code computes.
    unit : str
        Shown behind the box.
    why : str
        What to say to a right answer, and to those who gave up.
    """

    text: str
    answer: tuple[str, float]
    tolerance: float
    unit: str
    why: str

    @property
    def number(self) -> Number:
        """The right number, which must hold as those of texts do."""
        return Number(*self.answer)


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
        Takes a function that calls the reader's, with numbers or lists of them, and returns its number; raises
        AssertionError with a message if that is wrong.
    hints : sequence of str
        Three, each helping more than the one before. A wrong try shows the next one; then there is the solution.
    twin : Numeric or Prediction
        What pages that run no Python ask in its place.
    """

    text: str
    name: str
    start: str
    solution: str
    check: Callable[[Callable[..., Any]], None]
    hints: Sequence[str]
    twin: Numeric | Prediction

    def __post_init__(self) -> None:
        if len(self.hints) != HINTS:
            raise ValueError(f"hints must be {HINTS}, got {len(self.hints)}")

    def grade(self, code: str) -> Grade:
        """Have the reader's code run by a process that can do nothing but compute, and check what it returns."""
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
    """What the lecturer does and says here, and for how many minutes. Only the lecturer's edition has it."""

    text: str
    minutes: int


@dataclass(frozen=True)
class Takeaway:
    """The one sentence of the lesson to take home."""

    text: str


type Part = Prose | Prediction | Picture | Exercise | Notes | Takeaway
