"""Frequencies of categories by positive variables, which reflected SGLD moves.

Use it for samplers that reflect at zero instead of transforming: θ is φ/Σφ with independent φ ~ Gamma(1, 1), which
gives θ the same Dirichlet prior as `marginal.py`, and the same posterior. For exact draws prefer `marginal.py`. Steps
that are short enough for a small bias mix slowly, and take hundreds of updates for each effective draw. (The paper's
are 0.5/n, and those here the same within a factor of two.) In this example, the noise of the batches still widens the
posterior by a sixth.
"""

import arviz as az
import pymc as pm

import adobest_pp as ad
from adobest_pp.report.findings import simulated_poll


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: φ_i ~ Gamma(1, 1) untransformed, θ = φ/Σφ, and the answers given θ."""
    with pm.Model(coords={"category": responses.categories}) as model:
        phi = pm.Gamma("phi", 1, 1, default_transform=None, dims="category")
        theta = pm.Deterministic("theta", phi / phi.sum(), dims="category")
        ad.PrivateResponse("y", theta, responses, dims="response")
    return model


if __name__ == "__main__":
    responses = simulated_poll(10_000, epsilon=1.0).responses
    assert isinstance(responses, ad.Responses)
    with build(responses) as model:
        step = ad.SGLD(model["phi"], step_size=1e-4, updates_per_draw=500)
        # PyMC would check φ, which mixes slower than θ: the answers say nothing about its sum.
        trace = pm.sample(1000, tune=500, chains=4, step=step, random_seed=1, compute_convergence_checks=False)
    print(az.summary(trace, var_names=["theta"], ci_kind="hdi", ci_prob=0.9))
