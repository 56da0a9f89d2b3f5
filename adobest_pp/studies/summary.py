"""Tables of a study: medians with intervals, as a dataset, CSV and Markdown.

Of the axes of a grid, those of text (mechanism, utility, …) name what is compared: together they are the label of a
cell. Those of numbers say where: a line of a table, a place in a figure. A cell that does not have one of the numbers
stands beside every value that others have.
"""

import csv
import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._files import replacing
from adobest_pp._text import brief
from adobest_pp.studies.batches import DONE, FAILED
from adobest_pp.studies.reading import axes_in
from adobest_pp.studies.run_intervals import LEVEL, RESAMPLES, SEED, bootstrap_medians

__all__ = ["check_study", "done", "markdown_table", "measures_in", "medians", "number", "numeric_axes", "percent"]
__all__ += ["shown", "symbol", "varying", "write_csv", "write_markdown"]

MEANINGS = {
    "median": "median of the runs",
    "q25": "lower quartile of the runs",
    "q75": "upper quartile of the runs",
    "lower": "lower bound of the interval of the median",
    "upper": "upper bound of the interval of the median",
    "runs_done": "number of runs done",
    "runs_failed": "number of runs that failed",
    "runs_asked": "number of runs asked for",
}
_OF_THE_STORE = ("seconds", "finished_at", "error", "status")


def check_study(dataset: Any) -> None:
    """Raise ValueError for what is no study."""
    if not isinstance(dataset, xr.Dataset) or not {"cell", "run"} <= set(dataset.dims) or "status" not in dataset:
        raise ValueError(f"dataset must be a study, with the dimensions cell and run, got {type(dataset).__name__}")


def measures_in(dataset: xr.Dataset) -> list[str]:
    """Return the names of the measures of a study, in the order of its file."""
    asked = json.loads(dataset.attrs.get("study", "{}")).get("measures", [])
    found = [str(name) for name, values in dataset.data_vars.items() if {"cell", "run"} == set(values.dims)]
    return [name for name in dict.fromkeys([*asked, *found]) if name in found and name not in _OF_THE_STORE]


def done(dataset: xr.Dataset, measure: str) -> NDArray[np.float64]:
    """Return a measure, of shape (cell, run), with NaN wherever the run is not done."""
    if measure not in (known := measures_in(dataset)):
        raise ValueError(f"measure must be one of {', '.join(map(repr, known))}, got {brief(measure)}")
    return np.asarray(dataset[measure].where(dataset["status"] == DONE).transpose("cell", "run"), dtype=np.float64)


def numeric_axes(dataset: xr.Dataset) -> list[str]:
    """Return the axes of numbers, in the order of the study's file."""
    return [name for name in axes_in(dataset) if dataset[name].dtype.kind in "iuf"]


def varying(dataset: xr.Dataset, names: Iterable[str]) -> list[str]:
    """Return those of the axes that have more than one value."""
    return [name for name in names if len(np.unique(dataset[name].values.astype(str))) > 1]


def symbol(name: str) -> str:
    """Return the Greek letter that an axis is named for, or its name."""
    try:
        return unicodedata.lookup(f"GREEK SMALL LETTER {name}")
    except KeyError:
        return name


def shown(dataset: xr.Dataset) -> xr.Dataset:
    """Label the cells, and repeat those that lack a number for every value that others have of it.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).

    Returns
    -------
    xarray.Dataset
        In the order of its axes of numbers, with the coordinate ``label``: the texts that differ between cells. A
        label that the dataset has already is kept.
    """
    check_study(dataset)
    result = dataset if "label" in dataset.coords else dataset.assign_coords(label=("cell", _labels(dataset)))
    names = numeric_axes(dataset)
    for name in names:
        values = result[name].values.astype(np.float64)
        known = np.unique(values[np.isfinite(values)])
        if known.size and known.size < values.size and np.isnan(values).any():
            pairs = [(i, value) for i, own in enumerate(values) for value in (known if np.isnan(own) else [own])]
            rows, filled = zip(*pairs, strict=True)
            result = result.isel(cell=list(rows)).assign_coords({name: ("cell", np.array(filled))})
    return result.isel(cell=np.lexsort([result[name].values for name in reversed(names)])) if names else result


