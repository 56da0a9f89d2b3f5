import time

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from scipy import stats

import adobest_pp as ad
import oracles
from adobest_pp.likelihood.marginal import log_likelihood
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import simulated

MECHANISMS = {
    "srr": ad.SRR(4, 1.0),
    "rrrr": ad.RRRR(4, 1.5, 0.8),
    "subset_selection": ad.SubsetSelection(4, 1.0, size=2),
}
# The false-alarm rate of one chi-square test on its fixed seed.
ALARM = 1e-4
QUIET = {"progressbar": False, "random_seed": 1}
QUICK = {"compile_kwargs": {"mode": "FAST_COMPILE"}}


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return MECHANISMS[request.param]


def model_of(responses, **kwargs):
    with pm.Model(coords={"category": responses.categories}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(responses.n_categories), dims="category")
        ad.PrivateResponse("y", theta, responses, **kwargs)
    return model


def response_logp(model):
    """The terms of the responses as a function of θ."""
    untransformed = pm.model.transform.conditioning.remove_value_transforms(model)
    return untransformed.compile_fn(untransformed.logp(vars=[untransformed["y"]], sum=False)[0], mode="FAST_COMPILE")


def test_the_log_probability_of_each_response_is_the_oracle(mechanism):
    responses = simulated(mechanism, 50, seed=3)
    theta = np.random.default_rng(0).dirichlet(np.ones(4))
    terms = response_logp(model_of(responses))({"theta": theta})
    np.testing.assert_allclose(terms, np.log(rows_of(responses) @ theta), rtol=1e-10)


@pytest.mark.parametrize("theta", [[0.5, 0.5, 0.5, 0.5], [0.8, 0.4, -0.1, -0.1], [0.0, 0.0, 0.0, 0.0]])
def test_off_the_simplex_is_impossible(mechanism, theta):
    responses = simulated(mechanism, 5, seed=3)
    with pm.Model() as model:
        ad.PrivateResponse("y", pm.Flat("theta", shape=4), responses)
    assert model.compile_logp(mode="FAST_COMPILE")({"theta": np.array(theta)}) == -np.inf


def test_sampling_prediction_and_pointwise_likelihood(mechanism):
    responses = simulated(mechanism, 60, seed=4)
    model = ad.frequency_model(responses)
    answers = ("response",) if responses.answers.ndim == 1 else ("response", "member")
    compiled = {} if mechanism is MECHANISMS["subset_selection"] else QUICK  # whose answers have one dimension more
    with model:
        prior = pm.sample_prior_predictive(10, random_seed=1, **compiled)
        trace = (ad if compiled else pm).sample(
            **({"responses": responses} if compiled else {}), draws=200, tune=200, chains=2, **QUIET
        )
        pm.sample_posterior_predictive(trace, extend_inferencedata=True, **QUIET, **compiled)
        pm.compute_log_likelihood(trace, progressbar=False, **compiled)
    assert prior["prior_predictive"]["y"].dims == ("chain", "draw", *answers)
    assert trace["posterior_predictive"]["y"].dims == ("chain", "draw", *answers)
    assert trace["log_likelihood"]["y"].dims == ("chain", "draw", "response")
    for tree in (prior,) if compiled else (prior, trace):
        np.testing.assert_array_equal(tree["observed_data"]["y"], responses.answers)
    terms = trace["log_likelihood"]["y"].values
    theta = trace["posterior"]["theta"].values
    np.testing.assert_allclose(terms, np.log(theta @ rows_of(responses).T), rtol=1e-8)
    predicted = trace["posterior_predictive"]["y"].values
    assert predicted.min() >= 0
    assert predicted.max() < 4
    if predicted.ndim == 4:
        assert (np.diff(predicted, axis=-1) > 0).all()


