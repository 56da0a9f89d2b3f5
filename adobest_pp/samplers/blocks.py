"""Metropolis moves of blocks of shares: exact, and made for thousands of categories.

With thousands of categories, answers say little about any two of them together, so the posterior of a share given the
others hardly depends on them. But that one-dimensional posterior is far from normal: under a concentration a ≪ 1 a
share is next to nothing or stands out of the noise, and no path of high density leads from one to the other. Gradients
are of no use there. So a block of shares is drawn anew at once, each from its own posterior given all others:

    q(φ_i) ∝ φ_i^(a−1)·exp(b_i·φ_i − J_i·φ_i²/2),

with J_i the information about it and b_i such that the slope is that of the log-density at the current φ. In units of
t = φ_i·√J_i this is one family of densities with the parameter β = b_i/√J_i: it is tabulated by cells, and a table is a
density that is known exactly. The block is accepted by the rule of Metropolis and Hastings [1]_, with the likelihood
itself, so that the draws have the posterior whatever was approximated. The size of blocks is tuned to how often.

θ = φ/T as in `sgld_cv.dynamics`: the sum T tells nothing about θ, ln T ~ N(0, τ²), and it is drawn anew for each sweep.

**The concentration.** Given all shares, a learned a has hardly any room: the logarithms of thousands of shares that
are lost in the noise tell it to within 1/√K, though the answers do not know them. So these shares move along with it:
a share below ε, an sd of the noise, keeps its quantile among shares below ε, which under Gamma(a, Ka) has the
distribution function F_a(φ)/F_a(ε). Any increasing functions F_a that are known exactly, with their slopes, give a move
that can be reversed; here they are interpolated, and again accepted by the rule.

References
----------
.. [1] W. K. Hastings (1970), Monte Carlo sampling methods using Markov chains and their applications, Biometrika 57(1).
"""

import json
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._numerics import TINY, copy_into, integer, normal, seed_state, uniform
from adobest_pp._progress import SlowProgress
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import information_diagonal, value_and_gradient
from adobest_pp.samplers.registry import Drawn, register_sampler

Array = NDArray[np.float64]

# The tables of q, in units of t. Below the first edge t has its power law; then cells are alike in ln t, and from 1 on
# in t. A share with β above the last row is held: its q is normal.
FIRST_EDGE = 1e-3
N_LOGARITHMIC, N_LINEAR, LINEAR_WIDTH = 89, 129, 0.1
EDGES = np.append(np.geomspace(FIRST_EDGE, 1.0, N_LOGARITHMIC + 1), 1.0 + LINEAR_WIDTH * np.arange(1, N_LINEAR + 1))
LOG_FIRST_EDGE, LOG_WIDTH = math.log(FIRST_EDGE), -math.log(FIRST_EDGE) / N_LOGARITHMIC
# Of the cell that ends at each edge: the middle and the width, in ln t or in t.
_IS_LOG = np.arange(EDGES.size) <= N_LOGARITHMIC
_BEFORE = np.append(FIRST_EDGE, EDGES[:-1])
MIDDLES = np.where(_IS_LOG, np.sqrt(_BEFORE * EDGES), (_BEFORE + EDGES) / 2)
LOG_MIDDLES, WIDTHS = np.log(MIDDLES), np.where(_IS_LOG, LOG_WIDTH, LINEAR_WIDTH)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
LAST_ROW, ROW_STEP, N_EVEN = 6.0, 0.1, 141
# Below the even rows β grows by this factor: large concentrations pull shares down.
FALL, N_FALLING = 1.05, 120
# τ of the sum, in sds of a share, and at most: wide enough for a block to move it, and so narrow that the information
# about φ = T·θ hardly depends on it. And the share of blocks to be accepted.
TOTAL_IN_SDS, LARGEST_TOTAL_SD, WANTED = 12.0, 0.2, 0.65
# The concentration: moves a sweep, the share of them to be accepted, the first width, and the largest |ln a|.
MOVES, WANTED_OF_A, FIRST_WIDTH, LARGEST = 2, 0.35, 0.1, 690.0
# The table of F_a: how far below ln ε it goes, and its points.
DEPTH, N_LEVELS = 12.0, 300


