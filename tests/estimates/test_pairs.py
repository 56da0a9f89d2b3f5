"""Two private questions of the same people: unbiased tables for every mechanism, and intervals that cover."""

import itertools

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.estimates import association, people_for_association
from adobest_pp.estimates.pairs import _nearest, _plackett, _table, cramers_v, odds_ratio, unbiased
from tests.refusals import refuses

TABLE = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])
MECHANISMS = {
    "srr": ad.SRR,
    "subset selection": ad.SubsetSelection,
    "unary encoding": ad.UnaryEncoding,
    "hadamard": ad.HadamardResponse,
    "rrrr": ad.RRRR,
}


def asked(mechanism, x, rng):
    subset = [0] if mechanism.publishes_subset else None
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, subset=subset, rng=rng), subset)


def survey(first, second, table, n, rng):
    x = np.unravel_index(rng.choice(table.size, size=n, p=table.ravel()), table.shape)
    return [asked(mechanism, each, rng) for mechanism, each in zip((first, second), x, strict=True)]


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_score_of_an_answer_is_unbiased_for_every_category(name):
    """Summed over all possible answers, with their probabilities."""
    mechanism = MECHANISMS[name](3, epsilon=1.0)
    outputs = mechanism.outputs()
    subset = [0] if mechanism.publishes_subset else None
    responses = ad.Responses.from_arrays(mechanism, outputs, subset)
    matrix = mechanism.transition_matrix(subset) if subset else mechanism.transition_matrix()
    np.testing.assert_allclose(unbiased(responses).T @ matrix, np.eye(3), atol=1e-9)


def test_the_table_is_the_mean_of_products():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(50, 2)), rng.normal(size=(50, 3))
    weights = rng.uniform(1, 2, size=50)
    mean, covariance = _table(first, second, weights)
    products = np.array([np.kron(a, b) for a, b in zip(first, second, strict=True)])
    np.testing.assert_allclose(mean, np.average(products, axis=0, weights=weights))
    gaps = (products - mean) * weights[:, None]
    np.testing.assert_allclose(np.diag(covariance), (gaps**2).sum(axis=0) / weights.sum() ** 2)


@pytest.mark.parametrize(("one", "two"), [("subset selection", "subset selection"), ("rrrr", "unary encoding")])
def test_a_large_survey_finds_the_table(one, two):
    rng = np.random.default_rng(2)
    first, second = MECHANISMS[one](2, epsilon=2.0), MECHANISMS[two](3, epsilon=2.0)
    found = association(*survey(first, second, TABLE, 40_000, rng))
    assert np.abs(found["share"].values - TABLE).max() < 0.02
    assert found["share"].sum() == pytest.approx(1)
    expected = np.outer(TABLE.sum(axis=1), TABLE.sum(axis=0))
    v = np.sqrt(((TABLE - expected) ** 2 / expected).sum())
    assert found["cramers_v_lower"] < v < found["cramers_v_upper"]
    assert found["cramers_v"] == pytest.approx(v, abs=0.05)


@pytest.mark.long
def test_intervals_cover_the_odds_ratio_and_cramers_v():
    """At 95 %, 40 surveys miss 8 or more times with a probability of 0.1 %; there are four counts."""
    rng, n = np.random.default_rng(3), 600
    mechanism = ad.SRR(2, epsilon=2.0)
    for table in (np.outer([0.7, 0.3], [0.8, 0.2]), np.array([[0.45, 0.1], [0.1, 0.35]])):
        odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
        expected = np.outer(table.sum(axis=1), table.sum(axis=0))
        v = np.sqrt(((table - expected) ** 2 / expected).sum())
        held = np.zeros(2)
        for _ in range(40):
            both = survey(mechanism, mechanism, table, n, rng)
            mean, covariance = _table(*(unbiased(each) for each in both), np.ones(n))
            ratio, strength = odds_ratio(mean, covariance), cramers_v(mean, covariance, (2, 2))
            held += [ratio.lower <= odds <= ratio.upper, strength.lower <= v <= strength.upper]
        assert (held > 40 - 8).all()


def test_the_nearest_table_is_that_of_a_fine_search():
    mean, precision = np.array([0.4, 0.12, 0.18, 0.3]), np.eye(4) * 100
    ticks = (np.arange(200) + 0.5) / 200
    for odds in (0.5, 1.0, 8.0):
        tables = _plackett(odds, ticks[:, None], ticks[None, :])
        slow = (100 * ((tables - mean[:, None, None]) ** 2).sum(axis=0)).min()
        assert _nearest(odds, mean, precision) <= slow
        assert _nearest(odds, mean, precision) == pytest.approx(slow, abs=0.02)


def test_tables_of_plackett_have_their_odds_ratio_and_margins():
    for odds, row, column in itertools.product((0.2, 1.0, 7.0), (0.3, 0.6), (0.5, 0.9)):
        table = _plackett(odds, np.array(row), np.array(column)).reshape(2, 2)
        assert table.sum() == pytest.approx(1)
        assert table[1].sum() == pytest.approx(row)
        assert table[:, 1].sum() == pytest.approx(column)
        assert table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]) == pytest.approx(odds)


def test_as_many_people_as_planned_see_the_association():
    """The planned power is 80 %. Of 60 surveys, 38 to 57 find it, with a probability of 99.7 %."""
    rng, mechanism = np.random.default_rng(4), ad.SubsetSelection(3, epsilon=1.5)
    table = 0.6 * np.full((3, 3), 1 / 9) + 0.4 * np.eye(3) / 3
    n = people_for_association(mechanism, mechanism, table)
    seen = 0
    for _ in range(60):
        mean, covariance = _table(*map(unbiased, survey(mechanism, mechanism, table, n, rng)), np.ones(n))
        seen += cramers_v(mean, covariance, (3, 3)).lower > 0
    assert 38 <= seen <= 57


def test_what_cannot_be_used_is_refused():
    rng, mechanism = np.random.default_rng(5), ad.SRR(2, epsilon=1.0)
    one, two = survey(mechanism, mechanism, np.full((2, 2), 0.25), 20, rng)
    with refuses("second"):
        association(one, asked(mechanism, [0] * 19, rng))
    with refuses("weights"):
        association(one, two, weights=[-1] * 20)
    with refuses("table"):
        people_for_association(mechanism, mechanism, [[0.5, 0.5]])
    with refuses("table"):
        people_for_association(mechanism, mechanism, [[0.25, 0.25], [0.25, 0.25]])
    wide = ad.SRR(30, epsilon=1.0)
    with refuses("second"):
        association(asked(wide, [0] * 20, rng), asked(wide, [0] * 20, rng))
