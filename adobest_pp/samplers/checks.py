"""What convergence means, and checks for signs in the draws that a run went wrong.

Every limit on R-hat and on effective draws in the package is one of the levels below. `warn_of_problems` logs each
problem as a warning, in one sentence. Three checks follow it: `empty_category_check` compares how often categories are
empty with quadrature, `width_check` compares the width of the draws with the information, and `rank_rhat` computes the
R-hat of all categories at once.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, ndtri

from adobest_pp._numerics import TINY, zero_sum_basis
from adobest_pp._types import Floats, Masks
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import row_probabilities

if TYPE_CHECKING:
    import xarray as xr


logger = logging.getLogger("adobest_pp")


# Levels of convergence.


class Level(NamedTuple):
    """The largest rank-normalized split R-hat, and the smallest bulk effective sample size of a category."""

    max_r_hat: float
    min_ess: float


# Chains of a pilot agree well enough to learn coordinates from them. The run that follows is checked again.
PILOT = Level(1.1, 0.0)
# Draws that can be compared and summarized. Beyond these limits chains have not mixed: `sample` warns, and `compare`
# tests nothing else. With 100 effective draws the error of a mean is a tenth of the posterior sd.
MIXED = Level(1.05, 100.0)
# Draws good enough to report (Vehtari et al. 2021): references, and the counterfactuals of `explain`.
CONVERGED = Level(1.01, 400.0)
# The same for more than 300 categories. The largest of many R-hats is above 1.01 by chance: for 1,000 independent draws
# of each category, the largest was 1.012 for 1,000 categories and 1.014 for 10,000 (medians of simulations).
MANY_CONVERGED = Level(1.02, 400.0)


def converged_level(n_categories: int) -> Level:
    """Return the level that draws of this many categories must reach to be reported."""
    return CONVERGED if n_categories <= 300 else MANY_CONVERGED


# `sample` asks for the effective draws of MIXED in proportion to the chains; four are the default.
MIN_ESS_PER_CHAIN = MIXED.min_ess / 4
# With fewer draws per chain, R-hat and effective draws mean nothing.
ENOUGH_DRAWS = 100
# At most this many categories are checked: half of them the largest, half spread over the others. Checking all of
# 10,000 takes longer than drawing them.
MOST_CHECKED = 1000


# Warnings.

# Some log records have the attribute `problem` with one of these values, by which `without_warnings_of` finds them.
NOT_CONVERGED, DIVERGED, BIASED = "not_converged", "diverged", "biased"

# The probability of each tail of the number of draws in which a category is empty (four standard errors of a normal
# variable), and how many standard errors of the expected number are allowed in addition.
CHECK_LEVEL, ERRORS = 3e-5, 3.0
# The largest bias of SGLD from reflections, in sds, without a warning.
MOST_REFLECTION_BIAS = 0.03
# The largest variance of ln θ of a category in one step of SGLD on log-ratios without a warning. In 40 runs with K = 4,
# ρ = 0.1 to 1 and two empty categories, sds were at most 10 % too large below it, and up to seven times too large
# beyond it.
MOST_STEP_VARIANCE = 0.25


def warn_of_problems(tree: "xr.DataTree", evidence: Evidence | None, sampler: str, prior: Floats | str) -> None:
    """Log a warning for each sign that the draws are not from the posterior.

    `tree` has ``posterior/theta`` and ``sample_stats``; `sampler` is a name, and `prior` as in `sample`. `evidence` is
    None if it is too large for the check of empty categories.
    """
    posterior = tree["posterior"].to_dataset()
    theta = np.asarray(posterior["theta"].values, dtype=np.float64)
    names = [str(name) for name in posterior["category"].values]
    concentration: Floats | None = None
    if not isinstance(prior, str):
        concentration = np.broadcast_to(prior, (theta.shape[0] * theta.shape[1], len(names)))
    elif "concentration" in posterior:
        of_draw = posterior["concentration"].values.reshape(-1, 1)
        concentration = np.broadcast_to(of_draw, (len(of_draw), len(names)))
    if theta.shape[1] >= ENOUGH_DRAWS:
        moving = _warn_of_constants(theta, names, sampler)
        _warn_unless_converged(theta if moving.all() else theta[..., moving], sampler)
        if concentration is not None and evidence is not None:
            _warn_of_modes(theta, concentration, evidence, names, sampler)
    _warn_of_divergences(tree["sample_stats"].to_dataset(), learned=isinstance(prior, str))


def _warn_of_constants(theta: Floats, names: list[str], sampler: str) -> Masks:
    """Warn of categories whose draws are all the same; return which categories move."""
    constant: Masks = np.ptp(theta, axis=(0, 1)) == 0
    if constant.any():
        logger.warning(
            "The chains of %r do not move: all draws of %s are the same. Either the posterior is too narrow for double "
            "precision, or the chains are stuck.",
            sampler,
            _listed([f"{names[i]!r} ({theta[0, 0, i]:g})" for i in np.flatnonzero(constant)]),
        )
    return ~constant


def _warn_unless_converged(theta: Floats, sampler: str) -> None:
    """Warn if chains differ by more than their spread explains, or have few effective draws."""
    from arviz_stats.base import array_stats

    chains = theta.shape[0]
    if chains < 2 or theta.shape[2] == 0:
        return
    if theta.shape[2] > MOST_CHECKED:
        order = np.argsort(-theta.mean(axis=(0, 1)), kind="stable")
        half = MOST_CHECKED // 2
        theta = theta[..., np.append(order[:half], order[half :: -(-(order.size - half) // half)])]
    rhat = float(np.max(array_stats.rhat(theta, chain_axis=0, draw_axis=1)))
    effective = float(np.min(array_stats.ess(theta, chain_axis=0, draw_axis=1)))
    # Written so that NaN counts as a failure.
    if not (rhat <= MIXED.max_r_hat and effective >= MIN_ESS_PER_CHAIN * chains):
        logger.warning(
            "The chains of %r have not converged: the largest R-hat is %.2f, and a category has %.0f effective draws "
            "of %d.",
            sampler,
            rhat,
            effective,
            chains * theta.shape[1],
            extra={"problem": NOT_CONVERGED},
        )


def _warn_of_modes(theta: Floats, concentration: Floats, evidence: Evidence, names: list[str], sampler: str) -> bool:
    """Warn if categories are empty, or have the majority, more or less often than they should.

    R-hat does not notice chains that all stay in one mode, and a mode of a few percent may hold most of the variance.
    """
    if concentration.min() >= SPARSE:
        return False
    checked = empty_category_check(theta.reshape(-1, len(names)), concentration, evidence)
    if checked is None:
        return False
    found, expected, error = checked
    # For independent draws, the number in which it is empty has lighter tails than a binomial one (Hoeffding 1956).
    effective = _effective(theta).astype(np.int64)
    count = np.round(found * effective)
    chance = np.clip(found, expected - ERRORS * error, expected + ERRORS * error).clip(0.0, 1.0)
    wrong = np.minimum(bdtr(count, effective, chance), bdtrc(count - 1, effective, chance)) < CHECK_LEVEL
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


def _effective(theta: Floats) -> Floats:
    """Return the effective draws of each category, of shape (K,): at least `ENOUGH_DRAWS`, at most all draws.

    If chains hardly move, a few draws are enough to tell that they are stuck in one mode.
    """
    from arviz_stats.base import array_stats

    chains, draws, _ = theta.shape
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = array_stats.ess(theta, 0, 1, method="bulk")
    moves = (np.ptp(theta, axis=(0, 1)) > 0) & np.isfinite(effective)
    return np.asarray(np.where(moves, np.clip(effective, ENOUGH_DRAWS, chains * draws), ENOUGH_DRAWS))


def _warn_of_divergences(stats: "xr.Dataset", learned: bool) -> None:
    """Warn if trajectories of NUTS diverged."""
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


def warn_of_reflections(reflections: float, prior: Floats) -> None:
    """Warn if SGLD is often reflected at zero, where the density of the prior is unbounded.

    `reflections` is the mean number of reflected coordinates per update. A reflected step of width √γ cannot hold the
    mass that such a prior has below that width, whatever the slope there: means of small shares are off by about
    (1/ρ − 1)·`reflections` sds.
    """
    bias = (1 / float(prior.min()) - 1) * reflections
    if bias > MOST_REFLECTION_BIAS:
        logger.warning(
            "The draws of 'sgld' are biased: each update reflects %.2g coordinates at zero, where a prior of %g has "
            "more mass than its steps can hold, so small shares are too large by about %.2g sd; use "
            "diffusion='cox_ingersoll_ross', or 'nuts'.",
            reflections,
            prior.min(),
            bias,
            extra={"problem": BIASED},
        )


def warn_of_long_steps(variance: float, prior: Floats) -> None:
    """Warn if steps of SGLD on log-ratios overshoot the end of the posterior of a category that may be empty.

    `variance` is the largest variance of a category's ln θ in one step.
    """
    if variance > MOST_STEP_VARIANCE:
        logger.warning(
            "The draws of 'sgld' are biased: under a prior of %g a step moves ln θ of a category by about %.2g, beyond "
            "the end of its posterior, so the draws of small shares are too wide; use steps at most %.2g times as "
            "long, diffusion='cox_ingersoll_ross', or 'nuts'.",
            prior.min(),
            math.sqrt(variance),
            MOST_STEP_VARIANCE / variance,
            extra={"problem": BIASED},
        )


@contextmanager
def without_warnings_of(*problems: str) -> Iterator[list[str]]:
    """Suppress the warnings of some problems, which the caller reports itself; yield those that occurred."""
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
    """Join the first parts, and say how many more there are."""
    more = [f"{len(parts) - most} more"] if len(parts) > most else []
    return ", ".join(parts[:most] + more)


# Are categories empty, and in the majority, as often as they should be?
#
# Under a prior with ρ ≪ 1 a category either has a share or next to none (ln θ spreads over 1/ρ). All chains may stay in
# one of the two modes, and agree. But given the proportions of the others, the share of one category has a density on a
# line, which quadrature integrates. This gives the probabilities that the category is empty, and that it has more than
# half of all. Their averages over draws of the posterior must equal the fractions of draws in which this is so.

# With concentrations below this, a chain may stay in one mode.
SPARSE = 0.1
# A category is empty if its log-odds are below −14: less than one person in a million.
EDGE = 14.0
EMPTY = math.exp(-EDGE)
# The grid is made finer only where the density is less than this many nats below its maximum.
NEGLIGIBLE = 10.0
MOST_DRAWS, FEWEST_DRAWS = 100, 10
MOST_LOGARITHMS = 30_000_000
POINTS = 110


class Shares(NamedTuple):
    """How often categories are empty (first row), or in the majority, by category (2, K).

    Attributes
    ----------
    found : array of shape (2, K)
        The fraction of draws with θ_i < 10⁻⁶, and with θ_i > ½.
    expected, error : array of shape (2, K)
        The average probability of the same given the proportions of the others, and its standard error.
    """

    found: Floats
    expected: Floats
    error: Floats


def empty_category_check(theta: Floats, concentration: Floats, evidence: Evidence) -> Shares | None:
    """Compare how often categories are empty, or in the majority, with how often they should be, given the others.

    `theta` (draws, K) are draws of the posterior given `evidence`, and `concentration` (draws, K) is ρ of the Dirichlet
    prior at each of them. Returns None if the evidence is so large that this would take longer than sampling: then
    hardly any category is in doubt.
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


