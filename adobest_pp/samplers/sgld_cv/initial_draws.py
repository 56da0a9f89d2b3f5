"""Where a posterior is, roughly: a θ near its mode, and draws of θ to start pilots from."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from adobest_pp._linalg import zero_sum_basis
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.marginal import climb
from adobest_pp.samplers.sgld_cv.control_variates import PackedSets, Rows, anchor_at, packed_moments, some_sets

# Rows and iterations that the estimate of θ is made from: a pilot makes up for what they leave out.
ROWS, ITERATIONS = 20_000, 100
NEWTON_STEPS = 3
# Of those towards a prior that outweighs the answers, and the change of a share at which they end.
MOST_STEPS, SMALL_CHANGE = 20, 0.01
# The sum of folded draws, on average, from which on folding has moved them too far; and rounds of moves instead.
MOST_SUM, SWEEPS = 2.0, 10


def initial_draws(
    evidence: Evidence | PackedSets,
    rows: Rows,
    prior: NDArray[np.float64],
    n_draws: int,
    rng: np.random.Generator,
    iterations: int = ITERATIONS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return draws (N, K) of the normal approximation at an estimate of θ, folded to be positive, and its sds (K,).

    Where only sums of many shares are known, folding each of them makes their sum too large by far. Then draws are
    moved instead, between two shares at a time.
    """
    k = prior.size
    theta = _towards_prior(near_mode(evidence, prior, rng, iterations), evidence, rows, prior)
    information = anchor_at(theta, evidence, rows).information + np.diag(np.maximum(prior - 1, 0) / theta**2)
    basis = zero_sum_basis(k)
    precision = basis @ information @ basis.T + (prior.sum() + 1) * np.eye(k - 1)
    covariance = basis.T @ np.linalg.inv(precision) @ basis
    sd = np.sqrt(np.diag(covariance))
    draws = np.abs(
        theta + rng.standard_normal((n_draws, k - 1)) @ np.linalg.cholesky(np.linalg.inv(precision)).T @ basis
    )
    if draws.sum(axis=1).mean() > MOST_SUM:
        draws = _moved(theta, basis.T @ precision @ basis, n_draws, rng)
        sd = draws.std(axis=0)
    draws += 1e-3 * sd
    return draws / draws.sum(axis=1, keepdims=True), sd


def _moved(
    theta: NDArray[np.float64], precision: NDArray[np.float64], n_draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return draws (N, K) of the normal law around θ among positive shares that sum to one, by Gibbs moves of pairs."""
    draws, slopes = np.tile(theta, (n_draws, 1)), np.zeros((n_draws, theta.size))
    for _ in range(SWEEPS):
        order = rng.permutation(theta.size)
        for i, j in zip(order, np.roll(order, 1), strict=True):
            weight = precision[i, i] + precision[j, j] - 2 * precision[i, j]
            both = draws[:, i] + draws[:, j]
            center = draws[:, i] - (slopes[:, i] - slopes[:, j]) / weight
            share = _truncated(center, 1 / np.sqrt(weight), both, rng)
            slopes += (share - draws[:, i])[:, None] * (precision[i] - precision[j])
            draws[:, i], draws[:, j] = share, both - share
    return draws


def _truncated(
    center: NDArray[np.float64], sd: float, highest: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return normal draws that are from 0 to `highest`."""
    # The tail that is farther out is taken as the lower one, where doubles tell small probabilities apart.
    flipped = center < highest / 2
    mean = np.where(flipped, highest - center, center)
    low, high = ndtr(-mean / sd), ndtr((highest - mean) / sd)
    # Doubles hold no probability that is more than 37 sds out: there the nearest end is all that is left.
    found = np.where(high > 0, mean + sd * ndtri(low + rng.random(len(mean)) * (high - low)), highest)
    found = np.clip(found, 0, highest)
    return np.where(flipped, highest - found, found)


def near_mode(
    evidence: Evidence | PackedSets, prior: NDArray[np.float64], rng: np.random.Generator, iterations: int = ITERATIONS
) -> NDArray[np.float64]:
    """Return θ near the mode of its posterior: nearly the most likely one, drawn towards the prior mean."""
    n = evidence.n_responses
    if n == 0:
        return prior / prior.sum()
    some = some_sets(evidence, ROWS, rng) if isinstance(evidence, PackedSets) else some_rows(evidence, rng)
    estimate, _ = climb(some, tolerance=0.01, max_iterations=iterations)
    near = np.asarray((n * estimate + prior) / (n + prior.sum()))
    return _nearer(near, evidence, prior) if isinstance(evidence, PackedSets) else near


def _nearer(theta: NDArray[np.float64], sets: PackedSets, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return θ after steps of Newton's method on all answers: a part of many leaves the mode many sds away."""
    basis = zero_sum_basis(theta.size)
    for _ in range(NEWTON_STEPS):
        gradient, information = packed_moments(theta, sets)
        precision = basis @ information @ basis.T + (prior.sum() + 1) * np.eye(theta.size - 1)
        moved = theta + basis.T @ np.linalg.solve(precision, basis @ gradient)
        theta = np.maximum(moved, theta / 10)
        theta = theta / theta.sum()
    return theta


def _towards_prior(
    theta: NDArray[np.float64], evidence: Evidence | PackedSets, rows: Rows, prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return θ after steps of Newton's method, with the part of the prior that pulls shares away from zero."""
    pull = np.maximum(prior - 1, 0)
    if not pull.any():
        return theta
    basis = zero_sum_basis(theta.size)
    for _ in range(MOST_STEPS):
        anchor = anchor_at(theta, evidence, rows)
        precision = basis @ (anchor.information + np.diag(pull / theta**2)) @ basis.T + np.eye(len(basis))
        change = basis.T @ np.linalg.solve(precision, basis @ (anchor.gradient + pull / theta))
        # No share changes by more than half of itself, as the method trusts a pull that is 1/θ.
        length = min(1.0, 0.5 / np.abs(change / theta).max()) if change.any() else 1.0
        theta = theta + length * change
        if length == 1.0 and np.abs(change / theta).max() < SMALL_CHANGE:
            break
    return theta / theta.sum()


def some_rows(evidence: Evidence, rng: np.random.Generator) -> Evidence:
    """Return a random part of much evidence, with rows drawn by their counts."""
    if evidence.n_rows <= ROWS or len(evidence.patterns):
        return evidence
    places = np.searchsorted(np.cumsum(evidence.count), rng.integers(evidence.n_responses, size=ROWS), side="right")
    sets = np.unique(evidence.set_index[places])
    sets = sets[sets >= 0]
    sizes = np.diff(evidence.offsets)[sets]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    members = evidence.members[np.arange(offsets[-1]) + np.repeat(evidence.offsets[sets] - offsets[:-1], sizes)]
    old = evidence.set_index[places]
    return Evidence(
        base=evidence.base[places],
        own=evidence.own[places],
        inside=evidence.inside[places],
        log_scale=evidence.log_scale[places],
        category=evidence.category[places],
        set_index=np.where(old < 0, -1, np.searchsorted(sets, old)),
        count=np.ones(ROWS, dtype=np.int64),
        members=members,
        offsets=offsets,
        patterns=evidence.patterns,
        codes=evidence.codes[:0, :0],
    )
