"""`estimate`: the shares of everybody and of groups, with intervals, weights and margins of the population.

Three numbers for each group and category:

- the *direct* estimate is unbiased and uses the group's own answers alone (`direct`);
- the *share* that is shown is the posterior mean given the direct estimates: groups are partially pooled (`pooling`);
- the *interval* is that of `intervals.covering_intervals` for the direct estimate: pooling moves the share within it,
  and does not make it narrower, so it holds a group's share in 95 % of surveys even if that group is like no other.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_flag, check_integer, check_numbers, check_probability
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp._wording import interval_in_words, share_in_words
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.estimates.direct import (
    UNDETERMINED,
    Weighted,
    best_scores,
    direct_of_group,
    effective_people,
    efficient_scores,
    heaviest_people,
    naming_scores,
    rake,
    weighted_estimate,
)
from adobest_pp.estimates.pooling import learned_shares, pooled_shares, smoothed_shares
from adobest_pp.intervals import COVERING, PROBABILITY, covering_intervals
from adobest_pp.intervals.shares import share_of_sample
from adobest_pp.likelihood import maximum_likelihood
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.likelihood.without_prior import MOST_CATEGORIES, Direct, check_fit, direct_estimate

if TYPE_CHECKING:
    import xarray as xr

# The group of all people.
EVERYBODY = "everybody"

# Groups with fewer answers, or in which one weighs more than this part of all, are not estimated: their intervals would
# be nearly the whole range. They count for everybody.
LEAST_PEOPLE = 5

# How far the shares of a margin may be from a sum of one: they are often rounded to per cent.
ROUNDED = 0.01


class Group(NamedTuple):
    """Some of the people: the column and label that they have in common, and their weights, 0 for all others."""

    column: str
    label: str
    weights: Floats

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.column}: {self.label}" if self.column else self.label


def estimate(
    responses: Responses | Gathered,
    *,
    groups: Any = None,
    weights: ArrayLike | None = None,
    margins: Mapping[Any, Any] | None = None,
    ordered: bool = False,
    probability: float = PROBABILITY,
    random_seed: int = 1,
) -> "xr.Dataset":
    """Estimate the share of each category, for everybody and by group, with intervals.

    Parameters
    ----------
    responses : Responses or Gathered
        The randomized answers. Gathered answers have no order, so they take neither groups nor weights.
    groups : sequence of n labels, or mapping of name to such sequences, optional
        A public label of each response, such as the region; or several columns of them, by name, also a pandas
        DataFrame. Each label of each column is a group. A person whose label is None, NaN or empty is in no group of
        that column.
    weights : array of shape (n,), optional
        A positive weight of each response, such as 1 over the probability of being asked.
    margins : mapping, optional
        The share of each group in the population, to which weights are adjusted (post-stratification): label to share
        if `groups` is one column, otherwise name of the column to such a mapping. Several columns are adjusted to in
        turn until all of them fit (raking).
    ordered : bool, default False
        Whether the categories have an order, such as never, monthly, daily: then shares of neighbors are smoothed, as
        far as the answers agree with that. Intervals are the same.
    probability : float, default 0.95
        How often an interval contains the share, whatever the shares are.
    random_seed : int, default 1
        The same seed gives the same estimate.

    Returns
    -------
    xarray.Dataset
        By group, the first of which is ``everybody``, and category: ``share``; its interval, ``lower`` and ``upper``;
        the unbiased estimate ``direct``; ``privacy``, the share of the interval's width that is due to privacy;
        ``may_be_empty``, whether the answers fit an empty category best; ``interval`` and ``in_words``, the interval
        and the share as text. By group: ``people``, and ``effective_people`` after weighting. The coordinates
        ``column`` and ``label`` are the two parts of a group's name. Attributes have the settings.

    Notes
    -----
    The share of a group is partially pooled: it is drawn towards that of everybody, the more so the fewer answers the
    group has and the more alike the groups are. The interval uses the group's own answers alone. With weights, its
    width follows from the terms of the weighted sum, as is usual for surveys, and not from a weighted likelihood.

    See Also
    --------
    adobest_pp.intervals.covering_intervals : The intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> rng, mechanism = np.random.default_rng(1), ad.SRR(2, epsilon=2.0)
    >>> answers = mechanism.privatize([0] * 700 + [1] * 300, rng=rng)
    >>> responses = ad.Responses.from_arrays(mechanism, answers, categories=["no", "yes"])
    >>> table = ad.estimate(responses, groups=["north"] * 500 + ["south"] * 500)
    >>> table.sel(category="yes").interval.values.tolist()
    ['24.8 – 32.5 %', 'up to 2.9 %', '52.7 – 64.0 %']
    """
    check_responses(responses)
    level, seed = check_probability(probability), check_integer(random_seed, "random_seed", 0)
    n = len(responses)
    if n == 0:
        raise ValueError("responses must hold at least one answer, got none")
    if isinstance(responses, Gathered) and not all(each is None for each in (groups, weights, margins)):
        raise ValueError("groups, weights and margins must be left out for gathered answers, which have no order")
    columns = _check_groups(groups, n)
    if columns and responses.n_categories > MOST_CATEGORIES:
        k = responses.n_categories
        raise ValueError(f"groups must be left out with more than {MOST_CATEGORIES} categories, got {k:,}")
    raked, cells = raked_weights(columns or None, weights, margins, n)
    wanted = [Group("", EVERYBODY, raked), *_groups_of(columns, raked)]
    shares_of = smoothed_shares if check_flag(ordered, "ordered") else learned_shares
    found, left_out = _estimated(responses, wanted, cells, seed, shares_of)
    return _labeled(found, responses, level).assign_attrs(
        mechanism=json.dumps(responses.mechanism.settings()),
        epsilon=float(responses.mechanism.epsilon),
        n_responses=n,
        group_columns=json.dumps(list(columns)),
        ordered=int(ordered),
        weighted=int(weights is not None),
        margins=json.dumps({} if margins is None else _margins_by_column(margins, columns), ensure_ascii=False),
        left_out=json.dumps(left_out, ensure_ascii=False),
        fit_p_value=float(check_fit(responses).p_value),
        probability=level,
        random_seed=seed,
    )


class _Found(NamedTuple):
    """What was found out about one group."""

    group: Group
    share: Floats
    direct: Direct


def _estimated(
    responses: Responses | Gathered, groups: list[Group], cells: Integers | None, seed: int, shares_of: Any
) -> tuple[list[_Found], dict[str, int]]:
    """Return the estimates of all groups whose answers determine their shares, and the sizes of the others."""
    if isinstance(responses, Gathered) or responses.n_categories > MOST_CATEGORIES:
        return [_of_everybody(responses, groups[0], seed, shares_of)], {}
    near = smooth(responses)
    scores = efficient_scores(responses, near)
    counts = naming_scores(responses, near)
    mechanism = responses.mechanism
    kept: list[tuple[Group, Weighted, Direct]] = []
    left_out: dict[str, int] = {}
    for group in groups:
        found, direct = None, None
        # Rounding: the sum of five equal weights over one of them may be below five.
        if heaviest_people(group.weights) > LEAST_PEOPLE - 1e-9 or group.name == EVERYBODY:
            found = weighted_estimate(scores, group.weights)
            direct = direct_of_group(scores if counts is None else counts, group.weights, cells, mechanism)
        if found is None or direct is None:
            left_out[group.name] = int(np.count_nonzero(group.weights))
        else:
            kept.append((group, found, direct))
    if EVERYBODY in left_out:
        raise ValueError(UNDETERMINED)
    # Each precision is that of an estimate whose weights are taken as fixed.
    means = [
        (found.estimate, found.slope * (group.weights.sum() / np.sum(group.weights**2))) for group, found, _ in kept
    ]
    shares = {EVERYBODY: shares_of(*means[0], seed).theta.mean(axis=(0, 1))[0]}
    common = np.maximum(shares[EVERYBODY], 1e-6)
    common /= common.sum()
    for column in dict.fromkeys(group.column for group, _, _ in kept[1:]):
        members = [i for i, (group, _, _) in enumerate(kept) if i > 0 and group.column == column]
        estimates, precisions = (np.array(part) for part in zip(*(means[i] for i in members), strict=True))
        drawn = pooled_shares(estimates, precisions, common, seed).theta.mean(axis=(0, 1))
        shares |= dict(zip((kept[i][0].name for i in members), drawn, strict=True))
    return [_Found(group, shares[group.name], direct) for group, _, direct in kept], left_out


def _of_everybody(responses: Responses | Gathered, group: Group, seed: int, shares_of: Any) -> _Found:
    """Return the estimate of answers that are only counted, or of very many categories."""
    many = responses.n_categories > MOST_CATEGORIES
    near = maximum_likelihood(responses.evidence()) if many else smooth(responses)
    direct = direct_estimate(responses, near)
    if direct is None:
        raise ValueError(UNDETERMINED)
    if many:
        return _Found(group, near, direct)
    information = responses.information(near)
    slope = value_and_gradient(near, responses.evidence())[1]
    step = np.linalg.lstsq(_centered(information), slope - slope.mean(), rcond=None)[0]
    drawn = shares_of(near + step - step.mean(), _centered(information), seed)
    return _Found(group, drawn.theta.mean(axis=(0, 1))[0], direct)


def _centered(matrix: Floats) -> Floats:
    """Return a matrix for vectors whose sum is zero."""
    rows = matrix - matrix.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def smooth(responses: Responses | Gathered) -> Floats:
    """Return the likeliest shares, with one person more in each category: positive, to take derivatives at."""
    n, k = len(responses), responses.n_categories
    return np.asarray((n * maximum_likelihood(responses.evidence()) + 1) / (n + k))


def _labeled(found: Sequence[_Found], responses: Responses | Gathered, level: float) -> "xr.Dataset":
    """Return the table of all groups."""
    import xarray as xr

    groups, share = [each.group for each in found], np.array([each.share for each in found])
    people = [effective_people(group.weights) for group in groups]
    honest = [Direct(row, 0 * row, 0 * row + 1, np.full(row.size, n)) for row, n in zip(share, people, strict=True)]
    lower, upper = _intervals([each.direct for each in found], level)
    lower, upper = np.minimum(lower, share), np.maximum(upper, share)
    low, high = _intervals(honest, level)
    direct = np.array([each.direct.estimate for each in found])
    empty = direct <= 0
    cells = [list(zip(*rows, strict=True)) for rows in zip(share, lower, upper, empty, strict=True)]
    by_category = {
        "share": share,
        "lower": lower,
        "upper": upper,
        "direct": direct,
        "privacy": 1 - share_of_sample(high - low, upper - lower),
        "may_be_empty": empty,
        "interval": np.array([[interval_in_words(a, b, may_be_empty=is_) for _, a, b, is_ in row] for row in cells]),
        "in_words": np.array([[share_in_words(mean, a, b) for mean, a, b, _ in row] for row in cells]),
    }
    by_group = {"people": np.array([np.count_nonzero(group.weights) for group in groups]), "effective_people": people}
    variables: dict[str, tuple[Any, Any]] = {name: (("group", "category"), each) for name, each in by_category.items()}
    variables |= {name: ("group", np.array(each)) for name, each in by_group.items()}
    for name, (dims, values) in variables.items():
        if values.dtype == np.float64:  # twelve decimals have the same digits in every file, also in workbooks
            variables[name] = (dims, np.round(values, 12))
    coords: dict[str, Any] = {
        "group": [group.name for group in groups],
        "category": list(responses.categories),
        "column": ("group", [group.column for group in groups]),
        "label": ("group", [group.label for group in groups]),
    }
    return xr.Dataset(variables, coords, {"interval_kind": COVERING})


def _intervals(directs: Sequence[Direct], level: float) -> Floats:
    """Return the ends of the intervals of several groups, of shape (2, groups, K), all found in one search."""
    joined = Direct(*(np.concatenate(parts) for parts in zip(*directs, strict=True)))
    return np.asarray(covering_intervals(joined, level).reshape(2, len(directs), -1))


# Groups, weights and margins.


def _check_groups(groups: Any, n: int) -> dict[str, NDArray[np.object_]]:
    """Return the columns of labels by name, "" for a single one without a name; None in place of a missing label."""
    allowed = f"{n} labels, one for each response, or a mapping of names to them"
    if groups is None:
        return {}
    if isinstance(groups, str | bytes):
        raise ValueError(f"groups must be {allowed}, got {brief(groups)}")
    is_table = isinstance(groups, Mapping) or hasattr(groups, "columns")
    given = {str(name): groups[name] for name in groups} if is_table else {"": groups}
    if not given:
        raise ValueError(f"groups must be {allowed}, got a mapping without columns")
    columns = {}
    for name, values in given.items():
        try:
            labels = np.asarray(values, dtype=object)
        except (TypeError, ValueError):
            labels = np.empty((0, 0), dtype=object)
        if labels.shape != (n,):
            where = f" in {name!r}" if name else ""
            raise ValueError(f"groups must be {allowed}, got an array of shape {labels.shape}{where}")
        try:
            columns[name] = np.array([_group_label(each) for each in labels.tolist()], dtype=object)
        except Exception:  # an object that has no text, or cannot be compared
            raise ValueError(f"groups must be {allowed}, got labels without a text") from None
    return columns


def _group_label(value: Any) -> str | None:
    if value is None or value != value or value == "":  # NaN differs from itself
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def _groups_of(columns: Mapping[str, NDArray[np.object_]], weights: Floats) -> list[Group]:
    """Return the groups of all columns, in the order in which labels are sorted: numbers by value."""
    found = []
    for column, labels in columns.items():
        known = sorted({each for each in labels.tolist() if each is not None}, key=_order)
        found += [Group(column, label, np.where(labels == label, weights, 0.0)) for label in known]
    if any(group.name == EVERYBODY for group in found):
        raise ValueError(f"groups must not have the label {EVERYBODY!r}, which stands for all people")
    return found


def _order(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label


def check_weights(weights: Any, n: int) -> Floats:
    """Return positive weights whose sum is n, or raise ValueError."""
    if weights is None:
        return np.ones(n)
    allowed = f"{n} positive numbers, one for each response"
    values = check_numbers(weights, "iuf", "weights", allowed).astype(np.float64)
    if values.shape != (n,):
        raise ValueError(f"weights must be {allowed}, got an array of shape {values.shape}")
    wrong = np.flatnonzero(~((values > 0) & (values < np.inf)))
    if wrong.size:
        more = f" and {wrong.size - 1} more like it" if wrong.size > 1 else ""
        raise ValueError(f"weights must be {allowed}, got {values[wrong[0]]:g} (place {wrong[0]}){more}")
    return values * (n / values.sum())


def raked_weights(
    groups: Any, weights: ArrayLike | None, margins: Mapping[Any, Any] | None, n: int
) -> tuple[Floats, Integers | None]:
    """Return the weights of everybody as `estimate` adjusts them to margins, whose sum is n, and the margins' cells."""
    given = check_weights(weights, n)
    cells, shares = _check_margins(margins, _check_groups(groups, n), n)
    return (given if cells is None else rake(given, cells, shares)), cells


