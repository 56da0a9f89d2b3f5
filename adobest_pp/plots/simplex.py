"""The posterior of three shares on a triangle, with the draws of several samplers side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_probabilities
from adobest_pp._text import brief
from adobest_pp.answers.draws import thetas_of
from adobest_pp.answers.responses import Responses
from adobest_pp.likelihood.marginal import grid_posterior
from adobest_pp.plots._common import COLORS, check_axes, legible, look, plain, shorten

# The corners of the triangle, one for each category.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
# The shaded regions of the exact posterior, darkest first.
REGIONS = (0.5, 0.95)
SHADES = ("#C6DBEF", "#6BAED6")
MOST_DRAWS = 1000
# Up to this many draws are drawn larger.
FEW = 500


def plot_simplex(
    draws: Mapping[str, Any] | None = None,
    responses: Responses | None = None,
    prior: ArrayLike = 1.0,
    truth: ArrayLike | None = None,
    axes: Sequence[Any] | None = None,
) -> NDArray[np.object_]:
    """Plot the posterior of three shares on a triangle: draws as points, the exact posterior behind them.

    At a corner everybody has that category; in the middle the shares are equal. The shaded regions hold 50 % and 95 %
    of the exact posterior, computed on a grid. If the sampler is correct, they hold 50 % and 95 % of the points.

    Parameters
    ----------
    draws : mapping of str to DataTree, optional
        Trees of `sample` with three categories, one panel each, with up to 1000 evenly spaced draws.
    responses : Responses, optional
        The answers whose exact posterior is shaded. Required if there are no draws; then one panel shows it alone.
    prior : float or array of shape (3,), default 1.0
        Concentration of the Dirichlet prior of the exact posterior.
    truth : array of shape (3,), optional
        The true shares, drawn as a cross: by label (of xarray or pandas), or in the order of the draws.
    axes : sequence of matplotlib axes, optional
        One for each panel; a new figure by default.

    Returns
    -------
    array of matplotlib axes

    See Also
    --------
    adobest_pp.likelihood.grid_posterior : The exact posterior as numbers.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(3, epsilon=1.0)
    >>> responses = ad.Responses.from_arrays(mechanism, [0, 0, 1, 2, 0], categories=["red", "green", "blue"])
    >>> draws = {name: ad.sample(responses, name, random_seed=1) for name in ("nuts", "gibbs")}
    >>> [panel.get_title() for panel in ad.plots.plot_simplex(draws, responses)]
    ['nuts', 'gibbs']
    """
    if draws is None and responses is None:
        raise ValueError("draws or responses must be given, got neither")
    if responses is not None and not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {brief(responses)}")
    thetas = {} if draws is None else thetas_of(draws)
    labels = _labels(thetas, responses)
    mark = None if truth is None else check_probabilities(truth, 3, "truth", labels) @ CORNERS
    titles = list(thetas) if thetas else ["exact posterior"]
    n = len(titles)
    panels = check_axes(axes, n, f"one for each of the {n} panels", (3.6 * n, 3.6))
    for i, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        _draw_triangle(panel, labels)
        panel.set_title(plain(title), fontsize="medium")
        if responses is not None:
            _shade(panel, responses, prior, labels)
        if thetas:
            points = thetas[title].values.reshape(-1, 3)
            x, y = (points[:: -(-len(points) // MOST_DRAWS)] @ CORNERS).T
            size, alpha = (2.5, 0.35) if len(x) > FEW else (4, 0.6)
            panel.plot(x, y, ".", markersize=size, color=look(i + 1)["color"], alpha=alpha, zorder=3)
        if mark is not None:
            panel.plot(*mark, "X", color="black", markeredgecolor="white", markersize=9, zorder=5)
    return legible(panels)


def _labels(thetas: Mapping[str, Any], responses: Responses | None) -> list[str]:
    """Return the three labels, in the order of the draws, or raise ValueError."""
    labels = [str(label) for label in next(iter(thetas.values()))["category"].values] if thetas else None
    known = labels if responses is None else list(responses.categories)
    if labels is not None and known is not None and sorted(known) != sorted(labels):
        raise ValueError(f"responses must have the categories {brief(labels)} of the draws, got {brief(known)}")
    found = labels or known or []
    if len(found) != 3:
        raise ValueError(f"draws and responses must have 3 categories for a triangle, got {len(found)}")
    return found


def _shade(panel: Any, responses: Responses, prior: ArrayLike, labels: list[str]) -> None:
    posterior = grid_posterior(responses, prior)
    corners = CORNERS[[labels.index(label) for label in responses.categories]]
    x, y = np.moveaxis(posterior.theta @ corners, -1, 0)
    levels = [posterior.level(share) for share in sorted(REGIONS, reverse=True)]
    top = max(float(posterior.log_density.max()), levels[-1]) + 1e-9
    panel.contourf(x, y, posterior.log_density, levels=[*levels, top], colors=SHADES, zorder=1)
    panel.contour(
        x, y, posterior.log_density, levels=levels, colors=COLORS[0], linewidths=1, linestyles="solid", zorder=4
    )


def _draw_triangle(panel: Any, labels: list[str]) -> None:
    for share in (0.25, 0.5, 0.75):
        for i in range(3):
            others = [j for j in range(3) if j != i]
            ends = [share * CORNERS[i] + (1 - share) * CORNERS[j] for j in others]
            panel.plot(*np.transpose(ends), color="0.88", linewidth=0.7, zorder=2)
    panel.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.3", linewidth=1.2, zorder=2)
    for (x, y), label, place in zip(CORNERS, labels, ("top", "top", "bottom"), strict=True):
        shift = (0, -4 if place == "top" else 4)
        panel.annotate(
            shorten(label), (x, y), shift, textcoords="offset points", ha="center", va=place, annotation_clip=True
        )
    panel.set(xlim=(-0.12, 1.12), ylim=(-0.12, 0.98), xticks=[], yticks=[], aspect="equal")
    panel.spines[:].set_visible(False)
