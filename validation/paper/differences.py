"""Intervals of differences between two samples of runs, and of means: by bootstrap."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp.studies.summary import LEVEL, RESAMPLES, SEED, bootstrap_medians, smallest_n
from validation.sign_test import Interval, known

__all__ = ["mean_interval", "median_change"]


def median_change(before: ArrayLike, after: ArrayLike, level: float = LEVEL) -> Interval:
    """Return median(after) − median(before) of independent samples, with its bootstrap interval."""
    first, second = known(before), known(after)
    n = min(first.size, second.size)
    if n < smallest_n(level):
        middle = float(np.median(second) - np.median(first)) if n else np.nan
        return Interval(middle, -np.inf, np.inf, n)
    draws = bootstrap_medians(second, stream=1) - bootstrap_medians(first, stream=2)
    return _percentiles(float(np.median(second) - np.median(first)), draws, level, n)


def mean_interval(values: ArrayLike, minus: ArrayLike | None = None, level: float = LEVEL) -> Interval:
    """Return the mean with its bootstrap interval; with `minus`, the difference of means of independent samples."""
    first = known(values)
    second = None if minus is None else known(minus)
    n = first.size if second is None else min(first.size, second.size)
    if n == 0:
        return Interval(np.nan, -np.inf, np.inf, 0)
    middle = float(first.mean() - (0 if second is None else second.mean()))
    if n < smallest_n(level):
        return Interval(middle, -np.inf, np.inf, n)
    draws = _weights(first.size, 1) @ first
    if second is not None:
        draws = draws - _weights(second.size, 2) @ second
    return _percentiles(middle, draws, level, n)


def _percentiles(middle: float, draws: NDArray[np.floating[Any]], level: float, n: int) -> Interval:
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(middle, float(lower), float(upper), n)


@lru_cache(maxsize=64)
def _weights(n: int, stream: int) -> NDArray[np.float64]:
    rng = np.random.default_rng([SEED, stream, n])
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n)
