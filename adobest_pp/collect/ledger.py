"""A ledger beside a file of people: what they have been asked, so that nobody answers twice unnoticed.

A second answer of the same person adds its ε to that of the first, whatever file it is in and whatever column it is
about. So every collection from a file of people is entered in ``<file>.adobest-ledger``: the column, ε, the mechanism,
where the answers are, when, how many rows, and a fingerprint of the column.

The fingerprint is an HMAC-SHA-256 of the column's values in their order. It recognizes the same people whatever the
name, time or format of their file, also if others were added at its end. Its key is random and kept in the ledger:
whoever has the ledger could try all contents of a small file. The ledger is as sensitive as the file of people beside
it, gets the same permissions, and belongs where that file is kept. Collections hold neither the fingerprint nor its
key, only a random name: nothing in them depends on the values but the answers.

A file of people that was renamed or copied is recognized by the ledgers of other files in its folder. A copy in another
folder is not, and neither are people who are in two files among others.
"""

import hmac
import logging
import math
import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._files import locked_folder, replacing, seal, unseal
from adobest_pp.answers.concat import CHANCE, log_orders

logger = logging.getLogger("adobest_pp")

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
        """Return the logarithm of the number of orders of the first rows: if small, others may have the same values."""
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
    """The ledger of a file of people, as it is on disk now.

    Parameters
    ----------
    people : path
        The file of people. Links are followed, so that a file has one ledger.
    """

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
        """Return the entry of a collection, or None."""
        return next((entry for entry in self.entries if entry.collection == collection), None)

    def is_same(self, entry: Entry, values: Values) -> bool:
        """Tell whether an entry is about these values, or about the first of them."""
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
        """Yield the ledgers of other files in the folder, as far as they can be read."""
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
        """Enter a collection, or the people added to it, or raise OSError if the ledger cannot be written.

        With `ask_again`, warn if it cannot be written.
        """
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
            return "There is no ledger beside the file of people: keep account of their budgets yourself."
        columns: dict[str, list[str]] = {}
        for entry in self.entries:
            columns.setdefault(entry.column, []).append(f"{entry.epsilon:g}")
        n, parts = len(self.entries), "; ".join(f"{name}: {' + '.join(each)}" for name, each in columns.items())
        how = "in one collection" if n == 1 else f"in {n} collections, whose budgets add up ({parts})"
        return f"Each person in the file has spent ε = {self.total:g} in total, {how}; {self.path.name} keeps account."


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
