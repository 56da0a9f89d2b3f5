"""Write the folder of an estimate: tables, figures, and two pages for readers who are not statisticians."""

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adobest_pp import __version__
from adobest_pp._checks import check_path
from adobest_pp._files import check_target, replacing
from adobest_pp._text import brief, csv_cell, render
from adobest_pp._wording import most_sure, percent
from adobest_pp.diagnostics.grading import plain
from adobest_pp.estimates.estimate import EVERYBODY
from adobest_pp.likelihood.without_prior import misfit_in_words
from adobest_pp.report.folder import POLICY

# The columns of estimate.csv, estimate.xlsx and estimate.json, after the question.
COLUMNS = ("group", "category", "share", "lower", "upper", "interval", "in_words", "direct", "privacy", "people")

REPORT = "report.html"
TABLES = ("estimate.csv", "estimate.json", "estimate.xlsx")

# The most groups and categories that the pages list; the tables have all.
MOST_GROUPS, MOST_LISTED = 16, 12

PAPER = (
    "S. Aydin, S. Yildirim: Adaptive Online Bayesian Estimation of Frequency Distributions with Local Differential "
    "Privacy. ACM Transactions on Knowledge Discovery from Data, 2025. doi:10.1145/3706584"
)
CITE = (
    f"Shares were estimated from answers that were changed at random (local differential privacy), with "
    f"adobest_pp {__version__}."
)

Tables = Mapping[str, xr.Dataset]


def as_table(tables: Tables) -> Any:
    """Return the estimates of all questions as one long table, from which every file is written."""
    import pandas as pd  # type: ignore[import-untyped]

    parts = []
    for question, table in tables.items():
        frame = table[[name for name in COLUMNS if name in table.data_vars]].to_dataframe().reset_index()
        parts.append(frame[[*COLUMNS]].assign(question=question))
    return pd.concat(parts, ignore_index=True)[["question", *COLUMNS]]


def write_estimate(
    tables: Tables,
    folder: str | os.PathLike[str],
    *,
    title: str = "What the survey found",
    asked: Sequence[str] = (),
    protection: Sequence[str] = (),
    overwrite: bool = False,
) -> list[Path]:
    """Write estimates as tables, figures and a report of two pages.

    Parameters
    ----------
    tables : mapping of str to xarray.Dataset
        The result of `adobest_pp.estimate` for each question, by its text.
    folder : path
        Made if it does not exist.
    title : str
        The title of the report.
    asked, protection : sequence of str
        Sentences on how people were asked and protected, in place of the usual ones.
    overwrite : bool, default False
        Whether files of an earlier estimate may be replaced.

    Returns
    -------
    list of Path
        ``report.html``, which prints to two pages for one question; ``estimate.csv``; ``estimate.json``;
        ``estimate.xlsx``, if openpyxl is installed (``pip install "adobest-pp[xlsx]"``); and a figure for each
        question as PNG and SVG. All have the same numbers, to the last digit.
    """
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError(f"tables must be estimates by question, got {brief(tables)}")
    for table in tables.values():
        if not isinstance(table, xr.Dataset) or "share" not in table:
            raise ValueError(f"tables must be results of adobest_pp.estimate, got {brief(table)}")
    place = check_path(folder, "folder")
    place.mkdir(parents=True, exist_ok=True)
    pictures = {question: f"estimate-{i + 1}" for i, question in enumerate(tables)}
    names = [
        REPORT,
        *TABLES[: 2 + has_excel()],
        *(f"{each}.{end}" for each in pictures.values() for end in ("png", "svg")),
    ]
    for name in names:
        check_target(place / name, overwrite=overwrite, name="folder")
    frame = as_table(tables)
    figures = {question: _figure(table, place, pictures[question]) for question, table in tables.items()}
    with replacing(place / "estimate.csv", overwrite=overwrite) as path:
        frame.map(csv_cell).to_csv(path, index=False, encoding="utf-8-sig")
    with replacing(place / "estimate.json", overwrite=overwrite) as path:
        path.write_text(as_json(tables, frame), encoding="utf-8")
    if has_excel():
        with replacing(place / "estimate.xlsx", overwrite=overwrite) as path:
            _write_workbook(frame, tables, path)
    with replacing(place / REPORT, overwrite=overwrite) as path:
        path.write_text(page(tables, figures, title, asked, protection), encoding="utf-8")
    return [place / name for name in names]


def as_json(tables: Tables, frame: Any = None) -> str:
    """Return the estimates and their settings as JSON text."""
    rows = (as_table(tables) if frame is None else frame).to_dict("records")
    settings = {question: {name: plain(value) for name, value in t.attrs.items()} for question, t in tables.items()}
    content = {"adobest_pp": __version__, "settings": settings, "estimate": rows}
    return json.dumps(content, ensure_ascii=False, indent=1, default=plain)


