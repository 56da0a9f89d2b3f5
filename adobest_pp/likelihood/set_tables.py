"""Masses θ(S) of thousands of sets by table look-up: subset selection has nearly as many sets as answers.

Categories are taken ten at a time. There are 2¹⁰ sums of θ over subsets of ten, each one addition from another; a set
then is one entry of each table, and the derivative runs the same way back.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence

__all__ = ["pull_by_tables", "set_codes", "set_masses_by_tables"]

BITS = 10
# Of the 64 bits of a word, what whole tables use.
TABLES_PER_WORD = 6
LAST = 2**BITS - 1


def set_codes(evidence: Evidence) -> NDArray[np.int64]:
    """Return the sets as bits, of shape (V, words); of no words where tables would cost more than the members."""
    k, n_sets = evidence.n_categories, evidence.n_sets
    n_tables = -(-k // BITS)
    if n_tables * (n_sets + 2**BITS) >= evidence.members.size or len(evidence.patterns):
        return np.zeros((n_sets, 0), dtype=np.int64)
    word, bit = np.divmod(evidence.members.astype(np.int64), BITS * TABLES_PER_WORD)
    codes = np.zeros((n_sets, -(-n_tables // TABLES_PER_WORD)), dtype=np.int64)
    of_member = np.repeat(np.arange(n_sets), np.diff(evidence.offsets))
    np.bitwise_or.at(codes, (of_member, word), np.left_shift(1, bit))
    return codes


@njit(cache=True)
def set_masses_by_tables(theta, codes):  # type: ignore[no-untyped-def]
    """Return θ(S) of every set, and one 0 more for rows without a set. There are no patterns beside tables."""
    n_tables = -(-theta.size // BITS)
    tables = np.zeros((n_tables, 2**BITS))
    for i in range(theta.size):
        t, width = i // BITS, 1 << (i % BITS)
        for j in range(width):
            tables[t, width + j] = tables[t, j] + theta[i]
    masses = np.zeros(len(codes) + 1)
    for t in range(n_tables):
        table, word, shift = tables[t], t // TABLES_PER_WORD, BITS * (t % TABLES_PER_WORD)
        for v in range(len(codes)):
            masses[v] += table[(codes[v, word] >> shift) & LAST]
    return masses


@njit(cache=True)
def pull_by_tables(pull, codes, slope):  # type: ignore[no-untyped-def]
    """Add `pull` of each set to `slope` of its members."""
    n_tables = -(-slope.size // BITS)
    tables = np.zeros((n_tables, 2**BITS))
    for t in range(n_tables):
        table, word, shift = tables[t], t // TABLES_PER_WORD, BITS * (t % TABLES_PER_WORD)
        for v in range(len(codes)):
            table[(codes[v, word] >> shift) & LAST] += pull[v]
    for i in range(slope.size - 1, -1, -1):
        t, width = i // BITS, 1 << (i % BITS)
        for j in range(width):
            slope[i] += tables[t, width + j]
            tables[t, j] += tables[t, width + j]
