"""Gathered answers are sampled as those one by one, and stores of packed bits as evidence is."""

import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from adobest_pp._numerics import seed_state
from adobest_pp.answers.gather.gathered import FileCounts, Gathered
from adobest_pp.answers.gather.tallies import Tally
from adobest_pp.diagnostics import compare, goodness_of_fit
from adobest_pp.samplers import choice
from adobest_pp.samplers.sgld_cv import control_variates as packed_sets
from adobest_pp.samplers.sgld_cv.control_variates import anchor_at, rows_of
from tests.refusals import refuses
from tests.strategies import simulated

NAMES = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same answers one by one and gathered."""
    found = simulated(ad.RRRR(3, 2.0), 400, 1)
    responses = ad.Responses.from_arrays(
        found.mechanism, found.answers, found.subsets, found.subset_index, categories=NAMES
    )
    folder = tmp_path_factory.mktemp("answers")
    responses.to_parquet(folder / "a.parquet")
    return responses, ad.gather(folder)


@pytest.mark.parametrize("sampler", ["nuts", "gibbs", "sgld_cv"])
def test_the_draws_are_the_same_to_the_last_bit(both, sampler):
    trees = [ad.sample(each, sampler, draws=200, tune=200, random_seed=1, progressbar=False) for each in both]
    np.testing.assert_array_equal(trees[1].posterior.theta, trees[0].posterior.theta)
    assert trees[1].posterior.category.values.tolist() == NAMES
    assert trees[1].attrs["fit_p_value"] == pytest.approx(trees[0].attrs["fit_p_value"], rel=1e-6)
    assert trees[1].attrs["n_responses"] == 400


def test_diagnostics_find_the_answers_in_the_draws(both, tmp_path):
    one, other = (ad.sample(each, "gibbs", draws=600, random_seed=i, progressbar=False) for i, each in enumerate(both))
    other.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    import xarray as xr

    with xr.open_datatree(tmp_path / "draws.nc", engine="h5netcdf") as opened:
        other = opened.load()
    result = compare({"one": one, "other": other}, reference="one")
    assert np.isfinite(result.stein_discrepancy.sel(sampler="other"))
    assert bool(goodness_of_fit(other).fits)
    assert ad.extend(other, 50, progressbar=False).posterior.sizes["draw"] == 650
    less = both[0].answers[:-1], both[0].subsets, both[0].subset_index[:-1]
    others = ad.Responses.from_arrays(both[0].mechanism, *less, categories=NAMES)
    wrong = ad.sample(others, "gibbs", draws=600, progressbar=False)
    with refuses("draws"):
        compare({"one": wrong, "other": other}, reference="one")


@pytest.mark.parametrize("options", [{}, {"gradient": "control_variates"}, {"diffusion": "cox_ingersoll_ross"}])
def test_sgld_numbers_gathered_answers_in_the_order_of_their_rows(both, options):
    """To the last bit the draws given the same answers one by one, in that order."""
    responses, gathered = both
    order = np.argsort(responses.evidence_index(), kind="stable")
    tables = responses.answers[order], responses.subsets, responses.subset_index[order]
    in_order = ad.Responses.from_arrays(responses.mechanism, *tables, categories=NAMES)
    one, other = (
        ad.sample(each, "sgld", draws=50, tune=0, random_seed=1, progressbar=False, **options)
        for each in (in_order, gathered)
    )
    np.testing.assert_array_equal(other.posterior.theta, one.posterior.theta)


def counted(total):
    """Gathered answers of so many people, whose shares of θ are 0.6, 0.3 and 0.1."""
    mechanism = ad.SRR(3, 1.0)
    count = np.round(total * (mechanism.transition_matrix() @ [0.6, 0.3, 0.1])).astype(np.int64)
    keys = np.arange(3)[:, None].astype(">u8").view(np.uint8)
    return Gathered(mechanism, tuple(NAMES), Tally(keys, count), {"a.parquet": FileCounts(int(count.sum()), 0)})


@pytest.mark.parametrize(("sampler", "options"), [("gibbs", {}), ("sgld", {}), ("sgld", {"gradient": "full"})])
def test_memory_does_not_grow_with_the_number_of_gathered_answers(sampler, options):
    """10¹² answers, of which a number each would take 8 TB. Without minibatch noise, θ is known to about 1.3e-6."""
    gathered = counted(10**12)
    tree = ad.sample(gathered, sampler, draws=300, tune=300, chains=1, random_seed=1, progressbar=False, **options)
    assert tree.attrs["n_responses"] == 10**12
    close = 0.05 if sampler == "sgld" and not options else 1e-5
    np.testing.assert_allclose(tree.posterior.theta.mean(("chain", "draw")), [0.6, 0.3, 0.1], atol=close)


def test_a_step_method_needs_no_memory_for_each_gathered_answer():
    with ad.frequency_model(counted(10**12), surrogate=True) as model:
        step = ad.SGLD(model["phi"])
    assert step.populations == (10**12,)


@pytest.mark.parametrize("surrogate", [False, True])
def test_models_have_the_same_density_up_to_nothing(both, surrogate):
    models = [ad.frequency_model(each, 0.7, surrogate) for each in both]
    point = models[0].initial_point()
    densities = [model.compile_logp(mode="FAST_COMPILE")(point) for model in models]
    assert densities[1] == pytest.approx(densities[0], rel=1e-12)
    gradients = [model.compile_dlogp(mode="FAST_COMPILE")(point) for model in models]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-9)


def test_step_methods_find_the_evidence_of_gathered_answers(both):
    with ad.frequency_model(both[1]) as model:
        step = ad.DataAugmentationGibbs(model["theta"])
        assert step.evidence == both[0].evidence()
        draws = pm.sample(50, tune=10, chains=1, step=step, progressbar=False, compute_convergence_checks=False)
    assert draws.posterior.sizes["draw"] == 50
    with ad.frequency_model(both[1], surrogate=True) as model:
        ad.SGLD(model["phi"])
    with ad.frequency_model(both[1]) as model:
        pm.Potential("other", 2 * model["theta"][0])
        with pytest.raises(ValueError, match="must enter one PrivateResponse and nothing else"):
            ad.DataAugmentationGibbs(model["theta"])


def test_what_gathered_answers_cannot_tell_is_refused(both):
    responses, gathered = both
    with refuses("log_likelihood"):
        ad.sample(gathered, log_likelihood=True)
    with refuses("responses"):
        ad.sample(responses.evidence())
    with pm.Model(coords={"category": NAMES, "region": ["north", "south"]}):
        theta = pm.Dirichlet("theta", a=np.ones(3), dims=("region", "category"))
        with refuses("group"):
            ad.PrivateResponse("y", theta, gathered, group=np.zeros(400, dtype=int))
        with refuses("theta"):
            ad.PrivateResponse("y", theta, gathered)


# Packed sets.


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Answers of unary encoding that do not collapse, one by one and in a store."""
    mechanism, rng = ad.UnaryEncoding(30, 2.0), np.random.default_rng(3)
    theta = rng.dirichlet(np.ones(30))
    answers = mechanism.privatize(rng.choice(30, size=3000, p=theta), rng=rng)
    responses = ad.Responses.from_arrays(mechanism, answers)
    folder = tmp_path_factory.mktemp("bits")
    for i, part in enumerate(np.split(answers, [1000, 1001])):
        ad.Responses.from_arrays(mechanism, part).to_parquet(folder / f"{i}.parquet")
    return responses, ad.gather(folder)