def has_excel() -> bool:
    """Tell whether workbooks can be written."""
    from importlib.util import find_spec

    return find_spec("openpyxl") is not None


def _write_workbook(frame: Any, tables: Tables, path: Path) -> None:
    from openpyxl import Workbook  # type: ignore[import-untyped]
    from openpyxl.styles import Font  # type: ignore[import-untyped]

    book = Workbook()
    sheet = book.active
    sheet.title = "estimate"
    sheet.append(list(frame.columns))
    for row in frame.itertuples(index=False):
        sheet.append([csv_cell(plain(cell)) for cell in row])
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    shares = [i for i, name in enumerate(frame.columns) if name in ("share", "lower", "upper", "direct", "privacy")]
    for cells in sheet.iter_rows(min_row=2):
        for i in shares:
            cells[i].number_format = "0.0%"
    sheet.freeze_panes = "A2"
    for i, name in enumerate(frame.columns):
        sheet.column_dimensions[chr(65 + i)].width = {"question": 30, "in_words": 34, "group": 20}.get(name, 15)
    about = book.create_sheet("settings")
    about.append(["question", "setting", "value"])
    for question, table in tables.items():
        for name, value in table.attrs.items():
            about.append([csv_cell(question), name, csv_cell(plain(value))])
    book.save(path)


def _figure(table: xr.Dataset, folder: Path, name: str) -> str:
    """Save the figure of one question, and return it as SVG in base64."""
    import matplotlib.pyplot as plt

    from adobest_pp.plots._common import save_figure
    from adobest_pp.plots.draws import plot_shares

    with plt.style.context("default"):
        _, svg = save_figure(plot_shares(table).figure, folder, name, 150)
    return base64.b64encode(svg.read_bytes()).decode("ascii")


# The two pages, in words.


def page(
    tables: Tables, figures: Mapping[str, str], title: str, asked: Sequence[str] = (), protection: Sequence[str] = ()
) -> str:
    """Return the report as HTML."""
    return render(
        "adobest_pp.report",
        "handout.html",
        policy=POLICY,
        title=title,
        questions=[_section(question, table, figures.get(question, "")) for question, table in tables.items()],
        asked=list(asked) or _asked(tables),
        protection=list(protection) or _protection(tables),
        uncertain=_uncertain(tables),
        cite=CITE,
        paper=PAPER,
        settings=_settings(tables),
    )


def _section(question: str, table: xr.Dataset, figure: str) -> dict[str, Any]:
    everybody = table.sel(group=EVERYBODY)
    order = np.argsort(-everybody["share"].values, kind="stable")
    listed = table.isel(category=order[:MOST_LISTED]) if order.size > MOST_LISTED else table
    return {
        "text": question,
        "short": _in_short(everybody),
        "figure": figure,
        "rows": [_row(listed.sel(group=EVERYBODY), i) for i in range(listed.sizes["category"])],
        "left_out": table.sizes["category"] - listed.sizes["category"],
        "by": [_by_column(table, listed, column) for column in dict.fromkeys(_columns(table))],
        "misfit": misfit_in_words(float(table.attrs.get("fit_p_value", float("nan")))),
    }


def _columns(table: xr.Dataset) -> list[str]:
    pairs = zip(table["column"].values.tolist(), table["group"].values.tolist(), strict=True)
    return [column for column, group in pairs if group != EVERYBODY]


def _row(table: xr.Dataset, i: int) -> list[str]:
    one = table.isel(category=i)
    return [str(one["category"].item()), percent(one["share"]), str(one["interval"].item()), one["in_words"].item()]


def _in_short(everybody: xr.Dataset) -> str:
    first = int(everybody["share"].values.argmax())
    one = everybody.isel(category=first)
    lower = float(one["lower"])
    others = np.delete(everybody["upper"].values, first)
    share = f"“{one['category'].item()}”: {percent(one['share'])} of people (range: {one['interval'].item()})."
    if others.max(initial=0) < lower:
        return f"The most frequent answer is {share}"
    return f"The answer with the largest share is {share} The ranges overlap, so another answer may be more frequent."


