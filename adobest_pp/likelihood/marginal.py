"""The marginal log-likelihood of collapsed responses, its gradient and its maximum, with checked arguments."""

import warnings
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy.special import betaincinv, xlogy

from adobest_pp._checks import (
    check_count,
    check_integer,
    check_positive,
    check_prior,
    check_probabilities,
    check_probability,
    check_theta,
)
from adobest_pp._types import Floats
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import information_diagonal, value_and_gradient


def log_likelihood(theta: ArrayLike, evidence: Evidence) -> float:
    """Return ln P(answers | θ).

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum of 1 to within 1e-6, by which they are divided.
    evidence : Evidence
        Collapsed responses.

    Returns
    -------
    float
        ``-inf`` when an answer is impossible under θ.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1])
    >>> round(ad.likelihood.log_likelihood([0.5, 0.5], responses.evidence()), 4)
    -2.0794
    """
    _check_evidence(evidence)
    value, _ = value_and_gradient(_check_theta(theta, evidence), evidence)
    return float(value + evidence.constant)


def gradient(theta: ArrayLike, evidence: Evidence) -> Floats:
    """Return the gradient of the log-likelihood with respect to θ, of shape (K,): Σ count · g_i / h.

    The derivative is that of a function of K free numbers, because h is written with Σθ, taken on the simplex.
    """
    _check_evidence(evidence)
    _, slope = value_and_gradient(_check_theta(theta, evidence), evidence)
    return np.asarray(slope)


def phi_gradient(phi: ArrayLike, evidence: Evidence) -> Floats:
    """Return the gradient with respect to φ of the log-likelihood of θ = φ/Σφ: Σ count · (g_i/h − 1)/Σφ."""
    _check_evidence(evidence)
    phi = check_theta(phi, evidence.n_categories, "phi")
    total = phi.sum()
    return np.asarray((gradient(phi / total, evidence) - evidence.n_responses) / total)


def maximum_likelihood(evidence: Evidence, tolerance: float = 1e-6, max_iterations: int = 10_000) -> Floats:
    """Return the θ of greatest likelihood.

    Spectral projected gradients [1]_ from the uniform θ, scaled by the diagonal of the information. They stop when the
    log-likelihood is within `tolerance` of its maximum: as it is concave, its maximum is at most max ∇ − n above its
    value. `maximum_likelihood` warns if this is not reached in `max_iterations`.

    References
    ----------
    .. [1] E. G. Birgin, J. M. Martínez and M. Raydan (2000), Nonmonotone spectral projected gradient methods on convex
       sets, SIAM Journal on Optimization 10(4).
    """
    _check_evidence(evidence)
    if evidence.n_responses == 0:
        raise ValueError("evidence must hold at least one response, got none")
    largest_gap = check_positive(tolerance, "tolerance")
    theta, gap = _ascend(evidence, largest_gap, check_count(max_iterations, "max_iterations"))
    if gap > largest_gap:
        warnings.warn(
            f"the log-likelihood may still be {gap:.2g} below its maximum after {max_iterations} iterations",
            stacklevel=2,
        )
    return theta


# Steps after which the scale is computed again, values that a new one is compared with, and the part of the predicted
# gain that a step must make.
STEPS = 10
MEMORY = 10
LEAST_GAIN = 1e-4


def _ascend(evidence: Evidence, tolerance: float, max_iterations: int) -> tuple[Floats, float]:
    """Return θ near the maximum of the likelihood, and a bound on how far its log-likelihood is below it."""
    n, theta = evidence.n_responses, np.full(evidence.n_categories, 1 / evidence.n_categories)
    value, slope = value_and_gradient(theta, evidence)
    best, least, recent = theta, float(slope.max() - n), [value]
    for iteration in range(max_iterations):
        if least <= tolerance:
            break
        if iteration % STEPS == 0:
            scale, length = information_diagonal(theta, evidence) + 1e-9 * n, 1.0
        way = _nearest(theta + length * slope / scale, scale) - theta
        gain, part = float(slope @ way), 1.0
        while True:
            reached = np.maximum(theta + part * way, 0.0)
            value, reached_slope = value_and_gradient(reached, evidence)
            if value >= min(recent) + LEAST_GAIN * part * gain or part < 1e-10:
                break
            part /= 2
        step = reached - theta
        bend = float(step @ (slope - reached_slope))
        length = float(np.clip(step @ (scale * step) / bend, 1e-6, 1e6)) if bend > 0 else 1e6
        theta, slope, recent = reached, reached_slope, [*recent, value][-MEMORY:]
        gap = float(slope.max() - n)
        if gap < least:
            best, least = theta, gap
    return best / best.sum(), least


