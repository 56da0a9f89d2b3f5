"""Answers, groups and covariates that `pymc.set_data` replaces; prediction; latent variables that are summed out."""

import numpy as np
import nutpie
import pymc as pm
import pytest
from pymc.model.transform.optimization import freeze_dims_and_data
from pytensor.compile.mode import Mode

import adobest_pp as ad
from adobest_pp.model.answer_data import FEW_ANSWERS
from oracles import answer_rows
from tests.refusals import refuses
from tests.strategies import simulated

PYTHON = Mode("py", "fast_compile")
QUIET = {"progressbar": False, "random_seed": 1}
K = 4
MECHANISMS = [
    ad.SRR(K, 1.0),
    ad.SRR(FEW_ANSWERS + 1, 1.0),
    ad.RRRR(K, 1.5, 0.8),
    ad.SubsetSelection(K, 1.0, size=2),
    ad.UnaryEncoding(K, 1.2),
    ad.HadamardResponse(K, 1.0),
    ad.SetFamily([[0, 1], [1, 2], [2, 3], [0, 3]], [1, 1, 1, 1], 1.0),
    ad.Channel([[0.5, 0.4, 0.6, 0.3], [0.5, 0.6, 0.4, 0.7]]),
]


def under(old, answers, index):
    """Other responses under the subsets of the old ones."""
    published = (old.subsets, index) if old.mechanism.publishes_subset else ()
    return ad.Responses.from_arrays(old.mechanism, answers, *published)


def model_with_data(responses, theta_of):
    with pm.Model() as model:
        answers = pm.Data("answers", responses.answers)
        index = {}
        if responses.mechanism.publishes_subset:
            index = {"subset_index": pm.Data("subset_index", responses.subset_index)}
        ad.PrivateResponse("y", theta_of(len(responses)), responses, observed=answers, dims="response", **index)
    return model


def terms_and_slope(model, mode, point):
    (terms,) = model.logp(vars=[model["y"]], sum=False)
    total = model.compile_dlogp(mode=mode)
    return model.compile_fn(terms, mode=mode, on_unused_input="ignore")(point), total(point)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("by_person", [False, True])
def test_new_answers_have_the_log_probability_of_the_oracle(mechanism, by_person):
    old, k = simulated(mechanism, 60, seed=1), mechanism.n_categories
    many = simulated(mechanism, 37, seed=2).answers
    index = np.random.default_rng(0).integers(len(old.subsets), size=37) if mechanism.publishes_subset else None
    new = under(old, many, index)

    def theta_of(n):
        free = pm.Normal("free", shape=k)
        scale = pm.Data("scale", np.linspace(0.5, 2, n))
        return pm.math.softmax(scale[:, None] * free, axis=-1) if by_person else pm.math.softmax(free)

    model = model_with_data(old, theta_of)
    values = {"answers": new.answers, "scale": np.linspace(0.5, 2, 37)}
    with model:
        pm.set_data(values | ({"subset_index": index} if index is not None else {}))
    point = {"free": np.random.default_rng(3).normal(size=k)}
    logits = values["scale"][:, None] ** by_person * point["free"]
    theta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = answer_rows(new)
    h = (rows * theta).sum(axis=1)
    terms, slope = terms_and_slope(model, PYTHON, point)
    np.testing.assert_allclose(terms, np.log(h), rtol=1e-10)
    by_logits = theta * (rows / h[:, None] - 1) * values["scale"][:, None] ** by_person
    np.testing.assert_allclose(slope, by_logits.sum(axis=0) - point["free"], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mechanism", [ad.SRR(K, 1.0), ad.RRRR(K, 1.5, 0.8), ad.UnaryEncoding(K, 1.2)], ids=repr)
def test_frozen_data_are_the_model_of_known_answers(mechanism):
    responses = simulated(mechanism, 500, seed=1)
    model = model_with_data(responses, lambda n: pm.Dirichlet("theta", np.ones(K)))
    with pm.Model() as known:
        ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(K)), responses, dims="response")
    point = {"theta_simplex__": np.array([0.3, -0.2, 0.5])}
    values = [each.compile_logp(mode=PYTHON)(point) for each in (model, freeze_dims_and_data(model), known)]
    assert values[1] == values[2]
    assert values[0] == pytest.approx(values[2], rel=1e-13)


@pytest.mark.parametrize(("answers", "possible"), [([0, 1, 2], True), ([0, 1, 4], False), ([0, -1, 2], False)])
@pytest.mark.parametrize("k", [K, FEW_ANSWERS + 1])
def test_what_is_no_answer_is_impossible(answers, possible, k):
    with pm.Model() as model:
        data = pm.Data("answers", [0, 1])
        ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(k)), ad.SRR(k, 1.0), observed=data)
        pm.set_data({"answers": np.where(np.array(answers) == 4, k, answers)})
    value = model.compile_logp(mode=PYTHON)({"theta_simplex__": np.zeros(k - 1)})
    assert np.isfinite(value) == possible


