"""The store: what it holds, what it refuses, and what a write that breaks off leaves of it."""

import errno
import json
import os
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
import zarr

import adobest_pp
from adobest_pp.studies import cells_of, open_study, run_study, study_status
from adobest_pp.studies.layout import create
from adobest_pp.studies.measures import CELL
from adobest_pp.studies.outcomes import DONE, FAILED, NOT_RUN, Outcome
from adobest_pp.studies.reading import _rate, export_study
from adobest_pp.studies.store import StudyStore
from tests.studies.small import assert_complete, assert_partial, study


def outcome(made, run, value):
    return Outcome(run, {name: value + i for i, name in enumerate(made.measures)}, 0.25)


@pytest.fixture
def made():
    return study(runs=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.zarr"


def test_plain_xarray_opens_a_partly_finished_study_with_all_its_labels(made, path):
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0), outcome(made, 0, 20.0)])
        store.commit(3, [Outcome(1, {}, 0.5, "ValueError: this — and that")])
    dataset = xr.open_zarr(path).load()
    cells = cells_of(made)
    assert dict(dataset.sizes) == {"cell": len(cells), "run": 4}
    assert dataset["K"].values.tolist() == [cell.n_categories for cell in cells]
    for name in ("epsilon", "rho", "mechanism", "method", "prior", "sampler", "budgets"):
        assert dataset[name].dims == ("cell",)
        assert dataset[name].values.tolist() == [getattr(cell, name) for cell in cells]
    kappa = [np.nan if cell.kappa is None else cell.kappa for cell in cells]
    np.testing.assert_array_equal(dataset["kappa"], kappa)
    assert dataset["status"].values[1].tolist() == [DONE, NOT_RUN, DONE, NOT_RUN]
    assert dataset["status"].values[3].tolist() == [NOT_RUN, FAILED, NOT_RUN, NOT_RUN]
    np.testing.assert_array_equal(dataset["tv"][1], [20.0, np.nan, 10.0, np.nan])
    np.testing.assert_array_equal(dataset["mean_size"][1], [21.0, np.nan, 11.0, np.nan])
    assert dataset["error"].values[3, 1] == "ValueError: this — and that"
    assert int((dataset["error"] != "").sum()) == 1
    assert dataset["tv"].attrs["units"] == "1"
    assert json.loads(dataset.attrs["study"]) == made.to_dict()
    assert dataset.attrs["adobest_pp_version"] == adobest_pp.__version__
    assert json.loads(dataset.attrs["method_labels"])["nonadaptive"] == "non-adaptive SRR"
    xr.testing.assert_equal(open_study(path)["tv"], dataset["tv"].assign_coords(open_study(path)["tv"].coords))


def test_what_waits_is_what_is_missing_and_failed_runs_on_demand(made, path):
    with StudyStore(path, made) as store:
        store.commit(2, [outcome(made, 1, 1.0), Outcome(3, {}, 0.1, "no")])
        assert store.waiting(2).tolist() == [0, 2]
        assert store.waiting(2, retry_failed=True).tolist() == [0, 2, 3]
        assert store.waiting(0).tolist() == [0, 1, 2, 3]
        assert store.counts() == {NOT_RUN: 4 * len(cells_of(made)) - 2, DONE: 1, FAILED: 1}
        store.commit(2, [outcome(made, 3, 5.0)])
    dataset = open_study(path)
    assert dataset["error"].values[2, 3] == ""
    assert dataset["tv"].values[2, 3] == 5.0


def test_more_runs_than_a_chunk_has(path):
    made = study(runs=1200)
    with StudyStore(path, made) as store:
        store.commit(0, [outcome(made, run, float(run)) for run in range(400, 1100)])
        assert store.waiting(0).tolist() == [*range(400), *range(1100, 1200)]
    np.testing.assert_array_equal(open_study(path)["tv"][0, 400:1100], np.arange(400.0, 1100.0))


def test_a_second_writer_is_refused(made, path):
    with StudyStore(path, made), pytest.raises(ValueError, match="store must not be in use by another process"):
        StudyStore(path, made)
    StudyStore(path, made).close()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"seed": 6}, r"\(seed is 5 there and 6 here\)"),
        ({"runs": 5}, r"\(runs is 4 there and 5 here\)"),
        ({"kappa": [0.9], "name": "other"}, r"\(name is small there and other here; kappa is \[0.8\] there"),
        ({"people_per_category": 3}, "people_per_category is 700 there and 3 here"),
    ],
)
def test_a_store_of_another_study_is_refused(made, path, changes, difference):
    StudyStore(path, made).close()
    with pytest.raises(ValueError, match=difference):
        run_study(study(**({"runs": 4} | changes)), path, workers=1)


