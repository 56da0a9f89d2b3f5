"""What a worker makes of a run that raises, whatever it raises; and how the progress of runs is shown."""

import pytest
import xarray as xr

from adobest_pp.studies import batches, cells_of, open_study
from adobest_pp.studies.bar import StudyBar
from adobest_pp.studies.batches import Batch, run_batch
from adobest_pp.studies.outcomes import Outcome
from adobest_pp.studies.reading import export_study, study_status
from adobest_pp.studies.store import StudyStore
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


def raising(monkeypatch, problem):
    def run_once(*_):
        raise problem

    monkeypatch.setattr("adobest_pp.studies.runs.run_once", run_once)


@pytest.mark.parametrize(("problem", "text"), RAISED, ids=range(len(RAISED)))
def test_whatever_is_raised_is_the_outcome_of_its_run_and_can_be_stored_and_exported(
    monkeypatch, tmp_path, problem, text
):
    made = study(runs=2)
    raising(monkeypatch, problem)
    outcomes = run_batch(Batch(0, cells_of(made)[0], made.seed, (0, 1), made.measures))
    assert [(one.run, one.measures, one.error) for one in outcomes] == [(0, {}, text), (1, {}, text)]
    store = tmp_path / "small.zarr"
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
        run_batch(Batch(0, cells_of(made)[0], made.seed, (0,), made.measures))


def test_the_bar_shows_a_name_as_it_is(capsys):
    with StudyBar(10, 2, "[/red] and {0} :smile:") as bar:
        bar.advance([Outcome(0, {}, 0.1), Outcome(1, {}, 0.1, "no")])
    shown = " ".join(capsys.readouterr().err.split())
    assert "[/red] and {0} :smile:" in shown
    assert "4/10" in shown
    assert "1 failed" in shown
