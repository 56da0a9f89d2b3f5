"""θ by group and by person: density, gradient and draws against the definitions, for every mechanism."""

import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from pytensor.gradient import verify_grad
from scipy import stats

import adobest_pp as ad
from adobest_pp.likelihood.core import pairs_value_and_gradient, value_and_gradient
from adobest_pp.model.logit import MultinomialLogit
from adobest_pp.model.ops import PairsLogLikelihood, PointwisePairsLogLikelihood
from adobest_pp.model.tensors import pairs_log_likelihood
from oracles import answer_rows
from tests.refusals import refuses
from tests.strategies import simulated

PYTHON = Mode("py", "fast_compile")
QUICK = {"mode": PYTHON}
K = 4
SINGLE = [
    ad.SRR(K, 1.0),
    ad.RRRR(K, 1.5, 0.8),
    ad.SubsetSelection(K, 1.0, size=2),
    ad.UnaryEncoding(K, 1.2),
    ad.LocalHashing(K, 1.0, 3),
    ad.HadamardResponse(K, 1.0),
    ad.SetFamily([[0, 1], [1, 2], [2, 3], [0, 3]], [1, 1, 1, 1], 1.0),
    ad.Channel([[0.5, 0.4, 0.6, 0.3], [0.5, 0.6, 0.4, 0.7]]),
]
MIXED = "mixed"
SHAPES = ["vector", "groups", "people"]
# The false-alarm rate of one chi-square test on its fixed seed.
ALARM = 1e-4


