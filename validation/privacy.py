"""Every mechanism is exactly ε-LDP (Theorem 1), ε₂ is the largest possible, and the authors' program breaks ε.

The loss of a mechanism is the largest ln(P(y|x)/P(y|x′)). It is found in rational arithmetic, from the integers that
the production path draws against, and again by brute force from matrices that follow the paper's algorithm step by
step. Exits with 1 if a finding stated below is not reproduced.
"""

import math
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import oracles
from adobest_pp import RRRR, SRR, AdaptiveSubset, SubsetSelection, audit, simulate_adaptive
from adobest_pp.design import UTILITIES
from validation.common import Finding, Options, each, finding, main, shown, table

PAPER = list(product((10, 20), (0.5, 1.0, 5.0), (0.8, 0.9)))
# Losses in floating point, from probabilities that were rounded, are right to some 1e-15 of their exponentials.
ROUNDING = 1e-9
# The range, over K and κ, of the worst true loss of the authors' program, to the digits stated.
PROGRAM_LOSSES = {0.5: "0.83–0.92", 1.0: "1.6–1.8", 5.0: "6.1–7.3"}


def brute_loss(matrix: np.ndarray) -> float:
    """Return the largest ln(P(y|x)/P(y|x′)) over all y, x and x′."""
    return max(float(np.log(row[:, None] / row[None, :]).max()) for row in matrix)


def smallest_excess(n_categories: int, epsilon: float, kappa: float, size: int, epsilon2: float) -> float:
    """Return the smallest excess of the loss over ε, per ε₂ more, if ε₂ is made larger by any of several amounts."""
    losses = {more: loss_of(n_categories, size, kappa * epsilon, epsilon2 + more) for more in (1e-6, 1e-3, 0.1, 1, 5)}
    return min((loss - epsilon) / more for more, loss in losses.items())


def loss_of(n_categories: int, size: int, epsilon1: float, epsilon2: float) -> float:
    """Return the loss of RRRR with these budgets by brute force, on few categories that show every case.

    Two inside the subset and three outside are enough: all others have the same probabilities. The matrix of all
    categories is the step-by-step one.
    """
    matrix = oracles.rrrr_matrix(n_categories, range(size), epsilon1, epsilon2)
    shown = [*range(min(size, 2)), *range(size, min(size + 3, n_categories))]
    return brute_loss(matrix[np.ix_(shown, shown)])


@dataclass(frozen=True)
class Case:
    """What was found of one (K, ε, κ)."""

    n_categories: int
    epsilon: float
    kappa: float
    holds: bool
    slack: float  # ε − loss in rational arithmetic, the worst over all subset sizes
    unused: float  # the largest ε − loss over sizes 0 … K−2, each of which should use all of ε
    last: float  # the loss of size K−1, which is SRR at κε
    brute: float  # the largest difference to the loss by brute force
    excess: float  # the smallest excess over ε, per ε₂ more, that a larger ε₂ leads to


def examine(setting: tuple[int, float, float], rng: np.random.Generator, sizes: list[int]) -> Case:
    """Audit one RRRR in full, and by brute force under a random subset of each of some sizes."""
    n_categories, epsilon, kappa = setting
    mechanism = RRRR(n_categories, epsilon, kappa)
    found = audit(mechanism)
    losses = {row.size: row.loss for row in found.rows}
    brute, excess = 0.0, math.inf
    for size in sizes:
        subset = rng.choice(n_categories, size=size, replace=False)
        matrix = oracles.rrrr_matrix(n_categories, subset, mechanism.epsilon1, mechanism.epsilon2(size))
        brute = max(brute, abs(brute_loss(matrix) - losses[size]))
        if size < n_categories - 1:  # the only category outside is always its own answer there, whatever ε₂
            excess = min(excess, smallest_excess(*setting, size, mechanism.epsilon2(size)))
    unused = max(epsilon - losses[size] for size in range(n_categories - 1))
    last = losses[n_categories - 1]
    return Case(n_categories, epsilon, kappa, found.holds, found.slack, unused, last, brute, excess)


def random_settings(count: int, rng: np.random.Generator) -> list[tuple[int, float, float]]:
    """K from 3 to 30, ε from 0.01 to 8 by its logarithm, κ anywhere in (0, 1] and one in ten exactly 1."""
    categories = rng.choice([3, 4, 5, 6, 8, 12, 20, 30], size=count)
    epsilons = np.exp(rng.uniform(np.log(0.01), np.log(8), size=count))
    kappas = np.where(rng.random(count) < 0.1, 1.0, rng.uniform(0.01, 1, size=count))
    return list(zip(categories.tolist(), epsilons.tolist(), kappas.tolist(), strict=True))


