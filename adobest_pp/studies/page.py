"""The page of a study: settings, progress, figures and tables."""

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from adobest_pp._files import check_target, replacing
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief, markdown
from adobest_pp.plots._common import COLORS, check_axes, legend_entry, number_log_axis, plain, save_figure
from adobest_pp.studies import summary
from adobest_pp.studies.run_function import DONE, FAILED
from adobest_pp.studies.summary import axes_in, done, number, numeric_axes, shown, symbol, varying

RESOLUTION = 110
PAGE, TABLE = "README.md", "medians.csv"
INTERVALS = (
    f"Median over the runs, with the {summary.percent(summary.LEVEL)} bootstrap interval of the median in brackets. "
    "A cell without a value on a numeric axis is shown for every value of it."
)


def write_page(
    dataset: xr.Dataset, folder: str | Path, *, overwrite: bool = False, progressbar: bool = False
) -> list[Path]:
    """Write figures, tables and the page (``README.md``) of a study, finished or not, and return the paths, it last.

    The folder is made if it does not exist. Files with the same names are replaced only with `overwrite`.
    """
    summary.check_study(dataset)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    parts = [title(dataset), "## Settings", summary.markdown_table(["setting", "value"], settings_rows(dataset))]
    parts += ["## Progress", how_far(dataset), "## Figures"]
    written: list[Path] = []
    measures = summary.measures_in(dataset)
    wanted = [(measure, *part) for measure in measures for part in _parts(dataset)]
    figures = [f"{measure}{suffix}.{kind}" for measure, suffix, *_ in wanted for kind in ("png", "svg")]
    for name in (PAGE, TABLE, *figures):
        check_target(target / name, overwrite=overwrite, name="folder")
    with SlowProgress(len(wanted), "writing the page", progressbar) as progress:
        for measure, suffix, where, part in wanted:
            if np.isfinite(summary.done(part, measure)).any():
                figure = plot_study(part, measure).ravel()[0].figure
                parts += save(figure, target, f"{measure}{suffix}", f"{measure}{where}", written)
            progress.advance(1)
    tables = [summary.medians(dataset, measure) for measure in measures]
    summary.write_csv(tables, target / TABLE)
    parts += ["## Tables", f"{INTERVALS} With quartiles and counts: [{TABLE}]({TABLE})."]
    for table in tables:
        parts += [f"### {table.attrs['measure']}", summary.markdown_table(*summary.median_rows(table))]
    return [*written, target / TABLE, write_text(parts, target / PAGE)]


def _parts(dataset: xr.Dataset) -> Iterator[tuple[str, str, xr.Dataset]]:
    """Yield suffix, caption and cells for each figure, which has room for three numeric axes."""
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
    """Return the settings of a study, for a table."""
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
            f"tables are within the range of the runs, which holds it with {summary.percent(1 - 2.0 ** (1 - n_runs))}"
        )
    return text + "."


def save(figure: Any, target: Path, name: str, caption: str, written: list[Path]) -> list[str]:
    """Save a figure, add its files to `written`, and return its part of the page."""
    written += save_figure(figure, target, name, RESOLUTION)
    shown = markdown(caption)
    return [f"![{shown}]({name}.png)", f"{shown} ([SVG]({name}.svg))."]


# Box plots of the runs of a study, one box for each cell.

BOXES: dict[str, Any] = {
    "widths": 0.8,
    "manage_ticks": False,
    "patch_artist": True,
    "boxprops": {"linewidth": 0.7},
    "medianprops": {"color": "black", "linewidth": 1.4},
    "flierprops": {"marker": ".", "markersize": 2.5, "markeredgecolor": "0.4"},
}
# The first six labels have the first hatch, the next six the second, …
BOX_COLORS = COLORS[:-1]  # without black, the color of the medians
HATCHES = ("", "///", "...", "xxx")
# Measures that are all positive and differ by this factor are drawn on a logarithmic scale.
WIDE = 10


