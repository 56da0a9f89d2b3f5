"""Hyperplanes of projective geometries: few sets in which all pairs of categories meet equally often.

For q near e^ε + 1 they do nearly what subset selection does with all sets of its size [1]_. The search for the best
family begins with them.

References
----------
.. [1] V. Feldman, J. Nelson, H. Nguyen and K. Talwar (2022), Private frequency estimation via projective geometry,
   ICML.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "hyperplanes", "n_hyperplanes"]

# Each order q = p^e with p, and the lower coefficients of an irreducible polynomial x^e + … over the integers modulo p.
_FIELDS = {
    2: (2, (0,)),
    3: (3, (0,)),
    4: (2, (1, 1)),
    5: (5, (0,)),
    7: (7, (0,)),
    8: (2, (1, 1, 0)),
    9: (3, (1, 0)),
    11: (11, (0,)),
    13: (13, (0,)),
}
ORDERS = tuple(_FIELDS)


def hyperplanes(k: int, order: int) -> NDArray[np.bool_]:
    """Return the hyperplanes of the smallest projective geometry over the field of `order` that has K points.

    Returns
    -------
    array of bool, shape (m, K)
        The sets, of K of the points; each is in equally many hyperplanes, and each pair of them too.
    """
    dimension = _dimension(k, order)
    add, multiply = _tables(order)
    points = np.array(
        [
            (0,) * lead + (1,) + rest
            for lead in range(dimension)
            for rest in itertools.product(range(order), repeat=dimension - lead - 1)
        ]
    )
    # Points that are next to each other lie on common planes: without an order, sets have more equal sizes.
    held = points[np.random.default_rng(order).permutation(len(points))[:k]]
    products = np.zeros((len(points), k), dtype=np.int64)
    for axis in range(dimension):
        products = add[products, multiply[points[:, axis, None], held[None, :, axis]]]
    return np.asarray(products == 0)


def n_hyperplanes(k: int, order: int) -> int:
    """Return how many hyperplanes that geometry has, which is also how many points."""
    return _n_points(order, _dimension(k, order))


def _dimension(k: int, order: int) -> int:
    """Return the number of coordinates of the points."""
    dimension = 2
    while _n_points(order, dimension) < k:
        dimension += 1
    return dimension


def _n_points(order: int, dimension: int) -> int:
    """Return how many points have so many coordinates, of which multiples are one point."""
    return sum(order**power for power in range(dimension))


def _tables(order: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tables of addition and multiplication; an element is the number whose digits, base p, it has."""
    p, lower = _FIELDS[order]
    degree = len(lower)
    digits = np.array([[element // p**i % p for i in range(degree)] for element in range(order)])
    places = p ** np.arange(degree)
    add = (digits[:, None] + digits[None]) % p @ places
    multiply = np.zeros((order, order), dtype=np.int64)
    for first, second in itertools.product(range(order), repeat=2):
        product = np.convolve(digits[first], digits[second])
        for power in range(len(product) - 1, degree - 1, -1):
            product[power - degree : power] -= product[power] * np.array(lower)
        multiply[first, second] = product[:degree] % p @ places
    return add, multiply
