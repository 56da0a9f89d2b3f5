"""The result of `gather`: distinct answers with counts, or a store on disk if answers hardly ever repeat."""

import errno
import hashlib
import io
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer, check_path
from adobest_pp._files import remove_leftovers, seal, temporary_name, unseal
from adobest_pp._text import brief, check_stored_labels
from adobest_pp.answers.gather.tallies import Tally, add_up, decoded, evidence_of
from adobest_pp.answers.responses import variable
from adobest_pp.evidence import Evidence, unique_rows
from adobest_pp.mechanisms import Counts, Mechanism, Published, mechanism_from_settings
from adobest_pp.mechanisms.registry import UnknownMechanism, loads

if TYPE_CHECKING:
    import xarray as xr

# The store: the support set of each answer as packed bits, in one memory-mapped file. Each piece is sorted and written
# as it comes; at the end all are merged in the order of their bits. So the file is the same to the last bit whatever
# the pieces and their order, and at most a few million sets are in memory at a time.

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

    def blocks(self, n_categories: int) -> Iterator[NDArray[np.uint8]]:
        """Yield zeros and ones (b, K), some sets at a time."""
        for start in range(0, len(self.packed), _BLOCK):
            yield np.unpackbits(self.packed[start : start + _BLOCK], axis=1, count=n_categories)