def test_a_store_of_another_version_is_refused(made, path, monkeypatch):
    StudyStore(path, made).close()
    monkeypatch.setattr(adobest_pp, "__version__", "9.9.9")
    with pytest.raises(ValueError, match=rf"this version of adobest_pp, 9\.9\.9, got '{path}' of 0\."):
        StudyStore(path, made)


def test_what_is_no_store_is_refused_and_left_alone(made, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    zarr.create_group(tmp_path / "other.zarr")
    for name in ("folder", "file", "other.zarr"):
        with pytest.raises(ValueError, match="store must be a folder made by `adobest study run`"):
            StudyStore(tmp_path / name, made)
        with pytest.raises(ValueError, match="store must be a folder made by `adobest study run`"):
            open_study(tmp_path / name)
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "other.zarr"]
    with pytest.raises(FileNotFoundError, match="store must be in a folder that exists"):
        StudyStore(tmp_path / "nowhere" / "small.zarr", made)


class FullDisk:
    """Writes that succeed a number of times, and then find the disk full."""

    def __init__(self, monkeypatch, room):
        self.room, self.writes = room, 0
        plain = zarr.storage._local._put

        def put(path, value, exclusive=False):
            self.writes += 1
            if self.writes > self.room:
                # Half of it is on disk by then.
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".0123.partial").write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device")
            return plain(path, value, exclusive)

        monkeypatch.setattr(zarr.storage._local, "_put", put)


def test_a_write_that_breaks_off_anywhere_is_as_if_it_had_not_been_made(made, path):
    with pytest.MonkeyPatch.context() as patch, StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0)])
        disk = FullDisk(patch, room=1000)
        store.commit(0, [outcome(made, 1, 2.0)])
    before, writes = open_study(path), disk.writes
    assert writes >= len(made.measures) + 2
    for room in range(writes):
        with pytest.MonkeyPatch.context() as patch, StudyStore(path, made) as store:
            FullDisk(patch, room)
            with pytest.raises(OSError, match=r"could not be written to .*No space left.*once there is room"):
                store.commit(0, [outcome(made, 2, 3.0)])
        after = open_study(path)
        for name in ("status", *made.measures):
            xr.testing.assert_identical(after[name], before[name])
    with StudyStore(path, made) as store:
        assert not list(path.rglob("*.partial"))
        store.commit(0, [outcome(made, 2, 3.0)])
    assert open_study(path)["tv"].values[0, :3].tolist() == [1.0, 2.0, 3.0]


def test_a_second_attempt_that_breaks_off_anywhere_leaves_the_failure_with_its_error_or_neither(made, tmp_path):
    def failed_once(name):
        with StudyStore(tmp_path / name, made) as store:
            store.commit(0, [Outcome(0, {}, 0.1, "no"), Outcome(1, {}, 0.1, "neither")])

    failed_once("whole.zarr")
    with pytest.MonkeyPatch.context() as patch, StudyStore(tmp_path / "whole.zarr", made) as store:
        disk = FullDisk(patch, room=1000)
        store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.1, "still not")])
    found = set()
    for room in range(disk.writes + 1):
        failed_once(f"{room}.zarr")
        with pytest.MonkeyPatch.context() as patch, StudyStore(tmp_path / f"{room}.zarr", made) as store:
            FullDisk(patch, room)
            with suppress(OSError):
                store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.1, "still not")])
        # Also as plain xarray opens it: nothing failed is without its error.
        for dataset in (xr.open_zarr(tmp_path / f"{room}.zarr").load(), open_study(tmp_path / f"{room}.zarr")):
            status, errors = dataset["status"].values[0, :2].tolist(), dataset["error"].values[0, :2].tolist()
            assert status[1] == FAILED
            assert errors[1] in ("neither", "still not")
            assert (status[0], errors[0]) == (FAILED, "no") or status[0] == DONE
        assert errors[0] == ("no" if status[0] == FAILED else "")
        # What the second attempt had written by then does not belong to the failure of the first.
        assert np.isnan(dataset["tv"].values[0, 0]) == (status[0] == FAILED)
        found.add(status[0])
    assert found == {FAILED, DONE}


