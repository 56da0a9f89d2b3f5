"""A damaged store is refused with what is damaged, and repaired on demand; nothing is silently other."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import xarray as xr

from adobest_pp.cli.main import main
from adobest_pp.studies import open_study, study_status
from adobest_pp.studies.run_function import Outcome
from adobest_pp.studies.store import StudyStore
from tests.refusals import refuses
from validation.damaged_files import KINDS, damaged
from validation.damaged_stores import STUDY, outcome, read, repaired, write

# Statements, and how many runs are damaged by each; cell 0 has all of its runs.
DAMAGES = {
    "UPDATE runs SET body = replace(body, '0.5', '0.7') WHERE cell = 0 AND run = 1": 1,
    "UPDATE runs SET checksum = '0000000000000001' WHERE cell = 0": 6,
    "UPDATE runs SET body = CAST(x'ff00' AS TEXT) WHERE cell = 1 AND run = 1": 1,
    "UPDATE runs SET body = 5 WHERE cell = 1 AND run = 1": 1,
    "UPDATE runs SET run = 5 WHERE cell = 2 AND run = 1": 1,
    "UPDATE runs SET run = 99 WHERE cell = 2 AND run = 1": 1,
    "UPDATE runs SET cell = 3 WHERE cell = 2": 2,
    "DELETE FROM runs WHERE cell = 1 AND run < 3": 3,
    "DELETE FROM runs": 12,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store, and what is read of it."""
    path = tmp_path_factory.mktemp("whole") / "study.db"
    write(path)
    return path, read(path), open_study(path)


@pytest.fixture
def path(made, tmp_path):
    return shutil.copy(made[0], tmp_path / "study.db")


def execute(path, *statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(*statement)


@pytest.mark.parametrize(("statement", "count"), DAMAGES.items())
def test_whatever_is_damaged_is_refused_counted_and_made_again(made, path, statement, count):
    assert read(path) == made[1]
    execute(path, statement)
    for use in (open_study, lambda path: StudyStore(path, STUDY)):
        with pytest.raises(ValueError, match=f"store must be undamaged, got .*study.db', in which {count} runs are "):
            use(path)
    assert study_status(path).damaged == count
    repaired(path)
    for variable in ("tv", "mean_size", "status", "error"):
        kept = made[2]["status"] != 0
        xr.testing.assert_equal(open_study(path)[variable].where(kept), made[2][variable].where(kept))


def test_damaged_runs_are_named_and_only_those_are_made_again(made, path, capsys):
    before = made[2]
    execute(path, "UPDATE runs SET body = replace(body, '\"tv\": 0.', '\"tv\": 1.') WHERE cell > 0")
    message = r"store must be undamaged, .* in which 4 runs are damaged \(run 0 of cell 1, run 1 of cell 1, .*\)"
    with pytest.raises(ValueError, match=message):
        open_study(path)
    status = study_status(path)
    assert (status.done, status.failed, status.damaged, status.missing) == (5, 3, 4, 12)
    with pytest.raises(SystemExit) as end:
        main(["study", "status", str(path)])
    assert end.value.code == 1
    assert "\n4 damaged: `adobest study run` with --repair makes them again\n" in capsys.readouterr().out
    with StudyStore(path, STUDY, repair=True) as store:
        assert [store.waiting(cell).tolist() for cell in range(3)] == [[], [0, 1, 3, 4, 5], [0, 2, 3, 4, 5]]
        for cell, runs in ((1, (0, 1, 3)), (2, (0,))):
            store.commit(cell, [outcome(cell, run) for run in runs])
    after = open_study(path)
    np.testing.assert_array_equal(after["finished_at"][0], before["finished_at"][0])


def test_pages_that_cannot_be_read_cost_their_runs_and_no_others(tmp_path):
    """The table is in many pages: each has runs next to each other."""
    path, study = tmp_path / "study.db", STUDY.from_dict(STUDY.to_dict() | {"runs": 200})
    with StudyStore(path, study) as store:
        for cell in range(4):
            store.commit(cell, [outcome(cell, run) for run in range(200)])
    content = bytearray(path.read_bytes())
    pages = [at for at in range(0, len(content), 4096) if content[at] == 10]  # leaves of an index, as of our tables
    content[pages[5] : pages[5] + 4096] = bytes(4096)
    path.write_bytes(content)
    with refuses("store"):
        open_study(path)
    with StudyStore(path, study, repair=True) as store:
        waiting = [(cell, run) for cell in range(4) for run in store.waiting(cell).tolist()]
        assert 0 < len(waiting) < 60
    values = open_study(path)["tv"].values
    for cell in range(4):
        for run in range(200):
            expected = np.nan if (cell, run) in waiting else outcome(cell, run).measures.get("tv", np.nan)
            np.testing.assert_equal(values[cell, run], expected)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE parts SET value = replace(value, 'srr', 'sar') WHERE name = 'header'",
        "UPDATE parts SET value = replace(value, '[12', '[12.5') WHERE name = 'head'",
        "UPDATE parts SET value = '[1]' WHERE name = 'head'",
        "DELETE FROM parts WHERE name = 'head'",
        "DELETE FROM parts",
    ],
)
def test_a_damaged_header_is_told_in_one_sentence(path, capsys, statement):
    execute(path, statement)
    with pytest.raises(SystemExit) as end:
        main(["study", "status", str(path)])
    errors = capsys.readouterr().err
    assert end.value.code == 2
    assert "whose header is not as it was written" in errors
    assert len(errors.splitlines()) == 1
    with refuses("store"):
        StudyStore(path, STUDY, repair=True)


def test_runs_of_another_study_or_cell_are_not_taken_for_ours(made, path, tmp_path):
    other = tmp_path / "other.db"
    with StudyStore(other, STUDY.from_dict(STUDY.to_dict() | {"seed": 2})) as store:
        store.commit(0, [outcome(0, run) for run in range(6)])
    with closing(sqlite3.connect(other)) as connection:
        rows = connection.execute("SELECT * FROM runs").fetchall()
    for row in rows:
        execute(path, "REPLACE INTO runs VALUES (?, ?, ?, ?)", row)
    assert study_status(path).damaged == 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "study" in kind.name], ids=lambda kind: kind.name)
def test_random_damage_is_refused_or_harmless(kind):
    """A thousand times in `python -m validation.faults`."""
    found = damaged(kind, 6, seed=1)
    assert found.wrong == []
    assert found.outcomes["refused"] > 5


def test_an_earlier_state_of_a_run_is_noticed(path):
    """Its own checksum is right: a disk may return a page as it was before."""
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("SELECT * FROM runs WHERE cell = 0 AND run = 3").fetchone()
    with StudyStore(path, STUDY) as store:
        store.commit(0, [Outcome(3, {"tv": 0.5, "mean_size": 1.0}, 0.5)])
    assert study_status(path).damaged == 0
    execute(path, "REPLACE INTO runs VALUES (?, ?, ?, ?)", before)
    assert study_status(path).damaged == 1
