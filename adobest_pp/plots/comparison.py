"""Samplers against their reference, and ranks of the truth against uniform ones."""

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._wording import verdict_in_words
from adobest_pp.plots._common import check_axes, check_result, legend_entry, legible, look, shorten

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
        Difference of means and ratio of standard deviations to the reference by category, with an open marker
        where it is within Monte-Carlo error; errors of quantiles by category; effective draws per second.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> draws = {str(seed): ad.sample(responses, "gibbs", random_seed=seed) for seed in (1, 2)}
    >>> ad.plots.plot_comparison(ad.diagnostics.compare(draws, reference="1")).shape
    (4,)
    """
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
        title = "Mean and standard deviation: open markers are within Monte-Carlo error"
        panels[0].figure.legend(handles, labels, loc="outside lower center", frameon=False, title=title)
    legible(panels)
    return panels


# Not ArviZ's plot_ecdf_pit: it tests each category alone, where this envelope holds for all of them at once.
def plot_calibration(
    dataset: xr.Dataset, axes: Sequence[Any] | None = None, highlight: int = MAX_NAMED
) -> NDArray[np.object_]:
    """Plot whether a sampler is calibrated: ranks of the truth among its draws, and coverage of its intervals.

    Of right draws, all curves of ranks stay within the envelope with the stated probability. A curve above zero at
    the left and below at the right means that intervals are too narrow, the reverse that they are too wide, and a
    curve on one side throughout is a bias.

    Parameters
    ----------
    dataset : xarray.Dataset
        The result of `adobest_pp.diagnostics.calibration`.
    axes : sequence of 2 matplotlib axes, optional
        Where to draw; a new figure by default.
    highlight : int, default 12
        Up to how many categories, those of the smallest p-values, are drawn in color and named.

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
    check_result(dataset, "dataset", "diagnostics.calibration", CALIBRATED, ["envelope_level", "replications"])
    check_integer(highlight, "highlight", 0)
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    panels = _panels(axes, 2)
    points = dataset.point.values
    envelope = f"{dataset.attrs['envelope_level']:.0%} envelope, all categories"
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
    # The names of the categories are the same in both panels: once is enough.
    entries = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    panels[1].legend(entries.values(), entries, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    legible(panels)
    return panels


def _comparison_axes(dataset: xr.Dataset) -> list[Any]:
    """Return new panels: three side by side, with names of categories at the left, and one below that is as wide."""
    heights = (0.8 + 0.32 * dataset.sizes["category"], 0.6 + 0.45 * dataset.sizes["sampler"])
    figure = plt.figure(figsize=(11, sum(heights) + 1.2), layout="constrained")
    panels = figure.subplot_mosaic("012;333", height_ratios=heights)
    for name in "12":
        panels[name].tick_params(labelleft=False)
    return list(panels.values())


def _panels(axes: Sequence[Any], n: int) -> NDArray[np.object_]:
    panels = check_axes(axes, n, f"{n} of them")
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
