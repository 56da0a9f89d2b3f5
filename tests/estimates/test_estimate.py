"""Estimates by group, with weights and margins: right against the definitions, and intervals that cover."""

import numpy as np
import pytest
from scipy.stats import beta, norm

import adobest_pp as ad
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.estimates import pooling
from adobest_pp.estimates.direct import effective_people, naming_scores, rake, weighted_estimate
from adobest_pp.estimates.estimate import smooth
from adobest_pp.estimates.pooling import LOG_LIKENESS, learned_shares, pooled_shares
from adobest_pp.intervals import covering_intervals
from adobest_pp.likelihood.without_prior import direct_estimate
from tests.refusals import refuses

SHARES = np.array([0.5, 0.3, 0.15, 0.05])
LABELS = ["never", "rarely", "often", "daily"]
MECHANISMS = [
    ad.SRR(4, epsilon=1.0),
    ad.SubsetSelection(4, epsilon=1.0),
    ad.UnaryEncoding(4, epsilon=1.0),
    ad.HadamardResponse(4, epsilon=1.0),
    ad.RRRR(4, epsilon=1.0),
]


def asked(mechanism, x, rng):
    subset = [0, 1] if mechanism.publishes_subset else None
    return mechanism.privatize(x, subset=subset, rng=rng)


def answers_of(mechanism, answers):
    subset = [0, 1] if mechanism.publishes_subset else None
    return ad.Responses.from_arrays(mechanism, answers, subset, categories=LABELS)


@pytest.fixture(scope="module")
def survey():
    """900 people of three regions, who answered by subset selection."""
    rng = np.random.default_rng(1)
    x, region = rng.choice(4, size=900, p=SHARES), np.repeat(["north", "south", "west"], [500, 300, 100])
    mechanism = ad.SubsetSelection(4, epsilon=1.0)
    return answers_of(mechanism, mechanism.privatize(x, rng=rng)), region, rng.uniform(0.5, 2.0, size=900)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
def test_the_interval_of_a_group_is_that_of_its_own_answers(mechanism):
    rng = np.random.default_rng(2)
    x, group = rng.choice(4, size=600, p=SHARES), rng.choice(["a", "b"], size=600)
    answers = asked(mechanism, x, rng)
    table = ad.estimate(answers_of(mechanism, answers), groups=group)
    alone = answers_of(mechanism, answers[group == "a"])
    direct = direct_estimate(alone, smooth(answers_of(mechanism, answers)))
    lower, upper = covering_intervals(direct)
    found = table.sel(group="a")
    np.testing.assert_allclose(found["direct"], direct.estimate, atol=1e-9)
    np.testing.assert_allclose(found["lower"], np.minimum(lower, found["share"]), atol=1e-9)
    np.testing.assert_allclose(found["upper"], np.maximum(upper, found["share"]), atol=1e-9)
    assert (found["lower"] <= found["share"]).all()
    assert (found["share"] <= found["upper"]).all()
    assert found["people"] == np.count_nonzero(group == "a")


def test_the_direct_estimate_with_weights_is_the_weighted_share_of_names(survey):
    responses, region, weights = survey
    table = ad.estimate(responses, groups=region, weights=weights)
    truth, other = responses.mechanism.naming()
    names = np.array([[category in answer for category in range(4)] for answer in responses.answers.tolist()])
    for group in ("north", "west"):
        inside = region == group
        expected = (np.average(names[inside], axis=0, weights=weights[inside]) - other) / (truth - other)
        np.testing.assert_allclose(table["direct"].sel(group=group), expected, atol=1e-12)
        total, squares = weights[inside].sum(), np.sum(weights[inside] ** 2)
        assert table["effective_people"].sel(group=group) == pytest.approx(total**2 / squares)


def test_the_variance_of_a_weighted_share_is_that_of_a_weighted_sum(survey):
    """Σ w²(s − mean)²/(Σw)²·n/(n − 1), where s is the unbiased estimate of one person."""
    responses, region, weights = survey
    truth, other = responses.mechanism.naming()
    names = np.array([[category in answer for category in range(4)] for answer in responses.answers.tolist()])
    of_one = (names - other) / (truth - other)
    scores = naming_scores(responses, np.full(4, 0.25))
    for inside in (region == "west", np.full(900, True)):
        w, found = weights * inside, weighted_estimate(scores, weights * inside)
        mean, n = np.average(of_one, axis=0, weights=w), inside.sum()
        np.testing.assert_allclose(found.estimate, mean, atol=1e-12)
        np.testing.assert_allclose(found.variance, w**2 @ (of_one - mean) ** 2 / w.sum() ** 2 * n / (n - 1), rtol=1e-9)


def test_equal_weights_are_no_weights(survey):
    responses, region, _ = survey
    plain, weighted = (ad.estimate(responses, groups=region, weights=each) for each in (None, np.full(900, 3.0)))
    for name in ("share", "lower", "upper"):
        np.testing.assert_allclose(plain[name], weighted[name], atol=1e-12)


