"""Ordered categories and numbers in bins."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.estimates import numbers_in_bins, ordered_quantiles
from adobest_pp.estimates.pooling import LOG_STEP, smoothed_shares
from tests.refusals import refuses

SHARES = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
LABELS = ["never", "yearly", "monthly", "weekly", "daily"]


def survey(n, epsilon, rng, shares=SHARES):
    mechanism = ad.SubsetSelection(shares.size, epsilon=epsilon)
    x = rng.choice(shares.size, size=n, p=shares)
    labels = LABELS if shares.size == 5 else None
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=labels)


def test_many_answers_find_the_quantiles():
    found = ordered_quantiles(survey(50_000, 3.0, np.random.default_rng(1)), (0.25, 0.5, 0.75))
    assert found["category"].values.tolist() == ["yearly", "monthly", "weekly"]
    np.testing.assert_allclose(found["at_most"], np.cumsum(SHARES)[:-1], atol=0.02)
    assert (found["at_most_lower"] <= found["at_most"]).all()
    assert (found["at_most"] <= found["at_most_upper"]).all()


@pytest.mark.long
def test_intervals_hold_quantiles_and_means():
    """At 95 %, 40 surveys miss 8 or more times with a probability of 0.1 %; there are three counts."""
    rng, edges = np.random.default_rng(2), np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0])
    # Everybody lies at the left end of the bin: the mean of numbers is not that of the middles.
    mean, held = SHARES @ edges[:-1], np.zeros(3)
    for seed in range(40):
        responses = survey(800, 1.0, rng)
        ordered = ordered_quantiles(responses, (0.5, 0.9), random_seed=seed)
        place = {label: i for i, label in enumerate(LABELS)}
        for i, truth in enumerate((2, 4)):
            one = ordered.isel(quantile=i)
            held[i] += place[one["lower"].item()] <= truth <= place[one["upper"].item()]
        binned = numbers_in_bins(responses, edges, (0.5,), random_seed=seed)
        held[2] += bool(binned["mean_lower"] <= mean <= binned["mean_upper"])
    assert (held > 40 - 8).all()


def test_numbers_have_a_mean_quantiles_and_a_density():
    rng, edges = np.random.default_rng(3), [0, 1, 2, 4, 8, 16]
    found = numbers_in_bins(survey(50_000, 3.0, rng), edges, (0.5,))
    middles = (np.array(edges[:-1]) + np.array(edges[1:])) / 2
    assert found["mean"] == pytest.approx(SHARES @ middles, abs=0.1)
    # The cumulated share is 0.3 at 2 and 0.6 at 4.
    assert found["value"].item() == pytest.approx(2 + 2 * 0.2 / 0.3, abs=0.1)
    # So many answers leave no doubt about its bin, and nothing tells where in it people lie.
    assert (found["lower"].item(), found["upper"].item()) == (2, 4)
    np.testing.assert_allclose(found["density"], SHARES / np.diff(edges), atol=0.01)
    assert found["bin"].values.tolist()[3] == "4 – 8"


def test_smoothing_helps_where_neighbors_are_alike_and_does_not_hurt_elsewhere():
    shares = np.exp(-((np.arange(12) - 5.0) ** 2) / 18)
    shares /= shares.sum()
    errors = np.zeros(2)
    rng = np.random.default_rng(4)
    for _ in range(4):
        responses = survey(1500, 1.0, rng, shares)
        for i, ordered in enumerate((False, True)):
            table = ad.estimate(responses, ordered=ordered).sel(group="everybody")
            errors[i] += np.abs(table["share"].values - shares).sum()
    assert errors[1] < errors[0]
    jagged = np.array([0.45, 0.05, 0.45, 0.05])
    table = ad.estimate(survey(20_000, 3.0, rng, jagged), ordered=True).sel(group="everybody")
    np.testing.assert_allclose(table["share"], jagged, atol=0.02)


def test_the_smoothed_posterior_of_two_categories_is_that_of_an_integral():
    """ln(θ₂/θ₁) is normal with the step as its standard deviation, which is log-normal."""
    estimate, sd = np.array([0.7, 0.3]), 0.1
    drawn = smoothed_shares(estimate, np.array([[1.0, -1.0], [-1.0, 1.0]]) / (4 * sd**2), 1).theta[..., 0, 0]
    z, logs = np.linspace(-12, 12, 4001), np.linspace(LOG_STEP[0] - 5, LOG_STEP[0] + 5, 401)
    prior = np.exp(-0.5 * (z / np.exp(logs)[:, None]) ** 2 - logs[:, None])
    prior = np.exp(-0.5 * ((logs - LOG_STEP[0]) / LOG_STEP[1]) ** 2) @ prior
    share = 1 / (1 + np.exp(z))
    weight = prior * np.exp(-0.5 * ((share - 0.7) / sd) ** 2)
    expected = weight @ share / weight.sum()
    assert drawn.mean() == pytest.approx(expected, abs=4 * drawn.std() / np.sqrt(1000))


def test_what_cannot_be_used_is_refused():
    responses = survey(100, 1.0, np.random.default_rng(5))
    for edges in ([0, 1, 2], [0, 1, 1, 2, 3, 4], [0, 1, 2, 3, 4, float("inf")], "six"):
        with refuses("edges"):
            numbers_in_bins(responses, edges)
    with refuses("probability"):
        ordered_quantiles(responses, [1.5])
    with refuses("ordered"):
        ad.estimate(responses, ordered="yes")
