"""Stochastic-gradient Hamiltonian Monte Carlo [1]_: a momentum, with friction against the noise of the gradient.

It moves in unit coordinates x of the log-ratios (`by_unit`), with momenta of unit mass. An update of size h is

    v ← v + h·∇ − h·α·v + √(2hα)·W,    x ← x + h·v.

With ∇ estimated from a batch, its noise adds h²·V to the variance of an update of v, which [1]_ subtracts from that of
W if V is known. Here V counts as 0, and variances are too large by about h·V/(2α): take short steps, or control
variates.

References
----------
.. [1] T. Chen, E. B. Fox and C. Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, ICML.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.registry import register_diffusion
from adobest_pp.samplers.sgld.diffusions import by_unit, move_units

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# α: momenta are forgotten in a time of one, in which the chain crosses a posterior of width one.
FRICTION = 1.0


@njit(cache=True)
def advance_sghmc(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move momenta and x, and φ to θ of it. After a step that is not finite the momenta are zero."""
    v, k = diffusion.memory, phi.size
    if not by_unit(phi, diffusion.prior, diffusion.factor, slope):
        return -1
    for i in range(k - 1):
        v[i] += step * (slope[i] - FRICTION * v[i]) + math.sqrt(2.0 * FRICTION * step) * noise[i]
        slope[i] = step * v[i]
    result = move_units(phi, diffusion.factor, slope)
    if result < 0:
        v[:] = 0.0
    return result


@register_diffusion("sghmc", advance=advance_sghmc, at_mode=True, unit_steps=True)
class HamiltonianWithFriction(NamedTuple):
    """ρ of the prior, the factor L of the metric, and v, of shape (K−1,)."""

    prior: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "HamiltonianWithFriction":
        """Return the diffusion for a chain, at rest."""
        return cls(run.prior, run.metric()[1], np.zeros(run.prior.size - 1))
