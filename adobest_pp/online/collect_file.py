"""A collection from a file of people: each value is randomized as that person's device would do it, one at a time.

The private values are read, randomized with the exact sampler and forgotten. They are never written, logged or shown,
not even in an error.

With a file to keep the answers in, a collection can be stopped at any moment and resumed. A person's answer counts, and
the budget is spent, once the answer is in that file. Before that it is only in the memory of this process: if the
process ends, nobody has seen that answer, and the one that is drawn for this person later is the only one. So answers
may be written a few at a time.

The file must tell nothing about the values but the answers. It names what was asked: the column, the number of rows,
and when the file of people was last changed. It holds neither a checksum nor the size of that file: with few
categories, either could tell how many people are in each.
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
from adobest_pp.mechanisms import RRRR
from adobest_pp.online.collector import AdaptiveCollector
from adobest_pp.online.csv_column import read_column

__all__ = ["collect_csv"]

# Answers wait at most this many seconds before they are written.
PATIENCE = 0.2


@raising_interrupts()
def collect_csv(
    path: str | os.PathLike[str],
    column: str,
    epsilon: float,
    kappa: float = 0.9,
    categories: Sequence[str] | None = None,
    progressbar: bool = True,
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> AdaptiveCollector:
    """Collect one column of a CSV file adaptively, each value by its own exact randomized answer.

    Parameters
    ----------
    path : path
        A CSV file with a header, or a Parquet or Arrow file; `adobest_pp.online.csv_column` has the rules.
    column : str
        The column with the private values.
    epsilon, kappa : float
        Budgets of the `RRRR` mechanism.
    categories : sequence of str, optional
        The possible values. By default they are the distinct values in the file. The list of categories then tells that
        someone in the file has each of them, so name the categories wherever that is sensitive.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.
    out : path, optional
        A new file to keep the collection in. If it is the file of the same collection, stopped at any moment, that
        collection is resumed: people who have answered are not asked again.
    **options
        Further arguments of `AdaptiveCollector`.

    Returns
    -------
    AdaptiveCollector
        With the responses, and ready to go on.
    """
    check_path(path)
    source = {"column": column, "modified": os.stat(path).st_mtime_ns} if os.path.isfile(path) else {}
    x, labels = read_column(path, column, categories)
    collector = AdaptiveCollector(RRRR(len(labels), epsilon, kappa), categories=labels, **options)
    if out is None:
        _ask(collector, x, progressbar)
        return collector
    if os.path.realpath(out) == os.path.realpath(path):
        raise ValueError(f"out must not be the file of the people, got {os.fspath(out)!r}")
    kept = _kept(collector, source | {"rows": x.size}, out)
    try:
        _ask(kept, x, progressbar)
        with suppress(OSError):  # all answers are in the file; this only makes it smaller
            kept.save(out)
    except BaseException:
        kept.close()
        raise
    return kept


def _kept(collector: AdaptiveCollector, source: dict[str, Any], out: str | os.PathLike[str]) -> AdaptiveCollector:
    """Return the collection in a file, new or resumed, or raise FileExistsError if the file is another one."""
    name = os.fspath(out)
    if not os.path.exists(out):
        collector._people = source | {"asked": 0}
        collector.save(out)
        return collector
    if not os.path.isfile(out):
        raise ValueError(f"out must name a new file, or one to go on with, got {name!r}, which is neither")
    try:
        own = collector._settings.utility
        saved = AdaptiveCollector.load(out, None if isinstance(own, str) else own)
    except ValueError as reason:
        raise FileExistsError(f"out must name a new file, or a collection to go on with: {reason}") from None
    if not isinstance(saved, AdaptiveCollector):
        saved.close()
        raise FileExistsError(f"out must name a new file, or one to go on with, got {name!r}, a collection in rounds")
    asked = {key: (saved._people or {}).get(key) for key in source}
    differs = [key for key in source if asked[key] != source[key]] if saved._people else ["the people"]
    was, now = (one._settings.describe() for one in (saved, collector))
    differs += [key for key in now if now[key] != was.get(key)]
    differs += ["categories"] if saved.responses.categories != collector.responses.categories else []
    if differs:
        saved.close()
        named = ", ".join("people (the file was changed)" if key == "modified" else key for key in differs)
        raise FileExistsError(
            f"out must name a new file, or one of the same people and settings to go on with, got {name!r}, which "
            f"differs in {named}"
        )
    return saved


def _ask(collector: AdaptiveCollector, x: NDArray[np.int64], progressbar: bool) -> None:
    """Ask everyone who has not answered yet, in the order of the file."""
    first = collector._people["asked"] if collector._people else 0
    with SlowProgress(x.size - first, "collecting", progressbar) as progress, collector._unhurried() as write:
        written = time.monotonic()
        for person in range(first, x.size):
            subset = collector.next_subset()
            collector._record(collector.mechanism.privatize(x[person], subset=subset), subset, person)
            progress.advance(1)
            if time.monotonic() - written > PATIENCE:
                write()
                written = time.monotonic()
