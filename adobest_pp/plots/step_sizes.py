"""Bias and mixing of SGLD against its step size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._common import MARKERS, check_axes, check_result, number_log_axis

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["plot_step_sizes"]


PANELS = {
    "mean_error": ("Bias: the mean", "error of the mean, in reference sd"),
    "sd_ratio": ("Bias: the spread", "sd / reference sd"),
    "r_hat": ("Mixing: chains agree", "largest R-hat"),
    "ess": ("Mixing: effective draws", "smallest ESS"),
}
MEASURED = ("batch_size", "diffusion", "step_size", *PANELS)
LINESTYLES = ("-", "--", ":", "-.")


def plot_step_sizes(study: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot how biased SGLD is, and how well it mixes, against its step size.

    Each batch size has its color and marker, each diffusion its line style.

    Parameters
    ----------
    study : xarray.Dataset
        The result of `adobest_pp.diagnostics.step_size_study`.
    axes : sequence of four matplotlib axes, optional
        For the error of the mean, the ratio of standard deviations, R-hat and ESS; a new figure by default.

    Returns
    -------
    array of four matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=2.0), [0] * 30 + [1] * 10)
    >>> reference = ad.sample(responses, "gibbs", random_seed=1)
    >>> steps = {"step_sizes": [0.01, 0.1], "batch_sizes": [10], "budget": 100_000}
    >>> ad.plots.plot_step_sizes(ad.diagnostics.step_size_study(responses, reference, **steps)).shape
    (4,)
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
            for b, (batch, color) in enumerate(zip(batches, colors, strict=True)):
                values = study[name].sel(diffusion=diffusion, batch_size=batch).values
                told = f"{diffusion}, batch {batch}"
                drawn = {"color": color, "marker": MARKERS[b % len(MARKERS)], "markersize": 4, "label": told}
                panel.plot(study["step_size"].values, values, style, **drawn)
        panel.set(xscale="log", yscale="log", title=title, ylabel=label, xlabel="step size γ")
        panel.grid(alpha=0.3, which="both")
        number_log_axis(panel.yaxis)
    for panel in panels[1:3]:
        panel.axhline(1.0, color="black", linestyle=":", label="exact")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    panels[0].figure.suptitle(f"SGLD at an equal cost of {study.attrs['budget']:,} gradients of responses")
    return panels
