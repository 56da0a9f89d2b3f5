"""Nobody answers twice unnoticed: the ledger beside a file of people, and how they are recognized."""

import json
import logging
import os
import shutil
import stat
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from adobest_pp import Collection, Responses
from adobest_pp._files import seal, unseal
from adobest_pp.answers.store import read_content
from adobest_pp.collect import collect_csv
from adobest_pp.collect import people_file as people_module
from adobest_pp.collect.people_file import Ledger, Values
from adobest_pp.mechanisms import find_mechanism
from tests.cli.test_main import run_here
from tests.refusals import refuses

VOTES = ["okapi", "quetzal", "axolotl", "", "okapi", "okapi", "quetzal"]
ASKED = r"ask_again \(--ask-again\) must be given to ask the people of '.*people.csv' once more: "


class Stopped(Exception):
    pass


def write(path, votes=VOTES, extra="health"):
    """Write people with two private columns."""
    rows = (f"{i},{vote},{'ill' if i % 3 else 'well'}\n" for i, vote in enumerate(votes))
    path.write_text(f"id,vote,{extra}\n" + "".join(rows))


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    write(path)
    return path


def collect(people, out, column="vote", epsilon=1.0, mechanism="srr", **options):
    options = {"categories": ["okapi", "quetzal", "axolotl"]} | options if column == "vote" else options
    collection = collect_csv(people, column, epsilon, mechanism, progressbar=False, out=out, **options)
    if out is not None:
        collection.close()
    return collection.responses


def stop_after(monkeypatch, n, mechanism="srr"):
    """Stop at the n-th answer from now on, with the answers so far on disk."""
    kind, answers = find_mechanism(mechanism), iter(range(n - 1))
    privatize = kind.privatize

    def answer(self, x, **published):
        if next(answers, None) is None:
            raise Stopped
        return privatize(self, x, **published)

    monkeypatch.setattr(kind, "privatize", answer)


def stopped(monkeypatch, people, out, n=3, mechanism="srr", **options):
    with monkeypatch.context() as patch:
        stop_after(patch, n, mechanism)
        with pytest.raises(Stopped):
            collect(people, out, mechanism=mechanism, **options)


def nobody_is_asked(monkeypatch):
    monkeypatch.setattr(people_module, "_ask", lambda *_: pytest.fail("somebody was asked"))


# ---------------------------------------------------------------- a second answer
def test_another_file_for_the_same_people_must_be_confirmed(people, tmp_path, monkeypatch, caplog):
    collect(people, tmp_path / "a.db")
    with monkeypatch.context() as patch:
        nobody_is_asked(patch)
        message = r"'vote', ε = 1, 2\d\d\d-\d\d-\d\d, answers in '.*a.db'\), and their budgets would add up to ε = 1.5"
        for out in (tmp_path / "b.db", None):
            with pytest.raises(ValueError, match=ASKED + ".*" + message) as caught:
                collect(people, out, epsilon=0.5)
            assert "\n" not in str(caught.value)
        assert not (tmp_path / "b.db").exists()
    assert not caplog.text
    collect(people, tmp_path / "b.db", epsilon=0.5, ask_again=True)
    assert "spent ε = 1.5 in total, in 2 collections, whose budgets add up (vote: 1 + 0.5)" in caplog.text
    assert Ledger(people).total == 1.5
    collect(people, tmp_path / "a.db")  # both are complete, and go on as they are
    collect(people, tmp_path / "b.db", epsilon=0.5)
    assert Ledger(people).total == 1.5


def test_answers_that_are_only_in_memory_are_answers(people):
    collect(people, None)
    with pytest.raises(ValueError, match=ASKED + r".*not kept in a file\)"):
        collect(people, None)
    collect(people, None, ask_again=True)
    assert Ledger(people).total == 2
    for bad in ("yes", 1, None):
        with refuses("ask_again"):
            collect(people, None, ask_again=bad)


def test_a_file_that_was_deleted_does_not_undo_what_was_spent(people, tmp_path):
    collect(people, tmp_path / "a.db")
    (tmp_path / "a.db").unlink()
    with pytest.raises(ValueError, match=ASKED):
        collect(people, tmp_path / "a.db")


def test_another_column_is_asked_with_a_warning_of_the_sum(people, tmp_path, caplog):
    collect(people, tmp_path / "a.db")
    collect(people, tmp_path / "b.db", "health", 2.0)
    assert "spent ε = 3 in total, in 2 collections, whose budgets add up (vote: 1; health: 2)" in caplog.text
    with pytest.raises(ValueError, match=ASKED):
        collect(people, tmp_path / "c.db", "health", 2.0)


