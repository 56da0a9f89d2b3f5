"""Compiled pieces of stochastic-gradient Langevin dynamics on the Gamma surrogate φ of a Dirichlet θ = φ/Σφ.

A sampler is three pieces: an estimate of the gradient of the log-posterior, a diffusion that takes one step along it,
and a loop. Each is a pure function of its arguments: batches and noise are passed in, so that one kernel serves the
PyMC step method and `adobest_pp.sample`, and the same arrays repeat a run. docs/math.md, sections 2 and 4, has the
equations.

Nothing here imports PyMC, checks bounds or allocates per response.

References
----------
.. [1] M. Welling and Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
.. [2] S. Patterson and Y. W. Teh, Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex,
   NeurIPS 2013.
"""

import math

import numpy as np
from numba import njit

from adobest_pp.likelihood.core import add_to_set, row_probability, row_pull, set_mass, value_and_gradient

# The smallest normal double: a lower bound that keeps positive numbers positive.
TINY = 2.2250738585072014e-308

# The diffusions, as compiled code knows them.
REFLECTED, PRECONDITIONED = 0, 1
DIFFUSIONS = {"reflected": REFLECTED, "preconditioned": PRECONDITIONED}


@njit(cache=True, inline="always")
def prior_gradient(phi, prior, floor, out):  # type: ignore[no-untyped-def]
    """Write ∂ ln p(φ)/∂φ_i = (ρ_i − 1)/φ_i − 1 of independent Gamma(ρ_i, 1) into `out`.

    The slope has no bound at φ_i = 0, so it is taken at max(φ_i, floor): see `slope_floor`.
    """
    for i in range(phi.size):
        out[i] = (prior[i] - 1.0) / max(phi[i], floor) - 1.0


@njit(cache=True)
def phi_gradient(phi, batch_rows, scale, prior, floor, evidence, out):  # type: ignore[no-untyped-def]
    """Write the minibatch gradient of the surrogate log-posterior into `out`.

    ``out_i = (ρ_i − 1)/φ_i − 1 + scale · Σ_{u ∈ batch} (g_{u,i}/h_u − 1)/Σφ`` with h evaluated at θ = φ/Σφ: O(1)
    for a row without a set, O(|S|) for a row with one.

    Parameters
    ----------
    phi : array of shape (K,)
        Non-negative, not all zero.
    batch_rows : array of int
        Rows of the evidence, one for each response of the batch; none leaves the prior alone.
    scale : float
        n/m: how many responses one of the batch stands for.
    prior : array of shape (K,)
        ρ, the concentration of the Dirichlet prior.
    floor : float
        The least φ_i at which the slope of the prior is taken; positive.
    evidence : Evidence
        Collapsed responses.
    out : array of shape (K,)
        Overwritten. NaN if rounding made a probability non-positive; `move` then rejects the update.
    """
    total = phi.sum()
    shared = 0.0
    prior_gradient(phi, prior, floor, out)
    for j in range(batch_rows.size):
        u = batch_rows[j]
        v = evidence.set_index[u]
        mass = set_mass(v, phi, evidence) if v >= 0 else 0.0
        # With φ in the place of θ, h is Σφ times as large. That makes the division by Σφ that the chain rule asks for.
        h = row_probability(u, phi, total, mass, evidence)
        by_total, by_mass = row_pull(u, scale / h if h > 0.0 else np.nan, evidence, out)
        shared += by_total
        if v >= 0:
            add_to_set(v, by_mass, evidence, out)
    shared -= scale * batch_rows.size / total
    for i in range(phi.size):
        out[i] += shared


@njit(cache=True)
def full_phi_gradient(phi, prior, floor, evidence, out):  # type: ignore[no-untyped-def]
    """Write the gradient on all responses into `out`: each distinct row once, weighted by its count."""
    total = phi.sum()
    _, slope = value_and_gradient(phi / total, evidence)
    prior_gradient(phi, prior, floor, out)
    n = evidence.count.sum()
    for i in range(phi.size):
        out[i] += (slope[i] - n) / total