def _probabilities(own: float, others: float, without: Floats, alone: Floats, count: Floats) -> tuple[float, float]:
    """Return P(s < 10⁻⁶) and P(s > ½), where the log-odds of s have the density s^own·(1−s)^others·Πh^count.

    The probabilities of the answers are h = (1−s)·without + s·alone.
    """

    def log_density(odds: Floats) -> Floats:
        s = 1 / (1 + np.exp(-odds))
        h = np.outer(1 / (1 + np.exp(odds)), without) + np.outer(s, alone)
        with np.errstate(divide="ignore"):
            logs = np.log(h) @ count
        return np.asarray(logs - own * np.logaddexp(0, -odds) - others * np.logaddexp(0, odds))

    odds = np.linspace(-EDGE, EDGE, 29)  # includes 0, where a majority begins
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


# Are draws narrower than answers and prior allow? Frozen chains agree, and no other check notices them.
#
# The variance of a share is at least its variance given other shares, which is at least the inverse of the expected
# information under the posterior (van Trees). For shares that are held, the information at the mean is close to that.
# So the held shares are judged given the others, whose posterior ends at zero and may have any width.

# A category is held, and its share nearly normal, if the share is this many standard deviations above zero.
HELD = 4.0
# Draws are too narrow if their sd is less than this part of what the information allows. With 25 effective draws, the
# fewest per chain without a warning of `sample`, this happens in less than one correct run in 10¹⁰.
LEAST_PART = 0.3


