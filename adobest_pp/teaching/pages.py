"""The list of lessons, and their pages: one file each, which loads nothing and works without Python."""

import base64
import hashlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from adobest_pp._checks import check_integer
from adobest_pp._files import check_target, replacing
from adobest_pp._text import render
from adobest_pp.teaching.parts import Exercise, Notes, Part, Picture, Prediction, Prose, Slider


class Lesson(NamedTuple):
    """A lesson: the name of its files, its title, and what it is about in one sentence."""

    name: str
    title: str
    about: str


LESSONS = (
    Lesson("one_answer", "One private answer", "A coin answers with you. How much can one answer tell?"),
    Lesson("many_answers", "Many answers", "Noise averages out. What does privacy cost in people?"),
    Lesson("what_is_hidden", "Audit the promise", "Two mechanisms break their promise. Ten lines of code show which."),
    Lesson("the_question", "A better question", "Fifty options, the same ε, five times fewer people."),
    Lesson("sampling", "Sampling", "Draw from the posterior, and meet noise that nobody planned."),
    Lesson("is_it_right", "Is my sampler right?", "Chains that agree can all be wrong, and so can a model."),
    Lesson("your_model", "Your own model", "Empty categories and small regions: what you know goes into the prior."),
    Lesson("unknown_noise", "What if nobody tells you ε?", "Infer ε itself, from answers and test calls."),
    Lesson("adapting", "Adapting the question", "Optional: subsets, utilities, κ, Thompson sampling. When they pay."),
)


def folder() -> Path:
    """Return the folder of the lessons: inside an installed package, or `lessons/` of a checkout."""
    package = Path(__file__).parent.parent
    for place in (package / "lessons", package.parent / "lessons"):
        if (place / f"{LESSONS[0].name}.py").is_file():
            return place
    raise FileNotFoundError("the lessons must be installed with adobest_pp, but no folder of lessons was found")


def lesson_of(number: int) -> Lesson:
    """Return a lesson by its number, from 1."""
    return LESSONS[check_integer(number, "lesson", 1, len(LESSONS)) - 1]


def load(number: int) -> ModuleType:
    """Run the Python file of a lesson, once; it has `PARTS`, and `DATA` if its pictures need data."""
    return load_file(lesson_of(number).name)


@cache
def load_file(name: str) -> ModuleType:
    """Run a Python file of `lessons/`, once: a lesson, `problems` or `syllabus`."""
    path = folder() / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"adobest_lesson_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def parts_of[T](number: int, kind: type[T]) -> list[T]:
    """Return the parts of a lesson of one kind, in order."""
    return [part for part in load(number).PARTS if isinstance(part, kind)]


# From parts to blocks.


@dataclass
class Block:
    """A part for the templates, with its number among the parts of its kind, and what a prediction hides."""

    kind: str
    part: Part
    index: int
    behind: list["Block"] = field(default_factory=list)


def blocks_of(parts: Iterable[Part]) -> list[Block]:
    """Return the blocks of a page. A prediction hides what follows it, up to the next question or section."""
    found: list[Block] = []
    counts: dict[str, int] = {}
    hidden: list[Block] | None = None
    for part in parts:
        kind = type(part).__name__
        block = Block(kind, part, counts.get(kind, 0))
        counts[kind] = block.index + 1
        if not isinstance(part, Picture | Notes) and not (
            isinstance(part, Prose) and not part.text.lstrip().startswith("#")
        ):
            hidden = None
        (found if hidden is None else hidden).append(block)
        if isinstance(part, Prediction):
            hidden = block.behind
    return found


# Text


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": True}).enable("table")
    made.add_render_rule("text", lambda self, tokens, i, options, env: escape(_unbroken(tokens[i].content)))
    return made


def _unbroken(text: str) -> str:
    """Return a text whose formulas and percentages are not broken across lines."""
    text = re.sub(r"P\([^()]*\)", lambda found: found.group().replace("| ", "|\u2060 ").replace(" ", "\u00a0"), text)
    return re.sub(r" (?=[%=≈≤:] |%)|(?<= [=≈≤:]) ", "\u00a0", text)


