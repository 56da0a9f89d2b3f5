"""Mechanisms from their definitions: transition matrices, budgets, and rational bounds on exponentials."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import linprog


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
    """ε₂ of the program's utilities (AdOBEst_LDP.m, lines 37 to 41): no logarithm, and |S| in the place of |Sᶜ|."""
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


def best_guess(matrix, theta):
    """Σ_y max_x θ_x·P(y|x), answer by answer."""
    return math.fsum(max(share * chance for share, chance in zip(theta, row, strict=True)) for row in matrix)


def largest_guess(theta, epsilon):
    """The largest Σ_x θ_x·Q(x|x) over all ε-LDP channels Q(y|x) of K guesses, as a linear program."""
    k = len(theta)
    place = np.arange(k * k).reshape(k, k)  # Q(y|x) is number place[y, x]
    rows = []
    for y in range(k):
        for x in range(k):
            for other in range(k):
                row = np.zeros(k * k)
                row[place[y, x]], row[place[y, other]] = 1.0, -math.exp(epsilon)
                rows += [row] if x != other else []
    sums = np.array([np.isin(place, place[:, x]).ravel() for x in range(k)], dtype=float)
    goal = np.zeros(k * k)
    goal[np.diag(place)] = theta
    found = linprog(-goal, np.array(rows), np.zeros(len(rows)), sums, np.ones(k))
    return -found.fun
