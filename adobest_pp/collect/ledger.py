"""What the people of a file have been asked: a ledger beside that file, so that nobody answers twice unnoticed.

A second answer of the same person adds its ε to that of the first, whatever file it is written to and whatever column
it is about. So every collection from a file of people is entered in ``<file>.adobest-ledger``: the column, ε, the
mechanism, where the answers are, when, how many rows, and a fingerprint of the column.

The fingerprint is an HMAC-SHA-256 of the column's values in their order. It recognizes the same people whatever the
name, the time or the format of their file, and those who have been added at its end. Its key is random and kept in the
ledger: whoever has the ledger could try all contents of a small file. The ledger is no more sensitive than the file of
people that it lies beside, gets the same permissions, and must be kept where that file is kept. Collections hold
neither the fingerprint nor its key, only a random name: nothing in them depends on the values but the answers.

A file of people that was renamed or copied is recognized by the ledgers of other files in its folder. A copy in another
folder has no ledger there, and people who are in two files among others are not recognized.
"""

import hmac
import logging
import math
import os
import secrets
import stat
from collections import Counter
from collections.abc import Sequence
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
    """The values of a column, as codes of labels, of which only the fingerprint is kept."""

    def __init__(self, codes: NDArray[np.int64], labels: Sequence[str]) -> None:
        texts = [*(label.encode() for label in labels), b""]  # −1 is that of an empty value
        parts = [len(text).to_bytes(4, "big") + text for text in texts]
        self._parts = [parts[code] for code in codes.tolist()]

    def __len__(self) -> int:
        return len(self._parts)

    def orders(self, rows: int) -> float:
        """Return the logarithm of the number of orders of the first rows: with few, others may have the same values."""
        return log_orders(np.array([*Counter(self._parts[:rows]).values()], dtype=np.int64))

    def fingerprint(self, key: bytes, rows: int) -> str:
        """Return the fingerprint of the first rows."""
        return hmac.digest(key, b"".join(self._parts[:rows]), "sha256").hex()


