"""Answers of several mechanisms or budgets as one."""

import itertools
import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.answers.concat import log_orders
from adobest_pp.diagnostics import goodness_of_fit
from adobest_pp.mechanisms import Mixed, mechanism_from_settings
from oracles import answer_rows
from tests.refusals import refuses
from tests.strategies import simulated

K = 3
NAMES = ["red", "green", "blue"]
MECHANISMS = [ad.SRR(K, 1.0), ad.RRRR(K, 2.0), ad.UnaryEncoding(K, 0.5), ad.LocalHashing(K, 1.5), ad.SRR(K, 3.0)]


@pytest.fixture(scope="module")
def parts():
    return [simulated(mechanism, 20 + i, seed=i) for i, mechanism in enumerate(MECHANISMS)]


@pytest.fixture(scope="module")
def both(parts):
    return ad.concat(parts)


def test_the_likelihood_is_the_product_and_the_oracle(parts, both):
    theta = np.array([0.2, 0.5, 0.3])
    value = ad.likelihood.log_likelihood(theta, both.evidence())
    assert value == pytest.approx(sum(ad.likelihood.log_likelihood(theta, part.evidence()) for part in parts))
    evidence, row_of = both.evidence_and_index()
    rows = (evidence.matrix() * np.exp(evidence.log_scale)[:, None])[row_of]
    np.testing.assert_allclose(rows, answer_rows(both), rtol=1e-12)
    np.testing.assert_array_equal(np.bincount(row_of), evidence.count)


def test_everybody_keeps_their_budget(parts, both):
    expected = np.repeat([mechanism.epsilon for mechanism in MECHANISMS], [len(part) for part in parts])
    np.testing.assert_array_equal(both.epsilons, expected)
    np.testing.assert_array_equal(parts[1].epsilons, np.full(len(parts[1]), 2.0))
    assert both.mechanism.epsilon == 3.0


def test_files_keep_it_also_when_sorted(both, tmp_path):
    both.to_netcdf(tmp_path / "both.nc")
    read = ad.Responses.from_netcdf(tmp_path / "both.nc")
    assert read.mechanism == both.mechanism
    np.testing.assert_array_equal(read.answers, both.answers)
    assert read.evidence() == both.evidence()
    dataset = both.to_xarray()
    shuffled = dataset.isel(category=[2, 0, 1], subset=slice(None, None, -1))
    again = ad.Responses.from_xarray(shuffled)
    np.testing.assert_array_equal(again.answers, both.answers)
    theta = [0.2, 0.5, 0.3]
    assert ad.likelihood.log_likelihood(theta, again.evidence()) == pytest.approx(
        ad.likelihood.log_likelihood(theta, both.evidence())
    )


def test_the_audit_holds_each_part_to_its_own_budget(both):
    audit = ad.audit(both.mechanism)
    assert audit.holds
    assert audit.epsilon == 3.0
    assert audit.loss == pytest.approx(3.0)
    assert 0 <= audit.slack < 1e-12
    assert not ad.audit(both.mechanism, 1.0).holds
    weak = Mixed([ad.SRR(K, 3.0), Broken(K, 1.0)])
    assert not ad.audit(weak).holds  # the largest budget would cover it, its own does not


class Broken(ad.SRR):
    """It promises 1 and uses 2."""

    def audit_cases(self):
        return ad.SRR(K, 2.0).audit_cases()


def test_one_mechanism_stays_itself():
    first, second = (simulated(ad.RRRR(K, 1.0), 12, seed) for seed in (1, 2))
    joined = ad.concat([first, second])
    assert joined.mechanism == ad.RRRR(K, 1.0)
    np.testing.assert_array_equal(joined.answers, np.concatenate([first.answers, second.answers]))
    masks = np.concatenate([each.subsets[each.subset_index] for each in (first, second)])
    np.testing.assert_array_equal(joined.subsets[joined.subset_index], masks)


def test_it_can_be_nested(parts, both):
    nested = ad.concat([ad.concat(parts[:2]), ad.concat(parts[2:])])
    assert nested.mechanism == both.mechanism
    np.testing.assert_array_equal(nested.answers, both.answers)
    swapped = ad.concat([parts[4], both])
    assert ad.likelihood.log_likelihood([0.2, 0.5, 0.3], swapped.evidence()) == pytest.approx(
        sum(ad.likelihood.log_likelihood([0.2, 0.5, 0.3], part.evidence()) for part in [*parts, parts[4]])
    )


@pytest.mark.long
def test_every_sampler_takes_it():
    rng = np.random.default_rng(5)
    theta = np.array([0.6, 0.3, 0.1])
    collections = []
    for mechanism in (ad.SRR(K, 1.0), ad.UnaryEncoding(K, 2.0), ad.SRR(K, 4.0)):
        answers = mechanism.privatize(rng.choice(K, size=4000, p=theta), rng=rng)
        collections.append(ad.Responses.from_arrays(mechanism, answers, categories=NAMES))
    both = ad.concat(collections)
    means = []
    for sampler in ("nuts", "gibbs", "sgld_cv"):
        tree = ad.sample(both, sampler, draws=400, tune=300, chains=2, random_seed=1, progressbar=False)
        means.append(tree.posterior.theta.mean(("chain", "draw")).values)
        assert tree.attrs["fit_p_value"] > 0.001
        assert float(goodness_of_fit(tree).freedom) >= 6
    np.testing.assert_allclose(means, np.tile(theta, (3, 1)), atol=0.04)
    assert np.abs(means[0] - means[1:]).max() < 0.01


