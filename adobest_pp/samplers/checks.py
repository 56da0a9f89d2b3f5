"""Signs in the draws that a run went wrong. Each is logged as a warning, in one sentence."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import row_probabilities
from adobest_pp.samplers.sgld.loop import TINY

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "BIASED",
    "DIVERGED",
    "EMPTY",
    "NOT_CONVERGED",
    "SPARSE",
    "Shares",
    "emptiness",
    "warn_of_problems",
    "without_warnings_of",
]


logger = logging.getLogger("adobest_pp")

# The attribute `problem` of the records of some warnings, by which `without_warnings_of` finds them.
NOT_CONVERGED, DIVERGED, BIASED = "not_converged", "diverged", "biased"

# The largest R-hat and the fewest effective draws a chain (Vehtari et al. 2021); and the fewest draws a chain for which
# these statistics mean something.
MAX_RHAT = 1.05
MIN_EFFECTIVE = 25
ENOUGH_DRAWS = 100
# Of each tail of the number of draws in which a category is empty: four standard errors of a normal number. And the
# standard errors of what it should be that are allowed for besides.
FALSE_ALARM, ERRORS = 3e-5, 3.0
# The bias of SGLD by reflections, in sds, beyond which it is warned of.
MOST_REFLECTION_BIAS = 0.03


def warn_of_problems(
    tree: "xr.DataTree",
    evidence: Evidence | None,
    sampler: str,
    prior: NDArray[np.float64] | str,
    updates_per_draw: int = 1,
) -> None:
    """Log a warning for each sign that the draws are not of the posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        With ``posterior/theta`` and ``sample_stats``.
    evidence : Evidence or None
        What the posterior is given; None where it is too much for the check of empty categories.
    sampler : str
        Its name.
    prior : array of shape (K,) or "learned"
        As given to `sample`.
    updates_per_draw : int
        Of SGLD.
    """
    posterior = tree["posterior"].to_dataset()
    theta = np.asarray(posterior["theta"].values, dtype=np.float64)
    names = [str(name) for name in posterior["category"].values]
    if isinstance(prior, str):
        concentration = np.repeat(posterior["concentration"].values.reshape(-1, 1), len(names), axis=1)
    else:
        concentration = np.broadcast_to(prior, (theta.shape[0] * theta.shape[1], len(names)))
    if theta.shape[1] >= ENOUGH_DRAWS:
        moving = _warn_of_constants(theta, names, sampler)
        _warn_unless_converged(theta[..., moving], sampler)
        _warn_of_modes(theta, concentration, evidence, names, sampler)
    stats = tree["sample_stats"].to_dataset()
    _warn_of_divergences(stats, learned=isinstance(prior, str))
    if not isinstance(prior, str):
        _warn_of_reflections(stats, prior, updates_per_draw)


def _warn_of_constants(theta: NDArray[np.float64], names: list[str], sampler: str) -> NDArray[np.bool_]:
    """Warn of categories whose draws are all the same number; return which are not."""
    constant: NDArray[np.bool_] = np.ptp(theta, axis=(0, 1)) == 0
    if constant.any():
        logger.warning(
            "The chains of %r do not move: all draws of %s are the same; either the posterior is narrower than "
            "doubles can tell, or they are stuck.",
            sampler,
            _listed([f"{names[i]!r} ({theta[0, 0, i]:g})" for i in np.flatnonzero(constant)]),
        )
    return ~constant


def _warn_unless_converged(theta: NDArray[np.float64], sampler: str) -> None:
    """Warn if chains differ by more than their spread explains, or have few effective draws."""
    from arviz_stats.base import array_stats

    chains = theta.shape[0]
    if chains < 2 or theta.shape[2] == 0:
        return
    rhat = float(np.max(array_stats.rhat(theta, chain_axis=0, draw_axis=1)))
    effective = float(np.min(array_stats.ess(theta, chain_axis=0, draw_axis=1)))
    # Written so that NaN counts as a failure.
    if not (rhat <= MAX_RHAT and effective >= MIN_EFFECTIVE * chains):
        logger.warning(
            "The chains of %r have not converged: the largest R-hat is %.2f, and a category has %.0f effective draws "
            "of %d.",
            sampler,
            rhat,
            effective,
            chains * theta.shape[1],
            extra={"problem": NOT_CONVERGED},
        )


def _warn_of_modes(
    theta: NDArray[np.float64],
    concentration: NDArray[np.float64],
    evidence: Evidence | None,
    names: list[str],
    sampler: str,
) -> bool:
    """Warn if categories are empty, or have the majority, more or less often than they should.

    Chains that stay on one side agree, and a mode of a few percent may hold most of the variance.
    """
    if concentration.min() >= SPARSE or evidence is None:
        return False
    checked = emptiness(theta.reshape(-1, len(names)), concentration, evidence)
    if checked is None:
        return False
    found, expected, error = checked
    # Over independent draws the number of empty ones has lighter tails than a binomial number (Hoeffding 1956).
    effective = _effective(theta).astype(np.int64)
    count = np.round(found * effective)
    chance = np.clip(found, expected - ERRORS * error, expected + ERRORS * error).clip(0.0, 1.0)
    wrong = np.minimum(bdtr(count, effective, chance), bdtrc(count - 1, effective, chance)) < FALSE_ALARM
    parts = [
        f"{names[i]!r} {is_what} in {found[side, i]:.1%} instead of {expected[side, i]:.1%}"
        for side, is_what in enumerate(("is empty", "has the majority"))
        for i in np.flatnonzero(wrong[side])
    ]
    if parts:
        logger.warning(
            "The chains of %r have missed a part of the posterior: of the draws, %s; with a prior this small there are "
            "modes that they hardly ever leave, so use a larger one%s.",
            sampler,
            _listed(parts),
            "" if sampler == "nuts" else ", or 'nuts'",
        )
    return bool(parts)


def _effective(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the effective draws of each category, of shape (K,): at least `ENOUGH_DRAWS`, at most all of them.

    Of chains that hardly move, a few draws are enough to tell that they are on one side.
    """
    from arviz_stats.base import array_stats

    chains, draws, _ = theta.shape
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = array_stats.ess(theta, 0, 1, method="bulk")
    moves = (np.ptp(theta, axis=(0, 1)) > 0) & np.isfinite(effective)
    return np.asarray(np.where(moves, np.clip(effective, ENOUGH_DRAWS, chains * draws), ENOUGH_DRAWS))


