"""A collection in a file: it goes on bit for bit, loses nothing, and damage to it is noticed."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import xarray as xr

from adobest_pp import AdaptiveCollector, DecayingSteps, Responses, _files
from adobest_pp._files import netcdf_bytes
from adobest_pp.answers.journal import Journal
from adobest_pp.collect import collection_file as kept
from tests.collect.saved import LABELS, MECHANISM, answer_all, assert_same, copied, people, reload, split

SETTINGS = [
    {},
    {"utility": "semi_adaptive", "alpha": 0.8, "adapt_every": 7},
    {"utility": "mse", "sampler": "exact", "prior": 0.5},
    {"utility": "tv1", "schedule": DecayingSteps(0.01, 0.6), "batch_size": 3, "updates": 4},
    {"utility": "nonadaptive", "step_size": 1e-3, "prior": [1, 2, 3, 4, 5]},
]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "poll").mkdir()
    return tmp_path / "poll" / "poll.nc"


@pytest.fixture
def going(path):
    """A collection with 5 answers that were saved and 10 that came since."""
    collector = AdaptiveCollector(MECHANISM, categories=LABELS, random_seed=3)
    answer_all(collector, people(5), 1)
    collector.save(path)
    answer_all(collector, people(10), 2)
    return collector


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_reloaded_collector_goes_on_bit_for_bit(settings, path):
    collector = AdaptiveCollector(MECHANISM, categories=LABELS, random_seed=3, **settings)
    answer_all(collector, people(30), 1)
    collector.save(path)
    reloaded = reload(path)
    assert_same(reloaded, collector)
    first = answer_all(collector, people(20, 1), 2)
    assert_same(reload(path), collector)
    second = answer_all(reloaded, people(20, 1), 2)
    assert first == second
    assert_same(reloaded, collector)


def test_saving_again_empties_the_journal(path):
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    for _ in range(3):
        answer_all(collector, people(10), 1)
        collector.save(path)
        assert split(path)[2] == []
        assert_same(reload(path), collector)
        assert list(path.parent.iterdir()) == [path]


def test_a_long_journal_is_folded_in(path, monkeypatch):
    monkeypatch.setattr(kept, "LONG_JOURNAL", 1000)
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    collector.save(path)
    sizes = []
    for seed in range(150):
        answer_all(collector, people(1, seed), seed)
        sizes.append(path.stat().st_size)
        if seed % 30 == 0:
            assert_same(reload(path), collector)
    # Never more than twice the netCDF part and one event; without folding it would be four times that.
    assert max(sizes) < 2 * len(split(path)[0]) + 2000
    assert len(split(path)[2]) < 150
    assert_same(reload(path), collector)


def test_one_file_is_all_and_every_reader_sees_all_answers(going, path):
    assert list(path.parent.iterdir()) == [path]
    assert len(Responses.from_netcdf(path)) == 15  # while the collector goes on
    copy = copied(path)
    going.close()
    assert_same(AdaptiveCollector.load(copy), going)
    xr.testing.assert_identical(Responses.from_netcdf(path).to_xarray(), going.responses.to_xarray())


def test_xarray_reads_what_was_saved_and_never_changes_the_file(going, path):
    content = path.read_bytes()
    with xr.open_dataset(path) as dataset:
        assert dataset["answer"].size == 5
        assert "from_netcdf" in dataset.attrs["collection"]
        with pytest.raises(ValueError, match=r"xarray does not see those .*: use Responses\.from_netcdf"):
            Responses.from_xarray(dataset)
    assert path.read_bytes() == content
    going.save(path)
    with xr.open_dataset(path) as dataset:
        assert len(Responses.from_xarray(dataset)) == 15


def test_a_journal_that_another_program_cut_off_is_missed(going, path):
    with pytest.raises(OSError, match="Unable to"), xr.open_dataset(path) as dataset:  # in use: not to be written to
        dataset.load().to_netcdf(path, mode="a", engine="h5netcdf")
    going.close()
    netcdf, _, _ = split(path)
    path.write_bytes(netcdf)
    for read in (Responses.from_netcdf, AdaptiveCollector.load):
        with pytest.raises(ValueError, match="the journal behind its netCDF part is gone"):
            read(path)
    with xr.open_dataset(path) as dataset, pytest.raises(ValueError, match="must hold all answers"):
        Responses.from_xarray(dataset)


DAMAGES = {
    "a line removed": (lambda lines: lines[:4] + lines[5:], "has line 6 where line 5 must be"),
    "the first line removed": (lambda lines: lines[1:], "has line 2 where line 1 must be"),
    "two lines exchanged": (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "has line 5 where line 4"),
    "a line twice": (lambda lines: [*lines[:5], lines[4], *lines[5:]], "has line 5 where line 6"),
    "the last line removed": (lambda lines: lines[:-1], "has 19 lines of the 20 that were acknowledged"),
    "the last line cut": (lambda lines: [*lines[:-1], lines[-1][:-4]], "has 19 lines of the 20"),
    "all lines removed": (lambda lines: [], "has 0 lines of the 20"),
    "an answer changed": (
        lambda lines: [*lines[:3], lines[3].replace(b'"answers":[', b'"answers":[1'), *lines[4:]],
        "was changed at line 4, or before it",
    ),
    "something that is no event": (lambda lines: [*lines, b"later\n"], "has line without a number where line 21"),
}


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_journal_is_refused(going, path, damage, told):
    going.close()
    netcdf, heading, lines = split(path)
    assert len(lines) == 20
    path.write_bytes(netcdf + b"".join(heading) + b"".join(damage(lines)))
    content = path.read_bytes()
    for read in (Responses.from_netcdf, AdaptiveCollector.load):
        with pytest.raises(ValueError, match=rf"poll\.nc', whose journal {told}.*: restore it from a copy$"):
            read(path)
    assert path.read_bytes() == content


def test_a_changed_bit_in_the_saved_part_is_refused(going, path):
    going.close()
    content = bytearray(path.read_bytes())
    content[len(split(path)[0]) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="whose saved part is not as it was written"):
        Responses.from_netcdf(path)


def test_one_of_the_two_acknowledgments_is_enough(going, path):
    going.close()
    netcdf, heading, lines = split(path)
    assert [int(line.split()[1]) for line in heading[1:]] == [20, 19]  # in turn
    for broken in (1, 2):
        damaged = [line if i != broken else b"x" * 10 + line[10:] for i, line in enumerate(heading)]
        path.write_bytes(netcdf + b"".join(damaged) + b"".join(lines))
        assert_same(reload(path), going)
    path.write_bytes(netcdf + heading[0] + b"x" * len(heading[1]) + b"x" * len(heading[2]) + b"".join(lines))
    with pytest.raises(ValueError, match="whose count of acknowledged lines is not readable"):
        AdaptiveCollector.load(path)


def test_acknowledgments_that_are_cut_off_one_after_the_other(going, path, monkeypatch):
    """Killed within each of them, twice in a row: the one that is whole is not written to before the other is."""
    write = os.write

    def cut(descriptor, content):
        if bytes(content).startswith(b"acknowledged"):
            write(descriptor, b"acknow-")
            raise KeyboardInterrupt
        return write(descriptor, content)

    collector = going
    for n in (16, 17, 18):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", cut)
            with pytest.raises(KeyboardInterrupt):
                collector.record(0, [1])
        assert len(collector.responses) == n  # it was on disk
        collector.close()
        collector = AdaptiveCollector.load(path)
        assert len(collector.responses) == n


def test_a_first_answer_is_missed_wherever_the_file_was_cut_off(path):
    """Of the two lines of acknowledgment the older one, of no answers, comes first: alone it must not count."""
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    collector.save(path)
    collector.record(0, [1])
    content, start = path.read_bytes(), len(split(path)[0])
    collector.close()
    for end in range(start + 1, len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"poll\.nc"):
            AdaptiveCollector.load(path)


def test_a_line_that_was_cut_off_is_as_if_never_written(going, path):
    going.close()
    whole = path.read_bytes()
    for rest in (b"2", b'21 0123456789abcdef {"answers":[1', b"\0" * 40, b"\0\0\n1 2 {}\n"):
        path.write_bytes(whole + rest)
        assert len(Responses.from_netcdf(path)) == 15
        reloaded = AdaptiveCollector.load(path)
        assert_same(reloaded, going)
        assert path.read_bytes() == whole
        reloaded.record(0, [0])
        assert len(reload(path).responses) == 16
        reloaded.close()


# ---------------------------------------------------------------- files that are there already
def test_the_same_program_twice_overwrites_nothing(path):
    def program():
        collector = AdaptiveCollector(MECHANISM, random_seed=3)
        collector.save(path)
        answer_all(collector, people(8), 1)
        return collector

    program().close()
    content = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"poll\.nc', which exists: choose another name, or ask .*overwrite"):
        program()
    assert path.read_bytes() == content
    other = AdaptiveCollector(MECHANISM, random_seed=4)
    other.save(path, overwrite=True)
    assert len(reload(path).responses) == 0


def test_a_file_has_one_collector_at_a_time(going, path):
    content = path.read_bytes()
    other = AdaptiveCollector(MECHANISM, random_seed=4)
    for attempt in (
        lambda: AdaptiveCollector.load(path),
        lambda: other.save(path, overwrite=True),
        lambda: going.responses.to_netcdf(path, overwrite=True),
    ):
        with pytest.raises(ValueError, match="path must not be in use by another collector"):
            attempt()
    for attempt in (lambda: other.save(path), lambda: going.responses.to_netcdf(path)):
        with pytest.raises(FileExistsError, match="which exists"):
            attempt()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    going.save(path)  # its own, which stays its own
    with pytest.raises(ValueError, match="in use by another collector"):
        AdaptiveCollector.load(path)
    going.close()
    assert_same(AdaptiveCollector.load(path), going)


def test_without_locks_no_answer_of_another_collector_is_lost(going, path, monkeypatch):
    going.close()
    monkeypatch.setattr(_files, "fcntl", None)
    first, second = AdaptiveCollector.load(path), AdaptiveCollector.load(path)
    second.record([0, 1, 2], [1])
    content = path.read_bytes()
    for attempt in (lambda: first.save(path), lambda: first.save(path, overwrite=True), lambda: first.record(0, [1])):
        with pytest.raises(OSError, match=r"path must be left alone .* was changed by another program"):
            attempt()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    assert Responses.from_netcdf(path).answers[-3:].tolist() == [0, 1, 2]
    second.save(path)  # its own file, which nobody else has written to
    with pytest.raises(FileExistsError, match="which exists"):
        first.save(path)
    assert len(Responses.from_netcdf(path)) == len(second.responses) == 18


@pytest.mark.parametrize("answers", [[], [3]])
def test_without_locks_answers_of_the_same_length_are_told_apart(going, path, monkeypatch, answers):
    """Two collectors that write at the same moment: what one has written is at the place of the other's, as long."""
    going.save(path)
    for answer in answers:
        going.record(answer, [1])
    going.close()
    monkeypatch.setattr(_files, "fcntl", None)
    first, second, before = AdaptiveCollector.load(path), AdaptiveCollector.load(path), path.read_bytes()
    second.record(2, [1])
    theirs = path.read_bytes()
    os.truncate(path, len(before))
    first.record(0, [1])
    with path.open("r+b") as file:
        file.write(theirs)
    assert path.stat().st_size == first._journal._at.end
    for attempt in (lambda: first.save(path), lambda: first.record(0, [1])):
        with pytest.raises(OSError, match="was changed by another program"):
            attempt()
    assert path.read_bytes() == theirs


