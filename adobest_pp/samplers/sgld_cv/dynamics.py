"""Underdamped Langevin dynamics in normal coordinates, by the splitting BAOAB [1]_, with any gradient estimator.

One gradient for each update. For a normal target the positions are distributed exactly, whatever the step, so that
the bias of a nearly normal one is small at long steps; reflected or overdamped dynamics have no such property.

References
----------
.. [1] B. Leimkuhler and C. Matthews (2013), Rational construction of stochastic numerical methods for molecular
   sampling, Applied Mathematics Research eXpress 2013(1).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from adobest_pp._random import normal
from adobest_pp.samplers.sgld_cv.control_variates import (
    REORDER,
    Anchor,
    Rows,
    add_batch,
    add_packed_batch,
    full_gradient,
    taylor_gradient,
)
from adobest_pp.samplers.sgld_cv.coordinates import Coordinates, Prior, draw_log_concentration, step_at, write_theta

__all__ = ["FULL", "Target", "underdamped_draws"]


class Target(NamedTuple):
    """The posterior, in coordinates, and what its gradient is estimated from."""

    prior: Prior
    coordinates: Coordinates
    rows: Rows
    anchor: Anchor


# A batch of all rows: the gradient on the whole evidence, without the anchor.
FULL = 0


# Rows of full length are summed faster than the triangle that is not zero.
@njit(cache=True, error_model="numpy", fastmath=REORDER)
def _position(x, center, factor, z):  # type: ignore[no-untyped-def]
    """Write z = center + factor·x."""
    for i in range(x.size):
        total = 0.0
        for j in range(x.size):
            total += factor[i, j] * x[j]
        z[i] = center[i] + total


@njit(cache=True, error_model="numpy", fastmath=REORDER)
def _pull_back(by_z, columns, by_x):  # type: ignore[no-untyped-def]
    """Write the gradient with respect to x, factorᵀ times that with respect to z."""
    for j in range(by_x.size):
        total = 0.0
        for i in range(by_x.size):
            total += columns[j, i] * by_z[i]
        by_x[j] = total


@njit(cache=True, error_model="numpy")
def underdamped_draws(  # type: ignore[no-untyped-def]
    state, x, momentum, prior, coordinates, rows, anchor, batch, step, friction, updates_per_draw, draws, force, virial
):
    """Advance x and its momentum in place; write θ of every `updates_per_draw`-th update into `draws`.

    `force` becomes the last estimate of ∂ln p/∂x, which without any draws is all that is done, and `virial` gains
    −x·∂ln p/∂x of every update, coordinate by coordinate: its mean is 1 at the posterior. Where the prior is learned,
    its concentration moves too, given θ of each draw, and follows θ in `draws`; where it is large, steps are shorter.
    """
    # Fields of a named tuple are unpacked once: each access counts references.
    tables, table_index, log_scale = coordinates.tables, coordinates.table_index, coordinates.log_scale
    center, total_sd, shape = coordinates.center, coordinates.total_sd, coordinates.shape
    factor, learned, log_a = coordinates.factor, prior.learned, prior.log_scale
    columns = factor.T.copy()
    numbers, places, members, offsets = rows.numbers, rows.places, rows.members, rows.offsets
    patterns, threshold, alias, n = rows.patterns, rows.threshold, rows.alias, rows.n_responses
    packed = rows.packed
    hat, at_hat, information, relative = anchor.theta, anchor.gradient, anchor.information, anchor.relative
    k = x.size
    z, rates, theta, delta = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    slope, inverse_scale, logs = np.empty(k), np.exp(-log_scale), np.empty(k)
    concentration = prior.weights * math.exp(log_a[0])
    surplus, weight = concentration - shape, concentration.sum()
    masses = np.empty(offsets.size + len(patterns) if batch == FULL else 0)
    pull = np.empty(masses.size)
    now = step_at(math.exp(log_a[0]), step, prior.stiff_from, prior.stiffness) if learned else step
    keep = math.exp(-friction * now)
    noise = math.sqrt(1.0 - keep * keep)
    half = 0.5 * now
    for update in range(len(draws) * updates_per_draw + 1):
        # The first pass only evaluates the gradient where the chain stands.
        if update > 0:
            for i in range(k):
                moved = momentum[i] + half * force[i]
                x[i] += half * moved
                moved = keep * moved + noise * normal(state)
                x[i] += half * moved
                momentum[i] = moved
        _position(x, center, factor, z)
        total = write_theta(z, tables, table_index, log_scale, rates, logs, delta, theta)
        is_draw = update > 0 and update % updates_per_draw == 0
        if learned and is_draw:
            sum_of_logs = logs.sum() - k * math.log(total)
            log_a[0] = draw_log_concentration(state, log_a[0], k, sum_of_logs, prior.mean, prior.sd)
            weight = k * math.exp(log_a[0])
            for i in range(k):
                surplus[i] = math.exp(log_a[0]) - shape[i]
        if batch == FULL:
            full_gradient(theta, numbers, places, members, offsets, patterns, masses, pull, slope)
        else:
            taylor_gradient(theta, hat, at_hat, information, delta, slope)
            if len(packed) > 0:
                add_packed_batch(state, batch, numbers[0, 2], hat, delta, packed, slope)
            else:
                add_batch(state, batch, n, delta, relative, places, members, threshold, alias, slope)
        average = 0.0
        for i in range(k):
            average += theta[i] * slope[i]
        shared = -(weight + math.log(total) / (total_sd * total_sd) + average)
        for i in range(k):
            by_log_phi = theta[i] * (slope[i] + shared + total * inverse_scale[i]) + surplus[i]
            z[i] = rates[i] * by_log_phi - z[i]
        _pull_back(z, columns, force)
        if update > 0:
            for i in range(k):
                momentum[i] += half * force[i]
                virial[i] -= x[i] * force[i]
        if is_draw:
            draw = draws[update // updates_per_draw - 1]
            draw[:k] = theta
            if learned:
                draw[k] = math.exp(log_a[0])
                now = step_at(draw[k], step, prior.stiff_from, prior.stiffness)
                keep = math.exp(-friction * now)
                noise = math.sqrt(1.0 - keep * keep)
                half = 0.5 * now