def _warn_of_divergences(stats: "xr.Dataset", learned: bool) -> None:
    """Warn if NUTS met a part of the posterior that it could not follow."""
    diverging = int(stats["diverging"].sum()) if "diverging" in stats else 0
    if diverging:
        logger.warning(
            "%d of %d draws diverged: NUTS could not follow the posterior there, and its tails may be biased; "
            "%s may help.",
            diverging,
            stats["diverging"].size,
            "more tuning draws" if learned else "more tuning draws, or the sampler 'gibbs',",
            extra={"problem": DIVERGED},
        )


def _warn_of_reflections(stats: "xr.Dataset", prior: NDArray[np.float64], updates_per_draw: int) -> None:
    """Warn if SGLD is often reflected at zero where the prior grows without bound.

    A reflected step of width √γ cannot hold the mass φ^ρ that such a prior has below that width, whatever slope is
    taken there: means of small shares are off by about (1/ρ − 1) times the reflections of an update, in sds.
    """
    if "sgld_reflections" not in stats:
        return
    reflections = float(stats["sgld_reflections"].mean()) / updates_per_draw
    bias = (1 / float(prior.min()) - 1) * reflections
    if bias > MOST_REFLECTION_BIAS:
        logger.warning(
            "The draws of 'sgld' are biased: %.2g coordinates are reflected at zero in an update, where a prior of %g "
            "has more mass than its steps can hold, so small shares are too large by some %.2g sd; use "
            "diffusion='cox_ingersoll_ross', or 'nuts'.",
            reflections,
            prior.min(),
            bias,
            extra={"problem": BIASED},
        )


@contextmanager
def without_warnings_of(*problems: str) -> Iterator[list[str]]:
    """Leave out the warnings of some problems, for callers whose results tell of them; yields those that there were."""
    found: list[str] = []

    def is_other(record: logging.LogRecord) -> bool:
        problem = getattr(record, "problem", None)
        if problem in problems:
            found.append(problem)
        return problem not in problems

    logger.addFilter(is_other)
    try:
        yield found
    finally:
        logger.removeFilter(is_other)


def _listed(parts: list[str], most: int = 3) -> str:
    """Join some parts, and tell how many more there are."""
    more = [f"{len(parts) - most} more"] if len(parts) > most else []
    return ", ".join(parts[:most] + more)


# Whether draws have each category empty, and in the majority, as often as they should.
#
# Under a prior with ρ ≪ 1 a category is either held or has next to no share (ln θ spreads over 1/ρ). All chains may
# stay
# on one side for good, and agree. But given the proportions of the others, the share of one category has a density on a
# line, which quadrature integrates. This gives the probability that the category is empty, and that it has more than
# half of all. Their averages over draws of the posterior must be the fractions of draws in which it is.


