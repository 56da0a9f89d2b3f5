"""Priors for the shares of thousands of categories: one learned concentration, a power law, or two groups.

Shares fall as 1/rank^s with s = 0.8, 1 and 1.2, or 3 % of the categories have even shares and the others none. None of
these is a draw from a prior below. People answer by SRR, Hadamard response and projective geometry response.

- learned: shares from Gamma(a), one a for all, as in every estimate that people see.
- power law: density φ^(−1−σ) above a size t, and even below it: the finite analogue of a Pitman–Yor process, with σ and
  t learned. Zipf's law with exponent s is σ = 1/s.
- two groups: a share is small, with one mean, or from Gamma(a), with learned weight, mean and a.

The posteriors are computed on grids, alike for all: the number of answers that name a category is binomial, shares are
independent but for their sum of one (a saddlepoint approximation), and hyperparameters have even weights on a grid. The
sampler ``"blocks"`` checks the first of them. Errors are of posterior means: the total variation distance, and half the
absolute error of the 100 largest shares. Exits with 1 if a finding is not reproduced.
"""

import math
import sys
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

import adobest_pp as ad
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.intervals import covering_intervals
from adobest_pp.likelihood.without_prior import direct_of_counts, named
from validation.common import Finding, Options, each, finding, main, table

Array = NDArray[np.float64]
MECHANISMS = {"SRR": ad.SRR, "Hadamard response": ad.HadamardResponse, "PGR": ad.ProjectiveGeometryResponse}
EPSILONS = (1.0, 3.0)
# Categories, people and collections.
SIZES = ((1_000, 100_000, 4), (10_000, 1_000_000, 1))
LARGEST, FILLED = 100, 0.03
# The grid of ln φ goes down to here; below `NOTHING` a share is an atom at zero.
DEEPEST, NOTHING = -80.0, -18.0
# The largest rate r, how near to one shares sum on average, and the part of shares that masses may all but exclude.
MOST, TOLERANCE, MOST_EXCLUDED = 3e6, 1e-5, 0.1
PRIORS = ("learned", "power law", "two groups")


def truths(k: int) -> dict[str, Array]:
    """Return the shares of k categories by name."""
    rank = np.arange(1, k + 1)
    weights = {f"1/rank^{s:g}": rank**-s for s in (0.8, 1.0, 1.2)}
    weights["3 % filled"] = (rank <= FILLED * k) * 1.0
    return {name: values / values.sum() for name, values in weights.items()}


class Grid(NamedTuple):
    """Sizes φ of a share, the widths of their cells in ln φ, and ln φ of a fine grid of negligible sizes."""

    phi: Array
    width: Array
    deep: Array


def grid_of(top: float, sd: float) -> Grid:
    """Return sizes up to `top`: even in ln φ below sd, and closer than sd above it."""
    edges = np.append(np.exp(np.linspace(NOTHING, np.log(sd), 80)), np.arange(1.5, top / sd + 1, 0.5) * sd)
    return Grid((edges[1:] + edges[:-1]) / 2, np.diff(np.log(edges)), np.arange(DEEPEST, NOTHING, 0.25))


def weights_of(log_density: Array, deep: Array, grid: Grid, below: float = -np.inf) -> Array:
    """Return the logarithms of the masses of the cells for a log-density of ln φ, the first that of negligible sizes.

    `below` is the logarithm of the mass below the whole grid.
    """
    nothing = np.logaddexp(logsumexp(deep) + np.log(0.25), below)
    return np.append(nothing, log_density + np.log(grid.width))


def candidates(name: str, k: int, grid: Grid) -> Iterator[tuple[float, Array]]:
    """Yield the logarithm of the weight of hyperparameters, and those of the masses of the cells, up to e^(−rφ)."""
    x = np.log(grid.phi)
    if name == "learned":
        for z in np.linspace(-3, 3, 41):
            a = np.exp(LOG_CONCENTRATION[0] + LOG_CONCENTRATION[1] * z)
            yield -0.5 * z**2, weights_of(a * x, a * grid.deep, grid, a * DEEPEST - np.log(a))
    elif name == "power law":
        for sigma, log_t in product(np.linspace(0.05, 1.65, 9), -np.log(k) - np.linspace(0, 30, 13)):
            shape = [-sigma * y + (1 + sigma) * np.log(-np.expm1(-np.exp(y - log_t))) for y in (x, grid.deep)]
            yield 0.0, weights_of(shape[0], shape[1], grid)
    else:
        for a, weight, part in product((0.1, 0.3, 1.0), np.geomspace(0.003, 0.3, 7), (1e-9, 0.1, 0.3, 0.5, 0.7, 0.9)):
            small, large = part / k / (1 - weight), (1 - part) / k / weight
            if large < 2 * small:
                continue
            densities = []
            for y in (x, grid.deep):
                first = np.log1p(-weight) + y - np.log(small) - np.exp(y) / small
                second = np.log(weight) + a * (y + np.log(a / large)) - a * np.exp(y) / large
                densities.append(np.logaddexp(first, second - math.lgamma(a)))
            yield 0.0, weights_of(densities[0], densities[1], grid, np.log(weight) + a * DEEPEST - np.log(a))


