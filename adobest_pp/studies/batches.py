"""What a worker does: a few runs of one cell, whose numbers are all that goes back."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adobest_pp.studies.run_function import Run, canonical, find_run, make_run

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

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
        with _compiling_alone(batch.kind):
            values = make_run(find_run(batch.function), Run(batch.seed, number, batch.settings, batch.measures))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic in compiled code is no Exception
        return Outcome(number, {}, time.perf_counter() - start, _text(problem))
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


@contextmanager
def _compiling_alone(kind: str) -> Iterator[None]:
    """Let one process of this machine at a time make its first run of a kind.

    Two processes that compile the same functions at once can mix up Numba's cache on disk, whose index they both
    rewrite; and the second need not compile at all.
    """
    if kind in _compiled or fcntl is None:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"adobest-compiling-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
    _compiled.add(kind)
