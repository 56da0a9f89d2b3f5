"""How fast posteriors close in on the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._common import check_axes, check_result, legend_entry, legible, look, number_log_axis

if TYPE_CHECKING:
    import xarray as xr

MEASURED = ("label", "n", "error", "error_se", "radius", "bvm", "slope", "slope_se", "runs")


def plot_contraction(result: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot how fast posteriors close in on the truth: squared error and radius against the number of responses.

    The dashed line of the error is what the theorem of Bernstein and von Mises predicts: a single grey one where it is
    the same for all labels, and otherwise one in the color of each.

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
    check_result(result, "result", "diagnostics.contraction", MEASURED, ["probability"])
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    panels = check_axes(axes, 2, "two, for the error and the radius")
    shared = bool((result["bvm"] == result["bvm"].isel(label=0)).all())
    for i, label in enumerate(result["label"].values):
        part = result.sel(label=label).dropna("n", subset=["error"])
        _draw_label(panels, part, label, look(i))
        if i == 0 or not shared:
            _draw_bvm(panels[0], part, "0.4" if shared else look(i)["color"])
    probability = 100 * float(result.attrs["probability"])
    for panel in panels:
        panel.set(xscale="log", yscale="log", xlabel="number of responses n")
        panel.grid(alpha=0.3)
        number_log_axis(panel.xaxis)
        number_log_axis(panel.yaxis)
    if np.isfinite(result["bvm"]).any():
        panels[0].plot([], [], color="0.4", linestyle="--", label="Bernstein–von Mises: 2 Tr I⁻¹ / n")
    panels[0].set(ylabel="E‖θ − θ*‖²", title="Squared error of the posterior")
    panels[1].set(
        ylabel=f"radius around θ* of {probability:g} %", title=f"Ball with {probability:g} % of the posterior"
    )
    for panel in panels:
        panel.legend(frameon=False)
    legible(panels)
    return panels


def _draw_label(panels: NDArray[np.object_], part: "xr.Dataset", label: str, style: dict[str, Any]) -> None:
    n, slope, error = part["n"].values, float(part["slope"]), float(part["slope_se"])
    # Of a single run, whose checkpoints are not independent, the standard error would be too small.
    figures = f"{slope:.2f} ± {error:.2f}" if int(part["runs"]) > 1 else f"{slope:.2f}"
    name = legend_entry(label)
    entry = f"{name}: slope " + figures.replace("-", "−") if np.isfinite(slope) else name
    spread = part["error_se"].values if np.isfinite(part["error_se"].values).all() else None
    panels[0].errorbar(n, part["error"].values, yerr=spread, label=entry, **style)
    panels[1].plot(n, part["radius"].values, label=name, **style)


def _draw_bvm(panel: Any, part: "xr.Dataset", color: str) -> None:
    known = np.isfinite(part["bvm"].values)
    panel.plot(part["n"].values[known], part["bvm"].values[known], color=color, linestyle="--")


# How often the best question was asked.


PANELS = {"frequency": "in windows", "cumulative": "since the first person"}
MEASURED_SUBSETS = ("label", "people", "best_size", *PANELS, *(f"{name}_se" for name in PANELS))


def plot_best_subset(result: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot how often an adaptive collection asked about the best subset, in windows and since the first person.

    The shaded bands are two standard errors to either side.

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
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(11.5, 4.2), sharey=True, layout="constrained")
    panels = check_axes(axes, 2, "two, for the windows and the cumulative frequency")
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
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    legible(panels)
    return panels
