"""Run a study on this machine's cores or on a Dask cluster: the same tasks, the same numbers, one writer.

Every run is a function of the seed and its settings, so the number of workers, the order of the runs and interruptions
change no number.
"""

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from adobest_pp._checks import check_integer
from adobest_pp._dask import Cluster, check_address, connect
from adobest_pp._progress import SlowProgress
from adobest_pp.studies.grid import Study, cells_of
from adobest_pp.studies.processes import Processes
from adobest_pp.studies.run_function import DONE, FAILED, Batch, Outcome, run_batch
from adobest_pp.studies.store import StudyStore
from adobest_pp.studies.summary import StudyStatus, study_status

# Long compared with sending, gathering and committing a batch (about 30 ms), but short enough that a kill loses little.
_BATCH_SECONDS = 2.0
_BATCHES_PER_THREAD = 2


def run_study(
    study: Study,
    store: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    accept_changed_sources: bool = False,
    repair: bool = False,
    progressbar: bool = True,
) -> StudyStatus:
    """Make every run of a study that its store does not have yet.

    Parameters
    ----------
    study : Study
        The study to run.
    store : path
        The file that keeps the runs. It is made if it does not exist, and grows if `study` has more runs of each cell.
        Raises ValueError if it is of another study, or if files that make a run have changed.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:port`` or ``tls://host:port``, whose workers have the same files. It
        must be your own: whoever reaches it can run code on its workers and here. By default, workers are processes on
        this machine.
    workers : int, optional
        How many processes to start; by default one per core.
    retry_failed : bool
        Also make failed runs again.
    accept_changed_sources : bool
        Continue if files that make a run have changed, because you know that they give the same numbers. The store
        records it.
    repair : bool
        Make damaged runs again, and keep the others. By default a damaged store raises ValueError.
    progressbar : bool
        Show runs per second and the time left.

    Returns
    -------
    StudyStatus
        How many runs are done and failed.
    """
    if scheduler is not None and workers is not None:
        raise ValueError("workers must be left out with a scheduler, which has its own")
    if scheduler is not None:
        check_address(scheduler)
    n_workers = None if workers is None else check_integer(workers, "workers", 1)
    study.check()
    with StudyStore(store, study, accept_changed_sources, repair) as opened:
        counts = opened.counts()
        before = counts[DONE] + (0 if retry_failed else counts[FAILED])
        total = sum(counts.values())
        if before < total:
            with SlowProgress(total, study.name, progressbar) as bar:
                bar.advance(before)
                with _workers(scheduler, n_workers) as pool:
                    _Driver(opened, pool, total - before, retry_failed).run(bar)
    return study_status(store)


class _Driver:
    """Keeps the workers busy with batches and commits what comes back."""

    def __init__(self, store: StudyStore, workers: Processes | Cluster, left: int, retry_failed: bool) -> None:
        self._store, self._workers, self._left = store, workers, left
        self._batches = self._all_batches(retry_failed)
        self._in_flight, self._alone = 0, False
        self._suspects: deque[Batch] = deque()
        self._cost: dict[str, float] = {}

    def run(self, bar: SlowProgress) -> None:
        start, made, failed = time.monotonic(), 0, 0
        self._refill()
        while self._in_flight:
            batch, outcomes = self._workers.next()
            self._in_flight -= 1
            if outcomes is None:
                outcomes = self._after_deaths(batch)
            if outcomes:
                self._store.commit(batch.index, outcomes)
                self._learn(batch, outcomes)
                made, failed = made + len(outcomes), failed + sum(bool(outcome.error) for outcome in outcomes)
                speed = f"{made / (time.monotonic() - start):.1f} runs/s"
                bar.advance(len(outcomes), f"{speed}, {failed} failed" if failed else speed)
            self._refill()

    def _refill(self) -> None:
        if self._in_flight and (self._suspects or self._alone):
            return
        self._alone = bool(self._suspects)
        if self._alone:
            self._submit(self._suspects.popleft())
            return
        for _ in range(self._in_flight, max(1, self._workers.slots() * _BATCHES_PER_THREAD)):
            if (batch := next(self._batches, None)) is None:
                return
            self._submit(batch)

    def _submit(self, batch: Batch) -> None:
        self._workers.submit(batch)
        self._in_flight += 1

    def _all_batches(self, retry_failed: bool) -> Iterator[Batch]:
        """Yield the runs to make; the size of a batch is decided only when it is requested."""
        study, sources = self._store.study, self._store.sources
        for index, cell in enumerate(cells_of(study)):
            runs = tuple(self._store.waiting(index, retry_failed).tolist())
            whole = Batch(index, study.run, cell, study.seed, runs, study.measures, sources)
            while runs:
                size = self._batch_size(whole.kind)
                self._left -= min(size, len(runs))
                yield replace(whole, runs=runs[:size])
                runs = runs[size:]

    def _batch_size(self, kind: str) -> int:
        seconds = self._cost.get(kind, math.inf)
        # Towards the end, smaller batches let all workers finish together.
        share = self._left // (_BATCHES_PER_THREAD * max(1, self._workers.slots()))
        return max(1, min(round(_BATCH_SECONDS / max(seconds, 1e-3)), share))

    def _learn(self, batch: Batch, outcomes: list[Outcome]) -> None:
        # The minimum, because first runs include compilation.
        known = [outcome.seconds for outcome in outcomes if not outcome.error]
        self._cost[batch.kind] = min([*known, self._cost.get(batch.kind, math.inf)])

    def _after_deaths(self, batch: Batch) -> list[Outcome]:
        """Find the run that kills workers.

        It may be any run of the batch, and Dask suspects every batch that a dead worker had. So each suspected run is
        made alone, with nothing else in flight.
        """
        if self._alone:
            return [Outcome(batch.runs[0], {}, math.nan, "KilledWorker: every worker that was given this run died")]
        self._suspects.extend(replace(batch, runs=(run,)) for run in batch.runs)
        return []


@contextmanager
def _workers(scheduler: str | None, count: int | None) -> Iterator[Processes | Cluster]:
    """Start `count` workers on this machine, by default one per core, or use those of a scheduler."""
    if scheduler is not None:
        with connect(scheduler) as client:
            yield Cluster(client, run_batch)
        return
    from dask.system import CPU_COUNT  # which knows the limits of containers

    with Processes(count or CPU_COUNT, run_batch) as processes:
        yield processes
