"""Reflected SGLD on the records of the loop: the update that all the time goes into.

The same update as `adobest_pp.samplers.kernels`, on codes instead of evidence rows. Draws from the generator come in a
fixed order, m indices and then K normals for each update, so that a plain transcription can follow them.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.fast_random import integer, normal
from adobest_pp.online.records import FIRST_SET, INSIDE, RESPONSES, SRR, STAMP

__all__ = ["Workspace", "langevin_updates", "new_workspace"]

_HALF, _LOW, _FIRST_SET, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(FIRST_SET), np.uint64(1)


class Workspace(NamedTuple):
    """Arrays that every update overwrites."""

    tally: NDArray[np.int32]
    outside: NDArray[np.uint64]
    touched: NDArray[np.uint64]
    slope: NDArray[np.float64]
    proposal: NDArray[np.float64]


def new_workspace(n_categories: int, batch_size: int) -> Workspace:
    """Return work space for batches of at most `batch_size` responses."""
    return Workspace(
        tally=np.empty(3 * n_categories, dtype=np.int32),
        outside=np.empty(batch_size + 1, dtype=np.uint64),
        touched=np.empty(batch_size, dtype=np.uint64),
        slope=np.empty(n_categories),
        proposal=np.empty(n_categories),
    )


@njit(cache=True, error_model="numpy")
def langevin_updates(  # type: ignore[no-untyped-def]
    state, phi, records, prior, steps, batch_size, mean, first_kept, work
):
    """Run one update φ ← |φ + (γ/2)·slope + √γ·W| for each step size γ in `steps`, on all responses recorded so far.

    Parameters
    ----------
    state : uint64[4]
        The generator, advanced in place.
    phi : float64[K]
        Moved in place. An update that would leave the finite numbers is dropped.
    records, prior, steps
        The responses, ρ and the step sizes.
    batch_size : int
        m; with fewer responses than that, all of their number is drawn. Draws are with replacement.
    mean : float64[K]
        θ after update number `first_kept` and those that follow is added to it.
    first_kept : int
        ``steps.size`` to add nothing.
    work : Workspace
        Overwritten.

    Returns
    -------
    int
        How many θ were added to `mean`.
    """
    n = records.used[RESPONSES]
    m = min(batch_size, n)
    scale = n / m if m > 0 else 0.0
    total = phi.sum()
    for j in range(steps.size):
        shared = _batch_slope(state, phi, total, records, n, m, work)
        half, root = 0.5 * steps[j], math.sqrt(steps[j])
        # (ρ−1)/φ is taken no closer to zero than the width of the noise, see samplers.kernels.slope_floor.
        constant = half * (scale * (shared - m / total) - 1.0)
        for i in range(phi.size):
            drift = half * (scale * work.slope[i] + (prior[i] - 1.0) / max(phi[i], root)) + constant
            work.slope[i] = phi[i] + drift
        for i in range(phi.size):
            work.proposal[i] = normal(state)
        for i in range(phi.size):
            work.proposal[i] = abs(work.slope[i] + root * work.proposal[i])
        reach = 0.0
        for i in range(phi.size):
            reach += work.proposal[i]
        if 0.0 < reach < np.inf:
            phi[:] = work.proposal
            total = reach
        if j >= first_kept:
            for i in range(phi.size):
                mean[i] += phi[i] / total
    return max(steps.size - first_kept, 0)


@njit(cache=True, error_model="numpy")
def _batch_slope(state, phi, total, records, n, m, work):  # type: ignore[no-untyped-def]
    """Draw a batch; write Σ (g_i − c)/h into ``work.slope`` and return Σ c/h, with c what all categories share.

    Answers that need no set are only counted: K divisions then serve them all. The others are put aside without a
    branch that could be mispredicted, and the mass of a set is summed once for all its answers.
    """
    k = phi.size
    work.tally[:] = 0
    n_outside = 0
    for _ in range(m):
        code = records.code[integer(state, n)]
        kind = code >> _HALF
        work.tally[min(kind, _FIRST_SET) * np.uint64(k) + (code & _LOW)] += np.int32(1)
        work.outside[n_outside] = code
        n_outside += int(kind >= _FIRST_SET)
    work.slope[:] = 0.0
    shared = _set_slope(phi, total, records, n_outside, work)
    odds = records.own[INSIDE]
    for i in range(k):
        work.proposal[i] = work.tally[i] / (total + odds * phi[i])
    for i in range(k):
        work.slope[i] += odds * work.proposal[i]
        shared += work.proposal[i]
    if records.last_of_size[0] >= 0:
        odds = records.own[SRR]
        for i in range(k):
            weight = work.tally[SRR * k + i] / (total + odds * phi[i])
            work.slope[i] += odds * weight
            shared += weight
    return shared


@njit(cache=True, error_model="numpy")
def _set_slope(phi, total, records, n_outside, work):  # type: ignore[no-untyped-def]
    """Do the same for the answers outside their subset."""
    records.used[STAMP] += 1
    now = records.used[STAMP]
    n_touched = 0
    for j in range(n_outside):
        y = work.outside[j] & _LOW
        v = work.outside[j] >> _HALF
        if records.stamp[v] != now:
            records.stamp[v] = now
            mass = 0.0
            for i in range(records.offsets[v], records.offsets[v + _ONE]):
                mass += phi[records.members[i]]
            # Both parts are non-negative, so nothing cancels however large ε is.
            records.level[v] = records.near[v] * mass + records.far[v] * max(total - mass, 0.0)
            records.pull[v] = 0.0
            work.touched[n_touched] = v
            n_touched += 1
        weight = 1.0 / (records.level[v] + records.own[v] * phi[y])
        records.pull[v] += weight
        work.slope[y] += weight * records.own[v]
    shared = 0.0
    for j in range(n_touched):
        v = work.touched[j]
        shared += records.pull[v] * records.far[v]
        weight = records.pull[v] * (records.near[v] - records.far[v])
        for i in range(records.offsets[v], records.offsets[v + _ONE]):
            work.slope[records.members[i]] += weight
    return shared
