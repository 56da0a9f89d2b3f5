"""How a lesson looks, live in marimo and as a page without Python: one function for each of its parts.

Live, questions and exercises have widgets. In a page (a notebook that runs as a script) widgets would be dead, so the
same functions show the default state as plain HTML, with answers to unfold.
"""

import base64
import html
import io
import math
from typing import Any

import marimo as mo
from matplotlib.figure import Figure

from adobest_pp.teaching.old import OldExercise as Exercise
from adobest_pp.teaching.old import OldPrediction as Prediction
from adobest_pp.teaching.running import OFF, can_run

BOX = "border:1px solid #c9d4e3;border-left:5px solid {};border-radius:6px;padding:0.7em 1em;margin:0.6em 0;"
BLUE, GREEN, ORANGE = "#0072B2", "#009E73", "#D55E00"
DPI = 90


def prose(text: str) -> Any:
    """Show Markdown."""
    return mo.md(text)


def lecture(text: str) -> Any:
    """Show the lecturer's notes, folded."""
    return mo.Html(_folded("For the lecturer: one hour, thirty students", mo.md(text).text))


def code(text: str) -> Any:
    """Show Python code to read."""
    return mo.md(f"```python\n{text.strip()}\n```")


def canvas(
    columns: int = 1, rows: int = 1, size: tuple[float, float] = (9.0, 3.6), margins: tuple[float, ...] | None = None
) -> tuple[Figure, Any]:
    """Return a figure and its axes without pyplot, whose global state two readers at a time would share.

    Margins are left, right, bottom and top, as parts of the figure, and the space between columns, as a part of one.
    Where they are given, the time to find them is saved: a third of that of a picture.
    """
    figure = Figure(figsize=size, layout="constrained" if margins is None else None)
    axes = figure.subplots(rows, columns)
    if margins is not None:
        figure.subplots_adjust(**dict(zip(("left", "right", "bottom", "top", "wspace"), margins, strict=True)))
    return figure, axes


def picture(figure: Figure, description: str) -> Any:
    """Show a figure; the description says in words what it shows."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    data = base64.b64encode(file.getvalue()).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(description)}" style="max-width:100%">'
    return mo.Html(f'<div class="picture">{image}</div>')


def slider(label: str, steps: list[float], value: float) -> Any:
    """Return a slider over the given values; show it with `controls`."""
    return mo.ui.slider(steps=steps, value=value, label=label, show_value=True)


def choices(label: str, options: list[str]) -> Any:
    """Return a list to choose one from, the first by default; show it with `controls`."""
    return mo.ui.dropdown(options=options, value=options[0], label=label)


def controls(*elements: Any) -> Any:
    """Show sliders and lists beside each other."""
    if _live():
        return mo.hstack(list(elements), justify="start", gap=2, wrap=True)
    settings = " · ".join(f"{html.escape(_label(each))}: <b>{html.escape(_value(each.value))}</b>" for each in elements)
    return mo.Html(f'<p class="controls">{settings}. <i>The live lesson has sliders here.</i></p>')


def ask(question: Prediction, answer: Any) -> Any:
    """Show a question with its radio buttons, and what to say to the answer; `answer` is `mo.ui.radio(options)`."""
    title = mo.md(f"**Predict first.** {question.text}").text
    if not _live():
        options = "".join(f"<li>{html.escape(option)}</li>" for option in question.options)
        reply = mo.md(f"**{question.right}** {question.options[question.right]}").text
        return mo.Html(_boxed(f"{title}<ul>{options}</ul>{_folded('The answer', reply)}", BLUE))
    verdict = question.verdict(answer.value)
    if verdict is None:
        return mo.Html(_boxed(f"{title}{_spaced(answer)}", BLUE))
    right, why = verdict
    word, color = ("Right.", GREEN) if right else ("Not quite.", ORANGE)
    reply = mo.md(f"**{word}** {why}").text
    return mo.Html(_boxed(f'{title}{_spaced(answer)}<div class="verdict">{reply}</div>', color))


def editor(exercise: Exercise) -> Any:
    """Return an editor with the code to begin with, and a button that checks it; show it with `practise`."""
    return mo.ui.code_editor(exercise.start, language="python", min_height=120).form(submit_button_label="Check it")


def practise(exercise: Exercise, written: Any) -> Any:
    """Show an exercise with its editor, whether the code is right, and a solution to unfold."""
    title = mo.md(f"**Exercise.** {exercise.text}").text
    solution = _folded("A solution", code(exercise.solution).text)
    if not _live():
        return mo.Html(_boxed(title + code(exercise.start).text + solution, BLUE))
    result, color = "", BLUE
    if not can_run():
        result = f'<div class="verdict">{html.escape(OFF)}</div>'
    elif written.value is not None:
        right, message, printed = exercise.grade(written.value)
        color = GREEN if right else ORANGE
        word = "Right." if right else "Not yet."
        result = f'<div class="verdict"><b>{word}</b> {html.escape(message)}</div>'
        if printed:
            result += f'<div class="printed">Printed:<pre>{html.escape(printed)}</pre></div>'
    return mo.Html(_boxed(f"{title}{_spaced(written)}{result}{solution}", color))


def _live() -> bool:
    return mo.app_meta().mode in ("run", "edit")


def _boxed(inner: str, color: str) -> str:
    return f'<div class="box" style="{BOX.format(color)}">{inner}</div>'


def _spaced(element: Any) -> str:
    return f'<div style="margin:0.6em 0">{element}</div>'


def _folded(summary: str, inner: str) -> str:
    return f'<details style="margin:0.6em 0"><summary><b>{html.escape(summary)}</b></summary>{inner}</details>'


def _label(element: Any) -> str:
    return str(element._args.label)


def _value(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, int | float) and not math.isnan(value) else str(value)
