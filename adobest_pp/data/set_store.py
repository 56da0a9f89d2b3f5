"""Answers that hardly ever repeat, kept on disk: the support set of each as packed bits, in one memory-mapped file.

Pieces are written sorted, as they come, and joined in the order of their bits in the end. So the file is the same to
the last bit whatever the pieces and their order, and no more than some millions of sets are in memory at a time.
"""

import errno
import hashlib
import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_path
from adobest_pp._files import remove_leftovers, seal, temporary_name, unseal
from adobest_pp.data.evidence import unique_rows
from adobest_pp.mechanisms.reading import loads

__all__ = ["SetStore", "StoreWriter", "open_store"]

_FILE, _NOTES = "sets.npy", "gathered.json"
# Sets that are sorted at a time.
_SETS_AT_ONCE = 1 << 21
_BLOCK = 1 << 16


class SetStore:
    """Support sets on disk, read as an array (n, ⌈K/8⌉) of packed bits; a temporary folder is removed with it."""

    def __init__(self, folder: Path, temporary: bool) -> None:
        self.folder = folder
        try:
            self.packed: NDArray[np.uint8] = np.lib.format.open_memmap(folder / _FILE, mode="c")
        except (SyntaxError, TokenError):  # of NumPy, about the text that describes the array
            raise ValueError("the sets must be an array of NumPy") from None
        if self.packed.dtype != np.uint8 or self.packed.ndim != 2:
            raise ValueError("the sets must be rows of bytes")
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __len__(self) -> int:
        return len(self.packed)

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        with (self.folder / _FILE).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def blocks(self, n_categories: int) -> Iterator[NDArray[np.uint8]]:
        """Yield zeros and ones (b, K), some sets at a time."""
        for start in range(0, len(self.packed), _BLOCK):
            yield np.unpackbits(self.packed[start : start + _BLOCK], axis=1, count=n_categories)


class StoreWriter:
    """Takes sorted pieces, and makes the store of them, or leaves nothing behind.

    A store that was asked for is made beside its folder, under another name, and takes its place when it is complete.

    Parameters
    ----------
    folder : path, optional
        A new folder; by default a temporary one, which is removed when the store is no longer used.
    width : int
        Bytes of a set.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, width: int) -> None:
        self._width = width
        self._target = None if folder is None else check_path(folder, "store")
        if self._target is None:
            place, prefix = Path(tempfile.gettempdir()), "adobest-"
        else:
            if os.path.lexists(self._target):
                raise FileExistsError(f"store must name a new folder, got {str(folder)!r}, which exists")
            place, prefix = self._target.absolute().parent, f".{self._target.name[:100]}."
        remove_leftovers(place, prefix)
        self.folder = place / temporary_name(prefix)
        try:
            self.folder.mkdir(mode=0o700 if self._target is None else 0o777)
        except OSError as problem:
            raise OSError(f"store must name a new folder, got {str(folder or place)!r}: {problem.strerror}") from None
        self._pieces: dict[int, list[Path]] = {}

    def write(self, file: int, packed: NDArray[np.uint8]) -> None:
        """Keep the sorted sets of a piece of a file."""
        mine = self._pieces.setdefault(file, [])
        path = self.folder / f"piece-{file}-{len(mine)}.npy"
        self._write_sets(path, len(packed), iter([packed]))
        mine.append(path)

    def finish(self, files: list[int], notes: dict[str, Any]) -> SetStore:
        """Join the pieces of these files, remove all pieces, and write the notes where the store was asked for."""
        paths = [path for file in files for path in self._pieces.get(file, [])]
        pieces = [np.load(path, mmap_mode="r") for path in paths]
        digest = self._write_sets(self.folder / _FILE, sum(map(len, pieces)), _in_order(pieces, 0, self._width))
        del pieces
        for mine in self._pieces.values():
            for path in mine:
                path.unlink()
        if self._target is None:
            return SetStore(self.folder, temporary=True)
        with self._saying_why():
            (self.folder / _NOTES).write_bytes(seal(notes | {"sets_sha256": digest}))
            if os.path.lexists(self._target):  # another program has made it meanwhile
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            os.rename(self.folder, self._target)
        return SetStore(self._target, temporary=False)

    def _write_sets(self, path: Path, n: int, parts: Iterator[NDArray[np.uint8]]) -> str:
        """Write n sets as an .npy file, and return its SHA-256. A memory map would not survive a full disk."""
        digest = hashlib.sha256()
        with self._saying_why(), path.open("wb") as file:
            header = io.BytesIO()
            about = {"descr": "|u1", "fortran_order": False, "shape": (n, self._width)}
            np.lib.format.write_array_header_1_0(header, about)
            for content in chain([header.getvalue()], (part.tobytes() for part in parts)):
                digest.update(content)
                file.write(content)
        return digest.hexdigest()

    @contextmanager
    def _saying_why(self) -> Iterator[None]:
        """Tell of a failed write, such as on a full disk, in one sentence."""
        try:
            yield
        except OSError as problem:
            place, hint = (self._target, "") if self._target else (self.folder.parent, ", or in a store that you name")
            raise OSError(
                problem.errno or errno.EIO,
                f"the answers could not be kept in {str(place)!r}{hint}, and nothing of them is left there: "
                f"{problem.strerror or problem}",
            ) from None

    def discard(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_store(folder: Path) -> tuple[dict[str, Any], SetStore]:
    """Return the notes and the sets of a folder, or raise an error if they are not as they were written."""
    notes = unseal((folder / _NOTES).read_bytes(), loads)
    sets = SetStore(folder, temporary=False)
    if notes["sets_sha256"] != sets.digest():
        raise ValueError("the sets are not as they were written")
    return notes, sets


def _in_order(pieces: list[NDArray[np.uint8]], depth: int, width: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of sorted pieces in order; pieces agree in the first `depth` bytes."""
    pieces = [piece for piece in pieces if len(piece)]
    if depth == width:
        yield from pieces
    elif sum(map(len, pieces)) <= _SETS_AT_ONCE:
        if pieces:
            rows = np.concatenate(pieces)
            yield rows[np.argsort(unique_rows(rows)[1], kind="stable")]
    else:
        cuts = [np.searchsorted(piece[:, depth], np.arange(257)) for piece in pieces]
        for byte in range(256):
            yield from _in_order(
                [piece[cut[byte] : cut[byte + 1]] for piece, cut in zip(pieces, cuts, strict=True)], depth + 1, width
            )