def test_without_locks_a_file_that_grows_while_it_is_loaded_is_not_cut(going, path, monkeypatch):
    monkeypatch.setattr(_files, "fcntl", None)
    read = kept.read_stored

    def grow_after(name):
        stored = read(name)
        going.record(0, [1])
        return stored

    monkeypatch.setattr(kept, "read_stored", grow_after)
    with pytest.raises(ValueError, match=r"in use by another .* which was changed while it was read"):
        AdaptiveCollector.load(path)
    assert len(Responses.from_netcdf(path)) == 16


def test_the_lock_of_a_file_that_was_replaced_meanwhile_is_not_enough(going, path, monkeypatch):
    """Between opening and locking, the owner saves: the lock that is then free is that of the old file."""
    flock = fcntl.flock

    def save_first(descriptor, how):
        monkeypatch.undo()
        going.save(path)
        return flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", save_first)
    with pytest.raises(ValueError, match="in use by another collector"):
        AdaptiveCollector.load(path)


def test_a_collection_that_is_being_read_is_not_replaced_and_other_files_are(going, path):
    plain = path.with_name("responses.nc")
    going.responses.to_netcdf(plain)
    going.close()
    with xr.open_dataset(path), xr.open_dataset(plain):
        going.responses.to_netcdf(plain, overwrite=True)
        with pytest.raises(ValueError, match="in use by another collector or program"):
            going.responses.to_netcdf(path, overwrite=True)
    assert len(Responses.from_netcdf(path)) == 15


