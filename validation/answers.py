"""Simulate the answers of people, for any mechanism."""

import numpy as np
from numpy.typing import NDArray

from adobest_pp import Responses
from adobest_pp.mechanisms import Mechanism


def ask(mechanism: Mechanism, theta: NDArray[np.float64], n: int, rng: np.random.Generator) -> Responses:
    """Return the answers of n simulated people; RRRR asks under four random subsets."""
    x = rng.choice(theta.size, size=n, p=theta)
    responses = Responses(mechanism)
    if not mechanism.publishes_subset:
        responses.append(mechanism.privatize(x, rng=rng))
        return responses
    for group in np.array_split(x, 4):
        subset = rng.choice(theta.size, size=rng.integers(0, theta.size), replace=False)
        responses.append(mechanism.privatize(group, subset=subset, rng=rng), subset)
    return responses
