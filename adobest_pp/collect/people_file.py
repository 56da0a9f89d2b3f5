"""A collection from a file of people: each value is randomized as that person's device would do it, one at a time.

The values are read, randomized with the exact sampler and forgotten. They are never written, logged or shown, not even
in an error.

A collection with a file can be stopped at any moment and resumed. An answer counts, and its budget is spent, once it is
in that file. Before that it is only in the memory of this process. If the process ends, nobody has seen that answer,
and the person gives only the one that is drawn later. So answers may be written a few at a time.

Beyond the answers, the file must reveal nothing about the values. It holds the column, the number of rows, how many
have no value (not which, unless public columns are kept), when the file of people was last changed, and a random name.
It holds neither a checksum nor the size of the file of people: with few categories, either could reveal how many people
are in each. With `keep`, it holds the row and the named public columns of everybody, also of those without a value.
"""

import hmac
import logging
import math
import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_flag, check_integer, check_path
from adobest_pp._files import locked_folder, replacing, seal, unseal
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp.answers.concat import CHANCE, log_orders
from adobest_pp.collect.collection import Collection
from adobest_pp.collect.people_table import NO_VALUE, as_categories, read_texts
from adobest_pp.collect.policies import DEFAULT_MECHANISM, mechanism_name, policy_by_name
from adobest_pp.design.utilities import UTILITY_CODES, Utility
from adobest_pp.mechanisms.published_question import PublishedQuestion

logger = logging.getLogger("adobest_pp")

# A ledger beside a file of people: what they have been asked, so that nobody answers twice unnoticed.
#
# A second answer of the same person adds its ε to that of the first, whatever its file and column. So every collection
# from a file of people is entered in ``<file>.adobest-ledger``: its random name, the column, ε, the mechanism, where
# the answers are, when it began, how many rows, and a fingerprint of the column.
#
# The fingerprint is an HMAC-SHA-256 of the column's values in their order. It recognizes the same people whatever the
# name, time or format of their file, even if others were added at its end. Its key is random and kept in the ledger, so
# somebody who has the ledger could try all contents of a small file. The ledger is as sensitive as the file of people
# beside it, gets the same permissions, and belongs where that file is kept. Collections have neither the fingerprint
# nor its key, only the random name: nothing in them but the answers depends on the values.
#
# A file of people that was renamed or copied is recognized by the ledgers of other files in its folder. A copy in
# another folder is not, and neither are people who are in two files among others.

SUFFIX = ".adobest-ledger"
SCHEMA = "adobest_pp.ledger"
_LARGEST = 16_000_000


class Values:
    """The values of a column, given as codes of labels. Only their fingerprint is ever written."""

    def __init__(self, codes: NDArray[np.int64], labels: Sequence[str]) -> None:
        texts = [*(label.encode() for label in labels), b""]  # the last is that of an empty value, −1
        parts = [len(text).to_bytes(4, "big") + text for text in texts]
        self._parts = [parts[code] for code in codes.tolist()]

    def __len__(self) -> int:
        return len(self._parts)

    def orders(self, rows: int) -> float:
        """Return the logarithm of the number of orders of the first rows; if small, others may have equal values."""
        return log_orders(np.array([*Counter(self._parts[:rows]).values()], dtype=np.int64))

    def fingerprint(self, key: bytes, rows: int) -> str:
        """Return the fingerprint of the first rows."""
        return hmac.digest(key, b"".join(self._parts[:rows]), "sha256").hex()


class Entry(NamedTuple):
    """One collection: its random name, what was asked, where the answers are, and who was asked."""

    collection: str
    column: str
    epsilon: float
    mechanism: str
    out: str | None
    began: str
    rows: int
    fingerprint: str

    def in_words(self) -> str:
        """Return what was asked, with what budget, when, and where the answers are."""
        where = "not kept in a file" if self.out is None else f"answers in {self.out!r}"
        return f"{self.column!r}, ε = {self.epsilon:g}, {self.began[:10]}, {where}"