class Entry(NamedTuple):
    """One collection: its random name, what was asked, where the answers are, and the people that it is about."""

    collection: str
    column: str
    epsilon: float
    mechanism: str
    out: str | None
    began: str
    rows: int
    fingerprint: str

    def in_words(self) -> str:
        """Return when, with what budget, and where the answers are."""
        where = "kept in no file" if self.out is None else f"answers in {self.out!r}"
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
                f"the ledger {str(self.path)!r} must be as it was written, got another: restore it from a copy, or "
                "remove it if nobody of the file of people has answered yet"
            ) from None

    @property
    def total(self) -> float:
        """The sum of the budgets of all collections: what a person has spent at most."""
        return sum(entry.epsilon for entry in self.entries)

    def find(self, collection: object) -> Entry | None:
        """Return the entry of a collection, or None."""
        return next((entry for entry in self.entries if entry.collection == collection), None)

    def is_same(self, entry: Entry, values: Values) -> bool:
        """Tell whether these are the values that an entry is about, or those with others behind them."""
        return values.fingerprint(self.key, entry.rows) == entry.fingerprint

    def confirm(self, entry: Entry, values: Values, ask_again: bool) -> None:
        """Raise ValueError if the people have been asked the same before, unless they are to be asked again."""
        column, epsilon = entry.column, entry.epsilon
        same = [each for each in self.entries if each.column == column or self.is_same(each, values)]
        if ask_again:
            return
        if not same:
            self._confirm_no_copy(entry, values)
            return
        before = "; ".join(entry.in_words() for entry in same[-2:])
        hint = "" if self.is_same(same[-1], values) else ", or move that ledger elsewhere if they are other people"
        raise ValueError(
            f"ask_again (--ask-again) must be given to ask the people of {str(self._people)!r} once more: "
            f"{self.path.name!r} says that they were asked before ({before}), and their budgets would add up to "
            f"ε = {self.total + epsilon:g}; to continue a collection, name its file as out{hint}"
        )

    def _confirm_no_copy(self, entry: Entry, values: Values) -> None:
        """Raise ValueError if the ledger of another file in the folder knows these people, and that cannot be chance.

        That file was renamed or copied, or is a link. With few people or values, others may have the same ones.
        """
        for path in sorted(self.path.parent.glob(f"*{SUFFIX}")):
            if path == self.path or not path.is_file():
                continue
            other = copy(self)
            other.path, other.entries = path, []
            try:
                other._read()
            except (ValueError, OSError):  # not about these people, or nobody can tell
                continue
            for known in other.entries:
                is_same = known.collection != entry.collection and other.is_same(known, values)
                if is_same and values.orders(known.rows) > math.log(1 / CHANCE):
                    raise ValueError(
                        f"ask_again (--ask-again) must be given to ask the people of {str(self._people)!r} once more: "
                        f"{path.name!r} says that the same ones were asked before, under another name of their file "
                        f"({known.in_words()}), and their budgets would add up to ε = "
                        f"{other.total + entry.epsilon:g}; to continue a collection, name its file as out"
                    )

    def enter(self, entry: Entry, values: Values, ask_again: bool) -> None:
        """Enter a collection, or its added people, or raise OSError if the ledger cannot be written.

        With `ask_again`, a ledger that cannot be written is left as it is, with a warning.
        """
        try:
            with locked_folder(self.path.parent):
                self._read()
                if self.find(entry.collection) is None:
                    self.confirm(entry, values, ask_again)
                fingerprint = values.fingerprint(self.key, len(values))
                others = [each for each in self.entries if each.collection != entry.collection]
                entries = [*others, entry._replace(rows=len(values), fingerprint=fingerprint)]
                self._write(entries)
                self.entries = entries
        except OSError as problem:
            reason = problem.strerror or str(problem)
            if ask_again:
                logger.warning("Keep account of this budget yourself: it is in no ledger (%s).", reason)
            else:
                raise OSError(
                    problem.errno or 0,
                    f"the ledger {str(self.path)!r} could not be written, so nobody was asked ({reason}): copy the "
                    "file of people to a folder that can be written to, or give ask_again (--ask-again) and keep "
                    "account of the budget yourself",
                ) from None

    def _write(self, entries: list[Entry]) -> None:
        content = seal({"schema": SCHEMA, "key": self.key.hex(), "collections": [each._asdict() for each in entries]})
        with replacing(self.path) as temporary:
            os.chmod(temporary, stat.S_IMODE(self._people.stat().st_mode) & 0o666 | 0o600)
            temporary.write_bytes(content)

    def in_words(self) -> str:
        """Return a sentence on what the people have spent in all."""
        if not self.entries:
            return "There is no ledger beside the file of people: keep account of their budgets yourself."
        columns: dict[str, list[str]] = {}
        for entry in self.entries:
            columns.setdefault(entry.column, []).append(f"{entry.epsilon:g}")
        n, parts = len(self.entries), "; ".join(f"{name}: {' + '.join(each)}" for name, each in columns.items())
        how = "in one collection" if n == 1 else f"in {n} collections, whose budgets add up ({parts})"
        return f"Each person in the file has spent ε = {self.total:g} in all, {how}; {self.path.name} keeps account."


def _checked(entry: Entry) -> Entry:
    """Return an entry that was read, or raise ValueError if it is none."""
    texts = (entry.collection, entry.column, entry.mechanism, entry.began, entry.fingerprint, entry.out or "")
    if not all(isinstance(each, str) for each in texts) or not isinstance(entry.epsilon, float):
        raise ValueError("an entry must have texts and a budget")
    check_integer(entry.rows, "rows", 0)
    return entry


def new_entry(column: str, epsilon: float, mechanism: str, out: str | os.PathLike[str] | None) -> Entry:
    """Return the entry of a collection that begins now, without its people."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    where = None if out is None else os.path.abspath(out)
    return Entry(secrets.token_hex(16), column, float(epsilon), mechanism, where, began, 0, "")