def test_a_column_under_another_name_is_the_same_column(people, tmp_path):
    collect(people, tmp_path / "a.db", "health")
    write(people, extra="state")
    with pytest.raises(ValueError, match=ASKED):
        collect(people, tmp_path / "b.db", "state")


def test_other_values_in_the_same_column_must_be_confirmed_too(people, tmp_path):
    collect(people, tmp_path / "a.db")
    write(people, VOTES[::-1])
    with pytest.raises(ValueError, match=ASKED + ".*, or move that ledger elsewhere if they are other people$"):
        collect(people, tmp_path / "b.db")
    os.rename(Ledger(people).path, tmp_path / "before.adobest-ledger")
    collect(people, tmp_path / "b.db")


def test_the_command_says_what_everybody_has_spent(people, tmp_path, capsys, monkeypatch):
    columns = {name: ("category", [0.5, 0.5]) for name in ("mean", "lower", "upper", "privacy")}
    estimate = xr.Dataset(columns, {"category": ["ill", "well"]}, {"sampler": "nuts"})
    monkeypatch.setattr(
        Collection, "estimate", lambda self, prior, progressbar: estimate
    )  # which would take ten seconds
    options = ("collect", people, "--column", "health", "--epsilon", 1, "--mechanism", "srr", "--prior", 1, "--out")
    done = run_here(capsys, *options, tmp_path / "a.db", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    once = "Each person in the file has spent ε = 1 in total, in one collection; people.csv.adobest-ledger records it."
    assert Ledger(people).in_words() == once
    done = run_here(capsys, *options, tmp_path / "b.db", "--quiet")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "ask_again (--ask-again) must be given" in done.stderr
    done = run_here(capsys, *options, tmp_path / "b.db", "--ask-again")
    assert done.returncode == 0, done.stderr
    assert "spent ε = 2 in total, in 2 collections, whose budgets add up (health: 1 + 1)" in " ".join(
        done.stdout.split()
    )
    done = run_here(
        capsys, "compare", "--data", people, "--column", "health", "--draws", 50, "--out", tmp_path / "poll"
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "ask_again (--ask-again) must be given" in done.stderr
    assert not (tmp_path / "poll").exists()
    done = run_here(capsys, "compare", "--people", 10, "--ask-again", "--out", tmp_path / "poll")
    assert "--ask-again must come with --data" in done.stderr


# ---------------------------------------------------------------- the same people
def test_people_are_recognized_whatever_the_time_and_the_form_of_their_file(people, tmp_path, monkeypatch):
    out = tmp_path / "a.db"
    stopped(monkeypatch, people, out)
    known = Responses.read(out).answers.tolist()
    os.utime(people)  # as touch does
    stopped(monkeypatch, people, out, n=2)
    people.write_bytes(b"\xef\xbb\xbf" + people.read_bytes().replace(b"\n", b"\r\n"))
    stopped(monkeypatch, people, out, n=2)
    write(people, extra="other")  # other columns may change
    responses = collect(people, out)
    assert len(responses) == 6
    assert responses.answers.tolist()[:2] == known


def test_a_file_may_be_written_in_another_format_under_its_name(tmp_path, monkeypatch):
    path, out = tmp_path / "people.parquet", tmp_path / "a.db"
    for compression in ("snappy", "none"):
        pq.write_table(pa.table({"vote": VOTES}), path, compression=compression)
        if compression == "snappy":
            stopped(monkeypatch, path, out)
    assert len(collect(path, out)) == 6


@pytest.mark.parametrize("mechanism", ["srr", "rrrr", "design"])
def test_people_who_were_added_at_the_end_are_asked_and_nobody_else(people, tmp_path, monkeypatch, mechanism):
    """After the others have answered, and while they are being asked."""
    out, options = tmp_path / "a.db", {"rounds": 1} if mechanism == "design" else {}
    known = collect(people, out, mechanism=mechanism, **options).answers.tolist()
    write(people, [*VOTES, "", "axolotl", "okapi"])
    device = "subset-selection" if mechanism == "design" else mechanism
    with monkeypatch.context() as patch:
        stop_after(patch, 2, device)
        with pytest.raises(Stopped):
            collect(people, out, mechanism=mechanism, **options)
    write(people, [*VOTES, "", "axolotl", "okapi", "quetzal"])
    with monkeypatch.context() as patch:
        stop_after(patch, 3, device)
        responses = collect(people, out, mechanism=mechanism, **options)
    assert len(responses) == 9
    assert responses.answers.tolist()[:6] == known
    collection = Collection.open(out)
    assert collection.did_not_answer == 2
    collection.close()
    assert [(entry.rows, entry.epsilon) for entry in Ledger(people).entries] == [(11, 1.0)]


@pytest.mark.parametrize(
    "votes", [VOTES[:-1], VOTES[1:], ["quetzal", *VOTES[1:]], [*VOTES[:3], "okapi", *VOTES[4:]], VOTES[::-1]]
)
def test_rows_that_were_removed_or_changed_are_refused(people, tmp_path, monkeypatch, votes):
    out = tmp_path / "a.db"
    stopped(monkeypatch, people, out)
    content = read_content(out)
    write(people, votes)
    nobody_is_asked(monkeypatch)
    message = r"differs in people \(of the 7 rows, some were changed, moved or removed\)$"
    with pytest.raises(FileExistsError, match=message):
        collect(people, out)
    assert read_content(out) == content


def test_a_collection_that_is_in_no_ledger_is_recognized_by_the_time_of_the_file(people, tmp_path, monkeypatch):
    """As those of earlier versions are, or where the ledger is lost. It is entered then."""
    out, ledger = tmp_path / "a.db", Ledger(people).path
    stopped(monkeypatch, people, out)
    ledger.unlink()
    stopped(monkeypatch, people, out, n=2)
    assert Ledger(people).total == 1
    ledger.unlink()
    os.utime(people)
    with pytest.raises(FileExistsError, match=r"people \(the file was changed, and '.*' does not know this collection"):
        collect(people, out)


def test_a_collection_that_was_stopped_before_its_entry_is_resumed(people, tmp_path, monkeypatch):
    out = tmp_path / "a.db"
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "enter", lambda *_: os._exit(1))
        patch.setattr(os, "_exit", lambda code: (_ for _ in ()).throw(Stopped))
        patch.setattr(os, "unlink", lambda *_, **__: None)  # as a kill: nothing is cleaned up
        with pytest.raises(Stopped):
            collect(people, out)
    assert len(Responses.read(out)) == 0
    os.utime(people)
    assert len(collect(people, out)) == 6


# ---------------------------------------------------------------- the ledger itself
def test_the_ledger_is_as_private_as_the_people_and_shows_no_value(people, tmp_path):
    people.chmod(0o640)
    collect(people, tmp_path / "a.db")
    path = Ledger(people).path
    assert path.name == "people.csv.adobest-ledger"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not any(vote in path.read_text() for vote in VOTES if vote)
    content = json.loads(path.read_text())["content"]
    (entry,) = content["collections"]
    assert (entry["column"], entry["epsilon"], entry["mechanism"], entry["rows"]) == ("vote", 1.0, "srr", 7)
    assert entry["out"] == str(tmp_path / "a.db")
    assert content["key"] not in (tmp_path / "a.db").read_bytes().decode("latin1")
    assert entry["fingerprint"] not in (tmp_path / "a.db").read_bytes().decode("latin1")


def test_fingerprints_of_the_same_values_differ_without_the_key(people, tmp_path):
    values = Values(np.array([0, 1, -1]), ["a", "b"])
    assert values.fingerprint(b"1" * 32, 3) != values.fingerprint(b"2" * 32, 3)
    same = Values(np.array([1, 0, -1, 0]), ["b", "a"])
    assert same.fingerprint(b"1" * 32, 3) == values.fingerprint(b"1" * 32, 3)
    # Where one value ends and the next begins counts.
    one, other = Values(np.array([0, 1]), ["ab", "c"]), Values(np.array([0, 1]), ["a", "bc"])
    assert one.fingerprint(b"1" * 32, 2) != other.fingerprint(b"1" * 32, 2)


def test_a_damaged_ledger_is_refused(people, tmp_path, monkeypatch):
    collect(people, tmp_path / "a.db")
    nobody_is_asked(monkeypatch)
    path = Ledger(people).path
    good, rng = path.read_bytes(), np.random.default_rng(1)
    contents = [good[:place] for place in range(0, len(good), 40)] + [b"[1]", b"{}", b'{"content": 1}', b"[" * 100_000]
    for place in rng.integers(0, len(good), 200):
        bad = bytearray(good)
        bad[place] ^= 1 << rng.integers(8)
        same = json.loads(bad) == json.loads(good) if _is_json(bad) else False  # white space, or the case of an escape
        contents += [] if same else [bytes(bad)]
    message = r"the ledger '.*' is damaged: restore it"
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Ledger(people)
    for ask_again in (False, True):
        with pytest.raises(ValueError, match=message):
            collect(people, tmp_path / "b.db", ask_again=ask_again)
    path.unlink()
    path.mkdir()
    with pytest.raises((ValueError, OSError), match="ledger"):
        collect(people, tmp_path / "b.db")


def _is_json(content):
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def test_without_a_ledger_nobody_is_asked_unless_that_is_wanted(people, tmp_path, monkeypatch, caplog):
    """As in a folder that cannot be written to, or on a full disk."""
    monkeypatch.setattr("adobest_pp.collect.people_file.replacing", Mock(side_effect=OSError(13, "Permission denied")))
    out = tmp_path / "a.db"
    with monkeypatch.context() as patch:
        nobody_is_asked(patch)
        message = r"the ledger '.*' could not be written, so nobody was asked \(Permission denied\): copy the file"
        with pytest.raises(OSError, match=message):
            collect(people, out)
    assert not out.exists()
    with caplog.at_level(logging.WARNING, "adobest_pp"):
        assert len(collect(people, out, ask_again=True)) == 6
    assert "Keep account of this budget yourself: the ledger could not be written (Permission denied)." in caplog.text
    assert "keep track of their budgets yourself" in Ledger(people).in_words()


def test_two_processes_at_the_same_time_cannot_both_begin(people, tmp_path):
    """Both have read the empty ledger; the second finds the entry of the first when it makes its own."""
    first, second = Ledger(people), Ledger(people)
    values = Values(np.array([0, 1]), ["a", "b"])
    entry = people_module.new_entry("a", "vote", 1.0, "srr", tmp_path / "a.db")
    first.enter(entry, values, ask_again=False)
    with pytest.raises(ValueError, match=ASKED):
        second.enter(people_module.new_entry("b", "vote", 1.0, "srr", tmp_path / "b.db"), values, ask_again=False)
    assert [each.collection for each in Ledger(people).entries] == [entry.collection]


def test_a_link_to_the_people_has_their_ledger(people, tmp_path):
    (tmp_path / "link.csv").symlink_to(people)
    collect(tmp_path / "link.csv", tmp_path / "a.db")
    with pytest.raises(ValueError, match=ASKED):
        collect(people, tmp_path / "b.db")
    for out in (Ledger(people).path, people, tmp_path / "link.csv"):
        with refuses("out"):
            collect(people, out)


MANY = ["okapi", "quetzal", "axolotl", "okapi"] * 20


@pytest.mark.parametrize("rename", [os.rename, os.link, shutil.copy2])
def test_a_file_under_another_name_in_its_folder_is_recognized(people, tmp_path, rename):
    write(people, MANY)
    collect(people, tmp_path / "a.db")
    other = tmp_path / "renamed.csv"
    rename(people, other)
    with pytest.raises(ValueError, match=r"'people.csv.adobest-ledger' says that they were asked before"):
        collect(other, tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
    assert len(collect(other, tmp_path / "a.db")) == len(MANY)  # the same collection goes on
    assert len(collect(other, tmp_path / "b.db", ask_again=True)) == len(MANY)


def test_few_people_may_have_the_same_values_as_others(people, tmp_path):
    collect(people, tmp_path / "a.db")
    for name, votes in {"others": VOTES, "more": VOTES + MANY}.items():  # the second only begins with the same
        write(tmp_path / f"{name}.csv", votes)
        assert len(collect(tmp_path / f"{name}.csv", tmp_path / f"{name}.db")) == len(votes) - 1


@pytest.mark.parametrize(("key", "value"), [("epsilon", "1"), ("rows", "5"), ("rows", -1), ("column", []), ("out", 7)])
def test_a_ledger_of_other_types_is_refused(people, tmp_path, key, value):
    collect(people, tmp_path / "a.db")
    ledger = Ledger(people).path
    content = unseal(ledger.read_bytes())
    content["collections"][0][key] = value
    ledger.write_bytes(seal(content))
    with pytest.raises(ValueError, match="is damaged"):
        collect(people, tmp_path / "b.db")
