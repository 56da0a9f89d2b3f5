"""Answers of simulated people, for any mechanism."""

import numpy as np
from numpy.typing import NDArray

from adobest_pp import RRRR, SRR, Responses, SubsetSelection

Mechanisms = SRR | RRRR | SubsetSelection


def ask(mechanism: Mechanisms, theta: NDArray[np.float64], n: int, rng: np.random.Generator) -> Responses:
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
