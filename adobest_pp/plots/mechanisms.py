"""Mechanisms: what one private answer reveals, and how many people a collection needs."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_integer, check_n_categories, check_probabilities
from adobest_pp._text import brief, check_labels
from adobest_pp.design import Plan, utility
from adobest_pp.mechanisms import RRRR, Mechanism, privacy_loss
from adobest_pp.mechanisms.privacy import check_matrix
from adobest_pp.plots._common import (
    COLORS,
    check_axes,
    check_result,
    legend_beside,
    legend_entry,
    legible,
    look,
    number_log_axis,
    shorten,
    widths,
)

# Larger matrices have no numbers in their cells, and fewer names beside them.
MOST_NUMBERED = 12
MOST_NAMED = 16
# Up to this many columns there is room for large numbers.
FEW = 3


def plot_channel(
    mechanism: Mechanism | ArrayLike,
    subset: ArrayLike | None = None,
    categories: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Plot the matrix of a mechanism as a heat map, with its privacy loss in the title.

    A column has the probabilities of the answers of a person with that true category, and sums to 100 %. The two framed
    cells have the largest ratio of all pairs in a row; its logarithm is the privacy loss.

    Parameters
    ----------
    mechanism : Mechanism or array of shape (outputs, K)
        The mechanism, or ``G[y, x] = P(Y=y | X=x)`` itself.
    subset : indices or boolean mask, optional
        The published subset, for a mechanism that publishes one.
    categories : sequence of K labels, optional
        Category names; 0, 1, … by default.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes

    See Also
    --------
    plot_belief : What one answer reveals about a person.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.plots.plot_channel(ad.SRR(3, epsilon=1.0)).get_title()
    'privacy loss: ε = 1'
    """
    matrix, answers = _matrix_of(mechanism, subset, categories)
    labels = check_labels(categories, matrix.shape[1])
    size = (1.8 + 0.55 * min(matrix.shape[1], 14), 1.6 + 0.5 * min(len(matrix), 14))
    (ax,) = check_axes(ax, 1, "one", size)
    ax.imshow(matrix, cmap="Blues", vmin=0, vmax=max(1e-12, float(matrix.max())) * 1.15, aspect="auto")
    if max(matrix.shape) <= MOST_NUMBERED:
        size_of_numbers = "large" if matrix.shape[1] <= FEW else "small"
        for (y, x), share in np.ndenumerate(matrix):
            color = "white" if share > 0.65 * matrix.max() else "black"
            ax.text(x, y, f"{100 * share:.3g} %", ha="center", va="center", color=color, fontsize=size_of_numbers)
    loss = privacy_loss(matrix)
    for y, x in _worst_pair(matrix):
        ax.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, edgecolor=COLORS[1], linewidth=2))
    _name_axis(ax.xaxis, labels)
    _name_axis(ax.yaxis, answers)
    ax.set(xlabel="true category", ylabel="answer")
    ax.set_title("privacy loss: ∞" if np.isinf(loss) else f"privacy loss: ε = {loss:.3g}", fontsize="medium")
    return legible(ax)


