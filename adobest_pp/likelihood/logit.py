"""The log-likelihood of a multinomial logit on private answers and its gradient, fused: no θ is written down.

People are sorted by their row of evidence, so within a stretch of people the row is a constant. They are taken in
blocks that stay in the fastest cache, one category after the other, in loops of vector instructions.
The exponential is a polynomial, because a call for each number would take most of the time.
"""

import math

import numpy as np
from numba import njit

__all__ = ["SAFE_ENTRY", "logit_value_and_gradient"]

# People in a block, and logarithms taken of it: a product of BLOCK/LANES factors stays within doubles if each is
# between SAFE_ENTRY and its reciprocal.
BLOCK, LANES = 256, 16
SAFE_ENTRY = 1e-18
# Logits within this limit have exponentials whose sums and products are normal numbers.
SAFE_LOGIT = 300.0

# e^x = 2^k·e^r, with |r| ≤ ln(2)/2, where twelve terms of the series are exact to the last bit or two.
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = math.ldexp(round(math.ldexp(math.log(2), 32)), -32)
_LN2_LOW = -4.2009150726810846e-11
_ROUNDER = 1.5 * 2.0**52
_C = tuple(1 / math.factorial(i) for i in range(13))


@njit(cache=True)
def logit_value_and_gradient(columns, weights, ends, rows, reach):  # type: ignore[no-untyped-def]
    """Return Σ ln h and its gradient with respect to the weights, where θ = softmax(intercept + columns'·slopes).

    Parameters
    ----------
    columns : array of shape (4·⌈P/4⌉, n)
        P covariates of people who are sorted by row of evidence, and zeros up to a multiple of four.
    weights : array of shape (1 + P, K)
        Intercepts, and a slope for each covariate.
    ends : array of int, shape (U,)
        Where the people of each row end.
    rows : array of shape (U, K)
        The rows written out, each entry from `SAFE_ENTRY` to its reciprocal.
    reach : array of shape (P,)
        The largest absolute value of each covariate.
    """
    k = weights.shape[1]
    # Logits count from the first category, whose own then is 0.
    relative = np.zeros((1 + len(columns), k - 1))
    slope = np.zeros((1 + len(columns), k))
    largest = 0.0
    for c in range(k - 1):
        bound = 0.0
        for j in range(len(weights)):
            relative[j, c] = weights[j, c + 1] - weights[j, 0]
            bound += (reach[j - 1] if j else 1.0) * abs(relative[j, c])
        if not bound <= largest:
            largest = bound
    if largest <= SAFE_LOGIT:
        value = _blocks(columns, relative, ends, rows, slope)
    else:
        value = _one_by_one(columns, relative, ends, rows, slope)
    for j in range(len(weights)):
        for c in range(1, k):
            slope[j, 0] -= slope[j, c]
    return value, slope[: len(weights)]


@njit(cache=True)
def _blocks(columns, relative, ends, rows, slope):  # type: ignore[no-untyped-def]
    n_free = relative.shape[1]
    shares, scratch = np.empty((n_free, BLOCK)), np.empty(BLOCK)
    share_bits, bits = shares.view(np.int64), scratch.view(np.int64)
    total, h = np.empty(BLOCK), np.empty(BLOCK)
    value, start = 0.0, 0
    for u in range(ends.size):
        while start < ends[u]:
            end = min(start + BLOCK, ends[u])
            m = end - start
            for c in range(n_free):
                shares[c, :m] = relative[0, c]
            for j in range(0, len(columns), 4):
                one, two, three, four = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
                _add_logits(one[start:end], two[start:end], three[start:end], four[start:end], relative, j, shares)
            total[:m] = 1.0
            h[:m] = rows[u, 0]
            for c in range(n_free):
                _exponentials(shares[c], m, scratch)
                _scale(shares[c], share_bits[c], m, bits, rows[u, c + 1], total, h)
            value += _logarithms(total, h, m, scratch)
            _pull(shares, m, rows[u], total, h, slope)
            for j in range(0, len(columns), 4):
                one, two, three, four = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
                _add_slopes(one[start:end], two[start:end], three[start:end], four[start:end], shares, slope, j)
            start = end
    return value


