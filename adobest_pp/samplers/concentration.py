"""The concentration of a learned prior, θ ~ Dirichlet(a, …, a) with ln a normal, given θ: by slice sampling [1]_.

References
----------
.. [1] R. M. Neal (2003), Slice sampling, Annals of Statistics 31(3).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.online.fast_random import uniform

__all__ = ["Prior", "draw_log_concentration", "step_at"]

# The first interval of a slice, in units of ln a; the largest |ln a| that is a number as a.
WIDTH, LARGEST = 0.5, 690.0


class Prior(NamedTuple):
    """The concentrations of a Dirichlet prior, a·weights. Kernels take it as one argument.

    Attributes
    ----------
    weights : array of shape (K,)
        The concentrations themselves where they are given, and ones where a is learned.
    log_scale : array of shape (1,)
        ln a, which kernels change where it is learned; 0 otherwise.
    learned : bool
        Whether a is learned.
    mean, sd : float
        Of ln a a priori.
    stiff_from, stiffness : float
        Of the curvature of ln p(θ), which grows with a: from where on, and how fast, it asks for shorter steps.
    """

    weights: NDArray[np.float64]
    log_scale: NDArray[np.float64]
    learned: bool
    mean: float
    sd: float
    stiff_from: float = math.inf
    stiffness: float = 0.0


@njit(cache=True)
def step_at(a, step, stiff_from, stiffness):  # type: ignore[no-untyped-def]
    """Return the step where the concentration is a: shorter by the root of the curvature beyond `stiff_from`.

    It holds until a changes, so θ given a keeps its law.
    """
    return step / math.sqrt(1.0 + stiffness * (a - stiff_from)) if a > stiff_from else step


@njit(cache=True)
def log_density(log_a, k, sum_of_logs, mean, sd):  # type: ignore[no-untyped-def]
    """Return ln p(ln a | θ) up to a constant, for Σ ln θ over K categories."""
    if not -LARGEST < log_a < LARGEST:
        return -math.inf
    a = math.exp(log_a)
    distance = (log_a - mean) / sd
    return math.lgamma(k * a) - k * math.lgamma(a) + a * sum_of_logs - 0.5 * distance * distance


@njit(cache=True)
def draw_log_concentration(state, log_a, k, sum_of_logs, mean, sd):  # type: ignore[no-untyped-def]
    """Return ln a after one update that leaves p(ln a | θ) invariant."""
    level = log_density(log_a, k, sum_of_logs, mean, sd) + math.log1p(-uniform(state))
    # A chain that has left the finite numbers stays where it is, for its caller to find.
    if not math.isfinite(level):
        return log_a
    low = log_a - WIDTH * uniform(state)
    high = low + WIDTH
    while log_density(low, k, sum_of_logs, mean, sd) > level:
        low -= WIDTH
    while log_density(high, k, sum_of_logs, mean, sd) > level:
        high += WIDTH
    while True:
        proposed = low + (high - low) * uniform(state)
        if log_density(proposed, k, sum_of_logs, mean, sd) >= level:
            return proposed
        if proposed < log_a:
            low = proposed
        else:
            high = proposed
