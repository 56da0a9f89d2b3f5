"""Everything again, slowly, straight from the definitions: what the fast paths are held to.

Nothing here imports adobest_pp.
"""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.special import roots_jacobi


# ---------------------------------------------------------------- mechanisms
def srr_probability(y, x, members, epsilon):
    """SRR(x; Ω, ε) of the paper, for x in Ω."""
    if y not in members:
        return 0.0
    total = math.exp(epsilon) + len(members) - 1
    return math.exp(epsilon) / total if y == x else 1 / total


def rrrr_matrix(n_categories, subset, epsilon1, epsilon2):
    """RRRR by running through Algorithm 2 of the paper: every R, every answer."""
    inside = set(subset)
    outside = [i for i in range(n_categories) if i not in inside]
    matrix = np.zeros((n_categories, n_categories))
    for x in range(n_categories):
        for r in outside:
            if x in inside:
                weight, source = 1 / len(outside), x
            else:
                weight, source = srr_probability(r, x, outside, epsilon2), r
            for y in [*inside, r]:
                # Without a subset the second stage has one candidate and changes nothing.
                matrix[y, x] += weight * srr_probability(y, source, [*inside, r], epsilon1)
    return matrix


def theorem_epsilon2(n_categories, size, epsilon, kappa):
    """ε₂ of Theorem 1, as printed."""
    epsilon1, rest = kappa * epsilon, n_categories - size
    if size > 0 and rest > 1 and epsilon - epsilon1 < math.log(rest):
        return min(epsilon, math.log((rest - 1) / (math.exp(epsilon1 - epsilon) * rest - 1)))
    return epsilon


def program_epsilon2(size, epsilon, kappa):
    """ε₂ as the authors' program has it: no logarithm, and |S| in the place of |Sᶜ|."""
    epsilon1 = kappa * epsilon
    if size > 0 and epsilon - epsilon1 < math.log(size):
        return min(epsilon, (size - 1) / (math.exp(epsilon1 - epsilon) * size - 1))
    return epsilon


def subset_selection_matrix(n_categories, size, epsilon):
    """P(Z | x) for every set Z in lexicographic order."""
    p = size * math.exp(epsilon) / (size * math.exp(epsilon) + n_categories - size)
    sets = list(combinations(range(n_categories), size))
    return np.array(
        [
            [
                p / math.comb(n_categories - 1, size - 1) if x in z else (1 - p) / math.comb(n_categories - 1, size)
                for x in range(n_categories)
            ]
            for z in sets
        ]
    )


def exp_bracket(exponent, terms=400):
    """Rational bounds on e^exponent by the Taylor series with its remainder, for 0 ≤ exponent."""
    halvings = max(0, math.ceil(math.log2(exponent)) + 1) if exponent > 0 else 0
    x = Fraction(exponent) / 2**halvings
    unit = 2**600
    total, term = Fraction(0), Fraction(1)
    for i in range(terms):
        total += term
        term = Fraction(math.floor(term * x / (i + 1) * unit), unit)
        if term == 0:
            break
    # Each of the terms was rounded down by at most 1/unit, and the tail is below the last unit.
    lower, upper = total, total + Fraction(2 * (i + 2), unit)
    for _ in range(halvings):
        lower, upper = Fraction(math.floor(lower**2 * unit), unit), Fraction(math.ceil(upper**2 * unit), unit)
    return lower, upper


# ---------------------------------------------------------------- likelihood
def log_likelihood(theta, rows):
    """Σ ln Σ_x g(x) θ_x over the (n, K) matrix of each response's row of G."""
    return float(np.log(rows @ theta).sum())


def gradient(theta, rows):
    """Derivative of the above by θ."""
    return (rows / (rows @ theta)[:, None]).sum(axis=0)


def phi_gradient_of_the_paper(phi, rows):
    """Proposition 4 of the paper: the K×(K−1) Jacobian and differences with the last category."""
    total, k = phi.sum(), phi.size
    jacobian = np.eye(k)[:, : k - 1] / total - phi[None, : k - 1] / total**2
    h = rows @ (phi / total)
    return sum(jacobian @ ((row[: k - 1] - row[k - 1]) / value) for row, value in zip(rows, h, strict=True))