def plot_study(dataset: xr.Dataset, measure: str, axes: Any = None) -> NDArray[np.object_]:
    """Draw box plots of one measure of a study: a color for each label, and positions for up to three numeric axes.

    The numeric axis with the most values is within a panel. Of the other axes that vary, the last has a row of panels
    for each value, and the one before it a column. A box spans the quartiles, with a line at the median. Whiskers reach
    to the furthest run within 1.5 interquartile ranges, and dots are the runs beyond. A cell without a value on an axis
    is drawn at every value of that axis.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run). Labels are those of its coordinate ``label``, or the text axes that
        differ between its cells.
    measure : str
        The measure to draw.
    axes : array of matplotlib axes, of shape (rows, columns), optional
        A new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (rows, columns)
    """
    study = shown(dataset)
    values, labels = done(study, measure), study["label"].values.tolist()
    inside, column, row = _roles(study)
    shape = len(_levels(study, row)), len(_levels(study, column))
    looks = {name: _look(i) for i, name in enumerate(dict.fromkeys(labels))}
    panels = _panels(axes, shape, len(_levels(study, inside)) * len(looks))
    for i, j in np.ndindex(*shape):
        panel: Any = panels[i, j]
        place = {name: _levels(study, name)[k] for name, k in ((row, i), (column, j)) if name}
        here = np.all([np.ones(len(values)), *(study[name].values == value for name, value in place.items())], axis=0)
        _draw_boxes(panel, study, values, looks, inside, np.flatnonzero(here))
        panel.set_title(", ".join(f"{symbol(name)} = {number(value)}" for name, value in place.items()))
        panel.set_xlabel(symbol(inside) if i == shape[0] - 1 else "")
        panel.set_ylabel(measure if j == 0 else "")
    _share_scale(panels, values)
    if len(looks) > 1:
        handles = [Patch(**look, edgecolor="0.2", label=legend_entry(label)) for label, look in looks.items()]
        panels[0, -1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    panels[0, 0].figure.suptitle(plain(dataset[measure].attrs.get("long_name", measure)))
    return panels


def _roles(study: xr.Dataset) -> tuple[str, str, str]:
    """Return the axes within a panel, of the columns and of the rows; an empty name if there is none."""
    names = varying(study, numeric_axes(study))
    if len(names) > 3:
        raise ValueError(
            f"dataset must have at most three axes of numbers that vary, got {', '.join(names)}: select one value of "
            f"{brief(names[0])}, for instance"
        )
    inside = max(names, key=lambda name: len(_levels(study, name)), default="")
    column, row = (["", "", *(name for name in names if name != inside)])[-2:]
    return inside, *((row, "") if not column else (column, row))


def _levels(study: xr.Dataset, name: str) -> list[float]:
    """Return the values of an axis in order; a single 0 if there is no such axis."""
    if not name:
        return [0.0]
    values: list[float] = np.unique(study[name].values.astype(np.float64)).tolist()
    return values


def _look(i: int) -> dict[str, Any]:
    return {"facecolor": BOX_COLORS[i % len(BOX_COLORS)], "hatch": HATCHES[i // len(BOX_COLORS) % len(HATCHES)]}


def _panels(axes: Any, shape: tuple[int, int], n_boxes: int) -> NDArray[np.object_]:
    if axes is None:
        size = shape[1] * float(np.clip(0.19 * n_boxes, 3.5, 9)) + 3.0, 2.9 * shape[0] + 0.6
        _, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    return check_axes(axes, shape[0] * shape[1], f"{shape[0]} × {shape[1]} of them").reshape(shape)


def _draw_boxes(
    panel: Any,
    study: xr.Dataset,
    values: NDArray[np.float64],
    looks: dict[str, dict[str, Any]],
    inside: str,
    cells: NDArray[np.intp],
) -> None:
    labels, levels = study["label"].values.tolist(), _levels(study, inside)
    order, width = list(looks), len(looks) + 2
    drawn = [i for i in cells.tolist() if np.isfinite(values[i]).any()]
    if drawn:  # matplotlib takes no boxes for one
        places = [levels.index(float(study[inside].values[i])) if inside else 0 for i in drawn]
        positions = [place * width + order.index(labels[i]) for place, i in zip(places, drawn, strict=True)]
        boxes = panel.boxplot([values[i][np.isfinite(values[i])] for i in drawn], positions=positions, **BOXES)
        for i, box in zip(drawn, boxes["boxes"], strict=True):
            box.set(**looks[labels[i]])
    middles = np.arange(len(levels)) * width + (len(order) - 1) / 2
    panel.set_xticks(middles, [number(level) for level in levels] if inside else [""])
    panel.set_xlim(-1.2, len(levels) * width - 1.8)
    for edge in np.arange(1, len(levels)) * width - 1.5:
        panel.add_line(Line2D([edge, edge], [0, 1], transform=panel.get_xaxis_transform(), color="0.7", linewidth=0.8))
    panel.grid(axis="y", alpha=0.3, which="both")


def _share_scale(panels: NDArray[np.object_], values: NDArray[np.float64]) -> None:
    known = values[np.isfinite(values)]
    logarithmic = known.size > 0 and known.min() > 0 and known.max() > WIDE * known.min()
    for panel in panels.ravel() if logarithmic else ():
        panel.set_yscale("log")
    limits = np.array([panel.get_ylim() for panel in panels.ravel() if panel.patches])
    for panel in panels.ravel() if limits.size else ():
        panel.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        if logarithmic:
            number_log_axis(panel.yaxis)
