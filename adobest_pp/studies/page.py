"""The page of a study: settings, how far it is, figures and tables."""

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import adobest_pp
from adobest_pp._files import replacing
from adobest_pp._progress import SlowProgress
from adobest_pp.studies.measures import CELL
from adobest_pp.studies.methods import method_label
from adobest_pp.studies.outcomes import FAILED
from adobest_pp.studies.run_intervals import LEVEL, smallest_n
from adobest_pp.studies.summary import (
    done,
    markdown_table,
    medians,
    percent,
    write_csv,
    write_markdown,
)

__all__ = ["check_study", "completeness", "contents", "draw", "save", "settings_rows", "title", "write_page"]
__all__ += ["write_parts", "write_settings", "write_tables"]

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
    check_study(dataset)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    studies = {"study": dataset}
    with SlowProgress(3, "writing the page", progressbar) as progress:
        written = [*write_tables(studies, target), write_settings(studies, target)]
        progress.advance(1)
        figures, drawn = draw(dataset, target)
        progress.advance(2)
    settings = markdown_table(["setting", "value"], settings_rows(dataset))
    parts = [title(dataset), "## Settings", settings, *completeness(studies), "## Figures", *figures]
    page = write_parts([*parts, *contents(written)], target)
    return [*drawn, *written, page]


def check_study(dataset: xr.Dataset) -> None:
    """Refuse what is no study."""
    if not isinstance(dataset, xr.Dataset) or not {"cell", "run"} <= set(dataset.dims):
        raise ValueError(f"dataset must be a study, with the dimensions cell and run, got {type(dataset).__name__}")


def write_parts(parts: list[str], target: Path) -> Path:
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
        ("seed", settings.get("seed", "not recorded")),
        ("runs of each cell", dataset.sizes["run"]),
        ("cells", dataset.sizes["cell"]),
        ("people in a run", _people(settings)),
        ("adobest_pp that ran it", dataset.attrs.get("adobest_pp_version", "not recorded")),
        ("study hash", dataset.attrs.get("study_hash", "not recorded")),
    ]
    for name, symbol in (("K", "K"), ("epsilon", "ε"), ("kappa", "κ"), ("rho", "ρ")):
        values = np.unique(dataset[name].values.astype(float))
        rows.append((symbol, ", ".join(f"{value:g}" for value in values if np.isfinite(value)) or "none"))
    rows.append(("methods", ", ".join(map(method_label, dict.fromkeys(dataset["method"].values.tolist())))))
    return rows


def _people(settings: dict[str, Any]) -> str:
    each = settings.get("people_per_category")
    return "not recorded" if each is None else f"{each} for each category"


def completeness(studies: Mapping[str, xr.Dataset | None]) -> list[str]:
    """Return the section on how many runs are done."""
    lines = []
    for name, dataset in studies.items():
        if dataset is not None:
            lines.append(f"- {name.replace('_', ' ')}: {_progress(dataset)}")
    return ["## How far it is", "\n".join(lines)]


def _progress(dataset: xr.Dataset) -> str:
    measure = next((name for name in ("tv", "exact_tv", "mean_size") if name in dataset), None)
    if measure is None:
        return "no measure that this page shows"
    finished = np.isfinite(done(dataset, measure))
    failed = int((dataset["status"].values == FAILED).sum()) if "status" in dataset else 0
    text = f"{finished.sum()} of {finished.size} runs are done" + (f", {failed} failed" if failed else "")
    if not finished.all():
        without = ~finished.any(axis=1)
        lacking = dict.fromkeys(dataset["method"].values[~finished.all(axis=1)].tolist())
        text += f"; missing are runs of {', '.join(map(method_label, lacking))}"
        text += f"; {without.sum()} of {without.size} cells have none" if without.any() else ""
    if dataset.sizes["run"] < smallest_n(LEVEL):
        share = 1 - 2.0 ** (1 - dataset.sizes["run"])
        text += (
            f". With {dataset.sizes['run']} runs no interval can hold the median with {percent(LEVEL)}: those in the "
            f"tables are within the range of the runs, which does with {percent(share)}"
        )
    return text + "."


