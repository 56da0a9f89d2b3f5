"""How often `compare` calls equal draws different, and different ones equal.

For false alarms, both sets of draws are exact and from one posterior: Dirichlet, given no or 200 answers, K = 2 to 50,
ρ = 0.001 (most categories are empty) to 1; independent, or autocorrelated in two ways. For power, one category has a
fault: its mean is off by 0.1 standard deviations, or its standard deviation is 1.1 times too large. Both are in normal
scores, which is the same as in θ for a Gaussian posterior. Exits with 1 if a finding is not reproduced.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import gammaincinv, log_ndtr, ndtr
from scipy.stats import beta, binom

from adobest_pp import SRR, Responses, sample
from adobest_pp.answers.draws import theta_of
from adobest_pp.diagnostics import Verdict, compare
from adobest_pp.diagnostics.comparison import FALSE_ALARM, FAMILIES
from adobest_pp.diagnostics.draws import normal_scores
from validation.common import Finding, Options, Shown, each, finding, main, shown, table

PRIORS = (0.001, 0.01, 0.1, 1.0)
SIZES = (2, 10, 50)
PEOPLE = 200
CHAINS, DRAWS = 4, 1000
# With these, the smallest p-value of the tests of the joint distribution, 1/400, is exactly their level.
RESAMPLES = 399
TESTS = ("location_p_value", "scale_p_value", "energy_p_value", "stein_p_value")

# How a draw depends on the one before, in the reference and in the other sampler: (repeated, correlated). A draw is
# equal to the one before with the first probability; normal scores are autoregressive with the second coefficient.
KINDS = {
    "independent": ((0.0, 0.0), (0.0, 0.0)),
    "repeated": ((0.5, 0.0), (0.8, 0.0)),
    "correlated": ((0.0, 0.5), (0.0, 0.9)),
}

# Rates are measured at the level that is claimed, and at ten times that, where there is more to count.
LEVELS = (FALSE_ALARM, 10 * FALSE_ALARM)
# The probability that rates which are as claimed fail any one of the statements.
ERROR = 0.001
MEAN, SD = "mean off by 0.1 sd", "sd 1.1×"


@dataclass(frozen=True)
class Cell:
    """Pairs of one kind. The second of each pair has the `fault` in one category."""

    prior: float
    n_categories: int
    people: int
    kind: str
    pairs: int
    seed: int
    fault: str = ""
    draws: int = DRAWS


def dirichlet(
    alpha: NDArray[np.float64], draws: int, correlation: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return draws (chain, draw, K) of a Dirichlet distribution: Γ(α) = Γ(α+1)·U^(1/α), autoregressive by a copula."""
    noise = rng.standard_normal((2, CHAINS, draws, alpha.size))
    noise[:, :, 1:] *= np.sqrt(1 - correlation**2)
    scores = lfilter([1.0], [1.0, -correlation], noise, axis=2)
    logs = np.log(gammaincinv(alpha + 1, ndtr(scores[0]))) + log_ndtr(scores[1]) / alpha
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def repeated(theta: NDArray[np.float64], share: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return draws of which a share is the same as the one before."""
    new = rng.random(theta.shape[:2]) >= share
    new[:, 0] = True
    places = np.maximum.accumulate(np.where(new, np.arange(theta.shape[1]), 0), axis=1)
    return np.take_along_axis(theta, places[..., None], axis=1)


def planted(theta: NDArray[np.float64], population: NDArray[np.float64], fault: str) -> NDArray[np.float64]:
    """Return draws whose first category has the fault: its normal scores are moved or stretched, and mapped back.

    The others keep their proportions.
    """
    scores = normal_scores(theta, theta[:0])[0][..., 0]
    moved = scores + 0.1 if fault == MEAN else 1.1 * scores
    first, others = np.quantile(population, ndtr(moved)), theta[..., 1:]
    left = others.sum(axis=-1, keepdims=True)
    # Where nothing was left for the others, they are equal.
    shares = np.divide(others, left, out=np.full_like(others, 1 / others.shape[-1]), where=left > 0)
    return np.concatenate([first[..., None], (1 - first)[..., None] * shares], axis=-1)


def answers_of(cell: Cell) -> Responses:
    """Return answers with half as many people in each next category, at an ε so large that all answers are true."""
    weights = 0.5 ** np.arange(cell.n_categories)
    held = np.arange(cell.people) * weights.sum() / max(cell.people, 1)
    return Responses.from_arrays(SRR(cell.n_categories, 30.0), np.searchsorted(np.cumsum(weights), held, "right"))


def tree_of(theta: NDArray[np.float64], responses: Responses, prior: NDArray[np.float64] | None) -> xr.DataTree:
    """Return draws as `sample` does; without a prior, the Stein discrepancy is left out."""
    coords = {"category": list(responses.categories)}
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, coords)
    tree = xr.DataTree.from_dict({"posterior": posterior, "responses": responses.to_xarray()})
    tree.attrs = {} if prior is None else {"prior_concentration": prior}
    return tree


def run(cell: Cell) -> list[dict[str, float | str]]:
    """Compare every pair of a cell: the verdict, and the p-value of each test."""
    rng = np.random.default_rng([cell.seed, cell.n_categories, cell.people, round(1000 * cell.prior), len(cell.kind)])
    responses = answers_of(cell)
    prior = np.full(cell.n_categories, cell.prior)
    alpha = np.asarray(prior + np.bincount(responses.answers, minlength=cell.n_categories), dtype=np.float64)
    rows = []
    for number in range(cell.pairs):
        first, second = (
            repeated(dirichlet(alpha, cell.draws, correlation, rng), share, rng)
            for share, correlation in KINDS[cell.kind]
        )
        if cell.fault:
            population = dirichlet(alpha, 10 * cell.draws, 0.0, rng)[..., 0]
            second = planted(second, population, cell.fault)
        rows.append(compared(first, second, responses, None if cell.fault else prior, number))
    return rows


def compared(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    responses: Responses,
    prior: NDArray[np.float64] | None,
    seed: int,
) -> dict[str, float | str]:
    """Compare two sets of draws."""
    trees = {"reference": tree_of(first, responses, prior), "it": tree_of(second, responses, prior)}
    result = compare(trees, "reference", max_points=200, resamples=RESAMPLES, random_seed=seed)
    row: dict[str, float | str] = {name: float(result[name].sel(sampler="it")) for name in TESTS}
    return row | {"verdict": result["verdict"].sel(sampler="it").item()}


def resampled(job: tuple[float, int, int]) -> list[dict[str, float | str]]:
    """Compare pairs of independent draws out of one long run of NUTS on 200 answers under SRR, K = 20, ε = 1.

    They have the same distribution whether NUTS is right or not, so the Stein discrepancy is left out.
    """
    rho, pairs, seed = job
    rng = np.random.default_rng(seed)
    mechanism = SRR(20, 1.0)
    people = rng.choice(20, size=PEOPLE, p=np.repeat([0.2, 0.0], [5, 15]))
    responses = Responses.from_arrays(mechanism, mechanism.privatize(people, rng=rng))
    tree = sample(responses, "nuts", rho, draws=5000, random_seed=seed, progressbar=False)
    population = theta_of(tree).values.reshape(-1, 20)
    rows = []
    for number in range(pairs):
        first, second = population[rng.integers(len(population), size=(2, CHAINS, DRAWS))]
        rows.append(compared(first, second, responses, None, number))
    return rows


def is_judged(row: dict[str, float | str]) -> bool:
    """Tell whether both sets of draws had mixed, so that there is a verdict on the second."""
    return row["verdict"] in (Verdict.BIASED, Verdict.INDISTINGUISHABLE)


def alarms(rows: Sequence[dict[str, float | str]], level: float = FALSE_ALARM) -> int:
    """Return how many of the judged samplers are biased, or would be at another level."""
    smallest = np.array([[row[name] for name in TESTS] for row in rows if is_judged(row)], dtype=np.float64)
    return int(np.sum(np.nanmin(smallest.reshape(-1, len(TESTS)), axis=1) <= level / FAMILIES))


def interval(count: int, of: int) -> Shown:
    """Return a rate in per cent with its 95 % interval (Clopper and Pearson's)."""
    low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return shown("{:.1f} [{:.1f}, {:.1f}]", 100 * count / of, 100 * low, 100 * high)


def summary(rows: Sequence[dict[str, float | str]]) -> list[int | Shown]:
    """Return the columns of a table of false alarms."""
    judged = [row for row in rows if is_judged(row)]
    by_test = [sum(bool(float(row[name]) <= LEVELS[1] / FAMILIES) for row in judged) for name in TESTS]
    rates = [interval(alarms(rows, level), len(judged)) for level in LEVELS]
    return [len(rows), len(judged), *rates, shown("/".join(["{}"] * len(TESTS)), *by_test)]


def as_claimed(rows: Sequence[dict[str, float | str]]) -> bool:
    """Tell whether the alarms are no more than chance allows at both levels, and some verdicts were given."""
    judged = sum(map(is_judged, rows))
    return judged > 0 and all(
        binom.sf(alarms(rows, level) - 1, judged, level) > ERROR / len(LEVELS) for level in LEVELS
    )


def false_alarms(quick: bool, seed: int) -> list[Finding]:
    """Print the rates of false alarms by prior, K, kind of chains and answers; return the findings."""
    priors, sizes, people = (PRIORS[::3], SIZES[:2], (PEOPLE,)) if quick else (PRIORS, SIZES, (0, PEOPLE))
    pairs = 1 if quick else 10
    places = product(priors, sizes, people, KINDS)
    cells = [Cell(rho, k, n, kind, pairs, seed) for rho, k, n, kind in places]
    found = each(run, cells, "false alarms", parallel=not quick)
    print(
        f"Equal draws called different, in per cent with 95 % intervals, at the level {LEVELS[0]:.0%} that is claimed"
    )
    print(f"and at {LEVELS[1]:.0%}; and how often by location/scale/energy/Stein at the latter\n")
    groups: dict[str, list[dict[str, float | str]]] = {}
    for name in ("prior", "n_categories", "kind", "people"):
        for value in dict.fromkeys(getattr(cell, name) for cell in cells):
            part = [
                row for cell, some in zip(cells, found, strict=True) if getattr(cell, name) == value for row in some
            ]
            label = {"prior": f"ρ = {value}", "n_categories": f"K = {value}", "people": f"{value} answers"}
            groups[label.get(name, f"{value}")] = part
    if not quick:
        jobs = [(rho, 40, seed) for rho in PRIORS[:2]]
        for (rho, *_), part in zip(jobs, each(resampled, jobs, "SRR, ε = 1", parallel=True), strict=True):
            groups[f"SRR, ε = 1, K = 20, {PEOPLE} answers, ρ = {rho:g}"] = part
    every = groups["all of the grid"] = [row for some in found for row in some]
    judged = sum(map(is_judged, every))
    rows = [[label, *summary(part)] for label, part in groups.items()]
    table(["", "pairs", "judged", *(f"at {level:.0%}" for level in LEVELS), "by test"], rows, name="false_alarms")
    print()
    sparse = [label for label in groups if label.startswith(("ρ", "SRR"))]
    return [
        *(
            finding(
                f"false alarms, {label}",
                f"equal draws are not shown to be called different more often than claimed: {label}",
                as_claimed(groups[label]),
                alarms=alarms(groups[label]),
                judged=sum(map(is_judged, groups[label])),
            )
            for label in [*sparse, *KINDS, "all of the grid"]
        ),
        finding("judged", "three quarters of the pairs are judged", judged >= 0.75 * len(every), judged=judged),
    ]


def power(quick: bool, seed: int) -> list[Finding]:
    """Print how often planted faults are found; return the findings."""
    priors, sizes = (PRIORS[3:], SIZES[1:2]) if quick else (PRIORS, SIZES)
    places = [(DRAWS, rho, k) for k in sizes for rho in priors]
    places += [] if quick else [(4 * DRAWS, rho, SIZES[1]) for rho in priors]
    cells = [
        Cell(rho, k, 0, "independent", 3 if quick else 10 * DRAWS // draws + 4, seed, fault, draws)
        for fault in (MEAN, SD)
        for draws, rho, k in places
    ]
    found = dict(zip(cells, each(run, cells, "power", parallel=not quick), strict=True))
    print("Of faults in one category, so many were found, of independent draws, in per cent with 95 % intervals\n")
    rows = [
        [cell.fault, f"{CHAINS} × {cell.draws}", cell.n_categories, cell.prior, interval(alarms(part), len(part))]
        for cell, part in found.items()
    ]
    table(["fault", "draws", "K", "ρ", "found"], rows, name="faults_found")
    if not quick:
        print("\nK = 2, ρ ≤ 0.01: in half of the draws θ is 1 to the last digit, and hides the fault.")

    def share(fault: str, draws: int) -> float:
        wanted = [cell for cell in cells if (cell.fault, cell.draws) == (fault, draws) and cell.n_categories > 2]
        several = [found[cell] for cell in wanted]
        return sum(map(alarms, several)) / sum(map(len, several))

    expected = {(MEAN, DRAWS): 0.6, (SD, DRAWS): 0.9, (MEAN, 4 * DRAWS): 0.95, (SD, 4 * DRAWS): 0.95}
    return [
        finding(
            f"{fault}, {draws} draws",
            f"K > 2: {fault} is found in at least {least:.0%} with {CHAINS} × {draws} draws",
            share(fault, draws) >= least,
            share_found=share(fault, draws),
        )
        for (fault, draws), least in expected.items()
        if draws in {cell.draws for cell in cells}
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    return false_alarms(options.quick, options.seed) + power(options.quick, options.seed)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
