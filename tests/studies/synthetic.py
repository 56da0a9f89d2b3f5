"""Datasets of studies with planted values, as `open_study` would return them."""

import json

import numpy as np
import xarray as xr

from adobest_pp.studies import Study, cells_of
from adobest_pp.studies.grid import axes_of

# One axis of text, three of numbers; "plain" has no kappa.
GRID = [
    {"K": [10], "epsilon": [0.5, 1.0, 5.0], "kappa": [0.8, 0.9], "rho": [0.1, 1.0], "kind": ["sharp", "dull"]},
    {"K": [10], "epsilon": [0.5, 1.0, 5.0], "rho": [0.1, 1.0], "kind": ["plain"]},
]


def dataset(value=None, *, runs=9, grid=GRID, noise=0.1, seed=3, measures=("loss", "size"), **settings):
    """Build a study. `value` maps the settings of a cell to the level of its measures."""
    content = {"name": "synthetic", "runs": runs, "seed": 5, "measures": list(measures), "grid": grid}
    made = Study.from_dict(content | {"settings": settings, "run": "tests.studies.own_runs:coin_run"})
    cells, rng = cells_of(made), np.random.default_rng(seed)
    levels = np.array([value(cell) if value else 1.0 for cell in cells])
    draws = {name: levels[:, None] * np.exp(rng.normal(0, noise, (len(cells), runs))) for name in measures}
    variables = {name: (("cell", "run"), values) for name, values in draws.items()}
    variables["status"] = (("cell", "run"), np.ones((len(cells), runs), dtype=np.int8))
    coordinates = {}
    for name in axes_of(made):
        empty = "" if any(isinstance(cell.get(name), str) for cell in cells) else np.nan
        coordinates[name] = ("cell", np.array([cell.get(name, empty) for cell in cells]))
    attributes = {"study": json.dumps(made.to_dict()), "study_hash": "abc"}
    attributes |= {"accepted_sources": "[]", "created_with": json.dumps({"adobest_pp": "0.0.0"})}
    return xr.Dataset(variables, coords=coordinates | {"run": np.arange(runs)}, attrs=attributes)


def without(data, **missing):
    """Mark the runs of the cells with these settings as not run."""
    result = data.copy(deep=True)
    chosen = np.all([result[name].values == value for name, value in missing.items()], axis=0)
    result["status"].values[chosen] = 0
    return result


def cell_of(table, **settings):
    """Return the one cell with these settings."""
    chosen = np.all([table[name].values == value for name, value in settings.items()], axis=0)
    (place,) = np.flatnonzero(chosen)
    return table.isel(cell=place)