@pytest.mark.parametrize("mode", ["NUMBA", "FAST_COMPILE"])
def test_random_answers_have_the_frequencies_of_the_mechanism(mechanism, mode):
    theta = np.array([0.45, 0.3, 0.2, 0.05])
    n = 20_000
    if mechanism.publishes_subset:
        subsets = np.array([[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 0]], dtype=bool)
        responses = ad.Responses.from_arrays(mechanism, np.zeros(n, dtype=int), subsets, np.arange(n) % 3)
        sizes = [mechanism.epsilon2(int(mask.sum())) for mask in subsets]
        matrices = [
            oracles.rrrr_matrix(4, np.flatnonzero(mask), mechanism.epsilon1, second)
            for mask, second in zip(subsets, sizes, strict=True)
        ]
    else:
        responses = ad.Responses.from_arrays(mechanism, np.repeat(mechanism.outputs()[:1], n, axis=0))
        matrices = [rows_of(ad.Responses.from_arrays(mechanism, mechanism.outputs()))]
    answers = pm.draw(ad.PrivateResponse.dist(theta, responses), random_seed=5, mode=mode)
    for i, matrix in enumerate(matrices):
        codes = code_of(answers[i :: len(matrices)], mechanism)
        observed = np.bincount(codes, minlength=len(matrix))
        assert stats.chisquare(observed, observed.sum() * (matrix @ theta)).pvalue > ALARM


def code_of(answers, mechanism):
    if answers.ndim == 1:
        return answers
    return np.argmax((answers[:, None] == mechanism.outputs()).all(axis=-1), axis=1)


def test_prior_predictive_frequencies(mechanism):
    # Under a Dirichlet prior the mean of θ alone decides the frequency of the first person's answer.
    responses = simulated(mechanism, 3, seed=6)
    concentration = np.array([4.0, 3.0, 2.0, 1.0])
    with ad.frequency_model(responses, prior=concentration):
        prior = pm.sample_prior_predictive(4000, random_seed=2, **QUICK)
    first = prior["prior_predictive"]["y"].values[0, :, 0]
    chances = answer_chances(responses, mechanism) @ (concentration / 10)
    observed = np.bincount(code_of(first, mechanism), minlength=len(chances))
    assert stats.chisquare(observed, 4000 * chances).pvalue > ALARM


def test_posterior_predictive_frequencies(mechanism):
    responses = simulated(mechanism, 400, seed=7)
    trace = ad.sample(responses, draws=1000, tune=500, chains=2, **QUIET)
    with ad.frequency_model(responses):
        pm.sample_posterior_predictive(trace, extend_inferencedata=True, **QUIET, **QUICK)
    # Neighbouring draws of θ are dependent; answers given θ are not, so each is compared with its own θ.
    theta = trace["posterior"]["theta"].values.reshape(-1, 4)
    first = trace["posterior_predictive"]["y"].values.reshape(len(theta), *responses.answers.shape)[:, 0]
    chances = (theta @ answer_chances(responses, mechanism).T).mean(axis=0)
    observed = np.bincount(code_of(first, mechanism), minlength=len(chances))
    # Counts of unequal chances vary less than a multinomial, so the test is conservative.
    assert stats.chisquare(observed, len(theta) * chances / chances.sum()).pvalue > ALARM


def answer_chances(responses, mechanism):
    """P(answer | x) of the first response's mechanism, for every answer."""
    if mechanism.publishes_subset:
        mask = responses.subsets[responses.subset_index[0]]
        return oracles.rrrr_matrix(4, np.flatnonzero(mask), mechanism.epsilon1, mechanism.epsilon2(int(mask.sum())))
    return rows_of(ad.Responses.from_arrays(mechanism, mechanism.outputs()))


def test_without_responses_the_posterior_is_the_prior(mechanism):
    model = model_of(ad.Responses(mechanism))
    with pm.Model() as prior:
        pm.Dirichlet("theta", a=np.ones(4))
    point = {"theta_simplex__": np.array([0.3, -0.2, 0.5])}
    assert model.compile_logp(mode="FAST_COMPILE")(point) == pytest.approx(
        prior.compile_logp(mode="FAST_COMPILE")(point)
    )


