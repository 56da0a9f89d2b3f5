"""SGLD with control variates on the records of the loop: the pieces of `sample(..., "sgld_cv")`, answer by answer.

The gradient and the information at the anchor are sums over answers, so each new answer is added to them, and an update
costs the same however many there are. When there are four times as many answers, `anchoring` finds another anchor, and
coordinates and a step that suit the posterior then.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.online.records import RESPONSES
from adobest_pp.samplers.concentration import Prior
from adobest_pp.samplers.control_variates import Anchor, Rows, add_moments, mirror
from adobest_pp.samplers.normal_coordinates import Coordinates, quantile_tables
from adobest_pp.samplers.sgld_cv_choices import FRICTION
from adobest_pp.samplers.underdamped import underdamped_draws

__all__ = ["AnchoredState", "anchored_updates", "is_due", "new_anchored_state"]

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)

# Responses in a batch, at most: control variates leave so little to it that more would cost more than they give.
LARGEST_BATCH = 8

# Places in `AnchoredState.counters`: the responses that are in the sums, those that the anchor was learned from, and
# those at which another is due. A negative number of learned ones stands for coordinates that must be learned again.
ABSORBED, LEARNED, DUE = range(3)
# Places in `AnchoredState.scalars`.
TOTAL_SD, STEP = range(2)


class AnchoredState(NamedTuple):
    """What the sampler keeps between rounds.

    Attributes
    ----------
    x, momentum, force, virial : array of shape (K,)
        Of the underdamped dynamics.
    theta, gradient, information : array of shape (K,), (K,) and (K, K)
        The anchor, as in `Anchor`, for all absorbed responses.
    tables, table_index, shape, log_scale, center, factor : array
        As in `Coordinates`.
    scalars, counters : array
        See the places above.
    learned_from : uint64[4]
        The generator where the anchor was learned: from it and the responses everything here is learned again.
    numbers, places, relative : array of shape (U, ·)
        Rows of evidence, as in `Rows` and `Anchor`: distinct (kind, answer) pairs, with room for more.
    alias, threshold : array of shape (n,)
        The row of each response, and zeros: so are rows drawn by their counts.
    """

    x: NDArray[np.float64]
    momentum: NDArray[np.float64]
    force: NDArray[np.float64]
    virial: NDArray[np.float64]
    theta: NDArray[np.float64]
    gradient: NDArray[np.float64]
    information: NDArray[np.float64]
    tables: NDArray[np.float64]
    table_index: NDArray[np.int64]
    shape: NDArray[np.float64]
    log_scale: NDArray[np.float64]
    center: NDArray[np.float64]
    factor: NDArray[np.float64]
    scalars: NDArray[np.float64]
    counters: NDArray[np.int64]
    learned_from: NDArray[np.uint64]
    numbers: NDArray[np.float64]
    places: NDArray[np.int32]
    relative: NDArray[np.float64]
    alias: NDArray[np.int32]
    threshold: NDArray[np.float64]


def new_anchored_state(prior: NDArray[np.float64]) -> AnchoredState:
    """Return the state before any response, with everything yet to be learned."""
    k = prior.size
    tables, index = quantile_tables(prior)
    return AnchoredState(
        x=np.zeros(k),
        momentum=np.zeros(k),
        force=np.zeros(k),
        virial=np.zeros(k),
        theta=np.zeros(k),
        gradient=np.zeros(k),
        information=np.zeros((k, k)),
        tables=tables,
        table_index=index,
        shape=prior.copy(),
        log_scale=np.zeros(k),
        center=np.zeros(k),
        factor=np.eye(k),
        scalars=np.ones(2),
        counters=np.array([0, -1, 0]),
        learned_from=np.zeros(4, dtype=np.uint64),
        numbers=np.zeros((0, 4)),
        places=np.zeros((0, 4), dtype=np.int32),
        relative=np.zeros((0, 2)),
        alias=np.zeros(0, dtype=np.int32),
        threshold=np.zeros(0),
    )


@njit(cache=True)
def is_due(records, work):  # type: ignore[no-untyped-def]
    """Tell whether another anchor is to be learned before the next round."""
    return work.counters[LEARNED] < 0 or records.used[RESPONSES] >= work.counters[DUE]


@njit(cache=True, error_model="numpy")
def absorb(records, work):  # type: ignore[no-untyped-def]
    """Add the responses since the last call to the rows, and to the sums at the anchor."""
    counters, numbers, places, relative, hat = work.counters, work.numbers, work.places, work.relative, work.theta
    members = records.members.view(np.int32)
    for t in range(counters[ABSORBED], records.used[RESPONSES]):
        v, y = records.code[t] >> _HALF, records.code[t] & _LOW
        u = records.pair_row[v, y] - 1
        work.alias[t] = u
        if numbers[u, 3] == 0.0:
            _add_row(u, y, v, records, members, hat, numbers, places, relative)
        numbers[u, 3] += 1.0
        own, inside, begin, end = relative[u, 0], relative[u, 1], places[u, 2], places[u, 3]
        add_moments(1.0, own, inside, places[u, 0], begin, end, members, work.gradient, work.information)
    if counters[ABSORBED] < records.used[RESPONSES]:
        mirror(work.information)
    counters[ABSORBED] = records.used[RESPONSES]


@njit(cache=True, error_model="numpy")
def _add_row(u, y, v, records, members, hat, numbers, places, relative):  # type: ignore[no-untyped-def]
    """Write a new row, without a count, and what it is relative to h at the anchor."""
    begin, end = np.int64(records.starts[v]), np.int64(records.stops[v])
    mass = 0.0
    for j in range(begin, end):
        mass += hat[members[j]]
    numbers[u, 0], numbers[u, 1], numbers[u, 2] = records.far[v], records.own[v], records.near[v] - records.far[v]
    places[u, 0], places[u, 1], places[u, 2], places[u, 3] = y, v, begin, end
    h = numbers[u, 0] + numbers[u, 1] * hat[np.int64(y)] + numbers[u, 2] * mass
    relative[u, 0], relative[u, 1] = numbers[u, 1] / h, numbers[u, 2] / h


@njit(cache=True, error_model="numpy")
def anchored_updates(state, phi, records, prior, n_updates, batch_size, mean, first_kept, work):  # type: ignore[no-untyped-def]
    """Run `n_updates` updates on all responses recorded so far, of which there is one at least; φ becomes the last θ.

    θ of update number `first_kept` and those that follow is added to `mean`; returns how many these are. Updates that
    leave the finite numbers are undone: the chain goes on from the center of its coordinates, with half the step.
    """
    absorb(records, work)
    k, n, n_kept = phi.size, records.used[RESPONSES], max(n_updates - first_kept, 0)
    every = 1 if n_kept > 0 else n_updates
    draws = np.empty((n_updates // every, k))
    nothing = np.zeros(1)
    rows = Rows(
        work.numbers,
        work.places,
        records.members.view(np.int32),
        np.zeros(1, np.int64),
        np.zeros((0, k)),
        work.threshold[:n],
        work.alias[:n],
        float(n),
        np.empty((0, 0), np.uint8),
    )
    coordinates = Coordinates(
        work.tables, work.table_index, work.shape, work.log_scale, work.scalars[TOTAL_SD], work.center, work.factor
    )
    underdamped_draws(
        state,
        work.x,
        work.momentum,
        Prior(prior, nothing, False, 0.0, 1.0, math.inf, 0.0),
        coordinates,
        rows,
        Anchor(work.theta, work.gradient, work.information, work.relative),
        min(batch_size, LARGEST_BATCH, n),
        # The posterior becomes narrower than it was when the coordinates were learned.
        work.scalars[STEP] * math.sqrt(max(work.counters[LEARNED], 1) / n),
        FRICTION,
        every,
        draws,
        work.force,
        work.virial,
    )
    if not math.isfinite(draws.sum()):
        work.x[:] = 0.0
        work.momentum[:] = 0.0
        work.scalars[STEP] *= 0.5
        draws[:] = phi / phi.sum()
    phi[:] = draws[-1]
    for j in range(n_updates - n_kept, n_updates):
        for i in range(k):
            mean[i] += draws[j, i]
    return n_kept