def terms_of_people(responses: Responses, weights: Floats, cells: Integers | None) -> Floats:
    """Return what each person adds to the error of everybody's unbiased estimate, of shape (n, K).

    `weights` and `cells` are those of `raked_weights`. The sum of the squares is the variance of the estimate.
    """
    near = smooth(responses)
    found = weighted_estimate(best_scores(responses, near), weights, cells)
    if found is None:
        raise ValueError(UNDETERMINED)
    return found.terms


def _margins_by_column(margins: Mapping[Any, Any], columns: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the margins by column and label."""
    nested = all(isinstance(each, Mapping) for each in margins.values())
    if nested:
        given = {str(name): margins[name] for name in margins}
    elif len(columns) == 1:
        given = {next(iter(columns)): margins}
    else:
        raise ValueError(f"margins must be a mapping of each column's name to its shares, got {brief(dict(margins))}")
    return {name: {str(label): each for label, each in part.items()} for name, part in given.items()}


def _check_margins(
    margins: Any, columns: Mapping[str, NDArray[np.object_]], n: int
) -> tuple[Integers | None, list[Floats]]:
    """Return the cell of each person in each margin, of shape (n, C), and the shares of the cells."""
    if margins is None:
        return None, []
    if not isinstance(margins, Mapping) or not margins:
        raise ValueError(f"margins must be a mapping of the labels of groups to shares, got {brief(margins)}")
    if not columns:
        raise ValueError("margins must come with groups, whose shares in the population they are")
    cells, shares = [], []
    for column, part in _margins_by_column(margins, columns).items():
        what = f"margins of {column!r}" if column else "margins"
        if column not in columns:
            raise ValueError(f"margins must be of columns of groups, {', '.join(map(repr, columns))}, got {column!r}")
        labels = columns[column]
        if missing := int(np.sum([each is None for each in labels.tolist()])):
            raise ValueError(f"groups must have a label for everybody if {what} are given, got none for {missing}")
        known = sorted(set(labels.tolist()), key=_order)
        values = np.array([_share(part[label], what) if label in part else np.nan for label in known])
        if np.isnan(values).any():
            absent = [label for label in known if label not in part]
            raise ValueError(f"{what} must have a share of every group, got none of {brief(absent)}")
        extra = [label for label in part if label not in known]
        if extra:
            raise ValueError(f"{what} must be of groups with answers, got {brief(extra)}, in which nobody answered")
        if abs(values.sum() - 1) > ROUNDED:
            raise ValueError(f"{what} must be shares that sum to 1, got a sum of {values.sum():g}")
        place = {label: i for i, label in enumerate(known)}
        cells.append(np.array([place[label] for label in labels.tolist()]))
        shares.append(values / values.sum())
    return np.column_stack(cells), shares


def _share(value: Any, what: str) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f"{what} must be shares above 0 and at most 1, got {brief(value)}")
    return share
