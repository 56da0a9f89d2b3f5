"""Projective geometry response against vectors over fields, written out."""

import json
import math
from itertools import product

import numpy as np
import pytest

from adobest_pp import ProjectiveGeometryResponse, Responses, read_question
from adobest_pp._numerics import zero_sum_basis
from adobest_pp.mechanisms import base
from adobest_pp.mechanisms import projective_geometry_response as geometry
from adobest_pp.mechanisms.published_question import PublishedQuestion
from tests.mechanisms.harness import check_fit_counts, check_mechanism
from tests.refusals import refuses

ORDERS = [2, 3, 5, 7, 11, 13, *geometry._POLYNOMIALS]


def tables(q):
    field, all_ = geometry.field_of(q), np.arange(q)
    return field, [table(*np.meshgrid(all_, all_, indexing="ij")) for table in (field.add, field.multiply)]


@pytest.mark.parametrize("q", ORDERS)
def test_every_order_is_a_field(q):
    """The axioms, for all elements. There is one field of each order, so nothing else needs to be known of it."""
    field, (add, multiply) = tables(q)
    all_ = np.arange(q)
    for table, neutral in ((add, 0), (multiply, 1)):
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(table[neutral], all_)
        np.testing.assert_array_equal(table[table], table[all_[:, None, None], table])  # (ab)c = a(bc)
    assert (np.sort(add, axis=1) == all_).all()
    assert (np.sort(multiply[1:], axis=1) == all_).all()
    np.testing.assert_array_equal(multiply[:, add], add[multiply[:, :, None], multiply[:, None, :]])
    assert (field.add(all_, field.negative(all_)) == 0).all()
    assert (field.multiply(all_[1:], field.inverse(all_[1:])) == 1).all()


def points(q, t):
    """The points in the order that the module states: vectors as numbers, of those that begin with 1."""
    return sorted(v for v in product(range(q), repeat=t) if any(v) and next(filter(None, v)) == 1)


@pytest.mark.parametrize(
    ("k", "q", "t"),
    [(2, 2, 2), (7, 2, 3), (6, 2, 3), (13, 3, 3), (9, 3, 3), (5, 4, 2), (6, 4, 3), (4, 5, 2), (7, 5, 3)],
)
def test_it_is_what_the_paper_defines(k, q, t, monkeypatch):
    mechanism, all_ = ProjectiveGeometryResponse(k, 0.9, q), points(q, t)
    _, (add, multiply) = tables(q)
    assert (mechanism.dimension, mechanism.n_outputs) == (t, len(all_))
    near = (q ** (t - 1) - 1) // (q - 1)

    def definition(answer, x):
        total = 0
        for a, b in zip(all_[answer[0]], all_[x], strict=True):
            total = add[total, multiply[a, b]]
        odds = math.exp(0.9)
        return (odds if total == 0 else 1) / (near * odds + len(all_) - near)

    check_mechanism(mechanism, definition)
    expected = np.array([[definition((z,), x) for x in range(k)] for z in range(len(all_))])
    np.testing.assert_allclose(mechanism.transition_matrix(), expected, rtol=1e-12)
    weights = mechanism.exact_weights()
    np.testing.assert_allclose((weights / weights.sum(axis=0)).astype(float), expected, rtol=1e-12)
    named = expected.T @ mechanism.support(np.arange(len(all_)))  # P(names column | row)
    np.testing.assert_allclose(np.diag(named), mechanism.naming()[0], rtol=1e-12)
    np.testing.assert_allclose(named[~np.eye(k, dtype=bool)], mechanism.naming()[1], rtol=1e-12)
    theta = np.random.default_rng(1).dirichlet(np.ones(k))
    information = (expected.T / (expected @ theta)) @ expected
    np.testing.assert_allclose(mechanism.information(theta), information, rtol=1e-9)
    # The counts of larger geometries: of categories and spare points in place of answers.
    monkeypatch.setattr(base, "MAX_COUNTED", 0)
    check_fit_counts(mechanism, [(z,) for z in range(len(all_))], expected)


def even_error(k, epsilon, q):
    """n times the summed variance of the best estimate at even shares: the inverse of the information, written out."""
    mechanism = ProjectiveGeometryResponse(k, epsilon, q)
    sets = 1.0 + math.expm1(epsilon) * mechanism.support(np.arange(mechanism.n_outputs))
    matrix = sets / sets.sum(axis=0)
    information = matrix.T @ (matrix / matrix.mean(axis=1)[:, None])
    basis = zero_sum_basis(k)
    return np.trace(np.linalg.inv(basis @ information @ basis.T))


