"""The best question over all 2^K sets, slowly, from the definitions."""

from itertools import product

import numpy as np
from scipy.optimize import linprog


def information(matrix, theta):
    """Return Σ_y P(y|·)P(y|·)ᵀ/P(y), one answer after the other."""
    total = np.zeros((theta.size, theta.size))
    for row in matrix:
        if row @ theta > 0:
            total += np.outer(row, row) / (row @ theta)
    return total


def summed_variance(information, precision=None, n_left=1.0, cost=None):
    """Return Tr[C (Λ + N·F)⁻¹] on the vectors whose sum is zero: infinite if C needs an unknown direction."""
    k = len(information)
    basis = np.linalg.svd(np.ones((1, k)))[2][1:].T
    known = np.zeros((k, k)) if precision is None else precision
    values, vectors = np.linalg.eigh(basis.T @ (known + n_left * information) @ basis)
    directions = basis @ vectors
    asked = np.sum(directions * ((np.eye(k) if cost is None else cost) @ directions), axis=0)
    found = values > 1e-12 * values[-1]
    return float(np.sum(asked[found] / values[found])) if np.all(asked[~found] < 1e-12) else np.inf


def best_value(theta, epsilon, precision=None, n_left=1.0, cost=None, gap=1e-3, most=4000):
    """Return an upper and a lower bound of the least summed variance, by Frank and Wolfe's method with away steps.

    The linear step is a linear program over all sets; its optimum bounds the value from below.
    """
    k, odds = theta.size, np.expm1(epsilon)
    sets = np.array(list(product((0, 1), repeat=k)))
    q = 1 + odds * sets
    basis = np.linalg.svd(np.ones((1, k)))[2][1:].T
    known = basis.T @ (np.zeros((k, k)) if precision is None else precision) @ basis
    target = basis.T @ (np.eye(k) if cost is None else cost) @ basis
    g = np.sqrt(n_left) * (q @ basis) / np.sqrt(q @ theta)[:, None]
    c = np.zeros(len(sets))
    c[sets.sum(axis=1) == 1] = 1 / (k + odds)
    vertices, shares, lower = [c], [1.0], -np.inf

    def value_and_gradient(weights):
        inverse = np.linalg.inv(known + (g.T * weights) @ g)
        return np.sum(target * inverse), -np.einsum("mi,ij,mj->m", g, inverse @ target @ inverse, g)

    for _ in range(most):
        value, slope = value_and_gradient(c)
        toward = linprog(slope, A_eq=q.T, b_eq=np.ones(k), method="highs").x
        lower = max(lower, value + slope @ (toward - c))
        if value - lower < gap * value:
            break
        worst = int(np.argmax([slope @ vertex for vertex in vertices]))
        forward, away = toward - c, c - vertices[worst]
        if slope @ forward <= slope @ away or shares[worst] >= 1:
            step, longest, is_away = forward, 1.0, False
        else:
            step, longest, is_away = away, shares[worst] / (1 - shares[worst]), True
        low, high = 0.0, longest
        for _ in range(50):
            middle = (low + high) / 2
            if value_and_gradient(np.maximum(c + middle * step, 0))[1] @ step < 0:
                low = middle
            else:
                high = middle
        length = (low + high) / 2
        c = np.maximum(c + length * step, 0)
        if is_away:
            shares = [(1 + length) * share for share in shares]
            shares[worst] -= length
        else:
            shares = [(1 - length) * share for share in shares] + [length]
            vertices.append(toward)
        kept = [i for i, share in enumerate(shares) if share > 1e-12]
        vertices, shares = [vertices[i] for i in kept], [shares[i] for i in kept]
    return value, lower
