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

from adobest_pp._random import seed_state
from adobest_pp.adaptive.records import KINDS, RESPONSES, Records
from adobest_pp.evidence import Evidence
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, Rows, add_moments, anchor_at, mirror, rows_of
from adobest_pp.samplers.sgld_cv.coordinates import Coordinates, Prior, coordinates_of, quantile_tables
from adobest_pp.samplers.sgld_cv.dynamics import FULL, Target, underdamped_draws
from adobest_pp.samplers.sgld_cv.initial_draws import first_draws
from adobest_pp.samplers.sgld_cv.sampler import FRICTION, choose_step, largest_curvature, updates_per_draw

__all__ = [
    "LAST_PILOTS",
    "AnchoredState",
    "anchored_updates",
    "evidence_of",
    "is_due",
    "learn",
    "new_anchored_state",
    "with_room",
]


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


# Where the loop's SGLD with control variates is anchored, in which coordinates it moves, and by what step.
#
# Everything is learned from the responses alone, and from a generator of its own: an estimate of θ, draws of a normal
# approximation there, and short pilots, each in coordinates that suit the draws of the one before. So a collection that
# is resumed learns the same again.


# Responses at the first anchor that answers have a part in, and how many times more there are at each that follows.
FIRST, TIMES = 32, 4
# Iterations towards the estimate of θ that the first draws are around: pilots make up for what is left.
ITERATIONS = 15
# Pilots (and more where the estimate is made), and draws of each, of which the first third only forgets the start.
PILOTS, LAST_PILOTS, DRAWS = 1, 3, 200
# Rows of evidence from which on a batch costs less than all of them.
FEW_ROWS = 20
# The step of pilots, which is not yet chosen, and the places at which the curvature is then looked at.
PILOT_STEP, PLACES = 0.3, 10
# How often a step is halved until a pilot stays finite.
HALVINGS = 8
_LOWEST = np.uint64(0xFFFFFFFF)


class Learned(NamedTuple):
    """An anchor, coordinates, a step, and x of a draw."""

    anchor: Anchor
    coordinates: Coordinates
    step: float
    x: NDArray[np.float64]


def learn(
    work: AnchoredState, records: Records, prior: NDArray[np.float64], state: NDArray[np.uint64], pilots: int = PILOTS
) -> None:
    """Learn anchor, coordinates and step from all responses; or again, where the state of a file says from how many.

    The chain goes on from a draw of the last pilot; if it is learned again, from where it was.
    """
    again = work.counters[LEARNED] < -1
    if again:
        n = int(-2 - work.counters[LEARNED])
    else:
        n = int(records.used[RESPONSES])
        work.learned_from[:] = state
    found = learned(evidence_of(records, n), prior, work.learned_from, pilots)
    work.theta[:], work.gradient[:], work.information[:] = found.anchor[:3]
    work.log_scale[:], work.center[:], work.factor[:] = (
        found.coordinates.log_scale,
        found.coordinates.center,
        found.coordinates.factor,
    )
    work.scalars[TOTAL_SD] = found.coordinates.total_sd
    if not again:
        work.scalars[STEP] = found.step
        work.x[:] = found.x
        work.momentum[:] = np.random.default_rng(work.learned_from.tolist()).standard_normal(prior.size)
    _keep_rows(work, records, n, found.anchor.relative)
    work.counters[:] = n, n, max(FIRST, TIMES * n)


