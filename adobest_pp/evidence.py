"""Responses reduced to what they say about θ: distinct rows of a few numbers, and how often each occurs.

Whatever the mechanism, a response has probability e^log_scale · h with

    h = base + own·θ[y] + inside·θ(S),

where θ(S) is the mass of a set, Σ_{i∈S} θ_i, or of a pattern, Σ_i w_i θ_i. Equal rows become one with a count. So if
answers repeat, the cost of sampling does not grow with the number of responses.

Sets are lists of members. If a mechanism has thousands of categories and answers, such lists would fill the memory, and
a fast transform is quicker. Its sets are only numbered, and `Evidence.structure` says how to multiply by them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp._types import Bits, Floats, Integers

# Sets whose masks are unpacked at a time, to bound the memory.
_SETS_AT_ONCE = 1 << 16
# Categories per look-up table; see `adobest_pp.likelihood.core`.
BITS = 10
# The kinds of structure that `adobest_pp.transforms` can multiply by.
HADAMARD, PROJECTIVE, SKETCH = 1, 2, 3
# Evidence without structure. From its type, which is not that of blocks, the compiler knows that there is nothing to
# multiply by; see `adobest_pp.transforms.blocks`.
NO_STRUCTURE: NDArray[np.integer] = np.zeros(0, dtype=np.uint8)


class Evidence(NamedTuple):
    """Distinct rows, in an order that does not depend on the order of the responses. Kernels take it as one argument.

    Attributes
    ----------
    base, own, inside : array of shape (U,)
        The three numbers of each row.
    log_scale : array of shape (U,)
        The logarithm of a factor without θ, to be added to the log-probability of each response of the row.
    category : array of int, shape (U,)
        The y of ``own·θ[y]``.
    set_index : array of int, shape (U,)
        The set or pattern of ``inside·θ(S)``: sets with members first, then patterns, then sets of the structure, and
        −1 for rows without any.
    count : array of int, shape (U,)
        How many responses the row stands for.
    members, offsets : array of int
        The V sets: ``members[offsets[v]:offsets[v+1]]`` are the categories of set v.
    patterns : array of shape (D, K)
        The non-negative weights w of each pattern. D is 0 unless the mechanism is a general matrix.
    codes : array of int, shape (T, V)
        The sets again, ten categories at a time: bit j of ``codes[t, v]`` says whether category 10·t + j is in set v.
        T is 0 unless there are so many sets that looking up masses costs less than adding up the members.
    structure : array of int
        How to multiply by sets whose members are not listed, as blocks that `adobest_pp.transforms` reads. Usually
        `NO_STRUCTURE`.
    """

    base: Floats
    own: Floats
    inside: Floats
    log_scale: Floats
    category: Integers
    set_index: Integers
    count: Integers  # type: ignore[assignment]
    members: NDArray[np.int32]
    offsets: Integers
    patterns: Floats
    codes: NDArray[np.uint16]
    structure: NDArray[np.integer] = NO_STRUCTURE

    @property
    def n_categories(self) -> int:
        """The number of categories K."""
        return int(self.patterns.shape[1])

    @property
    def n_responses(self) -> int:
        """The number of responses behind the rows."""
        return int(self.count.sum())

    @property
    def n_rows(self) -> int:
        """The number of distinct rows U."""
        return int(self.count.size)

    @property
    def n_sets(self) -> int:
        """The number of distinct sets V with members."""
        return int(self.offsets.size - 1)

    @property
    def n_masses(self) -> int:
        """The number of masses that a likelihood needs: of sets, of patterns, and of sets of the structure."""
        return self.n_sets + len(self.patterns) + sum(int(block[2]) for block in _blocks(self.structure))

    @property
    def constant(self) -> float:
        """The part of the log-likelihood that does not depend on θ."""
        return float(self.count @ self.log_scale)

    def matrix(self) -> Floats:
        """Return the rows written out, of shape (U, K): h is its product with θ."""
        first = self.n_sets + len(self.patterns)
        # The last set is empty: rows without a set have the index −1.
        sets = np.zeros((first + 1, self.n_categories))
        sets[np.repeat(np.arange(self.n_sets), np.diff(self.offsets)), self.members] = 1.0
        sets[self.n_sets : -1] = self.patterns
        is_listed = self.set_index < first
        rows = self.base[:, None] + self.inside[:, None] * sets[np.where(is_listed, self.set_index, -1)]
        if self.structure.size:
            from adobest_pp.transforms import structured_masks

            masks = structured_masks(self.set_index[~is_listed] - first, self.structure, self.n_categories)
            rows[~is_listed] += self.inside[~is_listed, None] * masks
        rows[np.arange(self.n_rows), self.category] += self.own
        return np.asarray(rows)

    def merge(self, *others: "Evidence") -> "Evidence":
        """Return the evidence of all answers together.

        Parameters
        ----------
        *others : Evidence
            Evidence about the same categories in the same order, from any mechanism and from other people.

        Returns
        -------
        Evidence
            Whatever the pieces and their order, it equals the evidence of all answers at once to the last bit (for
            different mechanisms, that of `concat`).

        Examples
        --------
        >>> import adobest_pp as ad
        >>> one = ad.Responses.from_arrays(ad.SRR(3, epsilon=1.0), [0, 0, 2]).evidence()
        >>> two = ad.Responses.from_arrays(ad.SRR(3, epsilon=1.0), [2, 1]).evidence()
        >>> one.merge(two)
        <Evidence: 5 responses in 3 rows with 0 sets>
        """
        for other in others:
            if not isinstance(other, Evidence):
                raise ValueError(f"others must be Evidence, as from Responses.evidence, got {brief(other)}")
            if other.n_categories != self.n_categories:
                raise ValueError(f"others must be about {self.n_categories} categories, got {other.n_categories}")
        if len({id(each) for each in (self, *others)}) <= len(others) and self.n_responses:
            raise ValueError("others must be evidence from other people, got the same Evidence twice")
        return merged([self, *others])[0]

    def __repr__(self) -> str:
        sets = self.n_masses - len(self.patterns)
        return f"<Evidence: {self.n_responses} responses in {self.n_rows} rows with {sets} sets>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evidence):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self._fields)

    def __ne__(self, other: object) -> bool:
        return not self == other  # tuple.__ne__ would compare arrays


def set_rows(
    row_of: Integers,
    set_index: Integers,
    n_categories: int,
    packed_sets: Bits | None = None,
    *,
    base: Floats | float = 1.0,
    own: Floats | float = 0.0,
    inside: Floats | float = 0.0,
    log_scale: Floats | float = 0.0,
    category: Integers | int = 0,
) -> Evidence:
    """Return evidence whose rows have a set, given as packed bits of shape (V, ⌈K/8⌉), or none (−1).

    `row_of` is the row of each response, of shape (n,). The other arrays have one entry per row; a number is the same
    for all rows.
    """
    n = set_index.size
    packed = np.zeros((0, -(-n_categories // 8)), dtype=np.uint8) if packed_sets is None else packed_sets
    members, sizes = _members(packed, n_categories)
    return Evidence(
        base=np.full(n, base, dtype=np.float64),
        own=np.full(n, own, dtype=np.float64),
        inside=np.full(n, inside, dtype=np.float64),
        log_scale=np.full(n, log_scale, dtype=np.float64),
        category=np.full(n, category, dtype=np.int64),
        set_index=set_index,
        count=np.bincount(row_of, minlength=n),
        members=members,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        patterns=np.zeros((0, n_categories)),
        codes=_codes(packed, n_categories, members.size),
    )


def support_rows(packed_sets: Bits, inside: float, log_scale: Floats, row_of: Integers, k: int) -> Evidence:
    """Return evidence of answers given by their support sets: row u is ``1 + inside·θ(set u)``."""
    return set_rows(row_of, np.arange(len(packed_sets)), k, packed_sets, inside=inside, log_scale=log_scale)


def structured_rows(
    answers: Integers, inside: float, log_scale: Floats, structure: Integers, k: int
) -> tuple[Evidence, Integers]:
    """Return evidence of answers 0 … m−1 by the sets of one block of structure, and the row of each answer.

    `log_scale` has one entry for each of the m answers.
    """
    count = np.bincount(answers, minlength=log_scale.size)
    used, row_of = np.flatnonzero(count), (np.cumsum(count > 0) - 1)[answers]
    rows = set_rows(row_of, used, k, inside=inside, log_scale=log_scale[used])
    return rows._replace(structure=structure), row_of


def pattern_rows(outputs: Integers, matrix: Floats) -> tuple[Evidence, Integers]:
    """Return evidence of answers y by the rows of a matrix ``G[y, x]``, and the row of each answer."""
    used, output_of = np.unique(outputs, return_inverse=True)
    # Outputs with equal rows say the same about θ.
    patterns, pattern_of = np.unique(np.asarray(matrix[used], dtype=np.float64), axis=0, return_inverse=True)
    row_of = pattern_of[output_of]
    evidence = set_rows(row_of, np.arange(len(patterns)), matrix.shape[1], base=0.0, inside=1.0)
    return evidence._replace(patterns=np.ascontiguousarray(patterns)), row_of


def merged(parts: Sequence[Evidence]) -> tuple[Evidence, list[Integers]]:
    """Return several pieces of evidence as one, and for each piece the new places of its rows.

    Rows are sorted by set (none first, then sets with members, patterns, and sets of structures), then by falling base,
    then by own, inside, scale and category; equal rows become one. Sets are sorted by their packed bits, patterns by
    their weights, and blocks of structure by their integers; parts with equal blocks share them.
    """
    n_categories = parts[0].n_categories
    packed = np.concatenate([_packed(part) for part in parts])
    first, rank = unique_rows(packed)
    patterns, pattern_rank = np.unique(np.concatenate([part.patterns for part in parts]), axis=0, return_inverse=True)
    blocks = {block.tobytes(): block for part in parts for block in _blocks(part.structure)}
    structure = [blocks[key] for key in sorted(blocks)]
    starts = first.size + len(patterns) + np.cumsum([0, *(block[2] for block in structure)])
    start_of = dict(zip(sorted(blocks), starts.tolist(), strict=False))
    place = np.empty(0, dtype=np.int64)
    sets_before, patterns_before = 0, 0
    for part in parts:
        of_set = rank[sets_before : sets_before + part.n_sets]
        of_pattern = first.size + pattern_rank[patterns_before : patterns_before + len(part.patterns)]
        of_block = [start_of[block.tobytes()] + np.arange(block[2]) for block in _blocks(part.structure)]
        # The last entry is for rows without a set, whose index is −1.
        place = np.append(place, np.concatenate([of_set, of_pattern, *of_block, [-1]])[part.set_index])
        sets_before, patterns_before = sets_before + part.n_sets, patterns_before + len(part.patterns)
    names = ("base", "own", "inside", "log_scale", "category", "count")
    whole: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    count = whole.pop("count")
    keys = (*(whole[name] for name in ("category", "log_scale", "inside", "own")), -whole["base"], place)
    order = np.lexsort(keys)
    is_new = np.ones(order.size, dtype=bool)
    is_new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    row_of = np.empty(order.size, dtype=np.int64)
    row_of[order] = np.cumsum(is_new) - 1
    kept = order[is_new]
    levels = {name: each[kept] for name, each in whole.items()}
    rows = set_rows(row_of, place[kept], n_categories, packed[first], **levels)
    total = np.zeros(kept.size, dtype=np.int64)
    np.add.at(total, row_of, count)
    ends = np.cumsum([part.n_rows for part in parts])[:-1]
    rows = rows._replace(count=total, patterns=patterns, structure=np.concatenate([NO_STRUCTURE, *structure]))
    return rows, np.split(row_of, ends)


def _blocks(structure: NDArray[np.integer]) -> list[NDArray[np.integer]]:
    """Return the blocks of a structure, each of which begins with its kind and its length."""
    found, at = [], 0
    while at < structure.size:
        found.append(structure[at : at + structure[at + 1]])
        at += int(structure[at + 1])
    return found


def unique_rows(packed: Bits) -> tuple[Integers, Integers]:
    """Return the index of each distinct row of packed bits, in a fixed order, and the rank of every row."""
    if len(packed) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    words = padded.view(">u8").astype(np.uint64)
    order = np.lexsort(words.T[::-1])
    is_new = np.ones(len(packed), dtype=bool)
    is_new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    rank = np.empty(len(packed), dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return order[is_new], rank


def _packed(evidence: Evidence) -> Bits:
    """Return the sets as packed bits, of shape (V, ⌈K/8⌉)."""
    packed = np.zeros((evidence.n_sets, -(-evidence.n_categories // 8)), dtype=np.uint8)
    for start in range(0, evidence.n_sets, _SETS_AT_ONCE):
        offsets = evidence.offsets[start : start + _SETS_AT_ONCE + 1]
        masks = np.zeros((offsets.size - 1, evidence.n_categories), dtype=bool)
        masks[np.repeat(np.arange(len(masks)), np.diff(offsets)), evidence.members[offsets[0] : offsets[-1]]] = True
        packed[start : start + len(masks)] = np.packbits(masks, axis=1)
    return packed


def _members(packed: Bits, n_categories: int) -> tuple[NDArray[np.int32], Integers]:
    """Return the members of the sets, one set after the other, and the sizes of the sets."""
    members, sizes = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
    for masks in _masks(packed, n_categories):
        members.append(np.nonzero(masks)[1].astype(np.int32))
        sizes.append(masks.sum(axis=1, dtype=np.int64))
    return np.concatenate(members), np.concatenate(sizes)


def _codes(packed: Bits, n_categories: int, n_members: int) -> NDArray[np.uint16]:
    """Return the codes of the sets, or none if look-up tables would cost more than adding up the members."""
    n_tables = -(-n_categories // BITS)
    if n_tables * (len(packed) + 2**BITS) >= n_members:
        return np.zeros((0, len(packed)), dtype=np.uint16)
    parts = []
    for masks in _masks(packed, n_categories):
        bits = np.zeros((len(masks), n_tables, 16), dtype=np.uint8)
        for t in range(n_tables):
            part = masks[:, t * BITS : (t + 1) * BITS]
            bits[:, t, : part.shape[1]] = part
        parts.append(np.packbits(bits, axis=2, bitorder="little").view("<u2")[..., 0])
    return np.ascontiguousarray(np.concatenate(parts).T, dtype=np.uint16)


def _masks(packed: Bits, n_categories: int) -> Iterator[Bits]:
    """Yield the masks of some sets at a time."""
    for start in range(0, len(packed), _SETS_AT_ONCE):
        yield np.unpackbits(packed[start : start + _SETS_AT_ONCE], axis=1, count=n_categories)
