"""Tables of randomized answers: what the columns of a Parquet, Arrow or CSV file of answers hold.

One row is one person's answer.

- An answer that is one number (SRR, Hadamard response, set families, …) is in the column ``answer``: its code 0, 1, …;
  or, for SRR and RRRR, the label of the category as text.
- An answer that is a set (subset selection, unary encoding) is in the column ``answer``: ⌈K/8⌉ bytes of packed bits, in
  the order of `numpy.packbits`; or text of K zeros and ones; or a list of codes or labels.
- Local hashing has two columns of integers, ``seed`` and ``value``. Other answers of several numbers have ``answer_0``,
  ``answer_1``, ….
- The published subset, for RRRR, is in the column ``subset``: a set in any of these forms.

Blank text, null and NaN are empty values. Files that `Responses.to_parquet` writes name the mechanism and the
categories in the metadata of their schema.
"""

import codecs
import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import brief, check_stored_labels
from adobest_pp.mechanisms import Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.registry import UnknownMechanism, loads

if TYPE_CHECKING:
    import pyarrow as pa

    from adobest_pp.answers.responses import Responses

SUBSET = "subset"
_KEY = b"adobest_pp"
_SCHEMA, _VERSION = "adobest_pp.answers", 1
# Rows that are written, and counted, at a time.
ROWS_OF_A_GROUP = 1 << 20


class Described(NamedTuple):
    """What a file says about its answers."""

    mechanism: Mechanism
    categories: tuple[str, ...]


def described(metadata: Mapping[bytes, bytes] | None) -> Described | None:
    """Return what the metadata of a schema says, None if it says nothing, or raise ValueError."""
    if not metadata or _KEY not in metadata:
        return None
    try:
        about = loads(metadata[_KEY])
        if about["schema"] != _SCHEMA or about["schema_version"] != _VERSION:
            raise ValueError
        mechanism = mechanism_from_settings(about["mechanism_settings"])
        return Described(mechanism, check_stored_labels(about["categories"], mechanism.n_categories))
    except UnknownMechanism:
        raise
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"the metadata {_KEY.decode()!r} must be as Responses.to_parquet writes it, "
            f"got {brief(metadata[_KEY].decode(errors='replace'))}"
        ) from None


def table_of(responses: "Responses", public: Mapping[str, Sequence[Any]] | None = None) -> "pa.Table":
    """Return the table of answers, in their order, with public columns of the people beside them."""
    import pyarrow as pa

    mechanism, answers = responses.mechanism, responses.answers
    columns: dict[str, Any] = {}
    sets = mechanism.as_sets()
    if sets is not None and len(mechanism.answer_columns) == 1:
        packed = np.packbits(sets.support(answers), axis=1)
        buffers = [None, pa.py_buffer(packed.tobytes())]
        columns["answer"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(packed.shape[1]), len(packed), buffers)
    else:
        numbers = answers.reshape(len(answers), len(mechanism.answer_columns)).astype(mechanism.answer_type)
        columns |= {name: pa.array(numbers[:, i]) for i, name in enumerate(mechanism.answer_columns)}
    if mechanism.publishes_subset:
        subsets = [row.tobytes() for row in np.packbits(responses.subsets, axis=1)]
        index = pa.array(responses.subset_index.astype(np.int32))
        columns[SUBSET] = pa.DictionaryArray.from_arrays(index, pa.array(subsets, type=pa.binary()))
    columns |= _checked_public(public, len(responses), columns)
    about = {
        "schema": _SCHEMA,
        "schema_version": _VERSION,
        "mechanism_settings": mechanism.settings(),
        "categories": list(responses.categories),
    }
    return pa.table(columns).replace_schema_metadata({_KEY: json.dumps(about).encode()})


def _checked_public(public: Any, n: int, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return public columns of n people, or raise ValueError."""
    if public is None:
        return {}
    allowed = f"public must be columns of {n} values by names other than {', '.join(taken)}"
    if not isinstance(public, Mapping):
        raise ValueError(f"{allowed}, got {brief(public)}")
    for name, values in public.items():
        if not isinstance(name, str) or name in taken or len(values) != n:
            raise ValueError(f"{allowed}, got {brief(name)} with {len(values)}")
    return {name: list(values) for name, values in public.items()}


# Columns as codes and packed bits. An error names the column, what it may hold and what kind of value it holds. It
# never shows the value, because a column that was named by mistake may hold anything about a person.

HIDDEN = "(it is not shown)"


def is_there(array: "pa.Array") -> NDArray[np.bool_]:
    """Return which values are not empty: neither null nor NaN nor blank text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        there = pc.take(pa.array(is_there(array.dictionary), pa.bool_()), array.indices).fill_null(False)
        return np.asarray(there.to_numpy(zero_copy_only=False))
    empty = pc.is_null(array, nan_is_null=True)
    if _is_text(array.type):
        empty = pc.or_(empty, pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True))
    return ~np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool)


