"""A collection from a file of people: each value is randomized as that person's device would do it, one at a time.

The private values are read, randomized with the exact sampler and forgotten. They are never written, logged or shown,
not even in an error.

With a file to keep the answers in, a collection can be stopped at any moment and resumed. A person's answer counts, and
the budget is spent, once the answer is in that file. Before that it is only in the memory of this process: if the
process ends, nobody has seen that answer, and the one that is drawn for this person later is the only one. So answers
may be written a few at a time.

The file must tell nothing about the values but the answers. It names what was asked: the column, the number of rows and
of those without a value (not which: people are counted past them), when the file of people was last changed, and a
random name. It holds neither a checksum nor the size of that file: with few categories, either could tell how many
people are in each.

A ledger beside the file of people (`adobest_pp.collect.ledger`) knows that random name. By it the people of a
collection are recognized whatever the time and the format of their file, and nobody is asked the same twice unnoticed.
"""

import csv
import logging
import os
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_flag, check_path
from adobest_pp._labels import appearance, check_labels, flaw_of
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp.collect.collection import Collection
from adobest_pp.collect.ledger import Entry, Ledger, Values, new_entry
from adobest_pp.collect.policies import DEFAULT_MECHANISM, mechanism_name, policy_by_name
from adobest_pp.design.subsets import UTILITY_CODES
from adobest_pp.design.utilities import Utility

logger = logging.getLogger("adobest_pp")

