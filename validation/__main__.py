"""Run every program of this folder, each in a process of its own, and write their findings.

Run with ``python -m validation`` (writes validation/RESULTS.md) or with ``--quick`` (writes nothing without ``--out``).
With names, ``python -m validation privacy intervals``, only these run; the sections of the others are kept.
Exits with 1 if any of them fails.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from validation.common import SEED, Finding, Options, all_passed, pass_or_fail, run_here

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
# What comes first is what the rest depends on; programs that are not named here follow by name.
ORDER = (
    "privacy",
    "gradients",
    "utilities",
    "honest_optimum",
    "error_rates",
    "sampler_accuracy",
    "calibration",
    "contraction",
    "best_subset",
)
PACKAGES = ("adobest_pp", "numpy", "scipy", "numba", "pymc", "pytensor", "nutpie", "arviz", "xarray")


@dataclass(frozen=True)
class Outcome:
    """One run of a program: its findings, of which there are none if it raised an error, and what it printed."""

    name: str
    findings: tuple[Finding, ...]
    printed: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether there are findings, and all of them passed."""
        return all_passed(self.findings)

    @property
    def count(self) -> str:
        """How many findings passed, of how many."""
        return f"{sum(one.passed for one in self.findings)} of {len(self.findings)}"

    def __str__(self) -> str:
        return "\n".join([self.printed.strip("\n"), "", *map(str, self.findings)]).strip()


def programs(folder: Path = FOLDER) -> list[str]:
    """Return the names of all modules of the folder that have a function `findings`, in the order to run them."""
    names = [path.stem for path in folder.glob("*.py") if "\ndef findings(options" in path.read_text(encoding="utf-8")]
    return sorted(names, key=_place)


def run(name: str, options: Options) -> Outcome:
    """Run one program in a process of its own. Its progress bars go to standard error."""
    began = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            findings, printed = pool.submit(run_here, name, options).result()
        except BrokenProcessPool as problem:
            findings, printed = (), str(problem)
    return Outcome(name, findings, printed, time.perf_counter() - began)


def report(outcomes: Sequence[Outcome], arguments: Sequence[str], before: str = "") -> str:
    """Return the results as Markdown: versions, a table of verdicts, and the tables and findings of every program.

    Programs that did not run keep the row and the section that they have in the results `before`.
    """
    command = " ".join(["python -m validation", *arguments])
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows, sections = _written(before)
    for one in outcomes:
        word = pass_or_fail(one.passed)
        rows[one.name] = f"| [{one.name}](#{one.name}) | {word} | {one.count} | {one.seconds:.0f} |"
        sections[one.name] = f"## {one.name}\n\n```\n{one}\n```"
    names = sorted(rows, key=_place)
    lines = ["# What the validation programs found", ""]
    lines += [f"Written by `{command}`, each section by the last full run of its program; every program takes the same"]
    lines += [
        "arguments. PASS means that the stated finding is reproduced, which is not always that a method works.",
        "",
    ]
    lines += [f"Versions: Python {sys.version_info.major}.{sys.version_info.minor}, {versions}.", ""]
    lines += ["| program | verdict | findings reproduced | seconds |", "|---|---|---|---|"]
    lines += [rows[name] for name in names]
    for name in names:
        lines += ["", sections[name]]
    return "\n".join(lines) + "\n"


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _written(before: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rows and the sections of earlier results, by program."""
    rows = {row[1]: row[0] for row in re.finditer(r"^\| \[(\w+)\]\(#\w+\) \|.*$", before, re.MULTILINE)}
    sections = re.findall(r"^(## (\w+)\n.*?)(?=^## \w+$|\Z)", before, re.MULTILINE | re.DOTALL)
    return rows, {name: section.strip() for section, name in sections}


def main(argv: list[str] | None = None) -> int:
    """Run all programs, print a line for each, write the results; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="program", help="the programs to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="the smaller version of every program")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random numbers (default {SEED})")
    parser.add_argument("--out", type=Path, help="where to write the results (full runs: validation/RESULTS.md)")
    given = parser.parse_args(argv)
    unknown = sorted({*given.names} - {*programs()})
    if unknown:
        parser.error(f"program must be one of {', '.join(programs())}, got {', '.join(unknown)}")
    names = [name for name in programs() if not given.names or name in given.names]
    outcomes = []
    for place, name in enumerate(names, start=1):
        print(f"[{place}/{len(names)}] {name} … ", end="", flush=True)
        one = run(name, Options(given.quick, given.seed))
        outcomes.append(one)
        print(f"{pass_or_fail(one.passed)} ({one.count} findings, {one.seconds:.0f} s)", flush=True)
        if not one.passed:
            print(one)
    out = given.out or (None if given.quick else RESULTS)
    if out is not None:
        before = out.read_text(encoding="utf-8") if given.names and out.is_file() else ""
        arguments = [*(["--quick"] if given.quick else []), "--seed", str(given.seed)]
        out.write_text(report(outcomes, arguments, before), encoding="utf-8")
        print(f"written to {out}")
    return 0 if all(one.passed for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