def distinct_of(array: "pa.DictionaryArray") -> tuple["pa.Array", NDArray[np.int64]]:
    """Return the values of a dictionary column that occur, and the place of each row among them."""
    import pyarrow as pa

    index = array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.bincount(index, minlength=len(array.dictionary))
    return array.dictionary.take(pa.array(np.flatnonzero(counts))), (np.cumsum(counts > 0) - 1)[index]


def codes_of(
    array: "pa.Array", name: str, highest: int, labels: Mapping[str, int] | None, as_code: bool
) -> NDArray[np.int64]:
    """Return a column of numbers or text without empty values as codes 0 … highest, or raise ValueError.

    `labels` has the code of each label; it is None if the column does not hold labels. With `as_code`, text is a code,
    as in a CSV file without labels.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    allowed = f"column {name!r} must hold codes from 0 to {highest}" + (" or labels of categories" if labels else "")
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64)
    if pa.types.is_dictionary(array.type):
        values, place = distinct_of(array)
        return np.asarray(codes_of(values, name, highest, labels, as_code)[place])
    if _is_text(array.type) and not as_code:
        if labels is None:
            raise ValueError(f"{allowed}, got text")
        return _codes_of_labels(array, labels, f"column {name!r} must hold labels of categories if it holds text")
    if _is_text(array.type):
        try:
            array = pc.utf8_trim_whitespace(array).cast(pa.int64())
        except pa.ArrowInvalid:
            raise ValueError(f"{allowed}, got text that is not a code {HIDDEN}") from None
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise ValueError(f"{allowed}, got values of type {array.type}")
    numbers = array.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f" and ((numbers != np.round(numbers)) | (np.abs(numbers) > 2**53)).any():
        raise ValueError(f"{allowed}, got a number that is not whole {HIDDEN}")
    if not (numbers.min() >= 0 and numbers.max() <= highest):
        raise ValueError(f"{allowed}, got another number {HIDDEN}")
    return np.asarray(numbers, dtype=np.int64)


def _codes_of_labels(array: "pa.Array", labels: Mapping[str, int], allowed: str) -> NDArray[np.int64]:
    encoded = array.dictionary_encode()
    codes = [labels.get(normalize("NFC", text.strip())) for text in encoded.dictionary.to_pylist()]
    if None in codes:
        raise ValueError(f"{allowed}, got text that is not a label {HIDDEN}")
    return np.asarray(np.array(codes, dtype=np.int64)[encoded.indices.to_numpy(zero_copy_only=False)])


def packed_sets(array: "pa.Array", name: str, n_categories: int, labels: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return a column of sets without empty values as packed bits, of shape (n, ⌈K/8⌉), or raise ValueError."""
    import pyarrow as pa

    width, kind = -(-n_categories // 8), array.type
    allowed = f"column {name!r} must hold sets: {width} bytes of packed bits, {n_categories} zeros and ones, or lists"
    if len(array) == 0:
        return np.zeros((0, width), dtype=np.uint8)
    if pa.types.is_dictionary(kind):
        values, place = distinct_of(array)
        return np.asarray(packed_sets(values, name, n_categories, labels)[place])
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        packed = _bytes_of(array, width, allowed)
        spare = 8 * width - n_categories
        if spare and (packed[:, -1] & ((1 << spare) - 1)).any():
            raise ValueError(f"{allowed}, got bits beyond those of the {n_categories} categories")
        return packed
    if _is_text(kind):
        bits = _bytes_of(array, n_categories, allowed)
        if (bits >> 1 != ord("0") >> 1).any():
            raise ValueError(f"{allowed}, got other text {HIDDEN}")
        return np.packbits(bits & 1, axis=1)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _packed_lists(array, name, n_categories, labels)
    raise ValueError(f"{allowed}, got values of type {kind}")


def _packed_lists(array: "pa.Array", name: str, n_categories: int, labels: Mapping[str, int]) -> NDArray[np.uint8]:
    import pyarrow.compute as pc

    allowed = f"column {name!r} must hold sets of distinct categories"
    sizes = np.asarray(pc.list_value_length(array).to_numpy(zero_copy_only=False), dtype=np.int64)
    members = array.flatten()
    if not is_there(members).all():
        raise ValueError(f"{allowed}, got an empty value in one")
    codes = codes_of(members, name, n_categories - 1, labels, False)
    packed = np.zeros((len(sizes), -(-n_categories // 8)), dtype=np.uint8)
    bits = (128 >> (codes % 8)).astype(np.uint8)
    np.bitwise_or.at(packed, (np.repeat(np.arange(len(sizes)), sizes), codes // 8), bits)
    if (np.bitwise_count(packed).sum(axis=1, dtype=np.int64) != sizes).any():
        raise ValueError(f"{allowed}, got one twice in a list")
    return packed


def _bytes_of(array: "pa.Array", width: int, allowed: str) -> NDArray[np.uint8]:
    """Return text or binary values, all of this length, as rows of bytes."""
    import pyarrow as pa

    try:
        fixed = array.cast(pa.binary(width))
    except pa.ArrowInvalid:
        raise ValueError(f"{allowed}, got a value of another length") from None
    content = np.frombuffer(fixed.buffers()[1], dtype=np.uint8, offset=fixed.offset * width, count=len(fixed) * width)
    return content.reshape(len(fixed), width)


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# CSV files: UTF-8, or UTF-16 with a byte order mark; cells separated by commas, semicolons or tabs, as in the header.
# Errors show no cell: a file without a header has a person's values in its first row.

SEPARATORS = (",", ";", "\t")


def csv_encoding(path: str | os.PathLike[str]) -> str:
    """Return the encoding of a CSV file."""
    with open(path, "rb") as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf8"


def csv_separator(path: str | os.PathLike[str], columns: Sequence[str] = ()) -> str:
    """Return the separator of the cells: the one that gives these columns in the header, else the most frequent one."""
    with open(path, "rb") as file:
        start = file.read(1 << 20)
    header = start.decode(csv_encoding(path), errors="replace").removeprefix("\ufeff").partition("\n")[0]
    wanted = {normalize("NFC", column.strip()) for column in columns}
    for separator in SEPARATORS if wanted else ():
        names = next(csv.reader([header.rstrip("\r")], delimiter=separator), [])
        if wanted <= {normalize("NFC", name.strip()) for name in names}:
            return separator
    outside = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def csv_schema(path: str | os.PathLike[str], separator: str | None = None, **parsing: Any) -> "pa.Schema":
    """Return the columns of a CSV file."""
    with _open_csv(path, separator, None, lambda row: "skip", **parsing) as reader:
        return reader.schema


def csv_batches(
    path: str | os.PathLike[str], columns: Sequence[str], separator: str | None = None, **parsing: Any
) -> Iterator["pa.RecordBatch"]:
    """Yield these columns of a CSV file as text, null for an empty cell, or raise ArrowInvalid.

    `parsing` are options of `pyarrow.csv.ParseOptions`; by default a blank line is a row of empty cells.
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    wrong: list[str] = []

    def refuse(row: Any) -> str:
        wrong.append(f"the header has {row.expected_columns} cells, row {row.number} has {row.actual_columns}")
        return "error"

    convert = pc.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(columns, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    try:
        with _open_csv(path, separator, convert, refuse, **{"ignore_empty_lines": False, **parsing}) as reader:
            yield from reader
    except pa.ArrowInvalid:
        if wrong:  # Arrow's own message shows the row
            raise pa.ArrowInvalid(f"{wrong[0]} (they are not shown)") from None
        raise


def _open_csv(
    path: str | os.PathLike[str],
    separator: str | None,
    convert: Any,
    on_wrong_row: Callable[[Any], str],
    **parsing: Any,
) -> Any:
    import pyarrow.csv as pc

    delimiter = csv_separator(path) if separator is None else separator
    read = pc.ReadOptions(use_threads=False, block_size=1 << 24, encoding=csv_encoding(path))
    parse = pc.ParseOptions(delimiter=delimiter, invalid_row_handler=on_wrong_row, **parsing)
    return pc.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)
