"""Plans for one hour, one day and one term. The minutes of a lesson are those of its notes for the lecturer."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from adobest_pp.teaching import Exercise, Notes, pages

POLL = 40  # minutes of `adobest class`, docs/howto/class.md


@dataclass(frozen=True)
class Step:
    """Something to do with a class: a lesson, with or without its exercise, or whatever `text` says.

    Parameters
    ----------
    text : str
        What is done beside the lesson, in Markdown; empty for a lesson alone.
    other : int, default 0
        Minutes for that.
    lesson : int, optional
        The number of a lesson.
    exercise : bool, default True
        Whether its exercise is done in class.
    homework : tuple of int
        The homework that is given, by its numbers.
    """

    text: str = ""
    other: int = 0
    lesson: int | None = None
    exercise: bool = True
    homework: tuple[int, ...] = ()

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return self.other + (minutes(self.lesson, self.exercise) if self.lesson else 0)

    @property
    def title(self) -> str:
        """What it is, for a table."""
        if not self.lesson:
            return self.text
        lesson = pages.lesson_of(self.lesson)
        found = f"[Lesson {self.lesson}, {lesson.title}]({lesson.name}.html)"
        if not self.exercise:
            found += ", without the exercise"
        return f"{found}. {self.text}" if self.text else found


@dataclass(frozen=True)
class Plan:
    """A course of some length."""

    title: str
    about: str
    before: str
    steps: tuple[Step, ...]

    weekly: bool = False

    @property
    def minutes(self) -> int:
        """How long all of it takes, without breaks."""
        return sum(step.minutes for step in self.steps)

    @property
    def table(self) -> str:
        """The steps with their minutes, or by week with their homework, as a table in Markdown."""
        if self.weekly:
            weeks = [(step.title, ", ".join(map(str, step.homework))) for step in self.steps]
            return as_table(("week", "what", "homework"), [(str(i), *week) for i, week in enumerate(weeks, start=1)])
        ends = accumulate(step.minutes for step in self.steps)
        rows = [(f"{end - step.minutes}–{end}", step.title) for step, end in zip(self.steps, ends, strict=True)]
        return as_table(("minutes", "what"), rows)


def as_table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def minutes(number: int, exercise: bool = True) -> int:
    """Return how long a lesson takes in class, from its notes; those behind the exercise are for the exercise."""
    parts = pages.load(number).PARTS
    behind = next(i for i, part in enumerate(parts) if isinstance(part, Exercise))
    kept = parts if exercise else parts[:behind]
    return sum(part.minutes for part in kept if isinstance(part, Notes))


PLANS = (
    Plan(
        "One hour",
        "For a guest lecture, a seminar or a class of any subject. Students take the exercises home: the "
        "pages check them.",
        "Conditional probability. No Python.",
        (
            Step(lesson=1, exercise=False),
            Step(lesson=2, exercise=False),
            Step(lesson=3, exercise=False),
            Step("Questions. The handouts of the three lessons go home.", 5),
        ),
    ),
    Plan(
        "One day",
        "For a workshop, with a break after every second lesson. Everybody needs a browser; those who want "
        "to write the exercises need Python.",
        "Conditional probability, expectation and variance. For lessons 5 to 8, the idea of a posterior and "
        "of MCMC. A little Python.",
        (
            Step("The class answers a private poll on its own phones: `adobest class`.", POLL),
            *(Step(lesson=number) for number in range(1, 9)),
            Step(
                "Close: each pair names one place where it would use private answers, and the ε that it would accept.",
                20,
            ),
        ),
    ),
    Plan(
        "One term",
        "Twelve weeks of 90 minutes, homework in seven of them, and the exam of 90 minutes.",
        "A first course in statistics, with likelihood and Bayes' rule. Python with NumPy. From week 7 on: "
        "gradients, and some PyMC.",
        (
            Step("The class poll, and how the course works.", POLL + 20, lesson=1, homework=(1,)),
            Step(
                "Board: estimating a share, and why it can be negative. The homework of week 1.",
                60,
                lesson=2,
                homework=(2, 10),
            ),
            Step(
                "Board: planning a survey, from the variance of an estimate to n, with `adobest plan`. Homework of "
                "week 2, with EM.",
                90,
                homework=(4,),
            ),
            Step(
                "Board: best guesses, and what ε means for one person. Homework of week 3.",
                60,
                lesson=3,
                homework=(6, 8),
            ),
            Step(
                "Board: several answers of one person: budgets add up, splitting or sampling, permanent answers. "
                "Homework of week 4.",
                90,
                homework=(5, 7),
            ),
            Step(
                "Board: extremal mechanisms, and why one likelihood serves them all. Homework of week 5.",
                60,
                lesson=4,
                homework=(3,),
            ),
            Step("Board: Langevin dynamics and stochastic gradients. Homework of week 6.", 60, lesson=5),
            Step(
                "Board: simulation-based calibration and R-hat. Students grade a sampler with `adobest grade`.",
                60,
                lesson=6,
                homework=(9,),
            ),
            Step("Board: partial pooling and regressions; projects begin. Homework of week 8.", 60, lesson=7),
            Step("Board: transition tensors in PyMC. Work on projects.", 60, lesson=8),
            Step(
                "Board: the paper of Aydın and Yıldırım, its algorithm and its slips. Work on projects.", 60, lesson=9
            ),
            Step(
                "Students present their projects: a private survey from the plan to the report, with `adobest survey`.",
                90,
            ),
        ),
        weekly=True,
    ),
)
