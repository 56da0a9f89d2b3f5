"""The paper's diffusion: Langevin dynamics [1]_ on the Gamma surrogate φ, reflected at zero [2]_.

References
----------
.. [1] M. Welling and Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
.. [2] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an Adaptive
   Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["TINY", "Reflected", "advance_reflected", "begin_reflected", "least_phi", "prior_gradient", "reflect"]

# The smallest normal double: a lower bound that keeps positive numbers positive.
TINY = 2.2250738585072014e-308


class Reflected(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]


@njit(cache=True, inline="always")
def prior_gradient(phi, prior, floor, slope):  # type: ignore[no-untyped-def]
    """Write ∂ ln p(φ)/∂φ_i = (ρ_i − 1)/φ_i − 1 of independent Gamma(ρ_i, 1), taken at max(φ_i, floor), into `slope`."""
    for i in range(phi.size):
        slope[i] = (prior[i] - 1.0) / max(phi[i], floor) - 1.0


@njit(cache=True)
def least_phi(step):  # type: ignore[no-untyped-def]
    """Return the least φ at which the slope (ρ − 1)/φ of the prior is taken.

    Without a bound, the diffusion with ρ ≠ 1 jumps arbitrarily far from a point close to zero. Its steps do not resolve
    distances below the width √γ of their noise, so the slope is taken no closer to zero than that. There is no error
    for ρ = 1. For ρ < 1 the prior has a mass of about (√γ)^ρ below √γ, and a reflected step holds only a part of it, so
    that small shares come out too large. No bound mends this: of those from √γ/10 to 1.5·√γ, √γ has the least error.
    Nor do smaller steps, of which (√γ)^ρ hardly depends. `sample` warns of it.
    """
    return max(math.sqrt(step), TINY)


@njit(cache=True)
def begin_reflected(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    """Write the slope of the prior."""
    prior_gradient(phi, diffusion.prior, least_phi(step), slope)


@njit(cache=True)
def advance_reflected(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move φ to |φ + (γ/2)·slope + √γ·W|.

    The noise enters with √γ: with γ, as the paper prints it, the chain would collapse on the mode as γ → 0.
    """
    for i in range(phi.size):
        slope[i] = phi[i] + 0.5 * step * slope[i] + math.sqrt(step) * noise[i]
    return reflect(phi, slope)


@njit(cache=True)
def reflect(phi, proposal):  # type: ignore[no-untyped-def]
    """Move φ to |proposal|; return how many coordinates were reflected, or −1 where it is not finite and φ stays."""
    reach = 0.0
    for i in range(phi.size):
        reach += abs(proposal[i])
    if not math.isfinite(reach):
        return -1
    reflections = 0
    for i in range(phi.size):
        reflections += proposal[i] < 0.0
        phi[i] = abs(proposal[i])
    return reflections
