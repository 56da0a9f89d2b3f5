"""Local hashing: the hash by its published vectors, and randomized response on it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from adobest_pp import LocalHashing, Responses, audit
from adobest_pp.mechanisms import base, drawing
from adobest_pp.mechanisms.local_hashing import hash_categories, xxh32
from tests.mechanisms.harness import FALSE_ALARM, check_collector
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("text", "seed", "expected"),
    [
        (b"", 0, 0x02CC5D05),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
        (b"0", 0, 0x48454CB2),
        (b"7", 12345, 0xA10ED6F9),
        (b"99", 4294967295, 0xBEFAB2E0),
        (b"1234", 2654435761, 0xF33BF2F0),
        (b"123456", 42, 0x1B7089EE),
    ],
)
def test_the_hash_is_xxhash32(text, seed, expected):
    """Values of the reference implementation."""
    assert int(xxh32(text, np.array([seed], dtype=np.uint32))[0]) == expected


def test_the_compiled_hash_is_the_same():
    seeds = np.array([0, 1, 77, 2**32 - 1], dtype=np.uint32)
    expected = hash_categories(seeds, 1005)
    for category in (0, 9, 10, 99, 100, 999, 1000, 1004):
        for i, seed in enumerate(seeds):
            assert drawing.hash_category(seed, category) == expected[i, category]


def test_the_best_number_of_values_is_the_default():
    assert [LocalHashing(10, epsilon).g for epsilon in (0.1, 1.0, 3.0)] == [2, 4, 21]
    assert LocalHashing(10, 30.0).g == 2**31


@pytest.mark.parametrize("seed", [0, 5, 4_000_000_000])
def test_the_likelihood_is_that_of_randomized_response_on_the_hash(seed):
    mechanism = LocalHashing(6, 1.2, g=3)
    odds = math.exp(1.2)
    hashes = [int(xxh32(str(x).encode(), np.array([seed], dtype=np.uint32))[0]) % 3 for x in range(6)]
    matrix = np.array([[(odds if hashes[x] == v else 1) / (odds + 2) for x in range(6)] for v in range(3)])
    np.testing.assert_allclose(mechanism.transition_matrix(seed), matrix, rtol=1e-12)
    used = np.isin(np.arange(3), hashes)  # answers of one support set, the empty one, are one row
    check_collector(mechanism, [(seed, v) for v in np.arange(3)[used]], matrix[used].astype(object))


@pytest.mark.parametrize("path", ["production", "simulation", "predictive"])
def test_every_path_keeps_the_hash_of_the_truth_with_the_same_odds(path):
    mechanism, rng, n = LocalHashing(6, 1.2, g=3), np.random.default_rng(3), 6000
    if path == "predictive":
        kernel, table = mechanism.drawing()
        theta, nothing = np.eye(6)[4], np.zeros((1, 6), dtype=bool)
        answers = np.array([kernel(rng, theta, 0, nothing, table) for _ in range(n)])
    else:
        answers = mechanism.privatize(np.full(n, 4), rng=rng if path == "simulation" else None)
    truth = hash_categories(answers[:, 0].astype(np.uint32), 6)[:, 4] % 3
    moved = np.bincount((answers[:, 1] - truth.astype(int)) % 3, minlength=3)
    odds = math.exp(1.2)
    assert stats.chisquare(moved, n * np.array([odds, 1, 1]) / (odds + 2)).pvalue > FALSE_ALARM
    assert len(np.unique(answers[:, 0])) > n - 20  # a seed of one's own


def test_the_counts_of_the_check_of_fit_have_the_moments_of_the_definition():
    """Over random seeds, of which these are enough for an error of a hundredth; six standard errors are allowed."""
    mechanism, rng, n = LocalHashing(4, 1.2, g=3), np.random.default_rng(5), 20_000
    theta = np.array([0.4, 0.3, 0.2, 0.1])
    answers = mechanism.privatize(rng.choice(4, size=n, p=theta), rng=rng)
    counts = Responses.from_arrays(mechanism, answers).answer_counts(theta, np.arange(4))
    hits = hash_categories(answers[:, 0].astype(np.uint32), 4) % 3 == answers[:, 1:]
    np.testing.assert_array_equal(counts.observed, hits.sum(axis=0))
    expected = counts.constant + counts.slope @ theta
    assert (np.abs(counts.observed - expected) < 6 * np.sqrt(np.diag(counts.covariance))).all()
    np.testing.assert_allclose(counts.covariance / n, np.cov(hits.T), atol=6 * 0.25 / np.sqrt(n))


def test_evidence_does_not_depend_on_how_many_answers_are_unpacked_at_a_time(monkeypatch):
    mechanism, rng = LocalHashing(20, 1.2), np.random.default_rng(5)
    responses = Responses.from_arrays(mechanism, mechanism.privatize(rng.integers(20, size=300), rng=rng))
    expected = responses.evidence()
    monkeypatch.setattr(base, "_ENTRIES_AT_ONCE", 7 * 20)
    assert responses.evidence() == expected


def test_the_audit_has_a_seed_that_tells_two_categories_apart():
    result = audit(LocalHashing(5, 1.0))
    assert result.holds
    assert 0 <= result.slack < 1e-18
    seed, value = result.rows[0].y
    weights = LocalHashing(5, 1.0).transition_matrix(seed)[value]
    assert Fraction(weights[0]) / Fraction(weights[1]) == pytest.approx(math.e)


@pytest.mark.parametrize(
    "answers",
    [[[1, 3]], [[-1, 0]], [[2**32, 0]], [[0, -1]], [[0, 1, 2]], [0, 1, 2], [[0.5, 1]], [True, False]],
)
def test_other_answers_are_refused(answers):
    with refuses("answers"):
        Responses.from_arrays(LocalHashing(5, 1.0, g=3), answers)


@pytest.mark.parametrize("g", [1, 2.5, "3"])
def test_bad_numbers_of_values(g):
    with refuses("g"):
        LocalHashing(5, 1.0, g)
