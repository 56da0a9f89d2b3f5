"""The results of a survey: shares by question, wave and group, who gave no answer, and what changed between waves.

All outputs of one run are made from the same tables, so a number is the same to the last digit in all of them.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adobest_pp import __version__
from adobest_pp._checks import check_path
from adobest_pp._files import check_target, replacing
from adobest_pp._text import csv_cell
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.responses import Responses
from adobest_pp.estimates import association, estimate, numbers_in_bins, ordered_quantiles
from adobest_pp.estimates.changes import Measured, change_between
from adobest_pp.estimates.estimate import raked_weights, terms_of_people
from adobest_pp.report.handout import has_excel
from adobest_pp.survey.budget import spending
from adobest_pp.survey.collecting import PERSON, Answers, read_answers
from adobest_pp.survey.definition import Survey, SurveyQuestion, read_survey

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import xarray as xr

TABLES = ("estimates", "scales", "changes", "response", "associations")
# The measures of a question with an order.
QUANTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
# The variables of `numbers_in_bins`: the estimate, and the ends of its interval.
MEAN_AND_QUANTILES = (("mean", "value"), ("mean_lower", "lower"), ("mean_upper", "upper"))
# The fewest people who answered both questions from whom an association is estimated.
LEAST_BOTH = 50


class SurveyResult(NamedTuple):
    """The estimates of a survey.

    Attributes
    ----------
    survey : Survey
        What was asked.
    datasets : dict
        By wave and question, what `adobest_pp.estimate` returns.
    estimates : pandas.DataFrame
        One row for each wave, question, group and category: ``share``, ``lower`` and ``upper`` of its 95 % interval,
        the unbiased ``direct`` estimate, ``people`` and ``effective_people`` of the group, and the share of the
        interval's width that is due to ``privacy``. ``column`` is empty for everybody.
    scales : pandas.DataFrame
        One row for each wave, question with an order, and ``measure`` of everybody (median and quartiles; of numbers in
        bins also the mean): its ``value``, ``lower`` and ``upper`` of its 95 % interval, and ``in_words``. Values are
        numbers if the question has bins, otherwise labels.
    changes : pandas.DataFrame
        One row for each question, category and two waves that follow each other: the ``change`` of everybody's share,
        with its interval, and how many people answered in both.
    response : pandas.DataFrame
        One row for each wave, question and group: how many were ``asked``, and how many ``answered``.
    associations : pandas.DataFrame
        If the survey asks for them, one row for each wave and two sensitive questions: how many ``people`` answered
        both, and Cramér's V with its interval: 0 if they are independent, 1 if one determines the other.
    left_out : list of dict
        Groups with too few answers for an estimate.
    seed : int
        The seed with which the numbers can be reproduced.
    """

    survey: Survey
    datasets: "dict[tuple[str, str], xr.Dataset]"
    estimates: "pd.DataFrame"
    scales: "pd.DataFrame"
    changes: "pd.DataFrame"
    response: "pd.DataFrame"
    associations: "pd.DataFrame"
    left_out: list[dict[str, Any]]
    seed: int


def estimate_survey(
    path: str | os.PathLike[str], random_seed: int = 1, advance: Callable[[str], None] = lambda done: None
) -> SurveyResult:
    """Estimate every question of a survey in every wave that has answers, for everybody and by group.

    Parameters
    ----------
    path : path
        The survey; its answers are in the folder beside it.
    random_seed : int, default 1
        The same seed gives the same numbers.
    advance : callable, optional
        Called with the name of a question when it is done.

    Returns
    -------
    SurveyResult
        Tables, and what `adobest_pp.estimate` returned.
    """
    survey = read_survey(path)
    found = {
        (wave, each.name): answers
        for wave in survey.waves
        for each in survey.questions
        if (answers := read_answers(path, wave, each.name)) is not None and len(answers.responses)
    }
    if not found:
        raise ValueError(
            f"the survey must have answers, got none: adobest survey collect {os.fspath(path)} comes first"
        )
    return estimate_answers(survey, found, random_seed, advance)


def estimate_answers(
    survey: Survey,
    answers: dict[tuple[str, str], Answers],
    random_seed: int = 1,
    advance: Callable[[str], None] = lambda done: None,
) -> SurveyResult:
    """Estimate answers to the questions of a survey, by wave and question; see `estimate_survey`."""
    import pandas as pd

    datasets: dict[tuple[str, str], xr.Dataset] = {}
    response: list[dict[str, Any]] = []
    scales: list[dict[str, Any]] = []
    measured: dict[tuple[str, str], Measured] = {}
    for (wave, name), given in answers.items():
        response += _response(survey, wave, name, given)
        known = given.public.answered
        columns = {column: known[column] for column in survey.people.groups if column in known}
        weights, margins = given.weights(survey.people.weight), _margins(survey, columns)
        question = survey.question(name)
        try:
            datasets[wave, name] = estimate(
                given.responses,
                groups=columns or None,
                weights=weights,
                margins=margins,
                ordered=question.has_order,
                random_seed=random_seed,
            )
            raked, cells = raked_weights(columns or None, weights, margins, len(given.responses))
            measured[wave, name] = _measured(datasets[wave, name], given, raked, cells)
            if question.has_order:
                about = {"wave": wave, "question": name}
                scales += [about | row for row in _scales(question, given.responses, raked, random_seed)]
        except ValueError as problem:
            raise ValueError(f"question {name!r}, wave {wave!r}: {problem}") from None
        advance(f"{name}, {wave}")
    rows = [row for (wave, name), found in datasets.items() for row in _rows(survey, wave, name, found)]
    left_out = [
        {"wave": wave, "question": name, "group": group, "people": people}
        for (wave, name), found in datasets.items()
        for group, people in json.loads(found.attrs["left_out"]).items()
    ]
    estimates = pd.DataFrame(rows)
    measures = pd.DataFrame(scales, columns=["wave", "question", "measure", "value", "lower", "upper", "in_words"])
    tables = (estimates, measures, _changes(survey, measured), pd.DataFrame(response))
    return SurveyResult(survey, datasets, *tables, _associations(survey, answers, random_seed), left_out, random_seed)


def _margins(survey: Survey, columns: dict[str, list[Any]]) -> dict[str, dict[str, float]] | None:
    """Return the margins without cells in which nobody answered, whose mass goes to the others."""
    found = {}
    for column, margin in survey.margins.items():
        if column not in columns:
            continue  # people on their own devices are not asked for it
        present = {str(label) for label in columns[column]}
        kept = {label: share for label, share in margin.items() if label in present}
        total = sum(kept.values())
        found[column] = {label: share / total for label, share in kept.items()}
    return found or None


def _response(survey: Survey, wave: str, question: str, answers: Answers) -> list[dict[str, Any]]:
    """Return how many were asked and answered, for everybody and by group."""
    answered, silent = answers.public
    still = answers.silent()
    rows = []
    for column in ("", *(each for each in survey.people.groups if each in answered)):
        given = Counter(answered[column] if column else ["everybody"] * len(answers.responses))
        none = Counter(silent[column][i] if column else "everybody" for i in still)
        for label in sorted({*given, *none}, key=str):
            asked = given[label] + none[label]
            rows.append(
                {"wave": wave, "question": question, "column": column, "group": label, "asked": asked}
                | {"answered": given[label]}
            )
    return rows


def _rows(survey: Survey, wave: str, name: str, found: "xr.Dataset") -> list[dict[str, Any]]:
    """Return the estimates of a question in a wave as rows of a table."""
    sensitive, labels = survey.question(name).sensitive, found["category"].values.tolist()
    by_group = {key: found[key].values.tolist() for key in ("column", "label", "people", "effective_people")}
    numbers = ("share", "lower", "upper", "direct", "in_words", "interval", "privacy")
    by_cell = {key: found[key].values.tolist() for key in numbers}
    rows = []
    for i in range(found.sizes["group"]):
        about = {"wave": wave, "question": name, "column": by_group["column"][i], "group": by_group["label"][i]}
        people = {key: by_group[key][i] for key in ("people", "effective_people")}
        for j, category in enumerate(labels):
            cells = {key: by_cell[key][i][j] for key in numbers}
            # No part of the interval of an open question is due to privacy.
            rows.append(about | {"category": category} | cells | people | ({} if sensitive else {"privacy": 0.0}))
    return rows


def _scales(question: SurveyQuestion, responses: Responses, weights: Floats, seed: int) -> list[dict[str, str | float]]:
    """Return median and quartiles of everybody, and the mean of numbers, with intervals, as rows of a table."""
    if list(responses.categories) != question.labels:
        raise ValueError("labels and bins must be those that people were asked with, in their order: undo the change")
    wanted = list(QUANTILES.values())
    if question.bins is None:
        found = ordered_quantiles(responses, wanted, weights=weights, random_seed=seed)
        values = [found[name].values.tolist() for name in ("category", "lower", "upper")]
        rows = dict(zip(QUANTILES, zip(*values, strict=True), strict=True))
    else:
        found = numbers_in_bins(responses, question.bins, wanted, weights=weights, random_seed=seed)
        ends = [(found[mean], found[value]) for mean, value in MEAN_AND_QUANTILES]
        # Twelve digits are the same in every file, also in workbooks.
        values = [[float(f"{each:.12g}") for each in (mean.item(), *by.values)] for mean, by in ends]
        rows = dict(zip(("mean", *QUANTILES), zip(*values, strict=True), strict=True))
    return [
        {"measure": measure, "value": value, "lower": lower, "upper": upper}
        | {"in_words": f"{_shown(value)} ({_shown(lower)} to {_shown(upper)})"}
        for measure, (value, lower, upper) in rows.items()
    ]


def _shown(value: str | float) -> str:
    """Return a label, or a number with four digits, or all digits of a whole part that is longer."""
    if isinstance(value, str):
        return value
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _associations(survey: Survey, answers: dict[tuple[str, str], Answers], seed: int) -> "pd.DataFrame":
    """Return how strongly two sensitive questions are associated, among people who answered both."""
    import pandas as pd

    rows = []
    names = [each.name for each in survey.private_questions] if survey.budget.associations else []
    for wave, (one, two) in product(survey.waves, combinations(names, 2)):
        if (wave, one) not in answers or (wave, two) not in answers:
            continue
        first, second = answers[wave, one], answers[wave, two]
        places = {person: i for i, person in enumerate(second.public.answered.get(PERSON, ()))}
        pairs = [(i, places[p]) for i, p in enumerate(first.public.answered.get(PERSON, ())) if p in places]
        if len(pairs) < LEAST_BOTH:
            continue
        left, right = (list(each) for each in zip(*pairs, strict=True))
        weights = first.weights(survey.people.weight)
        both = _some(first.responses, left), _some(second.responses, right)
        found = association(*both, weights=None if weights is None else weights[left], random_seed=seed)
        strength = {key: float(found[key].item()) for key in ("cramers_v", "cramers_v_lower", "cramers_v_upper")}
        rows.append({"wave": wave, "first": one, "second": two, "people": len(pairs)} | strength)
    columns = ["wave", "first", "second", "people", "cramers_v", "cramers_v_lower", "cramers_v_upper"]
    return pd.DataFrame(rows, columns=columns)


def _some(responses: Responses, places: list[int]) -> Responses:
    """Return the answers at these places, in this order."""
    return Responses.from_xarray(responses.to_xarray().isel(response=places))


def _measured(found: "xr.Dataset", answers: Answers, weights: Floats, cells: Integers | None) -> Measured:
    """Return everybody's shares in a wave, as the change to another wave needs them."""
    direct, lower, upper = (found[name].values[0] for name in ("direct", "lower", "upper"))
    people = answers.public.answered.get(PERSON, ())  # nobody is known on their own devices
    terms = terms_of_people(answers.responses, weights, cells) if people else np.empty((0, direct.size))
    return Measured(direct, lower, upper, terms, people)


