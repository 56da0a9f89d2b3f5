"""How fast posteriors close in on the truth."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._category_names import legend_entry
from adobest_pp.plots._fonts import legible
from adobest_pp.plots._inputs import check_axes, check_result
from adobest_pp.plots._looks import look, number_log_axis

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["plot_contraction"]

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
    >>> run = ad.simulate([0.6, 0.4], ad.RRRR(2, epsilon=2.0), n_people=4000, random_seed=1)
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
    told = f"{name}: slope " + figures.replace("-", "−") if np.isfinite(slope) else name
    spread = part["error_se"].values if np.isfinite(part["error_se"].values).all() else None
    panels[0].errorbar(n, part["error"].values, yerr=spread, label=told, **style)
    panels[1].plot(n, part["radius"].values, label=name, **style)


def _draw_bvm(panel: Any, part: "xr.Dataset", color: str) -> None:
    known = np.isfinite(part["bvm"].values)
    panel.plot(part["n"].values[known], part["bvm"].values[known], color=color, linestyle="--")