def test_saving_elsewhere_leaves_a_whole_copy_behind(going, path):
    other = path.with_name("other.nc")
    going.save(other)
    first = AdaptiveCollector.load(path)
    assert_same(first, going)
    answer_all(going, people(3), 5)
    assert (len(Responses.from_netcdf(path)), len(Responses.from_netcdf(other))) == (15, 18)


def test_a_file_that_was_deleted_or_written_to_takes_no_more_answers(going, path):
    path.unlink()
    with pytest.raises(OSError, match="was deleted by another program: save the collection to a new file"):
        going.record(0, [1])
    going.save(path)
    with path.open("ab") as handle:
        handle.write(b"x")
    with pytest.raises(OSError, match="was changed by another program"):
        going.record(0, [1])
    assert len(going.responses) == 15
    with pytest.raises(OSError, match="was changed by another program: save the collection to a new file"):
        going.save(path)
    path = path.with_name("new.nc")
    going.save(path)
    going.record(0, [1])
    assert len(reload(path).responses) == 16


# ---------------------------------------------------------------- failures and interrupts
def test_a_save_that_fails_leaves_the_old_one_in_use(going, path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match=r"poll\.nc' could not be written, and nothing was changed: No space left"):
            going.save(path)
    assert list(path.parent.iterdir()) == [path]
    answer_all(going, people(3), 2)
    assert_same(reload(path), going)


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_an_interrupted_call_changes_nothing(call, problem, path, monkeypatch):
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    answer_all(collector, people(5), 1)
    collector.save(path)
    state, content = collector._state(), path.read_bytes()
    write = os.write

    def fail(descriptor, *rest):
        if call == "write":
            write(descriptor, b"half")
        raise problem

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for attempt in (collector.next_subset, lambda: collector.record(0)):
            with pytest.raises(type(problem)):
                attempt()
    assert collector._state() == state
    assert len(collector.responses) == 5
    assert path.read_bytes() == content
    assert_same(reload(path), collector)


