"""Read netCDF files, ours or a stranger's: first the checksum, then HDF5 in a process that can be killed.

Our files end with a line that HDF5 ignores::

    adobest_pp sha256 <SHA-256 of all bytes before this line>

The attribute ``_NCProperties``, which netCDF has for notes about the file itself, says that this line must be there. So
a file of ours that was changed or cut anywhere raises ValueError. A file that xarray wrote has neither and is read
unchecked: damage may go unnoticed.

A correct checksum says that a file is as it was written, not who wrote it. So HDF5 reads every file in a process of its
own (`adobest_pp.answers.hdf5_child`), which is started once and killed if a file takes too much time or memory.
"""

import atexit
import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adobest_pp._checks import check_path
from adobest_pp._files import CHECKSUM, SAYS_CHECKSUM, netcdf_end, write_all

if TYPE_CHECKING:
    import xarray as xr

# CPU seconds that a file may take: a constant, and one more for so many bytes. On the clock of a busy machine it may be
# `BUSY` times as long.
SECONDS, BYTES_A_SECOND, BUSY = 5.0, 1e7, 12
# Seconds that the process itself may take to start, and to end when asked to.
_START, _END = 120.0, 2.0
_PROGRAM = Path(__file__).with_name("hdf5_child.py")
_LAST_LINE = re.compile(re.escape(CHECKSUM) + rb"([0-9a-f]{64})\n\Z")
_LAST = len(CHECKSUM) + 65


class Damaged(ValueError):
    """A file is damaged, or holds what we do not read. The text says what it has, or is empty."""


def read_tree(path: str | os.PathLike[str]) -> "xr.DataTree":
    """Read a netCDF file of draws, such as ``posterior.nc`` of a report, or raise ValueError if it is damaged.

    `xarray.open_datatree` opens the same files, but does not check them.

    Parameters
    ----------
    path : path
        A netCDF file. If adobest_pp wrote it, its checksum must be right.

    Returns
    -------
    xarray.DataTree
        The whole tree, in memory.
    """
    import xarray as xr

    with opened(path, "a netCDF file") as groups:
        try:
            return xr.DataTree.from_dict({name: dataset_of(group) for name, group in groups.items()})
        except Damaged:
            raise
        except ValueError:  # its message has many lines
            raise Damaged("inconsistent groups") from None


@contextmanager
def opened(path: str | os.PathLike[str], wanted: str) -> Iterator[dict[str, Any]]:
    """Yield the groups of a file; raise ValueError if it is not `wanted`, also for a `Damaged` from the block."""
    path = check_path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path must name {wanted}, got {str(path)!r}, which does not exist")
    try:
        try:
            groups = read_groups(path.read_bytes())
        except MemoryError:  # the file may be sparse
            raise Damaged("more bytes than fit into memory") from None
        yield groups
    except Damaged as reason:
        why = "is damaged or not a netCDF file" + (f": it has {reason}" if str(reason) else "")
        raise ValueError(f"path must name {wanted}, got {str(path)!r}, which {why}") from None


def read_groups(content: bytes) -> dict[str, Any]:
    """Check the content of a file and return its groups, or raise `Damaged`."""
    end = _checked(content)
    groups, properties = _READER.read(memoryview(content)[:end])
    if end == len(content) and properties.endswith(SAYS_CHECKSUM.decode()):
        raise Damaged("no last line with its checksum")
    return groups


def _checked(content: bytes) -> int:
    """Return where the HDF5 part of a file ends, or raise `Damaged` if the checksum after it is wrong."""
    last = _LAST_LINE.match(content, len(content) - _LAST) if len(content) > _LAST else None
    if last is not None:
        end = len(content) - _LAST
        if hashlib.sha256(memoryview(content)[:end]).hexdigest().encode() != last[1]:
            raise Damaged("another SHA-256 than its last line states")
        return end
    end_of_hdf5 = netcdf_end(io.BytesIO(content))
    if end_of_hdf5 is None:
        raise Damaged
    if end_of_hdf5 != len(content):
        raise Damaged("bytes other than a checksum after its end")
    return end_of_hdf5


