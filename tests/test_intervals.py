"""Intervals that are shown: as short as can be, and from zero where a category may be empty."""

from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.stats import beta, gamma

import adobest_pp as ad
from adobest_pp.intervals import privacy_share, shortest_intervals, summary


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


@pytest.mark.parametrize("theta", [None, [[0.5]], xr.DataArray([0.5], dims="draw"), xr.Dataset()])
def test_what_is_no_draws_is_refused(theta):
    with pytest.raises(ValueError, match="theta must be a DataArray of draws by chain, draw, category, got"):
        summary(theta)


def test_a_tree_of_something_else_is_refused():
    with pytest.raises(ValueError, match="theta must hold posterior/theta by chain, draw and category"):
        summary(xr.DataTree())


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


# ---------------------------------------------------------------- how much is due to privacy
def answered(epsilon, n=4000):
    mechanism = ad.SRR(3, epsilon)
    x = np.repeat([0, 1, 2], [n // 2, n * 3 // 10, n // 5])
    return ad.Responses.from_arrays(
        mechanism, mechanism.privatize(x, rng=np.random.default_rng(1)), categories=[*"abc"]
    )


def test_the_summary_of_a_run_tells_both_sources():
    tree = ad.sample(answered(1.0), "gibbs", random_seed=1)
    found, shares = summary(tree, 0.8), privacy_share(tree, probability=0.8)
    assert list(found.data_vars) == ["mean", "lower", "upper", "sample", "privacy"]
    xr.testing.assert_identical(found["privacy"], shares["privacy"])
    np.testing.assert_allclose(found["sample"] + found["privacy"], 1)
    xr.testing.assert_identical(found[["mean", "lower", "upper"]], summary(tree["posterior"]["theta"], 0.8))


def test_the_share_of_privacy_is_that_of_the_information_that_is_lost():
    shares = []
    for epsilon in (0.5, 2.0, 12.0):
        tree = ad.sample(answered(epsilon), "nuts", draws=1000, chains=2, random_seed=1, progressbar=False)
        found = privacy_share(tree)
        np.testing.assert_allclose(found["sample"] + found["privacy"], 1)
        shares.append(found["privacy"].mean().item())
    assert shares[0] > shares[1] > shares[2]
    # With ε = 12 one answer in some ten thousand is not honest, and with 0.5 the widths are √(variance ratio) apart.
    assert shares[2] < 0.05
    theta, e = 1 / 3, np.exp(0.5)
    h = (1 + (e - 1) * theta) / (e + 2)
    ratio = np.sqrt(theta * (1 - theta)) / (np.sqrt(h * (1 - h)) * (e + 2) / (e - 1))
    assert shares[0] == pytest.approx(1 - ratio, abs=0.03)


def test_honest_widths_are_those_of_dirichlet_draws():
    rng = np.random.default_rng(2)
    draws = xr.DataArray(rng.dirichlet([50, 30, 20], size=(2, 500)), dims=("chain", "draw", "category"))
    found = privacy_share(draws, 400, prior=[1.0, 2.0, 3.0])
    honest = rng.dirichlet(np.array([1, 2, 3]) + 400 * draws.mean(("chain", "draw")).values, size=40_000)
    lower, upper = shortest_intervals(honest)
    np.testing.assert_allclose(found["honest_width"], upper - lower, rtol=0.02)
    lower, upper = shortest_intervals(draws.values.reshape(-1, 3))
    np.testing.assert_allclose(found["width"], upper - lower)


def test_groups_have_their_own_numbers_of_people_by_label():
    rng = np.random.default_rng(3)
    dims = ("chain", "draw", "region", "category")
    draws = xr.DataArray(rng.dirichlet([5, 3, 2], size=(2, 300, 2)), dims=dims, coords={"region": ["north", "south"]})
    people = xr.DataArray([10, 1000], dims="region", coords={"region": ["south", "north"]})
    found = privacy_share(draws, people)
    assert found["privacy"].dims == ("region", "category")
    alone = privacy_share(draws.sel(region="south"), 10)
    np.testing.assert_allclose(found["privacy"].sel(region="south"), alone["privacy"])
    assert (found["honest_width"].sel(region="north") < found["honest_width"].sel(region="south")).all()


def test_a_learned_prior_stands_with_its_mean():
    tree = ad.sample(answered(2.0, 200), prior="learned", draws=200, chains=2, random_seed=1, progressbar=False)
    same = privacy_share(tree.posterior.theta, 200, float(tree.posterior["concentration"].mean()))
    np.testing.assert_allclose(privacy_share(tree)["privacy"], same["privacy"])


def test_what_has_no_share_is_refused():
    draws = xr.DataArray(np.full((1, 2, 2), 0.5), dims=("chain", "draw", "category"))
    for arguments, message in (
        ((draws, -1), "n must be the number of people that answered, not negative, got -1"),
        ((draws, None), "n must be the number of people"),
        ((draws, "many"), "n must be the number of people"),
        ((draws, 5, 0.0), "prior must be a positive number, or 2 of them"),
        ((draws, 5, 1.0, 2.0), "probability must be a number between 0 and 1"),
        ((draws.isel(chain=0), 5), "theta must be a DataArray of draws by chain, draw and category"),
        ((xr.DataTree(), 5), "theta must hold posterior/theta"),
    ):
        with pytest.raises(ValueError, match=message):
            privacy_share(*arguments)
