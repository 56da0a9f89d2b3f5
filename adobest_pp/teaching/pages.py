"""Which lessons there are, and where their files are."""

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

from adobest_pp._checks import check_integer
from adobest_pp._files import replacing
from adobest_pp._text import render


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
    Lesson("your_model.py", "Your own model", "A prior for empty categories, regions, regression, an unknown ε."),
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


# The lessons as pages without Python: the default state of each, in one file that loads nothing.
#
# marimo's own export is a program that fetches itself from a host, and whose sliders are dead. These pages are plain
# HTML, with the pictures inside and answers to unfold.


def run_lesson(number: int) -> tuple[list[Any], dict[str, Any]]:
    """Run a lesson as a script, and return what its cells show and what they define; 0 is the table of contents."""
    path = lesson_file(number)
    spec = importlib.util.spec_from_file_location(f"adobest_lesson_{number}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    outputs, names = module.app.run()
    return [output for output in outputs if output is not None], dict(names)


def page_of(number: int, outputs: list[Any]) -> str:
    """Return the page of a lesson from what its cells show."""
    from markupsafe import Markup

    title = f"{number} · {LESSONS[number - 1].title}" if number else "Lessons"
    parts = [Markup(_linked(str(output.text))) for output in outputs]
    return render("adobest_pp.teaching", "lesson.html", title=title, parts=parts, number=number)


def export(folder: str | Path) -> list[Path]:
    """Write a page for each lesson and a table of contents; return their paths.

    Parameters
    ----------
    folder : path
        Where to write; it is made if it is missing, and pages of earlier runs are replaced.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for number in range(len(LESSONS) + 1):
        outputs, _ = run_lesson(number)
        path = place / _page_name(number)
        with replacing(path) as temporary:
            Path(temporary).write_text(page_of(number, outputs), encoding="utf-8")
        written.append(path)
    return written


def _page_name(number: int) -> str:
    return (LESSONS[number - 1].file if number else INDEX).replace(".py", ".html")


def _linked(text: str) -> str:
    """Point links between lessons at their pages."""
    for number in range(len(LESSONS), -1, -1):
        text = text.replace(f'href="../{number or ""}"', f'href="{_page_name(number)}"')
    return text


if __name__ == "__main__":
    for _path in export(sys.argv[1]):
        print(_path)  # noqa: T201
