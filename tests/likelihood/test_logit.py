"""The fused multinomial logit: value and gradient against the definition in extended precision."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from adobest_pp.likelihood import logit
from adobest_pp.likelihood.logit import (
    BLOCK,
    SAFE_ENTRY,
    SAFE_LOGIT,
    logit_value_and_gradient,
    unsorted_value_and_gradient,
)

K = 4


def by_definition(z, weights, people, rows):
    """Σ ln h and its gradient, from θ of every person, in long doubles."""
    weights = weights.astype(np.longdouble)
    logits = weights[0] + z.astype(np.longdouble) @ weights[1:]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    theta = shares / shares.sum(axis=1, keepdims=True)
    row = np.repeat(rows, people, axis=0).astype(np.longdouble)
    h = (row * theta).sum(axis=1, keepdims=True)
    by_logits = theta * (row / h - 1)
    return np.log(h).sum(), np.vstack([np.ones(len(z)), z.T]).astype(np.longdouble) @ by_logits


def checked(z, weights, people, rows, rtol=1e-13):
    """Compare both compiled kernels with the definition; tolerances are of the sums of absolute terms."""
    columns = np.zeros((-(-z.shape[1] // 4) * 4, len(z)))
    columns[: z.shape[1]] = z.T
    reach = np.abs(z).max(axis=0, initial=0.0)
    ends = np.cumsum(people)
    found = [logit_value_and_gradient(columns, weights, ends, rows, reach)]
    if z.size:
        order = np.random.default_rng(0).permutation(len(z))
        beside = np.empty((len(z), 2 * z.shape[1]))[:, : z.shape[1]]  # the covariates of a person side by side
        apart = np.empty((len(z), 2 * z.shape[1]))[:, ::2]
        for data in (beside, apart):
            data[order] = z
            found.append(unsorted_value_and_gradient(data.T, weights, ends, rows, order))
    expected, by_weights = by_definition(z, weights, people, rows)
    scale = len(z) * (1 + reach.max(initial=0.0)) + abs(float(expected))
    for value, slope in found:
        assert abs(float(value - expected)) <= rtol * scale
        np.testing.assert_allclose(slope, by_weights.astype(float), rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("n_covariates", [0, 1, 4, 5, 9])
@pytest.mark.parametrize("size", [0.5, 10.0])
def test_any_number_of_covariates(n_covariates, size):
    """Rows without people, with one, with a whole block, and with several blocks and a rest."""
    rng = np.random.default_rng(n_covariates)
    people = np.array([0, 1, BLOCK, 3 * BLOCK + 77, 13])
    z = rng.normal(size=(people.sum(), n_covariates))
    weights = rng.normal(size=(1 + n_covariates, K)) * size
    checked(z, weights, people, rng.uniform(0.1, 1.0, size=(5, K)))


@pytest.mark.parametrize("entries", [(SAFE_ENTRY, 1.0), (1.0, 1 / SAFE_ENTRY), (SAFE_ENTRY, 1 / SAFE_ENTRY)])
def test_products_of_extreme_entries_are_numbers(entries):
    """All people of a block may have the same smallest or largest h."""
    rng = np.random.default_rng(1)
    rows = np.array([np.full(K, entries[0]), np.full(K, entries[1]), [*entries, *entries]])
    people = np.array([5 * BLOCK, 5 * BLOCK, BLOCK])
    z = rng.normal(size=(people.sum(), 2))
    checked(z, rng.normal(size=(3, K)), people, rows)


@pytest.mark.parametrize("factor", [0.999, 1.001, 20.0])
def test_logits_at_the_limit_of_exponentials(factor):
    """Just below the limit, and above it, where logits are centered."""
    rng = np.random.default_rng(2)
    z = rng.choice([-1.0, 1.0], size=(700, 2))
    weights = np.zeros((3, K))
    weights[:, 1], weights[:, 2] = np.array([0.2, 0.5, 0.3]) * SAFE_LOGIT * np.log(2) * factor, [0.1, -0.2, 0.3]
    checked(z, weights, np.array([300, 400]), rng.uniform(0.1, 1.0, size=(2, K)), rtol=1e-12 * max(1.0, factor))


def test_no_people():
    value, slope = logit_value_and_gradient(
        np.zeros((4, 0)), np.ones((2, K)), np.array([0]), np.ones((1, K)), np.zeros(1)
    )
    assert value == 0
    assert not slope.any()


def test_weights_that_are_no_numbers_give_none():
    """A sampler that diverges must see it."""
    weights = np.zeros((2, K))
    weights[1, 1] = np.nan
    value, slope = logit_value_and_gradient(np.ones((4, 9)), weights, np.array([9]), np.full((1, K), 0.5), np.ones(1))
    assert np.isnan(value)
    assert np.isnan(slope[1]).any()


def test_the_polynomial_is_exact_to_the_last_bit_or_two():
    """2^r for |r| ≤ 1/2 in 40 digits; what is left is the rounding of the evaluation."""
    with localcontext(prec=40):
        for r in map(Decimal, np.linspace(-0.5, 0.5, 500).tolist()):
            polynomial = sum(Decimal(c) * r**i for i, c in enumerate(logit._C))
            assert abs(polynomial / Decimal(2) ** r - 1) < Decimal(2) ** -55
