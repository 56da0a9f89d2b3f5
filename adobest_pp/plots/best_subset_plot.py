"""How often the best question was asked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._category_names import legend_entry
from adobest_pp.plots._fonts import legible
from adobest_pp.plots._inputs import check_axes, check_result
from adobest_pp.plots._looks import look

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["plot_best_subset"]

PANELS = {"frequency": "in windows", "cumulative": "since the first person"}
MEASURED = ("label", "people", "best_size", *PANELS, *(f"{name}_se" for name in PANELS))


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
    >>> runs = [ad.simulate(theta, ad.RRRR(3, epsilon=3.0), n_people=500, random_seed=s) for s in (1, 2)]
    >>> result = ad.diagnostics.best_subset_frequency({"honest": runs}, theta, window=100)
    >>> [panel.get_xlabel() for panel in ad.plots.plot_best_subset(result)]
    ['people asked', 'people asked']
    """
    check_result(result, "result", "diagnostics.best_subset_frequency", MEASURED)
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(11.5, 4.2), sharey=True, layout="constrained")
    panels = check_axes(axes, 2, "two, for the windows and the cumulative frequency")
    for panel, (name, title) in zip(panels, PANELS.items(), strict=True):
        for i, label in enumerate(result["label"].values):
            part = result.sel(label=label).dropna("people", subset=[name])
            people, share, error = part["people"].values, part[name].values, part[f"{name}_se"].values
            told = legend_entry(f"{label} (|S*| = {int(part['best_size'])})")
            panel.plot(people, share, markersize=4, label=told, **look(i))
            low, high = np.clip([share - 2 * error, share + 2 * error], 0, 1)
            panel.fill_between(people, low, high, color=look(i)["color"], alpha=0.15, linewidth=0)
        panel.set(xlabel="people asked", title=f"Best subset asked, {title}")
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("frequency of Sₜ = S*")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    legible(panels)
    return panels
