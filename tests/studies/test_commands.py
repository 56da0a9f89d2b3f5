"""``adobest study``, as a person runs it."""

import pytest

from adobest_pp.cli import main
from adobest_pp.studies.store import StudyStore
from tests.studies.small import FILE, assert_complete, finish, start, study, wait_for_runs

TINY = FILE.replace("runs = 20", "runs = 2").replace("= 700", "= 20")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TINY)
    return path


def adobest_study(*arguments):
    return finish(start(*arguments))


def test_run_status_and_export(tmp_path, file):
    store, made = tmp_path / "small.zarr", study(runs=2, people_per_category=20)
    code, out, errors = adobest_study("run", file, "--store", store, "--workers", 1)
    assert code == 0, errors
    assert out == "small: 24 of 24 runs done (100.0 %), 0 failed, 0 missing\n"
    assert "24/24" in errors
    assert "runs/s" in errors
    assert_complete(store, made)
    assert adobest_study("status", store) == (0, out, "")
    assert adobest_study("run", file, "--store", store, "--quiet") == (0, "", "")
    code, _, errors = adobest_study("export", store, "--out", tmp_path / "results.csv")
    assert code == 0, errors
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 25


def test_failed_runs_are_shown_and_exit_with_1(tmp_path, file):
    store = tmp_path / "small.zarr"
    file.write_text(TINY.replace("rho = [0.1, 1.0]", "rho = [1e308]").replace("K = [3, 4]", "K = [3]"))
    code, out, errors = adobest_study("run", file, "--store", store, "--workers", 1, "--quiet")
    assert (code, out) == (1, "")
    assert "Traceback" not in errors
    code, out, _ = adobest_study("status", store)
    assert code == 1
    assert "0 of 6 runs done (0.0 %), 6 failed, 0 missing" in out
    assert "6 failed with ValueError: theta must be 3 finite" in out


def test_status_of_a_study_that_runs(tmp_path, file):
    store = tmp_path / "small.zarr"
    file.write_text(FILE)
    driver = start("run", file, "--store", store, "--workers", 1)
    try:
        wait_for_runs(store, driver)
        code, out, _ = adobest_study("status", store)
        assert code == 0
        assert "\nrunning: " in out
        code, _, errors = adobest_study("run", file, "--store", store)
        assert code == 2
        assert errors == f"adobest: store must not be in use by another process, got '{store}'\n"
    finally:
        driver.terminate()
        driver.communicate()
    _, out, _ = adobest_study("status", store)
    assert "not running: the same `adobest study run` goes on with it" in out


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, file, monkeypatch, capsys):
    store = tmp_path / "small.zarr"
    StudyStore(store, study()).close()
    typo = tmp_path / "typo.toml"
    typo.write_text(TINY.replace("kappa", "kapa"))
    for arguments, reason in [
        (["run", typo, "--store", tmp_path / "new.zarr"], "typo.toml: grid.kapa must be a known key"),
        (["run", file, "--store", store], "store must be of this study"),
        (["run", file, "--store", tmp_path / "new.zarr", "--workers", 0], "workers must be an integer of at least 1"),
        (["run", tmp_path / "none.toml", "--store", tmp_path / "new.zarr"], "none.toml"),
        (["status", tmp_path], "store must be a folder made by `adobest study run`"),
        (["export", store, "--out", tmp_path / "results.doc"], "out must name a .nc or .csv file"),
        (["export", tmp_path / "none.zarr", "--out", tmp_path / "results.csv"], "store must be a folder made by"),
    ]:
        monkeypatch.setattr("sys.argv", ["adobest", "study", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        errors = capsys.readouterr().err
        assert end.value.code == 2
        assert reason in errors
        assert len(errors.splitlines()) == 1
    assert not (tmp_path / "new.zarr").exists()


@pytest.mark.parametrize("command", ["run", "status", "plot", "export"])
def test_every_help_has_an_example(command):
    code, out, _ = adobest_study(command, "--help")
    assert code == 0
    assert f"Example: adobest study {command} " in out
    if command == "run":
        assert "Failed runs are left as they are, unless --retry-failed is given" in " ".join(out.split())
