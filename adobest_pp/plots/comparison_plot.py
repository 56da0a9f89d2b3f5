"""Samplers against their reference, and ranks against uniform ones."""

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._wording import verdict_in_words
from adobest_pp.plots._category_names import plain, shorten
from adobest_pp.plots._fonts import legible
from adobest_pp.plots._inputs import check_axes, check_result

__all__ = ["plot_calibration", "plot_comparison"]

# Beyond this many categories their names no longer fit under an axis.
MAX_NAMED = 12
MAX_LETTERS = 60
MAX_LEGEND = 90

COMPARED = (
    *("category", "sampler", "mean_shift", "location_error", "sd_ratio", "scale_error", "tail_error", "error_limit"),
    *("verdict", "fault", "ess_per_second", "ess_bulk", "r_hat"),
)
CALIBRATED = (
    *("category", "point", "level", "ecdf_difference", "lower", "upper", "coverage", "coverage_error"),
    *("p_value", "p_value_overall"),
)


def plot_comparison(dataset: xr.Dataset, axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Draw what `adobest_pp.diagnostics.compare` found: errors of means, ratios of sds, tails and efficiency.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `compare`.
    axes : sequence of 4 matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (4,)
        Difference of means and ratio of standard deviations to the reference by category, with an open marker
        where it is within Monte-Carlo error; quantile errors by category; effective draws per second.
    """
    check_result(dataset, "dataset", "diagnostics.compare", COMPARED, ["reference"])
    panels = _panels(axes, 4, (13.0, 8.0), (2, 2))
    others = [name for name in dataset.sampler.values.tolist() if name != dataset.attrs["reference"]]
    places = np.arange(dataset.sizes["category"])
    for number, name in enumerate(others):
        one = dataset.sel(sampler=name)
        x = places + 0.5 * ((number + 0.5) / len(others) - 0.5)
        told = textwrap.shorten(f"{name}: {verdict_in_words(one)}", MAX_LEGEND)
        look = {"color": f"C{number}", "label": plain(told)}
        limit = float(one.error_limit)
        _points(panels[0], x, one.mean_shift.values, np.abs(one.location_error.values) > limit, look)
        _points(panels[1], x, one.sd_ratio.values, np.abs(one.scale_error.values) > limit, look)
        panels[2].plot(x, one.tail_error.values, marker="o", linestyle="none", **look)
    reference = dataset.attrs["reference"]
    panels[0].axhline(0, color="black", linewidth=0.8)
    panels[1].axhline(1, color="black", linewidth=0.8)
    panels[2].set_ylim(bottom=0)
    panels[0].set(title="Posterior mean", ylabel=f"difference to {plain(reference)} (its sd)")
    panels[1].set(title="Posterior standard deviation", ylabel=f"ratio to {plain(reference)}")
    panels[2].set(title="5 % and 95 % quantiles", ylabel="largest error (sd)")
    for panel in panels[:3]:
        _name_categories(panel, dataset)
    _efficiency(panels[3], dataset, others)
    if others:
        handles, labels = panels[2].get_legend_handles_labels()
        title = "open: within Monte-Carlo error"
        panels[0].figure.legend(handles, labels, loc="outside lower center", frameon=False, title=title)
    legible(panels)
    return panels


def plot_calibration(
    dataset: xr.Dataset, axes: Sequence[Any] | None = None, highlight: int = MAX_NAMED
) -> NDArray[np.object_]:
    """Draw what `adobest_pp.diagnostics.calibration` found: ECDFs of ranks within their envelope, and coverage.

    A curve above the line at the left and below at the right means too narrow intervals, the reverse too wide ones,
    and a curve on one side throughout a bias.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `calibration`.
    axes : sequence of 2 matplotlib axes, optional
        A new figure by default.
    highlight : int, default 12
        Up to how many categories, those of the smallest p-values, are drawn in color and named.

    Returns
    -------
    array of matplotlib axes, of shape (2,)
    """
    check_result(dataset, "dataset", "diagnostics.calibration", CALIBRATED, ["envelope_level", "replications"])
    check_integer(highlight, "highlight", 0)
    panels = _panels(axes, 2, (12.0, 4.5), (1, 2))
    points = dataset.point.values
    envelope = f"{dataset.attrs['envelope_level']:.0%} envelope, all categories"
    panels[0].fill_between(points, dataset.lower, dataset.upper, step="post", color="0.88", label=envelope)
    levels = dataset.level.values
    panels[1].plot([0, 1], [0, 1], color="black", linewidth=0.8, label="right")
    for place, i in enumerate(np.argsort(dataset.p_value.values)):
        one = dataset.isel(category=int(i))
        named = place < highlight
        label = plain(f"p = {one.p_value.item():.2g}: {one.category.item()}") if named else None
        look = {"color": f"C{place % 10}" if named else "0.6", "linewidth": 1.4 if named else 0.7, "label": label}
        panels[0].step(points, one.ecdf_difference, where="post", **look)
        panels[1].plot(levels, one.coverage, marker="o", markersize=4, **look)
    band = 1.96 * dataset.coverage_error.values
    panels[1].errorbar(levels, levels, band, color="black", linestyle="none", capsize=3, label="95 % for one category")
    n, p_value = dataset.attrs["replications"], dataset.p_value_overall.item()
    panels[0].axhline(0, color="black", linewidth=0.8)
    panels[0].set(title=f"Ranks of the truth in {n} data sets, p = {p_value:.2g}")
    panels[0].set(xlabel="rank of the truth among the draws, as a share", ylabel="ECDF − uniform")
    panels[1].set(title="Central intervals", xlabel="claimed probability", ylabel="share that holds the truth")
    lowest = min(levels.min(), dataset.coverage.values.min()) - 0.1
    panels[1].set(xlim=(levels.min() - 0.1, 1), ylim=(max(0, lowest), 1.02))
    panels[0].margins(x=0)
    # The names of the categories are the same in both panels: once is enough.
    entries = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    panels[1].legend(entries.values(), entries, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    legible(panels)
    return panels


def _panels(
    axes: Sequence[Any] | None, n: int, size: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.object_]:
    if axes is None:
        _, axes = plt.subplots(*shape, figsize=size, layout="constrained")
    panels = check_axes(axes, n, f"{n} of them")
    for panel in panels:
        panel.grid(alpha=0.3)
    return panels


def _points(
    panel: Any, x: NDArray[np.floating[Any]], y: NDArray[Any], significant: NDArray[np.bool_], look: dict[str, Any]
) -> None:
    """Draw filled markers where a difference is significant and open ones elsewhere."""
    panel.plot(x[significant], y[significant], marker="o", linestyle="none", **look)
    panel.plot(x[~significant], y[~significant], marker="o", linestyle="none", fillstyle="none", color=look["color"])


def _name_categories(panel: Any, dataset: xr.Dataset) -> None:
    names = [shorten(label) for label in dataset.category.values]
    crowded = len(names) > MAX_NAMED or sum(map(len, names)) > MAX_LETTERS
    panel.set_xticks(range(len(names)), names, rotation=90 if crowded else 0)
    panel.set_xlabel("category")


def _efficiency(panel: Any, dataset: xr.Dataset, others: list[str]) -> None:
    names = dataset.sampler.values.tolist()
    colors = [f"C{others.index(name)}" if name in others else "0.4" for name in names]
    values = dataset.ess_per_second.values
    measured, values = ("ESS per second", values) if np.isfinite(values).all() else ("ESS", dataset.ess_bulk.values)
    bars = panel.barh([plain(name) for name in names], np.nan_to_num(values), color=colors)
    panel.bar_label(
        bars, [f" R-hat {r:.2f}, ESS {e:.0f}" for r, e in zip(dataset.r_hat, dataset.ess_bulk, strict=True)]
    )
    panel.margins(x=0.35)
    panel.invert_yaxis()
    panel.set(title="Mixing", xlabel=f"smallest bulk {measured}")
