"""The median of a handful of runs, with the interval that inverts the sign test: exact for any distribution."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from adobest_pp.studies.summary import LEVEL

__all__ = ["Interval", "known", "median_interval"]


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


def known(values: ArrayLike) -> NDArray[np.float64]:
    """Return the numbers that are finite, in order."""
    array = np.asarray(values, dtype=np.float64)
    return np.sort(array[np.isfinite(array)])


@lru_cache(maxsize=256)
def _sign_test_rank(n: int, level: float) -> int:
    """Return the greatest j for which P(Binomial(n, ½) < j) ≤ (1 − level)/2; 0 where none is."""
    shares = stats.binom.cdf(np.arange(n // 2 + 1), n, 0.5)
    return int(np.count_nonzero(shares <= (1 - level) / 2))
