"""The intervals that people are shown: the shortest that hold a share of the draws, from 0 if a category may be empty.

The posterior of a category that nobody may hold piles up at zero. An interval with equal tails leaves some of that pile
below its lower end, so it excludes zero for all answers, and does not hold the truth if the truth is zero. The shortest
interval with as many draws (the highest-density interval, for a density with one mode) begins at the pile. It still
begins at its smallest draw, which is above zero; `shortest_intervals` mends that.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_real
from adobest_pp._text import brief

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["INTERVAL_KIND", "PROBABILITY", "shortest_intervals", "summary"]

# The probability of the intervals that are shown.
PROBABILITY = 0.95

# The name of this kind of interval in files.
INTERVAL_KIND = "hdi"

# An interval that begins within this share of its width above 0 begins at 0; the same for its upper end and 1.
AT_THE_EDGE = 0.02


def shortest_intervals(draws: ArrayLike, probability: float = PROBABILITY) -> NDArray[np.float64]:
    """Return the ends of the shortest intervals that hold a share of the draws of each category.

    Parameters
    ----------
    draws : array of shape (n, K)
        Draws of shares, from 0 to 1.
    probability : float, default 0.95
        The share of the draws within each interval.

    Returns
    -------
    array of shape (2, K)
        Lower and upper ends.

    Notes
    -----
    **Where it begins at zero.** An interval that would begin within a fiftieth of its own width above 0 begins at 0:
    the category may be empty. Draws near an edge cannot tell whether a share is zero or tiny, and the smallest draw is
    not the end of the posterior. The same rule holds for the upper end and 1. The interval is then at most 2 % longer
    at that end, and holds at least the stated probability.

    Examples
    --------
    >>> import numpy as np
    >>> from adobest_pp.intervals import shortest_intervals
    >>> share = np.random.default_rng(1).beta(0.5, 50, size=4000)
    >>> shortest_intervals(np.column_stack([share, 1 - share])).round(2).tolist()
    [[0.0, 0.96], [0.04, 1.0]]
    """
    share = check_real(probability, "probability", "a number between 0 and 1")
    if not 0 < share < 1:
        raise ValueError(f"probability must be a number between 0 and 1, got {brief(probability)}")
    ordered = np.sort(_check_shares(draws), axis=0)
    inside = int(np.ceil(share * len(ordered) - 1e-9))
    begin = np.argmin(ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1], axis=0)
    lower, upper = (np.take_along_axis(ordered, begin[None] + shift, axis=0)[0] for shift in (0, inside - 1))
    margin = AT_THE_EDGE * (upper - lower)
    return np.stack([np.where(lower <= margin, 0.0, lower), np.where(1 - upper <= margin, 1.0, upper)])


def _check_shares(draws: ArrayLike) -> NDArray[np.float64]:
    allowed = "shares from 0 to 1 by draw and category, at least one draw"
    try:
        values = as_numbers(draws, "iuf").astype(np.float64)
    except TypeError:
        raise ValueError(f"draws must be {allowed}, got {type(draws).__name__} of something else") from None
    if values.ndim != 2 or not len(values):
        raise ValueError(f"draws must be {allowed}, got an array of shape {values.shape}")
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"draws must be {allowed}, got others from {values.min():g} to {values.max():g}")
    return values


def summary(theta: "xr.DataArray", probability: float = PROBABILITY) -> "xr.Dataset":
    """Return the ``mean`` and the interval, ``lower`` and ``upper``, of each category (see `shortest_intervals`).

    Parameters
    ----------
    theta : xarray.DataArray
        Draws by chain, draw and category.
    probability : float, default 0.95
        The share of the draws within each interval.
    """
    import xarray as xr

    dims = ("chain", "draw", "category")
    if not isinstance(theta, xr.DataArray) or set(theta.dims) != set(dims):
        raise ValueError(f"theta must be a DataArray of draws by {', '.join(dims)}, got {brief(theta)}")
    flat = theta.transpose(*dims).values.reshape(-1, theta.sizes["category"])
    lower, upper = shortest_intervals(flat, probability)
    result = theta.mean(("chain", "draw")).to_dataset(name="mean")
    result = result.assign(lower=("category", lower), upper=("category", upper))
    return result.assign_attrs(interval=INTERVAL_KIND, probability=probability)
