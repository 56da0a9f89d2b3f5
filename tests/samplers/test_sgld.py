"""SGLD as a step method of PyMC: two gradients that agree, a bias that falls with the step, and refusals."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
import oracles
from adobest_pp._numerics import TINY
from adobest_pp.samplers.registry import LANGEVIN
from adobest_pp.samplers.sgld import step as sgld
from adobest_pp.samplers.sgld.loop import Langevin
from adobest_pp.samplers.sgld.step import ModelGradient
from oracles import rows_of
from tests.samplers import harness
from tests.strategies import simulated

MECHANISMS = [ad.SRR(5, 1.0), ad.RRRR(5, 2.0, 0.8), ad.SubsetSelection(5, 1.0, size=2)]
PRIOR = np.array([0.4, 1.0, 2.0, 3.0, 1.0])
CASE = harness.Case("rrrr", 3, 7)

pytestmark = pytest.mark.usefixtures("interpreted")


def by_the_graph(*arguments, **options):
    """The step method as in a model that is not the surrogate: its gradient is that of the model's graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sgld, "surrogate_of", lambda model, values: None)
        return ad.SGLD(*arguments, **options)


def draw(step, **settings):
    defaults = {"draws": 200, "tune": 20, "chains": 2, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    return pm.sample(step=step, **(defaults | quiet | settings))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_evidence_and_model_give_the_same_gradient_on_the_same_indices(mechanism):
    responses = simulated(mechanism, 200, seed=1)
    rows = rows_of(responses)
    with ad.frequency_model(responses, PRIOR, surrogate=True) as model:
        by_evidence = ad.SGLD(model["phi"]).estimator
        by_model = by_the_graph(model["phi"]).estimator
    assert isinstance(by_evidence, Langevin)
    assert isinstance(by_model, ModelGradient)
    assert by_evidence.populations() == by_model.populations() == (200,)
    rng = np.random.default_rng(3)
    for size, floor in ((50, 1e-9), (1, 0.7), (0, 0.7)):
        phi, batch = rng.gamma(1.0, size=5), rng.integers(0, 200, size)
        one, two = (estimator.gradient(phi, batch, floor) for estimator in (by_evidence, by_model))
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)
        chosen = rows[batch] if size else rows
        likelihood = 200 / len(chosen) * oracles.phi_gradient_of_the_paper(phi, chosen)
        expected = (PRIOR - 1) / np.maximum(phi, floor) - 1 + likelihood
        np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("diffusion", ["reflected", pytest.param("preconditioned", marks=pytest.mark.long)])
def test_draws_are_the_same_on_both_paths_and_on_any_number_of_cores(diffusion):
    responses = simulated(ad.RRRR(5, 2.0), 80, seed=1)
    options = {"batch_size": 10, "updates_per_draw": 3, "diffusion": diffusion}
    with ad.frequency_model(responses, PRIOR, surrogate=True) as model:
        fast = ad.SGLD(model["phi"], **options)
        generic = by_the_graph(model["phi"], **options)
        one, again, two, other_path, other_path_two = (
            draw(step, cores=cores)["posterior"]["phi"].values
            for step, cores in ((fast, 1), (fast, 1), (fast, 2), (generic, 1), (generic, 2))
        )
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(other_path, other_path_two)
    # Rounding errors of the two paths differ, and grow along the chain.
    np.testing.assert_allclose(one[:, :20], other_path[:, :20], rtol=1e-6)
    assert not np.array_equal(one[0], one[1])


def test_stats_say_what_happened():
    responses = simulated(ad.SRR(5, 1.0), 80, seed=1)
    with ad.frequency_model(responses, surrogate=True) as model:
        step = ad.SGLD(model["phi"], schedule=ad.DecayingSteps(0.5, 0.5))
        draw(step, draws=5)  # a second run starts its schedule anew
        stats = draw(step, draws=50, tune=10)["sample_stats"]
    for chain in (0, 1):
        np.testing.assert_allclose(stats["sgld_step_size"][chain], 0.5 / np.sqrt(np.arange(11, 61)))
    assert (stats["sgld_gradient_norm"] > 0).all()
    assert stats["sgld_reflections"].dtype == np.int64
    assert stats["sgld_reflections"].sum() > 0
    assert (stats["sgld_rejected"] == 0).all()


