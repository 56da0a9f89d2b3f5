"""The time of each utility for every subset size at once, against the dense definition, and how it grows with K.

Run with ``python benchmarks/subset_selection.py``.
"""

import os
import sys
from pathlib import Path

# One thread, as ours has: on a busy machine a second one makes small inverses many times slower.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
from numba import njit
from timing import best_seconds, show, shown

from adobest_pp import RRRR
from adobest_pp.design import UTILITIES, UTILITY_CODES
from adobest_pp.design.utilities import choose_size

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import DENSE_UTILITIES

SIZES = (20, 200, 2000)
DENSE_LIMIT = 200
TARGETS = {"fisher": 1000, "tv1": 100, "tv2": 100, "honest": 100, "entropy": 20, "mse": 20}


@njit
def choose_repeatedly(repeats, code, thetas, coefficients, order):
    """Call the choice as the online loop does: from compiled code, θ a little different each time."""
    total = 0
    for i in range(repeats):
        total += choose_size(code, 0.9, thetas[i % len(thetas)], coefficients, order, 0)
    return total


def ours(name: str, n_categories: int) -> float:
    mechanism = RRRR(n_categories, 1.0, 0.9)
    rng = np.random.default_rng(n_categories)
    moves = np.exp(0.02 * rng.standard_normal((20, n_categories)))
    thetas = rng.dirichlet(np.ones(n_categories)) * moves
    order = np.arange(n_categories)
    repeats = max(20, 20_000 // n_categories)
    arguments = (repeats, UTILITY_CODES[name], thetas, mechanism.coefficients, order)
    return best_seconds(lambda: choose_repeatedly(*arguments), 7) / repeats


def dense(name: str, n_categories: int) -> float:
    """Form G for every k, evaluate the definition, take the greatest."""
    mechanism = RRRR(n_categories, 1.0, 0.9)
    theta = -np.sort(-np.random.default_rng(n_categories).dirichlet(np.ones(n_categories)))
    definition = DENSE_UTILITIES[name]

    def choose() -> int:
        values = [definition(mechanism.transition_matrix(range(k)), theta) for k in range(n_categories)]
        return int(np.argmax(values))

    return best_seconds(choose, 5)


def main() -> None:
    rows = []
    for name in UTILITIES:
        times = {n: ours(name, n) for n in SIZES}
        ratios = {n: dense(name, n) / times[n] for n in SIZES if n <= DENSE_LIMIT}
        exponent = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0]
        rows.append(
            [
                name,
                *(shown("{:,.2f} µs", 1e6 * seconds) for seconds in times.values()),
                *(shown("{:,.0f}×", ratio) for ratio in ratios.values()),
                shown("≥ {:,}×", TARGETS[name]),
                shown("{:.2f}", exponent),
                f"≤ {2.2 if name in ('entropy', 'mse') else 1.3}",
            ]
        )
    headings = ["utility", *(f"K = {n}" for n in SIZES)]
    headings += [*(f"dense / ours, K = {n}" for n in SIZES if n <= DENSE_LIMIT), "target at 200", "exponent", "target"]
    show("times", headings, rows)


if __name__ == "__main__":
    main()
