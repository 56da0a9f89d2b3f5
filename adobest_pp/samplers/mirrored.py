"""Mirrored Langevin dynamics [1]_ with the entropic mirror map: no boundary, and no metric to find.

The map takes θ to y_i = ln(θ_i/θ_K), i < K, on which the chain moves freely. The Jacobian of θ makes the prior's part
of the slope ρ_i − θ_i·Σρ, so it has no singularity for small ρ. All directions have the same step: where some
categories are nearly empty, or the answers say little about some directions, it mixes slowly.

References
----------
.. [1] Y.-P. Hsieh, A. Kavis, P. Rolland and V. Cevher (2018), Mirrored Langevin dynamics, NeurIPS 31.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.reflected import TINY

__all__ = ["Mirrored", "advance_mirrored", "begin_at_zero", "by_log_ratio", "move_log_ratios"]


class Mirrored(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]


@njit(cache=True)
def begin_at_zero(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    """Write zeros: the prior comes in with the coordinates."""
    for i in range(phi.size):
        slope[i] = 0.0


@njit(cache=True)
def by_log_ratio(phi, prior, slope):  # type: ignore[no-untyped-def]
    """Turn the slope of ln P(answers | θ) with respect to φ into that of the log-density of y with respect to y.

    A function of θ = φ/Σφ has ∂/∂y_i = φ_i·∂/∂φ_i. The last element, of no coordinate, is left as it is.
    """
    total, weight = phi.sum(), prior.sum()
    for i in range(phi.size - 1):
        slope[i] = prior[i] - weight * phi[i] / total + phi[i] * slope[i]


@njit(cache=True)
def move_log_ratios(phi, moves):  # type: ignore[no-untyped-def]
    """Add K − 1 moves to y and make φ the θ of it; return 0, or −1 where a move is not finite and φ stays."""
    k, reach, largest = phi.size, 0.0, math.log(max(phi[phi.size - 1], TINY))
    for i in range(k - 1):
        reach += abs(moves[i])
    if not math.isfinite(reach):
        return -1
    moves[k - 1] = largest
    for i in range(k - 1):
        moves[i] += math.log(max(phi[i], TINY))
        largest = max(largest, moves[i])
    total = 0.0
    for i in range(k):
        phi[i] = math.exp(moves[i] - largest)
        total += phi[i]
    for i in range(k):
        phi[i] /= total
    return 0


@njit(cache=True)
def advance_mirrored(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move y by (γ/2)·slope + √γ·W, and φ to θ of it."""
    by_log_ratio(phi, diffusion.prior, slope)
    for i in range(phi.size - 1):
        slope[i] = 0.5 * step * slope[i] + math.sqrt(step) * noise[i]
    return move_log_ratios(phi, slope)
