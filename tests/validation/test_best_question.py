"""Runs that are kept with the code are read, grow by new cells, and are never taken for those of another study."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from adobest_pp.studies import cells_of
from adobest_pp.studies.grid import axes_of
from adobest_pp.studies.run_function import canonical
from validation import best_question, kept_runs, mechanisms


def runs_of(study, first=1.0):
    """Return what a store of the study would have, with numbers in the order of its cells."""
    cells = cells_of(study)
    values = first + np.arange(len(cells) * study.runs, dtype=float).reshape(len(cells), -1)
    axes = {name: ("cell", [cell.get(name, "") for cell in cells]) for name in axes_of(study)}
    for name in {"alpha", "kappa"} & {*axes}:
        axes[name] = ("cell", [cell.get(name, np.nan) for cell in cells])
    axes["run"] = np.arange(study.runs)
    attributes = {"study": json.dumps(study.to_dict()), "sources": json.dumps({"adobest_pp": "abc"})}
    return xr.Dataset(dict.fromkeys(study.measures, (("cell", "run"), values)), axes, attributes)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The quick study with its semi-adaptive cells, of which the file has all others."""
    study = best_question.study_of(True, seed=1)
    runs_of(replace(study, grid=study.grid[:2])).to_netcdf(tmp_path / "runs_4.nc", engine="h5netcdf")
    asked = []

    def make(study, cells, store):
        asked.extend(cells)
        grid = tuple({name: (value,) for name, value in cell.items() if name not in study.settings} for cell in cells)
        return runs_of(replace(study, grid=grid), first=1000.0)

    monkeypatch.setattr(kept_runs, "_make", make)
    return study, tmp_path, asked


def test_only_cells_that_are_not_kept_are_made(kept):
    study, folder, asked = kept
    runs = kept_runs.make_runs(study, folder / "stores", folder)
    new = [cell for cell in cells_of(study) if cell.get("utility") == "semi_adaptive"]
    assert list(map(canonical, asked)) == list(map(canonical, new))
    place = {"K": 4, "epsilon": 2.0, "rho": 0.1, "prior": "flat"}
    assert runs["exact_tv"].sel(place | {"mechanism": "srr"}).values.tolist() == [1.0, 2.0, 3.0]
    assert runs["exact_tv"].sel(place | {"mechanism": "semi_adaptive_0.9"}).values.tolist() == [1000.0, 1001.0, 1002.0]
    again = kept_runs.make_runs(study, folder / "stores", folder)
    assert len(asked) == len(new)
    xr.testing.assert_identical(again, runs)


def test_cells_with_too_few_runs_are_made_when_they_are_asked_for(kept):
    study, folder, asked = kept
    others = replace(study, grid=study.grid[:2])
    few = runs_of(others)
    few["exact_tv"].values[0, 2] = np.nan
    few.to_netcdf(folder / "runs_4.nc", engine="h5netcdf")
    place = {"K": 4, "epsilon": 2.0, "rho": 0.1, "prior": "flat", "mechanism": "srr"}
    runs = kept_runs.make_runs(others, folder / "stores", folder)
    assert not asked
    np.testing.assert_array_equal(runs["exact_tv"].sel(place), [1.0, 2.0, np.nan])
    runs = kept_runs.make_runs(others, folder / "stores", folder, complete=True)
    assert [canonical(cell) for cell in asked] == [canonical(cells_of(study)[0])]
    np.testing.assert_array_equal(runs["exact_tv"].sel(place), [1000.0, 1001.0, 1002.0])


def test_intervals_count_the_runs_that_there_are():
    values = np.random.default_rng(1).standard_normal(6)
    short = xr.DataArray([[*values[:4], np.nan, np.nan], values], dims=("K", "run"))
    _, low, high = best_question.interval(short)
    expected = stats.t.interval(0.95, 3, values[:4].mean(), stats.sem(values[:4]))
    assert (float(low[0]), float(high[0])) == pytest.approx(expected)
    assert best_question.pooled(short).size == 10


def test_some_cells_and_the_first_runs_may_be_asked_for(kept):
    study, folder, asked = kept
    few = replace(study, runs=2, grid=study.grid[:1], measures=study.measures[:1])
    runs = kept_runs.make_runs(few, folder / "stores", folder)
    assert not asked
    assert "honest" not in runs["mechanism"]
    assert runs["exact_tv"].sel(K=4, epsilon=2.0, rho=0.1, prior="flat", mechanism="srr").values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("change", [{"seed": 2}, {"runs": 4}, {"settings": {"people_per_category": 7}}], ids=str)
def test_runs_of_another_study_are_refused(kept, change):
    study, folder, _ = kept
    with pytest.raises(RuntimeError, match=rf"runs_4.nc has runs of another study \({next(iter(change))}\)"):
        kept_runs.make_runs(replace(study, **change), folder / "stores", folder)


def test_a_mechanism_that_was_not_run_for_some_k_is_missing_there(kept):
    study, folder, _ = kept
    others = tuple(block | {"n_categories": (4, 5)} for block in study.grid[:2])
    runs = kept_runs.make_runs(replace(study, grid=(*others, study.grid[2])), folder / "stores", folder)
    assert runs["exact_tv"].sel(K=5, mechanism="semi_adaptive_0.9").isnull().all()
    assert runs["exact_tv"].sel(mechanism="design").notnull().all()
    assert best_question.log_ratio(runs, "semi_adaptive_0.9", "srr")["K"].values.tolist() == [4]


def test_the_comparison_of_mechanisms_has_runs_of_the_best_question():
    part, whole = mechanisms.study_of(False, seed=1), best_question.study_of(False, seed=1)
    assert {*map(canonical, cells_of(part))} <= {*map(canonical, cells_of(whole))}
    assert (part.seed, part.settings, part.run) == (whole.seed, whole.settings, whole.run)
    assert part.runs <= whole.runs
    assert {*part.measures} <= {*whole.measures}


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
