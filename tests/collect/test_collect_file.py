"""Collecting from a file of people, and what of them must not be seen anywhere."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from adobest_pp import RRRR, SRR, Collection, Responses, SameQuestion, gather
from adobest_pp._wording import CENTRAL
from adobest_pp.answers import store
from adobest_pp.answers.gather.gather import read_with_columns
from adobest_pp.answers.store import PublicColumns, read_collection, read_content
from adobest_pp.collect import collect_csv, policies
from adobest_pp.collect import people_file as people_module
from adobest_pp.design import overview as candidates
from adobest_pp.mechanisms import find_mechanism, register
from adobest_pp.report.findings import poll_of_people
from tests.cli.test_main import adobest, run_here
from tests.refusals import refuses
from validation import kills

SECRETS = ["quetzal", "axolotl", "okapi"]


@pytest.fixture
def people(tmp_path):
    values = np.random.default_rng(0).choice(SECRETS, size=60, p=[0.6, 0.3, 0.1])
    path = tmp_path / "people.csv"
    path.write_text("id,vote\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values)))
    return path


@pytest.mark.parametrize("command", ["collect", "compare"])
def test_help_says_that_a_file_of_true_answers_is_central_collection(capsys, command):
    shown = " ".join(run_here(capsys, command, "--help").stdout.replace("│", " ").split())
    assert CENTRAL in shown


@pytest.mark.parametrize("page", ["README.md", "docs/howto/ask.md"])
def test_pages_say_that_a_file_of_true_answers_is_central_collection(page):
    text = " ".join((Path(__file__).parents[2] / page).read_text(encoding="utf-8").split())
    for part in ("is central collection, which local privacy is meant to avoid", "or for data that you hold anyway"):
        assert part in text
    assert "`compare --data`" in text or "`adobest compare --data`" in text


def test_a_file_is_collected_and_reopened(people, tmp_path):
    out = tmp_path / "responses.db"
    people.write_text(people.read_text() + "60,\n61, \n")
    done = adobest("collect", people, "--column", "vote", "--epsilon", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    responses = Responses.read(out)
    assert len(responses) == 60
    assert responses.categories == tuple(sorted(SECRETS))
    assert responses.mechanism.epsilon == 1.0
    assert "okapi" in done.stdout
    assert "By NUTS under a prior that learns how uneven the shares are" in done.stdout
    assert "--categories" in done.stdout
    printed = " ".join(done.stdout.split())
    assert type(responses.mechanism).__name__ == "SubsetSelection"
    assert f"The mechanism is subset-selection, the default: {policies.DEFAULT_REASON}." in printed
    assert "2 people in the file have an empty value: they did not answer" in printed
    assert "due to privacy" in printed
    assert CENTRAL in printed


def test_answers_are_drawn_anew_each_time(people):
    first, second = (
        collect_csv(people, "vote", 1.0, random_seed=0, progressbar=False, ask_again=True) for _ in range(2)
    )
    assert not np.array_equal(first.responses.answers, second.responses.answers)


def test_nothing_but_answers_is_written(people, tmp_path, capsys):
    """The values in the order of the file appear nowhere: the file holds answers, which differ from them."""
    out = tmp_path / "responses.db"
    run_here(
        capsys, "collect", people, "--column", "vote", "--epsilon", 0.1, "--out", out, "--quiet", "--mechanism", "srr"
    )
    truth = [line.split(",")[1] for line in people.read_text().splitlines()[1:]]
    responses = Responses.read(out)
    answered = [responses.categories[i] for i in responses.answers]
    # At epsilon 0.1 and three categories an answer is true about four times in ten; 60 of 60 would be a leak.
    assert sum(a == b for a, b in zip(answered, truth, strict=True)) < 50
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "people.csv.adobest-ledger", "responses.db"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--column", "vot"], "column must be named once"),
        (["--column", "vote", "--categories", "quetzal,okapi"], "categories must include every value"),
        (["--column", "vote", "--mechanism", "rrrr", "--kappa", "2"], "kappa must be"),
        (["--column", "vote", "--mechanism", "rrrr", "--utility", "best"], "utility must be one of"),
        (["--column", "vote", "--mechanism", "best"], "mechanism must be one of srr, rrrr, subset-selection"),
        (["--column", "vote", "--kappa", "0.9"], "kappa must be left out for subset-selection, which has size"),
        (["--column", "vote", "--mechanism", "design", "--utility", "fisher"], "utility must be left out for design"),
    ],
)
def test_errors_are_one_sentence_and_show_no_value(people, tmp_path, capsys, arguments, reason):
    out = tmp_path / "responses.db"
    done = run_here(capsys, "collect", people, "--epsilon", 1, "--out", out, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert "axolotl" not in done.stderr + done.stdout
    assert not out.exists()


def test_a_file_that_is_no_csv_shows_none_of_its_content(tmp_path, capsys):
    path, out = tmp_path / "people.csv", tmp_path / "responses.db"
    for content in (b"quetzal\nokapi\n", b"vote\nquetz\xe9l\n", b"vote\n" + b"quetzal" * 30_000 + b"\n"):
        path.write_bytes(content)
        done = run_here(capsys, "collect", path, "--column", "vote", "--epsilon", 1, "--out", out)
        assert done.returncode == 2
        assert "quetz" not in done.stderr + done.stdout
        assert "xe9" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_public_columns_are_kept_with_the_answers_and_with_those_who_gave_none(tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "responses.db"
    rows = [("okapi", "N", 30), ("", "S", 40), ("quetzal", "S", 50), ("okapi", "N", 60), ("", "N", 70)]
    header = "vote;region;age\n"
    path.write_text(header + "".join(f"{vote};{region};{age}\n" for vote, region, age in rows))
    options = {"keep": ["region", "age"], "progressbar": False, "out": out, "mechanism": "srr"}
    collect_csv(path, "vote", 0.1, **options).close()
    expected = PublicColumns(
        {"row": [1, 3, 4], "region": ["N", "S", "N"], "age": ["30", "50", "60"]},
        {"row": [2, 5], "region": ["S", "N"], "age": ["40", "70"]},
    )
    assert read_collection(out)[1] == expected
    assert len(Responses.read(out)) == 3
    # People who are added are kept once, those who are there are not kept again, and x is nowhere.
    path.write_text(path.read_text() + ";S;80\nquetzal;S;90\n")
    with collect_csv(path, "vote", 0.1, **options) as collection:
        assert collection.public == read_collection(out)[1]
        assert (len(collection), collection.did_not_answer) == (4, 3)
    found = read_collection(out)[1]
    assert found.answered["row"] == [1, 3, 4, 7]
    assert found.silent["row"] == [2, 5, 6]
    stored = str(read_content(out).events)
    assert "okapi" not in stored
    with pytest.raises(FileExistsError, match="which differs in keep"):
        collect_csv(path, "vote", 0.1, **options | {"keep": ["region"]})
    for keep in ("region", ["row"], [3]):
        with refuses("keep"):
            collect_csv(path, "vote", 0.1, **options | {"keep": keep})


def test_public_columns_go_to_parquet_beside_the_answers(tmp_path):
    path, out = tmp_path / "people.csv", tmp_path / "answers.parquet"
    path.write_text("vote,region\nokapi,N\n,S\nquetzal,S\n")
    collection = collect_csv(path, "vote", 1.0, keep=["region"], progressbar=False)
    collection.responses.to_parquet(out, public=collection.public.answered)
    table = pq.read_table(out)
    assert table.column("region").to_pylist() == ["N", "S"]
    assert table.column("row").to_pylist() == [1, 3]
    assert len(gather(out)) == 2
    for public in ({"answer": [1, 2]}, {"region": ["N"]}, {1: ["N", "S"]}, ["N", "S"]):
        with refuses("public"):
            collection.responses.to_parquet(tmp_path / "other.parquet", public=public)


def test_empty_values_are_counted_and_are_no_answers(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("vote\nquetzal\n\n \nokapi\n" + '""\n')
    collection = collect_csv(path, "vote", 1.0, progressbar=False)
    assert (len(collection.responses), collection.did_not_answer) == (2, 3)
    assert collection.responses.categories == ("okapi", "quetzal")
    assert "Of 5 rows, 3 have an empty value" in poll_of_people(path, "vote", ask_again=True).origin


def test_a_file_without_any_value_and_a_missing_file_are_refused(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id,vote\n1,\n2,\n")
    with refuses("path"):
        collect_csv(path, "vote", 1.0, categories=SECRETS)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        collect_csv(tmp_path / "none.csv", "vote", 1.0)
    path.write_text("vote\nquetzal\n")
    with refuses("categories"):
        collect_csv(path, "vote", 1.0)


@pytest.mark.parametrize(("given", "kappa"), [({}, 1.0), ({"kappa": 0.8}, 0.8)])
def test_semi_adaptive_spends_all_of_epsilon_inside_the_subset_unless_told(given, kappa):
    options = {"utility": "semi_adaptive", "alpha": 0.9} | given
    assert policies.chosen_mechanism("rrrr", 4, 1.0, options)[0] == RRRR(4, 1.0, kappa)
    assert policies.chosen_mechanism("rrrr", 4, 1.0, {"utility": "honest"})[0] == RRRR(4, 1.0, 0.9)


def test_every_registered_mechanism_collects_by_name(people, no_other_mechanisms):
    @register
    class MySelection(find_mechanism("srr")):
        """A mechanism of one's own."""

    names = [name for name in candidates.PLANNED if name != candidates.DESIGN]
    for name in [*names, "MySelection", "local_hashing"]:
        collection = collect_csv(people, "vote", 1.0, name, progressbar=False, random_seed=1, ask_again=True)
        assert (len(collection), type(collection.responses.mechanism)) == (60, find_mechanism(name))
    assert policies.DESIGN == candidates.DESIGN
    assert policies.mechanism_name("MySelection") == "my-selection"
    for name in ("Mixed", "set-family", "channel", "", 3, "adobest_pp.mechanisms:Mixed"):
        with refuses("mechanism"):
            collect_csv(people, "vote", 1.0, name)
    own = "tests.own_mechanism:Neighbors"
    collection = collect_csv(people, "vote", 1.0, own, progressbar=False, random_seed=1, ask_again=True)
    assert type(collection.responses.mechanism).__name__ == "Neighbors"
    with refuses("mechanism"):
        collect_csv(people, "vote", 1.0, "tests.own_mechanism:Mine")


