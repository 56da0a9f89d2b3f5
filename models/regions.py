"""Frequencies of categories in several populations, partially pooled.

Use it when the same question was asked in several regions, years or groups, some of them with few people. Each has its
own θ. How far these lie from a common one is learned, so a small region borrows more from the others the more these
agree among themselves. Regions may have used different mechanisms or budgets: combine their answers with
`adobest_pp.concat`. The cost is that of the distinct answers in each region, not of the people.
"""

from collections.abc import Mapping

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

import adobest_pp as ad

PARTIES = ["North", "South", "East", "West"]


def build(responses: ad.Responses, region: ArrayLike) -> pm.Model:
    """Return the model: θ of a region is the softmax of common logits and the region's own departure from them.

    Parameters
    ----------
    responses : Responses
        Those of all regions.
    region : array of n labels
        The region of each response.
    """
    labels = list(dict.fromkeys(np.asarray(region).tolist()))
    with pm.Model(coords={"category": responses.categories, "region": labels}) as model:
        common = pm.ZeroSumNormal("common", sigma=1.5, dims="category")
        spread = pm.HalfNormal("spread", 0.5)
        # Non-centered: the data of a region say little, so its departure is left free of the spread.
        departure = pm.ZeroSumNormal("departure", dims=("region", "category"))
        logits = common + spread * departure
        theta = pm.Deterministic("theta", pm.math.softmax(logits, axis=-1), dims=("region", "category"))
        ad.PrivateResponse("y", theta, responses, group=region, dims="response")
    return model


def simulate(people: Mapping[str, int], seed: int) -> tuple[ad.Responses, np.ndarray, np.ndarray]:
    """Simulate a poll in regions that differ a little; return the responses, the region of each, and θ of each region.

    Every other region uses another mechanism.
    """
    rng = np.random.default_rng(seed)
    mechanisms = [ad.SRR(4, epsilon=1.0), ad.UnaryEncoding(4, epsilon=1.5)]
    theta = np.log([0.4, 0.3, 0.2, 0.1]) + rng.normal(scale=0.3, size=(len(people), 4))
    theta = np.exp(theta) / np.exp(theta).sum(axis=1, keepdims=True)
    answers = []
    for i, n in enumerate(people.values()):
        mechanism = mechanisms[i % 2]
        x = rng.choice(4, size=n, p=theta[i])
        answers.append(ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=PARTIES))
    return ad.concat(answers), np.repeat(list(people), list(people.values())), theta


if __name__ == "__main__":
    responses, region, _ = simulate({"coast": 20_000, "hills": 5_000, "plains": 1_000, "islands": 200}, seed=1)
    with build(responses, region):
        trace = pm.sample(random_seed=1, target_accept=0.95)
    print(az.summary(trace, var_names=["spread", "theta"], ci_kind="hdi", ci_prob=0.9))
