"""Intervals of the median for what a handful of runs shows."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = ["LEVEL", "Interval", "bootstrap_medians", "known", "median_interval", "smallest_n"]

LEVEL = 0.95
RESAMPLES = 4000
SEED = 7


@dataclass(frozen=True)
class Interval:
    """An estimate, the bounds of its interval, and the number of runs behind it.

    Attributes
    ----------
    middle, lower, upper : float
        The estimate and the bounds; infinite bounds where the runs are too few for the level.
    n : int
        Number of runs.
    """

    middle: float
    lower: float
    upper: float
    n: int

    @property
    def too_few(self) -> bool:
        """Whether the runs are too few for any interval."""
        return not np.isfinite(self.lower)


def smallest_n(level: float = LEVEL) -> int:
    """Return how many runs a distribution-free interval of a median needs: 2^(1−n) must not exceed 1 − level."""
    return int(np.ceil(1 - np.log2(1 - level) - 1e-12))


def median_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the median with the interval that inverts the two-sided sign test, exact for any distribution.

    Parameters
    ----------
    values : array of shape (n,)
        One number for each run; NaN where a run is missing.
    level : float
        Probability with which the interval holds the median, at least.

    Returns
    -------
    Interval
        Between two of the values: the j-th smallest and the j-th greatest, j the greatest number for which
        P(Binomial(n, ½) < j) ≤ (1 − level)/2. Infinite where no j does.
    """
    ranked = known(values)
    n = ranked.size
    if n == 0:
        return Interval(np.nan, -np.inf, np.inf, 0)
    rank = _sign_test_rank(n, level)
    lower, upper = (ranked[rank - 1], ranked[n - rank]) if rank > 0 else (-np.inf, np.inf)
    return Interval(float(np.median(ranked)), float(lower), float(upper), n)


def bootstrap_medians(values: ArrayLike, *, size: int | None = None, stream: int = 0) -> NDArray[np.float64]:
    """Return the medians of resamples, drawn with replacement.

    Parameters
    ----------
    values : array of shape (..., n)
        Runs along the last axis, none missing.
    size : int, optional
        Runs in a resample; n by default.
    stream : int
        Resamples of different streams are independent; those of one stream take the same runs of every row.

    Returns
    -------
    array of shape (..., 4000)

    Notes
    -----
    The median of a resample is that of its ranks, so ranks are drawn once for each n and not for each row. Percentiles
    of few runs' resamples are a little narrow: a 95 % interval leaves out the median with 6.4 % at 20 runs and with
    5.4 % at 50. `median_interval` keeps its level for any number.
    """
    ranked = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    low, high = _middle_ranks(ranked.shape[-1], size or ranked.shape[-1], stream)
    return np.asarray((ranked[..., low] + ranked[..., high]) / 2)


def known(values: ArrayLike) -> NDArray[np.float64]:
    """Return the numbers that are finite, in order."""
    array = np.asarray(values, dtype=np.float64)
    return np.sort(array[np.isfinite(array)])


@lru_cache(maxsize=256)
def _sign_test_rank(n: int, level: float) -> int:
    """Return the greatest j for which P(Binomial(n, ½) < j) ≤ (1 − level)/2; 0 where none is."""
    shares = stats.binom.cdf(np.arange(n // 2 + 1), n, 0.5)
    return int(np.count_nonzero(shares <= (1 - level) / 2))


@lru_cache(maxsize=64)
def _middle_ranks(n: int, size: int, stream: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng([SEED, stream, n, size])
    ranks = np.sort(rng.integers(n, size=(RESAMPLES, size)), axis=1)
    return ranks[:, (size - 1) // 2], ranks[:, size // 2]
