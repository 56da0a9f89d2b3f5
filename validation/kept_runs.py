"""Runs that take hours, kept with the code: one netCDF file for each K, to which cells can be added.

A run is a function of the study's seed, of the settings of its cell and of its number. So a study may grow by new
cells: only their runs are made, and they are paired with those that are there. A cell may have fewer runs than the
study asks for; the others are NaN, and are left so until

    python -m validation.kept_runs studies/best_question.toml

makes all that is missing, which may take hours and goes on where it was interrupted.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adobest_pp._files import netcdf_bytes, write_whole
from adobest_pp.studies import Study, cells_of, open_study, read_study, run_study
from adobest_pp.studies.run_function import DONE, canonical

__all__ = ["KEPT", "STORES", "by_mechanism", "make_runs", "mechanism_of"]

KEPT = Path(__file__).parent / "best_question"
STORES = Path(__file__).parents[1] / "build" / "best_question"
# What two studies must have in common for a run of the one to be a run of the other.
_SAME = ("run", "seed", "settings")


def make_runs(study: Study, stores: Path = STORES, kept: Path = KEPT, *, complete: bool = False) -> xr.Dataset:
    """Return the measures by K, epsilon, rho, prior, mechanism and run; only cells that are not kept are made.

    Parameters
    ----------
    study : Study
        Its cells may be some of those that are kept, and its runs the first of theirs.
    stores : path
        Where runs are made; an interrupted program goes on there.
    kept : path
        The folder of the files. Those of new cells are added to it.
    complete : bool
        Whether to make cells with too few runs, too.
    """
    sizes = sorted({cell["n_categories"] for cell in cells_of(study)})
    found = [by_mechanism(_runs_of(study, k, stores, kept, complete), study) for k in sizes]
    # A mechanism that was not run for some K is missing there.
    return xr.concat(found, "K", join="outer")


def _runs_of(study: Study, k: int, stores: Path, kept: Path, complete: bool) -> xr.Dataset:
    file = kept / f"runs_{k}.nc"
    asked = [cell for cell in cells_of(study) if cell["n_categories"] == k]
    dataset = _read(study, file) if file.exists() else None
    if dataset is not None and complete:
        whole = dataset[study.measures[0]].isel(run=slice(study.runs)).notnull().all("run")
        dataset = dataset.isel(cell=np.flatnonzero(whole.values))
    known = [] if dataset is None else _keys(dataset, study)
    missing = [cell for cell in asked if canonical(cell) not in known]
    if missing:
        made = _make(study, missing, stores / f"{study.name}_{k}")
        dataset = made if dataset is None else _joined(dataset, made)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, netcdf_bytes(dataset), overwrite=True, name="out")
        known = _keys(dataset, study)
    assert dataset is not None
    places = [known.index(canonical(cell)) for cell in asked]
    return dataset.isel(cell=places, run=slice(study.runs))


def _make(study: Study, cells: list[dict[str, Any]], store: Path) -> xr.Dataset:
    """Make the runs of some cells in a store of their own."""
    axes = [{name: (value,) for name, value in cell.items() if name not in study.settings} for cell in cells]
    part = replace(study, grid=tuple(axes))
    store = store.with_name(f"{store.name}_{part.digest()}.db")
    store.parent.mkdir(parents=True, exist_ok=True)
    status = run_study(part, store)
    if status.done < status.total:
        raise RuntimeError(f"{status.failed} of {status.total} runs failed: {status.errors}")
    return _done(open_study(store).load())


def _done(dataset: xr.Dataset) -> xr.Dataset:
    """Return runs with NaN for those that are not done."""
    return dataset.where(dataset["status"] == DONE) if "status" in dataset else dataset


def _read(study: Study, file: Path) -> xr.Dataset:
    """Return the runs of a file, or raise RuntimeError if they are not of this study."""
    with xr.open_dataset(file) as opened:
        dataset = opened.load().drop_encoding()  # texts would be cut to the longest that the file has
    made = json.loads(dataset.attrs["study"])
    asked = study.to_dict()
    differ = [name for name in _SAME if made[name] != asked[name]]
    differ += ["measures"] if not {*asked["measures"]} <= {*made["measures"]} else []
    differ += ["runs"] if dataset.sizes["run"] < study.runs else []
    if differ:
        raise RuntimeError(f"{file.name} has runs of another study ({', '.join(differ)}): remove it to make them again")
    return dataset


def _joined(dataset: xr.Dataset, made: xr.Dataset) -> xr.Dataset:
    """Add cells, with NaN or no text for axes that only the others have; the attributes are those of both studies."""
    parts = [dataset, made]
    for name in {name for part in parts for name in part.coords if part[name].dims == ("cell",)}:
        kind = next(part[name].dtype for part in parts if name in part.coords)
        empty: Any = np.nan if kind.kind == "f" else ""
        parts = [
            part if name in part.coords else part.assign_coords({name: ("cell", [empty] * part.sizes["cell"])})
            for part in parts
        ]
    joined = xr.concat(parts, "cell", join="exact", combine_attrs="drop")
    first, second = (json.loads(part.attrs["study"]) for part in (dataset, made))
    joined.attrs = dataset.attrs | {"study": json.dumps(first | {"grid": [*first["grid"], *second["grid"]]})}
    added = [*json.loads(dataset.attrs.get("added", "[]")), json.loads(made.attrs["sources"])]
    return joined.assign_attrs(added=json.dumps(added))


def _keys(dataset: xr.Dataset, study: Study) -> list[str]:
    """Return the settings of each cell as `canonical` has them."""
    axes = {str(name): dataset[name].values.tolist() for name in dataset.coords if dataset[name].dims == ("cell",)}
    rows = [dict(zip(axes, values, strict=True)) for values in zip(*axes.values(), strict=True)]
    return [canonical(dict(study.settings) | {n: v for n, v in row.items() if v == v and v != ""}) for row in rows]


def by_mechanism(dataset: xr.Dataset, study: Study) -> xr.Dataset:
    """Return the measures of a study's runs by its axes, with the utilities among the mechanisms."""
    axes = {"K": "n_categories", "epsilon": "epsilon", "rho": "rho", "prior": "prior"}
    values = {name: ("cell", dataset[axis].values) for name, axis in axes.items()}
    columns = {name: dataset[name].values.tolist() for name in ("mechanism", "utility", "alpha") if name in dataset}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    values["mechanism"] = ("cell", np.array([mechanism_of(row) for row in rows], dtype=object))
    measures = dataset[list(study.measures)].reset_coords(drop=True)
    return measures.assign_coords(values).set_index(cell=list(values)).unstack("cell")


def mechanism_of(cell: Mapping[str, Any]) -> str:
    """Return the name of what a cell runs: its mechanism, its utility where it has one, and α where that has one."""
    name = str(cell.get("utility") or cell["mechanism"])
    alpha = cell.get("alpha")
    return name if alpha is None or alpha != alpha else f"{name}_{alpha:g}"


if __name__ == "__main__":
    make_runs(read_study(sys.argv[1]), complete=True)
