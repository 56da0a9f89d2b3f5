"""NUTS, Gibbs and SGLD against quadrature (K = 2, 3) and against NUTS at the sizes of the paper (K = 10, 20).

NUTS agrees with quadrature. Gibbs agrees with both where it mixes, which it does not for small ε in 4000 draws. SGLD is
run here as a sampler of a fixed data set: steps of 0.5/n, 40 000 updates from draws of the prior. That is not enough to
mix at small ε; at ε = 5 it mixes, and its minibatches make it too wide. What the paper makes of SGLD is something else,
more updates, warm-started while the answers come in: see validation/paper_sampler.py. Exits with 1 if a finding is not
reproduced.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.stats import t as student

import oracles
from adobest_pp import RRRR, SRR, AdaptiveSubset, Responses, SubsetSelection, sample, simulate_adaptive
from adobest_pp.answers.draws import theta_of
from adobest_pp.diagnostics import Verdict, compare, verdict_in_words
from adobest_pp.samplers.checks import NOT_CONVERGED, without_warnings_of
from oracles import rows_of
from validation.answers import ask
from validation.common import Finding, Options, each, finding, main, shown, table

# The probability that exact samplers fail any of the tests against quadrature.
FALSE_ALARM = 0.01


@dataclass(frozen=True)
class Small:
    """A problem that quadrature solves."""

    name: str
    mechanism: SRR | RRRR | SubsetSelection
    people: int
    prior: float


SMALL = (
    Small("SRR, ε = 1", SRR(2, 1.0), 300, 1.0),
    Small("SRR, ε = 0.5, ρ = 0.5", SRR(2, 0.5), 300, 0.5),
    Small("SRR, ε = 3", SRR(3, 3.0), 400, 1.0),
    Small("RRRR, ε = 2", RRRR(3, 2.0, 0.8), 400, 1.0),
    Small("subset selection, ε = 2", SubsetSelection(3, 2.0, 2), 400, 2.0),
)
SMALL_SAMPLERS: dict[str, dict[str, Any]] = {
    "NUTS": {"sampler": "nuts", "draws": 2000},
    "Gibbs": {"sampler": "gibbs", "draws": 10_000},
    "SGLD": {"sampler": "sgld", "draws": 1000, "updates_per_draw": 20},
}
SAMPLERS: dict[str, dict[str, Any]] = {
    "NUTS": {"sampler": "nuts"},
    "Gibbs": {"sampler": "gibbs", "draws": 4000},
    "SGLD, 40 000 updates": {"sampler": "sgld"},
    "SGLD, tuned": {"sampler": "sgld", "diffusion": "preconditioned", "updates_per_draw": 100},
}
# The tuned sampler has ten times the step, which preconditioning allows, and five times the updates.
TUNED_STEP = 5.0


def against_quadrature(job: tuple[Small, int]) -> list[list[Any]]:
    """Return the errors of means and sds of each sampler, in Monte Carlo standard errors and in units of the sd."""
    small, seed = job
    rng = np.random.default_rng(seed)
    k = small.mechanism.n_categories
    responses = ask(small.mechanism, rng.dirichlet(np.full(k, 2.0)), small.people, rng)
    moments = oracles.posterior_moments_k2 if k == 2 else oracles.posterior_moments_k3
    mean, sd = moments(rows_of(responses), np.full(k, small.prior))
    rows = []
    for name, settings in SMALL_SAMPLERS.items():
        tree = sample(responses, prior=small.prior, random_seed=seed, progressbar=False, **settings)
        rows.append([small.name, name, *_errors(theta_of(tree).values, mean, sd)])
    return rows


def _errors(theta: NDArray[np.float64], mean: NDArray[np.float64], sd: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the largest |z| of means and sds, the largest |shift| in sd, the farthest sd ratio and the least ESS."""
    flat = theta.reshape(-1, theta.shape[-1])
    shift, ratio = (flat.mean(axis=0) - mean) / sd, flat.std(axis=0) / sd
    mean_z = np.abs(flat.mean(axis=0) - mean) / array_stats.mcse(theta, 0, 1, method="mean")
    sd_z = np.abs(flat.std(axis=0) - sd) / array_stats.mcse(theta, 0, 1, method="sd")
    farthest = ratio[np.argmax(np.abs(np.log(ratio)))]
    ess = array_stats.ess(theta, 0, 1).min()
    return float(mean_z.max()), float(sd_z.max()), float(np.abs(shift).max()), float(farthest), float(ess)


def quadrature_findings(problems: tuple[Small, ...], seed: int) -> list[Finding]:
    """Print and judge the samplers on small problems."""
    found = each(against_quadrature, [(small, seed) for small in problems], "against quadrature")
    rows = [row for part in found for row in part]
    print("Against quadrature: largest errors over the categories\n")
    headers = ["data", "sampler", "mean, in MCSE", "sd, in MCSE", "mean, in sd", "sd ratio", "least ESS"]
    cells = [[*row[:2], *(shown("{:.2f}", one) for one in row[2:6]), shown("{:.0f}", row[6])] for row in rows]
    table(headers, cells, name="quadrature")
    tests = 2 * 2 * sum(small.mechanism.n_categories for small in problems)

    def agrees(row: list[Any]) -> bool:
        # Standard errors are estimates: Student's t with a degree of freedom for eight effective draws
        return bool(max(row[2:4]) < float(student.isf(FALSE_ALARM / tests / 2, max(row[6] / 8, 1))))

    of = {name: [row for row in rows if row[1] == name] for name in SMALL_SAMPLERS}
    worst = {name: np.max([row[2:4] for row in some]) for name, some in of.items()}
    shift, ratios = np.max([row[4] for row in of["SGLD"]]), np.array([row[5] for row in of["SGLD"]])
    return [
        *(
            finding(
                f"quadrature, {name}",
                f"K = 2, 3: {name} has the means and sds of quadrature, within its Monte Carlo error",
                all(map(agrees, of[name])),
                largest_error=worst[name],
            )
            for name in ("NUTS", "Gibbs")
        ),
        finding(
            "quadrature, SGLD",
            "K = 2, 3: SGLD with steps of 0.5/n does not",
            not all(map(agrees, of["SGLD"])),
            largest_error=worst["SGLD"],
        ),
        finding(
            "close, SGLD",
            "but its means are within 0.25 sd, and its sds within 25 %",
            shift < 0.25 and np.all((ratios > 0.75) & (ratios < 1.25)),
            largest_shift=shift,
            least_ratio=ratios.min(),
            largest_ratio=ratios.max(),
        ),
    ]


