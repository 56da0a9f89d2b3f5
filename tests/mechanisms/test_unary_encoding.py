"""Unary encoding against its definition: K bits, each drawn on its own."""

import math

import numpy as np
import pytest

from adobest_pp import Responses, UnaryEncoding
from tests.mechanisms.harness import check_mechanism
from tests.refusals import refuses


def definition(epsilon, kind):
    """P(bits | x), from the probabilities that the papers print."""
    half = math.exp(epsilon / 2)
    p, q = (0.5, 1 / (math.exp(epsilon) + 1)) if kind == "optimized" else (half / (half + 1), 1 / (half + 1))

    def probability(bits, x):
        ones = [p if i == x else q for i in range(len(bits))]
        return math.prod(one if bit else 1 - one for bit, one in zip(bits, ones, strict=True))

    return probability


@pytest.mark.parametrize("kind", ["optimized", "symmetric"])
def test_it_is_what_the_papers_define(kind):
    mechanism = UnaryEncoding(3, 1.3, kind)
    check_mechanism(mechanism, definition(1.3, kind))
    matrix = [[definition(1.3, kind)(bits, x) for x in range(3)] for bits in mechanism.outputs()]
    np.testing.assert_allclose(mechanism.transition_matrix(), matrix, rtol=1e-12)


def test_a_matrix_of_zeros_and_ones_is_taken_as_it_is():
    bits = np.array([[0, 1, 1], [0, 0, 0]])
    for answers in (bits, bits.astype(bool), bits.astype(np.uint8)):
        np.testing.assert_array_equal(Responses.from_arrays(UnaryEncoding(3, 1.0), answers).answers, bits)


@pytest.mark.parametrize("answers", [[[0, 1]], [[0, 1, 2]], [[0, 1, -1]], [[0.0, 1.0, 0.0]], "010", [[[0, 1, 0]]]])
def test_other_answers_are_refused(answers):
    with refuses("answers"):
        Responses.from_arrays(UnaryEncoding(3, 1.0), answers)


def test_bad_settings():
    with refuses("kind"):
        UnaryEncoding(3, 1.0, "best")
    with pytest.raises(ValueError, match="possible answers"):
        UnaryEncoding(30, 1.0).transition_matrix()


@pytest.mark.parametrize("k", [3, 8, 9, 17])
def test_no_answers_are_no_evidence(k):
    evidence = Responses(UnaryEncoding(k, 1.0)).evidence()
    assert (evidence.n_rows, evidence.n_responses, evidence.n_categories) == (0, 0, k)
