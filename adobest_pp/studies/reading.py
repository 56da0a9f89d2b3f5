"""Read a store, also while another process writes to it."""

import json
import math
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_path
from adobest_pp._files import check_target, netcdf_bytes, replacing, write_whole
from adobest_pp._text import csv_cell
from adobest_pp.studies.batches import DONE, FAILED, NOT_RUN
from adobest_pp.studies.layout import coordinates_of
from adobest_pp.studies.locks import is_locked
from adobest_pp.studies.runs import read_store, refuse_damaged

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["StudyStatus", "axes_in", "export_study", "open_study", "study_status"]

_RATE_SECONDS = 120.0


@dataclass(frozen=True)
class StudyStatus:
    """How far a study is.

    `errors` are the texts of failed runs with how many have them, most frequent first; `rate` is runs a second
    of late, and `seconds_left` follows from it (both NaN unless a process is at work).
    """

    name: str
    total: int
    done: int
    failed: int
    damaged: int
    errors: tuple[tuple[str, int], ...]
    running: bool
    rate: float
    seconds_left: float

    @property
    def missing(self) -> int:
        """Runs that are neither done nor failed nor damaged."""
        return self.total - self.done - self.failed - self.damaged


def open_study(path: str | os.PathLike[str]) -> "xr.Dataset":
    """Read a store, finished or not, into memory.

    Parameters
    ----------
    path : path
        What ``adobest study run`` wrote. ``xarray.open_zarr(path)`` opens it as well, and checks less.

    Returns
    -------
    xarray.Dataset
        Measures by ``cell`` and ``run``, NaN where `status` is not 1 (done); how long a run took and when it was over,
        NaN where `status` is 0 (not run); the settings of each cell as coordinates along ``cell``.

    Raises
    ------
    ValueError
        If the store is damaged; it names the damaged runs.
    """
    import xarray as xr

    source = check_path(path)
    root, stored = read_store(source)
    refuse_damaged(source, stored)
    described = root["consolidated_metadata"]["metadata"]
    labels = {
        name: values.astype(str) if values.dtype == object else values
        for name, values in coordinates_of(stored.study).items()
    }
    coordinates = {name: ("cell", values) for name, values in labels.items()}
    run = ("run", np.arange(stored.study.runs), described["run"]["attributes"])
    variables = {
        name: (("cell", "run"), values.astype(str) if name == "error" else values, described[name]["attributes"])
        for name, values in stored.values.items()
        if name != "checksum"
    }
    attributes = {name: value for name, value in root["attributes"].items() if name not in ("checksum", "coordinates")}
    return xr.decode_cf(xr.Dataset(variables, coords={**coordinates, "run": run}, attrs=attributes))


def axes_in(dataset: "xr.Dataset") -> list[str]:
    """Return the names of the axes of a study's dataset, in the order of its file."""
    blocks = json.loads(dataset.attrs.get("study", "{}")).get("grid", [])
    found = {str(name) for name, values in dataset.coords.items() if values.dims == ("cell",)} - {"cell", "label"}
    return [*dict.fromkeys(name for block in [*blocks, *[dataset.coords]] for name in block if name in found)]


def study_status(path: str | os.PathLike[str]) -> StudyStatus:
    """Return how far a study is, from its store alone, also while it is run by another process."""
    source = check_path(path)
    _, stored = read_store(source)
    status = np.where(stored.damaged, NOT_RUN, stored.values["status"])
    done, failed = (int(np.count_nonzero(status == code)) for code in (DONE, FAILED))
    damaged = int(np.count_nonzero(stored.damaged))
    errors = Counter(stored.values["error"][status == FAILED].tolist())
    running = is_locked(source)
    rate = _rate(stored.values["finished_at"], time.time()) if running else math.nan
    left = (status.size - done - failed) / rate if rate > 0 else math.nan
    counts = (status.size, done, failed, damaged)
    return StudyStatus(stored.study.name, *counts, tuple(errors.most_common()), running, rate, left)


def export_study(path: str | os.PathLike[str], out: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a store to one file.

    Parameters
    ----------
    path : path
        What ``adobest study run`` wrote.
    out : path
        Where to write: ``.nc`` is the dataset of `open_study` in netCDF, ``.csv`` a table with one row for each run
        that is done or failed, and the settings of its cell in every row.
    overwrite : bool, default False
        Replace a file that is there.
    """
    target = Path(out)
    if target.suffix not in (".nc", ".csv") or not target.parent.is_dir():
        raise ValueError(f"out must name a .nc or .csv file in a folder that exists, got {str(target)!r}")
    check_target(target, overwrite=overwrite, name="out")
    dataset = open_study(path)
    if target.suffix == ".nc":
        write_whole(target, netcdf_bytes(dataset), overwrite=overwrite, name="out")
        return
    table = dataset.to_dataframe().reset_index().map(csv_cell)
    names = ["cell", "run", *axes_in(dataset), *dataset.data_vars]
    with replacing(target, overwrite=overwrite, name="out") as temporary:
        table[table["status"] != NOT_RUN].to_csv(temporary, index=False, columns=names)


def _rate(finished_at: NDArray[np.float64], now: float) -> float:
    """Return runs a second over the last two minutes; NaN where fewer than two batches came in."""
    late = finished_at[finished_at > now - _RATE_SECONDS]
    if late.size == 0 or late.max() == late.min():
        return math.nan
    return float(np.count_nonzero(late > late.min()) / (late.max() - late.min()))
