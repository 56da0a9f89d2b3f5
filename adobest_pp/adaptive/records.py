"""What Algorithm 1 keeps of the responses: one 64-bit code each, and tables of the published subsets.

Sampling needs ln h only up to a constant, so factors of h without θ drop out. Divided by `inner`, h of an answer
inside its subset is 1 + (e^ε₁ − 1)·θ[y] for every subset of every size. Divided by `outer`, h of an answer outside is
θ(Sᶜ) + (cross/outer)·θ(S) + (e^ε₂ − 1)·θ[y]. So a response is an answer y and a kind: `INSIDE`, `SRR` (the empty
subset), or the set that the answer lies outside (docs/math.md, section 5).

`adobest_pp.Evidence` cannot grow by one response in constant time, and each of its rows is spread over four arrays. An
update on codes takes about a microsecond, so the loop has its own form of h. A test compares it with
`adobest_pp.likelihood.core`.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._types import Floats, Integers, Masks
from adobest_pp.mechanisms import Coefficients

# Kinds of responses: two that need no set, then from FIRST_SET on the sets.
INSIDE, SRR, FIRST_SET = 0, 1, 2
# The upper half of a code is the kind of the response, the lower half its answer.
_HALF = np.uint64(32)

# Members of a set are summed eight at a time. Nearly all sets then take the same number of steps, which the processor
# predicts well.
BLOCK = 8

# Places in `Records.used`.
RESPONSES, KINDS, MEMBERS, ROWS, STAMP = range(5)


class Records(NamedTuple):
    """Arrays with room to grow. `used` says how much of them is in use, and holds the last stamp.

    For each response: its `code`, and the number of its subset, `set_of`. For each kind v: the mask of its subset S;
    ``members[starts[v]:stops[v]]``, the smaller of S and its complement, padded to whole blocks with the places
    K, K+1, … of no category; and the weights in h of the mass of these members (`near`), of the mass of the other
    categories (`far`) and of the answer itself (`own`). `stamp`, `level` and `pull` are work space of the gradients.
    `last_of_size` is the last subset of each size, and `previous` the one of the same size before it.

    For Gibbs and the exact sampler, distinct (kind, answer) pairs are rows with counts, found by `pair_row` (row number
    plus one); for SGLD these arrays are empty.
    """

    used: Integers
    code: NDArray[np.uint64]
    set_of: NDArray[np.int32]
    masks: Masks
    near: Floats
    far: Floats
    own: Floats
    members: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    stops: NDArray[np.uint64]
    stamp: Integers
    level: Floats
    pull: Floats
    last_of_size: Integers
    previous: Integers
    pair_row: NDArray[np.int32]
    row_kind: Integers
    row_answer: Integers
    row_count: Floats


def new_records(
    coefficients: Coefficients, n_responses: int = 16, n_sets: int = 16, *, counted: bool = False
) -> Records:
    """Return empty records with room for `n_responses` and `n_sets`. With `counted`, equal responses are counted."""
    k, n_kinds = coefficients.inner.size, FIRST_SET + n_sets
    records = Records(
        used=np.array([0, FIRST_SET, 0, 0, 0]),
        code=np.empty(n_responses, dtype=np.uint64),
        set_of=np.empty(n_responses, dtype=np.int32),
        masks=np.zeros((n_kinds, k), dtype=bool),
        near=np.empty(n_kinds),
        far=np.empty(n_kinds),
        own=np.empty(n_kinds),
        members=np.empty(n_kinds * BLOCK * -(-(k // 2) // BLOCK), dtype=np.uint32),
        starts=np.zeros(n_kinds, dtype=np.uint64),
        stops=np.zeros(n_kinds, dtype=np.uint64),
        stamp=np.zeros(n_kinds, dtype=np.int64),
        level=np.empty(n_kinds),
        pull=np.empty(n_kinds),
        last_of_size=np.full(k, -1),
        previous=np.full(n_kinds, -1),
        pair_row=np.zeros((n_kinds if counted else 0, k), dtype=np.int32),
        row_kind=np.empty(n_responses if counted else 0, dtype=np.int64),
        row_answer=np.empty(n_responses if counted else 0, dtype=np.int64),
        row_count=np.zeros(n_responses if counted else 0),
    )
    records.near[:FIRST_SET], records.far[:FIRST_SET] = 0.0, 1.0
    records.own[INSIDE] = coefficients.inner_own[-1] / coefficients.inner[-1]
    records.own[SRR] = coefficients.outer_own[0] / coefficients.outer[0]
    return records


def reserve(records: Records, coefficients: Coefficients, n_responses: int, n_sets: int) -> Records:
    """Return records with room for this many more responses and sets. Arrays at least double when they grow."""
    responses = _room(records.code.size, int(records.used[RESPONSES]) + n_responses)
    kinds = _room(records.near.size, int(records.used[KINDS]) + n_sets)
    if responses == records.code.size and kinds == records.near.size:
        return records
    grown = new_records(coefficients, responses, kinds - FIRST_SET, counted=len(records.pair_row) > 0)
    for name in Records._fields:
        old, new = getattr(records, name), getattr(grown, name)
        new[: len(old)] = old
    return grown


def _room(have: int, needed: int) -> int:
    return have if needed <= have else max(needed, 2 * have)


@njit(cache=True)
def publish(records, order, size, coefficients):  # type: ignore[no-untyped-def]
    """Return the kind of the set ``order[:size]``, adding it if it is new. There must be room for one more set.

    For SGLD it is compared only with the last set of the same size: once the adaptation has settled, that is nearly
    always the right one, and a set stored twice does no harm. The other samplers pay for every set at every step, so
    for them it is compared with all sets of the same size.
    """
    v = records.last_of_size[size]
    while v >= 0:
        found = 0
        while found < size and records.masks[v, order[found]]:
            found += 1
        if found == size:
            return v
        v = records.previous[v] if len(records.pair_row) > 0 else -1
    v = records.used[KINDS]
    for i in range(size):
        records.masks[v, order[i]] = True
    add_set(records, size, coefficients)
    return v


@njit(cache=True)
def add_set(records, size, coefficients):  # type: ignore[no-untyped-def]
    """Complete the tables for a new set of `size` categories whose mask is already written."""
    v = records.used[KINDS]
    mask = records.masks[v]
    inside = coefficients.cross[size] / coefficients.outer[size]
    smaller = 2 * size <= mask.size
    records.near[v] = inside if smaller else 1.0
    records.far[v] = 1.0 if smaller else inside
    records.own[v] = coefficients.outer_own[size] / coefficients.outer[size]
    # In the order of the categories, so that sums over a set do not depend on how it was found.
    place = records.used[MEMBERS]
    records.starts[v] = place
    for i in range(mask.size):
        if mask[i] == smaller:
            records.members[place] = i
            place += 1
    records.stops[v] = place
    while place % BLOCK != 0:
        records.members[place] = mask.size + place % BLOCK
        place += 1
    records.used[MEMBERS] = place
    records.used[KINDS] = v + 1
    records.previous[v] = records.last_of_size[size]
    records.last_of_size[size] = v


@njit(cache=True)
def record(records, answer, v, size):  # type: ignore[no-untyped-def]
    """Add an answer that was given under the set of kind `v`, which has `size` categories. There must be room."""
    if size == 0:
        kind = SRR
    elif records.masks[v, answer]:
        kind = INSIDE
    else:
        kind = v
    t = records.used[RESPONSES]
    records.code[t] = (np.uint64(kind) << _HALF) | np.uint64(answer)
    records.set_of[t] = v - FIRST_SET
    records.used[RESPONSES] = t + 1
    if len(records.pair_row) > 0:
        row = records.pair_row[kind, answer] - 1
        if row < 0:
            row = records.used[ROWS]
            records.used[ROWS] = row + 1
            records.pair_row[kind, answer] = row + 1
            records.row_kind[row] = kind
            records.row_answer[row] = answer
        records.row_count[row] += 1.0


@njit(cache=True)
def record_many(records, answers, v, size):  # type: ignore[no-untyped-def]
    """Add several answers that were given under one set. There must be room for them."""
    for answer in answers:
        record(records, answer, v, size)
