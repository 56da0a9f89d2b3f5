"""Worker processes on this machine. They communicate with their driver through pipes and listen on no port."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from adobest_pp.studies.run_function import Batch, Outcome

Task = Callable[[Batch], list[Outcome]]

# How many workers may die while they make a batch before it is given up: one may be killed by chance.
_DEATHS_ALLOWED = 3
_PATIENCE = 2.0
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
_READY = "ready"


@dataclass(eq=False)
class _Worker:
    process: Any
    connection: "Connection[Any, Any]"
    ready: bool = False
    job: tuple[Batch, int] | None = None  # with the number of workers that died while they made it


class Processes:
    """Worker processes of one thread each; use it as a context manager. They import `task` by name."""

    def __init__(self, count: int, task: Task) -> None:
        self._count, self._task = count, task
        self._workers: list[_Worker] = []
        self._waiting: deque[tuple[Batch, int]] = deque()

    def __enter__(self) -> "Processes":
        self._workers = [_start(self._task) for _ in range(self._count)]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for worker in self._workers:
            worker.connection.close()  # ends the worker, unless it is making a batch
        for worker in self._workers:
            if kind is None and worker.ready and worker.job is None:
                worker.process.join(_PATIENCE)
            worker.process.kill()
            worker.process.join()

    def slots(self) -> int:
        """Return how many batches are made at a time."""
        return self._count

    def submit(self, batch: Batch) -> None:
        """Take a batch for the next free worker."""
        self._waiting.append((batch, 0))
        self._hand_out()

    def next(self) -> tuple[Batch, list[Outcome] | None]:
        """Wait for a batch: its outcomes, or None if every worker that was given it died."""
        while True:
            wait([part for worker in self._workers for part in (worker.connection, worker.process.sentinel)])
            for worker in self._workers:
                found = self._listen(worker)
                if found is not None:
                    return found

    def _listen(self, worker: _Worker) -> tuple[Batch, list[Outcome] | None] | None:
        """Return the batch that a worker has finished, or that has killed too many workers; None if there is none."""
        try:
            if not worker.connection.poll():
                return None if worker.process.is_alive() else self._bury(worker)
            said = worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        job, worker.job, worker.ready = worker.job, None, True
        self._hand_out()
        if job is None:
            return None
        if isinstance(said, str):
            raise OSError(f"a worker could not do its task: {said}")
        return job[0], said

    def _bury(self, worker: _Worker) -> tuple[Batch, None] | None:
        """Replace a dead worker; the new one makes the same batch, unless this has killed too many workers."""
        worker.process.join()
        worker.connection.close()
        if not worker.ready:
            raise OSError(
                f"a worker could not be started (exit code {worker.process.exitcode}); in a script, call run_study "
                "under `if __name__ == '__main__':`"
            )
        self._workers[self._workers.index(worker)] = _start(self._task)
        if worker.job is None:
            return None
        batch, deaths = worker.job
        if deaths >= _DEATHS_ALLOWED:
            return batch, None
        self._waiting.appendleft((batch, deaths + 1))
        return None

    def _hand_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.ready and worker.job is None:
                worker.job = self._waiting.popleft()
                with suppress(OSError):  # it has died, which `next` notices
                    worker.connection.send(worker.job[0])


def _start(task: Task) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, task), daemon=True)
    with _inherited():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _inherited() -> Iterator[None]:
    """Set what new processes inherit: one thread for libraries, and no Ctrl-C, which a terminal sends to all processes.

    The driver ends its workers itself.
    """
    before = dict(os.environ)
    blocks = hasattr(signal, "pthread_sigmask")
    if blocks:
        resource_tracker.ensure_running()  # it unblocks signals when it starts
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name in _ONE_THREAD:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(connection: "Connection[Any, Any]", task: Task) -> None:
    """Do the task for one batch after another, until the driver closes the pipe or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send(_READY)
    while True:
        try:
            batch = connection.recv()
        except EOFError:
            return
        try:
            said: list[Outcome] | str = task(batch)
        except Exception as problem:
            said = str(problem)
        connection.send(said)


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
