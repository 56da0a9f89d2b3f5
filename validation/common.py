"""What the programs here have in common: findings, the command line, and work spread over the cores.

A program is a module with a function ``findings(options) -> list[Finding]`` and the last two lines
``if __name__ == "__main__": sys.exit(main(findings, __doc__))``. It prints tables for people; what it found are the
records that it returns. ``python -m validation`` finds it by that function.
"""

import argparse
import io
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from adobest_pp._progress import SlowProgress

SEED = 1


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    quick: bool = False
    seed: int = SEED


@dataclass(frozen=True)
class Finding:
    """One statement that a program puts to the test.

    Attributes
    ----------
    name : str
        Names the statement within its program.
    passed : bool
        Whether it holds.
    figures : mapping of str to float
        The numbers that decide it.
    text : str
        The statement.
    """

    name: str
    passed: bool
    figures: Mapping[str, float] = field(hash=False)
    text: str

    def __str__(self) -> str:
        told = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in self.figures.items())
        return f"{pass_or_fail(self.passed)}  {self.text}{f' ({told})' if told else ''}"


Program = Callable[[Options], list[Finding]]


def finding(name: str, text: str, passed: Any, **figures: Any) -> Finding:
    """Return a finding with plain values in place of those of NumPy."""
    return Finding(name, bool(passed), {key: float(value) for key, value in figures.items()}, text)


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


def run_here(name: str, options: Options) -> tuple[tuple[Finding, ...], str]:
    """Return the findings of a program and what it printed, with the traceback if it raised an error.

    It is here because a new process cannot import it from a module that is run as ``__main__``.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            return tuple(import_module(f"validation.{name}").findings(options)), printed.getvalue()
    except Exception:
        return (), printed.getvalue() + traceback.format_exc()


def pass_or_fail(passed: bool) -> str:
    """Return the word that is printed."""
    return "PASS" if passed else "FAIL"


def all_passed(found: Sequence[Finding]) -> bool:
    """Tell whether there are findings, and all of them passed."""
    return bool(found) and all(one.passed for one in found)


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


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], digits: int = 3) -> None:
    """Print columns: text to the left, numbers to the right and with `digits` significant digits."""
    cells = [[_cell(value, digits) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    is_text = [all(isinstance(row[j], str) for row in rows) for j in range(len(headers))]
    for line in [list(headers), *cells]:
        padded = (cell.ljust(w) if text else cell.rjust(w) for cell, w, text in zip(line, widths, is_text, strict=True))
        print("  ".join(padded).rstrip())


def _cell(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
