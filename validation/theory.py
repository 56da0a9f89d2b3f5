"""The paper's theory, theorem by theorem: its constants, the steps of its proofs that we could check, and its costs.

Lemmas are numbered as they appear in the appendix, and checked at the paper's settings, where each quantity is a finite
maximum over subsets. The constants of Theorem 3 (concentration of the posterior) say from which n on the theorem
excludes anything. Theorem 4 (best subset) assumes independent draws of the true posterior; for three categories a grid
gives these. Costs are measured by doubling K or n. Exits with 1 if a finding is not reproduced.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import t as student

import oracles
from adobest_pp import RRRR, AdaptiveSubset, select_subset, simulate, simulate_adaptive
from adobest_pp.adaptive.loop import new_chain
from adobest_pp.design.utilities import UTILITY_CODES, choose_size
from adobest_pp.samplers.sgld.settings import ConstantSteps
from validation.common import Finding, Options, Shown, each, finding, main, shown, table

# The paper's settings: K, ε, κ.
SETTINGS = tuple(product((10, 20), (0.5, 1.0, 5.0), (0.8, 0.9)))


@dataclass(frozen=True)
class Constants:
    """What the proof of Theorem 3 needs, in its own letters, and n below which Ω_n is the whole simplex."""

    c: float
    big_c: float
    m0: float
    c_u: float
    mu: float
    n: float


def constants(mechanism: RRRR) -> Constants:
    """Return the constants of the proof for one setting, with μ the largest that it admits."""
    matrices = [mechanism.transition_matrix(list(range(k))) for k in range(mechanism.n_categories)]
    c, big_c = min(map(np.min, matrices)), max(map(np.max, matrices))
    m0 = min(min(1.0, math.log(2) / math.log(big_c / c)) / 6, 0.5)
    c_u = c * min(np.linalg.eigvalsh(matrix.T @ matrix)[0] for matrix in matrices)

    # Lemma 16 needs the bound for uniform integrability to vanish. The exponent of that bound, divided by n, with
    # ‖θ−θ*‖² ≤ 2 (the proof writes 1) is the following; it is negative for small μ and positive for μ = 1.
    def exponent(mu: float) -> float:
        rest = 1 - mu * c_u
        return float(2 * mu * m0 * c_u + rest * math.log1p(-c_u * (1 - mu) / rest) - mu * c_u * math.log(mu))

    mu = brentq(exponent, 1e-9, 1 - 1e-9)
    # Ω_n has the squared radius max(4/m, 4/L)·n^(−a) with m = μ·m₀·c_u and L = 1/c² ≥ m; the simplex has diameter √2.
    return Constants(float(c), float(big_c), m0, float(c_u), float(mu), 2 / (mu * m0 * c_u))


def lemma_1(mechanism: RRRR) -> float:
    """Return the largest relative error of det G = a₁^(k−1)·d₁^(c−1)·(e^ε₁−1)/(e^ε₁+k), over all 0 < k < K."""
    worst, first = 0.0, math.exp(mechanism.epsilon1)
    for k in range(1, mechanism.n_categories):
        matrix = mechanism.transition_matrix(list(range(k)))
        rest = mechanism.n_categories - k
        a1 = matrix[0, 0] - 1 / (first + k)
        d1 = matrix[-1, -1] - (matrix[-1, -2] if rest > 1 else 0.0)
        _, found = np.linalg.slogdet(matrix)
        block = math.log((first - 1) / (first + k))
        expected = (k - 1) * math.log(a1) + ((rest - 1) * math.log(d1) if rest > 1 else 0.0) + block
        worst = max(worst, abs(math.expm1(found - expected)))
    return worst


def lemma_8(mechanism: RRRR) -> tuple[float, float]:
    """Return the largest squared norm of a row of G as it is, and centered, which a difference of θ does not see."""
    plain, centered = 0.0, 0.0
    for k in range(mechanism.n_categories):
        matrix = mechanism.transition_matrix(list(range(k)))
        plain = max(plain, float((matrix**2).sum(axis=1).max()))
        centered = max(centered, float(((matrix - matrix.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).max()))
    return plain, centered


def proofs() -> list[Finding]:
    """Print the constants and checks of the lemmas, and return what they show."""
    print(
        "Theorem 3 with the constants of its proof (μ the largest that it admits): Ω_n is the whole simplex up to n\n"
    )
    mechanisms = {setting: RRRR(*setting) for setting in SETTINGS}
    found = {setting: constants(mechanism) for setting, mechanism in mechanisms.items()}
    rows = [[*(shown("{}", one) for one in s), f.c, f.big_c, f.m0, f.c_u, f.mu, f.n] for s, f in found.items()]
    table(["K", "ε", "κ", "c", "C", "m₀", "c_u", "μ", "n"], rows, name="theorem_3")
    determinant = max(map(lemma_1, mechanisms.values()))
    norms = np.array([lemma_8(mechanism) for mechanism in mechanisms.values()])
    flat = RRRR(10, 1.0, kappa=1.0).transition_matrix([0])
    rank = int(np.linalg.matrix_rank(flat))
    print(
        f"\nLemma 1: det G against the product of its blocks, largest relative error {determinant:.1e}\n"
        f"Lemma 8: largest ‖row of G‖² {norms[:, 0].max():.2f} (its elements are at most 1, which is not enough);\n"
        f"   without the constant that differences of θ do not see {norms[:, 1].max():.2f}\n"
        f"κ = 1, K = 10, |S| = 1: ε₂ = 0, and G has rank {rank}: Lemma 1 needs ε₂ > 0"
    )
    smallest = min(one.n for one in found.values())
    return [
        finding(
            "lemma 1",
            "Lemma 1 holds in the paper's settings: det G is the product of its blocks",
            determinant < 1e-6,
            error=determinant,
        ),
        finding(
            "lemma 8",
            "so does Lemma 8, though not for the reason given: rows have a squared norm above 1, but not once centered",
            norms[:, 0].max() > 1 and norms[:, 1].max() <= 1,
            plain=norms[:, 0].max(),
            centered=norms[:, 1].max(),
        ),
        finding("rank", "with κ = 1 the matrix is singular, so Theorem 3 does not cover it", rank < 10, rank=rank),
        finding(
            "constants",
            "with the constants of its proof, Theorem 3 excludes nothing at any n that the paper runs (at most 10,000)",
            smallest > 10_000,
            smallest_n=smallest,
            at_K10_eps1_kappa09=found[10, 1.0, 0.9].n,
        ),
    ]


# Theorem 4. Shares, ε and κ of a setting where S* is unique and not empty for these utilities.
THETA, BEST = np.array([0.45, 0.35, 0.2]), ("entropy", "tv2", "honest")


def exact_frequencies(job: tuple[str, int, int, int]) -> NDArray[np.float64]:
    """Run Algorithm 1 with independent draws of the posterior; return how often S_t = S* in each of eight windows.

    The posterior is kept on a grid of the simplex: each answer adds ln h of its row, and a draw is a cell chosen by its
    mass and a point uniform within it. Finer grids give the same frequencies.
    """
    name, people, fine, seed = job
    mechanism, rng = RRRR(3, 3.0, 0.8), np.random.default_rng(seed)
    # Centers of the small triangles that the simplex is cut into, upward and downward ones.
    i, j = np.array([(i, j) for i in range(fine) for j in range(fine - i)]).T
    up = np.stack([i + 1 / 3, j + 1 / 3], axis=1)
    down = np.stack([i + 2 / 3, j + 2 / 3], axis=1)[i + j < fine - 1]
    pairs = np.concatenate([up, down]) / fine
    grid = np.column_stack([pairs, 1 - pairs.sum(axis=1)])
    logs = np.zeros(len(grid))
    rows: dict[tuple[tuple[int, ...], int], NDArray[np.float64]] = {}
    matrices: dict[tuple[int, ...], NDArray[np.float64]] = {}
    best = tuple(sorted(select_subset(THETA, mechanism, name).tolist()))
    x, hits = rng.choice(3, size=people, p=THETA), np.zeros(people, dtype=bool)
    theta = np.full(3, 1 / 3)
    order = np.arange(3)
    for t in range(people):
        size = choose_size(UTILITY_CODES[name], 0.0, theta, mechanism.coefficients, order, 0)
        subset = tuple(sorted(order[:size].tolist()))
        hits[t] = subset == best
        if subset not in matrices:
            matrices[subset] = mechanism.transition_matrix(list(subset))
        y = int(rng.choice(3, p=matrices[subset][:, x[t]]))
        if (subset, y) not in rows:
            rows[subset, y] = np.log(grid @ matrices[subset][y])
        logs += rows[subset, y]
        weights = np.exp(logs - logs.max()).cumsum()
        cell = grid[np.searchsorted(weights, rng.random() * weights[-1])]
        theta = np.abs(cell + rng.dirichlet(np.ones(3)) / fine - 1 / (3 * fine))
    return np.asarray(hits.reshape(8, -1).mean(axis=1))


def best_subset(options: Options, parallel: bool) -> list[Finding]:
    """Print how often S* is published under the condition of Theorem 4, and with the warm-started samplers."""
    people, runs, fine = (800, 2, 80) if options.quick else (16_000, 8, 240)
    seeds = np.random.SeedSequence(options.seed).generate_state(len(BEST) * runs).tolist()
    jobs = [(name, people, fine, seeds[i * runs + r]) for i, name in enumerate(BEST) for r in range(runs)]
    found = np.array(each(exact_frequencies, jobs, "theorem 4", parallel)).reshape(len(BEST), runs, 8)
    print(f"\nTheorem 4, independent draws: frequency of S_t = S* in eighths of {people} people, {runs} runs\n")
    table(
        ["utility", *(f"to {(i + 1) * people // 8}" for i in range(8))],
        [[name, *one.mean(axis=0)] for name, one in zip(BEST, found, strict=True)],
        name="theorem_4",
    )
    first, last = found[..., 0], found[..., -1]
    left = float((1 - last).mean() / (1 - first).mean())
    return [
        finding(
            "theorem 4",
            "independent draws: other subsets are at most half as frequent in the last eighth as in the first",
            left < 0.5,
            ratio=left,
        )
    ]


# The paper's Table 1: the power of K in the cost of choosing S.
PAPER_POWERS = {"fisher": 4, "entropy": 3, "tv1": 3, "tv2": 3, "mse": 3, "honest": 1, "semi_adaptive": 1}


def seconds(action: Callable[[], object], least: float = 0.02) -> float:
    """Return the shortest of three times of an action, each over as many repetitions as `least` seconds take."""
    action()
    repeats = 1
    while True:
        began = time.perf_counter()
        for _ in range(repeats):
            action()
        if (spent := time.perf_counter() - began) > least:
            break
        repeats *= 4
    times = [spent]
    for _ in range(2):
        began = time.perf_counter()
        for _ in range(repeats):
            action()
        times.append(time.perf_counter() - began)
    return min(times) / repeats


def power(sizes: list[int], times: list[float]) -> float:
    """Return the slope of ln time against ln size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def choice_costs(options: Options) -> list[Finding]:
    """Print how the time to choose S grows with K."""
    ours, direct = [500, 1000, 2000, 4000], [50, 100, 200]
    rng = np.random.default_rng(options.seed)
    rows: list[list[Any]] = []
    powers: dict[str, float] = {}
    for name, claimed in PAPER_POWERS.items():
        times = []
        for k in ours:
            phi = rng.dirichlet(np.ones(k))
            coefficients = RRRR(k, 1.0, 0.9).coefficients
            times.append(seconds(lambda: choose_size(UTILITY_CODES[name], 0.8, phi, coefficients, np.arange(k), 0)))  # noqa: B023
        powers[name] = power(ours, times)
        by_matrix: str | Shown = "–"
        if name in oracles.DENSE_UTILITIES:
            by_definition = [direct_seconds(name, k, rng) for k in direct]
            by_matrix = shown("{:.1f}", power(direct, by_definition))
        rows.append([name, claimed, by_matrix, powers[name], times[-1] * 1e6])
    print("\nTable 1: powers of K in the time to choose S (sorting included)\n")
    table(
        [
            "utility",
            "the paper's bound",
            f"by matrices, K = {direct[0]}–{direct[-1]}",
            f"here, K = {ours[0]}–{ours[-1]}",
            f"microseconds, K = {ours[-1]}",
        ],
        rows,
        2,
        "table_1",
    )
    slow = max(powers[name] for name in ("entropy", "mse"))
    fast = max(value for name, value in powers.items() if name not in ("entropy", "mse"))
    return [
        finding(
            "table 1",
            "choosing S takes a power of K of about 1, of about 2 for entropy and MSE",
            fast < 1.5 and slow < 2.3,
            fast=fast,
            slow=slow,
        )
    ]


