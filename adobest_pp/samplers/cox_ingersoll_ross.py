"""The stochastic Cox–Ingersoll–Ross process [1]_: exact transitions, so no error from steps near zero.

With a_i fixed, dφ_i = (a_i − φ_i)dt + √(2φ_i)dW leaves Gamma(a_i, 1) invariant, and φ_i after a time h is ½(1 − e^(−h))
times a noncentral χ² with 2a_i degrees of freedom and noncentrality 2φ_i·e^(−h)/(1 − e^(−h)). Here a_i is ρ_i plus how
many people of category i are expected, given θ and the answers, so φ has the density Πφ^(ρ−1)·e^(−Σφ)·Π(g·φ), under
which θ has its posterior and Σφ, independent of θ, follows Gamma(n + Σρ).

That a_i is fixed along a step is the only error. To first order it makes variances too small by a share of at most h/2,
the more the less the answers tell. It mixes as slowly as Gibbs does where ε is small.

References
----------
.. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2018), Large-scale stochastic sampling from the probability
   simplex, NeurIPS 31.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.reflected import TINY

__all__ = ["CoxIngersollRoss", "advance_cox_ingersoll_ross"]

# A noncentral χ² is drawn by way of a Poisson count, which must fit in 64 bits.
MOST_NONCENTRAL = 1e18


class CoxIngersollRoss(NamedTuple):
    """ρ of the prior, and the number of responses n."""

    prior: NDArray[np.float64]
    n_responses: float


@njit(cache=True)
def advance_cox_ingersoll_ross(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Draw φ after a time `step`; `slope` is that of ln P(answers | φ/Σφ) with respect to φ.

    Returns 0, or −1 where φ stays: the shapes are not finite, or the step is too short to draw in double precision.
    """
    total, prior, n = phi.sum(), diffusion.prior, diffusion.n_responses
    reach = 0.0
    for i in range(phi.size):
        # θ_i·Σ g_i/h of the answers: never negative, but for rounding.
        slope[i] = prior[i] + max(phi[i] * (slope[i] + n / total), 0.0)
        reach += slope[i]
    rest = -math.expm1(-step)
    if not math.isfinite(reach) or not 2.0 * phi.max() * (1.0 - rest) < MOST_NONCENTRAL * rest:
        return -1
    for i in range(phi.size):
        noncentrality = 2.0 * phi[i] * (1.0 - rest) / rest
        phi[i] = max(0.5 * rest * rng.noncentral_chisquare(2.0 * slope[i], noncentrality), TINY)
    return 0
