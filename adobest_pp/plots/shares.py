"""The figure of an estimate: the share of each answer with its interval, for everybody."""

from typing import Any

import numpy as np
import xarray as xr

from adobest_pp.plots._common import COLORS, check_axes, check_result, legible, shorten

# The most categories in one figure: of more, the largest, in that order.
MOST_DRAWN = 30


def plot_shares(table: xr.Dataset, group: str | None = None, ax: Any = None) -> Any:
    """Plot the shares of `adobest_pp.estimate` with their intervals.

    Parameters
    ----------
    table : xarray.Dataset
        The result of `adobest_pp.estimate`.
    group : str, optional
        The group to draw; everybody by default.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1] * 20, categories=["no", "yes"])
    >>> ax = ad.plots.plot_shares(ad.estimate(responses))
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['no', 'yes']
    """
    check_result(table, "table", "adobest_pp.estimate", ("share", "lower", "upper", "group"), ("probability",))
    known = table["group"].values.tolist()
    chosen = known[0] if group is None else group
    if chosen not in known:
        raise ValueError(f"group must be one of {', '.join(map(repr, known))}, got {chosen!r}")
    one = table.sel(group=chosen)
    by_share = np.argsort(-one["share"].values, kind="stable")
    drawn = by_share[:MOST_DRAWN] if by_share.size > MOST_DRAWN else np.arange(by_share.size)
    one = one.isel(category=drawn)
    (ax,) = check_axes(ax, 1, "one", (7.5, 0.9 + 0.36 * drawn.size))
    share, low, high = (100 * one[name].values for name in ("share", "lower", "upper"))
    places = np.arange(drawn.size)
    ax.barh(places, share, height=0.62, color="#cfe0ee")
    bars = np.maximum([share - low, high - share], 0)
    ax.errorbar(share, places, xerr=bars, linestyle="none", marker="o", color=COLORS[0], capsize=3, markersize=5)
    ax.set_yticks(places, [shorten(label) for label in one["category"].values.tolist()])
    ax.set(
        ylim=(drawn.size - 0.4, -0.6),
        xlabel=f"per cent of people; the line is the {100 * float(table.attrs['probability']):g} % range",
        xlim=(0, None),
    )
    ax.spines[["top", "right"]].set_visible(False)
    legible(ax)
    return ax
