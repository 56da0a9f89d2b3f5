"""The file of a collection: a netCDF file, and behind its end a journal of what came after it was saved.

HDF5 reads what is before the end that its first block states, so xarray opens the file as it was saved. Then come a
line with the SHA-256 of that part, two lines that tell how much is acknowledged, and the journal, one event a line::

    adobest_pp journal 1 <SHA-256 of the netCDF part>
    acknowledged <lines> <checksum of the last> <checksum of this>     (twice)
    1 <checksum> {"answers":[2],"subset":[0,2]}
    2 <checksum> …

The checksum of a line is over its own text and the checksum before it, the first over the SHA-256, so a line that was
changed, removed or moved is noticed. An event is on disk before the call that made it returns. A last line without its
end was cut off within such a call, and is as if the call had not been made. After each event one of the two lines of
acknowledgment is rewritten in place, in turn, so that one of them is always whole. Killed before that, a process leaves
more lines than were acknowledged, which does no harm; a file with fewer lines is damaged, and raises ValueError.
"""

import hashlib
import json
import os
import weakref
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from adobest_pp._files import (
    JOURNAL,
    check_target,
    install,
    lock,
    netcdf_end,
    open_locked,
    refusal,
    start_digest,
    temporary_beside,
    write_all,
)

__all__ = ["Journal", "Tail", "read_tail"]


_SHA = 64
_CHECK = 16
_SLOT = len(f"acknowledged {0:012d} {'':16} {'':16}\n")
_SLOTS = len(JOURNAL) + _SHA + 1
_LINES = _SLOTS + 2 * _SLOT

_RESTORE = "restore it from a copy"


class Tail(NamedTuple):
    """What is behind the netCDF part, which ends at `start`: events up to `end`, and the checksum of the last.

    `torn` is the line of acknowledgment that is not whole, if one is not. `mark` is where the last line of all begins
    and what it begins with, by which the file is known again. `size` is that of the file.
    """

    start: int
    end: int
    check: str
    events: list[dict[str, Any]]
    torn: int | None
    mark: tuple[int, bytes]
    size: int


def read_tail(handle: BinaryIO, name: str) -> Tail | None:
    """Return the journal of an open file, or None if it has none; raise ValueError if it is damaged."""
    start = netcdf_end(handle)
    handle.seek(0 if start is None else start)
    content = b"" if start is None else handle.read()
    if start is None or not content.startswith(JOURNAL):
        return None
    digest = content[len(JOURNAL) : _SLOTS - 1].decode(errors="replace")
    if digest != start_digest(handle, start):
        raise _damaged(name, "whose saved part is not as it was written")
    if len(content) < _LINES:
        # Both lines of acknowledgment are there from the start: what is left of them may be the older one.
        raise _damaged(name, "which ends before its count of acknowledged lines")
    slots = [_read_slot(content[_SLOTS + i * _SLOT :][:_SLOT]) for i in (0, 1)]
    acknowledged = [slot for slot in slots if slot is not None]
    if not acknowledged:
        raise _damaged(name, "whose count of acknowledged lines is not readable")
    # What follows the last end of a line is empty, or the line that was cut off; zeros are what a power cut may leave
    # in its place.
    lines = content[_LINES:].partition(b"\0")[0].split(b"\n")[:-1]
    events, checks = _read_lines(lines, digest[:_CHECK], name)
    count, check = max(acknowledged)
    if count > len(lines):
        raise _damaged(name, f"whose journal has {len(lines)} lines of the {count} that were acknowledged")
    if checks[count] != check:
        raise _damaged(name, f"whose journal is not the one that was acknowledged at line {count}")
    end = start + _LINES + sum(len(line) + 1 for line in lines)
    mark = (end - len(lines[-1]) - 1, _opening(len(lines), checks[-1])) if lines else (start, content[: _SLOTS - 1])
    torn = slots.index(None) if None in slots else None
    return Tail(start, end, checks[-1], events, torn, mark, start + len(content))


class _At(NamedTuple):
    """How far a journal is. It is replaced as a whole, so that an interrupt finds the old state or the new one."""

    end: int
    lines: int
    check: str
    mark: tuple[int, bytes]
    held: list[dict[str, Any]]
    last: dict[str, Any] | None = None


