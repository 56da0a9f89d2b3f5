"""Algorithm 1 of the paper, one person at a time, with dense rows of G."""

import numpy as np


def algorithm_1(x, prior, choose, matrix_of, step, updates, batch_size, round_size, draws):
    """Algorithm 1 of the paper for people of categories x, with dense rows of G.

    `choose(θ)` gives all categories in order and how many of them are published, `matrix_of(subset)` is G[y, x], and
    `step(n)` is γ with n responses at hand. `draws` are three functions that take the next random number: uniform(),
    integer(bound) and normal().
    """
    phi = np.full(len(prior), np.mean(prior))
    rows, answers, subsets, phis = [], [], [], []
    for start in range(0, len(x), round_size):
        order, size = choose(phi / phi.sum())
        matrix = matrix_of(order[:size])
        for person in x[start : start + round_size]:
            answers.append(invert(draws[0](), matrix[:, person], [person, *(i for i in order if i != person)]))
            subsets.append(frozenset(int(i) for i in order[:size]))
            rows.append(matrix[answers[-1]])
        for _ in range(updates):
            phi = langevin_update(phi, np.array(rows), prior, step(len(rows)), batch_size, draws)
        phis.append(phi)
    return answers, subsets, np.array(phis), np.array(rows)


def invert(u, probabilities, order):
    """The category at which the cumulated probabilities, in that order, pass u."""
    place = np.searchsorted(np.cumsum(probabilities[order]), u, side="right")
    return int(order[min(place, len(order) - 1)])


def langevin_update(phi, rows, prior, step, batch_size, draws):
    """One update φ ← |φ + (γ/2)·slope + √γ·W| on a batch drawn with replacement: first the batch, then the noise."""
    n = len(rows)
    m = min(batch_size, n)
    batch = rows[[draws[1](n) for _ in range(m)]]
    noise = np.array([draws[2]() for _ in phi])
    # Of φ, ∂ ln p/∂φ = (ρ−1)/φ − 1, no closer to zero than the width of the noise; of θ = φ/Σφ, (g/h − 1)/Σφ each.
    slope = (prior - 1) / np.maximum(phi, np.sqrt(step)) - 1
    slope += n / m * (batch / (batch @ phi)[:, None] - 1 / phi.sum()).sum(axis=0)
    return np.abs(phi + step / 2 * slope + np.sqrt(step) * noise)
