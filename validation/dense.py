"""Simulated answers, and their probabilities as dense matrices straight from the definitions."""

import numpy as np
from numpy.typing import NDArray

from adobest_pp import RRRR, SRR, Responses, SubsetSelection
from tests import oracles

Mechanisms = SRR | RRRR | SubsetSelection


def ask(mechanism: Mechanisms, theta: NDArray[np.float64], n: int, rng: np.random.Generator) -> Responses:
    """Return the answers of n simulated people; RRRR asks under four random subsets."""
    x = rng.choice(theta.size, size=n, p=theta)
    responses = Responses(mechanism)
    if not isinstance(mechanism, RRRR):
        responses.append(mechanism.privatize(x, rng=rng))
        return responses
    for group in np.array_split(x, 4):
        subset = rng.choice(theta.size, size=rng.integers(0, theta.size), replace=False)
        responses.append(mechanism.privatize(group, subset, rng=rng), subset)
    return responses


def rows_of(responses: Responses) -> NDArray[np.float64]:
    """Return the row P(y | ·) of every response, of shape (n, K), from the paper's algorithms run step by step."""
    mechanism, k = responses.mechanism, responses.n_categories
    if isinstance(mechanism, SRR):
        return oracles.rrrr_matrix(k, [], 0.0, mechanism.epsilon)[responses.answers]
    if isinstance(mechanism, SubsetSelection):
        places = {tuple(answer): place for place, answer in enumerate(mechanism.outputs().tolist())}
        matrix = oracles.subset_selection_matrix(k, mechanism.size, mechanism.epsilon)
        return matrix[[places[tuple(answer)] for answer in responses.answers.tolist()]]
    assert isinstance(mechanism, RRRR)
    matrices = np.array(
        [
            oracles.rrrr_matrix(k, np.flatnonzero(mask), mechanism.epsilon1, mechanism.epsilon2(int(mask.sum())))
            for mask in responses.subsets
        ]
    )
    return matrices[responses.subset_index, responses.answers]
