"""A real collection in rounds: questions are published, answered, kept and resumed; nothing acknowledged is lost."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.design import rounds as rounds_module
from tests.collect.saved import copied

FIRST = ad.SubsetSelection(5, epsilon=2.0)
LABELS = ["a", "b", "c", "d", "<e>"]
THETA = [0.8, 0.1, 0.05, 0.03, 0.02]


def new(**settings):
    given = {"n_people": 600, "rounds": 3, "categories": LABELS, "random_seed": 3} | settings
    return ad.AdaptiveCollector(FIRST, method="design", **given)


def answer_all(collector, n, seed):
    """Ask people, some at a time; the answers are simulated so that two collectors can be given the same."""
    rng = np.random.default_rng(seed)
    published = []
    for _ in range(n // 20):
        question = collector.next_question()
        published.append(question)
        x = rng.choice(5, size=20, p=THETA)
        collector.record(question.mechanism.privatize(x, rng=rng), question.number)
    return published


def assert_same(first, second):
    assert first.records == second.records
    assert first._attributes() == second._attributes()
    xr.testing.assert_identical(first.responses.to_xarray(), second.responses.to_xarray())


@pytest.fixture
def path(tmp_path):
    (tmp_path / "poll").mkdir()
    return tmp_path / "poll" / "poll.nc"


@pytest.fixture
def always(monkeypatch):
    """A design is asked, however little it gains: so that there are several questions to test with."""
    monkeypatch.setattr(rounds_module, "LEAST_GAIN", -1.0)


def test_rounds_begin_when_their_answers_are_in(always):
    collector = new()
    published = answer_all(collector, 600, 1)
    numbers = [question.number for question in published]
    # Looked at every 20 answers, a round begins at the first look at or after the end of the one before.
    ends = rounds_module.round_ends(600, 3)
    starts = [20 * -(-end // 20) for end in ends[:-1]]
    assert numbers == [sum(start <= 20 * i for start in starts) for i in range(30)]
    assert [record["answers"] for record in collector.records] == [0, *starts]
    assert len(collector.responses) == 600
    assert collector.responses.mechanism.parts[0] == FIRST
    assert ad.audit(collector.responses.mechanism).holds
    assert collector.next_question().number == numbers[-1]  # for more people than were expected
    for record in collector.records[1:]:
        assert record["predicted_variance"] < record["variance"]
    assert "of 600 answers, round 3 of 3" in repr(collector)


def test_subset_selection_stays_where_a_design_is_not_worth_it(monkeypatch):
    monkeypatch.setattr(rounds_module, "LEAST_GAIN", 1.0)
    collector = new()
    published = answer_all(collector, 600, 1)
    assert {question.number for question in published} == {0}
    assert len(collector.records) == 3
    assert collector.responses.mechanism == FIRST


def test_the_estimate_is_that_of_the_responses(always):
    collector = new()
    answer_all(collector, 600, 1)
    found = collector.estimate(draws=200)
    assert found["mean"].category.values.tolist() == LABELS
    again = ad.sample(collector.responses, "nuts", "learned", draws=200, random_seed=int(found.random_seed))
    np.testing.assert_allclose(found["mean"], again.posterior.theta.mean(("chain", "draw")))
    assert collector.estimate(draws=20, prior="own").prior == "learned"


def test_equal_seeds_and_answers_give_equal_questions(always):
    first, second = new(), new()
    assert answer_all(first, 400, 1) == answer_all(second, 400, 1)
    assert_same(first, second)


# ---------------------------------------------------------------- the device
def test_a_device_reads_what_was_published(always):
    collector = new()
    answer_all(collector, 400, 1)
    question = collector.next_question()
    text = question.to_json()
    assert isinstance(question.mechanism, ad.SetFamily)
    assert len(text) < 5000
    read = ad.read_question(text, epsilon=2.0)
    assert read == question
    assert ad.audit(read.mechanism).loss == ad.audit(question.mechanism).loss
    collector.record(read.mechanism.privatize(4), read)
    assert len(collector.responses) == 401


def published(**settings):
    family = {"mechanism": "SetFamily", "n_categories": 3, "epsilon": 1.0} | settings
    return json.dumps({"number": 1, "question": family, "categories": ["x", "y", "z"]})


SINGLES = {"sets": [[0], [1], [2]], "weights": [1, 1, 1]}
REFUSED = {
    "a family that is not private": (
        published(sets=[[0], [1], [2]], weights=[3, 1, 1]),
        r"got 0\.6 of all for category 0 .* the privacy loss between categories 2 and 0 would be 1\.41312, above ε = 1",
    ),
    "a larger budget": (published(**SINGLES, epsilon=1.5), "question must have an epsilon of at most 1, got 1.5"),
    "a category in no set": (published(sets=[[0], [1]], weights=[1, 1]), "categories must be"),
    "another mechanism": (published(mechanism="SRR"), "question must be of SetFamily or SubsetSelection, got 'SRR'"),
    "a module to import": (published(mechanism="os:path"), "question must be of SetFamily or SubsetSelection"),
    "weights that are missing": (published(sets=[[0], [1], [2]]), "must include 'weights'"),
    "a set twice": (published(sets=[[0], [0], [1], [2]], weights=[1] * 4), "each set once"),
    "no JSON": ("{", "text must be a JSON object with number, question, categories"),
    "no object": ("[1]", "text must be a JSON object"),
    "no text": (None, "text must be a JSON object"),
    "a key twice": (published(**SINGLES).replace('"sets"', '"epsilon": 0.5, "sets"'), "must have each key once"),
    "a number twice": (published(**SINGLES)[:-1] + ', "number": 2}', "must have each key once"),
    "no number": (published(**SINGLES, epsilon=math.nan), "a number must be finite, got NaN"),
    "a weight of many digits": (published(sets=[[0], [1], [2]], weights=[10**40] * 3), "at most 40 digits"),
    "a weight of too many bits": (published(sets=[[0], [1], [2]], weights=[3**81, 1, 1]), "weights must be below 2"),
    "a long text": (published(**SINGLES) + " " * 10**6, "text must be at most 1,000,000 bytes long, got more"),
    "long in bytes": (published(**SINGLES) + "\u00e9" * 600_000, "text must be at most 1,000,000 bytes long"),
    "deep brackets": ("[" * 10**6, "text must be a JSON object"),
    "many categories": (
        published(mechanism="SubsetSelection", n_categories=10**6, size=5 * 10**5),
        "categories must be 1000000 distinct labels, got 3 of them",
    ),
    "many sets": (
        published(sets=[[0]] * 170_000, weights=[]),
        r"question must have at most 100,000 sets of 3 categories \(300,000 in all\), got 170,000",
    ),
    "a label of marks": (
        published(**SINGLES).replace('"x"', json.dumps("x" + "\u0345\u0316" * 200)),
        "got one with more than 30 marks on a character",
    ),
    "a long label": (published(**SINGLES).replace('"x"', f'"{"x" * 501}"'), "of at most 500 characters each, got one"),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_a_device_refuses(text, told):
    with pytest.raises(ValueError, match=told):
        ad.read_question(text, epsilon=1.0)


def test_what_devices_would_refuse_is_not_published():
    labels = tuple(map(str, range(20_001)))
    for mechanism, told in (
        (ad.SubsetSelection(20_001, 1.0), "categories must be a list of 2 to 20,000 labels, got 20,001 of them"),
        (ad.SetFamily([[x] for x in range(710)], [1] * 710, 1.0), "question must have at most 422 sets"),
    ):
        question = ad.mechanisms.PublishedQuestion(0, mechanism, labels[: mechanism.n_categories])
        with pytest.raises(ValueError, match=told):
            question.to_json()
    long = tuple(f"{x}{'n' * 400}" for x in range(3000))
    with pytest.raises(ValueError, match="question must take at most 1,000,000 bytes, got"):
        ad.mechanisms.PublishedQuestion(0, ad.SubsetSelection(3000, 1.0), long).to_json()


def test_the_loss_that_is_told_is_the_true_one():
    """From the definition: the matrix that the refused family would have, and its largest ratio."""
    with pytest.raises(ValueError, match="above ε = 1") as refusal:
        ad.SetFamily([[0, 1], [1, 2], [2, 0], [0]], [4, 2, 3, 1], epsilon=1.0)
    masks = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=bool)
    matrix = np.array([4, 2, 3, 1])[:, None] * np.where(masks, np.e, 1.0)
    loss = ad.privacy_loss(matrix / matrix.sum(axis=0))
    assert f"would be {loss:.6g}, above" in str(refusal.value)
    assert loss > 1


def test_a_device_that_privatizes_loads_numpy_at_most():
    program = f"""
        import sys
        from adobest_pp import read_question
        question = read_question({published(**SINGLES)!r}, epsilon=1.0)
        assert question.mechanism.privatize(1) in (0, 1, 2)
        print([name for name in ("numba", "pymc", "scipy", "xarray") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# ---------------------------------------------------------------- late answers and bad input
def test_late_answers_count_under_their_own_question(always):
    collector = new()
    first = collector.next_question()
    answer_all(collector, 400, 1)
    late = collector.next_question()
    assert late.number > 0
    collector.record(first.mechanism.privatize([0, 1]), first.number)
    collector.record(first.mechanism.privatize(1), first)
    assert len(collector.responses) == 403
    assert collector.responses.answers[-3:, 0].tolist() == [0, 0, 0]
    assert collector.next_question() == late


def test_a_second_attempt_after_bad_input_is_recorded_once():
    collector = new()
    collector.next_question()
    for y, question, told in (
        (5, 0, "answers must be"),
        ([1, 0], 0, "answers must be"),
        ([-1], 0, "answers must be"),
        ([0], 1, "question must be an integer from 0 to 0, got 1"),
        ([0], "0", "question must be"),
    ):
        with pytest.raises(ValueError, match=told):
            collector.record(y, question)
        assert len(collector.responses) == 0
    collector.record([0])
    collector.record(np.zeros((0, 1), dtype=int))
    assert len(collector.responses) == 1


def test_a_question_of_another_collection_is_refused(always):
    collector, other = new(), new(random_seed=4)
    answer_all(collector, 400, 1)
    answer_all(other, 400, 2)
    foreign = other.next_question()
    with pytest.raises(ValueError, match="question must be one that was published here, got SetFamily"):
        collector.record(0, foreign)


def test_nothing_is_recorded_before_a_question():
    with pytest.raises(ValueError, match="none has been published yet"):
        new().record([0])


BAD = [
    ({"method": "best"}, "method must be one of 'utility', 'design', got 'best'"),
    ({"mechanism": ad.RRRR(5, 1.0)}, "mechanism must be a SubsetSelection for method 'design', got RRRR"),
    ({"n_people": 0}, "n_people must be an integer of at least 1, got 0"),
    ({"rounds": 601}, "rounds must be at most the number of people, 600, got 601"),
    ({"prior": "flat"}, "prior must be"),
    ({"utility": "fisher"}, "utility must be left out for method 'design', got 'fisher'"),
    ({"categories": ["a"]}, "categories must be"),
    ({"random_seed": -1}, "random_seed must be"),
]


@pytest.mark.parametrize(("settings", "told"), BAD)
def test_bad_settings_are_named(settings, told):
    given = {"mechanism": FIRST, "method": "design", "n_people": 600} | settings
    with pytest.raises(ValueError, match=told):
        ad.AdaptiveCollector(given.pop("mechanism"), **given)


def test_the_number_of_people_must_be_told():
    with pytest.raises(ValueError, match="n_people must be given for method 'design'"):
        ad.AdaptiveCollector(FIRST, method="design")


# ---------------------------------------------------------------- the file
def test_a_reloaded_collector_goes_on_bit_for_bit(always, path):
    collector = new()
    collector.save(path)
    answer_all(collector, 160, 1)
    reloaded = ad.AdaptiveCollector.load(copied(path))
    assert_same(reloaded, collector)
    assert answer_all(collector, 240, 2) == answer_all(reloaded, 240, 2)
    assert_same(reloaded, collector)
    collector.save(path)  # folds the journal in
    assert_same(ad.AdaptiveCollector.load(copied(path)), collector)
    xr.testing.assert_identical(ad.Responses.from_netcdf(path).to_xarray(), collector.responses.to_xarray())


def test_the_first_save_may_come_late(always, path):
    collector = new()
    answer_all(collector, 400, 1)
    collector.save(path)
    answer_all(collector, 20, 2)
    assert len(ad.Responses.from_netcdf(path)) == 420
    assert_same(ad.AdaptiveCollector.load(copied(path)), collector)


def test_a_file_has_one_collector_at_a_time_and_is_not_overwritten(path):
    collector = new()
    collector.save(path)
    with pytest.raises(ValueError, match="in use by another collector"):
        ad.AdaptiveCollector.load(path)
    with pytest.raises(FileExistsError, match="which exists"):
        new().save(path)
    collector.close()
    assert_same(ad.AdaptiveCollector.load(path), collector)


def test_a_utility_is_not_for_a_collection_in_rounds(path):
    collector = new()
    collector.save(path)
    collector.close()
    with pytest.raises(ValueError, match="utility must be left out"):
        ad.AdaptiveCollector.load(path, ad.design.UTILITIES["fisher"])


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_call_changes_nothing(call, problem, path, monkeypatch):
    collector = new()
    collector.save(path)
    answer_all(collector, 100, 1)
    before, records = path.read_bytes(), collector.records

    def fail(descriptor, *rest):
        raise problem

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for attempt in (lambda: collector.record([0]), lambda: collector.record([[0], [1]])):
            with pytest.raises(type(problem)):
                attempt()
    assert path.read_bytes() == before
    assert (len(collector.responses), collector.records) == (100, records)
    collector.record([0])
    assert_same(ad.AdaptiveCollector.load(copied(path)), collector)


def test_an_interrupt_while_a_question_is_chosen_changes_nothing(path, monkeypatch):
    collector = new()
    collector.save(path)
    answer_all(collector, 200, 1)
    before = path.read_bytes()

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("adobest_pp.collect.design_collector.next_question", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collector.next_question()
    assert path.read_bytes() == before
    assert len(collector.records) == 1
    collector.next_question()
    assert len(collector.records) == 2


def test_a_killed_process_loses_nothing_that_was_acknowledged(path):
    """Answers are acknowledged on standard output; kill -9 at a random moment; all of them are in the file."""
    program = textwrap.dedent(f"""
        import adobest_pp as ad
        collector = ad.AdaptiveCollector.load({str(path)!r})
        while True:
            question = collector.next_question()
            collector.record(question.mechanism.privatize(1), question.number)
            print(len(collector.responses), flush=True)
    """)
    collector = new(n_people=1_000_000, rounds=1)
    collector.save(path)
    collector.close()
    acknowledged = 0
    for attempt in range(2):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            first = int(process.stdout.readline())
            assert first == acknowledged + 1
            time.sleep(0.05 * (attempt + 1))
            process.send_signal(signal.SIGKILL)
            rest = [int(line) for line in process.stdout.read().splitlines()]
        acknowledged = max([first, *rest])
        held = len(ad.Responses.from_netcdf(path))
        assert acknowledged <= held <= acknowledged + 1
        acknowledged = held
