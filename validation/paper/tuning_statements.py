"""What section 7 of the paper says about what has to be tuned: κ for the Fisher utility, α for semi-adaptive."""

from collections.abc import Mapping

import numpy as np

from adobest_pp.studies.summary import LEVEL, percent
from validation.paper.comparisons import (
    FAILURE,
    HELD,
    IN_PART,
    MARGIN,
    NOT_HELD,
    NOT_SHOWN,
    TOO_FEW,
    Grid,
    Runs,
    Setting,
    Statement,
    Unit,
    below,
    best_of,
    judge,
)
from validation.paper.methods import method_label
from validation.sign_test import median_interval

__all__ = ["TUNING"]


def fisher_sensitive(grid: Grid) -> Statement | None:
    """Ask whether Fisher's error grows by more than that of the other utilities, from the smallest κ to the largest."""
    units = []
    for setting, changes in _kappa_changes(grid):
        others = [change for name, change in changes.items() if name != "fisher"]
        if "fisher" in changes and others:
            own = median_interval(changes["fisher"])
            extra = median_interval(changes["fisher"] - np.median(others, axis=0))
            # It may lag behind others that gain from κ, without being sensitive itself: both are asked.
            shows, opposes = own.lower > 0 and extra.lower > 0, own.upper < 0 or extra.upper < 0
            units.append(Unit(setting, "fisher", own, shows, opposes))
    low, high = grid.levels("kappa")[0], grid.levels("kappa")[-1]
    return judge(
        "The Fisher utility seems sensitive to κ",
        "“We also observe that, while most utility metrics are generally robust, the one based on FIM seems sensitive "
        "to the choice of ε₁ parameter. This can be attributed to the fact that the FIM approaches singularity when ε₂ "
        "is too small, which is the case if ε₁ is chosen too close to ε.”",
        f"For every K, ε and ρ: its error at κ = {high:g} over that at κ = {low:g} is above 1, and so is this ratio "
        "divided by the median of the same ratio of the other utilities in the same run. Figures are the first ratio.",
        units,
        ("epsilon", "rho"),
    )


def others_robust(grid: Grid) -> Statement | None:
    """Ask whether the errors of the other utilities stay within the margin when κ changes."""
    limit = np.log(MARGIN)
    units = []
    for setting, changes in _kappa_changes(grid):
        for name in (name for name in changes if name != "fisher"):
            found = median_interval(changes[name])
            inside = -limit < found.lower and found.upper < limit
            units.append(Unit(setting, name, found, inside, found.lower > limit or found.upper < -limit))
    low, high = grid.levels("kappa")[0], grid.levels("kappa")[-1]
    return judge(
        "The other utilities are robust to κ",
        "“[…] most utility metrics are generally robust […]”, that is to the choice of ε₁ (see the statement before).",
        f"For every K, ε, ρ and utility but Fisher: the error at κ = {high:g} over that at κ = {low:g} is between "
        f"{1 / MARGIN:g} and {MARGIN:g}.",
        units,
        ("method",),
        within=True,
    )


def semi_adaptive_fails(grid: Grid) -> Statement | None:
    """Ask whether some α, somewhere, is far worse than another; the level accounts for having looked everywhere."""
    level = _level_of_all_pairs(grid)
    units = [
        unit
        for setting in grid.without_kappa
        for unit in _against_best(grid.semi_adaptive(setting), setting._replace(kappa=np.nan), level)
    ]
    statement = judge(
        "Semi-adaptive can fail badly if α is badly chosen",
        "“[…] while the semi-adaptive approach is computationally less demanding than most fully adaptive versions, "
        "the results show it can dramatically fail if its α hyperparameter is not tuned properly.”",
        f"In some setting, the error of an α is more than {FAILURE:g} times that of the α with the smallest median "
        f"there; each interval has the level {percent(LEVEL)} for all pairs of all settings together (Bonferroni). "
        f"*{HELD}* if any does, *{IN_PART}* if none does but some exceeds {MARGIN:g}; otherwise *{NOT_HELD}* "
        f"if all intervals are below {FAILURE:g}, and *{NOT_SHOWN}* if any reaches it.",
        units,
        ("method",),
    )
    if statement is None or statement.verdict == TOO_FEW:
        return statement
    worst = max(units, key=lambda unit: unit.interval.lower)
    bound = np.exp(worst.interval.lower)
    verdict = HELD if bound > FAILURE else IN_PART if bound > MARGIN else NOT_SHOWN
    if verdict == NOT_SHOWN and max(unit.interval.upper for unit in units) < np.log(FAILURE):
        verdict = NOT_HELD
    places = len({unit.setting for unit in units if unit.shows})
    found = (
        f"Some α fails in this way in {places} of {len({unit.setting for unit in units})} settings. The clearest: "
        f"{method_label(worst.method)} at {worst.setting}, {np.exp(worst.interval.middle):.2f} times the best, "
        f"at least {bound:.2f}."
    )
    return Statement(statement.title, statement.paper, statement.criterion, verdict, found, statement.table)


