"""The store of a study: a SQLite file with the study and a row for each run, written by one process at a time.

``runs`` has a row for each run that is done or failed: measures, times and error as JSON, and a checksum of these, of
the number of the run and of the settings of its cell. ``parts`` has the header (the study, the files that make a run,
versions of libraries) and the head: the number of rows, the sum of their checksums, and the checksum of the header. So
a reader notices a row that was changed, moved, removed or copied from another study.

A batch of runs is one transaction, on disk when `StudyStore.commit` returns; SQLite rolls back an incomplete one. It
keeps a rollback journal, not a WAL, which needs memory shared by all processes: a store may be in a folder that several
machines mount. `adobest_pp._files` locks it for its one writer.
"""

import hashlib
import json
import math
import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import adobest_pp
from adobest_pp._checks import check_path
from adobest_pp._files import as_os_error, connect, lock, replacing, telling, unlock
from adobest_pp._text import brief
from adobest_pp.mechanisms.registry import loads
from adobest_pp.studies.grid import LIBRARIES, Study, axes_of, cells_of, differing, sources_of
from adobest_pp.studies.run_function import DONE, FAILED, NOT_RUN, Measure, Outcome, canonical, measures_of

_TABLES = (
    "CREATE TABLE parts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE runs (cell INTEGER, run INTEGER, body TEXT NOT NULL, checksum TEXT NOT NULL, "
    "PRIMARY KEY (cell, run)) WITHOUT ROWID",
)
_ONE_RUN = "SELECT body, checksum FROM runs WHERE cell = ? AND run = ?"
_NAMED = 5
# Seconds that a new writer waits for processes that only check whether there is one, and milliseconds that a commit
# waits for readers.
_LOOK, _READING = 0.5, 60_000

Row = tuple[int, int, str, str]


class Head(NamedTuple):
    """What a store must hold: the number of rows, the sum of their checksums, and the checksum of the header."""

    rows: int
    total: str
    header: str


class Parts(NamedTuple):
    """The header of a store (`text`) and what it says: the study, attributes of the dataset, meanings; and the head."""

    text: str
    study: Study
    attributes: dict[str, str]
    measures: dict[str, Measure]
    head: Head


class StoredRuns(NamedTuple):
    """The runs of a store; damaged ones do not match their checksum, and have the values of runs that are not made."""

    parts: Parts
    values: dict[str, NDArray[Any]]  # measures, seconds, finished_at, error and status, each by (cell, run)
    damaged: NDArray[np.bool_]  # by (cell, run)
    lost: int  # how many runs were in the store and are missing now

    def refuse_damage(self, path: Path) -> None:
        """Raise ValueError if runs are damaged or lost."""
        places = [f"run {run} of cell {cell}" for cell, run in np.argwhere(self.damaged)[: _NAMED + 1].tolist()]
        if (count := int(self.damaged.sum())) > _NAMED:
            places[_NAMED:] = [f"{count - _NAMED} more"]
        if count or self.lost:
            raise _damaged(path, f"in which {count + self.lost} runs are damaged ({', '.join(places) or 'lost'})")


