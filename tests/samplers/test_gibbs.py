"""DataAugmentationGibbs as a step method of PyMC: exact, repeatable on any number of cores, restorable."""

import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from tests.samplers import harness

CASE = harness.Case("rrrr", 3, 7)

pytestmark = pytest.mark.usefixtures("interpreted")


def draw(step, **settings):
    defaults = {"draws": 200, "tune": 20, "chains": 2, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    return pm.sample(step=step, **(defaults | quiet | settings))


@pytest.mark.parametrize("transform", [{}, {"default_transform": None}], ids=["simplex", "untransformed"])
def test_posterior_is_the_exact_one(transform):
    with pm.Model():
        theta = pm.Dirichlet("theta", CASE.prior, **transform)
        ad.PrivateResponse("y", theta, CASE.responses())
        tree = draw(ad.DataAugmentationGibbs(theta), draws=3000)
    draws = tree["posterior"]["theta"].values
    harness.check_posterior(draws, CASE)
    assert (tree["sample_stats"]["gibbs_distance"] > 0).all()


def test_frequency_model_gives_the_same_draws_on_one_core_and_on_two():
    responses = CASE.responses()
    with ad.frequency_model(responses) as model:
        step = ad.DataAugmentationGibbs(model["theta"])
        one, again, two = draw(step), draw(step), draw(step, cores=2)
    np.testing.assert_array_equal(one["posterior"]["theta"], again["posterior"]["theta"])
    np.testing.assert_array_equal(one["posterior"]["theta"], two["posterior"]["theta"])
    first, second = one["posterior"]["theta"].values
    assert not np.array_equal(first, second)


def test_state_can_be_restored():
    responses = CASE.responses()
    with ad.frequency_model(responses) as model:
        step = ad.DataAugmentationGibbs(model["theta"], rng=5)
        other = ad.DataAugmentationGibbs(model["theta"], rng=6)
        point = model.initial_point()
    for _ in range(10):
        point, _ = step.step(point)
    other.sampling_state = step.sampling_state
    for _ in range(10):
        (one, stats), (two, same) = step.step(point), other.step(point)
        np.testing.assert_array_equal(one["theta_simplex__"], two["theta_simplex__"])
        assert stats == same
        point = one


@pytest.mark.long
def test_concentration_may_be_sampled_by_another_step():
    """The posterior of θ and of a scale with two values is a mixture of two posteriors that are known exactly."""
    responses, log_likelihood = CASE.responses(), ad.likelihood.log_likelihood
    scales = np.array([1.0, 10.0])
    with pm.Model():
        which = pm.Bernoulli("which", 0.5)
        theta = pm.Dirichlet("theta", pm.math.switch(which, scales[1], scales[0]) * np.ones(3))
        ad.PrivateResponse("y", theta, responses)
        steps = [ad.DataAugmentationGibbs(theta), pm.BinaryGibbsMetropolis([which])]
        tree = draw(steps, draws=4000)
    rng = np.random.default_rng(0)
    evidence = responses.evidence()
    marginal = [
        np.mean([np.exp(log_likelihood(theta, evidence)) for theta in rng.dirichlet(scale * np.ones(3), size=20_000)])
        for scale in scales
    ]
    share = tree["posterior"]["which"].values.astype(float)
    harness.check_moment(share, "mean", marginal[1] / sum(marginal), tolerance=0.005)


def test_extreme_concentrations_leave_no_nan():
    responses = ad.Responses(ad.SRR(4, 1.0))
    responses.append([0, 0, 1])
    with ad.frequency_model(responses, prior=1e-3) as model:
        tree = draw(ad.DataAugmentationGibbs(model["theta"]))
    theta = tree["posterior"]["theta"].values
    assert np.isfinite(theta).all()
    np.testing.assert_allclose(theta.sum(axis=-1), 1.0)


def test_refuses_a_prior_that_is_not_dirichlet():
    responses = CASE.responses()
    with ad.frequency_model(responses, surrogate=True) as model, pytest.raises(ValueError, match="Dirichlet prior"):
        ad.DataAugmentationGibbs(model["phi"])


def test_refuses_a_likelihood_of_something_else():
    responses = CASE.responses()
    with pm.Model():
        theta = pm.Dirichlet("theta", np.ones(3))
        ad.PrivateResponse("y", theta[::-1], responses)
        with pytest.raises(ValueError, match="got another function of it"):
            ad.DataAugmentationGibbs(theta)


def test_refuses_theta_that_enters_more_than_the_responses():
    responses = CASE.responses()
    with ad.frequency_model(responses) as model:
        pm.Potential("bonus", 3 * pm.math.log(model["theta"][0]))
        with pytest.raises(ValueError, match="one PrivateResponse and nothing else in the model, got y, bonus"):
            ad.DataAugmentationGibbs(model["theta"])


def test_is_never_chosen_automatically():
    assert ad.DataAugmentationGibbs.competence(None, True) == 0


def test_the_variable_can_be_given_by_its_name():
    responses = CASE.responses()
    with ad.frequency_model(responses) as model:
        by_name = ad.DataAugmentationGibbs("theta", rng=1)
        by_variable = ad.DataAugmentationGibbs(model["theta"], rng=1)
        (one, _), (two, _) = by_name.step(model.initial_point()), by_variable.step(model.initial_point())
    np.testing.assert_array_equal(list(one.values()), list(two.values()))


@pytest.mark.parametrize("name", ["shares", "y"])
def test_refuses_other_names(name):
    message = f"theta must be among the free variables theta of the model, got {name!r}"
    with ad.frequency_model(CASE.responses()), pytest.raises(ValueError, match=message):
        ad.DataAugmentationGibbs(name)
