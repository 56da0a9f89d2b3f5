"""Runs of the best question that are kept with the code are read, and never taken for those of another study."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from adobest_pp.studies import cells_of
from validation import best_question


@pytest.fixture
def kept(tmp_path):
    study = best_question.study_of(True, seed=1)
    keep(study, tmp_path / "runs_4.nc")
    return study, tmp_path


def keep(study, file):
    cells = cells_of(study)
    values = np.arange(len(cells) * study.runs, dtype=float).reshape(len(cells), -1)
    axes = {name: ("cell", [cell.get(name, "") for cell in cells]) for name in study.grid[-1]}
    axes["run"] = np.arange(study.runs)
    measures = dict.fromkeys(study.measures, (("cell", "run"), values))
    made = xr.Dataset(measures, axes, {"study": json.dumps(asdict(study))})
    made.to_netcdf(file, engine="h5netcdf")


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


@pytest.mark.parametrize("runs", [2, 4])
def test_a_k_with_fewer_or_more_runs_is_refused(kept, runs):
    study, folder = kept
    five = replace(study, grid=tuple({**block, "n_categories": (5,)} for block in study.grid))
    both = replace(study, grid=tuple({**block, "n_categories": (4, 5)} for block in study.grid))
    keep(five, folder / "runs_5.nc")
    assert best_question.make_runs(both, folder / "stores", folder).sizes["run"] == study.runs
    keep(replace(five, runs=runs), folder / "runs_5.nc")
    with pytest.raises(RuntimeError, match=r"runs_5.nc has runs of another study \(runs\)"):
        best_question.make_runs(both, folder / "stores", folder)


def test_intervals_are_those_of_student():
    values = np.random.default_rng(1).standard_normal((2, 6))
    mean, low, high = best_question.interval(xr.DataArray(values, dims=("K", "run")), n_comparisons=5)
    for row, made in enumerate(values):
        expected = stats.t.interval(1 - 0.05 / 5, made.size - 1, made.mean(), stats.sem(made))
        assert float(mean[row]) == pytest.approx(made.mean())
        assert (float(low[row]), float(high[row])) == pytest.approx(expected)


def test_what_is_asked_of_one_truth_counts_once():
    values = xr.DataArray([[1.0, 3.0], [4.0, 5.0]], dims=("K", "run"))
    assert best_question.pooled(values.expand_dims(epsilon=2)).values.tolist() == [1.0, 3.0, 4.0, 5.0]
