"""How fast posteriors close in on the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._category_names import plain
from adobest_pp.plots._fonts import legible
from adobest_pp.plots._inputs import check_axes, check_result

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["plot_contraction"]

MEASURED = ("label", "n", "error", "error_se", "radius", "bvm", "slope", "slope_se", "runs")


def plot_contraction(result: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Draw E‖θ−θ*‖² and the radius against n, with the Bernstein–von Mises line of each label dashed.

    Parameters
    ----------
    result : xarray.Dataset
        Of `adobest_pp.diagnostics.contraction`.
    axes : sequence of two matplotlib axes, optional
        For the error and the radius; a new figure by default.

    Returns
    -------
    array of two matplotlib axes
    """
    check_result(result, "result", "diagnostics.contraction", MEASURED, ["probability"])
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    panels = check_axes(axes, 2, "two, for the error and the radius")
    for i, label in enumerate(result["label"].values):
        _draw_label(panels, result.sel(label=label).dropna("n", subset=["error"]), f"C{i % 10}", plain(label))
    probability = 100 * float(result.attrs["probability"])
    for panel in panels:
        panel.set(xscale="log", yscale="log", xlabel="number of responses n")
        panel.grid(alpha=0.3)
    if np.isfinite(result["bvm"]).any():
        panels[0].plot([], [], color="0.4", linestyle="--", label="Bernstein–von Mises, 2 Tr I⁻¹/n")
    panels[0].set(ylabel="E‖θ − θ*‖²", title="Squared error of the posterior")
    panels[1].set(
        ylabel=f"radius of {probability:g} % around θ*", title=f"Ball with {probability:g} % of the posterior"
    )
    for panel in panels:
        panel.legend(frameon=False)
    legible(panels)
    return panels


def _draw_label(panels: NDArray[np.object_], part: "xr.Dataset", color: str, label: str) -> None:
    n, slope, error = part["n"].values, float(part["slope"]), float(part["slope_se"])
    # Of a single run, whose checkpoints are not independent, the standard error would be too small.
    figures = f"{slope:.2f} ± {error:.2f}" if int(part["runs"]) > 1 else f"{slope:.2f}"
    told = f"{label}: slope " + figures.replace("-", "−") if np.isfinite(slope) else label
    spread = part["error_se"].values
    panels[0].errorbar(
        n, part["error"].values, yerr=spread if np.isfinite(spread).all() else None, color=color, marker="o", label=told
    )
    panels[1].plot(n, part["radius"].values, color=color, marker="o", label=label)
    known = np.isfinite(part["bvm"].values)
    panels[0].plot(n[known], part["bvm"].values[known], color=color, linestyle="--")
