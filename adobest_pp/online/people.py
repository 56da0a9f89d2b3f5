"""A collection from a file of people: what each of their devices would do, done one person at a time.

The private values are read, randomized with the exact sampler and forgotten: they are never written, logged or shown,
not even in an error.
"""

import csv
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp.mechanisms import RRRR
from adobest_pp.online.collector import AdaptiveCollector
from adobest_pp.samplers.progress import SlowProgress

__all__ = ["collect_csv"]


def collect_csv(
    path: str | os.PathLike[str],
    column: str,
    epsilon: float,
    kappa: float = 0.9,
    categories: Sequence[str] | None = None,
    progressbar: bool = True,
    **options: Any,
) -> AdaptiveCollector:
    """Collect one column of a CSV file adaptively, each value by its own exact randomized answer.

    Parameters
    ----------
    path : path
        A CSV file with a header.
    column : str
        The column with the private values.
    epsilon, kappa : float
        Budgets of the `RRRR` mechanism.
    categories : sequence of str, optional
        The possible values. Without it they are the distinct values in the file, and the list of categories then
        tells that someone in the file has each of them: give it wherever that is sensitive.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.
    **options
        Further arguments of `AdaptiveCollector`.

    Returns
    -------
    AdaptiveCollector
        With the responses, and ready to go on.
    """
    x, labels = _read_column(path, column, categories)
    mechanism = RRRR(len(labels), epsilon, kappa)
    collector = AdaptiveCollector(mechanism, categories=labels, **options)
    with SlowProgress(x.size, "collecting", progressbar) as progress:
        for value in x:
            subset = collector.next_subset()
            collector.record(mechanism.privatize(value, subset=subset), subset)
            progress.advance(1)
    return collector


def _read_column(
    path: str | os.PathLike[str], column: str, categories: Sequence[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the column as category indices, and the labels."""
    name = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"path must name a CSV file, got {name!r}, which does not exist")
    try:
        with open(path, newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            # The first row is not shown: without a header it would be that of a person.
            if column not in (reader.fieldnames or []):
                raise ValueError(f"column must be named in the first row of {name!r}, got {column!r}")
            values = [row[column] for row in reader]
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"path must name a CSV file in UTF-8, got {name!r}, which is not one") from None
    empty = next((i for i, value in enumerate(values) if value is None or value == ""), None)
    if empty is not None:
        raise ValueError(f"column must have a value in every row, got none for person {empty + 1} in {name!r}")
    labels = sorted(set(values)) if categories is None else [str(label) for label in categories]
    if len(labels) < 2:
        raise ValueError(f"categories must be at least two, got {len(labels)}: name the possible values")
    places = {label: i for i, label in enumerate(labels)}
    unknown = next((i for i, value in enumerate(values) if value not in places), None)
    if unknown is not None:
        raise ValueError(f"categories must include every value, but not that of person {unknown + 1} (it is not shown)")
    return np.array([places[value] for value in values], dtype=np.int64), labels