# Answers wait at most this many seconds before they are written.
PATIENCE = 0.2


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
    **options: Any,
) -> Collection:
    r"""Collect one column of a file of people, each value by its own exact randomized answer.

    Parameters
    ----------
    path : path
        A CSV file with a header, or a Parquet or Arrow file; `adobest_pp.collect.people_file` has the rules.
    column : str
        The column with the private values. Rows without a value are skipped; `did_not_answer` counts them.
    epsilon : float
        Budget of one answer.
    mechanism : str, default "subset-selection"
        What to ask with: any registered mechanism that K and ε build, such as ``"srr"``, ``"unary-encoding"``,
        ``"local-hashing"`` or ``"hadamard-response"``; ``"rrrr"``, which adapts as in the paper; or ``"design"``,
        rounds of the best question.
    categories : sequence of str, optional
        The possible values. By default they are the distinct values in the file. The list of categories then tells that
        someone in the file has each of them, so name the categories wherever that is sensitive.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.
    out : path, optional
        A new file to keep the collection in. If it is the file of the same collection, stopped at any moment, that
        collection is resumed: people who have answered are not asked again, and those who have been added at the end of
        their file are.
    ask_again : bool, default False
        Whether to ask people once more who were asked for this column before, as the ledger beside their file says.
        Their budgets add up. Also goes on where the ledger cannot be written.
    random_seed : int, optional
        Seed of the samplers. It plays no part in anyone's privacy.
    **options
        Settings of the mechanism, such as `kappa` of RRRR, and of its policy: `AdaptiveSubset` for RRRR, `Rounds` for
        ``"design"``, else `SameQuestion`.

    Returns
    -------
    Collection
        With the responses, and ready to go on. Its `did_not_answer` is the number of people without a value.

    Warns
    -----
    A warning is logged if the people of the file have answered before, about this or another column: what each of them
    tells about themselves is bounded by the sum of the budgets.

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
    check_path(path)
    check_flag(ask_again, "ask_again")
    source = {"column": column, "modified": os.stat(path).st_mtime_ns} if os.path.isfile(path) else {}
    values, labels = read_column(path, column, categories)
    x = values[values != NO_VALUE]
    if not x.size:
        raise ValueError(f"path must name a file with a value of at least one person, got none in {os.fspath(path)!r}")
    people = source | {"rows": values.size, "empty": values.size - x.size}

    def begin(n_people: int = x.size) -> Collection:
        policy = policy_by_name(mechanism, len(labels), epsilon, n_people, options)
        return Collection.create(policy=policy, categories=labels, random_seed=random_seed)

    wanted, utility = begin(), options.get("utility")
    own = utility if isinstance(utility, Utility) and utility.name not in UTILITY_CODES else None
    texts, ledger = Values(values, labels), Ledger(path)
    if out is not None and os.path.realpath(check_path(out, "out")) in (os.path.realpath(path), str(ledger.path)):
        raise ValueError(f"out must not be the file of the people or its ledger, got {os.fspath(out)!r}")
    entry = new_entry(column, epsilon, mechanism_name(mechanism), out)
    if out is None:
        ledger.confirm(entry, texts, ask_again)
        wanted.note_people(people)
        _ask(wanted, x, progressbar)
        # Only now does anybody see the answers.
        _enter(ledger, entry, texts, ask_again)
        return wanted
    is_new = not os.path.exists(out)
    if is_new:
        ledger.confirm(entry, texts, ask_again)
        wanted.note_people(people)
        wanted.copy(out)
        kept = Collection.open(out, own)
        entry = entry._replace(collection=kept.name)
    else:
        kept = _resumed(out, own, begin, people, ledger, texts)
        entry = ledger.find(kept.name) or entry._replace(collection=kept.name)
    try:
        _enter(ledger, entry, texts, ask_again)
    except BaseException:
        kept.close()
        if is_new:  # nobody has been asked
            with suppress(OSError):
                os.unlink(os.path.realpath(out))
        raise
    try:
        _ask(kept, x, progressbar)
    except BaseException:
        kept.close()
        raise
    return kept


def _enter(ledger: Ledger, entry: Entry, texts: Values, ask_again: bool) -> None:
    """Make or bring up to date the entry of a collection, and warn if people have spent more than its budget."""
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
        raise ValueError(f"out must name a new file, or one to go on with, got {name!r}, which is neither")
    try:
        saved = Collection.open(out, own)
    except ValueError as reason:
        raise FileExistsError(f"out must name a new file, or a collection to go on with: {reason}") from None
    try:
        # People who were added do not change what was planned.
        wanted = begin(saved.settings["n_people"]) if "n_people" in saved.settings else begin()
        differs = _other_people(saved, source, ledger, texts)
        differs += [key for key in wanted.settings if wanted.settings[key] != saved.settings.get(key)]
        differs += ["categories"] * (saved.categories != wanted.categories)
        if differs:
            raise FileExistsError(
                f"out must name a new file, or one of the same people and settings to go on with, got {name!r}, which "
                f"differs in {', '.join(differs)}"
            )
        saved.note_people(source)
    except BaseException:
        saved.close()
        raise
    return saved


def _other_people(saved: Collection, source: dict[str, Any], ledger: Ledger, texts: Values) -> list[str]:
    """Return how the people of a saved collection differ from those of the file, other than by some at its end."""
    before = saved.people
    if before is None:
        return ["the people"]
    if before.get("column") != source["column"]:
        return ["column"]
    known = ledger.find(saved.name)
    if known is not None:
        same = ledger.is_same(known, texts)
        return [] if same else [f"people (of the {known.rows} rows, some were changed, moved or removed)"]
    if before["asked"] == 0:
        return []  # stopped before the collection was entered
    # The ledger is lost: only the file's time is left to recognize it by.
    names = {"modified": f"people (the file was changed, and {ledger.path.name!r} does not know this collection)"}
    names["empty"] = "people without a value"
    return [names.get(key, key) for key in source if before.get(key) != source[key]]


def _ask(collection: Collection, x: NDArray[np.int64], progressbar: bool) -> None:
    """Ask everyone with a value who has not answered yet, in the order of the file."""
    first = (collection.people or {"asked": 0})["asked"]
    with SlowProgress(x.size - first, "collecting", progressbar) as progress, collection.holding():
        written = time.monotonic()
        for person in range(first, x.size):
            question = collection.next_question()
            collection.record(question.privatize(x[person]), question, person=person)
            progress.advance(1)
            if time.monotonic() - written > PATIENCE:
                collection.flush()
                written = time.monotonic()


# One column of a CSV file of people, as category indices. No value of a person is ever shown, not even in an error.
#
# The rules: the file is UTF-8 with a header. Every row has as many cells as the header; in a file of one column, a
# blank
# line is an empty value. The column's name occurs once. White space at the ends of names and values is dropped and
# characters are composed (Unicode NFC); otherwise they must be equal, capitals included. An empty value is that of a
# person who did not answer. A value that holds a control character or that only looks like another one raises
# ValueError, which names the number of the person.
#
# Parquet and Arrow files are read by column, too (`table_column`), under the same rules for values.


# The index of somebody who did not answer.
NO_VALUE = -1


def read_column(
    path: str | os.PathLike[str], column: str, categories: Sequence[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the column as category indices, −1 for an empty value, and the labels.

    Parameters
    ----------
    path : path
        The file: CSV, or Parquet or Arrow by its ending.
    column : str
        Its column with the private values.
    categories : sequence of str or None
        The possible values; with None, the distinct values in the file, sorted.
    """
    name = os.fspath(check_path(path))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"path must name a CSV file, got {name!r}, which does not exist")
    is_table = name.lower().endswith(TABLES)
    values = [_as_text(each) for each in table_values(path, column)] if is_table else _values(path, column)
    for person, value in enumerate(values, start=1):
        if value and flaw_of(value) is not None:
            raise ValueError(
                f"column must have values that can be seen, without control characters, got another for person "
                f"{person} (it is not shown)"
            )
    labels = _found(values) if categories is None else _listed(categories)
    if len(labels) < 2:
        raise ValueError(f"categories must be at least two, got {len(labels)}: name the possible values")
    places = {label: i for i, label in enumerate(labels)} | {"": NO_VALUE}
    unknown = next((i for i, value in enumerate(values) if value not in places), None)
    if unknown is not None:
        raise ValueError(f"categories must include every value, but not that of person {unknown + 1} (it is not shown)")
    return np.array([places[value] for value in values], dtype=np.int64), labels


