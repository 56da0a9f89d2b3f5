"""SGLD with control variates as a step method of PyMC: the exact posterior, chains that go on, and refusals."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import adobest_pp as ad
from tests.samplers import harness

QUIET = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}


@pytest.mark.parametrize("transformed", [True, False])
@pytest.mark.parametrize("mechanism", harness.MECHANISMS)
def test_draws_are_of_the_exact_posterior(mechanism, transformed):
    case = harness.Case(mechanism, 3, 2000 if transformed else 7)
    responses = case.responses()
    with ad.frequency_model(responses, case.prior) if transformed else plain_model(responses, case.prior) as model:
        step = ad.SGLDCV(model["theta"])
        draws = pm.sample(step=step, draws=1500, tune=50, chains=4, random_seed=3, **QUIET)
    harness.check_posterior(draws["posterior"]["theta"].values, case, bias=0.02)
    assert draws["sample_stats"]["sgld_cv_virial"].mean() == pytest.approx(1, abs=0.1)


def plain_model(responses, prior):
    with pm.Model() as model:
        theta = pm.Dirichlet("theta", a=prior, default_transform=None)
        ad.PrivateResponse("y", theta, responses)
    return model


@pytest.mark.parametrize("copy", ["state", "pickle"])
def test_a_chain_can_be_taken_up_again(copy):
    case = harness.Case("srr", 3, 7)
    with ad.frequency_model(case.responses(), case.prior) as model:
        step, other = (ad.SGLDCV("theta", rng=seed) for seed in (5, 6))
        point = model.initial_point()
    for _ in range(5):
        point, _ = step.step(point)
    if copy == "pickle":
        other = cloudpickle.loads(cloudpickle.dumps(step))
    else:
        other.sampling_state = step.sampling_state
    for _ in range(5):
        (one, stats), (two, same) = step.step(point), other.step(point)
        np.testing.assert_array_equal(one["theta_simplex__"], two["theta_simplex__"])
        assert stats == same
        point = one


def test_goes_on_from_where_it_is_put():
    """A point that another put there is where the next draw starts: close to it after one short update."""
    case = harness.Case("srr", 3, 2000)
    with plain_model(case.responses(), case.prior):
        step = ad.SGLDCV("theta")
    object.__setattr__(step.choices, "step", 1e-4)
    object.__setattr__(step.choices, "updates_per_draw", 1)
    theta = np.array([0.5, 0.2, 0.3])
    moved, _ = step.step({"theta": theta})
    np.testing.assert_allclose(moved["theta"], theta, atol=1e-3)


def refusals():
    responses = harness.Case("srr", 3, 7).responses()

    def hyper():
        with pm.Model():
            theta = pm.Dirichlet("theta", a=pm.Exponential("a", 1.0, shape=3))
            ad.PrivateResponse("y", theta, responses)
            ad.SGLDCV(theta)

    def small():
        with ad.frequency_model(responses, 0.001):
            ad.SGLDCV("theta")

    return [
        (hyper, "theta must have a constant concentration, got one that depends on a"),
        (small, "prior must be at least 0.01 for 'sgld_cv'"),
    ]


@pytest.mark.parametrize(("build", "message"), refusals())
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_is_never_chosen_automatically():
    assert ad.SGLDCV.competence(None, True) == 0
