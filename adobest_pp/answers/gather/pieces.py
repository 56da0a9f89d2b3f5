"""Files of answers, read piece by piece: row groups of a Parquet file, batches of an Arrow file, or a CSV file.

The result depends on the piece alone, not on who reads it, when, or how often.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from adobest_pp._files import start_digest
from adobest_pp._text import MAX_LABEL, visible
from adobest_pp.answers.gather.tables import ROWS_OF_A_GROUP, csv_batches, csv_schema
from adobest_pp.answers.gather.tallies import TableFormat, Tally, add_uncounted, add_up, collapses, counted

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = dict.fromkeys((".parquet", ".pq"), "parquet") | dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
FORMATS[".csv"] = "csv"
# The most rows of a piece, if the groups of rows of the file are smaller; and the most batches of an Arrow file.
_ROWS, _BATCHES = 1 << 22, 64
# The most bytes of a value, beside one for each category, and of what Parquet adds to the values.
_TEXT, _SPARE = 4 * MAX_LABEL, 1 << 20
TOO_LARGE = "its values take more memory than answers do, or than there is"
NO_TEXT = "its text is not in UTF-8: save it as UTF-8"


class Piece(NamedTuple):
    """The groups of rows ``range(first, last)`` of a file, which is number `file` of all files.

    A piece of format ``"checksum"`` has no rows: reading it checks the bytes of the file.
    """

    file: int
    path: str
    format: str
    first: int
    last: int


class SplitFile(NamedTuple):
    """The pieces of a file and the schema of its table, or why it cannot be read."""

    pieces: list[Piece]
    schema: "pa.Schema | None"
    damaged: str | None = None


class PieceResult(NamedTuple):
    """The counted answers of a piece, or why it cannot be read, or what is wrong with its answers."""

    tally: Tally | None
    empty: int = 0
    damaged: str | None = None
    refused: str | None = None


class Unreadable(Exception):
    """A file, or a piece of it, cannot be read. The text says why."""


@contextmanager
def reading() -> Iterator[None]:
    """Raise `Unreadable` for what Arrow, Python and the system raise about a damaged file."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:  # also of Arrow
        raise Unreadable(TOO_LARGE) from None
    except UnicodeDecodeError:
        raise Unreadable(NO_TEXT) from None
    except (pa.ArrowException, OSError) as problem:
        raise Unreadable(visible(problem)[:200]) from None


def split_file(file: int, path: str, form: str) -> SplitFile:
    """Return the pieces of a file."""
    try:
        with reading():
            split = _split(file, path, form)
    except Unreadable as reason:
        return SplitFile([], None, str(reason))
    has_nul = split.schema is not None and any("\0" in name for name in split.schema.names)
    return SplitFile([], None, NO_TEXT) if has_nul else split


def _split(file: int, path: str, form: str) -> SplitFile:
    import pyarrow as pa

    if form == "parquet":
        return _split_parquet(file, path)
    if form == "csv":
        return SplitFile([Piece(file, path, form, 0, 0)], csv_schema(path))
    with pa.memory_map(path) as source:
        opened = _open_arrow(source)
        n = getattr(opened, "num_record_batches", 1)  # a stream does not know, and is one piece
        pieces = [Piece(file, path, form, i, min(i + _BATCHES, n)) for i in range(0, n, _BATCHES)]
        return SplitFile(pieces, opened.schema)


def _split_parquet(file: int, path: str) -> SplitFile:
    import pyarrow.parquet as pq

    has_digests, flaw = _footer_flaw(path)
    if flaw is not None:
        return SplitFile([], None, flaw)
    with pq.ParquetFile(path) as opened:
        if not has_digests and _SAYS in (opened.metadata.metadata or {}):
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
    """Return the counted answers of a piece. Never raise an error because of the content of the file."""
    piece, table_format = task
    tallies, empty = [], 0
    try:
        with reading():
            if piece.format == "checksum":
                return PieceResult(None, damaged=_data_flaw(piece.path))
            for batch in batches(piece, table_format):
                tally, n_empty = counted(batch, table_format)
                tallies.append(tally)
                empty += n_empty
    except Unreadable as reason:
        return PieceResult(None, damaged=str(reason))
    except ValueError as problem:
        return PieceResult(None, refused=str(problem))
    if not tallies:
        return PieceResult(None, empty)
    together = add_up if collapses(table_format.mechanism) else add_uncounted
    return PieceResult(together(tallies), empty)


