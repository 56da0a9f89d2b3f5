"""Estimates of the gradient of the log-likelihood with respect to φ: a minibatch, control variates, or all evidence.

An estimator is a compiled function that adds its estimate to `slope`, and a named tuple of what it needs, which builds
itself for the batches of a run (`adobest_pp.samplers.registry.LangevinPiece`).

References
----------
.. [1] M. Welling and Y. W. Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML.
.. [2] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2019), Control variates for stochastic gradient MCMC, Statistics
   and Computing 29.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import add_to_set, row_probability, row_pull, set_mass, value_and_gradient
from adobest_pp.samplers.registry import register_gradient
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, taylor_gradient

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# The paper's estimator: a batch of responses, each standing for n/m of them [1]_.


@njit(cache=True)
def add_minibatch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add ``scale · Σ_{u ∈ batch} (g_{u,i}/h_u − 1)/Σφ`` to `slope`, with h at θ = φ/Σφ.

    That is O(1) for a row without a set and O(|S|) for a row with one. NaN if rounding made a probability non-positive;
    the diffusion then rejects the update.
    """
    evidence, rows, scale = gradient.evidence, gradient.rows[update], gradient.scale
    total = phi.sum()
    shared = 0.0
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = set_mass(v, phi, evidence) if v >= 0 else 0.0
        # With φ in the place of θ, h is Σφ times as large. That makes the division by Σφ that the chain rule asks for.
        h = row_probability(u, phi, total, mass, evidence)
        by_total, by_mass = row_pull(u, scale / h if h > 0.0 else np.nan, evidence, slope)
        shared += by_total
        if v >= 0:
            add_to_set(v, by_mass, evidence, slope)
    shared -= scale * rows.size / total
    for i in range(phi.size):
        slope[i] += shared


@register_gradient("minibatch", add=add_minibatch, nonnegative=True)
class Minibatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), and n/m: how many responses one of the batch stands for."""

    evidence: Evidence
    rows: NDArray[np.int64]
    scale: float

    @classmethod
    def build(cls, run: "Langevin", rows: NDArray[np.int64]) -> "Minibatch":
        """Return the estimator for the batches of a run."""
        return cls(run.evidence, rows, run.n_responses / rows.shape[1])


# All responses, without noise: each distinct row of evidence once, weighted by its count.


@njit(cache=True)
def add_full_evidence(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add ``Σ count·(g_i/h − 1)/Σφ`` over all rows to `slope`."""
    evidence = gradient.evidence
    total = phi.sum()
    _, by_theta = value_and_gradient(phi / total, evidence)
    n = evidence.count.sum()
    for i in range(phi.size):
        slope[i] += (by_theta[i] - n) / total


@register_gradient("full", add=add_full_evidence, nonnegative=True)
class FullEvidence(NamedTuple):
    """All evidence."""

    evidence: Evidence

    @classmethod
    def build(cls, run: "Langevin", rows: NDArray[np.int64]) -> "FullEvidence":
        """Return the gradient of a run, which needs no batches."""
        return cls(run.evidence)


# Control variates [2]_: the gradient at an anchor, and a batch for what has changed since.
#
# `adobest_pp.samplers.sgld_cv.control_variates` has the formula, to second order in the distance from the anchor. The
# estimate is unbiased for every anchor, and its noise grows with the distance, so an anchor that the chain has left is
# replaced by where the chain is.

# Standard deviations of χ² by which a chain must be further from its anchor than a normal posterior would have it.
FAR = 5.0


def has_left(theta: NDArray[np.float64], anchor: Anchor) -> bool:
    """Tell whether θ is so far from the anchor that another serves better.

    With δ = θ − θ̂ and the information I at the anchor, δᵀIδ follows χ² with K − 1 degrees of freedom if the posterior
    is normal with its mean there. The chain has left where that exceeds its mean by `FAR` standard deviations.
    """
    delta = theta - anchor.theta
    freedom = theta.size - 1
    return bool(delta @ anchor.information @ delta > freedom + FAR * math.sqrt(2 * freedom))


@njit(cache=True)
def add_anchored_batch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add the estimate of ``Σ count·(g_i/h − 1)/Σφ`` to `slope`."""
    evidence, rows, scale, anchor = gradient.evidence, gradient.rows[update], gradient.scale, gradient.anchor
    relative = anchor.relative
    total, k = phi.sum(), phi.size
    theta = phi / total
    delta, by_theta = np.empty(k), np.empty(k)
    taylor_gradient(theta, anchor.theta, anchor.gradient, anchor.information, delta, by_theta)
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = set_mass(v, delta, evidence) if v >= 0 else 0.0
        # δ sums to zero, and what a row adds to all categories alike is taken away at the end: `base` plays no part.
        y = evidence.category[u]
        r = relative[u, 0] * delta[y] + relative[u, 1] * mass
        weight = scale * r * r / (1.0 + r)
        by_theta[y] += weight * relative[u, 0]
        if v >= 0:
            add_to_set(v, weight * relative[u, 1], evidence, by_theta)
    average = 0.0
    for i in range(k):
        average += theta[i] * by_theta[i]
    for i in range(k):
        slope[i] += (by_theta[i] - average) / total


@register_gradient("control_variates", add=add_anchored_batch, at_mode=True)
class AnchoredBatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), n/m, and the anchor."""

    evidence: Evidence
    rows: NDArray[np.int64]
    scale: float
    anchor: Anchor

    @classmethod
    def build(cls, run: "Langevin", rows: NDArray[np.int64]) -> "AnchoredBatch":
        """Return the estimator for the batches of a run, around its anchor."""
        assert run.anchor is not None
        return cls(run.evidence, rows, run.n_responses / rows.shape[1], run.anchor)