@njit(cache=True, inline="always")
def slope_floor(diffusion, step):  # type: ignore[no-untyped-def]
    """Return the least φ at which a diffusion takes the slope (ρ − 1)/φ of the prior.

    Without a floor, the reflected diffusion with ρ ≠ 1 jumps arbitrarily far from a point close to zero. Its steps do
    not resolve distances below the width √γ of their noise, so the slope is taken no closer to zero than that. The
    error is of the order of the discretization, and zero for ρ = 1. (A floor of √γ/100 is several times as wrong for ρ
    = 0.1 and 0.5.) The preconditioned diffusion multiplies the slope by φ, and needs only a guard against zero itself.
    """
    return TINY if diffusion == PRECONDITIONED else max(math.sqrt(step), TINY)


@njit(cache=True, inline="always")
def propose(diffusion, x, slope, step, noise):  # type: ignore[no-untyped-def]
    """Return where one coordinate goes before reflection. This defines the diffusion.

    ``REFLECTED``: φ + (γ/2)·slope + √γ·W [1]_. The noise enters with √γ: with γ, as the paper prints it, the
    chain would collapse on the mode as γ → 0.

    ``PRECONDITIONED``: φ + (γ/2)(φ·slope + 1) + √(γφ)·W, the expanded mean of [2]_. The diffusion that leaves
    a density π unchanged with noise of covariance D(φ) has the drift ½(D ∇ln π + ∇·D). For the metric
    G = diag(φ)⁻¹, D = diag(φ) and (∇·D)_i = ∂φ_i/∂φ_i = 1 (in [2]_, the sum of two correction terms, 2 and −1).
    With the Gamma prior alone the drift is (ρ_i − φ_i)/2: the slope that is unbounded at zero is gone, and
    steps shrink with φ_i, so small categories stay small.
    """
    if diffusion == PRECONDITIONED:
        return x + 0.5 * step * (x * slope + 1.0) + math.sqrt(step * x) * noise
    return x + 0.5 * step * slope + math.sqrt(step) * noise


@njit(cache=True)
def move(diffusion, phi, gradient, step, noise):  # type: ignore[no-untyped-def]
    """Move φ in place by one reflected step φ ← |proposal|.

    Returns
    -------
    int
        How many coordinates were reflected; −1 if the proposal was not finite, and φ is left as it was.
    """
    reach = 0.0
    for i in range(phi.size):
        reach += abs(propose(diffusion, phi[i], gradient[i], step, noise[i]))
    if not math.isfinite(reach):
        return -1
    reflections = 0
    for i in range(phi.size):
        proposal = propose(diffusion, phi[i], gradient[i], step, noise[i])
        reflections += proposal < 0.0
        phi[i] = abs(proposal)
    return reflections


@njit(cache=True)
def langevin_draws(  # type: ignore[no-untyped-def]
    diffusion, phi, steps, batches, noise, prior, evidence, draws, stats
):
    """Run one update for each step size, moving φ in place, and write θ after every T/D of them.

    Parameters
    ----------
    diffusion : int
        ``REFLECTED`` or ``PRECONDITIONED``.
    phi : array of shape (K,)
        Moved in place.
    steps : array of shape (T,)
        Step sizes γ.
    batches : array of int, shape (T, m)
        Rows of the evidence of each update's batch. With m = 0, each update uses all responses.
    noise : array of shape (T, K)
        Standard normal.
    prior, evidence
        ρ and the responses.
    draws : array of shape (D, K)
        Overwritten.
    stats : array of shape (D, 3)
        Overwritten, for each draw: the norm of its last gradient, its reflected coordinates and its rejected updates.
    """
    n_draws, n_updates = len(draws), steps.size // len(draws)
    scale = evidence.count.sum() / max(batches.shape[1], 1)
    gradient = np.empty(phi.size)
    for d in range(n_draws):
        stats[d, 1], stats[d, 2] = 0.0, 0.0
        for t in range(d * n_updates, (d + 1) * n_updates):
            floor = slope_floor(diffusion, steps[t])
            if batches.shape[1] > 0:
                phi_gradient(phi, batches[t], scale, prior, floor, evidence, gradient)
            else:
                full_phi_gradient(phi, prior, floor, evidence, gradient)
            reflections = move(diffusion, phi, gradient, steps[t], noise[t])
            stats[d, 1] += max(reflections, 0)
            stats[d, 2] += reflections < 0
        stats[d, 0] = np.linalg.norm(gradient)
        total = phi.sum()
        for i in range(phi.size):
            draws[d, i] = phi[i] / total
