"""A journal beside a saved collector: every change is on disk before the call that made it returns.

Each snapshot has a journal of its own, named after it, with one JSON object a line. It is made before the snapshot
takes its place, so there is no moment at which a change would have nowhere to go. A last line without its end was cut
off by a crash within a call, and is as if that call had not been made.
"""

import json
import os
import weakref
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not on Windows, where nothing keeps a second process from the same file
    fcntl = None  # type: ignore[assignment]

__all__ = ["Journal", "journal_path", "read_events"]


class Journal:
    """The journal of one snapshot of the collector at `path`, open for writing by one owner at a time."""

    def __init__(self, path: str | os.PathLike[str], snapshot: str) -> None:
        self._path = journal_path(path, snapshot)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # Closed, and with it the lock, when the collector is no longer used, at the latest.
        self.close = weakref.finalize(self, os.close, self._file)
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise ValueError(f"path must not be in use by another collector, got {os.fspath(path)!r}") from None
        # Only now that nobody else writes: drop a line that was cut off.
        content = self._path.read_bytes()
        os.truncate(self._path, content.rfind(b"\n") + 1)

    def write(self, event: dict[str, Any]) -> None:
        """Append one event and wait until it is on disk; if that does not come about, the journal is as it was."""
        rest = memoryview((json.dumps(event, separators=(",", ":")) + "\n").encode())
        before = self._path.stat().st_size
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except BaseException:
            os.truncate(self._path, before)
            raise

    def remove(self) -> None:
        """Let go of the file, and delete it: a later snapshot holds all that is in it."""
        self.close()
        self._path.unlink(missing_ok=True)


def journal_path(path: str | os.PathLike[str], snapshot: str) -> Path:
    """Return where the journal of a snapshot is."""
    target = Path(path)
    return target.with_name(f"{target.name}.{snapshot}.journal")


def read_events(path: str | os.PathLike[str], snapshot: str) -> list[dict[str, Any]]:
    """Return what happened since the snapshot, oldest first."""
    journal = journal_path(path, snapshot)
    if not journal.is_file():
        return []
    # What follows the last end of a line is empty, or the line that was cut off.
    lines = journal.read_bytes().split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        raise ValueError(f"path must have a whole journal beside it, got a damaged one in {str(journal)!r}") from None