def _nearest(target: Floats, scale: Floats) -> Floats:
    """Return the θ on the simplex with the least Σ scale·(θ − target)²: max(0, target − λ/scale) for one λ."""
    order = np.argsort(-target * scale)
    levels, widths = (target * scale)[order], 1 / scale[order]
    shifts = (np.cumsum(levels * widths) - 1) / np.cumsum(widths)
    shift = shifts[np.flatnonzero(levels > shifts)[-1]]
    return np.asarray(np.maximum(0.0, target - shift / scale))


def _check_theta(theta: ArrayLike, evidence: Evidence) -> Floats:
    probabilities = check_probabilities(theta, evidence.n_categories)
    return probabilities / probabilities.sum()


def _check_evidence(evidence: Evidence) -> None:
    if not isinstance(evidence, Evidence):
        raise ValueError(f"evidence must be an Evidence, as of Responses.evidence(), got {type(evidence).__name__}")


@njit(cache=True)
def climb(evidence, tolerance, max_iterations):  # type: ignore[no-untyped-def]
    """Return θ > 0 near the maximum of the likelihood, and a bound on how far its log-likelihood is below it.

    Expectation-maximization from the uniform θ, θ ← θ·∇/n, accelerated [1]_. Samplers start there, as no share becomes
    zero. It may take very many more steps to the maximum than `maximum_likelihood`.

    References
    ----------
    .. [1] R. Varadhan and C. Roland (2008), Simple and globally convergent methods for accelerating the convergence of
       any EM algorithm, Scandinavian Journal of Statistics 35(2).
    """
    k = evidence.patterns.shape[1]
    n, theta, gap = evidence.count.sum(), np.full(k, 1.0 / k), np.inf
    first, second, leap = np.empty(theta.size), np.empty(theta.size), np.empty(theta.size)
    for _ in range(max_iterations):
        value, slope = value_and_gradient(theta, evidence)
        gap = -np.inf
        for i in range(theta.size):
            gap = max(gap, slope[i] - n)
            first[i] = theta[i] * slope[i] / n
        if gap <= tolerance:
            break
        _, slope = value_and_gradient(first, evidence)
        along, across = 0.0, 0.0
        for i in range(theta.size):
            second[i] = first[i] * slope[i] / n
            along += (first[i] - theta[i]) ** 2
            across += (second[i] - 2.0 * first[i] + theta[i]) ** 2
        length = np.sqrt(along / max(across, 1e-300))
        for i in range(theta.size):
            step, turn = first[i] - theta[i], second[i] - 2.0 * first[i] + theta[i]
            leap[i] = max(theta[i] + 2.0 * length * step + length**2 * turn, 0.1 * second[i])
        _normalize(leap)
        reached, _ = value_and_gradient(leap, evidence)
        if not reached > value:
            _normalize(second)
            leap, second = second, leap
        theta, leap = leap, theta
    _normalize(theta)
    return theta, gap


