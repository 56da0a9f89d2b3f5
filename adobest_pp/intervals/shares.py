"""The share of each category with its interval, and how much of its width is due to privacy.

The two kinds of intervals come first, the shortest of draws and those that cover, with the binomial tests of the
latter; then the tables that are made with them, of draws and answers.
"""

import json
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import as_numbers, check_integer, check_numbers, check_prior, check_probability
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.answers.gather.gathered import Gathered
    from adobest_pp.answers.responses import Responses
    from adobest_pp.likelihood.without_prior import Direct
    from adobest_pp.mechanisms import Mechanism

# The probability of the intervals that people see.
PROBABILITY = 0.95
# The names of `covering_intervals` and `shortest_intervals` in files.
COVERING, SHORTEST = "covering", "hdi"
# An interval that would begin less than this share of its width above 0 begins at 0; the same for its upper end and 1.
AT_THE_EDGE = 0.02
# The smallest standard deviation, so that the square of its reciprocal is finite.
LEAST_SD = 1e-100
# Bisection steps for an end, to the precision of a double.
HALVINGS = 50
# Quantiles that represent a known distribution.
QUANTILES = 4000
# Beyond this sum of concentrations, the width of a share is below the precision of a double.
MOST_CONCENTRATED = 1e15
# The attributes by which a tree of `sample` is known.
SAMPLED = {"prior_concentration", "n_responses"}


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
    allowed = "shares from 0 to 1 by draw and category, at least one draw"
    values = check_numbers(draws, "iuf", "draws", allowed).astype(np.float64)
    if values.ndim != 2 or not len(values):
        raise ValueError(f"draws must be {allowed}, got an array of shape {values.shape}")
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"draws must be {allowed}, got values from {values.min():g} to {values.max():g}")
    ordered = np.sort(values, axis=0)
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
    number, the coverage is 93.6 to 96.8 % in 3,900 settings of 2 to 20 categories, ε from 0.25 to 4 and 300 people or
    more, and 95.0 % on average (``python -m validation.fixed_truths``).

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
        for _ in range(HALVINGS):
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
    sd = np.maximum(direct.sd(share), LEAST_SD)
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
    return (at_least(count, n, h) + at_least(count + 1, n, h)) / 2


def at_least(count: Floats, n: Floats, h: Floats) -> Floats:
    """Return P(C ≥ count) for a binomial C, interpolated if the count is not an integer."""
    from scipy.special import betainc

    within = np.clip(count, LEAST_SD, n)
    tail = np.asarray(betainc(within, n - within + 1, h))
    return np.where(count <= 0, 1.0, np.where(count > n, 0.0, tail))


def named_by(direct: "Direct") -> Floats:
    """Return how many of n binary answers name each category."""
    return np.clip((direct.other + direct.gain * direct.estimate) * direct.n, 0.0, direct.n)


def p_above(direct: "Direct", share: float) -> Floats:
    """Return the probability of as many answers that name each category, or more, if this is its share."""
    return at_least(named_by(direct), direct.n, np.clip(direct.other + direct.gain * share, 0.0, 1.0))


def p_below(direct: "Direct", share: float) -> Floats:
    """Return the probability of as few answers that name each category, or fewer, if this is its share."""
    return 1 - at_least(named_by(direct) + 1, direct.n, np.clip(direct.other + direct.gain * share, 0.0, 1.0))


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
    read = read_shares(theta, kind, var_name, responses)
    shown = _shown(read, probability)
    if read.prior is not None or shown.attrs["interval"] == COVERING:
        shown = shown.assign(_sources(shown, read.n, read.prior)[["sample", "privacy"]])
    return shown.rename(category=read.dim)


class _Named(NamedTuple):
    """Gathered answers of which a tree has only how many name each category."""

    counts: "xr.DataArray"
    n: int
    mechanism: "Mechanism"


class ShareDraws(NamedTuple):
    """Draws of shares, and what their intervals rest on.

    `answers` is None if the intervals are those of the draws, and must be enough for others if `must_cover`. `n` is the
    number of people, if known, and `prior` that of a tree of `sample`. `dim` is what the tree calls the categories.
    """

    draws: "xr.DataArray"
    answers: "Responses | Gathered | _Named | None" = None
    must_cover: bool = False
    n: Any = None
    prior: Any = None
    dim: str = "category"


def read_shares(theta: Any, kind: str | None, var_name: Any, responses: Any) -> ShareDraws:
    """Return the draws, and the answers where intervals should cover, or raise ValueError; see `summary`."""
    import xarray as xr

    if kind is not None and (not isinstance(kind, str) or kind not in ("covering", "posterior")):
        raise ValueError(f"kind must be 'covering' or 'posterior', got {brief(kind)}")
    if isinstance(theta, xr.DataTree):
        if SAMPLED.issubset(theta.attrs) and responses is None and var_name in (None, "theta"):
            return _read_tree(theta, kind)
        return _read_model(theta, kind, var_name, responses)
    if var_name is not None or responses is not None:
        raise ValueError(f"theta must be a tree if var_name or responses is given, got {brief(theta)}")
    if kind == "covering":
        raise ValueError("kind must be 'posterior' for draws alone: pass the tree of `sample`, which has the answers")
    return _read_draws(theta)