@njit(cache=True, fastmath={"contract"})
def _add_logits(one, two, three, four, relative, j, logits):  # type: ignore[no-untyped-def]
    for c in range(len(logits)):
        out = logits[c]
        a, b, d, e = relative[j + 1, c], relative[j + 2, c], relative[j + 3, c], relative[j + 4, c]
        for i in range(one.size):
            out[i] += (one[i] * a + two[i] * b) + (three[i] * d + four[i] * e)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _add_slopes(one, two, three, four, by_logits, slope, j):  # type: ignore[no-untyped-def]
    for c in range(len(by_logits)):
        by_logit = by_logits[c]
        a, b, d, e = 0.0, 0.0, 0.0, 0.0
        for i in range(one.size):
            a += one[i] * by_logit[i]
            b += two[i] * by_logit[i]
            d += three[i] * by_logit[i]
            e += four[i] * by_logit[i]
        slope[j + 1, c + 1] += a
        slope[j + 2, c + 1] += b
        slope[j + 3, c + 1] += d
        slope[j + 4, c + 1] += e


@njit(cache=True, fastmath={"contract"})
def _exponentials(x, m, scratch):  # type: ignore[no-untyped-def]
    """Replace x by e^r, and leave k in the last bits of `scratch`, for `_scale`."""
    for i in range(m):
        shifted = x[i] * _LOG2_E + _ROUNDER
        k = shifted - _ROUNDER
        r = (x[i] - k * _LN2_HIGH) - k * _LN2_LOW
        p = _C[12]
        p = p * r + _C[11]
        p = p * r + _C[10]
        p = p * r + _C[9]
        p = p * r + _C[8]
        p = p * r + _C[7]
        p = p * r + _C[6]
        p = p * r + _C[5]
        p = p * r + _C[4]
        p = p * r + _C[3]
        p = p * r + _C[2]
        p = p * r + _C[1]
        scratch[i] = shifted
        x[i] = p * r + _C[0]


@njit(cache=True, fastmath={"contract"})
def _scale(shares, share_bits, m, bits, entry, total, h):  # type: ignore[no-untyped-def]
    """Multiply e^r by 2^k, and add up: the last bits of 1.5·2⁵² + k are those of k, and belong to the exponent."""
    for i in range(m):
        share_bits[i] += bits[i] << 52
    for i in range(m):
        total[i] += shares[i]
        h[i] += entry * shares[i]


@njit(cache=True, error_model="numpy")
def _logarithms(total, h, m, scratch):  # type: ignore[no-untyped-def]
    """Return Σ ln(h/total), and replace both by their reciprocals."""
    for i in range(m):
        inverse = 1.0 / (total[i] * h[i])
        old = h[i]
        h[i] = inverse * total[i]
        total[i] = inverse * old
        scratch[i] = total[i] * old
    padded = (m + LANES - 1) // LANES * LANES
    for i in range(m, padded):
        scratch[i] = 1.0
    # Each of the lanes has at most BLOCK/LANES factors.
    for start in range(LANES, padded, LANES):
        for i in range(LANES):
            scratch[i] *= scratch[start + i]
    value = 0.0
    for i in range(LANES):
        value += np.log(scratch[i])
    return value


@njit(cache=True, fastmath={"reassoc", "contract"})
def _pull(shares, m, row, total, h, slope):  # type: ignore[no-untyped-def]
    """Replace shares by the derivative with respect to their logits, and add it to that of the intercepts."""
    for c in range(len(shares)):
        share, entry, added = shares[c], row[c + 1], 0.0
        for i in range(m):
            share[i] *= entry * h[i] - total[i]
            added += share[i]
        slope[0, c + 1] += added


@njit(cache=True)
def _one_by_one(columns, relative, ends, rows, slope):  # type: ignore[no-untyped-def]
    """Do the same where logits may be too large for their exponentials: each person's are taken from the largest."""
    n_free = relative.shape[1]
    logits = np.zeros(n_free + 1)
    value, i = 0.0, 0
    for u in range(ends.size):
        while i < ends[u]:
            for c in range(n_free):
                logits[c + 1] = relative[0, c]
                for j in range(len(columns)):
                    logits[c + 1] += columns[j, i] * relative[j + 1, c]
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            h = 0.0
            for c in range(n_free + 1):
                h += rows[u, c] * shares[c]
            value += np.log(h)
            for c in range(1, n_free + 1):
                by_logit = shares[c] * (rows[u, c] / h - 1.0)
                slope[0, c] += by_logit
                for j in range(len(columns)):
                    slope[j + 1, c] += columns[j, i] * by_logit
            i += 1
    return value
