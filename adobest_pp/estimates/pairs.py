"""Two private questions of the same people: the table of both, and how strongly they go together.

Given a person's two categories, the two answers are drawn independently. So the product of two unbiased scores, one of
each answer (`direct`), is an unbiased score of the pair, whatever the two mechanisms are: the table of K₁·K₂ shares is
a mean over people, with the covariance of a mean. Two answers of one person cost the sum of both budgets.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtr, chdtri, chndtr

from adobest_pp._checks import check_integer, check_probabilities, check_probability
from adobest_pp._text import brief
from adobest_pp._types import Floats
from adobest_pp._wording import interval_in_words
from adobest_pp.answers.responses import Responses, check_mechanism, check_responses
from adobest_pp.estimates.direct import UNDETERMINED, best_scores, effective_people
from adobest_pp.estimates.estimate import check_weights, smooth
from adobest_pp.estimates.pooling import learned_shares
from adobest_pp.intervals import COVERING, PROBABILITY, covering_intervals
from adobest_pp.likelihood.without_prior import direct_of_variance
from adobest_pp.mechanisms import Mechanism

if TYPE_CHECKING:
    import xarray as xr

# The most cells of a table.
MOST_CELLS = 400
# Odds ratios beyond these are reported as zero or infinite.
ODDS = (1e-4, 1e4)


def association(
    first: Responses,
    second: Responses,
    *,
    weights: ArrayLike | None = None,
    probability: float = PROBABILITY,
    random_seed: int = 1,
) -> "xr.Dataset":
    """Estimate the table of two private questions, and how strongly they go together.

    Parameters
    ----------
    first, second : Responses
        The answers of the same people to both questions, in the same order, by any mechanisms that drew independently.
    weights, probability, random_seed
        As in `estimate`.

    Returns
    -------
    xarray.Dataset
        By categories ``first`` and ``second``: ``share`` of people with both, its interval ``lower`` and ``upper``, the
        unbiased estimate ``direct``, and the ``interval`` as text. ``cramers_v`` with ``cramers_v_lower`` and
        ``cramers_v_upper``: 0 if the questions have nothing to do with each other, 1 if one determines the other. For
        two by two categories, ``odds_ratio`` with its interval: the odds of the second category of `second` among
        people of the second category of `first`, over those among people of the first.

    Notes
    -----
    Interval ends of the odds ratio are where twice the log-likelihood is 3.84 below its maximum, over all tables with
    that odds ratio. Those of Cramér's V are all values under which the observed sum of squares is not extreme, by a
    noncentral χ² distribution with the same mean and variance.

    Examples
    --------
    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> rng = np.random.default_rng(1)
    >>> x = rng.choice(2, size=4000, p=[0.6, 0.4])
    >>> both = [ad.SubsetSelection(2, epsilon=2.0), ad.SRR(2, epsilon=2.0)]
    >>> one, two = (ad.Responses.from_arrays(each, each.privatize(x, rng=rng)) for each in both)
    >>> table = ad.estimates.association(one, two)
    >>> bool(table.cramers_v_lower > 0.7)
    True
    """
    import xarray as xr

    for each in (first, second):
        check_responses(each)
    if not (isinstance(first, Responses) and isinstance(second, Responses)):
        raise ValueError("first and second must be Responses in the order of people, got gathered answers")
    n = len(first)
    if n < 2 or n != len(second):
        raise ValueError(
            f"second must have an answer of each of the {n} people of first (at least 2), got {len(second)}"
        )
    k, m = first.n_categories, second.n_categories
    if k * m > MOST_CELLS:
        raise ValueError(f"first and second must have at most {MOST_CELLS} pairs of categories, got {k * m}")
    level, seed = check_probability(probability), check_integer(random_seed, "random_seed", 0)
    weighed = check_weights(weights, n)
    mean, covariance = _table(unbiased(first), unbiased(second), weighed)
    epsilon = first.mechanism.epsilon + second.mechanism.epsilon
    share = learned_shares(mean, _inverse(covariance), seed).theta.mean(axis=(0, 1))[0]
    direct = direct_of_variance(share, mean, np.diag(covariance), effective_people(weighed), None, epsilon)
    lower, upper = covering_intervals(direct, level)
    lower, upper = np.minimum(lower, share), np.maximum(upper, share)
    words = np.array([interval_in_words(*ends) for ends in zip(lower, upper, strict=True)])
    cells = {"share": share, "lower": lower, "upper": upper, "direct": direct.estimate, "interval": words}
    variables: dict[str, Any] = {name: (("first", "second"), each.reshape(k, m)) for name, each in cells.items()}
    measures = {"cramers_v": cramers_v(direct.estimate, covariance, (k, m), level)}
    if (k, m) == (2, 2):
        measures["odds_ratio"] = odds_ratio(direct.estimate, covariance, level)
    for name, found in measures.items():
        variables |= {f"{name}{end}": each for end, each in zip(("", "_lower", "_upper"), found, strict=True)}
    coords = {"first": list(first.categories), "second": list(second.categories)}
    settings = {
        "epsilon": float(epsilon),
        "n_responses": n,
        "interval_kind": COVERING,
        "probability": level,
        "random_seed": seed,
    }
    return xr.Dataset(variables, coords, settings)


def unbiased(responses: Responses) -> Floats:
    """Return one score of each person, of shape (n, K), whose mean given x is 1 in the place of x and 0 elsewhere."""
    near = smooth(responses)
    scores = best_scores(responses, near)
    inverses = np.array([_inverse(slope) for slope in scores.slopes])
    return np.asarray(near + np.einsum("nij,nj->ni", inverses[scores.kind], scores.of_row[scores.row]))


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a matrix for vectors whose sum is zero, or raise ValueError."""
    k = len(matrix)
    center = np.eye(k) - 1 / k
    inner = center @ matrix @ center
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    if values[1] <= 1e-12 * values[-1]:
        raise ValueError(UNDETERMINED)
    return np.asarray((vectors[:, 1:] / values[1:]) @ vectors[:, 1:].T)