def learned(evidence: Evidence, prior: NDArray[np.float64], words: NDArray[np.uint64], pilots: int) -> Learned:
    """Return what suits the posterior given evidence; a function of its arguments alone."""
    rng, k = np.random.default_rng(words.tolist()), prior.size
    state, rows = seed_state(np.random.SeedSequence(words.tolist())), rows_of(evidence)
    draws, sd = first_draws(evidence, rows, prior, max(DRAWS, 4 * k), rng, ITERATIONS)
    batch = FULL if evidence.n_rows <= FEW_ROWS else LARGEST_BATCH
    fixed = Prior(prior, np.zeros(1), False, 0.0, 1.0)
    for pilot in range(pilots + 1):
        coordinates, x = coordinates_of(draws, prior, sd / 2, rng)
        center = draws.mean(axis=0)
        target = Target(fixed, coordinates, rows, anchor_at(center / center.sum(), evidence, rows))
        if pilot < pilots:
            draws = _pilot(x[-1], target, batch, PILOT_STEP, state, rng)[DRAWS // 3 :]
    some = x[:: max(1, len(x) // PLACES)]
    return Learned(target.anchor, coordinates, choose_step(largest_curvature(some, target, batch, state)), x[-1])


def _pilot(
    x: NDArray[np.float64],
    target: Target,
    batch: int,
    step: float,
    state: NDArray[np.uint64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return draws (N, K), with the step halved until they are finite."""
    k = x.size
    momentum, force, draws = rng.standard_normal(k), np.empty(k), np.empty((DRAWS, k))
    for halving in range(HALVINGS):
        shorter = step / 2**halving
        start, kick = x.copy(), momentum.copy()
        arguments = (batch, shorter, FRICTION, updates_per_draw(shorter), draws, force, np.zeros(k))
        underdamped_draws(state, start, kick, *target, *arguments)
        if np.isfinite(draws).all():
            return draws
    raise RuntimeError(f"'sgld_cv' did not finish: its chain leaves the finite numbers at a step of {shorter:.2g}")


def evidence_of(records: Records, n: int) -> Evidence:
    """Return the first n responses as evidence, whose rows are in the order in which they first came."""
    kinds, k = int(records.used[KINDS]), records.masks.shape[1]
    row_of = _rows(records, n)
    count = np.bincount(row_of)
    v, y = records.row_kind[: count.size], records.row_answer[: count.size]
    starts = records.starts[:kinds].astype(np.int64)
    sizes = records.stops[:kinds].astype(np.int64) - starts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = records.members[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)]
    return Evidence(
        base=records.far[v],
        own=records.own[v],
        inside=records.near[v] - records.far[v],
        log_scale=np.zeros(count.size),
        category=y.copy(),
        set_index=v.copy(),
        count=count,
        members=members.astype(np.int32),
        offsets=offsets,
        patterns=np.zeros((0, k)),
        codes=np.zeros((0, kinds), dtype=np.uint16),
    )


def _rows(records: Records, n: int) -> NDArray[np.int32]:
    """Return the row of each of the first n responses."""
    code = records.code[:n]
    return np.asarray(records.pair_row[code >> np.uint64(32), code & _LOWEST] - 1)


def _keep_rows(work: AnchoredState, records: Records, n: int, relative: NDArray[np.float64]) -> None:
    """Write the rows of the first n responses, and forget later ones."""
    row_of = _rows(records, n)
    used = len(relative)
    v, y = records.row_kind[:used], records.row_answer[:used]
    work.numbers[:] = 0.0
    work.numbers[:used] = np.stack(
        [records.far[v], records.own[v], records.near[v] - records.far[v], np.bincount(row_of, minlength=used)], axis=1
    )
    work.places[:used] = np.stack([y, v, records.starts[v], records.stops[v]], axis=1)
    work.relative[:used] = relative
    work.alias[:n] = row_of


def with_room(work: AnchoredState, records: Records) -> AnchoredState:
    """Return the state with room for as many responses as the records have."""
    size = records.code.size
    if work.alias.size >= size:
        return work
    names = ("numbers", "places", "relative", "alias", "threshold")
    grown = {name: np.zeros((size, *getattr(work, name).shape[1:]), getattr(work, name).dtype) for name in names}
    for name, new in grown.items():
        new[: len(getattr(work, name))] = getattr(work, name)
    return work._replace(**grown)