def responses_of(mechanism, n=60, seed=3):
    if mechanism == MIXED:
        return ad.concat([simulated(each, n // 6, seed) for each in SINGLE])
    return simulated(mechanism, n, seed)


@pytest.fixture(params=[*SINGLE, MIXED], ids=str)
def responses(request):
    return responses_of(request.param)


def shapes(n, rng):
    """θ of each of the three shapes, with `group` and θ of each person; the second of three groups is empty."""
    group = rng.choice([0, 2], size=n)
    vector, groups, people = (rng.dirichlet(np.ones(K), size=size) for size in (1, 3, n))
    return {
        "vector": (vector[0], None, np.repeat(vector, n, axis=0)),
        "groups": (groups, group, groups[group]),
        "people": (people, None, people),
    }


def terms_of(theta, responses, group):
    """The log-probability of each response, and the gradient of their sum, as a model has them."""
    free = pt.tensor("theta", shape=theta.shape, dtype="float64")
    logp = pm.logp(ad.PrivateResponse.dist(free, responses, group=group), responses.answers)
    total = pm.pytensorf.rewrite_pregrad(logp.sum())
    return pytensor.function([free], [logp, total, pt.grad(total, free)], mode=PYTHON)(theta)


@pytest.mark.parametrize("shape", SHAPES)
def test_log_probability_and_gradient_are_the_oracle(responses, shape):
    n = len(responses)
    theta, group, own = shapes(n, np.random.default_rng(0))[shape]
    rows = answer_rows(responses)
    h = (rows * own).sum(axis=1)
    terms, total, slope = terms_of(theta, responses, group)
    np.testing.assert_allclose(terms, np.log(h), rtol=1e-10)
    assert total == pytest.approx(np.log(h).sum(), rel=1e-10)
    expected = np.zeros(theta.shape)
    if theta.ndim == 1:
        expected = (rows / h[:, None]).sum(axis=0)
    else:
        np.add.at(expected, np.arange(n) if group is None else group, rows / h[:, None])
    np.testing.assert_allclose(slope, expected, rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [ad.RRRR(K, 1.5, 0.8), ad.Channel(ad.SRR(K, 1.0).transition_matrix())], ids=repr)
def test_gradients_are_derivatives_of_both_orders(mechanism):
    responses, rng = responses_of(mechanism, 30), np.random.default_rng(1)
    theta, group, _ = shapes(30, rng)["groups"]
    evidence, index = responses.evidence_and_index()
    arguments = pairs_log_likelihood(theta, evidence, index, group).owner.inputs[1:-1]

    def output(i):
        return lambda value: PairsLogLikelihood().make_node(value, *arguments).outputs[i]

    def weighted(free):
        terms = pairs_log_likelihood(pt.special.softmax(free, axis=1), evidence, index, group)
        return (np.arange(30) * terms).sum()

    verify_grad(output(0), [theta], rng=rng, mode=PYTHON)
    verify_grad(output(1), [theta], rng=rng, mode=PYTHON)
    verify_grad(weighted, [theta], rng=rng, mode=PYTHON)


def test_the_plain_graph_that_jax_compiles_is_the_kernel(responses):
    n = len(responses)
    theta, group, _ = shapes(n, np.random.default_rng(2))["groups"]
    terms = pairs_log_likelihood(theta, *responses.evidence_and_index(), group)
    *inputs, _ = terms.owner.inputs
    (plain,) = terms.owner.op.plain(*terms.owner.inputs)
    np.testing.assert_allclose(plain.eval(mode=PYTHON), terms.eval(mode=PYTHON), rtol=1e-10)
    op = PairsLogLikelihood(on_simplex=True)
    value = float(op(*inputs).eval(mode=PYTHON))
    assert op.value(*inputs).eval(mode=PYTHON) == pytest.approx(value)


@pytest.mark.jax
def test_numpyro_compiles_it():
    pytest.importorskip("jax")
    theta, group, _ = shapes(60, np.random.default_rng(2))["groups"]
    terms = pairs_log_likelihood(theta, *responses_of(SINGLE[2]).evidence_and_index(), group)
    np.testing.assert_allclose(terms.eval(mode="JAX"), terms.eval(mode=PYTHON), rtol=1e-6)


@pytest.mark.parametrize("mechanism", [ad.RRRR(K, 1.5, 0.8), ad.SubsetSelection(20, 1.0)], ids=repr)
def test_one_group_is_the_vector_form_to_the_last_bit(mechanism):
    responses = responses_of(mechanism, 20_000 if mechanism.n_categories == 20 else 200)
    evidence, index = responses.evidence_and_index()
    theta = np.random.default_rng(0).dirichlet(np.ones(mechanism.n_categories))
    value, slope = value_and_gradient(theta, evidence)
    group = np.zeros(len(responses), dtype=np.int64)
    pairs = [part.data for part in pairs_log_likelihood(theta[None], evidence, index, group).owner.inputs[-4:-1]]
    grouped, by_group = pairs_value_and_gradient(theta[None], *pairs, evidence, True)
    assert (len(evidence.codes) > 0) == (mechanism.n_categories == 20)
    assert grouped == value
    np.testing.assert_array_equal(by_group[0], slope)


def test_cost_is_that_of_distinct_pairs_and_nothing_of_size_n_is_kept():
    responses = responses_of(SINGLE[0], 5000)
    group = np.arange(5000) % 7
    terms = pairs_log_likelihood(np.full((7, K), 0.25), *responses.evidence_and_index(), group)
    assert terms.owner.inputs[-2].data.size == 7 * K
    total = pm.pytensorf.rewrite_pregrad(terms.sum())
    sizes = [np.size(each.data) for each in pytensor.graph.traversal.ancestors([total]) if hasattr(each, "data")]
    assert max(sizes) <= 7 * K


@pytest.mark.parametrize("wrong", [[0.5, 0.5, 0.5, 0.5], [0.6, 0.6, -0.1, -0.1], [np.nan] * 4])
def test_a_row_off_the_simplex_is_impossible_for_its_responses_alone(wrong):
    responses = responses_of(SINGLE[1], 6)
    theta, group = np.array([[0.25] * 4, wrong, [0.1, 0.2, 0.3, 0.4]]), np.array([0, 1, 2, 0, 2, 2])
    terms = pairs_log_likelihood(theta, *responses.evidence_and_index(), group)
    assert np.isneginf(terms.eval(mode=PYTHON)).tolist() == [False, True, False, False, False, False]
    assert np.isneginf(pm.pytensorf.rewrite_pregrad(terms.sum()).eval(mode=PYTHON))
    nobody = pairs_log_likelihood(theta, *responses.evidence_and_index(), np.array([0, 0, 2, 0, 2, 2]))
    assert np.isfinite(pm.pytensorf.rewrite_pregrad(nobody.sum()).eval(mode=PYTHON))


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "mode", "shape"),
    [
        *itertools.product([ad.SRR(K, 1.0), ad.UnaryEncoding(K, 1.2), MIXED], ["FAST_COMPILE"], SHAPES),
        (MIXED, "NUMBA", "groups"),  # which has answers of all of them
        *(pytest.param(MIXED, "NUMBA", shape, marks=pytest.mark.slow) for shape in SHAPES if shape != "groups"),
    ],
    ids=str,
)
def test_draws_have_the_frequencies_of_their_theta(mechanism, mode, shape):
    """Of every mechanism, which are the parts of the mixed one."""
    two = np.array([[0.7, 0.1, 0.1, 0.1], [0.05, 0.15, 0.2, 0.6]])
    one = ad.concat([responses_of(each, 1) for each in SINGLE]) if mechanism == MIXED else responses_of(mechanism, 1)
    times = 8000 if mechanism != MIXED else 2000 if mode == "NUMBA" else 800
    many = ad.concat([one] * times, allow_copies=True)
    own = np.arange(len(many)) // len(one) % (1 if shape == "vector" else 2)
    theta, group = {"vector": (two[0], None), "groups": (two, own), "people": (two[own], None)}[shape]
    answers = pm.draw(ad.PrivateResponse.dist(theta, many, group=group), random_seed=5, mode=mode)
    again = ad.Responses.from_arrays(many.mechanism, answers, *published(many))
    part = np.arange(len(many)) % len(one)
    for g, i in np.ndindex(own.max() + 1, len(one)):
        hashes = mechanism == MIXED and isinstance(SINGLE[i], ad.LocalHashing)
        (check_scores if hashes else check_frequencies)(again, (own == g) & (part == i), two[g])


def check_scores(responses, mine, theta):
    """P(y|x)/P(y|θ) has mean 1 for every x: for answers that are all different, since each has its own seed."""
    rows = answer_rows(responses)[mine]
    ratios = rows / (rows @ theta)[:, None]
    z = (ratios.mean(axis=0) - 1) / (ratios.std(axis=0) / np.sqrt(len(ratios)))
    assert np.abs(z).max() < stats.norm.isf(ALARM / 2 / K)


def published(responses):
    return (responses.subsets, responses.subset_index) if responses.mechanism.publishes_subset else ()


def check_frequencies(responses, mine, theta):
    """The counts of all answers against their chances by the oracle, small ones taken together."""
    answers = responses.answers[mine].reshape(mine.sum(), -1)
    _, first, counts = np.unique(answers, axis=0, return_index=True, return_counts=True)
    rows = answer_rows(responses)[np.flatnonzero(mine)[first]]
    expected = rows @ theta * mine.sum()
    # What was never answered has the rest of the chances.
    often = expected > 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], mine.sum() - expected[often].sum())
    if expected[-1] < 1e-6:
        observed, expected = observed[:-1], expected[:-1]
    assert observed.sum() == pytest.approx(expected.sum())
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > ALARM


