"""What section 7 of the paper says about the sizes of subsets, and its example about P(Y = X)."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import xarray as xr

from adobest_pp.design import utility
from adobest_pp.mechanisms import RRRR
from adobest_pp.studies.summary import markdown_table
from validation.paper.comparisons import HELD, IN_PART, NOT_HELD, Grid, Runs, Setting, Statement, Unit, judge
from validation.paper.differences import mean_interval
from validation.paper.methods import method_label
from validation.sign_test import Interval

__all__ = ["honest_response_statement", "size_statements"]

EMPTY = (
    "With the budgets of Theorem 1, |S| = 0 is among the candidates: SRR on all categories; the authors' program has "
    "none below 1."
)
THIRD = (
    "“[…] for ε₁ = 0.8ε, the third utility function (TV1) uses the subsets with the largest cardinality (on average).” "
    "What the program calls TV1 and plots under that name is its case 3, the distance of P(Y) from θ "
    "(calculate_utility.m, lines 20 and 21; plot_results.m, line 44): this is U₄ of the text, TV₂. U₃ of the text, "
    "TV₁, is the program's case 4 (lines 22 to 25)."
)
SECOND = (
    "“However, when we increase the ε₁ value to ε₁ = 0.9ε, the second utility function (FIM) uses the subsets with the "
    "largest cardinality.”"
)
# The utility, whether it is at the smallest κ or at the largest, what to call it, and the paper's words.
LARGEST = (
    ("tv2", 0, "TV1 by the program's label (U4 of the text)", THIRD),
    ("tv1", 0, "TV1 by the text's definition (U3)", THIRD),
    ("fisher", -1, method_label("fisher"), SECOND),
)


def size_statements(part: xr.Dataset) -> list[Statement | None]:
    """Put the statements about |S| to the cells of a study that run the paper's method."""
    grid = Grid(part, "mean_size")
    if not grid.settings:
        return []
    kappas = grid.levels("kappa")
    return [
        grows_with_rho(grid),
        falls_with_epsilon(grid),
        *(largest(grid, *case) for case in LARGEST if len(kappas) > 1),
    ]


def grows_with_rho(grid: Grid) -> Statement | None:
    """Ask whether the average size grows from each ρ to the next."""
    units = []
    for low, high in pairwise(grid.levels("rho")):
        for setting in (s for s in grid.settings if s.rho == low):
            after = grid.methods(setting._replace(rho=high))
            units += [
                _above(setting, name, mean_interval(after[name], minus=runs))
                for name, runs in _choosing(grid, setting)
                if name in after
            ]
    return judge(
        "|S| grows with ρ",
        "“[…] increasing the value of ρ causes an increase in the cardinalities of subsets chosen by each algorithm "
        "(except the nonadaptive one since it uses all K categories rather than a smaller subset).”",
        "For every K, ε, κ, every method that chooses subsets, and each ρ with the next: the average |S| grows. "
        "Figures are differences of the average |S|; the table names the smaller ρ. " + EMPTY,
        units,
        ("rho", "epsilon"),
        _difference_text,
    )


def falls_with_epsilon(grid: Grid) -> Statement | None:
    """Ask whether it falls from each ε to the next, at the smallest ρ; with the same θ*, so paired."""
    units = []
    for low, high in pairwise(grid.levels("epsilon")):
        for setting in (s for s in grid.settings if s.epsilon == low and s.rho == grid.levels("rho")[0]):
            after = grid.methods(setting._replace(epsilon=high))
            for name, runs in _choosing(grid, setting):
                if name in after:
                    found = mean_interval(after[name] - runs)
                    units.append(Unit(setting, name, found, found.upper < 0, found.lower > 0))
    return judge(
        "|S| falls with ε for small ρ",
        "“[…] for small ρ, increasing the value of ε causes a decrease in the cardinalities of these subsets […]”",
        "At the smallest ρ, for every K, κ, every method that chooses subsets, and each ε with the next: the average "
        "|S| falls. Figures are differences of the average |S|; the table names the smaller ε. " + EMPTY,
        units,
        ("epsilon", "method"),
        _difference_text,
    )


