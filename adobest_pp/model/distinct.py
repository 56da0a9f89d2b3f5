"""The distinct rows of a table of answers that is `pymc.Data`: found once, and remembered until the data change.

A density is evaluated thousands of times with the same answers. Finding the distinct ones takes about ten nanoseconds
for each person, which would be most of the time. So the compiled function keeps a copy of the table that it saw last,
beside what it found. At each evaluation it compares the table with the copy, all of it, at the speed of memory: that is
exact, whoever changed the table.

Chains run in threads. So there are several places to remember, each behind a lock, and a thread takes one that is free.
None waits for another; if all places are taken, the rows are found again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from pytensor.graph.basic import Apply, Variable

from adobest_pp.model.ops import CompiledOp, source_version

# How many tables are remembered: one for each thread that samples, and for each table of a model.
PLACES = 16
# What a place holds, in words of eight bytes: is it taken; where the table lies, its rows and the bytes of each; where
# the copy lies, which is followed by the first of the distinct rows and by their counts; how many there are.
TAKEN, SOURCE, ROWS, ROW_BYTES, COPY, FOUND, WORDS = range(7)
# Larger tables, in bytes, are not copied.
MOST_BYTES = 2**28
# Bytes that are compared before the result is looked at.
BLOCK = 8192


@njit(cache=True)
def find_rows(table):  # type: ignore[no-untyped-def]
    """Return the place of each distinct row, how often it occurs, and the number of the distinct row of each row."""
    n, width = table.shape
    first, count, number = np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
    size = 16
    while size < 2 * n:
        size *= 2
    entries, found = np.full(size, -1, np.int64), 0
    for i in range(n):
        code = np.uint64(0)
        for j in range(width):
            code = (code ^ np.uint64(table[i, j])) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(29)
        place = np.int64(code & np.uint64(size - 1))
        while True:
            known = entries[place]
            if known < 0:
                entries[place], first[found], known = found, i, found
                found += 1
                break
            is_same = True
            for j in range(width):
                is_same &= table[first[known], j] == table[i, j]
            if is_same:
                break
            place = (place + 1) & (size - 1)
        count[known] += 1
        number[i] = known
    return first[:found].copy(), count[:found].copy(), number


@njit(cache=True)
def _row_numbers(table):  # type: ignore[no-untyped-def]
    return find_rows(table)[2]


@njit
def remembered_rows(table):  # type: ignore[no-untyped-def]
    """Return the place of each distinct row and how often it occurs, from memory if the table is as it was."""
    n, row_bytes = len(table), table.shape[1] * table.itemsize
    if not table.flags.c_contiguous or not 0 < n * row_bytes <= MOST_BYTES:
        return find_rows(table)[:2]
    source, memory = table.ctypes.data, _memory()
    for p in range(PLACES):
        place = memory + 8 * WORDS * p
        if _exchange(place, 1) == 0:
            about = _words(place, WORDS)
            is_it = about[SOURCE] == source and about[ROWS] == n and about[ROW_BYTES] == row_bytes
            if is_it and _is_equal(source, about[COPY], n * row_bytes):
                found = about[FOUND]
                kept = _words(about[COPY] + _rounded(n * row_bytes), 2 * found)
                first, count = kept[:found].copy(), kept[found:].copy()
                _exchange(place, 0)
                return first, count
            _exchange(place, 0)
    first, count, _ = find_rows(table)
    turn = _words(memory + 8 * WORDS * PLACES, 1)
    turn[0] += 1  # threads that count at once take the same place, or skip one: both are harmless
    place = memory + 8 * WORDS * (turn[0] % PLACES)
    if _exchange(place, 1) == 0:
        about, found = _words(place, WORDS), len(first)
        if about[COPY] != 0:
            _release(about[COPY])
        copy = _reserve(_rounded(n * row_bytes) + 16 * found)
        _bytes(copy, n * row_bytes)[:] = _bytes(source, n * row_bytes)
        kept = _words(copy + _rounded(n * row_bytes), 2 * found)
        kept[:found], kept[found:] = first, count
        about[SOURCE], about[ROWS], about[ROW_BYTES], about[COPY], about[FOUND] = source, n, row_bytes, copy, found
        _exchange(place, 0)
    return first, count


@njit
def _is_equal(one, other, size):  # type: ignore[no-untyped-def]
    """Tell whether `size` bytes at two addresses are equal."""
    done = 0
    while done < size:
        count = min(BLOCK, size - done)
        if count >= 8:
            count -= count % 8
            first, second = _words(one + done, count // 8), _words(other + done, count // 8)
            different = np.int64(0)
            for i in range(first.size):
                different |= first[i] ^ second[i]
            if different != 0:
                return False
        elif (_bytes(one + done, count) != _bytes(other + done, count)).any():
            return False
        done += count
    return True


@njit
def _rounded(size):  # type: ignore[no-untyped-def]
    return (size + 7) // 8 * 8


@njit
def _words(address, count):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), (count,), np.int64)


@njit
def _bytes(address, count):  # type: ignore[no-untyped-def]
    return carray(_pointer(address), (count,), np.uint8)


# What Numba has no functions for. Addresses are integers.

_WORD = ir.IntType(64)


@intrinsic
def _pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """Return an address as a pointer."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


