"""Langevin dynamics on φ whose steps shrink with φ: the expanded mean of [1]_.

The diffusion that leaves a density π unchanged with noise of covariance D(φ) has the drift ½(D ∇ln π + ∇·D). For the
metric G = diag(φ)⁻¹, D = diag(φ) and (∇·D)_i = ∂φ_i/∂φ_i = 1 (in [1]_, the sum of two correction terms, 2 and −1).
With the Gamma prior alone the drift is (ρ_i − φ_i)/2: the slope that is unbounded at zero is gone, and small categories
stay small.

References
----------
.. [1] S. Patterson and Y. W. Teh, Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex,
   NeurIPS 2013.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.reflected import TINY, prior_gradient, reflect

__all__ = ["Preconditioned", "advance_preconditioned", "begin_preconditioned"]


class Preconditioned(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]


@njit(cache=True)
def begin_preconditioned(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    """Write the slope of the prior, which is multiplied by φ later: it needs a guard against zero alone."""
    prior_gradient(phi, diffusion.prior, TINY, slope)


@njit(cache=True)
def advance_preconditioned(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move φ to |φ + (γ/2)(φ·slope + 1) + √(γφ)·W|."""
    for i in range(phi.size):
        x = phi[i]
        slope[i] = x + 0.5 * step * (x * slope[i] + 1.0) + math.sqrt(step * x) * noise[i]
    return reflect(phi, slope)
