"""Control variates [1]_ as a gradient estimator: the gradient at an anchor, and a batch for what has changed since.

`control_variates` has the formula, to second order in the distance from the anchor. The estimate is unbiased for every
anchor, and its noise grows with the distance, so an anchor that the chain has left is replaced by where the chain is.

References
----------
.. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2019), Control variates for stochastic gradient MCMC,
   Statistics and Computing 29.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import add_to_set, set_mass
from adobest_pp.samplers.control_variates import Anchor, taylor_gradient

__all__ = ["AnchoredBatch", "add_anchored_batch", "has_left"]

# Standard deviations of χ² by which a chain must be further from its anchor than a normal posterior would have it.
FAR = 5.0


class AnchoredBatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), n/m, and the anchor."""

    evidence: Evidence
    rows: NDArray[np.int64]
    scale: float
    anchor: Anchor


def has_left(theta: NDArray[np.float64], anchor: Anchor) -> bool:
    """Tell whether θ is so far from the anchor that another serves better.

    With δ = θ − θ̂ and the information I at the anchor, δᵀIδ follows χ² with K − 1 degrees of freedom if the posterior
    is normal with its mean there. The chain has left where that exceeds its mean by `FAR` standard deviations.
    """
    delta = theta - anchor.theta
    freedom = theta.size - 1
    return bool(delta @ anchor.information @ delta > freedom + FAR * math.sqrt(2 * freedom))


@njit(cache=True)
def add_anchored_batch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add the estimate of ``Σ count·(g_i/h − 1)/Σφ`` to `slope`."""
    evidence, rows, scale, anchor = gradient.evidence, gradient.rows[update], gradient.scale, gradient.anchor
    relative = anchor.relative
    total, k = phi.sum(), phi.size
    theta = phi / total
    delta, by_theta = np.empty(k), np.empty(k)
    taylor_gradient(theta, anchor.theta, anchor.gradient, anchor.information, delta, by_theta)
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = set_mass(v, delta, evidence) if v >= 0 else 0.0
        # δ sums to zero, and what a row adds to all categories alike is taken away at the end: `base` plays no part.
        y = evidence.category[u]
        r = relative[u, 0] * delta[y] + relative[u, 1] * mass
        weight = scale * r * r / (1.0 + r)
        by_theta[y] += weight * relative[u, 0]
        if v >= 0:
            add_to_set(v, weight * relative[u, 1], evidence, by_theta)
    average = 0.0
    for i in range(k):
        average += theta[i] * by_theta[i]
    for i in range(k):
        slope[i] += (by_theta[i] - average) / total
