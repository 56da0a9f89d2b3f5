"""Diffusions that leave the posterior of θ = φ/Σφ invariant: each takes a step along a gradient.

A diffusion is a compiled function that moves φ in place, and a named tuple of what it needs, which builds itself for a
run (`adobest_pp.samplers.registry.LangevinPiece`). The paper's is in `loop`.

References
----------
.. [1] S. Patterson and Y. W. Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability simplex,
   NeurIPS 26.
.. [2] H. Du, Q. Feng, C. Tang, X. Wang and L. Zhu (2025), Non-reversible Langevin algorithms for constrained sampling,
   arXiv:2501.11743.
.. [3] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2018), Large-scale stochastic sampling from the probability
   simplex, NeurIPS 31.
.. [4] Y.-P. Hsieh, A. Kavis, P. Rolland and V. Cevher (2018), Mirrored Langevin dynamics, NeurIPS 31.
.. [5] M. Girolami and B. Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, Journal of
   the Royal Statistical Society B 73(2).
.. [6] L. Mauri and G. Zanella (2024), Robust approximate sampling via stochastic gradient Barker dynamics, AISTATS.
.. [7] T. Chen, E. B. Fox and C. Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, ICML.
.. [8] N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven (2014), Bayesian sampling using stochastic
   gradient thermostats, NeurIPS 27.
.. [9] R. Zhang, A. F. Cooper and C. De Sa (2020), AMAGOLD: Amortized Metropolis adjustment for efficient stochastic
   gradient MCMC, AISTATS.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from adobest_pp._numerics import TINY, copy_into
from adobest_pp._types import Floats
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.samplers.registry import register_diffusion
from adobest_pp.samplers.sgld.loop import OfPrior, least_phi, reflect

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# Diffusions of φ itself.

# Langevin dynamics on φ whose steps shrink with φ: the expanded mean of [1]_.
#
# The diffusion that leaves a density π unchanged with noise of covariance D(φ) has the drift ½(D ∇ln π + ∇·D). For the
# metric G = diag(φ)⁻¹, D = diag(φ) and (∇·D)_i = ∂φ_i/∂φ_i = 1 (in [1]_, the sum of two correction terms, 2 and −1).
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
class Preconditioned(OfPrior):
    """ρ of the prior."""


# Skew-reflected non-reversible Langevin dynamics [2]_, on φ ≥ 0.
#
# A drift along J·∇ with a skew-symmetric J turns the chain along the contours of the density, which leaves it invariant
# and can only speed up mixing, if reflections turn as well: at the face φ_i = 0 the chain is pushed along (I + J)·e_i.
# A step is φ ← φ + (γ/2)·(I + J)·∇ + √γ·W, and a coordinate at −d < 0 moves the point by 2d·(I + J)·e_i. J connects
# neighbors on a circle of categories: J_{i,i+1} = −J_{i+1,i} = `TURN`. With two categories J is 0, and this is the
# reflected diffusion.

TURN = 1.0
# Pushes from one face may cross others. After this many rounds, what is still negative is simply reflected.
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
class SkewReflected(OfPrior):
    """ρ of the prior."""


# The stochastic Cox–Ingersoll–Ross process [3]_: exact transitions, so no error from steps near zero.
#
# With a_i fixed, dφ_i = (a_i − φ_i)dt + √(2φ_i)dW leaves Gamma(a_i, 1) invariant, and φ_i after a time h is
# ½(1 − e^(−h)) times a noncentral χ² with 2a_i degrees of freedom and noncentrality 2φ_i·e^(−h)/(1 − e^(−h)). Here a_i
# is ρ_i plus the expected number of people of category i, given θ and the answers. So φ has the density
# Πφ^(ρ−1)·e^(−Σφ)·Π(g·φ), under which θ has its posterior and Σφ, independent of θ, follows Gamma(n + Σρ).
#
# The only error is that a_i is fixed along a step. To first order it makes variances too small by a share of at most
# h/2, and by more the less the answers say. For small ε, it mixes as slowly as Gibbs.

# A noncentral χ² is drawn with a Poisson count, which must fit in 64 bits.
MOST_NONCENTRAL = 1e18


@njit(cache=True)
def advance_cox_ingersoll_ross(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Draw φ after a time `step`; `slope` is that of ln P(answers | φ/Σφ) with respect to φ.

    Returns 0, or −1 and leaves φ if the shapes are not finite or the step is too short for double precision.
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

    prior: Floats
    n_responses: float

    @classmethod
    def build(cls, run: "Langevin") -> "CoxIngersollRoss":
        """Return the diffusion for a run."""
        return cls(run.prior, float(run.n_responses))


# Diffusions of log-ratios.

# Mirrored Langevin dynamics [4]_ with the entropic mirror map: no boundary, and no metric to find.
#
# The map takes θ to y_i = ln(θ_i/θ_K), i < K, where the chain moves freely. With the Jacobian of θ, the slope of the
# prior is ρ_i − θ_i·Σρ, which has no singularity for small ρ. All directions have the same step: if some categories are
# nearly empty, or the answers say little about some directions, it mixes slowly.


@njit(cache=True)
def by_log_ratio(phi, prior, slope):  # type: ignore[no-untyped-def]
    """Turn the slope of ln P(answers | θ) with respect to φ into that of the log-density of y with respect to y.

    For a function of θ = φ/Σφ, ∂/∂y_i = φ_i·∂/∂φ_i. The last element belongs to no coordinate and is unchanged.
    """
    total, weight = phi.sum(), prior.sum()
    for i in range(phi.size - 1):
        slope[i] = prior[i] - weight * phi[i] / total + phi[i] * slope[i]


@njit(cache=True)
def move_log_ratios(phi, moves):  # type: ignore[no-untyped-def]
    """Add K − 1 moves to y and set φ to its θ; return 0, or −1 if a move is not finite and φ stays."""
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
    """Move y by (γ/2)·slope + √γ·W, and φ to its θ."""
    by_log_ratio(phi, diffusion.prior, slope)
    for i in range(phi.size - 1):
        slope[i] = 0.5 * step * slope[i] + math.sqrt(step) * noise[i]
    return move_log_ratios(phi, slope)


@register_diffusion("mirrored", advance=advance_mirrored)
class Mirrored(OfPrior):
    """ρ of the prior."""


# Langevin dynamics on log-ratios in the metric of the information [5]_: all directions mix alike, whatever ε.
#
# The coordinates are those of `Mirrored`, and a step is y ← y + (h/2)·C·∇ + √h·C^½·W. C is constant: the inverse of the
# information about y at the mode (`metric_at`). It changes with a linear change of coordinates, so no category is
# special.


@njit(cache=True)
def advance_log_ratio(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move y by (h/2)·C·∇ + √h·L·W, and φ to its θ."""
    k, root, metric, factor = phi.size, math.sqrt(step), diffusion.metric, diffusion.factor
    by_log_ratio(phi, diffusion.prior, slope)
    moves = np.zeros(k)
    for i in range(k - 1):
        for j in range(k - 1):
            moves[i] += 0.5 * step * metric[i, j] * slope[j]
        for j in range(i + 1):
            moves[i] += root * factor[i, j] * noise[j]
    return move_log_ratios(phi, moves)


