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
def collapse(mechanism: Mechanism, table: ResponseTable) -> Evidence:
    """Collapse responses of a mechanism into evidence."""
    raise ValueError(f"mechanism must be SRR, RRRR or SubsetSelection, got {mechanism!r}")


@collapse.register
def _(mechanism: SRR, table: ResponseTable) -> Evidence:
    answers, counts = np.unique(table.answers, return_counts=True)
    base, own = mechanism.linear_form()
    rows = _Rows(np.full(answers.size, base), np.full(answers.size, own), np.zeros(answers.size), answers, counts)
    return _assemble(mechanism.n_categories, rows, _no_rows(), _NO_INDEX, _no_sets(mechanism.n_categories))


@collapse.register
def _(mechanism: RRRR, table: ResponseTable) -> Evidence:
    k = mechanism.n_categories
    codes, counts = np.unique(table.set_index * k + table.answers, return_counts=True)
    index, answer = codes // k, codes % k
    size = table.sets.sum(axis=1)[index]
    free = table.sets[index, answer] | (size == 0)
    free_rows = _set_free_rows(mechanism, size[free], answer[free], counts[free])

    used, local = np.unique(index[~free], return_inverse=True)
    sets, rank = unique_rows(table.sets[used])
    set_index = rank[local]
    order = np.lexsort((answer[~free], set_index))
    of_size = mechanism.coefficients
    size, answer, counts = size[~free][order], answer[~free][order], counts[~free][order]
    outer = of_size.outer[size]
    set_rows = _Rows(outer, of_size.outer_own[size], of_size.cross[size] - outer, answer, counts)
    return _assemble(k, free_rows, set_rows, set_index[order], sets)


@collapse.register
def _(mechanism: SubsetSelection, table: ResponseTable) -> Evidence:
    index, counts = np.unique(table.set_index, return_counts=True)
    sets, rank = unique_rows(table.sets[index])
    order = np.argsort(rank)
    inside, log_scale = mechanism.linear_form()
    n = index.size
    rows = _Rows(np.ones(n), np.zeros(n), np.full(n, inside), np.zeros(n, dtype=np.int64), counts[order])
    return _assemble(mechanism.n_categories, _no_rows(), rows, rank[order], sets, log_scale)


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
    times: NDArray[np.int64]


_NO_INDEX = np.zeros(0, dtype=np.int64)


def _no_rows() -> _Rows:
    return _Rows(np.zeros(0), np.zeros(0), np.zeros(0), _NO_INDEX, _NO_INDEX)


def _no_sets(n_categories: int) -> NDArray[np.bool_]:
    return np.zeros((0, n_categories), dtype=bool)


def _set_free_rows(
    mechanism: RRRR, size: NDArray[np.int64], answer: NDArray[np.int64], counts: NDArray[np.int64]
) -> _Rows:
    """Merge answers that need no set by (size, answer), whatever the subset was."""
    k = mechanism.n_categories
    merged = np.zeros(k * k, dtype=np.int64)
    np.add.at(merged, size * k + answer, counts)
    codes = np.flatnonzero(merged)
    size, answer = codes // k, codes % k
    of_size = mechanism.coefficients
    base = np.where(size > 0, of_size.inner[size], of_size.outer[size])
    own = np.where(size > 0, of_size.inner_own[size], of_size.outer_own[size])
    return _Rows(base, own, np.zeros(codes.size), answer, merged[codes])


def _assemble(
    n_categories: int,
    free: _Rows,
    with_set: _Rows,
    set_index: NDArray[np.int64],
    sets: NDArray[np.bool_],
    log_scale: float = 0.0,
) -> Evidence:
    base, own, inside, category, count = (np.concatenate(parts) for parts in zip(free, with_set, strict=True))
    return Evidence(
        base,
        own,
        inside,
        category,
        np.concatenate([np.full(free.times.size, -1), set_index]),
        count,
        members=np.nonzero(sets)[1],
        offsets=np.concatenate([[0], np.cumsum(sets.sum(axis=1))]),
        n_categories=n_categories,
        log_scale=log_scale,
    )