class Ledger:
    """The ledger of a file of people, as it is on disk now. Links are followed, so that a file has one ledger."""

    def __init__(self, people: str | os.PathLike[str]) -> None:
        self._people = Path(os.path.realpath(people))
        self.path = self._people.with_name(self._people.name + SUFFIX)
        self.key = secrets.token_bytes(32)
        self.entries: list[Entry] = []
        self._read()

    def _read(self) -> None:
        try:
            with self.path.open("rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ValueError
                content: Any = unseal(file.read(_LARGEST))
            if content["schema"] != SCHEMA:
                raise ValueError
            self.key = bytes.fromhex(content["key"])
            self.entries = [_checked(Entry(**entry)) for entry in content["collections"]]
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IsADirectoryError):
            raise ValueError(
                f"the ledger {str(self.path)!r} is damaged: restore it from a copy, or remove it if nobody in the file "
                "of people has answered yet"
            ) from None

    @property
    def total(self) -> float:
        """The sum of the budgets of all collections: what a person has spent at most."""
        return sum(entry.epsilon for entry in self.entries)

    def find(self, collection: object) -> Entry | None:
        """Return the entry of the collection with this name, or None."""
        return next((entry for entry in self.entries if entry.collection == collection), None)

    def is_same(self, entry: Entry, values: Values) -> bool:
        """Return whether an entry is about these values, or about the first of them."""
        return values.fingerprint(self.key, entry.rows) == entry.fingerprint

    def confirm(self, entry: Entry, values: Values, ask_again: bool) -> None:
        """Raise ValueError if the people have been asked the same before, unless they are to be asked again."""
        if ask_again:
            return
        same = [each for each in self.entries if each.column == entry.column or self.is_same(each, values)]
        if same:
            hint = "" if self.is_same(same[-1], values) else ", or move that ledger elsewhere if they are other people"
            raise self._asked_before(self, same[-2:], entry, hint)
        for other in self._others():
            for known in other.entries:
                # The file was renamed or copied, or is a link; but different people may share a few values by chance.
                is_same = known.collection != entry.collection and other.is_same(known, values)
                if is_same and values.orders(known.rows) > math.log(1 / CHANCE):
                    raise self._asked_before(other, [known], entry, "")

    def _others(self) -> Iterator["Ledger"]:
        """Yield the readable ledgers of other files in the folder."""
        for path in sorted(self.path.parent.glob(f"*{SUFFIX}")):
            if path != self.path and path.is_file():
                other = copy(self)
                other.path, other.entries = path, []
                with suppress(ValueError, OSError):
                    other._read()
                    yield other

    def _asked_before(self, ledger: "Ledger", entries: list[Entry], entry: Entry, hint: str) -> ValueError:
        before = "; ".join(each.in_words() for each in entries)
        return ValueError(
            f"ask_again (--ask-again) must be given to ask the people of {str(self._people)!r} once more: "
            f"{ledger.path.name!r} says that they were asked before ({before}), and their budgets would add up to "
            f"ε = {ledger.total + entry.epsilon:g}; to continue a collection, name its file as out{hint}"
        )

    def enter(self, entry: Entry, values: Values, ask_again: bool) -> None:
        """Enter a collection, or the people added to it. If that fails, raise OSError, or warn with `ask_again`."""
        try:
            with locked_folder(self.path.parent):
                self._read()
                if self.find(entry.collection) is None:
                    self.confirm(entry, values, ask_again)
                fingerprint = values.fingerprint(self.key, len(values))
                others = [each for each in self.entries if each.collection != entry.collection]
                entries = [*others, entry._replace(rows=len(values), fingerprint=fingerprint)]
                plain = [each._asdict() for each in entries]
                with replacing(self.path) as temporary:
                    os.chmod(temporary, stat.S_IMODE(self._people.stat().st_mode) & 0o666 | 0o600)
                    temporary.write_bytes(seal({"schema": SCHEMA, "key": self.key.hex(), "collections": plain}))
                self.entries = entries
        except OSError as problem:
            reason = problem.strerror or str(problem)
            if ask_again:
                logger.warning("Keep account of this budget yourself: the ledger could not be written (%s).", reason)
            else:
                raise OSError(
                    problem.errno or 0,
                    f"the ledger {str(self.path)!r} could not be written, so nobody was asked ({reason}): copy the "
                    "file of people to a folder that can be written to, or give ask_again (--ask-again) and keep "
                    "account of the budget yourself",
                ) from None

    def in_words(self) -> str:
        """Return a sentence on what the people have spent in total."""
        if not self.entries:
            return "There is no ledger beside the file of people: keep track of their budgets yourself."
        columns: dict[str, list[str]] = {}
        for entry in self.entries:
            columns.setdefault(entry.column, []).append(f"{entry.epsilon:g}")
        n, parts = len(self.entries), "; ".join(f"{name}: {' + '.join(each)}" for name, each in columns.items())
        how = "in one collection" if n == 1 else f"in {n} collections, whose budgets add up ({parts})"
        return f"Each person in the file has spent ε = {self.total:g} in total, {how}; {self.path.name} records it."


