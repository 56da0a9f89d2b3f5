"""Any number of answers: from Parquet files to the posterior, its seconds and its memory, and what two workers gain.

Run with ``python benchmarks/scale.py``; ``--share 0.01`` takes a hundredth of the answers, and names of parts
(``srr``, ``rrrr``, ``oue``, ``workers``) take these alone. Answers are simulated before the clock starts, by another
process than the measured one, whose peak memory is that of the whole way, imports included.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import Rows, show, shown

import adobest_pp as ad

ANSWERS = {"srr": 10**8, "rrrr": 10**8, "oue": 10**7}
MECHANISMS = {"srr": ad.SRR(20, 1.0), "rrrr": ad.RRRR(20, 1.0), "oue": ad.UnaryEncoding(100, 1.0)}
SAMPLERS = {"srr": "nuts", "rrrr": "nuts", "oue": "sgld_cv"}
TARGETS = {"srr": (60, 1024), "rrrr": (60, 1024), "oue": (300, 3072)}
FILES, BLOCK, SUBSETS = 25, 250_000, 200


def simulated(mechanism: ad.mechanisms.Mechanism, n: int, rng: np.random.Generator) -> ad.Responses:
    """Return answers of n people with uneven θ, RRRR under subsets that change from block to block."""
    k = mechanism.n_categories
    theta = np.random.default_rng(1).dirichlet(np.full(k, 0.5))
    responses = ad.Responses(mechanism)
    pool = np.random.default_rng(2).random((SUBSETS, k)) < 0.2
    for start in range(0, n, BLOCK):
        x = rng.choice(k, size=min(BLOCK, n - start), p=theta)
        if not mechanism.publishes_subset:
            responses.append(mechanism.privatize(x, rng=rng))
            continue
        for part in np.array_split(x, 20):
            subset = pool[rng.integers(SUBSETS)]
            responses.append(mechanism.privatize(part, subset=subset, rng=rng), subset)
    return responses


def write(name: str, n: int, folder: Path) -> None:
    """Write n answers into Parquet files."""
    folder.mkdir(exist_ok=True)
    for i, rng in enumerate(np.random.default_rng(0).spawn(FILES)):
        simulated(MECHANISMS[name], n // FILES, rng).to_parquet(folder / f"{i:02}.parquet")


def measure(name: str, folder: Path) -> None:
    """Print seconds and peak memory of the way from files to the posterior, as JSON."""
    start = time.perf_counter()
    gathered = ad.gather(folder, progressbar=False)
    middle = time.perf_counter()
    tree = ad.sample(gathered, SAMPLERS[name], random_seed=1, progressbar=False)
    end = time.perf_counter()
    theta = np.random.default_rng(1).dirichlet(np.full(gathered.n_categories, 0.5))
    mean, sd = tree.posterior.theta.mean(("chain", "draw")).values, tree.posterior.theta.std(("chain", "draw")).values
    found = {
        "answers": len(gathered),
        "gather": middle - start,
        "sample": end - middle,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "largest_z": float(np.abs((mean - theta) / sd).max()),
    }
    print(json.dumps(found))


def in_process(*arguments: object) -> str:
    """Run this program in a process of its own, and return what it printed."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def way_row(name: str, share: float, folder: Path) -> list[Any]:
    """Return what the way of one mechanism took, against its target."""
    in_process("--write", name, "--share", share, "--folder", folder / name)
    in_process("--measure", name, "--folder", folder / name)  # compiles
    found = json.loads(in_process("--measure", name, "--folder", folder / name).splitlines()[-1])
    seconds, memory = TARGETS[name]
    total = found["gather"] + found["sample"]
    is_met = total <= seconds and found["memory"] <= memory
    numbers = [
        shown("{:,}", found["answers"]),
        shown("{:.1f}", found["gather"]),
        shown("{:.1f}", found["sample"]),
        shown("{:.0f}", found["memory"]),
    ]
    target = f"{seconds} s, {memory} MiB: {'met' if is_met else 'missed'}"
    return [f"{name}, {SAMPLERS[name]}", *numbers, shown("{:.1f}", found["largest_z"]), target]


def worker_rows(share: float, folder: Path) -> Rows:
    """Return how fast one and two Dask workers gather, and whether all give the same to the last bit."""
    from distributed import LocalCluster

    if not (folder / "rrrr").is_dir():
        in_process("--write", "rrrr", "--share", share, "--folder", folder / "rrrr")
    here, rows, rates = ad.gather(folder / "rrrr", progressbar=False), [], []
    for workers in (1, 2):
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
            ad.gather(folder / "rrrr" / "00.parquet", scheduler=cluster.scheduler_address, progressbar=False)
            timings = []
            for _ in range(3):
                start = time.perf_counter()
                found = ad.gather(folder / "rrrr", scheduler=cluster.scheduler_address, progressbar=False)
                timings.append(time.perf_counter() - start)
        rates.append(len(found) / min(timings))
        same = found.evidence() == here.evidence()
        speed = [shown("{:.1f}", rates[-1] / 1e6), shown("{:.2f}×", rates[-1] / rates[0])]
        rows.append(
            [str(workers), shown("{:,}", len(found)), shown("{:.2f}", min(timings)), *speed, "yes" if same else "no"]
        )
    return rows


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="of srr, rrrr, oue, workers; all by default")
    parser.add_argument("--share", type=float, default=1.0, help="of the answers")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        return write(asked.write, int(ANSWERS[asked.write] * asked.share), asked.folder)
    if asked.measure:
        return measure(asked.measure, asked.folder)
    parts = asked.parts or [*ANSWERS, "workers"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [way_row(part, asked.share, folder) for part in parts if part in ANSWERS]
        if rows:
            headings = ["answers of", "n", "gather, s", "sample, s", "peak, MiB", "largest |z| of 𝔼θ", "target"]
            name = "_".join(["ways", *(part for part in parts if part in ANSWERS)])
            show(name, headings, rows, record=asked.share == 1)
        if "workers" in parts:
            headings = ["Dask workers", "n", "seconds", "million a second", "of one worker's", "same to the last bit"]
            show("workers", headings, worker_rows(asked.share, folder), record=asked.share == 1)
    return None


if __name__ == "__main__":
    main()