def balanced(log_likelihood: Array, times: Array, log_masses: Array, phi: Array) -> tuple[float, Array]:
    """Return the log-density that shares sum to one, and the log-masses, with e^(−rφ), for which they do on average.

    `log_likelihood` has a row for each kind of category, of which there are `times` many, with a maximum of 0.
    """
    likelihood, low, high = np.exp(log_likelihood), -MOST, MOST
    for _ in range(60):
        rate = (low + high) / 2
        tilted = log_masses - rate * phi
        top = tilted.max()
        plain = np.exp(tilted - top)
        mass, mean = likelihood @ plain, likelihood @ (plain * phi)
        log_mass = np.full(mass.size, top)
        far = mass < 1e-250  # of shares that the masses all but exclude
        if far.mean() > MOST_EXCLUDED:
            total = -np.inf if rate > 0 else np.inf
        else:
            cells = log_likelihood[far] + tilted
            log_mass[far] = cells.max(axis=1)
            each_cell = np.exp(cells - log_mass[far, None])
            mass[far], mean[far] = each_cell.sum(axis=1), each_cell @ phi
            total = times @ (mean / mass)
        low, high = (rate, high) if total > 1 else (low, rate)
        if abs(total - 1) < TOLERANCE:
            break
    else:
        return -np.inf, tilted  # these answers are all but impossible
    square = likelihood @ (plain * phi**2)
    square[far] = each_cell @ phi**2
    variance = times @ (square / mass - (mean / mass) ** 2)
    return float(times @ (np.log(mass) + log_mass) + rate - 0.5 * np.log(variance)), tilted


def posterior(name: str, counts: Array, n: int, naming: tuple[float, float]) -> tuple[Array, Array]:
    """Return the posterior mean of each share, and its 2.5 % and 97.5 % quantiles, of shape (2, K)."""
    k, (p, q) = counts.size, naming
    estimate, sd = (counts / n - q) / (p - q), np.sqrt(q * (1 - q) / n) / (p - q)
    grid = grid_of(estimate.max() + 8 * sd, sd)
    phi = np.append(0.0, grid.phi)
    distinct, index, times = np.unique(counts, return_inverse=True, return_counts=True)
    h = q + (p - q) * phi
    logs = distinct[:, None] * np.log(h) + (n - distinct[:, None]) * np.log1p(-h)
    logs -= logs.max(axis=1, keepdims=True)
    fits, parts = [], []
    for log_weight, masses in candidates(name, k, grid):
        before, _ = balanced(np.zeros((1, phi.size)), np.array([float(k)]), masses, phi)
        after, tilted = balanced(logs, times.astype(np.float64), masses, phi)
        fits.append(log_weight + after - before)
        parts.append(tilted)
    weight = np.exp(np.array(fits) - max(fits))
    weight /= weight.sum()
    cells = np.zeros_like(logs)
    for share, tilted in zip(weight, parts, strict=True):
        if share > 1e-4:
            each_cell = np.exp(logs + tilted - (logs + tilted).max(axis=1, keepdims=True))
            cells += share * each_cell / each_cell.sum(axis=1, keepdims=True)
    cells /= cells.sum(axis=1, keepdims=True)
    below = np.cumsum(cells, axis=1)
    ends = np.array([phi[np.minimum((below < level).sum(axis=1), phi.size - 1)] for level in (0.025, 0.975)])
    return (cells @ phi)[index], ends[:, index]


class Job(NamedTuple):
    """One collection."""

    mechanism: str
    epsilon: float
    k: int
    people: int
    truth: str
    seed: int


class Collected(NamedTuple):
    """Answers, and how many of them name each category."""

    responses: ad.Responses
    counts: Array
    naming: tuple[float, float]


def collect(job: Job) -> Collected:
    """Return the answers of simulated people."""
    rng = np.random.default_rng(job.seed)
    mechanism = MECHANISMS[job.mechanism](job.k, epsilon=job.epsilon)
    people = rng.choice(job.k, size=job.people, p=truths(job.k)[job.truth])
    responses, naming = ad.Responses.from_arrays(mechanism, mechanism.privatize(people, rng=rng)), mechanism.naming()
    assert naming is not None
    return Collected(responses, np.round(named(responses.evidence())), naming)


def measured(job: Job) -> dict[str, float]:
    """Return the errors and coverages of all priors on the same answers, and those of the intervals that are shown."""
    collected, theta = collect(job), truths(job.k)[job.truth]
    order, found = np.argsort(-theta, kind="stable"), dict[str, float]()
    direct = direct_of_counts(collected.counts, job.people, collected.responses.mechanism)
    assert direct is not None
    intervals = {"shown": covering_intervals(direct)}
    for name in PRIORS:
        mean, intervals[name] = posterior(name, collected.counts, job.people, collected.naming)
        error = np.abs(mean - theta) / 2
        found |= {f"{name} tv": error.sum(), f"{name} largest": error[order[:LARGEST]].sum()}
    for name, (lower, upper) in intervals.items():
        inside = ((lower <= theta) & (theta <= upper))[order]
        found |= {f"{name} covers": inside[:LARGEST].mean(), f"{name} others": inside[LARGEST:].mean()}
    return {name: float(value) for name, value in found.items()}


