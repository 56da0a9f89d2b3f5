"""The probability of an honest answer (Figure 2 of the paper)."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import as_numbers, check_integer, check_n_categories
from adobest_pp._text import brief
from adobest_pp.design import utility
from adobest_pp.mechanisms import RRRR
from adobest_pp.plots._inputs import check_axes
from adobest_pp.plots._looks import COLORS

__all__ = ["plot_honest_response"]


def plot_honest_response(
    epsilons: Sequence[float] = (1.0, 5.0),
    n_categories: int = 20,
    kappa: float = 0.9,
    sizes: Sequence[int] = (1, 2, 3, 5, 10, 15, 19),
    ratios: Sequence[float] | None = None,
    axes: Sequence[Any] | None = None,
) -> NDArray[np.object_]:
    """Plot the probability of an honest answer under RRRR against how uneven θ is, for several subset sizes.

    The defaults are Figure 2 of [1]_. θ falls by the same factor from each category to the next; S holds the k
    most probable. The dashed line is SRR, which does not depend on θ, and the dotted one the best size at each ratio.

    Parameters
    ----------
    epsilons : sequence of float
        Privacy budgets, one panel each.
    n_categories : int
        Number of categories K.
    kappa : float
        Share of the budget within the subset.
    sizes : sequence of int
        Subset sizes to draw, 0 … K−1.
    ratios : sequence of float, optional
        Values of θᵢ/θᵢ₊₁, at least 1; 100 values from 1 to 2 by default.
    axes : sequence of matplotlib axes, optional
        One for each ε; a new figure by default.

    Returns
    -------
    array of matplotlib axes, of shape (number of epsilons,)

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> [panel.get_title() for panel in ad.plots.plot_honest_response([2.0], n_categories=5, sizes=[1, 3])]
    ['K = 5, ε = 2, κ = 0.9']
    """
    k = check_n_categories(n_categories)
    for name, given in (("sizes", sizes), ("epsilons", epsilons)):
        is_list = isinstance(given, Sequence | np.ndarray) and getattr(given, "ndim", 1) == 1
        if isinstance(given, str | bytes | bytearray) or not is_list or not len(given):
            raise ValueError(f"{name} must be a sequence of at least one number, got {brief(given)}")
    drawn = [check_integer(size, "sizes", 0, k - 1) for size in sizes]
    steps = _check_ratios(ratios)
    mechanisms = [RRRR(k, epsilon, kappa) for epsilon in epsilons]
    n = len(mechanisms)
    panels = check_axes(_new_panels(n) if axes is None else axes, n, f"one for each of the {n} epsilons")
    thetas = [family(k, ratio) for ratio in steps]
    for panel, mechanism in zip(panels, mechanisms, strict=True):
        values = np.array([utility(theta, mechanism, "honest") for theta in thetas])
        colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(drawn)))
        for size, color in zip(drawn, colors, strict=True):
            panel.plot(steps, values[:, size], color=color, label=f"k = {size}")
        panel.plot(steps, values.max(axis=1), color="black", linestyle=":", linewidth=1.5, label="best k")
        panel.axhline(values[0, 0], color=COLORS[1], linestyle="--", label="SRR (k = 0)")
        panel.set(title=f"K = {k}, ε = {mechanism.epsilon:g}, κ = {kappa:g}", xlabel="θᵢ / θᵢ₊₁", ylabel="P(Y = X)")
        panel.margins(x=0)
        panel.grid(alpha=0.3)
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False)
    return panels


def family(n_categories: int, ratio: float) -> NDArray[np.float64]:
    """Return the θ of the paper's example: θᵢ/θᵢ₊₁ = `ratio` for every i."""
    weights = float(ratio) ** -np.arange(n_categories, dtype=np.float64)
    return np.asarray(weights / weights.sum())


def _check_ratios(ratios: Sequence[float] | None) -> NDArray[np.float64]:
    try:
        values = np.linspace(1, 2, 100) if ratios is None else as_numbers(ratios, "fiu").astype(np.float64)
    except TypeError:
        values = np.empty(0)
    if values.ndim != 1 or values.size == 0 or not np.all((values >= 1) & np.isfinite(values)):
        raise ValueError(f"ratios must be finite numbers of at least 1, got {brief(ratios)}")
    return values


def _new_panels(n: int) -> Any:
    _, panels = plt.subplots(1, n, figsize=(5 * n + 1.5, 4), squeeze=False, layout="constrained")
    return panels[0]
