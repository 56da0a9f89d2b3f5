"""Metropolis moves of blocks of shares: exact, and made for thousands of categories.

With thousands of categories, answers say little about any two of them together, so the posterior of a share given the
others hardly depends on them. But that one-dimensional posterior is far from normal: under a concentration a ≪ 1 a
share is next to nothing or stands out of the noise, and no path of high density leads from one to the other. Gradients
do not help there. So a whole block of shares is proposed at once, each from its own posterior given all others:

    q(φ_i) ∝ φ_i^(a−1)·exp(b_i·φ_i − J_i·φ_i²/2),

with J_i the information about it and b_i such that the slope is that of the log-density at the current φ. In units of
t = φ_i·√J_i this is one family of densities with the parameter β = b_i/√J_i. Their logarithms are tabulated, and linear
between the entries, so the density of a proposal is known exactly. The block is accepted by the rule of Metropolis and
Hastings [1]_, with the likelihood itself, so the draws have the posterior whatever was approximated. The size of blocks
is tuned to the rate of acceptance.

θ = φ/T as in `sgld_cv.dynamics`: the sum T says nothing about θ, ln T ~ N(0, τ²), and it is drawn anew for each sweep.

**The concentration.** Given all shares, a learned a can hardly move: the logarithms of thousands of shares that are
lost in the noise determine it to within 1/√K, although the answers say nothing about them. So all shares that are not
held move together with it. Each keeps its quantile in its own q, with a β that rests on its estimate from the answers
and on the rate at which all shares sum to one under this a. If these q were the posterior of the shares given a, the
acceptance would depend on the posterior of a alone. They are known exactly, so the move can be reversed, and the same
rule accepts it.

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
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._numerics import TINY, copy_into, integer, normal, seed_state, uniform
from adobest_pp._progress import SlowProgress
from adobest_pp._types import Floats
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import information_diagonal, value_and_gradient
from adobest_pp.samplers.registry import Drawn, register_sampler

# The tables of q, in units of t. Below the first edge t has its power law; then cells are equal in ln t, and from 1 on
# in t. A share with β above the last row is held: its q is normal.
FIRST_EDGE = 1e-3
N_LOGARITHMIC, N_LINEAR, LINEAR_WIDTH = 89, 129, 0.1
EDGES = np.append(np.geomspace(FIRST_EDGE, 1.0, N_LOGARITHMIC + 1), 1.0 + LINEAR_WIDTH * np.arange(1, N_LINEAR + 1))
LOG_FIRST_EDGE, LOG_WIDTH = math.log(FIRST_EDGE), -math.log(FIRST_EDGE) / N_LOGARITHMIC
LOG_EDGES = np.log(EDGES)
# For the cell that ends at each edge: the middle and the width, in ln t or in t. Smaller rises of ln q count as none.
_IS_LOG = np.arange(EDGES.size) <= N_LOGARITHMIC
_BEFORE = np.append(FIRST_EDGE, EDGES[:-1])
MIDDLES = np.where(_IS_LOG, np.sqrt(_BEFORE * EDGES), (_BEFORE + EDGES) / 2)
LOG_MIDDLES, WIDTHS, EVEN = np.log(MIDDLES), np.where(_IS_LOG, LOG_WIDTH, LINEAR_WIDTH), 1e-9
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
LAST_ROW, ROW_STEP, N_EVEN = 6.0, 0.1, 141
# Below the even rows β grows by this factor: large concentrations pull shares down.
FALL, N_FALLING = 1.05, 120
# τ of the sum, in sds of a share, and its upper limit: wide enough for a block to move the sum, and so narrow that the
# information about φ = T·θ hardly depends on it. And the share of blocks to be accepted.
TOTAL_IN_SDS, LARGEST_TOTAL_SD, WANTED = 12.0, 0.2, 0.65
# The most blocks of a sweep. Each costs as much as a gradient: one share at a time, a sweep of 20,000 takes seconds.
MOST_BLOCKS = 100
# The concentration: moves per sweep, the share of them to be accepted, the first width, and the largest |ln a|.
MOVES, WANTED_OF_A, FIRST_WIDTH, LARGEST = 2, 0.35, 0.1, 690.0
# If the logarithm of its quantile is above this, a share does not move along: doubles do not resolve quantiles near 1.
LAST_LEVEL = -1e-9
# From this −β on, the row stays the same and only the unit of t changes.
SCALED = 100.0


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


@njit(cache=True)
def empty_tables():  # type: ignore[no-untyped-def]
    """Return tables without a row, of shape (2, rows, cells): cumulative masses of cells, and ln q of each."""
    tables = np.empty((2, N_FALLING + N_EVEN, EDGES.size))
    tables[0, :, 0] = 0.0
    return tables


@njit(cache=True, error_model="numpy")
def _fill_row(a, row, sums, logs):  # type: ignore[no-untyped-def]
    """Write the cumulative masses of the cells of a row, and ln q at their edges: by ln t, or by t from 1 on."""
    beta = beta_of(row)
    logs[row, 0] = a * LOG_FIRST_EDGE + (beta - 0.5 * FIRST_EDGE) * FIRST_EDGE
    mass = math.exp(logs[row, 0]) / a
    sums[row, 0] = mass
    for j in range(1, EDGES.size):
        edge = EDGES[j]
        height = (a if j <= N_LOGARITHMIC else a - 1.0) * LOG_EDGES[j] + (beta - 0.5 * edge) * edge
        # Far beyond the peak masses are zero, and logarithms stay finite.
        logs[row, j] = max(height, -600.0)
        rise = logs[row, j] - logs[row, j - 1]
        mean = math.exp(logs[row, j - 1]) * (math.expm1(rise) / rise if abs(rise) > EVEN else 1.0)
        mass += mean * WIDTHS[j]
        sums[row, j] = mass
    log_mass = math.log(mass)
    for j in range(EDGES.size):
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
    return _log_q_of_row(log_t, a, row, logs)


@njit(cache=True)
def _place(log_t):  # type: ignore[no-untyped-def]
    """Return the cell of ln t, and the part of it below ln t; 0 means below all cells, and too large beyond them."""
    if log_t < LOG_FIRST_EDGE:
        return 0, 0.0
    if log_t < 0.0:
        place = (log_t - LOG_FIRST_EDGE) / LOG_WIDTH
        # Rounding may miss an edge.
        j = min(int(place), N_LOGARITHMIC - 1)
        return j + 1, place - j
    place = (math.exp(log_t) - 1.0) / LINEAR_WIDTH
    j = int(min(place, 1e6))
    return j + 1 + N_LOGARITHMIC, place - j


@njit(cache=True)
def _log_t(j, part):  # type: ignore[no-untyped-def]
    """Return ln t, given its cell and the part of the cell below it."""
    if j <= N_LOGARITHMIC:
        return LOG_FIRST_EDGE + (j - 1 + part) * LOG_WIDTH
    return math.log(EDGES[j - 1] + part * LINEAR_WIDTH)


@njit(cache=True, error_model="numpy")
def _log_q_of_row(log_t, a, row, logs):  # type: ignore[no-untyped-def]
    """Return ln q of ln t from a filled row of the tables: linear within a cell."""
    j, part = _place(log_t)
    if j == 0:
        return logs[row, 0] + a * (log_t - LOG_FIRST_EDGE)
    if j >= EDGES.size:
        return -math.inf
    height = logs[row, j - 1] + part * (logs[row, j] - logs[row, j - 1])
    return height if j <= N_LOGARITHMIC else height + log_t


@njit(cache=True, error_model="numpy")
def _part_below(level, j, row, sums, logs):  # type: ignore[no-untyped-def]
    """Return the part of cell j below which q has the cumulative mass `level`."""
    share = (level - sums[row, j - 1]) / (sums[row, j] - sums[row, j - 1])
    rise = logs[row, j] - logs[row, j - 1]
    part = math.log1p(share * math.expm1(rise)) / rise if abs(rise) > EVEN else share
    return min(max(part, 0.0), 1.0)


@njit(cache=True, error_model="numpy")
def _draw(state, a, beta, sums, logs):  # type: ignore[no-untyped-def]
    """Draw ln t from q; it is −inf if a share that is held would be negative."""
    if beta > LAST_ROW:
        t = beta - (1.0 - a) / beta + normal(state)
        return math.log(t) if t > 0.0 else -math.inf
    row = row_of(beta)
    if sums[row, 0] == 0.0:
        _fill_row(a, row, sums, logs)
    level = uniform(state) * sums[row, -1]
    if level < sums[row, 0]:
        return LOG_FIRST_EDGE + math.log1p(-uniform(state)) / a
    j = min(max(np.searchsorted(sums[row], level, side="right"), 1), EDGES.size - 1)
    return _log_t(j, _part_below(level, j, row, sums, logs))


@njit(cache=True, error_model="numpy")
def phi_value(phi, a, n, total_sd, evidence):  # type: ignore[no-untyped-def]
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
    """Propose new shares for a block; return whether they were accepted, and value and gradient."""
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
    new_value, new_slope = phi_value(moved, a, n, total_sd, evidence)
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


class Separate(NamedTuple):
    """What the answers say about each share by itself. Kernels take it as one argument.

    Attributes
    ----------
    estimate : array of shape (K,)
        Estimates from the answers alone, which may be negative.
    precision : array of shape (K,)
        The information about each share.
    log_a, rate : array of shape (G,)
        Logarithms of concentrations, and the rate r at which shares with the prior φ^(a−1)·e^(−rφ) sum to one.
    """

    estimate: Floats
    precision: Floats
    log_a: Floats
    rate: Floats


@njit(cache=True, error_model="numpy")
def _rate_at(log_a, separate):  # type: ignore[no-untyped-def]
    """Return r of any concentration: interpolated, and above the largest that is known in proportion to it."""
    last = separate.log_a.size - 1
    if log_a >= separate.log_a[last]:
        return separate.rate[last] * math.exp(log_a - separate.log_a[last])
    place = max((log_a - separate.log_a[0]) / (separate.log_a[1] - separate.log_a[0]), 0.0)
    j = min(int(place), last - 1)
    return separate.rate[j] + (place - j) * (separate.rate[j + 1] - separate.rate[j])


@njit(cache=True, error_model="numpy")
def _log_level(log_t, a, row, sums, logs):  # type: ignore[no-untyped-def]
    """Return the logarithm of the distribution function of q at ln t, and 0 beyond its cells."""
    j, part = _place(log_t)
    if j == 0:
        return a * (log_t - LOG_FIRST_EDGE) + math.log(sums[row, 0] / sums[row, -1])
    if j >= EDGES.size:
        return 0.0
    rise = logs[row, j] - logs[row, j - 1]
    share = math.expm1(part * rise) / math.expm1(rise) if abs(rise) > EVEN else part
    return math.log((sums[row, j - 1] + share * (sums[row, j] - sums[row, j - 1])) / sums[row, -1])


@njit(cache=True, error_model="numpy")
def _at_level(log_level, a, row, sums, logs):  # type: ignore[no-untyped-def]
    """Return ln t at which the logarithm of the distribution function of q has a value: the inverse."""
    first = math.log(sums[row, 0] / sums[row, -1])
    if log_level < first:
        return LOG_FIRST_EDGE + (log_level - first) / a
    level = math.exp(log_level) * sums[row, -1]
    j = min(max(np.searchsorted(sums[row], level, side="right"), 1), EDGES.size - 1)
    return _log_t(j, _part_below(level, j, row, sums, logs))


@njit(cache=True, error_model="numpy")
def _row_and_unit(i, rate, a, separate, sums, heights):  # type: ignore[no-untyped-def]
    """Return the row of q of share i, −1 if it is held, and ln(t/φ).

    Where rows grow by factors, the unit of t is such that β·t is right: there q is nearly a gamma distribution.
    """
    root = math.sqrt(separate.precision[i])
    beta = separate.estimate[i] * root - rate / root
    if beta > LAST_ROW:
        return -1, 0.0
    row = row_of(max(beta, -SCALED))
    if sums[row, 0] == 0.0:
        _fill_row(a, row, sums, heights)
    return row, math.log(root) + (math.log(beta / beta_of(row)) if row < N_FALLING else 0.0)


@njit(cache=True, error_model="numpy")
def move_concentration(  # type: ignore[no-untyped-def]
    state, logs, phi, value, slope, log_a, width, law, n, separate, total_sd, evidence, tables, new_tables
):
    """Move ln a together with the shares; return whether it was accepted, and value and gradient.

    `tables` are those of q at a, of shape (2, rows, cells), partly filled; `new_tables` become those at the proposed a.
    """
    k, a = logs.size, math.exp(log_a[0])
    new_log_a = log_a[0] + width * normal(state)
    if not -LARGEST < new_log_a < LARGEST:
        return False, value, slope
    new_a, new_logs, change = math.exp(new_log_a), logs.copy(), 0.0
    rate, new_rate = _rate_at(log_a[0], separate), _rate_at(new_log_a, separate)
    (sums, heights), (new_sums, new_heights) = (tables[0], tables[1]), (new_tables[0], new_tables[1])
    new_sums[:, 0] = 0.0
    for i in range(k):
        row, unit = _row_and_unit(i, rate, a, separate, sums, heights)
        new_row, new_unit = _row_and_unit(i, new_rate, new_a, separate, new_sums, new_heights)
        if row >= 0 and new_row >= 0:
            level = _log_level(logs[i] + unit, a, row, sums, heights)
            if level < LAST_LEVEL:
                log_t = _at_level(level, new_a, new_row, new_sums, new_heights)
                new_logs[i] = log_t - new_unit
                change += _log_q_of_row(logs[i] + unit, a, row, heights) - _log_q_of_row(
                    log_t, new_a, new_row, new_heights
                )
        change += new_a * new_logs[i] - a * logs[i]
    new_phi = np.exp(new_logs)
    new_value, new_slope = phi_value(new_phi, new_a, n, total_sd, evidence)
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
def block_draws(state, logs, log_a, learned, law, separate, evidence, tuning, gain, draws, rates):  # type: ignore[no-untyped-def]
    """Make one sweep for each row of `draws` (N, K+1) and write θ and a there.

    `logs` (K,), ln φ, and `log_a` (1,) move in place. `tuning` has the size of the blocks and the width of a move of
    ln a; they are tuned unless `gain` is 0. Added to `rates` are blocks, accepted blocks, moves of ln a, and accepted
    moves of ln a.
    """
    k, n = logs.size, evidence.count.sum()
    order, roots = np.arange(k), np.sqrt(separate.precision)
    log_roots = np.log(roots)
    total_sd = min(TOTAL_IN_SDS / math.sqrt(np.median(separate.precision)), LARGEST_TOTAL_SD)
    tables, spare = empty_tables(), empty_tables()
    for t in range(len(draws)):
        logs += total_sd * normal(state) - math.log(np.exp(logs).sum())
        phi = np.exp(logs)
        value, slope = phi_value(phi, math.exp(log_a[0]), n, total_sd, evidence)
        if learned:
            for _ in range(MOVES):
                width = tuning[1]
                moved, value, slope = move_concentration(
                    state, logs, phi, value, slope, log_a, width, law, n, separate, total_sd, evidence, tables, spare
                )
                if moved:
                    tables, spare = spare, tables
                rates[2] += 1
                rates[3] += moved
                tuning[1] *= math.exp(gain * (moved - WANTED_OF_A))
        a = math.exp(log_a[0])
        for i in range(k - 1, 0, -1):
            j = integer(state, i + 1)
            order[i], order[j] = order[j], order[i]
        start = 0
        while start < k:
            block = order[start : start + max(1, int(tuning[0]))]
            accepted, value, slope = _move_block(
                state, block, logs, phi, value, slope, a, n, roots, log_roots, total_sd, evidence, tables[0], tables[1]
            )
            start += block.size
            rates[0] += 1
            rates[1] += accepted
            tuning[0] = min(max(tuning[0] * math.exp(gain * (accepted - WANTED)), max(1.0, k / MOST_BLOCKS)), float(k))
        total = phi.sum()
        for i in range(k):
            draws[t, i] = max(phi[i] / total, TINY)
        draws[t, k] = a


# The chains.

LEAST_TUNE = 20
# The parts of a run, between which Ctrl-C is handled; and the first size of a block.
PARTS, FIRST_SIZE = 20, 100.0
# Where chains start: steps of Newton's method, the sds above zero from which a share surely stands out, the
# concentrations to try, in sds of ln a, the most steps for their rates, the distance of a sum from one that ends these,
# and the −β from which on a share is nearly gamma distributed.
STEPS, STANDS_OUT, TRIED, HALVINGS, NEAR_ONE, GAMMA = 3, 4.0, np.linspace(-3.0, 3.0, 21), 25, 1e-5, 20.0


def blocks_draws(
    evidence: Evidence,
    prior: Floats | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Draw θ from its posterior under a Dirichlet prior. Parameters not listed are as in `sample`.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    prior : array of shape (K,) or "learned"
        Concentrations, all the same; or the prior whose concentration is learned.
    advance : function of int
        Called with the number of draws made since the last call, for progress.

    Returns
    -------
    variables : dict
        ``theta`` of shape (chain, draw, K), and ``concentration`` of shape (chain, draw) if it is learned.
    record : dict
        The size of the blocks, and the share that was accepted.
    """
    learned, k, law = isinstance(prior, str), evidence.n_categories, LOG_CONCENTRATION
    if not isinstance(prior, str) and np.ptp(prior) > 0:
        raise ValueError("prior must be one concentration for all categories for 'blocks', got several; use 'nuts'")
    separate = separate_shares(evidence, law)
    a = likely_concentration(separate, law) if isinstance(prior, str) else float(prior[0])
    states = [seed_state(sequence) for sequence in np.random.SeedSequence(seed).spawn(chains)]
    logs = np.array([_start(state, separate, a) for state in states])
    log_a = np.full((chains, 1), math.log(a))
    tuning = np.tile([min(FIRST_SIZE, k), FIRST_WIDTH], (chains, 1))
    rates = np.zeros((chains, 4))

    def chain(c: int, out: Floats, gain: float) -> None:
        settings = (learned, law, separate, evidence, tuning[c], gain)
        block_draws(states[c], logs[c], log_a[c], *settings, out, rates[c])

    whole = np.empty((chains, draws, k + 1))
    with ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool:

        def run(out: Floats, gain: float) -> None:
            for part in np.array_split(np.arange(out.shape[1]), min(PARTS, out.shape[1])):
                list(pool.map(chain, range(chains), out[:, part[0] : part[-1] + 1], [gain] * chains))
                advance(chains * part.size)

        for length, gain in ((tune // 2, 0.2), (tune - tune // 2, 0.05)):
            pilot = np.empty((chains, length, k + 1))
            run(pilot, gain)
            mean = pilot[:, length // 2 :, :k].mean(axis=(0, 1))
            separate = separate_shares(evidence, law, mean / mean.sum())
        rates[:] = 0.0
        run(whole, 0.0)
    record = {
        "block_size": tuning[:, 0].round(1).tolist(),
        "accepted_blocks": (rates[:, 1] / rates[:, 0]).round(3).tolist(),
        "accepted_concentrations": (rates[:, 3] / np.maximum(rates[:, 2], 1)).round(3).tolist(),
    }
    variables = {"theta": whole[..., :k]} | ({"concentration": whole[..., k]} if learned else {})
    return variables, record


def separate_shares(evidence: Evidence, law: tuple[float, float], near: Floats | None = None) -> Separate:
    """Return what the answers alone say about each share, by a step of Newton's method from the shares `near`.

    Without `near` there are several steps from even shares, in which only those that surely stand out change. The
    others then get the same information, as that in the actual answers would depend on the estimates.
    """
    k = evidence.n_categories
    theta, held = np.full(k, 1 / k) if near is None else near, np.full(k, near is not None)
    for _ in range(STEPS if near is None else 1):
        # The information of one more answer is added.
        precision, slope = information_diagonal(theta, evidence) + 1.0, value_and_gradient(theta, evidence)[1]
        precision[~held] = np.median(precision)
        # Estimates sum to one, as unbiased ones do.
        estimate = theta + (slope - np.sum(slope / precision) / np.sum(1 / precision)) / precision
        held = estimate > STANDS_OUT / np.sqrt(precision)
        theta = np.where(held, estimate, max(1 - estimate[held].sum(), 0.1) / max(k - held.sum(), 1))
        theta /= theta.sum()
    log_a = law[0] + law[1] * TRIED
    rates = [_balanced_rate(estimate, np.sqrt(precision), a) for a in np.exp(log_a)]
    return Separate(estimate, precision, log_a, np.array(rates))


def likely_concentration(separate: Separate, law: tuple[float, float]) -> float:
    """Return roughly the likeliest concentration, given what the answers say about each share.

    Under the prior, shares are independent with the density φ^(a−1)·e^(−rφ), given that they sum to one, whatever r is.
    With an r for which they sum to one on average, the density of their sum at one is nearly that of a normal variable
    (a saddlepoint approximation), and the rest is a product of the masses of q.
    """
    k, roots = separate.estimate.size, np.sqrt(separate.precision)
    tried, fits = np.exp(separate.log_a), -0.5 * ((separate.log_a - law[0]) / law[1]) ** 2
    for place, (a, rate) in enumerate(zip(tried, separate.rate, strict=True)):
        log_mass, _, variance = _moments(separate.estimate * roots - rate / roots, a)
        fits[place] += np.sum(log_mass - a * np.log(roots)) + rate + math.lgamma(k * a) - k * math.lgamma(a)
        fits[place] -= 0.5 * math.log(np.sum(variance / roots**2))
    return float(tried[np.argmax(fits)])


def _balanced_rate(estimate: Floats, roots: Floats, a: float) -> float:
    """Return r for which shares with the density φ^(a−1)·e^(−rφ), given their estimates, sum to one on average."""
    low, high = -10 * float(np.median(roots)), 10 * float(np.median(roots) + a * roots.size)
    rate = float(a * roots.size)
    for _ in range(HALVINGS):
        _, mean, variance = _moments(estimate * roots - rate / roots, a)
        excess = np.sum(mean / roots) - 1
        if abs(excess) < NEAR_ONE:
            break
        low, high = (rate, high) if excess > 0 else (low, rate)
        # A step of Newton's method, or half of what is left.
        rate += float(excess / np.sum(variance / roots**2))
        rate = rate if low < rate < high else (low + high) / 2
    return rate


@lru_cache(maxsize=1)
def _moments_of_rows(a: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a grid of β, and for each the logarithm of the mass of q, and the mean and variance of t."""
    rows = np.append(np.linspace(-GAMMA, -ROW_STEP, 100), np.arange(0, LAST_ROW + ROW_STEP, ROW_STEP))
    t, log_t = MIDDLES[1:], LOG_MIDDLES[1:]
    cells = np.exp(a * log_t + rows[:, None] * t - 0.5 * t**2 - np.where(_IS_LOG[1:], 0.0, log_t)) * WIDTHS[1:]
    mass = FIRST_EDGE**a * (1 / a + rows * FIRST_EDGE / (a + 1)) + cells.sum(axis=1)
    mean = cells @ t / mass
    return rows, np.log(mass), mean, cells @ t**2 / mass - mean**2


def _moments(beta: Floats, a: float) -> tuple[Floats, Floats, Floats]:
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


def _start(state: Any, separate: Separate, a: float) -> Floats:
    """Return ln φ with each share drawn by itself, such that all of them sum to about one."""
    tables, roots = empty_tables(), np.sqrt(separate.precision)
    beta = separate.estimate * roots - _balanced_rate(separate.estimate, roots, a) / roots
    logs = np.array([_draw(state, a, each, *tables) for each in beta])
    return np.asarray(np.maximum(logs, math.log(TINY)) - np.log(roots))


@register_sampler("blocks", learned=True, least_tune=LEAST_TUNE)
def sample_blocks(
    responses: Responses | Gathered,
    prior: Floats | str,
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
