"""The runs of a study by setting and method, and what a statement about them comes to."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp.studies.summary import done, markdown_table, number, percent, shown
from validation.paper.methods import SEMI, UTILITIES, method_label
from validation.sign_test import Interval

__all__ = ["Grid", "Setting", "Statement", "Unit", "below", "best_of", "judge", "paper_part"]
__all__ += ["has_own_srr", "paired", "published_part", "ratio_text", "with_srr"]

HELD, IN_PART, NOT_HELD = "held", "held in part", "did not hold"
NOT_SHOWN, TOO_FEW, UNDECIDED = "not shown", "too few runs to tell", "undecided"
# "Comparable", "competitive" and "robust" are taken as within this factor, "fails dramatically" as beyond the second.
MARGIN, FAILURE = 1.25, 1.5
# Shares of the comparisons from which, and up to which, a statement held or did not. At a level of 95 % for each
# comparison, differences that are not there are found in 2.5 % of them.
MOST, FEW = 0.9, 0.1
RULE = (
    f"A statement *{HELD}* if at least {percent(MOST)} of its comparisons show it, and *{IN_PART}* if fewer do but "
    f"more than {percent(FEW)}. If at most {percent(FEW)} show it, it *{NOT_HELD}* where more than {percent(FEW)} "
    f"oppose it, and is *{NOT_SHOWN}* where no more do: then most are open, and the runs speak neither for it nor "
    f"against it. A statement that errors are within a factor of each other is *{UNDECIDED}* if more than half of its "
    f"comparisons are open. These thresholds ({percent(MOST)}, {percent(FEW)}, and the factors {MARGIN:g} for what is "
    f"comparable, competitive or robust and {FAILURE:g} for what fails) are this project's, not the paper's."
)


Runs = NDArray[np.float64]


class Setting(NamedTuple):
    """What a comparison of methods is made in."""

    K: int
    epsilon: float
    kappa: float
    rho: float

    def __str__(self) -> str:
        kappa = "" if np.isnan(self.kappa) else f", κ = {number(self.kappa)}"
        return f"K = {self.K}, ε = {number(self.epsilon)}{kappa}, ρ = {number(self.rho)}"


class Grid:
    """One measure of a study: runs by setting and method, what does not depend on κ under every κ.

    Parameters
    ----------
    dataset : xarray.Dataset
        Cells that differ in K, ε, κ, ρ and method alone: one of them twice is an error.
    measure : str
        One of its measures; its logarithm is what is held if `log`.
    """

    def __init__(self, dataset: xr.Dataset, measure: str, *, log: bool = False) -> None:
        study = shown(dataset)
        values = done(study, measure)
        columns = [study[name].values.tolist() for name in ("K", "epsilon", "kappa", "rho", "method")]
        self._runs: dict[Setting, dict[str, NDArray[np.float64]]] = {}
        seen = set()
        for row, (k, epsilon, kappa, rho, method) in zip(values, zip(*columns, strict=True), strict=True):
            setting = Setting(int(k), float(epsilon), float(kappa), float(rho))
            # As text: κ that is not a number equals nothing, not even itself.
            if (name := f"{method} at {setting}") in seen:
                raise ValueError(f"dataset must have each setting and method once, got two cells of {name}")
            seen.add(name)
            if np.isfinite(row).any():
                self._runs.setdefault(setting, {})[str(method)] = np.log(row) if log else row

    @property
    def settings(self) -> list[Setting]:
        """The settings with any run, in order."""
        return sorted(self._runs)

    @property
    def without_kappa(self) -> list[Setting]:
        """The settings, one for each K, ε and ρ: for methods that do not depend on κ, whose runs each κ repeats."""
        first: dict[tuple[int, float, float], Setting] = {}
        for setting in self.settings:
            first.setdefault((setting.K, setting.epsilon, setting.rho), setting)
        return list(first.values())

    def levels(self, name: str) -> list[float]:
        """Return the values that one of K, epsilon, kappa and rho takes."""
        values: list[float] = np.unique([getattr(setting, name) for setting in self._runs]).tolist()
        return values

    def methods(self, setting: Setting) -> dict[str, NDArray[np.float64]]:
        """Return the runs of each method of a setting, NaN where missing; empty where there are none."""
        return self._runs.get(setting, {})

    def utilities(self, setting: Setting) -> dict[str, NDArray[np.float64]]:
        """Return the runs of the fully adaptive methods, in the paper's order."""
        runs = self.methods(setting)
        return {name: runs[name] for name in UTILITIES if name in runs}

    def semi_adaptive(self, setting: Setting) -> dict[str, NDArray[np.float64]]:
        """Return the runs of the semi-adaptive methods, by α."""
        runs = self.methods(setting)
        return {name: runs[name] for name in sorted(runs) if name.startswith(SEMI)}


class Unit(NamedTuple):
    """One comparison of a statement: where, what was found, and whether it shows the statement or its opposite."""

    setting: Setting
    method: str
    interval: Interval
    shows: bool
    opposes: bool


@dataclass(frozen=True)
class Statement:
    """A statement of the paper beside what the runs say.

    Attributes
    ----------
    title, paper, criterion : str
        What it is about, the paper's own words, and what is asked of the runs.
    verdict : str
        Whether it held; by the rule, not by hand.
    found : str
        A sentence with the figures.
    table : str
        The comparisons by group, in Markdown.
    """

    title: str
    paper: str
    criterion: str
    verdict: str
    found: str
    table: str


def paper_part(dataset: xr.Dataset, budgets: str = "theorem1") -> xr.Dataset:
    """Return the cells with the budgets of Theorem 1, or with other ones."""
    return dataset.isel(cell=np.flatnonzero(dataset["budgets"].values.astype(str) == budgets))