def packed_of(gathered, monkeypatch):
    monkeypatch.setattr(choice, "MANY_SETS", 0)
    return choice.packed_sets(gathered)


def test_the_anchor_of_packed_sets_is_that_of_the_evidence(store, monkeypatch):
    responses, gathered = store
    packed, theta = packed_of(gathered, monkeypatch), np.random.default_rng(1).dirichlet(np.ones(30))
    evidence = responses.evidence()
    expected = anchor_at(theta, evidence, rows_of(evidence))
    found = anchor_at(theta, packed, rows_of(packed))
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-10)
    np.testing.assert_allclose(found.information, expected.information, rtol=1e-10)


def test_batches_of_packed_sets_estimate_what_is_left_to_them(store, monkeypatch):
    """The mean of 4000 batches of 50 against the sum over all rows, at five standard errors for each of 30 numbers."""
    responses, gathered = store
    packed, rng = packed_of(gathered, monkeypatch), np.random.default_rng(1)
    hat, theta = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    rows, evidence = responses.evidence().matrix() - 1, responses.evidence()
    inverse = 1 / (1 + rows @ hat)
    r = inverse * (rows @ (theta - hat))
    expected = (evidence.count * inverse * r**2 / (1 + r)) @ rows
    state, found = seed_state(1), np.zeros((4000, 30))
    for slope in found:
        packed_sets.add_packed_batch(state, 50, packed.inside, hat, theta - hat, packed.packed, slope)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - expected) < 5 * error).all()


@pytest.mark.long
def test_draws_from_a_store_are_of_the_posterior_whatever_its_pieces(store, monkeypatch, tmp_path):
    responses, gathered = store
    reference = ad.sample(responses, "nuts", draws=1000, random_seed=1, progressbar=False)
    packed_of(gathered, monkeypatch)
    tree = ad.sample(gathered, "sgld_cv", draws=1000, random_seed=2, progressbar=False)
    result = compare({"store": tree, "nuts": reference}, reference="nuts")
    assert result.verdict.sel(sampler="store").item() == "indistinguishable"
    assert tree.responses.answers_with.values.tolist() == responses.answers.sum(axis=0).tolist()
    assert 0 < tree.attrs["fit_p_value"] <= 1
    responses.to_parquet(tmp_path / "whole.parquet")
    again = ad.sample(ad.gather(tmp_path), "sgld_cv", draws=1000, random_seed=2, progressbar=False)
    np.testing.assert_array_equal(again.posterior.theta, tree.posterior.theta)
