"""What a collection holds, in a file and in memory.

The file is a SQLite database of what was published and answered, in that order.

There are two tables. ``events`` has one row for each published question and for each `record`. ``parts`` has the header
(mechanism, categories, policy; written once), the state of the policy, and the head: the numbers of transactions and of
events, the checksum of the last event, and that of the state.

The checksum of an event covers its text and the checksum before it; the first covers the header. So opening the file
detects a row that was changed, removed, moved or copied from another collection. An acknowledged answer is on disk:
SQLite waits for the disk in every transaction (``synchronous=FULL``), and rolls back one that was cut short.

While a collection is open, SQLite keeps its latest transactions in ``<file>-wal`` (with an index in ``<file>-shm``),
and ``<file>-lock`` keeps a second writer out. Closing the collection leaves one file. A killed process leaves all of
them, and the next process that opens the collection recovers what is in them.
"""

import hashlib
import json
import logging
import os
import sqlite3
import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer, check_path, check_subset
from adobest_pp._files import PATIENCE, as_os_error, connect, lock, refusal, replacing, telling, unlock
from adobest_pp._text import check_labels
from adobest_pp.answers.responses import Column, Responses, checked_answers
from adobest_pp.mechanisms import Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.mixed import Mixed
from adobest_pp.mechanisms.published_question import PublishedQuestion
from adobest_pp.mechanisms.registry import loads

logger = logging.getLogger("adobest_pp")