def _changes(survey: Survey, measured: dict[tuple[str, str], Measured]) -> "pd.DataFrame":
    """Return the change of everybody's shares between waves that follow each other, with 95 % intervals."""
    import pandas as pd

    rows = []
    for (before, after), question in product(pairwise(survey.waves), survey.questions):
        keys = (before, question.name), (after, question.name)
        if not all(key in measured for key in keys):
            continue
        found = change_between(*(measured[key] for key in keys))
        about = {"question": question.name, "before": before, "after": after, "people_in_both": found.people}
        for i, category in enumerate(question.labels):
            ends = {"change": found.change[i], "lower": found.lower[i], "upper": found.upper[i]}
            rows.append(about | {"category": category} | {name: float(value) for name, value in ends.items()})
    columns = ["question", "category", "before", "after", "change", "lower", "upper", "people_in_both"]
    return pd.DataFrame(rows, columns=columns)


def change_in_words(change: float, lower: float, upper: float) -> str:
    """Return a change in percentage points, and whether its direction is known."""
    points = f"{100 * change:+.1f} points ({100 * lower:+.1f} to {100 * upper:+.1f})"
    if lower > 0 or upper < 0:
        return f"{'more' if lower > 0 else 'fewer'}: {points}"
    return f"unclear: {points}"


