"""The search for words that nobody has listed: rounds, prefixes, error rates and resuming."""

import json
import sys

import numpy as np
import pytest
from scipy.stats import binom

import adobest_pp as ad
from adobest_pp.collect import words as module
from adobest_pp.collect.words import END, OTHER, WordSearch, category_of, smallest_threshold
from tests.refusals import refuses

SETTINGS = {"epsilon": 4.0, "n_people": 9000, "alphabet": "abc", "longest": 5}


def created(**changed):
    return WordSearch.create(**{**SETTINGS, **changed})


def all_words(alphabet, longest):
    found, last = [], [""]
    for _ in range(longest):
        last = [word + letter for word in last for letter in alphabet]
        found += last
    return found


@pytest.fixture
def short_rounds(monkeypatch):
    """Rounds of one letter, though the alphabet is small."""
    monkeypatch.setattr(module, "FIRST_CANDIDATES", 4)


def finish_round(search, words, rng):
    question, n = search.next_question(), search.left
    x = [category_of(word, question) for word in rng.choice(words, size=n)]
    search.record(question.privatize(x, rng=rng), question)
    return question


def test_every_word_has_one_category_in_every_round(short_rounds):
    search, rng = created(longest=4, n_people=30_000), np.random.default_rng(1)
    words = ["abca"] * 5 + ["ab"] * 3 + ["c"] * 2
    seen = []
    while not search.is_last:
        question = finish_round(search, words, rng)
        seen.append(question.categories)
        assert question.categories[-1] == OTHER
        for word in all_words("abc", 4):
            fitting = [label for label in question.categories[:-1] if (word + END).startswith(label)]
            assert len(fitting) <= 1  # no label begins another one
            assert question.categories[category_of(word, question)] == (fitting or [OTHER])[0]
        search.next_question()
    assert set(seen[0]) == {"a", "b", "c", OTHER}
    assert {"ab", "a·", "c·", "cc"} <= set(seen[1])
    finish_round(search, words, rng)
    assert search.words == ("abca", "ab", "c")
    assert search.responses.categories[-1] == OTHER
    # Different people: as many answers as people, in rounds that share none.
    assert sum(each.people for each in search.rounds) + len(search.responses) == 30_000


def test_what_is_not_asked_for_is_other_and_never_shown():
    question = created(longest=3).next_question()
    last = len(question.categories) - 1
    for word in ("dab", "abd", "a·", "…", "A"):
        assert category_of(word, question) == last
    for bad in (None, 3, "", b"", ["a"]):
        with refuses("word"):
            category_of(bad, question)


def test_a_device_reads_the_question_as_any_other():
    question = created(longest=3).next_question()
    read = ad.read_question(question.to_json(), epsilon=4.0)
    assert read.categories == question.categories
    search = created(longest=3)
    search.next_question()
    search.record(read.privatize(category_of("cab", read)), read)
    assert repr(search) == "<WordSearch: 1 of 9,000 people, round 1>"


def test_words_of_a_known_list_are_found():
    rng = np.random.default_rng(2)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    tail = ["".join(rng.choice(letters, size=6)) for _ in range(4000)]
    people = ["heavy"] * 4000 + ["he"] * 3000 + ["wordy"] * 2500 + tail
    search = ad.simulate_words(people, epsilon=5.0, longest=6, random_seed=3)
    assert set(search.words) == {"heavy", "he", "wordy"}
    found = search.estimate(draws=200)
    assert found["word"].values.tolist() == list(search.words)
    truth = np.array([people.count(word) / len(people) for word in search.words])
    assert ((found["lower"] <= truth) & (truth <= found["upper"])).all()
    assert found.attrs["threshold"] == search.threshold
    again = ad.simulate_words(people, epsilon=5.0, longest=6, random_seed=3)
    np.testing.assert_array_equal(again.responses.answers, search.responses.answers)


def test_bytes_are_found_in_any_script():
    people = ["да".encode()] * 2500 + ["né".encode()] * 2500 + [b"x"] * 10
    search = ad.simulate_words(people, epsilon=6.0, alphabet=None, longest=4, random_seed=1)
    assert set(search.words) == {"да", "né"}


