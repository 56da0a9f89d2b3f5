"""Every lesson says what the code computes, asks what has one right answer, and has a solution that works."""

import itertools
import json
import re
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest

from adobest_pp.cli.main import main
from adobest_pp.teaching import Exercise, Menu, Notes, Numeric, Picture, Prediction, Prose, Takeaway, numbers_in, state
from adobest_pp.teaching import pages as where
from adobest_pp.teaching.pages import (
    LESSONS,
    blocks_of,
    contents_page,
    folder,
    lesson_of,
    lesson_page,
    load,
    parts_of,
    script_of,
)
from adobest_pp.teaching.running import TRUST
from tests.device.harness import NODE, needs_node
from tests.refusals import refuses

NUMBERS = range(1, len(LESSONS) + 1)
LARGEST_PAGE = 400 * 1024
FEW_SETTINGS = 50


def test_every_lesson_has_its_files():
    names = {one.name for one in LESSONS}
    assert {path.stem for path in folder().glob("*.py")} == names | {"precompute", "problems", "syllabus"}


def test_an_installed_package_has_its_own_lessons(tmp_path, monkeypatch):
    """The wheel has `lessons/` as `adobest_pp/lessons`, and those come first."""
    installed = tmp_path / "adobest_pp" / "lessons"
    installed.mkdir(parents=True)
    first = installed / f"{LESSONS[0].name}.py"
    first.touch()
    monkeypatch.setattr(where, "__file__", str(tmp_path / "adobest_pp" / "teaching" / "pages.py"))
    assert folder() == installed
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"lessons": "adobest_pp/lessons"}
    first.unlink()
    with pytest.raises(FileNotFoundError, match="no folder of lessons was found"):
        folder()


def test_a_lesson_that_is_not_there_is_refused():
    with refuses("lesson"):
        lesson_of(len(LESSONS) + 1)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_what_the_code_computes(number):
    numbers = list(numbers_in(load(number).PARTS))
    assert len(numbers) >= 4
    assert [one for one in numbers if not one.holds] == []


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_has_what_it_needs(number):
    assert len(parts_of(number, Prediction)) >= 2
    assert len(parts_of(number, Picture)) >= 1
    assert len(parts_of(number, Exercise)) >= 1
    assert len(parts_of(number, Takeaway)) == 1
    assert 20 <= sum(notes.minutes for notes in parts_of(number, Notes)) <= 60
    hidden = [inner.kind for block in blocks_of(load(number).PARTS) for inner in block.behind]
    assert hidden.count("Picture") == len(parts_of(number, Picture))  # no picture spoils a prediction


@pytest.mark.parametrize("number", NUMBERS)
def test_questions_have_one_right_answer_that_the_code_proves(number):
    twins = [each.twin for each in parts_of(number, Exercise)]
    for question in [*parts_of(number, Prediction), *(each for each in twins if isinstance(each, Prediction))]:
        assert question.proof
        assert len(question.options) == 3
        assert all(question.options.values())
    for twin in twins:
        if isinstance(twin, Numeric):
            assert twin.number.holds
            assert abs(twin.number.value - twin.answer[1]) <= twin.tolerance  # what we call right is accepted


@pytest.mark.parametrize("number", NUMBERS)
def test_the_solution_passes_and_other_code_does_not(number, monkeypatch):
    monkeypatch.setenv(TRUST, "1")  # for systems that cannot confine it; others do all the same
    for exercise in parts_of(number, Exercise):
        assert exercise.grade(exercise.solution) == (True, "That is right.", "")
        right, message, _ = exercise.grade(exercise.start)
        assert not right
        assert len(message) > 20
        for wrong in ("x = (", "", f"def {exercise.name}(*a):\n    return 0.123"):
            assert not exercise.grade(wrong).right


