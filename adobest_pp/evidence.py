"""Responses collapsed to what they tell about θ: three numbers each, and how often each occurs.

Whatever the mechanism, a response has probability

    h = base + own·θ[y] + inside·θ(S),      θ(S) = Σ_{i∈S} θ_i,

so equal (base, own, inside, y, S) merge into one row with a count, and nothing downstream grows with n.
"""

from dataclasses import dataclass, fields
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp.mechanisms import RRRR, SRR, Mechanism, SubsetSelection


class ResponseTable(NamedTuple):
    """Plain arrays of n responses: answers (n,), and for each an index into a table of distinct sets (V, K).

    Parts that a mechanism has no use for are empty: sets for SRR, answers for subset selection (there the
    answer is the set).
    """

    answers: NDArray[np.int64]
    set_index: NDArray[np.int64]
    sets: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Distinct rows of the three-number form, in an order that does not depend on the order of the responses.

    Attributes
    ----------
    base, own, inside : array of shape (U,)
        The three numbers of each row.
    category : array of int, shape (U,)
        The y of ``own·θ[y]``.
    set_index : array of int, shape (U,)
        The set of ``inside·θ(S)``, or −1 for rows that need none; those come first.
    count : array of int, shape (U,)
        How many responses the row stands for.
    members, offsets : array of int
        The sets: ``members[offsets[v]:offsets[v+1]]`` are the categories of set v.
    n_categories : int
        Number of categories K.
    log_scale : float
        A constant that belongs to the log-probability of every response.
    """

    base: NDArray[np.float64]
    own: NDArray[np.float64]
    inside: NDArray[np.float64]
    category: NDArray[np.int64]
    set_index: NDArray[np.int64]
    count: NDArray[np.int64]
    members: NDArray[np.int64]
    offsets: NDArray[np.int64]
    n_categories: int
    log_scale: float = 0.0

    @property
    def n_responses(self) -> int:
        """The number of responses behind the rows."""
        return int(self.count.sum())

    @property
    def n_sets(self) -> int:
        """The number of distinct sets."""
        return self.offsets.size - 1

    def __len__(self) -> int:
        return self.count.size

    def __repr__(self) -> str:
        return f"<Evidence: {self.n_responses} responses in {len(self)} rows with {self.n_sets} sets>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evidence):
            return NotImplemented
        return all(np.array_equal(getattr(self, part.name), getattr(other, part.name)) for part in fields(self))

    __hash__ = None  # type: ignore[assignment]


@singledispatch
def collapse(mechanism: Mechanism, table: ResponseTable) -> tuple[Evidence, NDArray[np.int64]]:
    """Collapse responses of a mechanism into evidence, and tell the row of each response."""
    raise ValueError(f"mechanism must be SRR, RRRR or SubsetSelection, got {mechanism!r}")


@collapse.register
def _(mechanism: SRR, table: ResponseTable) -> tuple[Evidence, NDArray[np.int64]]:
    answers, row_of = np.unique(table.answers, return_inverse=True)
    n = answers.size
    base, own = mechanism.linear_form()
    no_set = np.full(n, -1)
    rows = _Rows(np.full(n, base), np.full(n, own), np.zeros(n), answers, no_set)
    return _assemble(rows, row_of, np.zeros((0, mechanism.n_categories), dtype=bool)), row_of


@collapse.register
def _(mechanism: RRRR, table: ResponseTable) -> tuple[Evidence, NDArray[np.int64]]:
    k = mechanism.n_categories
    codes, code_of = np.unique(table.set_index * k + table.answers, return_inverse=True)
    index, answer = codes // k, codes % k
    sizes = table.sets.sum(axis=1)
    size = sizes[index]
    free = table.sets[index, answer] | (size == 0)

    # Rows with a set are told apart by the rank of the set, the others by its size alone; no-set rows come first.
    needed = np.zeros(len(table.sets), dtype=bool)
    needed[index[~free]] = True
    sets, rank = unique_rows(table.sets[needed])
    rank_of_set = np.cumsum(needed) - 1
    set_index = np.where(free, -1, rank[rank_of_set[index]] if len(rank) else -1)
    keys = np.where(free, size, k + set_index) * k + answer
    _, first, row_of_code = np.unique(keys, return_index=True, return_inverse=True)

    rows = _rrrr_rows(mechanism, size[first], answer[first], set_index[first])
    row_of = row_of_code[code_of]
    return _assemble(rows, row_of, sets), row_of


@collapse.register
def _(mechanism: SubsetSelection, table: ResponseTable) -> tuple[Evidence, NDArray[np.int64]]:
    sets, rank = unique_rows(table.sets)
    n = len(sets)
    inside, log_scale = mechanism.linear_form()
    rows = _Rows(np.ones(n), np.zeros(n), np.full(n, inside), np.zeros(n, dtype=np.int64), np.arange(n))
    row_of = rank[table.set_index]
    return _assemble(rows, row_of, sets, log_scale), row_of


def unique_rows(masks: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return the distinct rows in a fixed order, and for each row its place among them."""
    if len(masks) == 0:
        return masks, np.zeros(0, dtype=np.int64)
    packed = np.packbits(masks, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(">u8").astype(np.uint64)
    order = np.lexsort(words.T[::-1])
    is_new = np.ones(len(masks), dtype=bool)
    is_new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    place = np.empty(len(masks), dtype=np.int64)
    place[order] = np.cumsum(is_new) - 1
    return masks[order[is_new]], place


class _Rows(NamedTuple):
    base: NDArray[np.float64]
    own: NDArray[np.float64]
    inside: NDArray[np.float64]
    category: NDArray[np.int64]
    set_index: NDArray[np.int64]


def _rrrr_rows(
    mechanism: RRRR, size: NDArray[np.int64], answer: NDArray[np.int64], set_index: NDArray[np.int64]
) -> _Rows:
    inner, inner_own, outer, outer_own, cross = (column[size] for column in mechanism.coefficients)
    has_set = set_index >= 0
    is_inner = ~has_set & (size > 0)
    base = np.where(is_inner, inner, outer)
    own = np.where(is_inner, inner_own, outer_own)
    return _Rows(base, own, np.where(has_set, cross - outer, 0.0), answer, set_index)


def _assemble(rows: _Rows, row_of: NDArray[np.int64], sets: NDArray[np.bool_], log_scale: float = 0.0) -> Evidence:
    return Evidence(
        *rows,
        count=np.bincount(row_of, minlength=rows.base.size),
        members=np.nonzero(sets)[1],
        offsets=np.concatenate([[0], np.cumsum(sets.sum(axis=1))]),
        n_categories=sets.shape[1],
        log_scale=log_scale,
    )
