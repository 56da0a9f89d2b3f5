"""What the programs here have in common: their command line, work spread over the cores, and the verdicts."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from adobest_pp._progress import SlowProgress

SEED = 1


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    quick: bool
    seed: int


def parse(description: str | None, argv: Sequence[str] | None = None) -> Options:
    """Read the command line that all programs share.

    Parameters
    ----------
    description : str
        What the program checks: its docstring.
    argv : sequence of str, optional
        The arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller version, in seconds")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of all random numbers (default {SEED})")
    return Options(**vars(parser.parse_args(argv)))


def each[Item, Result](
    function: Callable[[Item], Result], items: Sequence[Item], label: str, parallel: bool = False
) -> list[Result]:
    """Return ``function(item)`` of every item, in order, with a progress bar once it takes longer than two seconds.

    Parameters
    ----------
    function : callable
        A function at the top of a module if `parallel`.
    items : sequence
        What it is called with.
    label : str
        What is being done.
    parallel : bool
        Whether to use a fresh process for each core. They take seconds to start: not for quick modes.
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


def conclude(verdicts: Mapping[str, bool]) -> int:
    """Print PASS or FAIL before every statement, and return the exit code: 0 if all hold, 1 otherwise."""
    print()
    for statement, holds in verdicts.items():
        print(f"{'PASS' if holds else 'FAIL'}  {statement}")
    return 0 if all(verdicts.values()) else 1


def _cell(value: Any, digits: int) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
