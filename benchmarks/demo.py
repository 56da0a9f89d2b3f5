"""`make demo` in a new clone of the last commit: from nothing, installation included, and once more.

`python benchmarks/demo.py` prints a table for RESULTS.md. Run it on an idle machine.
"""

import resource
import subprocess
import tempfile
import time
from pathlib import Path

from timing import show, shown

ROOT = Path(__file__).resolve().parent.parent
RUNS = ["from nothing, installation included (target 60 s)", "again"]


def demo(folder: Path) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["make", "demo"], cwd=folder, check=True, capture_output=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Clone, run twice, show."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        rows = [[commit.stdout.strip(), name, *(shown("{:.0f}", each) for each in demo(clone))] for name in RUNS]
    show("clones", ["commit", "make demo", "seconds", "processor seconds"], rows)


if __name__ == "__main__":
    main()