Array = NDArray[np.float64]

# Concentrations below this can leave a chain on one side.
SPARSE = 0.1
# A share is empty if its log-odds are below −14: less than one person in a million.
EDGE = 14.0
EMPTY = math.exp(-EDGE)
# Points so many nats less likely than the highest need no finer grid.
NEGLIGIBLE = 10.0
MOST_DRAWS, FEWEST_DRAWS = 100, 10
MOST_LOGARITHMS = 30_000_000
POINTS = 110


class Shares(NamedTuple):
    """How often categories are empty (first row), or in the majority, by category (2, K).

    Attributes
    ----------
    found : array of shape (2, K)
        The share of all draws with θ_i < 10⁻⁶, and with θ_i > ½.
    expected, error : array of shape (2, K)
        The average of their probabilities given the others' proportions, and its standard error.
    """

    found: Array
    expected: Array
    error: Array


def emptiness(theta: Array, concentration: Array, evidence: Evidence) -> Shares | None:
    """Compare how often categories are empty, or in the majority, with how often they should be, given the others.

    Parameters
    ----------
    theta : array of shape (draws, K)
        Draws of the posterior.
    concentration : array of shape (draws, K)
        ρ of the Dirichlet prior, at each of the draws.
    evidence : Evidence
        What the posterior is given.

    Returns
    -------
    Shares or None
        None where the evidence is so large that this would take longer than sampling: there hardly a category is in
        doubt.
    """
    n, k = theta.shape
    affordable = MOST_LOGARITHMS // (POINTS * k * max(evidence.n_rows, 1))
    if affordable < FEWEST_DRAWS:
        return None
    used = np.linspace(0, n - 1, min(n, MOST_DRAWS, affordable)).round().astype(np.int64)
    count = evidence.count.astype(np.float64)
    alone = [row_probabilities(vertex, evidence) for vertex in np.eye(k)]
    expected = np.zeros((used.size, 2, k))
    for at, draw in enumerate(used):
        for i in range(k):
            rest = np.maximum(theta[draw], TINY)
            rest[i] = 0.0
            without = row_probabilities(rest / rest.sum(), evidence)
            rho = concentration[draw, i], concentration[draw].sum() - concentration[draw, i]
            expected[at, :, i] = _probabilities(*rho, without, alone[i], count)
    found = np.stack([(theta < EMPTY).mean(axis=0), (theta > 0.5).mean(axis=0)])
    return Shares(found, expected.mean(axis=0), expected.std(axis=0) / math.sqrt(used.size))


def _probabilities(own: float, others: float, without: Array, alone: Array, count: Array) -> tuple[float, float]:
    """Return P(s < 10⁻⁶) and P(s > ½), where the log-odds of s have the density s^own·(1−s)^others·Πh^count.

    The probabilities of the answers are h = (1−s)·without + s·alone.
    """

    def log_density(odds: Array) -> Array:
        s = 1 / (1 + np.exp(-odds))
        h = np.outer(1 / (1 + np.exp(odds)), without) + np.outer(s, alone)
        with np.errstate(divide="ignore"):
            logs = np.log(h) @ count
        return np.asarray(logs - own * np.logaddexp(0, -odds) - others * np.logaddexp(0, odds))

    odds = np.linspace(-EDGE, EDGE, 29)  # with 0, the majority's edge
    values = log_density(odds)
    for _ in range(2):  # the likelihood may have a narrow peak
        high = np.flatnonzero(values > values.max() - NEGLIGIBLE)
        finer = np.linspace(odds[max(high[0] - 1, 0)], odds[min(high[-1] + 1, odds.size - 1)], 42)[1:-1]
        order = np.argsort(np.concatenate([odds, finer]))
        odds, values = (np.concatenate(pair)[order] for pair in ((odds, finer), (values, log_density(finer))))
    values -= values.max()
    weights = np.exp(values)
    # Beyond the edges the likelihood is constant, and the prior an exponential.
    empty, full = weights[0] / own, weights[-1] / others
    inside = np.trapezoid(weights, odds)
    # The majority may be a steep tail, nearly an exponential between points: (w₁ − w₀)/ln(w₁/w₀).
    rise = np.diff(values)
    steep = np.abs(rise) > 1e-6
    height = np.where(steep, np.diff(weights) / np.where(steep, rise, 1.0), weights[1:])
    parts = np.diff(odds) * height
    above = inside * parts[odds[:-1] >= 0].sum() / parts.sum()
    whole = empty + full + inside
    return float(empty / whole), float((full + above) / whole)
