"""Compiled functions that draw one answer of a person with frequencies θ, for simulation and predictive draws only.

Each takes a generator, θ, the published row of `subsets`, `subsets` and the mechanism's table. Only this file of the
mechanisms needs Numba; no device loads it.

`simulate_answer` is RRRR for the online loop and for predictive draws. ``RRRR.privatize(x, rng=...)`` instead runs the
code of the device with another source of randomness, so a test of one is a test of the other.
"""

import numpy as np
from numba import njit

from adobest_pp.mechanisms.rrrr import Coefficients
from adobest_pp.transforms import field_product, field_sum, point_number


@njit(cache=True)
def draw_truth(rng, theta):  # type: ignore[no-untyped-def]
    """Draw a category with probabilities θ."""
    truth = 0
    remaining = rng.random() - theta[0]
    while remaining >= 0 and truth < theta.size - 1:
        truth += 1
        remaining -= theta[truth]
    return truth


@njit(cache=True)
def draw_from_table(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw an answer 0 … m−1 from cumulative probabilities ``table[y, x]``."""
    return draw_row(rng, table, draw_truth(rng, theta))


@njit(cache=True)
def draw_row(rng, table, column):  # type: ignore[no-untyped-def]
    """Draw a row from a column of cumulative probabilities."""
    level = rng.random()
    for y in range(table.shape[0] - 1):
        if level < table[y, column]:
            return y
    return table.shape[0] - 1


@njit(cache=True)
def draw_category(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw an answer of SRR or RRRR; the rows of `table` are `Coefficients`."""
    order = np.empty(theta.size, dtype=np.int64)
    size, rest = 0, theta.size
    for i in range(theta.size):
        if subsets[row, i]:
            order[size] = i
            size += 1
        else:
            rest -= 1
            order[rest] = i
    coefficients = Coefficients(table[0], table[1], table[2], table[3], table[4])
    return simulate_answer(rng.random(), draw_truth(rng, theta), order, size, coefficients)


@njit(cache=True, error_model="numpy")
def simulate_answer(u, x, order, size, coefficients):  # type: ignore[no-untyped-def]
    """Return RRRR's answer for x under the subset ``order[:size]``, from one uniform number."""
    inner, outer, cross = coefficients.inner[size], coefficients.outer[size], coefficients.cross[size]
    place = 0
    while order[place] != x:
        place += 1
    is_member = place < size
    truth = inner + coefficients.inner_own[size] if is_member else outer + coefficients.outer_own[size]
    if u < truth:
        return x
    u -= truth
    # The other categories share the rest: `inner` for each in S, `cross` or `outer` for each outside.
    n_inside = size - is_member
    n_outside = order.size - 1 - n_inside
    # Rounding may leave u slightly too large: divided by a tiny probability, it would overflow an integer.
    if u < n_inside * inner or n_outside == 0:
        other = np.int64(min(u / inner, n_inside - 1.0))
        return order[other + (is_member and other >= place)]
    other = size + np.int64(min((u - n_inside * inner) / (cross if is_member else outer), n_outside - 1.0))
    return order[other + (not is_member and other >= place)]


@njit(cache=True)
def draw_set(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw a set of ``table[0, 1]`` categories that contains the truth with probability ``table[0, 0]``."""
    size = int(table[0, 1])
    members = np.empty(size, dtype=np.int64)
    truth = draw_truth(rng, theta)
    is_in = rng.random() < table[0, 0]
    needed, others, filled = size - is_in, theta.size - 1, 0
    for i in range(theta.size):
        if i == truth:
            taken = is_in
        else:
            taken = rng.random() * others < needed
            needed -= taken
            others -= 1
        if taken:
            members[filled] = i
            filled += 1
    return members


@njit(cache=True)
def draw_bits(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw K bits: the bit of the truth is 1 with probability ``table[0, 0]``, the others with ``table[0, 1]``."""
    truth = draw_truth(rng, theta)
    bits = np.empty(theta.size, dtype=np.int64)
    for i in range(theta.size):
        bits[i] = rng.random() < (table[0, 0] if i == truth else table[0, 1])
    return bits


@njit(cache=True)
def draw_hashed(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw a seed and one of ``table[0, 1]`` values: the hash of the truth with probability ``table[0, 0]``."""
    answer = np.empty(2, dtype=np.int64)
    answer[0] = int(rng.random() * 4294967296.0)
    answer[1] = _draw_value(rng, draw_truth(rng, theta), answer[0], table)
    return answer


@njit(cache=True)
def draw_sketched(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw one of ``table[0, 2]`` hash functions and a value, as `draw_hashed` does, as one number."""
    function = int(rng.random() * table[0, 2])
    return function * int(table[0, 1]) + _draw_value(rng, draw_truth(rng, theta), function, table)


@njit(cache=True)
def _draw_value(rng, truth, seed, table):  # type: ignore[no-untyped-def]
    n_values = int(table[0, 1])
    value = int(hash_category(np.uint32(seed), truth)) % n_values
    if rng.random() >= table[0, 0]:
        value = (value + 1 + int(rng.random() * (n_values - 1))) % n_values
    return value


@njit(cache=True)
def draw_point(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw a point: with probability ``table[0, 0]`` one orthogonal to that of the truth, otherwise another.

    The rest of the table is the block of the geometry, as `adobest_pp.transforms` reads it.
    """
    block = table[0, 1:].astype(np.int64)
    q, answer = block[3], np.empty(block[4], dtype=np.int64)
    truth = point_number(draw_truth(rng, theta), q)
    target = 0 if rng.random() < table[0, 0] else 1
    # All vectors except 0 have the same number of multiples. If 0 is drawn, draw again.
    is_zero = True
    while is_zero:
        digits, total, first = truth, 0, 0
        for i in range(answer.size):  # the last coordinate first
            answer[i] = int(rng.random() * q)
            if digits >= q:
                total = field_sum(total, field_product(digits % q, answer[i], block), block)
            elif digits == 1:  # this coordinate of the answer is chosen to make the product equal to `target`
                first, answer[i] = i, 0
            digits //= q
        while field_sum(total, answer[first], block) != target:
            answer[first] += 1
        is_zero = not answer.any()
    lead = answer.size - 1
    while answer[lead] == 0:
        lead -= 1
    inverse = 1
    while field_product(inverse, answer[lead], block) != 1:
        inverse += 1
    point, power = 0, 1
    for i in range(lead):
        point += power * (1 + field_product(inverse, answer[i], block))
        power *= q
    return point


@njit(cache=True)
def hash_category(seed, category):  # type: ignore[no-untyped-def]
    """Return xxHash32 of the category's decimal digits, as `adobest_pp.mechanisms.local_hashing` does."""
    power = 1
    length = 1
    while category // power >= 10:
        power *= 10
        length += 1
    state = np.uint64(seed) + np.uint64(374761393) + np.uint64(length)
    if length >= 4:
        word = np.uint64(0)
        for i in range(4):
            word |= np.uint64(48 + (category // power) % 10) << np.uint64(8 * i)
            power //= 10
        state = _rotated(state + word * np.uint64(3266489917), 17) * np.uint64(668265263)
    while power > 0:
        state = _rotated(state + np.uint64(48 + (category // power) % 10) * np.uint64(374761393), 11)
        state *= np.uint64(2654435761)
        power //= 10
    state &= np.uint64(0xFFFFFFFF)
    state = ((state ^ (state >> np.uint64(15))) * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    state = ((state ^ (state >> np.uint64(13))) * np.uint64(3266489917)) & np.uint64(0xFFFFFFFF)
    return state ^ (state >> np.uint64(16))


@njit(cache=True)
def _rotated(state, bits):  # type: ignore[no-untyped-def]
    state &= np.uint64(0xFFFFFFFF)
    return ((state << np.uint64(bits)) | (state >> np.uint64(32 - bits))) & np.uint64(0xFFFFFFFF)


@njit(cache=True)
def draw_waves(rng, theta, row, subsets, table):  # type: ignore[no-untyped-def]
    """Draw all waves of one person; below ``table[0] = (waves, permanent answers)`` are two cumulative tables."""
    waves, kept = int(table[0, 0]), int(table[0, 1])
    column = draw_truth(rng, theta)
    permanent = draw_row(rng, table[1 : 1 + kept], column)
    answer = np.empty(waves, dtype=np.int64)
    for wave in range(waves):
        answer[wave] = draw_row(rng, table[1 + kept :], permanent)
    return answer
