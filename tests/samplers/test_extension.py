"""More draws of a run, and the log-likelihood of each response."""

import arviz as az
import numpy as np
import pytest
import xarray as xr

import adobest_pp as ad
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import simulated

RESPONSES = simulated(ad.SRR(3, 2.0), 200, seed=1)
RUN = {"draws": 100, "tune": 100, "chains": 2, "random_seed": 3, "progressbar": False}


@pytest.mark.parametrize("sampler", ["nuts", "gibbs", "sgld_cv", "blocks"])
def test_the_old_draws_stay_and_the_new_ones_are_of_the_posterior(sampler):
    first = ad.sample(RESPONSES, sampler, **RUN)
    longer = ad.extend(first, 900, progressbar=False)
    assert longer.posterior.sizes["draw"] == 1000
    np.testing.assert_array_equal(longer.posterior.theta.values[:, :100], first.posterior.theta.values)
    np.testing.assert_array_equal(longer.posterior.draw, np.arange(1000))
    assert longer.sample_stats.sizes["draw"] == 1000
    assert longer.attrs["extended_by"] == [900]
    assert first.posterior.sizes["draw"] == 100
    exact = ad.sample(RESPONSES, "nuts", **RUN | {"draws": 2000})
    added, reference = longer.posterior.theta.isel(draw=slice(100, None)), exact.posterior.theta
    error = float(reference.std(("chain", "draw")).max()) * np.sqrt(1 / 400 + 1 / 2000)
    assert np.abs(added.mean(("chain", "draw")) - reference.mean(("chain", "draw"))).max() < 4.5 * error


def test_gibbs_goes_on_from_its_last_draw():
    first = ad.sample(RESPONSES, "gibbs", **RUN)
    longer = ad.extend(first, 5, progressbar=False)
    step = 0.5 * np.abs(longer.posterior.theta.values[:, 100] - first.posterior.theta.values[:, -1]).sum(axis=1)
    np.testing.assert_allclose(longer.sample_stats["gibbs_distance"].values[:, 100], step)


def test_the_record_gives_the_same_draws_again():
    tree = ad.extend(ad.extend(ad.sample(RESPONSES, "gibbs", **RUN), 30), 40)
    again = ad.sample(RESPONSES, progressbar=False, **ad.recorded_arguments(tree.attrs))
    for draws in tree.attrs["extended_by"]:
        again = ad.extend(again, draws)
    np.testing.assert_array_equal(again.posterior.theta, tree.posterior.theta)
    # Other draws than those before: the seed depends on how many there are.
    assert not np.isin(tree.posterior.theta.values[:, 130:], tree.posterior.theta.values[:, :130]).any()


def test_sgld_is_made_again_for_longer():
    first = ad.sample(RESPONSES, "sgld", **RUN | {"draws": 300})
    longer = ad.extend(first, 200, progressbar=False)
    np.testing.assert_array_equal(longer.posterior.theta.values[:, :300], first.posterior.theta.values)
    direct = ad.sample(RESPONSES, "sgld", **RUN | {"draws": 500})
    np.testing.assert_array_equal(longer.posterior.theta, direct.posterior.theta)


def test_a_learned_prior_and_a_file(tmp_path):
    first = ad.sample(RESPONSES, "nuts", prior="learned", log_likelihood=True, **RUN)
    first.to_netcdf(tmp_path / "draws.nc")
    with xr.open_datatree(tmp_path / "draws.nc") as opened:
        longer = ad.extend(opened.load(), 50, progressbar=False)
    assert longer.posterior["concentration"].shape == (2, 150)
    assert longer["log_likelihood"]["y"].shape == (2, 150, 200)
    assert not np.isnan(longer.posterior.theta.values).any()
    longer.to_netcdf(tmp_path / "longer.nc")
    with xr.open_datatree(tmp_path / "longer.nc") as opened:
        assert ad.extend(opened.load(), 7, progressbar=False).attrs["extended_by"] == [50, 7]


def test_bad_trees_are_refused():
    tree = ad.sample(RESPONSES, "gibbs", **RUN)
    with refuses("draws"):
        ad.extend(tree, 0)
    with refuses("tree"):
        ad.extend(xr.DataTree(), 10)
    cut = tree.copy()
    del cut["responses"]
    with refuses("tree"):
        ad.extend(cut, 10)
    with refuses("tree"):
        ad.extend(tree.isel(draw=slice(50)), 10)


@pytest.mark.parametrize("sampler", ["nuts", "gibbs", "sgld", "sgld_cv"])
def test_the_log_likelihood_of_each_response_is_the_oracle(sampler):
    tree = ad.sample(RESPONSES, sampler, log_likelihood=True, **RUN)
    terms = tree["log_likelihood"]["y"]
    assert terms.dims == ("chain", "draw", "response")
    expected = np.log(tree.posterior.theta.values @ rows_of(RESPONSES).T)
    np.testing.assert_allclose(terms.values, expected, rtol=1e-10)
    assert "log_likelihood" not in ad.sample(RESPONSES, sampler, **RUN)


def test_the_log_likelihood_has_the_scale_of_each_answer():
    """P(answer) of subset selection has a factor that the sampler leaves out."""
    responses = simulated(ad.SubsetSelection(3, 1.0, size=1), 40, seed=2)
    tree = ad.sample(responses, "gibbs", log_likelihood=True, **RUN)
    expected = np.log(tree.posterior.theta.values @ rows_of(responses).T)
    np.testing.assert_allclose(tree["log_likelihood"]["y"].values, expected, rtol=1e-10)


def test_loo_compares_priors():
    trees = {
        str(prior): ad.sample(RESPONSES, prior=prior, log_likelihood=True, **RUN | {"draws": 500})
        for prior in (1.0, 1000.0)
    }
    assert np.isfinite(az.loo(trees["1.0"]).elpd)
    assert az.compare(trees).index[0] == "1.0"


def test_a_log_likelihood_that_is_too_large_or_no_flag_is_refused():
    with refuses("log_likelihood"):
        ad.sample(RESPONSES, log_likelihood="yes")
    with pytest.raises(ValueError, match="draws × chains × responses must be at most"):
        ad.sample(RESPONSES, draws=10_000_000, tune=1, chains=4, log_likelihood=True)
