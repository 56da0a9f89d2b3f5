"""Stochastic-gradient Barker dynamics [1]_: a step of random size, and its sign by the gradient.

In unit coordinates x of the log-ratios (`by_unit`), each coordinate moves by ±z with z ~ N(0, γ). The sign is + with
probability 1/(1 + e^(−z·∇)). For short steps this is Langevin dynamics; for long ones a gradient that is far too large
moves x by no more than |z|, where Langevin dynamics would overshoot.

The correction of [1]_ for the noise of the gradient needs the variance of the estimate, which is not known here.

References
----------
.. [1] L. Mauri and G. Zanella (2024), Robust approximate sampling via stochastic gradient Barker dynamics, AISTATS.
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


@njit(cache=True)
def advance_barker(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move each coordinate by √γ·W, with a sign that the gradient makes likely, and φ to θ of it."""
    if not by_unit(phi, diffusion.prior, diffusion.factor, slope):
        return -1
    for i in range(phi.size - 1):
        z = math.sqrt(step) * noise[i]
        # 1/(1 + e^(−t)), written so that nothing overflows.
        chance = 0.5 * (1.0 + math.tanh(0.5 * z * slope[i]))
        slope[i] = z if rng.random() < chance else -z
    return move_units(phi, diffusion.factor, slope)


@register_diffusion("barker", advance=advance_barker, at_mode=True, unit_steps=True)
class Barker(NamedTuple):
    """ρ of the prior, and the factor L of the metric."""

    prior: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Barker":
        """Return the diffusion for a run."""
        return cls(run.prior, run.metric()[1])