def theorem_one(quick: bool, seed: int) -> list[Finding]:
    """Examine RRRR at the paper's settings and at random ones, by brute force for some sizes each."""
    count = 20 if quick else 1000
    rng = np.random.default_rng(seed)
    step = 4 if quick else 1

    def paper_case(setting: tuple[int, float, float]) -> Case:
        return examine(setting, rng, list(range(0, setting[0], step)))

    paper = each(paper_case, PAPER, "the paper's settings")
    print("RRRR at the paper's settings: ε − loss in rational arithmetic, over all subset sizes k < K−1\n")
    table(
        ["K", "ε", "κ", "least", "greatest", "loss at k = K−1"],
        [[case.n_categories, case.epsilon, case.kappa, case.slack, case.unused, case.last] for case in paper],
        name="rrrr",
    )

    def random_case(setting: tuple[int, float, float]) -> Case:
        return examine(setting, rng, rng.choice(setting[0], size=2, replace=False).tolist())

    cases = paper + each(random_case, random_settings(count, rng), "random settings")
    last = max(abs(case.last - case.kappa * case.epsilon) for case in cases)
    print(f"\nAnd at {count} random settings (K from 3 to 30, ε from 0.01 to 8, any κ), all together:")
    slack, excess = np.min([(case.slack, case.excess) for case in cases], axis=0)
    brute, unused = np.max([(case.brute, case.unused) for case in cases], axis=0)
    print(f"   smallest ε − loss {slack:.2g}, of sizes k < K−1 at most {unused:.2g};")
    print(f"   rational and brute-force losses differ by at most {brute:.2g},")
    print(f"   and each ε₂ made larger by δ exceeds ε by at least {excess:.2g} δ")
    private = all(case.holds for case in cases)
    return [
        finding("private", "RRRR is ε-LDP in rational arithmetic, for every subset", private, least_slack=slack),
        finding(
            "brute_force",
            "brute force over the paper's algorithm finds the same losses",
            brute < ROUNDING,
            largest_difference=brute,
        ),
        finding(
            "all_of_epsilon",
            "every subset of up to K−2 categories uses all of ε",
            unused < ROUNDING,
            most_unused=unused,
        ),
        finding("last_size", "a subset of K−1 categories uses κε", last < ROUNDING, largest_difference=last),
        finding("largest_epsilon2", "no larger ε₂ is possible", excess > 0, least_excess=excess),
    ]


def other_mechanisms(seed: int) -> list[Finding]:
    """SRR and subset selection: the exact audit at the paper's settings, brute force where answers can be listed."""
    rng = np.random.default_rng(seed)
    holds, worst = True, 0.0
    for n_categories, epsilon in sorted({(n_categories, epsilon) for n_categories, epsilon, _ in PAPER}):
        for mechanism in (SRR(n_categories, epsilon), SubsetSelection(n_categories, epsilon)):
            found = audit(mechanism)
            holds &= found.holds
            worst = max(worst, abs(found.slack))
    for _ in range(20):
        n_categories, epsilon = int(rng.integers(3, 9)), float(np.exp(rng.uniform(-4, 2)))
        size = int(rng.integers(1, n_categories))
        srr = oracles.rrrr_matrix(n_categories, [], 0.0, epsilon)
        selection = oracles.subset_selection_matrix(n_categories, size, epsilon)
        pairs = ((SRR(n_categories, epsilon), srr), (SubsetSelection(n_categories, epsilon, size), selection))
        for one, matrix in pairs:
            worst = max(worst, abs(audit(one).loss - brute_loss(matrix)), abs(brute_loss(matrix) - epsilon))
            holds &= audit(one).holds
    print(f"\nSRR and subset selection: |ε − loss| at most {worst:.2g}, exactly and by brute force")
    text = "SRR and subset selection are ε-LDP and use all of ε"
    return [finding("other_mechanisms", text, holds and worst < ROUNDING, largest_difference=worst)]


def program_mechanism(n_categories: int, epsilon: float, kappa: float) -> RRRR:
    """Build what the program's utilities use (AdOBEst_LDP.m:37–41): no logarithm in ε₂, and |S| in place of |Sᶜ|."""
    second = [oracles.program_epsilon2(size, epsilon, kappa) for size in range(n_categories)]
    return RRRR.from_budgets(n_categories, kappa * epsilon, second)


