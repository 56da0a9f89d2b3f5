"""Files of answers, read piece by piece: row groups of a Parquet file, batches of an Arrow file, or a CSV file.

The result of a piece depends on the piece alone: it does not matter who reads it, when, or how often.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from adobest_pp._files import start_digest
from adobest_pp._labels import MAX_LABEL
from adobest_pp._text import visible
from adobest_pp.answers.gather.tables import ROWS_OF_A_GROUP, csv_batches, csv_schema
from adobest_pp.answers.gather.tallies import TableFormat, Tally, add_up, collapses, counted
from adobest_pp.evidence import unique_rows

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
}
# Rows of a piece at most, where the file has groups of rows that are smaller; and batches of an Arrow file.
_ROWS, _BATCHES = 1 << 22, 64
# Bytes of a value at most, beside one for each category, and of what Parquet adds to the values.
_TEXT, _SPARE = 4 * MAX_LABEL, 1 << 20
TOO_LARGE = "its values take more memory than answers do, or than there is"
NO_TEXT = "the names of its columns are not in UTF-8: save it as UTF-8"


class Piece(NamedTuple):
    """Groups of rows `first` to `last`, without `last`, of a file, whose number among all files is `file`.

    One of the format ``"checksum"`` has no rows: whoever reads it checks the bytes of the file.
    """

    file: int
    path: str
    format: str
    first: int
    last: int


class SplitFile(NamedTuple):
    """The pieces of a file and the schema of its table; or why it cannot be read."""

    pieces: list[Piece]
    schema: "pa.Schema | None"
    damaged: str | None = None


class PieceResult(NamedTuple):
    """The answers of a piece, counted; or why it cannot be read; or what is wrong with what it holds."""

    tally: Tally | None
    empty: int = 0
    damaged: str | None = None
    refused: str | None = None


def split_file(file: int, path: str, form: str) -> SplitFile:
    """Return the pieces of a file."""
    import pyarrow as pa

    try:
        split = _split(file, path, form)
        if split.schema is not None and any("\0" in name for name in split.schema.names):
            return SplitFile([], None, NO_TEXT)
        return split
    except UnicodeDecodeError:
        return SplitFile([], None, NO_TEXT)
    except (pa.ArrowException, OSError) as problem:
        return SplitFile([], None, _reason(problem))


def _split(file: int, path: str, form: str) -> SplitFile:
    import pyarrow as pa

    if form == "parquet":
        return _split_parquet(file, path)
    if form == "arrow":
        with pa.memory_map(path) as source:
            opened = _open_arrow(source)
            if not isinstance(opened, pa.ipc.RecordBatchFileReader):
                return SplitFile([Piece(file, path, form, 0, 0)], opened.schema)
            ends = range(0, opened.num_record_batches, _BATCHES)
            pieces = [Piece(file, path, form, i, min(i + _BATCHES, opened.num_record_batches)) for i in ends]
            return SplitFile(pieces, opened.schema)
    return SplitFile([Piece(file, path, form, 0, 0)], csv_schema(path))


def _split_parquet(file: int, path: str) -> SplitFile:
    import pyarrow.parquet as pq

    has_digests, flaw = footer_flaw(path)
    if flaw is not None:
        return SplitFile([], None, flaw)
    with pq.ParquetFile(path) as opened:
        if not has_digests and says_checksum(opened.metadata.metadata):
            return SplitFile([], None, "its SHA-256 is not readable")
        groups = opened.metadata.num_row_groups
        sizes = [opened.metadata.row_group(i).num_rows for i in range(groups)]
        schema = opened.schema_arrow
    pieces, first = [Piece(file, path, "checksum", 0, 0)] if has_digests else [], 0
    for i in range(groups):
        if i + 1 == groups or sum(sizes[first : i + 2]) > _ROWS:
            pieces.append(Piece(file, path, "parquet", first, i + 1))
            first = i + 1
    return SplitFile(pieces, schema)


def read_piece(task: tuple[Piece, TableFormat]) -> PieceResult:
    """Return the answers of a piece, counted; never raise for what is in the file."""
    import pyarrow as pa

    piece, table_format = task
    if piece.format == "checksum":
        try:
            return PieceResult(None, damaged=data_flaw(piece.path))
        except OSError as problem:
            return PieceResult(None, damaged=_reason(problem))
    tallies, empty = [], 0
    batches = _batches(piece, table_format)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                break
            tally, none = counted(batch, table_format)
        except MemoryError:  # also of Arrow
            return PieceResult(None, damaged=TOO_LARGE)
        except (pa.ArrowException, OSError) as problem:
            return PieceResult(None, damaged=_reason(problem))
        except ValueError as problem:
            return PieceResult(None, refused=str(problem))
        tallies.append(tally)
        empty += none
    if not tallies:
        return PieceResult(None, empty)
    if collapses(table_format.mechanism):
        return PieceResult(add_up(tallies), empty)
    keys = np.concatenate([each.keys for each in tallies])
    in_order = keys[np.argsort(unique_rows(keys)[1], kind="stable")]
    return PieceResult(Tally(in_order, np.ones(len(keys), dtype=np.int64)), empty)


def _batches(piece: Piece, table_format: TableFormat) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = table_format.needed
    if piece.format == "parquet":
        with pq.ParquetFile(piece.path, page_checksum_verification=True) as opened:
            groups = range(piece.first, piece.last)
            for i in groups:
                _check_room(opened.metadata.row_group(i), table_format)
            yield from opened.iter_batches(ROWS_OF_A_GROUP, row_groups=groups, columns=columns, use_threads=False)
    elif piece.format == "arrow":
        with pa.memory_map(piece.path) as source:
            reader = _open_arrow(source)
            if isinstance(reader, pa.ipc.RecordBatchFileReader):
                batches: Any = (reader.get_batch(i) for i in range(piece.first, piece.last))
            else:
                batches = reader
            for batch in batches:
                batch.validate(full=True)
                needed = _without_views(batch.select(columns))
                # A batch without buffers, such as one of nulls, can have any number of rows.
                for start in range(0, max(1, len(needed)), ROWS_OF_A_GROUP):
                    yield needed.slice(start, ROWS_OF_A_GROUP)
    else:
        # A blank line is a person without an answer.
        yield from csv_batches(piece.path, columns, ignore_empty_lines=False)


def _without_views(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return some rows with text in place of views of text, for which Arrow has few functions."""
    import pyarrow as pa

    fields = [
        each.with_type(pa.large_string()) if pa.types.is_string_view(each.type) else each for each in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def _check_room(group: Any, table_format: TableFormat) -> None:
    """Raise MemoryError if some rows of a Parquet file ask for more room than answers take.

    A kilobyte of Parquet unpacks to any number of zeros. But a list has at most K members, and a text at most the
    length of a label, or K zeros and ones.
    """
    k, needed = table_format.mechanism.n_categories, table_format.needed
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema.partition(".")[0] not in needed:
            continue
        values = max(0, column.num_values)
        if values > (k + 1) * group.num_rows or column.total_uncompressed_size > _SPARE + (_TEXT + k) * values:
            raise MemoryError


def _open_arrow(source: Any) -> Any:
    """Open the file format, or else the stream format."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _reason(problem: BaseException) -> str:
    return visible(problem)[:200]


# The SHA-256 of a Parquet file, in the metadata of the file itself.
#
# Pages have checksums of their own, but lengths, types and labels have none. So a key of the metadata has two digests:
# of all bytes before the footer, and of the footer with zeros in place of this second digest. Another key says that the
# first must be there. Neither belongs to the table: a program that reads the table and writes it again drops both, and
# its file is read without a check.


_KEY, _SAYS = b"adobest_pp.sha256", b"adobest_pp.checksum"
_HEX = 64
_ZEROS = b"0" * _HEX
# What the writer is given as metadata of the file; `add_checksum` puts the digests in.
PLACEHOLDER = {_KEY: _ZEROS + b" " + _ZEROS, _SAYS: b"SHA-256"}
# Between a key and its value are three bytes: its kind and its length.
_DIGESTS = re.compile(re.escape(_KEY) + rb"...([0-9a-f]{64}) ([0-9a-f]{64})", re.DOTALL)
_END = 8


class _Footer(NamedTuple):
    """Where the footer begins, its bytes to the end of the file, and the place of the digests in it."""

    start: int
    content: bytes
    digests: re.Match[bytes] | None


def add_checksum(path: str | os.PathLike[str]) -> None:
    """Put the digests into a file that was written with the placeholder."""
    with open(path, "r+b") as file:
        start, content, digests = _footer_of(file)
        assert digests is not None
        data = start_digest(file, start).encode()
        written = content[: digests.start(1)] + data + content[digests.end(1) :]
        own = hashlib.sha256(written).hexdigest().encode()
        file.seek(start + digests.start(1))
        file.write(data + b" " + own)


def footer_flaw(path: str | os.PathLike[str]) -> tuple[bool, str | None]:
    """Tell whether a file has digests, and what is wrong with its footer, if something is."""
    with open(path, "rb") as file:
        _, content, digests = _footer_of(file)
    if digests is None:
        return False, None
    zeroed = content[: digests.start(2)] + _ZEROS + content[digests.end(2) :]
    is_right = hashlib.sha256(zeroed).hexdigest().encode() == digests[2]
    return True, None if is_right else "its metadata has another SHA-256 than it states"


def data_flaw(path: str | os.PathLike[str]) -> str | None:
    """Return what is wrong with a file before its footer, or None."""
    with open(path, "rb") as file:
        start, _, digests = _footer_of(file)
        is_right = digests is not None and start_digest(file, start).encode() == digests[1]
    return None if is_right else "its data has another SHA-256 than it states"


def says_checksum(metadata: Mapping[bytes, bytes] | None) -> bool:
    """Tell whether the metadata of a file says that it has digests."""
    return bool(metadata) and _SAYS in metadata  # type: ignore[operator]


def _footer_of(file: BinaryIO) -> _Footer:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END))
    start = max(0, size - _END - int.from_bytes(file.read(4), "little"))
    file.seek(start)
    content = file.read()
    return _Footer(start, content, _DIGESTS.search(content))
