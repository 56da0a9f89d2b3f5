"""What the benchmarks share: the best of several timings, and results that are kept as data.

A benchmark shows its tables by `show`, which also writes them to benchmarks/results/NAME.json; the text between the
tables of that file is written by hand and kept. ``python benchmarks/timing.py`` renders benchmarks/RESULTS.md from all.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
# At the end: a module of this folder has the name of a package there.
sys.path.append(str(FOLDER.parent))

from validation import results  # noqa: E402
from validation.results import Shown, shown  # noqa: E402

__all__ = ["Rows", "Shown", "best_seconds", "render", "show", "shown"]

Rows = list[list[Any]]
RESULTS = FOLDER / "results"
PREAMBLE = """# Measured figures

Each section names the command that prints it. Times are from one process on a shared two-core machine and are noisy;
the ratios compare alternatives within one run and are what to look at."""
ORDER = [
    "mechanisms",
    "subset_selection",
    "ground_truth",
    "online",
    "demo",
    "study",
    "sgld",
    "models",
    "plan",
    "design",
    "scale",
    "geometry",
    "many",
    "poll",
]


def best_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least of `repeats` timings, after one call that compiles and warms up."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        timings.append(time.perf_counter() - start)
    return min(timings)


def show(name: str, headings: Sequence[str], rows: Iterable[Sequence[Any]], record: bool = True) -> None:
    """Print a table in Markdown. Keep it in the results of the running program, in place of the one with its name.

    Parameters
    ----------
    name : str
        Names the table within its program.
    headings, rows
        As in `validation.results.Table`. Cells that show numbers in a form of their own are made by `shown`.
    record : bool
        False for a smaller version of the benchmark, which is only printed.
    """
    table = results.make_table(headings, list(rows), name=name)
    print(f"{table.markdown()}\n", flush=True)
    if record:
        program = Path(sys.argv[0]).stem
        known = results.Result(program, " ".join(["python", f"benchmarks/{program}.py", *sys.argv[1:]]))
        if (RESULTS / f"{program}.json").is_file():
            today = datetime.now(UTC).date().isoformat()
            known = replace(results.read(program, RESULTS), date=today, versions=results.versions_here())
        known.with_tables([table]).write(RESULTS)
        render()


def render() -> None:
    """Write RESULTS.md."""
    found = {one.name: one for one in results.read_all(RESULTS)}
    names = [*(name for name in ORDER if name in found), *sorted(found.keys() - {*ORDER})]
    text = "\n\n".join([PREAMBLE, *(found[name].markdown() for name in names)])
    (FOLDER / "RESULTS.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    render()
