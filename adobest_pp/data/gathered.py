"""What `gather` gives back: the answers of many files, counted, with what is needed to interpret them."""

import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer, check_path
from adobest_pp._labels import check_stored_labels
from adobest_pp._text import brief
from adobest_pp.data.answer_tables import is_set
from adobest_pp.data.codes import variable
from adobest_pp.data.evidence import Evidence
from adobest_pp.data.responses import Responses
from adobest_pp.data.set_store import SetStore, open_store
from adobest_pp.data.tallies import Tally, add_up, decoded, evidence_of
from adobest_pp.mechanisms import Counts, LocalHashing, Mechanism, Published, mechanism_from_settings
from adobest_pp.mechanisms.reading import loads
from adobest_pp.mechanisms.registry import UnknownMechanism

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["SCHEMA", "FileCounts", "Gathered", "check_responses", "notes_of"]

SCHEMA, SCHEMA_VERSION = "adobest_pp.gathered", 1


class FileCounts(NamedTuple):
    """How many answers a file had, and how many rows without one."""

    answers: int
    empty: int


class Gathered:
    """Answers of many files, counted. `gather` makes it; `sample`, models and diagnostics take it as `Responses`.

    Attributes
    ----------
    mechanism : Mechanism
        What the devices ran.
    categories : tuple of str
        The labels.
    files : dict
        `FileCounts` of each file that was read: ``answers`` and ``empty``.
    store : SetStore or None
        The folder with the support set of every answer, where answers hardly ever repeat.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        categories: tuple[str, ...],
        content: Tally | SetStore,
        files: dict[str, FileCounts],
    ) -> None:
        self.mechanism, self.categories, self.files = mechanism, categories, files
        self.store = content if isinstance(content, SetStore) else None
        self._tally = content if isinstance(content, Tally) else None

    @property
    def n_categories(self) -> int:
        """The number of categories K."""
        return self.mechanism.n_categories

    @property
    def n_empty(self) -> int:
        """The number of rows without an answer. They are not among the answers."""
        return sum(each.empty for each in self.files.values())

    def __len__(self) -> int:
        return len(self.store) if self._tally is None and self.store is not None else int(self._counts.sum())

    @property
    def _counts(self) -> NDArray[np.int64]:
        assert self._tally is not None
        return self._tally.count

    def __repr__(self) -> str:
        files = f"{len(self.files)} file" + ("s" if len(self.files) != 1 else "")
        empty = f", {self.n_empty} rows without an answer" if self.n_empty else ""
        return f"<Gathered: {len(self)} answers of {files}{empty}, {self.mechanism!r}>"

    def evidence(self) -> Evidence:
        """Return the evidence of all answers: to the last bit that of `Responses` with the same answers.

        Where there is a store, all of it is read into memory: some hundred bytes for each answer.
        """
        return self._evidence if self._tally is not None else evidence_of(self._whole(), self.mechanism)

    @cached_property
    def _evidence(self) -> Evidence:
        assert self._tally is not None
        return evidence_of(self._tally, self.mechanism)

    def _whole(self) -> Tally:
        assert self.store is not None
        packed = np.array(self.store.packed)
        one = Tally(packed, np.ones(len(packed), dtype=np.int64))
        return add_up([one, Tally(packed[:0], one.count[:0])])

    def answer_counts(self, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts | None:
        """Return the mechanism's counts of these answers; see `Mechanism.answer_counts`."""
        total: list[NDArray[np.float64]] | None = None
        for answers, told, weight in self._weighted():
            if isinstance(self.mechanism, LocalHashing):
                counts: Counts | None = self.mechanism.support_counts(answers, theta, listed)
            else:
                counts = self.mechanism.answer_counts(answers, told, theta, listed)
            if counts is None or (total is not None and total[0].shape != counts.observed.shape):
                return None
            # Counts, expectations and covariances of independent people add up.
            parts = [weight * each for each in counts]
            total = parts if total is None else [one + other for one, other in zip(total, parts, strict=True)]
        return None if total is None else Counts(*total)

    def information(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Fisher information of θ in all answers, of shape (K, K); see `Mechanism.information`."""
        total = np.zeros((self.n_categories, self.n_categories))
        for answers, told, weight in self._weighted():
            total += weight * self.mechanism.total_information(answers, told, theta)
        return total

    def _weighted(self) -> Any:
        """Yield answers, what was published, and how often each is there: parts that make up all answers."""
        none = Published(np.zeros(0, dtype=np.int64), np.zeros((0, self.n_categories), dtype=bool))
        if self.store is not None:
            for masks in self.store.blocks(self.n_categories):
                yield _answers_of(masks, self.mechanism), none, 1.0
            return
        assert self._tally is not None
        if self._tally.keys.shape[1] and is_set(self.mechanism):
            masks = np.unpackbits(self._tally.keys, axis=1, count=self.n_categories)
            found, told = _answers_of(masks, self.mechanism), none
        else:
            found, published = decoded(self._tally, self.mechanism)
            told = self.mechanism.told(found, published)
        # A count is a sum of powers of two: so many times those answers whose count has that bit.
        for bit in range(int(self._counts.max(initial=0)).bit_length()):
            has = (self._counts >> bit) & 1 == 1
            if has.any():
                row = told.row[has] if len(told.row) else told.row
                yield found[has], Published(row, told.subsets), float(1 << bit)

    def to_xarray(self) -> "xr.Dataset":
        """Return a labelled dataset: the distinct answers with counts, or, where there is a store, its sums only."""
        import xarray as xr

        notes = notes_of(self.mechanism, self.categories, self.files)
        attributes = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "notes": json.dumps(notes)}
        attributes["mechanism_settings"] = json.dumps(self.mechanism.settings())
        coords = {"category": list(self.categories)}
        if self._tally is None:
            assert self.store is not None
            sums = np.zeros(self.n_categories, dtype=np.int64)
            for masks in self.store.blocks(self.n_categories):
                sums += masks.sum(axis=0, dtype=np.int64)
            meaning = {"long_name": "answers whose support set holds the category"}
            return xr.Dataset({"answers_with": ("category", sums, meaning)}, coords, attributes)
        variables = {
            "key": (("answer", "byte"), self._tally.keys, {"long_name": "distinct answer, as adobest_pp.data.tallies"}),
            "count": ("answer", self._tally.count, {"long_name": "how many people gave it"}),
        }
        return xr.Dataset(variables, coords, attributes)

    @classmethod
    def from_xarray(cls, dataset: "xr.Dataset") -> "Gathered | None":
        """Rebuild from the dataset of `to_xarray`; None for that of a store, whose answers are not in it."""
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
        """Open the folder that `gather` was told to keep a store in, or raise ValueError if it is damaged.

        All of it is read once, to check its SHA-256.

        Parameters
        ----------
        store : path
            The folder.
        """
        folder = check_path(store, "store")
        try:
            notes, sets = open_store(folder)
            mechanism, categories = _of_notes(notes)
            if sets.packed.shape[1] != -(-mechanism.n_categories // 8):
                raise ValueError
            return cls(mechanism, categories, content=sets, files=_files_of(notes, len(sets)))
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


def check_responses(responses: Any) -> None:
    """Raise ValueError unless these are answers, one by one or gathered."""
    if not isinstance(responses, Responses | Gathered):
        hint = ", which has no labels: pass what it is the evidence of" if isinstance(responses, Evidence) else ""
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}{hint}")


def _of_notes(notes: dict[str, Any]) -> tuple[Mechanism, tuple[str, ...]]:
    mechanism = mechanism_from_settings(notes["mechanism_settings"])
    return mechanism, check_stored_labels(notes["categories"], mechanism.n_categories)


def _files_of(notes: dict[str, Any], total: int) -> dict[str, FileCounts]:
    """Return the counts of the files, or raise ValueError unless they add up to all answers."""
    files = {}
    for name, (answers, empty) in dict(notes["files"]).items():
        files[name] = FileCounts(check_integer(answers, "answers", 0), check_integer(empty, "empty", 0))
    if sum(each.answers for each in files.values()) != total:
        raise ValueError(f"the answers of its files must be {total} together")
    return files


def _answers_of(masks: NDArray[np.uint8], mechanism: Mechanism) -> NDArray[Any]:
    """Return the answers with these support sets; where there are several, as with local hashing, the sets."""
    return (
        np.nonzero(masks)[1].reshape(len(masks), mechanism.answer_dims["member"])
        if "member" in mechanism.answer_dims
        else masks
    )
