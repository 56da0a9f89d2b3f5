"""Shares of people, or of several groups of them, drawn from their posterior given unbiased estimates.

`learned_shares` is for everybody at once, under the learned prior of every estimate:

    estimate ~ Normal(θ, Q⁻¹),   θ ~ Dirichlet(a, …, a),   a learned.

`pooled_shares` is for groups g of them, whose shares lie around the common shares μ that everybody's answers give:

    estimate_g ~ Normal(θ_g, Q_g⁻¹),   θ_g ~ Dirichlet(c·μ),   c learned.

c says how alike the groups are. So a group with few answers borrows from the others, as much as these agree among
themselves: a model of areas, after Fay and Herriot [1]_, on the simplex. The cost depends on groups and categories, not
on people.

References
----------
.. [1] R. E. Fay and R. A. Herriot (1979), Estimates of income for small places: an application of James-Stein
   procedures to census data, Journal of the American Statistical Association 74(366).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._types import Floats

# Mean and standard deviation of ln c of groups: with 95 % probability a share of 30 % has a standard deviation of 2 to
# 30 points between groups.
LOG_LIKENESS = (3.4, 1.5)

# Mean and standard deviation of the logarithm of the step between neighbors, on the scale of ln θ.
LOG_STEP = (-0.5, 1.0)

CHAINS, SWEEPS, WARMUP = 4, 1500, 500
# Moves of pairs of categories in a sweep, for each category.
MOVES = 4
# The smallest logarithm of a share that is kept: its exponential is 0.
LEAST_LOG = -1e6


class PooledDraws(NamedTuple):
    """Draws of shares, of shape (chains, draws, G, K), and of ln c or ln a, of shape (chains, draws)."""

    theta: Floats
    log_concentration: Floats


def learned_shares(estimate: Floats, precision: Floats, random_seed: int) -> PooledDraws:
    """Return draws of everybody's shares, G = 1, under the learned prior.

    Parameters
    ----------
    estimate : array of shape (K,)
        An unbiased estimate, which sums to one and may be negative.
    precision : array of shape (K, K)
        The inverse of its covariance, for vectors whose sum is zero.
    random_seed : int
        The same seed gives the same draws.
    """
    return _chains(_chain, random_seed, estimate[None], precision[None], np.ones(estimate.size), *LOG_CONCENTRATION)


def smoothed_shares(estimate: Floats, precision: Floats, random_seed: int) -> PooledDraws:
    """Return draws of everybody's shares under a prior by which neighbors of ordered categories have similar shares.

    θ = softmax(z), where z is a random walk over the categories whose step is learned. Arguments are those
    of `learned_shares`; ln c is that of the step.
    """
    drawn = _chains(_walk, random_seed, estimate, precision, *LOG_STEP)
    return drawn._replace(theta=drawn.theta[:, :, None])


def pooled_shares(estimates: Floats, precisions: Floats, common: Floats, random_seed: int) -> PooledDraws:
    """Return draws of the shares of all groups, partially pooled.

    Parameters
    ----------
    estimates : array of shape (G, K)
        Unbiased estimates, each of which sums to one.
    precisions : array of shape (G, K, K)
        The inverses of their covariances.
    common : array of shape (K,)
        The shares μ, positive, which sum to one.
    random_seed : int
        As in `learned_shares`.
    """
    return _chains(_chain, random_seed, estimates, precisions, common, *LOG_LIKENESS)


def _chains(chain: Any, random_seed: int, *arguments: Any) -> PooledDraws:
    seeds = np.random.SeedSequence(random_seed).spawn(CHAINS)
    parts = [chain(np.random.default_rng(seed), *arguments, WARMUP, SWEEPS) for seed in seeds]
    return PooledDraws(*(np.stack(each) for each in zip(*parts, strict=True)))


@njit(cache=True)
def _chain(rng, estimates, precisions, common, mean, sd, warmup, sweeps):  # type: ignore[no-untyped-def]
    """Return the draws of one chain of Metropolis updates: θ ~ Dirichlet(c·common), (sweeps, G, K), and ln c."""
    n_groups, k = estimates.shape
    kept, learned = np.empty((sweeps, n_groups, k)), np.empty(sweeps)
    theta, logs, sums, pull = np.empty((n_groups, k)), np.empty((n_groups, k)), np.empty(k), np.empty(k)
    log_c = mean
    for g in range(n_groups):
        for i in range(k):  # near the estimate, differently in each chain
            theta[g, i] = max(estimates[g, i], 0.01 / k) * (0.5 + rng.random())
        theta[g] /= theta[g].sum()
        logs[g] = np.log(theta[g])
    for sweep in range(warmup + sweeps):
        prior = math.exp(log_c) * common
        for g in range(n_groups):
            _pull(theta[g], estimates[g], precisions[g], pull)
            _move_shares(rng, theta[g], logs[g], pull, precisions[g], prior)
        for _ in range(2):
            sums[:] = logs.sum(axis=0)
            log_c = _move_scale(rng, log_c, mean, sd, sums, n_groups, common)
            log_c = _stretch(rng, theta, logs, estimates, precisions, common, log_c, mean, sd)
        if sweep >= warmup:
            kept[sweep - warmup] = theta
            learned[sweep - warmup] = log_c
    return kept, learned


@njit(cache=True)
def _walk(rng, estimate, precision, mean, sd, warmup, sweeps):  # type: ignore[no-untyped-def]
    """Return the draws of one chain for a random walk of ln θ: θ of shape (sweeps, K), and ln of the step."""
    k = estimate.size
    kept, learned = np.empty((sweeps, k)), np.empty(sweeps)
    steps, log_step, gap = 0.1 * rng.standard_normal(k - 1), mean, np.empty(k)
    theta, new = np.full(k, 1.0 / k), np.empty(k)
    distance = _distance_of_walk(steps, theta, estimate, precision, gap)
    for sweep in range(warmup + sweeps):
        for _ in range(3 * (k - 1)):
            i = rng.integers(0, k - 1)
            before, size = steps[i], math.exp(log_step)
            if rng.random() < 0.2:
                steps[i] = size * rng.standard_normal()  # from the prior
                change = 0.0
            else:
                steps[i] += 0.1 * 4.0 ** rng.integers(0, 3) * rng.standard_normal()
                change = 0.5 * (before**2 - steps[i] ** 2) / size**2
            other = _distance_of_walk(steps, new, estimate, precision, gap)
            if math.log(1.0 - rng.random()) < change + 0.5 * (distance - other):
                distance = other
                theta[:] = new
            else:
                steps[i] = before
        for _ in range(3):
            proposed = log_step + 0.7 * rng.standard_normal()
            change = 0.5 * (((log_step - mean) / sd) ** 2 - ((proposed - mean) / sd) ** 2)
            squares = (steps**2).sum()
            change -= (k - 1) * (proposed - log_step)
            change -= 0.5 * squares * (math.exp(-2 * proposed) - math.exp(-2 * log_step))
            if math.log(1.0 - rng.random()) < change:
                log_step = proposed
        if sweep >= warmup:
            kept[sweep - warmup] = theta
            learned[sweep - warmup] = log_step
    return kept, learned


@njit(cache=True)
def _distance_of_walk(steps, theta, estimate, precision, gap):  # type: ignore[no-untyped-def]
    """Write the shares of a walk into `theta`, and return their squared distance from the estimate."""
    theta[0], largest = 0.0, 0.0
    for i in range(1, theta.size):
        theta[i] = theta[i - 1] + steps[i - 1]
        largest = max(largest, theta[i])
    for i in range(theta.size):
        theta[i] = math.exp(theta[i] - largest)
    theta /= theta.sum()
    _pull(theta, estimate, precision, gap)
    distance = 0.0
    for i in range(theta.size):
        distance += gap[i] * (theta[i] - estimate[i])
    return distance


@njit(cache=True)
def _move_shares(rng, theta, logs, pull, precision, prior):  # type: ignore[no-untyped-def]
    """Move mass between random pairs of categories of one group, in place; `pull` is precision·(θ − estimate).

    A move is a step of the size of the error, a factor, or a draw from the prior, which reaches and leaves zero.
    """
    k = theta.size
    for _ in range(MOVES * k):
        i = rng.integers(0, k)
        j = (i + 1 + rng.integers(0, k - 1)) % k
        total = theta[i] + theta[j]
        steep = precision[i, i] + precision[j, j] - 2 * precision[i, j]
        if total <= 0.0:
            continue
        kind, whole = rng.integers(0, 3), np.logaddexp(logs[i], logs[j])
        if kind == 0:
            new_i = theta[i] + 2.4 * rng.standard_normal() / math.sqrt(max(steep, 1e-300))
            if not 0.0 < new_i < total:
                continue
            log_i, log_j = math.log(new_i), math.log(total - new_i)
            change = (prior[i] - 1) * (log_i - logs[i]) + (prior[j] - 1) * (log_j - logs[j])
        else:
            if kind == 1:
                odds = logs[i] - logs[j] + 1.5 * rng.standard_normal()
            else:
                odds = _log_gamma_draw(rng, prior[i]) - _log_gamma_draw(rng, prior[j])
            log_i, log_j = whole - np.logaddexp(0.0, -odds), whole - np.logaddexp(0.0, odds)
            new_i = math.exp(log_i)
            change = 0.0 if kind == 2 else prior[i] * (log_i - logs[i]) + prior[j] * (log_j - logs[j])
        if log_i < LEAST_LOG or log_j < LEAST_LOG:
            continue
        by = new_i - theta[i]
        change -= by * (pull[i] - pull[j]) + 0.5 * by * by * steep
        if math.log(1.0 - rng.random()) >= change:
            continue
        theta[i], theta[j], logs[i], logs[j] = new_i, math.exp(log_j), log_i, log_j
        for m in range(k):
            pull[m] += by * (precision[m, i] - precision[m, j])


@njit(cache=True)
def _stretch(  # type: ignore[no-untyped-def]
    rng, theta, logs, estimates, precisions, common, log_c, mean, sd
):
    """Return the next ln c, and move all groups towards the common shares, or away from them, to match, in place."""
    n_groups, k = theta.shape
    center = np.log(common)
    step = (0.2 if rng.random() < 0.5 else 1.0) * rng.standard_normal()
    factor, new_c, c = math.exp(-step / 2), math.exp(log_c + step), math.exp(log_c)
    new_logs, new, gap = np.empty((n_groups, k)), np.empty((n_groups, k)), np.empty(k)
    change = 0.5 * (((log_c - mean) / sd) ** 2 - ((log_c + step - mean) / sd) ** 2)
    total = common.sum()
    change += n_groups * (math.lgamma(new_c * total) - math.lgamma(c * total) + (k - 1) * math.log(factor))
    for i in range(k):
        change -= n_groups * (math.lgamma(new_c * common[i]) - math.lgamma(c * common[i]))
    for g in range(n_groups):
        for i in range(k):
            new_logs[g, i] = center[i] + factor * (logs[g, i] - center[i])
        largest = new_logs[g].max()
        new_logs[g] -= largest + math.log(np.exp(new_logs[g] - largest).sum())
        for i in range(k):
            new[g, i] = math.exp(new_logs[g, i])
            change += new_c * common[i] * new_logs[g, i] - c * common[i] * logs[g, i]
        for sign, shares in ((-0.5, new), (0.5, theta)):
            _pull(shares[g], estimates[g], precisions[g], gap)
            for i in range(k):
                change += sign * gap[i] * (shares[g, i] - estimates[g, i])
    if new_logs.min() < LEAST_LOG or math.log(1.0 - rng.random()) >= change:
        return log_c
    theta[:], logs[:] = new, new_logs
    return log_c + step


@njit(cache=True)
def _pull(theta, estimate, precision, pull):  # type: ignore[no-untyped-def]
    """Write precision·(θ − estimate) into `pull`."""
    for i in range(theta.size):
        pull[i] = 0.0
        for j in range(theta.size):
            pull[i] += precision[i, j] * (theta[j] - estimate[j])


@njit(cache=True)
def _log_gamma_draw(rng, shape):  # type: ignore[no-untyped-def]
    """Return the logarithm of a Gamma variable, also of a tiny shape."""
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


@njit(cache=True)
def _move_scale(rng, log_scale, mean, sd, sums, n_groups, shares):  # type: ignore[no-untyped-def]
    """Return the next ln s of θ_g ~ Dirichlet(s·shares), g = 1 … n_groups, whose sums of ln θ_g are `sums`."""
    step = 0.3 if rng.random() < 0.5 else 1.5
    new = log_scale + step * rng.standard_normal()
    change = 0.0
    for sign, value in ((1.0, new), (-1.0, log_scale)):
        s = math.exp(value)
        part = n_groups * math.lgamma(s * shares.sum()) - 0.5 * ((value - mean) / sd) ** 2
        for i in range(shares.size):
            part += s * shares[i] * sums[i] - n_groups * math.lgamma(s * shares[i])
        change += sign * part
    return new if math.log(1.0 - rng.random()) < change else log_scale
