"""Diffusions that leave the posterior of θ = φ/Σφ invariant: each takes one step along an estimate of the gradient.

A diffusion is a named tuple of arrays and a compiled function that moves φ in place. If the slope of the prior is part
of the gradient that it follows, a second function writes that slope first. `DIFFUSIONS`, `BEGIN` and `ADVANCE` at the
end list them, and `diffusion_of` makes one: a new diffusion is a tuple and a function here, and an entry in each.

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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import polygamma

from adobest_pp._linalg import TINY
from adobest_pp.samplers.sgld_cv.control_variates import Anchor

# The paper's: Langevin dynamics [1]_ on the Gamma surrogate φ, reflected at zero [2]_.


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


# Langevin dynamics on φ whose steps shrink with φ: the expanded mean of [3]_.
#
# The diffusion that leaves a density π unchanged with noise of covariance D(φ) has the drift ½(D ∇ln π + ∇·D). For the
# metric G = diag(φ)⁻¹, D = diag(φ) and (∇·D)_i = ∂φ_i/∂φ_i = 1 (in [3]_, the sum of two correction terms, 2 and −1).
# With the Gamma prior alone the drift is (ρ_i − φ_i)/2: the slope that is unbounded at zero is gone, and small
# categories stay small.


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


# Mirrored Langevin dynamics [4]_ with the entropic mirror map: no boundary, and no metric to find.
#
# The map takes θ to y_i = ln(θ_i/θ_K), i < K, on which the chain moves freely. The Jacobian of θ makes the prior's part
# of the slope ρ_i − θ_i·Σρ, so it has no singularity for small ρ. All directions have the same step: where some
# categories are nearly empty, or the answers say little about some directions, it mixes slowly.


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


# Langevin dynamics on log-ratios in the metric of the information [5]_: all directions mix alike, whatever ε.
#
# The coordinates are y_i = ln(θ_i/θ_K), those of `Mirrored`, and a step is y ← y + (h/2)·C·∇ + √h·C^½·W. C is constant:
# the inverse of the information about y at the mode. A linear change of coordinates changes C with them, so that no
# category is special. Of an empty category the answers tell nothing about ln θ_i: what the prior tells, the variance
# ψ′(ρ_i) of the logarithm of its Gamma variable, bounds the variances.


class LogRatio(NamedTuple):
    """ρ of the prior, C and the lower triangular L with C = L·Lᵀ, each of shape (K−1, K−1)."""

    prior: NDArray[np.float64]
    metric: NDArray[np.float64]
    factor: NDArray[np.float64]


def metric_at(anchor: Anchor, prior: NDArray[np.float64]) -> LogRatio:
    """Return the diffusion whose metric is the information about log-ratios at an anchor."""
    theta, k = anchor.theta, prior.size
    jacobian = (np.diag(theta) - np.outer(theta, theta))[:, : k - 1]
    of_logs = polygamma(1, prior)
    of_prior = np.diag(of_logs[:-1]) + of_logs[-1]
    metric = np.linalg.inv(jacobian.T @ anchor.information @ jacobian + np.linalg.inv(of_prior))
    metric = (metric + metric.T) / 2
    return LogRatio(prior, metric, np.linalg.cholesky(metric))


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


# All of them, by name.

Diffusion = Reflected | Preconditioned | LogRatio | CoxIngersollRoss | Mirrored

DIFFUSIONS: dict[str, type[Diffusion]] = {
    "reflected": Reflected,
    "preconditioned": Preconditioned,
    "log_ratio": LogRatio,
    "cox_ingersoll_ross": CoxIngersollRoss,
    "mirrored": Mirrored,
}
# Those that move φ itself under its prior, which is all that they need of a model.
DIFFUSIONS_OF_PHI = ("reflected", "preconditioned")

# What the gradient of the log-likelihood is added to: `begin_at_zero` for those that are not listed.
BEGIN: dict[type[Any], Any] = {Reflected: begin_reflected, Preconditioned: begin_preconditioned}
ADVANCE: dict[type[Any], Any] = {
    Reflected: advance_reflected,
    Preconditioned: advance_preconditioned,
    LogRatio: advance_log_ratio,
    CoxIngersollRoss: advance_cox_ingersoll_ross,
    Mirrored: advance_mirrored,
}


def diffusion_of(name: str, prior: NDArray[np.float64], n_responses: int = 0, mode: Anchor | None = None) -> Diffusion:
    """Return a diffusion by its name, for n responses and an anchor near the mode where it needs them."""
    if name == "log_ratio":
        assert mode is not None
        return metric_at(mode, prior)
    if name == "cox_ingersoll_ross":
        return CoxIngersollRoss(prior, float(n_responses))
    # The others take the prior alone. A name that is not in the table is an error, never another diffusion.
    kind: Callable[[NDArray[np.float64]], Diffusion] = DIFFUSIONS[name]
    return kind(prior)
