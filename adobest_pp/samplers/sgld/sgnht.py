"""Stochastic-gradient Nosé–Hoover thermostat [1]_: friction that adapts to the noise of the gradient.

It moves in unit coordinates x of the log-ratios (`by_unit`), with momenta of unit mass. An update of size h is

    v ← v + h·∇ − h·ξ·v + √(2hA)·W,    x ← x + h·v,    ξ ← ξ + h·(v·v/(K−1) − 1).

The friction ξ grows while the momenta have more energy than they should, so noise of the gradient that is the same in
all directions does no harm, however large.

References
----------
.. [1] N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven (2014), Bayesian sampling using stochastic
   gradient thermostats, NeurIPS 27.
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

# A: the noise that is added, and the friction where the gradient has none of its own.
DIFFUSION = 1.0


@njit(cache=True)
def advance_sgnht(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move momenta, x and ξ, and φ to θ of x. After a step that is not finite the momenta are zero, and ξ is A."""
    memory, k = diffusion.memory, phi.size
    if not by_unit(phi, diffusion.prior, diffusion.factor, slope):
        return -1
    energy, friction = 0.0, memory[k - 1]
    for i in range(k - 1):
        memory[i] += step * (slope[i] - friction * memory[i]) + math.sqrt(2.0 * DIFFUSION * step) * noise[i]
        energy += memory[i] * memory[i]
        slope[i] = step * memory[i]
    memory[k - 1] += step * (energy / (k - 1) - 1.0)
    result = move_units(phi, diffusion.factor, slope)
    if result < 0:
        memory[:] = 0.0
        memory[k - 1] = DIFFUSION
    return result


@register_diffusion("sgnht", advance=advance_sgnht, at_mode=True, unit_steps=True)
class Thermostat(NamedTuple):
    """ρ of the prior, the factor L of the metric, and v with ξ after it, of shape (K,)."""

    prior: NDArray[np.float64]
    factor: NDArray[np.float64]
    memory: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Thermostat":
        """Return the diffusion for a chain, at rest."""
        return cls(run.prior, run.metric()[1], np.append(np.zeros(run.prior.size - 1), DIFFUSION))
