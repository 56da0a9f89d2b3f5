"""Error against work, and the samplers that no other beats in both."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp.plots._common import COLORS, MARKERS, check_axes, check_result, number_log_axis

if TYPE_CHECKING:
    import xarray as xr

COSTS = {"cpu_seconds": "seconds of CPU", "gradients": "gradients of rows of evidence"}
MEASURED = ("sampler", "length", "distance", *COSTS)


def is_on_frontier(cost: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points no other point beats in both: as cheap and as close, and better in one of them.

    Parameters
    ----------
    cost, error : array of the same shape
        A point with a NaN is not on the frontier.

    Examples
    --------
    >>> import numpy as np
    >>> from adobest_pp.plots.frontier import is_on_frontier
    >>> is_on_frontier(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.1])).tolist()
    [True, False, True]
    """
    x, y = cost.ravel(), error.ravel()
    as_good = (x <= x[:, None]) & (y <= y[:, None])
    better = as_good & ((x < x[:, None]) | (y < y[:, None]))
    known = np.isfinite(x) & np.isfinite(y)
    return np.asarray(known & ~better.any(axis=1)).reshape(cost.shape)


def plot_frontier(points: "xr.Dataset", axes: Sequence[Any] | None = None) -> NDArray[np.object_]:
    """Plot the error of samplers against their work, with the frontier of those that none beats in both.

    Parameters
    ----------
    points : xarray.Dataset
        By ``sampler`` and ``length``: ``distance``, ``cpu_seconds`` and ``gradients``. A line joins the lengths of a
        sampler. Names of samplers of three words (diffusion, gradient, step) have the color of the first two.
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
    check_result(points, "points", "validation.frontier", MEASURED)
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=(13, 6.5), sharey=True, layout="constrained")
    panels = check_axes(axes, 2, "two, for seconds and for gradients")
    names = points["sampler"].values.tolist()
    families = list(dict.fromkeys(" ".join(name.split(" ")[:2]) for name in names))
    for panel, (cost, label) in zip(panels, COSTS.items(), strict=True):
        drawn: set[str] = set()
        for name in names:
            family = " ".join(name.split(" ")[:2])
            one = points.sel(sampler=name)
            style = _look(families.index(family)) | {"label": None if family in drawn else family}
            panel.plot(one[cost].values, one["distance"].values, **style)
            drawn.add(family)
        _draw_frontier(panel, points[cost].values, points["distance"].values)
        panel.set(xscale="log", yscale="log", xlabel=label)
        panel.grid(alpha=0.3, which="both")
        number_log_axis(panel.yaxis)
    number_log_axis(panels[0].xaxis)
    panels[0].set_ylabel("error, in sd of the reference")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    return panels


def _look(i: int) -> dict[str, Any]:
    return {
        "color": COLORS[i % len(COLORS)],
        "marker": MARKERS[(i + i // len(COLORS)) % len(MARKERS)],
        "linestyle": ("-", "--", ":")[i // len(COLORS) % 3],
        "linewidth": 0.8,
        "markersize": 5,
    }


def _draw_frontier(panel: Any, cost: NDArray[np.float64], error: NDArray[np.float64]) -> None:
    on = is_on_frontier(cost, error)
    order = np.argsort(cost[on])
    panel.step(cost[on][order], error[on][order], where="post", color="0.3", linewidth=2.5, alpha=0.4, label="frontier")
