"""Underdamped Langevin dynamics in coordinates in which a posterior under a Dirichlet(ρ) prior is nearly normal.

**The coordinates.** θ = φ/Σφ with φ_i = s_i·Q_i(z_i), where Q_i takes a standard normal number to the same quantile of
Gamma(ρ_i, 1). The density of the Dirichlet is then exp(−z²/2) times a factor e^(φ_i/s_i) for each category, so its
singularities at θ_i = 0, cliffs of 1/ρ in log-ratios, are gone. And φ is nearly linear in z where a category is held,
so the linear constraints on θ that answers give stay nearly linear. In log-ratios such a constraint bends: a direction
that the answers determine precisely turns as the other coordinates change, and no constant metric fits.

The sum T = Σφ says nothing about θ, and its law is free: here ln T ~ N(0, τ²), which makes the density of φ

    Π φ_i^(ρ_i−1) · T^(−Σρ) · exp(−(ln T)²/(2τ²)) · P(answers | φ/T),

under which θ has its posterior exactly: Πφ^(ρ−1)dφ is Πθ^(ρ−1)dθ times T^(Σρ−1)dT. With τ about as large as the spread
of φ itself, T is no stiff direction. This is the Gamma surrogate of the paper's section 4 with another law of the sum,
on the marginal transform of Gaussian copulas.

The chain moves x, which is nearly standard normal: z = center + factor·x, and factor·factorᵀ is the covariance of z.
With thousands of categories the factor is diagonal: an answer says little about any two of them together, and K²
numbers would cost more than the gradient.

**The dynamics** are the splitting BAOAB [1]_, with any gradient estimator and one gradient for each update. For a
normal target the positions are distributed exactly, whatever the step, so for a nearly normal one the bias is small at
long steps. Reflected or overdamped dynamics have no such property.

References
----------
.. [1] B. Leimkuhler and C. Matthews (2013), Rational construction of stochastic numerical methods for molecular
   sampling, Applied Mathematics Research eXpress 2013(1).
.. [2] R. M. Neal (2003), Slice sampling, Annals of Statistics 31(3).
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import special

from adobest_pp._numerics import copy_into, normal, uniform
from adobest_pp._types import Floats, Integers
from adobest_pp.samplers.blocks import empty_tables, move_concentration, phi_value
from adobest_pp.samplers.sgld_cv.control_variates import (
    REORDER,
    Anchor,
    Rows,
    add_batch,
    add_packed_batch,
    full_gradient,
    taylor_gradient,
)
from adobest_pp.transforms import n_structured

# Coordinates.

# The grid of z for the tables of quantiles, and its points per unit: cubics between them are accurate to 1e-7.
LOWEST, HIGHEST, PER_UNIT = -16.0, 14.0, 32
# The largest τ: with a larger spread of the sum, rays from the origin are no longer parallel.
LARGEST_TOTAL_SD = 0.3
# If the logarithm of a quantile is below this, only its power law is left in double precision.
POWER_LAW = -36.0
# The smallest share that counts as above zero, and the smallest variance of z.
SMALLEST, SMALLEST_VARIANCE = 1e-300, 1e-10


class Coordinates(NamedTuple):
    """The map from x to θ. Kernels take it as one argument.

    Attributes
    ----------
    tables : array of shape (R, G, 4)
        ln Q(z) for each distinct ρ: the coefficients of a cubic for each cell of the grid.
    table_index : array of int, shape (K,)
        The table of each category.
    shape : array of shape (K,)
        The shape of the Gamma law of these quantiles: ρ, or near it if it is learned.
    log_scale : array of shape (K,)
        ln s.
    total_sd : float
        τ of the logarithm of the sum.
    center, factor : array of shape (K,), and (K, K) or (1, K)
        z = center + factor·x; the factor is lower triangular, or the diagonal of such a matrix.
    """

    tables: Floats
    table_index: Integers
    shape: Floats
    log_scale: Floats
    total_sd: float
    center: Floats
    factor: Floats


def quantile_tables(shape: Floats) -> tuple[Floats, Integers]:
    """Return the tables of ln Q for each distinct shape, and the table of each category."""
    distinct, index = np.unique(shape, return_inverse=True)
    return np.stack([_table(float(rho)) for rho in distinct]), index.astype(np.int64)


@lru_cache(maxsize=64)
def _table(rho: float) -> Floats:
    z = np.linspace(LOWEST, HIGHEST, int((HIGHEST - LOWEST) * PER_UNIT) + 1)
    power_law = (special.log_ndtr(z) + special.gammaln(1 + rho)) / rho
    with np.errstate(divide="ignore"):
        below = np.log(special.gammaincinv(rho, special.ndtr(z)))
        above = np.log(special.gammainccinv(rho, special.ndtr(-z)))
    logs = np.where(power_law < POWER_LAW, power_law, np.where(z < 0, below, above))
    log_normal = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    slopes = np.exp(log_normal - rho * logs + np.exp(logs) + special.gammaln(rho)) / PER_UNIT
    rise, first, second = np.diff(logs), slopes[:-1], slopes[1:]
    cubics = np.stack([logs[:-1], first, 3 * rise - 2 * first - second, first + second - 2 * rise], axis=1)
    # Below the grid ln Q is nearly −z²/(2ρ). A cubic would fall faster, and drive chains to minus infinity if a learned
    # concentration is far below ρ, where the slope of the prior hardly holds them.
    cubics[0, 3] = 0.0
    return cubics


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def write_theta(z, tables, table_index, log_scale, rates, logs, spare, theta):  # type: ignore[no-untyped-def]
    """Write ln φ, its derivative with respect to z into `rates`, and θ; return the sum T. `spare` is overwritten."""
    last = tables.shape[1] - 1
    for i in range(z.size):
        place = (z[i] - LOWEST) * PER_UNIT
        # Beyond the grid its outermost cubics continue; NaN takes the first.
        cell = int(place) if 0.0 <= place < last else (last if place >= last else 0)
        t, row = place - cell, table_index[i]
        linear, square, cube = tables[row, cell, 1], tables[row, cell, 2], tables[row, cell, 3]
        logs[i] = tables[row, cell, 0] + t * (linear + t * (square + t * cube)) + log_scale[i]
        rates[i] = PER_UNIT * (linear + t * (2.0 * square + 3.0 * t * cube))
    write_exponentials(logs, spare, theta)
    total = 0.0
    for i in range(z.size):
        total += theta[i]
    share = 1.0 / total
    for i in range(z.size):
        theta[i] *= share
    return total


def coordinates_of(
    theta: Floats, shape: Floats, least_size: Floats, rng: np.random.Generator, diagonal: bool = False
) -> tuple[Coordinates, Floats]:
    """Return coordinates that suit draws of θ (N, K), and x of each draw, with a sum T drawn for it.

    The scale of a category is E θ²/(E θ·(ρ+1)), which is s if θ is s·Gamma(ρ). The size E θ²/E θ, which is about θ if
    the category is held, is at least `least_size`, in case it is not yet held in any draw. The covariance of z is that
    of the draws, shrunk towards its diagonal if they are few for the number of categories, or its `diagonal` alone.
    """
    n, k = theta.shape
    tables, index = quantile_tables(shape)
    size = np.maximum((theta**2).mean(axis=0) / np.maximum(theta.mean(axis=0), SMALLEST), least_size)
    # The lower bound is divided as well: as a bound of the scale itself it would exceed θ/ρ for large ρ, and all z
    # would be at the lower end of the tables.
    scale = size / (1 + shape)
    least_total_sd = np.sqrt((least_size**2).sum())
    total_sd = float(min(max(np.sqrt(theta.var(axis=0).sum()), least_total_sd), LARGEST_TOTAL_SD))
    # A diagonal factor is that of shares given the sum. T moves all of φ together, which no diagonal can follow, and
    # need not follow, as θ does not depend on it.
    total = np.ones((n, 1)) if diagonal else np.exp(total_sd * rng.standard_normal((n, 1)))
    z = _z_of(np.log(np.maximum(theta * total, SMALLEST)) - np.log(scale), tables, index)
    center = z.mean(axis=0)
    if diagonal:
        sds = np.sqrt(z.var(axis=0, ddof=1) + SMALLEST_VARIANCE)
        return Coordinates(tables, index, shape, np.log(scale), total_sd, center, sds[None]), (z - center) / sds
    covariance = np.cov(z.T).reshape(k, k) + SMALLEST_VARIANCE * np.eye(k)
    alone = np.diag(np.diag(covariance))
    factor = np.linalg.cholesky(alone + n / (n + 3 * k) * (covariance - alone))
    x = np.ascontiguousarray(np.linalg.solve(factor, (z - center).T).T)
    return Coordinates(tables, index, shape, np.log(scale), total_sd, center, factor), x


def position_of(theta: Floats, coordinates: Coordinates, rng: np.random.Generator) -> Floats:
    """Return x of θ (K,), with a sum T drawn for it."""
    total = np.exp(coordinates.total_sd * rng.standard_normal())
    logs = np.log(np.maximum(theta * total, SMALLEST)) - coordinates.log_scale
    z = _z_of(logs[None], coordinates.tables, coordinates.table_index)[0]
    if len(coordinates.factor) == 1:
        return np.asarray((z - coordinates.center) / coordinates.factor[0])
    return np.linalg.solve(coordinates.factor, z - coordinates.center)


def _z_of(logs: Floats, tables: Floats, index: Integers) -> Floats:
    """Return z of ln φ − ln s, of shape (N, K)."""
    grid, z = LOWEST + np.arange(tables.shape[1]) / PER_UNIT, np.empty(logs.shape)
    for row, table in enumerate(tables):
        z[:, index == row] = np.interp(logs[:, index == row], table[:, 0], grid)
    return z


# Exponentials of a whole array at once: arithmetic that the compiler can vectorize, unlike calls of `math.exp`.
#
# e^x = 2^k·e^r with k the nearest integer to x/ln 2 and |r| ≤ ln 2/2 (Cody & Waite). e^r is its Taylor polynomial of
# degree 12, whose error is below half a unit in the last place. Adding 1.5·2⁵² puts k into the last bits of a double,
# from where it is moved to those of the exponent.

# The range in which 2^k is a normal number. A number beyond it gets the exponential of the nearer end.
LOWEST_EXPONENT, HIGHEST_EXPONENT = -708.0, 709.0
SHIFT = 6755399441055744.0
LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few digits that its products with k are exact.
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
C12, C11, C10, C9, C8, C7, C6, C5, C4, C3 = (1 / math.factorial(n) for n in range(12, 2, -1))
_EXPONENT, _BIAS = np.int64(52), np.int64(1023)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def write_exponentials(x, shifted, out):  # type: ignore[no-untyped-def]
    """Write e^x into `out`; `shifted`, of the same size, is overwritten. NaN stays NaN."""
    for i in range(x.size):
        clipped = x[i]
        clipped = LOWEST_EXPONENT if clipped < LOWEST_EXPONENT else clipped
        clipped = HIGHEST_EXPONENT if clipped > HIGHEST_EXPONENT else clipped
        moved = clipped * LOG2_E + SHIFT
        whole = moved - SHIFT
        shifted[i] = moved
        r = (clipped - whole * LN2_HIGH) - whole * LN2_LOW
        high = ((((C12 * r + C11) * r + C10) * r + C9) * r + C8) * r + C7
        low = (((high * r + C6) * r + C5) * r + C4) * r + C3
        out[i] = ((low * r + 0.5) * r + 1.0) * r + 1.0
    words = shifted.view(np.int64)
    for i in range(x.size):
        words[i] = (words[i] + _BIAS) << _EXPONENT
    for i in range(x.size):
        out[i] *= shifted[i]


# The concentration of a learned prior, θ ~ Dirichlet(a, …, a) with ln a normal, given θ: by slice sampling [2]_.
#
# Thousands of shares that are lost in the noise determine it to within 1/√K, so it hardly moves. If coordinates are
# diagonal, it also moves together with the shares, as in `blocks`, which has the same φ, T and density.

# The first interval of a slice, in units of ln a; the largest |ln a| for which a is a double.
WIDTH, LARGEST = 0.5, 690.0
# Steps for the inverse of a cubic, from a linear guess.
NEWTON_STEPS = 6
# Updates of θ between two updates of a.
REFRESH = 4


class Prior(NamedTuple):
    """The concentrations of a Dirichlet prior, a·weights. Kernels take it as one argument.

    Attributes
    ----------
    weights : array of shape (K,)
        The concentrations themselves if they are given, and ones if a is learned.
    log_scale : array of shape (1,)
        ln a, which kernels change if it is learned; 0 otherwise.
    learned : bool
        Whether a is learned.
    mean, sd : float
        Of ln a a priori.
    stiff_from, stiffness : float
        The curvature of ln p(θ) grows with a: the a beyond which steps must be shorter, and how fast they shrink.
    """

    weights: Floats
    log_scale: Floats
    learned: bool
    mean: float
    sd: float
    stiff_from: float = math.inf
    stiffness: float = 0.0


@njit(cache=True)
def step_at(a, step, stiff_from, stiffness):  # type: ignore[no-untyped-def]
    """Return the step at concentration a: beyond `stiff_from` it shrinks with the root of the curvature.

    The step is constant until a changes, so θ given a keeps its law.
    """
    return step / math.sqrt(1.0 + stiffness * (a - stiff_from)) if a > stiff_from else step


@njit(cache=True)
def log_density(log_a, k, sum_of_logs, mean, sd):  # type: ignore[no-untyped-def]
    """Return ln p(ln a | θ) up to a constant, for Σ ln θ over K categories."""
    if not -LARGEST < log_a < LARGEST:
        return -math.inf
    a = math.exp(log_a)
    distance = (log_a - mean) / sd
    return math.lgamma(k * a) - k * math.lgamma(a) + a * sum_of_logs - 0.5 * distance * distance


@njit(cache=True)
def draw_log_concentration(state, log_a, k, sum_of_logs, mean, sd):  # type: ignore[no-untyped-def]
    """Return ln a after one update that leaves p(ln a | θ) invariant."""
    level = log_density(log_a, k, sum_of_logs, mean, sd) + math.log1p(-uniform(state))
    # A chain that is no longer finite stays where it is; the caller notices it.
    if not math.isfinite(level):
        return log_a
    low = log_a - WIDTH * uniform(state)
    high = low + WIDTH
    while log_density(low, k, sum_of_logs, mean, sd) > level:
        low -= WIDTH
    while log_density(high, k, sum_of_logs, mean, sd) > level:
        high += WIDTH
    while True:
        proposed = low + (high - low) * uniform(state)
        if log_density(proposed, k, sum_of_logs, mean, sd) >= level:
            return proposed
        if proposed < log_a:
            low = proposed
        else:
            high = proposed


@njit(cache=True, error_model="numpy", nogil=True)
def move_along(state, x, coordinates, log_a, law, width, separate, evidence):  # type: ignore[no-untyped-def]
    """Move ln a and the shares that are not held, as in `blocks`; return whether it was accepted and x changed."""
    tables, table_index, log_scale = coordinates.tables, coordinates.table_index, coordinates.log_scale
    center, sds, k = coordinates.center, coordinates.factor[0], x.size
    logs, spare, phi, theta = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    total = write_theta(center + sds * x, tables, table_index, log_scale, phi, logs, spare, theta)
    for i in range(k):
        phi[i] = total * theta[i]
    before, n, total_sd = logs.copy(), evidence.count.sum(), coordinates.total_sd
    value, slope = phi_value(phi, math.exp(log_a[0]), n, total_sd, evidence)
    of_q, new_of_q = empty_tables(), empty_tables()
    moved, _, _ = move_concentration(
        state, logs, phi, value, slope, log_a, width, law, n, separate, total_sd, evidence, of_q, new_of_q
    )
    for i in range(k):
        if logs[i] != before[i]:
            x[i] = (_normal_of(logs[i] - log_scale[i], tables[table_index[i]]) - center[i]) / sds[i]
    return moved


@njit(cache=True, error_model="numpy")
def _normal_of(level, table):  # type: ignore[no-untyped-def]
    """Return z with ln Q(z) = level: the inverse of the cubics, by Newton's method."""
    low, high = 0, len(table) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if table[middle, 0] <= level:
            low = middle
        else:
            high = middle - 1
    rise, linear, square, cube = level - table[low, 0], table[low, 1], table[low, 2], table[low, 3]
    # Below the grid the first cell continues as a quadratic; start at its root.
    t = rise / linear if rise >= 0.0 else 2.0 * rise / (linear + math.sqrt(max(linear**2 + 4.0 * square * rise, 0.0)))
    for _ in range(NEWTON_STEPS):
        t -= (t * (linear + t * (square + t * cube)) - rise) / (linear + t * (2.0 * square + 3.0 * t * cube))
    return LOWEST + (low + t) / PER_UNIT