def direct_seconds(name: str, k: int, rng: np.random.Generator) -> float:
    """Return the time to evaluate a utility for all K sizes by its definition, with a matrix for each."""
    theta = np.sort(rng.dirichlet(np.ones(k)))[::-1]
    matrices = [RRRR(k, 1.0, 0.9).transition_matrix(list(range(size))) for size in range(k)]
    utility = oracles.DENSE_UTILITIES[name]
    return seconds(lambda: [utility(matrix, theta) for matrix in matrices])


def gibbs_costs(options: Options) -> list[Finding]:
    """Print how the time of the loop grows with the number of people, by Gibbs one by one and on counts."""
    ns = [2500, 5000, 10_000, 20_000]
    mechanism, theta = RRRR(10, 1.0, 0.9), np.full(10, 0.1)
    theta[0], theta[1:] = 0.55, 0.05
    rng = np.random.default_rng(options.seed)
    matrix = mechanism.transition_matrix([0])
    columns = {n: matrix[rng.choice(10, size=n, p=matrix @ theta)] for n in ns}

    def one_by_one(n: int) -> Callable[[], object]:
        """One sweep: a category for each of n people."""

        def sweep() -> object:
            weights = (columns[n] * theta).cumsum(axis=1)
            return (weights < rng.random(n)[:, None] * weights[:, -1:]).sum(axis=1)

        return sweep

    sweeps = [seconds(one_by_one(n)) for n in ns]
    settings: dict[str, Any] = {"n_people": 50, "random_seed": 1, "final_updates": 2, "path_length": 1}
    policy = AdaptiveSubset(mechanism, "honest", updates=1, sampler="gibbs")
    simulate_adaptive(theta, policy, **settings)
    whole = [
        seconds(
            lambda: simulate_adaptive(theta, policy, **settings | {"n_people": n}),  # noqa: B023
            0.0,
        )
        for n in ns
    ]
    # A loop of n steps with one sweep each makes sweeps of sizes 1 to n.
    powers = power(ns, sweeps) + 1, power(ns, whole)
    print("\nGibbs, K = 10: power of n in the time of n steps with one sweep each\n")
    table(
        ["people are allocated", "power", f"seconds of a sweep or of the loop at n = {ns[-1]}"],
        [
            ["one by one (the paper: n²K)", powers[0], sweeps[-1]],
            ["on counts, as here", powers[1], whole[-1]],
        ],
        name="gibbs",
    )
    return [
        finding(
            "gibbs",
            "the cost of Gibbs grows as n² one person at a time, as the paper says; on counts it grows about as n",
            powers[0] > 1.7 and powers[1] < 1.5,
            one_by_one=powers[0],
            on_counts=powers[1],
        )
    ]


