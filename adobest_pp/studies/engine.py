"""Run a study on this machine's cores or on a Dask cluster: the same tasks, the same numbers, one writer.

Every run is a function of the seed and its settings, so that neither the number of workers nor the order nor an
interruption can change a number.
"""

import logging
import math
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adobest_pp._checks import check_integer
from adobest_pp._progress import SlowProgress
from adobest_pp.studies.batches import DONE, FAILED, Batch, Outcome, run_batch
from adobest_pp.studies.grid import Study, cells_of
from adobest_pp.studies.reading import StudyStatus, study_status
from adobest_pp.studies.store import StudyStore

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

__all__ = ["check_address", "connect", "local_cluster", "run_study"]

# Long enough that sending, gathering and committing a batch (some 30 ms) is little beside it, and short enough that a
# killed process loses little.
_BATCH_SECONDS = 2.0
_BATCHES_PER_THREAD = 2
_PATIENCE = 30.0
_RECOUNT_SECONDS = 5.0
_POLL_SECONDS = 0.05
# What matters comes back as the outcome of a task.
_SILENT = logging.CRITICAL
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# By default Dask looks at its own event loops and memory many times a second, for a dashboard that nobody opens: 4 % of
# a core, where this leaves 1.6 %.
_UNWATCHED = {
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.profile.enabled": False,
}


def run_study(
    study: Study,
    store: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    accept_changed_sources: bool = False,
    progressbar: bool = True,
) -> StudyStatus:
    """Make every run of a study that its store does not have yet.

    Parameters
    ----------
    study : Study
        What to run.
    store : path
        The folder of its Zarr store, which is made where there is none, and grows where `study` has more runs of each
        cell than it has. Raises ValueError for one of another study, or if files that make a run have changed.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:port``, whose workers have the same files. By default workers are
        started on this machine.
    workers : int, optional
        How many to start; one for each core by default.
    retry_failed : bool
        Whether to make the runs that failed once more; by default only those that are missing are made.
    accept_changed_sources : bool
        Whether to go on though files that make a run have changed: you know that they give the same numbers. The store
        records it.
    progressbar : bool
        Whether to show runs a second and the time left.

    Returns
    -------
    StudyStatus
        How many runs are done and failed.
    """
    if scheduler is not None and workers is not None:
        raise ValueError("workers must be left out where a scheduler is given, which has its own")
    if scheduler is not None:
        check_address(scheduler)
    n_workers = None if workers is None else check_integer(workers, "workers", 1)
    study.check()
    with StudyStore(store, study, accept_changed_sources) as opened:
        counts = opened.counts()
        before = counts[DONE] + (0 if retry_failed else counts[FAILED])
        total = sum(counts.values())
        if before < total:
            with SlowProgress(total, study.name, progressbar) as bar:
                bar.advance(before)
                with connect(scheduler, n_workers) as client:
                    _Driver(opened, client, total - before, retry_failed).run(bar)
    return study_status(store)