def _checked(entry: Entry) -> Entry:
    """Return an entry that was read, or raise ValueError if its fields have other types."""
    texts = (entry.collection, entry.column, entry.mechanism, entry.began, entry.fingerprint, entry.out or "")
    if not all(isinstance(each, str) for each in texts) or not isinstance(entry.epsilon, float):
        raise ValueError("an entry must have texts and a budget")
    check_integer(entry.rows, "rows", 0)
    return entry


def new_entry(
    collection: str, column: str, epsilon: float, mechanism: str, out: str | os.PathLike[str] | None
) -> Entry:
    """Return the entry of a collection that begins now, without its people."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    where = None if out is None else os.path.abspath(out)
    return Entry(collection, column, float(epsilon), mechanism, where, began, 0, "")


# The collection.

# Answers wait at most this many seconds before they are written.
PATIENCE = 0.2
# The column of public columns that has the number of the row in the file of people, from 1.
ROW = "row"


@raising_interrupts()
def collect_csv(
    path: str | os.PathLike[str],
    column: str,
    epsilon: float,
    mechanism: str = DEFAULT_MECHANISM,
    categories: Sequence[str] | None = None,
    progressbar: bool = True,
    out: str | os.PathLike[str] | None = None,
    ask_again: bool = False,
    random_seed: int | None = None,
    keep: Sequence[str] = (),
    ignore_case: bool = False,
    missing: Sequence[str] = (),
    **options: Any,
) -> Collection:
    r"""Randomize one column of a file of people, each value by its own exact draw.

    A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or for
    data that you hold anyway.

    Parameters
    ----------
    path : path
        A CSV file with a header, or a Parquet, Arrow or Excel file; `adobest_pp.collect.people_table` has the rules.
    column : str
        The column with the private values. Rows without a value are skipped; `did_not_answer` counts them.
    epsilon : float
        Budget of one answer.
    mechanism : str, default "subset-selection"
        What to ask with: any registered mechanism that K and ε build, such as ``"srr"``, ``"unary-encoding"``,
        ``"local-hashing"`` or ``"projective-geometry-response"``; ``"rrrr"``, which adapts as in the paper; or
        ``"design"``, rounds of the best question.
    categories : sequence of str, optional
        The possible values. By default they are the distinct values in the file. The list then reveals that someone in
        the file has each of them, so name the categories if that is sensitive.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.
    out : path, optional
        A new file to keep the collection in. If it is the file of the same collection, that collection is resumed:
        people who have answered are not asked again, and those who were added at the end of their file are.
    ask_again : bool, default False
        Whether to ask people again who, by the ledger beside their file, were asked about this column before. Their
        budgets add up. Also continues if the ledger cannot be written.
    random_seed : int, optional
        Seed of the samplers. It plays no part in anyone's privacy.
    keep : sequence of str
        Public columns of the file to keep with the answers, such as region and age, together with the number of the
        row. `Collection.public` returns them. The file of the collection then also shows who gave no answer.
    ignore_case : bool, default False
        Whether to read values that differ from one of `categories` only in capitals, spaces or the form of characters
        as that category.
    missing : sequence of str
        Values that mean that a person did not answer, such as ``"n/a"``.
    **options
        Settings of the mechanism, such as `kappa` of RRRR, and of its policy: `AdaptiveSubset` for RRRR, `Rounds` for
        ``"design"``, else `SameQuestion`.

    Returns
    -------
    Collection
        With the responses, and ready for more.

    Warns
    -----
    A warning is logged if the people of the file have answered before, about this or another column: only the sum of
    the budgets bounds what their answers reveal.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from adobest_pp.collect import collect_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "people.csv"
    ...     _ = path.write_text("id,vote\n1,yes\n2,no\n3,\n4,yes\n")
    ...     collection = collect_csv(path, "vote", epsilon=1.0, categories=["yes", "no", "unsure"])
    >>> len(collection), collection.did_not_answer
    (3, 1)
    """
    check_flag(ask_again, "ask_again")
    public = _check_keep(keep)
    texts_by_column = read_texts(path, [column], public)
    values, labels = as_categories(texts_by_column.pop(column), column, categories, ignore_case, missing)
    x = values[values != NO_VALUE]
    if not x.size:
        raise ValueError(f"path must name a file with a value of at least one person, got none in {os.fspath(path)!r}")
    people = {"column": column, "modified": os.stat(path).st_mtime_ns, "rows": values.size}
    people["empty"] = values.size - x.size
    people |= {"keep": public} if public else {}
    kept_columns = texts_by_column if public else None

    def begin(n_people: int = x.size) -> Collection:
        policy = policy_by_name(mechanism, len(labels), epsilon, n_people, options)
        return Collection.create(policy=policy, categories=labels, random_seed=random_seed)

    kept, utility = begin(), options.get("utility")
    own = utility if isinstance(utility, Utility) and utility.name not in UTILITY_CODES else None
    texts, ledger = Values(values, labels), Ledger(path)
    if out is not None and os.path.realpath(check_path(out, "out")) in (os.path.realpath(path), str(ledger.path)):
        raise ValueError(f"out must not be the file of the people or its ledger, got {os.fspath(out)!r}")
    entry = new_entry(kept.name, column, epsilon, mechanism_name(mechanism), out)
    is_new = out is None or not os.path.exists(out)
    if is_new:
        ledger.confirm(entry, texts, ask_again)
        kept.note_people(people)
    if out is None:
        _ask(kept, values, kept_columns, progressbar)
        # Only now does anybody see the answers.
        _enter(ledger, entry, texts, ask_again)
        return kept
    if is_new:
        kept.copy(out)
        kept = Collection.open(out, own)
    else:
        kept = _resumed(out, own, begin, people, ledger, texts)
    try:
        try:
            _enter(ledger, ledger.find(kept.name) or entry._replace(collection=kept.name), texts, ask_again)
        except BaseException:
            if is_new:  # nobody has been asked
                kept.close()
                with suppress(OSError):
                    os.unlink(os.path.realpath(out))
            raise
        _ask(kept, values, kept_columns, progressbar)
    except BaseException:
        kept.close()
        raise
    return kept


def _enter(ledger: Ledger, entry: Entry, texts: Values, ask_again: bool) -> None:
    """Add or update the entry of a collection, and warn if people have spent more than its budget."""
    known = ledger.find(entry.collection)
    if known is None or known.rows < len(texts):
        ledger.enter(entry, texts, ask_again)
    if known is None and len(ledger.entries) > 1:
        logger.warning("%s", ledger.in_words())


def _resumed(
    out: str | os.PathLike[str],
    own: Utility | None,
    begin: Callable[..., Collection],
    source: dict[str, Any],
    ledger: Ledger,
    texts: Values,
) -> Collection:
    """Return the collection in a file, or raise FileExistsError if it is another one."""
    name = os.fspath(out)
    if not os.path.isfile(out):
        raise ValueError(f"out must name a new file, or one to resume, got {name!r}, which is neither")
    try:
        saved = Collection.open(out, own)
    except ValueError as reason:
        raise FileExistsError(f"out must name a new file, or a collection to resume: {reason}") from None
    try:
        # People who were added do not change what was planned.
        wanted = begin(saved.settings["n_people"]) if "n_people" in saved.settings else begin()
        differs = _other_people(saved, source, ledger, texts)
        differs += [key for key in wanted.settings if wanted.settings[key] != saved.settings.get(key)]
        differs += ["categories"] * (saved.categories != wanted.categories)
        if differs:
            raise FileExistsError(
                f"out must name a new file, or one of the same people and settings to resume, got {name!r}, which "
                f"differs in {', '.join(differs)}"
            )
        saved.note_people(source)
    except BaseException:
        saved.close()
        raise
    return saved


def _other_people(saved: Collection, source: dict[str, Any], ledger: Ledger, texts: Values) -> list[str]:
    """Return how the people of a saved collection differ from those of the file, apart from people added at its end."""
    before = saved.people
    if before is None:
        return ["the people"]
    different = [key for key in ("column", "keep") if before.get(key) != source.get(key)]
    if different:
        return different
    known = ledger.find(saved.name)
    if known is not None:
        same = ledger.is_same(known, texts)
        return [] if same else [f"people (of the {known.rows} rows, some were changed, moved or removed)"]
    if before["asked"] == 0:
        return []  # stopped before the collection was entered
    # The ledger is lost: only the time of the file identifies it.
    names = {"modified": f"people (the file was changed, and {ledger.path.name!r} does not know this collection)"}
    names["empty"] = "people without a value"
    return [names.get(key, key) for key in source if before.get(key) != source[key]]


def _check_keep(keep: Any) -> list[str]:
    names: list[Any] = list(keep) if isinstance(keep, list | tuple) else [None]
    if not all(isinstance(name, str) for name in names) or ROW in names:
        raise ValueError(f"keep must be names of public columns other than {ROW!r}, got {brief(keep)}")
    return [name.strip() for name in names]


def _ask(
    collection: Collection, values: NDArray[np.int64], columns: dict[str, list[str]] | None, progressbar: bool
) -> None:
    """Ask everyone with a value who has not answered yet, in the order of the file."""
    asked = (collection.people or {"asked": 0})["asked"]
    noted = set(collection.public.silent.get(ROW, ()))
    todo, person = [], 0
    for row, x in enumerate(values.tolist(), start=1):
        public = None if columns is None else {ROW: row} | {name: each[row - 1] for name, each in columns.items()}
        if x == NO_VALUE:
            todo += [] if row in noted else [Asked(x, public)]
        else:
            todo += [] if person < asked else [Asked(x, public, person)]
            person += 1
    with SlowProgress(len(todo), "collecting", progressbar) as progress:
        ask_in_turn(collection, todo, lambda: progress.advance(1))


class Asked(NamedTuple):
    """Somebody to ask: the category (`NO_VALUE` if none), the public columns, and the place in the file of people."""

    x: int
    public: dict[str, str | int] | None
    person: int | None = None

    def __repr__(self) -> str:
        return "<Asked: x is not shown>"


def ask_in_turn(
    collection: Collection,
    people: Sequence[Asked],
    advance: Callable[[], None],
    draw: Callable[[PublishedQuestion, int], Any] = PublishedQuestion.privatize,
) -> None:
    """Randomize everybody's value and record who has none. Answers that nobody has seen are written a few at a time."""
    with collection.holding():
        written = time.monotonic()
        for each in people:
            if each.x != NO_VALUE:
                question = collection.next_question()
                collection.record(draw(question, each.x), question, person=each.person, public=each.public)
            elif each.public is not None:
                collection.record_silent(each.public)
            advance()
            if time.monotonic() - written > PATIENCE:
                collection.flush()
                written = time.monotonic()
