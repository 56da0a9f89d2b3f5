"""Which of three differences makes the authors' program look better, or worse, than the mechanism that is proved.

What the program (soneraydin/AdOBEst_LDP, commit 9080c23) runs for its six utilities differs from the text in three
ways: its budgets, which are not ε-LDP (AdOBEst_LDP.m, lines 37 to 41), a constant step of SGLD in place of 0.5/t
(experiments_for_SGDL.m, line 45), and no empty subset among the candidates (AdOBEst_LDP.m, line 70). Here all eight
combinations run on the same θ*, the same people and the same random numbers, so that one thing at a time changes.

The figure is the error (TV of SGLD's estimate) of a utility over that of SRR with the same step, averaged as a
logarithm over the six utilities in each run. The effect of a cause is what going from the program's way to the text's
multiplies this ratio by: above 1, the program's way looks better. Intervals invert the sign test at a level that holds
for all of them together (Bonferroni). A full run writes what it measured to validation/paper/causes.csv, and what it
prints to causes.md beside it. Exits with 1 if a finding stated below is not reproduced.
"""

import csv
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adobest_pp import RRRR, AdaptiveSubset, simulate_adaptive
from adobest_pp.design import UTILITIES
from adobest_pp.samplers.sgld.settings import ConstantSteps
from adobest_pp.studies.summary import LEVEL, markdown_table, number, percent
from validation.common import Finding, Options, each, finding, main
from validation.paper.methods import method_label
from validation.paper.published import published_mechanism
from validation.sign_test import Interval, median_interval

FOLDER = Path(__file__).parent / "paper"
N_CATEGORIES, EPSILONS, RHOS, RUNS = 10, (0.5, 1.0, 5.0), (0.01, 0.1, 1.0), 20
KAPPA = 0.8
PEOPLE_PER_CATEGORY = 500
# Each in the order (the program's way, the text's), which are 0 and 1 below.
CAUSES = {
    "budgets": ("published", "proved"),
    "step": ("constant 0.5/T", "0.5/t"),
    "empty subset": ("left out", "allowed"),
}
CORNERS = tuple(product((0, 1), repeat=3))
TITLE = """# Published budgets, step and empty subset, one at a time

Written by `python -m validation.causes`; what it measured is in [causes.csv](causes.csv), with a column for each
combination of budgets, step and empty subset."""
WAYS = ("the others as in the program", "the others as in the text", "average over the others")

Logs = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One run of one setting, in which everything is tried."""

    n_categories: int
    epsilon: float
    rho: float
    run: int
    seed: int
    people_per_category: int


def truth(setting: Setting) -> NDArray[np.float64]:
    """Return θ* ~ Dirichlet(ρ), through logarithms of gammas: none is rounded to nothing before it is normalized."""
    rng = np.random.default_rng([setting.seed, setting.n_categories, round(1000 * setting.rho), setting.run])
    k, rho = setting.n_categories, setting.rho
    logs = np.log(rng.standard_gamma(rho + 1, size=k)) - rng.standard_exponential(k) / rho
    theta = np.exp(logs - logs.max())
    return np.asarray(theta / theta.sum())


def errors(setting: Setting) -> NDArray[np.float64]:
    """Return TV to the truth, of shape (7, 8): of the utilities and, last, of SRR, by corner."""
    theta = truth(setting)
    k, n_people = setting.n_categories, setting.people_per_category * setting.n_categories
    mechanisms = [make(k, setting.epsilon, KAPPA) for make in (published_mechanism, RRRR)]
    schedules = (ConstantSteps(0.5 / n_people), None)
    entropy = [setting.seed, k, round(1000 * setting.rho), setting.run, round(1000 * setting.epsilon)]

    def error(method: str, budgets: int, steps: int, empty: int) -> float:
        run = simulate_adaptive(
            theta,
            AdaptiveSubset(
                mechanisms[budgets],
                method,
                schedule=schedules[steps],
                smallest_size=0 if empty or method == "nonadaptive" else 1,
            ),
            n_people=n_people,
            path_length=1,
            random_seed=np.random.SeedSequence(entropy),
        )
        return float(np.abs(run.chain_mean - theta).sum() / 2)

    # SRR publishes the empty subset whatever the budgets: it differs in the step alone.
    srr = [error("nonadaptive", 1, steps, 1) for steps in (0, 1)]
    rows = [[error(name, *corner) for corner in CORNERS] for name in UTILITIES]
    return np.array([*rows, [srr[steps] for _, steps, _ in CORNERS]])


def measure(settings: list[Setting], parallel: bool) -> NDArray[np.float64]:
    """Return the errors of all settings, of shape (ε, ρ, run, 7, 8)."""
    found = each(errors, settings, "runs that change one thing at a time", parallel)
    return np.array(found).reshape(len(EPSILONS), len(RHOS), -1, len(UTILITIES) + 1, len(CORNERS))


def write_csv(tv: NDArray[np.float64], path: Path) -> None:
    """Write the errors, a line for each setting, run and method, with a column for each corner."""
    names = ["/".join(CAUSES[cause][way] for cause, way in zip(CAUSES, corner, strict=True)) for corner in CORNERS]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["epsilon", "rho", "run", "method", *names])
        for (i, epsilon), (j, rho) in product(enumerate(EPSILONS), enumerate(RHOS)):
            for run, rows in enumerate(tv[i, j]):
                for method, row in zip((*UTILITIES, "nonadaptive"), rows, strict=True):
                    writer.writerow([epsilon, rho, run, method, *(f"{value:.9g}" for value in row)])


def read_csv(path: Path) -> NDArray[np.float64]:
    """Return the errors that `write_csv` wrote, to nine digits."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[float(value) for value in row[4:]] for row in list(csv.reader(file))[1:]]
    return np.array(rows).reshape(len(EPSILONS), len(RHOS), -1, len(UTILITIES) + 1, len(CORNERS))


