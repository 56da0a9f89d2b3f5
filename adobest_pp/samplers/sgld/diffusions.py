"""Diffusions that leave the posterior of θ = φ/Σφ invariant: each takes one step along an estimate of the gradient.

A diffusion is a compiled function that moves φ in place, and a named tuple of what it needs, which builds itself for a
run (`adobest_pp.samplers.registry.LangevinPiece`). Those of other files, and yours, are registered in the same way.

References
----------
.. [1] M. Welling and Y. W. Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML.
.. [2] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an Adaptive
   Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.
.. [3] S. Patterson and Y. W. Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability simplex,
   NeurIPS 26.
.. [4] Y.-P. Hsieh, A. Kavis, P. Rolland and V. Cevher (2018), Mirrored Langevin dynamics, NeurIPS 31.
.. [5] M. Girolami and B. Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, Journal of
   the Royal Statistical Society B 73(2).
.. [6] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2018), Large-scale stochastic sampling from the probability
   simplex, NeurIPS 31.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import polygamma

from adobest_pp._numerics import TINY
from adobest_pp.samplers.registry import register_diffusion
from adobest_pp.samplers.sgld_cv.control_variates import Anchor

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# The paper's: Langevin dynamics [1]_ on the Gamma surrogate φ, reflected at zero [2]_.


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


@register_diffusion("reflected", advance=advance_reflected, floor=least_phi)
class Reflected(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Reflected":
        """Return the diffusion for a run."""
        return cls(run.prior)


# Langevin dynamics on φ whose steps shrink with φ: the expanded mean of [3]_.
#
# The diffusion that leaves a density π unchanged with noise of covariance D(φ) has the drift ½(D ∇ln π + ∇·D). For the
# metric G = diag(φ)⁻¹, D = diag(φ) and (∇·D)_i = ∂φ_i/∂φ_i = 1 (in [3]_, the sum of two correction terms, 2 and −1).
# With the Gamma prior alone the drift is (ρ_i − φ_i)/2: the slope that is unbounded at zero is gone, and small
# categories stay small.


@njit(cache=True)
def least_double(step):  # type: ignore[no-untyped-def]
    """Return the least φ at which the slope is taken: it is multiplied by φ later, and needs a guard against zero."""
    return TINY


@njit(cache=True)
def advance_preconditioned(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move φ to |φ + (γ/2)(φ·slope + 1) + √(γφ)·W|."""
    for i in range(phi.size):
        x = phi[i]
        slope[i] = x + 0.5 * step * (x * slope[i] + 1.0) + math.sqrt(step * x) * noise[i]
    return reflect(phi, slope)


