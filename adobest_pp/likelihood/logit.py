"""The log-likelihood of a multinomial logit on private answers and its gradient, fused: no θ is stored.

People are sorted by their row of evidence, so people with the same row follow each other. They are taken in blocks that
stay in the fastest cache, one category after the other, in vectorized loops. The exponential is a polynomial, because a
call for each number would take most of the time.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.polynomial.chebyshev import cheb2poly, poly2cheb

# People in a block, and lanes of products over them: a product of BLOCK/LANES factors is a normal double if each factor
# is between SAFE_ENTRY and its reciprocal. Logarithms of products are taken before these can exceed LARGEST.
BLOCK, LANES = 512, 32
SAFE_ENTRY = 1e-18
LARGEST = 1e290
# Logits have base 2. Within the limit, powers of 2 and their sums and products are normal numbers. Logits are raised to
# the lowest, whose power is also a normal number, and negligible beside 1.
SAFE_LOGIT, LOWEST = 430.0, -1000.0

# 2^x = 2^k·2^r, with |r| ≤ 1/2. The power series of 2^r, of which Chebyshev polynomials up to degree 11 are kept, is
# within a seventh of half a unit in the last place. Adding the rounder puts k into the last bits of a double.
_LOG2_E = 1 / math.log(2)
_ROUNDER = 1.5 * 2.0**52
_WITHOUT_SIGN = np.int64(2**63 - 1)
_SERIES = [(math.log(2) / 2) ** i / math.factorial(i) for i in range(15)]
_C = tuple((cheb2poly(poly2cheb(_SERIES)[:12]) * 2.0 ** np.arange(12)).tolist())

# Functions that only others here call have no entry point for Python, which would take longer to compile than they do.
_INNER: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(cache=True, no_cfunc_wrapper=True)
def logit_value_and_gradient(columns, weights, ends, rows, reach):  # type: ignore[no-untyped-def]
    """Return Σ ln h and its gradient with respect to the weights, where θ = softmax(intercept + columns'·slopes).

    `columns` (4·⌈P/4⌉, n) are P covariates of people who are sorted by row of evidence, and zeros up to a multiple of
    four; `reach` (P,) is the largest absolute value of each. `weights` (1 + P, K) are intercepts and slopes. `rows`
    (U, K) are written out, with entries from `SAFE_ENTRY` to its reciprocal, and `ends` (U,) is where their people end.
    """
    relative, slope = _relative(weights, len(columns))
    value = _blocks(columns, None, relative, _is_wide(relative, reach), ends, rows, slope)
    _finish(slope)
    return np.asarray(value), slope[: len(weights)]


@njit(cache=True, no_cfunc_wrapper=True)
def unsorted_value_and_gradient(columns, weights, ends, rows, order):  # type: ignore[no-untyped-def]
    """Return the same as `logit_value_and_gradient` for covariates (P, n) of people in any order, as data are.

    `order` has the people sorted by row of evidence. Their covariates are brought into this order block by block.
    """
    relative, slope = _relative(weights, (len(columns) + 3) // 4 * 4)
    value = _blocks(columns, order, relative, False, ends, rows, slope)
    _finish(slope)
    return np.asarray(value), slope[: len(weights)]


@njit(**_INNER)
def _relative(weights, n_columns):  # type: ignore[no-untyped-def]
    """Return weights to base 2, relative to those of the first category and padded with zeros; and slopes of zero."""
    k = weights.shape[1]
    relative = np.zeros((1 + n_columns, k - 1))
    for c in range(k - 1):
        for j in range(len(weights)):
            relative[j, c] = (weights[j, c + 1] - weights[j, 0]) * _LOG2_E
    return relative, np.zeros((1 + n_columns, k))


@njit(**_INNER)
def _finish(slope):  # type: ignore[no-untyped-def]
    """Write the slopes of the first category, which logits are relative to."""
    for j in range(len(slope)):
        for c in range(1, slope.shape[1]):
            slope[j, 0] -= slope[j, c]


@njit(**_INNER)
def _take_block(columns, people, block):  # type: ignore[no-untyped-def]
    """Write the covariates of some people side by side. Rows after the last repeat it; their weights are 0."""
    last = len(columns) - 1
    start, step = columns.ctypes.data, columns.strides[1]
    for j in range(0, len(block), 4):
        one, two, three, four = block[j], block[j + 1], block[j + 2], block[j + 3]
        done = 0
        if columns.strides[0] == 8 and j + 3 <= last:
            to = one.ctypes.data
            for i in range(0, people.size - 3, 4):
                _transpose(start + 8 * j, step, people[i], people[i + 1], people[i + 2], people[i + 3], to + 8 * i)
                done = i + 4
        second, third, fourth = min(j + 1, last), min(j + 2, last), min(j + 3, last)
        for i in range(done, people.size):
            person = people[i]
            one[i], two[i] = columns[j, person], columns[second, person]
            three[i], four[i] = columns[third, person], columns[fourth, person]


@intrinsic
def _transpose(typing_context, start, step, first, second, third, fourth, to):  # type: ignore[no-untyped-def]
    """Write four adjacent numbers of each of four people to the address `to`, in four rows of a block.

    The numbers of person i begin at the address start + i·step. With one load per person and one store per row, this
    takes half the time of sixteen of each.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        from_, by, *people, target = arguments
        vector = ir.VectorType(ir.DoubleType(), 4)

        def at(address: Any) -> Any:
            return builder.inttoptr(address, vector.as_pointer())

        def chosen(left: Any, right: Any, *lanes: int) -> Any:
            return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), 4), list(lanes)))

        rows = [builder.load(at(builder.add(from_, builder.mul(each, by))), align=8) for each in people]
        low = [chosen(rows[i], rows[i + 1], 0, 4, 2, 6) for i in (0, 2)]
        high = [chosen(rows[i], rows[i + 1], 1, 5, 3, 7) for i in (0, 2)]
        columns = [chosen(*pair, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (low, high)]
        for place, column in enumerate(columns):
            row = builder.add(target, ir.Constant(ir.IntType(64), 8 * BLOCK * place))
            builder.store(column, at(row), align=8)
        return context.get_dummy_value()

    return types.void(*(types.intp,) * 7), generate


@njit(**_INNER)
def _write_reach(bits, m, reach):  # type: ignore[no-untyped-def]
    """Write the largest absolute value of each covariate. Bits of positive doubles have the order of the numbers."""
    for j in range(len(bits)):
        largest, row = np.int64(0), bits[j]
        for i in range(m):
            largest = max(largest, row[i] & _WITHOUT_SIGN)
        reach[j] = largest


@njit(**_INNER)
def _is_wide(relative, reach):  # type: ignore[no-untyped-def]
    """Tell whether a logit may be too large for powers of 2."""
    for c in range(relative.shape[1]):
        bound = abs(relative[0, c])
        for j in range(reach.size):
            bound += reach[j] * abs(relative[j + 1, c])
        if not bound <= SAFE_LOGIT:
            return True
    return False


@njit(**_INNER)
def _blocks(columns, order, relative, wide, ends, rows, slope):  # type: ignore[no-untyped-def]
    # The largest change of a product by one block, and by all blocks since the last logarithms.
    by_block, moved = _widest(rows) ** (BLOCK // LANES), 1.0
    shares, products = _aligned_rows(relative.shape[1]), np.ones(LANES)
    sums = _aligned_rows(3)
    total, h, ratio = sums[0], sums[1], sums[2]
    value, start = 0.0, 0
    if order is not None:
        block, reach = _aligned_rows(len(relative) - 1), np.zeros(len(relative) - 1)
        block_bits, reach_bits = block.view(np.int64), reach.view(np.int64)
    for u in range(ends.size):
        while start < ends[u]:
            end = min(start + BLOCK, ends[u])
            m = end - start
            if moved * by_block > LARGEST:
                value += _take_logarithms(products)
                moved = 1.0
            moved *= by_block
            if order is None:
                _add_block(columns, start, end, relative, wide, rows[u], shares, total, h, ratio, products, slope)
            else:
                _take_block(columns, order[start:end], block)
                _write_reach(block_bits, m, reach_bits)
                far = _is_wide(relative, reach)
                _add_block(block, 0, m, relative, far, rows[u], shares, total, h, ratio, products, slope)
            start = end
    return value + _take_logarithms(products)


@njit(**_INNER)
def _aligned_rows(count):  # type: ignore[no-untyped-def]
    """Return an empty array (count, BLOCK) that is aligned with cache lines (8 numbers), as fast loads need."""
    numbers = np.empty(count * BLOCK + 8)
    skipped = -(numbers.ctypes.data // 8) % 8
    return numbers[skipped : skipped + count * BLOCK].reshape(count, BLOCK)


@njit(**_INNER)
def _add_block(columns, start, end, relative, wide, row, shares, total, h, ratio, products, slope):  # type: ignore[no-untyped-def]
    """Add what the people from start to end, who have the same row, contribute to products and slopes."""
    m = end - start
    _begin(relative, row[0], m, shares, total, h)
    for j in range(0, len(columns), 4):
        one, two = columns[j, start:end], columns[j + 1, start:end]
        three, four = columns[j + 2, start:end], columns[j + 3, start:end]
        for c in range(len(shares)):
            _add_logits(one, two, three, four, relative, j, c, shares[c])
    if wide:
        _center(shares, m, total, h)
    for c in range(len(shares)):
        _add_share(shares[c], row[c + 1], m, total, h)
    _invert(total, h, m, ratio, products)
    for c in range(len(shares)):
        slope[0, c + 1] += _pull(shares[c], row[c + 1], m, total, h)
    for j in range(0, len(columns), 4):
        one, two = columns[j, start:end], columns[j + 1, start:end]
        three, four = columns[j + 2, start:end], columns[j + 3, start:end]
        for c in range(len(shares)):
            _add_slopes(one, two, three, four, shares[c], slope, j, c)


@njit(error_model="numpy", **_INNER)
def _widest(rows):  # type: ignore[no-untyped-def]
    """Return the largest entry, or the reciprocal of the smallest if that is larger."""
    widest = 1.0
    for entry in rows.flat:
        if entry > widest:
            widest = entry
        if entry * widest < 1.0:
            widest = 1.0 / entry
    return widest


@njit(**_INNER)
def _take_logarithms(products):  # type: ignore[no-untyped-def]
    """Return the logarithm of the product of all lanes, and reset them."""
    value = 0.0
    for i in range(LANES):
        value += math.log(products[i])
        products[i] = 1.0
    return value


@njit(**_INNER)
def _begin(relative, entry, m, shares, total, h):  # type: ignore[no-untyped-def]
    """Write intercepts as logits, and the terms of the first category as sums."""
    for i in range(m):
        total[i] = 1.0
        h[i] = entry
    for c in range(len(shares)):
        for i in range(m):
            shares[c, i] = relative[0, c]


@njit(fastmath={"contract"}, **_INNER)
def _add_logits(one, two, three, four, relative, j, c, logit):  # type: ignore[no-untyped-def]
    a, b, d, e = relative[j + 1, c], relative[j + 2, c], relative[j + 3, c], relative[j + 4, c]
    for i in range(one.size):
        logit[i] += (one[i] * a + two[i] * b) + (three[i] * d + four[i] * e)


@njit(**_INNER)
def _center(logits, m, total, h):  # type: ignore[no-untyped-def]
    """Subtract the largest logit of each person, as logits may be too large for powers of 2."""
    for i in range(m):
        top = 0.0
        for c in range(len(logits)):
            if not logits[c, i] <= top:
                top = logits[c, i]
        for c in range(len(logits)):
            logits[c, i] -= top
            if logits[c, i] < LOWEST:
                logits[c, i] = LOWEST
        total[i] = math.exp(-top / _LOG2_E)
        h[i] *= total[i]


@intrinsic
def _times_power(typing_context, number, shifted):  # type: ignore[no-untyped-def]
    """Return number·2^k: the last bits of `shifted`, 1.5·2⁵² + k, are those of k, and are added to the exponent."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits, power = (builder.bitcast(each, ir.IntType(64)) for each in arguments)
        moved = builder.add(bits, builder.shl(power, ir.Constant(ir.IntType(64), 52)))
        return builder.bitcast(moved, ir.DoubleType())

    return types.float64(types.float64, types.float64), generate


@njit(fastmath={"contract"}, **_INNER)
def _add_share(share, entry, m, total, h):  # type: ignore[no-untyped-def]
    """Replace logits by powers of 2, and add these to the sums."""
    for i in range(m):
        x = share[i]
        shifted = x + _ROUNDER
        r = x - (shifted - _ROUNDER)
        p = _C[11]
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
        p = p * r + _C[0]
        p = _times_power(p, shifted)
        share[i] = p
        total[i] += p
        h[i] += entry * p


@njit(error_model="numpy", **_INNER)
def _invert(total, h, m, ratio, products):  # type: ignore[no-untyped-def]
    """Multiply the products by h/total of each person, and replace both by their reciprocals."""
    for i in range(m):
        inverse = 1.0 / (total[i] * h[i])
        old = h[i]
        h[i] = inverse * total[i]
        total[i] = inverse * old
        ratio[i] = total[i] * old
    padded = (m + LANES - 1) // LANES * LANES
    for i in range(m, padded):
        ratio[i] = 1.0
    for start in range(0, padded, LANES):
        for i in range(LANES):
            products[i] *= ratio[start + i]


@njit(fastmath={"reassoc", "contract"}, **_INNER)
def _pull(share, entry, m, total, h):  # type: ignore[no-untyped-def]
    """Replace shares by the derivative with respect to their logits, and return its sum."""
    added = 0.0
    for i in range(m):
        share[i] *= entry * h[i] - total[i]
        added += share[i]
    return added


@njit(fastmath={"reassoc", "contract"}, **_INNER)
def _add_slopes(one, two, three, four, by_logit, slope, j, c):  # type: ignore[no-untyped-def]
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
