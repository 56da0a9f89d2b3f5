"""The posterior of θ under a prior that is learned, on coordinates in which NUTS finds no funnel.

θ ~ Dirichlet(a, …, a) with ln a normal. Where a is small, the shares of empty categories spread over e^(1/a), and the
scale of φ in θ = φ/Σφ, which does not matter, over as much. A chain cannot follow either of them. Here

    φ_i = s_i·L(u_i),    L(u) = −ln(1 − exp(−e^u)),    u_i = w_i − c_i·ln a,    ln Σφ ~ N(0, τ²),

and the coordinates are w and ln a. Where u is well below zero, L is −u: with s_i the standard deviation of θ_i that the
answers leave, a share that is held is linear in its coordinate, with a scale of one. Where u is above zero, ln L is
−e^u: an empty category, whose ln θ has the density e^(a·ln θ), has u = ln(1/a) plus a number of order one. With c_i = 1
it has the same coordinate whatever a; with c_i = 0 a held one has. Σφ tells nothing about θ, so its law is free: with
this one the scale cannot drift away. θ and a have their posterior exactly (docs/math.md, section 4).
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient
from adobest_pp.likelihood.marginal import climb

__all__ = ["choose_coordinates", "learned_log_density", "learned_theta"]

# A category is taken for held if its share is so many standard deviations above zero.
HELD = 2.0
# The largest τ²: of a sum with a larger spread, rays from the origin are no longer parallel.
LARGEST_VARIANCE = 0.1
# Beyond this, L is −u below and its logarithm −e^u above, to the last bit.
FAR = 40.0
LOG_2 = math.log(2.0)


def choose_coordinates(
    evidence: Evidence, log_a: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return scales s and shifts c, of shape (K,), and coordinates (K+1,) to begin at, with `log_a` the last.

    Any others give the same posterior. These rest on the normal approximation at a θ of nearly the greatest likelihood.
    """
    k, n, a = evidence.n_categories, evidence.n_responses, math.exp(log_a)
    estimate = climb(evidence, tolerance=0.01, max_iterations=200)[0] if n else np.full(k, 1 / k)
    theta = (n * estimate + a) / (n + k * a)
    inverse = np.linalg.inv(_information(theta, evidence) + (k * a + 1) * np.eye(k))
    # The variances given Σθ = 1.
    sums = inverse.sum(axis=0)
    scales = np.sqrt(np.maximum(np.diag(inverse) - sums**2 / sums.sum(), np.finfo(float).tiny))
    shifts = (theta < HELD * scales).astype(np.float64)
    return scales, shifts, np.append(shifts * log_a - theta / scales, log_a)


def _information(theta: NDArray[np.float64], evidence: Evidence) -> NDArray[np.float64]:
    """Return minus the second derivatives of the log-likelihood, by differences of its gradient."""
    rows = []
    for step in np.diag(1e-4 * np.maximum(theta, 1e-6)):
        change = value_and_gradient(theta - step, evidence)[1] - value_and_gradient(theta + step, evidence)[1]
        rows.append(change / (2 * step.max()))
    return np.asarray((np.array(rows) + np.transpose(rows)) / 2)


@njit(cache=True, error_model="numpy")
def learned_log_density(free, scales, shifts, mean, sd, evidence):  # type: ignore[no-untyped-def]
    """Return the log-density of the coordinates, up to a constant, and its gradient; ln a ~ N(mean, sd²)."""
    k = scales.size
    log_a = free[k]
    a = math.exp(log_a)
    logs, theta, log_total, rates, turns, jacobian = _expanded(free, scales, shifts)
    value, slope = value_and_gradient(theta, evidence)
    average, sum_of_logs, variance = 0.0, 0.0, 0.0
    for i in range(k):
        average += slope[i] * theta[i]
        sum_of_logs += logs[i]
        variance += scales[i] ** 2
    variance = min(variance, LARGEST_VARIANCE)
    distance = (log_a - mean) / sd
    # With respect to ln φ the density of the Dirichlet has the exponents a in place of a − 1.
    value += jacobian + a * sum_of_logs + math.lgamma(k * a) - k * math.lgamma(a)
    value -= 0.5 * distance**2 + 0.5 * log_total**2 / variance
    gradient = np.empty(free.size)
    by_log_a = a * (sum_of_logs + k * (digamma(k * a) - digamma(a))) - distance / sd
    for i in range(k):
        by_log_phi = a + theta[i] * (slope[i] - average - k * a - log_total / variance)
        gradient[i] = turns[i] - rates[i] * by_log_phi
        by_log_a -= shifts[i] * gradient[i]
    gradient[k] = by_log_a
    return value, gradient


@njit(cache=True, error_model="numpy")
def learned_theta(free, scales, shifts):  # type: ignore[no-untyped-def]
    """Return θ of the coordinates."""
    return _expanded(free, scales, shifts)[1]


@njit(cache=True, error_model="numpy")
def _expanded(free, scales, shifts):  # type: ignore[no-untyped-def]
    """Return ln θ, θ, ln Σφ, −d ln φ/du with the derivatives of its logarithm, and the sum of these logarithms."""
    k = scales.size
    logs, theta, rates, turns = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    jacobian, largest, total = 0.0, -np.inf, 0.0
    for i in range(k):
        log_share, rates[i], log_rate, turns[i] = _share(free[i] - shifts[i] * free[k])
        jacobian += log_rate
        logs[i] = math.log(scales[i]) + log_share
        largest = max(largest, logs[i])
    for i in range(k):
        theta[i] = math.exp(logs[i] - largest)
        total += theta[i]
    log_total = largest + math.log(total)
    for i in range(k):
        theta[i] /= total
        logs[i] -= log_total
    return logs, theta, log_total, rates, turns, jacobian


@njit(cache=True, error_model="numpy")
def _share(u):  # type: ignore[no-untyped-def]
    """Return ln L(u), r = −d ln L/du, ln r, and d ln r/du."""
    if u < -FAR:
        return math.log(-u), -1.0 / u, -math.log(-u), -1.0 / u
    b = math.exp(u)
    if b > FAR:
        return -b, b, u, 1.0
    share = -math.log(-math.expm1(-b)) if b < LOG_2 else -math.log1p(-math.exp(-b))
    odds = b / math.expm1(b)
    rate = odds / share
    return math.log(share), rate, math.log(rate), 1.0 - b - odds + rate


@njit(cache=True, error_model="numpy")
def digamma(x):  # type: ignore[no-untyped-def]
    """Return the derivative of ln Γ at x > 0: upwards by its recurrence, and there by its asymptotic series."""
    below = 0.0
    while x < 8.0:
        below += 1.0 / x
        x += 1.0
    s = 1.0 / (x * x)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    return math.log(x) - 0.5 / x - series - below
