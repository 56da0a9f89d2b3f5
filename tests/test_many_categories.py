"""What people ask of many categories: the largest, those above a threshold, the rest, and sums over groups."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import binom, binomtest

import adobest_pp as ad
from adobest_pp import intervals
from adobest_pp.intervals import above, largest, many, summary, sums
from adobest_pp.likelihood.without_prior import direct_estimate, direct_of_counts
from tests.refusals import refuses
from validation.largest import count_answers, tree_of_counts


def tree_of(theta, labels=None):
    """Draws alone, of shape (draw, K), as of a model."""
    values = np.asarray(theta, dtype=float)[None]
    coords = {"category": [str(i) for i in range(values.shape[-1])] if labels is None else list(labels)}
    return xr.DataArray(values, coords, ("chain", "draw", "category"))


@pytest.fixture(scope="module")
def zipf():
    """Counts of answers of 200 categories whose shares fall as 1/rank."""
    mechanism, rng = ad.SRR(200, 4.0), np.random.default_rng(1)
    theta = 1 / np.arange(1, 201)
    theta /= theta.sum()
    return theta, tree_of_counts(mechanism, count_answers(mechanism, rng.multinomial(100_000, theta), rng))


# ---------------------------------------------------------------- sums over groups
def exact_variance(mechanism, theta, weights):
    """The variance of Σ w_i [the answer names i], over gain², by summing over all answers."""
    matrix, sets = mechanism.transition_matrix(), mechanism.support(mechanism.outputs())
    sets = np.eye(mechanism.n_categories, dtype=bool) if sets is None else sets
    scores, chance = sets @ weights, matrix @ theta
    return (chance @ scores**2 - (chance @ scores) ** 2) / np.subtract(*mechanism.naming()) ** 2


@pytest.mark.parametrize("mechanism", [ad.SRR(6, 1.0), ad.SubsetSelection(6, 1.0), ad.UnaryEncoding(6, 2.0)], ids=str)
@pytest.mark.parametrize("groups", [[0, 0, 1, 1, 1, 1], [0, 1, 1, 2, 2, 2], [0, 1, 1, 1, 1, 1]])
def test_the_variance_of_a_sum_is_exact_whatever_the_shares(mechanism, groups):
    groups, rng = np.array(groups), np.random.default_rng(0)
    for theta in (*rng.dirichlet(np.ones(6), size=3), np.eye(6)[0], np.eye(6)[5]):
        direct = direct_of_counts(rng.integers(0, 100, size=6).astype(float), 100, mechanism, groups)
        found = direct.sd(np.bincount(groups, theta)) ** 2 * 100
        for g in range(groups.max() + 1):
            expected = exact_variance(mechanism, theta, (groups == g) - np.mean(groups == g))
            assert found[g] == pytest.approx(expected, rel=1e-9)


def test_a_group_of_srr_is_a_category_of_a_smaller_question():
    mechanism, groups = ad.SRR(10, 2.0), np.repeat([0, 1], [3, 7])
    direct = direct_of_counts(np.arange(10.0), 45, mechanism, groups)
    truth, other = mechanism.naming()
    np.testing.assert_allclose(direct.other, [3 * other, 7 * other])
    np.testing.assert_allclose(direct.gain, truth - other)
    np.testing.assert_allclose(direct.estimate, ([3 / 45, 42 / 45] - direct.other) / direct.gain)


@pytest.mark.parametrize("mechanism", [ad.HadamardResponse(15, 3.0), ad.ProjectiveGeometryResponse(15, 3.0)], ids=str)
def test_sums_have_the_variance_of_their_answers(mechanism, monkeypatch):
    # Hadamard: categories 0 … 6 are seven rows and their products, so given the truth, others are not independent.
    groups = np.repeat([0, 1], [7, 8])
    theta = np.where(np.arange(15) < 7, 1 / 7, 0)
    answers = mechanism.privatize(np.random.default_rng(1).choice(15, 40_000, p=theta), rng=np.random.default_rng(2))
    responses = ad.Responses.from_arrays(mechanism, answers)
    monkeypatch.setattr("adobest_pp.likelihood.without_prior.MOST_CATEGORIES", 10)
    direct = direct_estimate(responses, theta, groups)
    expected = exact_variance(mechanism, theta, (groups == 0) - 7 / 15) / 40_000
    assert direct.sd(direct.estimate)[0] ** 2 == pytest.approx(expected, rel=0.05)
    if isinstance(mechanism, ad.HadamardResponse):
        independent = direct_of_counts(np.zeros(15), 40_000, mechanism, groups)
        assert independent.sd(np.array([1.0, 0.0]))[0] ** 2 < 0.8 * expected


@pytest.mark.parametrize("mechanism", [ad.SRR(12, 1.0), ad.UnaryEncoding(12, 1.0), ad.RRRR(12, 1.0)], ids=str)
def test_sums_of_answers_are_sums_of_estimates(mechanism):
    rng, theta = np.random.default_rng(3), np.full(12, 1 / 12)
    published = {"subset": [0, 1, 2]} if mechanism.publishes_subset else {}
    held = ad.Responses(mechanism)
    held.append(mechanism.privatize(rng.integers(12, size=500), rng=rng, **published), **published)
    groups = np.arange(12) % 3
    single, summed = direct_estimate(held, theta), direct_estimate(held, theta, groups)
    np.testing.assert_allclose(summed.estimate, np.bincount(groups, single.estimate), atol=1e-9)
    assert (summed.sd(np.full(3, 1 / 3)) > single.sd(theta)[:3]).all()


def test_groups_may_be_given_by_label_or_in_order(zipf):
    theta, tree = zipf
    labels = tree["posterior"]["category"].values.tolist()
    named = ["low" if i < 10 else "high" for i in range(200)]
    by_label = dict(zip(labels[::-1], named[::-1], strict=True)) | {"another": "low"}
    found = sums(tree, by_label)
    assert found["group"].values.tolist() == ["low", "high"]
    assert found["categories"].values.tolist() == [10, 190]
    for other in (named, pd.Series(by_label), xr.DataArray(named, {"category": labels}, "category")):
        xr.testing.assert_identical(found, sums(tree, other))
    truth = np.array([theta[:10].sum(), theta[10:].sum()])
    assert ((found["lower"] <= truth) & (truth <= found["upper"])).all()
    assert found.attrs == {"interval": "covering", "probability": 0.95}
    assert float((found["upper"] - found["lower"]).max()) < 0.03


def test_one_group_of_all_is_everybody(zipf):
    found = sums(zipf[1], ["all"] * 200)
    assert [found[name].item() for name in ("mean", "lower", "upper")] == [1, 1, 1]


def test_sums_of_draws_are_those_of_each_draw():
    draws = np.random.default_rng(5).dirichlet(np.ones(5), size=400)
    found = sums(tree_of(draws), ["a", "b", "a", "b", "b"])
    expected = intervals.shortest_intervals(np.column_stack([draws[:, [0, 2]].sum(1), draws[:, [1, 3, 4]].sum(1)]))
    np.testing.assert_allclose([found["lower"], found["upper"]], expected)
    assert found.attrs["interval"] == "hdi"


def test_a_hierarchy_with_holes_is_refused_by_the_names_of_the_holes(zipf):
    groups = {str(i): "g" for i in range(200)}
    del groups["17"]
    groups["33"], groups["150"] = None, float("nan")
    with refuses("groups") as caught:
        sums(zipf[1], groups)
    assert str(caught.value) == (
        "groups must have a group for each of the 200 categories, got none for '17', '33', '150'"
    )
    with refuses("groups") as caught:
        sums(zipf[1], {"0": "g"})
    assert str(caught.value).endswith("got none for '1', '2', '3', '4', '5' and 194 more")


@pytest.mark.parametrize("groups", [None, 3, "abc", ["a", "b"], [["a", "b"]]])
def test_what_is_no_hierarchy_is_refused(zipf, groups):
    with refuses("groups"):
        sums(zipf[1], groups)


# ---------------------------------------------------------------- the largest and the rest
def test_the_largest_come_first_with_wider_intervals(zipf):
    theta, tree = zipf
    found, single = largest(tree, k=20), summary(tree)
    means = single["mean"].values
    assert found["mean"].values.tolist() == sorted(means, reverse=True)[:20]
    alone = single.sel(category=found["category"])
    assert (found["lower"] <= alone["lower"]).all()
    assert (found["upper"] >= alone["upper"]).all()
    assert found["rest"].item() == pytest.approx(1 - found["mean"].values.sum())
    rest = 1 - theta[found["category"].values.astype(int)].sum()
    assert found["rest_lower"] <= rest <= found["rest_upper"]


def test_all_categories_leave_no_rest_and_have_the_usual_intervals(zipf):
    found, single = largest(zipf[1], k=200), summary(zipf[1])
    assert [found[name].item() for name in ("rest", "rest_lower", "rest_upper")] == [0, 0, 0]
    xr.testing.assert_allclose(found["lower"], single["lower"].sel(category=found["category"]))


def test_ranks_are_those_of_intervals_that_all_hold(zipf):
    theta, tree = zipf
    found = largest(tree, k=200)
    order = found["category"].values.astype(int)
    rank = 1 + np.array([np.count_nonzero(theta > theta[i]) for i in order])
    assert ((found["rank_lower"] <= rank) & (rank <= found["rank_upper"])).all()
    assert found["rank_upper"][0] == 1
    assert found["rank_lower"][0] == 1
    # From the definition, pair by pair.
    direct = direct_of_counts(tree["responses"]["answers_with"].values.astype(float), 100_000, ad.SRR(200, 4.0))
    count = np.round((direct.other + direct.gain * direct.estimate) * 100_000)
    level = 1 - 0.05 / 200
    ends = [binomtest(int(c), 100_000).proportion_ci(level, "exact") for c in count]
    low, high = np.array([[end.low, end.high] for end in ends]).T
    upper = [1 + sum(high[j] > low[i] for j in range(200) if j != i) for i in order]
    lower = [1 + sum(low[j] > high[i] for j in range(200)) for i in order]
    assert found["rank_upper"].values.tolist() == upper
    assert found["rank_lower"].values.tolist() == lower


def test_the_probability_to_belong_is_that_of_the_draws():
    draws = np.random.default_rng(6).dirichlet([9, 8, 7, 6, 1, 1], size=600)
    found = largest(tree_of(draws, "abcdef"), k=2)
    ranked = np.argsort(-draws, axis=1)[:, :2]
    for label, belongs in zip(found["category"].values, found["belongs"].values, strict=True):
        assert belongs == pytest.approx(np.mean((ranked == "abcdef".index(label)).any(axis=1)))
    assert "rank_upper" not in found
    assert found.attrs["interval"] == "hdi"
    others = [i for i in range(6) if "abcdef"[i] not in found["category"].values]
    ends = intervals.shortest_intervals(draws[:, others].sum(axis=1, keepdims=True))[:, 0]
    np.testing.assert_allclose([found["rest_lower"], found["rest_upper"]], ends)


@pytest.mark.parametrize("k", [0, 201, 2.5, "3", None])
def test_a_list_has_some_of_the_categories(zipf, k):
    with refuses("k"):
        largest(zipf[1], k)


# Winners: with even shares, everything that is listed is there by chance.
def test_the_rest_allows_for_how_the_list_was_chosen(monkeypatch):
    mechanism, theta = ad.SRR(300, 4.0), np.full(300, 1 / 300)
    rng = np.random.default_rng(7)

    def held():
        tree = tree_of_counts(mechanism, count_answers(mechanism, rng.multinomial(100_000, theta), rng))
        found = largest(tree, k=30)
        return bool(found["rest_lower"] <= 0.9 <= found["rest_upper"])

    assert sum(held() for _ in range(40)) >= 36  # 95 % each: less than 36 of 40 in 1.4 % of such tests
    monkeypatch.setattr(many, "_error_of_winners", lambda *_: 0.0)
    assert sum(held() for _ in range(10)) == 0


# ---------------------------------------------------------------- above a threshold
def test_what_is_listed_is_above_and_what_is_well_above_is_listed(zipf):
    theta, tree = zipf
    found = above(tree, 0.01)
    listed = found["category"].values.astype(int)
    assert (theta[listed] > 0.01).all()
    # Holm rejects from about 0.014 on; a share of 0.018 is three standard deviations above that.
    assert {i for i in range(200) if theta[i] > 0.018} <= set(listed.tolist())
    assert found.attrs | {"threshold": 0.01, "error": 0.05, "rate": "any", "interval": "covering"} == found.attrs
    assert (found["p_value"] <= 0.05 / (200 - len(listed) + 1)).all()
    assert len(above(tree, 0.5)["category"]) == 0


def test_p_values_are_binomial_tails(zipf):
    found = above(zipf[1], 0.02)
    truth, other = ad.SRR(200, 4.0).naming()
    counts = zipf[1]["responses"]["answers_with"].sel(category=found["category"].values).values
    expected = binom.sf(counts - 1, 100_000, other + (truth - other) * 0.02)
    np.testing.assert_allclose(found["p_value"], expected, rtol=1e-6)


def test_holm_and_benjamini_yekutieli_by_their_definitions():
    rng = np.random.default_rng(8)
    for _ in range(50):
        p = rng.random(30) ** rng.integers(1, 9)
        ordered, k = np.sort(p), 30
        stop = next((i for i in range(k) if ordered[i] > 0.05 / (k - i)), k)
        assert sorted(p[many.rejected(p, 0.05, "any")]) == ordered[:stop].tolist()
        harmonic = sum(1 / i for i in range(1, k + 1))
        passed = [i + 1 for i in range(k) if ordered[i] <= 0.05 * (i + 1) / (k * harmonic)]
        assert sorted(p[many.rejected(p, 0.05, "share")]) == ordered[: max(passed, default=0)].tolist()


def test_lists_of_draws_keep_their_error_rate_in_the_draws():
    draws = np.random.default_rng(9).dirichlet([60, 40, 35, 33, 1], size=2000)
    above_it = draws > 0.15
    any_list = above(tree_of(draws), 0.15)["category"].values.astype(int)
    assert above_it[:, any_list].all(axis=1).mean() >= 0.95
    rest = [i for i in range(5) if i not in any_list]
    assert all(above_it[:, [*any_list, i]].all(axis=1).mean() < 0.95 for i in rest)
    share = above(tree_of(draws), 0.15, rate="share")["category"].values.astype(int)
    assert np.mean(~above_it[:, share]) <= 0.05
    assert set(any_list) <= set(share)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("threshold", -0.1),
        ("threshold", 1.0),
        ("threshold", "0.1"),
        ("threshold", None),
        ("error", 0),
        ("error", 1),
        ("error", "a"),
        ("rate", "all"),
        ("rate", None),
        ("kind", "exact"),
    ],
)
def test_what_is_no_list_is_refused(zipf, name, bad):
    with refuses(name):
        above(**{"theta": zipf[1], "threshold": 0.1, name: bad})


@pytest.mark.parametrize("ask", [lambda t: largest(t, 1), lambda t: above(t, 0.1), lambda t: sums(t, ["a", "b"])])
def test_shares_by_region_are_refused(ask):
    draws = xr.DataArray(np.full((1, 3, 2, 2), 0.5), dims=("chain", "draw", "region", "category"))
    with refuses("theta"):
        ask(draws)


def test_answers_of_a_model_serve_as_well():
    mechanism = ad.SRR(3, 2.0)
    answers = mechanism.privatize([0] * 700 + [1] * 300, rng=np.random.default_rng(1))
    responses = ad.Responses.from_arrays(mechanism, answers, categories=list("abc"))
    tree = ad.sample(responses, "gibbs", draws=100, random_seed=1, progressbar=False)
    model = xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset().rename(category="vote")})
    for ask in (lambda *a, **b: largest(*a, 2, **b), lambda *a, **b: above(*a, 0.2, **b)):
        ours, other = ask(tree), ask(model, responses=responses)
        np.testing.assert_array_equal(ours["lower"], other["lower"])
        assert other["vote"].values.tolist() == ours["category"].values.tolist()


# ---------------------------------------------------------------- public hash functions
@pytest.fixture(scope="module")
def sketched():
    """Answers of a count-mean sketch with 600 categories whose shares fall as 1/rank, five times."""
    mechanism, rng = ad.CountMeanSketch(600, 1.0), np.random.default_rng(11)
    theta = 1 / np.arange(1, 601)
    theta /= theta.sum()
    people = (rng.choice(600, 30_000, p=theta) for _ in range(5))
    return theta, [ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)) for x in people]


def test_hash_functions_give_estimates_for_thousands_of_categories(sketched, monkeypatch):
    theta, collections = sketched
    groups = np.minimum(np.arange(600), 4)
    z, z_of_groups, held = [], [], []
    for responses in collections:
        found, of_groups = direct_estimate(responses, theta), direct_estimate(responses, theta, groups)
        z.append((found.estimate - theta) / found.sd(theta))
        z_of_groups.append((of_groups.estimate - np.bincount(groups, theta)) / of_groups.sd(np.bincount(groups, theta)))
        lower, upper = intervals.covering_intervals(found)
        held.append((lower <= theta) & (theta <= upper))
    assert abs(np.mean(z)) < 3 / np.sqrt(3000)
    assert np.std(z) == pytest.approx(1, abs=0.05)
    assert np.abs(z_of_groups).max() < 4
    assert 0.94 < np.mean(held) < 0.96
    # One step of Fisher scoring with all of the information agrees.
    monkeypatch.setattr("adobest_pp.likelihood.without_prior.MOST_CATEGORIES", 1000)
    exact = direct_estimate(collections[-1], theta)
    np.testing.assert_allclose(found.sd(theta), exact.sd(theta), rtol=0.04)
    assert np.corrcoef(found.estimate - theta, exact.estimate - theta)[0, 1] > 0.99


def test_lists_of_hashed_answers_rest_on_the_answers(sketched):
    theta, collections = sketched
    draws = np.random.default_rng(12).dirichlet(1 + 30_000 * theta, size=(1, 50))
    tree = xr.DataTree.from_dict({"posterior": tree_of(draws[0]).rename("theta").to_dataset()})
    found = above(tree, 0.03, responses=collections[0])
    assert found.attrs["interval"] == "covering"
    assert (theta[found["category"].values.astype(int)] > 0.03).all()
    assert "0" in found["category"].values


def test_too_few_hash_functions_leave_the_draws():
    mechanism, rng = ad.CountMeanSketch(600, 1.0, n_hashes=100), np.random.default_rng(13)
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(rng.integers(600, size=1000), rng=rng))
    assert direct_estimate(responses, np.full(600, 1 / 600)) is None