# ---------------------------------------------------------------- stopped, and gone on with
class Stopped(Exception):
    pass


def collect(people, out, mechanism="rrrr", **options):
    collection = collect_csv(people, "vote", 1.0, mechanism, progressbar=False, random_seed=1, out=out, **options)
    collection.close()
    return collection.responses


def stop_after(monkeypatch, n, mechanism="rrrr"):
    """Raise within the n-th exact answer from now on."""
    answers = iter(range(n - 1))

    def counted(privatize):
        def answer(self, x, **published):
            if next(answers, None) is None:
                raise Stopped
            return privatize(self, x, **published)

        return answer

    for name in ["subset-selection", "set-family"] if mechanism == "design" else [mechanism]:
        device = find_mechanism(name)
        monkeypatch.setattr(device, "privatize", counted(device.privatize))


STOPPED = [
    {},
    {"adapt_every": 7},
    {"categories": [*SECRETS, "dodo"], "sampler": "exact"},
    {"mechanism": "srr"},
    {"mechanism": "subset-selection", "categories": [*SECRETS, "dodo", "moa"], "size": 2},
    {"mechanism": "unary-encoding"},
    {"mechanism": "local-hashing"},
    {"mechanism": "hadamard-response"},
    {"mechanism": "design", "rounds": 1},
]