@pytest.mark.long
def test_prediction_and_pointwise_likelihood_of_groups_work_in_arviz():
    import arviz as az

    responses = responses_of(ad.SRR(K, 2.0), 80)
    group = np.where(np.arange(80) % 2, "north", "south")
    with pm.Model(coords={"category": responses.categories, "region": ["south", "north"]}):
        theta = pm.Dirichlet("theta", a=np.ones(K), dims=("region", "category"))
        ad.PrivateResponse("y", theta, responses, group=group, dims="response")
        trace = pm.sample(100, tune=100, chains=2, cores=1, progressbar=False, random_seed=1, compile_kwargs=QUICK)
        pm.sample_posterior_predictive(
            trace, extend_inferencedata=True, progressbar=False, random_seed=1, compile_kwargs=QUICK
        )
        pm.compute_log_likelihood(trace, progressbar=False, compile_kwargs=QUICK)
    assert trace["posterior_predictive"]["y"].dims == ("chain", "draw", "response")
    terms = trace["log_likelihood"]["y"].values
    own = (
        trace["posterior"]["theta"]
        .sel(region=xr.DataArray(group, dims="response"))
        .transpose(..., "response", "category")
    )
    np.testing.assert_allclose(terms, np.log((own.values * answer_rows(responses)).sum(axis=-1)), rtol=1e-8)
    with ad.frequency_model(responses):
        pooled = ad.sample(responses, draws=200, tune=200, chains=2, progressbar=False, random_seed=1)
        pm.compute_log_likelihood(pooled, progressbar=False, compile_kwargs=QUICK)
    assert np.isfinite(az.loo(trace).elpd)
    assert set(az.compare({"groups": trace, "one": pooled}).index) == {"groups", "one"}


