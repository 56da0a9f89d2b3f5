"""Errors beside those of the authors' program: ten runs of it a row, made by us with Octave."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from adobest_pp.studies.summary import LEVEL, bootstrap_medians, markdown_table, number, percent
from validation.paper.comparisons import Grid, Setting
from validation.paper.methods import method_label
from validation.sign_test import Interval

__all__ = ["Match", "ReferenceRow", "match", "match_text", "read_reference"]

_FIELDS = ("K", "epsilon", "kappa", "rho", "method", "runs", "tv_median", "true_loss")


@dataclass(frozen=True)
class ReferenceRow:
    """One setting and method of the authors' program: median of its runs, and the true loss of what it ran."""

    setting: Setting
    method: str
    runs: int
    median: float
    true_loss: float


@dataclass(frozen=True)
class Match:
    """A row of the reference beside the same cell of ours.

    Attributes
    ----------
    row : ReferenceRow
        Theirs.
    ratio : Interval
        Logarithm of our median over theirs.
    null : array of shape (resamples,)
        What the logarithm would be, were their runs ours: medians of our resamples over medians of as many of our runs
        as they have.
    median, true_epsilon : float
        Ours.
    """

    row: ReferenceRow
    ratio: Interval
    null: NDArray[np.float64]
    median: float
    true_epsilon: float

    @property
    def agrees(self) -> bool:
        """Whether the interval holds a ratio of 1."""
        return self.ratio.lower <= 0 <= self.ratio.upper


def read_reference(path: Path) -> list[ReferenceRow]:
    """Read the errors of the authors' program; lines that start with # are comments."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        missing = [name for name in _FIELDS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"reference must have the columns {', '.join(_FIELDS)}, got none for {', '.join(missing)}")
        return [
            ReferenceRow(
                Setting(int(row["K"]), float(row["epsilon"]), float(row["kappa"]), float(row["rho"])),
                row["method"],
                int(row["runs"]),
                float(row["tv_median"]),
                float(row["true_loss"]),
            )
            for row in reader
        ]


def match(rows: list[ReferenceRow], published: xr.Dataset, proved: xr.Dataset) -> list[Match]:
    """Find our runs for each row, with the published budgets; SRR as proved where it was not run with the others."""
    own = "nonadaptive" in published["method"].values
    grids = [(Grid(part, "tv"), _losses(part)) for part in (published, proved)]
    found = []
    for stream, row in enumerate(rows):
        for place, (grid, losses) in enumerate(grids):
            runs = grid.methods(row.setting).get(row.method)
            if runs is not None and (place == 0 or (row.method == "nonadaptive" and not own)):
                loss = losses.methods(row.setting).get(row.method) if losses else None
                epsilon = row.setting.epsilon if row.method == "nonadaptive" else np.nan
                true = float(np.nanmedian(loss)) if loss is not None else epsilon
                found.append(_match(row, runs[np.isfinite(runs)], true, stream))
                break
    return found


def match_text(matches: list[Match], n_rows: int) -> list[str]:
    """Return the comparison in words, and as a table."""
    if not matches:
        return ["None of the settings of the reference were run."]
    n, agree = len(matches), sum(one.agrees for one in matches)
    runs_a_row = ", ".join(sorted({str(one.row.runs) for one in matches}))
    chance = float(stats.binom.cdf(agree, n, LEVEL))
    verdict = "no fewer than chance allows" if chance >= 1 - LEVEL else f"fewer than chance allows (p = {chance:.2g})"
    average = float(np.mean([one.ratio.middle for one in matches]))
    spread = np.quantile(np.mean([one.null for one in matches], axis=0), [(1 + LEVEL) / 2, (1 - LEVEL) / 2])
    lower, upper = np.exp(average - spread)
    words = (
        f"reference_tv.csv has medians of {runs_a_row} runs of the authors' program a row, made by us with Octave. "
        f"{n} of its {n_rows} rows have runs of ours beside them. In {agree} of the {n} the {percent(LEVEL)} interval "
        f"of the ratio of medians contains 1, which is {verdict} if both programs do the same. On average over the "
        f"rows, our median is {np.exp(average):.2f} times the program's [{lower:.2f}, {upper:.2f}]. The intervals "
        "account for the few runs of the program: they come from medians of as many runs drawn from ours. Rows are "
        "taken as independent."
    )
    headings = ["ε", "κ", "ρ", "method", "program", "ours", "ours / program", "program's true ε", "our true ε"]
    return [words, markdown_table(["K", *headings], [_cells(one) for one in matches])]


def _losses(part: xr.Dataset) -> Grid | None:
    return Grid(part, "true_epsilon") if "true_epsilon" in part else None


def _match(row: ReferenceRow, runs: NDArray[np.float64], true: float, stream: int) -> Match:
    logs = np.log(runs)
    # Independent streams, two for each row: their runs are not ours.
    few = bootstrap_medians(logs, size=row.runs, stream=101 + 2 * stream)
    null = bootstrap_medians(logs, stream=102 + 2 * stream) - few
    middle = float(np.median(logs) - np.log(row.median))
    low, high = np.quantile(null, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Match(row, Interval(middle, middle - high, middle - low, runs.size), null, float(np.median(runs)), true)


def _cells(one: Match) -> list[str]:
    setting, ratio = one.row.setting, one.ratio
    ratios = f"{np.exp(ratio.middle):.2f} [{np.exp(ratio.lower):.2f}, {np.exp(ratio.upper):.2f}]"
    return [
        str(setting.K),
        *(number(value) for value in setting[1:]),
        method_label(one.row.method),
        number(one.row.median),
        number(one.median),
        ratios if one.agrees else f"**{ratios}**",
        number(one.row.true_loss),
        number(one.true_epsilon),
    ]
