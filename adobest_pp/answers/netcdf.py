"""Reading netCDF files, ours or a stranger's: the checksum first, and then HDF5 in a process that can be ended.

A file of ours has a last line behind its HDF5 part, where HDF5 does not look::

    adobest_pp sha256 <SHA-256 of all bytes before this line>

The attribute ``_NCProperties``, which netCDF has for notes about the file itself, says that this line must be there. So
a file of ours that was changed or cut anywhere raises ValueError. A file that xarray itself wrote has neither, and is
read all the same: damage to it may go unnoticed.

A correct checksum says that a file is as it was written, not who wrote it. So HDF5 reads every file in a process of its
own (`adobest_pp.answers.hdf5_child`), which is started once and ended when a file takes too long or too much memory.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adobest_pp._checks import check_path
from adobest_pp._files import CHECKSUM, SAYS_CHECKSUM, netcdf_end, write_all

if TYPE_CHECKING:
    import xarray as xr

# Seconds of work that a file may take, whatever its size, and bytes that one more second is given for; and how many
# times that may pass on the clock of a busy machine.
SECONDS, BYTES_A_SECOND, BUSY = 5.0, 1e7, 12
# Seconds that the process itself may take to start, or to end when it is asked to.
_START, _END = 120.0, 2.0
_PROGRAM = Path(__file__).with_name("hdf5_child.py")
_LAST_LINE = re.compile(re.escape(CHECKSUM) + rb"([0-9a-f]{64})\n\Z")
_LAST = len(CHECKSUM) + 65


class Damaged(ValueError):
    """A file is not as it was written, or holds what we do not read; the text is what is wrong, or empty."""


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
        All of it, in memory.
    """
    import xarray as xr

    path = check_path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path must name a netCDF file, got {str(path)!r}, which does not exist")
    try:
        groups = {name: _dataset(group) for name, group in _read(content_of(path)).items()}
        try:
            return xr.DataTree.from_dict(groups)
        except ValueError:  # in many lines
            raise Damaged("groups that do not fit together") from None
    except Damaged as reason:
        raise ValueError(f"path must name a netCDF file, got {str(path)!r}, which {damaged_or_no(reason)}") from None


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, or raise `Damaged` if they do not fit into memory, as those of a sparse file."""
    try:
        return path.read_bytes()
    except MemoryError:
        raise Damaged("more bytes than fit into memory") from None


def damaged_or_no(reason: Damaged) -> str:
    """Return what is wrong, as the end of a sentence about the file."""
    return "is damaged or not a netCDF file" + (f": it has {reason}" if str(reason) else "")


def read_dataset(content: bytes) -> "xr.Dataset":
    """Return the dataset in a netCDF file, or raise `Damaged`."""
    return _dataset(_read(content)["/"])


def _read(content: bytes) -> dict[str, Any]:
    """Check a file, and return what the groups in it hold."""
    end = _checked(content)
    groups, properties = _READER.read(memoryview(content)[:end])
    if end == len(content) and properties.endswith(SAYS_CHECKSUM.decode()):
        raise Damaged("lost its last line, the checksum")
    return groups


def _checked(content: bytes) -> int:
    """Return where the HDF5 part of a file ends, or raise `Damaged` if the checksum behind it is not right."""
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
        raise Damaged("other bytes than a checksum behind its end")
    return end_of_hdf5


def _dataset(group: dict[str, Any]) -> "xr.Dataset":
    """Return a group as xarray has it, or raise `Damaged`."""
    import xarray as xr

    variables = {
        name: xr.Variable(each["dims"], each["values"], _attributes(each["attributes"]))
        for name, each in group["variables"].items()
    }
    try:
        return xr.decode_cf(xr.Dataset(variables, attrs=_attributes(group["attributes"]))).load()
    except Exception:  # whatever the conventions of netCDF make of attributes that somebody has chosen
        raise Damaged("variables that do not fit together") from None


def _attributes(found: dict[str, Any]) -> dict[str, Any]:
    """Return attributes as netCDF has them: text, lists of text, and numbers of their type."""
    return {
        name: np.array(value["values"], dtype=value["dtype"])[()] if isinstance(value, dict) else value
        for name, value in found.items()
    }


class _Found(NamedTuple):
    groups: dict[str, Any]
    properties: str


class _Reader:
    """The process that reads HDF5: started when it is first needed, used for one file at a time, ended with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def read(self, content: memoryview) -> _Found:
        """Return what a file holds, or raise `Damaged`."""
        seconds = SECONDS + len(content) / BYTES_A_SECOND
        with self._lock:
            try:
                process = self._started()
                return _exchange(process, content, seconds)
            except (BrokenPipeError, EOFError):
                self._end()
                raise Damaged(f"what makes HDF5 crash, or takes it more than {seconds:.0f} s") from None
            except Damaged:
                raise
            except BaseException:  # such as Ctrl-C: what the process says next would be about this file
                self._end()
                raise

    def close(self) -> None:
        """End the process: soon, if it waits to be asked, and at once if it is still busy for a thread."""
        is_idle = self._lock.acquire(timeout=_END)
        self._end(_END if is_idle else 0.0)
        if is_idle:
            self._lock.release()

    def _started(self) -> "subprocess.Popen[bytes]":
        """Return the process, started unless it runs."""
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
                raise OSError(f"netCDF is read by a process of {sys.executable!r}, which did not start") from None
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
        """Forget the process in a fork of ours, which starts its own when it needs one."""
        process, self._process, self._lock = self._process, None, threading.Lock()
        if process is not None:
            process.returncode = 0  # it is not ours to wait for
            _close_pipes(process)


def _exchange(process: "subprocess.Popen[bytes]", content: memoryview, seconds: float) -> _Found:
    # The process ends itself after so many seconds of work, where the system can do that.
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
    return _Found(tree["groups"], str(tree.get("properties", "")))


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
    """Return the next bytes that the process tells, or raise EOFError if it has ended."""
    held = bytearray(size)
    rest = memoryview(held)
    while rest:
        count = process.stdout.readinto(rest)  # type: ignore[union-attr]
        if not count:
            raise EOFError
        rest = rest[count:]
    return held


def _values(described: dict[str, Any], process: "subprocess.Popen[bytes]") -> Any:
    """Return the values of a variable, which follow the description unless they are text."""
    shape = described["shape"]
    if "texts" in described:
        values = np.empty(len(described["texts"]), dtype=object)
        values[:] = described["texts"]
        return values.reshape(shape)
    dtype = np.dtype(described["dtype"])
    return np.frombuffer(_received(process, math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)


_READER = _Reader()
