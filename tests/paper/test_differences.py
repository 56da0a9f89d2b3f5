"""Intervals of differences, and of means: as wide as they should be, and none of too few runs."""

import numpy as np
import pytest

from validation.paper import differences as intervals


def test_differences_of_independent_samples():
    rng = np.random.default_rng(3)
    low, high = rng.normal(0, 1, 40), rng.normal(2, 1, 40)
    for found in (intervals.median_change(low, high), intervals.mean_interval(high, minus=low)):
        assert found.lower < 2 < found.upper
        assert found.lower > 0.8
    assert intervals.median_change(low[:4], high).too_few
    assert intervals.mean_interval(low[:3]).middle == pytest.approx(low[:3].mean())
    assert np.isnan(intervals.mean_interval([]).middle)


def test_intervals_of_differences_are_as_wide_as_both_samples_make_them():
    """Against standard errors: of a difference √2 times that of one sample, and 15 % of bootstrap error at n = 400."""
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 400))
    expected = 2 * 1.96 / np.sqrt(400)
    one, two = intervals.mean_interval(first), intervals.mean_interval(first, minus=second)
    assert one.upper - one.lower == pytest.approx(expected, rel=0.15)
    assert two.upper - two.lower == pytest.approx(np.sqrt(2) * expected, rel=0.15)
    # The same values twice: with the same resamples of both, their difference would not vary at all.
    same = intervals.median_change(first, first)
    assert same.upper - same.lower == pytest.approx(np.sqrt(2) * np.sqrt(np.pi / 2) * expected, rel=0.25)
    assert intervals.mean_interval(first, minus=first).lower < 0 < intervals.mean_interval(first, minus=first).upper


def test_intervals_lean_the_way_of_the_resamples():
    """Percentiles, not reflected ones: the mean of a resample is Binomial(12, 1/12)/12, with a longer upper tail."""
    found = intervals.mean_interval(np.eye(12)[0])
    np.testing.assert_allclose([found.lower, found.middle, found.upper], [0, 1 / 12, 3 / 12])


def test_too_few_runs_have_no_interval():
    for found in (
        intervals.mean_interval(np.arange(5.0)),
        intervals.median_change(np.arange(9.0), np.arange(5.0)),
    ):
        assert found.too_few
        assert found.n == 5
    assert not intervals.mean_interval(np.arange(6.0)).too_few
