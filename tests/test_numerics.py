"""The generator of the compiled simulations, against its definition in Python integers and against the laws it claims.

Statistical tests have fixed seeds; each says how often it would fail for a correct generator, over all seeds.
"""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from adobest_pp import _numerics as fast_random
from adobest_pp._numerics import integer, next_word, normal, seed_state, uniform

MASK = 2**64 - 1
TAIL = 3.6541528853610088


@njit
def fill_normals(state, out):
    for i in range(out.size):
        out[i] = normal(state)


@njit
def fill_integers(state, bound, out):
    for i in range(out.size):
        out[i] = integer(state, bound)


def rotated(word, by):
    return ((word << by) | (word >> (64 - by))) & MASK


def reference_words(state):
    """xoshiro256++ as Blackman and Vigna print it, in Python integers."""
    return _reference_words([int(word) for word in state])


def _reference_words(s):
    while True:
        yield (rotated((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)


def reference_integer(words, bound):
    """Lemire's method: of 2³² words, the 2³² mod bound with a small remainder are refused."""
    while True:
        product = (next(words) >> 32) * bound
        if product % 2**32 >= 2**32 % bound:
            return product >> 32


def state_before(word, seed=0):
    """A state whose next word is `word`: with s₀ = 0 the output is s₃, rotated."""
    rest = np.random.default_rng(seed).integers(0, 2**64, size=2, dtype=np.uint64)
    return np.array([0, *rest, rotated(word, 64 - 23)], dtype=np.uint64)


def test_words_of_a_published_state():
    state = np.array([1, 2, 3, 4], dtype=np.uint64)
    # The test vector of the Rust crate rand_xoshiro.
    expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205, 9973669472204895162]
    assert [int(next_word(state)) for _ in expected] == expected


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_words_against_python_integers(seed):
    state = seed_state(seed)
    words = reference_words(state)
    assert [int(next_word(state)) for _ in range(1000)] == [next(words) for _ in range(1000)]


def test_seeds():
    sequence = np.random.SeedSequence(5, spawn_key=(1,))
    np.testing.assert_array_equal(seed_state(5), seed_state(np.random.SeedSequence(5)))
    np.testing.assert_array_equal(seed_state(sequence), seed_state(np.random.SeedSequence(5, spawn_key=(1,))))
    assert len({tuple(seed_state(seed)) for seed in [5, 6, sequence, None]}) == 4


def test_a_uniform_number_is_the_upper_53_bits():
    assert uniform(state_before(0)) == 0.0
    assert uniform(state_before(MASK)) == 1 - 2**-53
    assert uniform(state_before(1 << 63)) == 0.5
    assert uniform(state_before((1 << 11) - 1)) == 0.0
    assert uniform(state_before(1 << 11)) == 2**-53


def test_uniform_numbers_are_uniform():
    """Kolmogorov–Smirnov, false alarm 1e-6."""
    state = seed_state(1)
    assert stats.kstest([uniform(state) for _ in range(100_000)], "uniform").pvalue > 1e-6


def test_the_layers_of_the_ziggurat_have_equal_areas():
    ends, density = fast_random._ENDS, fast_random._DENSITY
    layers = ends[1:-1] * np.diff(density[1:])
    bottom = ends[1] * density[1] + np.sqrt(2 * np.pi) * stats.norm.sf(ends[1])
    assert ends[1] == TAIL
    np.testing.assert_allclose(layers, bottom, rtol=1e-9)
    assert ends[0] * density[1] == pytest.approx(bottom, rel=1e-13)
    assert np.all(np.diff(ends) < 0)


@pytest.fixture(scope="module")
def normals():
    out = np.empty(4_000_000)
    fill_normals(seed_state(2), out)
    return out


def test_normal_numbers_fill_every_layer_as_they_should(normals):
    """Chi-square on the cells between the ends of all layers, both signs; false alarm 1e-6."""
    ends = fast_random._ENDS[1:]
    edges = np.concatenate([-ends, ends[-2::-1]])
    observed = np.bincount(np.searchsorted(edges, normals), minlength=edges.size + 1)
    expected = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]))) * normals.size
    assert expected.min() > 100
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_normal_numbers_by_distribution_and_moments(normals):
    """Kolmogorov–Smirnov with false alarm 1e-6; four moments within 5 standard errors, false alarm 2.3e-6 in all."""
    assert stats.kstest(normals[:1_000_000], "norm").pvalue > 1e-6
    for power, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(normals**power) - mean) < 5 * np.sqrt(variance / normals.size)


def test_normal_numbers_beyond_the_last_layer(normals):
    """How many (exact binomial) and how far (Kolmogorov–Smirnov), each with false alarm 1e-6, for either sign."""
    for side in (normals, -normals):
        beyond = side[side > TAIL]
        assert stats.binomtest(beyond.size, normals.size, stats.norm.sf(TAIL)).pvalue > 1e-6
        survival = stats.norm.sf(beyond) / stats.norm.sf(TAIL)
        assert stats.kstest(survival, "uniform").pvalue > 1e-6


def test_the_law_beyond_the_last_layer():
    """Kolmogorov–Smirnov on many draws of that part alone, false alarm 1e-6."""
    state = seed_state(5)
    beyond = np.array([fast_random._beyond_tail(state) for _ in range(100_000)])
    assert stats.kstest(stats.norm.sf(beyond) / stats.norm.sf(TAIL), "uniform").pvalue > 1e-6


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 16, 1000, 2**31 - 1, 2**31 + 1, 3 * 2**30, 2**32 - 1])
def test_integers_against_python_integers(bound):
    state = seed_state(bound)
    words = reference_words(state)
    assert [integer(state, bound) for _ in range(500)] == [reference_integer(words, bound) for _ in range(500)]


@pytest.mark.parametrize("bound", [3, 7, 1000, 2**31 + 1])
def test_integers_at_the_threshold(bound):
    """Words whose remainder is just below 2³² mod bound, at it and just above it: refused, taken, taken."""
    threshold = 2**32 % bound
    # Remainders of u·bound are multiples of the even part of bound, and its odd part has an inverse.
    even = bound & -bound
    inverse = pow(bound // even, -1, 2**32)
    for remainder, taken in [(threshold - even, False), (threshold, True), (threshold + even, True)]:
        upper = remainder // even * inverse % 2**32
        assert upper * bound % 2**32 == remainder
        state = state_before(upper << 32)
        after = state.copy()
        next_word(after)
        result = integer(state, bound)
        assert np.array_equal(state, after) == taken
        if taken:
            assert result == upper * bound >> 32


def test_integers_are_uniform():
    """Chi-square, false alarm 1e-6 each; without rejection the last would have 2 : 1 : 1 in the place of 1 : 1 : 1."""
    draws = np.empty(300_000, dtype=np.int64)
    for bound in (2, 3, 10, 1000):
        fill_integers(seed_state(3), bound, draws)
        assert stats.chisquare(np.bincount(draws, minlength=bound)).pvalue > 1e-6
    fill_integers(seed_state(3), 3 * 2**30, draws)
    assert stats.chisquare(np.bincount(draws % 3)).pvalue > 1e-6
