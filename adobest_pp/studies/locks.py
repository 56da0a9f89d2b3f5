"""Locks: one writer of a store, and one process of a user that compiles."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adobest_pp._files import cache_folder

try:
    import fcntl
except ImportError:  # not on Windows, where nothing keeps a second process from the same store
    fcntl = None  # type: ignore[assignment]

_ATTEMPTS = 5


def lock_folder(path: Path) -> int | None:
    """Lock a folder for as long as the descriptor that is returned stays open, or raise BlockingIOError."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:  # by another writer, or for a moment by a process that looks whether there is one
            time.sleep(0.1 if attempt + 1 < _ATTEMPTS else 0)
    os.close(descriptor)
    raise BlockingIOError(f"{str(path)!r} is in use by another process")


def is_locked(path: Path) -> bool:
    """Tell whether a process has locked a folder."""
    if fcntl is None:
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Let one process of this user and machine at a time compile.

    Two processes that compile the same functions at once can mix up Numba's cache on disk, whose index they both
    rewrite; and the second need not compile at all. The lock is in the user's own cache folder: in a folder that is
    shared, somebody else could take it first and keep it. Where there is no such folder, nobody waits.
    """
    descriptor = _open_lock()
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open_lock() -> int | None:
    if fcntl is None:
        return None
    try:
        descriptor = os.open(cache_folder() / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return descriptor
    except OSError:  # a file system without locks
        pass
    os.close(descriptor)
    return None
