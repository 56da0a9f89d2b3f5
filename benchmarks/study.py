"""Studies: what the engine costs beside the runs, what the second core brings, and memory as the runs grow in number.

`python benchmarks/study.py`, or with the letters of the parts to run.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import show, shown

RUNS = 40
SIZES = (1_000, 10_000)


def long_runs(runs: int) -> dict:
    """Return a study of adaptive collections by SGLD: K = 20, 10⁴ people."""
    settings = {"n_categories": 20, "epsilon": 1.0, "kappa": 0.8, "rho": 0.1, "people": 10_000, "sampler": "sgld"}
    measures, grid = ["tv", "mean_size", "true_epsilon"], {"utility": ["entropy", "mse", "honest"]}
    return {"name": "speed", "runs": runs, "seed": 1, "measures": measures, "settings": settings, "grid": grid}


def many_cells(n: int) -> dict:
    """Return a study of very short runs, 20 to a cell."""
    settings = {"n_categories": 2, "rho": 1.0, "people": 2, "utility": "nonadaptive", "sampler": "sgld"}
    grid = {"epsilon": [1 + i / n for i in range(n // 20)]}
    return {"name": "many", "runs": 20, "seed": 1, "measures": ["tv"], "settings": settings, "grid": grid}


def loop_seconds(runs: int) -> float:
    """Seconds a run in a plain loop of one process."""
    from adobest_pp.studies import Study, cells_of, run_once

    study = Study.from_dict(long_runs(runs))
    cells = cells_of(study)
    for cell in cells:
        run_once(study, cell, 0)
    start = time.perf_counter()
    for cell in cells:
        for run in range(runs):
            run_once(study, cell, run)
    return (time.perf_counter() - start) / (runs * len(cells))


def engine_seconds(workers: int, folder: Path) -> tuple[int, float, float, float]:
    """Return runs, seconds on the clock, seconds within runs and processor seconds of the driver, in total."""
    from distributed import LocalCluster

    from adobest_pp.studies import Study, open_study, run_study
    from adobest_pp.studies.store import StudyStore

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        # The workers import and load compiled code, once and for all.
        warm = Study.from_dict(long_runs(workers) | {"seed": 2})
        run_study(warm, folder / f"warm{workers}.db", scheduler=address, progressbar=False)
        study = Study.from_dict(long_runs(RUNS))
        StudyStore(folder / f"{workers}.db", study).close()  # once a study, whatever the number of runs
        start, processor = time.perf_counter(), time.process_time()
        status = run_study(study, folder / f"{workers}.db", scheduler=address, progressbar=False)
        clock, processor = time.perf_counter() - start, time.process_time() - processor
    assert status.failed == status.missing == 0
    return status.total, clock, float(open_study(folder / f"{workers}.db")["seconds"].sum()), processor


def speed_rows() -> list[list]:
    rows: list[list] = []
    with tempfile.TemporaryDirectory() as folder:
        each = loop_seconds(RUNS)
        rows.append(
            ["a plain loop, one process", shown("{:.2f}", 1 / each), "", shown("{:.0f} ms", 1000 * each), "", "", ""]
        )
        rates = []
        for workers in (1, 2):
            n, clock, within, processor = engine_seconds(workers, Path(folder))
            rates.append(n / clock)
            beside = workers * clock - within
            rows.append(
                [
                    f"a Dask cluster, {workers} worker{'s' * (workers > 1)}",
                    shown("{:.2f}", rates[-1]),
                    shown("{:.2f}×", rates[-1] / rates[0]),
                    shown("{:.0f} ms", 1000 * within / n),
                    shown("{:.1f} ms", 1000 * beside / n),
                    shown("{:.1f} %", 100 * beside / n / 0.2),
                    shown("{:.1f} ms", 1000 * processor / n),
                ]
            )
    return rows


def memory_rows() -> list[list]:
    rows = []
    for n in SIZES:
        done = subprocess.run([sys.executable, __file__, "memory", str(n)], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        rows.append(
            [
                shown("{:,}", n),
                *(shown("{:.0f} MiB", found[key] / 1024) for key in ("driver", "worker")),
                shown("{:.0f}", found["rate"]),
            ]
        )
    return rows


def use_memory(n: int) -> None:
    """Make n short runs, and print the peak memory of this process and of its largest worker."""
    from adobest_pp.studies import Study, run_study

    study = Study.from_dict(many_cells(n))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        status = run_study(study, Path(folder) / "many.db", workers=1, progressbar=False)
        rate = n / (time.perf_counter() - start)
    assert status.done == n
    # Not ru_maxrss for this process: it begins with that of the process which started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    driver, worker = int(peak.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps({"driver": driver, "worker": worker, "rate": rate}))


PARTS = {
    "a": (
        "speed",
        speed_rows,
        ["how", "runs/s", "of 1 worker", "within a run", "beside it", "of a 0.2 s run", "processor time of the driver"],
    ),
    "b": ("memory", memory_rows, ["runs", "peak of the driver", "peak of a worker", "runs/s"]),
}


def main() -> None:
    if sys.argv[1:2] == ["memory"]:
        use_memory(int(sys.argv[2]))
        return
    for letter in sys.argv[1] if len(sys.argv) > 1 else PARTS:
        name, rows, headings = PARTS[letter]
        show(name, headings, rows())


if __name__ == "__main__":
    main()
