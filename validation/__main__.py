"""Run every program of this folder, each in a process of its own, and write what they print.

Run with ``python -m validation`` (writes validation/RESULTS.md) or with ``--quick`` (writes nothing without ``--out``).
With names, ``python -m validation privacy intervals``, only these run, and the others keep what is written of them.
Exits with 1 if any of them fails.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from validation.common import SEED

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
# What comes first is what the rest rests on; programs that are not named here follow by name.
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
    """What one program did."""

    name: str
    passed: int
    failed: int
    returncode: int
    seconds: float
    output: str

    @property
    def verdict(self) -> str:
        """PASS or FAIL in one word; a program that ended otherwise has failed."""
        return "PASS" if self.returncode == 0 and self.passed and not self.failed else "FAIL"


def programs(folder: Path = FOLDER) -> list[str]:
    """Return the names of all modules of the folder that have a `main`, in the order to run them."""
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__main__" and "\ndef main(" in path.read_text()]
    return sorted(names, key=_place)


def run(name: str, arguments: Sequence[str]) -> Outcome:
    """Run one program; its progress bars go straight to standard error, its output comes back."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"validation.{name}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=FOLDER.parent,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    lines = done.stdout.splitlines()
    passed, failed = (sum(line.startswith(f"{word}  ") for line in lines) for word in ("PASS", "FAIL"))
    return Outcome(name, passed, failed, done.returncode, time.perf_counter() - began, done.stdout.strip())


def report(outcomes: Sequence[Outcome], arguments: Sequence[str], before: str = "") -> str:
    """Return the results as Markdown: versions, a table of verdicts, and the output of every program.

    Programs that did not run keep the row and the section that they have in the results `before`.
    """
    command = " ".join(["python -m validation", *arguments])
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    rows, sections = _written(before)
    for one in outcomes:
        found = f"{one.passed} of {one.passed + one.failed}"
        rows[one.name] = f"| [{one.name}](#{one.name}) | {one.verdict} | {found} | {one.seconds:.0f} |"
        sections[one.name] = f"## {one.name}\n\n```\n{one.output}\n```"
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
    """Return the rows and the sections of results that were written before, by program."""
    rows = {row[1]: row[0] for row in re.finditer(r"^\| \[(\w+)\]\(#\w+\) \|.*$", before, re.MULTILINE)}
    sections = re.findall(r"^(## (\w+)\n\n```\n.*?\n```)$", before, re.MULTILINE | re.DOTALL)
    return rows, {name: section for section, name in sections}


def main(argv: list[str] | None = None) -> int:
    """Run all programs, print a line for each, write the results; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="program", help="the programs to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="the smaller version of every program")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random numbers (default {SEED})")
    parser.add_argument("--out", type=Path, help="where to write the results (full runs: validation/RESULTS.md)")
    options = parser.parse_args(argv)
    arguments = [*(["--quick"] if options.quick else []), "--seed", str(options.seed)]
    unknown = sorted({*options.names} - {*programs()})
    if unknown:
        parser.error(f"program must be one of {', '.join(programs())}, got {', '.join(unknown)}")
    names = [name for name in programs() if not options.names or name in options.names]
    outcomes = []
    for place, name in enumerate(names, start=1):
        print(f"[{place}/{len(names)}] {name} … ", end="", flush=True)
        outcomes.append(run(name, arguments))
        one = outcomes[-1]
        print(f"{one.verdict} ({one.passed} of {one.passed + one.failed} findings, {one.seconds:.0f} s)", flush=True)
        if one.verdict == "FAIL":
            print(one.output)
    out = options.out or (None if options.quick else RESULTS)
    if out is not None:
        before = out.read_text(encoding="utf-8") if options.names and out.is_file() else ""
        out.write_text(report(outcomes, arguments, before), encoding="utf-8")
        print(f"written to {out}")
    return 0 if all(one.verdict == "PASS" for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