def test_longer_words_are_told_and_not_found():
    with pytest.warns(UserWarning, match="^300 of 3,000 words are longer than longest = 3, and cannot be found$"):
        search = ad.simulate_words(["ab"] * 2700 + ["abab"] * 300, epsilon=6.0, alphabet="ab", longest=3, random_seed=1)
    assert search.words == ("ab",)


def test_a_search_that_finds_nothing_ends():
    rng = np.random.default_rng(4)
    people = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), size=6)) for _ in range(4000)]
    search = ad.simulate_words(people, epsilon=3.0, longest=6, random_seed=1)
    assert search.words == ()
    assert search.left == 0
    with refuses("search"):
        search.next_question()


# ---------------------------------------------------------------- the stated rates
def test_the_threshold_keeps_both_rates_and_no_smaller_one_does():
    settings = created(longest=8, n_people=50_000, alphabet="abcdefghij").settings
    n_rounds = len(module._lengths(10, settings)) + 1
    n = 50_000 // n_rounds

    def rates(share):
        k = max(11 ** module._lengths(10, settings)[0], -int(-2 // share) * 11) + 1
        truth, other = ad.SubsetSelection(k, 4.0).naming()
        cut = min(c for c in range(n + 1) if binom.cdf(c, n, other + (truth - other) * share) > 0.05 / n_rounds)
        return binom.cdf(cut - 1, n, other + (truth - other) * share) * n_rounds, binom.sf(cut - 1, n, other) * k

    threshold = settings["threshold"]
    missed, false = rates(threshold)
    assert missed <= 0.05
    assert false <= 0.05
    assert rates(threshold * 0.97)[1] > 0.05
    assert smallest_threshold(settings | {"n_people": 500_000}) < threshold / 2.5


@pytest.mark.long
def test_a_word_at_the_threshold_is_missed_as_rarely_as_stated():
    # 5 % at most: 5 of 30 would be missed in 1.6 % of such tests if it were 5 %.
    threshold = created(longest=4, n_people=6000, missed=0.05).threshold
    n = int(np.ceil(threshold * 6000))
    missed = 0
    for seed in range(30):
        people = ["abca"] * n + ["cccc"] * (6000 - n)
        search = ad.simulate_words(people, epsilon=4.0, alphabet="abc", longest=4, random_seed=seed)
        missed += "abca" not in search.words
    assert missed < 5


def test_the_rule_is_the_test_that_was_stated(short_rounds):
    search, rng = created(longest=3, n_people=8000), np.random.default_rng(5)
    finish_round(search, ["aaa"] * 3 + ["bbb"] * 2, rng)
    search.next_question()
    (first,) = search.rounds
    truth, other = ad.SubsetSelection(4, 4.0).naming()
    h = other + (truth - other) * search.threshold
    counts = np.round((other + (truth - other) * first.estimate) * first.people)
    np.testing.assert_array_equal(first.goes_on, binom.cdf(counts, first.people, h) > 0.05 / search.n_rounds)


def test_a_prefix_goes_on_from_the_first_count_that_is_likely_enough(short_rounds):
    """One count below the limit is dropped; the error of a word is shared by all rounds."""
    search = created(longest=3, n_people=8000)
    question, n = search.next_question(), search.left
    truth, other = question.mechanism.naming()
    assert question.mechanism.size == 1  # an answer names one category
    limit = int(binom.ppf(0.05 / search.n_rounds, n, other + (truth - other) * search.threshold))
    assert binom.cdf(limit, n, other + (truth - other) * search.threshold) < 0.05
    counts = [n - 2 * limit + 1, limit, limit - 1]
    search.record(np.repeat([0, 1, 2], counts)[:, None], question)
    search.next_question()
    assert search.rounds[0].goes_on.tolist() == [True, True, False]


# ---------------------------------------------------------------- files
def test_a_search_goes_on_where_it_stopped(tmp_path, short_rounds):
    rng, words = np.random.default_rng(6), ["abca"] * 3 + ["cb"]
    search = created(folder=tmp_path / "search", longest=4, random_seed=1)
    first = finish_round(search, words, rng)
    question = search.next_question()
    search.record(question.privatize(0, rng=rng), question)
    search.record(first.privatize([0, 1], rng=rng), first)  # late: kept, but decides nothing
    shown, candidates = repr(search), question.categories
    search.close()
    opened = WordSearch.open(tmp_path / "search")
    assert repr(opened) == shown
    assert opened.next_question().categories == candidates
    while opened.left:
        finish_round(opened, words, rng)
    assert opened.words == ("abca", "cb")
    opened.close()
    with refuses("folder", FileExistsError):
        created(folder=tmp_path / "search")


def test_a_folder_of_another_search_is_refused(tmp_path, short_rounds):
    search = created(folder=tmp_path / "search", longest=4)
    search.close()
    path = tmp_path / "search" / "search.json"
    path.write_text(json.dumps(search.settings | {"alphabet": "xyz"}))
    with refuses("folder"):
        WordSearch.open(tmp_path / "search")
    changes = [{"longest": "4"}, {"threshold": 2}, {"alphabet": [1]}, {"mechanism": None}, {"epsilon": "1"}]
    bad = [json.dumps(search.settings | change) for change in changes]
    without = {name: value for name, value in search.settings.items() if name != "threshold"}
    for content in ("{", "3", "[]", "{}", json.dumps(without), *bad):
        path.write_text(content)
        with refuses("folder"):
            WordSearch.open(tmp_path / "search")
    with refuses("folder"):
        WordSearch.open(tmp_path)


def test_a_folder_causes_no_import(tmp_path, short_rounds, monkeypatch):
    """The settings name a class: only a person who types its place may cause an import."""
    (tmp_path / "own_words.py").write_text(
        "from adobest_pp import SubsetSelection\nclass OwnSubsets(SubsetSelection): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    search = created(folder=tmp_path / "search", longest=4)
    search.close()
    (tmp_path / "search" / "round-1.db").unlink()
    settings = tmp_path / "search" / "search.json"
    settings.write_text(json.dumps(search.settings | {"mechanism": "own_words:OwnSubsets"}))
    with refuses("folder"):
        WordSearch.open(tmp_path / "search")
    assert "own_words" not in sys.modules
    typed = created(folder=tmp_path / "typed", longest=4, mechanism="own_words:OwnSubsets")
    typed.close()
    WordSearch.open(tmp_path / "typed").close()


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("alphabet", bad) for bad in ("", "a", "aa", 3, "ab·", "ab…", "a\n")),
        *(("longest", bad) for bad in (0, 2.5, None)),
        *(("threshold", bad) for bad in (0, 1, 1e-5, "a")),
        *(("missed", bad) for bad in (0, 1, None)),
        *(("false", bad) for bad in (0, 1, "b")),
        *(("n_people", bad) for bad in (0, 1, 20, "many")),
        *(("epsilon", bad) for bad in (0, -1, "x")),
        *(("step", bad) for bad in (0, 9, "x")),
        ("mechanism", "rrrr"),
        ("mechanism", "no such thing"),
    ],
)
def test_what_cannot_be_searched_is_refused(name, bad):
    with refuses(name):
        created(**{name: bad})


def test_a_threshold_that_is_too_small_names_the_smallest():
    least = created().threshold
    with refuses("threshold") as caught:
        created(threshold=least / 2)
    assert f"at least {least:.3g}" in str(caught.value)
    assert created(threshold=min(2 * least, 0.9)).threshold == min(2 * least, 0.9)


@pytest.mark.parametrize("words", [None, "abc", [], ["a", 3], ["a", b"b"], ["a", ""]])
def test_what_are_no_words_is_refused(words):
    with refuses("words"):
        ad.simulate_words(words, epsilon=1.0)


def test_answers_to_other_questions_are_refused():
    search, other = created(longest=3), created(longest=4).next_question()
    for bad in (other, None, 0):
        with refuses("question"):
            search.record(0, bad)
