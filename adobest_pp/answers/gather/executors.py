"""Who reads the pieces of files: the cores of this machine, or the workers of a Dask cluster."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from adobest_pp.answers.gather.pieces import Piece, PieceResult, read_piece
from adobest_pp.answers.gather.tallies import TableFormat

# Pieces that wait for each core.
_PER_CORE = 2

Tasks = Iterator[tuple[Piece, TableFormat]]
Results = Iterator[tuple[Piece, PieceResult]]


@contextmanager
def threads() -> Iterator[Callable[[Tasks], Results]]:
    """Read on the cores of this machine: reading and counting run outside of Python's lock."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    pool = ThreadPoolExecutor(cores)

    def results(tasks: Tasks) -> Results:
        running: dict[Any, Piece] = {}
        for task in tasks:
            running[pool.submit(read_piece, task)] = task[0]
            while len(running) >= _PER_CORE * cores:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()

    try:
        yield results
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def cluster(scheduler: str) -> Iterator[Callable[[Tasks], Results]]:
    """Read on the workers of a Dask cluster."""
    from adobest_pp._dask import Cluster, connect

    with connect(scheduler) as client:
        yield lambda tasks: _read_by(Cluster(client, read_piece), tasks)


def _read_by(workers: Any, tasks: Tasks) -> Results:
    """Yield what the workers read; each piece that a worker died of is read once more by itself, in the end."""
    suspects: list[Any] = []
    in_flight = 0
    for task in tasks:
        workers.submit(task)
        in_flight += 1
        if in_flight >= max(2, _PER_CORE * workers.slots()):
            yield from _next(workers, suspects)
            in_flight -= 1
    for _ in range(in_flight):
        yield from _next(workers, suspects)
    for task in suspects:
        workers.submit(task)
        (piece, _), result = workers.next()
        yield piece, result or PieceResult(None, damaged="every worker that was given it died")


def _next(workers: Any, suspects: list[Any]) -> Results:
    """Yield the next result, or add its task to the suspects."""
    task, result = workers.next()
    if result is None:
        suspects.append(task)
    else:
        yield task[0], result