# The dynamics.


class Target(NamedTuple):
    """The posterior in coordinates, and what its gradient is estimated from."""

    prior: Prior
    coordinates: Coordinates
    rows: Rows
    anchor: Anchor


# The batch size that stands for all rows: the gradient on all evidence, without the anchor.
FULL = 0


# Full rows are summed faster than the lower triangle alone.
@njit(cache=True, error_model="numpy", fastmath=REORDER)
def _position(x, center, factor, z):  # type: ignore[no-untyped-def]
    """Write z = center + factor·x."""
    if len(factor) == 1:
        for i in range(x.size):
            z[i] = center[i] + factor[0, i] * x[i]
        return
    for i in range(x.size):
        total = 0.0
        for j in range(x.size):
            total += factor[i, j] * x[j]
        z[i] = center[i] + total


@njit(cache=True, error_model="numpy", fastmath=REORDER)
def _pull_back(by_z, columns, by_x):  # type: ignore[no-untyped-def]
    """Write the gradient with respect to x, factorᵀ times that with respect to z."""
    if columns.shape[1] == 1:
        for j in range(by_x.size):
            by_x[j] = columns[j, 0] * by_z[j]
        return
    for j in range(by_x.size):
        total = 0.0
        for i in range(by_x.size):
            total += columns[j, i] * by_z[i]
        by_x[j] = total


