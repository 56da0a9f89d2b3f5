"""Products with the support sets of a mechanism, compiled: the masses θ(A) of all sets at once, and the way back.

A mechanism with thousands of categories and answers cannot list the members of its sets, but may have a faster way to
multiply by them. It describes this way in a block of integers (`ExtremalMechanism.structure`), which
`Evidence.structure` keeps:

    [kind, length of the block, number of answers m, …what the kind needs]

Evidence may have several blocks, one after the other. Within a block, set z belongs to answer z, for z = 0 … m−1.

Each kind has a branch in each of `block_masses`, `add_block` and `holds`. These choose at run time, so their callers
are compiled only twice: for all kinds, and for evidence without structure. Tests compare every kind with the support
sets that its mechanism lists.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from adobest_pp._numerics import copy_into
from adobest_pp.evidence import HADAMARD, PROJECTIVE, SKETCH

# All blocks, whatever their kinds: these are the functions that the rest of the package calls.


def blocks(structure: Any) -> Any:
    """Return the blocks of `Evidence.structure`, or None if there are none.

    The functions below do nothing with None. The compiler knows it from the type of `NO_STRUCTURE`, and leaves them
    out. With them, all kernels of a cold `adobest compare` took twice as long to compile.
    """
    return structure if structure.size else None


@overload(blocks)
def _compiled_blocks(structure):  # type: ignore[no-untyped-def]
    if structure.dtype == types.uint8:
        return lambda structure: None
    return lambda structure: structure


@njit(cache=True)
def n_structured(structure):  # type: ignore[no-untyped-def]
    """Return the number of sets of all blocks."""
    count, at = 0, 0
    while at < structure.size:
        count += structure[at + 2]
        at += structure[at + 1]
    return count


@njit(cache=True)
def structured_masses(theta, structure, masses):  # type: ignore[no-untyped-def]
    """Write θ(A) of every set of all blocks into `masses`."""
    if structure is None:
        return
    first, at = 0, 0
    while at < structure.size:
        block = structure[at : at + structure[at + 1]]
        block_masses(theta, block, masses[first : first + block[2]])
        first, at = first + block[2], at + block.size


@njit(cache=True)
def add_structured(pull, structure, slope):  # type: ignore[no-untyped-def]
    """Add Σ_A pull[A]·1[x ∈ A] over the sets of all blocks to `slope[x]`, for every category x."""
    if structure is None:
        return
    first, at = 0, 0
    while at < structure.size:
        block = structure[at : at + structure[at + 1]]
        add_block(pull[first : first + block[2]], block, slope)
        first, at = first + block[2], at + block.size


@njit(cache=True)
def is_member(x, z, structure):  # type: ignore[no-untyped-def]
    """Return whether category x is in set z, numbered over all blocks."""
    if structure is None:
        return False
    at = 0
    while z >= structure[at + 2]:
        z -= structure[at + 2]
        at += structure[at + 1]
    return holds(x, z, structure[at : at + structure[at + 1]])


@njit(cache=True)
def structured_masks(sets, structure, n_categories):  # type: ignore[no-untyped-def]
    """Return some sets as masks, of shape (V, K). They should be few."""
    masks = np.empty((sets.size, n_categories), dtype=np.bool_)
    for v in range(sets.size):
        for x in range(n_categories):
            masks[v, x] = is_member(x, sets[v], structure)
    return masks


# One block: a branch for each kind.
#
# Hadamard response: category x is in set z if H[x+1, z] is +1. With φ = (0, θ, 0 …), θ(A_z) = (Σθ + (Hφ)_z)/2.
#
# Projective geometry response: category x is in set z if the points x and z are orthogonal, over the field of q
# elements. A block has q, the number t of coordinates and, if q is not a prime, the sums and products of the field.
# Points are numbered as in `adobest_pp.mechanisms.projective_geometry_response`. Categories and answers have the same
# numbers, so the transpose is the same sum.
#
# Count-mean sketch: category x is in set z if function z // g hashes it to z % g. A block has g, K, a shift s, and the
# values of all categories under all functions: 2^s values in each integer, and new integers for each function. There
# are about as many functions as categories, so each value has as few bits as g allows.


@njit(cache=True)
def block_masses(theta, block, masses):  # type: ignore[no-untyped-def]
    """Write θ(A) of every set of one block into `masses`, of shape (m,)."""
    if block[0] == HADAMARD:
        total = 0.0
        masses[:] = 0.0
        for x in range(theta.size):
            masses[x + 1] = theta[x]
            total += theta[x]
        walsh_hadamard(masses)
        for z in range(masses.size):
            masses[z] = 0.5 * (total + masses[z])
    elif block[0] == PROJECTIVE:
        values = np.zeros(masses.size)
        copy_into(values[: theta.size], theta)
        _orthogonal_sums(values, block, masses)
    elif block[0] == SKETCH:
        g, shift = block[3], block[5]
        masses[:] = 0.0
        for function in range(masses.size // g):
            into, words = masses[function * g : (function + 1) * g], sketch_words(function, block)
            for x in range(theta.size):
                into[sketch_value(x, words, shift)] += theta[x]


@njit(cache=True)
def add_block(pull, block, slope):  # type: ignore[no-untyped-def]
    """Add Σ_A pull[A]·1[x ∈ A] over the sets of one block to `slope[x]`."""
    if block[0] == HADAMARD:
        turned = pull.copy()
        walsh_hadamard(turned)
        for x in range(slope.size):
            slope[x] += 0.5 * (turned[0] + turned[x + 1])
    elif block[0] == PROJECTIVE:
        sums = np.empty(pull.size)
        _orthogonal_sums(pull, block, sums)
        for x in range(slope.size):
            slope[x] += sums[x]
    elif block[0] == SKETCH:
        g, shift = block[3], block[5]
        for function in range(pull.size // g):
            out, words = pull[function * g : (function + 1) * g], sketch_words(function, block)
            for x in range(slope.size):
                slope[x] += out[sketch_value(x, words, shift)]


@njit(cache=True)
def holds(x, z, block):  # type: ignore[no-untyped-def]
    """Return whether category x is in set z of one block."""
    if block[0] == HADAMARD:
        common, odd = (x + 1) & z, False
        while common:
            common &= common - 1
            odd = not odd
        return not odd
    if block[0] == PROJECTIVE:
        q, total = block[3], 0
        one, two = point_number(x, q), point_number(z, q)
        while one and two:
            total = field_sum(total, field_product(one % q, two % q, block), block)
            one //= q
            two //= q
        return total == 0
    if block[0] == SKETCH:
        return sketch_value(x, sketch_words(z // block[3], block), block[5]) == z % block[3]
    return False


@njit(cache=True)
def sketch_words(function, block):  # type: ignore[no-untyped-def]
    """Return the integers of a sketch with the values of all categories under one function."""
    width = ((block[4] - 1) >> block[5]) + 1
    return block[6 + function * width : 6 + (function + 1) * width]


@njit(cache=True, inline="always")
def sketch_value(x, words, shift):  # type: ignore[no-untyped-def]
    """Return the value of category x, given the integers of a function."""
    place = x & ((1 << shift) - 1)
    return (words[x >> shift] >> (place << (6 - shift))) & ((1 << (64 >> shift)) - 1)


# The transform of Hadamard response.


@njit(cache=True)
def walsh_hadamard(values):  # type: ignore[no-untyped-def]
    """Multiply a vector by Sylvester's Hadamard matrix of its length, a power of two, in place: O(m log m).

    Three levels of neighbors are done together, and then two levels at a time, which saves passes over the memory.
    """
    n, width = values.size, 1
    if n >= 8:
        for i in range(0, n, 8):
            one, two = values[i] + values[i + 1], values[i] - values[i + 1]
            three, four = values[i + 2] + values[i + 3], values[i + 2] - values[i + 3]
            five, six = values[i + 4] + values[i + 5], values[i + 4] - values[i + 5]
            seven, eight = values[i + 6] + values[i + 7], values[i + 6] - values[i + 7]
            one, two, three, four = one + three, two + four, one - three, two - four
            five, six, seven, eight = five + seven, six + eight, five - seven, six - eight
            values[i], values[i + 1], values[i + 2], values[i + 3] = one + five, two + six, three + seven, four + eight
            values[i + 4], values[i + 5] = one - five, two - six
            values[i + 6], values[i + 7] = three - seven, four - eight
        width = 8
    _walsh_hadamard_of_rows(values, width)


@njit(cache=True)
def _walsh_hadamard_of_rows(values, width):  # type: ignore[no-untyped-def]
    """Do the same with rows of `width` numbers in place of single numbers."""
    n = values.size
    while 2 * width < n:
        for start in range(0, n, 4 * width):
            one, two = values[start : start + width], values[start + width : start + 2 * width]
            three = values[start + 2 * width : start + 3 * width]
            four = values[start + 3 * width : start + 4 * width]
            for j in range(width):
                sum1, difference1 = one[j] + two[j], one[j] - two[j]
                sum2, difference2 = three[j] + four[j], three[j] - four[j]
                one[j], two[j] = sum1 + sum2, difference1 + difference2
                three[j], four[j] = sum1 - sum2, difference1 - difference2
        width *= 4
    if width < n:
        for j in range(width):
            first, second = values[j], values[j + width]
            values[j], values[j + width] = first + second, first - second


# The sums of projective geometry response.


@njit(cache=True)
def field_sum(a, b, block):  # type: ignore[no-untyped-def]
    """Return a + b in the field of a block."""
    q = block[3]
    if block.size > 5:
        return block[5 + a * q + b]
    return a + b if a + b < q else a + b - q


@njit(cache=True)
def field_product(a, b, block):  # type: ignore[no-untyped-def]
    """Return a · b in the field of a block."""
    q = block[3]
    return block[5 + q * q + a * q + b] if block.size > 5 else a * b % q


@njit(cache=True)
def point_number(point, q):  # type: ignore[no-untyped-def]
    """Return the coordinates of a point as digits of a number in base q."""
    power = 1
    while point >= power:
        point -= power
        power *= q
    return point + power


@njit(cache=True)
def _orthogonal_sums(values, block, sums):  # type: ignore[no-untyped-def]
    """Write the sum of `values` over the points orthogonal to each point, for all of them: O(m·q·t).

    For points x = (1, a) and a direction y, let R(y, c) = Σ_a value(1, a)·1[a·y = c], an affine Radon transform. The
    points (1, a) orthogonal to z = (0, y) have the sum R(y, 0), and those orthogonal to z = (1, f·y) have the sum
    R(y, c) with c·f = −1. The points x = (0, x′) are those of the geometry with one coordinate less, and x′ must be
    orthogonal to the same y.
    """
    q, t = block[3], block[4]
    minus = 1
    while field_sum(minus, 1, block) != 0:
        minus += 1
    # For each factor f: −1/f, and f times the vectors whose digits are 0, 1, 2, …
    opposite, products = np.zeros(q, dtype=np.int64), np.zeros((q, q if t > 2 else 1), dtype=np.int64)
    for factor in range(1, q):
        while field_product(opposite[factor], factor, block) != minus:
            opposite[factor] += 1
        for low in range(products.shape[1]):
            products[factor, low] = field_product(factor, low, block)
    multiples = _by_digits(products, q ** max(t - 3, 0))
    characters = _by_digits(_characters(block), q ** max(t - 3, 0)) if q & (q - 1) == 0 and t > 2 else products
    rest, first, second = np.empty(q ** (t - 1)), np.empty(q ** (t - 1)), np.empty(q ** (t - 1))
    sums[0] = 0.0
    total, before, size = values[0], 1, q
    for _ in range(2, t + 1):
        # The `size` points after the `before` ones of fewer coordinates, as a function of a.
        copy_into(rest[:size], values[before : before + size])
        # Directions begin with zeros, which are summed out, and a 1. The `width` with equally many begin at `start`.
        width, start = size // q, before
        while width >= 1:
            start -= width
            radon = _radon(rest[: q * width], width, minus, block, characters, first, second)
            for factor in range(1, q):
                c, end, by_factor = opposite[factor] * width, before + factor * width, multiples[factor]
                for b in range(0, width, q):
                    into = end + q * by_factor[b // q]
                    for low in range(min(q, width)):
                        sums[into + by_factor[low]] = radon[c + b + low] + sums[start + b + low]
            for b in range(width):
                sums[start + b] += radon[b]
            for c in range(1, q):
                for b in range(width):
                    rest[b] += rest[c * width + b]
            width //= q
        # All points of fewer coordinates are orthogonal to (1, 0, …, 0), and no others.
        sums[before] = total
        total += rest[0]
        before += size
        size *= q


@njit(cache=True)
def _by_digits(table, size):  # type: ignore[no-untyped-def]
    """Apply each row of the table, a function of one digit, to every digit of the numbers 0 … size−1 (at least q)."""
    q = len(table)
    found = np.zeros((q, max(size, table.shape[1])), dtype=np.int64)
    for row in range(q):
        copy_into(found[row, : table.shape[1]], table[row])
        for b in range(q, size):
            found[row, b] = q * found[row, b // q] + found[row, b % q]
    return found


@njit(cache=True)
def _radon(values, width, minus, block, characters, first, second):  # type: ignore[no-untyped-def]
    """Return Σ_a values[c − a·b, a] for every c and b, in the same layout (q, width); a and b are vectors of digits.

    One digit of a at a time is transformed into one of b, and moved to the end, so that the others stay contiguous. If
    q is a power of two, Walsh–Hadamard transforms do all digits at once.
    """
    q = block[3]
    now, then = first[: values.size], second[: values.size]
    copy_into(now, values)
    if q & (q - 1) == 0 and width > 1:
        return _radon_of_bits(now, width, characters, then)
    stride, left = width // q, width
    if stride == 1:
        return _radon_of_one(now, then, block)
    while left > 1:
        for c in range(q):
            for b in range(q):
                into = then[(c * q + b) * stride : (c * q + b + 1) * stride]
                copy_into(into, now[c * width : c * width + stride])
                back = field_product(minus, b, block)
                for a in range(1, q):
                    begin = field_sum(c, field_product(a, back, block), block) * width + a * stride
                    out = now[begin : begin + stride]
                    for i in range(stride):
                        into[i] += out[i]
        for c in range(q):
            for b in range(q):
                for i in range(stride):
                    now[c * width + i * q + b] = then[(c * q + b) * stride + i]
        left //= q
    return now


@njit(cache=True)
def _radon_of_one(now, then, block):  # type: ignore[no-untyped-def]
    """Return the same if a is one digit. Then c is made contiguous."""
    q = block[3]
    for a in range(q):
        for c in range(q):
            then[a * q + c] = now[c * q + a]
    now[:] = 0.0
    for b in range(q):
        into = now[b * q : b * q + q]
        for a in range(q):
            shift, out = field_product(a, b, block), then[a * q : a * q + q]
            if block.size > 5:
                moved = block[5 + shift * q : 5 + shift * q + q]
                for c in range(q):
                    into[moved[c]] += out[c]
            else:
                for c in range(q - shift):
                    into[c + shift] += out[c]
                for c in range(q - shift, q):
                    into[c + shift - q] += out[c]
    for b in range(q):
        for c in range(q):
            then[c * q + b] = now[b * q + c]
    return then


@njit(cache=True)
def _characters(block):  # type: ignore[no-untyped-def]
    """Return d(d⁻¹(u)·b) for every u and b of a field of 2^r elements, of shape (q, q).

    Sums in the field are those of bits modulo 2. With ℓ(x) the lowest bit, (−1)^ℓ(x) is a character, and ℓ(γx) is the
    inner product of the bits of x with some bits d(γ).
    """
    q = block[3]
    bits, back = np.zeros(q, dtype=np.int64), np.zeros(q, dtype=np.int64)
    for gamma in range(q):
        power = 1
        while power < q:
            bits[gamma] += power * (field_product(gamma, power, block) & 1)
            power *= 2
        back[bits[gamma]] = gamma
    found = np.empty((q, q), dtype=np.int64)
    for u in range(q):
        for b in range(q):
            found[u, b] = bits[field_product(back[u], b, block)]
    return found


@njit(cache=True)
def _radon_of_bits(now, width, characters, then):  # type: ignore[no-untyped-def]
    """Return the same for a field of 2^r elements.

    Their transform over c with a character χ(γc) is Σ_{c,a} χ(γc + γb·a)·values[c, a], the Walsh–Hadamard transform of
    all values at the bits u = d(γ) and, digit by digit, d(γb). A second transform leads from u back to c.
    """
    q = len(characters)
    walsh_hadamard(now)
    scale = 1.0 / q
    for u in range(q):
        places = characters[u]
        for b in range(0, width, q):
            out = u * width + q * places[b // q]
            for low in range(q):
                then[u * width + b + low] = scale * now[out + places[low]]
    _walsh_hadamard_of_rows(then, width)
    return then