def test_what_a_failed_call_left_is_removed_later(going, path, monkeypatch):
    """Neither the write nor the removal of its beginning works; the next call removes it first."""
    write = os.write

    def fail(descriptor, content=None):
        if isinstance(content, memoryview):
            write(descriptor, b"half")
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="Input/output error"):
            going.record(0, [1])
    assert path.read_bytes().endswith(b"half")
    assert len(Responses.from_netcdf(path)) == 15
    going.record(0, [1])
    assert len(Responses.from_netcdf(path)) == 16


def test_a_limit_on_the_size_of_files_is_told_in_one_sentence(tmp_path):
    """A real one, of the operating system, as a full disk would be: nothing is lost, and nothing crashes at exit."""
    program = textwrap.dedent("""
        import resource, signal, sys
        import numpy as np
        from adobest_pp import AdaptiveCollector, RRRR, Responses, SRR
        collector = AdaptiveCollector(RRRR(5, 1.0), random_seed=1)
        collector.save("poll.nc")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        many = Responses.from_arrays(SRR(5, 1.0), np.zeros(100_000, dtype=int))
        try:
            many.to_netcdf("many.nc")
        except OSError as problem:
            print(problem)
        try:
            for n in range(1000):
                collector.record(0, [1, 2])
        except OSError as problem:
            print(problem)
        print(n, len(collector.responses))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, numbers = done.stdout.splitlines()
    assert first.endswith("many.nc' could not be written, and nothing was changed: File too large")
    assert second.endswith("poll.nc' could not be written, and nothing was changed: File too large")
    recorded = int(numbers.split()[0])
    assert 10 < recorded < 1000
    assert numbers == f"{recorded} {recorded}"
    assert [file.name for file in tmp_path.iterdir()] == ["poll.nc"]
    assert len(AdaptiveCollector.load(tmp_path / "poll.nc").responses) == recorded


# ---------------------------------------------------------------- files that say something else
@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """What is saved of a collection with three answers."""
    path = tmp_path_factory.mktemp("saved") / "poll.nc"
    collector = AdaptiveCollector(MECHANISM, random_seed=3)
    answer_all(collector, people(3), 1)
    collector.save(path)
    collector.close()
    with xr.open_dataset(path) as opened:
        return opened.load()


def crafted(target, dataset, events=()):
    """Write a file with all checksums right, whose attributes or events are not what they should be."""
    journal = Journal.create(target, netcdf_bytes(dataset, checksum=False), overwrite=False)
    for event in events:
        journal.write(event)
    journal.close()
    return target


def changed(name, **values):
    """An edit that changes keys of a JSON attribute; what is None is removed."""

    def edit(dataset):
        content = json.loads(dataset.attrs[name]) | values
        return dataset.assign_attrs({name: json.dumps({k: v for k, v in content.items() if v is not None})})

    return edit


EDITS = {
    "no settings": (lambda ds: ds.assign_attrs(collector_settings="{"), "'collector_settings' must be a JSON object"),
    "settings of a list": (lambda ds: ds.assign_attrs(collector_settings="[]"), "'collector_settings' must be"),
    "settings of a number": (lambda ds: ds.assign_attrs(collector_settings=3), "'collector_settings' must be"),
    "no state": (lambda ds: ds.assign_attrs(collector_state="nan"), "'collector_state' must be a JSON object"),
    "deep state": (lambda ds: ds.assign_attrs(collector_state="[" * 100_000), "'collector_state' must be"),
    "people": (lambda ds: ds.assign_attrs(collector_people="1"), "'collector_people' must be"),
    "no utility": (changed("collector_settings", utility=None), "utility must be one of"),
    "a utility of another type": (changed("collector_settings", utility=[1]), "utility must be one of"),
    "no schedule": (changed("collector_settings", schedule=None), "schedule must be one of"),
    "an unknown schedule": (changed("collector_settings", schedule={"schedule": "x"}), "schedule must be one of"),
    "a schedule in words": (changed("collector_settings", schedule="PaperSteps"), "schedule must be one of"),
    "a schedule of a number": (changed("collector_settings", schedule=3), "schedule must be one of"),
    "a schedule of a text": (
        changed("collector_settings", schedule={"schedule": "PaperSteps", "scale": "a"}),
        "scale must be a positive number",
    ),
    "a schedule of more": (
        changed("collector_settings", schedule={"schedule": "DecayingSteps", "scale": 1, "power": "b"}),
        "power must be a number from 0 to 1",
    ),
    "a prior of two": (changed("collector_settings", prior=[1, 1]), "prior must be"),
    "a prior in words": (changed("collector_settings", prior="flat"), "prior must be"),
    "updates": (changed("collector_settings", updates=1.5), "updates must be an integer"),
    "a sampler": (changed("collector_settings", sampler=[]), "sampler must be"),
    "alpha": (changed("collector_settings", alpha="a"), "alpha must be"),
    "no generator": (changed("collector_state", generator=None), "generator's state must be"),
    "a generator of floats": (changed("collector_state", generator=[1.5] * 4), "generator's state must be"),
    "a generator that is stuck": (changed("collector_state", generator=[0] * 4), "generator's state must be"),
    "a generator out of range": (changed("collector_state", generator=[2**64] * 4), "generator's state must be"),
    "a short phi": (changed("collector_state", phi=[1.0]), "phi must be 5 finite numbers"),
    "a phi of texts": (changed("collector_state", phi=["1"] * 5), "phi must be 5 finite numbers"),
    "a phi without bounds": (changed("collector_state", phi=[10**400] * 5), "phi must be 5 finite numbers"),
    "an infinite phi": (changed("collector_state", phi=[float("inf")] * 5), "phi must be 5 finite numbers"),
    "a negative phi": (changed("collector_state", phi=[-1.0] * 5), "phi must be 5 numbers"),
    "an order": (changed("collector_state", order=[0, 0, 1, 2, 3]), "order must have each"),
    "an order of texts": (changed("collector_state", order=["a"] * 5), "order must have each"),
    "a short center": (
        lambda ds: changed("collector_state", center=[])(changed("collector_settings", sampler="exact")(ds)),
        "center must be",
    ),
    "a published category": (changed("collector_state", published=[9]), "subset must be"),
    "published words": (changed("collector_state", published="all"), "subset must be"),
    "rounds": (changed("collector_state", rounds="many"), "rounds must be an integer"),
    "negative waiting": (changed("collector_state", waiting=-1), "waiting must be an integer"),
    "no waiting": (changed("collector_state", waiting=None), "waiting must be an integer"),
    "no collection": (lambda ds: ds.drop_attrs(), "'schema' must be"),
}


@pytest.mark.parametrize(("edit", "told"), EDITS.values(), ids=EDITS)
def test_what_is_wrong_in_a_file_is_told_in_one_sentence(dataset, path, edit, told):
    with pytest.raises(ValueError, match=told) as raised:
        AdaptiveCollector.load(crafted(path, edit(dataset)))
    assert type(raised.value) is ValueError
    assert "poll.nc" in str(raised.value)
    assert "\n" not in str(raised.value)


EVENTS = [
    {"answers": [9], "subset": [0]},
    {"answers": 1, "subset": [0]},
    {"answers": "a", "subset": [0]},
    {"answers": [1]},
    {"answers": [1], "subset": [0, 1, 2, 3, 4]},
    {"answers": [1], "subset": 7},
    {"adapted": {}},
    {"adapted": [1]},
]


@pytest.mark.parametrize("event", EVENTS)
def test_events_that_cannot_be_are_told_in_one_sentence(dataset, path, event):
    with pytest.raises(ValueError, match=r"poll\.nc'") as raised:
        AdaptiveCollector.load(crafted(path, dataset, [event]))
    assert type(raised.value) is ValueError


def test_a_response_file_is_no_collection(going, path):
    plain = path.with_name("responses.nc")
    going.responses.to_netcdf(plain)
    with pytest.raises(ValueError, match=r"path must name a file of AdaptiveCollector\.save"):
        AdaptiveCollector.load(plain)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        AdaptiveCollector.load(path.with_name("none.nc"))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        AdaptiveCollector.load(path.parent)
    assert np.array_equal(Responses.from_netcdf(plain).answers, going.responses.answers)
