"""What section 7 of the paper says about errors, each statement put to the runs of a study."""

import numpy as np
import xarray as xr

from adobest_pp.studies.summary import LEVEL, percent
from validation.paper.comparisons import (
    MARGIN,
    RULE,
    Grid,
    Runs,
    Setting,
    Statement,
    below,
    best_of,
    has_own_srr,
    judge,
    paper_part,
    with_srr,
)
from validation.paper.differences import median_change
from validation.paper.size_statements import size_statements
from validation.paper.tuning_statements import TUNING
from validation.sign_test import median_interval

__all__ = ["METHODOLOGY", "published_note", "published_statements", "statements"]

# Section 7 of the paper, word for word. Four of the statements are parts of this one sentence.
NON_ADAPTIVE = (
    "“As one may expect, the non-adaptive approach yielded the worst results in general, especially in the "
    "high-privacy regimes (smaller ε) and uneven θ* (smaller ρ).”"
)

METHODOLOGY = (
    "All methods of a run see the same θ*, so they are compared run by run: the ratio of two errors is the median over "
    f"the runs of the ratio within a run, with the {percent(LEVEL)} interval that inverts the two-sided sign test "
    "(valid whatever the distribution); differences of average |S|, and comparisons between different ρ (where θ* is "
    "not the same), have bootstrap intervals of that level. A comparison *shows* a statement if its whole interval "
    "lies on the side that the statement says, and *opposes* it if the whole interval lies on the other. "
    f"{RULE} Where two methods do not differ, about {percent((1 - LEVEL) / 2, 1)} of the comparisons show by chance "
    "that the one is better, and as many that the other is."
)


def published_note(as_published: xr.Dataset) -> str:
    """Return what the verdicts of the published budgets are about, and which SRR they are against."""
    srr = (
        "SRR run with the program's step too"
        if has_own_srr(as_published)
        else "the SRR of this study, whose step is not the program's"
    )
    return (
        "The second verdict is for the methods as the authors' program runs them (soneraydin/AdOBEst_LDP on GitHub, "
        "commit 9080c23), in our runs of the same settings: with its budgets (AdOBEst_LDP.m, lines 32 to 42), its "
        "constant step (experiments_for_SGDL.m, line 45) and no empty subset (AdOBEst_LDP.m, line 70), against "
        f"{srr}, at the same *label* ε. With these budgets the six utilities are not ε-LDP; SRR and the semi-adaptive "
        "methods are. Verdicts may differ for any of these reasons, and because the two studies may differ in their "
        "numbers of runs. Statements that name a utility are judged by the program's own labels (plot_results.m, lines "
        "41 to 44); where text and program differ, there is one for each reading."
    )


def statements(dataset: xr.Dataset) -> list[Statement]:
    """Put the paper's statements to a study; those that it has no cells for are left out.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run) and the measure ``tv``; ``mean_size`` for those about |S|.

    Returns
    -------
    list of Statement
    """
    return _statements(paper_part(dataset))


def published_statements(as_published: xr.Dataset, dataset: xr.Dataset) -> list[Statement]:
    """Put the same statements to the budgets of the authors' program.

    Parameters
    ----------
    as_published, dataset : xarray.Dataset
        The study with the published budgets and the one as proved, whose SRR is taken if the first has none.
    """
    return _statements(with_srr(as_published, dataset))


def _statements(part: xr.Dataset) -> list[Statement]:
    result: list[Statement | None] = []
    if "tv" in part:
        grid = Grid(part, "tv", log=True)
        gains = (best_when_hard, worst_in_general, more_for_small_epsilon, more_for_small_rho)
        rivals = (as_good_as_semi_adaptive, honest_competitive)
        if grid.settings:
            result += [check(grid) for check in (*gains, *rivals, *TUNING)]
    if "mean_size" in part:
        result += size_statements(part)
    return [statement for statement in result if statement is not None]


def best_when_hard(grid: Grid) -> Statement | None:
    """Ask whether the adaptive methods beat SRR where ε and ρ are small."""
    epsilons, rhos = grid.levels("epsilon"), grid.levels("rho")
    units = [
        below(setting, name, median_interval(runs - grid.methods(setting)["nonadaptive"]))
        for setting in grid.settings
        if setting.epsilon < epsilons[-1] and setting.rho < rhos[-1] and "nonadaptive" in grid.methods(setting)
        for name, runs in grid.utilities(setting).items()
    ]
    return judge(
        "Adaptive methods beat SRR for small ε and small ρ",
        NON_ADAPTIVE,
        "For every setting but those of the largest ε or the largest ρ, and each utility: its error over "
        "that of non-adaptive SRR is below 1.",
        units,
        ("epsilon", "rho"),
    )


