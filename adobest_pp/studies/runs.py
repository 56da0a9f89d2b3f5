"""The runs of a store, and the checksum of each: of its values, its error, its number and the settings of its cell.

Batches are committed by way of a journal. It is written first, then the runs, then it is removed. Where there is none,
every run is as it was committed or not there at all, and what is otherwise is damaged.
"""

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._files import json_digest
from adobest_pp._text import brief
from adobest_pp.studies.grid import Study, cells_of
from adobest_pp.studies.layout import RUNS_IN_A_CHUNK, coordinates_of, read_root, write_json
from adobest_pp.studies.locks import is_locked
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Outcome, canonical

_NAMED = 5
_ATTEMPTS, _PAUSE = 5, 0.05
_EMPTY: dict[str, Any] = {"error": "", "checksum": 0, "status": NOT_RUN}


@dataclass(frozen=True)
class RunJournal:
    """A batch that is being committed: what became of some runs of one cell, and when."""

    cell: int
    outcomes: tuple[Outcome, ...]
    finished_at: float

    @property
    def runs(self) -> NDArray[np.int64]:
        """The numbers of the runs."""
        return np.array([outcome.run for outcome in self.outcomes], dtype=np.int64)

    def write(self, path: Path, study: str) -> None:
        """Write it to the store of a study, given by its digest."""
        rows = [[one.run, dict(one.measures), one.seconds, one.error] for one in self.outcomes]
        content = [self.cell, rows, self.finished_at]
        write_json(_file(path), [json_digest([study, content]), content])

    @staticmethod
    def remove(path: Path) -> None:
        """Remove the journal of a store whose runs are written."""
        _file(path).unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path, study: Study) -> "RunJournal | None":
        """Return the journal that the store of a study has; raise ValueError for one that is damaged or of another."""
        try:
            checksum, content = json.loads(_file(path).read_bytes())
            if checksum != json_digest([study.digest(), content]):
                raise ValueError
            cell, rows, finished_at = content
            journal = cls(cell, tuple(Outcome(*row) for row in rows), finished_at)
            journal._check(study)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            raise ValueError(_refusal(path, f"{_file(path).name} is damaged or of another study")) from None
        return journal

    def _check(self, study: Study) -> None:
        """Raise an error if this is no batch of the study."""
        check_integer(self.cell, "cell", 0, len(cells_of(study)) - 1)
        for one in self.outcomes:
            check_integer(one.run, "run", 0, study.runs - 1)
            numbers = [self.finished_at, one.seconds, *(one.measures.get(name, 0.0) for name in study.measures)]
            if not isinstance(one.error, str) or not all(isinstance(number, int | float) for number in numbers):
                raise ValueError("a run must have numbers and a text")


