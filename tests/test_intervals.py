"""Intervals that are shown: as short as can be, and from zero where a category may be empty."""

from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from scipy.stats import beta, gamma

import adobest_pp as ad
from adobest_pp._dirichlet import ESTIMATE_PRIOR, LOG_CONCENTRATION
from adobest_pp.intervals import covering_intervals, privacy_share, shortest_intervals, summary
from adobest_pp.likelihood.without_prior import Direct, direct_estimate, direct_of_counts
from tests.refusals import refuses
from validation.fixed_truths import Grid, exact_coverage, outcomes


def column(values):
    return np.asarray(values, dtype=float)[:, None]


def evenly(distribution, n=4000):
    """Draws without noise."""
    return column(distribution.ppf((np.arange(n) + 0.5) / n))


@pytest.mark.parametrize("yes", [0, 300, 1200, 1500, 2100, 2900, 3000])
def test_the_intervals_of_two_categories_mirror_each_other(yes):
    """Shares near one are treated as those near zero, also where the estimate is beyond them."""
    direct = direct_of_counts(np.array([3000.0 - yes, yes]), 3000, ad.SRR(2, epsilon=0.5))
    lower, upper = covering_intervals(direct)
    np.testing.assert_allclose(lower, 1 - upper[::-1], atol=1e-9)


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
    with refuses("draws"):
        shortest_intervals(draws)


@pytest.mark.parametrize("probability", [0, 1, 0.0, 1.0, -0.5, "0.9", None])
def test_what_is_no_probability_is_refused(probability):
    with refuses("probability"):
        shortest_intervals([[0.5]], probability)


@pytest.mark.parametrize("probability", [np.float32(0.5), Fraction(1, 2)])
def test_a_probability_is_a_number_of_any_type(probability):
    draws = np.linspace(0, 1, 11)[:, None]
    np.testing.assert_array_equal(shortest_intervals(draws, probability), shortest_intervals(draws, 0.5))


@pytest.mark.parametrize("theta", [None, [[0.5]], xr.DataArray([0.5], dims="draw"), xr.Dataset()])
def test_what_is_no_draws_is_refused(theta):
    with refuses("theta"):
        summary(theta)


def test_a_tree_of_something_else_is_refused():
    with refuses("theta"):
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


# ---------------------------------------------------------------- intervals that hold for any truth
# Sums over the binomial number of answers: exact, nothing is drawn.
@pytest.mark.parametrize("mechanism", [ad.SRR, ad.SubsetSelection])
@pytest.mark.parametrize(("k", "epsilon", "people"), [(2, 0.5, 3000), (2, 4.0, 300), (10, 1.0, 1000), (20, 4.0, 300)])
def test_an_interval_holds_every_share(mechanism, k, epsilon, people):
    shares = (0.0, 0.002, 0.01, 0.05, 0.1, 0.5, 0.97, 1.0)
    coverage = [exact_coverage(mechanism(k, epsilon), people, share)[0] for share in shares]
    assert min(coverage) > 0.93
    assert 0.93 < np.mean(coverage) < 0.97


def test_few_people_with_next_to_no_privacy_are_no_exception():
    # A normal test would reject a share of 0.2 % at the first answer that names it, in 20 % of collections.
    coverage = [exact_coverage(ad.SRR(2, epsilon), 50, 0.002)[0] for epsilon in (4.0, 6.0, 12.0)]
    assert min(coverage) > 0.9


def test_the_intervals_that_were_shown_before_missed_a_share_of_five_percent():
    # 3,000 people, ε = 0.5, two categories, the shortest interval under the learned prior.
    mechanism, share, grid = ad.SRR(2, 0.5), 0.05, Grid(LOG_CONCENTRATION)
    counts, weight = outcomes(3000, mechanism.naming()[1] + np.subtract(*mechanism.naming()) * share)
    ends = [grid.ends(grid.posterior(mechanism, 3000, count))["shortest"] for count in counts.tolist()]
    held = sum(w for w, (low, high) in zip(weight, ends, strict=True) if low <= share <= high)
    assert held == pytest.approx(0.747, abs=0.002)
    assert exact_coverage(mechanism, 3000, share)[0] > 0.94