def write_tables(result: SurveyResult, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write the tables of a survey as CSV and JSON, and as an Excel workbook if openpyxl is installed.

    The parameters are those of `adobest_pp.survey.pages.write_report`.
    """
    place = check_path(folder, "folder")
    names = [*(f"{name}.csv" for name in TABLES), "estimates.json", *(["estimates.xlsx"] if has_excel() else [])]
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        check_target(place / name, overwrite=overwrite, name="folder")
    tables = {name: getattr(result, name).map(csv_cell) for name in TABLES}
    for name, table in tables.items():
        with replacing(place / f"{name}.csv") as path:
            table.to_csv(path, index=False, encoding="utf-8-sig")
    with replacing(place / "estimates.json") as path:
        path.write_text(json.dumps(as_json(result), ensure_ascii=False, indent=1), encoding="utf-8")
    if has_excel():
        import pandas as pd

        with replacing(place / "estimates.xlsx") as path, pd.ExcelWriter(path, engine="openpyxl") as book:
            for name, table in tables.items():
                table.to_excel(book, sheet_name=name, index=False)
    return [place / name for name in names]


def as_json(result: SurveyResult) -> dict[str, Any]:
    """Return the result as plain values."""
    survey = result.survey
    made = spending(survey)
    return {
        "title": survey.title,
        "epsilon": survey.budget.epsilon,
        "way": made.spending.way,
        "answer_epsilon": made.spending.epsilon,
        "questions": [
            {"name": each.name, "text": each.text, "labels": each.labels, "sensitive": each.sensitive}
            | {"ordered": each.has_order, "bins": each.bins}
            for each in survey.questions
        ],
        **{name: getattr(result, name).to_dict("records") for name in TABLES},
        "left_out": result.left_out,
        "seed": result.seed,
        "adobest_pp": __version__,
    }