def test_members_that_are_no_set_are_impossible():
    with pm.Model() as model:
        data = pm.Data("answers", [[0, 1], [1, 3]])
        mechanism = ad.SubsetSelection(K, 1.0, size=2)
        ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(K)), mechanism, observed=data)
    point = {"theta_simplex__": np.zeros(K - 1)}
    assert np.isfinite(model.compile_logp(mode=PYTHON)(point))
    for wrong in ([[1, 0]], [[1, 1]], [[0, K]], [[-1, 0]]):
        with model:
            pm.set_data({"answers": wrong})
        assert model.compile_logp(mode=PYTHON)(point) == -np.inf


@pytest.mark.long
def test_a_refit_by_nutpie_compiles_nothing_and_draws_what_a_new_model_draws():
    old, new = simulated(ad.SRR(K, 1.0), 300, seed=1), simulated(ad.SRR(K, 1.0), 450, seed=2)
    model = model_with_data(old, lambda n: pm.Dirichlet("theta", np.ones(K)))
    compiled = nutpie.compile_pymc_model(model)
    again = compiled.with_data(answers=new.answers)
    assert again.compiled_logp_func is compiled.compiled_logp_func
    fresh = nutpie.compile_pymc_model(model_with_data(new, lambda n: pm.Dirichlet("theta", np.ones(K))))
    sizes = {"draws": 50, "tune": 100, "chains": 1, "seed": 1, "progress_bar": False}
    draws = [nutpie.sample(each, **sizes)["posterior"]["theta"].values for each in (again, fresh)]
    np.testing.assert_array_equal(*draws)


def test_trees_have_the_new_answers():
    old, new = simulated(ad.SRR(K, 1.0), 30, seed=1), simulated(ad.SRR(K, 1.0), 45, seed=2)
    with model_with_data(old, lambda n: pm.Dirichlet("theta", np.ones(K))):
        pm.set_data({"answers": new.answers})
        trace = pm.sample_prior_predictive(5, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    np.testing.assert_array_equal(trace["observed_data"]["y"], new.answers)
    assert trace["prior_predictive"]["y"].shape == (1, 5, 45)


# ---------------------------------------------------------------- people, groups and dims
def regression_model(responses, covariates):
    with pm.Model(coords={"category": responses.categories}) as model:
        x = pm.Data("X", covariates)
        intercept, slope = pm.Normal("a", dims="category"), pm.Normal("b", shape=(2, K))
        ad.PrivateResponse("y", pm.math.softmax(intercept + x @ slope, axis=-1), responses, dims="response")
    return model


def test_prediction_for_another_number_of_people():
    covariates = np.random.default_rng(0).normal(size=(200, 2))
    responses = simulated(ad.SRR(K, 3.0), 200, seed=1)
    quick = {"compile_kwargs": {"mode": "FAST_COMPILE"}}
    with regression_model(responses, covariates):
        prior = pm.sample_prior_predictive(200, random_seed=1, **quick)
        prior["posterior"] = prior["prior"]
        pm.set_data({"X": [[0.0, 0.0]] * 5 + [[9.0, 9.0]] * 2})
        found = pm.sample_posterior_predictive(prior, predictions=True, **QUIET, **quick)
    predicted = found["predictions"]["y"]
    assert dict(predicted.sizes) == {"chain": 1, "draw": 200, "response": 7}
    # Where X = 9, θ is nearly all in the category with the largest slope, so two answers agree more often than chance.
    last = predicted.values[0, :, -2:]
    best = (prior["prior"]["b"].values[0].sum(axis=1)).argmax(axis=1)
    assert (last == best[:, None]).mean() > 0.6


def test_the_log_probability_of_another_number_of_people_is_refused():
    responses = simulated(ad.SRR(K, 1.0), 20, seed=1)
    model = regression_model(responses, np.zeros((20, 2)))
    with model:
        pm.set_data({"X": np.zeros((7, 2))})
    with pytest.raises(AssertionError):
        model.compile_logp(mode=PYTHON)(model.initial_point())


def test_sets_of_another_width_are_refused():
    responses = simulated(ad.UnaryEncoding(K, 1.0), 20, seed=1)
    model = model_with_data(responses, lambda n: pm.Dirichlet("theta", np.ones(K)))
    with model:
        pm.set_data({"answers": responses.answers[:, :-1]})
    with pytest.raises(AssertionError):
        model.compile_logp(mode=PYTHON)(model.initial_point())


def test_groups_as_data():
    responses, group = simulated(ad.SRR(K, 1.0), 90, seed=1), np.arange(90) % 3
    models = []
    for as_data in (True, False):
        with pm.Model() as model:
            given = pm.Data("group", group) if as_data else group
            ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones((3, K))), responses, group=given)
        models.append(model)
    data, known = models
    point = {"theta_simplex__": np.random.default_rng(0).normal(size=(3, K - 1))}
    assert data.compile_logp(mode=PYTHON)(point) == pytest.approx(known.compile_logp(mode=PYTHON)(point), rel=1e-12)
    np.testing.assert_allclose(*(each.compile_dlogp(mode=PYTHON)(point) for each in models), rtol=1e-9)
    with data:
        pm.set_data({"group": (group + 1) % 3})
    assert data.compile_logp(mode=PYTHON)(point) != pytest.approx(known.compile_logp(mode=PYTHON)(point))
    with data:
        pm.set_data({"group": group + 1})
    with refuses("group", AssertionError):
        data.compile_logp(mode=PYTHON)(point)


