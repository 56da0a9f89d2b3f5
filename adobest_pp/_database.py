"""SQLite databases that keep collections and studies: opened with care, one writer, errors in one sentence."""

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Seconds to wait for a reader or a writer that is in the middle of a transaction.
PATIENCE = 10.0


def connect(target: Path, mode: str) -> tuple[sqlite3.Connection, set[str]]:
    """Return a connection to a file, ``"ro"`` or ``"rw"``, and the statements that made its tables."""
    connection = sqlite3.connect(f"{target.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None)
    try:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_TRUSTED_SCHEMA, False)
        # Else the last one to close the file would take <file>-wal in, and hide that there was one.
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        connection.execute("PRAGMA cell_size_check = ON")
        return connection, {text for (text,) in connection.execute("SELECT sql FROM sqlite_schema LIMIT 10")}
    except sqlite3.OperationalError as problem:
        connection.close()
        # A killed process may have left <file>-journal. SQLite undoes what that process had begun, but not in a
        # connection that may only read.
        if mode == "ro" and _code(problem) == sqlite3.SQLITE_READONLY:
            return connect(target, "rw")
        raise
    except BaseException:
        connection.close()
        raise


@contextmanager
def telling(name: str, damaged: Callable[[str], ValueError]) -> Iterator[None]:
    """Raise what SQLite finds wrong with a file as `damaged` words it, or as OSError if it cannot be read."""
    try:
        yield
    except sqlite3.Error as problem:
        if isinstance(problem, sqlite3.OperationalError) and _code(problem) not in (
            sqlite3.SQLITE_ERROR,
            sqlite3.SQLITE_CORRUPT,
        ):
            reason = as_os_error(problem)
            raise OSError(reason.errno, f"{name!r} could not be opened: {reason.strerror}") from None
        raise damaged("which is damaged or not a database") from None
    except (RecursionError, UnicodeDecodeError, json.JSONDecodeError):
        raise damaged("whose rows are not JSON") from None


def lock(target: Path, patience: float = 0.0) -> sqlite3.Connection:
    """Lock a file for its one writer until `unlock`, or raise BlockingIOError; a killed process has no lock."""
    try:
        guard = sqlite3.connect(f"{target}-lock", isolation_level=None, timeout=patience)
        try:
            guard.execute("PRAGMA journal_mode = MEMORY")  # or there would be one more file
            guard.execute("BEGIN EXCLUSIVE")
        except BaseException:
            guard.close()
            raise
    except sqlite3.OperationalError as problem:
        if _is_busy(problem):
            raise BlockingIOError(f"{str(target)!r} is in use by another program") from None
        raise as_os_error(problem) from None
    return guard


def unlock(guard: sqlite3.Connection, target: Path) -> None:
    """End what `lock` began."""
    guard.close()
    with suppress(OSError):
        os.unlink(f"{target}-lock")


def is_locked(target: Path) -> bool:
    """Tell whether a process has locked a file."""
    if not os.path.exists(f"{target}-lock"):
        return False
    try:
        guard = sqlite3.connect(f"{Path(f'{target}-lock').absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        try:
            guard.execute("SELECT * FROM sqlite_schema").fetchone()
        finally:
            guard.close()
    except sqlite3.OperationalError as problem:
        return _is_busy(problem)
    return False


def as_os_error(problem: sqlite3.Error) -> OSError:
    """Return the error of the operating system that is nearest to what SQLite says."""
    full = "No space left on device"
    return OSError(errno.ENOSPC, full) if _code(problem) == sqlite3.SQLITE_FULL else OSError(errno.EIO, str(problem))


def _is_busy(problem: sqlite3.Error) -> bool:
    return _code(problem) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(problem: sqlite3.Error) -> int:
    return getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
