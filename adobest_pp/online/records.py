"""What the compiled loop keeps of the responses: one 64-bit code each, and tables of the published subsets.

SGLD needs the gradient of ln h only, and a factor common to g and h drops out of g_i/h. Divided by `inner`, an answer
inside its subset reads h ∝ 1 + (e^ε₁ − 1)·θ[y] whatever the subset and its size, and divided by `outer`, one outside
reads h ∝ θ(Sᶜ) + (cross/outer)·θ(S) + (e^ε₂ − 1)·θ[y]. So a response is an answer y and a kind: `INSIDE`, `SRR` (the
empty subset) or the set it is outside of.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["FIRST_SET", "INSIDE", "SRR", "Records", "new_records", "publish", "record", "reserve"]

# The upper half of a code is the kind of the response, the lower half its answer.
INSIDE, SRR, FIRST_SET = 0, 1, 2
_HALF = np.uint64(32)

# Places in `Records.used`.
RESPONSES, SETS, MEMBERS, STAMP = range(4)


class Records(NamedTuple):
    """Arrays with room to grow; `used` tells how much of them is in use (responses, sets, members, last stamp).

    For each set: its mask, and whichever of S and its complement is smaller as ``members[offsets[v]:offsets[v+1]]``,
    with the weight of the mass of those (`near`), of the other categories (`far`) and of the answer itself (`own`)
    in h. `stamp`, `level` and `pull` are work space of the gradients. `last_of_size` finds the last set of each size.
    `counts[kind, y]` is kept for the exact sampler only, and has no rows otherwise.
    """

    used: NDArray[np.int64]
    code: NDArray[np.uint64]
    set_of: NDArray[np.int32]
    masks: NDArray[np.bool_]
    near: NDArray[np.float64]
    far: NDArray[np.float64]
    own: NDArray[np.float64]
    members: NDArray[np.uint64]
    offsets: NDArray[np.uint64]
    stamp: NDArray[np.int64]
    level: NDArray[np.float64]
    pull: NDArray[np.float64]
    last_of_size: NDArray[np.int64]
    counts: NDArray[np.int32]


def new_records(n_categories: int, n_responses: int = 16, n_sets: int = 16, *, counted: bool = False) -> Records:
    """Return empty records with room for so many responses and sets, that count the responses or not."""
    return Records(
        used=np.zeros(4, dtype=np.int64),
        code=np.empty(n_responses, dtype=np.uint64),
        set_of=np.empty(n_responses, dtype=np.int32),
        masks=np.zeros((n_sets, n_categories), dtype=bool),
        near=np.empty(n_sets),
        far=np.empty(n_sets),
        own=np.empty(n_sets),
        members=np.empty(n_sets * max(n_categories // 2, 1), dtype=np.uint64),
        offsets=np.zeros(n_sets + 1, dtype=np.uint64),
        stamp=np.zeros(n_sets, dtype=np.int64),
        level=np.empty(n_sets),
        pull=np.empty(n_sets),
        last_of_size=np.full(n_categories, -1),
        counts=np.zeros((FIRST_SET + n_sets if counted else 0, n_categories), dtype=np.int32),
    )


def reserve(records: Records, n_responses: int, n_sets: int) -> Records:
    """Return records with room for so many more responses and sets; arrays at least double when they grow."""
    k = records.last_of_size.size
    responses = _room(records.code.size, int(records.used[RESPONSES]) + n_responses)
    sets = _room(records.near.size, int(records.used[SETS]) + n_sets)
    if responses == records.code.size and sets == records.near.size:
        return records
    grown = new_records(k, responses, sets, counted=len(records.counts) > 0)
    for name in Records._fields:
        old, new = getattr(records, name), getattr(grown, name)
        new[: len(old)] = old
    return grown


def _room(have: int, needed: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


@njit(cache=True)
def publish(records, order, size, coefficients):  # type: ignore[no-untyped-def]
    """Return the place of the set ``order[:size]`` in the tables; a set that was just published is found again.

    Only the last set of the same size is looked at: once the adaptation has settled, that is nearly always the one.
    There must be room for one more set.
    """
    last = records.last_of_size[size]
    if last >= 0:
        same = True
        for i in range(size):
            same = same and records.masks[last, order[i]]
        if same:
            return last
    v = records.used[SETS]
    for i in range(size):
        records.masks[v, order[i]] = True
    inside = coefficients.cross[size] / coefficients.outer[size]
    records.own[v] = coefficients.outer_own[size] / coefficients.outer[size]
    if 2 * size <= order.size:
        records.near[v], records.far[v] = inside, 1.0
        first, end = 0, size
    else:
        records.near[v], records.far[v] = 1.0, inside
        first, end = size, order.size
    place = records.used[MEMBERS]
    for i in range(first, end):
        records.members[place] = order[i]
        place += 1
    records.offsets[v + 1] = place
    records.used[MEMBERS] = place
    records.used[SETS] = v + 1
    records.last_of_size[size] = v
    return v


@njit(cache=True)
def record(records, answer, v, size):  # type: ignore[no-untyped-def]
    """Add a response: an answer given under set `v`, which has `size` categories. There must be room for it."""
    if size == 0:
        kind = SRR
    elif records.masks[v, answer]:
        kind = INSIDE
    else:
        kind = FIRST_SET + v
    t = records.used[RESPONSES]
    records.code[t] = (np.uint64(kind) << _HALF) | np.uint64(answer)
    records.set_of[t] = v
    records.used[RESPONSES] = t + 1
    if records.counts.shape[0] > 0:
        records.counts[kind, answer] += 1
