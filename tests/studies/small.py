"""A small study, made with and without the engine, and the ways to start and kill one."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
import tomllib
from contextlib import closing
from pathlib import Path

import numpy as np

from adobest_pp.studies import Study, cells_of, open_study, run_once, study_status

ROOT = Path(__file__).parent.parent.parent
# The runs take about 20 ms: together a few seconds on two cores, enough to be interrupted.
FILE = """
name = "small"
runs = 20
seed = 5
measures = ["tv", "mean_size", "true_epsilon"]

[settings]
epsilon = 1.0
kappa = 0.8
sampler = "sgld"
people_per_category = 700

[grid]
n_categories = [3, 4]
rho = [0.1, 1.0]
utility = ["nonadaptive", "tv2", "honest"]
"""
PATIENCE = 120.0
_made = {}


def content(**changes):
    """What the file above says, with other values for some keys, settings and axes."""
    plain = tomllib.loads(FILE)
    for key, value in changes.items():
        place = plain if key in plain else plain["settings"] if key in plain["settings"] else plain["grid"]
        place[key] = value
    return plain


def study(**changes):
    return Study.from_dict(content(**changes))


def expected(made):
    """Every measure of every run, (cell, run), straight from `run_once` in this process."""
    key = made.digest(), made.runs
    if key not in _made:
        rows = [[run_once(made, cell, run) for run in range(made.runs)] for cell in cells_of(made)]
        _made[key] = {name: np.array([[run[name] for run in row] for row in rows]) for name in made.measures}
    return _made[key]


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
        start_new_session=True,  # a group of its own, to which Ctrl-C goes
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
        time.sleep(0.1)  # a look at a store takes some 20 ms of the processor


def wait_for_runs(store, process, at_least=1):
    """Wait until some runs are committed; return how many are still missing."""
    wait_until(lambda: store.exists() and study_status(store).done >= at_least, process)
    return study_status(store).missing


def forge(store, **attributes):
    """Change attributes in the header of a store, with the right checksum, as a stranger can compute it."""
    with closing(sqlite3.connect(store)) as connection, connection:
        parts = dict(connection.execute("SELECT name, value FROM parts"))
        header, head = json.loads(parts["header"]), json.loads(parts["head"])
        header["attributes"] |= attributes
        text = json.dumps(header)
        head[2] = hashlib.sha256(text.encode()).hexdigest()
        for name, value in (("header", text), ("head", json.dumps(head))):
            connection.execute("UPDATE parts SET value = ? WHERE name = ?", (value, name))
