"""The SHA-256 of a Parquet file of ours, in the metadata of the file itself.

Pages have checksums of their own, but lengths, types and labels have none. So the file has two digests under a key of
its metadata: of all bytes before the footer, and of the footer, with zeros in place of this second digest. Another key
says that the first must be there. Neither belongs to the table, so that a program which reads the table and writes it
again leaves both out: such a file has no checksum, and is read as any other.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

from adobest_pp._files import start_digest

__all__ = ["PLACEHOLDER", "add_checksum", "data_flaw", "footer_flaw", "says_checksum"]

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
