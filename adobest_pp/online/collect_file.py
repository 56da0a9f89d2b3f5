"""A collection from a file of people: each value is randomized as that person's device would do it, one at a time.

The private values are read, randomized with the exact sampler and forgotten. They are never written, logged or shown,
not even in an error.

With a file to keep the answers in, a collection can be stopped at any moment and resumed. A person's answer counts, and
the budget is spent, once the answer is in that file. Before that it is only in the memory of this process: if the
process ends, nobody has seen that answer, and the one that is drawn for this person later is the only one. So answers
may be written a few at a time.

The file must tell nothing about the values but the answers. It names what was asked: the column, the number of rows and
of those without a value (not which: people are counted past them), and when the file of people was last changed. It
holds neither a checksum nor the size of that file: with few categories, either could tell how many people are in each.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_path
from adobest_pp._interrupts import raising_interrupts
from adobest_pp._progress import SlowProgress
from adobest_pp.online.collector import AdaptiveCollector
from adobest_pp.online.csv_column import NO_VALUE, read_column
from adobest_pp.online.kept import KeptCollection
from adobest_pp.online.mechanism_choice import DEFAULT_MECHANISM, make_collector

__all__ = ["collect_csv"]

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
    **options: Any,
) -> KeptCollection:
    r"""Collect one column of a file of people, each value by its own exact randomized answer.

    Parameters
    ----------
    path : path
        A CSV file with a header, or a Parquet or Arrow file; `adobest_pp.online.csv_column` has the rules.
    column : str
        The column with the private values. Who has none is not asked; `did_not_answer` tells how many.
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
        collection is resumed: people who have answered are not asked again.
    **options
        Settings of the mechanism, such as `kappa` of RRRR, and further arguments of its collector: `AdaptiveCollector`
        for RRRR, `DesignCollector` for ``"design"``, else `PlainCollector`.

    Returns
    -------
    AdaptiveCollector, DesignCollector or PlainCollector
        With the responses, and ready to go on. Its `did_not_answer` is the number of people without a value.

    Examples
    --------
    >>> import tempfile
    >>> from adobest_pp.online import collect_csv
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     file.write("id,vote\n1,yes\n2,no\n3,\n4,yes\n") and file.flush()
    ...     collector = collect_csv(file.name, "vote", epsilon=1.0, categories=["yes", "no", "unsure"])
    >>> len(collector.responses), collector.did_not_answer
    (3, 1)
    """
    check_path(path)
    source = {"column": column, "modified": os.stat(path).st_mtime_ns} if os.path.isfile(path) else {}
    values, labels = read_column(path, column, categories)
    x = values[values != NO_VALUE]
    if not x.size:
        raise ValueError(f"path must name a file with a value of at least one person, got none in {os.fspath(path)!r}")
    people = source | {"rows": values.size, "empty": values.size - x.size}
    collector = make_collector(mechanism, labels, epsilon, x.size, options)
    if out is None:
        collector._people = people | {"asked": 0}
        _ask(collector, x, progressbar)
        return collector
    if os.path.realpath(out) == os.path.realpath(path):
        raise ValueError(f"out must not be the file of the people, got {os.fspath(out)!r}")
    kept = _kept(collector, people, out)
    try:
        _ask(kept, x, progressbar)
        with suppress(OSError):  # all answers are in the file; this only makes it smaller
            kept.save(out)
    except BaseException:
        kept.close()
        raise
    return kept


def _kept(collector: KeptCollection, source: dict[str, Any], out: str | os.PathLike[str]) -> KeptCollection:
    """Return the collection in a file, new or resumed, or raise FileExistsError if the file is another one."""
    name = os.fspath(out)
    if not os.path.exists(out):
        collector._people = source | {"asked": 0}
        collector.save(out)
        return collector
    if not os.path.isfile(out):
        raise ValueError(f"out must name a new file, or one to go on with, got {name!r}, which is neither")
    try:
        own = collector._settings.utility if isinstance(collector, AdaptiveCollector) else ""
        saved = AdaptiveCollector.load(out, None if isinstance(own, str) else own)
    except ValueError as reason:
        raise FileExistsError(f"out must name a new file, or a collection to go on with: {reason}") from None
    differs = _differences(saved, collector, source)
    if differs:
        saved.close()
        raise FileExistsError(
            f"out must name a new file, or one of the same people and settings to go on with, got {name!r}, which "
            f"differs in {', '.join(differs)}"
        )
    return saved


def _differences(saved: KeptCollection, collector: KeptCollection, source: dict[str, Any]) -> list[str]:
    """Return what a saved collection does not share with the one that is asked for."""
    names = {"modified": "people (the file was changed)", "empty": "people without a value"}
    asked = {"empty": 0} | (saved._people or {})
    differs = [names.get(key, key) for key in source if asked.get(key) != source[key]]
    differs = differs if saved._people else ["the people"]
    was, now = saved._described(), collector._described()
    differs += [key for key in now if now[key] != was.get(key)]
    return differs + ["categories"] * (saved.responses.categories != collector.responses.categories)


def _ask(collector: KeptCollection, x: NDArray[np.int64], progressbar: bool) -> None:
    """Ask everyone with a value who has not answered yet, in the order of the file."""
    first = collector._people["asked"] if collector._people else 0
    with SlowProgress(x.size - first, "collecting", progressbar) as progress, collector._unhurried() as write:
        written = time.monotonic()
        for person in range(first, x.size):
            mechanism, published, told = collector._publish()
            collector._record(mechanism.privatize(x[person], **published), told, person)
            progress.advance(1)
            if time.monotonic() - written > PATIENCE:
                write()
                written = time.monotonic()