@register_diffusion("log_ratio", advance=advance_log_ratio, at_mode=True, unit_steps=True)
class LogRatio(NamedTuple):
    """ρ of the prior, C and L."""

    prior: Floats
    metric: Floats
    factor: Floats

    @classmethod
    def build(cls, run: "Langevin") -> "LogRatio":
        """Return the diffusion for a run, with the metric at its mode."""
        return cls(run.prior, *run.metric())


# The same metric as coordinates: in y = ŷ + L·x, the posterior of x has a width of about one in all directions. The
# diffusions below, which have steps for each coordinate or momenta of unit mass, move x.


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
    """Add K − 1 moves to x and set φ to its θ; overwrite `moves`, and return 0 or −1 as `move_log_ratios`."""
    for i in range(phi.size - 2, -1, -1):
        total = 0.0
        for j in range(i + 1):
            total += factor[i, j] * moves[j]
        moves[i] = total
    return move_log_ratios(phi, moves)


# Stochastic-gradient Barker dynamics [6]_: a step of random size, and its sign by the gradient.
#
# Each coordinate of x moves by ±z with z ~ N(0, γ). The sign is + with probability 1/(1 + e^(−z·∇)). For short steps
# this is Langevin dynamics. For long ones, a gradient that is far too large moves x by at most |z|, where Langevin
# dynamics would overshoot. The correction of [6]_ for the noise of the gradient needs the variance of the estimate,
# which is not known here.


