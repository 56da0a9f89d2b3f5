"""Answers per second of both sampling paths, and collapse and likelihood against the dense n×K evaluation (K = 20).

Run with ``python benchmarks/mechanisms.py``.
"""

import numpy as np
from timing import Rows, best_seconds, show, shown

from adobest_pp import RRRR, SRR, Responses, SubsetSelection
from adobest_pp.likelihood.marginal import gradient, log_likelihood

K, EPSILON = 20, 1.0


def sampling_rows(n: int = 500_000) -> Rows:
    rng = np.random.default_rng(1)
    x = rng.integers(K, size=n)
    cases = [
        ("SRR", SRR(K, EPSILON), None),
        ("RRRR, 3 in the subset", RRRR(K, EPSILON), [0, 1, 2]),
        ("SubsetSelection", SubsetSelection(K, EPSILON), None),
    ]
    rows = []
    for name, mechanism, subset in cases:
        rates = [
            n / best_seconds(lambda m=mechanism, s=subset, g=generator: m.privatize(x, subset=s, rng=g))
            for generator in (None, rng)
        ]
        rows.append([name, *(shown("{:.2f}", rate / 1e6) for rate in rates)])
    return rows


def random_responses(n: int, n_subsets: int = 50) -> tuple[Responses, np.ndarray]:
    rng = np.random.default_rng(2)
    mechanism = RRRR(K, EPSILON)
    theta = rng.dirichlet(np.ones(K))
    masks = np.zeros((n_subsets, K), dtype=bool)
    answers, index = np.empty(n, dtype=np.int64), rng.integers(n_subsets, size=n)
    for v, mask in enumerate(masks):
        mask[rng.choice(K, size=rng.integers(1, K), replace=False)] = True
        people = index == v
        answers[people] = mechanism.privatize(rng.choice(K, size=people.sum(), p=theta), subset=mask, rng=rng)
    return Responses.from_arrays(mechanism, answers, masks, index), theta


def likelihood_rows() -> Rows:
    rows = []
    for n in (10_000, 1_000_000):
        responses, theta = random_responses(n)
        evidence = responses.evidence()
        matrices = np.array([responses.mechanism.transition_matrix(mask) for mask in responses.subsets])
        dense = matrices[responses.subset_index, responses.answers]
        collapse = best_seconds(responses.evidence, 3)
        value = best_seconds(lambda e=evidence, t=theta: log_likelihood(t, e), 200)
        slope = best_seconds(lambda e=evidence, t=theta: gradient(t, e), 200)
        dense_value = best_seconds(lambda d=dense, t=theta: np.log(d @ t).sum(), 5)
        dense_slope = best_seconds(lambda d=dense, t=theta: (1 / (d @ t)) @ d, 5)
        rows.append(
            [
                shown("{:,}", n),
                shown("{:,}", evidence.n_rows),
                shown("{:.3f} s", collapse),
                shown("{:.1f} µs", value * 1e6),
                shown("{:,.0f}×", dense_value / value),
                shown("{:.1f} µs", slope * 1e6),
                shown("{:,.0f}×", dense_slope / slope),
            ]
        )
    return rows


def main() -> None:
    show("sampling", ["mechanism", "exact, M answers/s", "simulation, M answers/s"], sampling_rows())
    headings = ["n", "rows", "collapse", "log-likelihood", "dense / ours", "gradient", "dense / ours"]
    show("likelihood", headings, likelihood_rows())


if __name__ == "__main__":
    main()
