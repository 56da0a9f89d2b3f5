"""A collection from a file of people: what each of their devices would do, done one person at a time.

The private values are read, randomized with the exact sampler and forgotten: they are never written, logged or shown,
not even in an error.
"""

import os
from collections.abc import Sequence
from typing import Any

from adobest_pp.mechanisms import RRRR
from adobest_pp.online.collector import AdaptiveCollector
from adobest_pp.online.csv_column import read_column
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
        A CSV file with a header; `adobest_pp.online.csv_column` has the rules.
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
    x, labels = read_column(path, column, categories)
    mechanism = RRRR(len(labels), epsilon, kappa)
    collector = AdaptiveCollector(mechanism, categories=labels, **options)
    with SlowProgress(x.size, "collecting", progressbar) as progress:
        for value in x:
            subset = collector.next_subset()
            collector.record(mechanism.privatize(value, subset), subset)
            progress.advance(1)
    return collector