@njit(cache=True)
def _factors(step, friction):  # type: ignore[no-untyped-def]
    """Return half a step, the share of a momentum that friction leaves in a step, and the sd of the noise added."""
    keep = math.exp(-friction * step)
    return 0.5 * step, keep, math.sqrt(1.0 - keep * keep)


@njit(cache=True, error_model="numpy", nogil=True)
def underdamped_draws(  # type: ignore[no-untyped-def]
    state, x, momentum, target, batch, step, friction, updates_per_draw, draws, force, virial
):
    """Advance x and its momentum in place; write θ of every `updates_per_draw`-th update into `draws`.

    `force` becomes the last estimate of ∂ln p/∂x, and −x·∂ln p/∂x of every update is added to `virial`, coordinate by
    coordinate: its mean is 1 for draws of the posterior. If the prior is learned, its concentration is also updated,
    given θ of every `REFRESH`-th update, and follows θ in `draws`; where it is large, steps are shorter.
    """
    # Fields of a named tuple are unpacked once: each access counts references.
    prior, coordinates, rows, anchor = target
    tables, table_index, log_scale = coordinates.tables, coordinates.table_index, coordinates.log_scale
    center, total_sd, shape = coordinates.center, coordinates.total_sd, coordinates.shape
    factor, learned, log_a = coordinates.factor, prior.learned, prior.log_scale
    columns = factor.T.copy()
    numbers, places, members, offsets = rows.numbers, rows.places, rows.members, rows.offsets
    patterns, threshold, alias, n = rows.patterns, rows.threshold, rows.alias, rows.n_responses
    packed, structure = rows.packed, rows.structure
    hat, at_hat, information, relative = anchor.theta, anchor.gradient, anchor.information, anchor.relative
    k = x.size
    z, rates, theta, delta = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    slope, inverse_scale, logs = np.empty(k), np.exp(-log_scale), np.empty(k)
    concentration = prior.weights * math.exp(log_a[0])
    surplus, weight = concentration - shape, concentration.sum()
    masses = np.empty(offsets.size + len(patterns) + n_structured(structure) if batch == FULL else 0)
    pull = np.empty(masses.size)
    now = step_at(math.exp(log_a[0]), step, prior.stiff_from, prior.stiffness) if learned else step
    half, keep, noise = _factors(now, friction)
    for update in range(len(draws) * updates_per_draw + 1):
        # The first pass only evaluates the gradient where the chain stands.
        if update > 0:
            for i in range(k):
                moved = momentum[i] + half * force[i]
                x[i] += half * moved
                moved = keep * moved + noise * normal(state)
                x[i] += half * moved
                momentum[i] = moved
        _position(x, center, factor, z)
        total = write_theta(z, tables, table_index, log_scale, rates, logs, delta, theta)
        if batch == FULL:
            full_gradient(theta, numbers, places, members, offsets, patterns, structure, masses, pull, slope)
        else:
            taylor_gradient(theta, hat, at_hat, information, delta, slope)
            if len(packed) > 0:
                add_packed_batch(state, batch, numbers[0, 2], hat, delta, packed, slope)
            else:
                add_batch(state, batch, n, delta, relative, places, members, threshold, alias, slope)
        average = 0.0
        for i in range(k):
            average += theta[i] * slope[i]
        shared = -(weight + math.log(total) / (total_sd * total_sd) + average)
        for i in range(k):
            by_log_phi = theta[i] * (slope[i] + shared + total * inverse_scale[i]) + surplus[i]
            z[i] = rates[i] * by_log_phi - z[i]
        _pull_back(z, columns, force)
        if update > 0:
            for i in range(k):
                momentum[i] += half * force[i]
                virial[i] -= x[i] * force[i]
        if update > 0 and update % updates_per_draw == 0:
            draw = draws[update // updates_per_draw - 1]
            copy_into(draw[:k], theta)
            if learned:
                draw[k] = math.exp(log_a[0])
        if learned and update > 0 and update % REFRESH == 0:
            # Each update of θ sees one a. From here on, the force is that of the new a.
            before = math.exp(log_a[0])
            sum_of_logs = logs.sum() - k * math.log(total)
            log_a[0] = draw_log_concentration(state, log_a[0], k, sum_of_logs, prior.mean, prior.sd)
            a = math.exp(log_a[0])
            weight = k * a
            for i in range(k):
                surplus[i] = a - shape[i]
                z[i] = rates[i] * (a - before) * (1.0 - k * theta[i])
            _pull_back(z, columns, delta)
            for i in range(k):
                force[i] += delta[i]
            half, keep, noise = _factors(step_at(a, step, prior.stiff_from, prior.stiffness), friction)


@njit(cache=True, error_model="numpy")
def write_force(state, x, target, batch, force):  # type: ignore[no-untyped-def]
    """Write an estimate of ∂ln p/∂x at x into `force`: the dynamics without any update."""
    # Without draws, the number of updates per draw does not matter. For a literal, Numba would compile once more.
    nothing, k = np.zeros(x.size), x.size
    underdamped_draws(state, x.copy(), nothing, target, batch, 0.0, 0.0, k, np.empty((0, k)), force, nothing)
