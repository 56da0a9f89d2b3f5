"""The files of a poll: an answer counts once a token, whatever happens between the desk and the collections."""

import errno
import gc
import sqlite3

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp import _files
from adobest_pp.poll.polls import OpenPoll, PollQuestion, Refusal, create_poll
from tests.poll.harness import COLORS
from tests.refusals import refuses

# What the desk asks of SQLite: 2 is FULL.
PRAGMAS = {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1}
WIDE = PollQuestion("Which number?", [str(i) for i in range(500)], 1.0, "srr")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "poll.db"


def take(poll, token, question, answer, number=0):
    poll.at_desk.submit(poll.desk.take, token, question, number, answer).result()


def token_of(poll):
    return poll.at_desk.submit(poll.desk.join).result()[0]


def drain(poll):
    return poll.at_files.submit(poll.drain).result()


def test_answers_reach_the_collections(path):
    create_poll(path, [COLORS, WIDE])
    poll = OpenPoll(path)
    tokens = [token_of(poll) for _ in range(20)]
    for i, token in enumerate(tokens):
        take(poll, token, 0, [i % 3])
        take(poll, token, 1, 400 + i)
    assert drain(poll)
    assert poll.counts == [20, 20]
    assert not drain(poll)
    take(poll, token_of(poll), 1, 7)
    poll.close()  # moves what has come in meanwhile
    assert sorted(ad.Responses.read(path.with_name("poll-2.db")).answers.tolist()) == [7, *range(400, 420)]
    assert len(ad.Responses.read(path)) == 20
    assert sorted(each.name for each in path.parent.iterdir()) == ["poll-2.db", "poll.db", "poll.db-desk"]


def test_an_answer_at_the_desk_waits_for_the_disk_and_is_overwritten_when_it_leaves(path):
    create_poll(path, [COLORS])
    poll = OpenPoll(path)

    def asked(name):
        return poll.desk._connection.execute(f"PRAGMA {name}").fetchone()[0]

    assert {name: poll.at_desk.submit(asked, name).result() for name in PRAGMAS} == PRAGMAS
    poll.close()


def test_a_token_counts_once_a_question_also_after_a_restart(path):
    create_poll(path, [COLORS, WIDE])
    poll = OpenPoll(path)
    token = token_of(poll)
    take(poll, token, 0, [1])
    with pytest.raises(Refusal, match="counted already"):
        take(poll, token, 0, [2])
    take(poll, token, 1, 3)
    poll.close()
    poll = OpenPoll(path)
    with pytest.raises(Refusal, match="counted already"):
        take(poll, token, 0, [1])
    assert poll.counts == [1, 1]
    assert poll.desk.joined == 1
    poll.close()


def test_forged_tokens_are_refused(path):
    create_poll(path, [COLORS, WIDE], each_person="one")
    poll = OpenPoll(path)
    token, drawn = poll.at_desk.submit(poll.desk.join).result()
    other = token.replace(f"{drawn}.", f"{1 - drawn}.", 1)
    for forged in (other, token[:-1], f"{token}0", "", ".", "a.b.c", None, 3, ["a"], "é" * 20, "a" * 10_000, "\ud800"):
        with pytest.raises(Refusal, match="not one of this poll"):
            take(poll, forged, drawn, [0] if drawn == 0 else 0)
    with pytest.raises(Refusal, match="Another question was drawn"):
        take(poll, token, 1 - drawn, 0)
    take(poll, token, drawn, [0] if drawn == 0 else 0)
    poll.close()


