"""AMAGOLD [1]_: stochastic-gradient Hamiltonian Monte Carlo with one Metropolis step for many updates.

It moves in unit coordinates x of the log-ratios (`by_unit`), with momenta of unit mass. A trajectory is a half step
x ← x + (h/2)·v, then steps

    v' = ((1 − hβ)·v + h·∇ + √(4hβ)·W)/(1 + hβ),    ρ ← ρ − (h/2)·∇·(v + v'),    x ← x + h·v',

of which the last moves x by (h/2)·v' only. Run backwards from −v', the same batches and as likely noise lead back, but
for the factor that ρ counts. So the trajectory is accepted with probability min(1, exp(ln p(x') − ln p(x) + ρ)), and
otherwise the chain returns to its start, with −v. The posterior is invariant, whatever the step and the batch.

A trajectory makes one draw, so it has as many updates as `updates_per_draw`; the gradient of the first is not used. All
evidence is visited twice for each.

References
----------
.. [1] R. Zhang, A. F. Cooper and C. De Sa (2020), AMAGOLD: Amortized Metropolis adjustment for efficient stochastic
   gradient MCMC, AISTATS.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._numerics import TINY
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.samplers.registry import register_diffusion
from adobest_pp.samplers.sgld.diffusions import by_unit, move_units

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# β: momenta are forgotten in a time of 1/(2β), in which the chain crosses a posterior of width one.
FRICTION = 0.5
# The first numbers of the memory: which update of the trajectory is next, its step, ln p at its start, and ρ.
UPDATE, STEP, LOG_DENSITY, RHO, NUMBERS = 0, 1, 2, 3, 4


@njit(cache=True)
def log_density(phi, prior, evidence):  # type: ignore[no-untyped-def]
    """Return ln p of the log-ratios of φ: the Jacobian Πθ turns the exponents ρ−1 of the prior into ρ."""
    theta = phi / phi.sum()
    value = value_and_gradient(theta, evidence)[0]
    for i in range(phi.size):
        value += prior[i] * math.log(max(theta[i], TINY))
    return value


@njit(cache=True)
def advance_amagold(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Make one update of a trajectory. Return −1 where it ends and is rejected: φ is then where it started."""
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
    # A trajectory that has left the finite numbers waits for its end, to be rejected there.
    if math.isfinite(memory[RHO]) and by_unit(phi, prior, factor, slope):
        for i in range(k - 1):
            old, by_x = v[i], slope[i]
            kick = h * by_x + math.sqrt(4.0 * h * FRICTION) * noise[i]
            v[i] = ((1.0 - h * FRICTION) * old + kick) / (1.0 + h * FRICTION)
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
    phi[:] = start
    for i in range(k - 1):
        v[i] = -first[i]
    return -1


@register_diffusion("amagold", advance=advance_amagold, at_mode=True, unit_steps=True)
class Amagold(NamedTuple):
    """ρ of the prior, the factor L of the metric, evidence, updates of a trajectory, and what it carries along.

    That is the numbers above, φ at its start, v, and v at its start.
    """

    prior: NDArray[np.float64]
    factor: NDArray[np.float64]
    evidence: Evidence
    period: float
    memory: NDArray[np.float64]

    @classmethod
    def build(cls, run: "Langevin") -> "Amagold":
        """Return the diffusion for a chain, at rest."""
        period = run.settings.updates_per_draw
        if period < 2:
            raise ValueError(f"updates_per_draw must be at least 2 for 'amagold', got {period}")
        memory = np.zeros(NUMBERS + 3 * run.prior.size - 2)
        return cls(run.prior, run.metric()[1], run.evidence, float(period), memory)