class StudyStore:
    """The store of one study, open for writing; use it as a context manager, or `close` it.

    The arguments are those of `run_study`; `repair` drops damaged runs, so that they are made again.
    """

    def __init__(
        self, path: str | os.PathLike[str], study: Study, accept_changed_sources: bool = False, repair: bool = False
    ) -> None:
        self.path, self.study, self.sources = check_path(path), study, sources_of(study)
        self._keys = _keys(study)
        self._target = Path(os.path.realpath(path))
        self._connection: sqlite3.Connection | None = None
        if not self._target.parent.is_dir():
            raise FileNotFoundError(f"store must be in a folder that exists, got {str(self.path)!r}")
        try:
            self._lock = lock(self._target, _LOOK)
        except BlockingIOError:
            raise ValueError(f"store must not be in use by another process, got {str(self.path)!r}") from None
        try:
            with telling(str(self.path), partial(_damaged, self.path)):
                self._open(accept_changed_sources, repair)
        except BaseException:
            self.close()
            raise

    def _open(self, accept_changed_sources: bool, repair: bool) -> None:
        if not os.path.lexists(self._target):
            _write_new(self._target, _new_header(self.study, self.sources), [], overwrite=False)
        self._connection = _connect(self.path, "rw")
        parts = _read_parts(self._connection, self.path)
        _check_same(parts.study, self.study, self.path)
        header = self._updated_header(parts, accept_changed_sources)
        if repair:
            _write_new(self._target, parts.text, _readable_rows(self._connection, parts.study), overwrite=True)
            self._connection.close()
            self._connection = _connect(self.path, "rw")
        self._file = os.stat(self._target)
        self._connection.execute("PRAGMA synchronous = EXTRA")
        self._connection.execute(f"PRAGMA busy_timeout = {_READING}")
        stored = _read(self._connection, self.path)
        stored.refuse_damage(self.path)
        self._head = stored.parts.head
        self._status = np.full((len(self._keys), self.study.runs), NOT_RUN, np.int8)
        self._status[:, : parts.study.runs] = stored.values["status"]
        if header != parts.text:
            self._write([], header)

    def _updated_header(self, parts: Parts, accept_changed_sources: bool) -> str:
        """Return the header with this study and the present sources, or raise ValueError if those have changed."""
        attributes = {**parts.attributes, "study": json.dumps(self.study.to_dict())}
        if changed := differing(json.loads(attributes["sources"]), self.sources):
            if not accept_changed_sources:
                raise ValueError(
                    f"store must be of the same sources: {changed} changed since {str(self.path)!r} was made; use "
                    "another store, or --accept-changed-sources if you know that the numbers stay the same"
                )
            accepted = [*json.loads(attributes["accepted_sources"]), {"at": _now(), "changed": changed}]
            attributes |= {"sources": json.dumps(self.sources), "accepted_sources": json.dumps(accepted)}
        return json.dumps({"attributes": attributes, "measures": parts.measures})

    def __enter__(self) -> "StudyStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; another process may then write to it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        unlock(self._lock, self._target)

    def counts(self) -> dict[int, int]:
        """Return how many runs are `NOT_RUN`, `DONE` and `FAILED`."""
        return {code: int(np.count_nonzero(self._status == code)) for code in (NOT_RUN, DONE, FAILED)}

    def waiting(self, cell: int, retry_failed: bool = False) -> NDArray[np.int64]:
        """Return the numbers of the runs of a cell that are still to be made."""
        status = self._status[cell]
        return np.flatnonzero((status == NOT_RUN) | (retry_failed & (status == FAILED)))

    def commit(self, cell: int, outcomes: Sequence[Outcome]) -> None:
        """Write the outcomes of some runs of one cell."""
        now, rows = time.time(), []
        for one in outcomes:
            numbers = {name: one.measures.get(name) for name in self.study.measures} | {"seconds": one.seconds}
            plain = {name: None if value != value else value for name, value in numbers.items()}  # NaN is not JSON
            body = json.dumps({**plain, "finished_at": now, "error": one.error})
            rows.append((cell, one.run, body, _checksum(self._keys[cell], one.run, body)))
        try:
            self._write(rows)
        except (sqlite3.Error, OSError) as problem:
            reason = as_os_error(problem) if isinstance(problem, sqlite3.Error) else problem
            raise OSError(
                f"{self.path} could not be written to ({reason}); what was committed before is whole: "
                "once there is room, rerun the command to resume"
            ) from problem
        self._status[cell, [one.run for one in outcomes]] = [FAILED if one.error else DONE for one in outcomes]

    def _write(self, rows: Sequence[Row], header: str | None = None) -> None:
        """Write runs, and a header unless it is None, in one transaction, which is then on disk."""
        assert self._connection is not None
        if not os.path.samestat(self._file, os.stat(self._target)):
            raise OSError("another program has replaced it")
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            (stored,) = self._connection.execute("SELECT value FROM parts WHERE name = 'head'").fetchone()
            if stored != json.dumps(self._head):
                raise OSError("another program has changed it")
            found = [self._connection.execute(_ONE_RUN, row[:2]).fetchone() for row in rows]
            replaced = [one[1] for one in found if one is not None]
            head = Head(
                self._head.rows + len(rows) - len(replaced),
                _sum([self._head.total, *(row[3] for row in rows)], replaced),
                self._head.header if header is None else _digest(header),
            )
            self._connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", rows)
            parts = [(json.dumps(head), "head"), *([] if header is None else [(header, "header")])]
            self._connection.executemany("UPDATE parts SET value = ? WHERE name = ?", parts)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._head = head


