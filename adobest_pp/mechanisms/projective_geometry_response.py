"""Projective geometry response: the answer is a point, likelier if it is orthogonal to the point of the truth.

Points are those of PG(t−1, q): vectors of t coordinates in the field of q elements, whose first nonzero coordinate is
1. Read as digits in base q, they are the numbers q^j … 2q^j − 1 for j = 0 … t−1. Points are in the order of these
numbers, so the geometries of fewer dimensions come first. Two vectors are orthogonal if the sum of the products of
their coordinates is 0.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from adobest_pp._checks import check_epsilon, check_integer, check_n_categories
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import PROJECTIVE
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, NumberedMechanism, Published
from adobest_pp.mechanisms.exact import UNIT, Source

# If there are too many answers to count each of them, a check of fit looks at this many categories, and at this many
# points that stand for no category.
_MAX_NAMED, _MAX_SPARE = 200, 50

# Fields whose order is a power of a prime: the prime, and the coefficients of an irreducible polynomial as digits.
# Above 32 the next prime is so near that its error is the same to a thousandth.
_POLYNOMIALS = {4: (2, 7), 8: (2, 11), 9: (3, 10), 16: (2, 19), 25: (5, 27), 27: (3, 34), 32: (2, 37)}
MAX_ORDER, MAX_POINTS = 1 << 20, 1 << 24
# With the default order, the sums over the points orthogonal to each point take at most this many additions, and this
# many more for each category: a few milliseconds.
_WORK, _WORK_EACH = 10**8, 1000


@dataclass(frozen=True, init=False)
class ProjectiveGeometryResponse(NumberedMechanism):
    """Projective geometry response: nearly the error of subset selection, with answers as short as Hadamard's [1]_.

    A category is a point of a projective geometry over the field of q elements, and an answer is any point z. It is e^ε
    times as likely if it is orthogonal to the point of the truth as if it is not. Every category is orthogonal to about
    one in q points, and every two categories to one in q².

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    order : int, optional
        The order q of the field: a prime, or 4, 8, 9, 16, 25, 27 or 32. Of the orders that are quick to analyze, the
        default has the smallest squared error for even shares, the worst case; it is near e^ε + 1. For every ε below
        0.3 it is 2, the smallest.

    Notes
    -----
    The geometry is the smallest of its order that has K points. If it has more (`n_outputs` and the repr say how many),
    these stand for no category. That makes answers longer, and if K is only a few times e^ε + 1, estimates a little
    worse. With q = 2 this is Hadamard response except for one answer. With two coordinates it is randomized response.

    References
    ----------
    .. [1] V. Feldman, J. Nelson, H. L. Nguyen and K. Talwar (2022), Private frequency estimation via projective
       geometry, ICML.

    Examples
    --------
    >>> from adobest_pp import ProjectiveGeometryResponse
    >>> ProjectiveGeometryResponse(1000, epsilon=1.0)
    ProjectiveGeometryResponse(n_categories=1000, epsilon=1.0, order=4, n_points=1365)
    """

    n_categories: int
    epsilon: float
    order: int
    _people_at_once = 1 << 16

    def __init__(self, n_categories: int, epsilon: float, order: int | None = None) -> None:
        k, budget = check_n_categories(n_categories), check_epsilon(epsilon)
        best = _best_order(k, budget) if order is None else _check_order(order, k)
        self._set(n_categories=k, epsilon=budget, order=best)

    def __repr__(self) -> str:
        settings = f"n_categories={self.n_categories}, epsilon={self.epsilon!r}, order={self.order}"
        return f"ProjectiveGeometryResponse({settings}, n_points={self.n_outputs})"

    @cached_property
    def dimension(self) -> int:
        """The number t of coordinates of a point."""
        return _dimension(self.n_categories, self.order)

    @property
    def n_outputs(self) -> int:
        """The number of points, (q^t − 1)/(q − 1), each of which is a possible answer."""
        return _n_points(self.order, self.dimension)

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw whether the answer is orthogonal to the truth, and one of the points that are, or are not."""
        q, t, field = self.order, self.dimension, self._field
        near, far = _n_points(q, t - 1), q ** (t - 1)
        is_near = source.bernoulli(near * self._keep, near * self._keep + far * UNIT, x.size)
        # The first nonzero coordinate of the truth is 1. The other coordinates of the answer are those of a point with
        # one coordinate less, or any; this one then makes the product 0 or 1. Both cases are drawn: equal work for all.
        point, vector = source.below(near, x.size), source.below(far, x.size)
        truth = coordinates(_number(x, q, t), q, t)
        others = coordinates(np.where(is_near, _number(point, q, t), vector), q, t)
        first = (truth != 0).argmax(axis=1)[:, None]
        place = np.arange(t)
        # `others` begins with a 0, which moves to the place of this coordinate.
        moved = np.where(place < first, np.roll(others, -1, axis=1), others)
        answer = np.where(place == first, 0, moved)
        own = field.add(1 - is_near.astype(np.int64), field.negative(field.dot(truth, answer)))
        answer = np.where(place == first, own[:, None], answer)
        return _point(_scaled(answer, field), q)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: the first point, which is orthogonal to the second and not to itself."""
        yield AuditCase(0, [0], [1, 0], np.array([[self._keep, UNIT]], dtype=object))

    def support(self, answers: Answers) -> Masks:
        """Return the categories whose points are orthogonal to the answers."""
        distinct, place = np.unique(answers.astype(np.int64), return_inverse=True)
        if distinct.size < answers.size:
            return np.asarray(self.support(distinct)[place])
        points = self._points(np.arange(self.n_categories))
        return np.asarray(self._field.dot(self._points(distinct)[:, None], points) == 0)[place]

    def _is_member(self, x: int, answers: Integers) -> Masks:
        return np.asarray(self._field.dot(self._points(answers), self._points(np.array([x]))) == 0)

    def structure(self) -> Integers:
        """Return the block of the sums over orthogonal points: the field and the number of coordinates."""
        tables = np.concatenate([self._field.sums.ravel(), self._field.products.ravel()])
        return np.append([PROJECTIVE, 5 + tables.size, self.n_outputs, self.order, self.dimension], tables)

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count each answer or, if there are too many, those orthogonal to a listed category or to a spare point.

        A spare point stands for no category, so the count that is expected there does not depend on θ.
        """
        each = super().answer_counts(answers, published, theta, listed)
        if each is not None:
            return each
        n, q, t, k = len(answers), self.order, self.dimension, self.n_categories
        named = listed[:: -(-listed.size // _MAX_NAMED)]
        n_spare = min(_MAX_SPARE, self.n_outputs - k)
        numbers = np.append(named, np.linspace(k, self.n_outputs - 1, n_spare).astype(np.int64))
        points, slope = self._points(numbers), np.zeros((numbers.size, k))
        truth, other = self.naming()
        slope[np.arange(named.size), named] = n * (truth - other)
        distinct, count = np.unique(answers.astype(np.int64), return_counts=True)
        observed = np.array([count @ (self._field.dot(self._points(distinct), point) == 0) for point in points])
        # Points orthogonal to two, and to a third: fewer unless the third is on the line through the two.
        both, all_three = _n_points(q, t - 2), _n_points(q, t - 3)
        odds = math.expm1(self.epsilon)
        line = self._line_masses(points, theta)
        joint = self._weight * (both + odds * (all_three + (both - all_three) * line))
        single = other + slope @ theta / n
        np.fill_diagonal(joint, single)
        covariance = n * (joint - np.outer(single, single))
        return Counts(observed.astype(np.float64), np.full(numbers.size, n * other), slope, covariance)

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        near, both = _n_points(self.order, self.dimension - 1), _n_points(self.order, self.dimension - 2)
        odds = math.exp(self.epsilon)
        return near * odds * self._weight, (both * odds + near - both) * self._weight

    def drawing(self) -> Drawing:
        """Draw a point that is orthogonal to that of the truth, or one that is not."""
        return self._drawing("draw_point", np.append(self.naming()[0], self.structure())[None])

    @property
    def _weight(self) -> float:
        """The probability w of an answer that is not orthogonal to the truth."""
        q, t = self.order, self.dimension
        return float(1 / (_n_points(q, t - 1) * math.exp(self.epsilon) + q ** (t - 1)))

    @property
    def _field(self) -> "Field":
        return field_of(self.order)

    def _points(self, numbers: Integers) -> Integers:
        """Return the coordinates of points, of shape (n, t)."""
        return coordinates(_number(numbers, self.order, self.dimension), self.order, self.dimension)

    def _line_masses(self, points: Integers, theta: Floats) -> Floats:
        """Return θ of the categories on the line through every two points, of shape (n, n)."""
        field, q, k = self._field, self.order, self.n_categories
        held = np.append(theta, 0.0)
        alone = held[np.minimum(_point(points, q), k)]
        masses = np.add.outer(alone, alone)
        for factor in range(1, q):
            third = field.add(points[:, None], field.multiply(np.full_like(points, factor), points))
            # A point and itself have no line: the diagonal is not used.
            masses += held[np.clip(_point(_scaled(third, field), q), 0, k)]
        return np.asarray(masses)


# The geometry.


def _n_points(q: int, t: int) -> int:
    """Return the number of points with t coordinates, none if t is not positive."""
    return int((q ** max(t, 0) - 1) // (q - 1))


def _dimension(k: int, q: int) -> int:
    """Return the smallest t with which there are k points."""
    t = 2
    while _n_points(q, t) < k:
        t += 1
    return t


def _number(points: Integers, q: int, t: int) -> Integers:
    """Return the coordinates of the points 0, 1, … as digits of one number."""
    first = np.array([_n_points(q, j) for j in range(t + 1)])
    j = np.searchsorted(first, points, side="right") - 1
    return np.asarray(points - first[j] + q**j)


def coordinates(numbers: Integers, q: int, t: int) -> Integers:
    """Return the t digits of numbers in base q, along a new last axis."""
    return np.asarray(numbers[..., None] // q ** np.arange(t - 1, -1, -1, dtype=np.int64) % q)


def _point(coordinates: Integers, q: int) -> Integers:
    """Return the indices of points with these coordinates: the inverse of `_number` and `coordinates`."""
    t = coordinates.shape[-1]
    powers = q ** np.arange(t - 1, -1, -1, dtype=np.int64)
    last = t - 1 - (coordinates != 0).argmax(axis=-1)
    first = np.array([_n_points(q, j) for j in range(t)])
    return np.asarray(coordinates @ powers - q**last + first[last])


def _scaled(vectors: Integers, field: "Field") -> Integers:
    """Return multiples of nonzero vectors whose first nonzero coordinate is 1."""
    first = (vectors != 0).argmax(axis=-1)[..., None]
    leading = np.take_along_axis(vectors, first, axis=-1)
    return field.multiply(vectors, field.inverse(leading))


# The field.


class Field:
    """The field of q elements 0 … q−1: integers modulo a prime, or the table of a polynomial's remainders.

    Attributes
    ----------
    order : int
        The number q of elements.
    sums, products : array of shape (q, q)
        The tables; empty if q is a prime.
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self.sums = self.products = np.zeros((0, 0), dtype=np.int64)
        if order in _POLYNOMIALS:
            self.sums, self.products = _tables(order, *_POLYNOMIALS[order])

    def add(self, a: Integers, b: Integers) -> Integers:
        """Return a + b."""
        return np.asarray(self.sums[a, b] if len(self.sums) else (a + b) % self.order)

    def multiply(self, a: Integers, b: Integers) -> Integers:
        """Return a · b."""
        return np.asarray(self.products[a, b] if len(self.products) else a * b % self.order)

    def negative(self, a: Integers) -> Integers:
        """Return −a: the product of a with −1."""
        minus = int(np.flatnonzero(self.sums[1] == 0)[0]) if len(self.sums) else self.order - 1
        return self.multiply(np.full_like(a, minus), a)

    def inverse(self, a: Integers) -> Integers:
        """Return 1/a as a^(q−2), which takes the same number of products for every a."""
        result = np.ones_like(a)
        for bit in bin(self.order - 2)[2:]:
            result = self.multiply(result, result)
            result = self.multiply(result, a) if bit == "1" else result
        return result

    def dot(self, a: Integers, b: Integers) -> Integers:
        """Return the sum of the products along the last axis."""
        total = np.zeros((), dtype=np.int64)
        for i in range(a.shape[-1]):
            total = self.add(total, self.multiply(a[..., i], b[..., i]))
        return total


@lru_cache(maxsize=8)
def field_of(order: int) -> Field:
    """Return the field of this order, which is built once."""
    return Field(order)


def _tables(q: int, prime: int, polynomial: int) -> tuple[Integers, Integers]:
    """Return sums and products of polynomials whose coefficients are the digits of 0 … q−1 in base `prime`."""
    n = round(math.log(q, prime))
    digits = coordinates(np.arange(q), prime, n)[:, ::-1]
    modulus = coordinates(np.array([polynomial]), prime, n + 1)[0, ::-1]
    powers = prime ** np.arange(n)
    product = np.zeros((q, q, 2 * n - 1), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            product[..., i + j] += np.multiply.outer(digits[:, i], digits[:, j])
    for i in range(2 * n - 2, n - 1, -1):  # x^i is x^(i−n) times the remainder of x^n
        product[..., i - n : i] -= product[..., i, None] * modulus[:n]
    return (digits[:, None] + digits) % prime @ powers, product[..., :n] % prime @ powers


def _check_order(order: object, k: int) -> int:
    """Return the order of a field if we have it and its geometry of k points is not too large, or raise ValueError."""
    value = check_integer(order, "order", 2, MAX_ORDER)
    if value not in _POLYNOMIALS and any(value % i == 0 for i in range(2, math.isqrt(value) + 1)):
        raise ValueError(f"order must be a prime, or {', '.join(map(str, _POLYNOMIALS))}, got {value}")
    points = _n_points(value, _dimension(k, value))
    if points > MAX_POINTS:
        raise ValueError(f"order must have a geometry of at most {MAX_POINTS:,} points, got {value} with {points:,}")
    return value


def _best_order(k: int, epsilon: float) -> int:
    """Return the default order; see `ProjectiveGeometryResponse`."""
    odds = math.exp(epsilon)
    # Orders far above e^ε + 1 are worse, and the first prime of at least K − 1 has randomized response already.
    most = int(min(8 * (odds + 1), 2 * k + 2, MAX_ORDER))
    is_prime = np.ones(most + 1, dtype=bool)
    is_prime[:2] = False
    for i in range(2, math.isqrt(most) + 1):
        is_prime[i * i :: i] = False
    best = (math.inf, 2)
    for q in sorted([*np.flatnonzero(is_prime).tolist(), *(q for q in _POLYNOMIALS if q <= most)]):
        t = _dimension(k, q)
        if _n_points(q, t) * (1 + q * (t - 2)) <= _WORK + _WORK_EACH * k:
            best = min(best, (_even_error(k, epsilon, q, t), q))
        if t == 2:  # with more answers, randomized response is worse
            break
    return best[1]


def _even_error(k: int, epsilon: float, q: int, t: int) -> float:
    """Return n times the summed variance of the best estimate at even shares, if the first K points are categories."""
    gain = math.expm1(max(epsilon, 1e-100))  # whose square is not zero
    weight = 1 / (_n_points(q, t - 1) * gain + _n_points(q, t))
    return _inverse_trace(k, q, t, 1.0, gain / k) / (weight * gain**2)


def _inverse_trace(k: int, q: int, t: int, base: float, slope: float) -> float:
    """Return the trace of the inverse of M = Σ_z 1_z 1_zᵀ/(base + slope·|z|), on vectors whose sum is zero.

    The sets z are the hyperplanes, restricted to the first k points. These points are P = (0, …, 0, 1), the other q
    points of each of L lines through P, and B points of one more line, the last. Seen from P, the L lines are the first
    L points of the geometry with one coordinate less. A hyperplane without P has one point of every line. So M is

    - q^(t−2)/(base + slope·L) on vectors whose sum on each of the L lines is zero, less a correction, since hyperplanes
      through one of the B points have less weight; of its eigenvalues we use the mean and the variance;
    - q^(t−2)/(base + slope·(L+1)) on vectors whose sum on the last line is zero;
    - q times the M of the smaller geometry on vectors that are constant on each of the L lines;
    - a matrix of the three remaining directions: the sum over the L lines, the sum over the last line, and P.

    Near the best order, the relative error is below 0.0002 with two and three coordinates. With more coordinates, some
    counts are replaced with their means: it is about a thousandth from K = 100 on, and below a hundredth for any K.
    """

    def s(size: float) -> float:
        return 1 / (base + slope * size)

    if t == 2:
        return (k - 1) / s(1)
    lines, rest = divmod(k - 1, q)
    here, below, lower, least = q ** (t - 2), *(_n_points(q, t - i) for i in (1, 2, 3))
    result = max(rest - 1, 0) / (here * s(lines + 1))
    result += _inverse_trace(lines, q, t - 1, base + slope * (1 + rest * least / lower), slope * q) / q
    loss = s(lines) - s(lines + 1)
    mean = here * (s(lines) - loss * rest / q)
    coplanar = (lines - 1) * (q - 1) / (below - 2)  # of the other used lines, with a used line and the last
    variance = (here / q * loss) ** 2 * coplanar * rest * (q - rest) / (q - 1)
    result += (q - 1) * lines / mean * (1 + variance / mean**2)
    # Hyperplanes through P, without the last line and with it: how many there are, the sum of their numbers of used
    # lines, and the sum of the squares. We assume that some have `least`, the fewest, and all others equally many.
    sums = lines * np.array([lower, lower + (lines - 1) * least])
    with_last = lines * np.array([least, least + coplanar * least + (lines - 1 - coplanar) * _n_points(q, t - 4)])
    kinds = []
    for number, (held, squares), has_last in ((below - lower, sums - with_last, 0), (lower, with_last, 1)):
        above = held - number * least
        step = (squares - 2 * least * held + number * least**2) / above if above > 0 else 1.0
        kinds += [(above / step, least + step, has_last), (number - above / step, least, has_last)]
    total, last = math.sqrt(q * lines), math.sqrt(rest)  # the norms of the sums
    matrix = np.zeros((3, 3))
    for number, held, has_last in kinds:
        row = np.array([held * q / total, last * has_last, 1.0])
        matrix += number * s(1 + held * q + rest * has_last) * np.outer(row, row)
    for number, has_last in ((q - rest, 0), (rest, 1)):
        row = np.array([lines / total, has_last / max(last, 1), 0.0])
        matrix += number * here * s(lines + has_last) * np.outer(row, row)
    ones, used = np.array([total, last, 1.0]), [0, 1, 2] if rest else [0, 2]
    inverse = np.linalg.inv(matrix[np.ix_(used, used)])
    shift = inverse @ ones[used]
    return float(result + np.trace(inverse) - shift @ shift / (ones[used] @ shift))