def pool_of(n, k=8):
    rng = np.random.default_rng(0)
    mechanism = ad.RRRR(k, 1.0)
    subsets = np.array([np.arange(k) < size for size in range(k)])
    answers = rng.integers(k, size=n)
    return ad.Responses.from_arrays(mechanism, answers, subsets, np.arange(n) % k)


def test_density_and_gradient_do_not_hold_the_responses():
    n = 12_345
    function = model_of(pool_of(n)).logp_dlogp_function(ravel_inputs=True)
    graph = function._pytensor_function.maker.fgraph
    sizes = [np.size(variable.data) for variable in graph.variables if isinstance(variable, Constant)]
    assert 10 < max(sizes) < n / 10
    assert not any("Pointwise" in str(node.op) for node in graph.apply_nodes)


@pytest.mark.long
def test_a_hundred_times_the_responses_cost_no_more():
    def seconds(n):
        function = model_of(pool_of(n)).logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
        point = np.zeros(7)
        function(point)
        times = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(100):
                function(point)
            times.append(time.perf_counter() - start)
        return min(times)

    # The same rows, so the ratio is one; where responses count it is some dozens.
    assert seconds(300_000) < 4 * seconds(3_000)


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["nutpie", "pymc"])
def test_any_prior_and_either_sampler(sampler):
    responses = simulated(ad.RRRR(3, 2.0), 500, seed=8)
    with pm.Model():
        logits = pm.Normal("logits", 0, 1.5, shape=3)
        theta = pm.Deterministic("theta", pm.math.softmax(logits))
        ad.PrivateResponse("y", theta, responses)
        trace = pm.sample(300, tune=300, chains=2, cores=1, nuts_sampler=sampler, **QUIET)
    best = ad.likelihood.maximum_likelihood(responses.evidence())
    mean = trace["posterior"]["theta"].mean(("chain", "draw"))
    assert np.abs(mean - best).max() < 0.1


@pytest.mark.long
@pytest.mark.jax
def test_numpyro_draws_the_same_posterior(mechanism):
    pytest.importorskip("jax")
    pytest.importorskip("numpyro")
    responses = simulated(mechanism, 300, seed=9)
    with ad.frequency_model(responses):
        one_device = {"chain_method": "sequential"}
        theirs = pm.sample(1000, tune=500, chains=2, nuts_sampler="numpyro", nuts=one_device, **QUIET)
        ours = pm.sample(1000, tune=500, chains=2, **QUIET)
    means = [trace["posterior"]["theta"].mean(("chain", "draw")) for trace in (theirs, ours)]
    assert np.abs(means[0] - means[1]).max() < 0.02


def test_log_probability_of_other_answers(mechanism):
    responses = simulated(mechanism, 6, seed=10)
    other = simulated(mechanism, 6, seed=11)
    theta = np.array([0.4, 0.3, 0.2, 0.1])
    distribution = ad.PrivateResponse.dist(theta, responses)
    answers = other.answers
    if mechanism.publishes_subset:
        other = ad.Responses.from_arrays(mechanism, answers, responses.subsets, responses.subset_index)
    total = pm.logp(distribution, answers).sum().eval(mode="FAST_COMPILE")
    assert total == pytest.approx(log_likelihood(theta, other.evidence()))


def test_refusals():
    responses = simulated(ad.SRR(3, 1.0), 5, seed=0)
    with refuses("responses"):
        ad.PrivateResponse.dist(np.ones(3) / 3, [0, 1])
    with refuses("theta"):
        ad.PrivateResponse.dist(np.ones(4) / 4, responses)
    distribution = ad.PrivateResponse.dist(np.ones(3) / 3, responses)
    with refuses("answers"):
        pm.logp(distribution, [0, 1, 7, 0, 1])
    hashed = ad.PrivateResponse.dist(np.ones(3) / 3, ad.LocalHashing(3, 1.0), shape=(5, 2))
    with pytest.raises(NotImplementedError, match="answers of LocalHashing that are not known"):
        pm.logp(hashed, hashed.type())


