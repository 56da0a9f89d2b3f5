"""Are the draws correct, and what do they cost? Comparison, calibration, contraction, and error against work."""

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._text import brief
from adobest_pp._wording import verdict_in_words
from adobest_pp.plots._common import (
    COLORS,
    check_axes,
    check_result,
    legend_beside,
    legend_entry,
    legible,
    look,
    number_log_axis,
    shorten,
)

MAX_NAMED = 12
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
    """Plot how far each sampler is from the reference, in mean, spread and tails, and how well it mixes.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `adobest_pp.diagnostics.compare`.
    axes : sequence of 4 matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (4,)
        By category: the difference of means and the ratio of standard deviations, with open markers where they are
        within Monte Carlo error, and the errors of quantiles. By sampler: effective draws per second.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> draws = {str(seed): ad.sample(responses, "gibbs", random_seed=seed) for seed in (1, 2)}
    >>> ad.plots.plot_comparison(ad.diagnostics.compare(draws, reference="1")).shape
    (4,)
    """
    if isinstance(dataset, xr.Dataset) and "coefficient" in dataset.dims:
        dataset = dataset.rename(coefficient="category")
    check_result(dataset, "dataset", "diagnostics.compare", COMPARED, ["reference"])
    panels = _panels(_comparison_axes(dataset) if axes is None else axes, 4)
    reference = dataset.attrs["reference"]
    names = dataset.sampler.values.tolist()
    others = [name for name in names if name != reference]
    places = np.arange(dataset.sizes["category"])
    for i, name in enumerate(others):
        one = dataset.sel(sampler=name)
        y = places + 0.5 * ((i + 0.5) / len(others) - 0.5)
        label = legend_entry(textwrap.shorten(f"{name}: {verdict_in_words(one)}", MAX_LEGEND))
        style = look(names.index(name)) | {"linestyle": "none", "label": label}
        limit = float(one.error_limit)
        _points(panels[0], one.mean_shift.values, y, np.abs(one.location_error.values) > limit, style)
        _points(panels[1], one.sd_ratio.values, y, np.abs(one.scale_error.values) > limit, style)
        panels[2].plot(one.tail_error.values, y, **style)
    panels[0].axvline(0, color="black", linewidth=0.8)
    panels[1].axvline(1, color="black", linewidth=0.8)
    panels[2].set_xlim(left=0)
    panels[0].set(title="Posterior mean", xlabel=f"difference to {shorten(reference)}, in its sd")
    panels[1].set(title="Posterior standard deviation", xlabel=f"sd / sd of {shorten(reference)}")
    panels[2].set(title="5 % and 95 % quantiles", xlabel=f"larger error, in sd of {shorten(reference)}")
    for panel in panels[:3]:
        panel.set_yticks(places, [shorten(label) for label in dataset.category.values])
        panel.set_ylim(places.size - 0.5, -0.5)
    _efficiency(panels[3], dataset)
    if others:
        handles, labels = panels[2].get_legend_handles_labels()
        title = "Mean and standard deviation: open markers are within Monte Carlo error"
        panels[0].figure.legend(handles, labels, loc="outside lower center", frameon=False, title=title)
    return legible(panels)