def difference_from_sampler(job: Job) -> tuple[float, float]:
    """Return how far the learned prior's means on grids are from those of the sampler, and these from the truth."""
    collected = collect(job)
    on_grid, _ = posterior("learned", collected.counts, job.people, collected.naming)
    tree = ad.sample(collected.responses, "blocks", "learned", 1500, 300, 2, random_seed=1, progressbar=False)
    sampled = tree.posterior.theta.mean(("chain", "draw")).values
    return float(np.abs(on_grid - sampled).sum() / 2), float(np.abs(sampled - truths(job.k)[job.truth]).sum() / 2)


def findings(options: Options) -> list[Finding]:
    """Compare the priors."""
    sizes = ((1_000, 30_000, 1),) if options.quick else SIZES
    jobs = [
        Job(mechanism, epsilon, k, people, truth, 1000 * options.seed + run)
        for k, people, runs in sizes
        for truth, mechanism, epsilon, run in product(truths(k), MECHANISMS, EPSILONS, range(runs))
    ]
    rows = each(measured, jobs, "collections")
    print("Errors of posterior means over those under the learned prior (geometric means over mechanisms and ε), and")
    print("coverage of 95 % posterior intervals and of the intervals that people are shown: 100 largest, others\n")
    lines, ratios = [], {}
    for k, truth in dict.fromkeys((job.k, job.truth) for job in jobs):
        here = [row for job, row in zip(jobs, rows, strict=True) if (job.k, job.truth) == (k, truth)]
        line: list[object] = [f"{k:,}", truth]
        for name, measure in product(PRIORS[1:], ("tv", "largest")):
            logs = [math.log(row[f"{name} {measure}"] / row[f"learned {measure}"]) for row in here]
            ratios[k, truth, name, measure] = math.exp(np.mean(logs))
            line.append(ratios[k, truth, name, measure])
        for name in (*PRIORS, "shown"):
            line += [100 * np.mean([row[f"{name} {part}"] for row in here]) for part in ("covers", "others")]
        lines.append(line)
    errors = [f"{name}: {measure}" for name, measure in product(PRIORS[1:], ("TV", "100 largest"))]
    covered = [f"{name}, {part}" for name in (*PRIORS, "shown") for part in ("largest %", "others %")]
    table(["K", "shares", *errors, *covered], lines, name="priors")
    zipf = {key: value for key, value in ratios.items() if key[1] != "3 % filled"}
    tv, largest = ([v for (*_, m), v in zipf.items() if m == measure] for measure in ("tv", "largest"))
    covers = {name: 100 * np.mean([row[f"{name} covers"] for row in rows]) for name in (*PRIORS, "shown")}
    others = {name: 100 * np.mean([row[f"{name} others"] for row in rows]) for name in (*PRIORS, "shown")}
    apart, error = difference_from_sampler(Job("Hadamard response", 3.0, 1_000, sizes[0][1], "1/rank^1", 1))
    return [
        finding(
            "learned_errs_least_on_the_largest",
            f"The 100 largest of shares that fall as 1/rank^s: the power law and two groups err {min(largest):.2f} to "
            f"{max(largest):.2f} times as much as the learned concentration.",
            np.exp(np.mean(np.log(largest))) >= 1,
            least=min(largest), most=max(largest),
        ),
        finding(
            "gain_in_tv",
            f"All of such shares: they err {min(tv):.2f} to {max(tv):.2f} times as much in total variation, because "
            "they spread what is lost in the noise more evenly.",
            min(tv) >= 0.85,
            least=min(tv), most=max(tv),
        ),
        finding(
            "learned_covers_most",
            f"95 % posterior intervals of the 100 largest hold the truth in {covers['learned']:.0f} % (learned), "
            f"{covers['power law']:.0f} % (power law) and {covers['two groups']:.0f} % (two groups).",
            covers["learned"] >= max(covers["power law"], covers["two groups"]),
            learned=covers["learned"], power_law=covers["power law"], two_groups=covers["two groups"],
        ),
        finding(
            "shown_intervals_cover",
            f"The intervals that people are shown need no prior: {covers['shown']:.1f} % of the 100 largest and "
            f"{others['shown']:.1f} % of the others.",
            93 <= covers["shown"] <= 97 and others["shown"] >= 93,
            largest=covers["shown"], others=others["shown"],
        ),
        finding(
            "grids_are_as_the_sampler",
            f"Means on grids and by 'blocks' are {apart:.3f} apart in total variation, where the error is {error:.3f}.",
            apart <= error / 4,
            apart=apart, error=error,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
