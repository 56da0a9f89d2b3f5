"""Ordered categories and numbers in bins: medians and other quantiles, means and densities, with intervals.

Cumulated shares are sums of shares, so the unbiased scores of answers (`pairs.unbiased`) give their estimates and
variances as well. The interval of a quantile follows from those of the cumulated shares (Woodruff [1]_). Nothing is
known about where in its bin a number lies, so intervals reach to the ends of bins, and cover wherever numbers lie.

References
----------
.. [1] R. S. Woodruff (1952), Confidence intervals for medians and other position measures, Journal of the American
   Statistical Association 47(260).
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_numbers, check_probability
from adobest_pp._text import brief
from adobest_pp._types import Floats
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.estimates.direct import effective_people
from adobest_pp.estimates.estimate import EVERYBODY, check_weights, estimate
from adobest_pp.estimates.pairs import unbiased
from adobest_pp.intervals import PROBABILITY, covering_intervals
from adobest_pp.likelihood.without_prior import direct_of_variance

if TYPE_CHECKING:
    import xarray as xr

QUARTILES = (0.25, 0.5, 0.75)


def ordered_quantiles(
    responses: Responses,
    quantiles: Sequence[float] = QUARTILES,
    *,
    weights: ArrayLike | None = None,
    probability: float = PROBABILITY,
    random_seed: int = 1,
) -> "xr.Dataset":
    """Estimate quantiles of categories that have an order, from the first to the last.

    Parameters
    ----------
    responses : Responses
        Randomized answers; their categories are in order.
    quantiles : sequence of float
        Which: 0.5 is the median, the category at which the cumulated share reaches one half.
    weights, probability, random_seed
        As in `estimate`.

    Returns
    -------
    xarray.Dataset
        By ``quantile``: the ``category``, and the ends of its interval, ``lower`` and ``upper``, which are categories
        too. By ``cumulated`` (all categories but the last): ``at_most``, the share of people at or below it, with
        ``at_most_lower`` and ``at_most_upper``.

    Examples
    --------
    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> rng, mechanism = np.random.default_rng(1), ad.SubsetSelection(4, epsilon=2.0)
    >>> x = rng.choice(4, size=2000, p=[0.2, 0.2, 0.5, 0.1])
    >>> labels = ["never", "yearly", "monthly", "daily"]
    >>> responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=labels)
    >>> ad.estimates.ordered_quantiles(responses, [0.5]).category.values.tolist()
    ['monthly']
    """
    import xarray as xr

    wanted = [check_probability(each) for each in quantiles]
    share, lower, upper = _cumulated(responses, weights, probability, random_seed)
    labels = np.array(responses.categories)
    curves = {"category": share, "lower": upper, "upper": lower}
    variables = {name: ("quantile", labels[np.searchsorted(curve, wanted)]) for name, curve in curves.items()}
    curves = {"at_most": share, "at_most_lower": lower, "at_most_upper": upper}
    variables |= {name: ("cumulated", curve) for name, curve in curves.items()}
    coords = {"quantile": wanted, "cumulated": labels[:-1]}
    return xr.Dataset(variables, coords, {"probability": probability, "n_responses": len(responses)})


def numbers_in_bins(
    responses: Responses,
    edges: ArrayLike,
    quantiles: Sequence[float] = QUARTILES,
    *,
    weights: ArrayLike | None = None,
    probability: float = PROBABILITY,
    random_seed: int = 1,
) -> "xr.Dataset":
    """Estimate the mean, quantiles and density of a number that people gave in bins.

    Parameters
    ----------
    responses : Responses
        Randomized answers, whose categories are bins in rising order.
    edges : array of shape (K + 1,)
        The ends of the bins: bin i is from ``edges[i]`` to ``edges[i + 1]``.
    quantiles, weights, probability, random_seed
        As in `ordered_quantiles`.

    Returns
    -------
    xarray.Dataset
        ``mean``, ``mean_lower`` and ``mean_upper``; by ``quantile``: ``value``, ``lower`` and ``upper``; by ``bin``:
        ``density`` (share over width), ``density_lower`` and ``density_upper``. Estimates spread the people of a bin
        evenly over it. Intervals hold wherever in their bins numbers lie, so fine bins give short ones.

    Examples
    --------
    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> rng, mechanism = np.random.default_rng(1), ad.SubsetSelection(5, epsilon=2.0)
    >>> drinks = np.minimum(rng.poisson(3, size=3000), 9)
    >>> responses = ad.Responses.from_arrays(mechanism, mechanism.privatize(drinks // 2, rng=rng))
    >>> found = ad.estimates.numbers_in_bins(responses, [0, 2, 4, 6, 8, 10])
    >>> bool(found.mean_lower < 3 < found.mean_upper)
    True
    """
    import xarray as xr

    check_responses(responses)
    ends = _check_edges(edges, responses.n_categories)
    wanted = np.array([check_probability(each) for each in quantiles])
    curve, curve_lower, curve_upper = _cumulated(responses, weights, probability, random_seed)
    table = estimate(responses, weights=weights, probability=probability, random_seed=random_seed).sel(group=EVERYBODY)
    share, widths = table["share"].values, np.diff(ends)
    weighed = check_weights(weights, len(responses))
    scores = unbiased(responses)
    reach = NormalDist().inv_cdf((1 + probability) / 2)
    low, high = (_mean(scores @ each, weighed) for each in (ends[:-1], ends[1:]))
    mean = float(share @ (ends[:-1] + ends[1:]) / 2)
    lower, upper = max(low[0] - reach * low[1], ends[0]), min(high[0] + reach * high[1], ends[-1])
    values = _interpolated(curve, ends, wanted)
    variables = {
        "mean": mean,
        "mean_lower": min(lower, mean),
        "mean_upper": max(upper, mean),
        "value": ("quantile", values),
        "lower": ("quantile", np.minimum(ends[np.searchsorted(curve_upper, wanted)], values)),
        "upper": ("quantile", np.maximum(ends[np.searchsorted(curve_lower, wanted) + 1], values)),
        "density": ("bin", share / widths),
        "density_lower": ("bin", table["lower"].values / widths),
        "density_upper": ("bin", table["upper"].values / widths),
    }
    coords = {"quantile": wanted, "bin": [f"{a:g} – {b:g}" for a, b in pairwise(ends)]}
    return xr.Dataset(variables, coords, {"probability": probability, "n_responses": len(responses)})


def _cumulated(
    responses: Responses, weights: ArrayLike | None, probability: float, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Return the shares of people at or below each category but the last, and intervals that cover each, all rising."""
    check_responses(responses)
    if not isinstance(responses, Responses):
        raise ValueError("responses must be Responses in the order of people, got gathered answers")
    level, n = check_probability(probability), len(responses)
    weighed = check_weights(weights, n)
    table = estimate(responses, weights=weights, ordered=True, probability=level, random_seed=seed).sel(group=EVERYBODY)
    share = np.clip(np.cumsum(table["share"].values)[:-1], 0.0, 1.0)
    means, errors = _mean(np.cumsum(unbiased(responses), axis=1)[:, :-1], weighed)
    near = np.clip(share, 1 / (n + 2), 1 - 1 / (n + 2))
    people = effective_people(weighed)
    direct = direct_of_variance(near, means, errors**2, people, None, responses.mechanism.epsilon)
    lower, upper = covering_intervals(direct, level)
    # Curves that rise, each no narrower than the interval of its category: a quantile is then held as often as that.
    lower = np.minimum.accumulate(np.minimum(lower, share)[::-1])[::-1]
    return share, lower, np.maximum.accumulate(np.maximum(upper, share))


def _mean(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the weighted mean of values, of shape (n, …), and its standard error."""
    total, n = weights.sum(), len(weights)
    mean = np.tensordot(weights, values, axes=1) / total
    squares = np.tensordot(weights**2, (values - mean) ** 2, axes=1) / total**2
    return np.asarray(mean), np.asarray(np.sqrt(squares * n / max(n - 1, 1)))


def _interpolated(curve: Floats, edges: Floats, quantiles: Floats) -> Floats:
    """Return where a cumulated share reaches the quantiles, if people lie evenly in their bins."""
    whole, i = np.concatenate([[0.0], curve, [1.0]]), np.searchsorted(curve, quantiles)
    step = whole[i + 1] - whole[i]
    part = np.divide(quantiles - whole[i], step, out=np.full(step.shape, 0.5), where=step > 0)
    return np.asarray(edges[i] + part * (edges[i + 1] - edges[i]))


def _check_edges(edges: ArrayLike, k: int) -> Floats:
    allowed = f"{k + 1} rising numbers, the ends of {k} bins"
    ends = check_numbers(edges, "iuf", "edges", allowed).astype(np.float64)
    if ends.shape != (k + 1,) or not np.isfinite(ends).all() or not (np.diff(ends) > 0).all():
        raise ValueError(f"edges must be {allowed}, got {brief(edges)}")
    return ends
