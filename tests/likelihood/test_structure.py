"""Evidence whose sets are only numbered: every fast transform against the support sets that its mechanism lists."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood import core
from adobest_pp.likelihood.without_prior import named
from adobest_pp.transforms import is_member
from tests.refusals import refuses
from tests.strategies import evidence_of

# Every mechanism with a structure: a new one is a line here.
STRUCTURED = [
    ad.HadamardResponse(2, epsilon=1.0),
    ad.HadamardResponse(12, epsilon=2.0),
    ad.HadamardResponse(15, epsilon=0.5),
    ad.HadamardResponse(60, epsilon=1.0),
    ad.ProjectiveGeometryResponse(12, epsilon=2.0),
    *(ad.ProjectiveGeometryResponse(60, 1.0, order) for order in (2, 3, 4, 5, 7, 8, 9, 11, 16)),
    ad.ProjectiveGeometryResponse(400, 1.0, 7),  # all points
    ad.ProjectiveGeometryResponse(30, 1.0, 31),  # two coordinates
    ad.CountMeanSketch(12, epsilon=1.0, n_hashes=9),
    ad.CountMeanSketch(61, epsilon=2.0, n_hashes=15, n_values=300),
    # One, two, four and eight bits for each value; categories that fill an integer, and one more.
    *(ad.CountMeanSketch(k, 2.0, n_hashes=5, n_values=g) for k, g in ((64, 2), (129, 2), (33, 4), (16, 16), (9, 256))),
]


def both(mechanism, n=2000, seed=1):
    """Return responses, and for their evidence with and without structure it and the row of each response."""
    rng = np.random.default_rng(seed)
    answers = mechanism.privatize(rng.integers(mechanism.n_categories, size=n) // 2, rng=rng)
    responses = ad.Responses.from_arrays(mechanism, answers)
    structured, listed = (evidence_of(responses, structured) for structured in (True, False))
    assert not listed[0].structure.size
    assert structured[0].structure.size
    assert not structured[0].members.size
    return responses, structured, listed


@pytest.mark.parametrize("mechanism", STRUCTURED, ids=repr)
def test_products_are_those_of_the_support_sets(mechanism):
    rng = np.random.default_rng(2)
    supports = mechanism.support(mechanism.outputs())
    theta, weights = rng.dirichlet(np.ones(mechanism.n_categories)), rng.normal(size=len(supports))
    np.testing.assert_allclose(mechanism.matvec(theta), supports @ theta, rtol=0, atol=1e-14)
    np.testing.assert_allclose(mechanism.rmatvec(weights), weights @ supports, rtol=0, atol=1e-12)
    # Of integers both are exact.
    counts, shares = rng.integers(10**6, size=len(supports)), rng.integers(100, size=mechanism.n_categories)
    np.testing.assert_array_equal(mechanism.rmatvec(counts), counts @ supports)
    np.testing.assert_array_equal(mechanism.matvec(shares), supports @ shares)
    for name, product, right in (("theta", mechanism.matvec, theta), ("weights", mechanism.rmatvec, weights)):
        for wrong in (np.append(right, 0.0), right[:-1], right[None], right.astype(str)):
            with refuses(name):
                product(wrong)
    members = [[is_member(x, z, mechanism.structure()) for x in range(supports.shape[1])] for z in range(len(supports))]
    np.testing.assert_array_equal(members, supports)


@pytest.mark.parametrize("mechanism", [ad.HadamardResponse(12, 1.0), ad.SubsetSelection(4, 1.0)], ids=repr)
@pytest.mark.parametrize("bad", [np.ones(3), np.ones(500), np.ones((12, 1)), 1.0, "a", None])
def test_vectors_of_another_length_are_refused(mechanism, bad):
    with refuses("theta"):
        mechanism.matvec(bad)
    with refuses("weights"):
        mechanism.rmatvec(bad)


@pytest.mark.parametrize("mechanism", STRUCTURED, ids=repr)
def test_likelihood_is_that_of_member_lists(mechanism):
    _, (structured, row), (listed, listed_row) = both(mechanism)
    assert structured.n_responses == listed.n_responses
    rng = np.random.default_rng(3)
    for theta in rng.dirichlet(np.full(mechanism.n_categories, 0.3), size=5):
        found, expected = core.value_and_gradient(theta, structured), core.value_and_gradient(theta, listed)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-11)
        np.testing.assert_allclose(
            core.row_probabilities(theta, structured)[row],
            core.row_probabilities(theta, listed)[listed_row],
            rtol=1e-13,
        )
    for impossible in (np.nan, np.inf):
        wrong = np.full(mechanism.n_categories, impossible)
        assert not np.isfinite(core.value_and_gradient(wrong, structured)[0])
    assert structured.constant == pytest.approx(listed.constant, rel=1e-14)
    np.testing.assert_array_equal(named(structured), named(listed))
    np.testing.assert_array_equal(structured.matrix()[row], listed.matrix()[listed_row])


@pytest.mark.long
def test_likelihood_of_pairs_is_that_of_member_lists():
    mechanism = ad.HadamardResponse(12, epsilon=1.0)
    _, *both_ways = both(mechanism, n=60)
    theta = np.random.default_rng(4).dirichlet(np.ones(12), size=3)
    group = np.arange(60) % 3
    found = []
    for evidence, row in both_ways:
        order = np.lexsort((row, group))
        found.append(core.pairs_value_and_gradient(theta, group[order], row[order], np.ones(60), evidence, False))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-13)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)


def structured(responses):
    return evidence_of(responses, structured=True)[0]


def test_merged_evidence_keeps_every_structure():
    rng = np.random.default_rng(5)
    parts = [
        ad.HadamardResponse(12, epsilon=1.0),
        ad.SubsetSelection(12, epsilon=1.0),
        ad.HadamardResponse(12, epsilon=2.0),
        ad.SRR(12, epsilon=1.0),
        ad.ProjectiveGeometryResponse(12, epsilon=1.0),
        ad.CountMeanSketch(12, epsilon=1.0, n_hashes=9),
    ]
    answered = [ad.Responses.from_arrays(each, each.privatize(rng.integers(12, size=300), rng=rng)) for each in parts]
    theta, listed = rng.dirichlet(np.ones(12)), ad.concat(answered).evidence()
    whole = structured(ad.concat(answered))
    blocks = [parts[i].structure() for i in (0, 4, 5)]  # the same for both ε of Hadamard response
    assert whole.structure.tolist() == np.concatenate(blocks).tolist()
    for first in (answered, answered[::-1]):
        evidence = [structured(each) for each in first]
        assert evidence[0].merge(*evidence[1:]) == whole
    half = [structured(ad.concat(part)) for part in (answered[:2], answered[2:])]
    assert half[0].merge(half[1]) == whole
    found, expected = core.value_and_gradient(theta, whole), core.value_and_gradient(theta, listed)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-13)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-11)


def test_several_structures_stand_one_after_the_other():
    small, large = ad.HadamardResponse(12, epsilon=1.0).structure(), np.array([1, 5, 32, 7, 7])
    theta = np.random.default_rng(6).dirichlet(np.ones(12))
    evidence = _of_structure(np.concatenate([small, large]), np.arange(16 + 32))
    h = core.row_probabilities(theta, evidence)
    supports = np.concatenate(
        [ad.HadamardResponse(k, epsilon=1.0).support(np.arange(m))[:, :12] for k, m in ((12, 16), (31, 32))]
    )
    np.testing.assert_allclose(h, 1 + 2 * supports @ theta, rtol=1e-14)
    np.testing.assert_array_equal(evidence.matrix(), 1 + 2 * supports)
    np.testing.assert_allclose(core.value_and_gradient(theta, evidence)[1], (1 / h) @ (1 + 2 * supports), rtol=1e-12)


def _of_structure(structure, sets):
    zeros = np.zeros(sets.size)
    ones = np.ones(sets.size, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
    codes = np.zeros((0, 0), dtype=np.uint16)
    return Evidence(zeros + 1, zeros, zeros + 2, zeros, ones, sets, ones, *none, np.zeros((0, 12)), codes, structure)


def test_patterns_count_beside_sets_that_are_looked_up():
    rng = np.random.default_rng(7)
    sets, channel = ad.SubsetSelection(20, epsilon=1.0), ad.Channel(ad.SRR(20, epsilon=1.0).transition_matrix())
    many = ad.Responses.from_arrays(sets, sets.privatize(rng.integers(20, size=6000), rng=rng))
    few = ad.Responses.from_arrays(channel, rng.integers(20, size=50))
    whole = many.evidence().merge(few.evidence())
    assert len(whole.codes)
    theta = rng.dirichlet(np.ones(20))
    h = whole.matrix() @ theta
    value, slope = core.value_and_gradient(theta, whole)
    assert value == pytest.approx(whole.count @ np.log(h), rel=1e-12)
    np.testing.assert_allclose(slope, (whole.count / h) @ whole.matrix(), rtol=1e-10)


@pytest.mark.parametrize("mechanism", [STRUCTURED[1], STRUCTURED[4], STRUCTURED[-2]], ids=repr)
def test_pytensor_has_the_same_likelihood_and_second_derivatives(mechanism):
    import pytensor
    import pytensor.tensor as pt

    from adobest_pp.model.tensors import marginal_log_likelihood

    _, (structured, _), (listed, _) = both(mechanism, n=200)
    theta = pt.vector("theta")
    point = np.random.default_rng(8).dirichlet(np.ones(mechanism.n_categories))
    values = []
    for evidence in (structured, listed):
        value = marginal_log_likelihood(theta, evidence)
        slope = pt.grad(value, theta)
        second = pt.grad((slope * np.arange(point.size)).sum(), theta)
        values.append(pytensor.function([theta], [value, slope, second], mode="FAST_COMPILE")(point))
    for found, expected in zip(*values, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
