"""Estimates of the gradient of the log-likelihood with respect to φ. The paper's is in `loop`.

An estimator is a compiled function that adds its estimate to `slope`, and a named tuple of what it needs, which builds
itself for the batches of a run (`adobest_pp.samplers.registry.LangevinPiece`).

References
----------
.. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth (2019), Control variates for stochastic gradient MCMC, Statistics
   and Computing 29.
.. [2] A. Dubey, S. J. Reddi, B. Póczos, A. J. Smola, E. P. Xing and S. A. Williamson (2016), Variance reduction in
   stochastic gradient Langevin dynamics, NeurIPS 29.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from adobest_pp._numerics import copy_into
from adobest_pp._types import Floats, Integers
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import (
    add_to_listed,
    add_to_other,
    listed_mass,
    other_mass,
    row_probability,
    row_pull,
    value_and_gradient,
)
from adobest_pp.samplers.registry import register_gradient
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, taylor_gradient
from adobest_pp.transforms import blocks

if TYPE_CHECKING:
    from adobest_pp.samplers.sgld.loop import Langevin

# All responses, without noise: each distinct row of evidence, weighted by its count.


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
    def build(cls, run: "Langevin", rows: Integers) -> "FullEvidence":
        """Return the gradient of a run, which needs no batches."""
        return cls(run.evidence)


# Control variates [1]_: the gradient at an anchor, and a batch for what has changed since.
#
# `adobest_pp.samplers.sgld_cv.control_variates` has the formula, to second order in the distance from the anchor. The
# estimate is unbiased for every anchor, and its noise grows with the distance, so an anchor that the chain has left is
# replaced by where the chain is.


@njit(cache=True)
def add_by_phi(phi, theta, by_theta, slope):  # type: ignore[no-untyped-def]
    """Add the gradient with respect to φ to `slope`, for that of a function of θ = φ/Σφ with respect to θ."""
    total, average = phi.sum(), 0.0
    for i in range(phi.size):
        average += theta[i] * by_theta[i]
    for i in range(phi.size):
        slope[i] += (by_theta[i] - average) / total


@njit(cache=True)
def add_anchored_batch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add the estimate of ``Σ count·(g_i/h − 1)/Σφ`` to `slope`."""
    evidence, rows, scale, anchor = gradient.evidence, gradient.rows[update], gradient.scale, gradient.anchor
    offsets, members, patterns = evidence.offsets, evidence.members, evidence.patterns
    structure, n_sets, relative = blocks(evidence.structure), offsets.size - 1, anchor.relative
    theta = phi / phi.sum()
    delta, by_theta = np.empty(phi.size), np.empty(phi.size)
    taylor_gradient(theta, anchor.theta, anchor.gradient, anchor.information, delta, by_theta)
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = 0.0
        if 0 <= v < n_sets:
            mass = listed_mass(v, delta, offsets, members)
        elif v >= 0:
            mass = other_mass(v - n_sets, delta, patterns, structure)
        # δ sums to zero, and what a row adds to all categories alike is subtracted at the end: `base` plays no part.
        y = evidence.category[u]
        r = relative[u, 0] * delta[y] + relative[u, 1] * mass
        weight = scale * r * r / (1.0 + r)
        by_theta[y] += weight * relative[u, 0]
        if 0 <= v < n_sets:
            add_to_listed(v, weight * relative[u, 1], offsets, members, by_theta)
        elif v >= 0:
            add_to_other(v - n_sets, weight * relative[u, 1], patterns, structure, by_theta)
    add_by_phi(phi, theta, by_theta, slope)


@register_gradient("control_variates", add=add_anchored_batch, at_mode=True)
class AnchoredBatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), n/m, and the anchor."""

    evidence: Evidence
    rows: Integers
    scale: float
    anchor: Anchor

    @classmethod
    def build(cls, run: "Langevin", rows: Integers) -> "AnchoredBatch":
        """Return the estimator for the batches of a run, around its anchor."""
        assert run.anchor is not None
        return cls(run.evidence, rows, run.n_responses / rows.shape[1], run.anchor)


# Variance-reduced gradients [2]_: all evidence at a snapshot, and a batch for what has changed since.
#
# Every `period` updates the chain takes a snapshot θ̃ of where it is, and the gradient there on all evidence. In
# between, Σ g/h(θ) ≈ Σ g/h(θ̃) + n/m·Σ_batch (g/h(θ) − g/h(θ̃)), which is unbiased, with a noise that vanishes near the
# snapshot. The period is n/m, so that passes over all responses cost as much as all batches. Control variates differ
# in two ways: their anchor is replaced when the chain has left it, and they expand to second order.


@njit(cache=True)
def add_svrg(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add the estimate of ``Σ count·(g_i/h − 1)/Σφ`` to `slope`; take a snapshot first if one is due."""
    evidence, rows, scale, memory = gradient.evidence, gradient.rows[update], gradient.scale, gradient.memory
    offsets, members, patterns = evidence.offsets, evidence.members, evidence.patterns
    structure, n_sets, k = blocks(evidence.structure), offsets.size - 1, phi.size
    theta = phi / phi.sum()
    snapshot, there = memory[1 : k + 1], memory[k + 1 :]
    if memory[0] % gradient.period == 0:
        copy_into(snapshot, theta)
        copy_into(there, value_and_gradient(theta, evidence)[1])
    memory[0] += 1.0
    by_theta = there.copy()
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass, mass_before = 0.0, 0.0
        if 0 <= v < n_sets:
            mass, mass_before = listed_mass(v, theta, offsets, members), listed_mass(v, snapshot, offsets, members)
        elif v >= 0:
            mass = other_mass(v - n_sets, theta, patterns, structure)
            mass_before = other_mass(v - n_sets, snapshot, patterns, structure)
        now = row_probability(u, theta, 1.0, mass, evidence)
        before = row_probability(u, snapshot, 1.0, mass_before, evidence)
        weight = scale / now - scale / before if now > 0.0 and before > 0.0 else np.nan
        # What a row adds to all categories alike is subtracted at the end: its base plays no part.
        _, by_mass = row_pull(u, weight, evidence, by_theta)
        if 0 <= v < n_sets:
            add_to_listed(v, by_mass, offsets, members, by_theta)
        elif v >= 0:
            add_to_other(v - n_sets, by_mass, patterns, structure, by_theta)
    add_by_phi(phi, theta, by_theta, slope)


@register_gradient("svrg", add=add_svrg)
class VarianceReduced(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), n/m, the period, and updates made, θ̃ and the gradient there."""

    evidence: Evidence
    rows: Integers
    scale: float
    period: float
    memory: Floats

    @classmethod
    def build(cls, run: "Langevin", rows: Integers) -> "VarianceReduced":
        """Return the estimator for the batches of a run, with the snapshot of its chain."""
        if not run.memory.size:
            run.memory = np.zeros(1 + 2 * run.prior.size)
        scale = run.n_responses / rows.shape[1]
        return cls(run.evidence, rows, scale, float(max(int(scale), 1)), run.memory)
