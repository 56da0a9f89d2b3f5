"""Many categories: the largest of them, those above a threshold, and sums over groups.

The same answers choose what is listed and say how large it is, so the listed estimates are too large on average. The
error rates of a list hold nevertheless, whatever the shares are and whatever is listed. They rest on how many answers
name each category. For a mechanism without such counts, such as RRRR, they rest on as many binary answers with the
variances of its estimates, so they are approximate.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adobest_pp._checks import check_integer, check_probability, check_real
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.intervals.shares import (
    COVERING,
    LEAST_SD,
    PROBABILITY,
    SHORTEST,
    ShareDraws,
    covered,
    covering_intervals,
    direct_of,
    named_by,
    p_above,
    picked,
    read_shares,
    shortest_intervals,
    table_of,
)

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.answers.gather.gathered import Gathered
    from adobest_pp.answers.responses import Responses
    from adobest_pp.likelihood.without_prior import Direct

# Draws of many categories that are looked at together, to bound the memory.
DRAWS_AT_ONCE = 256
# The most categories without a group that an error names.
MOST_MISSING = 5


def largest(
    theta: "xr.DataArray | xr.DataTree",
    k: int = 10,
    probability: float = PROBABILITY,
    kind: Literal["covering", "posterior"] | None = None,
    *,
    var_name: str | None = None,
    responses: "Responses | Gathered | None" = None,
) -> "xr.Dataset":
    """Return the k categories with the largest estimates, whether they belong there, and the share of all others.

    Parameters
    ----------
    theta, kind, var_name, responses
        As in `summary`; the shares must be by category alone.
    k : int, default 10
        How many categories to list.
    probability : float, default 0.95
        Of the listed intervals, the share that contains the truth, on average over collections; and how often the
        interval of the rest contains it, and all intervals of ranks at once.

    Returns
    -------
    xarray.Dataset
        By category, the largest first: ``mean``, ``lower``, ``upper`` (and ``may_be_empty``) as in `summary`, but wide
        enough for categories that were chosen because they look large; ``belongs``, the posterior probability that the
        category is among the k largest. ``rest``, ``rest_lower`` and ``rest_upper``: the share of all other categories.
        For covering intervals, ``rank_lower`` and ``rank_upper``, which are right for all categories at once in 95 % of
        collections: a category with a ``rank_upper`` of at most k can be counted among the k largest.

    Notes
    -----
    **Intervals of a chosen list.** Of K intervals at 95 %, those of the k largest estimates miss more often than
    others. At a level of 1 − 0.05·k/K, at most 5 % of the listed ones do on average (Benjamini and Yekutieli [1]_).

    **Ranks.** Exact binomial intervals (Clopper and Pearson) at a level of 1 − 0.05/K contain all K shares at once in
    95 % of collections. A category whose interval is above that of another one has a larger share.

    **The rest.** Its lower end needs no correction: whatever the k largest are, their estimates sum to no more than
    the listed ones. But the listed ones are listed because of their errors, too. The mean of these errors is Σ σ²·f(c),
    where f(c) is the density of each category's estimate at the smallest listed estimate c, and σ² its variance (for
    counts, m times the number of categories with m answers, as in the estimate of Good and Turing). The upper end is
    raised by an upper limit for it. ``python -m validation.largest`` measures all of this for fixed truths.

    References
    ----------
    .. [1] Y. Benjamini and D. Yekutieli (2005), False discovery rate-adjusted multiple confidence intervals for
       selected parameters, Journal of the American Statistical Association 100.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(4, epsilon=2.0)
    >>> answers = mechanism.privatize([0] * 600 + [1] * 300 + [2] * 60 + [3] * 40, rng=np.random.default_rng(1))
    >>> tree = ad.sample(ad.Responses.from_arrays(mechanism, answers, categories=list("abcd")), "gibbs", random_seed=1)
    >>> found = ad.intervals.largest(tree, k=2)
    >>> found.category.values.tolist(), found.rank_upper.values.tolist(), found.rest.round(1).item()
    (['a', 'b'], [1, 2], 0.1)
    """
    read, mean, flat = _read_alone(theta, kind, var_name, responses)
    share = check_probability(probability)
    size = check_integer(k, "k", 1, mean.size)
    chosen = np.argsort(-mean.values, kind="stable")[:size]
    direct = direct_of(read, mean)
    result = _chosen(mean, flat, direct, chosen, share, 1 - (1 - share) * size / mean.size)
    if direct is not None:
        ranks = _ranks(direct, 1 - share)
        result = result.assign({name: ("category", each[chosen]) for name, each in ranks.items()})
    result["belongs"] = ("category", _among_largest(flat, size)[chosen])
    return result.assign(_rest(read, mean, flat, direct, chosen, share)).rename(category=read.dim)


def _chosen(
    mean: Any, flat: Floats, direct: "Direct | None", chosen: Integers, probability: float, covering: float
) -> "xr.Dataset":
    """Return the means and intervals of the chosen categories: at the level `covering` if answers are known."""
    columns, labels = {"mean": mean.values[chosen]}, mean["category"].values[chosen]
    if direct is not None:
        columns |= covered(columns["mean"], picked(direct, chosen), covering)
        return table_of(columns, "category", labels, COVERING, probability)
    lower, upper = shortest_intervals(flat[:, chosen], probability) if chosen.size else np.zeros((2, 0))
    return table_of(columns | {"lower": lower, "upper": upper}, "category", labels, SHORTEST, probability)


def _rest(
    read: ShareDraws, mean: Any, flat: Floats, direct: "Direct | None", chosen: Integers, probability: float
) -> dict[str, float]:
    """Return the share of all categories that are not chosen, and its interval."""
    k = mean.sizes["category"]
    if chosen.size == k:
        return dict.fromkeys(("rest", "rest_lower", "rest_upper"), 0.0)
    outside = np.ones(k, dtype=np.int64)
    outside[chosen] = 0
    share = float(mean.values[outside == 1].sum())
    if direct is None:
        ends = shortest_intervals(flat[:, outside == 1].sum(axis=1, keepdims=True).clip(0, 1), probability)
        return {"rest": share, "rest_lower": float(ends[0, 0]), "rest_upper": float(ends[1, 0])}
    both = direct_of(read, mean, outside)
    assert both is not None
    lower, upper = covering_intervals(both, probability)[:, 1]
    upper += _error_of_winners(direct, chosen, probability)
    return {"rest": share, "rest_lower": min(lower, share), "rest_upper": min(max(upper, share), 1.0)}


def _error_of_winners(direct: "Direct", chosen: Integers, probability: float) -> float:
    """Return an upper limit for how much the largest estimates exceed their shares in total, on average."""
    from scipy.special import gammaincinv

    cut = float(direct.estimate[chosen].min())
    sd = direct.sd(np.full_like(direct.estimate, min(max(cut, 0.0), 1.0)))
    window = np.maximum(sd, 1 / (direct.n * direct.gain)) / 2  # at least one count wide
    near = np.abs(direct.estimate - cut) <= window * (1 + 1e-9)
    most = gammaincinv(np.count_nonzero(near) + 1, (1 + probability) / 2)  # of a Poisson mean
    return float(most * np.max((sd**2 / (2 * window))[near]))


def _ranks(direct: "Direct", level: float) -> dict[str, Integers]:
    """Return the smallest and largest rank of each category; all are right at once but for a probability of `level`."""
    from scipy.special import betainccinv, betaincinv

    count, side = named_by(direct), level / (2 * direct.n.size)
    with np.errstate(invalid="ignore"):
        low = np.where(count > 0, betaincinv(np.maximum(count, LEAST_SD), direct.n - count + 1, side), 0.0)
        high = np.where(count < direct.n, betainccinv(count + 1, np.maximum(direct.n - count, LEAST_SD), side), 1.0)
    low, high = (np.clip((ends - direct.other) / direct.gain, 0.0, 1.0) for ends in (low, high))
    above, not_below = np.sort(low), np.sort(high)
    return {
        "rank_lower": 1 + low.size - np.searchsorted(above, high, side="right"),
        "rank_upper": low.size - np.searchsorted(not_below, low, side="right") + (high <= low),
    }


def _among_largest(draws: Floats, k: int) -> Floats:
    """Return the share of draws in which each category is among the k largest."""
    n, k_all = draws.shape
    total = np.zeros(k_all)
    for start in range(0, n, DRAWS_AT_ONCE):
        part = draws[start : start + DRAWS_AT_ONCE]
        total += (part >= np.partition(part, k_all - k, axis=1)[:, [k_all - k]]).sum(axis=0)
    return np.asarray(total / n)


def above(
    theta: "xr.DataArray | xr.DataTree",
    threshold: float,
    error: float = 0.05,
    rate: Literal["any", "share"] = "any",
    kind: Literal["covering", "posterior"] | None = None,
    *,
    var_name: str | None = None,
    responses: "Responses | Gathered | None" = None,
) -> "xr.Dataset":
    """Return the categories whose shares are above a threshold, with a stated error rate, the largest first.

    Parameters
    ----------
    theta, kind, var_name, responses
        As in `summary`; the shares must be by category alone.
    threshold : float
        A share, such as 0.01; 0 for the categories that are shown not to be empty.
    error : float, default 0.05
        The error rate of the list.
    rate : {"any", "share"}
        What `error` is: the probability that *any* listed category is at the threshold or below it, or the *share* of
        such categories among the listed ones, on average over collections (0 if none is listed).

    Returns
    -------
    xarray.Dataset
        For each listed category, ``mean``, ``lower`` and ``upper`` as in `largest`, ``probability``, the posterior
        probability that it is above the threshold, and for covering intervals the ``p_value`` of its test. The list
        may be empty.

    Notes
    -----
    The answers that name a category are as many or more with the probability ``p_value`` if its share is the threshold,
    and with a smaller one if it is less. Holm's procedure [1]_ for ``"any"`` and that of Benjamini and Yekutieli [2]_
    for ``"share"`` keep the error rate whatever the shares are, and however the counts of categories depend on each
    other. With thousands of categories ``"share"`` lists more if there are more than about ten to list.

    For ``kind="posterior"`` the list is the longest for which the draws say so: right if the prior is.

    References
    ----------
    .. [1] S. Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics
       6.
    .. [2] Y. Benjamini and D. Yekutieli (2001), The control of the false discovery rate in multiple testing under
       dependency, Annals of Statistics 29.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(4, epsilon=2.0)
    >>> answers = mechanism.privatize([0] * 600 + [1] * 300 + [2] * 60 + [3] * 40, rng=np.random.default_rng(1))
    >>> tree = ad.sample(ad.Responses.from_arrays(mechanism, answers, categories=list("abcd")), "gibbs", random_seed=1)
    >>> ad.intervals.above(tree, threshold=0.2).category.values.tolist()
    ['a', 'b']
    """
    read, mean, flat = _read_alone(theta, kind, var_name, responses)
    limit = check_threshold(threshold)
    level = check_real(error, "error", "a number between 0 and 1", lambda x: 0 < x < 1)
    if not isinstance(rate, str) or rate not in ("any", "share"):
        raise ValueError(f"rate must be 'any' or 'share', got {brief(rate)}")
    is_above = flat > limit
    chance, direct = is_above.mean(axis=0), direct_of(read, mean)
    p_values = None if direct is None else p_above(direct, limit)
    chosen = _sure_by_draws(is_above, chance, level, rate) if p_values is None else rejected(p_values, level, rate)
    chosen = chosen[np.argsort(-mean.values[chosen], kind="stable")]
    result = _chosen(mean, flat, direct, chosen, 1 - level, 1 - level * max(chosen.size, 1) / mean.size)
    if p_values is not None:
        result = result.drop_vars("may_be_empty").assign(p_value=("category", p_values[chosen]))
    result["probability"] = ("category", chance[chosen])
    return result.assign_attrs(threshold=limit, error=level, rate=rate).rename(category=read.dim)


def check_threshold(threshold: Any, name: str = "threshold") -> float:
    """Return a share of at least 0 and below 1, or raise ValueError."""
    return check_real(threshold, name, "a share of at least 0 and below 1", lambda x: 0 <= x < 1)


def rejected(p_values: Floats, level: float, rate: str) -> Integers:
    """Return which hypotheses are rejected: by Holm's procedure, or by that of Benjamini and Yekutieli."""
    order, k = np.argsort(p_values, kind="stable"), p_values.size
    place = np.arange(1, k + 1)
    if rate == "any":
        kept = p_values[order] > level / (k + 1 - place)
        return order[: int(np.argmax(kept)) if kept.any() else k]
    passed = np.flatnonzero(p_values[order] <= level * place / (k * np.sum(1 / place)))
    return order[: passed[-1] + 1 if passed.size else 0]