class Journal:
    """The journal of the collection at `path`, open for its one owner until `close`. Build with `create` or `claim`."""

    def __init__(self, descriptor: int, path: Path, start: int, at: _At) -> None:
        self.path = path
        self._file, self._start, self._at = descriptor, start, at
        # Whether events stay in memory until `flush`: for answers that nobody has seen yet.
        self.holds = False
        self._torn = False
        # The line of acknowledgment that may not be whole, and comes next: so that the other always is.
        self._torn_slot: int | None = None
        # Closes the file, and with it the lock, at the latest when the collector is garbage collected.
        self.close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], netcdf: bytes, *, overwrite: bool, own: "Journal | None" = None
    ) -> "Journal":
        """Write the file of a collection with an empty journal.

        Parameters
        ----------
        path : path
            Where to.
        netcdf : bytes
            The netCDF part.
        overwrite : bool
            Whether to replace an ordinary file that is there; never one that another collector has open.
        own : Journal, optional
            That of the same collector so far: its own file may be replaced, if nobody else has written to it.
        """
        replaced = own if own is not None and own.is_at(path) else None
        is_own = replaced is not None
        target = check_target(path, overwrite=overwrite or is_own)
        if replaced is not None:
            replaced._check_untouched()
        at = _empty(netcdf)
        with temporary_beside(target) as temporary:
            descriptor = os.open(temporary, os.O_RDWR)
            try:
                # Before the file takes its place, so that there is no moment at which it has no owner.
                lock(descriptor, target)
                write_all(descriptor, netcdf)
                write_all(descriptor, at.mark[1] + b"\n" + 2 * _slot(0, at.check))
                if replaced is not None:
                    replaced._check_untouched()  # again: writing takes a while
                install(descriptor, temporary, target, overwrite=overwrite or is_own, own=is_own)
            except BaseException:
                os.close(descriptor)
                raise
        return cls(descriptor, target, len(netcdf), at)

    @classmethod
    def created(cls, path: str | os.PathLike[str], netcdf: bytes) -> "Journal | None":
        """Return the journal that `create` was making when it was interrupted, or None if its file is not in place."""
        at = _empty(netcdf)
        try:
            journal = cls(open_locked(path, os.O_RDWR), Path(os.path.realpath(path)), len(netcdf), at)
        except (OSError, ValueError):
            return None
        is_ours = False
        try:
            is_ours = journal._is_as(at.end, at.mark)
            return journal if is_ours else None
        finally:
            if not is_ours:
                journal.close()

    @classmethod
    def claim(cls, path: str | os.PathLike[str]) -> "Journal":
        """Open the file of a collection for its one owner, or raise ValueError; `resume` must follow."""
        target = Path(os.path.realpath(path))
        return cls(open_locked(target, os.O_RDWR), target, 0, _At(0, 0, "", (0, b""), []))

    def resume(self, tail: Tail) -> None:
        """Go on behind what was read; a line that was cut off is dropped."""
        if not self._is_as(tail.size, tail.mark):
            raise ValueError(
                f"path must not be in use by another collector or program, got {str(self.path)!r}, which was changed "
                "while it was read: close that one first"
            )
        if tail.end < tail.size:
            os.ftruncate(self._file, tail.end)
        self._start, self._at = tail.start, _At(tail.end, len(tail.events), tail.check, tail.mark, [])
        self._torn_slot = tail.torn

    def is_at(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether this is the journal of the file at `path`."""
        try:
            return self.close.alive and os.path.samestat(os.fstat(self._file), os.stat(path))
        except FileNotFoundError:
            return False

    @property
    def size(self) -> int:
        """Bytes in the journal."""
        return self._at.end - self._start - _LINES

    @property
    def netcdf_size(self) -> int:
        """Bytes in the netCDF part."""
        return self._start

    def write(self, event: dict[str, Any]) -> None:
        """Append one event and wait until it is on disk, or raise and leave the journal as it was."""
        if self.holds:
            self._at.held.append(event)
        else:
            self._append([event])

    def has(self, event: dict[str, Any]) -> bool:
        """Tell whether this very event is the last that `write` accepted, even if it was interrupted after that."""
        held = self._at.held
        return (held[-1] if held else self._at.last) is event

    def flush(self) -> None:
        """Append all events that are held; of several states of the sampler only the last."""
        held = self._at.held
        last = max((i for i, event in enumerate(held) if "adapted" in event), default=-1)
        kept = [event for i, event in enumerate(held) if "adapted" not in event or i == last]
        if kept:
            self._append(kept)

    def _append(self, events: list[dict[str, Any]]) -> None:
        count, check, lines = self._at.lines, self._at.check, []
        for event in events:
            count += 1
            body = f"{count} ", json.dumps(event, separators=(",", ":"))
            check = _chained(check, "".join(body).encode())
            lines.append(f"{body[0]}{check} {body[1]}\n")
        content = "".join(lines).encode()
        self._check_untouched()
        try:
            os.lseek(self._file, self._at.end, os.SEEK_SET)
            write_all(self._file, content)
            os.fsync(self._file)
            end = self._at.end + len(content)
            self._at = _At(end, count, check, (end - len(lines[-1].encode()), _opening(count, check)), [], events[-1])
        except BaseException as problem:
            self._torn = True
            self._cut()
            if isinstance(problem, OSError):
                raise refusal(problem, self.path) from None
            raise
        if self._torn_slot is None:
            self._torn_slot = count % 2
        try:
            os.lseek(self._file, self._start + _SLOTS + self._torn_slot * _SLOT, os.SEEK_SET)
            write_all(self._file, _slot(count, check))
            self._torn_slot = None
        except OSError:
            pass  # the events are on disk, and more lines than are acknowledged do no harm

    def _check_untouched(self) -> None:
        """Raise OSError if another program has deleted or changed the file."""
        if self._torn:
            self._cut()
        if not self._is_as(self._at.end, self._at.mark):
            what = "deleted" if os.fstat(self._file).st_nlink == 0 else "changed"
            raise OSError(
                f"path must be left alone while a collector has it open, but {str(self.path)!r} was {what} by another "
                "program: save the collection to a new file, which has all its answers"
            )

    def _is_as(self, size: int, mark: tuple[int, bytes]) -> bool:
        """Tell whether the file still has its name, this size and this mark."""
        found, (place, expected) = os.fstat(self._file), mark
        os.lseek(self._file, place, os.SEEK_SET)
        return found.st_nlink > 0 and found.st_size == size and os.read(self._file, len(expected)) == expected

    def _cut(self) -> None:
        """Remove what a failed call has written; if that fails too, the next call tries again."""
        try:
            os.ftruncate(self._file, self._at.end)
            self._torn = False
        except OSError:
            pass


def _empty(netcdf: bytes) -> _At:
    """Return where a new journal behind this netCDF part is."""
    digest = hashlib.sha256(netcdf).hexdigest()
    return _At(len(netcdf) + _LINES, 0, digest[:_CHECK], (len(netcdf), JOURNAL + digest.encode()), [])


def _read_lines(lines: list[bytes], check: str, name: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the events, and the checksums before the first line and after each."""
    events, checks = [], [check]
    for place, line in enumerate(lines, start=1):
        number, _, rest = line.partition(b" ")
        found, _, body = rest.partition(b" ")
        if number != str(place).encode():
            raise _damaged(name, f"whose journal has line {_shown(number)} where line {place} must be")
        check = _chained(check, number + b" " + body)
        if found != check.encode():
            raise _damaged(name, f"whose journal was changed at line {place}, or before it")
        try:
            event = json.loads(body)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise _damaged(name, f"whose journal has no event in line {place}")
        events.append(event)
        checks.append(check)
    return events, checks


def _chained(before: str, text: bytes) -> str:
    return hashlib.blake2b(before.encode() + text, digest_size=_CHECK // 2).hexdigest()


def _opening(count: int, check: str) -> bytes:
    return f"{count} {check} ".encode()


def _slot(count: int, check: str) -> bytes:
    text = f"acknowledged {count:012d} {check}"
    return f"{text} {_chained('', text.encode())}\n".encode()


def _read_slot(slot: bytes) -> tuple[int, str] | None:
    """Return how many lines are acknowledged, and the checksum of the last; None if the slot is damaged."""
    parts = slot.split()
    if len(parts) != 4 or not parts[1].isdigit():
        return None
    count, check = int(parts[1]), parts[2].decode(errors="replace")
    return (count, check) if slot == _slot(count, check) else None


def _shown(number: bytes) -> str:
    return number[:12].decode("ascii", errors="replace") if number.isdigit() else "without a number"


def _damaged(name: str, what: str) -> ValueError:
    return ValueError(f"path must name an undamaged collection, got {name!r}, {what}: {_RESTORE}")