@intrinsic
def _memory(typing_context):  # type: ignore[no-untyped-def]
    """Return the address of the places: a static variable of the compiled function, zero at first."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.ArrayType(_WORD, WORDS * PLACES + 1)
        name = "adobest_pp_remembered_rows"
        known = builder.module.globals.get(name)
        if known is None:
            known = ir.GlobalVariable(builder.module, kind, name)
            known.linkage, known.initializer, known.align = "internal", ir.Constant(kind, None), 8
        return builder.ptrtoint(known, _WORD)

    return types.intp(), generate


@intrinsic
def _exchange(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Put a word at an address, and return the one that was there, as one step for all threads."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], _WORD.as_pointer())
        return builder.atomic_rmw("xchg", pointer, arguments[1], "seq_cst")

    return types.intp(types.intp, types.intp), generate


@intrinsic
def _reserve(typing_context, size):  # type: ignore[no-untyped-def]
    """Return the address of `size` bytes that stay until they are released."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ptrtoint(context.nrt.allocate(builder, arguments[0]), _WORD)

    return types.intp(types.intp), generate


@intrinsic
def _release(typing_context, address):  # type: ignore[no-untyped-def]
    """Give bytes back."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        context.nrt.free(builder, builder.inttoptr(arguments[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(types.intp), generate


class DistinctRows(CompiledOp):
    """The first place of each distinct row of a table (n, m) of integers, in this order, and how often it occurs."""

    kernels, version = (remembered_rows,), source_version(__file__)

    def make_node(self, table: Any) -> Apply:
        """Convert the input."""
        return Apply(self, [pt.as_tensor(table)], [pt.lvector(), pt.lvector()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate in NumPy."""
        _, first, count = np.unique(inputs[0], axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        output_storage[0][0], output_storage[1][0] = first[order].astype(np.int64), count[order].astype(np.int64)

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return each row as it stands: JAX needs lengths that it knows."""
        each = pt.arange(inputs[0].shape[0])
        return [each, pt.ones_like(each)]


class RowNumbers(CompiledOp):
    """The number of the distinct row that each row of a table (n, m) equals, in the order of `DistinctRows`."""

    kernels, version = (_row_numbers,), source_version(__file__)

    def make_node(self, table: Any) -> Apply:
        """Convert the input."""
        return Apply(self, [pt.as_tensor(table)], [pt.lvector()])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """Return the number of rows."""
        return [(shapes[0][0],)]

    def plain(self, *inputs: Variable) -> list[Variable]:
        """Return the number of each row, as in `DistinctRows.plain`."""
        return [pt.arange(inputs[0].shape[0])]
