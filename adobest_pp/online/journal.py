"""A journal beside a saved collector: every change is on disk before the call that made it returns.

One JSON object a line. The first names the snapshot that the journal continues; a journal of another snapshot is left
over from before a save, and holds nothing that the snapshot does not. A last line without its end was cut off by a
crash within a call, and is as if that call had not been made.
"""

import json
import os
from pathlib import Path
from typing import Any

from adobest_pp._files import replacing

__all__ = ["Journal"]


class Journal:
    """The journal of the snapshot at `path`, open for writing."""

    def __init__(self, path: str | os.PathLike[str], snapshot: str) -> None:
        self._path = journal_path(path)
        if not _continues(self._path, snapshot):
            with replacing(self._path) as temporary:
                temporary.write_text(json.dumps({"snapshot": snapshot}) + "\n", encoding="utf-8")
        _drop_partial_line(self._path)

    def write(self, event: dict[str, Any]) -> None:
        """Append one event and wait until it is on disk; if that fails, the journal is as it was."""
        line = (json.dumps(event, separators=(",", ":")) + "\n").encode()
        before = self._path.stat().st_size
        try:
            with self._path.open("ab") as handle:
                handle.write(line)
                handle.flush()
                os.fsync(handle.fileno())
        except OSError:
            os.truncate(self._path, before)
            raise


def journal_path(path: str | os.PathLike[str]) -> Path:
    """Return where the journal of a snapshot is."""
    target = Path(path)
    return target.with_name(target.name + ".journal")


def read_events(path: str | os.PathLike[str], snapshot: str) -> list[dict[str, Any]]:
    """Return what happened since the snapshot, oldest first."""
    journal = journal_path(path)
    if not _continues(journal, snapshot):
        return []
    lines = journal.read_bytes().split(b"\n")
    # What follows the last end of a line is empty, or the line that was cut off.
    return [json.loads(line) for line in lines[1:-1]]


def _continues(journal: Path, snapshot: str) -> bool:
    if not journal.is_file():
        return False
    with journal.open("rb") as handle:
        first = handle.readline()
    return first == json.dumps({"snapshot": snapshot}).encode() + b"\n"


def _drop_partial_line(journal: Path) -> None:
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(journal, whole)
