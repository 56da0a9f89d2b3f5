"""The intervals that people see: they contain a share with a probability of 95 %, whatever the shares are.

A posterior interval contains the truth in 95 % of collections if truths come from its prior. For a given truth it may
do so much less often: the learned prior mistakes rare categories for empty ones, the flat prior mistakes noise for
rare categories, and no prior that was tried is right for all truths (``python -m validation.fixed_truths``). So if the
answers are known, the interval of a category uses its own evidence (`covering_intervals`), and the prior serves only
the estimate, which it makes more accurate.

For draws alone, such as those of your own model, intervals are the shortest that contain a share of the draws
(`shortest_intervals`). If a category may be empty, its posterior piles up at zero, and the shortest interval begins
there.

Of many categories, people want the `largest`, those `above` a threshold, and `sums` over groups. Their error rates hold
whatever the shares are, although the same answers choose what is listed.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import as_numbers, check_integer, check_prior, check_probability, check_real
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.answers.gather.gathered import Gathered
    from adobest_pp.answers.responses import Responses
    from adobest_pp.likelihood.without_prior import Direct
    from adobest_pp.mechanisms import Mechanism

__all__ = [
    "COVERING",
    "PROBABILITY",
    "SHORTEST",
    "above",
    "change",
    "covering_intervals",
    "largest",
    "privacy_share",
    "shortest_intervals",
    "summary",
    "sums",
]

# The probability of the intervals that people see.
PROBABILITY = 0.95

# The names of `covering_intervals` and `shortest_intervals` in files.
COVERING, SHORTEST = "covering", "hdi"

# An interval that would begin less than this share of its width above 0 begins at 0; the same for its upper end and 1.
AT_THE_EDGE = 0.02

# The smallest standard deviation, so that the square of its reciprocal is finite.
_LEAST_SD = 1e-100
# Bisection steps for an end, to the precision of a double.
_HALVINGS = 50
# Quantiles that represent a known distribution.
_QUANTILES = 4000
# Beyond this sum of concentrations, the width of a share is below the precision of a double.
_MOST_CONCENTRATED = 1e15
# Draws of many categories that are looked at together, to bound the memory.
_DRAWS_AT_ONCE = 256
# The most categories without a group that an error names.
_MOST_MISSING = 5
# The attributes by which a tree of `sample` is known.
_SAMPLED = {"prior_concentration", "n_responses"}


def shortest_intervals(draws: ArrayLike, probability: float = PROBABILITY) -> Floats:
    """Return the shortest interval of each category that contains a given share of its draws.

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
    **When it begins at zero.** An interval that would begin less than a fiftieth of its own width above 0 begins at 0:
    the category may be empty. Draws near an edge cannot show whether a share is zero or tiny, and the smallest draw is
    not the end of the posterior. The same rule applies to the upper end and 1. The interval is then at most 2 % longer
    at that end, and contains at least the stated probability.

    Examples
    --------
    >>> import numpy as np
    >>> from adobest_pp.intervals import shortest_intervals
    >>> share = np.random.default_rng(1).beta(0.5, 50, size=4000)
    >>> shortest_intervals(np.column_stack([share, 1 - share])).round(2).tolist()
    [[0.0, 0.96], [0.04, 1.0]]
    """
    share = check_probability(probability)
    ordered = np.sort(_check_shares(draws), axis=0)
    inside = int(np.ceil(share * len(ordered) - 1e-9))
    begin = np.argmin(ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1], axis=0)
    lower, upper = (np.take_along_axis(ordered, begin[None] + shift, axis=0)[0] for shift in (0, inside - 1))
    margin = AT_THE_EDGE * (upper - lower)
    return np.stack([np.where(lower <= margin, 0.0, lower), np.where(1 - upper <= margin, 1.0, upper)])


def covering_intervals(direct: "Direct", probability: float = PROBABILITY) -> Floats:
    """Return intervals that contain each share with a probability of 95 %, whatever the shares are.

    Parameters
    ----------
    direct : Direct
        What the answers alone say about each share (`adobest_pp.likelihood.without_prior.direct_estimate`).
    probability : float, default 0.95
        The fraction of collections in which the interval of a category contains its share.

    Returns
    -------
    array of shape (2, K)
        Lower and upper ends. An interval that begins at 0 contains 0.

    Notes
    -----
    These are confidence intervals: all shares t that a test at the 5 % level does not reject. The test statistic is the
    likelihood ratio of t and the likeliest share from 0 to 1 (Feldman and Cousins [1]_), for a normal estimate with its
    variance at t. The p-value is binomial and counts outcomes that are just as extreme by half. So an interval is never
    empty, begins at 0 if the share may be 0, has two ends otherwise, and needs no rule for switching between the two.
    For SRR and subset selection the number of answers that name a category is binomial. Summed over that
    number, the coverage is 93.6 to 96.8 % in 3,900 settings with 300 people or more, and 95.0 % on average
    (``python -m validation.fixed_truths``).

    References
    ----------
    .. [1] G. J. Feldman and R. D. Cousins (1998), Unified approach to the classical statistical analysis of small
       signals, Physical Review D 57.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> from adobest_pp.likelihood.without_prior import direct_of_counts
    >>> direct = direct_of_counts(np.array([1150.0, 1850.0]), 3000, ad.SRR(2, epsilon=0.5))
    >>> ad.intervals.covering_intervals(direct).round(3).tolist()
    [[0.0, 0.905], [0.095, 1.0]]
    """
    from adobest_pp.likelihood.without_prior import Direct

    level = 1 - check_probability(probability)
    if not isinstance(direct, Direct):
        raise ValueError(f"direct must be a Direct, as from direct_estimate, got {brief(direct)}")
    begin = np.clip(direct.estimate, 0.0, 1.0)
    ends = []
    for edge in (0.0, 1.0):
        inside, outside = begin, np.full_like(begin, edge)
        at_edge = p_value(outside, direct) >= level
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            holds = p_value(middle, direct) >= level
            inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
        ends.append(np.where(at_edge, edge, inside))
    return np.array(ends)


def p_value(share: Floats, direct: "Direct") -> Floats:
    """Return the probability, given these shares, of a likelihood ratio at least as large as the observed one.

    In units of its standard deviation, the estimate is z away from the share, and the edges 0 and 1 are `low` below and
    `high` above it. Twice the log-ratio is z² if the estimate is between the edges, and grows linearly beyond. The two
    estimates with the same ratio are `below` and `above` the share by these distances. The p-value is the binomial
    probability of estimates at least as far away, with those just as far counted by half (mid-P).
    """
    sd = np.maximum(direct.sd(share), _LEAST_SD)
    z, low, high = (direct.estimate - share) / sd, share / sd, (1 - share) / sd
    ratio = np.where(z < -low, -low * (2 * z + low), np.where(z > high, high * (2 * z - high), z**2))
    root = np.sqrt(ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(root <= low, root, (ratio + low**2) / (2 * low))
        above = np.where(root <= high, root, (ratio + high**2) / (2 * high))
    h, scale = np.clip(direct.other + direct.gain * share, 0.0, 1.0), sd * direct.gain
    farthest = 1 / scale  # all answers, or none
    least, most = h - np.minimum(below, farthest) * scale, h + np.minimum(above, farthest) * scale
    return _upper_tail(most * direct.n, direct.n, h) + 1 - _upper_tail(least * direct.n, direct.n, h)


def _upper_tail(count: Floats, n: Floats, h: Floats) -> Floats:
    """Return P(C > count) + P(C = count)/2 for a binomial C, interpolated if the count is not an integer."""
    return (_at_least(count, n, h) + _at_least(count + 1, n, h)) / 2


def _at_least(count: Floats, n: Floats, h: Floats) -> Floats:
    """Return P(C ≥ count) for a binomial C, interpolated if the count is not an integer."""
    from scipy.special import betainc

    within = np.clip(count, _LEAST_SD, n)
    tail = np.asarray(betainc(within, n - within + 1, h))
    return np.where(count <= 0, 1.0, np.where(count > n, 0.0, tail))


def _check_shares(draws: ArrayLike) -> Floats:
    allowed = "shares from 0 to 1 by draw and category, at least one draw"
    try:
        values = as_numbers(draws, "iuf").astype(np.float64)
    except TypeError:
        raise ValueError(f"draws must be {allowed}, got {brief(draws)}") from None
    if values.ndim != 2 or not len(values):
        raise ValueError(f"draws must be {allowed}, got an array of shape {values.shape}")
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"draws must be {allowed}, got values from {values.min():g} to {values.max():g}")
    return values


def summary(
    theta: "xr.DataArray | xr.DataTree",
    probability: float = PROBABILITY,
    kind: Literal["covering", "posterior"] | None = None,
    *,
    var_name: str | None = None,
    responses: "Responses | Gathered | None" = None,
) -> "xr.Dataset":
    """Return the ``mean`` and the interval, ``lower`` and ``upper``, of each category.

    Parameters
    ----------
    theta : xarray.DataArray or DataTree
        Draws by chain, draw and category, and by any further dimension, such as region; or the tree of `sample`; or
        that of `pymc.sample` for a model with `PrivateResponse`.
    probability : float, default 0.95
        How often the interval of a category contains its share, or for ``"posterior"`` the share of the draws in it.
    kind : {"covering", "posterior"}, optional
        ``"covering"``: the interval contains the share in 95 % of collections, whatever the truth is
        (`covering_intervals`), and it always contains the mean. ``"posterior"``: the shortest interval with 95 % of the
        draws (`shortest_intervals`), which is right if the prior is. The default is covering if `theta` is a tree from
        `sample` whose prior treats all categories alike. It is posterior for draws without answers, and for a prior
        that prefers some categories: it was chosen deliberately; and with more than 500 categories for mechanisms that
        treat them differently, such as `RRRR`. For a tree of `pymc.sample` it is covering if you pass `responses`.
        Shares by region or another further dimension have posterior intervals, one for each cell.
    var_name : str, optional
        The variable of a tree; by default ``theta``, or else the only one that sums to one along a dimension.
    responses : Responses or Gathered, optional
        The answers of all people, where θ is one vector and the tree, as that of `pymc.sample`, does not hold them.

    Returns
    -------
    xarray.Dataset
        ``mean``, ``lower`` and ``upper`` by category (or what the tree calls this dimension), and by any further
        dimension. For a tree of `sample`, and for covering intervals, also the shares of the interval's width that are
        due to the ``sample`` and to ``privacy`` (see `privacy_share`). For covering intervals, ``may_be_empty`` is True
        if an empty category fits the answers better than any share. The attribute ``interval`` is ``"covering"`` or
        ``"hdi"``, the shortest posterior interval.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> list(ad.intervals.summary(ad.sample(responses, "gibbs", random_seed=1)))
    ['mean', 'lower', 'upper', 'may_be_empty', 'sample', 'privacy']
    """
    read = _read(theta, kind, var_name, responses)
    shown = _shown(read, probability)
    if read.prior is not None or shown.attrs["interval"] == COVERING:
        shown = shown.assign(_sources(shown, read.n, read.prior)[["sample", "privacy"]])
    return shown.rename(category=read.dim)


class _Named(NamedTuple):
    """Gathered answers of which a tree has only how many name each category."""

    counts: "xr.DataArray"
    n: int
    mechanism: "Mechanism"


class _Read(NamedTuple):
    """Draws of shares, and what their intervals rest on.

    `answers` is None if the intervals are those of the draws. `dim` is what the tree calls the categories. `prior` is
    that of a tree of `sample`, `kind` what was asked for, and `n` the number of people, if known.
    """

    draws: "xr.DataArray"
    kind: str | None
    answers: "Responses | Gathered | _Named | None" = None
    n: Any = None
    prior: Any = None
    dim: str = "category"


def _read(theta: Any, kind: str | None, var_name: Any, responses: Any) -> _Read:
    """Return the draws, and the answers where intervals should cover, or raise ValueError; see `summary`."""
    import xarray as xr

    if kind is not None and (not isinstance(kind, str) or kind not in ("covering", "posterior")):
        raise ValueError(f"kind must be 'covering' or 'posterior', got {brief(kind)}")
    if isinstance(theta, xr.DataTree):
        if _SAMPLED.issubset(theta.attrs) and responses is None and var_name in (None, "theta"):
            return _read_tree(theta, kind)
        return _read_model(theta, kind, var_name, responses)
    if var_name is not None or responses is not None:
        raise ValueError(f"theta must be a tree if var_name or responses is given, got {brief(theta)}")
    if kind == "covering":
        raise ValueError("kind must be 'posterior' for draws alone: pass the tree of `sample`, which has the answers")
    return _read_draws(theta, kind)


def _read_draws(theta: Any, kind: str | None, n: Any = None, prior: Any = None) -> _Read:
    """Return draws by chain, draw and category, or raise ValueError."""
    import xarray as xr

    if not isinstance(theta, xr.DataArray) or not {"chain", "draw", "category"} <= set(theta.dims):
        raise ValueError(f"theta must be a DataArray of draws by chain, draw and category, got {brief(theta)}")
    return _Read(theta, kind, None, n, prior)


def _read_tree(tree: "xr.DataTree", kind: str | None) -> _Read:
    """Return the draws, the answers and the prior of a tree of `sample`; of a learned prior, its mean concentration."""
    from adobest_pp.answers.draws import theta_of

    draws = theta_of(tree, "theta")
    if not _SAMPLED.issubset(tree.attrs):
        raise ValueError("theta must be a tree from `sample`: for another model, pass its draws, n and prior")
    prior = tree.attrs["prior_concentration"]
    if isinstance(prior, str):
        prior = np.mean(tree["posterior"].to_dataset()["concentration"].values)
    chosen_deliberately = kind is None and np.ptp(np.atleast_1d(prior)) > 0
    answers = None if kind == "posterior" or chosen_deliberately else _answers_of(tree)
    return _Read(draws, kind, answers, tree.attrs["n_responses"], prior)


def _read_model(tree: "xr.DataTree", kind: str | None, var_name: Any, responses: Any) -> _Read:
    """Return the shares in a tree of any model, and the answers if they are known."""
    from adobest_pp.answers.draws import responses_of, shares_of
    from adobest_pp.answers.responses import check_responses

    known = responses_of(tree) if responses is None else responses
    if known is not None:
        check_responses(known)
    draws, dim = shares_of(tree, "theta", var_name, None if known is None else known.categories)
    further = ", ".join(str(each) for each in draws.dims[2:-1])
    if kind == "covering" and further:
        raise ValueError(f"kind must be 'posterior' for shares by {further}: the answers are not split by it")
    if kind == "covering" and known is None:
        raise ValueError("responses must be given for covering intervals: the tree has no answers, so pass the model's")
    answers = None if kind == "posterior" or further else known
    return _Read(draws, kind, answers, None if known is None else len(known), None, dim)


def _answers_of(tree: "xr.DataTree") -> "Responses | Gathered | _Named | None":
    """Return the answers in a tree of `sample`, or as much of them as it has."""
    from adobest_pp.answers.draws import responses_of
    from adobest_pp.mechanisms import mechanism_from_settings

    responses = responses_of(tree)
    if responses is not None or "responses" not in tree.children or "answers_with" not in tree["responses"]:
        return responses
    stored = tree["responses"].to_dataset()
    mechanism = mechanism_from_settings(json.loads(stored.attrs["mechanism_settings"]))
    return _Named(stored["answers_with"], int(tree.attrs["n_responses"]), mechanism)


def _shown(read: _Read, probability: float) -> "xr.Dataset":
    """Return the mean and the interval of each category, by any further dimensions."""
    mean = read.draws.mean(("chain", "draw"))
    direct = _direct(read, mean)
    if direct is not None:
        columns = {"mean": mean.values} | _covered(mean.values, direct, probability)
        return _table(columns, "category", mean["category"].values, COVERING, probability)
    mean = mean.transpose(..., "category")
    (*shape, k), n_draws = mean.shape, read.draws.sizes["chain"] * read.draws.sizes["draw"]
    draws = read.draws.transpose(*mean.dims[:-1], "chain", "draw", "category").values
    draws = draws.reshape(math.prod(shape), n_draws, k)
    ends = np.array([shortest_intervals(each, probability) for each in draws]).reshape(-1, 2, k)
    lower, upper = (ends[:, end].reshape(mean.shape) for end in (0, 1))
    result = mean.to_dataset(name="mean").assign(lower=(mean.dims, lower), upper=(mean.dims, upper))
    return result.assign_attrs(interval=SHORTEST, probability=probability)


def _table(columns: dict[str, Any], dim: str, labels: Any, interval: str, probability: float) -> "xr.Dataset":
    import xarray as xr

    variables = {name: (dim, values) for name, values in columns.items()}
    return xr.Dataset(variables, {dim: labels}, {"interval": interval, "probability": probability})


def _covered(mean: Floats, direct: "Direct", probability: float) -> dict[str, Any]:
    """Return covering intervals that contain the means, and what may be empty."""
    lower, upper = covering_intervals(direct, probability)
    return {"lower": np.minimum(lower, mean), "upper": np.maximum(upper, mean), "may_be_empty": direct.estimate <= 0}


def _direct(read: _Read, mean: "xr.DataArray", groups: Integers | None = None) -> "Direct | None":
    """Return what the answers alone say about the categories of `mean`, in their order, or about sums over groups.

    Return None if intervals should not cover, and raise ValueError if they should but answers do not determine them.
    """
    from adobest_pp.likelihood.without_prior import direct_estimate, direct_of_counts

    answers, labels = read.answers, mean["category"].values.tolist()
    found = None
    if isinstance(answers, _Named):
        counts = answers.counts.sel(category=labels).values.astype(np.float64)
        found = direct_of_counts(counts, answers.n, answers.mechanism, groups)
    elif answers is not None:
        place = {label: i for i, label in enumerate(labels)}
        own = np.array([place[label] for label in answers.categories])
        found = direct_estimate(answers, mean.values[own], None if groups is None else groups[own])
        if found is not None and groups is None:
            found = _picked(found, np.argsort(own))
    if found is None and read.kind == "covering":
        raise ValueError("kind must be 'posterior': there are no answers that determine every share")
    return found


def _picked(direct: "Direct", places: Integers) -> "Direct":
    return type(direct)(*(column[places] for column in direct))


def change(responses: "Responses", before: int = 0, after: int = 1, probability: float = PROBABILITY) -> "xr.Dataset":
    """Return the change of each share between two waves of the same people, with its interval.

    Parameters
    ----------
    responses : Responses
        Answers of `Memoized`: a row of waves for each person.
    before, after : int, default 0 and 1
        The two waves, from 0.
    probability : float, default 0.95
        How often the interval contains the true change, whatever the shares and whoever changed.

    Returns
    -------
    xarray.Dataset
        ``change`` (the share after minus the share before), ``lower``, ``upper`` and ``standard_error`` by category.
        The attribute ``people`` is the number of people who answered in both waves; the others are left out.

    Notes
    -----
    Let C be the channel of one wave and L its inverse: L[i, y] has the mean 1 for people of category i, and 0 for all
    others. So a person's L[i, y_after] − L[i, y_before] has the person's own change as its mean, and the estimate is
    its average over people. The standard error is that of an average, so it needs no model of who changes. It is small
    for people who stay the same, whose answers share their permanent answer. The interval is by Student's t, which
    needs some tens of people.

    Examples
    --------
    >>> import numpy as np, adobest_pp as ad
    >>> mechanism = ad.Memoized.from_budgets(3, epsilon=3.0, wave_epsilon=2.0, n_waves=2)
    >>> x = np.random.default_rng(1).integers(3, size=1000)
    >>> answers = mechanism.privatize(x, rng=np.random.default_rng(2))
    >>> found = ad.intervals.change(ad.Responses.from_arrays(mechanism, answers))
    >>> bool(((found["lower"] < 0) & (found["upper"] > 0)).all()), found.attrs["people"]
    (True, 1000)
    """
    import xarray as xr
    from scipy import stats

    from adobest_pp.answers.responses import Responses
    from adobest_pp.mechanisms.memoized import NO_ANSWER, Memoized

    if not isinstance(responses, Responses) or not isinstance(responses.mechanism, Memoized):
        raise ValueError(
            f"responses must be Responses of Memoized, with the waves of each person, got {brief(responses)}"
        )
    last = responses.mechanism.n_waves - 1
    pair = [check_integer(before, "before", 0, last), check_integer(after, "after", 0, last)]
    if pair[0] == pair[1]:
        raise ValueError(f"after must be another wave than before, got {after} for both")
    level = check_probability(probability)
    answers = np.asarray(responses.answers)[:, pair]
    both = answers[(answers != NO_ANSWER).all(axis=1)]
    if len(both) < 2:
        raise ValueError(f"responses must have at least 2 people with both waves, got {len(both)}")
    matrix = responses.mechanism.wave_matrix()
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise ValueError(
            "responses must be of a mechanism whose answers determine every share, got one whose answers do not"
        )
    inverse = np.linalg.pinv(matrix)
    each = inverse[:, both[:, 1]] - inverse[:, both[:, 0]]
    mean, error = each.mean(axis=1), each.std(axis=1, ddof=1) / math.sqrt(len(both))
    margin = stats.t.ppf((1 + level) / 2, len(both) - 1) * error
    columns = {
        "change": mean,
        "lower": np.maximum(mean - margin, -1.0),
        "upper": np.minimum(mean + margin, 1.0),
        "standard_error": error,
    }
    attributes = {"people": len(both), "before": pair[0], "after": pair[1], "probability": level}
    coords = {"category": list(responses.categories)}
    return xr.Dataset({name: ("category", value) for name, value in columns.items()}, coords, attributes)


def privacy_share(
    theta: "xr.DataArray | xr.DataTree",
    n: "ArrayLike | xr.DataArray | None" = None,
    prior: ArrayLike = 1.0,
    probability: float = PROBABILITY,
) -> "xr.Dataset":
    """Return how much of each interval's width is due to privacy, and how much to the sample.

    Parameters
    ----------
    theta : xarray.DataArray or DataTree
        Draws of category frequencies by chain, draw and category, and by any further dimension, such as region. A tree
        of `sample` also supplies the number of people and the prior.
    n : int, or array by the further dimensions
        How many people answered. Leave it out for a tree of `sample`.
    prior : float or array of shape (K,), default 1.0
        The concentrations of the Dirichlet prior that honest answers are combined with. Leave it out for a tree of
        `sample`; for a learned prior, the mean of its concentration is used.
    probability : float, default 0.95
        The share of the draws within each interval.

    Returns
    -------
    xarray.Dataset
        ``width`` of the interval of `summary`; ``honest_width`` of the interval that n honest answers would give;
        ``sample`` and ``privacy``, the shares of the width, which sum to one.

    Notes
    -----
    Covering intervals (see `summary`) are compared with the covering intervals of as many honest answers with the
    estimated frequencies. For draws alone, the posterior of n honest answers is Dirichlet(ρ + counts) with the expected
    counts, n times the posterior mean of θ. Each share is then a Beta variable, and its shortest interval comes from
    4000 equally likely quantiles. If a model pools over groups, the comparison is still with separate groups, and the
    share of privacy may be zero.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SRR(2, epsilon=1.0)
    >>> answers = mechanism.privatize([0] * 700 + [1] * 300, rng=np.random.default_rng(1))
    >>> tree = ad.sample(ad.Responses.from_arrays(mechanism, answers), "gibbs", random_seed=1)
    >>> ad.intervals.privacy_share(tree).privacy.round(1).values.tolist()
    [0.6, 0.6]
    """
    import xarray as xr

    read = _read_tree(theta, None) if isinstance(theta, xr.DataTree) else _read_draws(theta, "posterior", n, prior)
    return _sources(_shown(read, probability), read.n if n is None else n, read.prior)


def _sources(shown: "xr.Dataset", n: Any, prior: Any) -> "xr.Dataset":
    """Return how much of the widths of `shown` is due to privacy, with honest intervals of the same kind."""
    import xarray as xr

    from adobest_pp.likelihood.without_prior import Direct

    mean, width = shown["mean"], (shown["upper"] - shown["lower"]).values
    k, probability = mean.sizes["category"], shown.attrs["probability"]
    people = _check_people(n, mean.isel(category=0, drop=True))
    if shown.attrs["interval"] == COVERING:
        zeros = 0 * mean.values
        lower, upper = covering_intervals(Direct(mean.values, zeros, zeros + 1, zeros + people), probability)
        honest = upper - lower
    else:
        labels = tuple(map(str, mean["category"].values)) if "category" in mean.coords else None
        concentration = check_prior(prior, k, labels)
        flat = _honest_widths(mean.values.reshape(-1, k), people.ravel(), concentration, probability)
        honest = flat.reshape(width.shape)
    share = share_of_sample(honest, width)
    columns = {"width": width, "honest_width": honest, "sample": share, "privacy": 1 - share}
    variables = {name: (mean.dims, values) for name, values in columns.items()}
    return xr.Dataset(variables, mean.coords, shown.attrs)


def share_of_sample(honest: Floats, width: Floats) -> Floats:
    """Return the share of the width of each interval that is due to the sample: that of honest answers, at most 1."""
    return np.minimum(np.divide(honest, width, out=np.ones_like(honest), where=width > 0), 1.0)


def _check_people(n: Any, like: "xr.DataArray") -> Floats:
    """Return the number of people of each group, in the order of the groups, or raise ValueError."""
    import xarray as xr

    allowed = "the number of people who answered, not negative" + (f", by {', '.join(map(str, like.dims))}" * like.ndim)
    if isinstance(n, xr.DataArray) and set(n.dims) <= set(like.dims):
        n = n.reindex_like(like).broadcast_like(like).transpose(*like.dims)
    try:
        counts = np.broadcast_to(as_numbers(n, "iuf").astype(np.float64), like.shape)
    except (TypeError, ValueError):
        raise ValueError(f"n must be {allowed}, got {brief(n)}") from None
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError(f"n must be {allowed}, got {brief(n)}")
    return counts


def _honest_widths(mean: Floats, n: Floats, prior: Floats, probability: float) -> Floats:
    """Return the widths of the intervals, of shape (groups, K), that n honest answers with these means would give."""
    from scipy.stats import beta

    own = prior + n[:, None] * mean
    own *= np.minimum(1.0, _MOST_CONCENTRATED / own.sum(axis=1, keepdims=True))
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    ends = [shortest_intervals(beta.ppf(levels[:, None], a, a.sum() - a), probability) for a in own]
    return np.array([upper - lower for lower, upper in ends])


# Many categories: the largest of them, those above a threshold, and sums over groups.
#
# The same answers choose what is listed and say how large it is, so the listed estimates are too large on average. The
# error rates of a list hold nevertheless, whatever the shares are and whatever is listed.


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
    direct = _direct(read, mean)
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
        columns |= _covered(columns["mean"], _picked(direct, chosen), covering)
        return _table(columns, "category", labels, COVERING, probability)
    lower, upper = shortest_intervals(flat[:, chosen], probability) if chosen.size else np.zeros((2, 0))
    return _table(columns | {"lower": lower, "upper": upper}, "category", labels, SHORTEST, probability)


def _rest(
    read: _Read, mean: Any, flat: Floats, direct: "Direct | None", chosen: Integers, probability: float
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
    both = _direct(read, mean, outside)
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

    count, side = _count(direct), level / (2 * direct.n.size)
    with np.errstate(invalid="ignore"):
        low = np.where(count > 0, betaincinv(np.maximum(count, _LEAST_SD), direct.n - count + 1, side), 0.0)
        high = np.where(count < direct.n, betainccinv(count + 1, np.maximum(direct.n - count, _LEAST_SD), side), 1.0)
    low, high = (np.clip((ends - direct.other) / direct.gain, 0.0, 1.0) for ends in (low, high))
    above, not_below = np.sort(low), np.sort(high)
    return {
        "rank_lower": 1 + low.size - np.searchsorted(above, high, side="right"),
        "rank_upper": low.size - np.searchsorted(not_below, low, side="right") + (high <= low),
    }


def _count(direct: "Direct") -> Floats:
    """Return how many of n binary answers name each category."""
    return np.clip((direct.other + direct.gain * direct.estimate) * direct.n, 0.0, direct.n)


def _among_largest(draws: Floats, k: int) -> Floats:
    """Return the share of draws in which each category is among the k largest."""
    n, k_all = draws.shape
    total = np.zeros(k_all)
    for start in range(0, n, _DRAWS_AT_ONCE):
        part = draws[start : start + _DRAWS_AT_ONCE]
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
    chance, direct = is_above.mean(axis=0), _direct(read, mean)
    p_values = None if direct is None else p_above(direct, limit)
    chosen = _sure_by_draws(is_above, chance, level, rate) if p_values is None else _rejected(p_values, level, rate)
    chosen = chosen[np.argsort(-mean.values[chosen], kind="stable")]
    result = _chosen(mean, flat, direct, chosen, 1 - level, 1 - level * max(chosen.size, 1) / mean.size)
    if p_values is not None:
        result = result.drop_vars("may_be_empty").assign(p_value=("category", p_values[chosen]))
    result["probability"] = ("category", chance[chosen])
    return result.assign_attrs(threshold=limit, error=level, rate=rate).rename(category=read.dim)


def p_above(direct: "Direct", share: float) -> Floats:
    """Return the probability of as many answers that name each category, or more, if this is its share."""
    return _at_least(_count(direct), direct.n, np.clip(direct.other + direct.gain * share, 0.0, 1.0))


def p_below(direct: "Direct", share: float) -> Floats:
    """Return the probability of as few answers that name each category, or fewer, if this is its share."""
    return 1 - _at_least(_count(direct) + 1, direct.n, np.clip(direct.other + direct.gain * share, 0.0, 1.0))


def check_threshold(threshold: Any, name: str = "threshold") -> float:
    """Return a share of at least 0 and below 1, or raise ValueError."""
    return check_real(threshold, name, "a share of at least 0 and below 1", lambda x: 0 <= x < 1)


def _rejected(p_values: Floats, level: float, rate: str) -> Integers:
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
    direct = _direct(read, mean, group_of) if len(names) > 1 else None
    if len(names) == 1:
        columns: dict[str, Any] = {name: np.ones(1) for name in ("mean", "lower", "upper")}
    elif direct is None:
        each = np.column_stack([flat[:, group_of == g].sum(axis=1) for g in range(len(names))]).clip(0, 1)
        lower, upper = shortest_intervals(each, share)
        columns = {"mean": total, "lower": lower, "upper": upper}
    else:
        columns = {"mean": total} | _covered(total, direct, share)
    columns["categories"] = np.bincount(group_of)
    covers = direct is not None or (len(names) == 1 and read.answers is not None)
    return _table(columns, "group", names, COVERING if covers else SHORTEST, share)


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
        named = ", ".join(repr(label) for label in missing[:_MOST_MISSING])
        more = f" and {len(missing) - _MOST_MISSING:,} more" if len(missing) > _MOST_MISSING else ""
        raise ValueError(f"{allowed}, got none for {named}{more}")
    names = list(dict.fromkeys(str(by_label[label]) for label in labels))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[str(by_label[label])] for label in labels])


def _is_missing(group: Any) -> bool:
    """Tell whether a group is None, NaN or an empty text."""
    return group is None or group != group or (isinstance(group, str) and not group.strip())


def _read_alone(theta: Any, kind: str | None, var_name: Any, responses: Any) -> tuple[_Read, "xr.DataArray", Floats]:
    """Return what `_read` does, the means and the draws (n, K) of shares by category alone, or raise ValueError."""
    read = _read(theta, kind, var_name, responses)
    further = [str(dim) for dim in read.draws.dims if dim not in ("chain", "draw", "category")]
    if further:
        raise ValueError(f"theta must be shares by category alone, got them by {', '.join(further)}, too: choose one")
    draws = read.draws.transpose("chain", "draw", "category")
    if "category" not in draws.coords:
        draws = draws.assign_coords(category=[str(i) for i in range(draws.sizes["category"])])
    return read, draws.mean(("chain", "draw")), draws.values.reshape(-1, draws.shape[-1])
