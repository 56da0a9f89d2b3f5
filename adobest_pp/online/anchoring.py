"""Where the loop's SGLD with control variates is anchored, in which coordinates it moves, and by what step.

Everything is learned from the responses alone, and from a generator of its own: an estimate of θ, draws of a normal
approximation there, and short pilots, each in coordinates that suit the draws of the one before. So a collection that
is resumed learns the same again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.online.anchored import LARGEST_BATCH, LEARNED, STEP, TOTAL_SD, AnchoredState
from adobest_pp.online.fast_random import seed_state
from adobest_pp.online.records import KINDS, RESPONSES, Records
from adobest_pp.samplers.concentration import Prior
from adobest_pp.samplers.control_variates import Anchor, anchor_at, rows_of
from adobest_pp.samplers.first_draws import first_draws
from adobest_pp.samplers.normal_coordinates import Coordinates, coordinates_of
from adobest_pp.samplers.sgld_cv_choices import FRICTION, choose_step, largest_curvature, updates_per_draw
from adobest_pp.samplers.underdamped import FULL, Target, underdamped_draws

__all__ = ["LAST_PILOTS", "evidence_of", "learn", "with_room"]

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
_LOW = np.uint64(0xFFFFFFFF)


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
    return np.asarray(records.pair_row[code >> np.uint64(32), code & _LOW] - 1)


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