def batches(piece: Piece, table_format: TableFormat) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a piece, with the columns that are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = table_format.read
    if piece.format == "parquet":
        with pq.ParquetFile(piece.path, page_checksum_verification=True) as opened:
            groups = range(piece.first, piece.last)
            for i in groups:
                _check_room(opened.metadata.row_group(i), table_format)
            yield from opened.iter_batches(ROWS_OF_A_GROUP, row_groups=groups, columns=columns, use_threads=False)
    elif piece.format == "arrow":
        with pa.memory_map(piece.path) as source:
            reader = _open_arrow(source)
            is_file = isinstance(reader, pa.ipc.RecordBatchFileReader)
            for batch in (reader.get_batch(i) for i in range(piece.first, piece.last)) if is_file else reader:
                batch.validate(full=True)
                needed = batch.select(columns)
                # Arrow has few functions for views of text.
                texts = [(i, each) for i, each in enumerate(needed.schema) if pa.types.is_string_view(each.type)]
                for i, each in texts:
                    needed = needed.set_column(i, each.name, needed.column(i).cast(pa.large_string()))
                # A batch without buffers, such as one of nulls, can have any number of rows.
                for start in range(0, max(1, len(needed)), ROWS_OF_A_GROUP):
                    yield needed.slice(start, ROWS_OF_A_GROUP)
    else:
        yield from csv_batches(piece.path, columns)


def _check_room(group: Any, table_format: TableFormat) -> None:
    """Raise MemoryError if a group of rows of a Parquet file needs more room than answers take.

    A kilobyte of Parquet can unpack to any number of zeros. But a list of ours has at most K members, and a text is at
    most a label, or K zeros and ones.
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


# The SHA-256 of a Parquet file, in the metadata of the file itself.
#
# Pages have checksums of their own, but lengths, types and labels have none. So one key of the metadata has two
# digests: of all bytes before the footer, and of the footer with zeros in place of this second digest. Another key says
# that the first must be there. Neither belongs to the table: a program that rewrites the table drops both, and its file
# is read without a check.

_KEY, _SAYS = b"adobest_pp.sha256", b"adobest_pp.checksum"
_ZEROS = b"0" * 64
# What the writer is given as metadata of the file; `add_checksum` puts the digests in.
PLACEHOLDER = {_KEY: _ZEROS + b" " + _ZEROS, _SAYS: b"SHA-256"}
# Between a key and its value are three bytes: its kind and its length.
_DIGESTS = re.compile(re.escape(_KEY) + rb"...([0-9a-f]{64}) ([0-9a-f]{64})", re.DOTALL)


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


def _footer_flaw(path: str) -> tuple[bool, str | None]:
    """Return whether a file has digests, and what is wrong with its footer, or None."""
    with open(path, "rb") as file:
        _, content, digests = _footer_of(file)
    if digests is None:
        return False, None
    zeroed = content[: digests.start(2)] + _ZEROS + content[digests.end(2) :]
    is_right = hashlib.sha256(zeroed).hexdigest().encode() == digests[2]
    return True, None if is_right else "its metadata has another SHA-256 than it states"


def _data_flaw(path: str) -> str | None:
    """Return what is wrong with a file before its footer, or None."""
    with open(path, "rb") as file:
        start, _, digests = _footer_of(file)
        is_right = digests is not None and start_digest(file, start).encode() == digests[1]
    return None if is_right else "its data has another SHA-256 than it states"


def _footer_of(file: BinaryIO) -> tuple[int, bytes, re.Match[bytes] | None]:
    """Return where the footer begins, its bytes to the end of the file, and the digests in it, if any."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))  # the length of the footer, and "PAR1"
    start = max(0, size - 8 - int.from_bytes(file.read(4), "little"))
    file.seek(start)
    content = file.read()
    return start, content, _DIGESTS.search(content)
