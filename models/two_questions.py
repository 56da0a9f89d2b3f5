"""Two private questions: their joint table, and whether they are associated.

Use it when each person answered two sensitive questions through two mechanisms that drew independently, and you ask
whether the two are associated. The pair of answers is an answer of the product channel, P(y₁, y₂ | x₁, x₂) =
P(y₁ | x₁)·P(y₂ | x₂), whose ε is the sum of the two: both answers together reveal more about a person than each alone.
A table of K₁·K₂ shares is learned from them. Unpaired answers to the two questions say nothing about association.
"""

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

import adobest_pp as ad
from adobest_pp._text import brief


def product(first: ad.Responses, second: ad.Responses) -> ad.Responses:
    """Return the pairs of answers of the same people, in the same order, as answers of the product channel.

    Both mechanisms must have a transition matrix that does not depend on a subset: `SubsetSelection`, `SRR`, `Channel`
    and others. Categories are pairs, the first question's label before the second's. For intervals that cover whatever
    the truth is, and for every mechanism, see `adobest_pp.estimates.association`.
    """
    if len(first) != len(second):
        raise ValueError(f"second must have an answer of each of the {len(first)} people, got {len(second)}")
    matrices = [_matrix(each, name) for each, name in ((first, "first"), (second, "second"))]
    channel = ad.Channel(np.kron(*matrices))
    pairs = [f"{one} | {other}" for one in first.categories for other in second.categories]
    answers = _codes(first) * len(matrices[1]) + _codes(second)
    return ad.Responses.from_arrays(channel, answers, categories=pairs)


def _matrix(responses: ad.Responses, name: str) -> np.ndarray:
    mechanism = responses.mechanism
    if mechanism.publishes_subset or not hasattr(mechanism, "transition_matrix"):
        raise ValueError(f"{name} must be of a mechanism with one transition matrix, got {brief(mechanism)}")
    return np.asarray(mechanism.transition_matrix())


def _codes(responses: ad.Responses) -> np.ndarray:
    """Return the row of the transition matrix of each answer."""
    if not responses.mechanism.answer_dims:
        return responses.answers
    outputs = {tuple(each): i for i, each in enumerate(responses.mechanism.outputs().tolist())}
    return np.array([outputs[tuple(each)] for each in responses.answers.tolist()])


def build(first: ad.Responses, second: ad.Responses) -> pm.Model:
    """Return the model: a flat prior on the table, its margins, and how far it is from independence.

    ``table`` has the share of every pair, ``given`` the second question's shares among people of each first category,
    and ``association`` is Cramér's V: 0 if the questions are independent, 1 if one determines the other.
    """
    pairs = product(first, second)
    k, m = first.n_categories, second.n_categories
    coords = {"first": first.categories, "second": second.categories, "category": pairs.categories}
    with pm.Model(coords=coords) as model:
        theta = pm.Dirichlet("theta", a=np.ones(k * m), dims="category")
        table = pm.Deterministic("table", theta.reshape((k, m)), dims=("first", "second"))
        rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
        pm.Deterministic("given", table / rows, dims=("first", "second"))
        squares = ((table - rows * columns) ** 2 / (rows * columns)).sum()
        pm.Deterministic("association", pm.math.sqrt(squares / (min(k, m) - 1)))
        ad.PrivateResponse("y", theta, pairs, dims="response")
    return model


def simulate(people: int, table: ArrayLike, epsilon: float, seed: int) -> tuple[ad.Responses, ad.Responses]:
    """Simulate people with this table of shares (K₁, K₂), asked both by subset selection, each with a budget of ε."""
    rng = np.random.default_rng(seed)
    shares = np.asarray(table)
    x = np.unravel_index(rng.choice(shares.size, size=people, p=shares.ravel()), shares.shape)
    mechanisms = [ad.SubsetSelection(k, epsilon) for k in shares.shape]
    answers = [mechanism.privatize(each, rng=rng) for mechanism, each in zip(mechanisms, x, strict=True)]
    first, second = (ad.Responses.from_arrays(*pair) for pair in zip(mechanisms, answers, strict=True))
    return first, second


if __name__ == "__main__":
    with build(*simulate(20_000, [[0.35, 0.10, 0.05], [0.05, 0.15, 0.30]], epsilon=2.0, seed=1)):
        trace = pm.sample(random_seed=1)
    print(az.summary(trace, var_names=["table", "given", "association"], ci_kind="hdi", ci_prob=0.9))