def test_a_theta_of_unknown_length_is_checked_when_evaluated():
    responses = simulated(ad.SRR(3, 1.0), 5, seed=0)
    with pm.Model() as model:
        theta = pm.Data("theta", np.ones(4) / 4)
        ad.PrivateResponse("y", theta, responses)
    assert any("SpecifyShape" in str(v.owner) for v in ancestors([model.logp()]) if v.owner)
    with pytest.raises(AssertionError):
        model.compile_logp(mode="FAST_COMPILE")({})


def test_it_prints():
    model = model_of(simulated(ad.RRRR(3, 1.25), 5, seed=0))
    assert "y ~ PrivateResponse[RRRR, ε=1.25](theta" in model.str_repr()
    assert "PrivateResponse[RRRR, ε=1.25]" in pm.model_to_mermaid(model)
    assert "RRRR, ε=1.25" in model.str_repr(formatting="latex")


# ---------------------------------------------------------------- labels
NAMED = ad.Responses.from_arrays(MECHANISMS["srr"], [0, 0, 0, 1, 3], categories=["north", "south", "east", "west"])
SHUFFLED = ("west", "north", "east", "south")


def test_a_theta_with_labels_in_another_order_is_read_by_label():
    with pm.Model(coords={"category": SHUFFLED}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(4), dims="category")
        ad.PrivateResponse("y", theta, NAMED, dims="response")
    point = np.array([0.1, 0.5, 0.15, 0.25])  # of SHUFFLED
    by_name = dict(zip(SHUFFLED, point, strict=True))
    expected = log_likelihood([by_name[name] for name in NAMED.categories], NAMED.evidence())
    wrong = log_likelihood(point, NAMED.evidence())
    assert response_logp(model)({"theta": point}).sum() == pytest.approx(expected) != pytest.approx(wrong)
    with pytest.raises(ValueError, match="must be given theta"):
        ad.DataAugmentationGibbs("theta", model=model)


@pytest.mark.parametrize("labels", [("north", "south", "east", "up"), range(4), ("a", "b", "c", "d")])
def test_a_theta_with_other_labels_is_refused(labels):
    with pm.Model(coords={"category": labels}):
        theta = pm.Dirichlet("theta", a=np.ones(4), dims="category")
        with refuses("theta"):
            ad.PrivateResponse("y", theta, NAMED, dims="response")


def test_an_expression_of_variables_in_another_order_is_refused_and_in_the_same_order_is_not():
    for labels in (SHUFFLED, NAMED.categories):
        with pm.Model(coords={"category": labels, "region": ["one", "two"]}):
            logits = pm.Normal("logits", dims=("region", "category"))
            theta = pm.math.softmax(logits, axis=-1)[0]
            if labels == SHUFFLED:
                with refuses("theta"):
                    ad.PrivateResponse("y", theta, NAMED)
            else:
                ad.PrivateResponse("y", theta, NAMED)


@pytest.mark.parametrize("theta", [[0.5, 0.5, 0.5, 0.5], [1.0, 0.0], "abcd", None, [0.25] * 3 + [np.nan]])
def test_a_constant_that_is_no_theta_is_refused(theta):
    with pm.Model(), refuses("theta"):
        ad.PrivateResponse("y", theta, NAMED)


def test_a_labelled_prior_is_read_by_label():
    prior = xr.DataArray([4.0, 1.0, 3.0, 2.0], coords={"category": list(SHUFFLED)}, dims="category")
    model = ad.frequency_model(NAMED, prior)
    concentration = model["theta"].owner.op.dist_params(model["theta"].owner)[0]
    np.testing.assert_array_equal(concentration.eval(), [1, 2, 3, 4])
    tree = ad.sample(NAMED, "gibbs", prior, draws=4, tune=0, chains=1, random_seed=1)
    assert list(tree.attrs["prior_concentration"]) == [1, 2, 3, 4]
    with refuses("prior"):
        ad.sample(NAMED, "gibbs", prior.assign_coords(category=["a", "b", "c", "d"]))
