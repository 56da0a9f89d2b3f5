"""Tables of a study: medians with intervals, as a dataset, CSV and Markdown."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._files import replacing
from adobest_pp.studies.measures import CELL
from adobest_pp.studies.methods import method_label
from adobest_pp.studies.outcomes import DONE, FAILED
from adobest_pp.studies.run_intervals import LEVEL, RESAMPLES, SEED, bootstrap_medians

__all__ = [
    "done",
    "labels",
    "markdown_table",
    "medians",
    "number",
    "percent",
    "shown",
    "write_csv",
    "write_markdown",
]

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


def labels(dataset: xr.Dataset) -> list[str]:
    """Return a name for each cell that tells its method, and whatever else of the mechanism differs between cells."""
    columns = {name: _column(dataset, name) for name in ("mechanism", "method", "prior", "sampler", "budgets")}
    differing = [name for name in ("prior", "sampler", "budgets") if len(set(columns[name])) > 1]
    result = []
    for i, method in enumerate(columns["method"]):
        name = str(columns["mechanism"][i]).replace("_", " ") if method == "fixed" else method_label(method)
        details = [f"{columns[field][i]}{' prior' if field == 'prior' else ''}" for field in differing]
        result.append(", ".join([name, *details]))
    return result


def done(dataset: xr.Dataset, measure: str) -> NDArray[np.float64]:
    """Return a measure, of shape (cell, run), with NaN wherever the run is not done."""
    if measure not in dataset:
        known = ", ".join(repr(name) for name in dataset.data_vars if dataset[name].dims == ("cell", "run"))
        raise ValueError(f"measure must be one of the dataset's ({known}), got {measure!r}")
    values = dataset[measure].transpose("cell", "run").values.astype(np.float64)
    if "status" not in dataset:
        return values
    return np.where(dataset["status"].transpose("cell", "run").values == DONE, values, np.nan)


def shown(dataset: xr.Dataset) -> xr.Dataset:
    """Repeat each cell without a κ for every κ of the study: what does not depend on it is shown beside the rest.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).

    Returns
    -------
    xarray.Dataset
        In the order of K, ε, κ and ρ. Where the study has no κ at all, it stays NaN.
    """
    kappa = dataset["kappa"].values.astype(np.float64)
    all_kappas = np.unique(kappa[np.isfinite(kappa)])
    pairs = [
        (i, value)
        for i, own in enumerate(kappa)
        for value in (all_kappas if np.isnan(own) and all_kappas.size else [own])
    ]
    rows = np.array([i for i, _ in pairs], dtype=np.int64)
    result = dataset.isel(cell=rows).assign_coords(kappa=("cell", np.array([value for _, value in pairs])))
    order = np.lexsort([result[name].values for name in ("rho", "kappa", "epsilon", "K")])
    return result.isel(cell=order)


def medians(dataset: xr.Dataset, measure: str = "tv") -> xr.Dataset:
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
        Along ``cell``: ``median``, ``q25`` and ``q75``; ``lower`` and ``upper``, the bootstrap interval of the median
        (percentiles of 4000 resamples, the same for the same data); ``runs_done``, ``runs_failed``, ``runs_asked``.
        NaN where no run is done. A cell without a κ stands once for each κ of the study.
    """
    study = shown(dataset)
    values = done(study, measure)
    known = np.isfinite(values)
    columns = np.full((5, len(values)), np.nan)
    for n in np.unique(known.sum(axis=1)):
        rows = np.flatnonzero(known.sum(axis=1) == n)
        if n > 0:
            # As many runs are done in each of these rows: the finite ones first, in one array.
            finite = np.sort(values[rows], axis=1)[:, :n]
            columns[:3, rows] = np.quantile(finite, [0.5, 0.25, 0.75], axis=1)
            columns[3:, rows] = np.quantile(bootstrap_medians(finite), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    failed = (
        (study["status"].transpose("cell", "run").values == FAILED).sum(axis=1)
        if "status" in study
        else 0 * known[:, 0]
    )
    counts = (known.sum(axis=1), failed, np.full(len(values), values.shape[1]))
    filled = zip(MEANINGS, (*columns, *counts), strict=True)
    variables = {name: ("cell", column, {"long_name": MEANINGS[name]}) for name, column in filled}
    coordinates = {name: ("cell", study[name].values) for name in CELL if name in study.coords}
    attributes = {"measure": measure, "level": LEVEL, "resamples": RESAMPLES, "bootstrap_seed": SEED}
    result = xr.Dataset(variables, coords=coordinates, attrs=attributes)
    return result.assign_coords(label=("cell", np.array(labels(study), dtype=object)))


def write_csv(table: xr.Dataset, path: Path) -> None:
    """Write what `medians` gave, one row for each cell."""
    fields = [*(name for name in CELL if name in table.coords), *table.data_vars]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["measure", *fields, "label"])
        for i in range(table.sizes["cell"]):
            cell = [_plain(table[name].values[i]) for name in fields]
            writer.writerow([table.attrs["measure"], *cell, table["label"].values[i]])


def write_markdown(table: xr.Dataset, path: Path) -> None:
    """Write what `medians` gave as one table for each K: a line for each ε, κ and ρ, a column for each method."""
    names = list(dict.fromkeys(table["label"].values.tolist()))
    level = percent(table.attrs["level"])
    parts = [
        f"# Medians of {table.attrs['measure']}",
        f"Median over the runs, with the {level} bootstrap interval of the median in brackets. "
        "What does not depend on κ is shown for every κ.",
    ]
    for k in np.unique(table["K"].values).tolist():
        block = table.isel(cell=np.flatnonzero(table["K"].values == k))
        parts += [f"## K = {k}", markdown_table(["ε", "κ", "ρ", *names], _wide_rows(block, names))]
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


def _wide_rows(block: xr.Dataset, names: list[str]) -> list[list[str]]:
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for i, name in enumerate(block["label"].values.tolist()):
        setting = tuple(number(float(block[field].values[i]), 6) for field in ("epsilon", "kappa", "rho"))
        middle, lower, upper = (float(block[field].values[i]) for field in ("median", "lower", "upper"))
        text = f"{number(middle)} [{number(lower)}, {number(upper)}]" if np.isfinite(middle) else "–"
        rows.setdefault(setting, {})[name] = text
    return [[*setting, *(cells.get(name, "") for name in names)] for setting, cells in rows.items()]


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{float(value):.10g}"
    return value


def _column(dataset: xr.Dataset, name: str) -> list[Any]:
    return dataset[name].values.tolist() if name in dataset.coords else [""] * dataset.sizes["cell"]