def _sure_by_draws(is_above: Any, chance: Floats, level: float, rate: str) -> Integers:
    """Return the longest list, by falling probability, whose error rate in the draws is at most `level`."""
    order = np.argsort(-chance, kind="stable")
    if rate == "share":
        wrong = np.cumsum(1 - chance[order]) / np.arange(1, chance.size + 1)
    else:
        order = order[chance[order] >= 1 - level]
        wrong = 1 - np.logical_and.accumulate(is_above[:, order], axis=1).mean(axis=0)
    return order[: int(np.count_nonzero(wrong <= level))]


def sums(
    theta: "xr.DataArray | xr.DataTree",
    groups: "Mapping[Any, Any] | Sequence[Any] | xr.DataArray",
    probability: float = PROBABILITY,
    kind: Literal["covering", "posterior"] | None = None,
    *,
    var_name: str | None = None,
    responses: "Responses | Gathered | None" = None,
) -> "xr.Dataset":
    """Return the shares of groups of categories, such as the districts of postal codes, with intervals.

    Parameters
    ----------
    theta, probability, kind, var_name, responses
        As in `summary`; the shares must be by category alone.
    groups : mapping, pandas Series, DataArray or sequence
        The group of each category: by its label, or in the order of the categories. The answers must not decide the
        groups. Labels of other categories are ignored.

    Returns
    -------
    xarray.Dataset
        By group, in the order in which they first occur: ``mean``, ``lower``, ``upper`` and, for covering intervals,
        ``may_be_empty`` as in `summary`; and how many ``categories`` it has.

    Notes
    -----
    The interval of a group rests on how often answers name its categories. Their number in an answer is not binomial,
    but its variance depends on nothing but the share of the group, and there are binary answers, as many, with the same
    variance at every share. So the interval is that of `covering_intervals` for these.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(4, epsilon=2.0)
    >>> answers = mechanism.privatize([0] * 600 + [1] * 300 + [2] * 60 + [3] * 40, rng=np.random.default_rng(1))
    >>> tree = ad.sample(ad.Responses.from_arrays(mechanism, answers, categories=list("abcd")), "gibbs", random_seed=1)
    >>> found = ad.intervals.sums(tree, {"a": "first", "b": "other", "c": "other", "d": "other"})
    >>> found["mean"].round(1).to_series().to_dict()
    {'first': 0.6, 'other': 0.4}
    """
    read, mean, flat = _read_alone(theta, kind, var_name, responses)
    share = check_probability(probability)
    names, group_of = check_groups(groups, mean["category"].values.tolist())
    total = np.bincount(group_of, mean.values).clip(0, 1)
    direct = direct_of(read, mean, group_of) if len(names) > 1 else None
    if len(names) == 1:
        columns: dict[str, Any] = {name: np.ones(1) for name in ("mean", "lower", "upper")}
    elif direct is None:
        each = np.column_stack([flat[:, group_of == g].sum(axis=1) for g in range(len(names))]).clip(0, 1)
        lower, upper = shortest_intervals(each, share)
        columns = {"mean": total, "lower": lower, "upper": upper}
    else:
        columns = {"mean": total} | covered(total, direct, share)
    columns["categories"] = np.bincount(group_of)
    covers = direct is not None or (len(names) == 1 and read.answers is not None)
    return table_of(columns, "group", names, COVERING if covers else SHORTEST, share)


