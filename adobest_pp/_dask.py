"""Connections to a Dask scheduler, for studies and for gathering answers."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["PATIENCE", "check_address", "connect"]

# Seconds to wait for a scheduler, or for its workers.
PATIENCE = 30.0
# What matters comes back as the outcome of a task.
_SILENT = logging.CRITICAL


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
def connect(scheduler: str) -> Iterator["Client"]:
    """Connect to a scheduler that has workers. It runs what its clients send: it must be your own."""
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    with silence_logging_cmgr(_SILENT):
        try:
            client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise OSError(f"scheduler must be the address of a Dask scheduler, got {scheduler!r} ({problem})") from None
        with client:
            _await_workers(client, scheduler)
            yield client


def _await_workers(client: "Client", scheduler: str) -> None:
    from dask.distributed import TimeoutError as NoWorkers

    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except NoWorkers:
        raise OSError(
            f"scheduler must have workers, got {scheduler!r}, which has had none for {PATIENCE:g} s"
        ) from None
