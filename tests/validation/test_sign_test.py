"""Intervals of the median hold it as often as they say, and are no wider than that needs."""

import numpy as np
import pytest
from scipy import stats

from adobest_pp.studies import summary
from validation.sign_test import _sign_test_rank, median_interval


def test_intervals_hold_the_median_as_often_as_they_say():
    """400 samples of 20 from a skewed distribution; counts outside ±4 standard errors have a false alarm of 1e-4."""
    rng = np.random.default_rng(2)
    samples, truth = rng.exponential(size=(400, 20)), np.log(2)
    exact = [median_interval(sample) for sample in samples]
    held = np.mean([one.lower <= truth <= one.upper for one in exact])
    coverage = 1 - 2 * stats.binom.cdf(5, 20, 0.5)
    assert coverage >= 0.95
    assert abs(held - coverage) < 4 * np.sqrt(coverage * (1 - coverage) / 400)
    draws = np.quantile(summary.bootstrap_medians(samples), [0.025, 0.975], axis=1)
    assert 0.90 < np.mean((draws[0] <= truth) & (truth <= draws[1])) < 0.99


@pytest.mark.parametrize(("n", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (20, 6), (50, 18)])
def test_the_sign_test_interval_has_the_ranks_of_the_tables(n, rank):
    values = np.random.default_rng(n).permutation(n) + 1.0
    found = median_interval(values)
    assert found.lower == (rank if rank else -np.inf)
    assert found.upper == (n + 1 - rank if rank else np.inf)
    assert found.too_few == (n < summary.smallest_n())


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9995])
def test_the_sign_test_interval_is_the_shortest_of_its_level(level):
    for n in range(1, 60):
        rank = _sign_test_rank(n, level)
        outside = [2 * stats.binom.cdf(j - 1, n, 0.5) for j in range(1, n // 2 + 2)]
        assert rank == sum(share <= 1 - level for share in outside)
