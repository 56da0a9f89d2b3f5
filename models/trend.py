"""Frequencies of categories that drift over waves of a poll: a random walk on log-ratios.

Use it when the same question is asked repeatedly, of different people each time, and θ is expected to change little
from one wave to the next. The drift is learned, and a wave borrows from its neighbors accordingly, so a wave with few
people or a small ε still has an estimate. Waves may use different mechanisms or budgets (`adobest_pp.concat`), and a
wave without answers is interpolated. For populations without an order, use `regions.py`.
"""

from collections.abc import Sequence
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

import adobest_pp as ad


def build(responses: ad.Responses, wave: ArrayLike, waves: Sequence[Any]) -> pm.Model:
    """Return the model: logits of a wave are those of the wave before plus normal steps that sum to zero.

    Parameters
    ----------
    responses : Responses
        Those of all waves.
    wave : array of n labels
        The wave of each response.
    waves : sequence of labels
        All waves, in order, also those without answers.
    """
    with pm.Model(coords={"category": responses.categories, "wave": list(waves)}) as model:
        start = pm.ZeroSumNormal("start", sigma=1.5, dims="category")
        drift = pm.HalfNormal("drift", 0.3)
        steps = pm.ZeroSumNormal("steps", shape=(len(waves) - 1, responses.n_categories))
        walk = pm.math.concatenate([start[None], start + drift * pm.math.cumsum(steps, axis=0)])
        theta = pm.Deterministic("theta", pm.math.softmax(walk, axis=-1), dims=("wave", "category"))
        ad.PrivateResponse("y", theta, responses, group=wave, dims="response")
    return model


def simulate(people: Sequence[int], seed: int) -> tuple[ad.Responses, np.ndarray, np.ndarray]:
    """Simulate waves from 2020 on; return the responses, the wave of each, and θ of each wave."""
    rng = np.random.default_rng(seed)
    mechanism = ad.SubsetSelection(4, epsilon=1.5)
    steps = rng.normal(scale=0.2, size=(len(people), 4))
    theta = np.exp(np.log([0.4, 0.3, 0.2, 0.1]) + np.cumsum(steps, axis=0))
    theta /= theta.sum(axis=1, keepdims=True)
    wave = np.repeat(2020 + np.arange(len(people)), people)
    x = np.concatenate([rng.choice(4, size=n, p=share) for n, share in zip(people, theta, strict=True)])
    answers = mechanism.privatize(x, rng=rng)
    return ad.Responses.from_arrays(mechanism, answers, categories=["a", "b", "c", "d"]), wave, theta


if __name__ == "__main__":
    responses, wave, _ = simulate([2000, 500, 2000, 0, 2000, 300], seed=1)
    with build(responses, wave, range(2020, 2026)):
        trace = pm.sample(random_seed=1, target_accept=0.95)
    print(az.summary(trace, var_names=["drift", "theta"], ci_kind="hdi", ci_prob=0.9))