def largest(grid: Grid, method: str, place: int, name: str, paper: str) -> Statement | None:
    """Ask whether one utility has the largest subsets of all, at the study's smallest κ or its largest."""
    kappa = grid.levels("kappa")[place]
    units: list[Unit] = []
    means: list[dict[str, float]] = []
    for setting in (s for s in grid.settings if s.kappa == kappa):
        others = grid.utilities(setting)
        own = others.pop(method, None)
        if own is not None and others:
            rival = max(others.values(), key=lambda runs: float(np.nanmean(runs)))
            units.append(_above(setting, method, mean_interval(own - rival)))
            means.append({key: float(np.nanmean(runs)) for key, runs in ({method: own} | others).items()})
    found = judge(
        f"{name} chooses the largest subsets at κ = {kappa:g}",
        paper,
        "For every K, ε and ρ: its average |S| is above that of the other utility with the largest (chosen with "
        "hindsight, which favors that one). Figures are differences of the average |S|. " + EMPTY,
        units,
        ("epsilon", "rho"),
        _difference_text,
    )
    return None if found is None else replace(found, found=f"{found.found} {_by_averages(method, means)}")


def _by_averages(method: str, means: list[dict[str, float]]) -> str:
    """Return what the averages say by themselves, which is what the paper's heat maps show."""
    wins = sum(max(one, key=lambda name: one[name]) == method for one in means)
    everywhere = {name: float(np.mean([one[name] for one in means if name in one])) for name in means[0]}
    text = f"By the averages alone it is the largest in {wins} of {len(means)}; its average over all of them "
    text += f"is {everywhere.pop(method):.2f}, and the largest of the others is {max(everywhere.values()):.2f}."
    empty = sum(one[method] == 0 for one in means)
    if empty:
        text += f" In {empty} of {len(means)} its average is 0: it asked by SRR on all K categories at every step. "
        text += "Counted as |S| = K, it is the largest there."
    return text


def honest_response_statement(
    epsilons: tuple[float, float] = (1.0, 5.0), n_categories: int = 20, kappa: float = 0.9
) -> Statement:
    """Put the paper's example (Figure 2) to the mechanism itself: no runs, no chance.

    Parameters
    ----------
    epsilons : (float, float)
        The more private ε first.
    n_categories, kappa
        Of the mechanism.
    """
    from adobest_pp.plots.mechanisms import family

    ratios = np.array([1.0, 1.05, 1.1, 1.2, 1.5, 2.0])
    values = [
        np.array(
            [utility(family(n_categories, ratio), RRRR(n_categories, epsilon, kappa), "honest") for ratio in ratios]
        )
        for epsilon in epsilons
    ]
    # As in the figure, k = 0 is SRR, which the others are compared with.
    sizes = [1 + table[:, 1:].argmax(axis=1) for table in values]
    gains = [table[:, 1:].max(axis=1) / table[:, 0] for table in values]
    gained = np.max(gains, axis=0) > 1
    parts = {
        "for either ε there is a θ for which the best k ≥ 1 beats SRR": all(np.any(gain > 1) for gain in gains),
        "the best k never grows with the ratio": all(np.all(np.diff(size) <= 0) for size in sizes),
        "wherever there is a gain it is larger for the first ε": bool(np.all(gains[0][gained] > gains[1][gained])),
    }
    right = sum(parts.values())
    rows = [
        [f"{ratio:g}", *(f"{size[i]}, {gain[i]:.3f}" for size, gain in zip(sizes, gains, strict=True))]
        for i, ratio in enumerate(ratios)
    ]
    return Statement(
        "RRRR answers honestly more often than SRR, with k fitted to θ (Figure 2)",
        "“[…] it can be observed that RRRR can do significantly better than SRR if k can be chosen suitably. […] While "
        "the best k tends to be larger for more even θ, small k becomes the better choice for non-even θ […] In more "
        "challenging scenarios where ε is smaller, the gain obtained by RRRR compared to SRR is bigger.” (Section 4)",
        f"Computed from the mechanism (K = {n_categories}, κ = {kappa:g}): " + "; ".join(parts) + ".",
        HELD if right == len(parts) else NOT_HELD if right == 0 else IN_PART,
        " ".join(f"{name[0].upper()}{name[1:]}: {'yes' if true else 'no'}." for name, true in parts.items()),
        markdown_table(["θᵢ/θᵢ₊₁", *(f"best k and gain over SRR, ε = {epsilon:g}" for epsilon in epsilons)], rows),
    )


def _above(setting: Setting, method: str, found: Interval) -> Unit:
    return Unit(setting, method, found, found.lower > 0, found.upper < 0)


def _choosing(grid: Grid, setting: Setting) -> list[tuple[str, Runs]]:
    semi = grid.semi_adaptive(setting) if setting in grid.without_kappa else {}
    return [*semi.items(), *grid.utilities(setting).items()]


def _difference_text(interval: Interval) -> str:
    return f"{interval.middle:+.2f}".replace("-", "−")
