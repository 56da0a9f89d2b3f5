"""What the programs here have in common: findings, tables, the command line, and work spread over the cores.

A program is a module with a function ``findings(options) -> list[Finding]`` and the last two lines
``if __name__ == "__main__": sys.exit(main(findings, __doc__))``. It prints text, shows numbers by `table`, and returns
what it found. ``python -m validation`` finds it by that function, and keeps all of this as data (`validation.results`).
"""

import argparse
import io
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from adobest_pp._progress import SlowProgress
from validation.results import Finding, Result, Shown, Table, all_passed, make_table, shown

__all__ = ["Finding", "Options", "Shown", "all_passed", "each", "finding", "keep", "main", "run_here", "shown", "table"]

SEED = 1


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    quick: bool = False
    seed: int = SEED


Program = Callable[[Options], list[Finding]]


def finding(name: str, text: str, passed: Any, interval: Any = None, **figures: Any) -> Finding:
    """Return a finding with plain values in place of those of NumPy; `interval` is that of the first figure."""
    ends = None if interval is None else (float(interval[0]), float(interval[1]))
    return Finding(name, bool(passed), {key: float(value) for key, value in figures.items()}, text, ends)


def main(program: Program, description: str | None, argv: Sequence[str] | None = None) -> int:
    """Run a program, print its findings, and return the exit code: 0 if all of them passed, 1 otherwise.

    Parameters
    ----------
    program : callable
        The function `findings` of the program.
    description : str
        What the program checks: its docstring.
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller version, in seconds")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random numbers (default {SEED})")
    found = program(Options(**vars(parser.parse_args(argv))))
    print("", *found, sep="\n")
    return 0 if all_passed(found) else 1


class Recorder(io.StringIO):
    """Standard output that keeps tables as data. The paragraph above a table is its title."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str | Table] = []
        self.figures: dict[str, float] = {}

    def add(self, table: Table) -> None:
        """Keep a table, and the text that was printed before it."""
        before, _, title = self._take().rpartition("\n\n")
        self.blocks += [*filter(None, [before.strip("\n")]), replace(table, title=title)]

    def finish(self) -> tuple[str | Table, ...]:
        """Return all blocks."""
        return (*self.blocks, *filter(None, [self._take()]))

    def _take(self) -> str:
        text = self.getvalue().strip("\n")
        self.seek(0)
        self.truncate()
        return text


def run_here(name: str, options: Options) -> Result:
    """Run a program and return its result, with the traceback as its last text if it raised an error.

    It is here because a new process cannot import it from a module that runs as ``__main__``.
    """
    shown, found, began = Recorder(), [], time.perf_counter()
    with redirect_stdout(shown):
        try:
            found = import_module(f"validation.{name}").findings(options)
        except Exception:
            print("\n" + traceback.format_exc())
    return replace(
        empty(name, options),
        findings=tuple(found),
        blocks=shown.finish(),
        figures=shown.figures,
        seconds=round(time.perf_counter() - began, 1),
    )


def empty(name: str, options: Options) -> Result:
    """Return a result without findings."""
    command = f"python -m validation {name}{' --quick' if options.quick else ''} --seed {options.seed}"
    return Result(name, command, seed=options.seed, quick=options.quick)


def each[Item, Result](
    function: Callable[[Item], Result], items: Sequence[Item], label: str, parallel: bool = False
) -> list[Result]:
    """Return ``function(item)`` of every item, in order, with a progress bar after two seconds.

    Parameters
    ----------
    function : callable
        A function at the top of a module if `parallel`.
    items : sequence
        Its arguments.
    label : str
        What is being done, for the progress bar.
    parallel : bool
        Whether to use a new process for each core. They take seconds to start, so quick modes do not.
    """
    results = []
    with SlowProgress(len(items), label) as progress:
        if not parallel:
            for item in items:
                results.append(function(item))
                progress.advance(1)
            return results
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            for result in pool.map(function, items):
                results.append(result)
                progress.advance(1)
    return results


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    digits: int = 3,
    name: str = "",
    setting: Mapping[str, Any] | None = None,
) -> None:
    """Show a table, with floats in `digits` significant digits, and keep it as data where a result is made.

    Parameters
    ----------
    headers, rows, digits
        As in `validation.results.Table`. Cells of several numbers are `validation.results.shown`.
    name, setting
        How pages find it: a name, and what distinguishes tables with the same name.
    """
    made = make_table(headers, rows, digits, name, setting)
    if isinstance(sys.stdout, Recorder):
        sys.stdout.add(made)
    else:
        print(*made.lines(), sep="\n")


def keep(**figures: Any) -> None:
    """Keep numbers that pages quote and that are in no table or finding."""
    if isinstance(sys.stdout, Recorder):
        sys.stdout.figures |= {name: float(value) for name, value in figures.items()}
