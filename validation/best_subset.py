"""With exact sampling the best subset S* is published more and more often; and what changes with SGLD.

S* is what a utility chooses at the true θ*. With draws of the true posterior the frequency of S_t = S* tends to one if
the best subset is unique. In both settings below it is unique, and not empty for every utility. Exits with 1 if a
finding is not reproduced.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from adobest_pp import RRRR, AdaptiveSubset, select_subset, simulate_adaptive, utility
from adobest_pp.design import UTILITIES
from adobest_pp.diagnostics import best_subset_frequency
from adobest_pp.simulate import OnlineRun
from validation.common import Finding, Options, each, finding, main, shown, table

SAMPLERS = ("exact", "sgld")
WINDOWS = 8


@dataclass(frozen=True)
class Setting:
    """A population and a mechanism, and the utilities to run."""

    theta: tuple[float, ...]
    epsilon: float
    kappa: float
    utilities: tuple[str, ...]

    @property
    def mechanism(self) -> RRRR:
        """The mechanism."""
        return RRRR(len(self.theta), self.epsilon, self.kappa)

    def __str__(self) -> str:
        return f"θ* = {self.theta}, ε = {self.epsilon:g}, κ = {self.kappa:g}"


# In the second, fisher never publishes a subset, as nearly everywhere (`validation.utilities`), which proves nothing.
SETTINGS = (
    Setting((0.45, 0.35, 0.2), 3.0, 0.8, ("entropy", "tv2", "honest")),
    Setting((0.6, 0.25, 0.1, 0.05), 1.0, 0.9, ("entropy", "tv1", "tv2", "mse", "honest")),
)
VACUOUS = Setting((0.6, 0.3, 0.1), 3.0, 0.9, ())


def margins(setting: Setting) -> list[list[object]]:
    """Return for each utility |S*| and how much better S* is than the next size, relative to it."""
    rows = []
    for name in UTILITIES:
        values = np.sort(utility(setting.theta, setting.mechanism, name))
        size = len(select_subset(setting.theta, setting.mechanism, name))
        rows.append([name, size, float((values[-1] - values[-2]) / abs(values[-1]))])
    return rows


def collect(job: tuple[Setting, str, str, int, int]) -> OnlineRun:
    """Run Algorithm 1 once, with the paper's settings apart from the sampler."""
    setting, name, sampler, people, seed = job
    return simulate_adaptive(
        np.array(setting.theta),
        AdaptiveSubset(setting.mechanism, name, sampler=sampler),
        n_people=people,
        random_seed=seed,
        final_updates=2,
        path_length=1,
    )


def measure(setting: Setting, people: int, runs: int, seed: int, parallel: bool) -> xr.Dataset:
    """Return the frequencies of S* for every utility and sampler."""
    pairs = [(name, sampler) for name in setting.utilities for sampler in SAMPLERS]
    seeds = np.random.SeedSequence(seed).generate_state(runs * len(pairs)).reshape(len(pairs), runs).tolist()
    jobs = [(setting, *pair, people, one) for pair, some in zip(pairs, seeds, strict=True) for one in some]
    found = each(collect, jobs, "collections", parallel)
    labelled = {f"{pair[0]}, {pair[1]}": found[i * runs : (i + 1) * runs] for i, pair in enumerate(pairs)}
    return best_subset_frequency(labelled, setting.theta, window=people // WINDOWS)


def print_margins(setting: Setting, rows: list[list[Any]]) -> None:
    """Print S* and how much better it is."""
    table(["utility", "|S*|", "better than the next by"], rows, 2, "margins", {"setting": str(setting)})


def print_frequencies(result: xr.Dataset, setting: str) -> None:
    """Print the frequency in every window."""
    print(f"\nFrequency of S_t = S* in windows of people, by the last of them; {int(result['runs'][0])} runs\n")
    rows = []
    for label in result["label"].values.tolist():
        one = result.sel(label=label)
        error = float(one["frequency_se"][-1])
        rows.append(
            [label, int(one["best_size"]), *(shown("{:.3f}", value) for value in one["frequency"].values), error]
        )
    headers = ["utility, sampler", "|S*|", *map(str, result["people"].values), "± se of the last"]
    table(headers, rows, 2, "frequencies", {"setting": setting})


def grows(result: xr.Dataset, sampler: str) -> bool:
    """Tell whether every utility publishes S* at least as often in the last window as in the first."""
    chosen = result["frequency"].sel(label=result["sampler"] == sampler).values
    return bool(np.all(chosen[:, -1] >= chosen[:, 0]))


def remaining(results: list[xr.Dataset], sampler: str) -> float:
    """Return the frequency of other subsets in the last window over that in the first, of all runs together."""
    chosen = np.concatenate([one["frequency"].sel(label=one["sampler"] == sampler).values for one in results])
    others = 1 - chosen.mean(axis=0)
    return float(others[-1] / others[0])


def print_difference(result: xr.Dataset) -> None:
    """Print how much more often exact sampling publishes S* in the first window, on average over the utilities."""
    exact, sgld = (result.isel(people=0).sel(label=result["sampler"] == sampler) for sampler in SAMPLERS)
    gap = float((exact["frequency"].values - sgld["frequency"].values).mean())
    squares = exact["frequency_se"].values ** 2 + sgld["frequency_se"].values ** 2
    error = np.sqrt(squares.sum()) / squares.size
    print(f"\nIn the first window exact sampling is ahead of SGLD by {gap:.3f} ± {error:.3f} (standard error)")


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    people, runs = (8000, 4) if options.quick else (40_000, 12)
    results = []
    for setting in SETTINGS:
        print(f"{setting}\n")
        print_margins(setting, margins(setting))
        results.append(measure(setting, people, runs, options.seed, parallel=not options.quick))
        print_frequencies(results[-1], str(setting))
        print_difference(results[-1])
        print()
    print(f"{VACUOUS}: every utility publishes nothing, and a frequency of 1 proves nothing\n")
    vacuous = margins(VACUOUS)
    print_margins(VACUOUS, vacuous)
    left = {sampler: remaining(results, sampler) for sampler in SAMPLERS}
    print("\nOther subsets in the last window, as a share of those in the first, all utilities together: ", end="")
    print(", ".join(f"{value:.2f} ({sampler})" for sampler, value in left.items()))
    sizes = np.concatenate([result["best_size"].values for result in results])
    return [
        finding(
            "grows",
            "exact sampling: S* is published no less in the last eighth of a run than in the first",
            all(grows(result, "exact") for result in results),
        ),
        finding(
            "exact",
            "exact sampling: other subsets are at most half as frequent then",
            left["exact"] < 0.5,
            ratio=left["exact"],
        ),
        finding(
            "sgld",
            "SGLD, for which there is no theorem: other subsets are at most half as frequent, too",
            left["sgld"] < 0.5,
            ratio=left["sgld"],
        ),
        finding(
            "not_vacuous",
            "S* is not empty in more than half of these",
            np.mean(sizes > 0) > 0.5,
            share=np.mean(sizes > 0),
        ),
        finding("vacuous", "S* is empty for every utility in the last setting", all(row[1] == 0 for row in vacuous)),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
