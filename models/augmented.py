"""Frequencies of categories with every person's private category as a variable.

Use it to see the two steps of a Gibbs sampler, θ given x and x given θ, or to get the posterior of a person's own
category, ``x``. It takes answers of any mechanism. It has as many unknowns as people, and PyMC visits them one by one,
so it is for tens of people. `adobest_pp.DataAugmentationGibbs` is the same sampler for θ alone: people with equal
answers are exchangeable, so it draws how many of them are in each category, all at once, and stores no x. `marginal.py`
has the same posterior of θ, with x summed out.
"""

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad
from adobest_pp.report.findings import simulated_poll


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: θ ~ Dirichlet(1, …, 1), x ~ Categorical(θ), and P(y | x) of each person's answer y."""
    k, n = responses.n_categories, len(responses)
    evidence, row_of = responses.evidence_and_index()
    chances = evidence.matrix() * np.exp(evidence.log_scale)[:, None]  # P(y | x), a row for each distinct answer
    with pm.Model(coords={"category": responses.categories, "response": range(n)}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(k), dims="category")
        x = pm.Categorical("x", p=theta, dims="response")
        pm.Potential("y", pm.math.log(chances[row_of])[np.arange(n), x], dims="response")
    return model


if __name__ == "__main__":
    responses = simulated_poll(30, epsilon=3.0).responses
    assert isinstance(responses, ad.Responses)
    with build(responses) as model:
        # Each x from its conditional distribution, as in Gibbs sampling, rather than from a uniform proposal.
        step = pm.CategoricalGibbsMetropolis(model["x"], proposal="proportional")
        trace = pm.sample(500, tune=200, chains=4, step=step, random_seed=1)
    print(az.summary(trace, var_names=["theta"], ci_kind="hdi", ci_prob=0.9))