@njit(cache=True)
def advance_barker(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move each coordinate of x by √γ·W, with a sign that the gradient makes likely, and φ to the θ of x."""
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

    prior: Floats
    factor: Floats

    @classmethod
    def build(cls, run: "Langevin") -> "Barker":
        """Return the diffusion for a run."""
        return cls(run.prior, run.metric()[1])


# Stochastic-gradient Hamiltonian Monte Carlo [7]_: a momentum, with friction against the noise of the gradient.
#
# An update of size h is v ← v + h·∇ − h·α·v + √(2hα)·W, x ← x + h·v. If ∇ is estimated from a batch, its noise adds
# h²·V to the variance of an update of v, which [7]_ subtracts from that of W if V is known. Here V is taken as 0, and
# variances are too large by about h·V/(2α): use short steps, or control variates.

# α: momenta are forgotten in a time of one, in which the chain crosses a posterior of width one.
FRICTION = 1.0


@njit(cache=True)
def advance_sghmc(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move the momenta, x, and φ to the θ of x. After a step that is not finite, the momenta are zero."""
    v = diffusion.memory
    if not by_unit(phi, diffusion.prior, diffusion.factor, slope):
        return -1
    for i in range(v.size):
        v[i] += step * (slope[i] - FRICTION * v[i]) + math.sqrt(2.0 * FRICTION * step) * noise[i]
        slope[i] = step * v[i]
    result = move_units(phi, diffusion.factor, slope)
    if result < 0:
        v[:] = 0.0
    return result


@register_diffusion("sghmc", advance=advance_sghmc, at_mode=True, unit_steps=True)
class HamiltonianWithFriction(NamedTuple):
    """ρ of the prior, the factor L of the metric, and v, of shape (K−1,)."""

    prior: Floats
    factor: Floats
    memory: Floats

    @classmethod
    def build(cls, run: "Langevin") -> "HamiltonianWithFriction":
        """Return the diffusion for a chain, at rest."""
        return cls(run.prior, run.metric()[1], np.zeros(run.prior.size - 1))


# Stochastic-gradient Nosé–Hoover thermostat [8]_: friction that adapts to the noise of the gradient.
#
# An update of size h is v ← v + h·∇ − h·ξ·v + √(2hA)·W, x ← x + h·v, ξ ← ξ + h·(v·v/(K−1) − 1). The friction ξ grows
# while the momenta have too much energy, so gradient noise that is the same in all directions does no harm, however
# large.

# A: the noise that is added, and the friction where the gradient has none of its own.
DIFFUSION = 1.0


@njit(cache=True)
def advance_sgnht(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move the momenta, x, ξ, and φ to the θ of x. After a step that is not finite, momenta are zero and ξ is A."""
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
class Thermostat(HamiltonianWithFriction):
    """ρ of the prior, the factor L of the metric, and v with ξ after it, of shape (K,)."""

    @classmethod
    def build(cls, run: "Langevin") -> "Thermostat":
        """Return the diffusion for a chain, at rest."""
        return cls(run.prior, run.metric()[1], np.append(np.zeros(run.prior.size - 1), DIFFUSION))


# AMAGOLD [9]_: stochastic-gradient Hamiltonian Monte Carlo with one Metropolis step for many updates.
#
# A trajectory is a half step x ← x + (h/2)·v, then steps
#
#     v' = ((1 − hβ)·v + h·∇ + √(4hβ)·W)/(1 + hβ),    ρ ← ρ − (h/2)·∇·(v + v'),    x ← x + h·v',
#
# of which the last moves x only by (h/2)·v'. Run backwards from −v', the same batches and equally likely noise lead
# back to the start, up to the factor e^ρ. So the trajectory is accepted with probability
# min(1, exp(ln p(x') − ln p(x) + ρ)), and otherwise the chain returns to its start, with −v. The posterior is
# invariant, whatever the step and the batch.
#
# A trajectory makes one draw, so it has `updates_per_draw` updates; the gradient of the first is not used. Each
# trajectory visits all evidence twice.

# β: momenta are forgotten in a time of 1/(2β), in which the chain crosses a posterior of width one.
DAMPING = 0.5
# The first numbers of the memory: the next update of the trajectory, its step, ln p at its start, and ρ.
UPDATE, STEP, LOG_DENSITY, RHO, NUMBERS = 0, 1, 2, 3, 4


@njit(cache=True)
def log_density(phi, prior, evidence):  # type: ignore[no-untyped-def]
    """Return ln p of the log-ratios of φ. The Jacobian Πθ turns the exponents ρ−1 of the prior into ρ."""
    theta = phi / phi.sum()
    value = value_and_gradient(theta, evidence)[0]
    for i in range(phi.size):
        value += prior[i] * math.log(max(theta[i], TINY))
    return value


@njit(cache=True)
def advance_amagold(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Make one update of a trajectory. Return −1 if it ends and is rejected: φ is then back at its start."""
    memory, k, prior, factor = diffusion.memory, phi.size, diffusion.prior, diffusion.factor
    start, v = memory[NUMBERS : NUMBERS + k], memory[NUMBERS + k : NUMBERS + 2 * k - 1]
    first = memory[NUMBERS + 2 * k - 1 :]
    if memory[UPDATE] == 0.0:
        start[:], first[:] = phi, v
        memory[UPDATE], memory[STEP], memory[RHO] = 1.0, step, 0.0
        memory[LOG_DENSITY] = log_density(phi, prior, diffusion.evidence)
        for i in range(k - 1):
            slope[i] = 0.5 * step * v[i]
        if move_units(phi, factor, slope) < 0:
            memory[RHO] = -np.inf
        return 0
    h, is_last = memory[STEP], memory[UPDATE] == diffusion.period - 1.0
    # A trajectory that is no longer finite is rejected at its end.
    if math.isfinite(memory[RHO]) and by_unit(phi, prior, factor, slope):
        for i in range(k - 1):
            old, by_x = v[i], slope[i]
            kick = h * by_x + math.sqrt(4.0 * h * DAMPING) * noise[i]
            v[i] = ((1.0 - h * DAMPING) * old + kick) / (1.0 + h * DAMPING)
            memory[RHO] -= 0.5 * h * by_x * (old + v[i])
            slope[i] = (0.5 if is_last else 1.0) * h * v[i]
        if move_units(phi, factor, slope) < 0:
            memory[RHO] = -np.inf
    else:
        memory[RHO] = -np.inf
    if not is_last:
        memory[UPDATE] += 1.0
        return 0
    memory[UPDATE] = 0.0
    if memory[RHO] > -np.inf:
        gain = log_density(phi, prior, diffusion.evidence) - memory[LOG_DENSITY] + memory[RHO]
        if math.log(1.0 - rng.random()) < gain:
            return 0
    copy_into(phi, start)
    for i in range(k - 1):
        v[i] = -first[i]
    return -1


@register_diffusion("amagold", advance=advance_amagold, at_mode=True, unit_steps=True)
class Amagold(NamedTuple):
    """ρ of the prior, the factor L of the metric, evidence, updates of a trajectory, and its state.

    The state is the numbers above, φ at the start, v, and v at the start.
    """

    prior: Floats
    factor: Floats
    evidence: Evidence
    period: float
    memory: Floats

    @classmethod
    def build(cls, run: "Langevin") -> "Amagold":
        """Return the diffusion for a chain, at rest."""
        period = run.settings.updates_per_draw
        if period < 2:
            raise ValueError(f"updates_per_draw must be at least 2 for 'amagold', got {period}")
        memory = np.zeros(NUMBERS + 3 * run.prior.size - 2)
        return cls(run.prior, run.metric()[1], run.evidence, float(period), memory)
