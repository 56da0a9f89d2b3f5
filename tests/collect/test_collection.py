"""What every collection keeps to, whatever its policy: it goes on bit for bit, loses nothing, and damage is found."""

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp import Collection, Responses
from adobest_pp.answers.gather.gather import read_answers
from adobest_pp.answers.store import Store, is_collection, read_content
from tests.collect.policies import LABELS, POLICIES, THREE, answer_all, assert_same, copied, new, people
from tests.refusals import refuses

each = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
three = pytest.mark.parametrize("policy", THREE.values(), ids=THREE)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "poll").mkdir()
    return tmp_path / "poll" / "poll.db"


# ---------------------------------------------------------------- in use
@each
def test_a_resumed_collection_goes_on_bit_for_bit(policy, path):
    """Also one that was killed, and as one in memory does."""
    collection, in_memory = new(policy, path), new(policy)
    for one in (collection, in_memory):
        answer_all(one, people(31), 1)
    with Collection.open(copied(path)) as killed:
        assert_same(killed, in_memory)
    collection.close()
    assert [each.name for each in path.parent.iterdir()] == ["poll.db"]
    with Collection.open(path) as resumed:
        assert_same(resumed, in_memory)
        assert answer_all(resumed, people(9, 1), 2) == answer_all(in_memory, people(9, 1), 2)
        assert_same(resumed, in_memory)
        assert (resumed.settings, resumed.categories) == (in_memory.settings, tuple(LABELS))


def test_every_transaction_waits_for_the_disk(path):
    """A power cut is not tried: SQLite says what it does."""
    with new(THREE["same"], path) as collection:
        connection = collection._store._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_answers_that_could_not_be_written_wait_for_the_next_try(path, monkeypatch):
    with new(THREE["same"], path) as collection, collection.holding():
        collection.record([1, 0])
        with monkeypatch.context() as patch:
            patch.setattr(collection._store, "write", Mock(side_effect=OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError, match="full"):
                collection.flush()
        collection.flush()
        assert Responses.read(path).answers.tolist() == [1, 0]


@three
def test_every_reader_sees_all_answers_while_they_come_in(policy, path):
    collection = new(policy, path)
    answer_all(collection, people(15), 1)
    for read in (Responses.read, read_answers):
        xr.testing.assert_identical(read(path).to_xarray(), collection.responses.to_xarray())
    collection.responses.to_netcdf(path.with_name("export.nc"))
    collection.responses.to_parquet(path.with_name("export.parquet"))
    assert len(Responses.read(path.with_name("export.nc"))) == 15
    assert len(read_answers(path.with_name("export.parquet"), progressbar=False)) == 15
    assert not is_collection(path.with_name("export.nc"))


@three
def test_answers_may_come_late_in_any_order_and_several_at_a_time(policy):
    one_by_one, at_once = new(policy), new(policy)
    first = at_once.next_question()
    answers = first.privatize(people(40), rng=np.random.default_rng(1))
    at_once.record(answers, first)
    for answer in answers:
        one_by_one.record(answer, 0)
    for collection in (at_once, one_by_one):
        collection.next_question()
        collection.record(answers[:2], first.number)
    assert_same(one_by_one, at_once)
    assert len(at_once) == 42
    at_once.record(answers[:0], first)
    assert len(at_once) == 42


@three
def test_asking_twice_gives_the_same_question(policy):
    collection = new(policy)
    answer_all(collection, people(10), 0)
    assert collection.next_question() == collection.next_question()


@each
def test_bad_input_changes_nothing(policy, path):
    collection = new(policy, path)
    answer_all(collection, people(5), 1)
    good = collection.next_question().privatize(0)
    before = read_content(path)
    for bad in (-1, 99, "a", [[[0]]], None, np.nan, object()):
        with refuses("answers"):
            collection.record(bad)
    foreign = ad.mechanisms.PublishedQuestion(0, ad.SRR(5, 9.0), tuple(LABELS))
    for bad in (-1, 99, "a", foreign, 0.0):
        with refuses("question"):
            collection.record(good, bad)
    for bad in (-1, "a", 0.5):
        with refuses("person"):
            collection.record(good, person=bad)
    assert len(collection) == 5
    assert read_content(path).events == before.events
    collection.close()


def test_what_the_user_does_to_the_responses_is_not_recorded():
    collection = new(THREE["same"])
    collection.record([0, 1])
    collection.responses.append(3)
    assert collection.responses.answers.tolist() == [0, 1]
    collection.responses.append(3)
    collection.record(2)
    assert collection.responses.answers.tolist() == [0, 1, 2]


def test_a_copy_of_an_open_file_misses_nothing_and_says_so(path, caplog):
    copy = path.with_name("copy.db")
    with new(THREE["same"], path) as collection:
        collection.record([0, 1])
        collection.copy(copy)
    assert len(Responses.read(copy)) == 2
    assert not caplog.text  # a file that was copied by other means would lack its latest answers


@three
def test_a_copy_is_a_collection_of_its_own(policy, path):
    collection = new(policy)
    answer_all(collection, people(10), 1)
    collection.copy(path)
    with Collection.open(path) as copy:
        assert_same(copy, collection)
        answer_all(copy, people(2), 2)
    assert (len(collection), len(Responses.read(path))) == (10, 12)
    with pytest.raises(FileExistsError):
        collection.copy(path)


@three
def test_the_estimate_is_that_of_the_responses(policy):
    collection, twin = new(policy), new(policy)
    for one in (collection, twin):
        answer_all(one, people(50), 1)
    before = collection._chooser.state()
    estimate = collection.estimate(50)
    assert collection._chooser.state() == before
    assert estimate["category"].values.tolist() == LABELS
    assert estimate.attrs["n_responses"] == 50
    assert ((estimate["lower"] <= estimate["mean"]) & (estimate["mean"] <= estimate["upper"])).all()
    xr.testing.assert_identical(twin.estimate(50), estimate)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"policy": "best"}, "policy"),
        ({"policy": ad.SameQuestion("SRR")}, "mechanism"),
        ({"policy": ad.SameQuestion(ad.RRRR(5, 1.0))}, "subset"),
        ({"policy": ad.SameQuestion(ad.SRR(5, 1.0), [0])}, "subset"),
        ({"policy": ad.AdaptiveSubset(ad.SRR(5, 1.0))}, "mechanism"),
        ({"policy": ad.Rounds(ad.RRRR(5, 1.0), n_people=10)}, "mechanism"),
        ({"policy": ad.Rounds(ad.SubsetSelection(5, 1.0), n_people=0)}, "n_people"),
        ({"policy": ad.Rounds(ad.SubsetSelection(5, 1.0), n_people=10, rounds=11)}, "rounds"),
        ({"policy": ad.Rounds(ad.SubsetSelection(5, 1.0), n_people=10, prior="flat")}, "prior"),
        ({"categories": ["a"]}, "categories"),
        ({"random_seed": -1}, "random_seed"),
        ({"random_seed": 2**63}, "random_seed"),
        ({"random_seed": 1.5}, "random_seed"),
    ],
)
def test_bad_settings_are_named(settings, name):
    with pytest.raises(ValueError, match=f"{name} must "):
        Collection.create(**({"policy": THREE["same"]} | settings))


