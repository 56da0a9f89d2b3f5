"""A matrix of one's own as a mechanism."""

import math

import numpy as np
import pytest

from adobest_pp import SRR, Channel, Responses, audit
from tests.mechanisms.harness import check_mechanism

MATRIX = np.array([[0.5, 0.2, 0.25], [0.3, 0.3, 0.25], [0.2, 0.5, 0.5]])


def test_it_is_the_matrix():
    mechanism = Channel(MATRIX)
    assert mechanism.epsilon == pytest.approx(math.log(2.5), rel=1e-12)
    check_mechanism(mechanism, lambda answer, x: MATRIX[answer[0], x])
    np.testing.assert_allclose(mechanism.transition_matrix(), MATRIX, rtol=1e-12)


def test_the_loss_is_never_understated():
    matrix = SRR(5, 1.0).transition_matrix()
    mechanism = Channel(matrix)
    assert mechanism.epsilon == pytest.approx(1.0, abs=1e-14)
    assert audit(mechanism).holds


def test_answers_that_nobody_gives_are_allowed():
    mechanism = Channel([[0.5, 0.25], [0.5, 0.75], [0.0, 0.0]])
    assert audit(mechanism).holds
    assert 2 not in mechanism.privatize(np.zeros(50, dtype=int))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], "got answer 0 with both"),
        ([[0.5, 0.4], [0.5, 0.5]], "columns that sum to one"),
        ([[1 - 1e-15, 1e-15], [1e-15, 1 - 1e-15]], "privacy loss of at most 30"),
        ("abc", "matrix must be"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(ValueError, match=message):
        Channel(matrix)


def test_other_answers_are_refused():
    with pytest.raises(ValueError, match="integer category indices from 0 to 2, got 3"):
        Responses.from_arrays(Channel(MATRIX), [3])
