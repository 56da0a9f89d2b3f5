"""Counted answers: distinct keys with counts, whose sum does not depend on the pieces or their order.

A key is a row of bytes: the packed bits of the published subset, if there is one, followed by the packed bits of the
answer's support set, or else by the answer's numbers, as big-endian integers of eight bytes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import labels_as_codes
from adobest_pp.answers.gather.tables import SUBSET, codes_of, distinct_of, is_there, packed_sets
from adobest_pp.evidence import Evidence, unique_rows
from adobest_pp.mechanisms import ExtremalMechanism, Mechanism, Published

if TYPE_CHECKING:
    import pyarrow as pa

# If more support sets than this are possible, answers hardly ever repeat.
MOST_SETS = 1 << 20
# The largest table of counts; more codes than this are sorted.
_LARGEST_TABLE = 1 << 24
# Places of support sets, of answers times categories, that are unpacked at a time.
_PLACES_AT_ONCE = 1 << 26


class TableFormat(NamedTuple):
    """How to read a table of answers: the mechanism, the labels, and the names of the columns.

    If `as_code`, text is a code, as in a CSV file of answers without labels. `public` are further columns to read.
    """

    mechanism: Mechanism
    categories: tuple[str, ...]
    columns: tuple[str, ...]
    as_code: bool = False
    public: tuple[str, ...] = ()

    @property
    def read(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.needed, *self.public]))

    @property
    def needed(self) -> list[str]:
        """The columns of an answer."""
        return [*self.columns, *([SUBSET] if self.mechanism.publishes_subset else [])]


class Tally(NamedTuple):
    """Distinct keys (U, W) in the order of their bytes, with counts (U,)."""

    keys: NDArray[np.uint8]
    count: NDArray[np.int64]  # type: ignore[assignment]


def empty_tally(mechanism: Mechanism) -> Tally:
    """Return the tally of no answers, whose keys have the width of the mechanism's."""
    packed = -(-mechanism.n_categories // 8)
    others = packed * mechanism.publishes_subset + 8 * len(mechanism.answer_columns)
    width = others if mechanism.as_sets() is None else packed
    return Tally(np.zeros((0, width), dtype=np.uint8), np.zeros(0, dtype=np.int64))


def collapses(mechanism: Mechanism) -> bool:
    """Return whether so few answers are possible that they are kept as distinct answers with counts."""
    return mechanism.as_sets() is None or min(mechanism.n_outputs, 1 << mechanism.n_categories) <= MOST_SETS


def add_up(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of at least one tally."""
    if len(tallies) == 1:
        return tallies[0]
    return _tally(np.concatenate([each.keys for each in tallies]), np.concatenate([each.count for each in tallies]))


def add_uncounted(tallies: Sequence[Tally]) -> Tally:
    """Return at least one tally as one that has each key as often as it was answered, with a count of 1."""
    keys = np.concatenate([each.keys for each in tallies])
    in_order = keys[np.argsort(unique_rows(keys)[1], kind="stable")]
    return Tally(in_order, np.ones(len(keys), dtype=np.int64))


def _tally(keys: NDArray[np.uint8], count: NDArray[np.int64]) -> Tally:
    first, rank = unique_rows(keys)
    total = np.zeros(first.size, dtype=np.int64)
    np.add.at(total, rank, count)
    return Tally(keys[first], total)


def counted(batch: "pa.RecordBatch", table_format: TableFormat) -> tuple[Tally, int]:
    """Return the answers of some rows of a table, counted, and how many rows had none.

    If answers hardly ever repeat (see `collapses`), the tally is that of `add_uncounted`.
    """
    batch, there = _answered(batch, table_format)
    empty = int(there.size - there.sum())
    mechanism = table_format.mechanism
    sets_of = mechanism.as_sets()
    if sets_of is not None:
        return _sets(_supports(batch, table_format, sets_of), sets_of), empty
    if mechanism.answer_dims:
        numbers = _numbers(batch, table_format)
        mechanism.check_answers(numbers.reshape(len(numbers), *mechanism.answer_dims.values()))
        places = np.arange(len(numbers))
    else:
        places, numbers = _codes(batch, table_format), np.arange(mechanism.n_outputs)[:, None]
    if not mechanism.publishes_subset:
        return _of_codes(places, numbers, None, mechanism.n_categories), empty
    sets, index = _subsets(batch, table_format)
    return _of_codes(index * len(numbers) + places, numbers, sets, mechanism.n_categories), empty


def in_order(
    batch: "pa.RecordBatch", table_format: TableFormat
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None, NDArray[np.bool_]]:
    """Return the answers of some rows of a table in their order, their subsets, and which rows have an answer."""
    batch, there = _answered(batch, table_format)
    mechanism = table_format.mechanism
    dims, sets_of = mechanism.answer_dims, mechanism.as_sets()
    if sets_of is not None and len(table_format.columns) == 1:
        packed = _supports(batch, table_format, sets_of)
        answers = np.unpackbits(packed, axis=1, count=mechanism.n_categories).astype(np.int64)
        if "category" not in dims:
            (size,) = dims.values()
            if (answers.sum(axis=1) != size).any():
                raise ValueError(f"column {table_format.columns[0]!r} must hold sets of {size} categories")
            answers = np.nonzero(answers)[1].reshape(len(answers), -1)
    elif dims:
        answers = _numbers(batch, table_format).reshape(-1, *dims.values())
    else:
        answers = _codes(batch, table_format)
    if not mechanism.publishes_subset:
        return answers, None, there
    sets, index = _subsets(batch, table_format)
    return answers, np.unpackbits(sets, axis=1, count=mechanism.n_categories).astype(bool)[index], there


def _answered(batch: "pa.RecordBatch", table_format: TableFormat) -> tuple["pa.RecordBatch", NDArray[np.bool_]]:
    """Return the rows that have an answer, and which rows of the batch they are."""
    import pyarrow as pa

    there = np.logical_and.reduce([is_there(batch.column(name)) for name in table_format.needed])
    return batch if there.all() else batch.filter(pa.array(there)), there


def _codes(batch: "pa.RecordBatch", table_format: TableFormat) -> NDArray[np.int64]:
    """Return answers that are one number each."""
    mechanism, name = table_format.mechanism, table_format.columns[0]
    labels = labels_as_codes(table_format.categories) if mechanism.answers_are_categories else None
    return codes_of(batch.column(name), name, mechanism.n_outputs - 1, labels, table_format.as_code)


def _of_codes(
    codes: NDArray[np.int64], numbers: NDArray[np.int64], sets: NDArray[np.uint8] | None, n_categories: int
) -> Tally:
    """Return the tally of codes ``subset · len(numbers) + row of numbers``."""
    size = len(numbers) * (1 if sets is None else len(sets))
    if size <= _LARGEST_TABLE:
        table = np.bincount(codes, minlength=size)
        used = np.flatnonzero(table)
        count = table[used].astype(np.int64)
    else:
        used, count = np.unique(codes, return_counts=True)
    subset, row = np.divmod(used, max(len(numbers), 1))
    keys = numbers[row].astype(">u8").view(np.uint8).reshape(used.size, 8 * numbers.shape[1])
    return _tally(keys if sets is None else np.hstack([sets[subset], keys]), count)


def _numbers(batch: "pa.RecordBatch", table_format: TableFormat) -> NDArray[np.int64]:
    columns = [codes_of(batch.column(name), name, 2**53, None, table_format.as_code) for name in table_format.columns]
    return np.stack(columns, axis=1)


def _subsets(batch: "pa.RecordBatch", table_format: TableFormat) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the distinct published subsets of the rows as packed bits, and that of each row."""
    column, k = batch.column(SUBSET), table_format.mechanism.n_categories
    labels = labels_as_codes(table_format.categories)
    try:
        values, index = distinct_of(column if hasattr(column, "dictionary") else column.dictionary_encode())
    except NotImplementedError:  # lists
        packed = packed_sets(column, SUBSET, k, labels)
        first, index = unique_rows(packed)
        sets = packed[first]
    else:
        sets = packed_sets(values, SUBSET, k, labels)
    if (np.bitwise_count(sets).sum(axis=1, dtype=np.int64) == k).any():
        raise ValueError(f"column {SUBSET!r} must leave at least one of the {k} categories out, got all of them")
    return sets, index


def _supports(batch: "pa.RecordBatch", table_format: TableFormat, mechanism: ExtremalMechanism) -> NDArray[np.uint8]:
    """Return the support sets of answers as packed bits."""
    if len(table_format.columns) == 1:
        (name,), labels = table_format.columns, labels_as_codes(table_format.categories)
        return packed_sets(batch.column(name), name, mechanism.n_categories, labels)
    answers = mechanism.check_answers(_numbers(batch, table_format))
    size = max(1, _PLACES_AT_ONCE // mechanism.n_categories)
    parts = [
        np.packbits(mechanism.support(answers[start : start + size]), axis=1) for start in range(0, len(answers), size)
    ]
    return np.concatenate([np.zeros((0, -(-mechanism.n_categories // 8)), dtype=np.uint8), *parts])


def _sets(packed: NDArray[np.uint8], mechanism: ExtremalMechanism) -> Tally:
    mechanism.log_weight_of_size(np.bitwise_count(packed).sum(axis=1, dtype=np.int64))  # refuses impossible sizes
    if collapses(mechanism):
        return _tally(packed, np.ones(len(packed), dtype=np.int64))
    return add_uncounted([Tally(packed, np.zeros(0, dtype=np.int64))])


def decoded(tally: Tally, mechanism: Mechanism) -> tuple[NDArray[np.int64], Published]:
    """Return the distinct answers of keys that are not sets, and what was published, as a mechanism takes them."""
    k, keys = mechanism.n_categories, np.ascontiguousarray(tally.keys)
    width = -(-k // 8) if mechanism.publishes_subset else 0
    numbers = np.ascontiguousarray(keys[:, width:]).view(">u8").astype(np.int64)
    answers = numbers.reshape(len(keys), *mechanism.answer_dims.values())
    if not width:
        return answers, Published(np.zeros(0, dtype=np.int64), np.zeros((0, k), dtype=bool))
    first, row = unique_rows(keys[:, :width])
    subsets = np.unpackbits(keys[first, :width], axis=1, count=k).astype(bool)
    return answers, Published(row, subsets)


def evidence_of(tally: Tally, mechanism: Mechanism) -> Evidence:
    """Return the evidence of counted answers: to the last bit that of the answers one by one."""
    if (sets := mechanism.as_sets()) is not None:
        return sets.evidence_of_sets(tally.keys, tally.count)
    answers, published = decoded(tally, mechanism)
    evidence, row_of = mechanism.evidence(answers, mechanism.published_with(answers, published))
    count = np.zeros(evidence.n_rows, dtype=np.int64)
    np.add.at(count, row_of, tally.count)
    return evidence._replace(count=count)
