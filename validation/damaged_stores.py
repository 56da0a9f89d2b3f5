"""Stores of studies to be damaged (`damaged_files`): with done, failed and missing runs, whole or half-committed."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest import mock

import xarray as xr

from adobest_pp.studies import Study, cells_of, open_study, study_status
from adobest_pp.studies import store as store_module
from adobest_pp.studies.layout import sources_of
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


def write_half(path: Path) -> None:
    """Write a store whose process was killed while it committed a batch."""
    write(path)
    with StudyStore(path, STUDY) as store, suppress(OSError):
        column = store._write_column

        def full(name: str, *rest: object) -> None:
            if name == "status":
                raise OSError("no room")
            column(name, *rest)  # type: ignore[arg-type]

        with mock.patch.object(store, "_write_column", full):
            store.commit(2, [outcome(2, run) for run in range(2, 5)])


@cache
def _sources() -> object:
    """Return which files make a run; finding them takes longer than reading a store."""
    return sources_of(STUDY)


def read(path: Path) -> object:
    """Return all that a store says, also to a process that goes on with it."""
    dataset: xr.Dataset = open_study(path)
    same = mock.patch.object(store_module, "sources_of", return_value=_sources())
    with same, StudyStore(path, STUDY) as store:
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
