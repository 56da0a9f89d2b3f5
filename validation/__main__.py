"""Run programs of this folder, each in a process of its own, and write what they found as JSON.

``python -m validation`` runs all of them, ``python -m validation privacy intervals`` these two. Each writes
validation/results/NAME.json; then validation/RESULTS.md and the table of README.md are rendered from all of these
files. ``--render`` only renders. ``--quick`` runs smaller versions, which write nothing without ``--out FOLDER``.
Exits with 1 if a program fails.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from validation import pages
from validation.common import SEED, Options, empty, run_here
from validation.results import FOLDER, Result, pass_or_fail, read_all, versions_of

PROGRAMS = Path(__file__).parent
PAGE = PROGRAMS / "RESULTS.md"
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


def programs(folder: Path = PROGRAMS) -> list[str]:
    """Return the names of all modules of the folder that have a function `findings`, in the order to run them."""
    names = [path.stem for path in folder.glob("*.py") if "\ndef findings(options" in path.read_text(encoding="utf-8")]
    return sorted(names, key=_place)


def run(name: str, options: Options) -> Result:
    """Run one program in a process of its own. Its progress bars go to standard error."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(run_here, name, options).result()
        except BrokenProcessPool as problem:
            return replace(empty(name, options), blocks=(str(problem),))


def report(results: Sequence[Result]) -> str:
    """Return the results as Markdown: versions, a table of verdicts, and what every program showed and found."""
    ordered = sorted(results, key=lambda one: _place(one.name))
    common = versions_of(ordered)
    lines = [
        "# What the validation programs found",
        "",
        "Rendered by `python -m validation --render` from `validation/results/`, where each program writes its last",
        "full run (`python -m validation NAME`). PASS means that the stated finding is reproduced, not",
        f"necessarily that a method works. The seed is {SEED} unless stated otherwise.",
        "",
        f"Versions: {_listed(common)}.",
        "",
        "| program | verdict | findings reproduced | seconds |",
        "|---|---|---|---|",
    ]
    for one in ordered:
        seconds = "" if one.seconds is None else f"{one.seconds:.0f}"
        lines += [f"| [{one.name}](#{one.name}) | {pass_or_fail(one.passed)} | {one.count} | {seconds} |"]
    for one in ordered:
        lines += ["", f"## {one.name}", ""]
        other = {name: number for name, number in one.versions.items() if common.get(name) != number}
        notes = [
            *(["smaller version"] if one.quick else []),
            *([f"seed {one.seed}"] if one.seed != SEED else []),
            *([_listed(other)] if other else []),
        ]
        if notes:
            lines += [f"With {', '.join(notes)}.", ""]
        lines += ["```", str(one), "```"]
    return "\n".join(lines) + "\n"


def render(folder: Path, page: Path) -> None:
    """Write the page of the results in a folder."""
    page.write_text(report(read_all(folder)), encoding="utf-8")
    print(f"written to {page}")


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def main(argv: list[str] | None = None) -> int:
    """Run programs, print a line for each, write the results; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="program", help="the programs to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="the smaller version of every program")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random numbers (default {SEED})")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write instead (JSON files and RESULTS.md)")
    parser.add_argument("--render", action="store_true", help="run nothing, render RESULTS.md and README's table")
    given = parser.parse_args(argv)
    unknown = sorted({*given.names} - {*programs()})
    if unknown:
        parser.error(f"program must be one of {', '.join(programs())}, got {', '.join(unknown)}")
    names = [name for name in programs() if not given.names or name in given.names]
    folder = given.out or (None if given.quick else FOLDER)
    passed = True
    for place, name in enumerate([] if given.render else names, start=1):
        print(f"[{place}/{len(names)}] {name} … ", end="", flush=True)
        one = run(name, Options(given.quick, given.seed))
        passed &= one.passed
        print(f"{pass_or_fail(one.passed)} ({one.count} findings, {one.seconds or 0:.0f} s)", flush=True)
        if not one.passed:
            print(one)
        if folder is not None:
            one.write(folder)
    if given.out:
        render(given.out, given.out / PAGE.name)
    elif folder is not None or given.render:
        render(FOLDER, PAGE)
        pages.write_readme()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