def log_ratios(tv: NDArray[np.float64]) -> Logs:
    """Return the logarithms of the utilities' errors over SRR's, of shape (ε, ρ, run, 6, 2, 2, 2)."""
    logs = np.log(tv[..., :-1, :]) - np.log(tv[..., -1:, :])
    return np.asarray(logs.reshape(*logs.shape[:-1], 2, 2, 2))


def effects(logs: Logs) -> dict[str, dict[str, Logs]]:
    """Return what each cause adds to the logarithm on the way from the program to the text.

    Parameters
    ----------
    logs : array of shape (..., 2, 2, 2)
        By the three causes.

    Returns
    -------
    dict
        By cause and way, arrays of shape (...).
    """
    result = {}
    for place, cause in enumerate(CAUSES):
        change = np.diff(np.moveaxis(logs, place - 3, -1), axis=-1)[..., 0]
        result[cause] = dict(zip(WAYS, (change[..., 0, 0], change[..., 1, 1], change.mean(axis=(-2, -1))), strict=True))
    return result


@dataclass(frozen=True)
class Findings:
    """Intervals at a level that holds for all of them together.

    Attributes
    ----------
    level : float
        Of each of them.
    total : dict
        By (ε, ρ): the text over the program.
    cells : dict
        By (ε, ρ), cause and way.
    utilities : dict
        By utility and cause, averaged over all (ε, ρ) and over the other causes.
    """

    level: float
    total: dict[tuple[float, float], Interval]
    cells: dict[tuple[float, float], dict[str, dict[str, Interval]]]
    utilities: dict[str, dict[str, Interval]]

    def sides(self, cause: str, way: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Return the (ε, ρ) in which the program's way is shown to look better, and those in which worse."""
        found = {at: ways[cause][way] for at, ways in self.cells.items()}
        return [at for at, one in found.items() if one.lower > 0], [at for at, one in found.items() if one.upper < 0]


def find(logs: Logs) -> Findings:
    """Compute every interval that is shown."""
    places = dict(zip(product(EPSILONS, RHOS), np.ndindex(logs.shape[:2]), strict=True))
    n_intervals = len(places) * (1 + len(CAUSES) * len(WAYS)) + len(UTILITIES) * len(CAUSES)
    level = 1 - (1 - LEVEL) / n_intervals
    pooled = logs.mean(axis=3)
    by_utility = logs.mean(axis=(0, 1))
    return Findings(
        level,
        {at: median_interval(pooled[ij][:, 1, 1, 1] - pooled[ij][:, 0, 0, 0], level) for at, ij in places.items()},
        {
            at: {
                cause: {way: median_interval(values, level) for way, values in ways.items()}
                for cause, ways in effects(pooled[ij]).items()
            }
            for at, ij in places.items()
        },
        {
            name: {c: median_interval(ways[WAYS[-1]], level) for c, ways in effects(by_utility[:, i]).items()}
            for i, name in enumerate(UTILITIES)
        },
    )


def page(logs: Logs, findings: Findings) -> list[str]:
    """Return what to print, in parts, in Markdown."""
    n_runs = logs.shape[2]
    corners = [", ".join(CAUSES[cause][way] for cause, way in zip(CAUSES, corner, strict=True)) for corner in CORNERS]
    medians = np.exp(np.median(logs.mean(axis=3), axis=2)).reshape(-1, len(CORNERS))
    ratio_rows = [
        [number(epsilon), number(rho), *(f"{value:.2f}" for value in row)]
        for (epsilon, rho), row in zip(product(EPSILONS, RHOS), medians, strict=True)
    ]
    intro = (
        f"K = {N_CATEGORIES}, κ = {KAPPA:g}, {n_runs} runs; all combinations of a run have θ*, people and random "
        "numbers in common. The error of a utility over that of SRR with the same step, averaged as a logarithm over "
        "the six utilities in a run: medians over the runs. Below 1, adapting helps. ε is the label: with the "
        "published budgets the true ε is larger."
    )
    effect_text = (
        "An effect is the factor by which the ratio changes from the program's way to the text's. Above 1, the "
        f"program's way looks better. Intervals invert the sign test at {percent(findings.level, 2)} each, so that all "
        f"on this page hold together with {percent(LEVEL)}. Bold: 1 is not in it."
    )
    parts = ["## Ratios to SRR by budgets, step and empty subset", intro]
    parts += [markdown_table(["ε", "ρ", *corners], ratio_rows), "## Effects", effect_text]
    for way in WAYS:
        rows = [
            [number(e), number(rho), *([_told(findings.total[e, rho])]), *(_told(ways[c][way]) for c in CAUSES)]
            for (e, rho), ways in findings.cells.items()
        ]
        parts += [f"{way[0].upper()}{way[1:]}:", markdown_table(["ε", "ρ", "all three", *CAUSES], rows)]
    rows = [[method_label(name), *(_told(found[c]) for c in CAUSES)] for name, found in findings.utilities.items()]
    parts += ["By utility, averaged over all (ε, ρ) and over the others:", markdown_table(["", *CAUSES], rows)]
    return [*parts, "## What is known", "\n".join(f"- {_known(findings, cause)}" for cause in CAUSES)]


def _told(found: Interval) -> str:
    text = f"{np.exp(found.middle):.2f} [{np.exp(found.lower):.2f}, {np.exp(found.upper):.2f}]"
    return f"**{text}**" if found.lower > 0 or found.upper < 0 else text


def _known(findings: Findings, cause: str) -> str:
    better, worse = findings.sides(cause, WAYS[-1])
    n = len(findings.cells)
    sides = [
        f"{word} in {len(places)} of {n} (ε, ρ)" + (f": {_places(places)}" if places else "")
        for word, places in (("better", better), ("worse", worse))
    ]
    ends = [found.middle for ways in findings.cells.values() for found in [ways[cause][WAYS[-1]]]]
    extent = f"{np.exp(min(ends)):.2f} to {np.exp(max(ends)):.2f}"
    return (
        f"{cause}: on average over the others, the program's way ({CAUSES[cause][0]}) is shown to look "
        f"{'; '.join(sides)}. Medians of the effect are {extent}."
    )


def _places(places: list[tuple[float, float]]) -> str:
    return ", ".join(f"({number(epsilon)}, {number(rho)})" for epsilon, rho in places)


def write(tv: NDArray[np.float64], parts: list[str], folder: Path = FOLDER) -> None:
    """Write what was measured, and the page."""
    write_csv(tv, folder / "causes.csv")
    (folder / "causes.md").write_text("\n\n".join([TITLE, *parts]) + "\n", encoding="utf-8")


def sound(tv: NDArray[np.float64]) -> list[Finding]:
    """Return what is checked of any runs."""
    true = [published_mechanism(N_CATEGORIES, epsilon, KAPPA).epsilon for epsilon in EPSILONS]
    srr = tv[..., -1, :].reshape(*tv.shape[:-2], 2, 2, 2)
    adaptive = tv[..., :-1, :].reshape(*tv.shape[:-2], -1, 2, 2, 2)
    return [
        finding(
            "true_epsilon",
            "with the published budgets the true ε is above the label",
            np.all(np.array(true) > EPSILONS),
        ),
        finding("srr", "SRR depends on the step alone", np.all(srr == srr[..., :1, :, :1])),
        finding(
            "all_matter",
            "every cause changes some error",
            all(np.any(np.diff(adaptive, axis=axis) != 0) for axis in (-3, -2, -1)),
        ),
    ]


def stated(findings: Findings) -> list[Finding]:
    """Return what is found of the three causes, on average over the others."""
    better, worse = findings.sides("budgets", WAYS[-1])
    small = [at for at in findings.cells if at[0] < max(EPSILONS)]
    sides = findings.sides("step", WAYS[-1])
    others = max(abs(ways[c][WAYS[-1]].middle) for ways in findings.cells.values() for c in ("step", "empty subset"))
    budgets = min((abs(findings.cells[at]["budgets"][WAYS[-1]].middle) for at in (*better, *worse)), default=0.0)
    return [
        finding("better", "the published budgets look better for ε = 0.5 and 1, at every ρ", better == small),
        finding("worse", "and worse for ε = 5 and ρ = 0.01", worse == [(5.0, 0.01)]),
        finding("step", "the step is shown to matter nowhere, on average over the others", sides == ([], [])),
        finding(
            "small",
            "the median effects of step and empty subset are below 10 %",
            others < np.log(1.1),
            largest_factor=np.exp(others),
        ),
        finding(
            "smaller",
            "and smaller than every effect of the budgets that is shown",
            others < budgets,
            least_factor_of_budgets=np.exp(budgets),
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings. A full run writes the figures to `FOLDER` too."""
    runs, people = (1, 20) if options.quick else (RUNS, PEOPLE_PER_CATEGORY)
    settings = [
        Setting(N_CATEGORIES, epsilon, rho, run, options.seed, people)
        for epsilon, rho, run in product(EPSILONS, RHOS, range(runs))
    ]
    tv = measure(settings, parallel=not options.quick)
    logs = log_ratios(tv)
    shown = find(logs)
    parts = page(logs, shown)
    print("\n\n".join(parts))
    if not options.quick:
        write(tv, parts)
    return sound(tv) + ([] if options.quick else stated(shown))


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
