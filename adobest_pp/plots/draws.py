"""Estimated shares with their intervals, and the draws of samplers: how chains move, and whether they agree."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_probabilities
from adobest_pp._text import brief
from adobest_pp.answers.draws import thetas_of
from adobest_pp.intervals import above, summary
from adobest_pp.intervals.many import check_threshold
from adobest_pp.plots._common import (
    COLORS,
    check_axes,
    check_categories,
    check_result,
    legend_entry,
    legible,
    look,
    number_log_axis,
    shorten,
)

# The most categories that `plot_shares` draws: the largest.
MOST_DRAWN = 30
# The most points of a line: more would not be visible.
MOST_TRACED = 500
MOST_RANKED = 2000

# This many characters fit beside a row of panels.
LONGEST_ROW = 14

# Labels beside points: their tilt in degrees, and the least distance of two lines in points.
_TILT, _LINE = 35, 9.0


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
        raise ValueError(f"group must be one of {brief(known)}, got {brief(chosen)}")
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
    return legible(ax)


# ArviZ's plot_forest has neither intervals that start at zero, nor covering intervals, nor bars of the truth.
def plot_estimates(
    draws: Mapping[str, xr.DataTree],
    truth: ArrayLike | None = None,
    categories: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Plot the estimated share of each category with its 95 % interval, samplers beside each other.

    A point is the posterior mean. A single run has the intervals of `intervals.summary`, which cover the truth whatever
    the shares are. Several runs, to be compared, have the shortest intervals with 95 % of the draws
    (`intervals.shortest_intervals`).

    Parameters
    ----------
    draws : mapping of str to DataTree
        Trees of `sample`, with ``posterior/theta`` by chain, draw and category.
    truth : array of shape (K,), optional
        The true shares of all categories, drawn as bars: by label (of xarray or pandas), or in the order of the
        categories of the first tree.
    categories : sequence of labels, optional
        The categories to draw; all by default.
    ax
        As in `plot_shares`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> ax = ad.plots.plot_estimates({"gibbs": ad.sample(responses, "gibbs", random_seed=1)})
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['no', 'yes']
    """
    thetas = thetas_of(draws)
    known = next(iter(thetas.values()))["category"].values.tolist()
    labels = known if categories is None else check_categories(categories, known)
    shares = None if truth is None else check_probabilities(truth, len(known), "truth", known)
    (ax,) = check_axes(ax, 1, "one", (8, 1.2 + 0.42 * len(labels)))
    places = np.arange(len(labels))
    if shares is not None:
        ax.barh(places, [shares[known.index(label)] for label in labels], height=0.8, color="0.88", label="true share")
    for i, (name, theta) in enumerate(thetas.items()):
        shown = summary(_run_of(draws[name], theta) if len(draws) == 1 else theta).sel(category=labels)
        mean, low, high = (shown[column].values for column in ("mean", "lower", "upper"))
        y = places + 0.6 * ((i + 0.5) / len(thetas) - 0.5)
        bars = np.maximum([mean - low, high - mean], 0)
        ax.errorbar(mean, y, xerr=bars, linestyle="none", markersize=5, capsize=2, label=legend_entry(name), **look(i))
    ax.set_yticks(places, [shorten(label) for label in labels])
    ax.invert_yaxis()
    ax.set(xlabel="share of people, with 95 % intervals", xlim=(0, None))
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    return legible(ax)


