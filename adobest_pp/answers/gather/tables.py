"""Tables of randomized answers: what the columns of a Parquet, Arrow or CSV file of answers hold.

One row is one person's answer.

- An answer that is one number (SRR, RRRR, Hadamard response, set families, channels) is the column ``answer``: its
  code 0, 1, …; or, for SRR and RRRR, the label of the category as text.
- An answer that is a set (subset selection, unary encoding) is the column ``answer``: ⌈K/8⌉ bytes of packed bits, the
  first category the highest bit of the first byte, as `numpy.packbits` has them; or text of K zeros and ones; or a list
  of codes or labels.
- Local hashing has two columns of integers, ``seed`` and ``value``. Other answers of several numbers have ``answer_0``,
  ``answer_1``, ….
- The subset that was published, for RRRR, is the column ``subset``: a set in any of the same forms.

Blank text, null and NaN are empty values. Files that `Responses.to_parquet` writes name the mechanism and the
categories in the metadata of their schema.
"""

import codecs
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from adobest_pp._labels import check_stored_labels
from adobest_pp._text import brief
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


def describe(mechanism: Mechanism, categories: tuple[str, ...]) -> dict[bytes, bytes]:
    """Return the metadata of a file of answers."""
    about = {
        "schema": _SCHEMA,
        "schema_version": _VERSION,
        "mechanism_settings": mechanism.settings(),
        "categories": list(categories),
    }
    return {_KEY: json.dumps(about).encode()}


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


def table_of(responses: "Responses") -> "pa.Table":
    """Return the table of answers, in their order."""
    import pyarrow as pa

    mechanism, answers = responses.mechanism, responses.answers
    columns: dict[str, Any] = {}
    sets = mechanism.as_sets()
    if sets is not None and len(mechanism.answer_columns) == 1:
        columns["answer"] = _binary(np.packbits(sets.support(answers), axis=1))
    else:
        numbers = answers.reshape(len(answers), len(mechanism.answer_columns)).astype(mechanism.answer_type)
        columns |= {name: pa.array(numbers[:, i]) for i, name in enumerate(mechanism.answer_columns)}
    if mechanism.publishes_subset:
        subsets = [row.tobytes() for row in np.packbits(responses.subsets, axis=1)]
        index = pa.array(responses.subset_index.astype(np.int32))
        columns[SUBSET] = pa.DictionaryArray.from_arrays(index, pa.array(subsets, type=pa.binary()))
    return pa.table(columns).replace_schema_metadata(describe(mechanism, responses.categories))


def _binary(packed: NDArray[np.uint8]) -> "pa.Array":
    """Return rows of bytes as an array of binary values of one length."""
    import pyarrow as pa

    rows = np.ascontiguousarray(packed)
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows.tobytes())]
    )


# Columns as codes and packed bits. An error names the column, what it may hold and what kind of value it holds. It
# never shows the value: a column that was named by mistake may hold anything about a person.


_SETS_AT_ONCE = 1 << 16
HIDDEN = "(it is not shown)"


def is_there(array: "pa.Array") -> NDArray[np.bool_]:
    """Tell which values are not empty: neither null nor NaN nor blank text."""
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


# CSV files: UTF-8, or UTF-16 with a byte order mark; cells separated by commas, or by semicolons if the header has no
# comma outside of quotes. Errors show no cell: a file without a header has a person's values in its first row.


_CSV_BYTES = 1 << 24


def csv_schema(path: str | os.PathLike[str], **parsing: Any) -> "pa.Schema":
    """Return the columns of a CSV file."""
    with _open_csv(path, None, lambda row: "skip", **parsing) as reader:
        return reader.schema


def csv_batches(path: str | os.PathLike[str], columns: Sequence[str], **parsing: Any) -> Iterator["pa.RecordBatch"]:
    """Yield these columns of a CSV file as text, null where a cell is empty, or raise ArrowInvalid.

    If a name occurs twice, all columns of the file are read. `parsing` are options of `pyarrow.csv.ParseOptions`.
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    wrong: list[str] = []

    def refuse(row: Any) -> str:
        cells = f"the header has {row.expected_columns} cells, row {row.number} has {row.actual_columns}"
        wrong.append(f"{cells} (they are not shown)")
        return "error"

    convert = pc.ConvertOptions(
        include_columns=columns if len({*columns}) == len(columns) else None,
        column_types=dict.fromkeys(columns, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    try:
        with _open_csv(path, convert, refuse, **parsing) as reader:
            yield from reader
    except pa.ArrowInvalid:
        if wrong:  # Arrow's own message shows the row
            raise pa.ArrowInvalid(wrong[0]) from None
        raise


def _open_csv(path: str | os.PathLike[str], convert: Any, on_wrong_row: Callable[[Any], str], **parsing: Any) -> Any:
    import pyarrow.csv as pc

    with open(path, "rb") as file:
        start = file.read(1 << 20)
    encoding = "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf8"
    header = start.decode(encoding, errors="replace").partition("\n")[0]
    outside = "".join(header.split('"')[::2])
    delimiter = ";" if ";" in outside and "," not in outside else ","
    read = pc.ReadOptions(use_threads=False, block_size=_CSV_BYTES, encoding=encoding)
    parse = pc.ParseOptions(delimiter=delimiter, invalid_row_handler=on_wrong_row, **parsing)
    return pc.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)


def read_csv_table(path: str | os.PathLike[str]) -> "pa.Table":
    """Return a CSV file with a header as a table of text, in which an empty cell is null.

    Quoted cells may hold delimiters and line breaks. A blank line is a row with an empty cell in a file of one column;
    in other files it is skipped.

    Raises
    ------
    ValueError
        If it is not such a file. The message shows no cell.
    """
    import pyarrow as pa

    allowed = f"path must name a CSV file in UTF-8 or UTF-16, got {os.fspath(path)!r}"
    try:
        with open(path, "rb") as file:
            if sum(block.count(b'"') for block in iter(lambda: file.read(_CSV_BYTES), b"")) % 2:
                raise ValueError(f"{allowed}, in which a quotation mark is not closed")
        schema = csv_schema(path, newlines_in_values=True)
        if any("\0" in name for name in schema.names):
            raise UnicodeError
        text = pa.schema([(name, pa.string()) for name in schema.names])
        rows = csv_batches(path, schema.names, newlines_in_values=True, ignore_empty_lines=len(schema) > 1)
        return pa.Table.from_batches(list(rows), text)
    except UnicodeError:
        raise ValueError(f"{allowed}, which has another encoding: save it as UTF-8") from None
    except pa.ArrowException as problem:
        raise ValueError(f"{allowed}, which is not one: {problem}") from None
