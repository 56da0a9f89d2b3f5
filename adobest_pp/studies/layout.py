"""How the dataset of a study is laid out in Zarr, and how it comes into being: whole, or not at all."""

import json
import math
import os
import platform
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

import adobest_pp
from adobest_pp._text import brief
from adobest_pp.studies.grid import Cell, Study, cells_of
from adobest_pp.studies.measures import CELL, MEASURES
from adobest_pp.studies.methods import method_label
from adobest_pp.studies.outcomes import DONE, FAILED, NOT_RUN

__all__ = ["check_same", "create", "read_attributes", "run_variables"]

# A few kilobytes: a batch rewrites the chunks that it is in.
_RUNS_IN_A_CHUNK = 500


def run_variables(study: Study) -> dict[str, dict[str, Any]]:
    """Return dtype, value where nothing is written, and attributes of every variable with a place for each run."""
    numbers = {name: MEASURES[name] for name in study.measures} | {"seconds": ("time that the run took", "s")}
    variables: dict[str, dict[str, Any]] = {
        name: {"dtype": "float64", "fill_value": math.nan, "attributes": {"long_name": long_name, "units": units}}
        for name, (long_name, units) in numbers.items()
    }
    variables["finished_at"] = {
        "dtype": "float64",
        "fill_value": math.nan,
        "attributes": {"long_name": "when the run was committed", "units": "seconds since 1970-01-01"},
    }
    variables["error"] = {"dtype": "string", "fill_value": "", "attributes": {"long_name": "error of a failed run"}}
    variables["status"] = {
        "dtype": "int8",
        "fill_value": NOT_RUN,
        "attributes": {
            "long_name": "what became of the run",
            "flag_values": [NOT_RUN, DONE, FAILED],
            "flag_meanings": "not_run done failed",
        },
    }
    return variables


def create(path: Path, study: Study) -> None:
    """Make the store of a study in which nothing has been run, unless another process has just made it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"store must be in a folder that exists, got {str(path)!r}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed, and had the same number
    try:
        _fill(temporary, study)
        temporary.rename(path)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fill(path: Path, study: Study) -> None:
    cells = cells_of(study)
    group = zarr.create_group(path, zarr_format=3, attributes=_attributes(study, cells))
    for name, settings in run_variables(study).items():
        group.create_array(
            name,
            shape=(len(cells), study.runs),
            chunks=(1, min(study.runs, _RUNS_IN_A_CHUNK)),
            dimension_names=("cell", "run"),
            compressors=None,  # a chunk is smaller than what reading it takes
            **settings,
        )
    numbers = np.arange(study.runs)
    group.create_array("run", data=numbers, dimension_names=("run",), attributes={"long_name": "number of the run"})
    for name, values in _coordinates(cells).items():
        array: Any = group.create_array(
            name,
            shape=values.shape,
            dtype="string" if values.dtype == object else values.dtype,
            dimension_names=("cell",),
            attributes={"long_name": CELL[name]},
        )
        array[:] = values
    with warnings.catch_warnings():
        # Zarr 3 does not yet have it in its specification; plain xr.open_zarr looks for it all the same.
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part", UserWarning)
        zarr.consolidate_metadata(path)


def _coordinates(cells: Sequence[Cell]) -> dict[str, NDArray[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in CELL}
    for cell in cells:
        settings = asdict(cell) | {"K": cell.n_categories, "kappa": math.nan if cell.kappa is None else cell.kappa}
        for name, column in columns.items():
            column.append(settings[name])
    texts = ("mechanism", "method", "prior", "sampler", "budgets")
    return {name: np.array(column, dtype=object if name in texts else None) for name, column in columns.items()}


def _attributes(study: Study, cells: Sequence[Cell]) -> dict[str, Any]:
    libraries = {name: version(name) for name in ("numpy", "numba", "scipy")}
    return {
        "title": f"study {study.name!r}",
        "study": json.dumps(study.to_dict()),
        "study_hash": study.digest(),
        "adobest_pp_version": adobest_pp.__version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "created_with": json.dumps({"python": platform.python_version(), **libraries}),
        "method_labels": json.dumps({name: method_label(name) for name in study.method}),
        "coordinates": " ".join(CELL),
    }


def read_attributes(path: Path) -> dict[str, Any]:
    """Return what the store says of itself, or refuse what is not one."""
    try:
        attributes: dict[str, Any] = dict(json.loads((path / "zarr.json").read_bytes())["attributes"])
    except (OSError, ValueError, KeyError, TypeError):
        attributes = {}
    if "study_hash" not in attributes:
        raise ValueError(f"store must be a folder made by `adobest study run`, got {brief(str(path))}")
    return attributes


def check_same(attributes: Mapping[str, Any], study: Study, path: Path) -> None:
    """Refuse a store of another version or study, with what differs."""
    made_by = attributes["adobest_pp_version"]
    if made_by != adobest_pp.__version__:
        raise ValueError(
            f"store must be of this version of adobest_pp, {adobest_pp.__version__}, got {str(path)!r} of {made_by}"
        )
    if attributes["study_hash"] != study.digest():
        there, here = (_flat(settings) for settings in (json.loads(attributes["study"]), study.to_dict()))
        keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        differences = "; ".join(f"{key} is {there.get(key)} there and {here.get(key)} here" for key in keys)
        raise ValueError(f"store must be of this study: {str(path)!r} was made for another ({differences})")


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in settings.items() if key != "grid"}, **settings["grid"]}
