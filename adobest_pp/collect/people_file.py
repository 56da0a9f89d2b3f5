"""A collection from a file of people: each value is randomized as that person's device would do it, one at a time.

A file of true answers is central collection, which local privacy is meant to avoid. This is for simulation, or for data
that you hold anyway. The values are read, randomized with the exact sampler and forgotten. They are never written,
logged or shown, not even in an error.

A collection with a file can be stopped at any moment and resumed. An answer counts, and its budget is spent, once it is
in that file. Before that it is only in the memory of this process: if the process ends, nobody has seen that answer,
and the one that is drawn for this person later is the only one. So answers may be written a few at a time.

Beyond the answers, the file must reveal nothing about the values. It holds the column, the number of rows, how many
have no value (not which), when the file of people was last changed, and a random name. It holds neither a checksum nor
the size of the file of people: with few categories, either could reveal how many people are in each.

A ledger beside the file of people (`adobest_pp.collect.ledger`) holds that random name. By it the people of a
collection are recognized whatever the time and the format of their file, and nobody is asked twice unnoticed.
"""

import logging
import os
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_flag, check_path
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import appearance, brief, check_labels, flaw_of
from adobest_pp.answers.gather.pieces import FORMATS
from adobest_pp.answers.gather.tables import csv_batches, csv_encoding, csv_schema
from adobest_pp.collect.collection import Collection
from adobest_pp.collect.ledger import Entry, Ledger, Values, new_entry
from adobest_pp.collect.policies import DEFAULT_MECHANISM, mechanism_name, policy_by_name
from adobest_pp.design.utilities import UTILITY_CODES, Utility

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
    r"""Randomize one column of a file of people, each value by its own exact draw.

    A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or for
    data that you hold anyway.

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
    **options
        Settings of the mechanism, such as `kappa` of RRRR, and of its policy: `AdaptiveSubset` for RRRR, `Rounds` for
        ``"design"``, else `SameQuestion`.

    Returns
    -------
    Collection
        With the responses, and ready for more. Its `did_not_answer` is the number of people without a value.

    Warns
    -----
    A warning is logged if the people of the file have answered before, about this or another column: what their answers
    reveal is bounded by the sum of the budgets.

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
    values, labels = read_column(path, column, categories)
    x = values[values != NO_VALUE]
    if not x.size:
        raise ValueError(f"path must name a file with a value of at least one person, got none in {os.fspath(path)!r}")
    people = {"column": column, "modified": os.stat(path).st_mtime_ns, "rows": values.size}
    people["empty"] = values.size - x.size

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
        _ask(kept, x, progressbar)
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
        _ask(kept, x, progressbar)
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


# One column of a file of people, as category indices. No value of a person is ever shown, not even in an error.
#
# The rules: a CSV file is UTF-8 (or UTF-16 with a byte order mark) with a header, and every row has as many cells as
# the header. A blank line is skipped; in a file of one column, it is an empty value. A Parquet or Arrow column holds
# text, integers or booleans. The column's name occurs once. White space at the ends of names and values is dropped and
# characters are composed (Unicode NFC); otherwise values must be equal, capitals included. An empty value means that
# the person did not answer. A value that holds a control character, or that only looks like another one, raises
# ValueError, which names the number of the person.


# The index of somebody who did not answer.
NO_VALUE = -1


def read_column(
    path: str | os.PathLike[str], column: str, categories: Sequence[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the column as category indices, −1 for an empty value, and the labels.

    Parameters
    ----------
    path : path
        The file: Parquet or Arrow by its ending, else CSV.
    column : str
        The column with the private values.
    categories : sequence of str or None
        The possible values; with None, the distinct values in the file, sorted.
    """
    if not check_path(path).is_file():
        raise FileNotFoundError(f"path must name a file of people, got {os.fspath(path)!r}, which does not exist")
    values = [_as_text(value) for value in _values(path, column)]
    looks: dict[str, str] = {}
    for person, value in enumerate(values, start=1):
        if value and flaw_of(value) is not None:
            raise ValueError(
                f"column must have visible values without control characters, got another for person {person} "
                "(it is not shown)"
            )
        if categories is None and looks.setdefault(appearance(value), value) != value:
            raise ValueError(
                f"column must have values that look different, got one for person {person} that only looks like an "
                "earlier one (neither is shown)"
            )
    if categories is None:
        labels = sorted(set(values) - {""})
    else:
        n = len(categories) if hasattr(categories, "__len__") else 0
        labels = [_as_text(label) for label in check_labels(categories, n)]
    if len(labels) < 2:
        raise ValueError(f"categories must be at least two, got {len(labels)}: name the possible values")
    places = {label: i for i, label in enumerate(labels)} | {"": NO_VALUE}
    unknown = next((i for i, value in enumerate(values) if value not in places), None)
    if unknown is not None:
        raise ValueError(f"categories must include every value, but not that of person {unknown + 1} (it is not shown)")
    return np.array([places[value] for value in values], dtype=np.int64), labels


def _values(path: str | os.PathLike[str], column: str) -> list[str]:
    """Return the values of the column as text, empty if missing, or raise ValueError."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    name = os.fspath(path)
    form = FORMATS.get(Path(path).suffix.lower(), "csv")
    allowed = f"path must name a {'CSV file in UTF-8' if form == 'csv' else 'Parquet or Arrow file'}, got {name!r}"
    try:
        if form == "csv":
            _check_quotes(path, allowed)
            names = csv_schema(path, newlines_in_values=True).names
            found = _found(column, names, name)
            text = pa.schema([(found, pa.string())])
            how = {"newlines_in_values": True, "ignore_empty_lines": len(names) > 1}
            table = pa.Table.from_batches(csv_batches(path, [found], **how), text)
        else:
            people = ds.dataset(name, format="ipc" if form == "arrow" else form, filesystem=LocalFileSystem())
            table = people.to_table(columns=[_found(column, people.schema.names, name)])
        values = table.column(0).combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        is_code = pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
        if not (is_text or is_code or pa.types.is_null(values.type)):
            raise KeyError(f"column must hold text, integers or booleans, got values of type {values.type} in {name!r}")
        texts: list[str] = pc.fill_null(values.cast(pa.large_string()), "").to_pylist()
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None
    except UnicodeError:
        raise ValueError(f"{allowed}, which has another encoding: save it as UTF-8") from None
    except (pa.ArrowException, OSError) as problem:
        reason = f": {problem}" if form == "csv" else ""
        raise ValueError(f"{allowed}, which is damaged or not one{reason}") from None
    return texts


def _found(column: Any, names: list[str], path: str) -> str:
    """Return the name in the file that is that of the column, or raise KeyError. Names are not shown.

    Without a header, the first row would be that of a person.
    """
    if any("\0" in each for each in names):
        raise UnicodeError
    same = [each for each in names if isinstance(column, str) and _as_text(each) == _as_text(column)]
    if len(same) != 1:
        raise KeyError(f"column must be named once in {path!r}, got {brief(column)}, which it has {len(same)} times")
    return same[0]


def _check_quotes(path: str | os.PathLike[str], allowed: str) -> None:
    """Raise KeyError if a quotation mark is not closed: Arrow would read the rest of the file as one cell."""
    with open(path, encoding=csv_encoding(path), newline="") as file:
        if sum(block.count('"') for block in iter(lambda: file.read(1 << 20), "")) % 2:
            raise KeyError(f"{allowed}, in which a quotation mark is not closed")


def _as_text(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())
