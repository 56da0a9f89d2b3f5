"""What ArviZ does with a tree of `pymc.sample`, it does with a tree of ours."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from tests.strategies import simulated

K = 3
QUIET = {"progressbar": False, "random_seed": 1}
QUICK = {"compile_kwargs": {"mode": "FAST_COMPILE"}}
RESPONSES = simulated(ad.SRR(K, 2.0), 80, seed=1)


def completed(tree):
    """With all groups that PyMC can add."""
    with ad.frequency_model(RESPONSES):
        prior = pm.sample_prior_predictive(200, random_seed=1, **QUICK)
        for group in ("prior", "prior_predictive"):
            tree[group] = prior[group]
        pm.sample_posterior_predictive(tree, extend_inferencedata=True, **QUIET, **QUICK)
        pm.compute_log_likelihood(tree, progressbar=False, **QUICK)
        pm.stats.compute_log_prior(tree, progressbar=False, **QUICK)
    return tree


@pytest.fixture(scope="module")
def ours():
    return completed(ad.sample(RESPONSES, draws=100, tune=200, chains=2, **QUIET))


@pytest.fixture(scope="module")
def theirs():
    with ad.frequency_model(RESPONSES):
        trace = pm.sample(100, tune=200, chains=2, **QUIET)
    return completed(trace)


CALLS = {
    "summary": lambda tree: az.summary(tree, var_names=["theta"], ci_kind="eti", ci_prob=0.9),
    "ess": az.ess,
    "rhat": az.rhat,
    "mcse": az.mcse,
    "hdi": lambda tree: az.hdi(tree, prob=0.9),
    "eti": lambda tree: az.eti(tree, prob=0.9),
    "loo": az.loo,
    "extract": lambda tree: az.extract(tree, var_names=["theta"]),
    "extract observed": lambda tree: az.extract(tree, group="observed_data", sample_dims=["response"]),
    "bfmi": az.bfmi,
    "convert_to_datatree": az.convert_to_datatree,
    "compare": lambda tree: az.compare({"a": tree, "b": tree}),
}
PLOTS = [name for name in dir(az) if name.startswith("plot_")]


@pytest.mark.filterwarnings("ignore")  # ArviZ warns of few draws
@pytest.mark.parametrize("name", CALLS)
def test_functions(ours, name):
    CALLS[name](ours)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_functions_are_called_as_for_a_tree_of_pymc(theirs, name):
    CALLS[name](theirs)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_plots(ours, theirs):
    """All plots that work on a tree of PyMC alone, or with the names of variables."""
    mpl.use("agg")
    worked, failed = [], {}
    for name in PLOTS:
        plot = getattr(az, name)
        for options in ({}, {"var_names": ["theta"]}, {"var_names": ["y"]}):
            try:
                plot(theirs, **options)
            except Exception:
                continue
            worked.append(name)
            try:
                plot(ours, **options)
            except Exception as problem:
                failed[name] = f"{type(problem).__name__}: {problem}"
            break
        mpl.pyplot.close("all")
    assert failed == {}
    assert len(worked) >= 15, worked


@pytest.mark.long
def test_groups_are_those_of_pymc_and_the_responses(ours, theirs):
    assert {*ours.children} == ({*theirs.children} - {"constant_data"}) | {"responses"}
    np.testing.assert_array_equal(ours["observed_data"]["y"], theirs["observed_data"]["y"])
    assert not {*ours.attrs} & {*ours.children}


def test_a_tree_that_pymc_has_extended_still_has_its_responses(ours):
    assert ad.diagnostics.compare({"nuts": ours}, reference="nuts").stein_missing.values.tolist() == [""]
    assert 0 <= ad.diagnostics.goodness_of_fit(ours).p_value <= 1
    assert ad.extend(ours, 10, progressbar=False)["posterior"].sizes["draw"] == 110
    assert np.isfinite(ad.intervals.summary(ours).to_array().values.astype(float)).any()


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [ad.UnaryEncoding(K, 1.0), ad.SubsetSelection(K, 1.0, size=2)], ids=repr)
def test_answers_of_several_numbers_are_observed_as_in_pymc(mechanism):
    responses = simulated(mechanism, 12, seed=1)
    tree = ad.sample(responses, "gibbs", draws=10, tune=0, chains=2, **QUIET)
    np.testing.assert_array_equal(tree["observed_data"]["y"], responses.answers)
    assert tree["observed_data"]["y"].dims == ("response", *mechanism.answer_dims)