def started_at(total: float, job: tuple[str, int]) -> float:
    """Return the error of one run of the paper's loop whose φ begins with the sum `total`."""
    steps, seed = job
    k, n = 10, 5000
    theta = np.random.default_rng(seed).dirichlet(np.full(k, 0.1))
    schedule = None if steps == "0.5/t" else ConstantSteps(0.5 / n)

    def scaled(*arguments: object) -> object:
        chain = new_chain(*arguments)  # type: ignore[arg-type]
        chain.phi[:] = total / k
        return chain

    with patch.object(simulate, "new_chain", scaled):
        run = simulate_adaptive(
            theta, AdaptiveSubset(RRRR(k, 1.0, 0.9), "honest", schedule=schedule), n_people=n, random_seed=seed
        )
    return float(np.abs(run.chain_mean - theta).sum() / 2)


def initial_values(options: Options) -> list[Finding]:
    """Print whether it matters if φ begins with sum K, as here, or with sum 1, as in the authors' program."""
    runs = 40
    rows, found = [], []
    for steps in ("0.5/t", "0.5/T"):
        errors = np.array([[started_at(total, (steps, seed)) for total in (10.0, 1.0)] for seed in range(runs)])
        difference = errors[:, 1] - errors[:, 0]
        half = student.ppf(0.975, runs - 1) * difference.std(ddof=1) / math.sqrt(runs)
        rows.append([steps, *errors.mean(axis=0), difference.mean(), half])
        found.append(
            finding(
                f"initial, {steps}",
                f"steps {steps}: the 95 % interval of the difference that the initial sum makes lies within 0.02",
                abs(difference.mean()) + half < 0.02,
                interval=(difference.mean() - half, difference.mean() + half),
                difference=difference.mean(),
                half_width=half,
            )
        )
    print(f"\nInitial φ: mean TV of the paper's estimate, K = 10, ε = 1, κ = 0.9, ρ = 0.1, {runs} paired runs\n")
    table(["steps", "sum K", "sum 1", "difference", "± 95 %"], rows, name="initial_phi")
    return found


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    found = [*proofs(), *best_subset(options, parallel=not options.quick)]
    if options.quick:  # times and small differences take a quiet machine, or many runs
        return found
    return [*found, *choice_costs(options), *gibbs_costs(options), *initial_values(options)]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