def test_rows_that_the_user_takes_by_index_cost_as_much_as_groups():
    responses, group = simulated(ad.SRR(K, 1.0), 90, seed=1), np.arange(90) % 3
    with pm.Model() as model:
        theta = pm.Dirichlet("theta", np.ones((3, K)))
        ad.PrivateResponse("y", theta[group], responses)
    (terms,) = model.logp(sum=False, vars=[model["y"]])
    assert terms.owner.inputs[-2].data.size == 3 * K


@pytest.mark.long
@pytest.mark.parametrize("by_person", [False, True])
def test_a_discrete_latent_variable_is_summed_out(by_person):
    extras = pytest.importorskip("pymc_extras")
    responses = simulated(ad.SRR(K, 1.0), 25, seed=1)
    with pm.Model() as model:
        which = pm.Bernoulli("which", 0.3, shape=25 if by_person else None)
        theta = pm.Dirichlet("theta", np.ones((2, K)))
        ad.PrivateResponse("y", theta[which], responses)
    summed = extras.marginalize(model, ["which"])
    point = {"theta_simplex__": np.random.default_rng(0).normal(size=(2, K - 1))}
    if by_person:
        with pm.Model() as mixture:
            theta = pm.Dirichlet("theta", np.ones((2, K)))
            ad.PrivateResponse("y", 0.7 * theta[0] + 0.3 * theta[1], responses)
        expected = mixture.compile_logp(mode=PYTHON)(point)
    else:
        value = model.compile_logp(mode=PYTHON)
        expected = np.logaddexp(*(value(point | {"which": np.array(i)}) for i in (0, 1)))
    assert summed.compile_logp(mode=PYTHON)(point) == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(summed.compile_dlogp(mode=PYTHON)(point)).all()


def test_shape_and_size():
    theta, responses = np.array([0.4, 0.3, 0.2, 0.1]), simulated(ad.SRR(K, 1.0), 6, seed=1)
    dist = ad.PrivateResponse.dist
    shapes = {
        (6,): dist(theta, responses),
        (7,): dist(theta, responses, shape=7),
        (3,): dist(theta, responses, size=3),
        (2, 5): dist(theta, responses.mechanism, shape=(2, 5)),
        (): dist(theta, responses.mechanism),
        (8,): dist(np.full((8, K), 0.25), responses.mechanism),
        (5, K): dist(theta, ad.UnaryEncoding(K, 1.0), shape=(5, K)),
        (9,): dist(theta, ad.RRRR(K, 1.0), subsets=[0, 1], shape=9),
        (4,): dist(theta, ad.RRRR(K, 1.0), subsets=np.eye(3, K, dtype=bool), subset_index=[0, 2, 1, 1]),
    }
    for shape, variable in shapes.items():
        assert pm.draw(variable, random_seed=1, mode="FAST_COMPILE").shape == shape
    table = np.array([[0, 1, 2, 3, 3], [1, 1, 1, 0, 2]])
    terms = pm.logp(shapes[2, 5], table).eval(mode=PYTHON)
    matrix = responses.mechanism.transition_matrix()
    np.testing.assert_allclose(terms, np.log(matrix @ theta)[table], rtol=1e-12)


