"""Do 95 % intervals hold the truth in 95 % of data sets? Simulation-based calibration of every sampler.

θ* is drawn from the prior, people answer, and θ* is ranked among the draws. If the draws are from the posterior, all
ranks are equally likely, for every mechanism, and also if subsets were chosen from earlier answers. Exits with 1 if a
finding is not reproduced.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp import RRRR, SRR, AdaptiveSubset, Responses, SubsetSelection, sample, simulate_adaptive
from adobest_pp.diagnostics import calibration
from adobest_pp.mechanisms import check_rrrr
from validation.common import Finding, Options, each, finding, main, shown, table

LEVELS = (0.5, 0.8, 0.95)
# The probability that right samplers fail any of the tests of their ranks.
FALSE_ALARM = 0.01


@dataclass(frozen=True)
class Problem:
    """A size of problem."""

    n_categories: int
    epsilon: float
    people: int


SMALL, PAPER = Problem(4, 2.0, 300), Problem(10, 1.0, 1000)
MECHANISMS = ("SRR", "RRRR, random subsets", "RRRR, adaptive", "subset selection")
SAMPLERS: dict[str, dict[str, Any]] = {
    "NUTS": {"sampler": "nuts", "draws": 400, "tune": 400, "chains": 2},
    "Gibbs": {"sampler": "gibbs", "draws": 4000, "tune": 200, "chains": 1},
    "SGLD, 40 000 updates": {"sampler": "sgld", "draws": 1000, "tune": 1000, "chains": 1, "updates_per_draw": 20},
    # 20 updates for each person, then 2000, of which the last 1000 are kept: those that the paper's estimate averages.
    # The paper reports no interval; this is what one of these updates would be worth. All answers are given at once.
    "SGLD, last 1000 only": {
        "sampler": "sgld",
        "draws": 1000,
        "tune": 1000 + 20 * PAPER.people,
        "chains": 1,
        "updates_per_draw": 1,
    },
}
RIGHT = [(SMALL, sampler) for sampler in list(SAMPLERS)[:3]]
OVERCONFIDENT = (PAPER, "SGLD, last 1000 only")
CONTROL = (PAPER, "NUTS")

Job = tuple[Problem, str, str, int, int]


def mechanism_of(problem: Problem, name: str) -> SRR | RRRR | SubsetSelection:
    """Build the mechanism. Subset selection of 4 categories has two in an answer; with one it would be SRR."""
    if name == "SRR":
        return SRR(problem.n_categories, problem.epsilon)
    if name == "subset selection":
        return SubsetSelection(problem.n_categories, problem.epsilon, 2 if problem is SMALL else None)
    return RRRR(problem.n_categories, problem.epsilon)


def calibrate(job: Job) -> xr.Dataset:
    """Calibrate one sampler with one mechanism."""
    problem, sampler, name, replications, seed = job
    mechanism = mechanism_of(problem, name)

    def fit(responses: Responses, fit_seed: int) -> xr.DataTree:
        return sample(responses, random_seed=fit_seed, progressbar=False, **SAMPLERS[sampler])

    def adaptive(x: NDArray[np.int64], rng: np.random.Generator) -> Responses:
        seed = int(rng.integers(2**31))
        return simulate_adaptive(
            None, AdaptiveSubset(check_rrrr(mechanism), "honest"), people=x, random_seed=seed, final_updates=2
        ).responses

    return calibration(
        fit,
        mechanism,
        n_people=problem.people,
        replications=replications,
        collect=adaptive if name == "RRRR, adaptive" else None,
        levels=LEVELS,
        random_seed=seed,
        progressbar=False,
    )


def run(quick: bool, seed: int) -> dict[tuple[Problem, str, str], xr.Dataset]:
    """Calibrate every sampler with every mechanism. Quick runs leave out the control, which takes longest."""
    pairs = [*RIGHT, OVERCONFIDENT] if quick else [*RIGHT, CONTROL, OVERCONFIDENT]
    jobs: list[Job] = [(*pair, name, 8 if quick else 120, seed) for pair in pairs for name in MECHANISMS]
    found = each(calibrate, jobs, "calibration", parallel=not quick)
    return {job[:3]: result for job, result in zip(jobs, found, strict=True)}


def print_results(results: dict[tuple[Problem, str, str], xr.Dataset]) -> None:
    """Print p-values and coverages."""
    rows = []
    for (problem, sampler, name), result in results.items():
        coverage = [shown("{:.3f}", value) for value in result["coverage"].mean("category")]
        p_value, ess = float(result["p_value_overall"]), float(result["ess"].median())
        rows.append([problem.n_categories, sampler, name, shown("{:.2g}", p_value), *coverage, shown("{:.0f}", ess)])
    count = next(iter(results.values())).attrs["replications"]
    for problem in (SMALL, PAPER):
        print(f"K = {problem.n_categories}: ε = {problem.epsilon:g}, {problem.people} people")
    print(f"θ* ~ Dirichlet(1), {count} data sets; p-value of uniform ranks, coverage of central intervals\n")
    levels = [f"{level:.0%}" for level in LEVELS]
    table(["K", "sampler", "mechanism", "p of ranks", *levels, "median ESS"], rows, name="calibration")


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    results = run(options.quick, options.seed)
    print_results(results)
    p_values = {key: float(result["p_value_overall"]) for key, result in results.items()}
    right = [(pair, name) for pair in [*RIGHT, CONTROL] for name in MECHANISMS]
    limit = FALSE_ALARM / len(right)
    covered = max(float(results[*OVERCONFIDENT, name]["coverage"].sel(level=0.95).mean()) for name in MECHANISMS)
    found = []
    for problem, sampler in [*RIGHT, CONTROL]:
        if (problem, sampler, MECHANISMS[0]) in results:
            least = np.min([p_values[problem, sampler, name] for name in MECHANISMS])
            text = f"K = {problem.n_categories}, {sampler}: calibrated with every mechanism (p > {limit:.1g})"
            found.append(finding(f"{sampler}, K = {problem.n_categories}", text, least > limit, least_p_value=least))
    text = f"K = {PAPER.n_categories}: intervals of the last 1000 updates of SGLD hold the truth in less than 80 %"
    return [*found, finding("overconfident", text, covered < 0.8, largest_coverage=covered)]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
