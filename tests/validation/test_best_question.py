"""Runs of the best question that are kept with the code are read, and never taken for those of another study."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import xarray as xr

from adobest_pp.studies import cells_of
from validation import best_question


@pytest.fixture
def kept(tmp_path):
    study = best_question.study_of(True, seed=1)
    cells = cells_of(study)
    values = np.arange(len(cells) * study.runs, dtype=float).reshape(len(cells), -1)
    axes = {name: ("cell", [cell.get(name, "") for cell in cells]) for name in study.grid[-1]}
    measures = dict.fromkeys(study.measures, (("cell", "run"), values))
    made = xr.Dataset(measures, axes, {"study": json.dumps(asdict(study))})
    made.to_netcdf(tmp_path / "runs_4.nc", engine="h5netcdf")
    return study, tmp_path


def test_runs_that_are_kept_are_not_made_again(kept, monkeypatch):
    study, folder = kept
    monkeypatch.setattr(best_question, "run_study", lambda *_: pytest.fail("they are there"))
    runs = best_question.make_runs(study, folder / "stores", folder)
    first = runs["exact_tv"].sel(K=4, epsilon=2.0, rho=0.1, prior="flat", mechanism="srr")
    assert first.values.tolist() == [0.0, 1.0, 2.0]


def test_runs_of_another_study_are_refused(kept):
    study, folder = kept
    with pytest.raises(RuntimeError, match=r"runs_4.nc has runs of another study \(seed\)"):
        best_question.make_runs(replace(study, seed=2), folder / "stores", folder)