class StoredRuns:
    """The values of every variable with a place for each run, (cell, run), and which runs are damaged.

    Attributes
    ----------
    study : Study
        What the runs are of.
    values : dict of array
        By variable. What cannot be read is empty.
    damaged : array of bool
        Runs that do not match their checksum, or of which a part is missing.
    """

    def __init__(self, study: Study, arrays: Mapping[str, Any]) -> None:
        self.study, self._arrays = study, arrays
        self._numbers = (*study.measures, "seconds", "finished_at")
        about = study.digest()
        self._keys = [_key(about, cell) for cell in cells_of(study)]
        shape = (len(self._keys), study.runs)
        self.damaged = np.zeros(shape, dtype=bool)
        self.values = {name: np.empty(shape, _dtype(name)) for name in (*self._numbers, *_EMPTY)}
        try:
            for name, array in arrays.items():
                _check_texts(array)
                self.values[name][:] = array[:]
        except OSError:
            raise
        except Exception:  # Zarr raises this and that for what it cannot decode
            cells = np.arange(shape[0])
        else:
            cells = np.empty(0, dtype=np.int64)
        for cell in range(shape[0]):
            self._read(cell) if cell in cells else self._check(cell)

    def read_again(self) -> None:
        """Read the cells with damaged runs once more: a process may be writing to them."""
        for cell in np.flatnonzero(self.damaged.any(axis=1)).tolist():
            self._read(cell)

    def put(self, journal: RunJournal) -> None:
        """Take the runs from a journal."""
        cell, runs = journal.cell, journal.runs
        for name, column in self.columns(journal).items():
            self.values[name][cell, runs] = column
        self.damaged[cell, runs] = False

    def columns(self, journal: RunJournal) -> dict[str, list[Any]]:
        """Return what a batch is in the store, by variable, in the order of `values`."""
        outcomes = journal.outcomes
        columns: dict[str, list[Any]] = {
            name: [one.measures.get(name, np.nan) for one in outcomes] for name in self.study.measures
        }
        columns |= {"seconds": [one.seconds for one in outcomes], "finished_at": [journal.finished_at] * len(outcomes)}
        errors = [one.error for one in outcomes]
        status = [FAILED if error else DONE for error in errors]
        numbers = np.array([columns[name] for name in self._numbers], dtype=np.float64)
        checksums = self._checksums(journal.cell, journal.runs, status, numbers, errors)
        return columns | {"error": errors, "checksum": checksums, "status": status}

    def _read(self, cell: int) -> None:
        """Read a cell chunk by chunk; the runs of one that cannot be read are damaged."""
        unreadable = np.zeros(self.study.runs, dtype=bool)
        for name, array in self._arrays.items():
            row, step = self.values[name][cell], array.chunks[1]
            for start in range(0, self.study.runs, step):
                part = slice(start, start + step)
                try:
                    _check_texts(array, f"{cell}/{start // step}")
                    row[part] = array[cell, part]
                except OSError:
                    raise
                except Exception:
                    row[part] = _EMPTY.get(name, np.nan)
                    unreadable[part] = True
        self._check(cell, unreadable)

    def _check(self, cell: int, unreadable: NDArray[np.bool_] | bool = False) -> None:
        status, errors, checksums = (self.values[name][cell] for name in ("status", "error", "checksum"))
        numbers = np.stack([self.values[name][cell] for name in self._numbers])
        empty = (status == NOT_RUN) & (checksums == 0) & (errors == "") & np.isnan(numbers).all(axis=0)
        runs = np.flatnonzero(~empty)
        expected = self._checksums(cell, runs, status[runs].tolist(), numbers[:, runs], errors[runs].tolist())
        self.damaged[cell] = unreadable
        self.damaged[cell, runs] |= (checksums[runs] != np.array(expected, np.uint64)) | (status[runs] == NOT_RUN)

    def _checksums(
        self,
        cell: int,
        runs: NDArray[np.int64],
        status: Sequence[int],
        numbers: NDArray[np.float64],
        errors: Sequence[str],
    ) -> list[int]:
        rows = np.ascontiguousarray(np.vstack([runs, status, numbers]).T, dtype=np.float64)
        texts = [row.tobytes() + error.encode() for row, error in zip(rows, errors, strict=True)]
        found = (hashlib.blake2b(text, key=self._keys[cell], digest_size=8).digest() for text in texts)
        return [int.from_bytes(each) or 1 for each in found]  # 0 is where there is no run


def read_runs(path: Path, root: Mapping[str, Any]) -> tuple[StoredRuns, list[str]]:
    """Return the runs of a store as its arrays have them, and the names of arrays that are missing or damaged."""
    study, arrays = _described(path, root)
    described = root["consolidated_metadata"]["metadata"]
    missing = [name for name in described if not _is_beside(path / name / "zarr.json", described[name])]
    wrong = [name for name, values in _labels(study).items() if not _holds(arrays.pop(name), values)]
    return StoredRuns(study, arrays), list(dict.fromkeys([*missing, *wrong]))


