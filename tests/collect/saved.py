"""What the tests of saved collections share: people who answer, and a look into the file."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from adobest_pp import RRRR, AdaptiveCollector
from adobest_pp._files import JOURNAL

MECHANISM = RRRR(5, 1.0, 0.8)
LABELS = ["a", "b", "c", "d", "<e>"]


def answer_all(collector, x, seed):
    """Ask people one by one; the answers are simulated so that two collectors can be given the same."""
    rng = np.random.default_rng(seed)
    published = []
    for person in x:
        subset = collector.next_subset()
        published.append(subset.tolist())
        collector.record(collector.mechanism.privatize(person, subset=subset, rng=rng))
    return published


def people(n, seed=0):
    return np.random.default_rng(seed).choice(5, size=n, p=[0.5, 0.3, 0.1, 0.1, 0])


def copied(path):
    """Return a copy of what is on disk now: as if the process had been killed."""
    copy = Path(tempfile.mkdtemp(dir=path.parent.parent)) / path.name
    shutil.copy(path, copy)
    return copy


def reload(path):
    """Load a copy, since the file itself is in use."""
    return AdaptiveCollector.load(copied(path))


def split(path):
    """Return the netCDF part of a collection's file, its three lines of heading, and the lines of its journal."""
    content = Path(path).read_bytes()
    at = content.rindex(JOURNAL)
    lines = content[at:].splitlines(keepends=True)
    return content[:at], lines[:3], lines[3:]


def assert_same(first, second):
    assert first._state() == second._state()
    xr.testing.assert_identical(first.responses.to_xarray(), second.responses.to_xarray())
    xr.testing.assert_identical(first.estimate(50), second.estimate(50))