def plot_belief(
    mechanism: Mechanism | ArrayLike,
    answer: int,
    prior: ArrayLike | None = None,
    subset: ArrayLike | None = None,
    categories: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """Plot how one answer changes the belief about a person's category.

    By Bayes' rule the belief after the answer y is proportional to prior[x]·P(y | x). The number above a pair of bars
    is their ratio. The odds of two categories change by at most e^ε, whatever the belief was before.

    Parameters
    ----------
    mechanism, subset, categories, ax
        As in `plot_channel`.
    answer : int
        The row of the matrix: for most mechanisms, the category that was answered.
    prior : array of shape (K,), optional
        The belief before; uniform by default. Labels are matched with `categories`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ax = ad.plots.plot_belief(ad.SRR(2, epsilon=1.0), answer=1, prior=[0.9, 0.1], categories=["no", "yes"])
    >>> [f"{bar.get_height():.3f}" for bar in ax.containers[1]]
    ['0.768', '0.232']
    """
    matrix, answers = _matrix_of(mechanism, subset, categories)
    labels = check_labels(categories, matrix.shape[1])
    y = check_integer(answer, "answer", 0, len(matrix) - 1)
    flat = np.full(len(labels), 1 / len(labels))
    before = flat if prior is None else check_probabilities(prior, len(labels), "prior", labels)
    after = before * matrix[y]
    if after.sum() == 0:
        raise ValueError(f"answer must be possible under the prior, got {brief(answer)}")
    after = after / after.sum()
    (ax,) = check_axes(ax, 1, "one", (2.5 + 0.75 * min(len(labels), 14), 3.4))
    places = np.arange(len(labels))
    ax.bar(places - 0.2, before, width=0.38, color="0.75", label="before")
    ax.bar(places + 0.2, after, width=0.38, color=COLORS[0], label=f"after the answer “{shorten(answers[y])}”")
    if len(labels) <= MOST_NUMBERED:
        for place, old, new in zip(places, before, after, strict=True):
            ratio = f"×{new / old:.3g}" if old > 0 else ""
            style = {"textcoords": "offset points", "ha": "center", "fontsize": "small"}
            ax.annotate(ratio, (place, max(old, new)), (0, 3), **style)
    _name_axis(ax.xaxis, labels)
    ax.set(xlabel="true category", ylabel="belief about this person", ylim=(0, min(1.12, 1.25 * max(*before, *after))))
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return legible(ax)


def _matrix_of(mechanism: Any, subset: Any, categories: Any) -> tuple[NDArray[np.float64], list[str]]:
    """Return the matrix of a mechanism and the names of its rows, or raise ValueError."""
    if not isinstance(mechanism, Mechanism):
        if subset is not None:
            raise ValueError(f"subset must be left out for a matrix, got {brief(subset)}")
        matrix = check_matrix(mechanism)
        return matrix, _answer_names(len(matrix), check_labels(categories, matrix.shape[1]))
    if mechanism.publishes_subset != (subset is not None):
        allowed = "given" if mechanism.publishes_subset else "left out"
        raise ValueError(f"subset must be {allowed} for {type(mechanism).__name__}, got {brief(subset)}")
    if not hasattr(mechanism, "transition_matrix"):
        raise ValueError(f"mechanism must have a transition matrix, got {type(mechanism).__name__}")
    outputs, labels = mechanism.outputs(), check_labels(categories, mechanism.n_categories)
    matrix = np.asarray(mechanism.transition_matrix(*(() if subset is None else (subset,))), dtype=np.float64)
    sets = mechanism.support(mechanism.check_answers(outputs))
    if sets is not None:
        return matrix, ["{" + ", ".join(np.array(labels)[held].tolist()) + "}" for held in sets]
    return matrix, _answer_names(len(matrix), labels)


def _answer_names(n: int, labels: Sequence[str]) -> list[str]:
    """Return the names of n answers: the categories if there are n of them, otherwise numbers."""
    return list(labels) if n == len(labels) else list(map(str, range(n)))


def _worst_pair(matrix: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the cells with the largest and smallest probability in the row where their ratio is largest."""
    high, low = matrix.max(axis=1), matrix.min(axis=1)
    ratio = np.divide(high, low, out=np.where(high > 0, np.inf, 1.0), where=low > 0)
    y = int(ratio.argmax())
    return [(y, int(matrix[y].argmax())), (y, int(matrix[y].argmin()))]


def _name_axis(axis: Any, names: Sequence[str]) -> None:
    """Name rows or columns: of many only every second or third, and slanted if names are long."""
    step = -(-len(names) // MOST_NAMED)
    shown = [shorten(name) for name in names[::step]]
    slanted = axis.axis_name == "x" and max(map(len, shown)) * len(shown) > 48
    slant: dict[str, Any] = {"rotation": 40, "ha": "right"} if slanted else {}
    axis.set_ticks(range(0, len(names), step), shown, **slant)


# The probability of an honest answer (Figure 2 of the paper).


def plot_honest_response(
    epsilons: Sequence[float] = (1.0, 5.0),
    n_categories: int = 20,
    kappa: float = 0.9,
    sizes: Sequence[int] = (1, 2, 3, 5, 10, 15, 19),
    ratios: Sequence[float] | None = None,
    axes: Sequence[Any] | None = None,
) -> NDArray[np.object_]:
    """Plot the probability of an honest answer under RRRR against how uneven θ is, for several subset sizes.

    The defaults are Figure 2 of the paper that `RRRR` cites. θ falls by the same factor from each category to the next;
    S contains the k most probable. The dashed line is SRR, which does not depend on θ; the dotted one is the best size
    at each ratio.

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
    panels = check_axes(axes, n, f"one for each of the {n} epsilons", (5 * n + 1.5, 4))
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
    legend_beside(panels[-1])
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


# Plans and the efficiency of mechanisms.

# The figure spans this factor below and above the people of the plan.
REACH = 10.0


def plot_plan(plan: Plan, ax: Any = None) -> Any:
    """Plot the half-width of the 95 % intervals against the number of people, one line per mechanism.

    Markers show the plan. Lines show the asymptotic formula, dotted where there are too few people for it to hold. The
    gray line is the sampling error of honest answers.

    Parameters
    ----------
    plan : Plan
        The result of `adobest_pp.plan`.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

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
    if not isinstance(plan, Plan):
        raise ValueError(f"plan must be a Plan, the result of adobest_pp.plan, got {brief(plan)}")
    (ax,) = check_axes(ax, 1, "one", (8, 5))
    table = plan.table
    known = table["people"].values[np.isfinite(table["people"].values)]
    people = np.geomspace(max(known.min() / REACH, 1.0), known.max() * REACH, 200)
    for i, name in enumerate(table["mechanism"].values.tolist()):
        row = table.sel(mechanism=name)
        if not np.isfinite(row["unit_half_width"]):
            continue
        style = look(i) | widths(i, table.sizes["mechanism"])
        line = {name: style[name] for name in ("color", "linewidth")}
        half_widths = row["unit_half_width"].item() / np.sqrt(people)
        solid = people >= row["reliable_from"].item()
        label = legend_entry(f"{name}, ε = {row['epsilon'].item():.3g}")
        ax.plot(people[~solid], half_widths[~solid], ":", **line)
        ax.plot(people[solid], half_widths[solid], **line)
        ax.plot(row["people"].item(), row["half_width"].item(), linestyle="-", label=label, **style)
    ax.plot(people, table.attrs["non_private_unit"] / np.sqrt(people), color="0.5", linewidth=2, label="no privacy")
    ax.set(xscale="log", yscale="log", xlabel="people", ylabel="half-width of the 95 % interval, mean of categories")
    ax.set_ylim(top=min(ax.get_ylim()[1], 1.0))
    ax.grid(alpha=0.3, which="both")
    number_log_axis(ax.xaxis, ax.yaxis)
    ax.legend(frameon=False)
    return legible(ax)


def plot_efficiency(efficiencies: xr.Dataset, axes: Any = None) -> NDArray[np.object_]:
    """Plot the efficiency of mechanisms against ε, one panel for each θ.

    Parameters
    ----------
    efficiencies : xarray.Dataset
        The result of `adobest_pp.design.efficiency_table`.
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
    n = len(names)
    panels = check_axes(axes, n, f"{n}, one for each θ", (1 + 4 * n, 4.5), sharey=True)
    for panel, theta in zip(panels, names, strict=True):
        for i, name in enumerate(efficiencies["mechanism"].values.tolist()):
            one = efficiencies["efficiency"].sel(theta=theta, mechanism=name)
            style = look(i) | widths(i, efficiencies.sizes["mechanism"])
            panel.plot(efficiencies["epsilon"].values, one.values, label=legend_entry(name), **style)
        panel.set(xscale="log", xlabel="ε", title=str(theta))
        panel.set_ylim(bottom=0, top=1.05)
        panel.grid(alpha=0.3)
        number_log_axis(panel.xaxis)
    panels[0].set_ylabel("efficiency: least possible variance / variance")
    legend_beside(panels[-1])
    return panels
