"""Distances between samples: Wasserstein-1 by coordinate, and the energy distance with its permutation test."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

# Permutations made at a time. A test of n points holds BATCH · n numbers beside its n² distances.
BATCH = 256


def wasserstein(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Wasserstein-1 distance of each coordinate of two samples (n, K) and (m, K), from all draws."""
    return np.array([wasserstein_distance(x, y) for x, y in zip(first.T, second.T, strict=True)])


def energy_test(
    first: NDArray[np.float64], second: NDArray[np.float64], permutations: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the energy distance of two samples of independent points, and its permutation p-value.

    The distance is (2E|X−Y| − E|X−X'| − E|Y−Y'|) / 2E|X−Y| [1]_: 0 for equal distributions, 1 for two different
    constants. Means are over pairs of different draws. So for equal distributions the mean distance is 0 at every
    sample size, and a single distance may be below 0.

    Parameters
    ----------
    first, second : array of shape (n, K) and (m, K)
        At least two points each, of coordinates of comparable scale.
    permutations : int
        How many random relabelings to make. The p-value is at least 1/(1 + permutations).
    rng : Generator
        Draws the permutations.

    References
    ----------
    .. [1] G. J. Székely and M. L. Rizzo, Energy statistics: a class of statistics based on distances, Journal of
       Statistical Planning and Inference 143 (2013).
    """
    distances = cdist(np.concatenate([first, second]), np.concatenate([first, second]))
    labels = np.zeros((1, len(distances)))
    labels[0, : len(first)] = 1
    observed = _energy(distances, labels)[0]
    exceeding, done = 0, 0
    while done < permutations:
        size = min(BATCH, permutations - done)
        shuffled = rng.permuted(np.repeat(labels, size, axis=0), axis=1)
        # Values that differ by rounding count as equal, which can only make the p-value larger.
        exceeding += int(np.sum(_energy(distances, shuffled) >= observed - 1e-12))
        done += size
    return float(observed), (1 + exceeding) / (1 + permutations)


def _energy(distances: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the energy distance for each row of labels, 1 for the first sample and 0 for the second."""
    n = labels[0].sum()
    m = labels.shape[1] - n
    to_first = labels @ distances
    within_first = np.einsum("bi,bi->b", to_first, labels)
    across = to_first.sum(axis=1) - within_first
    within_second = distances.sum() - within_first - 2 * across
    mean_across = across / (n * m)
    if not mean_across.all():
        return np.zeros(len(labels))
    spread = within_first / (n * (n - 1)) + within_second / (m * (m - 1))
    return np.asarray(1 - spread / (2 * mean_across))