def _read_draws(theta: Any, n: Any = None, prior: Any = None) -> ShareDraws:
    """Return draws by chain, draw and category, or raise ValueError."""
    import xarray as xr

    if not isinstance(theta, xr.DataArray) or not {"chain", "draw", "category"} <= set(theta.dims):
        raise ValueError(f"theta must be a DataArray of draws by chain, draw and category, got {brief(theta)}")
    return ShareDraws(theta, n=n, prior=prior)


def _read_tree(tree: "xr.DataTree", kind: str | None) -> ShareDraws:
    """Return the draws, the answers and the prior of a tree of `sample`; of a learned prior, its mean concentration."""
    from adobest_pp.answers.draws import theta_of

    draws = theta_of(tree, "theta")
    if not SAMPLED.issubset(tree.attrs):
        raise ValueError("theta must be a tree from `sample`: for another model, pass its draws, n and prior")
    prior = tree.attrs["prior_concentration"]
    if isinstance(prior, str):
        prior = np.mean(tree["posterior"].to_dataset()["concentration"].values)
    chosen_deliberately = kind is None and np.ptp(np.atleast_1d(prior)) > 0
    answers = None if kind == "posterior" or chosen_deliberately else _answers_of(tree)
    return ShareDraws(draws, answers, kind == "covering", tree.attrs["n_responses"], prior)


def _read_model(tree: "xr.DataTree", kind: str | None, var_name: Any, responses: Any) -> ShareDraws:
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
    return ShareDraws(draws, answers, kind == "covering", None if known is None else len(known), dim=dim)


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


def _shown(read: ShareDraws, probability: float) -> "xr.Dataset":
    """Return the mean and the interval of each category, by any further dimensions."""
    mean = read.draws.mean(("chain", "draw"))
    direct = direct_of(read, mean)
    if direct is not None:
        columns = {"mean": mean.values} | covered(mean.values, direct, probability)
        return table_of(columns, "category", mean["category"].values, COVERING, probability)
    mean = mean.transpose(..., "category")
    (*shape, k), n_draws = mean.shape, read.draws.sizes["chain"] * read.draws.sizes["draw"]
    draws = read.draws.transpose(*mean.dims[:-1], "chain", "draw", "category").values
    draws = draws.reshape(math.prod(shape), n_draws, k)
    ends = np.array([shortest_intervals(each, probability) for each in draws]).reshape(*shape, 2, k)
    lower, upper = ((mean.dims, ends[..., end, :]) for end in (0, 1))
    result = mean.to_dataset(name="mean").assign(lower=lower, upper=upper)
    return result.assign_attrs(interval=SHORTEST, probability=probability)


def table_of(columns: dict[str, Any], dim: str, labels: Any, interval: str, probability: float) -> "xr.Dataset":
    """Return columns along one dimension, and which intervals they have."""
    import xarray as xr

    variables = {name: (dim, values) for name, values in columns.items()}
    return xr.Dataset(variables, {dim: labels}, {"interval": interval, "probability": probability})


def covered(mean: Floats, direct: "Direct", probability: float) -> dict[str, Any]:
    """Return covering intervals that contain the means, and what may be empty."""
    lower, upper = covering_intervals(direct, probability)
    return {"lower": np.minimum(lower, mean), "upper": np.maximum(upper, mean), "may_be_empty": direct.estimate <= 0}


def direct_of(read: ShareDraws, mean: "xr.DataArray", groups: Integers | None = None) -> "Direct | None":
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
            found = picked(found, np.argsort(own))
    if found is None and read.must_cover:
        raise ValueError("kind must be 'posterior': there are no answers that determine every share")
    return found


def picked(direct: "Direct", places: Integers) -> "Direct":
    """Return the estimates of some categories."""
    return type(direct)(*(column[places] for column in direct))


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

    read = _read_tree(theta, None) if isinstance(theta, xr.DataTree) else _read_draws(theta, n, prior)
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

    if isinstance(n, xr.DataArray) and set(n.dims) <= set(like.dims):
        n = n.reindex_like(like).broadcast_like(like).transpose(*like.dims)
    try:
        counts = np.broadcast_to(as_numbers(n, "iuf").astype(np.float64), like.shape)
    except (TypeError, ValueError):
        counts = np.array(np.nan)
    if not (np.isfinite(counts) & (counts >= 0)).all():
        by = f", by {', '.join(map(str, like.dims))}" if like.ndim else ""
        raise ValueError(f"n must be the number of people who answered, not negative{by}, got {brief(n)}")
    return counts


def _honest_widths(mean: Floats, n: Floats, prior: Floats, probability: float) -> Floats:
    """Return the widths of the intervals, of shape (groups, K), that n honest answers with these means would give."""
    from scipy.stats import beta

    own = prior + n[:, None] * mean
    own *= np.minimum(1.0, MOST_CONCENTRATED / own.sum(axis=1, keepdims=True))
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    ends = [shortest_intervals(beta.ppf(levels[:, None], a, a.sum() - a), probability) for a in own]
    return np.array([upper - lower for lower, upper in ends])


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
