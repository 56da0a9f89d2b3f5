"""Whether draws have each category empty as often as they should.

Under a prior with ρ ≪ 1 a category is either held or has next to no share (ln θ spreads over 1/ρ). All chains may stay
on one side for good, and agree. But given the proportions of the others, the share of one category has a density on a
line, which quadrature integrates. This gives the probability that the category is empty. Its average over draws of the
posterior must be the fraction of draws in which the category is empty.
"""

import math

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.samplers.langevin_kernels import TINY

__all__ = ["EMPTY", "SPARSE", "emptiness"]

Array = NDArray[np.float64]

# Concentrations below this can leave a chain on one side.
SPARSE = 0.1
# A share is empty if its log-odds are below −14: less than one person in a million.
EDGE = 14.0
EMPTY = math.exp(-EDGE)
# A side so many nats less likely than the draw's own has no part in it.
NEGLIGIBLE = 10.0
MOST_DRAWS, FEWEST_DRAWS = 100, 10
MOST_LOGARITHMS = 30_000_000
POINTS = 110


def emptiness(theta: Array, concentration: Array, evidence: Evidence) -> tuple[Array, Array, int] | None:
    """Compare how often categories are empty with how often they should be, given the others.

    Parameters
    ----------
    theta : array of shape (draws, K)
        Draws of the posterior.
    concentration : array of shape (draws, K)
        ρ of the Dirichlet prior, at each of the draws.
    evidence : Evidence
        What the posterior is given.

    Returns
    -------
    found, expected : arrays of shape (K,)
        The share of draws with θ_i < 10⁻⁶, and the average of its probability given the others' proportions.
    used : int
        How many draws, evenly spaced, were used. The function returns None where the evidence is so large that this
        would take longer than sampling: there hardly a category is in doubt.
    """
    n, k = theta.shape
    affordable = MOST_LOGARITHMS // (POINTS * k * max(evidence.n_rows, 1))
    if affordable < FEWEST_DRAWS:
        return None
    used = np.linspace(0, n - 1, min(n, MOST_DRAWS, affordable)).round().astype(np.int64)
    count = evidence.count.astype(np.float64)
    alone = [row_probabilities(vertex, evidence) for vertex in np.eye(k)]
    expected = np.zeros((used.size, k))
    for at, draw in enumerate(used):
        for i in range(k):
            rest = np.maximum(theta[draw], TINY)
            rest[i] = 0.0
            without = row_probabilities(rest / rest.sum(), evidence)
            rho = concentration[draw, i], concentration[draw].sum() - concentration[draw, i]
            expected[at, i] = _probability_of_empty(theta[draw, i], *rho, without, alone[i], count)
    return (theta[used] < EMPTY).mean(axis=0), expected.mean(axis=0), used.size


def _probability_of_empty(share: float, own: float, others: float, without: Array, alone: Array, count: Array) -> float:
    """Return P(s < 10⁻⁶) of the density s^own·(1−s)^others·Π((1−s)·without + s·alone)^count of the log-odds of s."""

    def log_density(odds: Array) -> Array:
        s = 1 / (1 + np.exp(-odds))
        h = np.outer(1 / (1 + np.exp(odds)), without) + np.outer(s, alone)
        with np.errstate(divide="ignore"):
            logs = np.log(h) @ count
        return np.asarray(logs - own * np.logaddexp(0, -odds) - others * np.logaddexp(0, odds))

    if EMPTY < share < 1 - EMPTY:
        here, edge = log_density(np.array([math.log(share) - math.log1p(-share), -EDGE]))
        if edge - math.log(own) < here - NEGLIGIBLE:
            return 0.0
    odds = np.linspace(-EDGE, EDGE, 29)
    values = log_density(odds)
    for _ in range(2):  # the likelihood may have a narrow peak
        high = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        finer = np.linspace(odds[max(high[0] - 1, 0)], odds[min(high[-1] + 1, odds.size - 1)], 42)[1:-1]
        order = np.argsort(np.concatenate([odds, finer]))
        odds, values = (np.concatenate(pair)[order] for pair in ((odds, finer), (values, log_density(finer))))
    weights = np.exp(values - values.max())
    # Beyond the edges the likelihood is constant, and the prior an exponential.
    empty, full = weights[0] / own, weights[-1] / others
    return float(empty / (empty + full + np.trapezoid(weights, odds)))
