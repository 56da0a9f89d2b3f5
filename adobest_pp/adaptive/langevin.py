"""Reflected SGLD on the records of the loop, where Algorithm 1 spends nearly all its time.

This is the update of `samplers/sgld/loop.py` on codes instead of evidence rows, for speed; a test compares the two.
Each update draws m indices and then K normals from the generator, so a plain transcription can repeat it.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._numerics import integer, normal
from adobest_pp._types import Floats
from adobest_pp.adaptive.records import BLOCK, FIRST_SET, INSIDE, RESPONSES, SRR, STAMP

_HALF, _LOW, _FIRST_SET = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(FIRST_SET)
_BLOCK = np.uint64(BLOCK)
_1, _2, _3, _4, _5, _6, _7 = (np.uint64(i) for i in range(1, BLOCK))


class Workspace(NamedTuple):
    """Arrays that every update overwrites. `position` (which is φ) and `slope` have room for the padding of sets."""

    position: Floats
    tally: NDArray[np.int32]
    outside: NDArray[np.uint64]
    touched: NDArray[np.uint64]
    slope: Floats
    proposal: Floats


def new_workspace(n_categories: int, batch_size: int) -> Workspace:
    """Return a work space for batches of at most `batch_size` responses."""
    return Workspace(
        position=np.zeros(n_categories + BLOCK),
        tally=np.empty(3 * n_categories, dtype=np.int32),
        outside=np.empty(batch_size + 1, dtype=np.uint64),
        touched=np.empty(batch_size, dtype=np.uint64),
        slope=np.empty(n_categories + BLOCK),
        proposal=np.empty(n_categories),
    )


@njit(cache=True, error_model="numpy")
def langevin_updates(  # type: ignore[no-untyped-def]
    state, phi, records, prior, steps, batch_size, mean, first_kept, work
):
    """Run one update φ ← |φ + (γ/2)·slope + √γ·W| for each step size γ in `steps`, on all responses recorded so far.

    `state` (the generator) and `phi` change in place; an update that is not finite is rejected. A batch has m =
    `batch_size` responses, or all if there are fewer, drawn with replacement. Adds θ after update `first_kept` and
    later ones to `mean` and returns how many these are; ``first_kept = steps.size`` adds nothing.
    """
    # Numba counts a reference at every use of a field of a named tuple, which costs more than the arithmetic. So the
    # fields are unpacked once.
    used, code, last_of_size = records.used, records.code, records.last_of_size
    near, far, own = records.near, records.far, records.own
    members, starts, stops = records.members, records.starts, records.stops
    sets = near, far, own, members, starts, stops
    stamp, level, pull = records.stamp, records.level, records.pull
    position, tally, outside, touched, slope, proposal = work
    k, n = phi.size, used[RESPONSES]
    m = min(batch_size, n)
    scale = n / m if m > 0 else 0.0
    total = 0.0
    for i in range(k):
        position[i] = phi[i]
        total += phi[i]
    for j in range(steps.size):
        used[STAMP] += 1
        now = used[STAMP]
        n_outside = _draw_batch(state, code, n, m, k, tally, outside)
        for i in range(k):
            slope[i] = 0.0
        shared = _set_slope(position, total, outside, n_outside, sets, stamp, level, pull, now, touched, slope)
        shared += _free_slope(position, total, tally, INSIDE, own[INSIDE], slope, proposal)
        if last_of_size[0] >= 0:
            shared += _free_slope(position, total, tally, SRR, own[SRR], slope, proposal)
        half, root = 0.5 * steps[j], math.sqrt(steps[j])
        constant = half * (scale * (shared - m / total) - 1.0)
        for i in range(k):
            # (ρ−1)/φ is evaluated no closer to zero than the width of the noise: see `least_phi`.
            drift = scale * slope[i] + (prior[i] - 1.0) / max(position[i], root)
            slope[i] = position[i] + half * drift + constant
        for i in range(k):
            proposal[i] = normal(state)
        for i in range(k):
            proposal[i] = abs(slope[i] + root * proposal[i])
        reach = _total(proposal)
        if 0.0 < reach < np.inf:
            for i in range(k):
                position[i] = proposal[i]
            total = reach
        if j >= first_kept:
            for i in range(k):
                mean[i] += position[i] / total
    for i in range(k):
        phi[i] = position[i]
    return max(steps.size - first_kept, 0)


@njit(cache=True, error_model="numpy", inline="always")
def _draw_batch(state, code, n, m, k, tally, outside):  # type: ignore[no-untyped-def]
    """Count the answers of a batch by kind, and collect those outside their subset; return how many these are.

    This avoids a branch, which would be mispredicted: every answer is written, and the place advances only for those
    outside.
    """
    for i in range(tally.size):
        tally[i] = 0
    n_outside = 0
    for _ in range(m):
        drawn = code[integer(state, n)]
        kind = drawn >> _HALF
        tally[min(kind, _FIRST_SET) * np.uint64(k) + (drawn & _LOW)] += np.int32(1)
        outside[n_outside] = drawn
        n_outside += int(kind >= _FIRST_SET)
    return n_outside


@njit(cache=True, error_model="numpy", inline="always")
def _free_slope(phi, total, tally, kind, own, slope, weights):  # type: ignore[no-untyped-def]
    """Add Σ own·1{i=y}/h of the answers that need no set to `slope`; return their Σ 1/h."""
    k = weights.size
    for i in range(k):
        weights[i] = tally[kind * k + i] / (total + own * phi[i])
    for i in range(k):
        slope[i] += own * weights[i]
    return _total(weights)


@njit(cache=True, error_model="numpy", inline="always")
def _total(values):  # type: ignore[no-untyped-def]
    """Sum in four parts, so that additions do not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = values.size // 4 * 4
    for i in range(0, whole, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    for i in range(whole, values.size):
        a += values[i]
    return (a + b) + (c + d)


@njit(cache=True, error_model="numpy", inline="always")
def _set_slope(phi, total, outside, n_outside, sets, stamp, level, pull, now, touched, slope):  # type: ignore[no-untyped-def]
    """Do the same as `_free_slope` for answers outside their subset; compute the mass of each set only once."""
    near, far, own, members, starts, stops = sets
    n_touched = 0
    for j in range(n_outside):
        y, v = outside[j] & _LOW, outside[j] >> _HALF
        if stamp[v] != now:
            mass = 0.0
            for b in range(starts[v], stops[v], _BLOCK):
                mass += ((phi[members[b]] + phi[members[b + _1]]) + (phi[members[b + _2]] + phi[members[b + _3]])) + (
                    (phi[members[b + _4]] + phi[members[b + _5]]) + (phi[members[b + _6]] + phi[members[b + _7]])
                )
            # Both parts are non-negative, so nothing cancels even if ε is large.
            level[v] = near[v] * mass + far[v] * max(total - mass, 0.0)
            pull[v] = 0.0
            stamp[v] = now
            touched[n_touched] = v
            n_touched += 1
        weight = 1.0 / (level[v] + own[v] * phi[y])
        pull[v] += weight
        slope[y] += weight * own[v]
    shared = 0.0
    for j in range(n_touched):
        v = touched[j]
        shared += pull[v] * far[v]
        more = pull[v] * (near[v] - far[v])
        for b in range(starts[v], stops[v], _BLOCK):
            slope[members[b]] += more
            slope[members[b + _1]] += more
            slope[members[b + _2]] += more
            slope[members[b + _3]] += more
            slope[members[b + _4]] += more
            slope[members[b + _5]] += more
            slope[members[b + _6]] += more
            slope[members[b + _7]] += more
    return shared
