"""Studies with planted effects: the error of a cell is what a function says, times what all methods of a run share."""

import json

import numpy as np
import xarray as xr

UTILITIES = ("fisher", "entropy", "tv1", "tv2", "mse", "honest")
SEMI = ("semi_adaptive_0.2", "semi_adaptive_0.6", "semi_adaptive_0.95")
METHODS = ("nonadaptive", *SEMI, *UTILITIES)
FIELDS = ("K", "epsilon", "kappa", "rho", "method", "budgets")
GRID = {"K": (10,), "epsilon": (0.5, 1.0, 5.0), "kappa": (0.8, 0.9), "rho": (0.01, 0.1, 1.0)}


def study(error=None, size=None, *, methods=METHODS, runs=30, noise=0.1, seed=3, budgets="theorem1", **settings):
    """Build a study. `error` and `size` map a dict of the cell's settings to the log error and to the average |S|."""
    grid = GRID | settings
    rng = np.random.default_rng(seed)
    # θ* of a run is hard or easy for all of its methods alike, and that by far outweighs the planted effects.
    shared = {(k, rho): rng.normal(0, 0.5, runs) for k in grid["K"] for rho in grid["rho"]}
    cells, tv, sizes = [], [], []
    for k in grid["K"]:
        for epsilon in grid["epsilon"]:
            for rho in grid["rho"]:
                for method in methods:
                    for kappa in grid["kappa"] if method in UTILITIES else (np.nan,):
                        cell = {"K": k, "epsilon": epsilon, "kappa": kappa, "rho": rho, "method": method}
                        cells.append(cell | {"budgets": budgets})
                        level = -1.0 + (error(cell) if error else 0.0)
                        tv.append(np.exp(level + shared[k, rho] + rng.normal(0, noise, runs)))
                        sizes.append((size(cell) if size else 2.0) + rng.normal(0, 0.1, runs))
    coordinates = {name: ("cell", np.array([cell[name] for cell in cells])) for name in FIELDS}
    epsilons = np.array([[cell["epsilon"]] * runs for cell in cells])
    variables = {
        "tv": (("cell", "run"), np.array(tv)),
        "mean_size": (("cell", "run"), np.array(sizes)),
        "true_epsilon": (("cell", "run"), epsilons * (1.6 if budgets == "published" else 1)),
        "status": (("cell", "run"), np.ones((len(cells), runs), dtype=np.int8)),
    }
    study = {"name": "synthetic", "runs": runs, "seed": 5, "run": "validation.paper.paper_run:paper_run"}
    study |= {"settings": {"people_per_category": 500}}
    attributes = {"study": json.dumps(study), "study_hash": "abc"}
    attributes |= {"accepted_sources": "[]", "created_with": json.dumps({"adobest_pp": "0.0.0"})}
    return xr.Dataset(variables, coords=coordinates | {"run": np.arange(runs)}, attrs=attributes)


def without(dataset, **missing):
    """Mark the runs of the cells with these settings as not run."""
    chosen = np.ones(dataset.sizes["cell"], dtype=bool)
    for name, value in missing.items():
        chosen &= dataset[name].values == value
    result = dataset.copy(deep=True)
    for name in ("tv", "mean_size", "true_epsilon"):
        result[name].values[chosen] = np.nan
    result["status"].values[chosen] = 0
    return result


def as_srr(main, factor, n=20):
    """Build a study as published, of the first `n` runs: each utility has SRR's error of that run, times a factor."""
    program = study(methods=UTILITIES, budgets="published", runs=n)
    for i in range(program.sizes["cell"]):
        same = (main.epsilon.values == program.epsilon.values[i]) & (main.rho.values == program.rho.values[i])
        (srr,) = np.flatnonzero(same & (main.method.values == "nonadaptive"))
        program["tv"].values[i] = factor * main.tv.values[srr, :n]
    return program