def draw(dataset: xr.Dataset, target: Path, *, boxes: str = "", sizes: str = "") -> tuple[list[str], list[Path]]:
    """Draw what the study has the measures for.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study.
    target : Path
        The folder.
    boxes, sizes : str
        What to add to the captions of the box plots and of the subset sizes.

    Returns
    -------
    (list of str, list of Path)
        The page's part, and the files.
    """
    from adobest_pp import plots
    from adobest_pp.plots.study_plot import adaptive

    parts: list[str] = []
    written: list[Path] = []
    all_k = np.unique(dataset["K"].values).astype(int).tolist()
    for k in all_k:
        for measure, name in (("tv", "the cell's own estimate"), ("exact_tv", "the exact posterior mean")):
            if measure in dataset and np.isfinite(done(dataset, measure)[dataset["K"].values == k]).any():
                panels = plots.plot_tv_boxes(dataset, k, measure)
                caption = f"TV error of {name} by ε and method, K = {k}{boxes}"
                parts += save(panels.ravel()[0].figure, target, f"{measure}_boxes_K{k}", caption, written)
    for k in all_k:
        chosen = adaptive(dataset) & (dataset["K"].values == k)
        if "mean_size" in dataset and np.isfinite(done(dataset, "mean_size")[chosen]).any():
            panels = plots.plot_subset_sizes(dataset, k)
            caption = f"Average |S| by method, ρ and ε, K = {k}{sizes}; |S| = 0 is SRR on all categories"
            parts += save(panels[0].figure, target, f"subset_sizes_K{k}", caption, written)
    return parts, written


def save(figure: Any, target: Path, name: str, caption: str, written: list[Path]) -> list[str]:
    """Save a figure, add its files to `written`, and return the page's part."""
    from adobest_pp.plots._saving import save_figure

    written += save_figure(figure, target, name, RESOLUTION)
    return [f"![{caption}]({name}.png)", f"{caption} ([SVG]({name}.svg))."]


def write_tables(studies: Mapping[str, xr.Dataset | None], target: Path) -> list[Path]:
    """Write the medians of every study and measure."""
    written = []
    for name, dataset in studies.items():
        measures = ("tv", "exact_tv") if dataset is not None else ()
        for measure in (one for one in measures if dataset is not None and one in dataset):
            table = medians(dataset, measure)  # type: ignore[arg-type]
            stem = "medians" + ("" if name == "study" else f"_{name}") + ("" if measure == "tv" else f"_{measure}")
            for suffix, write in ((".csv", write_csv), (".md", write_markdown)):
                write(table, target / f"{stem}{suffix}")
                written.append(target / f"{stem}{suffix}")
    return written


def write_settings(studies: Mapping[str, xr.Dataset | None], target: Path) -> Path:
    """Write all that is needed to repeat the studies and the page."""
    recorded: dict[str, Any] = {
        name: {key: _decoded(value) for key, value in dataset.attrs.items()}
        | {"runs": dataset.sizes["run"], "cells": dataset.sizes["cell"], "cell_fields": list(CELL)}
        for name, dataset in studies.items()
        if dataset is not None
    }
    libraries = {name: version(name) for name in ("numpy", "scipy", "xarray", "matplotlib")}
    recorded["page_made_with"] = {
        "adobest_pp": adobest_pp.__version__,
        "python": platform.python_version(),
        **libraries,
    }
    path = target / "settings.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(recorded, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _decoded(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def contents(written: list[Path]) -> list[str]:
    """Return the section with links to tables and settings."""
    meanings = {
        ".csv": "medians, quartiles and intervals",
        ".md": "the same, to read",
        ".json": "seed, versions, study",
    }
    lines = [f"- [{path.name}]({path.name}): {meanings[path.suffix]}" for path in written if path.suffix in meanings]
    return ["## Tables and settings", "\n".join(lines)]
