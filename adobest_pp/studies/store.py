"""The store of a study: one labelled dataset in Zarr, written by one process at a time.

Every run has a place (cell, run) in every variable, and a checksum. A batch of runs is committed by way of a journal
(`adobest_pp.studies.runs`): killed at any moment, it is in the store whole or not at all. Of a batch, `status` is
written last (but for errors of earlier attempts, which are removed after it), so that plain xarray does not see half a
run either. The store itself is made under another name and renamed.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from adobest_pp.studies.grid import Study
from adobest_pp.studies.layout import check_same, create, differing, grow, mend, read_root, record_sources, sources_of
from adobest_pp.studies.locks import lock_folder
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Outcome
from adobest_pp.studies.runs import RunJournal, read_runs, refuse_damaged


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
    repair : bool
        Whether to take damaged runs for missing, and to write damaged labels once more; else ValueError is raised.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        study: Study,
        accept_changed_sources: bool = False,
        repair: bool = False,
    ) -> None:
        self.path = Path(path)
        self.study = study
        self.sources = sources_of(study)
        if not self.path.exists():
            create(self.path, study, self.sources)
        check_same(read_root(self.path)["attributes"], study, self.path)
        try:
            self._lock = lock_folder(self.path)
        except BlockingIOError:
            raise ValueError(f"store must not be in use by another process, got {str(self.path)!r}") from None
        try:
            self._prepare(accept_changed_sources)
            self._open(repair)
        except BaseException:
            self.close()
            raise

    def _prepare(self, accept_changed_sources: bool) -> None:
        """Make sure that this is the store, now that no other process writes to it."""
        # What a killed process had not yet renamed into place.
        for leftover in self.path.rglob("*.partial"):
            leftover.unlink()
        attributes = read_root(self.path)["attributes"]
        check_same(attributes, self.study, self.path)
        if changed := differing(json.loads(attributes["sources"]), self.sources):
            if not accept_changed_sources:
                raise ValueError(
                    f"store must be of the same sources: {changed} changed since {str(self.path)!r} was made; use "
                    "another store, or --accept-changed-sources if you know that the numbers stay the same"
                )
            record_sources(self.path, self.sources)

    def _open(self, repair: bool) -> None:
        """Read the runs, commit what a killed process was about to, refuse what is damaged, and make room."""
        try:
            journal = RunJournal.read(self.path, self._as_stored())
        except ValueError:
            if not repair:
                raise
            journal = None
            RunJournal.remove(self.path)
        if repair:
            mend(self.path)
        wrong = self._load()
        if journal is not None:
            self._write(journal)
        if not repair:
            refuse_damaged(self.path, self._stored, wrong)
        if self.study.runs > self._stored.study.runs:
            grow(self.path, self.study)
            self._load()

    def _as_stored(self) -> Study:
        return Study.from_dict(json.loads(read_root(self.path)["attributes"]["study"]))

    def _load(self) -> list[str]:
        self._stored, wrong = read_runs(self.path, read_root(self.path))
        group: Any = zarr.open_group(self.path, mode="r+")
        self._arrays = {name: group[name] for name in self._stored.values}
        return wrong

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
        """Return how many runs are `NOT_RUN`, `DONE` and `FAILED`; damaged ones count as not run."""
        return {code: int(np.count_nonzero(self._status() == code)) for code in (NOT_RUN, DONE, FAILED)}

    def waiting(self, cell: int, retry_failed: bool = False) -> NDArray[np.int64]:
        """Return the numbers of the runs of a cell that are still to be made."""
        status = self._status()[cell]
        return np.flatnonzero((status == NOT_RUN) | (retry_failed & (status == FAILED)))

    def commit(self, cell: int, outcomes: Sequence[Outcome]) -> None:
        """Write what became of some runs of one cell."""
        journal = RunJournal(cell, tuple(outcomes), time.time())
        try:
            journal.write(self.path, self.study.digest())
            self._write(journal)
        except OSError as problem:
            raise OSError(
                f"{self.path} could not be written to ({problem}); what was committed before is whole: "
                "run the same command again, once there is room, to go on"
            ) from problem

    def _status(self) -> NDArray[np.int8]:
        return np.where(self._stored.damaged, NOT_RUN, self._stored.values["status"])

    def _write(self, journal: RunJournal) -> None:
        """Write the runs of a journal, `status` last; only errors that are over are removed after it."""
        cell, runs, columns = journal.cell, journal.runs, self._stored.columns(journal)
        errors = columns.pop("error")
        # Plain xarray must not see a run that failed before without its error: that goes after `status`.
        kept = [new or old for new, old in zip(errors, self._stored.values["error"][cell, runs].tolist(), strict=True)]
        status = columns.pop("status")
        for name, column in (*columns.items(), ("error", kept), ("status", status), ("error", errors)):
            self._write_column(name, cell, runs, column)
        self._stored.damaged[cell, runs] = False
        RunJournal.remove(self.path)

    def _write_column(self, name: str, cell: int, runs: NDArray[np.int64], column: list[Any]) -> None:
        row, array = self._stored.values[name][cell], self._arrays[name]
        before = row[runs]
        row[runs] = column
        # Texts are rarely there, and take long to write.
        if name == "error" and np.all(row[runs] == before) and not self._stored.damaged[cell, runs].any():
            return
        step = array.chunks[1]
        for start in np.unique(runs // step * step).tolist():
            array[cell, start : start + step] = row[start : start + step]