def test_post_stratification_adds_up_the_groups_by_their_shares_of_the_population(survey):
    responses, region, weights = survey
    margins = {"north": 0.2, "south": 0.3, "west": 0.5}
    table = ad.estimate(responses, groups=region, weights=weights, margins=margins)
    groups = table["direct"].sel(group=list(margins)).values
    np.testing.assert_allclose(table["direct"].sel(group="everybody"), np.array([0.2, 0.3, 0.5]) @ groups, atol=1e-12)


def test_raked_weights_have_the_margins():
    rng = np.random.default_rng(3)
    cells = np.column_stack([rng.integers(3, size=500), rng.integers(2, size=500)])
    margins = [np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4])]
    raked = rake(rng.uniform(1, 2, size=500), cells, margins)
    for column, shares in zip(cells.T, margins, strict=True):
        np.testing.assert_allclose(np.bincount(column, raked) / raked.sum(), shares, atol=1e-9)


def test_margins_that_the_answers_follow_make_the_interval_narrower():
    """Between regions that differ by 80 points, knowing the regions' shares removes most of the sampling error."""
    rng = np.random.default_rng(4)
    region = rng.choice(["a", "b"], size=2000)
    x = np.where(region == "a", rng.random(2000) < 0.9, rng.random(2000) < 0.1).astype(int)
    mechanism = ad.SRR(2, epsilon=4.0)
    responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng))
    plain = ad.estimate(responses, groups=region).sel(group="everybody", category="1")
    known = ad.estimate(responses, groups=region, margins={"a": 0.5, "b": 0.5}).sel(group="everybody", category="1")
    ratio = float((known["upper"] - known["lower"]) / (plain["upper"] - plain["lower"]))
    # Of the variance 0.25, the regions explain 0.16; the noise of privacy adds p(1 − p)/(p − q)² = 0.019.
    assert ratio == pytest.approx(np.sqrt((0.09 + 0.019) / (0.25 + 0.019)), rel=0.1)


# The posterior of the shares, against integrals over a grid.

SHARE = (np.arange(4000) + 0.5) / 4000


def two_categories(estimate, sd):
    """An estimate of two categories and its precision."""
    return np.array([estimate, 1 - estimate]), np.array([[1.0, -1.0], [-1.0, 1.0]]) / (4 * sd**2)


def posterior_mean(estimates, sds, shapes, weights):
    """Posterior means by integrals: shapes (S, 2) of Beta priors with weights (S,), common to all groups."""
    likelihood = np.array([norm.pdf(estimate, SHARE, sd) for estimate, sd in zip(estimates, sds, strict=True)])
    priors = np.array([beta.pdf(SHARE, *shape) for shape in shapes])
    evidence = priors @ likelihood.T  # (S, G)
    means = (priors * SHARE) @ likelihood.T / evidence
    of_shape = weights * np.prod(evidence / evidence.max(axis=0), axis=1)
    return of_shape @ means / of_shape.sum()


@pytest.mark.parametrize(("estimate", "sd"), [(0.3, 0.05), (0.02, 0.04), (-0.05, 0.1), (0.9, 0.3)])
def test_everybody_has_the_posterior_mean_under_the_learned_prior(estimate, sd):
    # A grid resolves the Beta density only of moderate concentrations, so the law of ln a is narrower here.
    law, logs = (0.5, 0.4), np.linspace(-1, 2, 61)
    mean, precision = two_categories(estimate, sd)
    drawn = pooling._chains(pooling._chain, 1, mean[None], precision[None], np.ones(2), *law)
    shapes = np.exp(logs)[:, None] * np.ones(2)
    expected = posterior_mean([estimate], [sd], shapes, norm.pdf(logs, *law))
    # Four standard errors of some 2,000 effective draws.
    assert drawn.theta[..., 0].mean() == pytest.approx(expected[0], abs=4 * drawn.theta[..., 0].std() / np.sqrt(2000))


def test_groups_have_the_posterior_means_of_the_hierarchical_model():
    estimates, sds, common = [0.35, 0.20, 0.55], [0.05, 0.15, 0.08], np.array([0.3, 0.7])
    parts = [two_categories(*each) for each in zip(estimates, sds, strict=True)]
    drawn = pooled_shares(*(np.array(each) for each in zip(*parts, strict=True)), common, 1)
    logs = np.linspace(LOG_LIKENESS[0] - 4.5, LOG_LIKENESS[0] + 4.5, 121)
    weights = norm.pdf(logs, *LOG_LIKENESS)
    expected = posterior_mean(estimates, sds, np.exp(logs)[:, None] * common, weights)
    errors = drawn.theta[..., 0].std(axis=(0, 1)) / np.sqrt(1000)
    assert (np.abs(drawn.theta[..., 0].mean(axis=(0, 1)) - expected) < 4 * errors).all()


def test_it_is_the_estimate_of_nuts_under_the_learned_prior(survey):
    responses, _, _ = survey
    tree = ad.sample(responses, "nuts", "learned", random_seed=1)
    theta = tree["posterior"]["theta"]
    mean, sd = theta.mean(("chain", "draw")), theta.std(("chain", "draw"))
    # The estimates are normal to a good approximation, not exactly.
    assert (np.abs(ad.estimate(responses)["share"].sel(group="everybody") - mean) < 0.15 * sd).all()
    assert LOG_CONCENTRATION == (-2.0, 2.0)