def _by_column(table: xr.Dataset, listed: xr.Dataset, column: str) -> dict[str, Any]:
    """Return the table of groups: shares, intervals, and whether a group clearly differs from everybody."""
    columns, groups = table["column"].values, table["group"].values
    members = groups[(columns == column) & (groups != EVERYBODY)].tolist()
    overall, own = table["share"].sel(group=EVERYBODY, drop=True), table.sel(group=members)
    differs = (overall < own["lower"]) | (overall > own["upper"])
    rows = []
    for name in members[:MOST_GROUPS]:
        one = listed.sel(group=name)
        marks = differs.sel(group=name, category=one["category"]).values.tolist()
        cells = zip(map(percent, one["share"].values), one["interval"].values.tolist(), marks, strict=True)
        rows.append((one["label"].item(), int(one["people"]), list(cells)))
    return {
        "column": column or "group",
        "categories": listed["category"].values.tolist(),
        "rows": rows,
        "more": len(members) - len(rows),
        "marked": int(differs.sum()),
        "cells": differs.size,
        "by_chance": max(1, round(0.05 * differs.size)),
    }


def _asked(tables: Tables) -> list[str]:
    sentences = []
    for question, table in tables.items():
        labels = [f"“{each}”" for each in table["category"].values.tolist()]
        several = ", ".join(labels[:MOST_LISTED])
        if len(labels) > MOST_LISTED:
            several += f" and {len(labels) - MOST_LISTED:,} more"
        people = int(table.attrs["n_responses"])
        sentences.append(f"{people:,} people answered “{question}”. The possible answers were {several}.")
    return sentences


def _protection(tables: Tables) -> list[str]:
    epsilons = [float(table.attrs["epsilon"]) for table in tables.values()]
    sentences = [
        "Every answer was changed at random, by published rules, and everything here comes from the changed answers. "
        "If people's own devices changed them, nobody else has seen a true answer. An answer that was kept may be true "
        "or not, and nobody who sees it can be sure: not the people who ran the survey, and not somebody who steals "
        "the data.",
        f"How strong this is: somebody who thinks that two answers of a person are equally likely, and then sees the "
        f"changed answer, can be at most {most_sure(max(epsilons))} sure of one of them.",
    ]
    if len(epsilons) > 1:
        limit = most_sure(sum(epsilons))
        sentences.append(
            f"Somebody who sees one person's answers to all {len(epsilons)} questions can be at most {limit} sure."
        )
    return sentences


def _uncertain(tables: Tables) -> list[str]:
    everybody = [table.sel(group=EVERYBODY) for table in tables.values()]
    widths = [one["upper"].values - one["lower"].values for one in everybody]
    privacy = np.average(np.concatenate([one["privacy"].values for one in everybody]), weights=np.concatenate(widths))
    level = round(100 * float(everybody[0].attrs["probability"]))
    sentences = [
        f"The range after each percentage shows how far off it may be. If the same survey were repeated many times, "
        f"{level} of 100 such ranges would contain the true percentage.",
        "There are two reasons for a range. We asked some people and not all of them; and the answers were changed at "
        f"random to protect people. Here about {round(100 * privacy)} % of the width is the price of protection. The "
        "rest would remain if everybody had answered openly.",
        "“Up to 3 %” or “below 3 %” means that the percentage cannot be distinguished from zero. It does not mean that "
        "nobody gave this answer.",
    ]
    if any(_columns(table) for table in tables.values()):
        sentences.append(
            "Percentages of groups are partially pooled: a group with few people borrows from all others, so its "
            "percentage is closer to that of everybody than its own answers alone suggest. On average this makes it "
            "more accurate. Its range uses the group's own answers only, so it is valid even if this group is unlike "
            "all others."
        )
    if any(int(table.attrs.get("weighted", 0)) for table in tables.values()):
        sentences.append("Answers are weighted by the weights of the survey. The ranges take the weights into account.")
    if any(table.attrs.get("margins", "{}") != "{}" for table in tables.values()):
        sentences.append(
            "Answers are weighted so that groups count as much as they do in the population (post-stratification)."
        )
    left_out = {
        name: n for table in tables.values() for name, n in json.loads(table.attrs.get("left_out", "{}")).items()
    }
    if left_out:
        named = ", ".join(f"“{name}” ({n})" for name, n in left_out.items())
        sentences.append(f"Groups with too few people to estimate are included in everybody, but have no row: {named}.")
    return sentences


def _settings(tables: Tables) -> list[tuple[str, str]]:
    rows = [
        ("Shares of everybody", "posterior mean under a Dirichlet prior whose concentration is learned"),
        ("Shares of groups", "posterior mean of a hierarchical model around the shares of everybody (Fay and Herriot)"),
        ("Ranges", "confidence intervals after Feldman and Cousins, from the unbiased estimate of each group alone"),
        ("Weights", "design-based variances of weighted sums; raking to margins"),
    ]
    for question, table in tables.items():
        name = question if len(tables) > 1 else "Mechanism"
        rows.append((name, f"{table.attrs['mechanism']}, seed {table.attrs['random_seed']}"))
    return [*rows, ("Program", f"adobest_pp {__version__}")]
