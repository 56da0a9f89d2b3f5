"""Write files whole or not at all, and never over an existing file unless the caller asks for it.

The rule for every writer of the package: a target is a new file, or an ordinary file that the caller asked to replace
and that no collector has open. Links are followed. Anything else (a folder, a device, a pipe) raises an error. A writer
that is killed or runs out of space leaves either the old file or the new one, never a part. It may leave a hidden file
that ends in ``.tmp`` beside the target; the next writer to the same target removes it.
"""

import errno
import hashlib
import io
import json
import os
import platform
import re
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from adobest_pp._checks import check_flag, check_path

try:
    import fcntl
except ImportError:  # Windows: a second process is noticed only after it has written
    fcntl = None  # type: ignore[assignment]

# The start of the last line of our netCDF files, after the HDF5 part. The SHA-256 of everything before it follows.
CHECKSUM = b"adobest_pp sha256 "
# The end of the attribute _NCProperties of such a file, which says that this last line must be there.
SAYS_CHECKSUM = b",adobest_pp=sha256"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Seconds after which a temporary file is abandoned, whatever process made it.
_ABANDONED = 86_400.0
# Seconds to wait for a folder, or a database, that another process has locked.
PATIENCE = 10.0


def check_target(path: str | os.PathLike[str], *, overwrite: bool, name: str = "path") -> Path:
    """Return the file that a path leads to, with links followed, or raise an error if it must not be written.

    With `overwrite`, an existing ordinary file may be replaced. Errors call the argument `name`.
    """
    given, target = os.fspath(check_path(path, name)), Path(os.path.realpath(path))
    check_flag(overwrite, "overwrite")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name} must name a file in a folder that exists, got {given!r}")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise ValueError(f"{name} must name a new or an ordinary file, got {given!r}")
    if not overwrite:
        raise FileExistsError(
            f"{name} must name a new file, got {given!r}, which exists: choose another name, or move that file away"
        )
    if os.path.exists(f"{target}-wal"):
        raise ValueError(
            f"{name} must not name a collection that is open or was not closed, got {given!r}: close it first"
        )
    return target


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = True, name: str = "path") -> Iterator[Path]:
    """Yield a temporary path beside the target. On success, the file there replaces the target."""
    target = check_target(path, overwrite=overwrite, name=name)
    with temporary_beside(target) as temporary:
        yield temporary
        descriptor = os.open(temporary, os.O_RDWR)
        try:
            install(descriptor, temporary, target, overwrite=overwrite)
        finally:
            os.close(descriptor)


def write_whole(
    path: str | os.PathLike[str], content: bytes | memoryview, *, overwrite: bool, name: str = "path"
) -> None:
    """Write a file from memory."""
    with replacing(path, overwrite=overwrite, name=name) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)


def refusal(problem: OSError, target: Path) -> OSError:
    """Return the error of a failed write, in one sentence that names the target."""
    reason = problem.strerror or str(problem)
    return OSError(
        problem.errno or errno.EIO, f"{str(target)!r} could not be written, and nothing was changed: {reason}"
    )


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Make an empty file beside the target, and remove it at the end if it still exists.

    An OSError in the block, such as a full disk, is raised again as a `refusal`.
    """
    remove_leftovers(target.parent, f".{target.name[:100]}.")
    temporary = target.with_name(temporary_name(f".{target.name[:100]}."))
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield temporary
    except FileExistsError:
        raise
    except OSError as problem:
        raise refusal(problem, target) from None
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(prefix: str) -> str:
    """Return a new name for a file or folder that this process has not finished."""
    return f"{prefix}{_machine()}-{os.getpid()}-{secrets.token_hex(6)}.tmp"


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove files and folders with a `temporary_name` of this prefix whose process has ended.

    A process on another machine, or one whose state is unknown, counts as ended after a day.
    """
    pattern = re.compile(re.escape(prefix) + r"(?:([0-9a-f]{8})-([0-9]{1,10})-)?[0-9a-f]{12}\.tmp")
    try:
        found = [(entry, pattern.fullmatch(entry.name)) for entry in os.scandir(folder)]
    except OSError:
        return
    for entry, match in found:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # removed in the meantime
            continue
        is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        if match is None or not is_ours or not _is_abandoned(match, status.st_mtime):
            continue
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(entry.path, ignore_errors=True)
        elif stat.S_ISREG(status.st_mode):
            with suppress(OSError):
                os.unlink(entry.path)


def _is_abandoned(name: "re.Match[str]", modified: float) -> bool:
    machine, process = name.groups()
    if time.time() - modified > _ABANDONED:
        return True
    if machine != _machine() or fcntl is None or int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)  # sends nothing: it only checks that the process exists
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine() -> str:
    """Return a name for this machine and container, within which process numbers are unique."""
    try:
        processes = os.readlink("/proc/self/ns/pid")
    except OSError:
        processes = ""
    return hashlib.sha256(f"{platform.node()} {processes}".encode()).hexdigest()[:8]


