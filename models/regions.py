"""Frequencies of categories in several populations, partially pooled.

Use it when the same question was asked in several regions, years or groups, some of them with few people. Each has its
own θ; how far they lie from the common one is learned, so a small region borrows from the others as much as these agree
among themselves. Regions may have used different mechanisms or budgets.
"""

from collections.abc import Mapping

import arviz as az
import numpy as np
import pymc as pm

import adobest_pp as ad


def build(responses: Mapping[str, ad.Responses]) -> pm.Model:
    """Return the model: θ of a region is the softmax of common logits and the region's own departure from them.

    Parameters
    ----------
    responses : mapping of region to Responses
        All with the same categories.
    """
    categories = {each.categories for each in responses.values()}
    if len(categories) != 1:
        raise ValueError(f"responses must be of regions with the same categories, got {len(categories)} lists of them")
    coords = {"category": categories.pop(), "region": tuple(responses)}
    with pm.Model(coords=coords) as model:
        common = pm.ZeroSumNormal("common", sigma=1.5, dims="category")
        spread = pm.HalfNormal("spread", 0.5)
        # Non-centered: the data of a region say little, so its departure is left free of the spread.
        departure = pm.ZeroSumNormal("departure", dims=("region", "category"))
        logits = common + spread * departure
        theta = pm.Deterministic("theta", pm.math.softmax(logits, axis=-1), dims=("region", "category"))
        for i, (region, each) in enumerate(responses.items()):
            ad.PrivateResponse(f"y_{region}", theta[i], each, dims=f"response_{region}")
    return model


def simulate(people: Mapping[str, int], seed: int) -> dict[str, ad.Responses]:
    """Simulate a poll in regions that differ a little."""
    rng = np.random.default_rng(seed)
    parties = ["North", "South", "East", "West"]
    mechanism = ad.RRRR(4, epsilon=1.0)
    answers = {}
    for region, n in people.items():
        logits = np.log([0.4, 0.3, 0.2, 0.1]) + rng.normal(scale=0.3, size=4)
        x = rng.choice(4, size=n, p=np.exp(logits) / np.exp(logits).sum())
        answers[region] = ad.Responses(mechanism, parties)
        answers[region].append(mechanism.privatize(x, subset=[0, 1], rng=rng), subset=[0, 1])
    return answers


if __name__ == "__main__":
    with build(simulate({"coast": 20_000, "hills": 5_000, "plains": 1_000, "islands": 200}, seed=1)):
        trace = pm.sample(random_seed=1, target_accept=0.95)
    print(az.summary(trace, var_names=["spread", "theta"], ci_kind="hdi", ci_prob=0.9))