def width_check(draws: Floats, concentration: Floats, information: Floats) -> Masks:
    """Return which categories have draws of θ (N, K) that are far too narrow; none if there are fewer than 100 draws.

    `concentration` (K,) is that of the Dirichlet prior, or its mean if it is learned. `information` is minus the second
    derivatives of the log-likelihood near the mean, (K, K), or their diagonal, (K,).
    """
    found = np.zeros(draws.shape[1], dtype=np.bool_)
    if len(draws) < ENOUGH_DRAWS:
        return found
    mean = draws.mean(axis=0)
    # A concentration below one only makes the posterior wider.
    of_prior = np.maximum(concentration - 1, 0) / np.maximum(mean, np.finfo(float).tiny ** 0.25) ** 2
    precision = information + (of_prior if information.ndim == 1 else np.diag(of_prior))
    held = np.flatnonzero(mean > HELD * _sds(precision))
    if held.size < 2:
        return found
    sd = _sds(precision[held] if precision.ndim == 1 else precision[np.ix_(held, held)])
    found[held] = draws[:, held].std(axis=0) < LEAST_PART * sd
    return found


def _sds(precision: Floats) -> Floats:
    """Return the sds (K,) of shares with a given sum, for a precision of shape (K, K), or its diagonal."""
    if precision.ndim == 1:
        return np.asarray(1 / np.sqrt(precision + 1))
    basis = zero_sum_basis(len(precision))
    # The information of one answer is added, as in `initial_draws`: without answers, nothing is held.
    inverse = np.linalg.inv(basis @ precision @ basis.T + np.eye(len(basis)))
    return np.asarray(np.sqrt(np.einsum("ij,ik,jk->k", inverse, basis, basis, optimize=True)))


# Do chains agree? The rank-normalized R-hat [1]_ of all categories at once.
#
# It equals ArviZ's, which takes one variable at a time: for short pilots, that took longer than drawing them.
#
# .. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding, and
#    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).


def rank_rhat(draws: Floats) -> Floats:
    """Return R-hat of each variable, from draws (chain, draw, variable); NaN where a variable does not move."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    folded = np.abs(parts - np.median(parts, axis=(0, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(_rhat(_normal_scores(parts)), _rhat(_normal_scores(folded)))


def _normal_scores(draws: Floats) -> Floats:
    from scipy.stats import rankdata  # here, because it takes as long to import as most commands take in all

    flat = draws.reshape(-1, draws.shape[-1])
    return np.asarray(ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)).reshape(draws.shape))


def _rhat(draws: Floats) -> Floats:
    n = draws.shape[1]
    between = n * draws.mean(axis=1).var(axis=0, ddof=1)
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    return np.asarray(np.sqrt((between / within + n - 1) / n))
