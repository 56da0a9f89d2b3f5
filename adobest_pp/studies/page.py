"""The page of a study: figures, tables, and the paper's statements beside what the runs say."""

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import adobest_pp
from adobest_pp._files import replacing
from adobest_pp.samplers.progress import SlowProgress
from adobest_pp.studies.comparisons import LEVEL, smallest_n
from adobest_pp.studies.equal_privacy import equal_privacy_section, short_answer
from adobest_pp.studies.grids import Statement, paper_part, published_part
from adobest_pp.studies.measures import CELL
from adobest_pp.studies.methods import method_label
from adobest_pp.studies.outcomes import FAILED
from adobest_pp.studies.size_statements import honest_response_statement
from adobest_pp.studies.statements import METHODOLOGY, published_note, published_statements, statements
from adobest_pp.studies.summary import (
    done,
    markdown_table,
    medians,
    percent,
    write_csv,
    write_markdown,
)

__all__ = ["write_page"]

RESOLUTION = 110
_PAPER = (
    "S. Aydın and S. Yıldırım, *Bayesian Frequency Estimation Under Local Differential Privacy With an Adaptive "
    "Randomized Response Mechanism*, ACM Transactions on Knowledge Discovery from Data"
)


def write_page(
    dataset: xr.Dataset,
    folder: str | Path,
    as_published: xr.Dataset | None = None,
    equal_privacy: xr.Dataset | None = None,
    reference: str | Path | None = None,
    *,
    progressbar: bool = False,
) -> list[Path]:
    """Write figures, tables, settings and the page (``README.md``) of a study, finished or not.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).
    folder : path
        Where to write; made if it is not there. Files of the same names are replaced.
    as_published : xarray.Dataset, optional
        The study with the budgets of the authors' program, to set beside it.
    equal_privacy : xarray.Dataset, optional
        The study with SGLD's and the exact estimate from the same answers.
    reference : path, optional
        Errors of the authors' own program, CSV.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    list of Path
        What was written, the page last.
    """
    if not isinstance(dataset, xr.Dataset) or not {"cell", "run"} <= set(dataset.dims):
        raise ValueError(f"dataset must be a study, with the dimensions cell and run, got {type(dataset).__name__}")
    _check_others(as_published, equal_privacy, reference)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    studies = {"study": dataset, "as_published": as_published, "equal_privacy": equal_privacy}
    with SlowProgress(4, "writing the page", progressbar) as progress:
        short = short_answer(dataset, as_published, equal_privacy)
        answers = _statement_parts(dataset, as_published)
        progress.advance(1)
        answers += equal_privacy_section(dataset, as_published, equal_privacy, Path(reference) if reference else None)
        written = [*_tables(studies, target), _settings(studies, target)]
        progress.advance(1)
        figures, drawn = _figures(dataset, target)
        progress.advance(2)
    parts = [*_opening(dataset, short), *_completeness(studies), *answers, "## Figures", *figures]
    parts += ["## Tables and settings", *_closing(written)]
    page = target / "README.md"
    with replacing(page) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return [*drawn, *written, page]


def _check_others(
    as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None, reference: str | Path | None
) -> None:
    """Refuse studies that have nothing of what they are given for, which would be left out without a word."""
    if as_published is not None and published_part(as_published).sizes["cell"] == 0:
        raise ValueError("as_published must be a study with cells of budgets 'published', got one with none")
    if equal_privacy is not None:
        if "exact_tv" not in equal_privacy:
            known = ", ".join(map(repr, equal_privacy.data_vars))
            raise ValueError(f"equal_privacy must be a study with the measure 'exact_tv', got one with {known}")
        if paper_part(equal_privacy).sizes["cell"] == 0:
            raise ValueError("equal_privacy must be a study with cells of RRRR by SGLD as proved, got one with none")
    if reference is not None and as_published is None:
        raise ValueError("reference must be given with as_published, which it is compared with, got it alone")


def _opening(dataset: xr.Dataset, short: list[str]) -> list[str]:
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
    title = f"# Study {settings['name']!r}" if "name" in settings else "# A study"
    return [title, f"Beside the paper: {_PAPER}.", *short, "## Settings", markdown_table(["setting", "value"], rows)]