# ---------------------------------------------------------------- its file
def test_nothing_is_overwritten(path):
    new(THREE["same"], path).close()
    content = path.read_bytes()
    with pytest.raises(FileExistsError):
        new(THREE["same"], path)
    with pytest.raises(FileNotFoundError):
        new(THREE["same"], path.parent / "none" / "poll.db")
    assert path.read_bytes() == content


@three
def test_a_second_writer_gets_one_sentence(policy, path):
    collection = new(policy, path)
    answer_all(collection, people(3), 1)
    for attempt in (
        lambda: Collection.open(path),
        lambda: collection.responses.to_netcdf(path, overwrite=True),
    ):
        with refuses("path"):
            attempt()
    collection.record(collection.next_question().privatize(0))  # the first one goes on
    collection.close()
    Collection.open(path).close()


def test_a_second_writer_in_spite_of_the_lock_loses_nothing(path, monkeypatch):
    """As on a file system without locks: whoever comes second to write gets an error, and opens the file again."""
    first = new(THREE["same"], path)
    monkeypatch.setattr("adobest_pp.answers.store._guard", lambda target: sqlite3.connect(":memory:"))
    second = Collection.open(path)
    first.record(1)
    with pytest.raises(OSError, match="another program has changed"):
        second.record(2)
    assert len(second) == 0
    first.record(3)
    assert Responses.read(path).answers.tolist() == [1, 3]