def medians(dataset: xr.Dataset, measure: str) -> xr.Dataset:
    """Summarize the runs of each cell.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).
    measure : str
        One of its measures.

    Returns
    -------
    xarray.Dataset
        Along ``cell``, which are those of `shown`: ``median``, ``q25`` and ``q75``; ``lower`` and ``upper``, the
        bootstrap interval of the median (percentiles of 4000 resamples, the same for the same data); ``runs_done``,
        ``runs_failed``, ``runs_asked``. NaN where no run is done.
    """
    study = shown(dataset)
    values = done(study, measure)
    n_known = np.isfinite(values).sum(axis=1)
    columns = np.full((5, len(values)), np.nan)
    for n in np.unique(n_known[n_known > 0]):
        rows = np.flatnonzero(n_known == n)
        # As many runs are done in each of these rows: the finite ones first, in one array.
        finite = np.sort(values[rows], axis=1)[:, :n]
        columns[:3, rows] = np.quantile(finite, [0.5, 0.25, 0.75], axis=1)
        columns[3:, rows] = np.quantile(bootstrap_medians(finite), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    failed = (study["status"] == FAILED).sum("run").values
    filled = zip(MEANINGS, (*columns, n_known, failed, np.full(len(values), values.shape[1])), strict=True)
    variables = {name: ("cell", column, {"long_name": MEANINGS[name]}) for name, column in filled}
    coordinates = {name: ("cell", study[name].values) for name in (*axes_in(study), "label")}
    attributes = {"measure": measure, "level": LEVEL, "resamples": RESAMPLES, "bootstrap_seed": SEED}
    return xr.Dataset(variables, coords=coordinates, attrs=attributes)


def write_csv(tables: Sequence[xr.Dataset], path: Path) -> None:
    """Write what `medians` gave for some measures of one study, one row for each cell and measure."""
    fields = [*axes_in(tables[0]), *MEANINGS, "label"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["measure", *fields])
        for table in tables:
            for row in zip(*(table[name].values.tolist() for name in fields), strict=True):
                writer.writerow([table.attrs["measure"], *map(_plain, row)])


def write_markdown(tables: Sequence[xr.Dataset], path: Path) -> None:
    """Write what `medians` gave as a table for each measure: a line for each place, a column for each label."""
    parts = [
        "# Medians",
        f"Median over the runs, with the {percent(LEVEL)} bootstrap interval of the median in brackets. What does not "
        "depend on a number is shown for every value of it.",
    ]
    for table in tables:
        names = list(dict.fromkeys(table["label"].values.tolist()))
        places = varying(table, numeric_axes(table))
        headings = [*map(symbol, places), *(name or "median" for name in names)]
        parts += [f"## {table.attrs['measure']}", markdown_table(headings, _wide_rows(table, places, names))]
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table; a pipe within a cell is escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: float, digits: int = 3) -> str:
    """Return a number for a table, a dash where there is none."""
    return f"{value:.{digits}g}".replace("-", "−") if np.isfinite(value) else "–"


def percent(share: float, decimals: int = 0) -> str:
    """Return a share as a percentage, such as ``"95 %"``."""
    return f"{100 * share:.{decimals}f} %".replace("-", "−")


def _labels(dataset: xr.Dataset) -> NDArray[np.object_]:
    texts = [name for name in axes_in(dataset) if dataset[name].dtype.kind not in "iuf"]
    columns = [dataset[name].values.astype(str).tolist() for name in varying(dataset, texts)]
    rows = zip(*columns, strict=True) if columns else [()] * dataset.sizes["cell"]
    return np.array([", ".join(filter(None, row)) for row in rows], dtype=object)


def _wide_rows(table: xr.Dataset, places: list[str], names: list[str]) -> list[list[str]]:
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for i, name in enumerate(table["label"].values.tolist()):
        place = tuple(number(float(table[field].values[i]), 6) for field in places)
        middle, lower, upper = (float(table[field].values[i]) for field in ("median", "lower", "upper"))
        text = f"{number(middle)} [{number(lower)}, {number(upper)}]" if np.isfinite(middle) else "–"
        rows.setdefault(place, {})[name] = text
    return [[*place, *(cells.get(name, "") for name in names)] for place, cells in rows.items()]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.10g}"
    return value
