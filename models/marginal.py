"""Frequencies of categories, written out by hand: the program to start from.

Use it when people answered one question about themselves and all that is wanted is how many hold each category. The
private categories are summed out, so θ is the only unknown and NUTS samples it well. `adobest_pp.frequency_model` is
this program in one call.
"""

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad
from adobest_pp.report.findings import simulated_poll


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: θ ~ Dirichlet(1, …, 1), and the answers given θ."""
    with pm.Model(coords={"category": responses.categories}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(responses.n_categories), dims="category")
        ad.PrivateResponse("y", theta, responses, dims="response")
    return model


if __name__ == "__main__":
    responses = simulated_poll(10_000, epsilon=1.0).responses
    assert isinstance(responses, ad.Responses)
    with build(responses):
        trace = pm.sample(random_seed=1)
    print(az.summary(trace, var_names=["theta"], ci_kind="hdi", ci_prob=0.9))
