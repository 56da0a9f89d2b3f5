"""A small study, made with and without the engine, and the ways to start and kill one."""

import os
import subprocess
import sys
import time
import tomllib
from functools import cache
from pathlib import Path

import numpy as np

from adobest_pp.studies import Study, cells_of, open_study, study_status
from adobest_pp.studies.runs import run_once

ROOT = Path(__file__).parent.parent.parent
# The runs take about 20 ms: together a few seconds on two cores, enough to be interrupted.
FILE = """
name = "small"
runs = 20
seed = 5
measures = ["tv", "mean_size", "honest", "true_epsilon"]
people_per_category = 700

[grid]
K = [3, 4]
epsilon = [1.0]
kappa = [0.8]
rho = [0.1, 1.0]
method = ["nonadaptive", "semi_adaptive_0.6", "honest"]
"""
PATIENCE = 120.0


def settings(**changes):
    """What the file above says, with other values for some keys."""
    plain = tomllib.loads(FILE)
    grid = {
        key: changes.pop(key)
        for key in list(changes)
        if key in (*plain["grid"], "mechanism", "prior", "sampler", "budgets")
    }
    return plain | changes | {"grid": plain["grid"] | grid}


def study(**changes):
    return Study.from_dict(settings(**changes))


@cache
def expected(made):
    """Every measure of every run, (cell, run), straight from `run_once` in this process."""
    values = {name: np.empty((len(cells_of(made)), made.runs)) for name in made.measures}
    for i, cell in enumerate(cells_of(made)):
        for run in range(made.runs):
            for name, value in run_once(cell, made.seed, run, made.measures).items():
                values[name][i, run] = value
    return values


def assert_complete(store, made):
    """The store has every run of the study, and each number is the very one that a plain loop gives."""
    dataset = open_study(store)
    assert (dataset["status"] == 1).all()
    for name, values in expected(made).items():
        np.testing.assert_array_equal(dataset[name], values, strict=True)


def assert_partial(store, made):
    """What is done has its number already, and everything else has none."""
    dataset = open_study(store)
    done = dataset["status"].values == 1
    for name, values in expected(made).items():
        np.testing.assert_array_equal(dataset[name], np.where(done, values, np.nan))


def start(*arguments):
    """Start ``adobest study …`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "adobest_pp", "study", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
    )


def finish(process):
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def wait_until(condition, process=None):
    """Wait for a condition, or fail after a long time, or once the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def wait_for_runs(store, process, at_least=1):
    """Wait until some runs are committed; return how many are still missing."""
    wait_until(lambda: (store / "zarr.json").exists() and study_status(store).done >= at_least, process)
    return study_status(store).missing