@pytest.mark.parametrize("path", ["evidence", "model", "anchored", "svrg", "sghmc", "sgnht", "amagold"])
@pytest.mark.parametrize("copy", ["state", "pickle"])
def test_a_chain_can_be_taken_up_again(path, copy):
    responses = simulated(ad.SRR(3, 1.0), 30, seed=1)
    build = by_the_graph if path == "model" else ad.SGLD
    pieces = LANGEVIN.get(path, {}) | ({"updates_per_draw": 3} if path == "amagold" else {})
    if path == "anchored":
        pieces = {"diffusion": "log_ratio", "gradient": "control_variates"}
    with ad.frequency_model(responses, surrogate=True) as model:
        step, other = (build(model["phi"], rng=seed, schedule=ad.DecayingSteps(0.1), **pieces) for seed in (5, 6))
        if path == "anchored":
            step.anchor = np.array([0.9, 0.05, 0.05])
        point = model.initial_point()
    for _ in range(10):
        point, _ = step.step(point)
    if copy == "pickle":
        other = cloudpickle.loads(cloudpickle.dumps(step))
    else:
        other.sampling_state = step.sampling_state
    for _ in range(5):
        (one, stats), (two, same) = step.step(point), other.step(point)
        np.testing.assert_array_equal(one["phi"], two["phi"])
        assert stats == same
        point = one


@pytest.mark.long
def test_any_model_of_positive_variables_can_be_sampled():
    """Poisson counts with two Gamma rates, of which batches are rows: conjugate, so the posterior is known."""
    rng = np.random.default_rng(1)
    counts = rng.poisson([3.0, 8.0], size=(60, 2))
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, shape=2, default_transform=None)
        data = pm.Data("data", counts)
        pm.Poisson("counts", rate, observed=data)
        step = ad.SGLD(batch_size=None, step_size=0.01, diffusion="preconditioned", updates_per_draw=2)
        draws = draw(step, draws=2000, tune=500)["posterior"]["rate"].values
        for i in range(2):
            mean, sd = (2 + counts[:, i].sum()) / 61, np.sqrt(2 + counts[:, i].sum()) / 61
            harness.check_moment(draws[..., i], "mean", mean, tolerance=0.05 * sd)
            harness.check_moment(draws[..., i], "sd", sd, tolerance=0.1 * sd)
        estimator = ad.SGLD(batch_size=3).estimator
        gradient = estimator.gradient(np.array([2.0, 3.0]), np.array([4, 4, 7]), 1e-9)
        chosen = counts[[4, 4, 7]]
        expected = 1 / np.array([2.0, 3.0]) - 1 + 20 * (chosen / [2.0, 3.0] - 1).sum(axis=0)
        np.testing.assert_allclose(gradient, expected)
        # New data of another length are noticed where the chain starts.
        model.set_data("data", counts[:7])
        step.setup_chain(np.random.default_rng(0), 0, 1)
        assert step.populations == (7,)


def test_other_variables_of_the_model_are_left_to_other_steps():
    with pm.Model() as model:
        shape = pm.HalfNormal("shape", 1.0)
        rate = pm.Gamma("rate", shape, 1.0, default_transform=None)
        pm.Poisson("counts", rate, observed=[1, 2, 3])
        step = ad.SGLD([rate])
        point = model.initial_point() | {"shape_log__": np.log(4.0)}
        moved, _ = step.step(point)
    assert moved["shape_log__"] == np.log(4.0)
    np.testing.assert_allclose(step.estimator.gradient(np.array([2.0]), np.arange(3), 1e-9), 3 / 2 - 1 + 6 / 2 - 3)


@pytest.mark.parametrize(
    ("diffusion", "steps"),
    [
        pytest.param("reflected", (0.1, 0.01, 0.0005), marks=pytest.mark.long),
        ("preconditioned", (0.3, 0.1, 0.01)),
    ],
)
def test_bias_falls_with_the_step(diffusion, steps):
    """With a uniform prior, few responses and mass at the edge: the hard case, where the paper's diffusion is worse."""
    responses = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0] * 2 + [1] * 18)
    mean, sd = oracles.posterior_moments_k2(rows_of(responses), np.ones(2))
    errors = []
    for step in steps:
        settings = {"step_size": step, "updates_per_draw": max(1, int(0.4 / step)), "batch_size": None}
        tree = ad.sample(responses, "sgld", draws=1500, random_seed=2, diffusion=diffusion, **settings)
        theta = tree["posterior"]["theta"].values[..., 0]
        errors.append(max(abs(theta.mean() - mean[0]) / sd[0], abs(theta.std() / sd[0] - 1)))
    assert errors[0] > 0.15
    assert errors[1] < errors[0] / 1.5
    assert errors[2] < errors[1] / 1.5
    assert errors[2] < 0.1


