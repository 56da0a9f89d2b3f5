"""Who reads the pieces of files: the cores of this machine, or the workers of a Dask cluster."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from adobest_pp.answers.gather.pieces import Outcome, Piece, read_piece
from adobest_pp.answers.gather.tallies import Question

__all__ = ["Tasks", "cluster", "threads"]


# Pieces that wait for each core; seconds until a cluster without workers is given up, and between two looks at it.
_PER_CORE = 2
_PATIENCE = 30.0
_POLL_SECONDS, _ASK_SECONDS = 0.01, 2.0

Tasks = Iterator[tuple[Piece, Question]]


@contextmanager
def threads() -> Iterator[Callable[[Tasks], Iterator[tuple[Piece, Outcome]]]]:
    """Read on the cores of this machine: reading and counting run outside of Python's lock."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    pool = ThreadPoolExecutor(cores)

    def outcomes(tasks: Tasks) -> Iterator[tuple[Piece, Outcome]]:
        running: dict[Any, Piece] = {}
        for piece, question in tasks:
            running[pool.submit(read_piece, piece, question)] = piece
            while len(running) >= _PER_CORE * cores:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()

    try:
        yield outcomes
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def cluster(scheduler: str) -> Iterator[Callable[[Tasks], Iterator[tuple[Piece, Outcome]]]]:
    """Read on the workers of a Dask cluster."""
    from adobest_pp._dask import connect

    with connect(scheduler) as client:
        yield lambda tasks: _read_by(client, tasks)


def _read_by(client: Any, tasks: Tasks) -> Iterator[tuple[Piece, Outcome]]:
    """Yield what the workers of a cluster read.

    Dask suspects every piece that a dead worker had, so each suspect is read once more by itself, in the end.
    """
    running: dict[Any, tuple[Piece, Question]] = {}
    suspects: list[tuple[Piece, Question]] = []
    at_once = max(2, _PER_CORE * sum(client.nthreads().values()))
    more = True
    while more or running:
        task = next(tasks, None) if more else None
        more = task is not None
        if task is not None:
            running[client.submit(read_piece, *task, pure=False)] = task
        if running and (len(running) >= at_once or not more):
            for each, outcome in _finished(client, running):
                if outcome is None:
                    suspects.append(each)
                else:
                    yield each[0], outcome
    for each in suspects:
        alone = {client.submit(read_piece, *each, pure=False): each}
        while alone:
            for (piece, _), outcome in _finished(client, alone):
                yield piece, outcome or Outcome(None, damaged="every worker that was given it died")


def _finished(client: Any, running: dict[Any, Any]) -> Iterator[tuple[tuple[Piece, Question], Outcome | None]]:
    """Yield what was read meanwhile, and None for pieces that workers died of."""
    from distributed import KilledWorker

    asked = deserted = time.monotonic()
    while not (done := [future for future in running if future.done()]):
        time.sleep(_POLL_SECONDS)
        if time.monotonic() - asked > _ASK_SECONDS:
            asked = time.monotonic()
            deserted = asked if client.nthreads() else deserted
            if asked - deserted > _PATIENCE:
                raise OSError(f"the scheduler has had no workers for {_PATIENCE:g} s; run the same command again")
    for future in done:
        status = future.status
        if status in ("lost", "pending"):
            continue  # the worker that had read it died, and it is read again
        task = running.pop(future)
        if status == "cancelled":
            raise OSError("the scheduler is lost or dropped a piece; run the same command again")
        try:
            outcome = future.result()
        except KilledWorker:
            outcome = None
        except Exception as error:
            raise OSError(f"a worker could not read {task[0].path!r}: {error}") from None
        yield task, outcome