def md(text: str) -> Markup:
    """Return Markdown of a lesson as HTML."""
    html = _markdown().render(inspect.cleandoc(text))
    html = html.replace("<pre>", '<pre tabindex="0">')  # programs may be wider than a phone: let keys scroll them
    return Markup(html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>"))


def inline(text: str) -> Markup:
    """Return one line of Markdown as HTML, without a paragraph around it."""
    return Markup(_markdown().renderInline(" ".join(text.split())))


# Scripts, styles and data of a page


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def script_of(number: int, *others: str) -> str:
    """Return the JavaScript of a lesson: the plotting functions, its own pictures, and other files of this folder."""
    own = (folder() / f"{lesson_of(number).name}.js").read_text(encoding="utf-8")
    return "\n".join([_asset("plotting.js"), own, *(_asset(each) for each in others)])


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(template: str, title: str, script: str = "", data: Any = None, live: bool = False, **values: Any) -> str:
    """Return a page that can load nothing, and runs only the script that is in it."""
    style = _asset("lesson.css")
    policy = f"default-src 'none'; style-src {_hashed(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    if script:
        script = f'"use strict";(() => {{\n{script}\n}})();'
        policy += f"; script-src {_hashed(script)}"
    if live:
        policy += "; connect-src 'self'"
    embedded = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    values |= {
        "md": md,
        "inline": inline,
        "plain": escape,
        "live": live,
        "title": title,
        "kind": values.get("kind", ""),
    }
    return render(
        "adobest_pp.teaching",
        template,
        policy=Markup(policy),
        style=Markup(style),
        script=Markup(script),
        data=Markup(embedded),
        **values,
    )


def _data(number: int, live: bool) -> dict[str, Any]:
    """Return the data of a lesson for the script of its page."""
    module = load(number)
    return {
        "name": lesson_of(number).name,
        "data": getattr(module, "DATA", None),
        "pictures": [_picture(each) for each in parts_of(number, Picture)],
        "predictions": [_question(each) for each in parts_of(number, Prediction)],
        "exercises": [_exercise(each, live) for each in parts_of(number, Exercise)],
    }


def _picture(picture: Picture) -> dict[str, Any]:
    controls = [
        {"name": each.name, "values": list(each.values)} | ({"unit": each.unit} if isinstance(each, Slider) else {})
        for each in picture.controls
    ]
    return {"name": picture.name, "controls": controls}


def _question(question: Prediction) -> dict[str, Any]:
    options = list(question.options)
    replies = [md(reply) for reply in question.options.values()]
    return {"options": options, "right": options.index(question.right), "replies": replies}


def _exercise(exercise: Exercise, live: bool) -> dict[str, Any]:
    hints = [md(hint) for hint in exercise.hints]
    if live:
        return {"kind": "code", "name": exercise.name, "start": exercise.start, "hints": hints}
    twin = exercise.twin
    if isinstance(twin, Prediction):
        return {"kind": "options", **_question(twin)}
    shown = f"{twin.answer[0]} {twin.unit}".strip()
    answer = {"answer": twin.answer[1], "tolerance": twin.tolerance, "shown": shown, "why": md(twin.why)}
    return {"kind": "number", "hints": hints, **answer}


# Pages


def lesson_page(number: int, lecturer: bool = False, live: bool = False) -> str:
    """Return the page of a lesson: for students or the lecturer, with code to write if a server can run it."""
    lesson = lesson_of(number)
    module = load(number)
    return _page(
        "lesson.html",
        f"{number} · {lesson.title}",
        script_of(number, "lesson.js"),
        _data(number, live),
        live,
        lesson=lesson,
        number=number,
        lecturer=lecturer,
        minutes=sum(each.minutes for each in parts_of(number, Notes)),
        blocks=blocks_of(module.PARTS),
        before=LESSONS[number - 2] if number > 1 else None,
        after=LESSONS[number] if number < len(LESSONS) else None,
    )


@dataclass
class Slide:
    """A slide: what it shows, what the speaker says, its minutes, and the minute at which it ends."""

    block: Block | None
    says: list[str] = field(default_factory=list)
    minutes: int = 0
    over: int = 0


def slides_of(parts: Iterable[Part]) -> list[Slide]:
    """Return the slides of a lesson. The speaker says prose without a slide, and notes, at the slide before."""
    found = [Slide(None)]
    for block in _flat(blocks_of(parts)):
        part = block.part
        if not isinstance(part, Notes) and not (isinstance(part, Prose) and part.slide is None):
            found.append(Slide(block))
        if isinstance(part, Notes | Prose):
            found[-1].says.append(part.text)
        if isinstance(part, Notes):
            found[-1].minutes += part.minutes
        if isinstance(part, Exercise):
            found[-1].says += [f"- {hint}" for hint in part.hints]
        if isinstance(part, Prediction):
            found[-1].says.append(f"**{part.right}** {part.options[part.right]}")
    for before, slide in zip([Slide(None), *found], found, strict=False):
        slide.over = before.over + slide.minutes
    return found


def _flat(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from block.behind


def slides_page(number: int) -> str:
    """Return the slides of a lesson, with the same pictures and with speaker notes."""
    lesson, slides = lesson_of(number), slides_of(load(number).PARTS)
    data = _data(number, live=False) | {"deck": True, "fit": True, "zoom": 1.6, "exercises": []}
    script = script_of(number, "lesson.js", "slides.js")
    title = f"{number} · {lesson.title}: slides"
    return _page("slides.html", title, script, data, kind="deck", lesson=lesson, number=number, slides=slides)


def handout_page(number: int) -> str:
    """Return the handout of a lesson: one sheet of paper, without solutions."""
    lesson = lesson_of(number)
    data = _data(number, live=False) | {"deck": True, "zoom": 0.7, "predictions": [], "exercises": []}
    blocks = list(_flat(blocks_of(load(number).PARTS)))
    title = f"{number} · {lesson.title}: handout"
    script = script_of(number, "lesson.js")
    return _page("handout.html", title, script, data, kind="sheet", lesson=lesson, number=number, blocks=blocks)


def contents_page(lecturer: bool = False, poll: str | None = None, is_class: bool = False) -> str:
    """Return the table of contents; `poll` is the address of the class's poll, if there is one."""
    return _page("contents.html", "Lessons", lessons=LESSONS, lecturer=lecturer, poll=poll, is_class=is_class)


def join_page(address: str) -> str:
    """Return a page for the projector, with the address of the lessons and its QR code."""
    import segno

    code = segno.make(address, error="m").svg_inline(omitsize=True, border=3, dark="#000", light="#fff")
    return _page("join.html", "Join the lessons", address=address, code=Markup(code))


def homework_page(lecturer: bool = False) -> str:
    """Return the homework, with solutions for the lecturer."""
    given = load_file("problems").HOMEWORK
    return _page("problems.html", "Homework", problems=given, solved=lecturer, is_paper=False)


def exam_page(solved: bool) -> str:
    """Return the exam, for the lecturer: as a paper to hand out, or with solutions."""
    return _page("problems.html", "Exam", problems=load_file("problems").EXAM, solved=solved, is_paper=not solved)


def syllabus_page(lecturer: bool = False) -> str:
    """Return the plans for one hour, one day and one term."""
    return _page("syllabus.html", "Syllabus", plans=load_file("syllabus").PLANS, lecturer=lecturer)


def makers(
    lecturer: bool = False, live: bool = False, poll: str | None = None, address: str | None = None
) -> Mapping[str, Callable[[], str]]:
    """Return a function for each page of an edition, by the name of its file without ending.

    Only the lecturer's edition has slides, handouts and exam. `live` is whether a server runs the code of exercises;
    `poll` and `address` are the addresses of the poll and of the lessons for a class.
    """
    found: dict[str, Callable[[], str]] = {
        "index": partial(contents_page, lecturer, poll, is_class=address is not None),
        "syllabus": partial(syllabus_page, lecturer),
        "homework": partial(homework_page, lecturer),
    }
    for number, lesson in enumerate(LESSONS, start=1):
        found[lesson.name] = partial(lesson_page, number, lecturer, live)
        if lecturer:
            found[f"{lesson.name}-slides"] = partial(slides_page, number)
            found[f"{lesson.name}-handout"] = partial(handout_page, number)
    if lecturer:
        found |= {"exam": partial(exam_page, solved=True), "exam-paper": partial(exam_page, solved=False)}
    if address is not None:
        found["join"] = partial(join_page, address)
    return found


def export(folder: str | Path, lecturer: bool = False, overwrite: bool = False) -> Sequence[Path]:
    """Write all pages of an edition to a folder, which is made if it does not exist, and return their paths."""
    place = Path(folder)
    found = {place / f"{name}.html": make for name, make in makers(lecturer).items()}
    place.mkdir(parents=True, exist_ok=True)
    for path in found:
        check_target(path, overwrite=overwrite, name="pages")
    for path, make in found.items():
        with replacing(path, overwrite=overwrite, name="pages") as temporary:
            Path(temporary).write_text(make(), encoding="utf-8")
    return list(found)
