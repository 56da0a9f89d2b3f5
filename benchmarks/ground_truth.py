"""Seconds of a fit with a bulk ESS of some 1000 in every category: NUTS here, against PyMC's program by hand.

Run `python benchmarks/ground_truth.py`. K = 20, ε = 1, RRRR under subsets drawn from a pool of 30, the same for every
n; 4 chains of 1000 draws. Each run starts in a process of its own, and times a fit from the call on: a cold one finds
empty caches of PyTensor and Numba, a warm one those of an earlier process, and "again" is the second fit within a
process, to other data.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from timing import show, shown

import adobest_pp as ad

K, POOL = 20, 30
SIZES = {"draws": 1000, "tune": 500, "chains": 4, "random_seed": 1, "progressbar": False}


def simulate(n, seed):
    pool_rng, rng = np.random.default_rng(0), np.random.default_rng(seed)
    pool = [pool_rng.choice(K, size=pool_rng.integers(K), replace=False) for _ in range(POOL)]
    subsets = np.array([np.isin(np.arange(K), subset) for subset in pool])
    mechanism = ad.RRRR(K, epsilon=1.0)
    x = rng.choice(K, size=n, p=pool_rng.dirichlet(np.ones(K)))
    index = np.arange(n) % POOL
    answers = np.empty(n, dtype=int)
    for v in range(POOL):
        answers[index == v] = mechanism.privatize(x[index == v], subset=subsets[v], rng=rng)
    return ad.Responses.from_arrays(mechanism, answers, subsets, index)


def ours(responses):
    return ad.sample(responses, "nuts", **SIZES)


def by_hand(responses):
    """Sample the textbook's program: a row of the transition matrix for each response, and a product with θ."""
    import pymc as pm

    mechanism = responses.mechanism
    matrices = np.array([mechanism.transition_matrix(subset) for subset in responses.subsets])
    rows = matrices[responses.subset_index, responses.answers]
    with pm.Model():
        theta = pm.Dirichlet("theta", a=np.ones(K))
        pm.Potential("answers", pm.math.log(pm.math.dot(rows, theta)).sum())
        return pm.sample(**SIZES)


def measure(program, n):
    """Time two fits, to different data."""
    from arviz_stats.base import array_stats

    figures = []
    for seed in (1, 2):
        responses = simulate(n, seed)
        start = time.perf_counter()
        tree = program(responses)
        seconds = time.perf_counter() - start
        draws = tree["posterior"]["theta"].values
        ess = min(float(array_stats.ess(draws[..., i])) for i in range(K))
        figures.append({"seconds": seconds, "ess": ess})
    return figures


def in_a_process(program, n, caches):
    environment = os.environ | {
        "PYTENSOR_FLAGS": f"base_compiledir={caches}/pytensor",
        "NUMBA_CACHE_DIR": f"{caches}/numba",
    }
    command = [sys.executable, "-W", "ignore", __file__, program, str(n)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    rows = []
    cases = [("by_hand", 10_000), ("ours", 10_000), ("ours", 100_000), ("ours", 1_000_000)]
    for program, n in cases:
        with tempfile.TemporaryDirectory() as caches:
            (cold, _), (warm, again) = (in_a_process(program, n, caches) for _ in range(2))
        cells = [shown("{:.2f} s (ESS {:.0f})", each["seconds"], each["ess"]) for each in (cold, warm, again)]
        rows.append([program, shown("{:,}", n), *cells])
    show("fits", ["program", "n", "cold", "warm process", "again"], rows)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure({"ours": ours, "by_hand": by_hand}[sys.argv[1]], int(sys.argv[2]))))
    else:
        main()
