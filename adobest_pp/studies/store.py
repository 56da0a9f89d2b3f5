"""The store of a study: one labelled dataset in Zarr, written by one process at a time.

Every run has a place (cell, run) in every variable. A chunk file is replaced whole or not at all (Zarr renames it into
place), and of a batch of runs `status` is written last (but for errors of earlier attempts, which are removed after
it): killed at any moment, what `status` calls done is whole, and what was in flight is as if it had not been run. The
store itself is made under another name and renamed.
"""

import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from adobest_pp.studies.batches import DONE, FAILED, NOT_RUN, Outcome
from adobest_pp.studies.grid import Study
from adobest_pp.studies.layout import check_same, create, grow, read_attributes, record_sources, run_variables
from adobest_pp.studies.sources import differing, sources_of

try:
    import fcntl
except ImportError:  # not on Windows, where nothing keeps a second process from the same store
    fcntl = None  # type: ignore[assignment]

__all__ = ["StudyStore", "is_locked"]

_LOCK_ATTEMPTS = 5


class StudyStore:
    """The store of one study, open for writing; use it as a context manager, or `close` it.

    Parameters
    ----------
    path : path
        A folder. It is made where there is none, and grows where `study` has more runs of each cell.
    study : Study
        What is to be run.
    accept_changed_sources : bool
        Whether to go on where files that make a run have changed, and to record that.
    """

    def __init__(self, path: str | os.PathLike[str], study: Study, accept_changed_sources: bool = False) -> None:
        self.path = Path(path)
        self.study = study
        self.sources = sources_of(study)
        if not self.path.exists():
            create(self.path, study, self.sources)
        check_same(read_attributes(self.path), study, self.path)
        self._lock = _lock(self.path)
        try:
            self._prepare(accept_changed_sources)
        except BaseException:
            self.close()
            raise
        group = zarr.open_group(self.path, mode="r+")
        self._arrays: dict[str, Any] = {name: group[name] for name in run_variables(study)}
        self._rows: dict[int, dict[str, NDArray[Any]]] = {}

    def _prepare(self, accept_changed_sources: bool) -> None:
        """Bring what is on disk up to date, now that no other process writes to it."""
        # What a killed process had not yet renamed into place.
        for leftover in self.path.rglob("*.partial"):
            leftover.unlink()
        attributes = read_attributes(self.path)
        check_same(attributes, self.study, self.path)
        if changed := differing(json.loads(attributes["sources"]), self.sources):
            if not accept_changed_sources:
                raise ValueError(
                    f"store must be of the same sources: {changed} changed since {str(self.path)!r} was made; use "
                    "another store, or --accept-changed-sources if you know that the numbers stay the same"
                )
            record_sources(self.path, self.sources)
        if self.study.runs > json.loads(attributes["study"])["runs"]:
            grow(self.path, self.study)

    def __enter__(self) -> "StudyStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store; another process may then write to it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def counts(self) -> dict[int, int]:
        """Return how many runs are `NOT_RUN`, `DONE` and `FAILED`."""
        status = self._arrays["status"][:]
        return {code: int(np.count_nonzero(status == code)) for code in (NOT_RUN, DONE, FAILED)}

    def waiting(self, cell: int, retry_failed: bool = False) -> NDArray[np.int64]:
        """Return the numbers of the runs of a cell that are still to be made."""
        status = self._arrays["status"][cell]
        return np.flatnonzero((status == NOT_RUN) | (retry_failed & (status == FAILED)))

    def commit(self, cell: int, outcomes: Sequence[Outcome]) -> None:
        """Write what became of some runs of one cell, `status` last; only errors that are over are removed after it."""
        values: dict[str, list[Any]] = {
            name: [outcome.measures.get(name, math.nan) for outcome in outcomes] for name in self.study.measures
        }
        values["seconds"] = [outcome.seconds for outcome in outcomes]
        values["finished_at"] = [time.time()] * len(outcomes)
        errors = [outcome.error for outcome in outcomes]
        status = [FAILED if error else DONE for error in errors]
        runs = np.array([outcome.run for outcome in outcomes])
        # The row of a cell is kept until all its runs are in: to write whole chunks, and not to read them every time.
        rows = self._rows.pop(cell, None) or {name: array[cell] for name, array in self._arrays.items()}
        try:
            # Killed in between, a run that failed before must not be left without its error: that goes after `status`.
            kept = [new or old for new, old in zip(errors, rows["error"][runs].tolist(), strict=True)]
            for name, column in (*values.items(), ("error", kept), ("status", status), ("error", errors)):
                self._write(name, cell, rows[name], runs, column)
        except OSError as problem:
            raise OSError(
                f"{self.path} could not be written to ({problem}); what was committed before is whole: "
                "run the same command again, once there is room, to go on"
            ) from problem
        if np.any(rows["status"] == NOT_RUN):
            self._rows[cell] = rows

    def _write(self, name: str, cell: int, row: NDArray[Any], runs: NDArray[np.int64], values: list[Any]) -> None:
        before = row[runs]
        row[runs] = values
        if name == "error" and np.all(row[runs] == before):  # texts are rarely there, and take long to write
            return
        array = self._arrays[name]
        step = array.chunks[1]
        for start in np.unique(runs // step * step).tolist():
            array[cell, start : start + step] = row[start : start + step]


def _lock(path: Path) -> int | None:
    """Lock the folder itself for as long as the descriptor that is returned stays open."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:  # by another writer, or for a moment by a process that looks whether there is one
            time.sleep(0.1 if attempt + 1 < _LOCK_ATTEMPTS else 0)
    os.close(descriptor)
    raise ValueError(f"store must not be in use by another process, got {str(path)!r}")


def is_locked(path: Path) -> bool:
    """Tell whether a process has the store open for writing."""
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