@pytest.mark.long
def test_minibatches_add_variance_that_falls_with_the_step():
    """The noise of a batch is of the order of γ, that of the diffusion of √γ."""
    responses = simulated(ad.SRR(2, 1.0), 400, seed=2)
    prior = np.array([4.0, 6.0])
    _, sd = oracles.posterior_moments_k2(rows_of(responses), prior)
    excess = []
    for step, updates in ((0.02, 5), (0.0005, 200)):
        settings = {"step_size": step, "updates_per_draw": updates, "batch_size": 5}
        tree = ad.sample(responses, "sgld", prior, draws=2000, random_seed=2, progressbar=False, **settings)
        excess.append(tree["posterior"]["theta"].values[..., 0].std() / sd[0] - 1)
    assert excess[0] > 0.2
    assert abs(excess[1]) < 0.1


PIECES = [
    (diffusion, gradient)
    for diffusion in ("log_ratio", "cox_ingersoll_ross", "mirrored", "preconditioned")
    for gradient in ("control_variates", "full")
    if (diffusion, gradient) != ("cox_ingersoll_ross", "control_variates")
]


# test_samplers.py has the compiled loop of each; the step methods of the others take longer.
QUICK = [("log_ratio", "control_variates"), ("preconditioned", "full")]


@pytest.mark.parametrize(
    ("diffusion", "gradient"),
    [pytest.param(*each, marks=[] if each in QUICK else pytest.mark.long) for each in PIECES],
)
def test_every_piece_is_a_step_method_whose_phi_has_its_own_posterior(diffusion, gradient):
    """θ as quadrature has it, and Σφ as its prior, which the answers do not change: Gamma(Σρ)."""
    case = harness.Case("rrrr", 3, 2000)
    step_size = 0.02 if diffusion in ("log_ratio", "cox_ingersoll_ross") else 5e-4
    with ad.frequency_model(case.responses(), case.prior, surrogate=True) as model:
        step = ad.SGLD(model["phi"], diffusion=diffusion, gradient=gradient, step_size=step_size, updates_per_draw=200)
        draws = draw(step, draws=1000, tune=200)["posterior"]
    harness.check_posterior(draws["theta"].values, case, bias=0.05)
    if diffusion != "preconditioned":
        total = draws["phi"].values.sum(axis=-1)
        harness.check_moment(total, "mean", case.prior.sum())
        harness.check_moment(total, "sd", np.sqrt(case.prior.sum()))


def test_a_chain_that_has_left_its_anchor_takes_another():
    case = harness.Case("rrrr", 3, 2000)
    with ad.frequency_model(case.responses(), case.prior, surrogate=True) as model:
        step = ad.SGLD(model["phi"], gradient="control_variates", diffusion="log_ratio")
    first = step.anchor
    mean, sd = case.moments()
    np.testing.assert_allclose(first, mean, atol=2 * sd.max())
    near, far = first.copy(), np.array([0.02, 0.03, 0.95])
    step.step({"phi": near})
    assert step.anchor is first
    step.step({"phi": far})
    np.testing.assert_allclose(step.anchor, far)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    assert step.anchor is first