def _table(first: Floats, second: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean of the products of scores, of shape (K₁·K₂,), and its covariance."""
    n, k = len(first), first.shape[1] * second.shape[1]
    total = weights.sum()
    mean = (first * weights[:, None]).T @ second / total
    covariance = np.zeros((k, k))
    for start in range(0, n, 100_000):
        part = slice(start, start + 100_000)
        terms = (first[part, :, None] * second[part, None, :] - mean).reshape(-1, k) * weights[part, None]
        covariance += terms.T @ terms
    covariance /= total**2
    # With fewer people than cells, the covariances of cells are unreliable.
    keep = n / (n + k)
    return mean.ravel(), keep * covariance + (1 - keep) * np.diag(np.diag(covariance))


class Scalar(NamedTuple):
    """An estimate and the ends of its interval."""

    estimate: float
    lower: float
    upper: float


# Cramér's V.


def cramers_v(mean: Floats, covariance: Floats, shape: tuple[int, int], level: float = PROBABILITY) -> Scalar:
    """Return Cramér's V of a table that was estimated with an error, and its interval.

    V² is a weighted sum of squares of departures from independence. With the error of the departures, the expected sum
    is larger: the estimate leaves that out, and the interval takes it into account.
    """
    squares, noise, spread, along = _departures(mean, covariance, shape)
    most = min(shape) - 1
    estimate = math.sqrt(min(max(squares - noise, 0.0) / most, 1.0))
    unit, freedom = spread / noise, noise**2 / spread
    # Besides chance, the sum of squares varies as much as the departure does along its direction.
    unit = max(unit, along)
    tails = ((1 + level) / 2, (1 - level) / 2)

    def size(tail: float) -> float:
        """Return the largest V² whose sum of squares exceeds the observed one with at most this probability."""
        observed = squares / unit + (freedom - noise / unit)
        if observed <= 0 or chdtr(freedom, observed) < tail:
            return 0.0
        high = 1.0
        while chndtr(observed, freedom, high) > tail:
            high *= 2
        noncentral = brentq(lambda each: chndtr(observed, freedom, each) - tail, 0.0, high)
        return float(noncentral * unit)

    lower, upper = (math.sqrt(min(size(tail) / most, 1.0)) for tail in tails)
    return Scalar(estimate, min(lower, estimate), max(upper, estimate))


def _departures(mean: Floats, covariance: Floats, shape: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return the sum of squares of departures; by chance, its mean and half its variance; and that along them."""
    table = mean.reshape(shape)
    rows, columns = (np.clip(table.sum(axis=axis), 1e-3, None) for axis in (1, 0))
    rows, columns = rows / rows.sum(), columns / columns.sum()
    departure = (table - np.outer(table.sum(axis=1), table.sum(axis=0))).ravel()
    # The derivative of a departure by the table, at these margins.
    k, m = shape
    slope = np.eye(k * m)
    slope -= np.kron(np.eye(k), np.ones((m, m)).T * columns[:, None]).reshape(k * m, k * m)
    slope -= np.kron(np.ones((k, k)) * rows[:, None], np.eye(m))
    weight = 1 / np.outer(rows, columns).ravel()
    root = np.sqrt(weight)
    varies = root[:, None] * (slope @ covariance @ slope.T) * root
    scaled = root * departure
    squares = float(scaled @ scaled)
    along = float(scaled @ varies @ scaled) / squares if squares > 0 else 0.0
    return squares, float(np.trace(varies)), float(np.sum(varies**2)), along


# The odds ratio of two by two categories.


def odds_ratio(mean: Floats, covariance: Floats, level: float = PROBABILITY) -> Scalar:
    """Return the odds ratio of a two-by-two table that was estimated with an error, and its interval."""
    precision, limit = _inverse(covariance), float(chdtri(1, 1 - level))
    logs = np.linspace(math.log(ODDS[0]), math.log(ODDS[1]), 185)
    distances = np.array([_nearest(math.exp(each), mean, precision) for each in logs])
    best = int(distances.argmin())
    least = distances[best]
    inside = np.flatnonzero(distances - least <= limit)

    def end(edge: int, step: int) -> float:
        if not 0 <= edge + step < logs.size:
            return 0.0 if step < 0 else math.inf
        low, high = sorted((logs[edge], logs[edge + step]))
        found = brentq(lambda each: _nearest(math.exp(each), mean, precision) - least - limit, low, high, xtol=1e-4)
        return math.exp(found)

    at_edge = best in (0, logs.size - 1)
    estimate = (0.0 if best == 0 else math.inf) if at_edge else math.exp(logs[best])
    return Scalar(estimate, end(int(inside[0]), -1), end(int(inside[-1]), 1))


def _nearest(odds: float, mean: Floats, precision: Floats) -> float:
    """Return the squared distance of the nearest table with this odds ratio, in units of the error."""
    # Plackett: a table is known by its odds ratio and its margins. A grid over the margins, then finer ones.
    centers, width = np.array([0.5, 0.5]), 0.5
    distance = math.inf
    for _ in range(6):
        ticks = np.linspace(-width, width, 21)
        row, column = (np.clip(center + ticks, 0.0, 1.0) for center in centers)
        tables = _plackett(odds, row[:, None], column[None, :])
        gap = tables - mean[:, None, None]
        found = np.einsum("iab,ij,jab->ab", gap, precision, gap)
        place = np.unravel_index(found.argmin(), found.shape)
        distance = min(distance, float(found[place]))
        centers, width = np.array([row[place[0]], column[place[1]]]), width / 5
    return distance


def _plackett(odds: float, row: Floats, column: Floats) -> Floats:
    """Return the tables (4, …) whose second categories have these margins, with this odds ratio."""
    total = 1 + (row + column) * (odds - 1)
    if abs(odds - 1) < 1e-9:
        both = row * column
    else:
        root = np.sqrt(np.maximum(total**2 - 4 * odds * (odds - 1) * row * column, 0.0))
        both = 2 * odds * row * column / np.maximum(total + root, 1e-300)
    return np.stack(np.broadcast_arrays(1 - row - column + both, column - both, row - both, both))


# How many people it takes.


def people_for_association(
    first: Mechanism, second: Mechanism, table: ArrayLike, power: float = 0.8, probability: float = PROBABILITY
) -> int:
    """Return how many people must answer two questions to show that they go together.

    Parameters
    ----------
    first, second : Mechanism
        How the two questions are asked, such as ``SubsetSelection(4, epsilon / 2)`` for both.
    table : array of shape (K₁, K₂)
        The shares of people that are expected to have each pair of categories.
    power : float, default 0.8
        The probability that the interval of Cramér's V does not begin at zero.
    probability : float, default 0.95
        Of that interval.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> question = ad.SRR(2, epsilon=1.0)
    >>> n = ad.estimates.people_for_association(question, question, [[0.4, 0.1], [0.1, 0.4]])
    >>> 500 < n < 600
    True
    """
    for each in (first, second):
        check_mechanism(each)
    shares = np.asarray(table, dtype=np.float64)
    shape = (first.n_categories, second.n_categories)
    if shares.shape != shape:
        raise ValueError(f"table must have the shape {shape}, got {brief(table)}")
    mean = check_probabilities(shares.ravel(), shares.size, "table")
    wanted, level = check_probability(power), check_probability(probability)
    moments = _second_moments(first, shares.sum(axis=1)), _second_moments(second, shares.sum(axis=0))
    products = np.einsum("aij,bkl->abikjl", *moments).reshape(*shape, mean.size, mean.size)
    covariance = np.tensordot(shares, products, axes=2) - np.outer(mean, mean)
    squares, noise, spread, along = _departures(mean, covariance, shape)
    freedom, unit = noise**2 / spread, max(spread / noise, along)
    limit = float(chdtri(freedom, (1 - level) / 2))
    if squares <= 1e-12:
        raise ValueError("table must not be that of independent questions: no number of people shows an association")
    sure = brentq(lambda each: 1 - chndtr(limit, freedom, each) - wanted, 0.0, 1e6)
    return math.ceil(float(sure) * unit / squares)


def _second_moments(mechanism: Mechanism, shares: Floats) -> Floats:
    """Return E[s s′ | x] of the unbiased score s of one answer, for every x, of shape (K, K, K)."""
    k = mechanism.n_categories
    matrix_of = getattr(mechanism, "transition_matrix", None)
    if matrix_of is None or mechanism.publishes_subset:
        raise ValueError(f"first and second must be mechanisms with one transition matrix, got {brief(mechanism)}")
    matrix = np.asarray(matrix_of())
    responses = Responses.from_arrays(mechanism, mechanism.outputs())
    near = (shares + 0.01) / (1 + 0.01 * k)
    scores = best_scores(responses, near)
    of_output = near + scores.of_row[scores.row] @ _inverse(scores.slopes[0]).T
    return np.asarray(np.einsum("yx,yi,yj->xij", matrix, of_output, of_output))
