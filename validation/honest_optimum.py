"""P(Y = X), the utility `honest`, has its maximum over all subsets at one of the K sets of most probable categories.

So the choice among these nested subsets, which are all that the toolkit considers, loses nothing. There is no such
theorem for the other utilities: the program prints how often and how much they lose. Exits with 1 if a finding is not
reproduced.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

import oracles
from adobest_pp import RRRR, select_subset
from adobest_pp.design import UTILITIES
from validation.common import Finding, Options, each, finding, main, shown, table

# Values of a utility from sums in another order.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Setting:
    """A mechanism and a θ."""

    n_categories: int
    epsilon: float
    kappa: float
    theta: NDArray[np.float64]


def settings(sizes: tuple[int, ...], repeats: int, rng: np.random.Generator) -> Iterator[Setting]:
    """Yield random mechanisms with θ from flat to sparse, in random order of categories."""
    for n_categories in sizes:
        for _ in range(repeats):
            epsilon, kappa = float(np.exp(rng.uniform(np.log(0.05), np.log(8)))), float(rng.uniform(0.05, 1.0))
            concentration = np.full(n_categories, 10.0 ** rng.uniform(-1, 1))
            yield Setting(n_categories, epsilon, kappa, rng.dirichlet(concentration))


def values_of_all(setting: Setting, names: tuple[str, ...]) -> dict[str, dict[tuple[int, ...], float]]:
    """Return each utility of every subset, from the matrix of the paper's algorithm, run step by step."""
    k, theta = setting.n_categories, setting.theta
    found: dict[str, dict[tuple[int, ...], float]] = {name: {} for name in names}
    last = int(np.argmin(theta))
    for size in range(k):
        second = oracles.theorem_epsilon2(k, size, setting.epsilon, setting.kappa)
        for subset in combinations(range(k), size):
            matrix = oracles.rrrr_matrix(k, subset, setting.kappa * setting.epsilon, second)
            for name in names:
                extra = {"last": last} if name == "fisher" else {}
                found[name][subset] = float(oracles.DENSE_UTILITIES[name](matrix, theta, **extra))
    return found


def losses(setting: Setting, names: tuple[str, ...]) -> dict[str, float]:
    """Return by utility how much worse the choice of the toolkit is than the best of all subsets, relative to it."""
    mechanism = RRRR(setting.n_categories, setting.epsilon, setting.kappa)
    shortfall = {}
    for name, values in values_of_all(setting, names).items():
        chosen = tuple(sorted(int(i) for i in select_subset(setting.theta, mechanism, name)))
        best = max(values.values())
        shortfall[name] = (best - values[chosen]) / max(abs(best), 1e-300)
    return shortfall


def everyone_loss(setting: Setting) -> float:
    """Return by how much the subset of all K categories, SRR at κε, exceeds the empty one, SRR at ε, in P(Y = X)."""
    everyone, nobody = (
        oracles.rrrr_matrix(setting.n_categories, [], 0.0, budget)
        for budget in (setting.kappa * setting.epsilon, setting.epsilon)
    )
    return float(oracles.honest_utility(everyone, setting.theta) - oracles.honest_utility(nobody, setting.theta))


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    rng = np.random.default_rng(options.seed)
    honest = [*settings((3, 4, 5, 6) if options.quick else (3, 4, 5, 6, 7, 8, 9), 10 if options.quick else 60, rng)]
    found = each(lambda one: losses(one, ("honest",))["honest"], honest, "all subsets")
    full = max(map(everyone_loss, honest))
    print(f"P(Y = X): {len(honest)} settings with K up to {honest[-1].n_categories}, every subset of each")
    print(f"   largest shortfall of the toolkit's choice {max(found):.2g};")
    print(f"   the subset of everything exceeds the empty one by at most {full:.2g}\n")
    others = [*settings((3, 4, 5), 10 if options.quick else 200, rng)]
    rows = each(lambda one: losses(one, tuple(UTILITIES)), others, "other utilities")
    print(f"The other utilities, K from 3 to 5: the toolkit's choice against all subsets, {len(others)} settings\n")
    lost = {name: np.array([row[name] for row in rows]) for name in UTILITIES}
    table(
        ["utility", "settings with a loss", "largest relative loss"],
        [[name, shown("{:.1%}", np.mean(values > 1e-9)), float(values.max())] for name, values in lost.items()],
        2,
        "other_utilities",
    )
    return [
        finding(
            "nested",
            "`honest` over the K nested subsets is as large as over all subsets",
            max(found) < ROUNDING,
            largest_shortfall=max(found),
        ),
        finding(
            "everything",
            "and the subset of all categories is no better than the empty one",
            full <= 0,
            largest_excess=full,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
