"""Answers that are their support sets, kept as packed bits: what `sgld_cv` needs of them, without laying them out.

An answer takes ⌈K/8⌉ bytes, which may be in a memory-mapped file. Batches are read where they are drawn; the anchor of
control variates (`control_variates`) takes one pass over all of them, in parts that do not depend on the machine, so
that sums are the same to the last bit everywhere.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence, support_rows
from adobest_pp.online.fast_random import uniform

__all__ = ["PackedSets", "add_packed_batch", "packed_moments", "some_sets"]

# Parts that a pass over all sets is made in.
_PARTS = 64


class PackedSets(NamedTuple):
    """Answers with probability ∝ 1 + inside·θ(S): the sets as packed bits (n, ⌈K/8⌉)."""

    packed: NDArray[np.uint8]
    inside: float
    n_categories: int

    @property
    def n_responses(self) -> int:
        """The number n of answers."""
        return len(self.packed)


def some_sets(sets: PackedSets, count: int, rng: np.random.Generator) -> Evidence:
    """Return the evidence of so many answers, drawn with replacement."""
    chosen = sets.packed[np.sort(rng.integers(len(sets.packed), size=count))]
    return support_rows(chosen, sets.inside, np.zeros(count), np.arange(count), sets.n_categories)


def packed_moments(theta: NDArray[np.float64], sets: PackedSets) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ g/h and Σ g·gᵀ/h² over all answers, of rows g without their base."""
    bounds = np.linspace(0, len(sets.packed), _PARTS + 1).astype(np.int64)

    def part(i: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found: tuple[NDArray[np.float64], NDArray[np.float64]]
        found = _moments(theta, sets.inside, sets.packed[bounds[i] : bounds[i + 1]])
        return found

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        parts = list(pool.map(part, range(_PARTS)))
    gradient, upper = sum(each[0] for each in parts), sum(each[1] for each in parts)
    return np.asarray(gradient), np.asarray(np.triu(upper) + np.triu(upper, 1).T)


@njit(cache=True, inline="always")
def _members(row, k, members):  # type: ignore[no-untyped-def]
    """Write the members of a packed set, and return how many there are. Without branches, as bits are random."""
    count = 0
    for i in range(k):
        members[count] = i
        count += (row[i >> 3] >> np.uint8(7 - (i & 7))) & np.uint8(1)
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _moments(theta, inside, packed):  # type: ignore[no-untyped-def]
    k = theta.size
    gradient, upper, members = np.zeros(k), np.zeros((k, k)), np.empty(k + 1, np.int64)
    for u in range(len(packed)):
        size = _members(packed[u], k, members)
        mass = 0.0
        for a in range(size):
            mass += theta[members[a]]
        weight = inside / (1.0 + inside * mass)
        square = weight * weight
        for a in range(size):
            i = members[a]
            gradient[i] += weight
            row = upper[i]
            for b in range(a, size):
                row[members[b]] += square
    return gradient, upper


@njit(cache=True, error_model="numpy")
def add_packed_batch(state, batch, inside, hat, delta, packed, slope):  # type: ignore[no-untyped-def]
    """Add n/m·Σ (g/ĥ)·r²/(1+r) of `batch` answers, drawn with replacement, to `slope`, as `add_batch` does."""
    n, k = len(packed), delta.size
    share, members = n / batch, np.empty(k + 1, np.int64)
    for _ in range(batch):
        u = min(np.int64(uniform(state) * n), n - 1)
        size = _members(packed[u], k, members)
        there, change = 0.0, 0.0
        for a in range(size):
            there += hat[members[a]]
            change += delta[members[a]]
        relative = inside / (1.0 + inside * there)
        r = relative * change
        pull = share * relative * r * r / (1.0 + r)
        for a in range(size):
            slope[members[a]] += pull
