"""Half-width against people, a line a mechanism; and the efficiency of mechanisms over ε."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp.plots._common import check_axes, check_result, look, number_log_axis

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.design.plan import Plan

# The figure reaches this many times below and above the people of the plan.
REACH = 10.0


def plot_plan(plan: "Plan", ax: Any = None) -> Any:
    """Plot the half-width of the 95 % intervals against the number of people, a line a mechanism.

    Parameters
    ----------
    plan : Plan
        Of `adobest_pp.plan`. Markers are the plan. Lines are what many people tend to, dotted where too few answer for
        that; the grey line is the sampling error of honest answers.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> made = ad.plan([0.5, 0.3, 0.2], people=5000, epsilon=1.0, mechanisms=["srr", "unary-encoding"])
    >>> ad.plots.plot_plan(made).get_xlabel()
    'people'
    """
    from adobest_pp.design.plan import Plan

    if not isinstance(plan, Plan):
        raise ValueError(f"plan must be a Plan, as adobest_pp.plan returns, got {brief(plan)}")
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    (ax,) = check_axes(ax, 1, "one")
    table = plan.table
    known = table["people"].values[np.isfinite(table["people"].values)]
    people = np.geomspace(max(known.min() / REACH, 1.0), known.max() * REACH, 200)
    for i, name in enumerate(table["mechanism"].values.tolist()):
        row = table.sel(mechanism=name)
        if not np.isfinite(row["unit_half_width"]):
            continue
        style = look(i)
        widths = row["unit_half_width"].item() / np.sqrt(people)
        solid = people >= row["reliable_from"].item()
        label = f"{name}, ε = {row['epsilon'].item():.3g}"
        ax.plot(people[~solid], widths[~solid], ":", color=style["color"], linewidth=1.2)
        ax.plot(people[solid], widths[solid], color=style["color"], linewidth=1.5)
        ax.plot(row["people"].item(), row["half_width"].item(), linestyle="-", markersize=8, label=label, **style)
    ax.plot(people, table.attrs["non_private_unit"] / np.sqrt(people), color="0.5", linewidth=2, label="no privacy")
    ax.set(xscale="log", yscale="log", xlabel="people", ylabel="half-width of the 95 % interval, mean of categories")
    ax.set_ylim(top=min(ax.get_ylim()[1], 1.0))
    ax.grid(alpha=0.3, which="both")
    number_log_axis(ax.xaxis)
    number_log_axis(ax.yaxis)
    ax.legend(frameon=False)
    return ax


def plot_efficiency(efficiencies: "xr.Dataset", axes: Any = None) -> NDArray[np.object_]:
    """Plot the efficiency of mechanisms against ε, a panel for each θ.

    Parameters
    ----------
    efficiencies : xarray.Dataset
        ``efficiency`` by ``theta``, ``epsilon`` and ``mechanism``, of `adobest_pp.design.efficiency_table`.
    axes : sequence of matplotlib axes, optional
        One for each θ; a new figure by default.

    Returns
    -------
    array of matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> table = ad.design.efficiency_table(4, [1.0, 2.0], mechanisms=["srr", "subset-selection"])
    >>> ad.plots.plot_efficiency(table).shape
    (3,)
    """
    check_result(efficiencies, "efficiencies", "design.efficiency_table", ("efficiency", "theta", "epsilon"))
    names = efficiencies["theta"].values.tolist()
    if axes is None:
        _, axes = plt.subplots(1, len(names), figsize=(1 + 4 * len(names), 4.5), sharey=True, layout="constrained")
    panels = check_axes(axes, len(names), f"{len(names)}, one for each θ")
    for panel, theta in zip(panels, names, strict=True):
        for i, name in enumerate(efficiencies["mechanism"].values.tolist()):
            one = efficiencies["efficiency"].sel(theta=theta, mechanism=name)
            panel.plot(efficiencies["epsilon"].values, one.values, linewidth=1.5, markersize=5, label=name, **look(i))
        panel.set(xscale="log", xlabel="ε", title=str(theta))
        panel.set_ylim(bottom=0, top=1.05)
        panel.grid(alpha=0.3)
        number_log_axis(panel.xaxis)
    panels[0].set_ylabel("least variance of any ε-LDP mechanism over variance")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    return panels