def steps_within(mechanism: RRRR, keeps: np.ndarray, quick: bool, seed: int) -> tuple[int, float]:
    """Return how many steps of adaptive runs keep to ε, in all, and the largest share of them in one run."""
    rng = np.random.default_rng(seed)
    counts = []
    people = 200 if quick else 500 * mechanism.n_categories
    for rho in (1.0,) if quick else (0.01, 0.1, 1.0):
        theta = rng.dirichlet(np.full(mechanism.n_categories, rho))
        for name in UTILITIES:
            run = simulate_adaptive(
                theta,
                AdaptiveSubset(mechanism, name, smallest_size=1),
                n_people=people,
                random_seed=seed,
                final_updates=2,
            )
            counts.append(int(keeps[run.sizes].sum()))
    return sum(counts), max(counts) / people


def examine_program(setting: tuple[int, float, float], quick: bool, seed: int) -> list[Any]:
    """Return K, ε, κ, the loss exactly and by brute force, the sizes that keep to ε, and how often they are used."""
    n_categories, epsilon, _ = setting
    mechanism = program_mechanism(*setting)
    sizes = range(1, n_categories)
    brute = max(loss_of(n_categories, size, mechanism.epsilon1, mechanism.epsilon2(size)) for size in sizes)
    found = audit(mechanism, epsilon)
    keeps = np.array([row.holds for row in found.rows])
    kept = [size for size in sizes if keeps[size]]
    return [*setting, found.loss, brute, kept, *steps_within(mechanism, keeps, quick, seed)]


def authors_program(quick: bool, seed: int) -> list[Finding]:
    """Measure the true loss of the program's mechanisms, and how often its runs use one that keeps ε."""
    rows = each(lambda setting: examine_program(setting, quick, seed), PAPER, "the authors' program")
    print("\nThe authors' program (soneraydin/AdOBEst_LDP, commit 9080c23): the worst true loss of its six")
    print("utility-driven methods, the sizes k from 1 to K−1 that keep to ε, and how many steps of adaptive runs, one")
    print("for each utility and each ρ of θ* ~ Dirichlet(ρ), do: in all, and at most in one run\n")
    cells = [[*row[:5], ", ".join(map(str, row[5])), row[6], shown("{:.2%}", row[7])] for row in rows]
    headers = ["K", "ε", "κ", "loss", "brute force", "sizes that keep to ε", "steps", "of a run"]
    table(headers, cells, name="authors_program")
    ranges = {}
    for epsilon in PROGRAM_LOSSES:
        losses = [row[3] for row in rows if row[1] == epsilon]
        ranges[epsilon] = f"{min(losses):.2g}–{max(losses):.2g}"
    excess, difference = np.min([row[3] - row[1] for row in rows]), np.max([abs(row[3] - row[4]) for row in rows])
    stated = ", ".join(f"{text} for ε = {e:g}" for e, text in PROGRAM_LOSSES.items())
    kept, share = min(min(row[5]) - row[0] for row in rows), max(row[-1] for row in rows)
    semi = [audit(RRRR.from_budgets(k, epsilon, 0.0), epsilon) for k, epsilon, _ in PAPER]
    unused = max(abs(one.loss - epsilon) for one, (_, epsilon, _) in zip(semi, PAPER, strict=True))
    print(f"\nIts SRR and semi-adaptive methods (ε₁ = ε, ε₂ = 0; AdOBEst_LDP.m:32–34): |ε − loss| at most {unused:.2g}")
    return [
        finding(
            "program",
            "the six utility-driven methods of the authors' program break ε in all 12 settings",
            excess > 0,
            least_excess=excess,
        ),
        finding(
            "program_semi_adaptive",
            "its SRR and its five semi-adaptive methods keep ε in all 12, and use all of it",
            all(one.holds for one in semi) and unused < ROUNDING,
            largest_difference=unused,
        ),
        finding(
            "program_brute_force",
            "brute force finds the same losses of it",
            difference < ROUNDING,
            largest_difference=difference,
        ),
        finding("program_losses", f"its worst loss is {stated}", ranges == PROGRAM_LOSSES),
        finding("program_sizes", "with it, every subset of 1 to K−3 categories breaks ε", kept >= -2),
        finding(
            "program_steps",
            "more than 99 % of the steps of every adaptive run exceed ε",
            share < 0.01,
            largest_share_within=share,
        ),
    ]


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    found = theorem_one(options.quick, options.seed)
    found += other_mechanisms(options.seed)
    return found + authors_program(options.quick, options.seed)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