def read_store(path: Path) -> StoredRuns:
    """Return the content of a store, also while another process writes to it; damaged runs are marked."""
    with telling(str(path), partial(_damaged, path)), closing(_connect(path, "ro")) as connection:
        connection.execute("BEGIN")
        return _read(connection, path)


def coordinates_of(study: Study) -> dict[str, NDArray[Any]]:
    """Return the labels of the cells, by axis."""
    cells = cells_of(study)
    return {name: _coordinate([cell.get(name) for cell in cells]) for name in axes_of(study)}


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    target = Path(os.path.realpath(path))
    if not target.is_file():
        raise _not_a_store(path, "which is not a file" if target.exists() else "which does not exist")
    connection, tables = connect(target, mode)
    if tables != set(_TABLES):
        connection.close()
        raise _not_a_store(path, "which is another database")
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # damaged texts fail their checksums
    return connection


def _read_parts(connection: sqlite3.Connection, path: Path) -> Parts:
    """Return header and head, or raise ValueError if they are damaged or not those of a study."""
    parts = dict(connection.execute("SELECT name, value FROM parts LIMIT 10"))
    try:
        text, head = parts["header"], Head(*loads(parts["head"]))
        if head.header != _digest(text) or _sum([head.total]) != head.total or not isinstance(head.rows, int):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"store must be undamaged, got {str(path)!r}, whose header is not as it was written") from None
    try:
        header = loads(text)
        attributes = {str(name): str(value) for name, value in header["attributes"].items()}
        study = Study.from_dict(json.loads(attributes["study"]))
        measures = {name: Measure(*map(str, header["measures"][name])) for name in study.measures}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        raise _not_a_store(path, f"which does not hold a study ({brief(str(problem))})") from None
    return Parts(text, study, attributes, measures, head)


def _read(connection: sqlite3.Connection, path: Path) -> StoredRuns:
    parts = _read_parts(connection, path)
    rows = connection.execute("SELECT cell, run, body, checksum FROM runs").fetchall()
    connection.rollback()  # a writer may go on
    keys, whole, astray = _keys(parts.study), [], 0
    damaged = np.zeros((len(keys), parts.study.runs), dtype=bool)
    for row in rows:
        if not all(isinstance(i, int) and 0 <= i < n for i, n in zip(row, damaged.shape, strict=False)):
            astray += 1
        elif _is_whole(row, keys):
            whole.append(row)
        else:
            damaged[row[:2]] = True
    missing = parts.head.rows - len(whole) - int(damaged.sum())
    is_other = not damaged.any() and _sum([row[3] for row in whole]) != parts.head.total
    try:
        values = _values(parts.study, damaged.shape, whole)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise _not_a_store(path, f"which has a run without values ({brief(str(problem))})") from None
    return StoredRuns(parts, values, damaged, max(astray, missing, int(is_other)))


def _values(study: Study, shape: tuple[int, int], rows: Sequence[Row]) -> dict[str, NDArray[Any]]:
    """Return the values of all runs, by variable; runs without a row have NaN, no text and `NOT_RUN`."""
    numbers = (*study.measures, "seconds", "finished_at")
    values: dict[str, NDArray[Any]] = {name: np.full(shape, np.nan) for name in numbers}
    values |= {"error": np.full(shape, "", dtype=object), "status": np.full(shape, NOT_RUN, dtype=np.int8)}
    bodies = [json.loads(row[2]) for row in rows]
    places = tuple(np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2).T)
    for name in numbers:
        values[name][places] = [body[name] for body in bodies]
    values["error"][places] = [str(body["error"]) for body in bodies]
    values["status"][places] = [FAILED if body["error"] else DONE for body in bodies]
    return values


def _readable_rows(connection: sqlite3.Connection, study: Study) -> Iterator[Row]:
    """Yield the runs that match their checksum, one by one: others may be in damaged pages of the file."""
    keys = _keys(study)
    for place in product(range(len(keys)), range(study.runs)):
        with suppress(sqlite3.Error):
            found = connection.execute(_ONE_RUN, place).fetchone()
            if found is not None and _is_whole(row := (*place, *found), keys):
                yield row


