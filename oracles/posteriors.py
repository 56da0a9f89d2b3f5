"""Posterior moments by quadrature, for two and three categories; draws under the learned prior for more."""

import math

import numpy as np
from numba import njit
from scipy.special import betaln, gammaln, roots_jacobi


def posterior_moments_k2(rows, prior):
    """Mean and sd, by quadrature, of θ under Dirichlet(prior) given the (n, 2) matrix of each response's row of G."""
    nodes, weights = beta_quadrature(prior[0], prior[1], min(len(rows) // 2 + 3, 1000))
    return _moments(np.stack([nodes, 1 - nodes]), weights, rows)


def posterior_moments_k3(rows, prior):
    """The same for (n, 3), on a grid of θ = (u, (1−u)v, (1−u)(1−v)), where u and v are independent Betas."""
    return _moments(*_triangle(prior, min(len(rows) // 2 + 3, 400)), rows)


def _triangle(prior, m, quadrature=None):
    """Nodes (3, m²) and weights of that grid."""
    quadrature = quadrature or beta_quadrature
    u, u_weights = quadrature(prior[0], prior[1] + prior[2], m)
    v, v_weights = quadrature(prior[1], prior[2], m)
    first, share = (grid.ravel() for grid in np.meshgrid(u, v, indexing="ij"))
    theta = np.stack([first, (1 - first) * share, (1 - first) * (1 - share)])
    return theta, np.outer(u_weights, v_weights).ravel()


def posterior_moments_learned(rows, n_categories, mean=-2.0, sd=2.0, m=300):
    """Mean and sd of θ, and of ln a, under θ ~ Dirichlet(a, …, a) with ln a ~ N(mean, sd²), for K = 2 or 3.

    The posterior is a mixture over a of those with a fixed, weighted by their evidence; ln a by Gauss–Legendre over
    six standard deviations to each side.
    """
    nodes, weights = np.polynomial.legendre.leggauss(60)
    weights = weights * np.exp(-((6 * nodes) ** 2) / 2)
    log_scales = 6 * sd * nodes + mean
    parts = [_unnormalized(np.exp(log_scale), rows, n_categories, m) for log_scale in log_scales]
    peak = max(part[0] for part in parts)
    weights = weights * [np.exp(log_evidence - peak) for log_evidence, _, _ in parts]
    weights /= weights.sum()
    mean, square = (np.tensordot(weights, [part[i] for part in parts], 1) for i in (1, 2))
    center = weights @ log_scales
    return mean, np.sqrt(square - mean**2), center, np.sqrt(weights @ (log_scales - center) ** 2)


def learned_posterior_k2(rows, mean=-2.0, sd=2.0, n=4000, m=300):
    """The posterior of (θ₁, ln a) for K = 2 on a grid: ln a (m,), θ₁ (m, n) and weights (m, n) that sum to one.

    The log-odds of θ₁ are hyperbolic sines of equally spaced points, dense in the middle and out to where the prior
    leaves e^(−40): the shares of empty categories, too small for any grid of θ itself, are all there.
    """
    log_a = np.linspace(mean - 7 * sd, mean + 7 * sd, m)
    points = np.linspace(-1, 1, n)
    reach = (40 + 40 * np.exp(-log_a))[:, None] / np.sinh(12)
    odds, spacing = reach * np.sinh(12 * points), reach * np.cosh(12 * points)
    logs = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
    theta = np.exp(np.array(logs)).reshape(2, -1)
    a = np.exp(log_a)[:, None]
    # The Jacobian of the log-odds is θ₁θ₂, which turns the exponents from a − 1 into a.
    log_density = a * (logs[0] + logs[1]) - betaln(a, a) - ((log_a[:, None] - mean) / sd) ** 2 / 2
    log_density += _log_density(theta, rows).reshape(m, n) + np.log(spacing)
    weights = np.exp(log_density - log_density.max())
    return log_a, theta[0].reshape(m, n), weights / weights.sum()


def _unnormalized(scale, rows, n_categories, m):
    """The log-evidence, and the first and second moments of θ, for one a."""
    if n_categories == 2:
        nodes, weights = beta_trapezoids(scale, scale, m)
        theta = np.stack([nodes, 1 - nodes])
    else:
        theta, weights = _triangle([scale] * 3, m, beta_trapezoids)
    log_density = _log_density(theta, rows)
    peak = log_density.max()
    weights = weights * np.exp(log_density - peak)
    total = weights.sum()
    return peak + np.log(total), theta @ weights / total, theta**2 @ weights / total


def beta_quadrature(a, b, m):
    """Gauss–Jacobi nodes and weights for Beta(a, b): exact for polynomials of degree below 2m.

    A likelihood of n responses is a polynomial of degree n in θ, and the prior, singular or not, is the weight.
    """
    x, weights = roots_jacobi(m, b - 1, a - 1)
    return (1 + x) / 2, weights / weights.sum()


def beta_trapezoids(a, b, m):
    """Nodes and weights for Beta(a, b) with a and b however small, where Gauss–Jacobi fails.

    The trapezoidal rule on log-odds that are hyperbolic sines, out to where e^(−40) is left of the density.
    """
    end = np.arcsinh(40 + 40 / min(a, b))
    points = np.linspace(-end, end, m)
    odds = np.sinh(points)
    logs = -a * np.logaddexp(0, -odds) - b * np.logaddexp(0, odds) + np.log(np.cosh(points))
    weights = np.exp(logs - logs.max())
    return 1 / (1 + np.exp(-np.clip(odds, -700, 700))), weights / weights.sum()


def _moments(theta, weights, rows):
    log_density = _log_density(theta, rows)
    weights = weights * np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = theta @ weights
    return mean, np.sqrt((theta - mean[:, None]) ** 2 @ weights)


def _log_density(theta, rows):
    distinct, counts = np.unique(np.asarray(rows, dtype=float).reshape(-1, len(theta)), axis=0, return_counts=True)
    log_density = np.zeros(theta.shape[1])
    for row, count in zip(distinct, counts, strict=True):
        log_density += count * np.log(row @ theta)
    return log_density


@njit
def learned_draws(rows, mean, sd, n_draws, thin, rng):
    """Return draws of θ, and of ln a, by collapsed Gibbs sampling, for any number of categories: (n_draws, K + 1).

    θ ~ Dirichlet(a, …, a) with ln a ~ N(mean, sd²). Each person's category is drawn given those of all others, with θ
    integrated out; ln a given the categories by a slice of its Dirichlet-multinomial density; θ given both.
    """
    n, k = rows.shape
    held, counts, weights = np.empty(n, np.int64), np.zeros(k), np.empty(k)
    for person in range(n):
        held[person] = np.argmax(rows[person])
        counts[held[person]] += 1
    log_a, draws = mean, np.empty((n_draws, k + 1))
    for sweep in range(n_draws * thin):
        a = np.exp(log_a)
        for person in range(n):
            counts[held[person]] -= 1
            total = 0.0
            for i in range(k):
                total += rows[person, i] * (a + counts[i])
                weights[i] = total
            point, i = total * rng.random(), 0
            while weights[i] < point:
                i += 1
            held[person] = i
            counts[i] += 1
        least = _log_a_density(log_a, counts, mean, sd) + np.log(rng.random())
        low = log_a - 2 * rng.random()
        high = low + 2
        while _log_a_density(low, counts, mean, sd) > least:
            low -= 2
        while _log_a_density(high, counts, mean, sd) > least:
            high += 2
        while True:
            proposal = low + (high - low) * rng.random()
            if _log_a_density(proposal, counts, mean, sd) > least:
                break
            low, high = (proposal, high) if proposal < log_a else (low, proposal)
        log_a = proposal
        if sweep % thin == thin - 1:
            # A Gamma variable of a small shape is one of a shape above 1, times a power of a uniform.
            for i in range(k):
                shape = np.exp(log_a) + counts[i]
                weights[i] = rng.standard_gamma(shape + 1) * rng.random() ** (1 / shape)
            draws[sweep // thin, :k] = weights / weights.sum()
            draws[sweep // thin, k] = log_a
    return draws


@njit
def _log_a_density(log_a, counts, mean, sd):
    a, k, n = np.exp(log_a), counts.size, counts.sum()
    value = math.lgamma(k * a) - math.lgamma(k * a + n) - 0.5 * ((log_a - mean) / sd) ** 2
    for count in counts:
        value += math.lgamma(a + count) - math.lgamma(a)
    return value


def concentration_posterior(counts, odds, log_a, mean=-2.0, sd=2.0):
    """The posterior of ln a on a grid, summing to one, given how often SRR has named each of 100 categories or more.

    With θ ~ Dirichlet(a, …, a) and e^ε − 1 = `odds`, answers have the probability ∫ Dir(θ)·Π(1 + odds·θ_i)^count_i dθ.
    That is a convolution of one function for each category, at the sum 1, so an inverse Laplace transform of their
    product: one integral along a line through the saddle point.
    """
    logs = [_log_convolution(counts, odds, np.exp(x)) - ((x - mean) / sd) ** 2 / 2 for x in log_a]
    weights = np.exp(logs - np.max(logs))
    return weights / weights.sum()


def _log_convolution(counts, odds, a, lowest=1e-9):
    """ln of the integral: shares below `lowest` by their power law, the others by Gauss–Legendre in ln θ."""
    values, times = np.unique(counts, return_counts=True)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(np.log(lowest), 0, 31)
    log_theta = (edges[:-1, None] + (1 + nodes) * (edges[1] - edges[0]) / 2).ravel()
    weights, theta = np.tile(weights * (edges[1] - edges[0]) / 2, 30), np.exp(log_theta)
    powers = values[:, None] * np.log1p(odds * theta) + a * log_theta

    def log_transforms(s):
        exponents = powers - s * theta
        peak = exponents.real.max(axis=1)
        below = np.exp(a * np.log(lowest) - peak) / a
        return times @ (np.log(np.exp(exponents - peak[:, None]) @ weights + below) + peak)

    low, high = -1e5, 1e6 + 100 * counts.size * a
    for _ in range(80):  # the saddle point: the least s + Σ ln of the transforms
        s = (low + high) / 2
        width = 1e-4 * max(1.0, abs(s))
        rises = 2 * width + log_transforms(s + width) - log_transforms(s - width) > 0
        low, high = (low, s) if rises else (s, high)
    width = max(1e-3 * abs(s), 1e-2)
    curvature = (log_transforms(s + width) - 2 * log_transforms(s) + log_transforms(s - width)) / width**2
    reach = np.append(np.linspace(0, 12, 121), np.geomspace(12, 400, 81)[1:]) / np.sqrt(curvature)
    line = np.array([log_transforms(s + 1j * w) + 1j * w for w in reach])
    integral = np.trapezoid(np.exp(line - line[0].real).real, reach) / np.pi
    return gammaln(counts.size * a) - counts.size * gammaln(a) + s + line[0].real + np.log(integral)