def plot_grades(dataset: xr.Dataset, work: str = "seconds", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot the error of samplers against their work, on each reference posterior.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `adobest_pp.diagnostics.grade`.
    work : {"seconds", "gradients"}
        What to draw the error against.
    axes : sequence of matplotlib axes, optional
        One for each reference; a new figure by default.

    Returns
    -------
    array of matplotlib axes
        One for each reference. Each sampler is a line through its runs, with a filled marker where its last run is
        indistinguishable from the reference.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> grades = ad.diagnostics.grade({"gibbs": "gibbs"}, names=["srr_two"], budget=5, progressbar=False)
    >>> ad.plots.plot_grades(grades).shape
    (1,)
    """
    check_result(dataset, "dataset", "diagnostics.grade", ("sampler", "reference", "group", "verdict", "run_error"))
    if work not in ("seconds", "gradients"):
        raise ValueError(f"work must be 'seconds' or 'gradients', got {brief(work)}")
    names = dataset["reference"].values.tolist()
    if axes is None:
        columns = min(4, len(names))
        size = (3.2 * columns + 0.6, 2.6 * -(-len(names) // columns) + 1.0)
        _, grid = plt.subplots(-(-len(names) // columns), columns, figsize=size, layout="constrained", squeeze=False)
        for empty in grid.ravel()[len(names) :]:
            empty.set_visible(False)
        axes = list(grid.ravel()[: len(names)])
    panels = check_axes(axes, len(names), f"{len(names)} axes, one for each reference")
    for panel, name in zip(panels, names, strict=True):
        for i, sampler in enumerate(dataset["sampler"].values.tolist()):
            row = dataset.sel(reference=name, sampler=sampler)
            right = row["verdict"].item() == "indistinguishable"
            style = look(i) | {"markerfacecolor": None if right else "white", "markersize": 4, "linewidth": 1.2}
            panel.plot(row[f"run_{work}"], row["run_error"], label=legend_entry(sampler), **style)
        panel.set(xscale="log", yscale="log", xlabel=work, ylabel="error, in sd")
        panel.set_title(
            f"{shorten(name)} (K = {dataset['n_categories'].sel(reference=name).item()})", fontsize="medium"
        )
    handles, labels = panels[0].get_legend_handles_labels()
    title = "Filled: indistinguishable from the reference"
    panels[0].figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, title=title)
    return legible(panels)


# ArviZ's plot_ecdf_pit tests each category alone; this envelope holds for all of them at once.
def plot_calibration(
    dataset: xr.Dataset, axes: Sequence[Any] | None = None, highlight: int = MAX_NAMED
) -> NDArray[np.object_]:
    """Plot whether a sampler is calibrated: ranks of the truth among its draws, and coverage of its intervals.

    If the draws are correct, all curves of ranks stay within the envelope with the stated probability. A curve above
    zero on the left and below on the right means that intervals are too narrow; the reverse means that they are too
    wide. A curve that stays on one side shows a bias.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `adobest_pp.diagnostics.calibration`.
    axes : sequence of 2 matplotlib axes, optional
        Where to draw; a new figure by default.
    highlight : int, default 12
        The most categories to color and name: those with the smallest p-values.

    Returns
    -------
    array of matplotlib axes, of shape (2,)

    Examples
    --------
    >>> import adobest_pp as ad
    >>> def fit(responses, seed):
    ...     return ad.sample(responses, "gibbs", draws=200, tune=100, chains=1, random_seed=seed)
    >>> result = ad.diagnostics.calibration(fit, ad.SRR(2, epsilon=3.0), replications=20, random_seed=1)
    >>> ad.plots.plot_calibration(result).shape
    (2,)
    """
    if isinstance(dataset, xr.Dataset) and "scalar" in dataset.dims:
        dataset = dataset.rename(scalar="category")
    check_result(dataset, "dataset", "diagnostics.calibration", CALIBRATED, ["envelope_level", "replications"])
    check_integer(highlight, "highlight", 0)
    panels = _panels(axes, 2)
    points = dataset.point.values
    envelope = f"{100 * dataset.attrs['envelope_level']:.0f} % envelope, all categories"
    panels[0].fill_between(points, dataset.lower, dataset.upper, step="post", color="0.88", label=envelope)
    levels = dataset.level.values
    panels[1].plot([0, 1], [0, 1], color="black", linewidth=0.8, label="exact coverage")
    for place, i in enumerate(np.argsort(dataset.p_value.values)):
        one = dataset.isel(category=int(i))
        named = place < highlight
        style = look(place) if named else {"color": "0.6", "marker": "."}
        style |= {"linewidth": 1.4 if named else 0.7}
        label = legend_entry(f"p = {one.p_value.item():.2g}: {one.category.item()}") if named else None
        panels[0].step(points, one.ecdf_difference, where="post", markevery=(place, 12), markersize=4, **style)
        panels[1].plot(levels, one.coverage, markersize=4, label=label, **style)
    band = 1.96 * dataset.coverage_error.values
    panels[1].errorbar(
        levels, levels, band, color="black", linestyle="none", capsize=3, label="95 % range for one category"
    )
    n, p_value = dataset.attrs["replications"], dataset.p_value_overall.item()
    panels[0].axhline(0, color="black", linewidth=0.8)
    panels[0].set(title=f"Ranks of the truth in {n} data sets, p = {p_value:.2g}")
    panels[0].set(xlabel="rank of the truth among the draws, as a share", ylabel="ECDF − uniform")
    panels[1].set(title="Central intervals", xlabel="claimed probability", ylabel="share that holds the truth")
    lowest = min(levels.min(), dataset.coverage.values.min()) - 0.1
    panels[1].set(xlim=(levels.min() - 0.1, 1), ylim=(max(0, lowest), 1.02))
    panels[0].margins(x=0)
    # Both panels have the same categories, so name them once.
    entries = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    legend_beside(panels[1], entries.values(), entries)
    return legible(panels)


def _comparison_axes(dataset: xr.Dataset) -> list[Any]:
    heights = (0.8 + 0.32 * dataset.sizes["category"], 0.6 + 0.45 * dataset.sizes["sampler"])
    figure = plt.figure(figsize=(11, sum(heights) + 1.2), layout="constrained")
    panels = figure.subplot_mosaic("012;333", height_ratios=heights)
    for name in "12":
        panels[name].tick_params(labelleft=False)
    return list(panels.values())


def _panels(axes: Sequence[Any] | None, n: int) -> NDArray[np.object_]:
    panels = check_axes(axes, n, f"{n} of them", (12, 4.5))
    for panel in panels:
        panel.grid(alpha=0.3)
        panel.set_axisbelow(True)
    return panels


def _points(
    panel: Any, x: NDArray[np.floating[Any]], y: NDArray[Any], significant: NDArray[np.bool_], style: dict[str, Any]
) -> None:
    """Draw filled markers where a difference is significant and open ones elsewhere."""
    panel.plot(x[significant], y[significant], **style)
    panel.plot(x[~significant], y[~significant], **style | {"fillstyle": "none", "label": None})


def _efficiency(panel: Any, dataset: xr.Dataset) -> None:
    places = range(dataset.sizes["sampler"])
    values = dataset.ess_per_second.values
    measured, values = ("ESS per second", values) if np.isfinite(values).all() else ("ESS", dataset.ess_bulk.values)
    panel.barh(places, np.nan_to_num(values), color=[look(i)["color"] for i in places])
    mixed = zip(dataset.sampler.values.tolist(), dataset.r_hat, dataset.ess_bulk, strict=True)
    panel.set_yticks(places, [f"{shorten(name)}\nR-hat {r:.2f}, ESS {e:.0f}" for name, r, e in mixed])
    panel.invert_yaxis()
    panel.set(title="Mixing", xlabel=f"smallest bulk {measured}")


# How fast posteriors contract around the truth, and how often the best question was asked.

CONTRACTION = ("label", "n", "error", "error_se", "radius", "bvm", "slope", "slope_se", "runs")


def plot_contraction(result: xr.Dataset, axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot how fast posteriors contract around the truth: squared error and radius against the number of responses.

    The dashed line is the error that the Bernstein–von Mises theorem predicts: one gray line if it is the same for all
    labels, otherwise one in the color of each label.

    Parameters
    ----------
    result : xarray.Dataset
        The result of `adobest_pp.diagnostics.contraction`.
    axes : sequence of two matplotlib axes, optional
        For the error and the radius; a new figure by default.

    Returns
    -------
    array of two matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.diagnostics import checkpoints, contraction
    >>> run = ad.simulate_adaptive([0.6, 0.4], ad.AdaptiveSubset(ad.RRRR(2, epsilon=2.0)), n_people=4000, random_seed=1)
    >>> trees = {n: ad.sample(r, "gibbs", random_seed=2) for n, r in checkpoints(run.responses, [250, 4000]).items()}
    >>> error, radius = ad.plots.plot_contraction(contraction({"gibbs": trees}, [0.6, 0.4]))
    >>> error.get_xlabel()
    'number of responses n'
    """
    check_result(result, "result", "diagnostics.contraction", CONTRACTION, ["probability"])
    panels = check_axes(axes, 2, "two, for the error and the radius", (11, 4.2))
    shared = bool((result["bvm"] == result["bvm"].isel(label=0)).all())
    for i, label in enumerate(result["label"].values):
        part = result.sel(label=label).dropna("n", subset=["error"])
        n, error, spread, bvm = (part[name].values for name in ("n", "error", "error_se", "bvm"))
        slope, slope_se = float(part["slope"]), float(part["slope_se"])
        # The checkpoints of a single run are not independent, so its standard error would be too small.
        figures = f"{slope:.2f} ± {slope_se:.2f}" if int(part["runs"]) > 1 else f"{slope:.2f}"
        name = legend_entry(label)
        entry = f"{name}: slope " + figures.replace("-", "−") if np.isfinite(slope) else name
        panels[0].errorbar(n, error, yerr=spread if np.isfinite(spread).all() else None, label=entry, **look(i))
        panels[1].plot(n, part["radius"].values, label=name, **look(i))
        if i == 0 or not shared:
            known, color = np.isfinite(bvm), "0.4" if shared else look(i)["color"]
            panels[0].plot(n[known], bvm[known], color=color, linestyle="--")
    probability = 100 * float(result.attrs["probability"])
    for panel in panels:
        panel.set(xscale="log", yscale="log", xlabel="number of responses n")
        panel.grid(alpha=0.3)
        number_log_axis(panel.xaxis, panel.yaxis)
    if np.isfinite(result["bvm"]).any():
        panels[0].plot([], [], color="0.4", linestyle="--", label="Bernstein–von Mises: 2 Tr I⁻¹ / n")
    panels[0].set(ylabel="E‖θ − θ*‖²", title="Squared error of the posterior")
    panels[1].set(ylabel="radius of the ball around θ*", title=f"Ball with {probability:g} % of the posterior")
    for panel in panels:
        panel.legend(frameon=False)
    return legible(panels)


PANELS = {"frequency": "in windows", "cumulative": "since the first person"}
MEASURED_SUBSETS = ("label", "people", "best_size", *PANELS, *(f"{name}_se" for name in PANELS))


def plot_best_subset(result: xr.Dataset, axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot how often an adaptive collection asked about the best subset, in windows and since the first person.

    The shaded bands extend two standard errors to either side.

    Parameters
    ----------
    result : xarray.Dataset
        The result of `adobest_pp.diagnostics.best_subset_frequency`.
    axes : sequence of two matplotlib axes, optional
        For the windows and the cumulative frequency; a new figure by default.

    Returns
    -------
    array of two matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> theta = [0.7, 0.2, 0.1]
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=3.0))
    >>> runs = [ad.simulate_adaptive(theta, policy, n_people=500, random_seed=s) for s in (1, 2)]
    >>> result = ad.diagnostics.best_subset_frequency({"honest": runs}, theta, window=100)
    >>> [panel.get_xlabel() for panel in ad.plots.plot_best_subset(result)]
    ['people asked', 'people asked']
    """
    check_result(result, "result", "diagnostics.best_subset_frequency", MEASURED_SUBSETS)
    panels = check_axes(axes, 2, "two, for the windows and the cumulative frequency", (11.5, 4.2), sharey=True)
    for panel, (name, title) in zip(panels, PANELS.items(), strict=True):
        for i, label in enumerate(result["label"].values):
            part = result.sel(label=label).dropna("people", subset=[name])
            people, share, error = part["people"].values, part[name].values, part[f"{name}_se"].values
            entry = legend_entry(f"{label} (|S*| = {int(part['best_size'])})")
            panel.plot(people, share, markersize=4, label=entry, **look(i))
            low, high = np.clip([share - 2 * error, share + 2 * error], 0, 1)
            panel.fill_between(people, low, high, color=look(i)["color"], alpha=0.15, linewidth=0)
        panel.set(xlabel="people asked", title=f"Best subset asked, {title}")
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("frequency of Sₜ = S*")
    legend_beside(panels[-1])
    return legible(panels)


# Error against work, and the samplers that no other beats in both.

COSTS = {"cpu_seconds": "seconds of CPU", "gradients": "gradients of rows of evidence"}
FRONTIER = ("sampler", "length", "distance", *COSTS)


def is_on_frontier(cost: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which points are finite, and not beaten by a point that is as good in both and better in one.

    Examples
    --------
    >>> import numpy as np
    >>> from adobest_pp.plots.comparison import is_on_frontier
    >>> is_on_frontier(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.1])).tolist()
    [True, False, True]
    """
    x, y = cost.ravel(), error.ravel()
    as_good = (x <= x[:, None]) & (y <= y[:, None])
    better = as_good & ((x < x[:, None]) | (y < y[:, None]))
    known = np.isfinite(x) & np.isfinite(y)
    return np.asarray(known & ~better.any(axis=1)).reshape(cost.shape)


