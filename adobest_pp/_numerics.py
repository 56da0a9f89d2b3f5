"""Numerics for compiled code: random numbers, and a little linear algebra.

The generator is xoshiro256++ [1]_, with normal and integer variates. Its state is an array of four 64-bit words from
`seed_state`, which is advanced in place. With this array a run can be repeated or resumed. It is for simulation and
sampling only; people's answers use `adobest_pp.mechanisms.exact`.

References
----------
.. [1] D. Blackman and S. Vigna (2021), Scrambled linear pseudorandom number generators, ACM TOMS 47(4).
.. [2] G. Marsaglia and W. W. Tsang (2000), The ziggurat method for generating random variables, Journal of
   Statistical Software 5(8).
.. [3] D. Lemire (2019), Fast random integer generation in an interval, ACM TOMACS 29(1).
.. [4] M. D. Vose (1991), A linear algorithm for generating random numbers with a given distribution, IEEE Transactions
   on Software Engineering 17(9).
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_LAYERS = 256
_TAIL = 3.6541528853610088  # where the bottom layer of 256 equal areas under exp(−x²/2) ends


@njit(cache=True)
def copy_into(out, values):  # type: ignore[no-untyped-def]
    """Write `values` over `out`, of the same length.

    The same as ``out[:] = values``, which takes Numba longer to compile: it also compiles functions for text, to state
    both lengths in an error.
    """
    for i in range(out.size):
        out[i] = values[i]


def seed_state(seed: int | np.random.SeedSequence | None) -> NDArray[np.uint64]:
    """Return the state of a generator for any seed."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return np.asarray(sequence.generate_state(4, np.uint64), dtype=np.uint64)


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the right ends of the layers, widest first, and the density at them."""
    area = _TAIL * math.exp(-(_TAIL**2) / 2) + math.sqrt(math.pi / 2) * math.erfc(_TAIL / math.sqrt(2))
    ends = [area / math.exp(-(_TAIL**2) / 2), _TAIL]
    while len(ends) < _LAYERS:
        ends.append(math.sqrt(-2 * math.log(area / ends[-1] + math.exp(-(ends[-1] ** 2) / 2))))
    ends.append(0.0)
    x = np.array(ends)
    return x, np.exp(-(x**2) / 2)


_ENDS, _DENSITY = _ziggurat()
_WIDTH = _ENDS[:-1] / 2.0**53
_SURE = (_ENDS[1:] / _ENDS[:-1] * 2.0**53).astype(np.uint64)
_U11, _U17, _U19, _U23, _U32, _U41, _U45 = (np.uint64(shift) for shift in (11, 17, 19, 23, 32, 41, 45))
_LAYER_BITS, _SIGN_BIT, _LOW_HALF = np.uint64(_LAYERS - 1), np.uint64(_LAYERS), np.uint64(0xFFFFFFFF)
_TWO32 = np.uint64(1 << 32)


@njit(cache=True, inline="always")
def next_word(state):  # type: ignore[no-untyped-def]
    """Return the next 64 random bits."""
    total = state[0] + state[3]
    result = ((total << _U23) | (total >> _U41)) + state[0]
    shifted = state[1] << _U17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _U45) | (state[3] >> _U19)
    return result


@njit(cache=True)
def uniform(state):  # type: ignore[no-untyped-def]
    """Return a number that is uniform on the multiples of 2⁻⁵³ in [0, 1)."""
    return np.float64(np.int64(next_word(state) >> _U11)) * 2.0**-53


@njit(cache=True)
def normal(state):  # type: ignore[no-untyped-def]
    """Return a standard normal number, by the ziggurat method [2]_."""
    while True:
        word = next_word(state)
        layer = np.int64(word & _LAYER_BITS)
        mantissa = word >> _U11
        size = np.float64(np.int64(mantissa)) * _WIDTH[layer]
        sign = -1.0 if word & _SIGN_BIT else 1.0
        if mantissa < _SURE[layer]:
            return sign * size
        if layer == 0:
            return sign * _beyond_tail(state)
        edge = _DENSITY[layer] + uniform(state) * (_DENSITY[layer + 1] - _DENSITY[layer])
        if edge < math.exp(-0.5 * size * size):
            return sign * size


@njit(cache=True)
def _beyond_tail(state):  # type: ignore[no-untyped-def]
    while True:
        excess = -math.log1p(-uniform(state)) / _TAIL
        if -2.0 * math.log1p(-uniform(state)) > excess * excess:
            return _TAIL + excess


@njit(cache=True)
def integer(state, bound):  # type: ignore[no-untyped-def]
    """Return a uniform integer from 0 to bound−1, for bound < 2³², by multiplication and rare rejection [3]_."""
    limit = np.uint64(bound)
    product = (next_word(state) >> _U32) * limit
    if (product & _LOW_HALF) < limit:
        threshold = (_TWO32 - limit) % limit
        while (product & _LOW_HALF) < threshold:
            product = (next_word(state) >> _U32) * limit
    return np.int64(product >> _U32)


@njit(cache=True)
def alias_table(weight):  # type: ignore[no-untyped-def]
    """Return thresholds and aliases for drawing i with probability proportional to its weight [4]_."""
    u = weight.size
    threshold = np.ones(u)
    alias = np.arange(u).astype(np.int32)
    total = weight.sum()
    if not total > 0.0:
        return threshold, alias
    share = weight * (u / total)
    small, large = np.empty(u, np.int64), np.empty(u, np.int64)
    n_small, n_large = 0, 0
    for i in range(u):
        if share[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        i, j = small[n_small], large[n_large - 1]
        threshold[i], alias[i] = share[i], j
        share[j] -= 1.0 - share[i]
        if share[j] < 1.0:
            n_large -= 1
            small[n_small] = j
            n_small += 1
    return threshold, alias


# The smallest normal double: a lower bound that keeps positive numbers positive.
TINY = 2.2250738585072014e-308


def zero_sum_basis(n_categories: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the vectors whose sum is zero: rows, of shape (K−1, K)."""
    return np.asarray(np.linalg.svd(np.ones((1, n_categories)))[2][1:])


@njit(cache=True)
def normalize_logs(values, least):  # type: ignore[no-untyped-def]
    """Turn logarithms into shares that sum to one, in place. Before normalizing, none is below `least`."""
    largest = -np.inf
    for i in range(values.size):
        largest = max(largest, values[i])
    total = 0.0
    for i in range(values.size):
        values[i] = max(math.exp(values[i] - largest), least)
        total += values[i]
    for i in range(values.size):
        values[i] /= total
