"""Skew-reflected non-reversible Langevin dynamics [1]_, on φ ≥ 0.

A drift along J·∇ with a skew-symmetric J turns the chain along the contours of the density, which leaves it invariant
and can only speed up mixing, if reflections turn as well: at the face φ_i = 0 the chain is pushed along (I + J)·e_i.
A step is

    φ ← φ + (γ/2)·(I + J)·∇ + √γ·W,

and a coordinate at −d < 0 moves the point by 2d·(I + J)·e_i. J connects neighbors on a circle of categories:
J_{i,i+1} = −J_{i+1,i} = `TURN`. Of two categories J is 0, and this is the reflected diffusion.

References
----------
.. [1] H. Du, Q. Feng, C. Tang, X. Wang and L. Zhu (2025), Non-reversible Langevin algorithms for constrained sampling,
   arXiv:2501.11743.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.registry import register_diffusion
from adobest_pp.samplers.sgld.diffusions import least_phi, reflect

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

TURN = 1.0
# Pushes from one face may cross others. After so many rounds, what is left is reflected as it stands.
ROUNDS = 20


@njit(cache=True)
def advance_skew_reflected(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move φ by one step, and back from the faces that it has crossed."""
    k = phi.size
    moved = np.empty(k)
    for i in range(k):
        drift = slope[i] + TURN * (slope[(i + 1) % k] - slope[i - 1])
        moved[i] = phi[i] + 0.5 * step * drift + math.sqrt(step) * noise[i]
    if not np.isfinite(moved.sum()):
        return -1
    reflections = 0
    for _ in range(ROUNDS):
        crossed = 0
        for i in range(k):
            if moved[i] < 0.0:
                push = -2.0 * moved[i]
                moved[i] += push
                moved[i - 1] += TURN * push
                moved[(i + 1) % k] -= TURN * push
                crossed += 1
        reflections += crossed
        if crossed == 0:
            break
    return reflections + reflect(phi, moved)


@register_diffusion("skew_reflected", advance=advance_skew_reflected, floor=least_phi)
class SkewReflected(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "SkewReflected":
        """Return the diffusion for a run."""
        return cls(run.prior)