def dataset_of(group: dict[str, Any]) -> "xr.Dataset":
    """Return a group as a dataset, or raise `Damaged`."""
    import xarray as xr

    variables = {
        name: xr.Variable(each["dims"], each["values"], _attributes(each["attributes"]))
        for name, each in group["variables"].items()
    }
    try:
        return xr.decode_cf(xr.Dataset(variables, attrs=_attributes(group["attributes"]))).load()
    except Exception:  # decoding the attributes of a stranger may raise anything
        raise Damaged("inconsistent variables") from None


def _attributes(found: dict[str, Any]) -> dict[str, Any]:
    """Return attributes as xarray has them: text, lists of text, and numbers of their type."""
    return {
        name: np.array(value["values"], dtype=value["dtype"])[()] if isinstance(value, dict) else value
        for name, value in found.items()
    }


class _Reader:
    """The process that reads HDF5. It starts when first needed, reads one file at a time, and ends with this one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def read(self, content: memoryview) -> tuple[dict[str, Any], str]:
        """Return the groups of a file and its ``_NCProperties``, or raise `Damaged`."""
        seconds = SECONDS + len(content) / BYTES_A_SECOND
        with self._lock:
            try:
                return _exchange(self._started(), content, seconds)
            except (BrokenPipeError, EOFError):
                self._end()
                raise Damaged(f"content that crashes HDF5, or takes it more than {seconds:.0f} s") from None
            except Damaged:
                raise
            except BaseException:  # such as Ctrl-C: the process would reply about this file to the next request
                self._end()
                raise

    def close(self) -> None:
        """End the process: give an idle one a moment, and kill one that is busy for a thread."""
        is_idle = self._lock.acquire(timeout=_END)
        self._end(_END if is_idle else 0.0)
        if is_idle:
            self._lock.release()

    def _started(self) -> "subprocess.Popen[bytes]":
        """Return the process, and start it if need be."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"}
            self._process = subprocess.Popen(
                [sys.executable or "python3", "-P", str(_PROGRAM)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=_PROGRAM.parent,
                env=os.environ | environment,
            )
            try:
                with _ending_after(_START, self._process):
                    _reply(self._process)
            except EOFError:
                self._end()
                raise OSError(f"the process of {sys.executable!r} that reads netCDF did not start") from None
        return self._process

    def _end(self, patience: float = 0.0) -> None:
        process, self._process = self._process, None
        if process is not None:
            _close_pipes(process)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _leave(self) -> None:
        """Forget the process in a fork, which starts its own when it needs one."""
        process, self._process, self._lock = self._process, None, threading.Lock()
        if process is not None:
            process.returncode = 0  # the fork must not wait for it
            _close_pipes(process)


def _exchange(process: "subprocess.Popen[bytes]", content: memoryview, seconds: float) -> tuple[dict[str, Any], str]:
    # If the system can limit CPU time, the process ends itself earlier.
    with _ending_after(BUSY * seconds, process):
        assert process.stdin is not None
        request = json.dumps({"size": len(content), "seconds": seconds})
        write_all(process.stdin.fileno(), request.encode() + b"\n")
        write_all(process.stdin.fileno(), content)
        tree = _reply(process)
        if "refused" in tree:
            raise Damaged(tree["refused"])
        for group in tree["groups"].values():
            for each in group["variables"].values():
                each["values"] = _values(each, process)
    return tree["groups"], str(tree.get("properties", ""))


@contextmanager
def _ending_after(seconds: float, process: "subprocess.Popen[bytes]") -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def _reply(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    text = _received(process, int.from_bytes(_received(process, 8), "little"))
    return dict(json.loads(text))


def _received(process: "subprocess.Popen[bytes]", size: int) -> bytearray:
    """Return the next bytes from the process, or raise EOFError if it has ended."""
    held = bytearray(size)
    rest = memoryview(held)
    while rest:
        count = process.stdout.readinto(rest)  # type: ignore[union-attr]
        if not count:
            raise EOFError
        rest = rest[count:]
    return held


def _values(described: dict[str, Any], process: "subprocess.Popen[bytes]") -> Any:
    """Return the values of a variable. Numbers follow the description; text is in it."""
    shape = described["shape"]
    if "texts" in described:
        values = np.empty(len(described["texts"]), dtype=object)
        values[:] = described["texts"]
        return values.reshape(shape)
    dtype = np.dtype(described["dtype"])
    return np.frombuffer(_received(process, math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)


_READER = _Reader()