def test_a_small_group_borrows_from_the_others_and_a_large_one_does_not():
    rng, mechanism = np.random.default_rng(5), ad.SRR(2, epsilon=2.0)
    people = {"a": 4000, "b": 4000, "c": 4000, "d": 4000, "small": 40}
    group = np.repeat(list(people), list(people.values()))
    x = (rng.random(group.size) < 0.3).astype(int)
    table = ad.estimate(ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), groups=group)
    moved = np.abs(table["share"] - table["direct"]).sel(category="1")
    assert moved.sel(group="small") > 5 * moved.sel(group="a")
    one = table.sel(category="1")
    assert abs(one["share"].sel(group="small") - 0.3) < 0.05


def test_it_does_not_depend_on_the_order_of_people_and_repeats(survey):
    responses, region, weights = survey
    order = np.random.default_rng(6).permutation(900)
    shuffled = ad.Responses.from_arrays(responses.mechanism, responses.answers[order], categories=LABELS)
    one, again = (ad.estimate(responses, groups=region, weights=weights) for _ in range(2))
    other = ad.estimate(shuffled, groups=region[order], weights=weights[order])
    assert one.identical(again)
    np.testing.assert_allclose(one["lower"], other["lower"], atol=1e-9)
    np.testing.assert_allclose(one["share"], other["share"], atol=0.01)


def test_gathered_answers_have_the_same_estimate(survey, tmp_path):
    responses, _, _ = survey
    responses.to_parquet(tmp_path / "answers.parquet")
    gathered = ad.gather(tmp_path / "answers.parquet", progressbar=False)
    one, other = ad.estimate(responses), ad.estimate(gathered)
    np.testing.assert_allclose(one["lower"], other["lower"], atol=1e-9)
    np.testing.assert_allclose(one["share"], other["share"], atol=0.005)
    with refuses("groups"):
        ad.estimate(gathered, groups=["a"] * 900)


def test_columns_have_names_and_missing_labels_are_nobodys(survey):
    responses, region, _ = survey
    age = np.array([20, 30, None] * 300, dtype=object)
    table = ad.estimate(responses, groups={"region": region, "age": age})
    assert table["group"].values.tolist() == [
        "everybody",
        *("region: north", "region: south", "region: west"),
        *("age: 20", "age: 30"),
    ]
    assert table.sel(group="age: 30")["label"] == "30"
    assert table["people"].values.tolist() == [900, 500, 300, 100, 300, 300]


def test_tiny_groups_are_left_out_and_told(survey):
    responses, region, _ = survey
    lonely = region.astype(object)
    lonely[0] = "alone"
    table = ad.estimate(responses, groups=lonely)
    assert "alone" not in table["group"].values
    assert table.attrs["left_out"] == '{"alone": 1}'
    assert table["people"].sel(group="everybody") == 900


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("groups", {"groups": ["a"] * 899}),
        ("groups", {"groups": "region"}),
        ("groups", {"groups": {}}),
        ("groups", {"groups": ["everybody"] * 900}),
        ("weights", {"weights": [1.0] * 899}),
        ("weights", {"weights": [1.0] * 899 + [-1.0]}),
        ("weights", {"weights": [1.0] * 899 + [float("nan")]}),
        ("weights", {"weights": ["heavy"] * 900}),
        ("margins", {"margins": {"north": 1.0}}),
        ("margins", {"margins": {"north": 0.5, "south": 0.5, "west": 0.5}, "groups": True}),
        ("margins", {"margins": {"north": 0.5, "south": 0.5}, "groups": True}),
        ("margins", {"margins": {"north": 0.5, "south": 0.3, "west": 0.1, "east": 0.1}, "groups": True}),
        ("margins", {"margins": {"north": 50, "south": 30, "west": 20}, "groups": True}),
        ("margins", {"margins": {"age": {"north": 1.0}}, "groups": True}),
        ("margins", {"margins": 0.5, "groups": True}),
        ("probability", {"probability": 1.5}),
        ("random_seed", {"random_seed": -1}),
    ],
)
def test_what_cannot_be_used_is_refused(survey, argument, given):
    responses, region, _ = survey
    if given.get("groups") is True:
        given = given | {"groups": region}
    with refuses(argument):
        ad.estimate(responses, **given)


def test_answers_are_needed():
    with refuses("responses"):
        ad.estimate(ad.Responses(ad.SRR(2, epsilon=1.0)))
    with refuses("responses"):
        ad.estimate([0, 1])


def test_effective_people_are_people_of_equal_weight():
    assert effective_people(np.array([2.0, 2.0, 0.0])) == 2
    assert effective_people(np.array([1.0, 3.0])) == pytest.approx(1.6)


def test_the_learned_prior_finds_empty_categories_empty():
    estimate = np.array([0.5, 0.5, *np.zeros(8)])
    drawn = learned_shares(estimate, np.eye(10) / 0.01**2, 1).theta.mean(axis=(0, 1))[0]
    assert drawn[2:].max() < 0.005