# ---------------------------------------------------------------- groups by label
ANSWERS = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1, 2, 2], categories=["a", "b", "c"])


def value_of(group, coords, theta=None):
    with pm.Model(coords={"category": ANSWERS.categories, **coords}) as model:
        free = pm.Flat("theta", dims=("region", "category"))
        ad.PrivateResponse("y", free, ANSWERS, group=group)
    point = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]) if theta is None else theta
    return float(model.compile_logp(mode="FAST_COMPILE")({"theta": point}))


def test_groups_are_read_by_label_or_by_number():
    by_number = value_of([1, 0, 0, 1], {"region": ["north", "south"]})
    labels = np.array(["south", "north", "north", "south"])
    for given in (labels, labels.tolist(), pd.Series(labels), pd.Categorical(labels), xr.DataArray(labels)):
        assert value_of(given, {"region": ["north", "south"]}) == by_number
    years = value_of([2021, 2020, 2020, 2021], {"region": [2020, 2021]})
    assert years == by_number
    assert value_of([2021, 2020, 2020, 2021], {"region": [2021, 2020]}) != by_number


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([0, 1, 1], "group must be one group for each of 4 responses, got an array of shape"),
        ([0, -1, 1, 1], "group must be from 0 to 1, got -1"),
        ([0, 1, 2, 1], "group must be from 0 to 1, got 2"),
        ([0, 1, np.nan, 1], "group must be known for every response, got none for response 2"),
        (["north", None, "south", "south"], "group must be known for every response, got none for response 1"),
        ([0.5, 1.0, 0.0, 1.0], "group must be among the labels"),
        (["north", "east", "south", "south"], "group must be among the labels .* got 'east'"),
        ("north", "group must be one group for each of 4 responses"),
    ],
)
def test_bad_groups_are_refused_in_one_sentence(group, message):
    with pytest.raises(ValueError, match=message):
        value_of(group, {"region": ["north", "south"]})


def test_other_refusals():
    theta = np.full((2, 3), 1 / 3)
    with pytest.raises(ValueError, match="one row for each of 4 responses where group is left out, got 2 rows"):
        ad.PrivateResponse.dist(theta, ANSWERS)
    with refuses("group"):
        ad.PrivateResponse.dist(theta[0], ANSWERS, group=[0, 0, 0, 0])
    with refuses("theta"):
        ad.PrivateResponse.dist([[0.5, 0.3, 0.2], [0.5, 0.5, 0.2]], ANSWERS, group=[0, 1, 1, 0])
    with pytest.raises(ValueError, match="got 3 dimensions"):
        ad.PrivateResponse.dist(pt.dtensor3(), ANSWERS)
    with refuses("theta"):
        ad.PrivateResponse.dist(pt.tensor(shape=(2, 4), dtype="float64"), ANSWERS, group=[0, 1, 1, 0])
    with refuses("group"):
        ad.PrivateResponse.dist(theta, ANSWERS, group=["n", "s", "n", "s"])
    with refuses("group"):
        ad.PrivateResponse.dist(theta, ANSWERS, group=pt.dvector())


