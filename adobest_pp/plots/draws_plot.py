"""Draws of several samplers side by side: what they estimate, how their chains move, and whether the chains agree."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_probabilities
from adobest_pp.intervals import shortest_intervals
from adobest_pp.plots._category_names import plain, shorten
from adobest_pp.plots._fonts import legible
from adobest_pp.plots._inputs import check_categories, check_thetas

__all__ = ["plot_estimates", "plot_ranks", "plot_traces"]

RANK_BINS = 20


def plot_estimates(
    draws: Mapping[str, xr.DataTree],
    truth: ArrayLike | None = None,
    categories: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Draw posterior means with 95 % intervals by category, samplers beside each other.

    Intervals are those of `adobest_pp.intervals`: from zero where a category may be empty.

    Parameters
    ----------
    draws : mapping of str to DataTree
        Of `sample`: trees with ``posterior/theta`` by chain, draw and category.
    truth : array of shape (K,), optional
        The true frequencies of all categories, by label (of xarray or pandas) or in the order of the first tree's,
        drawn as bars.
    categories : sequence of labels, optional
        Which to draw; all by default.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes
    """
    thetas = check_thetas(draws)
    known = next(iter(thetas.values()))["category"].values.tolist()
    labels = known if categories is None else check_categories(categories, known)
    shares = None if truth is None else check_probabilities(truth, len(known), "truth", known)
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 1.2 + 0.42 * len(labels)), layout="constrained")
    places = np.arange(len(labels))
    if shares is not None:
        ax.barh(places, [shares[known.index(label)] for label in labels], height=0.8, color="0.9", label="true share")
    for number, (name, theta) in enumerate(thetas.items()):
        flat = theta.sel(category=labels).values.reshape(-1, len(labels))
        mean, (low, high) = flat.mean(axis=0), shortest_intervals(flat)
        y = places + 0.6 * ((number + 0.5) / len(thetas) - 0.5)
        bars = np.maximum([mean - low, high - mean], 0)
        ax.errorbar(mean, y, xerr=bars, fmt="o", markersize=4, color=f"C{number}", capsize=2, label=plain(name))
    ax.set_yticks(places, [shorten(label) for label in labels])
    ax.invert_yaxis()
    ax.set(xlabel="share of people, with 95 % intervals", xlim=(0, None))
    ax.grid(axis="x", alpha=0.3)
    ax.legend(frameon=False)
    legible(ax)
    return ax


def plot_traces(draws: Mapping[str, xr.DataTree], categories: Sequence[Any]) -> NDArray[np.object_]:
    """Draw the chains of some categories: a row for each sampler, a column for each category, with shared axes.

    Chains that have mixed look alike and have no trend.

    Parameters
    ----------
    draws : mapping of str to DataTree
        Of `sample`.
    categories : sequence of labels
        Which to draw.

    Returns
    -------
    array of matplotlib axes, of shape (samplers, categories)
    """
    thetas, labels = _chosen(draws, categories)
    panels = _grid(thetas, labels, sharey="col")
    for row, theta in zip(panels, thetas.values(), strict=True):
        for panel, label in zip(row, labels, strict=True):
            # Thousands of points are one picture inside a vector file.
            panel.plot(theta.sel(category=label).values.T, linewidth=0.5, alpha=0.8, rasterized=True)
    for panel in panels[-1]:
        panel.set_xlabel("draw")
    return panels


def plot_ranks(draws: Mapping[str, xr.DataTree], categories: Sequence[Any]) -> NDArray[np.object_]:
    """Draw histograms of the ranks of each chain among all draws, a row for each sampler [1]_.

    Chains that have mixed share all ranks equally: every line stays near one.

    Parameters
    ----------
    draws : mapping of str to DataTree
        Of `sample`.
    categories : sequence of labels
        Which to draw.

    Returns
    -------
    array of matplotlib axes, of shape (samplers, categories)

    References
    ----------
    .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding,
       and localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
    """
    from scipy.stats import rankdata

    thetas, labels = _chosen(draws, categories)
    panels = _grid(thetas, labels, sharey=True)
    edges = np.linspace(0, 1, RANK_BINS + 1)
    for row, theta in zip(panels, thetas.values(), strict=True):
        for panel, label in zip(row, labels, strict=True):
            values = theta.sel(category=label).values
            shares = (rankdata(values).reshape(values.shape) - 0.5) / values.size
            for chain in shares:
                panel.stairs(np.histogram(chain, edges)[0] * RANK_BINS / chain.size, edges, linewidth=1.2)
            panel.axhline(1, color="black", linewidth=0.8, linestyle="--")
    for panel in panels[-1]:
        panel.set_xlabel("rank among all draws, as a share")
    return panels


def _chosen(draws: Any, categories: Any) -> tuple[dict[str, xr.DataArray], list[str]]:
    """Return θ of each tree for the categories to draw, and these."""
    thetas = check_thetas(draws)
    labels = check_categories(categories, next(iter(thetas.values()))["category"].values.tolist())
    return {name: theta.sel(category=labels) for name, theta in thetas.items()}, labels


def _grid(thetas: Mapping[str, Any], categories: Sequence[str], sharey: Any) -> NDArray[np.object_]:
    size = (0.8 + 3.1 * len(categories), 0.6 + 1.7 * len(thetas))
    _, panels = plt.subplots(
        len(thetas), len(categories), figsize=size, sharey=sharey, squeeze=False, layout="constrained"
    )
    for panel, label in zip(panels[0], categories, strict=True):
        panel.set_title(shorten(label), fontsize="medium")
    for panel, name in zip(panels[:, 0], thetas, strict=True):
        panel.set_ylabel(plain(name))
    legible(panels)
    return np.asarray(panels, dtype=object)