def install(descriptor: int, temporary: Path, target: Path, *, overwrite: bool) -> None:
    """Replace the target with a finished file, which is open as `descriptor`, and wait until it is on disk."""
    if overwrite and target.exists():
        os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
    os.fsync(descriptor)
    if overwrite:
        os.replace(temporary, target)
    else:
        _link(temporary, target)
    _sync_folder(target.parent)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, if the file system has locks; wait while another process holds it."""
    if fcntl is None:
        yield
        return
    descriptor, end = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of the content at the current position of an open file."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def seal(content: dict[str, Any]) -> bytes:
    """Return plain values as JSON with their checksum."""
    return json.dumps({"content": content, "sha256": json_digest(content)}, indent=1).encode()


def unseal(sealed: bytes, loads: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    """Return what was sealed, parsed by `loads`, or raise ValueError if it has changed."""
    found = loads(sealed)
    if not isinstance(found, dict) or not isinstance(found.get("content"), dict):
        raise ValueError("not a sealed file")
    content: dict[str, Any] = found["content"]
    if found.get("sha256") != json_digest(content):
        raise ValueError("changed since it was written")
    return content


def json_digest(content: Any) -> str:
    """Return the SHA-256 of plain values, written as JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def start_digest(handle: BinaryIO, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes of an open file."""
    handle.seek(0)
    digest = hashlib.sha256()
    while size and (part := handle.read(min(size, 1 << 20))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()


def netcdf_bytes(dataset: Any) -> bytes:
    """Return a dataset or a tree as a netCDF file with its SHA-256 in a last line, and a note that it must be there.

    HDF5 does not recover from a full disk, and fails again when the process ends. So we write the bytes ourselves.
    xarray does not see the last line; `adobest_pp.answers.netcdf` checks it.
    """
    import h5py  # type: ignore[import-untyped]
    import numpy as np

    view = dataset.to_netcdf(engine="h5netcdf")
    held = io.BytesIO(view)
    if isinstance(view, memoryview):
        view.release()
    with h5py.File(held, "r+") as file:
        # No program copies this attribute to another file together with a dataset.
        properties = np.bytes_(file.attrs["_NCProperties"])
        file.attrs["_NCProperties"] = np.bytes_(properties + SAYS_CHECKSUM)
    content = held.getvalue()
    return content + CHECKSUM + hashlib.sha256(content).hexdigest().encode() + b"\n"


def netcdf_end(handle: BinaryIO) -> int | None:
    """Return the end of the HDF5 part of a file, as its first block states; None if it is not an HDF5 file."""
    handle.seek(0)
    block = handle.read(48)
    if len(block) < 48 or not block.startswith(_SIGNATURE) or block[8] > 3:
        return None
    at = 40 if block[8] < 2 else 28
    end = int.from_bytes(block[at : at + 8], "little")
    return end if end <= handle.seek(0, os.SEEK_END) else None


def _link(temporary: Path, target: Path) -> None:
    """Give a file a new name, or raise FileExistsError if another program has made that file in the meantime."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(
            f"path must name a new file, got {str(target)!r}, which another program has just made"
        ) from None
    except OSError:  # a file system without hard links
        check_target(target, overwrite=False)
        os.replace(temporary, target)


def _sync_folder(folder: Path) -> None:
    """Wait until a new name is on disk, if the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cache_folder() -> Path:
    """Return the user's cache folder for this package, to which nobody else can write; create it if necessary.

    Files with known names belong here, not in the temporary folder, where anybody could create them first. Raises
    OSError if the folder belongs to somebody else.
    """
    from platformdirs import user_cache_path

    folder = user_cache_path("adobest_pp", appauthor=False)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise PermissionError(f"the cache folder must be yours, got {str(folder)!r}: set XDG_CACHE_HOME to your own")
    if found.st_mode & 0o022:
        folder.chmod(0o700)
    return folder


# SQLite databases, which store collections, polls and studies: safe settings, one writer, errors in one sentence.


def connect(target: Path, mode: str) -> tuple[sqlite3.Connection, set[str]]:
    """Return a connection to a file, ``"ro"`` or ``"rw"``, and the statements that made its tables."""
    connection = sqlite3.connect(f"{target.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None)
    try:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_TRUSTED_SCHEMA, False)
        # Otherwise the last connection to close would merge <file>-wal into the file, and hide that there was one.
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        connection.execute("PRAGMA cell_size_check = ON")
        return connection, {text for (text,) in connection.execute("SELECT sql FROM sqlite_schema LIMIT 10")}
    except sqlite3.OperationalError as problem:
        connection.close()
        # A killed process may have left <file>-journal. SQLite rolls back what that process had begun, but not through
        # a read-only connection.
        if mode == "ro" and _code(problem) == sqlite3.SQLITE_READONLY:
            return connect(target, "rw")
        raise
    except BaseException:
        connection.close()
        raise


@contextmanager
def telling(name: str, damaged: Callable[[str], ValueError]) -> Iterator[None]:
    """Turn errors of SQLite about a file into the error that `damaged` returns, or OSError if it cannot be read."""
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
    """Lock a file for its one writer until `unlock`, or raise BlockingIOError. If a process dies, its lock ends."""
    try:
        guard = sqlite3.connect(f"{target}-lock", isolation_level=None, timeout=patience)
        try:
            guard.execute("PRAGMA journal_mode = MEMORY")  # otherwise there would be another file
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
    """Release a `lock`."""
    guard.close()
    with suppress(OSError):
        os.unlink(f"{target}-lock")


def is_locked(target: Path) -> bool:
    """Return whether a process has locked a file."""
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
    """Return the error of the operating system that is closest to one of SQLite."""
    full = "No space left on device"
    return OSError(errno.ENOSPC, full) if _code(problem) == sqlite3.SQLITE_FULL else OSError(errno.EIO, str(problem))


def _is_busy(problem: sqlite3.Error) -> bool:
    return _code(problem) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(problem: sqlite3.Error) -> int:
    return getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
