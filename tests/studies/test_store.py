"""The store: what it holds, what it refuses, and what a write that breaks off leaves of it."""

import csv
import errno
import json
import os
import pickle
import shutil
import sys
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import vlen_utf8

import adobest_pp
from adobest_pp.studies import Study, cells_of, layout, open_study, run_study, runs, study_status
from adobest_pp.studies import store as locks
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Outcome
from adobest_pp.studies.store import StudyStore
from adobest_pp.studies.summary import _rate, export_study
from tests.refusals import refuses
from tests.studies.small import assert_complete, assert_partial, study


def outcome(made, run, value):
    return Outcome(run, {name: value + i for i, name in enumerate(made.measures)}, 0.25)


@pytest.fixture
def made():
    return study(runs=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.zarr"


def test_reading_a_store_imports_nothing(made, path, tmp_path, monkeypatch):
    """The function of a run is imported by those who run the study, not by those who look at it."""
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0)])
    root = json.loads((path / "zarr.json").read_text())
    told = json.loads(root["attributes"]["study"])
    settings = {"run": "stranger:run", "settings": {"mechanism": "stranger:Class"}}
    root["attributes"]["study"] = json.dumps(told | settings)
    root["attributes"]["sources"] = json.dumps({"stranger": "0"})
    layout._write_root(path, root)  # with a right checksum, as a stranger can compute it
    (tmp_path / "stranger.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert study_status(path).damaged == 1  # its checksum is over the settings, too
    for use in (open_study, lambda path: export_study(path, tmp_path / "runs.csv")):
        with refuses("store"):
            use(path)
    assert "stranger" not in sys.modules


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


FORGED = {
    "pickle": {"zarr_format": 2, "dtype": "<f8", "filters": [{"id": "pickle"}], "compressor": None, "order": "C"},
    "gzip": {"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}, {"name": "crc32c"}]},
    "large chunks": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**6, 500]}}},
    "transformer": {"storage_transformers": [{"name": "stranger"}]},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_strangers_description_of_an_array_does_not_reach_zarr(made, path, tmp_path, change, monkeypatch):
    """Zarr would unpickle, or unpack a few bytes to gigabytes; the checksum is right, for a stranger can count too."""
    with StudyStore(path, made):
        pass
    root = layout.read_root(path)
    forged = root["consolidated_metadata"]["metadata"]["tv"] | change
    root["consolidated_metadata"]["metadata"]["tv"] = forged
    layout._write_root(path, root)
    (path / "tv" / "zarr.json").write_text(json.dumps(forged))
    (path / "tv" / "0.0").write_bytes(pickle.dumps(Touch(tmp_path / "unpickled")))
    monkeypatch.setattr(zarr, "open_group", None)
    for reading in (study_status, open_study):
        with pytest.raises(ValueError, match=r"does not describe a study .*tv is described otherwise"):
            reading(path)
    assert not (tmp_path / "unpickled").exists()


def test_a_strangers_array_is_not_written_outside_the_store(made, path, tmp_path):
    with StudyStore(path, made):
        pass
    root = layout.read_root(path)
    arrays = root["consolidated_metadata"]["metadata"]
    arrays["../other"] = arrays["tv"]
    layout._write_root(path, root)
    with pytest.raises(ValueError, match="other arrays than those of the study"), StudyStore(path, made, repair=True):
        pass
    assert not (tmp_path / "other").exists()


def test_a_store_has_no_more_cells_than_its_files_can_hold(made, path, monkeypatch):
    """A few lines of zarr.json describe 10⁸ cells."""
    with StudyStore(path, made):
        pass
    root = layout.read_root(path)
    told = json.loads(root["attributes"]["study"])
    grid = [{"a": [*range(400)], "b": [*range(400)], "c": [*range(400)]}]
    root["attributes"]["study"] = json.dumps(told | {"grid": grid, "runs": 1})
    layout._write_root(path, root)
    monkeypatch.setattr(runs, "cells_of", None)
    with pytest.raises(ValueError, match="more cells than its files can hold"):
        study_status(path)


class Recording:
    """Notes how many texts Zarr's decoder makes room for."""

    def __init__(self, codec):
        self.codec, self.counts = codec, []

    def decode(self, content):
        self.counts.append(int.from_bytes(bytes(content)[:4], "little"))
        return self.codec.decode(content)


def test_a_file_of_texts_cannot_ask_for_more_room_than_it_has_places(made, path, monkeypatch):
    """Zarr makes room for as many texts as the first four bytes say."""
    with StudyStore(path, made) as store:
        store.commit(3, [Outcome(1, {}, 0.5, "ValueError: this")])
    (path / "error" / "c" / "3" / "0").write_bytes(texts(10**6))
    decoder = Recording(vlen_utf8._vlen_utf8_codec)
    monkeypatch.setattr(vlen_utf8, "_vlen_utf8_codec", decoder)
    status = study_status(path)
    assert (status.failed, status.damaged) == (0, 4)
    assert max(decoder.counts) <= layout.RUNS_IN_A_CHUNK