def _people(settings: dict[str, Any]) -> str:
    each = settings.get("people_per_category")
    return "not recorded" if each is None else f"{each} for each category"


def _completeness(studies: dict[str, xr.Dataset | None]) -> list[str]:
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


def _statement_parts(dataset: xr.Dataset, as_published: xr.Dataset | None) -> list[str]:
    found = statements(dataset)
    heading = "## What the paper says, and what these runs say"
    if not found:
        return [
            heading,
            "This study has none of the comparisons that the paper's statements are about: they are left out.",
        ]
    others = {} if as_published is None else {s.title: s for s in published_statements(as_published, dataset)}
    found.append(honest_response_statement())
    headings = ["", "statement", "verdict", *(["as published"] if others else [])]
    rows = [
        [i, one.title, one.verdict, *([others[one.title].verdict if one.title in others else "–"] if others else [])]
        for i, one in enumerate(found, 1)
    ]
    texts = [_statement(i, one, others.get(one.title)) for i, one in enumerate(found, 1)]
    note = [] if as_published is None or not others else [published_note(as_published)]
    return [heading, METHODOLOGY, *note, markdown_table(headings, rows), *texts]


def _statement(i: int, one: Statement, published: Statement | None) -> str:
    lines = [f"**The paper:** {one.paper}", f"**Criterion:** {one.criterion}", f"**Found:** {one.found}", one.table]
    if published is not None:
        lines += [f"**As published: {published.verdict}.** {published.found}", published.table]
    return "\n\n".join([f"### {i}. {one.title}: {one.verdict}", *lines])


def _figures(dataset: xr.Dataset, target: Path) -> tuple[list[str], list[Path]]:
    """Draw what the study has the measures for; return the page's part and the files."""
    from adobest_pp import plots
    from adobest_pp.plots.studies import adaptive

    parts: list[str] = []
    written: list[Path] = []
    sizes = np.unique(dataset["K"].values).astype(int).tolist()
    for k in sizes:
        for measure, name in (("tv", "the cell's own estimate"), ("exact_tv", "the exact posterior mean")):
            if measure in dataset and np.isfinite(done(dataset, measure)[dataset["K"].values == k]).any():
                panels = plots.tv_boxes(dataset, k, measure)
                caption = f"TV error of {name} by ε and method, K = {k} (Figures 3 and 4 of the paper)"
                parts += _save(panels.ravel()[0].figure, target, f"{measure}_boxes_K{k}", caption, written)
    for k in sizes:
        chosen = adaptive(dataset) & (dataset["K"].values == k)
        if "mean_size" in dataset and np.isfinite(done(dataset, "mean_size")[chosen]).any():
            panels = plots.subset_sizes(dataset, k)
            caption = f"Average |S| by method, ρ and ε, K = {k} (Figures 5 and 6); |S| = 0 is SRR on all categories"
            parts += _save(panels[0].figure, target, f"subset_sizes_K{k}", caption, written)
    panels = plots.honest_response()
    caption = "P(Y = X) of RRRR by subset size (Figure 2), from the mechanism itself"
    parts += _save(panels[0].figure, target, "honest_response", caption, written)
    return parts, written


def _save(figure: Any, target: Path, name: str, caption: str, written: list[Path]) -> list[str]:
    from adobest_pp.plots._saving import save_figure

    written += save_figure(figure, target, name, RESOLUTION)
    return [f"![{caption}]({name}.png)", f"{caption} ([SVG]({name}.svg))."]


def _tables(studies: dict[str, xr.Dataset | None], target: Path) -> list[Path]:
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


def _settings(studies: dict[str, xr.Dataset | None], target: Path) -> Path:
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


def _closing(written: list[Path]) -> list[str]:
    meanings = {
        ".csv": "medians, quartiles and intervals",
        ".md": "the same, to read",
        ".json": "seed, versions, study",
    }
    lines = [f"- [{path.name}]({path.name}): {meanings[path.suffix]}" for path in written if path.suffix in meanings]
    return ["\n".join(lines)]
