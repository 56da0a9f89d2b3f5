"""Coordinates of the simplex in which a posterior under a Dirichlet(ρ) prior is nearly normal, whatever ρ.

θ = φ/Σφ with φ_i = s_i·Q_i(z_i), where Q_i takes a standard normal number to the same quantile of Gamma(ρ_i, 1). The
density of the Dirichlet is then exp(−z²/2) but for the factor e^(φ_i/s_i) of each category, so its singularities at
θ_i = 0, cliffs of 1/ρ in log-ratios, are gone; and φ is nearly linear in z where a category is held, so that a linear
constraint on θ, which is what answers are, stays nearly linear. In log-ratios such a constraint bends, and a direction
that the answers tell precisely turns with the others: no constant metric serves there.

The sum T = Σφ tells nothing about θ, and its law is free: here ln T ~ N(0, τ²), which makes the density of φ

    Π φ_i^(ρ_i−1) · T^(−Σρ) · exp(−(ln T)²/(2τ²)) · P(answers | φ/T),

under which θ has its posterior exactly: Πφ^(ρ−1)dφ is Πθ^(ρ−1)dθ times T^(Σρ−1)dT. With τ about as large as the spread
of φ itself, T is no stiff direction. This is the Gamma surrogate of the paper's section 4 with another law of the sum,
on the marginal transform of Gaussian copulas.

The chain moves x, with z = center + factor·x and factor·factorᵀ the covariance of z: nearly standard normal itself.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import special

from adobest_pp.samplers.exponentials import write_exponentials

__all__ = ["Coordinates", "coordinates_of", "position_of", "quantile_tables", "write_theta"]

# The grid of z for the tables of quantiles, and its points in a unit: cubics between them are good to 1e-7.
LOWEST, HIGHEST, PER_UNIT = -16.0, 14.0, 32
# Of a sum with a spread beyond this, rays from the origin are no longer parallel.
LARGEST_TOTAL_SD = 0.3
# The logarithm of a quantile below which only its power law is left in double precision.
POWER_LAW = -36.0
# The least share that is told from zero, and the least variance of z.
SMALLEST, SMALLEST_VARIANCE = 1e-300, 1e-10


class Coordinates(NamedTuple):
    """What takes x to θ. Kernels take it as one argument.

    Attributes
    ----------
    tables : array of shape (R, G, 4)
        ln Q(z) for each distinct ρ: the coefficients of a cubic for each cell of the grid.
    table_index : array of int, shape (K,)
        The table of each category.
    shape : array of shape (K,)
        The shape of the Gamma law whose quantiles they are: ρ, or near it where it is learned.
    log_scale : array of shape (K,)
        ln s.
    total_sd : float
        τ of the logarithm of the sum.
    center, factor : array of shape (K,) and (K, K)
        z = center + factor·x; the factor is lower triangular.
    """

    tables: NDArray[np.float64]
    table_index: NDArray[np.int64]
    shape: NDArray[np.float64]
    log_scale: NDArray[np.float64]
    total_sd: float
    center: NDArray[np.float64]
    factor: NDArray[np.float64]


def quantile_tables(shape: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the tables of ln Q for each distinct shape, and the table of each category."""
    distinct, index = np.unique(shape, return_inverse=True)
    return np.stack([_table(float(rho)) for rho in distinct]), index.astype(np.int64)


@lru_cache(maxsize=64)
def _table(rho: float) -> NDArray[np.float64]:
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
    # Below the grid ln Q is nearly −z²/(2ρ). A cubic would fall faster, which drives chains on to minus infinity where
    # a learned concentration is far below ρ and the slope of the prior hardly holds them.
    cubics[0, 3] = 0.0
    return cubics


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def write_theta(z, tables, table_index, log_scale, rates, logs, spare, theta):  # type: ignore[no-untyped-def]
    """Write ln φ, its derivative with respect to z into `rates`, and θ; return the sum T. `spare` is overwritten."""
    last = tables.shape[1] - 1
    for i in range(z.size):
        place = (z[i] - LOWEST) * PER_UNIT
        # Beyond the grid its outermost cubics go on; what is no number takes the first.
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
    theta: NDArray[np.float64],
    shape: NDArray[np.float64],
    least_size: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[Coordinates, NDArray[np.float64]]:
    """Return coordinates that suit draws of θ (N, K), and x of each draw, with a sum T drawn for it.

    The scale of a category is E θ²/(E θ·(ρ+1)), which is s where θ is s·Gamma(ρ). The size E θ²/E θ, about θ where it
    is held, is at least `least_size`, for draws that have not yet seen a category held. The covariance of z is that of
    the draws, drawn towards its diagonal where they are few for so many categories.
    """
    n, k = theta.shape
    tables, index = quantile_tables(shape)
    size = np.maximum((theta**2).mean(axis=0) / np.maximum(theta.mean(axis=0), SMALLEST), least_size)
    # The floor is divided as well: one of the scale itself is above θ/ρ where ρ is large, and all z would then stand at
    # the lower end of the tables.
    scale = size / (1 + shape)
    least_total_sd = np.sqrt((least_size**2).sum())
    total_sd = float(min(max(np.sqrt(theta.var(axis=0).sum()), least_total_sd), LARGEST_TOTAL_SD))
    total = np.exp(total_sd * rng.standard_normal((n, 1)))
    z = _z_of(np.log(np.maximum(theta * total, SMALLEST)) - np.log(scale), tables, index)
    covariance = np.cov(z.T).reshape(k, k) + SMALLEST_VARIANCE * np.eye(k)
    diagonal = np.diag(np.diag(covariance))
    factor = np.linalg.cholesky(diagonal + n / (n + 3 * k) * (covariance - diagonal))
    center = z.mean(axis=0)
    x = np.ascontiguousarray(np.linalg.solve(factor, (z - center).T).T)
    return Coordinates(tables, index, shape, np.log(scale), total_sd, center, factor), x


def position_of(theta: NDArray[np.float64], coordinates: Coordinates, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return x of θ (K,), with a sum T drawn for it."""
    total = np.exp(coordinates.total_sd * rng.standard_normal())
    logs = np.log(np.maximum(theta * total, SMALLEST)) - coordinates.log_scale
    z = _z_of(logs[None], coordinates.tables, coordinates.table_index)[0]
    return np.linalg.solve(coordinates.factor, z - coordinates.center)


def _z_of(logs: NDArray[np.float64], tables: NDArray[np.float64], index: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return z of ln φ − ln s, of shape (N, K)."""
    grid, z = LOWEST + np.arange(tables.shape[1]) / PER_UNIT, np.empty(logs.shape)
    for row, table in enumerate(tables):
        z[:, index == row] = np.interp(logs[:, index == row], table[:, 0], grid)
    return z