# ---------------------------------------------------------------- utilities
# `matrix` is G[y, x] and `theta` the probabilities, as float arrays or as object arrays of Decimal: the same
# definitions (section 4.3 of the paper) then run in double precision or with as many digits as the context has.
def fisher_utility(matrix, theta, last=-1):
    """U1: F = AᵀD⁻¹A, A[y, j] = G[y, j] − G[y, last], for the other K−1 components of θ."""
    free = np.delete(np.arange(theta.size), last)
    difference = matrix[:, free] - matrix[:, [last]]
    return -_inverse(difference.T @ (difference / (matrix @ theta)[:, None])).trace()


def entropy_utility(matrix, theta):
    """U2."""
    h = matrix @ theta
    return (h * _ln(h)).sum()


def tv1_utility(matrix, theta):
    """U3."""
    return (abs(matrix - (matrix @ theta)[:, None]) * theta).sum() / 2


def tv2_utility(matrix, theta):
    """U4."""
    return -abs(matrix @ theta - theta).sum() / 2


def mse_utility(matrix, theta):
    """U5, by the proposition of the paper."""
    return ((matrix * theta) ** 2 / (matrix @ theta)[:, None]).sum() - 1


def honest_utility(matrix, theta):
    """U6."""
    return (matrix.diagonal() * theta).sum()


DENSE_UTILITIES = {
    "fisher": fisher_utility,
    "entropy": entropy_utility,
    "tv1": tv1_utility,
    "tv2": tv2_utility,
    "mse": mse_utility,
    "honest": honest_utility,
}


def squared_error(matrix, theta, estimator):
    """E‖e_X − estimator(Y)‖² for an estimator with a row for every answer; the least is −U5."""
    joint = matrix * theta[None, :]
    return sum(joint[y, x] * ((estimator[y] - np.eye(theta.size)[x]) ** 2).sum() for y, x in np.ndindex(joint.shape))


def precise_rrrr_matrix(n_categories, size, epsilon1, epsilon2):
    """G for S = {0, …, size−1} in Decimal, from the table in section 1 of MATH."""
    e1, e2, rest = Decimal(epsilon1).exp(), Decimal(epsilon2).exp(), n_categories - size
    keep = e1 / (e1 + size) if size else Decimal(1)
    matrix = np.empty((n_categories, n_categories), dtype=object)
    matrix[:size, :] = 1 / (e1 + size)
    matrix[size:, :size] = 1 / (rest * (e1 + size))
    matrix[size:, size:] = keep / (e2 + rest - 1)
    for x in range(n_categories):
        matrix[x, x] *= e1 if x < size else e2
    return matrix


def precise(theta):
    """The same numbers as Decimals, divided by their sum."""
    exact = np.array([Decimal(float(value)) for value in theta], dtype=object)
    return exact / exact.sum()


def _ln(values):
    return np.array([value.ln() for value in values], dtype=object) if values.dtype == object else np.log(values)


def _inverse(matrix):
    if matrix.dtype != object:
        return np.linalg.inv(matrix)
    n = len(matrix)
    joined = np.hstack([matrix, np.array([[Decimal(i == j) for j in range(n)] for i in range(n)], dtype=object)])
    for i in range(n):
        pivot = max(range(i, n), key=lambda row: abs(joined[row, i]))
        joined[[i, pivot]] = joined[[pivot, i]]
        joined[i] = joined[i] / joined[i, i]
        for row in range(n):
            if row != i:
                joined[row] = joined[row] - joined[row, i] * joined[i]
    return joined[:, n:]


