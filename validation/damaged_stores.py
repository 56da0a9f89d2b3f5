"""Stores of studies to be damaged (`damaged_files`): with done, failed and missing runs, closed or left by a kill."""

import itertools
import os
import random
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import xarray as xr

from adobest_pp.studies import Study, cells_of, open_study, study_status
from adobest_pp.studies import store as store_module
from adobest_pp.studies.grid import sources_of
from adobest_pp.studies.run_function import Outcome
from adobest_pp.studies.store import StudyStore

STUDY = Study.from_dict(
    {
        "name": "damaged",
        "run": "adobest_pp.studies.frequency_run:frequency_run",
        "runs": 6,
        "seed": 1,
        "measures": ["tv", "mean_size"],
        "settings": {"n_categories": 3, "rho": 1.0, "people": 10},
        "grid": {"epsilon": [0.5, 1.0], "mechanism": ["srr", "subset_selection"]},
    }
)


def outcome(cell: int, run: int) -> Outcome:
    """Return what becomes of a run: some fail."""
    if (cell + run) % 4 == 3:
        return Outcome(run, {}, 0.25, f"ValueError: run {run} — of cell {cell}")
    return Outcome(run, {"tv": 1 / (2 + cell + run), "mean_size": float(run)}, 0.5)


def write(path: Path) -> None:
    """Write a store that has done, failed and missing runs."""
    with StudyStore(path, STUDY) as store:
        for cell in range(3):
            store.commit(cell, [outcome(cell, run) for run in range(6 - 2 * cell)])


def write_killed(folder: Path) -> None:
    """Write a store whose process was killed while it committed a run."""
    folder.mkdir()
    moments, journal = random.Random(1), folder / "study.db-journal"
    write(folder / "study.db")
    while not journal.exists() or journal.stat().st_size == 0:
        kill_while_committing(folder / "study.db", moments.uniform(0, 0.02))
    (folder / "study.db-lock").unlink()  # an empty file, which says nothing


def kill_while_committing(path: Path, seconds: float) -> int:
    """Fork a process that commits runs one by one, kill it, and return how many it had committed for certain."""
    _sources()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with _same_sources(), StudyStore(path, STUDY) as store:
                for cell, run in itertools.cycle(itertools.product(range(4), range(6))):
                    store.commit(cell, [outcome(cell, run)])
                    os.write(writing, b".")
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        first = pipe.read(1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return len(first + pipe.read())


def read_killed(folder: Path) -> object:
    """Return whether every run of a store is as it was made: the last one may be there or not."""
    path = folder / "study.db"
    read(path)
    dataset = open_study(path)
    for cell, run in itertools.product(range(4), range(6)):
        here = dataset.isel(cell=cell, run=run)
        expected = outcome(cell, run)
        if here["status"] == 0:
            continue
        assert here["error"] == expected.error, "another error"
        assert all(here[name] == value for name, value in expected.measures.items()), "other measures"
    assert (dataset["status"][0] != 0).all(), "a run is lost"
    return True


@cache
def _sources() -> object:
    """Return which files make a run; finding them takes longer than reading a store."""
    return sources_of(STUDY)


def _same_sources() -> Any:
    return mock.patch.object(store_module, "sources_of", return_value=_sources())


def read(path: Path) -> object:
    """Return all that a store says, also to a process that goes on with it."""
    dataset: xr.Dataset = open_study(path)
    with _same_sources(), StudyStore(path, STUDY) as store:
        waiting = [store.waiting(cell).tolist() for cell in range(len(cells_of(STUDY)))]
    variables = {name: (values.dtype.str, values.values.tobytes()) for name, values in dataset.variables.items()}
    return variables, dataset.attrs, repr(study_status(path)), waiting


def repaired(path: Path) -> object:
    """Make damaged and missing runs again, and return what the store then says."""
    with StudyStore(path, STUDY, repair=True) as store:
        for cell in range(3):
            again = [outcome(cell, run) for run in store.waiting(cell).tolist()]
            if again:
                store.commit(cell, again)
    return read(path)