def test_samplers_of_one_vector_refuse_a_matrix():
    with pm.Model() as model:
        theta = pm.Dirichlet("theta", np.ones(3))
        ad.PrivateResponse("y", theta[None, :], ANSWERS, group=[0, 0, 0, 0])
    with pytest.raises(ValueError, match="'y' must be given one vector theta for all responses, got a matrix"):
        ad.DataAugmentationGibbs("theta", model=model)


def test_a_theta_of_unknown_rows_is_checked_when_evaluated():
    theta = pt.dmatrix("theta")
    terms = pm.logp(ad.PrivateResponse.dist(theta, ANSWERS, group=[0, 1, 1, 0]), ANSWERS.answers)
    assert terms.eval({theta: np.full((2, 3), 1 / 3)}, mode=PYTHON).shape == (4,)
    with refuses("theta", AssertionError):
        terms.eval({theta: np.full((1, 3), 1 / 3)}, mode=PYTHON)


def test_a_constant_table_is_read_by_both_of_its_labels():
    table = pd.DataFrame([[0.1, 0.8, 0.1], [0.1, 0.2, 0.7]], index=["south", "north"], columns=["c", "a", "b"])
    given = ad.PrivateResponse.dist(table, ANSWERS, group=["north", "south", "south", "north"])
    plain = ad.PrivateResponse.dist([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1]], ANSWERS, group=[1, 0, 0, 1])
    terms = [pm.logp(each, ANSWERS.answers).eval(mode=PYTHON) for each in (given, plain)]
    np.testing.assert_array_equal(*terms)


# ---------------------------------------------------------------- the multinomial logit
def test_the_logit_and_its_gradients():
    rng = np.random.default_rng(0)
    z, beta, alpha = rng.normal(size=(12, 2)), rng.normal(size=(2, 3)), rng.normal(size=3)
    logits = alpha + z @ beta
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    columns, weights = np.vstack([np.ones(12), z.T]), np.vstack([alpha, beta])
    np.testing.assert_allclose(ad.model.multinomial_logit(z, weights).eval(mode=PYTHON), expected, rtol=1e-13)
    verify_grad(MultinomialLogit(), [columns, weights], rng=rng, mode=PYTHON)
    verify_grad(lambda w: pt.grad((MultinomialLogit()(columns, w) ** 2).sum(), w), [weights], rng=rng, mode=PYTHON)


def test_logits_that_overflow_are_shares():
    theta = ad.model.multinomial_logit([[1.0], [-1.0]], [[0.0, 0.0, 1.0], [2000.0, 0.0, -5000.0]]).eval(mode=PYTHON)
    np.testing.assert_array_equal(theta, [[1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], "covariates must be a table of finite numbers.* got nan in row 0, column 1"),
        ([[1.0, np.inf]], "got inf in row 0, column 1"),
        ([1.0, 2.0], "got an array of shape"),
        ([["a", "b"]], "covariates must be a table of finite numbers"),
    ],
)
def test_bad_covariates_are_refused_in_one_sentence(covariates, message):
    with pytest.raises(ValueError, match=message):
        ad.model.multinomial_logit(covariates, np.zeros((3, 3)))


def test_bad_coefficients_are_refused():
    with refuses("coefficients"):
        ad.model.multinomial_logit([[1.0]], np.zeros((3, 3)))
    with refuses("free"):
        ad.model.zero_sum([1.0, 2.0])


