"""The best question: its value against an independent solution over all sets, and how long a design takes.

Run with ``python benchmarks/design.py``; with ``--full``, 200 random settings in place of 20, and questions about few
categories for four θ of each concentration in place of one.
"""

import argparse
import itertools
import resource

import numpy as np
from timing import Rows, best_seconds, show, shown

from adobest_pp import SetFamily, SubsetSelection, asymptotic_variance, audit, optimal_mechanism
from oracles.designs import best_value


def accuracy_rows(settings: int) -> Rows:
    """Compare designs for K ≤ 8 with Frank and Wolfe's method over all 2^K sets, whose gap is at most 0.1 %."""
    rng = np.random.default_rng(1)
    worst, bounds, audits, gaps = 0.0, 0, 0, []
    for _ in range(settings):
        k, epsilon = int(rng.integers(2, 9)), float(rng.uniform(0.2, 5))
        theta = rng.dirichlet(np.full(k, rng.choice([0.1, 0.3, 1.0, 5.0])))
        design = optimal_mechanism(theta, epsilon)
        upper, _ = best_value(theta, epsilon)
        worst = max(worst, design.value / upper - 1)
        bounds += design.lower_bound <= upper * (1 + 1e-9)
        audits += audit(design.mechanism).holds
        gaps.append(design.gap)
    return [[settings, shown("{:.3%}", worst), bounds, audits, shown("{:.3%}", np.max(gaps))]]


def time_rows() -> Rows:
    """Time designs, and compare them with subset selection, which has all sets of one size."""
    rows = []
    for k in (10, 20, 50, 100):
        for epsilon, rho in ((0.5, 0.5), (1.0, 0.5), (2.0, 0.1)):
            theta = np.random.default_rng(k).dirichlet(np.full(k, rho))
            design = optimal_mechanism(theta, epsilon)
            seconds = best_seconds(lambda t=theta, e=epsilon: optimal_mechanism(t, e), 2 if k <= 20 else 1)
            selection = asymptotic_variance(SubsetSelection(k, epsilon), theta)
            gap = "–" if np.isnan(design.gap) else shown("{:.2%}", design.gap)
            # Where no family is better, the design is subset selection.
            sets = len(design.mechanism.sets) if isinstance(design.mechanism, SetFamily) else "–"
            row = [
                k,
                shown("{:g}", epsilon),
                shown("{:g}", rho),
                shown("{:.2f}", seconds),
                sets,
                gap,
                shown("{:.3f}", design.value / selection),
            ]
            rows.append(row)
    return rows


def few_rows(thetas: int) -> Rows:
    """Tell how well designs are certified that ask about few of 8, 14 and 20 categories."""
    asked = {
        "one category": lambda k: np.eye(k)[0],
        "two": lambda k: np.eye(k)[:2].sum(axis=0),
        "four": lambda k: np.eye(k)[:4].sum(axis=0),
        "the difference of two": lambda k: np.eye(k)[[0]] - np.eye(k)[[1]],
    }
    settings = list(itertools.product((8, 14, 20), range(thetas), (0.01, 0.1, 0.5, 1.0), (0.5, 1.0, 2.0, 5.0)))
    rows = []
    for name, weights in asked.items():
        gaps, audits = [], 0
        for k, seed, rho, epsilon in settings:
            theta = np.random.default_rng(seed).dirichlet(np.full(k, rho)) + 1e-12
            design = optimal_mechanism(theta / theta.sum(), epsilon, weights=weights(k))
            gaps.append(design.gap)
            audits += audit(design.mechanism).holds
        rows.append([name, len(gaps), int(np.sum(np.less(gaps, 1e-3))), shown("{:.2%}", max(gaps)), audits])
    return rows


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more settings")
    full = parser.parse_args().full
    optimal_mechanism([0.5, 0.3, 0.2], 1.0)
    headings = ["settings", "value above the oracle's, at most", "bound below it", "audit holds", "gap, at most"]
    show("accuracy", headings, accuracy_rows(200 if full else 20), record=full)
    headings = ["K", "ε", "ρ", "seconds", "sets", "gap", "variance over subset selection's"]
    show("time", headings, time_rows(), record=full)
    headings = ["asked about", "settings", "gap below 0.1 %", "gap, at most", "audit holds"]
    show("few", headings, few_rows(4 if full else 1), record=full)
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
