"""SGLD's bias and mixing against its step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._inputs import check_axes, check_result

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["plot_step_sizes"]

PANELS = {
    "mean_error": ("Bias: the mean", "error of the mean, in reference sd"),
    "sd_ratio": ("Bias: the spread", "sd / reference sd"),
    "r_hat": ("Mixing: chains agree", "greatest R-hat"),
    "ess": ("Mixing: draws that count", "smallest ESS"),
}
MEASURED = ("batch_size", "diffusion", "step_size", *PANELS)
LINESTYLES = ("-", "--", ":", "-.")


def plot_step_sizes(study: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Draw bias and mixing of SGLD against its step, a color for each batch size and a line style for each diffusion.

    Parameters
    ----------
    study : xarray.Dataset
        Of `adobest_pp.diagnostics.step_size_study`.
    axes : sequence of four matplotlib axes, optional
        For the error of the mean, the ratio of standard deviations, R-hat and ESS; a new figure by default.

    Returns
    -------
    array of four matplotlib axes
    """
    check_result(study, "study", "diagnostics.step_size_study", MEASURED, ["budget"])
    if axes is None:
        _, axes = plt.subplots(2, 2, figsize=(12, 7.5), sharex=True, layout="constrained")
    panels = check_axes(axes, 4, "four, one for each measure")
    batches = study["batch_size"].values.tolist()
    colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.85, len(batches)))
    for panel, (name, (title, label)) in zip(panels, PANELS.items(), strict=True):
        for d, diffusion in enumerate(study["diffusion"].values.tolist()):
            style = LINESTYLES[d % len(LINESTYLES)]
            for batch, color in zip(batches, colors, strict=True):
                values = study[name].sel(diffusion=diffusion, batch_size=batch).values
                told = f"{diffusion}, batch {batch}"
                panel.plot(study["step_size"].values, values, style, color=color, marker="o", markersize=4, label=told)
        panel.set(xscale="log", yscale="log", title=title, ylabel=label, xlabel="step size γ")
        panel.grid(alpha=0.3, which="both")
    for panel in panels[1:3]:
        panel.axhline(1.0, color="tab:red", linewidth=1, label="exact")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    panels[0].figure.suptitle(f"SGLD at an equal cost of {study.attrs['budget']:,} gradients of responses")
    return panels
