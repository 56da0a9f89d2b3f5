"""What `privatize` does is the same whatever is held: entropy and lines of code, counted. The clock is not tested here.

How well the clock tells x apart is measured by ``python -m validation.side_channel``.
"""

import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp import _checks
from adobest_pp.mechanisms import exact
from validation import side_channel

K = 6
CALLS = {
    "srr": ad.SRR(K, 1.0).privatize,
    "subset selection of 1": ad.SubsetSelection(K, 1.0, 1).privatize,
    "subset selection of 3": ad.SubsetSelection(K, 1.0, 3).privatize,
    **{
        f"rrrr with {size} in S": lambda x, size=size: ad.RRRR(K, 1.0).privatize(x, subset=np.arange(size))
        for size in range(K)
    },
    "unary encoding": ad.UnaryEncoding(K, 1.0).privatize,
    "local hashing": ad.LocalHashing(K, 1.0).privatize,
    "Hadamard response": ad.HadamardResponse(K, 1.0).privatize,
    "projective geometry response": ad.ProjectiveGeometryResponse(K, 1.0).privatize,
    "projective geometry response of a prime order": ad.ProjectiveGeometryResponse(K, 1.0, 3).privatize,
    "count-mean sketch": ad.CountMeanSketch(K, 1.0).privatize,
    "pairs": ad.SetFamily(list(combinations(range(K), 2)), [1] * 15, 1.0).privatize,
    # In binary, columns of such numbers do not sum to the same: of some sums every other integer would be refused.
    "a channel": ad.Channel(
        np.array([[0.1, 0.4, 0.3, 0.2, 0.1, 0.3], [0.4, 0.3, 0.3, 0.7, 0.2, 0.6], [0.5, 0.3, 0.4, 0.1, 0.7, 0.1]])
    ).privatize,
}


def work(privatize, x, seed):
    """Return the requests for entropy and how often each line of the toolkit was run, on the entropy of a seed."""
    rng, requests, lines = np.random.default_rng(seed), [], Counter()

    def words(n):
        requests.append(n)
        return rng.integers(1 << 63, size=n, dtype=np.uint64)  # never among the few largest, which are redrawn

    def trace(frame, event, argument):
        if "adobest_pp" not in frame.f_code.co_filename:
            return None
        lines[frame.f_code.co_name, frame.f_lineno] += event == "line"
        return trace

    original, before = exact._words, sys.gettrace()
    exact._words = words
    sys.settrace(trace)
    try:
        privatize(x)
    finally:
        sys.settrace(before)
        exact._words = original
    return requests, lines


@pytest.mark.parametrize("name", CALLS)
def test_one_call_does_the_same_whatever_is_held(name):
    privatize = CALLS[name]
    privatize(0)  # what is computed once for a mechanism
    for seed in range(10):
        expected = work(privatize, 0, seed)
        assert sum(expected[0]) > 0
        assert all(work(privatize, x, seed) == expected for x in range(1, K))


@pytest.mark.parametrize("name", CALLS)
def test_subset_selection_and_others_do_the_same_whatever_they_answer(name):
    """The work does not depend on the entropy either, but for redraws: an answer that is the truth takes no less."""
    CALLS[name](0)
    first = work(CALLS[name], 2, 0)
    assert all(work(CALLS[name], 2, seed) == first for seed in range(1, 30))


@pytest.mark.parametrize("name", CALLS)
def test_many_at_once_draw_the_same_entropy_whatever_is_held(name):
    rng = np.random.default_rng(1)
    requests = [work(CALLS[name], rng.integers(K, size=50), seed)[0] for seed in range(5)]
    assert all(request == requests[0] for request in requests)


class Whole(np.ndarray):
    """A table that may be compared as a whole only."""

    def __getitem__(self, key):
        assert self.ndim < 2, "a part of the table was read"
        return super().__getitem__(key)


def test_one_device_compares_with_the_whole_table():
    """Reading its own column would take as long as the memory of that column is away, which depends on x."""
    mechanism = ad.SetFamily(list(combinations(range(K), 2)), [1] * 15, 1.0)
    expected = mechanism._columns.thresholds
    vars(mechanism._columns)["thresholds"] = expected.view(Whole)
    assert {mechanism.privatize(x) for x in range(K) for _ in range(20)} <= {*range(15)}
    with pytest.raises(AssertionError, match="a part of the table was read"):
        mechanism.privatize([0, 1])


class Unseen(np.ndarray):
    """An x that must not become a number of its own, in which category 0 took 20 nanoseconds less than others."""

    def number(self, *arguments, **options):
        raise AssertionError("x became a number of its own")

    min = max = item = __int__ = __index__ = number


def test_the_check_of_x_compares_without_looking_at_its_least_and_greatest(monkeypatch):
    monkeypatch.setattr(_checks, "as_numbers", lambda x, kinds: np.asarray(x).view(Unseen))
    for x in (0, 5, [0, 5], []):
        np.testing.assert_array_equal(np.asarray(_checks.check_private(x, K)), x)
    for x in (-1, K, [0, K], [-(2**63)], np.uint64(2**64 - 1), np.int8(-1)):
        with pytest.raises(ValueError, match=f"x must be a category index from 0 to {K - 1}"):
            _checks.check_private(x, K)


def test_a_call_that_takes_longer_for_one_x_is_found(monkeypatch, capsys):
    def uneven(x):
        return sum(range(500 if x == 12 else 100))

    monkeypatch.setattr(side_channel, "compared", lambda: {"uneven": uneven})
    assert side_channel.difference_findings(quick=True, rng=np.random.default_rng(1)) == []
    found = side_channel.differences(uneven, 500, np.random.default_rng(1))
    assert found[12][0] - 4 * found[12][1] > 1000
    assert abs(found[0][0]) < 1000


def test_times_that_differ_are_told_apart_and_others_are_not():
    rng = np.random.default_rng(1)
    group = rng.random(4000) < 0.3
    times = rng.gamma(5, size=4000)
    guessing, error = side_channel.accuracy(times, group)
    assert abs(guessing - 0.5) < 4 * error < 0.06
    assert side_channel.accuracy(times * np.where(group, 1.5, 1.0), group)[0] > 0.6
    assert side_channel.accuracy(np.where(group, 2.0, 1.0) + 0.1 * times, group)[0] > 0.9