def test_what_is_shown_by_default_holds_a_share_of_five_percent():
    # The same by the default of `summary` and of the estimates that people see, for every outcome within 2.5 sd.
    mechanism, share = ad.SRR(2, 0.5), 0.05
    h = mechanism.naming()[1] + np.subtract(*mechanism.naming()) * share
    counts, weight = outcomes(3000, h)
    near = np.flatnonzero(abs(counts - 3000 * h) < 2.5 * np.sqrt(3000 * h * (1 - h)))[::30]
    held = 0.0
    for at in near:
        answers = np.repeat([0, 1], [counts[at], 3000 - counts[at]])
        responses = ad.Responses.from_arrays(mechanism, answers)
        theta = np.full((1, 4, 2), [0.0, 1.0])  # whatever the posterior is
        tree = run_of(responses, theta, ESTIMATE_PRIOR)
        shown = summary(tree).isel(category=0)
        held += weight[at] * float(shown["lower"] <= share <= shown["upper"])
    assert held / weight[near].sum() > 0.94


def run_of(responses, theta, prior):
    """Return a tree as `sample` makes it, with these draws."""
    tree = ad.sample(responses, "gibbs", draws=theta.shape[1], tune=0, chains=len(theta), random_seed=1)
    tree["posterior"]["theta"].values[:] = theta
    tree["posterior"]["concentration"] = tree["posterior"]["theta"].isel(category=0, drop=True)
    tree.attrs["prior_concentration"] = prior
    return tree


def test_no_estimate_however_far_outside_leaves_an_empty_interval():
    counts = np.array([0, 1, 500, 999, 1000])
    lower, upper = covering_intervals(direct_of_counts(counts.astype(float), 1000, ad.SRR(5, 0.2)))
    assert (lower < upper).all()
    assert lower[0] == 0
    assert upper[-1] == 1
    assert upper[0] < 0.05


def test_well_inside_it_is_the_score_interval():
    # Wilson's, in closed form, for honest answers.
    n, p, z = 400.0, 0.3, 1.959964
    lower, upper = covering_intervals(Direct(*(np.array([x]) for x in (p, 0.0, 1.0, n))))
    center, half = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n),
    )
    assert [lower[0], upper[0]] == pytest.approx([center - half, center + half], abs=1e-3)


def test_two_categories_have_complementary_intervals():
    direct = direct_of_counts(np.array([1650.0, 1350.0]), 3000, ad.SRR(2, 0.5))
    (low, high) = covering_intervals(direct)
    assert [low[1], high[1]] == pytest.approx([1 - high[0], 1 - low[0]], abs=1e-9)


def test_fisher_scoring_of_srr_is_what_its_counts_say():
    # The general way, for a mechanism that does not tell how often an answer names a category, gives the same.
    responses, near = answered(1.0), np.array([0.6, 0.3, 0.1])
    matrix = ad.Channel(responses.mechanism.transition_matrix())
    assert matrix.naming() is None
    other = direct_estimate(ad.Responses.from_arrays(matrix, responses.answers), near)
    direct = direct_estimate(responses, near)
    np.testing.assert_allclose(other.estimate, direct.estimate, rtol=1e-9)
    for share in (0.0, 0.2, 0.9):
        np.testing.assert_allclose(other.sd(np.full(3, share)), direct.sd(np.full(3, share)), rtol=1e-6)