def test_a_file_that_is_gone_or_replaced_takes_no_more_answers(path):
    collection = new(THREE["same"], path)
    collection.record(1)
    path.rename(path.with_name("other.db"))
    for _ in range(2):
        with pytest.raises(OSError, match="deleted or replaced"):
            collection.record(2)
        path.write_bytes(b"something else")
    assert collection.responses.answers.tolist() == [1]
    collection.copy(path.with_name("rescued.db"))
    assert len(Responses.read(path.with_name("rescued.db"))) == 1
    collection.close()


def test_a_closed_collection_takes_no_more_answers(path):
    collection = new(THREE["same"], path)
    collection.close()
    with pytest.raises(OSError, match="was closed"):
        collection.record(2)
    assert len(collection) == 0


def test_a_copy_without_its_latest_transactions_is_told(path, caplog):
    collection = new(THREE["same"], path)
    collection.record(1)
    alone = path.with_name("alone.db")
    alone.write_bytes(path.read_bytes())
    assert len(Responses.read(alone)) == 0
    assert "was copied while it was open" in caplog.text
    caplog.clear()
    collection.close()
    assert len(Responses.read(path)) == 1
    assert caplog.text == ""


def tampered(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


DAMAGES = {
    "a row removed": ["DELETE FROM events WHERE number = 5"],
    "a row removed and the others moved up": [
        "DELETE FROM events WHERE number = 5",
        "UPDATE events SET number = number - 1 WHERE number > 5",
    ],
    "the last row removed": ["DELETE FROM events WHERE number = (SELECT MAX(number) FROM events)"],
    "all rows removed": ["DELETE FROM events"],
    "a row changed": ["UPDATE events SET body = REPLACE(body, '[', '[1,') WHERE number = 5"],
    "a row that is no JSON": ["UPDATE events SET body = 'later' WHERE number = 5"],
    "a row of bytes": ["UPDATE events SET body = x'00ff' WHERE number = 5"],
    "a row twice": ["INSERT INTO events SELECT 1 + MAX(number), body, checksum FROM events"],
    "a row of another collection": [
        "UPDATE events SET (body, checksum) = (SELECT body, checksum FROM other.events WHERE number = 5) "
        "WHERE number = 5"
    ],
    "all rows of another collection": ["DELETE FROM events", "INSERT INTO events SELECT * FROM other.events"],
    "all but the header of another collection": [
        "DELETE FROM events",
        "INSERT INTO events SELECT * FROM other.events",
        "UPDATE parts SET value = (SELECT o.value FROM other.parts o WHERE o.name = parts.name) WHERE name != 'header'",
    ],
    "a gap in the numbers": ["UPDATE events SET number = 999 WHERE number = (SELECT max(number) FROM events)"],
    "another state": ["UPDATE parts SET value = '{}' WHERE name = 'state'"],
    "another header": ["UPDATE parts SET value = REPLACE(value, '<e>', 'e') WHERE name = 'header'"],
    "no head": ["DELETE FROM parts WHERE name = 'head'"],
    "another head": ["UPDATE parts SET value = '[1]' WHERE name = 'head'"],
    "another version": ["UPDATE parts SET value = REPLACE(value, '\"version\": 1', '\"version\": 9')"],
    "a table more": ["CREATE TABLE mine (x)"],
    "a trigger": ["CREATE TRIGGER t AFTER UPDATE ON parts BEGIN DELETE FROM events; END"],
    "a view in place of a table": ["DROP TABLE events", "CREATE VIEW events AS SELECT 1, 2, 3"],
}


@pytest.mark.parametrize("statements", DAMAGES.values(), ids=DAMAGES)
@three
def test_damage_is_found(policy, statements, path):
    for name in (path, path.with_name("other.db")):
        collection = new(policy)
        answer_all(collection, people(12), 1)
        collection.copy(name)
    tampered(path, f"ATTACH '{path.with_name('other.db')}' AS other", *statements)
    content = path.read_bytes()
    for read in (Responses.read, Collection.open):
        with refuses("path") as raised:
            read(path)
        assert type(raised.value) is ValueError
    assert path.read_bytes() == content


def crafted(path, policy, events=(), state=None):
    """Write a collection whose checksums are right, with contents that no collection has."""
    collection = new(policy)
    store = collection._store
    store.write(list(events), state)
    collection.copy(path)


BAD_EVENTS = [
    {"answers": [9], "question": 0},
    {"answers": 1, "question": 0},
    {"answers": "a", "question": 0},
    {"answers": [1]},
    {"answers": [1], "question": 7},
    {"subset": [0, 1, 2, 3, 4]},
    {"subset": 7},
    {"mechanism": {"mechanism": "SRR", "n_categories": 3, "epsilon": 1.0}},
    {"mechanism": "os:system"},
]


@pytest.mark.parametrize("event", BAD_EVENTS)
def test_events_that_cannot_be_are_refused_in_one_sentence(event, path):
    crafted(path, THREE["adaptive"], [event])
    for read in (Responses.read, Collection.open):
        with pytest.raises(ValueError, match=r"poll\.db'"):
            read(path)


STATES = {
    "no question": lambda state: {**state, "question": None},
    "another question": lambda state: {**state, "question": 7},
    "people": lambda state: {**state, "people": 3},
    "no generator": lambda state: _chooser(state, generator=None),
    "zeros": lambda state: _chooser(state, generator=[0, 0, 0, 0]),
    "a large word": lambda state: _chooser(state, generator=[1, 2, 3, 2**64]),
    "phi of another length": lambda state: _chooser(state, phi=[1.0]),
    "negative phi": lambda state: _chooser(state, phi=[-1.0, 1, 1, 1, 1]),
    "phi of zeros": lambda state: _chooser(state, phi=[0.0] * 5),
    "phi that is no number": lambda state: _chooser(state, phi=["1"] * 5),
    "order": lambda state: _chooser(state, order=[0, 0, 1, 2, 3]),
    "rounds": lambda state: _chooser(state, rounds=-1),
    "chosen in the future": lambda state: _chooser(state, chosen_at=99),
    "center": lambda state: _chooser(state, center=[1.0]),
}


def _chooser(state, **changes):
    return {**state, "chooser": {**state["chooser"], **changes}}


@pytest.mark.parametrize("change", STATES.values(), ids=STATES)
def test_states_that_cannot_be_are_refused_in_one_sentence(change, path):
    policy = POLICIES["adaptive, exact"]
    crafted(path, policy, state=change(new(policy)._state()))
    with pytest.raises(ValueError, match=r"poll\.db'"):
        Collection.open(path)
    assert len(Responses.read(path)) == 0
    assert [each.name for each in path.parent.iterdir()] == ["poll.db"]


def test_records_of_rounds_that_cannot_be_are_refused(path):
    crafted(path, THREE["rounds"], state={"question": 0, "chooser": {"records": [3]}, "people": None})
    with pytest.raises(ValueError, match=r"poll\.db'"):
        Collection.open(path)


def test_other_files_are_no_collections(path):
    new(THREE["same"]).responses.to_netcdf(path.with_name("responses.nc"))
    path.with_name("text.db").write_text("text")
    path.with_name("empty.db").write_bytes(b"")
    tampered(path.with_name("database.db"), "CREATE TABLE t (x)")
    for name in ("responses.nc", "text.db", "empty.db", "database.db"):
        with refuses("path"):
            Collection.open(path.with_name(name))
    for missing in (path, path.parent):
        with pytest.raises(FileNotFoundError):
            Collection.open(missing)
        with pytest.raises(FileNotFoundError):
            Responses.read(missing)


# ---------------------------------------------------------------- faults
PROGRAM = """
import sys
import adobest_pp as ad
collection = ad.Collection.open(sys.argv[1])
while True:
    question = collection.next_question()
    collection.record(question.privatize(1), question)
    print(len(collection), flush=True)
"""


KILLED_BETWEEN_JOURNALS = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 2")  # so that pages are written before the transaction ends
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE parts SET value = 'yes' WHERE name = 'open'")
connection.executemany("INSERT INTO events VALUES (?, ?, '')", ((i, "x" * 500) for i in range(100, 400)))
os._exit(9)
"""


def test_a_reader_takes_back_what_a_killed_process_had_begun(path):
    """Opening and closing a collection change the journal of SQLite, and a kill may fall in between."""
    collection = new(THREE["same"], path)
    answer_all(collection, people(20), 1)
    answers = collection.responses.answers
    collection.close()
    subprocess.run([sys.executable, "-c", KILLED_BETWEEN_JOURNALS, path], check=False)
    assert path.with_name(f"{path.name}-journal").exists()
    np.testing.assert_array_equal(Responses.read(path).answers, answers)
    assert len(Collection.open(path)) == 20


@pytest.mark.parametrize(
    "policy", [pytest.param(THREE[name], marks=[] if name == "rounds" else pytest.mark.long, id=name) for name in THREE]
)
def test_a_killed_process_loses_nothing_that_was_acknowledged(policy, path):
    new(policy, path).close()
    acknowledged = 0
    for attempt in range(2):
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            first = int(process.stdout.readline())
            assert first == acknowledged + 1
            time.sleep(0.05 * (attempt + 1))
            process.send_signal(signal.SIGKILL)
            rest = [int(line) for line in process.stdout.read().splitlines()]
        acknowledged = max([first, *rest])
        held = len(Responses.read(path))
        assert acknowledged <= held <= acknowledged + 1
        acknowledged = held
    with Collection.open(path) as collection:
        assert len(collection) == acknowledged


def limited(size):
    """Let no file grow beyond so many bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


@three
def test_a_full_disk_is_one_sentence_and_changes_nothing(policy, path):
    collection = new(policy, path)
    answer_all(collection, people(4), 1)
    wal = path.with_name("poll.db-wal")
    question = collection.next_question()
    before, records = collection._chooser.state(), collection.records
    limited(wal.stat().st_size)
    try:
        for _ in range(2):
            with pytest.raises(OSError, match="could not be written, and nothing was changed") as raised:
                collection.record(question.privatize(people(5)), question)
            assert raised.value.errno in (errno.ENOSPC, errno.EIO)
    finally:
        limited(resource.RLIM_INFINITY)
    assert (len(collection), collection.records, collection._chooser.state()) == (4, records, before)
    assert len(Responses.read(path)) == 4
    answer_all(collection, people(3), 2)
    with Collection.open(copied(path)) as killed:
        assert_same(killed, collection)
    collection.close()
    assert len(Responses.read(path)) == 7


def test_a_choice_that_cannot_be_written_is_taken_back(path):
    collection, twin = new(THREE["adaptive"], path), new(THREE["adaptive"])
    for one in (collection, twin):
        answer_all(one, people(4), 1)
    limited(path.with_name("poll.db-wal").stat().st_size)
    try:
        with pytest.raises(OSError, match="could not be written"):
            collection.next_question()
    finally:
        limited(resource.RLIM_INFINITY)
    assert_same(collection, twin)


class Interrupting:
    """A connection within which Ctrl-C comes before or after the statement of this number."""

    def __init__(self, connection, number, after):
        self._connection, self._left, self._after = connection, number, after

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def _call(self, name, *arguments):
        self._left -= 1
        if self._left == 0 and not self._after:
            raise KeyboardInterrupt
        result = getattr(self._connection, name)(*arguments)
        if self._left == 0:
            raise KeyboardInterrupt
        return result

    def execute(self, *arguments):
        return self._call("execute", *arguments)

    def executemany(self, *arguments):
        return self._call("executemany", *arguments)


@three
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 8))
def test_an_interrupted_call_leaves_memory_and_file_the_same(policy, number, after, path):
    twin = new(policy)
    answer_all(twin, people(30), 1)
    twin.copy(path)
    collection = Collection.open(path)
    store = collection._store
    real = store._connection
    answers = collection._held.questions[0].privatize([0, 1])
    for call in (lambda one: one.next_question(), lambda one: one.record(answers, 0)):
        before = len(collection)
        store._connection = Interrupting(real, number, after)
        with suppress(KeyboardInterrupt):
            call(collection)
        store._connection = real
        call(twin)
        if len(collection) == before:  # not recorded, or a question, which is the same whoever asks for it again
            call(collection)
        assert len(Responses.read(path)) == len(collection) == len(twin)
    assert_same(collection, twin)
    with Collection.open(copied(path)) as killed:
        assert_same(killed, twin)
    collection.close()


def test_readers_do_not_stop_the_writer(path):
    collection = new(THREE["same"], path)
    seen, problems, done = [], [], threading.Event()

    def read():
        while not done.is_set():
            try:
                seen.append(len(Responses.read(path)))
            except Exception as problem:
                problems.append(problem)

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(60):
        collection.record(i % 5)
    done.set()
    thread.join()
    assert problems == []
    assert seen == sorted(seen)
    assert len(Responses.read(path)) == 60


def test_the_store_is_shut_when_it_is_forgotten(path):
    new(THREE["same"], path)
    Collection.open(path).close()
    assert os.listdir(path.parent) == ["poll.db"]
    store, content = Store.open(path)
    store.close()
    assert content.events == [{}]