@pytest.mark.parametrize("stage", ["marked", "recorded", "forgotten"])
def test_a_crash_on_the_way_loses_and_doubles_nothing(path, stage):
    """Each transaction is a place to die: what was done before it is on disk, and nothing after."""
    create_poll(path, [WIDE])
    poll = OpenPoll(path)
    for i in range(10):
        take(poll, token_of(poll), 0, i)

    def dies():
        waiting = poll.at_desk.submit(poll.desk.waiting).result()
        poll.at_desk.submit(poll.desk.begin_leaving, *waiting[0], 0).result()
        if stage == "recorded":
            _, answers = poll.at_desk.submit(poll.desk.leaving).result()
            poll._collections[0].record(answers, 0)
        if stage == "forgotten":
            poll._resume()
        poll._collections[0].close()

    poll.at_files.submit(dies).result()
    poll.at_desk.submit(poll.desk.close).result()
    poll = OpenPoll(path)
    take(poll, token_of(poll), 0, 100)
    poll.close()
    assert sorted(ad.Responses.read(path).answers.tolist()) == [*range(10), 100]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_full_disk_on_the_way_loses_and_mixes_nothing(path, monkeypatch, arrived):
    """Answers that could not move wait: those to another question do not join them, and the next look moves both."""
    create_poll(path, [COLORS, WIDE])
    poll = OpenPoll(path)
    take(poll, token_of(poll), 0, [2])

    def fails(*given, **options):
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr(*((poll.desk, "end_leaving", fails) if arrived else (poll._collections[0], "record", fails)))
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                drain(poll)
            take(poll, token_of(poll), 1, 400)
    assert drain(poll)
    assert poll.counts == [1, 2]
    poll.close()
    assert ad.Responses.read(path).answers.tolist() == [[2]]
    assert ad.Responses.read(path.with_name("poll-2.db")).answers.tolist() == [400, 400]