def test_predictions_are_answers_of_the_same_people(both):
    with pm.Model():
        theta = pm.Dirichlet("theta", np.ones(K))
        ad.PrivateResponse("y", theta, both, dims="response")
        prior = pm.sample_prior_predictive(3, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    predicted = prior["prior_predictive"]["y"]
    assert predicted.dims == ("chain", "draw", "response", "number")
    for draw in predicted.values[0]:
        both.mechanism.check_answers(draw)
        np.testing.assert_array_equal(draw[:, 0], both.answers[:, 0])


def test_settings_round_trip(both):
    assert mechanism_from_settings(both.mechanism.settings()) == both.mechanism


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        ([], "responses must be a list of at least one Responses"),
        (None, "responses must be a list of at least one Responses"),
        ([1], "responses must be a list of at least one Responses"),
        (
            [ad.Responses(ad.SRR(2, 1.0), ["a", "b"]), ad.Responses(ad.SRR(2, 1.0), ["b", "a"])],
            "responses must have the same categories in the same order, got .* and, in responses.1.,",
        ),
        ([ad.Responses(ad.SRR(2, 1.0)), ad.Responses(ad.SRR(3, 1.0))], "responses must have the same categories"),
    ],
)
def test_what_does_not_fit_is_refused(responses, message):
    with pytest.raises(ValueError, match=message):
        ad.concat(responses)


def test_bad_parts_and_answers_are_refused(both):
    with refuses("parts"):
        Mixed([ad.SRR(3, 1.0)])
    with refuses("parts"):
        Mixed([ad.SRR(3, 1.0), ad.SRR(4, 1.0)])
    with refuses("privatize"):
        both.mechanism.privatize(0)
    two = Mixed([ad.SRR(3, 1.0), ad.UnaryEncoding(3, 1.0)])
    for answers, message in (
        ([[2, 0, 0, 0]], "got the part 2"),
        ([[0, 0, 1, 0]], "numbers after an answer of part 0"),
        ([[0, 3, 0, 0]], "answers must be integer category indices from 0 to 2, got 3"),
        ([0, 1], "got an array of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            two.check_answers(answers)
    damaged = both.to_xarray().assign_attrs(mechanism_settings='{"mechanism": "Mixed", "parts": 3}')
    with refuses("parts"):
        ad.Responses.from_xarray(damaged)
    assert isinstance(damaged, xr.Dataset)


# ---------------------------------------------------------------- nobody is counted twice
def again(responses):
    """Return other responses with the same answers."""
    return ad.Responses.from_xarray(responses.to_xarray())


def test_the_same_object_twice_is_refused():
    few = simulated(ad.SRR(K, 1.0), 2, 1)
    with pytest.raises(ValueError, match=r"the same object as responses\[0\] and responses\[2\]: leave one out$"):
        ad.concat([few, again(few), few])
    assert len(ad.concat([few, again(few), few], allow_copies=True)) == 6
    evidence = few.evidence()
    with refuses("others"):
        evidence.merge(evidence)
    nobody = ad.Responses(ad.SRR(K, 1.0))
    assert len(ad.concat([nobody, nobody])) == 0


@pytest.mark.parametrize("mechanism", [*MECHANISMS, ad.SubsetSelection(12, 1.0, 4)], ids=repr)
def test_equal_answers_are_refused_where_they_cannot_be_chance(mechanism):
    responses = simulated(mechanism, 100, 1)
    match = (
        r"responses must hold answers of different people, got responses\[1\] and responses\[2\], which hold the same "
        "100 answers in the same order: leave one out, or pass allow_copies=True"
    )
    with pytest.raises(ValueError, match=match):
        ad.concat([simulated(mechanism, 100, 2), responses, again(responses)])
    assert len(ad.concat([responses, again(responses)], allow_copies=True)) == 200
    with refuses("allow_copies"):
        ad.concat([responses], allow_copies=1)


def test_few_answers_may_be_equal_by_chance(caplog):
    """Ten people who answer one by one, and two groups of 25 who all answer the same: that is worth a warning."""
    ones = [ad.Responses.from_arrays(ad.SRR(2, 1.0), [i % 2]) for i in range(10)]
    assert len(ad.concat(ones)) == 10
    assert not caplog.text
    same = [ad.Responses.from_arrays(ad.SRR(2, 1.0), [0] * 25) for _ in range(2)]
    assert len(ad.concat(same)) == 50
    assert "responses[0] and responses[1], which hold the same 25 answers in the same order" in caplog.text


def test_independent_answers_are_not_taken_for_copies():
    """The chance that the rule allows for is one over the number of orders: counted here one by one."""
    for counts in ([4, 4], [3, 3, 2], [8], [1] * 6):
        orders = len({*itertools.permutations(np.repeat(np.arange(len(counts)), counts).tolist())})
        assert log_orders(np.array(counts)) == pytest.approx(math.log(orders), abs=1e-9)