def best_alpha_depends(grid: Grid) -> Statement | None:
    """Ask whether each α is beaten somewhere."""
    level = _level_of_all_pairs(grid)
    clearest: dict[str, Unit] = {}
    for setting in grid.without_kappa:
        runs = grid.semi_adaptive(setting)
        best = best_of(runs)
        for name, values in runs.items():
            # Where an α is best itself, the difference is nought: one that always is stays unbeaten.
            found = median_interval(values - best if best is not None else values, level)
            unit = Unit(setting, name, found, found.lower > 0, False)
            if name not in clearest or found.lower > clearest[name].interval.lower:
                clearest[name] = unit
    units = [unit for _, unit in sorted(clearest.items())] if len(clearest) > 1 else []
    return judge(
        "The best α depends on the setting",
        "“[…] the best α depends on various parameters such as ε, K, and the degree of evenness in θ.” (Section 4)",
        "For each α there is a setting in which its error is above that of the α with the smallest median there; the "
        "level is for all settings together (Bonferroni). The table shows the clearest setting of each α.",
        units,
        ("method", "K", "epsilon", "rho"),
    )


def utilities_need_no_tuning(grid: Grid) -> Statement | None:
    """Ask whether no utility is far worse than the best one."""
    units = []
    for setting in grid.settings:
        for unit in _against_best(grid.utilities(setting), setting, LEVEL):
            units.append(below(setting, unit.method, unit.interval, np.log(FAILURE)))
    return judge(
        "Fully adaptive methods need no tuning",
        "“In contrast, the fully adaptive approaches adapt well to ε or ρ and do not need additional tuning.”",
        f"For every setting and utility: its error is less than {FAILURE:g} times that of the utility with the "
        "smallest median in that setting (chosen with hindsight, which favors that one).",
        units,
        ("method",),
        within=True,
    )


def _level_of_all_pairs(grid: Grid) -> float:
    """Return the level of one comparison at which those of all pairs of α, in all settings, have `LEVEL` together."""
    counts = [len(grid.semi_adaptive(setting)) for setting in grid.without_kappa]
    return 1 - (1 - LEVEL) / max(1, sum(count * (count - 1) for count in counts))


def _kappa_changes(grid: Grid) -> list[tuple[Setting, dict[str, Runs]]]:
    low, high = grid.levels("kappa")[0], grid.levels("kappa")[-1]
    result = []
    for setting in (s for s in grid.settings if s.kappa == low < high):
        before, after = grid.utilities(setting), grid.utilities(setting._replace(kappa=high))
        result.append((setting, {name: after[name] - before[name] for name in before if name in after}))
    return result


def _against_best(runs: Mapping[str, Runs], setting: Setting, level: float) -> list[Unit]:
    """Compare all but the best with the best; what shows is a failure."""
    best, limit = best_of(runs), np.log(FAILURE)
    units = []
    for name, values in runs.items():
        if best is not None and values is not best:
            found = median_interval(values - best, level)
            units.append(Unit(setting, name, found, found.lower > limit, found.upper < 0))
    return units


TUNING = (fisher_sensitive, others_robust, semi_adaptive_fails, best_alpha_depends, utilities_need_no_tuning)