def check_groups(groups: Any, labels: Sequence[str]) -> tuple[list[str], Integers]:
    """Return the names of the groups, and the number of the group of each category, or raise ValueError."""
    allowed = f"groups must have a group for each of the {len(labels):,} categories"
    if hasattr(groups, "to_series") and getattr(groups, "ndim", 0) == 1:
        groups = groups.to_series()
    if hasattr(groups, "to_dict"):
        groups = groups.to_dict()
    if isinstance(groups, Mapping):
        by_label = {str(label): group for label, group in groups.items()}
    elif isinstance(groups, Sequence | np.ndarray) and not isinstance(groups, str | bytes) and np.ndim(groups) == 1:
        if len(groups) != len(labels):
            raise ValueError(f"{allowed}, got {len(groups):,} in their order")
        by_label = dict(zip(labels, groups, strict=True))
    else:
        raise ValueError(f"{allowed}, by label or in their order, got {brief(groups)}")
    missing = [label for label in labels if _is_missing(by_label.get(label))]
    if missing:
        named = ", ".join(repr(label) for label in missing[:MOST_MISSING])
        more = f" and {len(missing) - MOST_MISSING:,} more" if len(missing) > MOST_MISSING else ""
        raise ValueError(f"{allowed}, got none for {named}{more}")
    names = list(dict.fromkeys(str(by_label[label]) for label in labels))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[str(by_label[label])] for label in labels])


def _is_missing(group: Any) -> bool:
    """Tell whether a group is None, NaN or an empty text."""
    return group is None or group != group or (isinstance(group, str) and not group.strip())


def _read_alone(
    theta: Any, kind: str | None, var_name: Any, responses: Any
) -> tuple[ShareDraws, "xr.DataArray", Floats]:
    """Return what `read_shares` does, and the means and the draws (n, K) of shares by category alone."""
    read = read_shares(theta, kind, var_name, responses)
    further = [str(dim) for dim in read.draws.dims if dim not in ("chain", "draw", "category")]
    if further:
        raise ValueError(f"theta must be shares by category alone, got them by {', '.join(further)}, too: choose one")
    draws = read.draws.transpose("chain", "draw", "category")
    if "category" not in draws.coords:
        draws = draws.assign_coords(category=[str(i) for i in range(draws.sizes["category"])])
    return read, draws.mean(("chain", "draw")), draws.values.reshape(-1, draws.shape[-1])