# ---------------------------------------------------------------- posterior
def posterior_moments_k2(rows, prior):
    """Mean and sd, by quadrature, of θ under Dirichlet(prior) given the (n, 2) matrix of each response's row of G."""
    nodes, weights = beta_quadrature(prior[0], prior[1], min(len(rows) // 2 + 3, 1000))
    return _moments(np.stack([nodes, 1 - nodes]), weights, rows)


def posterior_moments_k3(rows, prior):
    """The same for (n, 3), on a grid of θ = (u, (1−u)v, (1−u)(1−v)), where u and v are independent Betas."""
    return _moments(*_triangle(prior, min(len(rows) // 2 + 3, 400)), rows)


def _triangle(prior, m):
    """Nodes (3, m²) and weights of that grid."""
    u, u_weights = beta_quadrature(prior[0], prior[1] + prior[2], m)
    v, v_weights = beta_quadrature(prior[1], prior[2], m)
    first, share = (grid.ravel() for grid in np.meshgrid(u, v, indexing="ij"))
    theta = np.stack([first, (1 - first) * share, (1 - first) * (1 - share)])
    return theta, np.outer(u_weights, v_weights).ravel()


def posterior_moments_learned(rows, n_categories, m=200):
    """Mean and sd of θ, and of ln a, under θ ~ Dirichlet(a, …, a) with ln a ~ N(−1, 1), for K = 2 or 3.

    The posterior is a mixture over a of those with a fixed, weighted by their evidence; ln a by Gauss–Legendre over
    six standard deviations to each side.
    """
    nodes, weights = np.polynomial.legendre.leggauss(60)
    weights = weights * np.exp(-((6 * nodes) ** 2) / 2)
    log_scales = 6 * nodes - 1
    parts = [_unnormalized(np.exp(log_scale), rows, n_categories, m) for log_scale in log_scales]
    peak = max(part[0] for part in parts)
    weights = weights * [np.exp(log_evidence - peak) for log_evidence, _, _ in parts]
    weights /= weights.sum()
    mean, square = (np.tensordot(weights, [part[i] for part in parts], 1) for i in (1, 2))
    center = weights @ log_scales
    return mean, np.sqrt(square - mean**2), center, np.sqrt(weights @ (log_scales - center) ** 2)


def _unnormalized(scale, rows, n_categories, m):
    """The log-evidence, and the first and second moments of θ, for one a."""
    if n_categories == 2:
        nodes, weights = beta_quadrature(scale, scale, m)
        theta = np.stack([nodes, 1 - nodes])
    else:
        theta, weights = _triangle([scale] * 3, m)
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


# ---------------------------------------------------------------- the loop
def algorithm_1(x, prior, choose, matrix_of, step, updates, batch_size, round_size, draws):
    """Algorithm 1 of the paper for people of categories x, with dense rows of G.

    `choose(θ)` gives all categories in order and how many of them are published, `matrix_of(subset)` is G[y, x], and
    `step(n)` is γ with n responses at hand. `draws` are three functions that take the next random number: uniform(),
    integer(bound) and normal().
    """
    phi = np.full(len(prior), np.mean(prior))
    rows, answers, subsets, phis = [], [], [], []
    for start in range(0, len(x), round_size):
        order, size = choose(phi / phi.sum())
        matrix = matrix_of(order[:size])
        for person in x[start : start + round_size]:
            answers.append(invert(draws[0](), matrix[:, person], [person, *(i for i in order if i != person)]))
            subsets.append(frozenset(int(i) for i in order[:size]))
            rows.append(matrix[answers[-1]])
        for _ in range(updates):
            phi = langevin_update(phi, np.array(rows), prior, step(len(rows)), batch_size, draws)
        phis.append(phi)
    return answers, subsets, np.array(phis), np.array(rows)


def invert(u, probabilities, order):
    """The category at which the cumulated probabilities, in that order, pass u."""
    place = np.searchsorted(np.cumsum(probabilities[order]), u, side="right")
    return int(order[min(place, len(order) - 1)])


def langevin_update(phi, rows, prior, step, batch_size, draws):
    """One update φ ← |φ + (γ/2)·slope + √γ·W| on a batch drawn with replacement: first the batch, then the noise."""
    n = len(rows)
    m = min(batch_size, n)
    batch = rows[[draws[1](n) for _ in range(m)]]
    noise = np.array([draws[2]() for _ in phi])
    # Of φ, ∂ ln p/∂φ = (ρ−1)/φ − 1, no closer to zero than the width of the noise; of θ = φ/Σφ, (g/h − 1)/Σφ each.
    slope = (prior - 1) / np.maximum(phi, np.sqrt(step)) - 1
    slope += n / m * (batch / (batch @ phi)[:, None] - 1 / phi.sum()).sum(axis=0)
    return np.abs(phi + step / 2 * slope + np.sqrt(step) * noise)
