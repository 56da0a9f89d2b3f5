"""Intervals that are shown: as short as can be, and from zero where a category may be empty."""

from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.stats import beta, gamma

from adobest_pp.intervals import shortest_intervals, summary


def column(values):
    return np.asarray(values, dtype=float)[:, None]


def evenly(distribution, n=4000):
    """Draws without noise."""
    return column(distribution.ppf((np.arange(n) + 0.5) / n))


def test_away_from_the_edges_it_is_the_highest_density_interval():
    draws = np.random.default_rng(1).dirichlet([40, 30, 30], size=3000)
    expected = array_stats.hdi(draws, prob=0.9, axis=0)
    np.testing.assert_allclose(shortest_intervals(draws, 0.9), np.asarray(expected).T, rtol=0.01)


def test_of_no_interval_that_holds_as_many_draws_is_shorter():
    draws = np.random.default_rng(2).beta(5, 9, size=200)
    (low, high) = shortest_intervals(column(draws), 0.9)[:, 0]
    assert np.count_nonzero((low <= draws) & (draws <= high)) == 180
    shortest = min(b - a for a in draws for b in draws if np.count_nonzero((a <= draws) & (draws <= b)) >= 180)
    assert high - low == pytest.approx(shortest)


@pytest.mark.parametrize("concentration", [0.01, 0.1, 0.5, 1.0])
def test_a_density_that_is_highest_at_zero_gives_an_interval_from_zero(concentration):
    posterior = beta(concentration, 30)
    (low, high) = shortest_intervals(evenly(posterior))[:, 0]
    assert low == 0
    assert high == pytest.approx(posterior.ppf(0.95), rel=0.02)
    # Equal tails leave out what the truth may well be, and so does an interval that begins at the smallest draw.
    assert np.quantile(evenly(posterior), 0.025) > 0
    mirrored = shortest_intervals(1 - evenly(posterior))[:, 0]
    assert mirrored == pytest.approx([1 - high, 1])


def test_noise_does_not_keep_an_interval_from_zero():
    for seed in range(50):
        draws = np.random.default_rng(seed).beta(1, 30, size=(1000, 1))
        assert shortest_intervals(draws)[0, 0] == 0


def test_a_pile_near_zero_beside_a_mode_is_not_cut():
    # The shortest interval leaves out half of the pile, which is nothing on the scale of the interval.
    pile = 10.0 ** np.linspace(-40, -9, 80)
    draws = column(np.concatenate([pile, np.linspace(0.1, 0.2, 920)]))
    assert shortest_intervals(draws)[0, 0] == 0


@pytest.mark.parametrize(("shape", "begins_at_zero"), [(1.0, True), (4.0, False), (20.0, False)])
def test_a_category_that_has_a_share_for_certain_is_not_said_to_be_empty(shape, begins_at_zero):
    low, _ = shortest_intervals(evenly(gamma(shape, scale=0.001)))[:, 0]
    assert (low == 0) is np.True_ if begins_at_zero else low > 0


def test_the_edge_is_a_fiftieth_of_the_width():
    for start, expected in ((0.0019, 0.0), (0.0021, 0.0021)):
        draws = column(np.full(100, start))
        draws[50:] = start + 0.1
        assert shortest_intervals(draws)[0, 0] == expected


def test_draws_that_do_not_move_are_an_interval_of_no_width():
    assert shortest_intervals(np.full((10, 2), [0.3, 0.7])).tolist() == [[0.3, 0.7], [0.3, 0.7]]
    assert shortest_intervals([[0.0, 1.0]]).tolist() == [[0.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize("draws", [[], [0.1, 0.2], [[-0.1, 1.1]], [[np.nan, 0.5]], [["a", "b"]]])
def test_what_is_no_share_is_refused(draws):
    with pytest.raises(ValueError, match="draws must be shares from 0 to 1"):
        shortest_intervals(draws)


@pytest.mark.parametrize("probability", [0, 1, 0.0, 1.0, -0.5, "0.9", None])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(ValueError, match="probability must be a number between 0 and 1"):
        shortest_intervals([[0.5]], probability)


@pytest.mark.parametrize("probability", [np.float32(0.5), Fraction(1, 2)])
def test_a_probability_is_a_number_of_any_type(probability):
    draws = np.linspace(0, 1, 11)[:, None]
    np.testing.assert_array_equal(shortest_intervals(draws, probability), shortest_intervals(draws, 0.5))


@pytest.mark.parametrize("theta", [None, [[0.5]], xr.DataArray([0.5], dims="draw"), xr.Dataset(), xr.DataTree()])
def test_what_is_no_draws_is_refused(theta):
    with pytest.raises(ValueError, match="theta must be a DataArray of draws by chain, draw, category, got"):
        summary(theta)


def test_the_summary_is_labelled():
    theta = np.random.default_rng(3).dirichlet([5, 3, 0.2], size=(2, 300))
    labels = ["red", "green", "blue"]
    draws = xr.DataArray(theta, dims=("chain", "draw", "category"), coords={"category": labels})
    found = summary(draws.transpose("category", "draw", "chain"), 0.8)
    assert found["category"].values.tolist() == labels
    assert found["mean"].values == pytest.approx(theta.mean(axis=(0, 1)))
    np.testing.assert_array_equal([found["lower"], found["upper"]], shortest_intervals(theta.reshape(-1, 3), 0.8))
    assert found.attrs == {"interval": "hdi", "probability": 0.8}
    assert list(found.data_vars) == ["mean", "lower", "upper"]