def test_zero_sum_is_an_orthonormal_basis():
    basis = ad.model.zero_sum(np.eye(4)).eval(mode=PYTHON)
    np.testing.assert_allclose(basis @ basis.T, np.eye(4), atol=1e-15)
    np.testing.assert_allclose(basis.sum(axis=1), 0, atol=1e-15)
    verify_grad(ad.model.zero_sum, [np.ones((2, 3))], rng=np.random.default_rng(0), mode=PYTHON)


@pytest.mark.parametrize("mechanism", [ad.SRR(K, 1.0), ad.UnaryEncoding(K, 1.2), ad.RRRR(K, 1.5, 0.8)], ids=repr)
@pytest.mark.parametrize("scale", [0.5, 2000.0])
def test_the_fused_logit_is_the_likelihood_of_its_theta(mechanism, scale):
    """Also where logits are too large for their exponentials, and with more or fewer covariates than four."""
    rng = np.random.default_rng(3)
    for n_covariates in (1, 4, 6):
        responses = responses_of(mechanism, 700)
        z, weights = rng.normal(size=(700, n_covariates)), rng.normal(size=(1 + n_covariates, K)) * scale
        free = pt.dmatrix("weights")
        theta = ad.model.multinomial_logit(z, free)
        terms = pm.logp(ad.PrivateResponse.dist(theta, responses), responses.answers)
        total = pm.pytensorf.rewrite_pregrad(terms.sum())
        nodes = {type(each.owner.op).__name__ for each in pytensor.graph.traversal.ancestors([total]) if each.owner}
        assert "LogitLogLikelihood" in nodes
        assert "MultinomialLogit" not in nodes
        point = {free: weights}
        apart = terms.eval(point, mode=PYTHON)
        assert total.eval(point, mode=PYTHON) == pytest.approx(apart.sum(), rel=1e-12)
        rows = answer_rows(responses)
        own = theta.eval(point, mode=PYTHON)
        by_logits = own * (rows / (rows * own).sum(axis=1, keepdims=True) - 1)
        expected = np.vstack([np.ones(700), z.T]) @ by_logits
        slope = pt.grad(total, free).eval(point, mode=PYTHON)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9)


PREDICTORS = {
    "affine": lambda x, a, b: a + x @ b,
    "dot": lambda x, a, b: pt.dot(x, b) + a[None, :],
    "no intercept": lambda x, a, b: x @ b + a[0],
    "outer products": lambda x, a, b: a + x[:, [0]] * b[0] + b[1] * x[:, 1][:, None] + x[:, 2:] @ b[2:],
    "scaled": lambda x, a, b: 2.0 * (x @ b) - a[1] * (x[:, :2] @ b[:2]) - a,
    "same for all": lambda x, a, b: a + x @ b + x[:, [0]],
    "reference": lambda x, a, b: pt.concatenate([pt.zeros((x.shape[0], 1)), a[1:] + x @ b[:, 1:]], axis=1),
    "intercept alone": lambda x, a, b: a + pt.zeros((x.shape[0], 1)) + x[:, [0]] * b[0],
}
# Numba compiles what only these have.
LONG = {"outer products", "intercept alone"}


def model_of_predictor(predictor, covariates, responses, as_data):
    with pm.Model() as model:
        x = pm.Data("x", covariates) if as_data else pt.constant(covariates)
        a, b = pm.Flat("a", shape=K), pm.Flat("b", shape=(covariates.shape[1], K))
        ad.PrivateResponse("y", pm.math.softmax(predictor(x, a, b), axis=-1), responses)
    return model


def nodes_of(graph):
    return {type(each.owner.op).__name__ for each in pytensor.graph.traversal.ancestors([graph]) if each.owner}


