"""The compiled core: masses of sets by members and by tables, against sums by hand and the dense rows."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.evidence import BITS
from adobest_pp.likelihood import core
from tests.strategies import simulated

CHANNEL = ad.Channel(np.array([[0.5, 0.2, 0.3], [0.25, 0.4, 0.3], [0.25, 0.4, 0.4]]))


def many_sets(k, size):
    """Evidence of three thousand sets, and the sets as lists."""
    rng = np.random.default_rng(k)
    sets = np.array([np.sort(rng.choice(k, size=size, replace=False)) for _ in range(3000)])
    evidence = ad.Responses.from_arrays(ad.SubsetSelection(k, 1.0, size), sets).evidence()
    return evidence, np.split(evidence.members, evidence.offsets[1:-1]), rng


def by_members(evidence):
    return evidence._replace(codes=np.zeros((0, evidence.n_sets), dtype=np.uint16))


@pytest.mark.parametrize(("k", "size"), [(20, 8), (75, 30)])
def test_codes_are_the_members_as_bits(k, size):
    evidence, members, _ = many_sets(k, size)
    expected = np.zeros((-(-k // BITS), len(members)), dtype=np.uint16)
    for v, categories in enumerate(members):
        for i in categories.tolist():
            expected[i // BITS, v] |= 1 << (i % BITS)
    np.testing.assert_array_equal(evidence.codes, expected)


def test_few_sets_have_no_codes():
    evidence, _, _ = many_sets(10, 9)  # ten sets in all
    assert evidence.codes.shape == (0, evidence.n_sets)


@pytest.mark.parametrize(("k", "size"), [(20, 8), (75, 30)])
def test_masses_are_looked_up_and_the_derivative_runs_the_same_way_back(k, size):
    evidence, members, rng = many_sets(k, size)
    theta = rng.dirichlet(np.ones(k))
    expected = [theta[categories].sum() for categories in members]
    np.testing.assert_allclose(core.set_masses(theta, evidence), [*expected, 0.0], rtol=1e-12)
    value, slope = core.value_and_gradient(theta, evidence)
    plain_value, plain_slope = core.value_and_gradient(theta, by_members(evidence))
    assert value == pytest.approx(plain_value, rel=1e-12)
    np.testing.assert_allclose(slope, plain_slope, rtol=1e-9)


@pytest.mark.parametrize(
    "mechanism", [ad.SRR(3, 1.0), ad.RRRR(3, 1.0), ad.SubsetSelection(3, 1.0, 2), CHANNEL], ids=repr
)
def test_h_is_the_dense_row_also_off_the_simplex(mechanism):
    evidence = simulated(mechanism, 40, seed=1).evidence()
    theta = np.array([0.7, 0.0, 1.9])
    h = evidence.matrix() @ theta
    np.testing.assert_allclose(core.row_probabilities(theta, evidence), h, rtol=1e-12)
    value, slope = core.value_and_gradient(theta, evidence)
    assert value == pytest.approx(evidence.count @ np.log(h), rel=1e-12)
    np.testing.assert_allclose(slope, (evidence.count / h) @ evidence.matrix(), rtol=1e-12)


def test_logarithms_of_an_array_are_within_eight_units_in_the_last_place():
    x = np.exp(np.random.default_rng(1).uniform(-300, 300, size=20_000))
    x = np.append(x, np.linspace(0.5, 2, 20_001))
    found = np.empty(x.size)
    core.write_logarithms(x, found)
    rest, exponent = np.frexp(x * np.sqrt(2))  # x = m·2^exponent with m from √½ to √2
    parts = np.maximum(np.abs((exponent - 1) * np.log(2)), np.abs(np.log(rest * np.sqrt(2))))
    assert np.all(np.abs(found - np.log(x)) <= 8 * np.spacing(parts))
