"""The intervals that people see: they contain a share with a probability of 95 %, whatever the shares are.

A posterior interval contains the truth in 95 % of collections if truths come from its prior. For a given truth it may
do so much less often: the learned prior mistakes rare answers for none, the flat prior mistakes noise for rare answers,
and no prior that was tried is right for all truths (``python -m validation.fixed_truths``). So if the answers are
known, the interval of a category uses its own evidence (`covering_intervals`), and the prior serves only the estimate,
which it makes more accurate.

For draws alone, such as those of your own model, intervals are the shortest that contain a share of the draws
(`shortest_intervals`). If a category may be empty, its posterior piles up at zero, and the shortest interval begins
there.
"""

import json
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import as_numbers, check_prior, check_probability
from adobest_pp._text import brief
from adobest_pp._types import Floats

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.answers.gather.gathered import Gathered
    from adobest_pp.answers.responses import Responses
    from adobest_pp.likelihood.without_prior import Direct

__all__ = [
    "COVERING",
    "PROBABILITY",
    "SHORTEST",
    "covering_intervals",
    "privacy_share",
    "shortest_intervals",
    "summary",
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
    from scipy.special import betainc

    def at_least(least: Floats) -> Floats:
        within = np.clip(least, _LEAST_SD, n)
        tail = np.asarray(betainc(within, n - within + 1, h))
        return np.where(least <= 0, 1.0, np.where(least > n, 0.0, tail))

    return np.asarray((at_least(count) + at_least(count + 1)) / 2)


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
        that prefers some categories: it was chosen deliberately. For a tree of `pymc.sample` it is covering if you pass
        `responses`. Shares by region or another further dimension have posterior intervals, one for each cell.
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
    import xarray as xr

    if kind is not None and (not isinstance(kind, str) or kind not in ("covering", "posterior")):
        raise ValueError(f"kind must be 'covering' or 'posterior', got {brief(kind)}")
    if isinstance(theta, xr.DataTree):
        is_ours = {"prior_concentration", "n_responses"} <= {*theta.attrs} and responses is None
        if not is_ours or var_name not in (None, "theta"):
            return _of_model(theta, probability, kind, var_name, responses)
        draws, n, prior = _of_tree(theta, None)
        shown = _shown(theta, draws, probability, kind)
        return shown.assign(_sources(shown, draws, n, prior)[["sample", "privacy"]])
    if var_name is not None or responses is not None:
        raise ValueError(f"theta must be a tree if var_name or responses is given, got {brief(theta)}")
    if kind == "covering":
        raise ValueError("kind must be 'posterior' for draws alone: pass the tree of `sample`, which has the answers")
    return _of_draws(theta, probability)


def _of_draws(theta: Any, probability: float) -> "xr.Dataset":
    """Return the mean and the shortest interval of each category from draws, for each cell of further dimensions."""
    import xarray as xr

    if not isinstance(theta, xr.DataArray) or not {"chain", "draw", "category"} <= set(theta.dims):
        raise ValueError(f"theta must be a DataArray of draws by chain, draw and category, got {brief(theta)}")
    others = [dim for dim in theta.dims if dim not in ("chain", "draw", "category")]
    mean = theta.mean(("chain", "draw")).transpose(*others, "category")
    k, n_draws = theta.sizes["category"], theta.sizes["chain"] * theta.sizes["draw"]
    flat = theta.transpose(*others, "chain", "draw", "category").values.reshape(math.prod(mean.shape[:-1]), n_draws, k)
    ends = np.array([shortest_intervals(each, probability) for each in flat]).reshape(-1, 2, k)
    lower, upper = (ends[:, end].reshape(mean.shape) for end in (0, 1))
    result = mean.to_dataset(name="mean").assign(lower=(mean.dims, lower), upper=(mean.dims, upper))
    return result.assign_attrs(interval=SHORTEST, probability=probability)


def _of_model(tree: "xr.DataTree", probability: float, kind: str | None, var_name: Any, responses: Any) -> "xr.Dataset":
    """Return the summary of the shares in a tree of any model; see `summary`."""
    from adobest_pp.answers.draws import responses_of, shares_of
    from adobest_pp.answers.responses import check_responses

    known = responses_of(tree) if responses is None else responses
    if known is not None:
        check_responses(known)
    draws, dim = shares_of(tree, "theta", var_name, None if known is None else known.categories)
    result, further = _of_draws(draws, probability), [str(each) for each in draws.dims[2:-1]]
    if kind == "covering" and further:
        raise ValueError(
            f"kind must be 'posterior' for shares by {', '.join(further)}: the answers are not split by it"
        )
    if kind == "covering" and known is None:
        raise ValueError("responses must be given for covering intervals: the tree has no answers, so pass the model's")
    if kind != "posterior" and not further and known is not None:
        direct = _direct_of_responses(known, result["mean"])
        if direct is not None:
            result = _covered(result, direct)
            result = result.assign(_sources(result, draws, len(known), None)[["sample", "privacy"]])
        elif kind == "covering":
            raise ValueError("kind must be 'posterior': the responses do not determine every share")
    return result if dim == "category" else result.rename(category=dim)


def _shown(tree: "xr.DataTree", draws: "xr.DataArray", probability: float, kind: str | None) -> "xr.Dataset":
    """Return the mean and the interval of each category from a tree of `sample`; see `summary`."""
    result = _of_draws(draws, probability)
    if kind == "posterior" or (kind is None and np.ptp(np.atleast_1d(_prior_of(tree))) > 0):
        return result
    direct = _direct_of(tree, result["mean"])
    if direct is None:
        if kind == "covering":
            raise ValueError("kind must be 'posterior': the tree has no answers that determine every share")
        return result
    return _covered(result, direct)


def _covered(result: "xr.Dataset", direct: "Direct") -> "xr.Dataset":
    """Return means with covering intervals that contain them."""
    mean = result["mean"].values
    lower, upper = covering_intervals(direct, result.attrs["probability"])
    columns = {
        "lower": ("category", np.minimum(lower, mean)),
        "upper": ("category", np.maximum(upper, mean)),
        "may_be_empty": ("category", direct.estimate <= 0),
    }
    return result.assign(columns).assign_attrs(interval=COVERING)


def _direct_of(tree: "xr.DataTree", mean: "xr.DataArray") -> "Direct | None":
    """Return what the answers in a tree alone say, in the order of the categories of `mean`."""
    from adobest_pp.answers.draws import responses_of
    from adobest_pp.likelihood.without_prior import direct_of_counts
    from adobest_pp.mechanisms import mechanism_from_settings

    labels = mean["category"].values.tolist()
    responses = responses_of(tree)
    if responses is not None:
        return _direct_of_responses(responses, mean)
    if "responses" not in tree.children or "answers_with" not in tree["responses"]:
        return None
    # Gathered answers: the tree has only the number of answers that name each category.
    stored = tree["responses"].to_dataset()
    mechanism = mechanism_from_settings(json.loads(stored.attrs["mechanism_settings"]))
    counts = stored["answers_with"].sel(category=labels).values.astype(np.float64)
    return direct_of_counts(counts, int(tree.attrs["n_responses"]), mechanism)


def _direct_of_responses(responses: "Responses | Gathered", mean: "xr.DataArray") -> "Direct | None":
    """Return what answers alone say, in the order of the categories of `mean`."""
    from adobest_pp.likelihood.without_prior import direct_estimate

    known = list(responses.categories)
    found = direct_estimate(responses, mean.sel(category=known).values)
    order = [known.index(label) for label in mean["category"].values.tolist()]
    return None if found is None else type(found)(*(column[order] for column in found))


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

    if isinstance(theta, xr.DataTree):
        draws, n, prior = _of_tree(theta, n)
        return _sources(_shown(theta, draws, probability, None), draws, n, prior)
    return _sources_of_draws(theta, n, prior, probability)


def _sources(shown: "xr.Dataset", draws: "xr.DataArray", n: Any, prior: Any) -> "xr.Dataset":
    """Return how much of the widths of `shown` is due to privacy, with honest intervals of the same kind."""
    import xarray as xr

    from adobest_pp.likelihood.without_prior import Direct

    if shown.attrs["interval"] != COVERING:
        return _sources_of_draws(draws, n, prior, shown.attrs["probability"])
    mean, width = shown["mean"].values, (shown["upper"] - shown["lower"]).values
    people = np.broadcast_to(_check_people(n, shown["mean"].isel(category=0, drop=True)), mean.shape)
    lower, upper = covering_intervals(Direct(mean, 0 * mean, 0 * mean + 1, people), shown.attrs["probability"])
    columns = _parts(width, upper - lower)
    return xr.Dataset({name: ("category", values) for name, values in columns.items()}, shown.coords, shown.attrs)


def _parts(width: Floats, honest: Floats) -> dict[str, Floats]:
    """Return the widths, and their shares that are due to the sample and to privacy."""
    share = np.minimum(np.divide(honest, width, out=np.ones_like(honest), where=width > 0), 1.0)
    return {"width": width, "honest_width": honest, "sample": share, "privacy": 1 - share}


def _sources_of_draws(draws: Any, n: Any, prior: Any, probability: float) -> "xr.Dataset":
    """Return how much of the widths of the shortest intervals of draws is due to privacy."""
    import xarray as xr

    if not isinstance(draws, xr.DataArray) or not {"chain", "draw", "category"} <= set(draws.dims):
        raise ValueError(f"theta must be a DataArray of draws by chain, draw and category, got {brief(draws)}")
    k = draws.sizes["category"]
    labels = tuple(map(str, draws["category"].values)) if "category" in draws.coords else None
    concentration = check_prior(prior, k, labels)
    counts = _check_people(n, draws.isel(chain=0, draw=0, category=0, drop=True))
    shown = _of_draws(draws, probability)
    mean, width = shown["mean"], (shown["upper"] - shown["lower"]).values
    honest = _honest_widths(mean.values.reshape(-1, k), counts.ravel(), concentration, probability)
    columns = _parts(width, honest.reshape(width.shape))
    found = {name: (mean.dims, values) for name, values in columns.items()}
    return xr.Dataset(found, mean.coords, shown.attrs)


def _of_tree(tree: "xr.DataTree", n: Any) -> tuple[Any, Any, Any]:
    """Return θ, the number of people and the prior of a tree of `sample`, or raise ValueError."""
    from adobest_pp.answers.draws import theta_of

    theta = theta_of(tree, "theta")
    if "prior_concentration" not in tree.attrs or "n_responses" not in tree.attrs:
        raise ValueError("theta must be a tree from `sample`: for another model, pass its draws, n and prior")
    return theta, tree.attrs["n_responses"] if n is None else n, _prior_of(tree)


def _prior_of(tree: "xr.DataTree") -> Any:
    """Return the concentrations of the prior of a tree of `sample`; for a learned prior, their mean."""
    prior = tree.attrs["prior_concentration"]
    return np.mean(tree["posterior"].to_dataset()["concentration"].values) if isinstance(prior, str) else prior


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
