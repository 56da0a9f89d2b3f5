"""A damaged store is refused with what is damaged, and repaired on demand; nothing is silently other."""

import json
import re
import shutil

import numpy as np
import pytest
import xarray as xr

from adobest_pp.cli.main import main
from adobest_pp.studies import layout, open_study, study_status
from adobest_pp.studies.store import StudyStore
from tests.refusals import refuses
from validation.damaged_files import damage
from validation.damaged_stores import STUDY, outcome, read, repaired, write, write_half

# How, and which file; a run of cell 1 has failed.
DAMAGES = [
    *(("bits", f"{name}/c/1/0") for name in ("tv", "seconds", "finished_at", "error", "checksum", "status")),
    *(("bits", f"{name}/zarr.json") for name in ("tv", "status", "epsilon")),
    *(("bits", name) for name in ("zarr.json", "epsilon/c/0", "mechanism/c/0", "run/c/0")),
    *(("removed", name) for name in ("zarr.json", "status/c/1/0", "checksum/c/1/0", "tv/c/1/0", "error/c/1/0")),
    *(("folder deleted", name) for name in ("status/zarr.json", "checksum/zarr.json", "mechanism/zarr.json")),
    *(("cuts", name) for name in ("zarr.json", "tv/c/0/0", "error/c/1/0")),
    *(("cuts", name) for name in ("zarr.json", "status/c/0/0")),
    ("sectors", "tv/c/0/0"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store, and what is read of it."""
    path = tmp_path_factory.mktemp("whole") / "study.zarr"
    write(path)
    return path, read(path), open_study(path)


@pytest.fixture
def path(made, tmp_path):
    shutil.copytree(made[0], tmp_path / "study.zarr")
    return tmp_path / "study.zarr"


def hurt(path, how, name, rng):
    """Damage a file of the store, or remove the folder that it is in."""
    if how == "folder deleted":
        shutil.rmtree((path / name).parent)
    else:
        damage(how, path / name, [], rng)


def test_whatever_is_damaged_is_refused(made, path):
    rng = np.random.default_rng(1)
    assert read(path) == made[1]
    for how, name in DAMAGES:
        hurt(path, how, name, rng)
        with pytest.raises((ValueError, OSError), match="store must be "):
            read(path)
        shutil.rmtree(path)
        shutil.copytree(made[0], path)


def flip(file, place=-10):
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


def test_damaged_runs_are_named_and_only_those_are_made_again(made, path, capsys):
    before = made[2]
    flip(path / "tv/c/1/0")
    (path / "status/c/2/0").unlink()
    with pytest.raises(ValueError, match="checksum do not match"):
        xr.open_zarr(path)["tv"].load()
    message = r"store must be whole, got .*study\.zarr', in which 8 runs are damaged \(run 0 of cell 1, .* and 3 more\)"
    for use in (open_study, lambda path: StudyStore(path, STUDY)):
        with pytest.raises(ValueError, match=message):
            use(path)
    status = study_status(path)
    assert (status.done, status.failed, status.damaged, status.missing) == (5, 1, 8, 10)
    with pytest.raises(SystemExit) as end:
        main(["study", "status", str(path)])
    assert end.value.code == 1
    assert "\n8 damaged: the same `adobest study run` with --repair makes them again\n" in capsys.readouterr().out

    with StudyStore(path, STUDY, repair=True) as store:
        assert [store.waiting(cell).tolist() for cell in range(3)] == [[], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
        store.commit(1, [outcome(1, 0)])
    assert study_status(path).damaged == 4  # of cell 1, what tv is a part of: not the failed run, nor what is not run
    with StudyStore(path, STUDY, repair=True) as store:
        for cell, runs in ((1, (1, 3)), (2, (0, 1))):
            store.commit(cell, [outcome(cell, run) for run in runs])
    after = open_study(path)
    for name in ("tv", "mean_size", "status", "error"):
        xr.testing.assert_identical(after[name], before[name])
    np.testing.assert_array_equal(after["finished_at"][0], before["finished_at"][0])


@pytest.mark.parametrize(("how", "name"), [pair for pair in DAMAGES if pair[1] != "zarr.json"][::4])
def test_repair_makes_a_store_whole(made, path, how, name):
    hurt(path, how, name, np.random.default_rng(2))
    repaired(path)
    for variable in ("tv", "mean_size", "status", "error"):
        kept = made[2]["status"] != 0
        xr.testing.assert_equal(open_study(path)[variable].where(kept), made[2][variable].where(kept))


def test_a_missing_array_is_named_and_not_taken_for_a_study_that_has_not_run(path):
    shutil.rmtree(path / "status")
    for use in (open_study, study_status):
        with refuses("store"):
            use(path)


def test_a_damaged_root_is_told_in_one_sentence(path, capsys):
    whole = (path / "zarr.json").read_text()
    for content, reason in (
        (whole[:100], "whose zarr.json is damaged"),
        ("[1]", "whose zarr.json is damaged"),
        ("\0" * 50, "whose zarr.json is damaged"),
        (whole.replace("srr", "sar"), "whose zarr.json does not match its checksum"),
        (re.sub('"checksum": "[0-9a-f]+"', '"checksum": "0"', whole), "whose zarr.json does not match its checksum"),
    ):
        (path / "zarr.json").write_text(content)
        with pytest.raises(SystemExit) as end:
            main(["study", "status", str(path)])
        errors = capsys.readouterr().err
        assert end.value.code == 2
        assert reason in errors
        assert len(errors.splitlines()) == 1


def test_a_chunk_that_stands_for_texts_is_refused_before_room_is_made_for_them(made, path):
    """Its checksum is right. Its first number says how many texts there are."""
    for name in ("error/c/1/0", "mechanism/c/0"):
        shutil.copy(path / "finished_at/c/0/0", path / name)
        with refuses("store"):
            read(path)
        shutil.copy(made[0] / name, path / name)


def test_a_damaged_journal_is_refused_and_its_runs_are_made_again(tmp_path):
    path = tmp_path / "study.zarr"
    write_half(path)
    shutil.copytree(path, tmp_path / "copy.zarr")
    read(tmp_path / "copy.zarr")
    assert open_study(path).identical(open_study(tmp_path / "copy.zarr"))
    flip(path / "journal.json", 90)
    with pytest.raises((ValueError, OSError), match="store must be "):
        read(path)
    with StudyStore(path, STUDY, repair=True) as store:
        assert store.waiting(2).tolist() == [2, 3, 4, 5]


def test_a_store_that_does_not_describe_its_study_is_refused(path):
    """With a right checksum: as somebody may write it."""
    root = json.loads((path / "zarr.json").read_bytes())
    for changes in (
        {"runs": 900_000},
        {"name": "\x1b[31m"},
        {"measures": ["../tv"]},
        {"measures": ["other"]},
        {"grid": [{axis: list(range(1000)) for axis in "abcdefgh"}]},
    ):
        study = json.loads(root["attributes"]["study"]) | changes
        layout._write_root(path, {**root, "attributes": {**root["attributes"], "study": json.dumps(study)}})
        for use in (open_study, study_status):
            with pytest.raises(
                ValueError, match=r"store must be a folder .* whose zarr.json does not describe a study"
            ):
                use(path)
