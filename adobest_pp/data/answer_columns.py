"""Columns of a table of answers as codes and packed bits; see `adobest_pp.data.answer_tables` for what they may hold.

Each error is a ValueError that names the column, what it may hold and what kind of value it holds. It does not show the
value: a column that was named by mistake may hold anything about a person.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["codes_of", "is_there", "packed_sets"]

_SETS_AT_ONCE = 1 << 16
HIDDEN = "(it is not shown)"


def is_there(array: "pa.Array") -> NDArray[np.bool_]:
    """Tell which values are not empty: neither null nor NaN nor text without anything in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        there = is_there(array.dictionary)
        index = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        known = np.append(there, False)[index] if len(there) else np.zeros(len(array), dtype=bool)
        return np.asarray(known & array.is_valid().to_numpy(zero_copy_only=False))
    empty = pc.is_null(array, nan_is_null=True)
    if _is_text(array.type):
        empty = pc.or_(empty, pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True))
    return ~np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool)


def codes_of(
    array: "pa.Array", name: str, highest: int, labels: Mapping[str, int] | None, as_code: bool
) -> NDArray[np.int64]:
    """Return a column without empty values as codes 0 … highest, or raise ValueError.

    Parameters
    ----------
    array : pyarrow.Array
        Numbers, or text.
    name : str
        Of the column.
    highest : int
        The highest code.
    labels : mapping or None
        The code of each label; None where text is no label.
    as_code : bool
        Whether text is a code, as in a CSV file without labels.
    """
    import pyarrow as pa

    allowed = f"column {name!r} must hold codes from 0 to {highest}" + (" or labels of categories" if labels else "")
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64)
    if pa.types.is_dictionary(array.type):
        index = array.indices.to_numpy(zero_copy_only=False)
        used = np.unique(index)
        found = np.zeros(len(array.dictionary), dtype=np.int64)
        found[used] = codes_of(array.dictionary.take(pa.array(used)), name, highest, labels, as_code)
        return np.asarray(found[index])
    if _is_text(array.type):
        if as_code:
            return _in_range(_parsed(array, allowed), highest, allowed)
        if labels is None:
            raise ValueError(f"{allowed}, got text")
        return _of_labels(array, labels, f"column {name!r} must hold labels of categories where it holds text")
    if pa.types.is_floating(array.type):
        numbers = array.to_numpy(zero_copy_only=False)
        if ((numbers != np.round(numbers)) | (np.abs(numbers) > 2**53)).any():
            raise ValueError(f"{allowed}, got a number that is not whole {HIDDEN}")
        return _in_range(numbers, highest, allowed)
    if not pa.types.is_integer(array.type):
        raise ValueError(f"{allowed}, got values of type {array.type}")
    return _in_range(array.to_numpy(zero_copy_only=False), highest, allowed)


def packed_sets(array: "pa.Array", name: str, n_categories: int, labels: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return a column of sets without empty values as packed bits, of shape (n, ⌈K/8⌉), or raise ValueError."""
    import pyarrow as pa

    width = -(-n_categories // 8)
    allowed = f"column {name!r} must hold sets: {width} bytes of packed bits, {n_categories} zeros and ones, or lists"
    kind = array.type
    if len(array) == 0:
        return np.zeros((0, width), dtype=np.uint8)
    if pa.types.is_dictionary(kind):
        index = array.indices.to_numpy(zero_copy_only=False)
        used = np.unique(index)
        packed = np.zeros((len(array.dictionary), width), dtype=np.uint8)
        packed[used] = packed_sets(array.dictionary.take(pa.array(used)), name, n_categories, labels)
        return np.asarray(packed[index])
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        packed = _bytes_of(array, width, allowed)
        spare = 8 * width - n_categories
        if spare and (packed[:, -1] & ((1 << spare) - 1)).any():
            raise ValueError(f"{allowed}, got bits behind those of the {n_categories} categories")
        return packed
    if _is_text(kind):
        bits = _bytes_of(array.cast(pa.large_binary()), n_categories, allowed)
        if (bits >> 1 != ord("0") >> 1).any():
            raise ValueError(f"{allowed}, got another text {HIDDEN}")
        return np.packbits(bits & 1, axis=1)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _of_lists(array, name, n_categories, labels)
    raise ValueError(f"{allowed}, got values of type {kind}")


def _of_lists(array: "pa.Array", name: str, n_categories: int, labels: Mapping[str, int]) -> NDArray[np.uint8]:
    import pyarrow.compute as pc

    allowed = f"column {name!r} must hold sets of distinct categories"
    sizes = np.asarray(pc.list_value_length(array).to_numpy(zero_copy_only=False), dtype=np.int64)
    members = array.flatten()
    if not is_there(members).all():
        raise ValueError(f"{allowed}, got an empty value in one")
    codes, ends = codes_of(members, name, n_categories - 1, labels, False), np.cumsum(sizes)
    parts = []
    for start in range(0, len(sizes), _SETS_AT_ONCE):
        mine = sizes[start : start + _SETS_AT_ONCE]
        masks = np.zeros((mine.size, n_categories), dtype=bool)
        first = ends[start] - sizes[start]
        masks[np.repeat(np.arange(mine.size), mine), codes[first : first + mine.sum()]] = True
        if (masks.sum(axis=1) != mine).any():
            raise ValueError(f"{allowed}, got one twice in a list")
        parts.append(np.packbits(masks, axis=1))
    return np.concatenate(parts)


def _bytes_of(array: "pa.Array", width: int, allowed: str) -> NDArray[np.uint8]:
    """Return binary values, all of this length, as rows of bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_fixed_size_binary(array.type):
        lengths = [array.type.byte_width]
        offset = array.offset * array.type.byte_width
    else:
        lengths = pc.unique(pc.binary_length(array)).to_pylist()
        offset = 0
        array = array.cast(pa.large_binary())
    if any(length != width for length in lengths):
        raise ValueError(f"{allowed}, got a value of {next(each for each in lengths if each != width)} bytes")
    if not pa.types.is_fixed_size_binary(array.type):
        offset = int(np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset])
    content = np.frombuffer(array.buffers()[-1], dtype=np.uint8, offset=offset, count=len(array) * width)
    return content.reshape(len(array), width)


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _parsed(array: "pa.Array", allowed: str) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return np.asarray(pc.utf8_trim_whitespace(array).cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        raise ValueError(f"{allowed}, got text that is none of them") from None


def _of_labels(array: "pa.Array", labels: Mapping[str, int], allowed: str) -> NDArray[np.int64]:
    encoded = array.dictionary_encode()
    codes = []
    for text in encoded.dictionary.to_pylist():
        code = labels.get(normalize("NFC", text.strip()))
        if code is None:
            raise ValueError(f"{allowed}, got text that is no label {HIDDEN}")
        codes.append(code)
    return np.asarray(np.array(codes, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)])


def _in_range(numbers: NDArray[Any], highest: int, allowed: str) -> NDArray[np.int64]:
    if numbers.size and not (numbers.min() >= 0 and numbers.max() <= highest):
        raise ValueError(f"{allowed}, got another number {HIDDEN}")
    return np.asarray(numbers, dtype=np.int64)


def labels_as_codes(categories: Sequence[str]) -> dict[str, int]:
    """Return the code of each label, as text in files is compared with it."""
    return {normalize("NFC", label): code for code, label in enumerate(categories)}