def _is_whole(row: Row, keys: Sequence[bytes]) -> bool:
    cell, run, body, checksum = row
    return isinstance(body, str) and checksum == _checksum(keys[cell], run, body)


def _write_new(target: Path, header: str, rows: Iterable[Row], *, overwrite: bool) -> None:
    with (
        replacing(target, overwrite=overwrite, name="store") as temporary,
        closing(sqlite3.connect(temporary, isolation_level=None)) as connection,
    ):
        try:
            connection.execute("PRAGMA journal_mode = MEMORY")  # or there would be one more file
            for table in _TABLES:
                connection.execute(table)
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
            checksums = [checksum for (checksum,) in connection.execute("SELECT checksum FROM runs")]
            head = Head(len(checksums), _sum(checksums), _digest(header))
            connection.executemany("INSERT INTO parts VALUES (?, ?)", [("header", header), ("head", json.dumps(head))])
            connection.execute("COMMIT")
        except sqlite3.Error as problem:
            raise as_os_error(problem) from None


def _check_same(stored: Study, study: Study, path: Path) -> None:
    """Raise ValueError, with the differences, for the store of another study; `runs` may be larger than there."""
    if stored.digest() != study.digest():
        there, here = (_flat(each.to_dict()) for each in (stored, study))
        keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        differences = "; ".join(f"{key} is {there.get(key)} there and {here.get(key)} here" for key in keys)
        raise ValueError(f"store must be of this study: {str(path)!r} was made for another ({differences})")
    if study.runs < stored.runs:
        raise ValueError(
            f"runs must be at least {stored.runs}, as many as {str(path)!r} has of each cell, got {study.runs}: "
            "a store never loses runs"
        )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a study by name; axes, too, if the grid is a single block."""
    plain = {key: value for key, value in settings.items() if key not in ("grid", "settings", "runs")}
    grid = settings["grid"][0] if len(settings["grid"]) == 1 else {"grid": settings["grid"]}
    return {**plain, **settings["settings"], **grid}


def _new_header(study: Study, sources: Mapping[str, str]) -> str:
    """Return the attributes of the dataset and the meaning of each measure, for readers without the run function."""
    libraries = {name: version(name) for name in LIBRARIES}
    made_with = {"adobest_pp": adobest_pp.__version__, "python": platform.python_version(), **libraries}
    attributes = {
        "title": f"study {study.name!r}",
        "study": json.dumps(study.to_dict()),
        "study_hash": study.digest(),
        "sources": json.dumps(sources),
        "accepted_sources": "[]",
        "created_at": _now(),
        "created_with": json.dumps(made_with),
    }
    declared = measures_of(study.run)
    measures = {name: declared.get(name, Measure(name)) for name in study.measures}
    return json.dumps({"attributes": attributes, "measures": measures})


def _coordinate(values: Sequence[Any]) -> NDArray[Any]:
    """Return one axis along the cells; NaN or an empty text for cells without a value."""
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    if numbers and None not in values:
        return np.array(values)
    if numbers:
        return np.array([math.nan if value is None else float(value) for value in values])
    return np.array(
        ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _keys(study: Study) -> list[bytes]:
    """Return a key for each cell, so that checksums of the runs of other cells and studies do not match."""
    about = study.digest()
    return [hashlib.sha256(canonical([about, cell]).encode()).digest() for cell in cells_of(study)]


def _checksum(key: bytes, run: int, body: str) -> str:
    return hashlib.blake2b(f"{run} {body}".encode(), key=key, digest_size=8).hexdigest()


def _digest(header: str) -> str:
    return hashlib.sha256(header.encode()).hexdigest()


def _sum(plus: Sequence[str], minus: Sequence[str] = ()) -> str:
    return f"{(sum(int(one, 16) for one in plus) - sum(int(one, 16) for one in minus)) % 2**64:016x}"


def _not_a_store(path: Path, what: str) -> ValueError:
    return ValueError(f"store must be a file made by `adobest study run`, got {brief(str(path))}, {what}")


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(
        f"store must be undamaged, got {str(path)!r}, {what}: `adobest study run` with --repair makes damaged runs "
        "again and keeps the others"
    )