@pytest.mark.parametrize(
    ("k", "epsilon", "best"),
    [(8, 0.4, 2), (20, 0.5, 3), (14, 0.9, 3), (20, 1.0, 4), (50, 2.0, 7), (100, 2.0, 9), (60, 3.5, 37), (100, 4.0, 59)],
)
def test_the_default_order_has_the_smallest_error(k, epsilon, best):
    """Of all orders whose geometry has up to 4,000 points, and the first with which it is randomized response."""
    orders = [*(q for q in range(2, 2 * k) if all(q % i for i in range(2, q))), *geometry._POLYNOMIALS]
    few = [q for q in orders if ProjectiveGeometryResponse(k, epsilon, q).n_outputs <= 4000]
    assert min(few, key=lambda q: even_error(k, epsilon, q)) == best
    assert ProjectiveGeometryResponse(k, epsilon).order == best
    assert ProjectiveGeometryResponse(k, 1e-300).order == ProjectiveGeometryResponse(k, 0.01).order


@pytest.mark.parametrize(
    ("k", "q", "epsilon", "tolerance"),
    [
        (30, 31, 3.0, 1e-9),  # two coordinates
        (57, 7, 2.0, 1e-9),  # all points
        (92, 13, 3.0, 1e-9),  # full lines
        (100, 16, 3.0, 2e-4),
        (100, 59, 4.0, 2e-4),
        (80, 61, 5.0, 2e-4),  # one full line
        (12, 3, 1.6, 2e-4),
        (100, 4, 1.0, 1e-3),  # five coordinates
        (121, 3, 0.7, 1e-3),
        (100, 9, 2.0, 1e-3),  # four
        (10, 2, 0.3, 1e-2),
    ],
)
def test_the_error_of_an_order_is_known_without_its_information_matrix(k, q, epsilon, tolerance):
    found = geometry._even_error(k, epsilon, q, geometry._dimension(k, q))
    assert found == pytest.approx(even_error(k, epsilon, q), rel=tolerance)


def test_devices_read_the_order_that_was_chosen():
    """They do not choose it again, which another version or another language might do differently."""
    mechanism = ProjectiveGeometryResponse(100, 4.0)
    text = PublishedQuestion(0, mechanism, tuple(map(str, range(100)))).to_json()
    assert json.loads(text)["question"]["order"] == mechanism.order
    assert read_question(text.replace('"order":59', '"order":61'), 4.0).mechanism.order == 61


def test_the_geometry_has_the_points_that_are_asked_for():
    """The next one is taken if K is beyond the first, and shown."""
    found = [
        repr(ProjectiveGeometryResponse(k, math.log(2), 3)).rpartition("order=")[2] for k in (4, 5, 13, 14, 40, 41)
    ]
    assert found == [f"3, n_points={n})" for n in (4, 13, 13, 40, 40, 121)]
    assert [ProjectiveGeometryResponse(1000, epsilon).order for epsilon in (1e-3, 0.3, 0.7, 1.1, 2.0)] == [
        2,
        2,
        3,
        4,
        8,
    ]
    assert ProjectiveGeometryResponse(10**6, 30.0).order == 1_000_003
    assert max(ProjectiveGeometryResponse(20_000, epsilon).n_outputs for epsilon in (5.0, 6.0, 7.0, 9.0)) < 250_000


@pytest.mark.parametrize("order", [0, 1, 6, 10, 12, 49, 2**20 + 7, -3, 2.0, "3", True])
def test_orders_without_a_field_here_are_refused(order):
    with refuses("order"):
        ProjectiveGeometryResponse(10, 1.0, order)


def test_a_geometry_that_is_too_large_is_refused():
    with refuses("order"):
        ProjectiveGeometryResponse(20_000, 1.0, 10_007)


@pytest.mark.parametrize("answers", [[13], [-1], [[1, 2]], ["1"], [1.0]])
def test_other_answers_are_refused(answers):
    with refuses("answers"):
        Responses.from_arrays(ProjectiveGeometryResponse(10, 1.0, 3), answers)


def test_points_of_large_geometries_are_orthogonal_as_often_as_they_say():
    """At K = 10,000 no table is made. False alarms: the share of orthogonal answers is off by five standard errors."""
    rng, n = np.random.default_rng(1), 40_000
    for mechanism in (ProjectiveGeometryResponse(10_000, 2.0), ProjectiveGeometryResponse(10_000, 5.0)):
        x = rng.integers(10_000, size=n)
        kernel, table = mechanism.drawing()
        theta, nothing = np.zeros(10_000), np.zeros((1, 1), dtype=bool)
        theta[x[0]] = 1.0
        drawn = np.array([kernel(rng, theta, 0, nothing, table) for _ in range(n)])
        for truth, answers in ((x, mechanism.privatize(x)), (np.full(n, x[0]), drawn)):
            is_near = mechanism._field.dot(mechanism._points(answers), mechanism._points(truth)) == 0
            p = mechanism.naming()[0]
            assert abs(is_near.mean() - p) < 5 * math.sqrt(p * (1 - p) / n)
            assert 0 <= answers.min() <= answers.max() < mechanism.n_outputs
    with pytest.raises(ValueError, match="possible answers"):
        mechanism.transition_matrix()