def plot_frontier(points: xr.Dataset, axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot the error of samplers against their work, with the frontier of those that no other beats in both.

    Parameters
    ----------
    points : xarray.Dataset
        By ``sampler`` and ``length``: ``distance``, ``cpu_seconds`` and ``gradients``. A line joins the lengths of a
        sampler. Names of three words (diffusion, gradient, step) with the first two in common share a color.
    axes : sequence of two matplotlib axes, optional
        For seconds and for gradients; a new figure by default.

    Returns
    -------
    array of two matplotlib axes

    Examples
    --------
    >>> import xarray as xr
    >>> import adobest_pp as ad
    >>> dims = ("sampler", "length")
    >>> values = {"distance": [[0.3, 0.2], [0.1, 0.05]], "cpu_seconds": [[1, 2], [2, 3]], "gradients": [[1, 2], [3, 4]]}
    >>> coords = {"sampler": ["a", "b"], "length": [1, 2]}
    >>> points = xr.Dataset({name: (dims, each) for name, each in values.items()}, coords)
    >>> ad.plots.plot_frontier(points).shape
    (2,)
    """
    check_result(points, "points", "validation.frontier", FRONTIER)
    panels = check_axes(axes, 2, "two, for seconds and for gradients", (13, 6.5), sharey=True)
    names = points["sampler"].values.tolist()
    families = list(dict.fromkeys(" ".join(name.split(" ")[:2]) for name in names))
    for panel, (cost, label) in zip(panels, COSTS.items(), strict=True):
        drawn: set[str] = set()
        for name in names:
            family = " ".join(name.split(" ")[:2])
            i, one = families.index(family), points.sel(sampler=name)
            line = {"linestyle": ("-", "--", ":")[i // len(COLORS) % 3], "linewidth": 0.8, "markersize": 5}
            entry = None if family in drawn else family
            panel.plot(one[cost].values, one["distance"].values, label=entry, **look(i) | line)
            drawn.add(family)
        on = is_on_frontier(points[cost].values, points["distance"].values)
        x, y = points[cost].values[on], points["distance"].values[on]
        order = np.argsort(x)
        panel.step(x[order], y[order], where="post", color="0.3", linewidth=2.5, alpha=0.4, label="frontier")
        panel.set(xscale="log", yscale="log", xlabel=label)
        panel.grid(alpha=0.3, which="both")
        number_log_axis(panel.yaxis)
    number_log_axis(panels[0].xaxis)
    panels[0].set_ylabel("error, in sd of the reference")
    legend_beside(panels[1])
    return panels
