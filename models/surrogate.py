"""Frequencies of categories on positive variables: what reflected SGLD moves on.

Use it for samplers that reflect at zero instead of transforming: θ is φ/Σφ with independent φ ~ Gamma(1, 1), which
gives θ the same Dirichlet prior as `marginal.py`, and the same posterior. For exact draws prefer `marginal.py`.
"""

import arviz as az
import pymc as pm

import adobest_pp as ad
from adobest_pp.demo import simulate_poll


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: φ_i ~ Gamma(1, 1) untransformed, θ = φ/Σφ, and the answers given θ."""
    with pm.Model(coords={"category": responses.categories}) as model:
        phi = pm.Gamma("phi", 1, 1, default_transform=None, dims="category")
        theta = pm.Deterministic("theta", phi / phi.sum(), dims="category")
        ad.PrivateResponse("y", theta, responses, dims="response")
    return model


if __name__ == "__main__":
    responses = simulate_poll(people=10_000, epsilon=1.0, seed=1)
    with build(responses) as model:
        step = ad.ReflectedSGLD(model["phi"], responses=responses, step_size=1e-4, updates_per_draw=20)
        trace = pm.sample(1000, tune=500, chains=2, step=step, random_seed=1)
    print(az.summary(trace, var_names=["theta"], ci_kind="eti", ci_prob=0.9))