@pytest.mark.parametrize("make", [ad.SRR, ad.SubsetSelection, ad.UnaryEncoding, ad.LocalHashing, ad.HadamardResponse])
def test_an_answer_names_categories_as_often_as_the_mechanism_says(make):
    # 30,000 answers each: five standard errors, a false alarm in less than one of 100,000 runs.
    mechanism, n = make(6, 1.5), 30_000
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(np.full(n, 2), rng=np.random.default_rng(4)))
    truth, other = mechanism.naming()
    share = (
        mechanism.support(responses.answers).mean(axis=0) if make is not ad.SRR else np.bincount(responses.answers) / n
    )
    expected = np.where(np.arange(6) == 2, truth, other)
    assert (abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()


@pytest.mark.parametrize(("name", "own"), [("rrrr", ad.RRRR(4, 1.0)), ("mixed", None)])
def test_estimates_of_other_mechanisms_are_unbiased(name, own):
    # 60,000 people: four standard errors for each of four shares, a false alarm in less than one of 1,000 runs.
    rng, theta = np.random.default_rng(5), np.array([0.7, 0.2, 0.1, 0.0])
    x = rng.choice(4, size=60_000, p=theta)
    if own is not None:
        responses = ad.Responses(own)
        for part, subset in ((x[:40_000], [0]), (x[40_000:], [1, 2])):
            responses.append(own.privatize(part, subset=subset, rng=rng), subset)
    else:
        parts = (ad.SRR(4, 0.5), ad.SubsetSelection(4, 2.0, size=2))
        halves = [
            ad.Responses.from_arrays(m, m.privatize(y, rng=rng)) for m, y in zip(parts, np.split(x, 2), strict=True)
        ]
        responses = ad.concat(halves)
    direct = direct_estimate(responses, np.full(4, 0.25))
    assert (abs(direct.estimate - theta) < 4 * direct.sd(theta)).all()
    assert direct.estimate.sum() == pytest.approx(1)


def test_the_estimate_is_in_its_interval_and_categories_may_be_in_any_order():
    responses = answered(1.0, 1000)
    tree = run_of(responses, np.full((2, 4, 3), [0.98, 0.01, 0.01]), "learned")
    shown = summary(tree)
    assert ((shown["lower"] <= shown["mean"]) & (shown["mean"] <= shown["upper"])).all()
    turned = tree.copy()
    turned["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel(category=[2, 0, 1]))
    xr.testing.assert_allclose(summary(turned), shown.isel(category=[2, 0, 1]))


def test_a_category_may_be_empty_where_the_answers_prefer_that_to_any_share():
    responses = ad.Responses.from_arrays(ad.SRR(3, 1.0), np.repeat([0, 1, 2], [1000, 340, 360]))
    shown = summary(run_of(responses, np.full((1, 4, 3), 1 / 3), "learned"), kind="covering")
    rate = 1700 / (np.e + 2)  # of answers that name a category that nobody holds: 360.3
    assert shown["may_be_empty"].values.tolist() == [False, True, rate >= 360]
    likelier = ad.Responses.from_arrays(ad.SRR(3, 1.0), np.repeat([0, 1, 2], [1000, 340, 375]))
    shown = summary(run_of(likelier, np.full((1, 4, 3), 1 / 3), "learned"))
    assert shown["may_be_empty"].values.tolist() == [False, True, False]
    assert shown["lower"].values[1:].tolist() == [0, 0]


def test_a_prior_that_prefers_some_categories_keeps_its_intervals():
    tree = ad.sample(answered(1.0), "gibbs", prior=[50.0, 30.0, 20.0], draws=100, random_seed=1)
    assert summary(tree).attrs["interval"] == "hdi"
    assert summary(tree, kind="covering").attrs["interval"] == "covering"
    with refuses("kind"):
        summary(tree, kind="hdi")
    with refuses("kind"):
        summary(tree["posterior"]["theta"], kind="covering")
    nobody = ad.sample(ad.Responses(ad.SRR(3, 1.0)), "gibbs", draws=10, random_seed=1)
    assert summary(nobody).attrs["interval"] == "hdi"
    with refuses("kind"):
        summary(nobody, kind="covering")


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
    assert list(found.data_vars) == ["mean", "lower", "upper", "may_be_empty", "sample", "privacy"]
    xr.testing.assert_identical(found["privacy"], shares["privacy"])
    np.testing.assert_allclose(found["sample"] + found["privacy"], 1)
    np.testing.assert_allclose(found["upper"] - found["lower"], shares["width"])
    assert found.attrs == shares.attrs == {"interval": "covering", "probability": 0.8}
    posterior = summary(tree, 0.8, kind="posterior")
    xr.testing.assert_identical(posterior[["mean", "lower", "upper"]], summary(tree["posterior"]["theta"], 0.8))


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


def test_the_estimate_of_a_group_is_the_sum_of_those_of_its_categories():
    """An answer of two categories is counted twice."""
    counts, groups = np.array([900.0, 700, 600, 800, 400, 600]), np.array([0, 1, 1, 0, 2, 1])
    mechanism = ad.SubsetSelection(6, 1.0, size=2)
    alone, together = (direct_of_counts(counts, 2000, mechanism, each).estimate for each in (None, groups))
    assert alone.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(together, np.bincount(groups, alone), rtol=1e-12)


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
    np.testing.assert_allclose(summary(tree, kind="posterior")["privacy"], same["privacy"])


def test_what_has_no_share_is_refused():
    draws = xr.DataArray(np.full((1, 2, 2), 0.5), dims=("chain", "draw", "category"))
    for arguments, message in (
        ((draws, -1), "n must be the number of people .* got -1"),
        ((draws, None), "n must be the number of people"),
        ((draws, "many"), "n must be the number of people"),
        ((draws, 5, 0.0), "prior must be a positive number, or 2 of them"),
        ((draws, 5, 1.0, 2.0), "probability must be a number between 0 and 1"),
        ((draws.isel(chain=0), 5), "theta must be a DataArray of draws by chain, draw and category"),
        ((xr.DataTree(), 5), "theta must hold posterior/theta"),
    ):
        with pytest.raises(ValueError, match=message):
            privacy_share(*arguments)


# ---------------------------------------------------------------- trees of other models
REGIONS = ["north", "south"]


@pytest.fixture(scope="module")
def of_pymc():
    """Shares by region and overall in one tree of pm.sample, with names of their own; and the answers."""
    responses = answered(2.0, 1000)
    turned = ["c", "a", "b"]
    with pm.Model(coords={"party": turned, "region": REGIONS}):
        shares = pm.Dirichlet("shares", np.ones(3), dims=("region", "party"))
        group = np.arange(1000) % 2
        ad.PrivateResponse("y", shares, responses, group=group)
        overall = pm.Dirichlet("overall", np.ones(3), dims="party")
        ad.PrivateResponse("z", overall, responses)
        pm.Dirichlet("unlabelled", np.ones(3))
        pm.Normal("slope", shape=3)
        tree = pm.sample(
            100, tune=200, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    return tree, responses


def only(tree, *names):
    return xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()[list(names)]})


@pytest.mark.long
def test_shares_by_region_have_a_posterior_interval_in_each_cell(of_pymc):
    tree, responses = of_pymc
    alone = only(tree, "shares", "slope")
    for found in (summary(alone, 0.9), summary(tree, 0.9, var_name="shares", responses=responses)):
        assert found.attrs == {"interval": "hdi", "probability": 0.9}
        assert list(found) == ["mean", "lower", "upper"]
        assert {*found["lower"].dims} == {"region", "party"}
        for region in REGIONS:
            draws = tree.posterior.shares.sel(region=region)
            expected = shortest_intervals(draws.sel(party=found.party).values.reshape(-1, 3), 0.9)
            ends = found.sel(region=region)
            np.testing.assert_array_equal([ends["lower"], ends["upper"]], expected)
            np.testing.assert_allclose(ends["mean"], draws.mean(("chain", "draw")).sel(party=found.party))
    with refuses("kind"):
        summary(alone, kind="covering")
    by_region = summary(tree.posterior.shares.rename(party="category"), 0.9)
    np.testing.assert_array_equal(by_region["upper"], summary(alone, 0.9)["upper"])


@pytest.mark.long
def test_one_vector_of_shares_has_covering_intervals_if_the_answers_are_given(of_pymc):
    tree, responses = of_pymc
    found = summary(only(tree, "overall"), responses=responses)
    assert found.attrs["interval"] == "covering"
    assert list(found) == ["mean", "lower", "upper", "may_be_empty", "sample", "privacy"]
    expected = covering_intervals(direct_estimate(responses, np.full(3, 1 / 3)))
    ends = found.sel(party=list(responses.categories))
    np.testing.assert_allclose([ends["lower"], ends["upper"]], expected)
    ours = summary(ad.sample(responses, "gibbs", random_seed=1))
    for name in ("mean", "lower", "upper", "privacy"):
        np.testing.assert_allclose(ends[name], ours.sel(category=[*"abc"])[name], atol=0.03)
    for plain in (
        summary(tree, var_name="overall"),
        summary(tree, 0.95, "posterior", var_name="overall", responses=responses),
    ):
        assert plain.attrs["interval"] == "hdi"
    # Shares without labels are in the order of the responses.
    unlabelled = summary(tree, var_name="unlabelled", responses=responses)
    assert unlabelled["unlabelled_dim_0"].values.tolist() == [*"abc"]
    # The prior of a tree of `sample` is known, and stays in force when its variable is named.
    preferred = ad.sample(responses, "gibbs", prior=[5.0, 1.0, 1.0], random_seed=1)
    xr.testing.assert_identical(summary(preferred, var_name="theta"), summary(preferred))
    assert summary(preferred, var_name="theta").attrs["interval"] == "hdi"


@pytest.mark.long
def test_what_is_missing_in_a_tree_of_another_model_is_told_in_one_sentence(of_pymc):
    tree, responses = of_pymc
    other = ad.Responses.from_arrays(responses.mechanism, responses.answers, categories=["x", "y", "z"])
    for arguments, message in (
        ({}, "var_name must be given if several variables are shares"),
        ({"var_name": "slope"}, "var_name must name shares .* got 'slope'"),
        ({"var_name": "none"}, "var_name must name shares .* got 'none'"),
        ({"var_name": 3}, "var_name must name shares .* got 3"),
        ({"var_name": "overall", "kind": "covering"}, "responses must be given for covering intervals"),
        ({"var_name": "overall", "responses": [0, 1]}, "responses must be"),
        ({"var_name": "overall", "responses": other}, "var_name must name shares .* of the categories"),
    ):
        with pytest.raises(ValueError, match=message):
            summary(tree, **arguments)
    with refuses("theta"):
        summary(only(tree, "slope"))
    with refuses("theta"):
        summary(tree.posterior.overall.rename(party="category"), responses=responses)


@pytest.mark.long
def test_the_fit_of_answers_is_checked_for_a_tree_of_another_model(of_pymc):
    tree, responses = of_pymc
    expected = ad.diagnostics.goodness_of_fit(ad.sample(responses, "gibbs", random_seed=1))
    for alone in (only(tree, "shares"), only(tree, "overall", "slope")):
        xr.testing.assert_identical(ad.diagnostics.goodness_of_fit(alone, responses), expected)
        with refuses("responses"):
            ad.diagnostics.goodness_of_fit(alone)
    xr.testing.assert_identical(ad.diagnostics.goodness_of_fit(tree, responses, var_name="shares"), expected)
    with refuses("var_name"):
        ad.diagnostics.goodness_of_fit(tree, responses)
    with refuses("prior"):
        ad.diagnostics.explain(tree, responses)
