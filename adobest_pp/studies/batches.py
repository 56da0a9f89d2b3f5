"""What a worker does: a few runs of one cell, whose numbers are all that goes back."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from adobest_pp.studies.locks import compiling_alone
from adobest_pp.studies.run_function import Run, canonical, find_run, make_run

__all__ = ["DONE", "FAILED", "NOT_RUN", "Batch", "Outcome", "run_batch"]

NOT_RUN, DONE, FAILED = 0, 1, 2

_LONGEST_ERROR = 1000
# In this process: the kinds of run of which everything is compiled, and the sources that are those of the driver.
_compiled: set[str] = set()
_checked: set[str] = set()


@dataclass(frozen=True)
class Outcome:
    """What became of one run: its measures, or the text of its error; and how long it took."""

    run: int
    measures: Mapping[str, float]
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Batch:
    """Some runs of one cell: `index` is its place in the store, `sources` those of the process that asks for them."""

    index: int
    function: str
    settings: Mapping[str, Any]
    seed: int
    runs: tuple[int, ...]
    measures: tuple[str, ...]
    sources: Mapping[str, str]

    @property
    def kind(self) -> str:
        """What is the same for runs that compile the same functions and take about as long."""
        settings = {name: value for name, value in self.settings.items() if not isinstance(value, float)}
        return canonical([self.function, settings, self.measures])


def run_batch(batch: Batch) -> list[Outcome]:
    """Make the runs of a batch; what one of them raises is its outcome."""
    _check_sources(batch.sources)
    return [_outcome(batch, number) for number in batch.runs]


def _check_sources(sources: Mapping[str, str]) -> None:
    from adobest_pp.studies.sources import differing, hashes_of

    if (key := canonical(sources)) in _checked:
        return
    if names := differing(sources, hashes_of(sources)):
        raise ValueError(f"worker must have the sources that the study is run with, got others of {names}")
    _checked.add(key)


def _outcome(batch: Batch, number: int) -> Outcome:
    start = time.perf_counter()
    try:
        with nullcontext() if batch.kind in _compiled else compiling_alone():
            values = make_run(find_run(batch.function), Run(batch.seed, number, batch.settings, batch.measures))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic in compiled code is no Exception
        return Outcome(number, {}, time.perf_counter() - start, _text(problem))
    _compiled.add(batch.kind)
    return Outcome(number, values, time.perf_counter() - start)


def _text(problem: BaseException) -> str:
    """Return what was raised in one line that can be stored, exported and printed, whatever is in it."""
    try:
        text = str(problem)
    except Exception:
        text = "(no text)"
    line = " ".join(f"{type(problem).__name__}: {text[:_LONGEST_ERROR]}".split())
    escaped = (sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line)
    return "".join(escaped)[:_LONGEST_ERROR]
