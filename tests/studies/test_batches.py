"""What a worker makes of a run that raises, whatever it raises; and of sources that are not those of the driver."""

import os
import re
import sqlite3
import stat
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import xarray as xr

import adobest_pp
from adobest_pp import _files
from adobest_pp.studies import cells_of, open_study
from adobest_pp.studies import run_function as batches
from adobest_pp.studies.grid import hashes_of
from adobest_pp.studies.run_function import Batch, compiling_alone, run_batch
from adobest_pp.studies.store import StudyStore
from adobest_pp.studies.summary import export_study, study_status
from tests.studies.small import study


class Panic(BaseException):
    """What a panic in Rust is to Python: no Exception."""


class Mute(ValueError):
    def __str__(self):
        raise RuntimeError("no words")


RAISED = [
    (ValueError("plain — text"), "ValueError: plain — text"),
    (ValueError("half of \ud800 a pair"), r"ValueError: half of \ud800 a pair"),
    (ValueError("nul \0 inside"), r"ValueError: nul \x00 inside"),
    (ValueError("two\n  lines,\x1b[31m red\u202e"), r"ValueError: two lines,\x1b[31m red\u202e"),
    (Panic("panicked"), "Panic: panicked"),
    (Mute(), "Mute: (no text)"),
    (ValueError(), "ValueError:"),
    (ValueError("\0" * 10**6), "ValueError: " + r"\x00" * 247),
]


def batch_of(made, *runs, sources=()):
    return Batch(0, made.run, cells_of(made)[0], made.seed, runs, made.measures, dict(sources))


def raising(monkeypatch, problem):
    def run(*_, **__):
        raise problem

    monkeypatch.setattr("adobest_pp.studies.run_function.find_run", lambda _: run)


@pytest.mark.parametrize(("problem", "text"), RAISED, ids=range(len(RAISED)))
def test_whatever_is_raised_is_the_outcome_of_its_run_and_can_be_stored_and_exported(
    monkeypatch, tmp_path, problem, text
):
    made = study(runs=2)
    raising(monkeypatch, problem)
    outcomes = run_batch(batch_of(made, 0, 1))
    assert [(one.run, one.measures, one.error) for one in outcomes] == [(0, {}, text), (1, {}, text)]
    store = tmp_path / "small.db"
    with StudyStore(store, made) as opened:
        opened.commit(0, outcomes)
    assert study_status(store).errors == ((text, 2),)
    assert open_study(store)["error"].values[0].tolist() == [text] * 2
    export_study(store, tmp_path / "small.nc")
    assert xr.load_dataset(tmp_path / "small.nc")["error"].values[0].tolist() == [text] * 2
    assert len(text) <= batches._LONGEST_ERROR


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_what_ends_a_process_is_no_outcome(monkeypatch, problem):
    made = study(runs=2)
    raising(monkeypatch, problem)
    with pytest.raises(type(problem)):
        run_batch(batch_of(made, 0))


def test_sources_of_the_driver_must_be_those_of_the_worker():
    made = study(runs=1)
    right = hashes_of(["adobest_pp.adaptive.loop", "adobest_pp._text"])
    assert not run_batch(batch_of(made, 0, sources=right))[0].error
    for name, wrong in (("adobest_pp.adaptive.loop", {"adobest_pp.adaptive.loop": "0"}), ("mine", {"mine": "0"})):
        with pytest.raises(ValueError, match=f"worker must have the sources .*; they differ in {name}$"):
            run_batch(batch_of(made, 0, sources=right | wrong))


def test_runs_of_one_kind_differ_in_real_numbers_alone():
    made = study()
    kinds = {replace(batch_of(made, 0), settings=cell).kind for cell in cells_of(made)}
    assert len(kinds) == 2 * 3


def test_the_lock_of_the_compiler_is_where_nobody_else_can_take_it(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with compiling_alone():
        lock = _files.cache_folder() / "compiling.lock"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        with (
            closing(sqlite3.connect(lock, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN EXCLUSIVE")
    assert lock.is_relative_to(tmp_path / "cache")
    assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o700
    assert not os.listdir(shared)


def test_a_cache_folder_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = _files.cache_folder()
    folder.chmod(0o777)
    assert stat.S_IMODE(_files.cache_folder().stat().st_mode) == 0o700
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="cache folder must be yours"):
        _files.cache_folder()
    with compiling_alone():  # without a lock
        assert not os.listdir(folder)


def test_no_file_of_a_known_name_is_in_the_shared_temporary_folder():
    for path in Path(adobest_pp.__file__).parent.rglob("*.py"):
        if path.name == "gathered.py":  # its folder there has a random name and is nobody else's
            continue
        assert not re.search(r"gettempdir|mktemp\b|[\"'/]tmp/", path.read_text(encoding="utf-8")), path
