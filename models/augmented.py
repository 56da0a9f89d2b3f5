"""Frequencies of categories with every person's private category as a variable.

Use it to see what a Gibbs sampler alternates between, θ given x and x given θ, or to ask for the posterior of a
person's own category, ``x``. It has as many unknowns as people, and PyMC visits them one by one, so it is for tens of
people. `adobest_pp.DataAugmentationGibbs` is the same sampler for θ alone: people with equal answers are exchangeable,
so it draws how many of them are in each category, all at once, and keeps no x. `marginal.py` has the same posterior of
θ with x summed out.
"""

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad
from adobest_pp.model.tensors import transition_matrix
from adobest_pp.report.answer_sources import simulated_poll


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: θ ~ Dirichlet(1, …, 1), x ~ Categorical(θ), y ~ Categorical(G[·, x]) under each subset."""
    k, n = responses.n_categories, len(responses)
    with pm.Model(coords={"category": responses.categories, "response": range(n)}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(k), dims="category")
        x = pm.Categorical("x", p=theta, dims="response")
        subsets, index, epsilon1, epsilon2 = published(responses)
        matrices = transition_matrix(subsets, epsilon1, epsilon2)
        pm.Categorical("y", p=matrices[index, :, x], observed=responses.answers, dims="response")
    return model


def published(responses: ad.Responses) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Return the distinct subsets, that of each response, and the budgets; SRR is RRRR under an empty subset."""
    mechanism = responses.mechanism
    if isinstance(mechanism, ad.RRRR):
        epsilon2 = np.array([mechanism.epsilon2(int(size)) for size in responses.subsets.sum(axis=1)])
        return responses.subsets, responses.subset_index, mechanism.epsilon1, epsilon2
    if isinstance(mechanism, ad.SRR):
        empty = np.zeros((1, mechanism.n_categories), dtype=bool)
        return empty, np.zeros(len(responses), dtype=int), 0.0, np.array([mechanism.epsilon])
    raise ValueError(f"responses must be of SRR or RRRR, whose answers are categories, got {mechanism!r}")


if __name__ == "__main__":
    with build(simulated_poll(30, epsilon=3.0).responses) as model:
        # Each x from its conditional distribution, as Gibbs has it, rather than from a uniform proposal.
        step = pm.CategoricalGibbsMetropolis(model["x"], proposal="proportional")
        trace = pm.sample(500, tune=200, chains=4, step=step, random_seed=1)
    print(az.summary(trace, var_names=["theta"], ci_kind="hdi", ci_prob=0.9))
