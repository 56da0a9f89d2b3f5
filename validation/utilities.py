"""Which subset size each utility chooses, and whether −Tr F⁻¹ ever prefers RRRR to plain SRR.

Run with ``python -m validation.utilities`` (about half a minute) or with ``--quick`` (seconds). Exits with 1 if a
finding stated below is not reproduced.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from adobest_pp import RRRR, select_subset
from adobest_pp.design import UTILITIES
from adobest_pp.design.utilities import best_size, fisher
from adobest_pp.plots.mechanisms import family
from validation.common import Finding, Options, each, finding, main, table

PAPER = [(epsilon, kappa) for epsilon in (0.5, 1.0, 5.0) for kappa in (0.8, 0.9)]
RATIOS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
# No exception was found up to here; the first is at ε = 4.01, for K = 3, κ = 0.854 and θ = (1, 0, 0).
SAFE_EPSILON = 4.0
COUNTEREXAMPLE = (3, 6.0, 0.9)  # K, ε, κ; θ = (1, 0, 0)

MEANING = """
What this means for a reader. −Tr F⁻¹ is minus the squared error, times n, of the best estimate of θ from very many
answers, all given under the same subset. Publishing a subset makes the answers inside it sharper, but only a share κ
of the budget is spent there, and privacy leaves little for the categories outside: what they lose outweighs what the
others gain. By asymptotic information alone, RRRR at fixed κ therefore does not beat SRR in any setting of the paper,
and the few exceptions (θ almost one-hot, ε > 4, a κ tuned to K and ε) gain less than two per cent. Where an adaptive
method does better than SRR at the same true ε, look for the reason elsewhere: in moderate n, in the prior, or in an
error that weighs categories differently from the summed squares."""


@dataclass(frozen=True)
class Trial:
    """What fisher says of one θ under one mechanism."""

    n_categories: int
    epsilon: float
    kappa: float
    first: float  # the greatest probability
    size: int  # the best k ≥ 1
    margin: float  # how much better SRR is than it, relative to SRR; negative where RRRR is better


def try_fisher(theta: np.ndarray, mechanism: RRRR) -> Trial:
    """Compare k = 0 with the best k ≥ 1."""
    ranked = -np.sort(-theta)
    values = fisher(ranked, mechanism.coefficients)
    size = best_size(values, 1)
    margin = float((values[size] - values[0]) / values[0])
    assert mechanism.kappa is not None
    return Trial(theta.size, mechanism.epsilon, mechanism.kappa, float(ranked[0]), size, margin)


def print_family() -> None:
    """Print the k that each utility chooses for the paper's θᵢ/θᵢ₊₁ family."""
    print("Chosen k for K = 20 and constant θᵢ/θᵢ₊₁\n")
    rows: list[list[float]] = []
    for epsilon, kappa in PAPER:
        mechanism = RRRR(20, epsilon, kappa)
        for ratio in RATIOS:
            sizes = [len(select_subset(family(20, ratio), mechanism, name)) for name in UTILITIES]
            rows.append([epsilon, kappa, float(ratio), *sizes])
    table(["ε", "κ", "ratio", *UTILITIES], rows, name="sizes")


