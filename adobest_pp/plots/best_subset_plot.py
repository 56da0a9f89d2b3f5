"""How often the best question was asked."""

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

__all__ = ["plot_best_subset"]

PANELS = {"frequency": "in windows", "cumulative": "since the first person"}
MEASURED = ("label", "people", "best_size", *PANELS, *(f"{name}_se" for name in PANELS))


def plot_best_subset(result: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Draw the frequency of S_t = S* against the people asked, in windows and cumulative, with two standard errors.

    Parameters
    ----------
    result : xarray.Dataset
        Of `adobest_pp.diagnostics.best_subset`.
    axes : sequence of two matplotlib axes, optional
        For the windows and the cumulative frequency; a new figure by default.

    Returns
    -------
    array of two matplotlib axes
    """
    check_result(result, "result", "diagnostics.best_subset_frequency", MEASURED)
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(11.5, 4.2), sharey=True, layout="constrained")
    panels = check_axes(axes, 2, "two, for the windows and the cumulative frequency")
    for panel, (name, title) in zip(panels, PANELS.items(), strict=True):
        for i, label in enumerate(result["label"].values):
            part = result.sel(label=label).dropna("people", subset=[name])
            people, share, error = part["people"].values, part[name].values, part[f"{name}_se"].values
            told = f"{plain(label)} (|S*| = {int(part['best_size'])})"
            panel.plot(people, share, color=f"C{i % 10}", label=told)
            panel.fill_between(
                people,
                np.clip(share - 2 * error, 0, 1),
                np.clip(share + 2 * error, 0, 1),
                color=f"C{i % 10}",
                alpha=0.15,
                linewidth=0,
            )
        panel.set(xlabel="people asked", ylabel="frequency of S_t = S*", title=f"Best subset asked, {title}")
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    legible(panels)
    return panels
