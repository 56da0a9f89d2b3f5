"""The page of a study: settings, how far it is, figures and tables."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adobest_pp._files import replacing
from adobest_pp._progress import SlowProgress
from adobest_pp._text import markdown
from adobest_pp.studies import summary
from adobest_pp.studies.batches import DONE, FAILED
from adobest_pp.studies.reading import axes_in

__all__ = ["INTERVALS", "how_far", "save", "settings_rows", "title", "write_page", "write_text"]

RESOLUTION = 110
INTERVALS = (
    f"Median over the runs, with the {summary.percent(summary.LEVEL)} bootstrap interval of the median in brackets. "
    "What does not depend on a number is shown for every value of it."
)


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

    summary.check_study(dataset)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    parts = [title(dataset), "## Settings", summary.markdown_table(["setting", "value"], settings_rows(dataset))]
    parts += ["## How far it is", how_far(dataset), "## Figures"]
    written: list[Path] = []
    measures = summary.measures_in(dataset)
    wanted = [(measure, *part) for measure in measures for part in _parts(dataset)]
    with SlowProgress(len(wanted), "writing the page", progressbar) as progress:
        for measure, suffix, where, part in wanted:
            if np.isfinite(summary.done(part, measure)).any():
                figure = plot_study(part, measure).ravel()[0].figure
                parts += save(figure, target, f"{measure}{suffix}", f"{measure}{where}", written)
            progress.advance(1)
    tables = [summary.medians(dataset, measure) for measure in measures]
    summary.write_csv(tables, target / "medians.csv")
    parts += ["## Tables", f"{INTERVALS} With quartiles and counts: [medians.csv](medians.csv)."]
    for table in tables:
        parts += [f"### {table.attrs['measure']}", summary.markdown_table(*summary.median_rows(table))]
    return [*written, target / "medians.csv", write_text(parts, target / "README.md")]


def _parts(dataset: xr.Dataset) -> Iterator[tuple[str, str, xr.Dataset]]:
    """Yield what fits into one figure, three axes of numbers: suffix of the file, what it is of, and the cells."""
    split = summary.varying(dataset, summary.numeric_axes(dataset))[:-3]
    levels = [[v for v in np.unique(dataset[name].values).tolist() if np.isfinite(v)] for name in split]
    for values in product(*levels):
        kept = np.ones(dataset.sizes["cell"], dtype=bool)
        for name, value in zip(split, values, strict=True):
            kept &= np.isnan(dataset[name].values.astype(float)) | (dataset[name].values == value)
        pairs = [*zip(split, map(summary.number, values), strict=True)]
        where = "".join(f", {summary.symbol(name)} = {value}" for name, value in pairs)
        yield "".join(f"_{name}{value}" for name, value in pairs), where, dataset.isel(cell=np.flatnonzero(kept))


def write_text(parts: Sequence[str], path: Path) -> Path:
    """Write the parts of a page, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def title(dataset: xr.Dataset) -> str:
    """Return the heading of a study's page."""
    return markdown(f"# Study {json.loads(dataset.attrs['study'])['name']!r}")


def settings_rows(dataset: xr.Dataset) -> list[tuple[str, Any]]:
    """Return what was run, for a table."""
    settings = json.loads(dataset.attrs["study"])
    rows = [
        ("run function", settings["run"]),
        ("seed", settings["seed"]),
        ("runs of each cell", dataset.sizes["run"]),
        ("cells", dataset.sizes["cell"]),
        ("study hash", dataset.attrs["study_hash"]),
        ("made with", ", ".join(f"{name} {at}" for name, at in json.loads(dataset.attrs["created_with"]).items())),
        *settings["settings"].items(),
    ]
    for name in axes_in(dataset):
        values = list(dict.fromkeys(dataset[name].values.tolist()))
        known = [value for value in values if value != "" and value == value]  # NaN is not itself
        rows.append((summary.symbol(name), ", ".join(map(str, known))))
    for accepted in json.loads(dataset.attrs["accepted_sources"]):
        rows.append((f"sources changed by {accepted['at']}", accepted["changed"]))
    return rows


def how_far(dataset: xr.Dataset) -> str:
    """Return how many runs are done, in words."""
    status, n_runs = dataset["status"], dataset.sizes["run"]
    n_done, n_failed = (int((status == code).sum()) for code in (DONE, FAILED))
    without = int((~(status == DONE).any("run")).sum())
    text = f"{n_done} of {status.size} runs are done" + (f", {n_failed} failed" if n_failed else "")
    text += f"; {without} of {status.sizes['cell']} cells have none" if without else ""
    if n_runs < summary.smallest_n(summary.LEVEL):
        text += (
            f". With {n_runs} runs no interval can hold the median with {summary.percent(summary.LEVEL)}: those in the "
            f"tables are within the range of the runs, which does with {summary.percent(1 - 2.0 ** (1 - n_runs))}"
        )
    return text + "."


def save(figure: Any, target: Path, name: str, caption: str, written: list[Path]) -> list[str]:
    """Save a figure, add its files to `written`, and return the page's part."""
    from adobest_pp.plots._saving import save_figure

    written += save_figure(figure, target, name, RESOLUTION)
    shown = markdown(caption)
    return [f"![{shown}]({name}.png)", f"{shown} ([SVG]({name}.svg))."]