def thetas(n_categories: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield one θ of every kind: Dirichlet, constant ratio, sparse, flat on a few, nearly so, one-hot."""
    yield rng.dirichlet(np.full(n_categories, 10.0 ** rng.uniform(-2, 1)))
    yield family(n_categories, 1 + 10.0 ** rng.uniform(-2, 1))
    few = int(rng.integers(1, n_categories + 1))
    yield np.append(rng.dirichlet(np.ones(few)), np.zeros(n_categories - few))
    yield np.append(np.full(few, 1 / few), np.zeros(n_categories - few))
    almost = np.full(n_categories, 10.0 ** rng.uniform(-12, -1) / n_categories)
    almost[:few] += 1
    yield almost / almost.sum()
    yield np.eye(n_categories)[0]


def paper_trials(repeats: int, seed: int) -> list[Trial]:
    """Every (K, ε, κ) of the paper with its Dirichlet priors, the ratio family and `repeats` of the other kinds."""
    rng = np.random.default_rng(seed)

    def trials_of(setting: tuple[int, tuple[float, float]]) -> list[Trial]:
        n_categories, budgets = setting
        mechanism = RRRR(n_categories, *budgets)
        trials = [try_fisher(family(n_categories, ratio), mechanism) for ratio in RATIOS]
        for _ in range(repeats):
            trials += [try_fisher(theta, mechanism) for theta in thetas(n_categories, rng)]
            for rho in (0.01, 0.1, 1.0):
                trials.append(try_fisher(rng.dirichlet(np.full(n_categories, rho)), mechanism))
        return trials

    return [*chain.from_iterable(each(trials_of, [*product((10, 20), PAPER)], "the paper's settings"))]


def wide_trials(n_mechanisms: int, seed: int) -> list[Trial]:
    """Random mechanisms: K from 3 to 200, ε from 0.01 to 20 by its logarithm, κ anywhere, near 1, and tuned."""

    def trials_of(rng: np.random.Generator) -> list[Trial]:
        n_categories = int(rng.choice([3, 4, 5, 6, 8, 10, 15, 20, 50, 100, 200]))
        epsilon = float(np.exp(rng.uniform(np.log(0.01), np.log(20))))
        # ε₂ grows fastest where (1−κ)ε comes near ln(K−k): the third kind aims there.
        tuned = 1 - rng.uniform(0.5, 1.2) * np.log(rng.integers(2, n_categories)) / epsilon
        kappa = float(rng.choice([rng.uniform(0.01, 1), 1 - 10.0 ** rng.uniform(-8, -1), tuned]))
        mechanism = RRRR(n_categories, epsilon, min(max(kappa, 0.01), 1.0))
        return [try_fisher(theta, mechanism) for theta in thetas(n_categories, rng)]

    rng = np.random.default_rng(seed)
    return [*chain.from_iterable(each(trials_of, [rng] * n_mechanisms, "random settings"))]


def hunt(n_categories: int, n_kappas: int) -> list[Trial]:
    """Look for exceptions where they are: k = 1, θ[0] near 1, (1−κ)ε from half to all of ln(K−1)."""
    trials = []
    for epsilon in np.arange(1.0, 20.01, 0.25):
        for share in np.linspace(0.4, 1.1, n_kappas):
            kappa = 1 - share * np.log(n_categories - 1) / epsilon
            if 0 < kappa <= 1:
                mechanism = RRRR(n_categories, float(epsilon), float(kappa))
                for rest in (0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1):
                    theta = np.full(n_categories, rest / (n_categories - 1))
                    theta[0] = 1 - rest
                    trials.append(try_fisher(theta, mechanism))
    return trials


def dense_fisher(theta: np.ndarray, mechanism: RRRR, size: int) -> float:
    """−Tr F⁻¹ from the matrices of its definition, without the last category."""
    matrix = mechanism.transition_matrix(range(size))
    difference = matrix[:, :-1] - matrix[:, -1:]
    return float(-np.trace(np.linalg.inv(difference.T @ (difference / (matrix @ theta)[:, None]))))


def summarize(title: str, trials: list[Trial]) -> list[Trial]:
    """Print the figures of a set of trials and return its exceptions."""
    exceptions = [trial for trial in trials if trial.margin < -1e-12]
    # k = K−1 is SRR at κε and comes as near to SRR as κ to 1, which tells nothing.
    proper = [trial for trial in trials if trial.size < trial.n_categories - 1]
    least = min(trials, key=lambda trial: trial.margin)
    print(f"{title}: k = 0 in {len(trials) - len(exceptions):,} of {len(trials):,}; smallest margin {least.margin:.3g}")
    print(f"   at K = {least.n_categories}, ε = {least.epsilon:.4g}, κ = {least.kappa:.6g}, θ[0] = {least.first:.6g},")
    print(f"   against k = {least.size}. The best k ≥ 1 was K−1, SRR at κε, in {1 - len(proper) / len(trials):.1%}.")
    return exceptions


def describe(label: str, exceptions: list[Trial]) -> None:
    """Print on one line what the exceptions have in common."""
    if not exceptions:
        print(f"   {label}: no exceptions")
        return
    print(
        f"   {label}: {len(exceptions)} exceptions, chosen k {sorted({trial.size for trial in exceptions})}, "
        f"ε from {min(trial.epsilon for trial in exceptions):.4g}, "
        f"1−θ[0] up to {1 - min(trial.first for trial in exceptions):.2g}, "
        f"greatest gain {-min(trial.margin for trial in exceptions):.2%}"
    )


def search(quick: bool, seed: int) -> tuple[list[Trial], list[Trial]]:
    """Return the exceptions in the settings of the paper, and those found anywhere else."""
    print("\nDoes −Tr F⁻¹ ever choose k > 0?\n")
    in_paper = summarize("1. The paper's settings", paper_trials(20 if quick else 500, seed))
    elsewhere = summarize("2. Random settings", wide_trials(1_500 if quick else 40_000, seed + 1))
    describe("these", elsewhere)
    print("3. A search where exceptions are, θ = (1−r, r/(K−1), …), κ tuned to ε:")
    sizes = (3, 4, 5, 6, 8, 10, 20)
    for n_categories, trials in zip(sizes, each(lambda k: hunt(k, 8 if quick else 60), sizes, "search"), strict=True):
        found = [trial for trial in trials if trial.margin < -1e-12]
        describe(f"K = {n_categories}", found)
        elsewhere += found
    return in_paper, elsewhere


def confirm_counterexample() -> bool:
    """Print one exception by dense matrices and return whether it is one."""
    n_categories, epsilon, kappa = COUNTEREXAMPLE
    theta, mechanism = np.eye(n_categories)[0], RRRR(n_categories, epsilon, kappa)
    srr, one = (dense_fisher(theta, mechanism, size) for size in (0, 1))
    print(f"4. By dense matrices at K = {n_categories}, ε = {epsilon:g}, κ = {kappa:g}, θ = (1, 0, 0): ", end="")
    print(f"{srr:.6g} for k = 0, {one:.6g} for k = 1.")
    return one > srr


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    print_family()
    in_paper, elsewhere = search(options.quick, options.seed)
    is_exception = confirm_counterexample()
    print(MEANING)
    lowest = min((trial.epsilon for trial in elsewhere), default=np.inf)
    gain = -min((trial.margin for trial in elsewhere), default=0.0)
    return [
        finding(
            "counterexample",
            "'k = 0 everywhere' is false: there is a counterexample",
            is_exception and elsewhere,
            exceptions=len(elsewhere),
        ),
        finding(
            "paper", "in every setting of the paper, −Tr F⁻¹ chooses k = 0", not in_paper, exceptions=len(in_paper)
        ),
        finding("safe_epsilon", f"no exception at ε ≤ {SAFE_EPSILON:g}", lowest > SAFE_EPSILON, least_epsilon=lowest),
        finding(
            "exceptions",
            "every exception has k = 1, θ[0] > 0.99 and a gain below 2 %",
            gain < 0.02 and all(trial.size == 1 and trial.first > 0.99 for trial in elsewhere),
            largest_gain=gain,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