def test_people_who_have_not_answered_yet():
    with pm.Model(coords={"person": range(30)}) as model:
        theta = pm.Dirichlet("theta", np.ones(K))
        ad.PrivateResponse("plan", theta, ad.SRR(K, 1.0), dims="person")
        ad.PrivateResponse("bits", theta, ad.UnaryEncoding(K, 1.0), dims="person")
        ad.PrivateResponse("inside", theta, ad.RRRR(K, 1.0), subsets=[1], shape=5)
        prior = pm.sample_prior_predictive(4, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})["prior"]
    assert [each.name for each in model.free_RVs] == ["theta", "plan", "bits", "inside"]
    assert prior["plan"].dims == ("chain", "draw", "person")
    assert prior["bits"].shape == (1, 4, 30, K)
    assert prior["inside"].shape == (1, 4, 5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"responses": ad.RRRR(K, 1.0)}, "subsets"),
        ({"responses": ad.SRR(K, 1.0), "subsets": [0]}, "subsets"),
        ({"responses": ad.RRRR(K, 1.0), "subsets": np.ones((2, K), dtype=bool)}, "subsets"),
        ({"responses": ad.RRRR(K, 1.0), "subsets": np.eye(2, K, dtype=bool)}, "subset_index"),
        ({"responses": ad.SRR(K, 1.0), "observed": [0, 1]}, "observed"),
        ({"responses": [0, 1]}, "responses"),
    ],
)
def test_refusals(arguments, name):
    with pm.Model():
        theta = pm.Dirichlet("theta", np.ones(K))
        with refuses(name):
            ad.PrivateResponse("y", theta, **arguments)


@pytest.mark.long
def test_variables_of_pymc_dims_are_read_by_their_dimensions():
    pmd = pytest.importorskip("pymc.dims")
    responses = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 1, 2, 2], categories=["a", "b", "c"])
    region = ["south", "north", "north", "south"]
    coords = {"category": ["c", "a", "b"], "region": ["north", "south"]}
    with pm.Model(coords=coords) as named:
        theta = pmd.Flat("theta", dims=("category", "region"))
        ad.PrivateResponse("y", theta, responses, group=region, dims="response")
    with pm.Model(coords=coords) as plain:
        theta = pm.Flat("theta", dims=("region", "category"))
        ad.PrivateResponse("y", theta, responses, group=region, dims="response")
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    value = named.compile_logp(mode=PYTHON)({"theta": table.T})
    assert value == pytest.approx(plain.compile_logp(mode=PYTHON)({"theta": table}), rel=1e-14)
    with pm.Model(coords={"letter": ["x", "y", "z"]}):
        theta = pmd.Flat("theta", dims=("letter",))
        with refuses("theta"):
            ad.PrivateResponse("y", theta, responses)


@pytest.mark.jax
def test_jax_evaluates_answers_as_data():
    pytest.importorskip("jax")
    mechanism = ad.RRRR(K, 1.5, 0.8)
    model = model_with_data(simulated(mechanism, 40, seed=1), lambda n: pm.Dirichlet("theta", np.ones(K)))
    point = {"theta_simplex__": np.array([0.3, -0.2, 0.5])}
    with model:
        pm.set_data({"answers": simulated(mechanism, 40, seed=2).answers})
    values = [model.compile_logp(mode=mode)(point) for mode in ("JAX", PYTHON)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


# ---------------------------------------------------------------- rows and counts
@pytest.mark.parametrize("mechanism", [*MECHANISMS, ad.LocalHashing(K, 1.0, 3)], ids=repr)
def test_rows_and_counts_are_the_likelihood_of_any_mechanism(mechanism):
    responses, k = simulated(mechanism, 70, seed=1), mechanism.n_categories
    with pm.Model() as model:
        rows, counts = map(pm.Data, ["rows", "counts"], [np.ones((1, k)), [1]])
        theta = pm.Dirichlet("theta", np.ones(k))
        pm.Potential("y", ad.model.counted_log_likelihood(theta, rows, counts))
        pm.set_data(dict(zip(["rows", "counts"], ad.model.rows_and_counts(responses), strict=True)))
    point = {"theta_simplex__": np.random.default_rng(0).normal(size=k - 1)}
    theta = np.random.default_rng(0).dirichlet(np.ones(k))
    expected = np.log(answer_rows(responses) @ theta).sum()
    found = ad.model.counted_log_likelihood(theta, *ad.model.rows_and_counts(responses)).eval(mode=PYTHON)
    assert found == pytest.approx(expected, rel=1e-10)
    with pm.Model() as usual:
        ad.PrivateResponse("y", pm.Dirichlet("theta", np.ones(k)), responses)
    values = [each.compile_dlogp(mode=PYTHON)(point) for each in (model, usual)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-9)


def test_rows_and_counts_of_other_lengths_are_refused():
    theta, rows = np.full(3, 1 / 3), np.full((2, 3), 0.5)
    for given in ((theta, rows, [1, 2, 3]), (np.full(4, 0.25), rows, [1, 2])):
        with pytest.raises(AssertionError):
            ad.model.counted_log_likelihood(*given).eval(mode=PYTHON)
    with refuses("rows"):
        ad.model.counted_log_likelihood(theta, rows[0], [1])