@register_diffusion("preconditioned", advance=advance_preconditioned, floor=least_double)
class Preconditioned(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Preconditioned":
        """Return the diffusion for a run."""
        return cls(run.prior)


# Mirrored Langevin dynamics [4]_ with the entropic mirror map: no boundary, and no metric to find.
#
# The map takes θ to y_i = ln(θ_i/θ_K), i < K, on which the chain moves freely. The Jacobian of θ makes the prior's part
# of the slope ρ_i − θ_i·Σρ, so it has no singularity for small ρ. All directions have the same step: where some
# categories are nearly empty, or the answers say little about some directions, it mixes slowly.


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


@register_diffusion("mirrored", advance=advance_mirrored)
class Mirrored(NamedTuple):
    """ρ of the prior."""

    prior: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Mirrored":
        """Return the diffusion for a run."""
        return cls(run.prior)


# Langevin dynamics on log-ratios in the metric of the information [5]_: all directions mix alike, whatever ε.
#
# The coordinates are y_i = ln(θ_i/θ_K), those of `Mirrored`, and a step is y ← y + (h/2)·C·∇ + √h·C^½·W. C is constant:
# the inverse of the information about y at the mode. A linear change of coordinates changes C with them, so that no
# category is special. Of an empty category the answers tell nothing about ln θ_i: what the prior tells, the variance
# ψ′(ρ_i) of the logarithm of its Gamma variable, bounds the variances.


@njit(cache=True)
def advance_log_ratio(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move y by (h/2)·C·∇ + √h·L·W, and φ to θ of it."""
    k, root, metric, factor = phi.size, math.sqrt(step), diffusion.metric, diffusion.factor
    by_log_ratio(phi, diffusion.prior, slope)
    moves = np.zeros(k)
    for i in range(k - 1):
        for j in range(k - 1):
            moves[i] += 0.5 * step * metric[i, j] * slope[j]
        for j in range(i + 1):
            moves[i] += root * factor[i, j] * noise[j]
    return move_log_ratios(phi, moves)


def metric_at(anchor: Anchor, prior: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return C at an anchor, and the lower triangular L with C = L·Lᵀ, each of shape (K−1, K−1)."""
    theta, k = anchor.theta, prior.size
    jacobian = (np.diag(theta) - np.outer(theta, theta))[:, : k - 1]
    of_logs = polygamma(1, prior)
    of_prior = np.diag(of_logs[:-1]) + of_logs[-1]
    metric = np.linalg.inv(jacobian.T @ anchor.information @ jacobian + np.linalg.inv(of_prior))
    metric = (metric + metric.T) / 2
    return metric, np.linalg.cholesky(metric)


@register_diffusion("log_ratio", advance=advance_log_ratio, at_mode=True, unit_steps=True)
class LogRatio(NamedTuple):
    """ρ of the prior, C and L."""

    prior: NDArray[np.float64]
    metric: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "LogRatio":
        """Return the diffusion for a run, with the metric at its mode."""
        return cls(run.prior, *run.metric())


# The same metric as coordinates: y = ŷ + L·x, in which the posterior of x has a width of about one in all directions.
# Diffusions of other files, with momenta of unit mass or steps by coordinate, move there.


@njit(cache=True)
def by_unit(phi, prior, factor, slope):  # type: ignore[no-untyped-def]
    """Turn the slope of ln P(answers | θ) with respect to φ into that of the log-density with respect to x.

    Return whether it is finite.
    """
    by_log_ratio(phi, prior, slope)
    reach = 0.0
    for j in range(phi.size - 1):
        total = 0.0
        for i in range(j, phi.size - 1):
            total += factor[i, j] * slope[i]
        slope[j] = total
        reach += abs(total)
    return math.isfinite(reach)


@njit(cache=True)
def move_units(phi, factor, moves):  # type: ignore[no-untyped-def]
    """Add K − 1 moves to x and make φ the θ of it; `moves` is overwritten, and −1 returned as of `move_log_ratios`."""
    for i in range(phi.size - 2, -1, -1):
        total = 0.0
        for j in range(i + 1):
            total += factor[i, j] * moves[j]
        moves[i] = total
    return move_log_ratios(phi, moves)


# The stochastic Cox–Ingersoll–Ross process [6]_: exact transitions, so no error from steps near zero.
#
# With a_i fixed, dφ_i = (a_i − φ_i)dt + √(2φ_i)dW leaves Gamma(a_i, 1) invariant, and φ_i after a time h is
# ½(1 − e^(−h)) times a noncentral χ² with 2a_i degrees of freedom and noncentrality 2φ_i·e^(−h)/(1 − e^(−h)). Here a_i
# is ρ_i plus how many people of category i are expected, given θ and the answers, so φ has the density
# Πφ^(ρ−1)·e^(−Σφ)·Π(g·φ), under which θ has its posterior and Σφ, independent of θ, follows Gamma(n + Σρ).
#
# That a_i is fixed along a step is the only error. To first order it makes variances too small by a share of at most
# h/2, the more the less the answers tell. It mixes as slowly as Gibbs does where ε is small.

# A noncentral χ² is drawn by way of a Poisson count, which must fit in 64 bits.
MOST_NONCENTRAL = 1e18


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


@register_diffusion("cox_ingersoll_ross", advance=advance_cox_ingersoll_ross, unit_steps=True, nonnegative=True)
class CoxIngersollRoss(NamedTuple):
    """ρ of the prior, and the number of responses n, by which Σφ is larger than under the prior."""

    prior: NDArray[np.float64]
    n_responses: float

    @classmethod
    def build(cls, run: "Langevin") -> "CoxIngersollRoss":
        """Return the diffusion for a run."""
        return cls(run.prior, float(run.n_responses))
