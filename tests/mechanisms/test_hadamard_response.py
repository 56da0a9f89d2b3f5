"""Hadamard response against the matrix of Sylvester."""

import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from adobest_pp import HadamardResponse, Responses
from tests.mechanisms.harness import check_mechanism
from tests.refusals import refuses


@pytest.mark.parametrize(("k", "order"), [(2, 4), (3, 4), (4, 8), (7, 8), (15, 16)])
def test_it_is_what_the_paper_defines(k, order):
    mechanism, signs = HadamardResponse(k, 0.9), hadamard(order)
    assert mechanism.n_outputs == order

    def definition(answer, x):
        odds = math.exp(0.9)
        return (odds if signs[x + 1, answer[0]] == 1 else 1) * 2 / (order * (odds + 1))

    check_mechanism(mechanism, definition)
    expected = [[definition((y,), x) for x in range(k)] for y in range(order)]
    np.testing.assert_allclose(mechanism.transition_matrix(), expected, rtol=1e-12)
    weights = mechanism.exact_weights()
    np.testing.assert_allclose((weights / weights.sum(axis=0)).astype(float), expected, rtol=1e-12)


@pytest.mark.parametrize("answers", [[8], [-1], [[1, 2]], ["1"], [1.0]])
def test_other_answers_are_refused(answers):
    with refuses("answers"):
        Responses.from_arrays(HadamardResponse(7, 1.0), answers)


def test_a_large_matrix_is_not_made():
    mechanism = HadamardResponse(100_000, 1.0)
    with pytest.raises(ValueError, match="possible answers"):
        mechanism.transition_matrix()
    assert Responses.from_arrays(mechanism, mechanism.privatize([5, 99_999])).evidence().n_responses == 2