def _described(path: Path, root: Mapping[str, Any]) -> tuple[Study, dict[str, Any]]:
    """Return the study of a store and its arrays, or raise ValueError if they are not those of the study."""
    try:
        study = Study.from_dict(json.loads(root["attributes"]["study"]))
        shape = (len(cells_of(study)), study.runs)
        shapes: dict[str, Any] = dict.fromkeys((*study.measures, "seconds", "finished_at", *_EMPTY), shape)
        shapes |= {name: values.shape for name, values in _labels(study).items()}
        group: Any = zarr.open_group(path, mode="r")
        arrays = {name: group[name] for name in shapes}
        for name, array in arrays.items():
            if array.shape != shapes[name] or array.chunks[-1] > max(RUNS_IN_A_CHUNK, shape[0]):
                raise ValueError(f"{name} has another shape")
    except OSError:
        raise
    except Exception as problem:
        raise ValueError(
            f"store must be a folder made by `adobest study run`, got {str(path)!r}, whose zarr.json does not describe "
            f"a study ({brief(str(problem))})"
        ) from None
    return study, arrays


def _labels(study: Study) -> dict[str, NDArray[Any]]:
    return {**coordinates_of(study), "run": np.arange(study.runs)}


def read_store(path: Path) -> tuple[dict[str, Any], StoredRuns]:
    """Return the root of a store and its runs, also while another process writes to it.

    Raises ValueError if arrays are missing or labels damaged; damaged runs are marked.
    """
    root = read_root(path)
    study = Study.from_dict(json.loads(root["attributes"]["study"]))
    journal = RunJournal.read(path, study)
    stored, wrong = read_runs(path, root)
    if wrong:
        refuse_damaged(path, stored, wrong)
    for attempt in range(_ATTEMPTS):
        if journal is not None:
            stored.put(journal)
        if not stored.damaged.any() or not is_locked(path):
            break
        time.sleep(_PAUSE * (attempt > 0))
        journal = RunJournal.read(path, study)
        stored.read_again()
    return root, stored


def refuse_damaged(path: Path, stored: StoredRuns, wrong: Sequence[str] = ()) -> None:
    """Raise ValueError if runs are damaged, or if there are arrays that are."""
    if wrong:
        raise ValueError(_refusal(path, f"arrays are missing or damaged ({_listed(wrong)})"))
    places = [f"run {run} of cell {cell}" for cell, run in np.argwhere(stored.damaged).tolist()]
    if places:
        raise ValueError(_refusal(path, f"{len(places)} runs are damaged ({_listed(places)})"))


def _refusal(path: Path, what: str) -> str:
    return (
        f"store must be whole, got {str(path)!r}, in which {what}: `adobest study run` with --repair makes "
        "damaged runs again and leaves the others alone"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _file(path: Path) -> Path:
    return path / "journal.json"


def _key(study: str, cell: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(canonical([study, cell]).encode()).digest()


def _dtype(name: str) -> Any:
    return {"error": object, "checksum": np.uint64, "status": np.int8}.get(name, np.float64)


def _check_texts(array: Any, chunk: str = "") -> None:
    """Raise ValueError unless the chunks of an array of texts hold as many as they should.

    Zarr makes room for as many as a file says that it has, before it looks for them: 4·10⁹ of them take minutes.
    """
    if array.dtype.kind != "T":
        return
    place = Path(array.store.root) / array.path / "c" / chunk
    for file in place.rglob("*") if place.is_dir() else [place]:
        if file.is_file() and file.suffix != ".partial":
            with file.open("rb") as opened:
                if int.from_bytes(opened.read(4), "little") != math.prod(array.chunks):
                    raise ValueError(f"{file} must have {math.prod(array.chunks)} texts")


def _is_beside(file: Path, description: Mapping[str, Any]) -> bool:
    """Tell whether the description of an array is beside it too; room for more runs may have been made already."""
    try:
        found = json.loads(file.read_bytes())
        return bool({**found, "shape": [*found["shape"][:-1], description["shape"][-1]]} == description)
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, RecursionError):
        return False


def _holds(array: Any, values: NDArray[Any]) -> bool:
    """Tell whether an array of labels has these values."""
    try:
        _check_texts(array)
        found = np.asarray(array[:])
        if values.dtype == object:
            return bool(found.astype(object).tolist() == values.tolist())
        return bool(np.array_equal(found, values, equal_nan=values.dtype.kind == "f"))
    except OSError:
        raise
    except Exception:
        return False