class StoreWriter:
    """Takes sorted pieces of sets of `width` bytes and makes a store of them, or leaves nothing behind.

    A store that the user named is made under a temporary name beside it, and renamed when it is complete. Without a
    name, it is a temporary folder, which is removed when the store is no longer used.
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
        """Write the sorted sets of a piece of a file."""
        mine = self._pieces.setdefault(file, [])
        path = self.folder / f"piece-{file}-{len(mine)}.npy"
        self._write_sets(path, len(packed), iter([packed]))
        mine.append(path)

    def finish(self, files: list[int], notes: dict[str, Any]) -> SetStore:
        """Merge the pieces of these files, remove all pieces, and write the notes if the user named the store."""
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
        """Raise the OSError of a failed write, such as on a full disk, with the place and a hint."""
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


# The answers of many files, with what is needed to interpret them.

SCHEMA, SCHEMA_VERSION = "adobest_pp.gathered", 1


class FileCounts(NamedTuple):
    """How many answers a file had, and how many rows without one."""

    answers: int
    empty: int


class Gathered:
    """Counted answers of many files, from `gather`. `sample`, models and diagnostics take it in place of `Responses`.

    Attributes
    ----------
    mechanism : Mechanism
        What the devices ran.
    categories : tuple of str
        The labels.
    files : dict
        `FileCounts` of each file that was read: ``answers`` and ``empty``.
    store : SetStore or None
        The folder with the support set of every answer, if answers hardly ever repeat.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        categories: tuple[str, ...],
        content: Tally | SetStore,
        files: dict[str, FileCounts],
    ) -> None:
        self.mechanism, self.categories, self.files = mechanism, categories, files
        self._content = content
        self.store = content if isinstance(content, SetStore) else None

    @property
    def n_categories(self) -> int:
        """The number of categories K."""
        return self.mechanism.n_categories

    @property
    def n_empty(self) -> int:
        """The number of rows without an answer. They are not among the answers."""
        return sum(each.empty for each in self.files.values())

    def __len__(self) -> int:
        return sum(each.answers for each in self.files.values())

    def __repr__(self) -> str:
        files = f"{len(self.files)} file" + ("s" if len(self.files) != 1 else "")
        empty = f", {self.n_empty} rows without an answer" if self.n_empty else ""
        return f"<Gathered: {len(self)} answers of {files}{empty}, {self.mechanism!r}>"

    def evidence(self) -> Evidence:
        """Return the evidence of all answers: to the last bit that of `Responses` with the same answers.

        If there is a store, all of it is read into memory: some hundred bytes for each answer.
        """
        if isinstance(self._content, Tally):
            return self._evidence
        packed = np.array(self._content.packed)
        one, none = np.ones(len(packed), dtype=np.int64), np.zeros(0, dtype=np.int64)
        return evidence_of(add_up([Tally(packed, one), Tally(packed[:0], none)]), self.mechanism)

    @cached_property
    def _evidence(self) -> Evidence:
        assert isinstance(self._content, Tally)
        return evidence_of(self._content, self.mechanism)

    def answer_counts(self, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts | None:
        """Return the mechanism's counts of these answers; see `Mechanism.answer_counts`."""
        total: list[NDArray[np.float64]] | None = None
        sets = self.mechanism.as_sets()
        for answers, published, weight in self._weighted():
            if sets is not None:
                counts = sets.support_counts(answers, theta, listed)
            else:
                counts = self.mechanism.answer_counts(answers, published, theta, listed)
            if counts is None or (total is not None and total[0].shape != counts.observed.shape):
                return None
            # Counts, expectations and covariances of independent people add up.
            parts = [weight * each for each in counts]
            total = parts if total is None else [one + other for one, other in zip(total, parts, strict=True)]
        return None if total is None else Counts(*total)

    def information(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Fisher information of θ in all answers, of shape (K, K); see `Mechanism.information`."""
        total = np.zeros((self.n_categories, self.n_categories))
        for answers, published, weight in self._weighted():
            total += weight * self.mechanism.total_information(answers, published, theta)
        return total

    def _weighted(self) -> Any:
        """Yield answers (or their support sets), what was published, and how often each is there, part by part."""
        published = Published(np.zeros(0, dtype=np.int64), np.zeros((0, self.n_categories), dtype=bool))
        if isinstance(self._content, SetStore):
            for masks in self._content.blocks(self.n_categories):
                yield masks, published, 1.0
            return
        keys, count = self._content
        if self.mechanism.as_sets() is not None:
            found: NDArray[Any] = np.unpackbits(keys, axis=1, count=self.n_categories)
        else:
            found, published = decoded(self._content, self.mechanism)
            published = self.mechanism.published_with(found, published)
        # A count is a sum of powers of two: take the answers whose count has a bit, that many times.
        for bit in range(int(count.max(initial=0)).bit_length()):
            has = (count >> bit) & 1 == 1
            if has.any():
                row = published.row[has] if len(published.row) else published.row
                yield found[has], Published(row, published.subsets), float(1 << bit)

    def to_xarray(self) -> "xr.Dataset":
        """Return a labeled dataset: distinct answers with counts, or only sums by category for a store."""
        import xarray as xr

        attributes = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "notes": json.dumps(notes_of(self.mechanism, self.categories, self.files)),
            "mechanism_settings": json.dumps(self.mechanism.settings()),
        }
        variables: dict[str, Any]
        if isinstance(self._content, SetStore):
            blocks = self._content.blocks(self.n_categories)
            sums = sum((masks.sum(axis=0, dtype=np.int64) for masks in blocks), np.zeros(self.n_categories, np.int64))
            about = {"long_name": "answers whose support set holds the category"}
            variables = {"answers_with": ("category", sums, about)}
        else:
            about = {"long_name": "distinct answer, as adobest_pp.answers.gather.tallies"}
            variables = {
                "key": (("answer", "byte"), self._content.keys, about),
                "count": ("answer", self._content.count, {"long_name": "how many people gave it"}),
            }
        return xr.Dataset(variables, {"category": list(self.categories)}, attributes)

    @classmethod
    def from_xarray(cls, dataset: "xr.Dataset") -> "Gathered | None":
        """Rebuild from the dataset of `to_xarray`; None for that of a store, which has no answers."""
        if "key" not in dataset:
            return None
        try:
            notes = loads(dataset.attrs["notes"])
            mechanism, categories = _of_notes(notes)
            keys, count = variable(dataset, "key", ("answer", "byte")), variable(dataset, "count", ("answer",))
            if keys.dtype != np.uint8 or count.dtype.kind not in "iu" or (count < 1).any():
                raise ValueError("the variables 'key' and 'count' must be bytes, and whole numbers of at least 1")
            files = _files_of(notes, int(count.sum()))
        except UnknownMechanism:
            raise
        except KeyError as missing:
            raise ValueError(f"dataset must be one of Gathered.to_xarray, got one without {missing}") from None
        except (TypeError, ValueError) as reason:
            raise ValueError(f"dataset must be one of Gathered.to_xarray: {reason}") from None
        return cls(mechanism, categories, Tally(keys, count.astype(np.int64)), files)

    @classmethod
    def open(cls, store: str | os.PathLike[str]) -> "Gathered":
        """Open the folder that `gather` kept its store in, or raise ValueError if it is damaged.

        The whole store is read once, to check its SHA-256.

        Parameters
        ----------
        store : path
            The folder.
        """
        folder = check_path(store, "store")
        try:
            notes, sets = unseal((folder / _NOTES).read_bytes(), loads), SetStore(folder, temporary=False)
            with (folder / _FILE).open("rb") as file:
                is_whole = hashlib.file_digest(file, "sha256").hexdigest() == notes["sets_sha256"]
            mechanism, categories = _of_notes(notes)
            if not is_whole or sets.packed.shape[1] != -(-mechanism.n_categories // 8):
                raise ValueError
            return cls(mechanism, categories, sets, _files_of(notes, len(sets)))
        except UnknownMechanism:
            raise
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"store must be a folder that `gather` made, got {brief(str(store))}, which is damaged or not one"
            ) from None


def notes_of(mechanism: Mechanism, categories: tuple[str, ...], files: dict[str, FileCounts]) -> dict[str, Any]:
    """Return what is needed to interpret counted answers, as plain values."""
    return {
        "mechanism_settings": mechanism.settings(),
        "categories": list(categories),
        "files": {name: list(each) for name, each in files.items()},
    }


def _of_notes(notes: dict[str, Any]) -> tuple[Mechanism, tuple[str, ...]]:
    mechanism = mechanism_from_settings(notes["mechanism_settings"])
    return mechanism, check_stored_labels(notes["categories"], mechanism.n_categories)


def _files_of(notes: dict[str, Any], total: int) -> dict[str, FileCounts]:
    """Return the counts of the files, or raise ValueError unless they add up to all answers."""
    files = {}
    for name, (answers, empty) in dict(notes["files"]).items():
        files[name] = FileCounts(check_integer(answers, "answers", 0), check_integer(empty, "empty", 0))
    if sum(each.answers for each in files.values()) != total:
        raise ValueError(f"the answers of its files must add up to {total}")
    return files