def texts(count):
    """A chunk of so many texts, with the checksum that Zarr asks for."""
    from google_crc32c import value

    content = count.to_bytes(4, "little")
    return content + value(content).to_bytes(4, "little")


@pytest.mark.parametrize("name", ["zarr.json", "journal.json", "tv/c", "tv/c/1/0"])
def test_a_link_in_a_store_is_not_followed(made, path, tmp_path, name):
    """It could lead to a device without an end, or to a pipe that keeps the reader waiting."""
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0)])
    place = path / name
    if place.exists():
        place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere" if (tmp_path / "elsewhere").exists() else "/dev/zero")
    with refuses("store"):
        study_status(path)
    place.unlink()
    if name == "journal.json":
        os.mkfifo(place)
        with refuses("store"):
            study_status(path)


def test_the_journal_of_another_study_is_refused(made, path, tmp_path):
    """Its runs would be taken for runs of this one."""
    other = study(runs=4, seed=made.seed + 1)
    with StudyStore(path, made), StudyStore(tmp_path / "other.zarr", other):
        pass
    batch = runs.RunJournal(1, (outcome(made, 2, 10.0),), 1.0)
    batch.write(tmp_path / "other.zarr", other.digest())
    assert study_status(tmp_path / "other.zarr").done == 1
    shutil.copy(tmp_path / "other.zarr" / "journal.json", path)
    with pytest.raises(ValueError, match=r"journal.json is damaged or of another study"):
        study_status(path)


@pytest.mark.parametrize(("cell", "run", "error"), [(48, 0, ""), (-1, 0, ""), (0, 4, ""), ("0", 0, ""), (0, 0, 1)])
def test_a_journal_of_no_batch_of_the_study_is_refused(made, path, cell, run, error):
    with StudyStore(path, made):
        pass
    runs.RunJournal(cell, (Outcome(run, {}, 0.5, error),), 1.0).write(path, made.digest())
    with pytest.raises(ValueError, match=r"journal.json is damaged or of another study"):
        study_status(path)


