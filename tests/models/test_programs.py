"""Programs of models/ on private answers recover what they simulate, and refuse what does not fit.

Each posterior is drawn from by a sampler that compiles nothing, on the program's own density: answers that are shifted
by a category, covariates that are swapped and waves in reverse order fail by far. And by NUTS, which takes minutes for
all: always where the posterior is bent, else where slow tests are run.
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import adobest_pp as ad
from models import misspecified, noncompliance, regions, regression, trend, two_questions
from tests.models.fits import RUN, by_hand, by_nuts
from tests.refusals import refuses

BOTH = [by_hand, pytest.param(by_nuts, marks=pytest.mark.slow)]


def z_scores(draws, truth):
    """How many posterior standard deviations the posterior mean is away from the truth, element by element."""
    over = ("chain", "draw")
    return (draws.mean(over).values - truth) / draws.std(over).values


# The false-alarm rate of one recovery, on its fixed seed.
ALARM = 1e-4


def check_recovery(draws, truth):
    """The truth is no further from the posterior mean than the posterior covariance allows (Mahalanobis)."""
    flat = draws.transpose("chain", "draw", ...).values.reshape(draws.sizes["chain"] * draws.sizes["draw"], -1)
    difference = flat.mean(axis=0) - np.ravel(truth)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(flat.T)))
    free = values > 1e-8 * values[-1]  # shares sum to one
    distance = ((difference @ vectors[:, free]) ** 2 / values[free]).sum()
    assert stats.chi2(free.sum()).sf(distance) > ALARM
    assert abs(difference @ vectors[:, ~free]).max(initial=0.0) < 1e-6


@pytest.mark.parametrize("fit", BOTH)
@pytest.mark.parametrize("mechanism", [ad.SRR(4, 2.0), ad.UnaryEncoding(4, 2.0)], ids=repr)
def test_regression_recovers_its_coefficients_and_effects(mechanism, fit):
    responses, covariates, truth = regression.simulate(3000, mechanism, seed=2)
    posterior = fit(regression.build(responses, covariates, ["a", "b", "c", "d"]))
    assert posterior["coefficient"].dims == ("chain", "draw", "term", "category")
    check_recovery(posterior["coefficient"], truth)
    np.testing.assert_allclose(posterior["coefficient"].sum("category"), 0, atol=1e-12)
    effects = regression.marginal_effects(posterior, covariates)
    assert effects.dims == ("chain", "draw", "covariate", "category")
    np.testing.assert_allclose(effects.sum("category"), 0, atol=1e-12)
    check_recovery(effects, true_effects(truth, covariates))


def test_the_effect_of_a_column_of_zeros_and_ones_is_that_of_having_it():
    """A region of 3 % is not a number: "per standard deviation" of it says nothing."""
    rng = np.random.default_rng(1)
    covariates = np.column_stack([rng.normal(size=500), np.arange(500) < 15])
    z, beta = regression.standardized(covariates), rng.normal(size=(3, 4))
    coords = {"term": ["intercept", "age", "islands"], "category": list("abcd")}
    posterior = xr.Dataset({"coefficient": (("chain", "draw", "term", "category"), beta[None, None])}, coords)
    found = regression.marginal_effects(posterior, covariates).sel(covariate="islands").values.ravel()
    shares = []
    for value in (z[:15, 1][0], z[15:, 1][0]):
        odds = np.exp(beta[0] + np.column_stack([z[:, 0], np.full(500, value)]) @ beta[1:])
        shares.append((odds / odds.sum(axis=1, keepdims=True)).mean(axis=0))
    np.testing.assert_allclose(found, shares[0] - shares[1], atol=1e-12)


def true_effects(truth, covariates, step=1e-5):
    """Shares of all people before and after each covariate rises a little."""

    def shares(z):
        logits = truth[0] + z @ truth[1:]
        theta = np.exp(logits)
        return (theta / theta.sum(axis=1, keepdims=True)).mean(axis=0)

    z = regression.standardized(covariates)
    return np.array([(shares(z + step * e) - shares(z - step * e)) / (2 * step) for e in np.eye(z.shape[1])])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ([[1.0], [2.0], [np.nan]], "covariates must be a table of finite numbers, .* got nan in row 2, column 0"),
        ([[1.0], [1.0], [1.0]], "covariates must vary, got a constant in column 0"),
        ([[1.0], [2.0]], "covariates must be 3 rows of 1, got an array of shape"),
    ],
)
def test_a_regression_refuses_bad_covariates(covariates, message):
    responses = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1, 2])
    with pytest.raises(ValueError, match=message):
        regression.build(responses, covariates, ["age"])


@pytest.mark.parametrize("fit", BOTH)
def test_regions_recover_and_pool_small_populations_towards_the_others(fit):
    responses, region, truth = regions.simulate({"large": 20_000, "middle": 5_000, "small": 30}, seed=1)
    assert len(set(responses.epsilons)) == 2
    theta = fit(regions.build(responses, region), known={"spread": 0.3}, target_accept=0.9)["theta"]
    assert theta.dims == ("chain", "draw", "region", "category")
    assert theta["region"].values.tolist() == ["large", "middle", "small"]
    check_recovery(theta, truth)
    width = theta.std(("chain", "draw")).sel(region="small").values
    alone = ad.Responses.from_arrays(ad.SRR(4, 1.0), responses.answers[-30:, 1])
    unpooled = ad.sample(alone, prior=1.0, **RUN)["posterior"]["theta"].std(("chain", "draw")).values
    assert width.sum() < unpooled.sum()


@pytest.mark.parametrize("fit", BOTH)
def test_a_trend_is_followed_over_a_wave_without_answers(fit):
    people = [3000, 3000, 0, 3000, 500]
    responses, wave, truth = trend.simulate(people, seed=4)
    theta = fit(trend.build(responses, wave, range(2020, 2025)), known={"drift": 0.2}, target_accept=0.9)["theta"]
    assert theta["wave"].values.tolist() == [2020, 2021, 2022, 2023, 2024]
    check_recovery(theta, truth)
    spread = theta.std(("chain", "draw")).sum("category").values
    assert spread[2] > spread[1]
    with refuses("group"):
        trend.build(responses, wave, range(2020, 2024))


@pytest.mark.parametrize("fit", BOTH)
def test_two_questions_find_the_table_and_its_association(fit):
    table = np.array([[0.35, 0.10, 0.05], [0.05, 0.15, 0.30]])
    first, second = two_questions.simulate(20_000, table, epsilon=2.0, seed=5)
    pairs = two_questions.product(first, second)
    assert pairs.mechanism.epsilon == pytest.approx(4.0, abs=1e-12)
    posterior = fit(two_questions.build(first, second))
    check_recovery(posterior["table"], table)
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    association = np.sqrt(((table - rows * columns) ** 2 / (rows * columns)).sum())
    check_recovery(posterior["association"], association)
    check_recovery(posterior["given"], table / rows)


def test_two_questions_must_be_pairs_of_finite_mechanisms():
    first, second = two_questions.simulate(10, [[0.25, 0.25], [0.25, 0.25]], epsilon=1.0, seed=1)
    with refuses("second"):
        two_questions.product(first, ad.Responses.from_arrays(second.mechanism, second.answers[:9]))
    adaptive = ad.Responses.from_arrays(ad.RRRR(2, 1.0), [0] * 10, [1])
    with refuses("second"):
        two_questions.product(first, adaptive)


@pytest.mark.parametrize(
    ("always", "fit"),
    [
        (None, by_nuts),  # people who answer at random bend the posterior most
        ("never", by_hand),
        pytest.param("never", by_nuts, marks=pytest.mark.slow),
    ],
)
def test_people_who_do_not_comply_are_counted_and_do_not_bias(always, fit):
    responses, truth = noncompliance.simulate(30_000, refused=0.2, always=always, seed=6)
    posterior = fit(noncompliance.build(responses, always))
    check_recovery(posterior["theta"], truth)
    check_recovery(posterior["refused"], 0.2)
    naive = ad.sample(responses, **RUN).posterior.theta
    assert np.abs(z_scores(naive, truth)).max() > 5


def test_noncompliance_refuses_what_it_cannot_take():
    with refuses("always"):
        noncompliance.build(noncompliance.simulate(10, 0.1, None, 1)[0], "nobody")
    with refuses("responses"):
        noncompliance.build(ad.Responses.from_arrays(ad.UnaryEncoding(2, 1.0), [[0, 1]]))


def test_the_doubt_about_epsilon_is_in_the_intervals():
    responses, truth = misspecified.simulate(20_000, true_epsilon=1.0, assumed_epsilon=1.25, seed=7)
    posterior = by_nuts(misspecified.build(responses, spread=0.2), target_accept=0.9)
    check_recovery(posterior["theta"], truth)
    check_recovery(posterior["epsilon"], 1.0)
    naive = ad.sample(responses, **RUN).posterior.theta
    assert np.abs(z_scores(naive, truth)).max() > 4.5
    with refuses("responses"):
        misspecified.build(ad.Responses(ad.UnaryEncoding(3, 1.0)), 0.1)
    with refuses("spread"):
        misspecified.build(responses, -1.0)