@pytest.mark.parametrize("options", STOPPED)
def test_a_stopped_collection_goes_on_and_asks_nobody_twice(people, tmp_path, monkeypatch, options):
    people.write_text(people.read_text().replace("\n", "\n100,\n", 30))  # people who do not answer, in between
    out, known, mechanism = tmp_path / "responses.db", [], options.get("mechanism", "rrrr")
    for n in (1, 10, 20, 1):
        with monkeypatch.context() as patch:
            stop_after(patch, n, mechanism)
            with pytest.raises(Stopped):
                collect(people, out, **options)
        answers = Responses.read(out).answers.tolist()
        assert len(answers) == len(known) + n - 1
        assert answers[: len(known)] == known
        known = answers
    whole = collect(people, out, **options)
    assert len(whole) == 60
    assert whole.answers.tolist()[: len(known)] == known
    with monkeypatch.context() as patch:
        stop_after(patch, 1, mechanism)
        again = collect(people, out, **options)  # nobody is left to ask
    assert np.array_equal(again.answers, whole.answers)
    names = ["people.csv", "people.csv.adobest-ledger", "responses.db"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_each_person_answers_for_themselves_whoever_has_no_value(people, tmp_path, monkeypatch):
    """With a device that tells the truth, and stops and empty values in between: everybody's value, in order."""
    lines = people.read_text().splitlines()
    people.write_text("\n".join(line if i == 0 or i % 4 else f"{i}," for i, line in enumerate(lines)))
    values = [line.partition(",")[2] for line in people.read_text().splitlines()[1:]]
    truth = [sorted(SECRETS).index(value) for value in values if value]
    asked = itertools.count(1)

    def honest(self, x):
        if next(asked) % 10 == 0:
            raise Stopped
        return np.int64(x)

    monkeypatch.setattr(find_mechanism("srr"), "privatize", honest)
    for _ in range(10):
        try:
            responses = collect(people, tmp_path / "responses.db", "srr", categories=sorted(SECRETS))
            break
        except Stopped:
            continue
    assert 40 < len(truth) < 60
    assert responses.answers.tolist() == truth


def test_a_design_asks_in_rounds_and_is_resumed(people, tmp_path, monkeypatch):
    """Eight rounds for the people of the file; a resumed collection goes on with the questions it has published."""
    out = tmp_path / "responses.db"
    with monkeypatch.context() as patch:
        stop_after(patch, 40, "design")
        with pytest.raises(Stopped):
            collect(people, out, "design")
    whole = collect(people, out, "design")
    collection = Collection.open(out)
    assert (len(whole), collection.settings["n_people"], len(collection.records)) == (60, 60, 8)
    assert collection.people["asked"] == 60
    collection.close()


def test_answers_are_on_disk_after_a_moment(people, tmp_path, monkeypatch):
    """Those that nobody has seen wait for a moment, and no longer."""
    people.write_text("".join(people.read_text().splitlines(keepends=True)[:13]))
    monkeypatch.setattr(people_module, "PATIENCE", 0.0)
    out, seen = tmp_path / "responses.db", []
    privatize = RRRR.privatize

    def watched(self, x, *, subset):
        seen.append(len(Responses.read(out)))
        return privatize(self, x, subset=subset)

    monkeypatch.setattr(RRRR, "privatize", watched)
    collect(people, out)
    assert seen == list(range(12))


def test_a_resumed_collection_is_as_one_that_never_stopped(people, tmp_path, monkeypatch):
    """With the same answers, the sampler goes on bit for bit: the same subsets are published."""

    def answer(self, x, *, subset):
        return np.int64((x + len(subset)) % 3)

    def stopping(self, x, *, subset):
        if next(asked) == 20:
            raise Stopped
        return answer(self, x, subset=subset)

    asked = itertools.count()

    monkeypatch.setattr(people_module, "PATIENCE", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(RRRR, "privatize", stopping)
        with pytest.raises(Stopped):
            collect(people, tmp_path / "stopped.db")
    monkeypatch.setattr(RRRR, "privatize", answer)
    stopped, whole = (
        collect(people, tmp_path / name, ask_again=name == "whole.db") for name in ("stopped.db", "whole.db")
    )
    assert np.array_equal(stopped.subsets[stopped.subset_index], whole.subsets[whole.subset_index])
    assert np.array_equal(stopped.answers, whole.answers)


def test_other_people_or_settings_are_refused_and_nothing_changes(people, tmp_path, monkeypatch):
    out = tmp_path / "responses.db"
    with monkeypatch.context() as patch:
        stop_after(patch, 20)
        with pytest.raises(Stopped):
            collect(people, out)
    content = read_content(out)
    message = r"out must name a new file, or one of the same people and settings .*responses\.db', which differs in "
    for options, named in (
        ({"kappa": 0.5}, "kappa"),
        ({"utility": "fisher"}, "utility"),
        ({"adapt_every": 2}, "adapt_every"),
        ({"categories": [SECRETS[2], SECRETS[0], SECRETS[1]]}, "categories"),
        ({"categories": [*SECRETS, "dodo"]}, "n_categories"),
    ):
        with pytest.raises(FileExistsError, match=message + named):
            collect(people, out, **options)
    with pytest.raises(FileExistsError, match=message + "epsilon"):
        collect_csv(people, "vote", 2.0, "rrrr", progressbar=False, out=out)
    for mechanism in ("srr", "design", "subset-selection"):
        with pytest.raises(FileExistsError, match=message + "mechanism"):
            collect(people, out, mechanism)
    copy = tmp_path / "copy.csv"
    shutil.copy2(people, copy)
    copy.write_text(copy.read_text() + "60,okapi\n")
    unknown = r"people \(the file was changed, and 'copy.csv.adobest-ledger' does not know this collection\), rows$"
    with pytest.raises(FileExistsError, match=message + unknown):
        collect(copy, out)
    assert read_content(out) == content
    os.utime(copy, ns=(0, people.stat().st_mtime_ns))
    with pytest.raises(FileExistsError, match=message + "rows$"):
        collect(copy, out)
    assert len(collect(people, out)) == 60


def test_a_collection_that_got_other_answers_is_not_gone_on_with(people, tmp_path, monkeypatch):
    out = tmp_path / "responses.db"
    with monkeypatch.context() as patch:
        stop_after(patch, 20)
        with pytest.raises(Stopped):
            collect(people, out)
    collection = Collection.open(out)
    collection.record(0)
    collection.close()
    with pytest.raises(FileExistsError, match="differs in the people"):
        collect(people, out)


def test_the_target_is_checked_before_anybody_is_asked(people, tmp_path, monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(RRRR, "privatize", refuse)
    (tmp_path / "mine.txt").write_text("mine")
    for out, problem in (
        (tmp_path / "none" / "out.db", FileNotFoundError),
        (tmp_path, ValueError),
        ("/dev/null", ValueError),
        (people, ValueError),
        (tmp_path / "mine.txt", FileExistsError),
    ):
        with pytest.raises(problem, match="must "):
            collect(people, out)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert people.read_text().startswith("id,vote")


def test_the_file_tells_nothing_of_the_people_but_their_answers(people, tmp_path, monkeypatch):
    """Two files of people that differ in nothing but their values: with the same answers, the files are the same.

    Each has a random name, which is made the same here.
    """
    monkeypatch.setattr(people_module.secrets, "token_hex", lambda n: "0" * 2 * n)
    monkeypatch.setattr(RRRR, "privatize", lambda self, x, subset: np.int64(0))
    other = tmp_path / "other.csv"
    lines = [line.replace("quetzal", "okapi") for line in people.read_text().splitlines()]
    other.write_text("\n".join(lines) + "\n")
    os.utime(other, ns=(0, people.stat().st_mtime_ns))
    assert other.stat().st_size != people.stat().st_size
    for file, out in ((people, "first.db"), (other, "second.db")):
        collect(file, tmp_path / out, categories=SECRETS)
    assert read_content(tmp_path / "first.db") == read_content(tmp_path / "second.db")


def test_a_poll_of_people_keeps_their_answers(people, tmp_path, monkeypatch):
    out = tmp_path / "responses.db"
    with monkeypatch.context() as patch:
        stop_after(patch, 31)
        with pytest.raises(Stopped):
            poll_of_people(people, "vote", mechanism="rrrr", out=out)
    assert len(Responses.read(out)) == 30
    assert len(poll_of_people(people, "vote", mechanism="rrrr", out=out, random_seed=7).responses) == 60


SIGNALS = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 130}


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "signals"),
    [("rrrr", [signal.SIGKILL, signal.SIGINT]), ("subset-selection", [signal.SIGTERM, signal.SIGKILL])],
)
def test_the_real_command_survives_every_signal(tmp_path, mechanism, signals):
    """Killed, interrupted and terminated: each time it goes on with what the last one had."""
    check_signals(tmp_path, mechanism, signals)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["rrrr", "subset-selection"])
