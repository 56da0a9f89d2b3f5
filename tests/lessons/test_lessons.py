"""Every lesson runs, says what the code computes, asks what has one right answer, and has a solution that works."""

import re
import shutil
import tomllib
from functools import cache
from pathlib import Path

import pytest

from adobest_pp.teaching import Exercise, Prediction, state
from adobest_pp.teaching import pages as where
from adobest_pp.teaching.pages import INDEX, LESSONS, folder, lesson_file, page_of, run_lesson
from adobest_pp.teaching.running import TRUST
from tests.refusals import refuses

NUMBERS = range(1, len(LESSONS) + 1)


@cache
def lesson(number):
    """What a lesson shows and defines; each runs once for all tests."""
    return run_lesson(number)


@pytest.mark.parametrize(("file", "section"), [("pyproject.toml", "tool.marimo.runtime"), (".marimo.toml", "runtime")])
def test_no_settings_come_from_the_folders_above(tmp_path, monkeypatch, file, section):
    """Such as /tmp, where others can write: marimo looks there for where to import from, and for `.env`."""
    from marimo._config.manager import get_default_config_manager
    from marimo._config.utils import get_user_config_path

    def imports_from():
        get_user_config_path.cache_clear()
        settings = get_default_config_manager(current_path=str(place)).get_config(hide_secrets=False)["runtime"]
        return [Path(each).name for each in settings.get("pythonpath", ())]

    place = tmp_path / "site-packages" / "lessons"
    shutil.copytree(folder(), place, ignore=shutil.ignore_patterns("data", "__pycache__"))
    (tmp_path / file).write_text(f'[{section}]\npythonpath = ["evil"]\n')
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert imports_from() == []
    (place / file).unlink()
    assert imports_from() == ["evil"]  # so this is where marimo looks
    get_user_config_path.cache_clear()


def of_type(number, kind):
    return [value for value in lesson(number)[1].values() if isinstance(value, kind)]


def test_every_lesson_has_its_file():
    assert all(lesson_file(number).is_file() for number in range(len(LESSONS) + 1))
    others = {path.name for path in folder().glob("*.py")} - {one.file for one in LESSONS} - {INDEX, "precompute.py"}
    assert not others


def test_an_installed_package_has_its_own_lessons(tmp_path, monkeypatch):
    """The wheel has `lessons/` as `adobest_pp/lessons`, and those come first."""
    installed = tmp_path / "adobest_pp" / "lessons"
    installed.mkdir(parents=True)
    (installed / INDEX).touch()
    monkeypatch.setattr(where, "__file__", str(tmp_path / "adobest_pp" / "teaching" / "lessons.py"))
    assert folder() == installed
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"lessons": "adobest_pp/lessons"}
    (installed / INDEX).unlink()
    with pytest.raises(FileNotFoundError, match="no folder of lessons was found"):
        folder()


def test_a_lesson_that_is_not_there_is_refused():
    with refuses("lesson"):
        lesson_file(8)


@pytest.mark.parametrize("number", NUMBERS)
def test_statements_are_what_the_code_computes(number):
    statements = lesson(number)[1]["statements"]
    assert len(statements) >= 4
    assert [str(one) for one in statements if not one.holds] == []
    shown = " ".join(output.text for output in lesson(number)[0])
    plain = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", shown))
    for one in statements:
        assert re.sub(r"\s+", " ", one.text) in plain  # and readers see it


@pytest.mark.parametrize("number", NUMBERS)
def test_questions_have_one_right_answer_that_the_code_proves(number):
    questions = of_type(number, Prediction)
    assert len(questions) == 2
    for question in questions:
        assert question.proof
        assert len(question.options) == 3
        assert [question.verdict(option)[0] for option in question.options].count(True) == 1
        assert all(question.verdict(option)[1] for option in question.options)
        assert question.verdict(None) is None


@pytest.mark.parametrize("number", NUMBERS)
def test_the_solution_passes_and_other_code_does_not(number, monkeypatch):
    monkeypatch.setenv(TRUST, "1")  # for systems that cannot confine it; others do all the same
    (exercise,) = of_type(number, Exercise)
    assert exercise.grade(exercise.solution) == (True, "That is right.", "")
    right, hint, _ = exercise.grade(exercise.start)
    assert not right
    assert len(hint) > 20
    for wrong in ("x = (", "", f"def {exercise.name}(*a):\n    return 0.123", f"def {exercise.name}(*a):\n    1 / 0"):
        assert not exercise.grade(wrong)[0]


@pytest.mark.parametrize("number", [0, *NUMBERS])
def test_pages_load_nothing_and_have_nothing_dead(number):
    page = page_of(number, lesson(number)[0])
    assert "<marimo-" not in page
    assert "<script" not in page
    assert "No longer true" not in page
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:image/png|[a-z_]+\.html)""", page)
    links = set(re.findall(r'href="([a-z_]+)\.html"', page))
    known = {one.file.removesuffix(".py") for one in LESSONS} | {"index"}
    assert links <= known
    assert ("data:image/png" in page) == (number > 0)
    if number:
        assert "For the lecturer" in page
        assert page.count("The answer") == 2
        assert page.count("A solution") == 1
    else:
        assert links == known


def test_a_statement_that_is_no_longer_true_is_noticed():
    assert state("It is {} times.", 2.2, 2.24).holds
    wrong = state("It is {} times.", 2.2, 2.26)
    assert not wrong.holds
    assert "No longer true: the code computes 2.26" in str(wrong)
    assert state("It is {} %.", 23, 23.4).holds
    assert not state("It is {} %.", 23, 23.6).holds


def test_a_question_without_its_right_answer_is_refused():
    with refuses("right"):
        Prediction("?", {"a": "", "b": ""}, "c", True)
