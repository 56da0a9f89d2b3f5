"""``adobest study``, as a person runs it."""

import re

import pytest

from adobest_pp.cli.main import main
from adobest_pp.studies import cells_of
from adobest_pp.studies.run_function import Outcome
from adobest_pp.studies.store import StudyStore
from tests.studies.small import FILE, assert_complete, study

TINY = FILE.replace("runs = 20", "runs = 2").replace("= 700", "= 20")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def adobest_study(monkeypatch, capsys):
    """Run a command within this process: exit code, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["adobest", "study", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, errors = capsys.readouterr()
        return end.value.code or 0, out, errors

    return call


@pytest.mark.long
def test_run_status_and_export(tmp_path, file, adobest_study, monkeypatch):
    monkeypatch.setattr("adobest_pp._progress.PATIENCE", 0.0)  # the bar appears at once
    store, made = tmp_path / "small.db", study(runs=2, people_per_category=20)
    code, out, errors = adobest_study("run", file, "--store", store, "--workers", 1)
    assert code == 0, errors
    assert out == "small: 24 of 24 runs done (100.0 %), 0 failed, 0 missing\n"
    assert " 24/24" in errors
    assert "runs/s" in errors
    assert_complete(store, made)
    assert adobest_study("status", store) == (0, out, "")
    assert adobest_study("run", file, "--store", store, "--quiet") == (0, "", "")
    assert adobest_study("export", store, "--out", tmp_path / "results.csv") == (0, "", "")
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 25


def test_failed_runs_are_shown_and_exit_with_1(tmp_path, file, adobest_study):
    store, made = tmp_path / "small.db", study(runs=2, people_per_category=20)
    with StudyStore(store, made) as opened:
        for cell in range(len(cells_of(made))):
            errors = [f"ValueError: number {cell}", f"ValueError: number {cell % 6}"]
            opened.commit(cell, [Outcome(run, {}, 0.1, error) for run, error in enumerate(errors)])
    assert adobest_study("run", file, "--store", store, "--quiet") == (1, "", "")
    code, out, _ = adobest_study("status", store)
    assert code == 1
    assert out.splitlines() == [
        "small: 0 of 24 runs done (0.0 %), 24 failed, 0 missing",
        *(f"3 failed with ValueError: number {number}" for number in range(5)),
        "and 7 other errors: see `error` in the store",
    ]


def test_status_prints_no_escape_sequences(tmp_path, adobest_study):
    with StudyStore(tmp_path / "small.db", study(runs=2, people_per_category=20)) as opened:
        opened.commit(0, [Outcome(0, {}, 0.1, "ValueError: \x1b[31mred\x1b]0;title\x07\r\nnext")])
    _, out, _ = adobest_study("status", tmp_path / "small.db")
    assert [sign for sign in out if not sign.isprintable() and sign != "\n"] == []
    assert "1 failed with ValueError: \ufffd[31mred\ufffd]0;title\ufffd next" in out


def test_status_of_a_study_that_runs(tmp_path, file, adobest_study):
    store, made = tmp_path / "small.db", study(runs=2, people_per_category=20)
    outcomes = [Outcome(run, dict.fromkeys(made.measures, 0.5), 0.1) for run in range(2)]
    with StudyStore(store, made) as opened:
        opened.commit(0, outcomes)
        assert adobest_study("status", store)[1].splitlines()[1:] == ["running: no rate yet"]
        opened.commit(1, outcomes)
        code, out, _ = adobest_study("status", store)
        assert code == 0
        assert re.fullmatch(r"small: 4 of 24 .* 20 missing\nrunning: [0-9.]+ runs/s, 0:0.:.. left\n", out)
        code, _, errors = adobest_study("run", file, "--store", store)
        assert code == 2
        assert errors == f"adobest: store must not be in use by another process, got '{store}'\n"
    assert "\nnot running: rerun `adobest study run` to resume\n" in adobest_study("status", store)[1]


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, file, adobest_study):
    store = tmp_path / "small.db"
    StudyStore(store, study(seed=6)).close()
    typo = tmp_path / "typo.toml"
    typo.write_text(TINY.replace("[settings]", "[setings]"))
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    for arguments, reason in [
        (["run", typo, "--store", tmp_path / "new.db"], "typo.toml: setings must be one of name"),
        (["run", file, "--store", store], "store must be of this study"),
        (["run", file, "--store", tmp_path / "new.db", "--workers", 0], "workers must be an integer of at least 1"),
        (["run", tmp_path / "none.toml", "--store", tmp_path / "new.db"], "none.toml"),
        (["status", tmp_path], "store must be a file made by `adobest study run`"),
        (["export", store, "--out", tmp_path / "results.doc"], "out must name a .nc or .csv file"),
        (["export", tmp_path / "none.db", "--out", tmp_path / "results.csv"], "store must be a file made by"),
        (["export", store, "--out", mine], "out must name a new file"),
    ]:
        code, _, errors = adobest_study(*arguments)
        assert code == 2
        assert reason in errors
        assert len(errors.splitlines()) == 1
    assert not (tmp_path / "new.db").exists()
    assert mine.read_text() == "mine"
    assert adobest_study("export", store, "--out", mine, "--overwrite")[0] == 0
    assert mine.read_text().startswith("cell,run")


def test_without_the_libraries_of_studies_it_says_what_to_install(tmp_path, adobest_study, monkeypatch):
    monkeypatch.setattr("adobest_pp.cli.study.find_spec", lambda name: None)
    code, _, errors = adobest_study("status", tmp_path)
    assert code == 2
    assert "distributed must be installed for studies: pip install 'adobest-pp[studies]'" in errors


@pytest.mark.parametrize("command", ["run", "status", "plot", "export"])
def test_every_help_has_an_example(command, adobest_study):
    code, out, _ = adobest_study(command, "--help")
    assert code == 0
    assert f"Example: adobest study {command} " in out
