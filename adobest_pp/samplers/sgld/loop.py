"""The loop of stochastic-gradient Langevin dynamics, compiled for any gradient estimator and any diffusion.

A sampler is three pieces: an estimate of the gradient of the log-likelihood with respect to φ (θ = φ/Σφ), a diffusion
that takes one step along it, and this loop. Each piece is a named tuple of arrays and functions of it, in a file of its
own: `minibatch`, `anchored_batch`, `full_evidence`; `reflected`, `preconditioned`, `log_ratio`, `cox_ingersoll_ross`,
`mirrored`. The types of the tuples tell the compiler which functions to take, so that a run compiles its own alone.
Batches and normal noise are passed in, and the same arrays repeat a run. docs/math.md, sections 2 and 4, has the
equations.

Nothing here imports PyMC or checks bounds.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from adobest_pp.samplers.sgld.diffusions import (
    TINY,
    CoxIngersollRoss,
    LogRatio,
    Mirrored,
    Preconditioned,
    Reflected,
    advance_cox_ingersoll_ross,
    advance_log_ratio,
    advance_mirrored,
    advance_preconditioned,
    advance_reflected,
    begin_at_zero,
    begin_preconditioned,
    begin_reflected,
)
from adobest_pp.samplers.sgld.gradients import (
    AnchoredBatch,
    FullEvidence,
    Minibatch,
    add_anchored_batch,
    add_full_evidence,
    add_minibatch,
)

__all__ = [
    "DIFFUSIONS",
    "GRADIENTS",
    "TINY",
    "Diffusion",
    "Gradient",
    "add_slope",
    "advance",
    "begin",
    "langevin_draws",
]


Gradient = Minibatch | AnchoredBatch | FullEvidence
Diffusion = Reflected | Preconditioned | LogRatio | CoxIngersollRoss | Mirrored

GRADIENTS = {"minibatch": Minibatch, "control_variates": AnchoredBatch, "full": FullEvidence}
DIFFUSIONS: dict[str, type[Diffusion]] = {
    "reflected": Reflected,
    "preconditioned": Preconditioned,
    "log_ratio": LogRatio,
    "cox_ingersoll_ross": CoxIngersollRoss,
    "mirrored": Mirrored,
}

_ADD: dict[type[Any], Any] = {
    Minibatch: add_minibatch,
    AnchoredBatch: add_anchored_batch,
    FullEvidence: add_full_evidence,
}
_BEGIN: dict[type[Any], Any] = {Reflected: begin_reflected, Preconditioned: begin_preconditioned}
_ADVANCE: dict[type[Any], Any] = {
    Reflected: advance_reflected,
    Preconditioned: advance_preconditioned,
    LogRatio: advance_log_ratio,
    CoxIngersollRoss: advance_cox_ingersoll_ross,
    Mirrored: advance_mirrored,
}


def add_slope(gradient: Gradient, update: int, phi: NDArray[np.float64], slope: NDArray[np.float64]) -> None:
    """Add the estimated gradient of the log-likelihood with respect to φ to `slope`, for the batch of an update."""
    _ADD[type(gradient)](gradient, update, phi, slope)


def begin(diffusion: Diffusion, phi: NDArray[np.float64], step: float, slope: NDArray[np.float64]) -> None:
    """Write what the gradient of the log-likelihood is added to: the slope of the prior, or zeros."""
    _BEGIN.get(type(diffusion), begin_at_zero)(diffusion, phi, step, slope)


def advance(
    diffusion: Diffusion,
    rng: np.random.Generator,
    phi: NDArray[np.float64],
    slope: NDArray[np.float64],
    step: float,
    noise: NDArray[np.float64],
) -> int:
    """Move φ in place by one step of the diffusion; `slope` is overwritten.

    Returns
    -------
    int
        How many coordinates were reflected; −1 if the step was not finite, and φ is left as it was.
    """
    return int(_ADVANCE[type(diffusion)](diffusion, rng, phi, slope, step, noise))


@overload(add_slope)
def _compiled_add_slope(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    chosen = _ADD[gradient.instance_class]
    return lambda gradient, update, phi, slope: chosen(gradient, update, phi, slope)


@overload(begin)
def _compiled_begin(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    chosen = _BEGIN.get(diffusion.instance_class, begin_at_zero)
    return lambda diffusion, phi, step, slope: chosen(diffusion, phi, step, slope)


@overload(advance)
def _compiled_advance(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    chosen = _ADVANCE[diffusion.instance_class]
    return lambda diffusion, rng, phi, slope, step, noise: chosen(diffusion, rng, phi, slope, step, noise)


@njit(cache=True)
def langevin_draws(diffusion, gradient, rng, phi, steps, noise, draws, stats):  # type: ignore[no-untyped-def]
    """Run one update for each step size, moving φ in place, and write θ after every T/D of them.

    Parameters
    ----------
    diffusion : Diffusion
        What takes a step.
    gradient : Gradient
        What it goes along, with batches for all T updates.
    rng : numpy.random.Generator
        Advanced by diffusions whose noise is not normal.
    phi : array of shape (K,)
        Moved in place.
    steps : array of shape (T,)
        Step sizes γ.
    noise : array of shape (T, K)
        Standard normal.
    draws : array of shape (D, K)
        Overwritten.
    stats : array of shape (D, 3)
        Overwritten, for each draw: the norm of its last gradient, its reflected coordinates and its rejected updates.
    """
    n_draws, n_updates = len(draws), steps.size // len(draws)
    slope = np.empty(phi.size)
    for d in range(n_draws):
        stats[d, 1], stats[d, 2] = 0.0, 0.0
        for t in range(d * n_updates, (d + 1) * n_updates):
            begin(diffusion, phi, steps[t], slope)
            add_slope(gradient, t, phi, slope)
            if t == (d + 1) * n_updates - 1:
                stats[d, 0] = np.linalg.norm(slope)
            reflections = advance(diffusion, rng, phi, slope, steps[t], noise[t])
            stats[d, 1] += max(reflections, 0)
            stats[d, 2] += reflections < 0
        total = phi.sum()
        for i in range(phi.size):
            draws[d, i] = phi[i] / total
