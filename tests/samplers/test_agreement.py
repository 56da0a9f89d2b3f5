"""R-hat of all variables at once is ArviZ's of each."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from adobest_pp.samplers.sgld_cv.sampler import rank_rhat


@pytest.mark.parametrize(("chains", "draws"), [(2, 100), (4, 61), (8, 4)])
def test_it_is_that_of_arviz(chains, draws):
    rng = np.random.default_rng(chains)
    values = rng.standard_normal((chains, draws, 5))
    values[..., 1] = np.exp(20 * values[..., 1])
    values[0, :, 2] += 3
    values[1, :, 3] *= 5
    values[..., 4] = np.round(values[..., 4])
    ours, theirs = rank_rhat(values), array_stats.rhat(values, chain_axis=0, draw_axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert (ours[2:4] > 1.1).all()


def test_what_is_not_a_number_or_does_not_move_never_agrees():
    values = np.random.default_rng(1).standard_normal((2, 50, 3))
    values[0, 3, 0] = np.nan
    values[..., 1] = 2.0
    assert (rank_rhat(values) <= 10).tolist() == [False, False, True]