@njit(cache=True)
def row_of(beta):  # type: ignore[no-untyped-def]
    """Return the row of the tables for β, which is at most `LAST_ROW`."""
    lowest = LAST_ROW - ROW_STEP * (N_EVEN - 1)
    if beta >= lowest:
        return N_FALLING + min(int((beta - lowest) / ROW_STEP + 0.5), N_EVEN - 1)
    return N_FALLING - min(int(math.log(beta / lowest) / math.log(FALL) + 0.5), N_FALLING)


@njit(cache=True)
def beta_of(row):  # type: ignore[no-untyped-def]
    """Return the β of a row."""
    lowest = LAST_ROW - ROW_STEP * (N_EVEN - 1)
    if row >= N_FALLING:
        return lowest + ROW_STEP * (row - N_FALLING)
    return lowest * FALL ** (N_FALLING - row)


@njit(cache=True, error_model="numpy")
def _fill_row(a, row, sums, logs):  # type: ignore[no-untyped-def]
    """Write the cumulative masses of the cells of a row, and ln q of each: by ln t, or by t from 1 on."""
    beta = beta_of(row)
    mass = math.exp(a * LOG_FIRST_EDGE) / a
    sums[row, 0] = mass
    for j in range(1, EDGES.size):
        middle = MIDDLES[j]
        height = a * LOG_MIDDLES[j] + beta * middle - 0.5 * middle * middle
        if j > N_LOGARITHMIC:
            height -= LOG_MIDDLES[j]
        # Far above the peak everything is nothing, and logarithms stay finite.
        height = max(height, -600.0)
        logs[row, j] = height
        mass += math.exp(height) * WIDTHS[j]
        sums[row, j] = mass
    log_mass = math.log(mass)
    logs[row, 0] = -log_mass
    for j in range(1, EDGES.size):
        logs[row, j] -= log_mass


@njit(cache=True, error_model="numpy")
def _log_q(log_t, a, beta, sums, logs):  # type: ignore[no-untyped-def]
    """Return ln q of ln t."""
    if beta > LAST_ROW:
        center, t = beta - (1.0 - a) / beta, math.exp(log_t)
        return -0.5 * (t - center) ** 2 - HALF_LOG_2PI + log_t
    row = row_of(beta)
    if sums[row, 0] == 0.0:
        _fill_row(a, row, sums, logs)
    if log_t < LOG_FIRST_EDGE:
        return logs[row, 0] + a * log_t
    if log_t < 0.0:
        # An edge may be missed by rounding: then the next cell, nearly the same, is taken.
        return logs[row, min(1 + int((log_t - LOG_FIRST_EDGE) / LOG_WIDTH), N_LOGARITHMIC)]
    j = 1 + N_LOGARITHMIC + int((math.exp(log_t) - 1.0) / LINEAR_WIDTH)
    return logs[row, j] + log_t if j < EDGES.size else -math.inf


@njit(cache=True, error_model="numpy")
def _draw(state, a, beta, sums, logs):  # type: ignore[no-untyped-def]
    """Return ln t from q, or −inf where a share that is held would be negative."""
    if beta > LAST_ROW:
        t = beta - (1.0 - a) / beta + normal(state)
        return math.log(t) if t > 0.0 else -math.inf
    row = row_of(beta)
    if sums[row, 0] == 0.0:
        _fill_row(a, row, sums, logs)
    level = uniform(state) * sums[row, -1]
    if level < sums[row, 0]:
        return LOG_FIRST_EDGE + math.log1p(-uniform(state)) / a
    j = np.searchsorted(sums[row], level, side="right")
    j = min(max(j, 1), EDGES.size - 1)
    part = uniform(state)
    if j <= N_LOGARITHMIC:
        return LOG_FIRST_EDGE + (j - 1 + part) * LOG_WIDTH
    return math.log(EDGES[j - 1] + part * LINEAR_WIDTH)