def worst_in_general(grid: Grid) -> Statement | None:
    """Ask whether everything beats SRR, everywhere."""
    once = grid.without_kappa
    units = [
        below(setting, name, median_interval(runs - grid.methods(setting)["nonadaptive"]))
        for setting in grid.settings
        if "nonadaptive" in grid.methods(setting)
        for name, runs in ((grid.semi_adaptive(setting) if setting in once else {}) | grid.utilities(setting)).items()
    ]
    return judge(
        "Non-adaptive SRR is the worst in general",
        NON_ADAPTIVE,
        "For every setting and every other method (semi-adaptive ones do not depend on κ, and are counted once): its "
        "error over that of non-adaptive SRR is below 1.",
        units,
        ("method",),
    )


def more_for_small_epsilon(grid: Grid) -> Statement | None:
    """Ask whether the ratio to SRR is smaller at the smallest ε than at the largest, in the same runs."""
    low, high = grid.levels("epsilon")[0], grid.levels("epsilon")[-1]
    units = []
    for setting in (s for s in grid.settings if s.epsilon == low < high):
        hard, easy = _gains(grid, setting), _gains(grid, setting._replace(epsilon=high))
        units += [below(setting, name, median_interval(hard[name] - easy[name])) for name in hard if name in easy]
    return judge(
        "The gain over SRR is larger for small ε",
        NON_ADAPTIVE,
        f"For every K, κ, ρ and utility: the ratio of its error to SRR's at ε = {low:g}, divided by the same at "
        f"ε = {high:g}, is below 1.",
        units,
        ("rho",),
    )


def more_for_small_rho(grid: Grid) -> Statement | None:
    """Ask the same of the smallest ρ and the largest; their θ* are not the same, so they are not paired."""
    low, high = grid.levels("rho")[0], grid.levels("rho")[-1]
    units = []
    for setting in (s for s in grid.settings if s.rho == low < high):
        uneven, even = _gains(grid, setting), _gains(grid, setting._replace(rho=high))
        units += [below(setting, name, median_change(even[name], uneven[name])) for name in uneven if name in even]
    return judge(
        "The gain over SRR is larger for small ρ",
        NON_ADAPTIVE,
        f"For every K, ε, κ and utility: the median ratio of its error to SRR's at ρ = {low:g}, divided by the same at "
        f"ρ = {high:g}, is below 1.",
        units,
        ("epsilon",),
    )


def as_good_as_semi_adaptive(grid: Grid) -> Statement | None:
    """Ask whether each utility is within the margin of the best α."""
    units = []
    for setting in grid.settings:
        best = best_of(grid.semi_adaptive(setting))
        if best is not None:
            utilities = grid.utilities(setting).items()
            units += [below(setting, name, median_interval(runs - best), np.log(MARGIN)) for name, runs in utilities]
    return judge(
        "Fully adaptive methods are comparable to the best semi-adaptive one",
        "“When the medians are compared, the fully adaptive algorithms, which use a utility function to select S_t, "
        "yield comparable results to the best semi-adaptive approach in both figures.”",
        f"For every setting and utility: its error is less than {MARGIN:g} times that of the α with the smallest "
        "median in that setting (chosen with hindsight, which favors semi-adaptive).",
        units,
        ("method",),
        within=True,
    )


def honest_competitive(grid: Grid) -> Statement | None:
    """Ask whether the lightest utility is within the margin of the best of the others."""
    units = []
    for setting in grid.settings:
        others = grid.utilities(setting)
        honest = others.pop("honest", None)
        best = best_of(others)
        if honest is not None and best is not None:
            units.append(below(setting, "honest", median_interval(honest - best), np.log(MARGIN)))
    return judge(
        "`honest` is competitive",
        "“Another remarkable observation is that the utility function based on the probability of honest response, U₆, "
        "has competitive performance despite being the lightest utility metric in computational complexity.”",
        f"For every setting: its error is less than {MARGIN:g} times that of the other utility with the smallest "
        "median in that setting (chosen with hindsight, which favors the others).",
        units,
        ("epsilon", "rho"),
        within=True,
    )


def _gains(grid: Grid, setting: Setting) -> dict[str, Runs]:
    runs = grid.methods(setting)
    if "nonadaptive" not in runs:
        return {}
    return {name: values - runs["nonadaptive"] for name, values in grid.utilities(setting).items()}