def plot_ranked(
    tree: xr.DataTree, threshold: float | None = None, truth: ArrayLike | None = None, labels: int = 10, ax: Any = None
) -> Any:
    """Plot the estimated shares of many categories against their rank, on logarithmic axes, with 95 % intervals.

    A point is the posterior mean, the largest first. The band shows the intervals of `intervals.summary`; where it
    reaches the lower edge of the figure, the share may be zero. There may be two categories or ten thousand.

    Parameters
    ----------
    tree : DataTree
        Of `sample`.
    threshold : float, optional
        A share, drawn as a line. The categories that are surely above it (`intervals.above`) are drawn as stars.
    truth : array of shape (K,), optional
        The true shares, drawn as small dots, as in `plot_estimates`.
    labels : int, default 10
        How many of the largest categories to label at most: a label that would cover another is left out.
    ax
        As in `plot_shares`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(3, epsilon=2.0)
    >>> answers = mechanism.privatize([0] * 600 + [1] * 300 + [2] * 100, rng=np.random.default_rng(1))
    >>> tree = ad.sample(ad.Responses.from_arrays(mechanism, answers, categories=list("abc")), "gibbs", random_seed=1)
    >>> ax = ad.plots.plot_ranked(tree, threshold=0.2)
    >>> [text.get_text() for text in ax.texts]
    ['a', 'b', 'c']
    """
    theta = thetas_of({"estimate": tree}, "tree")["estimate"]
    known = theta["category"].values.tolist()
    shares = None if truth is None else check_probabilities(truth, len(known), "truth", known)
    n_labels = check_integer(labels, "labels", 0)
    if threshold is not None:
        check_threshold(threshold)
    run = _run_of(tree, theta)
    shown = summary(run)
    (ax,) = check_axes(ax, 1, "one", (8, 5))
    order = np.argsort(-shown["mean"].values, kind="stable")
    mean, low, high = (shown[column].values[order] for column in ("mean", "lower", "upper"))
    rank, floor = np.arange(1, len(known) + 1), _floor(mean, high)
    # In a vector file, thousands of points become one bitmap.
    bitmap = len(known) > MOST_TRACED
    points = {"linestyle": "none", "rasterized": bitmap}
    band = {"color": COLORS[0], "alpha": 0.25, "linewidth": 0, "step": "mid", "rasterized": bitmap}
    ax.fill_between(rank, np.maximum(low, floor), high, **band)
    ax.plot(rank, np.maximum(mean, floor), "o", color=COLORS[0], markersize=4, label="estimate", **points)
    if shares is not None:
        ax.plot(rank, np.maximum(shares[order], floor), ".", color="0.3", markersize=3, label="true share", **points)
    if threshold is not None:
        sure = set(above(run, threshold)["category"].values.tolist())
        listed = np.array([known[i] in sure for i in order])
        ax.axhline(threshold, color="0.4", linestyle="--", linewidth=1, label=f"threshold, {threshold:.2g}")
        name = f"surely above it: {len(sure):,}"
        ax.plot(rank[listed], mean[listed], "*", color=COLORS[1], markersize=9, label=name, **points)
    ax.set(xscale="log", yscale="log", xlim=(0.8, 1.25 * len(known)), ylim=(floor, min(2 * high.max(), 1.0)))
    names = [shorten(known[i]) for i in order[:n_labels]]
    for i in _apart(ax.transData.transform(np.column_stack([rank, high])[: len(names)]) * 72 / ax.figure.dpi):
        place = {"xytext": (4, 4), "textcoords": "offset points", "rotation": _TILT, "fontsize": "small"}
        ax.annotate(names[i], (rank[i], high[i]), **place)
    ax.set(xlabel="rank of the estimate", ylabel="share of people, with 95 % intervals")
    number_log_axis(ax.xaxis, ax.yaxis)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower left")
    return legible(ax)


def _run_of(tree: xr.DataTree, theta: xr.DataArray) -> xr.DataTree | xr.DataArray:
    """Return a tree of `sample`, which `intervals` reads the answers from; of another tree only θ."""
    return tree if {"prior_concentration", "n_responses"} <= set(tree.attrs) else theta


def _apart(places: NDArray[np.float64]) -> list[int]:
    """Return which labels to write at these places, in points, so that none covers another."""
    turn = math.radians(_TILT)
    height = places @ [-math.sin(turn), math.cos(turn)]  # across the tilted text
    kept: list[int] = []
    for i in range(len(places)):
        if all(abs(height[i] - height[j]) >= _LINE for j in kept):
            kept.append(i)
    return kept