def test_the_real_command_survives_all_signals_in_a_row(tmp_path, mechanism):
    check_signals(tmp_path, mechanism, SIGNALS)


def check_signals(tmp_path, mechanism, signals):
    path, out = tmp_path / "people.csv", tmp_path / "responses.db"
    path.write_text("vote\n" + "quetzal\nokapi\naxolotl\n" * 20_000)
    command = [sys.executable, "-m", "adobest_pp", "collect", path, "--column", "vote", "--epsilon", "1", "--out", out]
    command += ["--mechanism", mechanism]
    known = []
    for how in signals:
        with subprocess.Popen([*command, "--quiet"], stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and (not out.exists() or len(Responses.read(out)) <= len(known)):
                time.sleep(0.05)
            process.send_signal(how)
            printed = process.stderr.read()
        assert process.returncode == SIGNALS[how]
        assert ("to continue" in printed) == (how != signal.SIGKILL)
        assert printed.count("\n") == (how != signal.SIGKILL)
        answers = Responses.read(out).answers.tolist()
        assert answers[: len(known)] == known
        assert len(known) < len(answers) < 60_000
        known = answers
    with Collection.open(out) as collection:
        assert collection.people["asked"] == len(known)


def test_kills_at_random_moments_lose_nothing():
    found = kills.kill_while_collecting(forked=12, commands=0, seed=3)
    assert (found.tried, found.lost, found.wrong) == (12, 0, ())
    assert found.answers >= 5


@pytest.mark.long
def test_what_is_lost_would_be_counted(monkeypatch):
    """A collection in memory: the answers that were acknowledged are not in the file."""
    policy = kills.AdaptiveSubset(kills.MECHANISM)
    monkeypatch.setattr(kills.Collection, "open", lambda *_: kills.Collection.create(policy=policy))
    monkeypatch.setattr(kills.random.Random, "random", lambda self: 0.9)  # there is no writing to wait for
    monkeypatch.setattr(kills.random.Random, "uniform", lambda self, low, high: 1.0)
    assert kills.kill_while_collecting(forked=1, commands=0).lost > 0


def test_answers_and_public_columns_are_of_one_moment(tmp_path, monkeypatch):
    """Answers come in while the file is read: nobody gets the region of somebody else, or none."""
    path, whole = tmp_path / "answers.db", store.read_content
    with Collection.create(path, policy=SameQuestion(SRR(2, epsilon=1.0))) as collection:

        def read(path):
            content = whole(path)
            collection.record(1, public={"region": "south"})
            return content

        collection.record(0, public={"region": "north"})
        monkeypatch.setattr(store, "read_content", read)
        responses, public = read_with_columns(path, ["region"])
        assert (responses.answers.tolist(), public["region"]) == ([0], ["north"])