def refusals():
    responses = CASE.responses()

    def transformed():
        with pm.Model():
            ad.SGLD(pm.Gamma("phi", 1.0, 1.0))

    def signed():
        with pm.Model():
            ad.SGLD(pm.Normal("phi", default_transform=None))

    def bounded():
        with pm.Model():
            ad.SGLD(pm.Dirichlet("theta", np.ones(3), default_transform=None))

    def surrogate(**options):
        with ad.frequency_model(responses, surrogate=True) as model:
            ad.SGLD(**{"vars": model["phi"], **options})

    def other(**options):
        with pm.Model():
            ad.SGLD(pm.Gamma("rate", 1.0, 1.0, default_transform=None), **options)

    return [
        (transformed, "vars must be untransformed: create 'phi' with default_transform=None"),
        (signed, "vars must have all positive numbers as their support, got 'phi'"),
        (bounded, "vars must have all positive numbers as their support, got 'theta'"),
        (lambda: surrogate(vars="rho"), "vars must be among the free variables phi of the model, got 'rho'"),
        (lambda: surrogate(vars=["phi", 3]), "vars must be among the free variables phi of the model, got 3"),
        (lambda: surrogate(batch_size=0), "batch_size must be an integer of at least 1, got 0"),
        (lambda: surrogate(updates_per_draw=0), "updates_per_draw must be an integer of at least 1"),
        (lambda: surrogate(step_size=-1.0), "step_size must be a positive number, got -1.0"),
        (lambda: surrogate(step_size=0.1, schedule=ad.PaperSteps()), "step_size must be left out"),
        (lambda: surrogate(schedule=0.1), "schedule must be a function"),
        (lambda: surrogate(diffusion="plain"), "diffusion must be one of 'reflected', 'preconditioned'"),
        (
            lambda: surrogate(gradient="all"),
            "gradient must be one of 'minibatch', .* got 'all'",
        ),
        (
            lambda: surrogate(gradient="control_variates", diffusion="cox_ingersoll_ross"),
            "gradient must be 'minibatch' or 'full' with diffusion='cox_ingersoll_ross', got 'control_variates'",
        ),
        (lambda: other(diffusion="log_ratio"), "diffusion must be one of φ, such as 'reflected', for a model that is"),
        (lambda: other(gradient="control_variates"), "gradient must be 'minibatch' or 'full' for a model that is not"),
    ]


def other_models():
    """Models that are not the surrogate of a Dirichlet: another rate, prior or θ, one more variable, two data sets."""
    responses = simulated(ad.SRR(3, 1.0), 9, seed=2)
    gamma = {"shape": 3, "default_transform": None}
    cases = {
        "rate": (lambda: pm.Gamma("phi", 1.0, 2.0, **gamma), lambda phi: phi / phi.sum()),
        "exponential": (lambda: pm.Exponential("phi", 1.0, **gamma), lambda phi: phi / phi.sum()),
        "theta": (lambda: pm.Gamma("phi", 1.0, 1.0, **gamma), lambda phi: phi**2 / (phi**2).sum()),
        "more": (lambda: pm.Gamma("phi", 1.0, 1.0, **gamma), lambda phi: phi / phi.sum()),
        "twice": (lambda: pm.Gamma("phi", 1.0, 1.0, **gamma), lambda phi: phi / phi.sum()),
    }
    for name, (prior, theta_of) in cases.items():
        with pm.Model() as model:
            phi = prior()
            ad.PrivateResponse("y", theta_of(phi), responses)
            if name == "more":
                pm.Gamma("more", 1.0, 1.0, default_transform=None)
            if name == "twice":
                ad.PrivateResponse("z", theta_of(phi), responses)
        yield pytest.param(model, id=name)


@pytest.mark.parametrize("model", list(other_models()))
def test_any_other_model_is_moved_by_the_gradient_of_its_graph(model):
    with model:
        step = ad.SGLD(model["phi"], batch_size=None)
    assert isinstance(step.estimator, ModelGradient)
    point = np.array([0.4, 1.1, 0.7])
    values = {name: value if name != "phi" else point for name, value in model.initial_point().items()}
    expected = model.compile_dlogp(model["phi"])(values)
    np.testing.assert_allclose(step.estimator.gradient(point, np.zeros(0, dtype=np.int64), 1e-12), expected, rtol=1e-9)


@pytest.mark.parametrize(("build", "message"), refusals())
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_is_never_chosen_automatically():
    assert ad.SGLD.competence(None, True) == 0


def test_without_responses_the_prior_is_sampled():
    responses = ad.Responses(ad.SRR(3, 1.0))
    with ad.frequency_model(responses, [2.0, 3.0, 4.0], surrogate=True) as model:
        for build in (ad.SGLD, by_the_graph):
            step = build(model["phi"], step_size=0.01)
            assert step.populations == (0,)
            gradient = step.estimator.gradient(np.ones(3), np.zeros(0, dtype=np.int64), TINY)
            np.testing.assert_allclose(gradient, [0.0, 1.0, 2.0])
            draw(step, draws=5)
