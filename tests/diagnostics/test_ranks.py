"""Tests by ranks hold their level where moments do not, lose nothing where these do, and know ties."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom, norm
from scipy.stats import t as student

from adobest_pp import SRR, Responses, diagnostics
from adobest_pp.diagnostics import comparison
from adobest_pp.diagnostics import draws as _draws
from adobest_pp.diagnostics.draws import normal_scores, rank_tests
from tests.diagnostics.test_comparison import tree


def sparse(seed, concentration, k=5, shape=(4, 500)):
    """Draws of a Dirichlet distribution by log-gammas, most of them all but 0, and some of them 0."""
    rng = np.random.default_rng(seed)
    size = (*shape, k)
    logs = np.log(rng.gamma(concentration + 1, size=size)) + np.log(rng.random(size)) / concentration
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def autoregressive(rng, correlation, shape):
    noise = rng.normal(size=shape) * np.sqrt(1 - correlation**2)
    noise[:, 0] /= np.sqrt(1 - correlation**2)
    for i in range(1, shape[1]):
        noise[:, i] += correlation * noise[:, i - 1]
    return noise


def bare(theta):
    """A tree without prior and answers, so that no Stein discrepancy is computed."""
    coords = {"category": [f"c{i}" for i in range(theta.shape[-1])]}
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, coords)})


def test_normal_scores_are_those_of_both_sets_together():
    first, second = np.array([[[0.0], [3.0], [0.0]]]), np.array([[[0.0], [9.0]]])
    one, two = normal_scores(first, second)
    ranks = (np.array([2.0, 4.0, 2.0, 2.0, 5.0]) - 0.375) / 5.25
    np.testing.assert_allclose(np.append(one, two), norm.ppf(ranks))
    assert (one.shape, two.shape) == (first.shape, second.shape)
    theta = sparse(1, 0.3)
    for got, expected in zip(normal_scores(theta**3, theta[:2] ** 3), normal_scores(theta, theta[:2]), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_errors_are_those_of_the_textbook_for_independent_draws():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.1, 1.2, size=(4, 1000, 2)), rng.normal(size=(2, 1000, 2))
    # Taken as scores themselves; sizes 4000 and 2000.
    found = rank_tests(x, y)
    flat = [z.reshape(-1, 2) for z in (x, y)]
    shift, ratio = flat[0].mean(axis=0) - flat[1].mean(axis=0), flat[0].std(axis=0) / flat[1].std(axis=0)
    np.testing.assert_allclose(found.location, shift)
    np.testing.assert_allclose(found.scale, ratio)
    rate = 1 / 4000 + 1 / 2000
    variance = (flat[0].var(axis=0) + flat[1].var(axis=0)) / 2
    np.testing.assert_allclose(found.location_error, shift / np.sqrt(variance * rate), rtol=0.15)
    # The variance of ln sd of n Gaussian draws is 1/2n; of the mixture of the two, a little more.
    np.testing.assert_allclose(found.scale_error, np.log(ratio) / np.sqrt(rate / 2), rtol=0.2)
    assert found.ess == pytest.approx(2000, rel=0.15)


def test_the_error_of_the_scale_rests_on_how_squares_mix():
    rng = np.random.default_rng(6)
    fresh = rng.normal(size=(4, 1000, 1))
    assert rank_tests(fresh, fresh[::-1]).ess > 2500
    # Signs are independent, sizes are not; and one long visit to the tail, which ranks hardly see.
    slow = np.abs(autoregressive(rng, 0.95, fresh.shape)) * rng.choice([-1.0, 1.0], size=fresh.shape)
    assert rank_tests(slow, fresh).ess < 600
    visit = fresh.copy()
    visit[0, 300:330] = 6.0
    assert rank_tests(visit, fresh).ess < 600


def test_a_moved_mean_is_no_other_scale_and_a_rare_value_not_yet_seen_is_no_fault():
    rng = np.random.default_rng(4)
    few, many = rng.normal(1.0, size=(4, 100, 1)), rng.normal(size=(4, 2000, 1))
    found = rank_tests(*normal_scores(few, many))
    assert found.location_error > 10
    assert abs(found.scale_error) < 3
    # One in a hundred is 1, the others are 0: 400 draws may well have none. Its own variance would be 0.
    rare = np.zeros((4, 2000, 1))
    rare[:, ::100] = 1
    none = np.zeros((4, 100, 1))
    none[0, 0] = 1
    assert np.abs(rank_tests(*normal_scores(none, rare)).location_error) < 2


@pytest.mark.parametrize("concentration", [0.001, 0.02])
def test_the_level_holds_where_the_posterior_is_sparse(concentration):
    """Location and scale of 100 pairs of right draws at 10 %: more than 20 or 20 alarms are one in a thousand."""
    alarms = np.zeros(2)
    for seed in range(100):
        first, second = sparse([seed, 1], concentration, 3, (2, 150)), sparse([seed, 2], concentration, 3, (2, 600))
        found = rank_tests(*normal_scores(first, second))
        p_values = [comparison.p_value(error, found.ess) for error in (found.location_error, found.scale_error)]
        alarms += np.array(p_values) <= 0.1
    assert binom.sf(20, 100, 0.1) < 1e-3
    assert np.all(alarms <= 20), alarms


def test_right_sparse_draws_are_not_called_biased():
    prior = np.full(5, 0.001)
    trees = {
        name: tree(sparse(seed, 0.001), labels=tuple("abcde"), prior=prior) for name, seed in (("nuts", 1), ("it", 2))
    }
    result = diagnostics.compare(trees, resamples=399, max_points=200)
    assert result.verdict.values.tolist() == ["reference", "indistinguishable"]
    assert np.isnan(result.stein_p_value).all()
    assert (result.sd_ratio_mcse > 0).all()


def test_shares_beyond_what_doubles_resolve_are_equal():
    """One sampler stops at zero and another above it; one rounds up to 1 and another does not."""
    theta = sparse(1, 0.001)
    other = np.where(theta < 1e-305, 1e-307 * np.random.default_rng(0).random(theta.shape), theta)
    other = np.where(other == 1.0, 1 - 2e-16, other)
    assert (other != theta).mean() > 0.2
    row = diagnostics.compare({"nuts": bare(theta), "it": bare(other)}, resamples=99).sel(sampler="it")
    assert (row.location == 0).all()
    assert (row.scale == 1).all()


def test_faults_of_sparse_draws_are_told_by_normal_scores(monkeypatch):
    monkeypatch.setattr(comparison, "check_on_simplex", lambda _: None)  # numbers of any size, each by itself
    rng = np.random.default_rng(3)
    log_theta = rng.normal(size=(2, 4, 1000, 3)) * [8.0, 1.0, 1.0] - 12
    log_theta[1, ..., 0] *= 1.2
    log_theta[1, ..., 0] += 0.2 * 12
    log_theta[1, ..., 2] += 0.3
    right, wrong = np.exp(log_theta)
    result = diagnostics.compare({"nuts": bare(right), "it": bare(wrong)}, resamples=399, max_points=200)
    row = result.sel(sampler="it")
    # Moments of the first category rest on few of its draws, those of the third on all.
    assert row.sd_ratio_mcse[0] > comparison.MAX_SD_MCSE > row.sd_ratio_mcse[2]
    shown = [row[f"{test}_{part}"].item() for test in ("location", "scale") for part in ("category", "measure")]
    assert shown == ["c2", "mean_shift", "c0", "scale"]
    swapped = diagnostics.compare({"nuts": bare(right[..., :1]), "it": bare(np.exp(log_theta[1, ..., :1] + 4))})
    assert swapped.sel(sampler="it").location_measure == "location"


def judged(**changes):
    """What is found of three categories, the second of which is beyond the limit in both tests."""
    row = {
        "location": np.array([0.9, -0.5, 0.1]),
        "location_error": np.array([1.0, -9.0, 0.0]),
        "scale": np.array([3.0, 0.8, 1.0]),
        "scale_error": np.array([1.0, -9.0, 0.0]),
        "mean_shift": np.array([0.9, -0.4, 0.1]),
        "sd_ratio": np.array([3.0, 0.7, 1.0]),
        "sd_ratio_mcse": np.array([0.1, 0.1, 0.1]),
        "energy_p_value": 0.5,
        "stein_p_value": np.nan,
        "r_hat": 1.0,
        "ess_bulk": 1000.0,
        "error_limit": 4.0,
    }
    return comparison.judge(row | changes, ("a", "b", "c"), converged=changes.pop("converged", True))


def verdict_of(found):
    return found["verdict"], found["fault"]


def location(found):
    return tuple(found[f"location_{part}"] for part in ("category", "measure", "size"))


def scale(found):
    return tuple(found[f"scale_{part}"] for part in ("category", "measure", "size"))


def test_the_size_of_a_bias_is_that_of_theta_where_it_is_known_and_agrees():
    none = np.zeros(3)
    assert verdict_of(judged()) == ("biased", "marginal")
    assert location(judged()) == ("b", "mean_shift", -0.4)
    assert scale(judged()) == ("b", "sd_ratio", 0.7)
    unknown = judged(sd_ratio_mcse=np.array([0.1, 0.2, 0.1]))
    other_side = judged(mean_shift=np.array([0.9, 0.4, 0.1]), sd_ratio=np.array([3.0, 1.1, 1.0]))
    for found in (unknown, other_side):
        assert location(found) == ("b", "location", -0.5)
        assert scale(found) == ("b", "scale", 0.8)
    assert verdict_of(judged(scale_error=none)) == verdict_of(judged(location_error=none)) == ("biased", "marginal")
    assert scale(judged(scale_error=none))[:2] == location(judged(location_error=none))[:2] == ("", "")


def test_a_verdict_is_the_first_fault_that_is_found():
    none = np.zeros(3)
    fine = {"location_error": none, "scale_error": none}
    assert verdict_of(judged(**fine)) == ("indistinguishable", "")
    assert verdict_of(judged(**fine, energy_p_value=0.0025, stein_p_value=0.0025)) == ("biased", "energy")
    assert verdict_of(judged(**fine, stein_p_value=0.0025)) == ("biased", "stein")
    assert verdict_of(judged(**fine, energy_p_value=0.0026, stein_p_value=0.0026)) == ("indistinguishable", "")
    assert verdict_of(judged(r_hat=1.051, ess_bulk=9.0)) == ("not_mixed", "r_hat")
    assert verdict_of(judged(r_hat=1.049, ess_bulk=99.0)) == ("not_mixed", "ess")
    assert verdict_of(judged(**fine, r_hat=1.049, ess_bulk=101.0)) == ("indistinguishable", "")
    assert verdict_of(judged(r_hat=np.nan)) == ("not_mixed", "single_chain")
    assert verdict_of(judged(r_hat=np.nan, ess_bulk=np.nan)) == ("not_mixed", "stuck")
    assert verdict_of(judged(r_hat=1.051, converged=False)) == ("not_mixed", "r_hat")
    assert verdict_of(judged(converged=False)) == ("no_verdict", "")
    assert location(judged(converged=False))[:2] == ("", "")


def test_a_reference_is_held_to_more():
    def reference(r_hat, ess, p_value, k=300):
        return verdict_of(comparison.judge_reference({"r_hat": r_hat, "ess_bulk": ess, "stein_p_value": p_value}, k))

    assert reference(1.009, 401, 0.0026) == ("reference", "")
    assert reference(1.012, 401, 0.5) == ("reference_not_converged", "r_hat")
    assert reference(1.009, 399, np.nan) == ("reference_not_converged", "ess")
    assert reference(1.009, 401, 0.0025) == ("reference_not_converged", "stein")
    # The largest of more R-hats is larger by chance.
    assert reference(1.019, 401, 0.5, k=301) == ("reference", "")
    assert reference(1.021, 401, 0.5, k=301) == ("reference_not_converged", "r_hat")


@pytest.mark.parametrize(("k", "ess", "freedom"), [(1, 800.0, 100), (20, 160.0, 20), (5, 3.0, 1)])
def test_the_limit_is_students_for_all_categories_together(k, ess, freedom):
    """1 % by four families, K categories and two sides, with one degree of freedom for 8 effective draws."""
    limit = comparison.error_limit(k, ess)
    assert 2 * student.sf(limit, freedom) == pytest.approx(0.01 / 4 / k)
    errors = np.append(np.zeros(k - 1), -limit)
    assert comparison.p_value(errors, ess) == pytest.approx(0.01 / 4)
    assert comparison.p_value(np.zeros(k), ess) == 1


def test_draws_are_thinned_until_they_are_independent():
    rng = np.random.default_rng(5)
    values = autoregressive(rng, 0.8, (4, 4500, 1))
    ess = 4 * 4500 * 0.2 / 1.8
    thin = _draws.independent(values, ess, 10_000)
    assert len(thin) == 1000
    chains = thin.reshape(4, 250)
    assert abs(np.corrcoef(chains[:, 1:].ravel(), chains[:, :-1].ravel())[0, 1]) < 0.1
    assert len(_draws.independent(values, ess, 300)) == 300
    # In the middle of equal stretches of each chain.
    np.testing.assert_array_equal(_draws.thinned(np.arange(20.0).reshape(2, 10, 1), 4).ravel(), [2, 7, 12, 17])
    assert len(_draws.thinned(values, 1)) == 4


def test_stein_is_left_out_where_log_ratios_are_not_known():
    theta = sparse(1, 1.0, 3).reshape(-1, 3)
    assert _draws.stein_holds_for(theta)
    theta[: len(theta) // 50, 1] = 0.0
    assert not _draws.stein_holds_for(theta)
    assert _draws.stein_holds_for(theta[len(theta) // 75 :])
    theta[:, 1] = np.maximum(theta[:, 1], 1e-307)
    assert _draws.stein_holds_for(theta)


def test_stein_holds_its_level_just_above_that():
    """The second sparsest prior: 40 pairs of right draws, at 10 %: more than 11 alarms are one in a thousand."""
    prior, evidence = np.full(3, 0.01), Responses(SRR(3, 1.0)).evidence()
    rng, alarms = np.random.default_rng(7), 0
    for seed in range(40):
        theta = sparse(seed, 0.01, 3, (1, 100))[0]
        scale = _draws.scale_of(_draws.log_ratios(theta))
        points = np.linalg.solve(scale, _draws.log_ratios(theta).T).T
        kernel = _draws.stein_kernel(points, _draws.scores(theta, evidence, prior) @ scale)
        alarms += _draws.stein_test(kernel, 99, 0.1, rng)[2] <= 0.1
    assert binom.sf(11, 40, 0.1) < 1e-3
    assert alarms <= 11
