"""Whether draws have each category empty, and in the majority, as often as they should.

Under a prior with ρ ≪ 1 a category is either held or has next to no share (ln θ spreads over 1/ρ). All chains may stay
on one side for good, and agree. But given the proportions of the others, the share of one category has a density on a
line, which quadrature integrates. This gives the probability that the category is empty, and that it has more than
half of all. Their averages over draws of the posterior must be the fractions of draws in which it is.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.samplers.langevin_kernels import TINY

__all__ = ["EMPTY", "SPARSE", "Shares", "emptiness"]

Array = NDArray[np.float64]

# Concentrations below this can leave a chain on one side.
SPARSE = 0.1
# A share is empty if its log-odds are below −14: less than one person in a million.
EDGE = 14.0
EMPTY = math.exp(-EDGE)
# Points so many nats less likely than the highest need no finer grid.
NEGLIGIBLE = 10.0
MOST_DRAWS, FEWEST_DRAWS = 100, 10
MOST_LOGARITHMS = 30_000_000
POINTS = 110


class Shares(NamedTuple):
    """How often categories are empty (first row), or in the majority, by category (2, K).

    Attributes
    ----------
    found : array of shape (2, K)
        The share of all draws with θ_i < 10⁻⁶, and with θ_i > ½.
    expected, error : array of shape (2, K)
        The average of their probabilities given the others' proportions, and its standard error.
    """

    found: Array
    expected: Array
    error: Array


def emptiness(theta: Array, concentration: Array, evidence: Evidence) -> Shares | None:
    """Compare how often categories are empty, or in the majority, with how often they should be, given the others.

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
    Shares or None
        None where the evidence is so large that this would take longer than sampling: there hardly a category is in
        doubt.
    """
    n, k = theta.shape
    affordable = MOST_LOGARITHMS // (POINTS * k * max(evidence.n_rows, 1))
    if affordable < FEWEST_DRAWS:
        return None
    used = np.linspace(0, n - 1, min(n, MOST_DRAWS, affordable)).round().astype(np.int64)
    count = evidence.count.astype(np.float64)
    alone = [row_probabilities(vertex, evidence) for vertex in np.eye(k)]
    expected = np.zeros((used.size, 2, k))
    for at, draw in enumerate(used):
        for i in range(k):
            rest = np.maximum(theta[draw], TINY)
            rest[i] = 0.0
            without = row_probabilities(rest / rest.sum(), evidence)
            rho = concentration[draw, i], concentration[draw].sum() - concentration[draw, i]
            expected[at, :, i] = _probabilities(*rho, without, alone[i], count)
    found = np.stack([(theta < EMPTY).mean(axis=0), (theta > 0.5).mean(axis=0)])
    return Shares(found, expected.mean(axis=0), expected.std(axis=0) / math.sqrt(used.size))


def _probabilities(own: float, others: float, without: Array, alone: Array, count: Array) -> tuple[float, float]:
    """Return P(s < 10⁻⁶) and P(s > ½), where the log-odds of s have the density s^own·(1−s)^others·Πh^count.

    The probabilities of the answers are h = (1−s)·without + s·alone.
    """

    def log_density(odds: Array) -> Array:
        s = 1 / (1 + np.exp(-odds))
        h = np.outer(1 / (1 + np.exp(odds)), without) + np.outer(s, alone)
        with np.errstate(divide="ignore"):
            logs = np.log(h) @ count
        return np.asarray(logs - own * np.logaddexp(0, -odds) - others * np.logaddexp(0, odds))

    odds = np.linspace(-EDGE, EDGE, 29)  # with 0, the majority's edge
    values = log_density(odds)
    for _ in range(2):  # the likelihood may have a narrow peak
        high = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        finer = np.linspace(odds[max(high[0] - 1, 0)], odds[min(high[-1] + 1, odds.size - 1)], 42)[1:-1]
        order = np.argsort(np.concatenate([odds, finer]))
        odds, values = (np.concatenate(pair)[order] for pair in ((odds, finer), (values, log_density(finer))))
    values -= values.max()
    weights = np.exp(values)
    # Beyond the edges the likelihood is constant, and the prior an exponential.
    empty, full = weights[0] / own, weights[-1] / others
    inside = np.trapezoid(weights, odds)
    # The majority may be a steep tail, nearly an exponential between points: (w₁ − w₀)/ln(w₁/w₀).
    rise = np.diff(values)
    steep = np.abs(rise) > 1e-6
    height = np.where(steep, np.diff(weights) / np.where(steep, rise, 1.0), weights[1:])
    parts = np.diff(odds) * height
    above = inside * parts[odds[:-1] >= 0].sum() / parts.sum()
    whole = empty + full + inside
    return float(empty / whole), float((full + above) / whole)
