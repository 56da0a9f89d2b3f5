"""Answers that hardly ever repeat, kept on disk: the support set of each as packed bits, in one memory-mapped file.

Pieces are written sorted, as they come, and joined in the order of their bits in the end. So the file is the same to
the last bit whatever the pieces and their order, and no more than some millions of sets are in memory at a time.
"""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_path
from adobest_pp.data.evidence import unique_rows

__all__ = ["SetStore", "StoreWriter"]

_FILE = "sets.npy"
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

    Parameters
    ----------
    folder : path, optional
        A new folder; by default a temporary one, which is removed when the store is no longer used.
    width : int
        Bytes of a set.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, width: int) -> None:
        self._width, self.temporary = width, folder is None
        if folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="adobest-"))
        else:
            self.folder = check_path(folder, "store")
            try:
                self.folder.mkdir()
            except FileExistsError:
                raise FileExistsError(f"store must name a new folder, got {str(folder)!r}, which exists") from None
            except OSError as problem:
                raise OSError(f"store must name a new folder, got {str(folder)!r}: {problem.strerror}") from None
        self._pieces: dict[int, list[Path]] = {}

    def write(self, file: int, packed: NDArray[np.uint8]) -> None:
        """Keep the sorted sets of a piece of a file."""
        mine = self._pieces.setdefault(file, [])
        path = self.folder / f"piece-{file}-{len(mine)}.npy"
        np.save(path, packed)
        mine.append(path)

    def finish(self, files: list[int]) -> SetStore:
        """Join the pieces of these files, and remove all pieces."""
        paths = [path for file in files for path in self._pieces.get(file, [])]
        pieces = [np.load(path, mmap_mode="r") for path in paths]
        total = sum(map(len, pieces))
        target = np.lib.format.open_memmap(self.folder / _FILE, mode="w+", dtype=np.uint8, shape=(total, self._width))
        start = 0
        for part in _in_order(pieces, 0, self._width):
            target[start : start + len(part)] = part
            start += len(part)
        target.flush()
        del target, pieces
        for mine in self._pieces.values():
            for path in mine:
                path.unlink()
        return SetStore(self.folder, self.temporary)

    def discard(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)


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