def published_part(dataset: xr.Dataset) -> xr.Dataset:
    """Return the cells with the budgets of the authors' program."""
    return paper_part(dataset, "published")


def has_own_srr(as_published: xr.Dataset) -> bool:
    """Tell whether a study of the published budgets has non-adaptive SRR too, with the program's constant step."""
    return "nonadaptive" in published_part(as_published)["method"].values


def with_srr(as_published: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """Return the cells of the published budgets and the SRR that they are compared with.

    Parameters
    ----------
    as_published, dataset : xarray.Dataset
        The study with the published budgets and the one as proved. SRR is that of the first if it has the method at
        all; otherwise that of the second, in the runs that both have, if the two are `paired`.
    """
    part, proved = published_part(as_published), paper_part(dataset)
    if has_own_srr(as_published) or not paired(as_published, dataset):
        return part
    srr = proved.isel(cell=np.flatnonzero(proved["method"].values == "nonadaptive"))
    n = min(part.sizes["run"], srr.sizes["run"])
    common = [name for name in ("tv", "mean_size", "status") if name in part and name in srr]
    both = [one[common].isel(run=slice(n)) for one in (part, srr)]
    return xr.concat(both, "cell", coords="different", compat="equals")


def paired(one: xr.Dataset, other: xr.Dataset) -> bool:
    """Tell whether run i of both studies has the same θ* and as many people: the same seed and people per category."""
    first, second = (json.loads(dataset.attrs.get("study", "{}")) for dataset in (one, other))
    people = [settings.get("settings", {}).get("people_per_category") for settings in (first, second)]
    return "seed" in first and first["seed"] == second.get("seed") and people[0] == people[1]


def below(setting: Setting, method: str, interval: Interval, limit: float = 0.0) -> Unit:
    """Return a comparison that shows its statement if all of the interval is below the limit."""
    return Unit(setting, method, interval, interval.upper < limit, interval.lower > limit)


def best_of(runs: Mapping[str, Runs]) -> Runs | None:
    """Return the runs with the smallest median."""
    return min(runs.values(), key=lambda values: float(np.nanmedian(values)), default=None)


def judge(
    title: str,
    paper: str,
    criterion: str,
    units: Sequence[Unit],
    by: Sequence[str],
    shown_as: Callable[[Interval], str] | None = None,
    *,
    within: bool = False,
) -> Statement | None:
    """Apply the rule to the comparisons of a statement, or return None where there are none.

    Parameters
    ----------
    title, paper, criterion : str
        As of `Statement`.
    units : sequence of Unit
        The comparisons.
    by : sequence of str
        What the table groups them by: fields of `Setting`, or ``"method"``.
    shown_as : callable, optional
        How to write the middle of an interval; as a ratio of errors by default.
    within : bool
        Whether the statement is that errors are within a factor of each other: open comparisons do not speak
        against it.
    """
    if not units:
        return None
    write = shown_as or ratio_text
    shows, opposes = sum(unit.shows for unit in units), sum(unit.opposes for unit in units)
    share = shows / len(units)
    verdict = HELD if share >= MOST else IN_PART if share > FEW else NOT_HELD
    if verdict == NOT_HELD and opposes <= FEW * len(units):
        verdict = NOT_SHOWN
    n_open = len(units) - shows - opposes
    if within and n_open > len(units) / 2:
        verdict = UNDECIDED
    if all(unit.interval.too_few for unit in units):
        verdict = TOO_FEW
    found = (
        f"{shows} of {len(units)} comparisons show it ({percent(share)}); the opposite is shown by {opposes}; open: "
        f"{n_open}."
    )
    if verdict == TOO_FEW:
        found += f" No interval has enough runs: there are at most {max(unit.interval.n for unit in units)}."
    return Statement(title, paper, criterion, verdict, found, _grouped(units, by, write))


def ratio_text(interval: Interval) -> str:
    """Write a logarithm of a ratio as the ratio."""
    return f"{np.exp(interval.middle):.2f}"


def _grouped(units: Sequence[Unit], by: Sequence[str], write: Callable[[Interval], str]) -> str:
    groups: dict[tuple[str, ...], list[Unit]] = {}
    for unit in sorted(units, key=lambda unit: [_rank(unit, name) for name in by]):
        groups.setdefault(tuple(_field(unit, name) for name in by), []).append(unit)
    symbols = {"epsilon": "ε", "kappa": "κ", "rho": "ρ"}
    headings = [*(symbols.get(name, name) for name in by), "comparisons", "show it", "oppose it", "smallest"]
    return markdown_table([*headings, "median", "greatest"], (_row(key, group, write) for key, group in groups.items()))


def _rank(unit: Unit, name: str) -> float:
    """Return what a table is sorted by; methods by α, then in the paper's order."""
    if name != "method":
        return float(getattr(unit.setting, name))
    if unit.method.startswith(SEMI):
        return float(unit.method.removeprefix(SEMI)) - 1
    return float(UTILITIES.index(unit.method))


def _field(unit: Unit, name: str) -> str:
    return method_label(unit.method) if name == "method" else number(float(getattr(unit.setting, name)))


def _row(key: tuple[str, ...], group: Iterable[Unit], write: Callable[[Interval], str]) -> list[str]:
    units = sorted(group, key=lambda unit: unit.interval.middle)
    middles = [unit.interval.middle for unit in units]
    typical = Interval(float(np.median(middles)), -np.inf, np.inf, 0)
    counts = (len(units), sum(unit.shows for unit in units), sum(unit.opposes for unit in units))
    ends = (write(units[0].interval), write(typical), write(units[-1].interval))
    return [*key, *map(str, counts), *ends]
