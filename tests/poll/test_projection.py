"""What the projector says of one answer, against Bayes' rule with the matrix of the mechanism."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.poll.projection import guess

SHARES = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("mechanism", [ad.SRR(3, 1.0), ad.HadamardResponse(3, 0.7), ad.RRRR(3, 1.0)], ids=repr)
def test_a_guess_is_bayes_rule(mechanism):
    subset = [0] if mechanism.publishes_subset else None
    matrix = mechanism.transition_matrix() if subset is None else mechanism.transition_matrix(subset)
    answers = np.arange(len(matrix))
    responses = ad.Responses.from_arrays(mechanism, answers, subset, categories=["a", "b", "c"])
    for answer in answers:
        found = guess(responses, SHARES, int(answer))
        joint = matrix[answer] * SHARES
        np.testing.assert_allclose(found["after"], joint / joint.sum(), rtol=1e-12)
        assert found["best"] == "abc"[joint.argmax()]
        assert found["right"] == pytest.approx(joint.max() / joint.sum())
        assert found["largest_factor"] == pytest.approx(matrix[answer].max() / matrix[answer].min())
        assert found["largest_factor"] <= found["allowed_factor"] * (1 + 1e-12)
        assert found["answer"] == ["abc"[i] for i in np.flatnonzero(np.isclose(matrix[answer], matrix[answer].max()))]
