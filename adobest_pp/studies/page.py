"""The page of a study: settings, how far it is, figures and tables."""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import adobest_pp
from adobest_pp._files import replacing
from adobest_pp._progress import SlowProgress
from adobest_pp.studies.batches import DONE, FAILED
from adobest_pp.studies.reading import axes_in
from adobest_pp.studies.run_intervals import LEVEL, smallest_n
from adobest_pp.studies.summary import (
    check_study,
    done,
    markdown_table,
    measures_in,
    medians,
    number,
    numeric_axes,
    percent,
    symbol,
    varying,
    write_csv,
    write_markdown,
)

__all__ = ["contents", "how_far", "save", "settings_rows", "title", "write_page", "write_parts", "write_settings"]
__all__ += ["write_tables"]

RESOLUTION = 110


def write_page(dataset: xr.Dataset, folder: str | Path, *, progressbar: bool = False) -> list[Path]:
    """Write figures, tables, settings and the page (``README.md``) of a study, finished or not.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).
    folder : path
        Where to write; made if it is not there. Files of the same names are replaced.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    list of Path
        What was written, the page last.
    """
    from adobest_pp.plots import plot_study

    check_study(dataset)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    figures: list[str] = []
    drawn: list[Path] = []
    wanted = [(measure, *part) for measure in measures_in(dataset) for part in _parts(dataset)]
    with SlowProgress(len(wanted) + 1, "writing the page", progressbar) as progress:
        written = [*write_tables(dataset, measures_in(dataset), target), write_settings({"study": dataset}, target)]
        progress.advance(1)
        for measure, suffix, where, part in wanted:
            if np.isfinite(done(part, measure)).any():
                figure = plot_study(part, measure).ravel()[0].figure
                figures += save(figure, target, f"{measure}{suffix}", f"{measure}{where}", drawn)
            progress.advance(1)
    settings = markdown_table(["setting", "value"], settings_rows(dataset))
    parts = [title(dataset), "## Settings", settings, "## How far it is", how_far(dataset), "## Figures", *figures]
    return [*drawn, *written, write_parts([*parts, *contents(written)], target)]


def _parts(dataset: xr.Dataset) -> Iterator[tuple[str, str, xr.Dataset]]:
    """Yield what fits into one figure, three axes of numbers: suffix of the file, what it is of, and the cells."""
    split = varying(dataset, numeric_axes(dataset))[:-3]
    levels = [[v for v in np.unique(dataset[name].values).tolist() if np.isfinite(v)] for name in split]
    for values in product(*levels):
        kept = np.ones(dataset.sizes["cell"], dtype=bool)
        for name, value in zip(split, values, strict=True):
            kept &= np.isnan(dataset[name].values.astype(float)) | (dataset[name].values == value)
        pairs = [*zip(split, map(number, values), strict=True)]
        where = "".join(f", {symbol(name)} = {value}" for name, value in pairs)
        yield "".join(f"_{name}{value}" for name, value in pairs), where, dataset.isel(cell=np.flatnonzero(kept))


def write_parts(parts: Sequence[str], target: Path) -> Path:
    """Write the page, whole or not at all."""
    page = target / "README.md"
    with replacing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def title(dataset: xr.Dataset) -> str:
    """Return the heading of a study's page."""
    settings = json.loads(dataset.attrs.get("study", "{}"))
    return f"# Study {settings['name']!r}" if "name" in settings else "# A study"


def settings_rows(dataset: xr.Dataset) -> list[tuple[str, Any]]:
    """Return what was run, for a table."""
    settings = json.loads(dataset.attrs.get("study", "{}"))
    rows = [
        ("study", settings.get("name", "not recorded")),
        ("run function", settings.get("run", "not recorded")),
        ("seed", settings.get("seed", "not recorded")),
        ("runs of each cell", dataset.sizes["run"]),
        ("cells", dataset.sizes["cell"]),
        ("adobest_pp that ran it", dataset.attrs.get("adobest_pp_version", "not recorded")),
        ("study hash", dataset.attrs.get("study_hash", "not recorded")),
        *settings.get("settings", {}).items(),
    ]
    for name in axes_in(dataset):
        values = list(dict.fromkeys(dataset[name].values.tolist()))
        known = [value for value in values if value != "" and value == value]  # NaN is not itself
        rows.append((symbol(name), ", ".join(map(str, known))))
    for accepted in json.loads(dataset.attrs.get("accepted_sources", "[]")):
        rows.append((f"sources changed by {accepted['at']}", accepted["changed"]))
    return rows


def how_far(dataset: xr.Dataset) -> str:
    """Return how many runs are done, in words."""
    status = dataset["status"]
    n_done, n_failed = (int((status == code).sum()) for code in (DONE, FAILED))
    without = int((~(status == DONE).any("run")).sum())
    text = f"{n_done} of {status.size} runs are done" + (f", {n_failed} failed" if n_failed else "")
    text += f"; {without} of {status.sizes['cell']} cells have none" if without else ""
    if dataset.sizes["run"] < smallest_n(LEVEL):
        share = 1 - 2.0 ** (1 - dataset.sizes["run"])
        text += (
            f". With {dataset.sizes['run']} runs no interval can hold the median with {percent(LEVEL)}: those in the "
            f"tables are within the range of the runs, which does with {percent(share)}"
        )
    return text + "."


def save(figure: Any, target: Path, name: str, caption: str, written: list[Path]) -> list[str]:
    """Save a figure, add its files to `written`, and return the page's part."""
    from adobest_pp.plots._saving import save_figure

    written += save_figure(figure, target, name, RESOLUTION)
    return [f"![{caption}]({name}.png)", f"{caption} ([SVG]({name}.svg))."]


def write_tables(dataset: xr.Dataset, measures: Sequence[str], target: Path, stem: str = "medians") -> list[Path]:
    """Write the medians of some measures as CSV and as Markdown."""
    tables = [medians(dataset, measure) for measure in measures]
    paths = [target / f"{stem}.csv", target / f"{stem}.md"]
    for path, write in zip(paths, (write_csv, write_markdown), strict=True):
        write(tables, path)
    return paths


def write_settings(studies: Mapping[str, xr.Dataset | None], target: Path) -> Path:
    """Write all that is needed to repeat the studies and the page."""
    recorded: dict[str, Any] = {
        name: {key: _decoded(value) for key, value in dataset.attrs.items()}
        | {"runs": dataset.sizes["run"], "cells": dataset.sizes["cell"], "axes": axes_in(dataset)}
        for name, dataset in studies.items()
        if dataset is not None
    }
    libraries = {name: version(name) for name in ("numpy", "scipy", "xarray", "matplotlib")}
    made_with = {"adobest_pp": adobest_pp.__version__, "python": platform.python_version()}
    recorded["page_made_with"] = made_with | libraries
    path = target / "settings.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(recorded, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def contents(written: Sequence[Path]) -> list[str]:
    """Return the section with links to tables and settings."""
    meanings = {
        ".csv": "medians, quartiles and intervals",
        ".md": "the same, to read",
        ".json": "seed, versions, study",
    }
    lines = [f"- [{path.name}]({path.name}): {meanings[path.suffix]}" for path in written if path.suffix in meanings]
    return ["## Tables and settings", "\n".join(lines)]


def _decoded(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
