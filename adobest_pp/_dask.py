"""Tasks on the workers of a Dask scheduler, for studies and for gathering answers."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

# Seconds to wait for a scheduler or for workers, between counts of the workers, and between looks at the tasks.
PATIENCE = 30.0
RECOUNT_SECONDS = 2.0
_POLL_SECONDS = 0.01
# Nothing is logged: workers report what matters as the results of tasks.
_SILENT = logging.CRITICAL
_RESUME = "run the same command again to resume"


def check_address(scheduler: str) -> None:
    """Raise ValueError for an impossible address, which Dask would otherwise try to reach for a minute."""
    from distributed.comm.addressing import get_address_host_port

    try:
        host, port = get_address_host_port(scheduler, strict=True)
    except (ValueError, TypeError):
        host, port = "", 0
    if not host or not 0 < port < 2**16 or not scheduler.startswith(("tcp://", "tls://")):
        raise ValueError(f"scheduler must be an address such as tcp://host:8786, got {scheduler!r}")


@contextmanager
def connect(scheduler: str) -> Iterator["Client"]:
    """Connect to a scheduler that has workers. It must be your own, because it runs whatever its clients send."""
    from dask.distributed import TimeoutError as NoWorkers
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    with silence_logging_cmgr(_SILENT):
        try:
            client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise OSError(f"scheduler must be the address of a Dask scheduler, got {scheduler!r} ({problem})") from None
        with client:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except NoWorkers:
                raise OSError(
                    f"scheduler must have workers, got {scheduler!r} without any for {PATIENCE:g} s"
                ) from None
            yield client


class Cluster:
    """The workers of a scheduler and their tasks. They import `function` by name, and call it with a task."""

    def __init__(self, client: "Client", function: Callable[..., Any]) -> None:
        self._client, self._function = client, function
        self._running: dict[Any, Any] = {}
        self._threads = 0
        self._counted_at, self._deserted_at = -math.inf, math.inf

    def slots(self) -> int:
        """Return how many tasks run at a time."""
        if time.monotonic() - self._counted_at >= RECOUNT_SECONDS:
            try:
                self._threads = sum(self._client.nthreads().values())
            except OSError as problem:
                raise OSError(f"the scheduler is lost ({problem}); {_RESUME}") from None
            self._counted_at = time.monotonic()
            self._deserted_at = math.inf if self._threads else min(self._deserted_at, self._counted_at)
        return self._threads

    def submit(self, task: Any) -> None:
        """Submit a task."""
        self._running[self._client.submit(self._function, task, pure=False)] = task

    def next(self) -> tuple[Any, Any]:
        """Wait for a task, and return it with its result, or with None if its workers died.

        Dask blames every task of a dead worker, so the caller should run such a task once more by itself.
        """
        from distributed import KilledWorker

        # If a result is "lost" with its worker, Dask runs the task again.
        while not (done := [each for each in self._running if each.done() and each.status not in ("lost", "pending")]):
            time.sleep(_POLL_SECONDS)
            self.slots()
            if self._counted_at - self._deserted_at >= PATIENCE:
                raise OSError(f"the scheduler has had no workers for {PATIENCE:g} s; {_RESUME}")
        future = done[0]
        task = self._running.pop(future)
        try:
            return task, future.result()
        except KilledWorker:
            return task, None
        except CancelledError:
            raise OSError(f"the scheduler is lost or dropped a task; {_RESUME}") from None
        except OSError as problem:  # of the connection: workers report their own errors as results
            raise OSError(f"the scheduler is lost ({problem}); {_RESUME}") from None
        except Exception as problem:
            raise OSError(f"a worker could not do its task: {problem}") from None
