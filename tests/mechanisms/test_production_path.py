"""The production path draws exactly against the weights that are audited: every branch of it, enumerated."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from adobest_pp import RRRR, SRR, SubsetSelection, audit
from adobest_pp.mechanisms import exact
from tests.mechanisms.harness import production_column


def assert_exact(mechanism, weights, outputs, subset=()):
    for x in range(weights.shape[1]):
        found, total = production_column(mechanism, x, subset), sum(weights[:, x])
        assert found == {tuple(y): Fraction(weight, total) for y, weight in zip(outputs, weights[:, x], strict=True)}


def test_privatize_hands_on_the_source_the_person_and_the_subset():
    """Without a generator, the source is the operating system's entropy."""
    seen = []

    class Watched(RRRR):
        def randomize(self, x, source, subset):
            seen.append((x.tolist(), type(source), subset.tolist()))
            return super().randomize(x, source, subset)

    mechanism = Watched(3, 1.0)
    assert mechanism.privatize(2, subset=[1]) in range(3)
    assert mechanism.privatize([[0, 1]], subset=[], rng=np.random.default_rng(1)).shape == (1, 2)
    mask = [False, True, False]
    assert seen == [([2], exact.OperatingSystem, mask), ([0, 1], exact.Simulation, [False] * 3)]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("kappa", [0.3, 0.9, 1.0])
def test_rrrr(k, kappa):
    mechanism = RRRR(k, 1.3, kappa)
    for size in range(k):
        for subset in combinations(range(k), size):
            weights = mechanism.exact_weights(subset)
            assert_exact(mechanism, weights, [(y,) for y in range(k)], subset)


@pytest.mark.parametrize("k", [2, 5])
def test_srr(k):
    mechanism = SRR(k, 0.7)
    assert_exact(mechanism, mechanism.exact_weights(), [(y,) for y in range(k)])


@pytest.mark.parametrize(("k", "size"), [(2, 1), (4, 1), (4, 2), (4, 3), (5, 2)])
def test_subset_selection(k, size):
    mechanism = SubsetSelection(k, 0.7, size)
    weights, outputs = mechanism.exact_weights(), mechanism.outputs().tolist()
    assert_exact(mechanism, weights, outputs)


def test_long_arrays_are_answered_in_parts_and_in_full():
    n = (1 << 16) + 3
    answers = SubsetSelection(4, 30.0, 1).privatize(np.arange(n) % 4)
    assert np.array_equal(answers[:, 0], np.arange(n) % 4)


class ScriptedWords:
    """Stands in for the operating system's entropy with given 64-bit words."""

    def __init__(self, *words):
        self.words = list(words)

    def __call__(self, n):
        taken, self.words = self.words[:n], self.words[n:]
        return np.array(taken, dtype=np.uint64)


def test_a_tie_draws_further_digits(monkeypatch):
    # 1/3 is 0.0101… in binary: the first word that decides is the one that differs from 0x5555….
    third = 0x5555555555555555
    for last, event in ((third - 1, True), (third + 1, False)):
        monkeypatch.setattr(exact, "_words", ScriptedWords(third, third, last))
        assert exact.OperatingSystem().bernoulli(1, 3, 1)[0] == event


def test_ties_go_on_with_the_remainder(monkeypatch):
    # 2/7 = 0.(010) in binary: after 64 digits, 4/7 = 0.(100) is left to compare with, not 2/7 again.
    first, second = divmod(2 << 64, 7)[0], divmod(divmod(2 << 64, 7)[1] << 64, 7)[0]
    assert first != second
    for last, event in ((second - 1, True), (second + 1, False)):
        monkeypatch.setattr(exact, "_words", ScriptedWords(first, last))
        assert exact.OperatingSystem().bernoulli(2, 7, 1)[0] == event


def choose(*ends, n=1):
    return exact.OperatingSystem().choose(exact.Columns([list(ends)]), np.zeros(n, dtype=np.int64)).tolist()


def test_one_of_several_is_chosen_by_as_many_digits_as_it_takes(monkeypatch):
    # Weights 1, 1, 1: the ends are 1/3 and 2/3, 0.0101… and 0.1010… in binary.
    third, two_thirds = 0x5555555555555555, 0xAAAAAAAAAAAAAAAA
    for words, chosen in (
        ((0,), 0),
        ((third - 1,), 0),
        ((third + 1,), 1),
        ((third, third - 1), 0),
        ((third, third + 1), 1),
        ((third, third, third - 1), 0),
        ((third, third, third, third + 1), 1),
        ((two_thirds, two_thirds - 1), 1),
        ((two_thirds, two_thirds, two_thirds + 1), 2),
        ((2**64 - 1,), 2),
    ):
        script = ScriptedWords(*words)
        monkeypatch.setattr(exact, "_words", script)
        assert choose(1, 2, 3) == [chosen]
        assert script.words == []
    # An end that is one of these binary numbers belongs to what is above it: half of the numbers are below one half.
    for word, chosen in ((1 << 63, 1), ((1 << 63) - 1, 0)):
        monkeypatch.setattr(exact, "_words", ScriptedWords(word))
        assert choose(1, 2) == [chosen]


def test_what_is_impossible_is_never_chosen(monkeypatch):
    assert set(choose(0, 3, 3, 4, 4, n=400)) == {1, 3}
    for word, chosen in ((0, 1), (2**64 - 1, 3)):  # the ends of all numbers, where ends of weights meet
        monkeypatch.setattr(exact, "_words", ScriptedWords(word))
        assert choose(0, 3, 3, 4, 4) == [chosen]


def test_people_far_down_a_long_list_have_their_own_column(monkeypatch):
    monkeypatch.setattr(exact, "_AT_ONCE", 3)
    columns = exact.Columns([[1, 1, 1], [0, 1, 1], [0, 0, 1]])
    x = np.array([0, 1, 2, 2, 1, 0, 1])
    assert exact.OperatingSystem().choose(columns, x).tolist() == x.tolist()


def test_what_is_certain_happens_and_what_is_impossible_does_not():
    source = exact.OperatingSystem()
    assert source.bernoulli(7, 7, 50).all()
    assert not source.bernoulli(0, 7, 50).any()


def test_all_words_of_the_incomplete_block_are_refused(monkeypatch):
    # 2^64 = 2 (mod 7): the two largest words are refused.
    for refused in (2**64 - 1, 2**64 - 2):
        monkeypatch.setattr(exact, "_words", ScriptedWords(refused, 10))
        assert exact.OperatingSystem().below(7, 1)[0] == 3
    monkeypatch.setattr(exact, "_words", ScriptedWords(2**64 - 3))
    assert exact.OperatingSystem().below(7, 1)[0] == 6
    monkeypatch.setattr(exact, "_words", ScriptedWords(2**64 - 1))
    assert exact.OperatingSystem().below(4, 1)[0] == 3


def test_the_epsilon_of_any_budgets_is_a_promise_that_holds():
    rng = np.random.default_rng(0)
    for _ in range(60):
        mechanism = RRRR.from_budgets(5, rng.uniform(0, 3), rng.uniform(0, 3, size=5))
        assert audit(mechanism).holds
        assert not audit(mechanism, epsilon=mechanism.epsilon * (1 - 1e-9)).holds