def _values(path: str | os.PathLike[str], column: str) -> list[str]:
    """Return the cells of the column as text, or raise ValueError."""
    name = os.fspath(path)
    wanted = _as_text(column) if isinstance(column, str) else None
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            rows = csv.reader(handle, strict=True)
            header = [_as_text(cell) for cell in next(rows, [])]
            if any("\0" in cell for cell in header):
                raise csv.Error("UTF-16")
            # The first row is not shown: without a header it would be that of a person.
            if wanted not in header:
                raise ValueError(f"column must be named in the first row of {name!r}, got {brief(column)}")
            if header.count(wanted) > 1:
                times = header.count(wanted)
                raise ValueError(
                    f"column must be named once in the first row of {name!r}, got {brief(column)} {times} times"
                )
            place, values = header.index(wanted), []
            for person, row in enumerate(rows, start=1):
                if not row and len(header) == 1:
                    row = [""]
                if len(row) != len(header):
                    raise ValueError(
                        f"path must name a CSV file with as many cells in every row as in the first ({len(header)}), "
                        f"got {len(row)} for person {person} in {name!r}"
                    )
                values.append(_as_text(row[place]))
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(
            f"path must name a CSV file in UTF-8, got {name!r}, which is not one: save it as UTF-8"
        ) from None
    return values


def _as_text(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())


def _found(values: list[str]) -> list[str]:
    """Return the distinct values, or raise ValueError if two look alike."""
    looks: dict[str, str] = {}
    for person, value in enumerate(values, start=1):
        if looks.setdefault(appearance(value), value) != value:
            raise ValueError(
                f"column must have values that can be told apart, got one for person {person} that only looks like "
                "that of someone before (neither is shown)"
            )
    return sorted(set(values) - {""})


def _listed(categories: Sequence[str]) -> list[str]:
    """Return the categories that were named, as the values are read."""
    n = len(categories) if hasattr(categories, "__len__") else 0
    return [unicodedata.normalize("NFC", label) for label in check_labels(categories, n)]


# One column of a Parquet or Arrow file of people, as text. No value of a person is shown, not even in an error.


TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def table_values(path: str | os.PathLike[str], column: str) -> list[str]:
    """Return the values of the column as text, empty where there is none, or raise ValueError.

    The column holds text, integers or booleans; a number is the text of its digits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.feather
    import pyarrow.parquet as pq

    name = os.fspath(path)
    try:
        if name.lower().endswith((".parquet", ".pq")):
            names = pq.read_schema(path).names
        else:
            with pa.memory_map(name) as source:
                names = pa.ipc.open_file(source).schema.names
        if names.count(column) != 1:
            times = names.count(column)
            raise KeyError(f"column must be named once in {name!r}, got {brief(column)} {times} times")
        is_parquet = name.lower().endswith((".parquet", ".pq"))
        table = pq.read_table(path, columns=[column]) if is_parquet else pa.feather.read_table(name, columns=[column])
        values = table.column(0).combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        kind = values.type
        allowed = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        if not (allowed or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise KeyError(f"column must hold text, integers or booleans, got values of type {kind} in {name!r}")
        texts: list[str] = pc.fill_null(values.cast(pa.large_string()), "").to_pylist()
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ValueError(f"path must name a Parquet or Arrow file, got {name!r}, which is damaged or none") from None
    return texts
