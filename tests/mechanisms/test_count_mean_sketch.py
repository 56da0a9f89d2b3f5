"""Count-mean sketch against randomized response on hashes, written out."""

import math

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp import CountMeanSketch, Responses, audit
from adobest_pp.mechanisms import count_mean_sketch
from adobest_pp.mechanisms.local_hashing import xxh32
from tests.mechanisms.harness import check_fit_counts, check_mechanism
from tests.refusals import refuses


@pytest.mark.parametrize(("k", "functions", "values"), [(2, 3, 2), (4, 5, 3), (5, 2, 4), (7, 3, 9)])
def test_it_is_randomized_response_on_a_public_hash(k, functions, values, monkeypatch):
    mechanism = CountMeanSketch(k, 0.9, functions, values)

    def definition(answer, x):
        function, value = divmod(answer[0], values)
        hashed = int(xxh32(str(x).encode(), np.array([function], dtype=np.uint32))[0]) % values
        odds = math.exp(0.9)
        return (odds if hashed == value else 1) / (functions * (odds + values - 1))

    check_mechanism(mechanism, definition)
    expected = np.array([[definition((y,), x) for x in range(k)] for y in range(functions * values)])
    np.testing.assert_allclose(mechanism.transition_matrix(), expected, rtol=1e-12)
    weights = mechanism.exact_weights()
    np.testing.assert_allclose((weights / weights.sum(axis=0)).astype(float), expected, rtol=1e-12)
    theta = np.random.default_rng(1).dirichlet(np.ones(k))
    np.testing.assert_allclose(mechanism.information(theta), (expected.T / (expected @ theta)) @ expected, rtol=1e-9)
    # The counts if there are too many answers to count them all, or too many values of one function.
    for most in (2 * values, values - 1):
        monkeypatch.setattr(count_mean_sketch, "MAX_COUNTED", most)
        check_fit_counts(mechanism, [(y,) for y in range(functions * values)], expected)


@pytest.mark.parametrize(("k", "epsilon"), [(60, 0.5), (40, 1.0), (100, 2.0), (100, 4.0)])
def test_the_default_functions_lose_what_the_docstring_says(k, epsilon):
    """Against a hash of one's own for everybody, which is what infinitely many functions have."""
    even, mechanism = np.full(k, 1 / k), CountMeanSketch(k, epsilon)
    free = mechanism.n_hashes * (mechanism.n_values - 1) / (k - 1)
    assert free >= 8
    lost = ad.asymptotic_variance(mechanism, even) / ad.asymptotic_variance(ad.LocalHashing(k, epsilon), even)
    assert lost == pytest.approx(free / (free - 1), abs=0.04)


def test_a_function_that_tells_nothing_apart_loses_no_privacy():
    hashed = [int(xxh32(text, np.zeros(1, dtype=np.uint32))[0]) for text in (b"0", b"1")]
    same, apart = (
        next(g for g in range(2, 100) if (len({x % g for x in hashed}) == 1) is wanted) for wanted in (True, False)
    )
    assert audit(CountMeanSketch(2, 1.0, 1, same)).loss == 0.0
    assert audit(CountMeanSketch(2, 1.0, 1, apart)).loss == pytest.approx(1.0, rel=1e-12)


def test_ten_thousand_categories_need_no_table_of_answers():
    mechanism, rng = CountMeanSketch(10_000, 2.0), np.random.default_rng(1)
    answers = mechanism.privatize([0, 9999])
    assert ((answers >= 0) & (answers < mechanism.n_outputs)).all()
    kernel, table = mechanism.drawing()
    theta = np.full(10_000, 1e-4)
    assert 0 <= kernel(rng, theta, 0, np.zeros((1, 1), dtype=bool), table) < mechanism.n_outputs
    assert audit(mechanism).holds
    counts = mechanism.answer_counts(answers, None, theta, np.arange(10))
    assert len(counts.observed) <= 1024
    with pytest.raises(ValueError, match="possible answers"):
        mechanism.transition_matrix()


def test_too_many_values_are_refused_before_they_are_computed():
    mechanism = CountMeanSketch(1_000_000, 1.0)
    assert 0 <= mechanism.privatize(999_999) < mechanism.n_outputs
    with refuses("n_categories") as caught:
        mechanism.structure()
    assert "GiB" in str(caught.value)


@pytest.mark.parametrize("name", ["n_hashes", "n_values"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True, 2**30])
def test_bad_numbers_of_functions_and_values(name, value):
    with refuses(name):
        CountMeanSketch(5, 1.0, **{name: value})


@pytest.mark.parametrize("answers", [[6], [-1], [[1, 2]], ["1"], [1.0]])
def test_other_answers_are_refused(answers):
    with refuses("answers"):
        Responses.from_arrays(CountMeanSketch(10, 1.0, 2, 3), answers)