def test_answers_that_wait_move_without_new_ones(path, monkeypatch):
    create_poll(path, [WIDE])
    poll = OpenPoll(path)
    take(poll, token_of(poll), 0, 7)
    with monkeypatch.context() as full:
        full.setattr(poll._collections[0], "record", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            drain(poll)
    assert drain(poll)
    assert poll.counts == [1]
    poll.close()


def test_a_full_disk_refuses_to_join_and_to_answer_in_a_sentence(path):
    create_poll(path, [WIDE])
    poll = OpenPoll(path)
    token = token_of(poll)
    poll.at_desk.submit(poll.desk._connection.execute, "PRAGMA query_only = ON").result()
    for call in (lambda: token_of(poll), lambda: take(poll, token, 0, 1)):
        with pytest.raises(Refusal, match="could not be kept") as refusal:
            call()
        assert refusal.value.status == 507
    poll.at_desk.submit(poll.desk._connection.execute, "PRAGMA query_only = OFF").result()
    assert poll.desk.joined == 1
    take(poll, token, 0, 1)
    poll.close()
    assert ad.Responses.read(path).answers.tolist() == [1]


@pytest.mark.parametrize("failing", ["poll-2.db", "poll.db-desk"])
def test_a_poll_that_cannot_be_written_leaves_nothing(path, monkeypatch, failing):
    """So the same command can be given again once there is room."""
    install = _files.install

    def full(descriptor, temporary, target, **options):
        if target.name == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        install(descriptor, temporary, target, **options)

    with monkeypatch.context() as disk:
        disk.setattr(_files, "install", full)
        with pytest.raises(OSError, match="No space left"):
            create_poll(path, [COLORS, WIDE])
    assert list(path.parent.iterdir()) == []
    # The traceback holds the collections, which SQLite lets only this thread close.
    gc.collect()
    create_poll(path, [COLORS, WIDE])


def test_a_collection_that_others_changed_is_noticed(path):
    create_poll(path, [WIDE])
    poll = OpenPoll(path)
    take(poll, token_of(poll), 0, 1)
    take(poll, token_of(poll), 0, 2)
    poll.at_desk.submit(poll.desk.begin_leaving, 0, 0, 0).result()
    poll.at_files.submit(poll._collections[0].close).result()
    poll.at_desk.submit(poll.desk.close).result()
    with ad.Collection.open(path) as collection:
        collection.record(5)
    with pytest.raises(ValueError, match="must be left alone between two runs"):
        OpenPoll(path)


def test_nothing_on_disk_links_a_token_to_an_answer(path):
    """Tokens are kept as keyed hashes, both tables in the order of random keys, without a number or a time."""
    create_poll(path, [WIDE])
    poll = OpenPoll(path)
    tokens = [token_of(poll) for _ in range(200)]
    for i, token in enumerate(tokens):
        take(poll, token, 0, i)
    copy = sqlite3.connect(path.with_name("poll.db-desk"))
    arrived = [int(text) for (text,) in copy.execute("SELECT answer FROM inbox")]
    assert sorted(arrived) == list(range(200))
    assert arrived != list(range(200))  # fails by chance with probability 1/200!
    assert [name for _, name, *_ in copy.execute("PRAGMA table_info(spent)")] == ["token"]
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        copy.execute("SELECT rowid FROM spent")
    copy.close()
    drain(poll)
    log = path.with_name("poll.db-desk-wal")
    assert log.stat().st_size == 0  # it had the answers in the order in which they came
    poll.close()
    files = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert not any(token.encode() in files or token.split(".")[1].encode() in files for token in tokens)
    assert ad.Responses.read(path).answers.tolist() == arrived  # not in the order in which they came


def test_designs_and_subsets_change_with_the_answers(path):
    design = PollQuestion("Which?", ["a", "b", "c", "d"], 2.0, "design", people=80)
    subset = PollQuestion("Which?", ["a", "b", "c", "d"], 2.0, "rrrr", people=80)
    create_poll(path, [design, subset], random_seed=1)
    poll = OpenPoll(path)
    rng = np.random.default_rng(2)
    for _ in range(3):  # people // 8 answers make a round
        for index in (0, 1):
            question = poll.published[index]
            for _ in range(10):
                value = question.mechanism.privatize(0, subset=question.subset, rng=rng)
                take(poll, token_of(poll), index, value if isinstance(value, int) else value.tolist(), question.number)
        drain(poll)
    assert poll.rounds[0] > 1
    assert len(poll.known[1]) > 1
    late = poll.question(1, 0)  # an answer to the first question may still come
    take(poll, token_of(poll), 1, late.privatize(0), 0)
    known = dict(poll.known[1])
    poll.close()
    assert poll.counts == [30, 31]
    poll = OpenPoll(path)
    assert {number: poll.known[1][number] for number in known} == known
    poll.close()


@pytest.mark.parametrize(
    ("questions", "options", "message"),
    [
        ([], {}, "questions must be 1 to 50"),
        ([PollQuestion(" ", ["a", "b"])], {}, "text must be a question"),
        ([PollQuestion("x" * 1001, ["a", "b"])], {}, "text must be a question"),
        ([PollQuestion("Q", ["a", "a"])], {}, "categories must be"),
        ([PollQuestion("Q", ["a"])], {}, "n_categories must be"),
        ([PollQuestion("Q", ["a", "b"], 0)], {}, "epsilon must be"),
        ([PollQuestion("Q", ["a", "b"], people=0)], {}, "people must be"),
        ([PollQuestion("Q", ["a", "b"], mechanism="local-hashing")], {}, "mechanism must be one that browsers know"),
        ([PollQuestion("Q", ["a", "b"], mechanism="none")], {}, "mechanism must be one of"),
        (["Which?"], {}, "questions must be 1 to 50 of PollQuestion"),
        ([COLORS], {"each_person": "some"}, "each_person must be 'all' or 'one'"),
    ],
)
def test_what_is_no_poll_is_refused_and_leaves_nothing(path, questions, options, message):
    with pytest.raises(ValueError, match=message):
        create_poll(path, questions, **options)
    assert list(path.parent.iterdir()) == []


def test_nothing_is_overwritten_and_one_server_at_a_time(path):
    create_poll(path, [COLORS, COLORS])
    with pytest.raises(FileExistsError):
        create_poll(path, [COLORS])
    poll = OpenPoll(path)
    with pytest.raises(ValueError, match="in use"):
        OpenPoll(path)
    poll.close()
    with refuses("path", FileNotFoundError):
        OpenPoll(path.with_name("other.db"))
    path.with_name("poll.db-desk").write_bytes(b"nonsense" * 1000)
    with pytest.raises(ValueError, match="undamaged poll"):
        OpenPoll(path)