@pytest.mark.parametrize("as_data", [False, True])
@pytest.mark.parametrize("form", [pytest.param(form, marks=[pytest.mark.long] * (form in LONG)) for form in PREDICTORS])
def test_a_softmax_of_a_linear_predictor_is_fused(form, as_data):
    rng = np.random.default_rng(5)
    covariates, responses = rng.normal(size=(90, 3)), responses_of(ad.SRR(K, 1.0), 90)
    model = model_of_predictor(PREDICTORS[form], covariates, responses, as_data)
    (terms,) = model.logp(vars=[model["y"]], sum=False)
    total = pm.pytensorf.rewrite_pregrad(terms.sum())
    assert "LogitLogLikelihood" in nodes_of(total)
    assert "Softmax" not in nodes_of(total)
    inputs = [model.rvs_to_values[model[name]] for name in "ab"]
    weighted = (terms * pt.constant(np.ones(90))).sum()  # the terms one by one, which nothing fuses
    slopes = [part for each in (total, weighted) for part in pt.grad(each, inputs, disconnected_inputs="ignore")]
    function = pytensor.function(inputs, [total, weighted, *slopes], mode=PYTHON)
    value, expected, *parts = function(rng.normal(size=K), rng.normal(size=(3, K)))
    assert value == pytest.approx(expected, rel=1e-12)
    for slope, other in zip(parts[:2], parts[2:], strict=True):
        np.testing.assert_allclose(slope, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "predictor",
    [
        lambda x, a, b: a + (x * a[0]) @ b,  # covariates that are sampled
        lambda x, a, b: a + (x @ b) ** 2,
        lambda x, a, b: pt.concatenate([pt.ones((x.shape[0], 1)), a[1:] + x @ b[:, 1:]], axis=1),
        lambda x, a, b: a + x @ b + pt.constant(np.arange(90.0 * K).reshape(90, K) / 100),
    ],
)
def test_other_predictors_are_not_fused_and_right(predictor):
    rng = np.random.default_rng(5)
    covariates, responses = rng.normal(size=(90, 3)), responses_of(ad.SRR(K, 1.0), 90)
    model = model_of_predictor(predictor, covariates, responses, as_data=False)
    assert "LogitLogLikelihood" not in nodes_of(pm.pytensorf.rewrite_pregrad(model.logp()))
    a, b = rng.normal(size=K), rng.normal(size=(3, K))
    x = pt.constant(covariates)
    theta = pm.math.softmax(predictor(x, pt.constant(a), pt.constant(b)), axis=-1).eval(mode=PYTHON)
    expected = np.log((answer_rows(responses) * theta).sum(axis=1)).sum()
    assert model.compile_logp(mode=PYTHON)({"a": a, "b": b}) == pytest.approx(expected, rel=1e-12)


def test_the_logit_of_covariates_as_data():
    rng = np.random.default_rng(6)
    covariates, weights = rng.normal(size=(90, 3)), rng.normal(size=(4, K))
    with pm.Model():
        data = pm.Data("x", covariates)
    theta = ad.model.multinomial_logit(data, weights)
    np.testing.assert_allclose(
        theta.eval(mode=PYTHON), ad.model.multinomial_logit(covariates, weights).eval(mode=PYTHON), rtol=1e-14
    )


def test_the_fused_logit_has_second_derivatives():
    rng = np.random.default_rng(4)
    z, responses = rng.normal(size=(80, 2)), responses_of(ad.SRR(K, 1.0), 80)

    def slope(weights):
        terms = pm.logp(ad.PrivateResponse.dist(ad.model.multinomial_logit(z, weights), responses), responses.answers)
        return pt.grad(pm.pytensorf.rewrite_pregrad(terms.sum()), weights)

    verify_grad(slope, [rng.normal(size=(3, K))], rng=rng, mode=PYTHON)


def test_ops_refuse_what_they_cannot_take():
    evidence, index = ANSWERS.evidence_and_index()
    with refuses("theta"):
        PointwisePairsLogLikelihood()(np.ones(3), *evidence, [0], [0], [1], index)