def settings_of(picture, whole):
    """All settings of a picture's controls; or each control moved alone through its range, and some others."""
    names = [control.name for control in picture.controls]
    every = [dict(zip(names, each, strict=True)) for each in itertools.product(*(c.values for c in picture.controls))]
    if whole or len(every) <= FEW_SETTINGS:
        return every
    start = {control.name: control.start for control in picture.controls}
    alone = [start | {control.name: value} for control in picture.controls for value in control.values]
    chosen = np.random.default_rng(1).choice(len(every), size=FEW_SETTINGS // 2, replace=False)
    return [*alone, *(every[i] for i in chosen)]


def computed_by_javascript(place, number, name, settings):
    """What `compute` of a picture returns in Node for each of these settings; each is drawn and described, too."""
    data = json.dumps(getattr(load(number), "DATA", None))
    program = f"""{script_of(number)}
    const [given, data] = [JSON.parse(require("fs").readFileSync(0, "utf8")), {data}];
    const found = given.map((settings) => {{
      const numbers = pictures[{json.dumps(name)}].compute(settings, data);
      const panels = pictures[{json.dumps(name)}].draw(numbers, settings);
      return {{ numbers, panels: panels.length, said: pictures[{json.dumps(name)}].say(numbers, settings) }};
    }});
    const kept = (key, value) => (Object.is(value, Infinity) || Number.isNaN(value) ? String(value) : value);
    console.log(JSON.stringify(found, kept));
    """
    path = place / f"{name}.cjs"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([NODE, str(path)], input=json.dumps(settings), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def agree(found, right, where):
    """The same numbers to 1e-6, however deep."""
    if isinstance(right, dict):
        assert found.keys() == right.keys(), where
        for key in right:
            agree(found[key], right[key], f"{where}.{key}")
    elif isinstance(right, str):
        assert found == right, where
    else:
        texts = np.array(found, dtype=object)
        np.testing.assert_allclose(
            texts.astype(float), np.asarray(right, dtype=float), rtol=1e-6, atol=1e-6, err_msg=where
        )


@needs_node
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("number", NUMBERS)
def test_javascript_computes_what_python_does(number, whole, tmp_path):
    for picture in parts_of(number, Picture):
        settings = settings_of(picture, whole)
        for given, found in zip(
            settings, computed_by_javascript(tmp_path, number, picture.name, settings), strict=True
        ):
            agree(found["numbers"], picture.compute(**given), f"{picture.name} {given}")
            assert found["panels"] >= 1
            assert len(found["said"]) > 20
            assert not re.search("NaN|undefined|null|object", found["said"]), found["said"]


@pytest.mark.parametrize("number", NUMBERS)
def test_pages_load_nothing_and_students_get_no_solutions(number):
    student, lecturer, live = lesson_page(number), lesson_page(number, lecturer=True), lesson_page(number, live=True)
    for page in (student, lecturer, live):
        assert len(page.encode()) < LARGEST_PAGE
        assert "(now " not in page  # a number that no longer holds
        assert not re.search(r"""(src|href)\s*=\s*["'](?!data:,|#|[a-z_-]+\.html")""", page)
        assert "default-src 'none'" in page
        assert "unsafe" not in page
    notes, exercises = parts_of(number, Notes), parts_of(number, Exercise)
    secrets = [each.text.strip().splitlines()[0].strip()[:40] for each in notes]
    secrets += [line for each in exercises for line in each.solution.splitlines() if line not in each.start]
    letters = [re.sub("[^a-z]+", " ", secret) for secret in secrets]
    for shown in [each for each in letters if len(each) > 15]:  # a line such as `worst = 0.0` gives nothing away
        assert shown not in re.sub("[^a-z]+", " ", student)
        assert shown not in re.sub("[^a-z]+", " ", live)
    assert lecturer.count("For the lecturer ·") == len(notes)


def test_the_table_of_contents_leads_to_every_lesson():
    page = contents_page()
    assert re.findall(r'href="([a-z_]+)\.html"', page) == [*(one.name for one in LESSONS), "syllabus", "homework"]
    assert "slides" not in page.lower().split("</style>")[1]
    assert 'href="http://192.0.2.7:8000/"' in contents_page(poll="http://192.0.2.7:8000/")


def test_the_command_writes_pages_and_replaces_none_unasked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(where, "makers", lambda lecturer: {"index": lambda: "new", "one": lambda: f"{lecturer}"})
    (tmp_path / "one.html").write_text("mine")
    for options, status in (([], 2), (["--overwrite", "--lecturer"], 0)):
        with pytest.raises(SystemExit) as end:
            main(["teach", "--pages", str(tmp_path), *options])
        assert (end.value.code or 0) == status
        assert (tmp_path / "index.html").exists() == (status == 0)  # all or none
    assert (tmp_path / "one.html").read_text() == "True"
    assert "Wrote 2 pages" in capsys.readouterr().out


def test_a_number_that_is_no_longer_true_is_noticed():
    assert state("It is {} times.", ("2.2", 2.24)).numbers[0].holds
    wrong = state("It is {} times.", ("2.2", 2.26))
    assert not wrong.numbers[0].holds
    assert wrong == "It is 2.2 (now 2.26) times."
    assert state("It is {} %.", ("23", 23.4)).numbers[0].holds
    assert not state("It is {} %.", ("23", 23.6)).numbers[0].holds
    assert state("{} people.", ("7,700", 7700.4)).numbers[0].holds
    nested = [Prose(wrong), Prediction("?", {"a": wrong, "b": ""}, "a", True)]
    assert [one.holds for one in numbers_in(nested)] == [False, False]


def test_parts_refuse_what_cannot_be_shown():
    with refuses("right"):
        Prediction("?", {"a": "", "b": ""}, "c", True)
    with refuses("start"):
        where.Slider("x", "x", [1, 2], 3)
    with refuses("hints"):
        Exercise("", "f", "", "", print, ["one"], Numeric("", ("1", 1.0), 0.1, "", ""))
    assert Menu("x", "x", ["a", "b"]).start == "a"


def test_what_a_prediction_hides():
    question = Prediction("?", {"a": "", "b": ""}, "a", True)
    parts = [Prose("0"), question, Prose("1"), Notes("2", 1), Prose("## 3"), question, Prose("4"), Takeaway("5")]
    blocks = blocks_of(parts)
    assert [block.kind for block in blocks] == ["Prose", "Prediction", "Prose", "Prediction", "Takeaway"]
    assert [[inner.part.text for inner in block.behind] for block in blocks] == [[], ["1", "2"], [], ["4"], []]


def test_colors_have_the_contrast_of_wcag_aa():
    """Text at 4.5 and lines at 3, on every background that they have, light and dark."""
    style = (Path(where.__file__).parent / "lesson.css").read_text(encoding="utf-8")
    light, dark, *_ = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for theme in (light, dark):
        colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", theme))
        for back in ("page", "card", "chosen", "code"):
            for text in ("ink", "soft", "accent", "right", "wrong", *(f"c{i}" for i in range(6))):
                assert contrast(colors[text], colors[back]) >= 4.5, (text, back)
            assert contrast(colors["line"], colors[back]) >= 3


def contrast(one, other):
    """The contrast ratio of two colors as WCAG 2 defines it."""

    def luminance(color):
        channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
