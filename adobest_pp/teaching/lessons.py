"""Which lessons there are, and where their files are."""

from pathlib import Path
from typing import NamedTuple

from adobest_pp._checks import check_integer

__all__ = ["INDEX", "LESSONS", "Lesson", "folder", "lesson_file"]


class Lesson(NamedTuple):
    """A lesson: its file, its title, and what it is about in one sentence."""

    file: str
    title: str
    about: str


INDEX = "index.py"
LESSONS = (
    Lesson("one_answer.py", "One private answer", "The coin, the matrix, and how much one answer can tell."),
    Lesson("many_answers.py", "Many answers", "The posterior, its intervals, and what privacy costs in people."),
    Lesson("what_is_hidden.py", "What the collector may not see", "Audit a mechanism. Break one, and catch it."),
    Lesson("the_question.py", "Adapting the question", "Which subset to publish, and when it pays."),
    Lesson("sampling.py", "Sampling", "NUTS, Gibbs and SGLD on one posterior; why SGLD is too wide, and the cure."),
    Lesson("is_it_right.py", "Is my sampler right?", "R-hat, ESS, Stein discrepancy, calibration, contraction."),
    Lesson("your_model.py", "Your own model", "A prior for empty categories, regions, regression."),
)


def folder() -> Path:
    """Return the folder of the lessons: inside an installed package, or `lessons/` of a checkout."""
    package = Path(__file__).parent.parent
    for place in (package / "lessons", package.parent / "lessons"):
        if (place / INDEX).is_file():
            return place
    raise FileNotFoundError("the lessons must be installed with adobest_pp, but no folder of lessons was found")


def lesson_file(number: int) -> Path:
    """Return the file of a lesson, from 1; 0 is the table of contents."""
    n = check_integer(number, "lesson", 0, len(LESSONS))
    return folder() / (LESSONS[n - 1].file if n else INDEX)
