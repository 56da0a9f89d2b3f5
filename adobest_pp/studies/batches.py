"""What a worker does: a few runs of one cell, whose numbers are all that goes back."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import adobest_pp
from adobest_pp.studies.grid import Cell
from adobest_pp.studies.outcomes import Outcome

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Batch", "run_batch"]

_LONGEST_ERROR = 1000
# Of which kinds of run everything is compiled in this process.
_compiled: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class Batch:
    """Some runs of one cell: `index` is its place in the store, `version` that of the process that asks for them."""

    index: int
    cell: Cell
    seed: int
    runs: tuple[int, ...]
    measures: tuple[str, ...]
    version: str = adobest_pp.__version__


def run_batch(batch: Batch) -> list[Outcome]:
    """Make the runs of a batch; what one of them raises is its outcome."""
    if batch.version != adobest_pp.__version__:
        raise ValueError(
            f"worker must have adobest_pp {batch.version}, which the study is run with, got {adobest_pp.__version__}"
        )
    return [_outcome(batch, run) for run in batch.runs]


def _outcome(batch: Batch, run: int) -> Outcome:
    from adobest_pp.studies.runs import run_once

    start = time.perf_counter()
    try:
        with _compiling_alone((batch.cell.mechanism, batch.cell.sampler, batch.cell.prior, batch.measures)):
            measured = run_once(batch.cell, batch.seed, run, batch.measures)
        values = {name: float(measured[name]) for name in batch.measures}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic in compiled code is no Exception
        return Outcome(run, {}, time.perf_counter() - start, _text(problem))
    return Outcome(run, values, time.perf_counter() - start)


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
def _compiling_alone(kind: tuple[object, ...]) -> Iterator[None]:
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