def _floor(mean: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Return the smallest share on a logarithmic axis: well below what can be distinguished from zero."""
    return float(max(min(high.min() / 10, mean[mean > 0].min(initial=1.0)), high.min() / 100, 1e-9))


def plot_traces(draws: Mapping[str, xr.DataTree], categories: Sequence[Any]) -> NDArray[np.object_]:
    """Plot the draws of each chain in the order of sampling, one row per sampler, with `arviz_plots.plot_trace`.

    Chains that have mixed look alike and have no trend. Each chain has its own color. A long chain is thinned to at
    most 500 evenly spaced draws.

    Parameters
    ----------
    draws : mapping of str to DataTree
        Trees of `sample`.
    categories : sequence of labels
        The categories to draw.

    Returns
    -------
    array of matplotlib axes, of shape (samplers, categories)

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> draws = {"gibbs": ad.sample(responses, "gibbs", random_seed=1)}
    >>> ad.plots.plot_traces(draws, ["no", "yes"]).shape
    (1, 2)
    """
    from arviz_plots import plot_trace

    thetas, labels = _chosen(draws, categories)
    panels = _grid(thetas, labels, "draw", "share of people", sharey="col")
    visuals = {"trace": {"width": 0.6, "alpha": 0.8}, **dict.fromkeys(("title", "xlabel", "ticklabels"), False)}
    for row, theta in zip(panels, thetas.values(), strict=True):
        data = _thinned(theta, MOST_TRACED).to_dataset(name="theta")
        plot_trace(xr.DataTree.from_dict({"posterior": data}), plot_collection=_collection(data, row), visuals=visuals)
    return panels


# ArviZ's plot_rank spends seconds on a test that assumes independent draws, and cannot hide its findings, of which
# chains that have mixed have some, too.
def plot_ranks(draws: Mapping[str, xr.DataTree], categories: Sequence[Any]) -> NDArray[np.object_]:
    """Plot how the ranks of each chain among all draws differ from uniform ones, with `arviz_plots.plot_ecdf_pit`.

    A line is the share of a chain's draws up to a rank minus the share of all draws up to it [1]_. Chains that have
    mixed stay near zero. A chain above zero has too many small values, a chain below zero too few.

    Parameters
    ----------
    draws, categories
        As in `plot_traces`.

    Returns
    -------
    array of matplotlib axes, of shape (samplers, categories)

    References
    ----------
    .. [1] T. Säilynoja, P.-C. Bürkner and A. Vehtari (2022), Graphical test for discrete uniformity and its
       applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> draws = {"gibbs": ad.sample(responses, "gibbs", random_seed=1)}
    >>> ad.plots.plot_ranks(draws, ["no", "yes"]).shape
    (1, 2)
    """
    from arviz_plots import plot_ecdf_pit

    thetas, labels = _chosen(draws, categories)
    panels = _grid(thetas, labels, "rank among all draws, as a share", "ECDF − uniform", sharex=True, sharey=True)
    hidden = ("title", "xlabel", "ylabel", "suspicious_points", "p_value_text")
    # In a vector file, thousands of points become one bitmap.
    visuals = {"ecdf_lines": {"width": 1.2, "rasterized": True}, **dict.fromkeys(hidden, False)}
    for row, theta in zip(panels, thetas.values(), strict=True):
        ranks = theta.azstats.compute_ranks(dim=["chain", "draw"], relative=True)
        data = _thinned(ranks, MOST_RANKED).to_dataset(name="theta")
        plot_ecdf_pit(
            xr.DataTree.from_dict({"posterior": data}),
            group="posterior",
            sample_dims=["draw"],
            plot_collection=_collection(data, row),
            aes_by_visuals={"ecdf_lines": ["color", "overlay"]},
            visuals=visuals,
        )
    panels[0, 0].autoscale(axis="y")  # ArviZ sets the limits that the last row needs
    return panels


def _chosen(draws: Any, categories: Any) -> tuple[dict[str, xr.DataArray], list[str]]:
    """Return θ of each tree for the categories to draw, and their labels."""
    thetas = thetas_of(draws)
    labels = check_categories(categories, next(iter(thetas.values()))["category"].values.tolist())
    return {name: theta.sel(category=labels) for name, theta in thetas.items()}, labels


def _grid(
    thetas: Mapping[str, Any], categories: Sequence[str], xlabel: str, ylabel: str, **shared: Any
) -> NDArray[np.object_]:
    """Return named panels, with a row for each sampler and a column for each category."""
    size = (1.0 + 2.4 * len(categories), 0.8 + 1.5 * len(thetas))
    shape = (len(thetas), len(categories))
    figure, panels = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained", **shared)
    for panel, label in zip(panels[0], categories, strict=True):
        panel.set_title(shorten(label), fontsize="medium")
    for panel, name in zip(panels[:, 0], thetas, strict=True):
        panel.set_ylabel(shorten(name, LONGEST_ROW), fontweight="bold")
    figure.supxlabel(xlabel, fontsize="medium")
    figure.supylabel(ylabel, fontsize="medium")
    legible(panels)
    return np.asarray(panels, dtype=object)


def _thinned(values: xr.DataArray, most: int) -> xr.DataArray:
    """Return at most `most` draws of each chain, evenly spaced, numbered as before."""
    numbered = values.assign_coords({dim: np.arange(values.sizes[dim]) for dim in ("chain", "draw")})
    return numbered.isel(draw=slice(None, None, -(-values.sizes["draw"] // most)))


def _collection(data: xr.Dataset, row: NDArray[np.object_]) -> Any:
    """Return what ArviZ draws on: a row of panels, one for each category, with a color for each chain."""
    from arviz_plots import PlotCollection

    places = {"row_index": np.zeros(row.size, dtype=int), "col_index": np.arange(row.size), "plot": row}
    panels = xr.Dataset({name: ("category", values) for name, values in places.items()}, data["category"].coords)
    panels["figure"] = xr.DataArray(np.array(row[0].figure, dtype=object))
    chains = {"color": ["chain"], "overlay": ["chain"]}
    return PlotCollection(data, xr.DataTree(panels), aes=chains, backend="matplotlib", color=list(COLORS))