@njit(cache=True)
def _normalize(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in values:
        total += value
    for i in range(values.size):
        values[i] /= total


# The posterior of two or three categories on a grid: fast, and exact to the eye, for pictures and lessons.
#
# A Dirichlet(ρ) prior is the same as independent shares s ~ Beta(ρ₀, ρ₁+ρ₂) and t ~ Beta(ρ₁, ρ₂), with θ₀ = s and
# θ₁ = (1−s)·t. Cells of equal prior probability in (s, t) have a posterior mass in proportion to their likelihood. The
# grid is narrowed several times to the cells that matter, so the posterior of a million answers also fills it.

# Cells whose likelihood is less than e^−25 times the largest are not visible.
NEGLIGIBLE = 25.0
NARROWINGS = 4


class GridPosterior(NamedTuple):
    """The posterior on M or M×M cells: θ at their centers (…, K), their masses, which sum to one, and ln p(θ) there."""

    theta: Floats
    mass: Floats
    log_density: Floats

    def mean(self) -> Floats:
        """Return the posterior mean, of shape (K,)."""
        return np.asarray(self.mass.ravel() @ self._flat())

    def sd(self) -> Floats:
        """Return the posterior standard deviation of each share, of shape (K,)."""
        return np.sqrt(self.mass.ravel() @ (self._flat() - self.mean()) ** 2)

    def interval(self, probability: float = 0.95) -> Floats:
        """Return the ends of the intervals with equal tails, of shape (2, K)."""
        check_probability(probability)
        tails = [(1 - probability) / 2, (1 + probability) / 2]
        ends = []
        for column in self._flat().T:
            values, place = np.unique(column, return_inverse=True)  # all cells of a row have the same θ₀
            mass = np.bincount(place, self.mass.ravel())
            ends.append(np.interp(tails, np.cumsum(mass) - mass / 2, values))
        return np.array(ends).T

    def level(self, probability: float) -> float:
        """Return ln p(θ) at the edge of the smallest region that holds this probability."""
        check_probability(probability)
        heights = self.log_density.ravel()
        order = np.argsort(-heights)
        held = np.cumsum(self.mass.ravel()[order])
        return float(heights[order[min(int(np.searchsorted(held, probability)), held.size - 1)]])

    def _flat(self) -> Floats:
        return self.theta.reshape(-1, self.theta.shape[-1])


def grid_posterior(responses: Responses | Gathered, prior: ArrayLike = 1.0, cells: int = 100) -> GridPosterior:
    """Return the posterior of two or three shares on a grid.

    Parameters
    ----------
    responses : Responses or Gathered
        Answers about K = 2 or K = 3 categories.
    prior : float or array of shape (K,), default 1.0
        Concentration ρ of the Dirichlet prior.
    cells : int, default 100
        Cells along each of the K−1 axes.

    Returns
    -------
    GridPosterior

    See Also
    --------
    adobest_pp.sample : For any number of categories.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> ad.likelihood.grid_posterior(responses).mean().round(3).tolist()
    [0.572, 0.428]
    """
    check_responses(responses)
    k = responses.n_categories
    if k not in (2, 3):
        raise ValueError(f"responses must be about 2 or 3 categories for a grid, got {k}")
    m = check_integer(cells, "cells", 10, 1000)
    rho = check_prior(prior, k, responses.categories)
    evidence = responses.evidence()
    rows, count = evidence.matrix(), evidence.count
    ends = np.tile([0.0, 1.0], (k - 1, 1))
    for narrowing in range(NARROWINGS):
        edges = [np.linspace(low, high, m + 1) for low, high in ends]
        theta = _shares([(edge[1:] + edge[:-1]) / 2 for edge in edges], rho)
        value: Floats = np.log(theta @ rows.T) @ count
        value -= value.max()
        if narrowing < NARROWINGS - 1:
            ends = np.array([_narrow(value, axis, edge) for axis, edge in enumerate(edges)])
    mass = np.exp(value)
    return GridPosterior(theta, mass / mass.sum(), value + xlogy(rho - 1, theta).sum(axis=-1))


def _shares(quantiles: list[Floats], rho: Floats) -> Floats:
    """Return θ at all pairs of quantiles of the shares s and t under the prior."""
    first = betaincinv(rho[0], rho[1:].sum(), quantiles[0])
    if len(quantiles) == 1:
        return np.stack([first, 1 - first], axis=-1)
    s, t = np.meshgrid(first, betaincinv(rho[1], rho[2], quantiles[1]), indexing="ij")
    return np.stack([s, (1 - s) * t, (1 - s) * (1 - t)], axis=-1)


def _narrow(value: Floats, axis: int, edges: Floats) -> tuple[float, float]:
    """Return the ends of the cells along an axis that matter, and of one more on either side."""
    others = tuple(i for i in range(value.ndim) if i != axis)
    kept = np.flatnonzero(value.max(axis=others) > -NEGLIGIBLE)
    return edges[max(kept[0] - 1, 0)], edges[min(kept[-1] + 2, len(edges) - 1)]