def test_a_first_failure_that_breaks_off_anywhere_is_never_without_its_error(made, tmp_path):
    found = set()
    for room in range(len(made.measures) + 5):
        path = tmp_path / f"{room}.zarr"
        with pytest.MonkeyPatch.context() as patch, StudyStore(path, made) as store:
            FullDisk(patch, room)
            with suppress(OSError):
                store.commit(0, [Outcome(0, {}, 0.1, "no")])
        dataset = xr.open_zarr(path).load()
        status, error = int(dataset["status"].values[0, 0]), str(dataset["error"].values[0, 0])
        assert status != FAILED or error == "no"
        found.add(status)
    assert found == {NOT_RUN, FAILED}


def test_what_was_written_of_a_run_in_flight_is_not_shown(made, path):
    with pytest.MonkeyPatch.context() as patch, StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.5, "no")])
        patch.setitem(store._arrays, "status", None)  # killed before the last write
        with pytest.raises(AttributeError):
            store.commit(0, [outcome(made, 2, 2.0), Outcome(3, {}, 0.5, "neither")])
    assert not xr.open_zarr(path)["seconds"][0].isnull().any()
    dataset = open_study(path)
    np.testing.assert_array_equal(dataset["seconds"][0], [0.25, 0.5, np.nan, np.nan])
    assert dataset["finished_at"][0].isnull().values.tolist() == [False, False, True, True]
    assert dataset["error"].values[0].tolist() == ["", "no", "", ""]


def test_what_a_killed_process_of_the_same_number_left_is_in_nobodys_way(made, path):
    leftover = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    create(leftover, study(runs=9))
    StudyStore(path, made).close()
    assert os.listdir(path.parent) == [path.name]
    assert open_study(path).sizes["run"] == made.runs


def test_a_store_that_cannot_be_made_leaves_nothing_behind(made, path, monkeypatch):
    FullDisk(monkeypatch, room=3)
    with pytest.raises(OSError, match="No space left"):
        StudyStore(path, made)
    assert not os.listdir(path.parent)


def test_a_study_on_a_full_disk_stops_and_goes_on_when_there_is_room(path):
    made = study(runs=3, people_per_category=50)
    StudyStore(path, made).close()
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, room=33)
        with pytest.raises(OSError, match="No space left"):
            run_study(made, path, workers=1, progressbar=False)
    status = study_status(path)
    assert 0 < status.done < status.total
    assert_partial(path, made)
    run_study(made, path, workers=1, progressbar=False)
    assert_complete(path, made)


def test_status_tells_from_the_store_whether_it_is_being_written(made, path):
    with StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.1, "no"), Outcome(2, {}, 0.1, "no")])
        status = study_status(path)
        assert (status.done, status.failed, status.errors, status.running) == (1, 2, (("no", 2),), True)
        assert status.missing == status.total - 3
    assert not study_status(path).running


def test_the_rate_is_of_the_last_two_minutes():
    finished = np.array([np.nan, 100.0, 1000.0, 1000.0, 1010.0, 1020.0, 1020.0])
    assert _rate(finished, 1021.0) == pytest.approx(3 / 20)
    assert np.isnan(_rate(finished, 2000.0))
    assert np.isnan(_rate(np.array([1000.0, 1000.0]), 1001.0))


def test_export_is_the_same_in_both_formats(made, path, tmp_path):
    import pandas as pd

    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 0, 1 / 3), Outcome(3, {}, 0.1, 'a "quoted", text')])
    export_study(path, tmp_path / "results.nc")
    export_study(path, tmp_path / "results.csv")
    whole = xr.load_dataset(tmp_path / "results.nc")
    assert whole.attrs["study_hash"] == made.digest()
    np.testing.assert_array_equal(whole["tv"], open_study(path)["tv"])
    table = pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values={"tv": ""})
    assert table["run"].tolist() == [0, 3]
    assert tuple(table.columns[:11]) == ("cell", "run", *CELL)
    assert table["tv"][0] == 1 / 3
    assert table["error"].tolist() == ["", 'a "quoted", text']
    assert table["method"].tolist() == [cells_of(made)[1].method] * 2
    for wrong in (tmp_path / "results.xlsx", tmp_path / "nowhere" / "results.csv"):
        with pytest.raises(ValueError, match=r"out must name a \.nc or \.csv file"):
            export_study(path, wrong)
