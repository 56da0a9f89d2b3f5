"""The poll of ``adobest class``: three prepared questions, and steps for the projector.

``class_plan.json`` has the questions, and for each step its minutes, the panels to show, what to say, and the lesson
that goes on from there. The first question is harmless: a show of hands checks its intervals.
"""

import json
import os
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

from adobest_pp._checks import check_epsilon, check_path
from adobest_pp._text import brief
from adobest_pp.poll.polls import OpenPoll, PollQuestion, create_poll
from adobest_pp.teaching.pages import LESSONS


def read_plan() -> dict[str, Any]:
    """Return ``class_plan.json``, where each lesson has its number and title."""
    plan: dict[str, Any] = json.loads(files(__package__).joinpath("class_plan.json").read_text(encoding="utf-8"))
    numbers = {Path(lesson.file).stem: number for number, lesson in enumerate(LESSONS, start=1)}
    for step in plan["steps"]:
        if "lesson" in step:
            number = numbers[step["lesson"]]
            step["lesson"] = {"number": number, "title": LESSONS[number - 1].title}
    return plan


def prepare_class(path: str | os.PathLike[str], epsilon: float | None = None) -> bool:
    """Write the poll of a class, unless it is there; tell whether it was written.

    Parameters
    ----------
    path : path
        The collection of the first question; the other files are beside it.
    epsilon : float, optional
        Privacy budget of each question (default: that of the plan). A class that is there must have the same.
    """
    given = None if epsilon is None else check_epsilon(epsilon)
    if Path(check_path(path)).exists():
        _check_class(path, given)
        return False
    plan = read_plan()
    budget = plan["epsilon"] if given is None else given
    questions = [PollQuestion(each["text"], each["categories"], budget) for each in plan["questions"]]
    create_poll(path, questions, title=plan["title"], steps=plan["steps"])
    return True


def _check_class(path: str | os.PathLike[str], epsilon: float | None) -> None:
    """Raise ValueError unless the poll is one of a class, with this ε."""
    with closing(OpenPoll(path)) as poll:
        kept = poll.published[0].mechanism.epsilon
        if poll.settings["steps"] is None:
            raise ValueError(
                f"out must be a new file or one of `adobest class`, got {brief(str(path))}: "
                "`adobest poll serve` serves other polls"
            )
    if epsilon is not None and epsilon != kept:
        raise ValueError(
            f"epsilon must be that of the class in {brief(str(path))}, {kept:g}, got {epsilon:g}: "
            "leave it out to resume, or give another out"
        )