@dataclass(frozen=True)
class Case:
    """A collection as in the paper: 500·K people, adaptive RRRR with κ = 0.8."""

    n_categories: int
    epsilon: float
    people: int


@dataclass(frozen=True, eq=False)
class Found:
    """What became of a case."""

    case: Case
    comparison: xr.Dataset


def against_nuts(job: tuple[Case, int]) -> Found:
    """Collect as in the paper, sample with everything, and compare with NUTS."""
    case, seed = job
    theta = np.random.default_rng(seed).dirichlet(np.ones(case.n_categories))
    mechanism = RRRR(case.n_categories, case.epsilon, 0.8)
    run = simulate_adaptive(theta, AdaptiveSubset(mechanism, "honest"), n_people=case.people, random_seed=seed)
    trees = {name: draw(run.responses, name, seed) for name in SAMPLERS}
    return Found(case, compare(trees, "NUTS", theta, random_seed=seed))


def draw(responses: Responses, name: str, seed: int) -> xr.DataTree:
    """Sample, without the warnings of chains that have not converged: R-hat is in the table."""
    options = SAMPLERS[name] | ({"step_size": TUNED_STEP / len(responses)} if name == "SGLD, tuned" else {})
    with without_warnings_of(NOT_CONVERGED):
        return sample(responses, random_seed=seed, progressbar=False, **options)


def print_found(found: list[Found]) -> None:
    """Print what `compare` says of every sampler."""
    rows = []
    for one in found:
        for name in SAMPLERS:
            graded = one.comparison.sel(sampler=name)
            ratio = graded["sd_ratio"].values
            figures = [float(graded[part]) for part in ("tv_reference", "r_hat", "ess_bulk")]
            row = [one.case.n_categories, one.case.epsilon, name]
            row += map(shown, ("{:.3f}", "{:.2f}", "{:.0f}"), figures)
            rows.append([*row, shown("{:.2f}–{:.2f}", ratio.min(), ratio.max()), verdict_in_words(graded)])
    print("\nAgainst NUTS, adaptive RRRR as in the paper\n")
    table(["K", "ε", "sampler", "TV of means", "R-hat", "ESS", "sd ratios", "verdict"], rows, name="verdicts")


def size_findings(found: list[Found]) -> list[Finding]:
    """Judge the samplers at the sizes of the paper."""
    plain, tuned = list(SAMPLERS)[2:]
    low = [one for one in found if one.case.epsilon <= 1]
    high = [one for one in found if one.case.epsilon == 5]

    def are(name: str, some: list[Found], verdict: Verdict) -> list[bool]:
        return [one.comparison["verdict"].sel(sampler=name).item() == verdict for one in some]

    def largest(variable: str, name: str, some: list[Found]) -> NDArray[np.float64]:
        return np.array([one.comparison[variable].sel(sampler=name).max().item() for one in some])

    distances = {name: largest("tv_reference", name, low) for name in (plain, tuned)}
    widths = {name: largest("sd_ratio", name, high) for name in (plain, tuned)}
    nowhere = "40 000 updates of SGLD from cold starts are nowhere indistinguishable from NUTS"
    return [
        finding("NUTS", "NUTS has converged everywhere", all(are("NUTS", found, Verdict.REFERENCE))),
        finding(
            "Gibbs, ε = 5",
            "Gibbs is indistinguishable from NUTS at ε = 5",
            all(are("Gibbs", high, Verdict.INDISTINGUISHABLE)),
        ),
        finding("Gibbs, ε ≤ 1", "Gibbs has not mixed at ε ≤ 1", all(are("Gibbs", low, Verdict.NOT_MIXED))),
        finding("SGLD", nowhere, not any(are(plain, found, Verdict.INDISTINGUISHABLE))),
        finding("SGLD, ε ≤ 1", "at ε ≤ 1 it has not mixed", all(are(plain, low, Verdict.NOT_MIXED))),
        finding("SGLD, ε = 5", "at ε = 5 it is too wide", np.all(widths[plain] > 1.1), least_ratio=widths[plain].min()),
        finding(
            "tuned, ε ≤ 1",
            "preconditioning, larger steps and more updates bring SGLD nearer at ε ≤ 1",
            np.all(distances[tuned] < distances[plain]),
        ),
        finding(
            "tuned, ε = 5",
            "and make it worse at ε = 5: no one setting serves all",
            np.all(widths[tuned] > widths[plain]),
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    in_small = quadrature_findings(SMALL[::2] if options.quick else SMALL, options.seed)
    if options.quick:
        cases = [Case(10, 1.0, 2000), Case(10, 5.0, 5000)]
    else:
        cases = [Case(k, epsilon, 500 * k) for k in (10, 20) for epsilon in (0.5, 1.0, 5.0)]
    found = each(against_nuts, [(case, options.seed) for case in cases], "against NUTS", parallel=not options.quick)
    print_found(found)
    return in_small + size_findings(found)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
