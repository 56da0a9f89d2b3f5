"""The store: what it holds, what it refuses, and what a write that breaks off leaves of it."""

import csv
import json
import os
import random
import shutil
import sqlite3
import sys
import threading
from contextlib import closing, suppress

import numpy as np
import pytest
import xarray as xr

import adobest_pp
from adobest_pp.studies import Study, cells_of, open_study, run_study, study_status
from adobest_pp.studies import store as store_module
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Outcome
from adobest_pp.studies.store import StudyStore
from adobest_pp.studies.summary import _rate, export_study
from tests.refusals import refuses
from tests.studies.small import assert_complete, assert_partial, forge, study
from validation.damaged_stores import kill_while_committing
from validation.damaged_stores import outcome as killed_outcome
from validation.damaged_stores import write as write_small


def outcome(made, run, value):
    return Outcome(run, {name: value + i for i, name in enumerate(made.measures)}, 0.25)


@pytest.fixture
def made():
    return study(runs=4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.db"


def test_every_batch_waits_for_the_disk(made, path):
    """A power cut is not tried: SQLite says what it does."""
    with StudyStore(path, made) as store:
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_reading_a_store_imports_nothing(made, path, tmp_path, monkeypatch):
    """The function of a run is imported by those who run the study, not by those who look at it."""
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0)])
    settings = made.to_dict() | {"run": "stranger:run", "settings": {"mechanism": "stranger:Class"}}
    forge(path, study=json.dumps(settings), sources=json.dumps({"stranger": "0"}))
    (tmp_path / "stranger.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert study_status(path).damaged == 1  # its checksum is over the settings, too
    for use in (open_study, lambda path: export_study(path, tmp_path / "runs.csv")):
        with refuses("store"):
            use(path)
    assert "stranger" not in sys.modules


@pytest.mark.parametrize(
    "change",
    [
        {"grid": [{"a": [*range(400)], "b": [*range(400)], "c": [*range(400)]}]},  # a few lines for 10⁸ cells
        {"runs": 10**9},
        {"name": "\x1b[31m"},
        {"measures": ["other"]},
        {"grid": 1},
    ],
    ids=str,
)
def test_a_store_whose_header_is_not_that_of_a_study_is_refused(made, path, change, monkeypatch):
    """Its checksum is right, as a stranger can compute it."""
    StudyStore(path, made).close()
    forge(path, study=json.dumps(made.to_dict() | change))
    for use in (open_study, study_status, lambda path: StudyStore(path, made, repair=True)):
        with refuses("store"):
            use(path)


@pytest.mark.parametrize(
    "body", ["[]", "{}", '{"seconds": "x"}', "[" * 10_000, '{"tv": 1e999999}'], ids=lambda b: b[:20]
)
def test_a_run_without_values_is_refused(made, path, body):
    """Its checksum is right, too."""
    with StudyStore(path, made) as store:
        row = (0, 1, body, store_module._checksum(store._keys[0], 1, body))
        store._write([row])
    for use in (open_study, study_status):
        with refuses("store"):
            use(path)


def test_devices_and_pipes_are_not_opened(tmp_path, made):
    """A device may have no end, and a pipe keeps its reader waiting."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        for use in (study_status, lambda path: StudyStore(path, made)):
            with refuses("store"):
                use(tmp_path / name)


def test_a_partly_finished_study_has_all_its_labels(made, path):
    with StudyStore(path, made) as store:
        store.commit(1, [outcome(made, 2, 10.0), outcome(made, 0, 20.0)])
        store.commit(3, [Outcome(1, {}, 0.5, "ValueError: this — and that")])
    dataset = open_study(path)
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
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT cell, run, body ->> 'tv' FROM runs WHERE body ->> 'error' = ''").fetchall()
    assert found == [(1, 0, 20.0), (1, 2, 10.0)]


def test_numbers_are_kept_to_the_last_bit(path):
    numbers = [0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("nan")]
    made = study(runs=len(numbers), measures=["tv"])
    with StudyStore(path, made) as store:
        store.commit(0, [Outcome(run, {"tv": value}, 0.1) for run, value in enumerate(numbers)])
    dataset = open_study(path)
    assert dataset["tv"].values[0].tobytes() == np.array(numbers).tobytes()
    assert dataset["status"].values[0].tolist() == [DONE] * len(numbers)


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


def test_a_second_writer_is_refused(made, path):
    with StudyStore(path, made), refuses("store"):
        StudyStore(path, made)
    StudyStore(path, made).close()
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("change", ["changed", "replaced", "removed"])
def test_a_store_that_another_program_writes_to_is_left_alone(made, path, change):
    with StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0)])
        if change == "changed":
            shutil.copy(f"{path}-lock", f"{path}-kept")
            os.unlink(f"{path}-lock")  # so that nothing keeps the second one out
            with StudyStore(path, made) as second:
                second.commit(0, [outcome(made, 1, 2.0)])
        elif change == "replaced":
            shutil.copy(path, f"{path}-copy")
            os.replace(f"{path}-copy", path)
        else:
            path.unlink()
        with pytest.raises(OSError, match=r"could not be written to .* was committed before"):
            store.commit(0, [outcome(made, 2, 3.0)])
    if change == "changed":
        assert open_study(path)["status"].values[0].tolist() == [DONE, DONE, NOT_RUN, NOT_RUN]


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
    dataset = open_study(path)
    assert dict(dataset.sizes) == {"cell": 12, "run": 1300}
    np.testing.assert_array_equal(dataset["run"], np.arange(1300))
    assert dataset["tv"].values[1, [0, 1299]].tolist() == [10.0, 20.0]
    assert dataset["status"].values[1, :5].tolist() == [DONE, NOT_RUN, NOT_RUN, FAILED, NOT_RUN]
    assert json.loads(dataset.attrs["study"])["runs"] == 1300
    assert study_status(path).total == 12 * 1300


def test_what_is_no_store_is_refused_and_left_alone(made, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for name in ("folder", "file", "other.db"):
        with refuses("store"):
            StudyStore(tmp_path / name, made)
        with refuses("store"):
            open_study(tmp_path / name)
    assert (tmp_path / "folder" / "mine.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "other.db"]
    with refuses("store", FileNotFoundError):
        StudyStore(tmp_path / "nowhere" / "small.db", made)


class Stopping:
    """A connection that raises before its n-th call."""

    def __init__(self, connection, calls):
        self._connection, self._left = connection, calls

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, *arguments):
        self._count(arguments[0])
        return self._connection.execute(*arguments)

    def executemany(self, *arguments):
        self._count(arguments[0])
        return self._connection.executemany(*arguments)

    def _count(self, statement):
        self._left -= 1
        if self._left == 0 and statement != "ROLLBACK":
            raise sqlite3.OperationalError("disk I/O error")


def test_a_write_that_breaks_off_anywhere_changes_nothing(made, path):
    """Also a second attempt: the failure of the first stays with its error."""
    with StudyStore(path, made) as store:
        store.commit(0, [outcome(made, 0, 1.0), Outcome(1, {}, 0.1, "no")])
        before, connection, written, calls = open_study(path), store._connection, False, 0
        while not written:
            calls += 1
            store._connection = Stopping(connection, calls)
            with suppress(OSError):
                store.commit(0, [outcome(made, 1, 2.0), outcome(made, 2, 3.0)])
                written = True
            store._connection = connection
            assert store.waiting(0, retry_failed=True).tolist() == ([3] if written else [1, 2, 3])
            if not written:
                xr.testing.assert_identical(open_study(path), before)
    assert calls > 6
    np.testing.assert_array_equal(open_study(path)["tv"][0], [1.0, 2.0, 3.0, np.nan])
    assert open_study(path)["error"].values[0].tolist() == [""] * 4


def test_a_process_that_is_killed_loses_no_run_that_it_has_committed(tmp_path):
    """Wherever it is killed: in a transaction, which the next one takes back, or between two."""
    moments, journals, path = random.Random(1), 0, tmp_path / "study.db"
    write_small(path)
    for _ in range(15):
        count = kill_while_committing(path, moments.uniform(0, 0.01))
        journals += os.path.exists(f"{path}-journal")
        status = open_study(path)["status"].values
        made = np.flatnonzero(status.ravel()[:24] != NOT_RUN)
        assert set(range(min(count, 24))) <= set(made.tolist())
        for cell, run in ((cell, run) for cell in range(4) for run in range(6) if status[cell, run] == DONE):
            assert open_study(path)["tv"].values[cell, run] == killed_outcome(cell, run).measures["tv"]
    assert journals > 0


def test_readers_see_whole_batches_while_a_process_writes(made, path):
    seen, problems, done = [], [], threading.Event()

    def read():
        while not done.is_set():
            try:
                seen.append(study_status(path).done)
            except Exception as problem:
                problems.append(problem)

    with StudyStore(path, made) as store:
        thread = threading.Thread(target=read)
        thread.start()
        for cell in range(12):
            store.commit(cell, [outcome(made, run, 1.0) for run in range(4)])
        done.set()
        thread.join()
    assert problems == []
    assert seen == sorted(seen)
    assert all(count % 4 == 0 for count in seen)


def test_a_store_that_cannot_be_made_leaves_nothing_behind(made, path, monkeypatch):
    monkeypatch.setattr(store_module, "_TABLES", ("CREATE TABLE nowhere.runs (x)",))
    with pytest.raises(OSError, match="could not be written, and nothing was changed"):
        StudyStore(path, made)
    assert not os.listdir(path.parent)


def test_a_study_on_a_full_disk_stops_and_goes_on_when_there_is_room(path):
    made, connect = study(runs=3, people_per_category=50), store_module._connect
    StudyStore(path, made).close()

    def full(*arguments):
        connection = connect(*arguments)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "_connect", full)
        with pytest.raises(OSError, match=r"No space left.*once there is room"):
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