SCHEMA = "adobest_pp.collection"
VERSION = 1
_TABLES = (
    "CREATE TABLE events (number INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum TEXT NOT NULL)",
    "CREATE TABLE parts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)


class Content(NamedTuple):
    """What is in the file of a collection."""

    header: dict[str, Any]
    events: list[dict[str, Any]]
    state: dict[str, Any]


class _Head(NamedTuple):
    """The numbers of transactions and events, and the checksums of the last event and of the state."""

    version: int
    events: int
    checksum: str
    state: str


class Store:
    """The store of one collection, open for its one writer until `close`. Build with `in_memory` or `open`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        head: _Head,
        path: Path | None = None,
        guard: sqlite3.Connection | None = None,
    ) -> None:
        self.path = path
        self._connection, self._head = connection, head
        self._file = None if path is None else os.stat(path)
        # Leaves one file and releases it; at the latest when the store is garbage collected.
        self.close = weakref.finalize(self, _close, connection, path, self._file, guard)
        # The head that an interrupted transaction would have left, if there is one.
        self._attempted: _Head | None = None

    @classmethod
    def in_memory(cls, header: dict[str, Any]) -> "Store":
        """Return a store without a file; `copy` writes one."""
        connection = sqlite3.connect(":memory:", isolation_level=None)
        for table in _TABLES:
            connection.execute(table)
        text = json.dumps({"schema": SCHEMA, "version": VERSION, **header})
        head = _Head(0, 0, _checksum("", text), _checksum("", "{}"))
        parts = {"header": text, "state": "{}", "head": json.dumps(head), "open": "no"}
        connection.executemany("INSERT INTO parts VALUES (?, ?)", parts.items())
        return cls(connection, head)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> tuple["Store", Content]:
        """Open the file of a collection for its one writer, and return its content too, or raise ValueError."""
        target, name = _target_of(path)
        with ExitStack() as on_failure:
            guard = _guard(target)
            on_failure.callback(unlock, guard, target)
            connection = _connect(target, name, "rw")
            on_failure.callback(connection.close)
            with telling(name, partial(_damaged, name)):
                content, head = _read(connection, name)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                # Before the first answer, so that a copy without <file>-wal is recognized from now on.
                connection.execute("UPDATE parts SET value = 'yes' WHERE name = 'open'")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                store = cls(connection, head, target, guard)
            on_failure.pop_all()
        return store, content

    @property
    def version(self) -> int:
        """The number of transactions, correct even after an interrupted one."""
        self._settle()
        return self._head.version

    def write(self, events: Sequence[dict[str, Any]], state: dict[str, Any] | None = None) -> None:
        """Add events and replace the state, unless it is None, in one transaction that is on disk on return.

        Raise OSError if that fails; then nothing has changed.
        """
        self._settle()
        self._check_untouched()
        rows, checksum, count = [], self._head.checksum, self._head.events
        for event in events:
            body = json.dumps(event, separators=(",", ":"))
            checksum, count = _checksum(checksum, body), count + 1
            rows.append((count, body, checksum))
        text = None if state is None else json.dumps(state, separators=(",", ":"))
        of_state = self._head.state if text is None else _checksum("", text)
        head = _Head(self._head.version + 1, count, checksum, of_state)
        self._attempted = head
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._stored_head() != self._head:
                raise OSError(
                    f"another program has changed {str(self.path)!r} while this collection had it open: close the "
                    "collection and open it again"
                )
            self._connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
            if text is not None:
                self._connection.execute("UPDATE parts SET value = ? WHERE name = 'state'", (text,))
            self._connection.execute("UPDATE parts SET value = ? WHERE name = 'head'", (json.dumps(head),))
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self._settle()
            if self._head != head:
                raise refusal(as_os_error(problem), self.path or Path(":memory:")) from None
        self._settle()

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write the whole store to a new file, or nothing."""
        with replacing(path, overwrite=False) as temporary:
            try:
                self._connection.execute("VACUUM INTO ?", (os.fspath(temporary),))
                copied = sqlite3.connect(temporary, isolation_level=None)
                copied.execute("UPDATE parts SET value = 'no' WHERE name = 'open'")
                copied.close()
            except sqlite3.Error as problem:
                raise as_os_error(problem) from None

    def _settle(self) -> None:
        """Find out whether an interrupted or failed transaction took place."""
        if self._attempted is None:
            return
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        if self._stored_head() == self._attempted:
            self._head = self._attempted
        self._attempted = None

    def _stored_head(self) -> _Head:
        (text,) = self._connection.execute("SELECT value FROM parts WHERE name = 'head'").fetchone()
        return _Head(*json.loads(text))

    def _check_untouched(self) -> None:
        """Raise OSError if the file was closed, deleted or replaced: SQLite would write to an unlinked file."""
        if self._file is None:
            return
        if not self.close.alive:
            raise OSError(f"the collection must be open to be written to, but {str(self.path)!r} was closed")
        with suppress(FileNotFoundError):
            if os.path.samestat(self._file, os.stat(self.path or "")):
                return
        raise OSError(
            f"another program has deleted or replaced {str(self.path)!r} while this collection had it open: copy the "
            "collection to a new file, which has all its answers"
        )


def _close(
    connection: sqlite3.Connection,
    path: Path | None,
    file: os.stat_result | None,
    guard: sqlite3.Connection | None,
) -> None:
    """Close a store. All answers are on disk already; now bring them into one file."""
    # If that fails, as on a full disk, whoever opens the file next recovers what is beside it.
    with suppress(sqlite3.Error, OSError):
        if path is not None and file is not None and os.path.samestat(file, os.stat(path)):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("UPDATE parts SET value = 'no' WHERE name = 'open'")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    if path is not None and guard is not None:
        unlock(guard, path)


def is_collection(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a SQLite database.

    Only SQLite may open it: on POSIX, closing a file drops all locks that this process has on it.
    """
    if not os.path.isfile(path):
        return False
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return bool(connection.execute("PRAGMA schema_version").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.DatabaseError as problem:
        return problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB


def read_content(path: str | os.PathLike[str]) -> Content:
    """Read the file of a collection, even while answers come in, or raise ValueError if it is damaged or not one."""
    target, name = _target_of(path)
    connection = _connect(target, name, "ro")
    try:
        with telling(name, partial(_damaged, name)):
            connection.execute("BEGIN")
            (is_open,) = connection.execute("SELECT value FROM parts WHERE name = 'open'").fetchone() or ("",)
            if is_open == "yes" and not _is_accompanied(target):
                logger.warning(
                    "%r was copied while it was open, without %r: its latest answers are missing.", name, f"{name}-wal"
                )
            return _read(connection, name)[0]
    finally:
        connection.close()


def _is_accompanied(target: Path) -> bool:
    """Return whether the files of an open or killed collection are beside it. An empty <file>-wal is from a reader."""
    wal = f"{target}-wal"
    return os.path.exists(f"{target}-lock") or (os.path.exists(wal) and os.path.getsize(wal) > 0)


def _connect(target: Path, name: str, mode: str) -> sqlite3.Connection:
    """Connect to a file, or raise ValueError unless its tables are those of a collection."""
    with telling(name, partial(_damaged, name)):
        connection, found = connect(target, mode)
        if found != set(_TABLES):
            connection.close()
            raise ValueError(f"path must name the file of a collection, got {name!r}, which is another database")
    return connection


def _read(connection: sqlite3.Connection, name: str) -> tuple[Content, _Head]:
    """Return the content of a store, or raise ValueError if a row was changed, removed, moved or copied in."""
    parts = dict(connection.execute("SELECT name, value FROM parts LIMIT 10"))
    if set(parts) != {"header", "state", "head", "open"} or not all(isinstance(part, str) for part in parts.values()):
        raise _damaged(name, "whose header, state or head is missing")
    header = loads(parts["header"])
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise _damaged(name, "whose header is not as it was written")
    if header.get("version") != VERSION:
        raise ValueError(f"path must name a collection of version {VERSION}, got {name!r}, which has another version")
    fields = loads(parts["head"])
    if not isinstance(fields, list) or len(fields) != len(_Head._fields):
        raise _damaged(name, "whose head is not as it was written")
    head, checksum = _Head(*fields), _checksum("", parts["header"])
    events: list[dict[str, Any]] = []
    for number, body, found in connection.execute("SELECT number, body, checksum FROM events ORDER BY number"):
        checksum = _checksum(checksum, body) if isinstance(body, str) else ""
        if number != len(events) + 1 or found != checksum:
            raise _damaged(name, f"whose row {len(events) + 1} is missing or not as it was written")
        event = json.loads(body)
        if not isinstance(event, dict):
            raise _damaged(name, f"whose row {number} is not an event")
        events.append(event)
    if (len(events), checksum, _checksum("", parts["state"])) != (head.events, head.checksum, head.state):
        raise _damaged(name, f"whose {len(events)} rows or state do not match its head")
    state = loads(parts["state"])
    if not isinstance(state, dict):
        raise _damaged(name, "whose state is not as it was written")
    return Content(header, events, state), head


def _guard(target: Path) -> sqlite3.Connection:
    """Lock a collection for its one writer, or raise ValueError."""
    try:
        return lock(target)
    except BlockingIOError:
        raise ValueError(
            f"path must not be in use by another collection or program, got {str(target)!r}: close that one first"
        ) from None
    except OSError as problem:
        raise refusal(problem, target) from None


def _target_of(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the file that a path leads to, and the path as errors name it, or raise FileNotFoundError."""
    target, name = Path(os.path.realpath(check_path(path))), os.fspath(path)
    if not target.is_file():
        raise FileNotFoundError(f"path must name the file of a collection, got {name!r}, which does not exist")
    return target, name


def _checksum(before: str, text: str) -> str:
    return hashlib.blake2b(f"{before}{text}".encode(), digest_size=16).hexdigest()


def _damaged(name: str, what: str) -> ValueError:
    return ValueError(f"path must name an undamaged collection, got {name!r}, {what}: restore it from a copy")


# What a collection holds in memory: published questions, and the answers to them in the order they came.


class QuestionAnswers:
    """Published questions, each once, and the answers to them. It only grows.

    Either all questions are of one mechanism that publishes subsets, or none of their mechanisms publishes any.
    """

    def __init__(self, categories: Sequence[str]) -> None:
        self.categories = tuple(categories)
        self.questions: list[PublishedQuestion] = []
        # Each row is the number of the question and the answer, padded with zeros to the longest.
        self._width = 1
        self._rows = Column((1 + self._width,), np.dtype(np.int64))
        # How many answers count. It is set last: an interrupted call leaves it as it was.
        self._n = 0
        # The numbers of the first `_indexed` questions, by their subset.
        self._places: dict[tuple[int, ...] | None, list[int]] = {}
        self._indexed = 0
        self._joined: tuple[tuple[int, int], Responses] | None = None

    def __len__(self) -> int:
        return self._n

    def find(self, mechanism: Mechanism, subset: tuple[int, ...] | None) -> int:
        """Return the number of a question, or −1 if it was not published."""
        while self._indexed < len(self.questions):
            self._places.setdefault(self.questions[self._indexed].subset, []).append(self._indexed)
            self._indexed += 1
        places = self._places.get(subset, ())
        return next((i for i in places if self.questions[i].mechanism == mechanism), -1)

    def publish(self, mechanism: Mechanism, subset: tuple[int, ...] | None) -> None:
        """Add a question that is new."""
        if _width(mechanism) > self._width:
            wider = Column((1 + _width(mechanism),), np.dtype(np.int64))
            rows = np.zeros((self._n, 1 + _width(mechanism)), dtype=np.int64)
            rows[:, : 1 + self._width] = self._rows.first(self._n)
            wider.write(0, rows)
            self._rows, self._width = wider, _width(mechanism)
        self.questions.append(PublishedQuestion(len(self.questions), mechanism, self.categories, subset))

    def append(self, answers: NDArray[np.int64], number: int) -> None:
        """Add checked answers to the question of this number."""
        rows = np.zeros((len(answers), 1 + self._width), dtype=np.int64)
        rows[:, 0] = number
        width = _width(self.questions[number].mechanism)
        rows[:, 1 : 1 + width] = answers.reshape(len(answers), width)
        self._rows.write(self._n, rows)
        self._n += len(answers)

    def check_answers(self, answers: Any, number: int) -> NDArray[Any]:
        """Return answers to a question as its mechanism stores them, or raise ValueError."""
        return checked_answers(self.questions[number].mechanism, self.categories, answers)

    def runs(self, first: int) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the answers from number `first` on, as runs of answers to one question, each with its number."""
        rows = self._rows.first(self._n)[first:]
        starts = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        return [(int(part[0, 0]), part[:, 1:]) for part in np.split(rows, starts[1:]) if len(part)]

    @property
    def responses(self) -> Responses:
        """All answers: of the one mechanism, under the published subsets if there are any, or of a `Mixed`."""
        joined, size = self._joined, (len(self.questions), self._n)
        # Make them again if the caller has appended to them.
        if joined is None or joined[0] != size or len(joined[1]) != self._n:
            joined = self._joined = (size, self._join())
        return joined[1]

    def _join(self) -> Responses:
        rows, first = self._rows.first(self._n), self.questions[0].mechanism
        mechanisms = list(dict.fromkeys(each.mechanism for each in self.questions))
        if len(mechanisms) > 1:
            width = 1 + max(map(_width, mechanisms))
            return Responses.from_arrays(Mixed(mechanisms), rows[:, :width], categories=self.categories)
        width = _width(first)
        answers = rows[:, 1 : 1 + width] if first.answer_dims else rows[:, 1]
        if not first.publishes_subset:
            return Responses.from_arrays(first, answers, categories=self.categories)
        masks = np.zeros((len(self.questions), first.n_categories), dtype=bool)
        for mask, question in zip(masks, self.questions, strict=True):
            mask[list(question.subset or ())] = True
        return Responses.from_arrays(first, answers, masks, rows[:, 0], self.categories)

    @classmethod
    def stored(cls, content: Content) -> "QuestionAnswers":
        """Return what the file of a collection holds, or raise ValueError if its events are inconsistent."""
        header = content.header
        mechanism = mechanism_from_settings(header.get("mechanism", {}))
        labels = header.get("categories")
        held = cls(check_labels(labels if isinstance(labels, list) else [], mechanism.n_categories))

        def answered(event: dict[str, Any]) -> int:
            """Return the number of the question that an event answers, −1 if it publishes one."""
            is_answer = "answers" in event
            return check_integer(event.get("question"), "question", 0, len(held.questions) - 1) if is_answer else -1

        for number, events in groupby(content.events, answered):
            if number < 0:
                for event in events:
                    held.publish(*question_of(event, mechanism))
                continue
            lists = [event["answers"] for event in events]
            if not all(isinstance(each, list) for each in lists):
                raise ValueError("answers must be a list")
            if any(lists):
                held.append(held.check_answers([*chain.from_iterable(lists)], number), number)
        if not held.questions:
            raise ValueError("it has not published a question")
        return held


def read_collection(path: str | os.PathLike[str]) -> "tuple[Responses, PublicColumns]":
    """Read all answers in the file of a collection, and what it keeps of people beside them, both of one moment.

    Raise ValueError if the file is damaged.
    """
    content = read_content(path)
    try:
        return QuestionAnswers.stored(content).responses, public_columns(content.events)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as reason:
        raise ValueError(f"path must name an undamaged collection, got {os.fspath(path)!r}: {reason}") from None


class PublicColumns(NamedTuple):
    """What was kept of people beside their answers, by column: ``row`` of their file, region, age, … Never x.

    Attributes
    ----------
    answered : dict of lists
        Of the people who answered, in the order of the responses; empty text where nothing was kept.
    silent : dict of lists
        Of the people who were asked and gave no answer, with the same columns.
    """

    answered: dict[str, list[str | int]]
    silent: dict[str, list[str | int]]


def public_columns(events: Sequence[dict[str, Any]]) -> PublicColumns:
    """Return the public columns in the events of a collection."""
    answered: list[dict[str, Any]] = []
    silent: list[dict[str, Any]] = []
    for event in events:
        if event.get("answers"):
            answered += [event.get("public", {})] * len(event["answers"])
        elif "public" in event:
            silent.append(event["public"])
    names = list(dict.fromkeys(name for each in (*answered, *silent) for name in each))
    return PublicColumns(
        *({name: [each.get(name, "") for each in rows] for name in names} for rows in (answered, silent))
    )


def event_of(asked: Mechanism, subset: tuple[int, ...] | None, mechanism: Mechanism) -> dict[str, Any]:
    """Return the event that publishes a question in a collection of this mechanism."""
    event: dict[str, Any] = {} if asked == mechanism else {"mechanism": asked.settings()}
    return event | ({} if subset is None else {"subset": list(subset)})


def question_of(event: dict[str, Any], mechanism: Mechanism) -> tuple[Mechanism, tuple[int, ...] | None]:
    """Return the question that an event publishes: another mechanism, or that of the collection, and the subset."""
    asked = mechanism_from_settings(event["mechanism"]) if "mechanism" in event else mechanism
    if asked.n_categories != mechanism.n_categories:
        raise ValueError("questions must all have the same number of categories")
    if not asked.publishes_subset:
        return asked, None
    mask = check_subset(event.get("subset"), asked.n_categories)
    return asked, tuple(np.flatnonzero(mask).tolist())


def _width(mechanism: Mechanism) -> int:
    """Return how many numbers an answer has."""
    return int(np.prod([*mechanism.answer_dims.values()], dtype=int))