class _Driver:
    """Keeps the workers busy with batches and commits what comes back."""

    def __init__(self, store: StudyStore, client: "Client", left: int, retry_failed: bool) -> None:
        from distributed import as_completed

        self._store, self._client, self._left = store, client, left
        self._batches = self._all_batches(retry_failed)
        self._in_flight: dict[Any, tuple[Batch, bool]] = {}
        self._finished = as_completed(with_results=True, raise_errors=False, loop=client.loop)
        self._suspects: deque[Batch] = deque()
        self._cost: dict[str, float] = {}
        self._threads = 0
        self._counted_at = -math.inf
        self._deserted_at = math.inf

    def run(self, bar: SlowProgress) -> None:
        from distributed import KilledWorker

        start, made, failed = time.monotonic(), 0, 0
        self._refill()
        while self._in_flight:
            future, result = self._next()
            batch, alone = self._in_flight.pop(future)
            if isinstance(result, list):
                outcomes = result
            elif future.status == "error" and isinstance(future.exception(), KilledWorker):
                outcomes = self._after_deaths(batch, alone)
            else:
                raise OSError(_explain(future, result))
            if outcomes:
                self._store.commit(batch.index, outcomes)
                self._learn(batch, outcomes)
                made, failed = made + len(outcomes), failed + sum(bool(outcome.error) for outcome in outcomes)
                speed = f"{made / (time.monotonic() - start):.1f} runs/s"
                bar.advance(len(outcomes), f"{speed}, {failed} failed" if failed else speed)
            self._refill()

    def _next(self) -> tuple[Any, Any]:
        """Wait for a batch, but not forever where there are no workers left to make it."""
        while not self._finished.has_ready():
            time.sleep(_POLL_SECONDS)
            self._count_threads()
            if self._counted_at - self._deserted_at >= _PATIENCE:
                raise OSError(
                    f"the scheduler has had no workers for {_PATIENCE:g} s; run the same command again to go on"
                )
        future, result = next(self._finished)
        return future, result

    def _count_threads(self) -> None:
        if time.monotonic() - self._counted_at < _RECOUNT_SECONDS:
            return
        try:
            self._threads = sum(self._client.nthreads().values())
        except OSError as problem:
            raise OSError(f"the scheduler is lost ({problem}); run the same command again to go on") from None
        self._counted_at = time.monotonic()
        self._deserted_at = math.inf if self._threads else min(self._deserted_at, self._counted_at)

    def _refill(self) -> None:
        if self._suspects or any(alone for _, alone in self._in_flight.values()):
            if self._suspects and not self._in_flight:
                self._submit(self._suspects.popleft(), alone=True)
            return
        self._count_threads()
        for _ in range(len(self._in_flight), max(1, self._threads * _BATCHES_PER_THREAD)):
            if (batch := next(self._batches, None)) is None:
                return
            self._submit(batch)

    def _submit(self, batch: Batch, alone: bool = False) -> None:
        future = self._client.submit(run_batch, batch, pure=False)
        self._in_flight[future] = (batch, alone)
        self._finished.add(future)

    def _all_batches(self, retry_failed: bool) -> Iterator[Batch]:
        """Yield what is still to be run; the size of a batch is decided only when it is asked for."""
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
        # Towards the end there is less for each worker than that: smaller batches let all of them finish together.
        share = self._left // (_BATCHES_PER_THREAD * max(1, self._threads))
        return max(1, min(round(_BATCH_SECONDS / max(seconds, 1e-3)), share))

    def _learn(self, batch: Batch, outcomes: list[Outcome]) -> None:
        # The least, because the first ones include compilation.
        known = [outcome.seconds for outcome in outcomes if not outcome.error]
        self._cost[batch.kind] = min([*known, self._cost.get(batch.kind, math.inf)])

    def _after_deaths(self, batch: Batch, alone: bool) -> list[Outcome]:
        """Find out which run it is that workers die of.

        Dask suspects every task that a dead worker had, so each suspected run is made by itself, with nothing else in
        flight.
        """
        if alone:
            return [Outcome(batch.runs[0], {}, math.nan, "KilledWorker: every worker that was given this run died")]
        self._suspects.extend(replace(batch, runs=(run,)) for run in batch.runs)
        return []


def _explain(future: Any, result: Any) -> str:
    if future.status == "error":
        return f"a worker could not do its task: {future.exception()}"
    return f"the scheduler is lost or dropped a task ({result!r}); run the same command again to go on"


def check_address(scheduler: str) -> None:
    """Refuse what Dask would try to reach for a minute, though it cannot be an address."""
    from distributed.comm.addressing import get_address_host_port

    try:
        host, port = get_address_host_port(scheduler, strict=True)
    except (ValueError, TypeError):
        host, port = "", 0
    if not host or not 0 < port < 2**16 or not scheduler.startswith(("tcp://", "tls://")):
        raise ValueError(f"scheduler must be an address such as tcp://host:8786, got {scheduler!r}")


@contextmanager
def connect(scheduler: str | None, workers: int | None) -> Iterator["Client"]:
    """Connect to a scheduler, or to so many workers that are started on this machine."""
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    if scheduler is not None:
        with silence_logging_cmgr(_SILENT):
            try:
                client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
            except (OSError, ValueError) as problem:
                raise OSError(
                    f"scheduler must be the address of a Dask scheduler, got {scheduler!r} ({problem})"
                ) from None
            with client:
                _await_workers(client, scheduler)
                yield client
        return
    with local_cluster(workers) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def local_cluster(workers: int | None = None) -> Iterator["LocalCluster"]:
    """Start worker processes of one thread each on this machine, one for each core by default; stop them in the end."""
    import dask
    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    environment = dask.config.get("distributed.nanny.pre-spawn-environ") | _ONE_THREAD
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": environment, **_UNWATCHED}),
        LocalCluster(
            n_workers=workers or CPU_COUNT,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # any free port, so that two studies can run at a time
            silence_logs=_SILENT,
        ) as cluster,
    ):
        yield cluster


def _await_workers(client: "Client", scheduler: str) -> None:
    from dask.distributed import TimeoutError as NoWorkers

    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except NoWorkers:
        raise OSError(
            f"scheduler must have workers, got {scheduler!r}, which has had none for {_PATIENCE:g} s"
        ) from None