def test_plain_xarray_opens_a_partly_finished_study_with_all_its_labels(made, path):
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0), outcome(made, 0, 20.0)])
        store.commit(3, [Outcome(1, {}, 0.5, "ValueError: this — and that")])
    dataset = xr.open_zarr(path).load()
    cells = cells_of(made)
    assert dict(dataset.sizes) == {"cell": len(cells), "run": 4}
    for name in ("n_categories", "rho", "utility"):
        assert dataset[name].dims == ("cell",)
        assert name in dataset.coords
        assert dataset[name].values.tolist() == [cell[name] for cell in cells]
    assert dataset["status"].values[1].tolist() == [DONE, NOT_RUN, DONE, NOT_RUN]
    assert dataset["status"].values[3].tolist() == [NOT_RUN, FAILED, NOT_RUN, NOT_RUN]
    np.testing.assert_array_equal(dataset["tv"][1], [20.0, np.nan, 10.0, np.nan])
    np.testing.assert_array_equal(dataset["mean_size"][1], [21.0, np.nan, 11.0, np.nan])
    assert dataset["error"].values[3, 1] == "ValueError: this — and that"
    assert int((dataset["error"] != "").sum()) == 1
    assert dataset["tv"].attrs["units"] == "1"
    assert json.loads(dataset.attrs["study"]) == made.to_dict()
    made_with = json.loads(dataset.attrs["created_with"])
    assert made_with["adobest_pp"] == adobest_pp.__version__
    assert {"numpy", "numba", "python"} <= made_with.keys()
    assert "adobest_pp.adaptive.loop" in json.loads(dataset.attrs["sources"])
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
    with StudyStore(path, made), refuses("store"):
        StudyStore(path, made)
    StudyStore(path, made).close()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"seed": 6}, r"\(seed is 5 there and 6 here\)"),
        ({"runs": 3}, r"runs must be at least 4, as many as .* has of each cell, got 3: a store never loses runs"),
        (
            {"rho": [0.9], "name": "other"},
            r"\(name is small there and other here; rho is \[0.1, 1.0\] there and \[0.9\]",
        ),
        ({"measures": ["tv"]}, r"measures is \['tv', 'mean_size', 'true_epsilon'\] there and \['tv'\] here"),
        ({"people_per_category": 3}, "people_per_category is 700 there and 3 here"),
    ],
)
def test_a_store_of_another_study_is_refused(made, path, changes, difference):
    StudyStore(path, made).close()
    with pytest.raises(ValueError, match=difference):
        run_study(study(**({"runs": 4} | changes)), path, workers=1)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A study by a function in a file of its own, and the file."""
    file = tmp_path / "my_own_run.py"
    file.write_text("def run(run, x):\n    return {'y': x}\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = {"name": "own", "runs": 2, "seed": 1, "run": "my_own_run:run", "measures": ["y"], "grid": {"x": [1, 2]}}
    return Study.from_dict(content), file


def test_a_store_whose_sources_have_changed_is_refused_with_their_names(own, path):
    made, file = own
    StudyStore(path, made).close()
    file.write_text(file.read_text().replace("x}", "x + 1}"))
    with pytest.raises(
        ValueError, match=r"store must be of the same sources: my_own_run changed since .* was made; use"
    ):
        StudyStore(path, made)
    assert not study_status(path).running
    StudyStore(path, made, accept_changed_sources=True).close()
    StudyStore(path, made).close()
    (accepted,) = json.loads(open_study(path).attrs["accepted_sources"])
    assert accepted["changed"] == "my_own_run"
    file.write_text("def run(run, x):\n    return {'y': x}\n")
    with pytest.raises(ValueError, match="my_own_run changed"):
        StudyStore(path, made)


def test_axes_that_cells_do_not_have_are_empty_in_the_store(path):
    blocks = [{"x": [1, 2], "word": ["a"]}, {"y": [0.5], "theta": [[0.5, 0.5]]}]
    made = Study("axes", 1, 1, ("distance",), tuple(blocks), run="tests.studies.own_runs:coin_run")
    StudyStore(path, made).close()
    dataset = open_study(path)
    np.testing.assert_array_equal(dataset["x"], [1, 2, np.nan])
    np.testing.assert_array_equal(dataset["y"], [np.nan, np.nan, 0.5])
    assert dataset["word"].values.tolist() == ["a", "a", ""]
    assert dataset["theta"].values.tolist() == ["", "", "[0.5, 0.5]"]
    assert dataset["distance"].attrs["long_name"] == "distance"


def test_a_store_grows_by_runs_and_keeps_those_it_has(made, path):
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 0, 10.0), Outcome(3, {}, 0.5, "no")])
    longer = study(runs=1300)
    with StudyStore(path, longer) as store:
        assert store.waiting(1).tolist() == [1, 2, *range(4, 1300)]
        store.commit(1, [outcome(made, 1299, 20.0)])
    for dataset in (open_study(path), xr.open_zarr(path).load()):
        assert dict(dataset.sizes) == {"cell": 12, "run": 1300}
        np.testing.assert_array_equal(dataset["run"], np.arange(1300))
        assert dataset["tv"].values[1, [0, 1299]].tolist() == [10.0, 20.0]
        assert dataset["status"].values[1, :5].tolist() == [DONE, NOT_RUN, NOT_RUN, FAILED, NOT_RUN]
    assert json.loads(dataset.attrs["study"])["runs"] == 1300
    assert study_status(path).total == 12 * 1300


def test_a_store_that_grows_is_the_old_one_until_the_last_write(made, path):
    """Wherever it breaks off: readers see the old store, writers of either study go on."""
    with StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0)])
    longer = study(runs=9)
    before = open_study(path)
    shutil.copytree(path, path.with_name("copy.zarr"))
    with pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(patch, room=1000)
        layout.grow(path.with_name("copy.zarr"), longer)
    for room in range(disk.writes):
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, room)
            with pytest.raises(OSError, match="No space left"):
                StudyStore(path, longer)
        xr.testing.assert_identical(open_study(path), before)
        xr.testing.assert_identical(xr.open_zarr(path).load()["tv"], before["tv"].load())
        with StudyStore(path, made) as store:
            assert store.waiting(0).tolist() == [1, 2, 3]
    with StudyStore(path, longer) as store:
        assert store.waiting(0).tolist() == [*range(1, 9)]
    assert open_study(path)["tv"].values[0, 0] == 1.0


def test_what_is_no_store_is_refused_and_left_alone(made, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    zarr.create_group(tmp_path / "other.zarr")
    for name in ("folder", "file", "other.zarr"):
        with refuses("store"):
            StudyStore(tmp_path / name, made)
        with refuses("store"):
            open_study(tmp_path / name)
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "other.zarr"]
    with pytest.raises(FileNotFoundError, match="store must be in a folder that exists"):
        StudyStore(tmp_path / "nowhere" / "small.zarr", made)


class FullDisk:
    """Writes that succeed a number of times, and then find the disk full."""

    def __init__(self, monkeypatch, room):
        self.room, self.writes = room, 0
        monkeypatch.setattr(zarr.storage._local, "_put", self.limited(zarr.storage._local._put))
        monkeypatch.setattr(runs, "write_json", self.limited(layout.write_json))
        monkeypatch.setattr(layout, "write_json", runs.write_json)

    def limited(self, write):
        def put(path, *arguments, **options):
            self.writes += 1
            if self.writes > self.room:
                # Half of it is on disk by then.
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".0123.partial").write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(path, *arguments, **options)

        return put


def test_a_write_that_breaks_off_anywhere_is_whole_or_as_if_it_had_not_been_made(made, tmp_path):
    with pytest.MonkeyPatch.context() as patch, StudyStore(tmp_path / "whole.zarr", made) as store:
        store.commit(0, [outcome(made, 0, 1.0)])
        disk = FullDisk(patch, room=1000)
        store.commit(0, [outcome(made, 1, 2.0)])
    whole, writes, found = open_study(tmp_path / "whole.zarr"), disk.writes, []
    assert writes >= len(made.measures) + 5
    for room in range(writes):
        path = tmp_path / f"{room}.zarr"
        with StudyStore(path, made) as store:
            store.commit(0, [outcome(made, 0, 1.0)])
            before = open_study(path)
            with pytest.MonkeyPatch.context() as patch:
                FullDisk(patch, room)
                with pytest.raises(OSError, match=r"could not be written to .*No space left.*once there is room"):
                    store.commit(0, [outcome(made, 1, 2.0)])
        after = open_study(path)
        found.append(after["status"].values[0, 1] == DONE)
        for name in ("status", *made.measures):
            xr.testing.assert_identical(after[name], (whole if found[-1] else before)[name])
        with StudyStore(path, made) as store:
            assert not list(path.rglob("*.partial"))
            assert not (path / "journal.json").exists()
            xr.testing.assert_identical(open_study(path), after)
            store.commit(0, [outcome(made, 2, 3.0)])
        assert open_study(path)["tv"].values[0, 2] == 3.0
    assert found == [False] + [True] * (writes - 1)


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


def test_what_a_killed_process_was_about_to_commit_is_there(made, path):
    with pytest.MonkeyPatch.context() as patch, StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.5, "no")])
        patch.setitem(store._arrays, "status", None)  # killed before the last write
        with pytest.raises(AttributeError):
            store.commit(0, [outcome(made, 2, 2.0), Outcome(3, {}, 0.5, "neither")])
    assert xr.open_zarr(path)["status"].values[0].tolist() == [DONE, FAILED, NOT_RUN, NOT_RUN]
    read_only = open_study(path)
    StudyStore(path, made).close()
    for dataset in (read_only, open_study(path), xr.open_zarr(path).load()):
        assert dataset["status"].values[0].tolist() == [DONE, FAILED, DONE, FAILED]
        np.testing.assert_array_equal(dataset["tv"][0], [1.0, np.nan, 2.0, np.nan])
        assert dataset["error"].values[0].tolist() == ["", "no", "", "neither"]
        np.testing.assert_array_equal(dataset["finished_at"], read_only["finished_at"])


def test_what_killed_processes_left_is_in_nobodys_way(made, path):
    leftover = path.with_name(f".{path.name}.0123456789ab.tmp")
    busy = path.with_name(f".{path.name}.ba9876543210.tmp")
    for half in (leftover, busy):
        layout._fill(half, study(runs=9), {})
    lock = locks.lock_folder(busy)  # of a process that is making it
    StudyStore(path, made).close()
    os.close(lock)
    assert sorted(os.listdir(path.parent)) == [busy.name, path.name]
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
    assert tuple(table.columns[:5]) == ("cell", "run", "n_categories", "rho", "utility")
    assert table["tv"][0] == 1 / 3
    assert table["error"].tolist() == ["", 'a "quoted", text']
    assert table["utility"].tolist() == [cells_of(made)[1]["utility"]] * 2
    for wrong in (tmp_path / "results.xlsx", tmp_path / "nowhere" / "results.csv"):
        with refuses("out"):
            export_study(path, wrong)


def test_no_cell_of_an_exported_table_is_a_formula(path, tmp_path):
    formulas = ["=1+1", "+1+1", "-1+1", "@SUM(1)", "＝1+1", "-1", "plain"]
    content = {"name": "own", "runs": 1, "seed": 1, "measures": ["y"], "grid": {"x": formulas}}
    made = Study.from_dict(content | {"run": "tests.studies.own_runs:coin_run"})
    with StudyStore(path, made) as store:
        for cell, formula in enumerate(formulas):
            store.commit(cell, [Outcome(0, {}, -0.5, formula)])
    export_study(path, tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in ("x", "error"):
        assert [row[name] for row in rows] == [f"'{formula}" for formula in formulas[:-2]] + formulas[-2:]
    assert {row["seconds"] for row in rows} == {"-0.5"}
