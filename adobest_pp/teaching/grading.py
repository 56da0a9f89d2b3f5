"""Grade a folder of students' files, each with the function of one exercise."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adobest_pp._files import check_target, replacing
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief, csv_cell, visible
from adobest_pp.teaching.pages import LESSONS, parts_of
from adobest_pp.teaching.parts import Exercise
from adobest_pp.teaching.running import LONGEST_CODE, OFF, can_run


class Graded(NamedTuple):
    """A row of the table: student, exercise, whether it is right, and the reply."""

    student: str
    exercise: str
    right: bool
    message: str


def exercises() -> dict[str, Exercise]:
    """Return the exercises of all lessons by the names of their functions."""
    return {each.name: each for number in range(1, len(LESSONS) + 1) for each in parts_of(number, Exercise)}


def handed_in(folder: Path, names: list[str]) -> Iterator[tuple[str, str, Path]]:
    """Yield student, exercise and file of all files that were handed in, sorted.

    A file is ``STUDENT/EXERCISE.py`` or ``EXERCISE_STUDENT.py``, where EXERCISE is the name of the function.
    """
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if len(inside.parts) == 2 and path.stem in names:
            yield inside.parts[0], path.stem, path
        elif len(inside.parts) == 1:
            found = [name for name in names if path.stem.startswith(f"{name}_")]
            if found:
                name = max(found, key=len)
                yield path.stem.removeprefix(f"{name}_"), name, path


def grade_folder(
    folder: str | Path, out: str | Path, overwrite: bool = False, progressbar: bool = False
) -> list[Graded]:
    """Grade all files of a folder and write a table; a file that hangs is stopped, and the others continue.

    The folder has ``STUDENT/EXERCISE.py`` or ``EXERCISE_STUDENT.py`` for each student and exercise. The table is a CSV
    file with the columns student, exercise, right and message. Raises ValueError if there are no such files, or if this
    system cannot confine the code.
    """
    place, table = Path(folder), check_target(out, overwrite=overwrite, name="out")
    if not place.is_dir():
        raise ValueError(f"folder must be an existing folder, got {brief(str(folder))}")
    if not can_run():
        raise ValueError(OFF)
    known = exercises()
    found = list(handed_in(place, list(known)))
    if not found:
        raise ValueError(
            f"{visible(place)} must have files STUDENT/EXERCISE.py or EXERCISE_STUDENT.py, where EXERCISE is one of "
            f"{', '.join(known)}; found none"
        )
    graded = []
    with SlowProgress(len(found), "exercises", progressbar) as progress:
        for student, name, path in found:
            graded.append(Graded(student, name, *_grade(known[name], path)))
            progress.advance(1, visible(student))
    with (
        replacing(table, overwrite=overwrite, name="out") as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(Graded._fields)
        for row in graded:
            writer.writerow([csv_cell(row.student), row.exercise, "yes" if row.right else "no", csv_cell(row.message)])
    return graded


def _grade(exercise: Exercise, path: Path) -> tuple[bool, str]:
    try:
        with path.open(encoding="utf-8") as file:
            code = file.read(LONGEST_CODE + 1)
    except (OSError, UnicodeDecodeError) as problem:
        return False, f"The file cannot be read: {type(problem).__name__}."
    grade = exercise.grade(code)
    return grade.right, grade.message