@njit(cache=True, error_model="numpy")
def _value(phi, a, n, total_sd, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of ln φ, without a·Σ ln φ, and its gradient with respect to φ, without a/φ."""
    total = phi.sum()
    value, slope = value_and_gradient(phi, evidence)
    log_total, weight = math.log(total), n + phi.size * a
    shared = (weight + log_total / total_sd**2) / total
    return value - weight * log_total - 0.5 * (log_total / total_sd) ** 2, slope - shared


@njit(cache=True, error_model="numpy")
def _move_block(  # type: ignore[no-untyped-def]
    state, block, logs, phi, value, slope, a, n, roots, log_roots, total_sd, evidence, sums, heights
):
    """Draw the shares of a block anew; return whether they were accepted, and value and gradient."""
    moved, new = phi.copy(), np.empty(block.size)
    change = 0.0
    for p in range(block.size):
        i = block[p]
        beta = slope[i] / roots[i] + roots[i] * phi[i]
        log_t = _draw(state, a, beta, sums, heights)
        new[p] = log_t - log_roots[i]
        moved[i] = math.exp(new[p])
        change += a * (new[p] - logs[i]) - _log_q(log_t, a, beta, sums, heights)
    if not math.isfinite(change):
        return False, value, slope
    new_value, new_slope = _value(moved, a, n, total_sd, evidence)
    change += new_value - value
    for p in range(block.size):
        i = block[p]
        beta = new_slope[i] / roots[i] + roots[i] * moved[i]
        change += _log_q(logs[i] + log_roots[i], a, beta, sums, heights)
    if not math.log1p(-uniform(state)) < change:
        return False, value, slope
    for p in range(block.size):
        logs[block[p]] = new[p]
        phi[block[p]] = moved[block[p]]
    return True, new_value, new_slope


@njit(cache=True, error_model="numpy")
def _fill_quantiles(a, k, log_edge, levels):  # type: ignore[no-untyped-def]
    """Write ln F_a(φ) − ln F_a(ε) at ln φ = ln ε − `DEPTH` … ln ε, evenly spaced, by the trapezoidal rule.

    Below them F_a is a power law: the line goes on with the slope a.
    """
    step = DEPTH / (levels.size - 1)
    mass, before = 0.0, 0.0
    for j in range(levels.size):
        x = log_edge - DEPTH + j * step
        height = math.exp(a * (x - log_edge) - k * a * (math.exp(x) - math.exp(log_edge)))
        mass += height / a if j == 0 else 0.5 * step * (height + before)
        before = height
        levels[j] = math.log(mass)
    levels -= levels[-1]


@njit(cache=True, error_model="numpy")
def _moved_quantile(x, a, log_edge, levels, new_a, new_levels):  # type: ignore[no-untyped-def]
    """Return ln φ of the same quantile under another concentration, and the logarithm of its derivative."""
    last = levels.size - 1
    step = DEPTH / last
    place = (x - log_edge + DEPTH) / step
    if place <= 0.0:
        level, slope = levels[0] + a * place * step, a
    else:
        j = min(int(place), last - 1)
        slope = (levels[j + 1] - levels[j]) / step
        level = levels[j] + (place - j) * step * slope
    if level <= new_levels[0]:
        return log_edge - DEPTH + (level - new_levels[0]) / new_a, math.log(slope / new_a)
    j = min(max(np.searchsorted(new_levels, level) - 1, 0), last - 1)
    new_slope = (new_levels[j + 1] - new_levels[j]) / step
    return log_edge - DEPTH + j * step + (level - new_levels[j]) / new_slope, math.log(slope / new_slope)


@njit(cache=True, error_model="numpy")
def _move_concentration(  # type: ignore[no-untyped-def]
    state, logs, phi, value, slope, log_a, width, law, n, log_edge, total_sd, evidence, levels
):
    """Move ln a, and with it the shares below ε; return whether it was accepted, and value and gradient."""
    k, a = logs.size, math.exp(log_a[0])
    new_log_a = log_a[0] + width * normal(state)
    if not -LARGEST < new_log_a < LARGEST:
        return False, value, slope
    new_a, new_logs, change = math.exp(new_log_a), logs.copy(), 0.0
    _fill_quantiles(a, k, log_edge, levels[0])
    _fill_quantiles(new_a, k, log_edge, levels[1])
    for i in range(k):
        if logs[i] < log_edge:
            new_logs[i], log_slope = _moved_quantile(logs[i], a, log_edge, levels[0], new_a, levels[1])
            change += log_slope
        change += new_a * new_logs[i] - a * logs[i]
    new_phi = np.exp(new_logs)
    new_value, new_slope = _value(new_phi, new_a, n, total_sd, evidence)
    change += new_value - value
    change += math.lgamma(k * new_a) - math.lgamma(k * a) - k * (math.lgamma(new_a) - math.lgamma(a))
    change += 0.5 * ((log_a[0] - law[0]) / law[1]) ** 2 - 0.5 * ((new_log_a - law[0]) / law[1]) ** 2
    if not math.log1p(-uniform(state)) < change:
        return False, value, slope
    log_a[0] = new_log_a
    copy_into(logs, new_logs)
    copy_into(phi, new_phi)
    return True, new_value, new_slope


@njit(cache=True, error_model="numpy", nogil=True)
def block_draws(state, logs, log_a, learned, law, precision, evidence, tuning, gain, draws, rates):  # type: ignore[no-untyped-def]
    """Make one sweep for each row of `draws` (N, K+1) and write θ and a there.

    `logs` (K,), ln φ, and `log_a` (1,) move in place. `tuning` has the size of the blocks and the width of a move of
    ln a; they are tuned unless `gain` is 0. `rates` gains the numbers of blocks and of moves of ln a, and how many of
    either were accepted.
    """
    k, n = logs.size, evidence.count.sum()
    order, roots = np.arange(k), np.sqrt(precision)
    log_roots = np.log(roots)
    noise = 1.0 / math.sqrt(np.median(precision))
    log_edge, total_sd = math.log(noise), min(TOTAL_IN_SDS * noise, LARGEST_TOTAL_SD)
    sums, heights = np.empty((N_FALLING + N_EVEN, EDGES.size)), np.empty((N_FALLING + N_EVEN, EDGES.size))
    levels = np.empty((2, N_LEVELS))
    for t in range(len(draws)):
        logs += total_sd * normal(state) - math.log(np.exp(logs).sum())
        phi = np.exp(logs)
        value, slope = _value(phi, math.exp(log_a[0]), n, total_sd, evidence)
        if learned:
            for _ in range(MOVES):
                moved, value, slope = _move_concentration(
                    state, logs, phi, value, slope, log_a, tuning[1], law, n, log_edge, total_sd, evidence, levels
                )
                rates[2] += 1
                rates[3] += moved
                tuning[1] *= math.exp(gain * (moved - WANTED_OF_A))
        a = math.exp(log_a[0])
        sums[:, 0] = 0.0
        for i in range(k - 1, 0, -1):
            j = integer(state, i + 1)
            order[i], order[j] = order[j], order[i]
        start = 0
        while start < k:
            block = order[start : start + max(1, int(tuning[0]))]
            accepted, value, slope = _move_block(
                state, block, logs, phi, value, slope, a, n, roots, log_roots, total_sd, evidence, sums, heights
            )
            start += block.size
            rates[0] += 1
            rates[1] += accepted
            tuning[0] = min(max(tuning[0] * math.exp(gain * (accepted - WANTED)), 1.0), float(k))
        total = phi.sum()
        for i in range(k):
            draws[t, i] = max(phi[i] / total, TINY)
        draws[t, k] = a


# The chains.

LEAST_TUNE = 20
# The parts that draws are made in, between which Ctrl-C is heard; and the first size of a block.
PARTS, FIRST_SIZE = 20, 100.0
# Where chains begin: steps of Newton's method, the sds of a share that surely stands out, the concentrations that are
# tried, in sds of ln a, the halvings for their rates, and the −β from which on a share is nearly gamma distributed.
STEPS, STANDS_OUT, TRIED, HALVINGS, GAMMA = 3, 4.0, np.linspace(-3.0, 3.0, 21), 25, 20.0


def blocks_draws(
    evidence: Evidence,
    prior: Array | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Draw θ from its posterior under a Dirichlet prior with one concentration.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    prior : array of shape (K,) or "learned"
        Concentrations, all the same; or the prior whose concentration is learned, as for NUTS.
    draws, tune, chains : int
        Sweeps to keep and to discard in each chain, and chains.
    seed : int
        Equal seeds give equal draws.
    advance : function of int
        Told how many sweeps were made, for progress.

    Returns
    -------
    variables : dict
        ``theta`` of shape (chain, draw, K), and ``concentration`` of shape (chain, draw) where it is learned.
    record : dict
        The size of the blocks, and the share that was accepted.
    """
    learned, k, law = isinstance(prior, str), evidence.n_categories, LOG_CONCENTRATION
    if not isinstance(prior, str) and np.ptp(prior) > 0:
        raise ValueError("prior must be one concentration for all categories for 'blocks', got several; use 'nuts'")
    estimate, first = _estimate(evidence)
    a = _likely_concentration(estimate, np.sqrt(first), law) if isinstance(prior, str) else float(prior[0])
    states = [seed_state(sequence) for sequence in np.random.SeedSequence(seed).spawn(chains)]
    logs = np.array([_start(state, estimate, np.sqrt(first), a) for state in states])
    log_a, precision = np.full((chains, 1), math.log(a)), np.tile(first, (chains, 1))
    tuning = np.tile([min(FIRST_SIZE, k), FIRST_WIDTH], (chains, 1))
    rates = np.zeros((chains, 4))

    def chain(c: int, out: Array, gain: float) -> None:
        settings = (learned, law, precision[c], evidence, tuning[c], gain)
        block_draws(states[c], logs[c], log_a[c], *settings, out, rates[c])

    whole = np.empty((chains, draws, k + 1))
    with ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool:

        def run(out: Array, gain: float) -> None:
            for part in np.array_split(np.arange(out.shape[1]), min(PARTS, out.shape[1])):
                list(pool.map(chain, range(chains), out[:, part[0] : part[-1] + 1], [gain] * chains))
                advance(chains * part.size)

        for length, gain in ((tune // 2, 0.2), (tune - tune // 2, 0.05)):
            pilot = np.empty((chains, length, k + 1))
            run(pilot, gain)
            for c in range(chains):
                mean = pilot[c, length // 2 :, :k].mean(axis=0)
                precision[c] = _precision(mean / mean.sum(), evidence)
        rates[:] = 0.0
        run(whole, 0.0)
    record = {
        "block_size": tuning[:, 0].round(1).tolist(),
        "accepted_blocks": (rates[:, 1] / rates[:, 0]).round(3).tolist(),
        "accepted_concentrations": (rates[:, 3] / np.maximum(rates[:, 2], 1)).round(3).tolist(),
    }
    variables = {"theta": whole[..., :k]} | ({"concentration": whole[..., k]} if learned else {})
    return variables, record


def _estimate(evidence: Evidence) -> tuple[Array, Array]:
    """Return what the answers alone say about each share, and the information about it.

    Newton's method, with the diagonal of the information at shares that are even but for those that surely stand out.
    The others have the same: the information in the answers that happened to come would depend on the estimates.
    """
    k = evidence.n_categories
    theta, held = np.full(k, 1 / k), np.zeros(k, dtype=bool)
    for _ in range(STEPS):
        precision, slope = _precision(theta, evidence), value_and_gradient(theta, evidence)[1]
        precision[~held] = np.median(precision)
        # Estimates sum to one, as unbiased ones do.
        estimate = theta + (slope - np.sum(slope / precision) / np.sum(1 / precision)) / precision
        held = estimate > STANDS_OUT / np.sqrt(precision)
        theta = np.where(held, estimate, max(1 - estimate[held].sum(), 0.1) / max(k - held.sum(), 1))
        theta /= theta.sum()
    return estimate, precision


def _likely_concentration(estimate: Array, roots: Array, law: tuple[float, float]) -> float:
    """Return about the likeliest concentration, given estimates of the shares with the standard deviations 1/roots.

    The prior is that of independent shares with the density φ^(a−1)·e^(−rφ), given that they sum to one, whatever r is.
    With an r for which they sum to one on average, the density of their sum there is that of a normal one (a
    saddlepoint approximation), and the rest is a product of the masses of q.
    """
    k, fits = estimate.size, -0.5 * TRIED**2
    tried = np.exp(law[0] + law[1] * TRIED)
    for place, a in enumerate(tried):
        rate = _balanced_rate(estimate, roots, a)
        log_mass, _, variance = _moments(estimate * roots - rate / roots, a)
        fits[place] += np.sum(log_mass - a * np.log(roots)) + rate + math.lgamma(k * a) - k * math.lgamma(a)
        fits[place] -= 0.5 * math.log(np.sum(variance / roots**2))
    return float(tried[np.argmax(fits)])


def _balanced_rate(estimate: Array, roots: Array, a: float) -> float:
    """Return r for which shares with the density φ^(a−1)·e^(−rφ), given their estimates, sum to one on average."""
    low, high = -10 * np.median(roots), 10 * (np.median(roots) + a * roots.size)
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        total = np.sum(_moments(estimate * roots - rate / roots, a)[1] / roots)
        low, high = (rate, high) if total > 1 else (low, rate)
    return float(rate)


@lru_cache(maxsize=1)
def _moments_of_rows(a: float) -> tuple[Array, Array, Array, Array]:
    """Return some β, and the logarithm of the mass of q for each, and the mean and variance of t."""
    rows = np.append(np.linspace(-GAMMA, -ROW_STEP, 100), np.arange(0, LAST_ROW + ROW_STEP, ROW_STEP))
    t, log_t = MIDDLES[1:], LOG_MIDDLES[1:]
    cells = np.exp(a * log_t + rows[:, None] * t - 0.5 * t**2 - np.where(_IS_LOG[1:], 0.0, log_t)) * WIDTHS[1:]
    mass = FIRST_EDGE**a * (1 / a + rows * FIRST_EDGE / (a + 1)) + cells.sum(axis=1)
    mean = cells @ t / mass
    return rows, np.log(mass), mean, cells @ t**2 / mass - mean**2


def _moments(beta: Array, a: float) -> tuple[Array, Array, Array]:
    """Return the logarithm of the mass of q for every β, and the mean and variance of t."""
    rows, *tables = _moments_of_rows(a)
    log_mass, mean, variance = (np.interp(beta, rows, table) for table in tables)
    # High above zero q is normal, and far below it nearly a gamma distribution.
    kinds, high, low = [beta > LAST_ROW, beta < -GAMMA], np.maximum(beta, 1.0), np.maximum(-beta, GAMMA)
    less = np.log1p(-np.minimum(0.5 * a * (a + 1) / low**2, 0.5))
    log_masses = [0.5 * high**2 - (1 - a) * np.log(high) + HALF_LOG_2PI, math.lgamma(a) - a * np.log(low) + less]
    return (
        np.select(kinds, log_masses, log_mass),
        np.select(kinds, [high - (1 - a) / high, a / low], mean),
        np.select(kinds, [1.0, a / low**2], variance),
    )


def _start(state: Any, estimate: Array, roots: Array, a: float) -> Array:
    """Return ln φ where each share is drawn by itself, and all of them sum to about one."""
    tables = np.zeros((2, N_FALLING + N_EVEN, EDGES.size))
    beta = estimate * roots - _balanced_rate(estimate, roots, a) / roots
    logs = np.array([_draw(state, a, each, *tables) for each in beta])
    return np.asarray(np.maximum(logs, math.log(TINY)) - np.log(roots))


def _precision(theta: Array, evidence: Evidence) -> Array:
    """Return the information about each share, and that of one answer more."""
    return np.asarray(information_diagonal(theta, evidence) + 1.0)


@register_sampler("blocks", learned=True, least_tune=LEAST_TUNE)
def sample_blocks(
    responses: Responses | Gathered,
    prior: Array | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    *,
    progressbar: bool = False,
) -> Drawn:
    """Draw θ by Metropolis moves of blocks."""
    with SlowProgress(chains * (tune + draws), "Sampling", progressbar) as progress:
        variables, record = blocks_draws(responses.evidence(), prior, draws, tune, chains, seed, progress.advance)
    return Drawn(variables, {}, {"sampler_choices": json.dumps(record)})
