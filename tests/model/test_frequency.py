import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.conditioning import remove_value_transforms
from scipy import stats

import adobest_pp as ad
import oracles
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import simulated

RESPONSES = simulated(ad.RRRR(4, 1.0), 50, seed=1)


def log_density(model, point):
    """The log-density on the constrained space."""
    return float(remove_value_transforms(model).compile_logp(mode="FAST_COMPILE")(point))


@pytest.mark.parametrize("prior", [1.0, 0.5, [0.1, 1.0, 2.0, 3.0]])
def test_the_density_is_prior_times_likelihood(prior):
    theta = np.array([0.4, 0.3, 0.2, 0.1])
    expected = stats.dirichlet(np.full(4, prior)).logpdf(theta) + oracles.log_likelihood(theta, rows_of(RESPONSES))
    assert log_density(ad.frequency_model(RESPONSES, prior), {"theta": theta}) == pytest.approx(expected)


def test_the_surrogate_has_gamma_priors_and_the_same_likelihood():
    phi = np.array([0.4, 1.3, 2.2, 0.1])
    prior = np.array([0.1, 1.0, 2.0, 3.0])
    expected = stats.gamma(prior).logpdf(phi).sum() + oracles.log_likelihood(phi / phi.sum(), rows_of(RESPONSES))
    model = ad.frequency_model(RESPONSES, prior, surrogate=True)
    assert log_density(model, {"phi": phi}) == pytest.approx(expected)
    assert [value.name for value in model.value_vars] == ["phi"]


def test_its_transform_is_worth_as_much_as_that_of_pymc():
    with pm.Model() as plain:
        theta = pm.Dirichlet("theta", a=np.full(4, 0.7))
        ad.PrivateResponse("y", theta, RESPONSES)
    model = ad.frequency_model(RESPONSES, 0.7)
    # Both densities are of coordinates of θ that are linear in each other, so they differ by one constant.
    differences = []
    for theta in np.random.default_rng(0).dirichlet(np.ones(4), size=3):
        densities = []
        for each in (model, plain):
            forward = each.rvs_to_transforms[each["theta"]].forward(theta).eval(mode="FAST_COMPILE")
            densities.append(each.compile_logp(mode="FAST_COMPILE")({"theta_simplex__": forward}))
        differences.append(densities[0] - densities[1])
    np.testing.assert_allclose(differences, differences[0], atol=1e-10)


def test_labels():
    responses = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0, 1, 1], categories=["no", "yes"])
    for surrogate in (False, True):
        model = ad.frequency_model(responses, surrogate=surrogate)
        assert model.coords["category"] == ("no", "yes")
        assert model.named_vars_to_dims["theta"] == ("category",)
        assert model.named_vars_to_dims["y"] == ("response",)


@pytest.mark.parametrize("prior", [0, -1.0, np.nan, [1.0, 1.0], "flat", [1, 1, 1, 0]])
def test_a_bad_prior_is_refused(prior):
    with refuses("prior"):
        ad.frequency_model(RESPONSES, prior)


def test_anything_but_responses_is_refused():
    with refuses("responses"):
        ad.frequency_model(RESPONSES.evidence())


def test_theta_of_a_learned_prior_is_dirichlet_given_the_concentration():
    # 4000 draws, five standard errors: a false alarm in less than one of 1,000,000 seeds. E Σθ² is (a + 1)/(Ka + 1).
    model = ad.frequency_model(RESPONSES, "learned")
    a, theta = pm.draw([model["concentration"], model["theta"]], 4000, random_seed=1, mode="FAST_COMPILE")
    off = (theta**2).sum(axis=1) - (a + 1) / (4 * a + 1)
    assert abs(off.mean()) < 5 * off.std() / np.sqrt(4000)
