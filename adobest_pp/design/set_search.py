"""Which set is worth adding to a family: all of them where K is small, or local search, compiled.

The excess of a set A over the prices λ is

    (λᵀq_A + a²·1_AᵀP1_A/(1 + aθ(A))) / Σq_A,    q_A = 1 + a·1_A,

with P of `Solution.pull`. A family is the best if no set has a positive excess (docs/math.md, section 8).
"""

import numpy as np
from numba import njit

__all__ = ["climb", "greatest_excess"]


@njit(cache=True, inline="always")
def _excess(quadratic, mass, price, size, total, n, odds):  # type: ignore[no-untyped-def]
    """Return the excess of a set from 1ᵀP1, θ(A), λ(A), |A|, Σλ and K."""
    return (total + odds * price + odds * odds * quadratic / (1.0 + odds * mass)) / (n + odds * size)


@njit(cache=True)
def greatest_excess(pull, theta, prices, odds, best):  # type: ignore[no-untyped-def]
    """Return the greatest excess of the sets of each size 0 … K, over all 2^K; write into `best` which sets have it.

    In the order of a Gray code, O(2^K·K). `best` has shape (K+1, K) and type bool.
    """
    n = theta.size
    member, by_pull = np.zeros(n, dtype=np.bool_), np.zeros(n)
    greatest = np.full(n + 1, -np.inf)
    total = prices.sum()
    quadratic, mass, price, size = 0.0, 0.0, 0.0, 0
    greatest[0] = _excess(0.0, 0.0, 0.0, 0, total, n, odds)
    best[0] = False
    for code in range(1, 1 << n):
        i, low = 0, code
        while low & 1 == 0:
            low >>= 1
            i += 1
        sign = -1.0 if member[i] else 1.0
        quadratic += 2.0 * sign * by_pull[i] + pull[i, i]
        mass += sign * theta[i]
        price += sign * prices[i]
        size += 1 if sign > 0 else -1
        member[i] = not member[i]
        for j in range(n):
            by_pull[j] += sign * pull[i, j]
        found = _excess(quadratic, mass, price, size, total, n, odds)
        if found > greatest[size]:
            greatest[size] = found
            best[size] = member
    return greatest


@njit(cache=True)
def climb(pull, theta, prices, odds, members, found):  # type: ignore[no-untyped-def]
    """Improve each set in place, category by category, until no single change is better; write the excesses."""
    n = theta.size
    total = prices.sum()
    by_pull = np.empty(n)
    for s in range(len(members)):
        member = members[s]
        by_pull[:] = 0.0
        mass, price, size = 0.0, 0.0, 0
        for i in range(n):
            if member[i]:
                mass += theta[i]
                price += prices[i]
                size += 1
                for j in range(n):
                    by_pull[j] += pull[i, j]
        quadratic = 0.0
        for i in range(n):
            if member[i]:
                quadratic += by_pull[i]
        now = _excess(quadratic, mass, price, size, total, n, odds)
        while True:
            where, highest = -1, now + 1e-15 * abs(now)
            for i in range(n):
                sign = -1.0 if member[i] else 1.0
                value = _excess(
                    quadratic + 2.0 * sign * by_pull[i] + pull[i, i],
                    mass + sign * theta[i],
                    price + sign * prices[i],
                    size + sign,
                    total,
                    n,
                    odds,
                )
                if value > highest:
                    where, highest = i, value
            if where < 0:
                break
            sign = -1.0 if member[where] else 1.0
            quadratic += 2.0 * sign * by_pull[where] + pull[where, where]
            mass += sign * theta[where]
            price += sign * prices[where]
            size += int(sign)
            member[where] = not member[where]
            for j in range(n):
                by_pull[j] += sign * pull[where, j]
            now = highest
        found[s] = now
