"""Frequencies of categories from the transition tensors of RRRR, written out: the program to start from.

Each answer y was given under a published subset S, so P(y | θ) = Σ_x G_S[y, x]·θ[x], where G_S is the transition matrix
of the mechanism. The program writes this down: the row ``G[y, :]`` of every answer as a tensor, its product with θ, and
a Dirichlet prior. The private categories are summed out, so θ is the only unknown and NUTS samples it well.

Prefer `adobest_pp.PrivateResponse`, which has the same log-probability in one line, for every mechanism. It is a fused
node over the distinct answers, so a density costs about the same for a hundred people and for a million, where the
tensors cost n·K. Use the tensors if budgets are themselves unknown, as in `unknown_budget`.
"""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt

import adobest_pp as ad
from adobest_pp.report.findings import simulated_poll


def budgets(responses: ad.Responses) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the subset of each answer as a mask, ε₁, and ε₂ of each answer; SRR is RRRR with the empty subset."""
    mechanism, n = responses.mechanism, len(responses)
    if isinstance(mechanism, ad.SRR):
        return np.zeros((n, mechanism.n_categories), dtype=bool), 0.0, np.full(n, mechanism.epsilon)
    if not isinstance(mechanism, ad.RRRR):
        raise ValueError(f"responses must be of RRRR or SRR, got {mechanism!r}: use adobest_pp.PrivateResponse")
    masks = responses.subsets[responses.subset_index]
    return masks, mechanism.epsilon1, np.array([mechanism.epsilon2(size) for size in masks.sum(axis=1).tolist()])


def build(responses: ad.Responses) -> pm.Model:
    """Return the model: θ ~ Dirichlet(1, …, 1), and the answers with probabilities Σ_x G_S[y, x]·θ[x]."""
    masks, epsilon1, epsilon2 = budgets(responses)
    rows = ad.model.transition_rows(responses.answers, masks, epsilon1, epsilon2)
    with pm.Model(coords={"category": responses.categories, "response": range(len(responses))}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(responses.n_categories), dims="category")
        probability = (rows * theta).sum(axis=-1)
        pm.Potential("y", pt.log(probability), dims="response")
    return model


def unknown_budget(responses: ad.Responses, least: float = 0.1, greatest: float = 5.0) -> pm.Model:
    """Return the model of answers of SRR whose ε is not known: uniform between two bounds.

    Answers alone hardly tell ε from θ: the posterior says how much, and is as wide as it should be.
    """
    k = responses.n_categories
    with pm.Model(coords={"category": responses.categories}) as model:
        theta = pm.Dirichlet("theta", a=np.ones(k), dims="category")
        epsilon = pm.Uniform("epsilon", least, greatest)
        matrix = ad.model.transition_matrix(np.zeros(k, dtype=bool), 0.0, epsilon)
        counts = np.bincount(responses.answers, minlength=k)
        pm.Multinomial("y", n=len(responses), p=(matrix * theta).sum(axis=-1), observed=counts, dims="category")
    return model


if __name__ == "__main__":
    responses = simulated_poll(10_000, epsilon=1.0).responses
    assert isinstance(responses, ad.Responses)
    with build(responses):
        trace = pm.sample(random_seed=1)
    print(az.summary(trace, var_names=["theta"], ci_kind="hdi", ci_prob=0.9))
