"""A finite mechanism given by its matrix."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import MAX_EPSILON
from adobest_pp._text import by_column
from adobest_pp.mechanisms.base import FiniteMechanism
from adobest_pp.mechanisms.exact import log_upper_bound
from adobest_pp.mechanisms.privacy import check_matrix, worst_ratio


@dataclass(frozen=True, init=False)
class Channel(FiniteMechanism):
    """A mechanism given by its transition matrix. Its ε is the privacy loss of the matrix.

    Parameters
    ----------
    matrix : array of shape (outputs, K)
        ``G[y, x] = P(Y=y | X=x)``. Each column must sum to one up to rounding, and is divided by its exact sum.

    Attributes
    ----------
    epsilon : float
        The privacy loss of the matrix, from exact arithmetic.

    See Also
    --------
    SetFamily : A mechanism given by sets, whose likelihood costs less.

    Examples
    --------
    >>> from adobest_pp import Channel
    >>> mechanism = Channel([[0.6, 0.3, 0.3], [0.4, 0.7, 0.7]])
    >>> round(mechanism.epsilon, 4)
    0.6931
    >>> mechanism.check_answers([0, 1, 1])
    array([0, 1, 1])
    """

    matrix: tuple[tuple[float, ...], ...] = field(repr=False)
    n_categories: int = field(init=False)
    epsilon: float = field(init=False)

    def __init__(self, matrix: ArrayLike) -> None:
        rows = check_matrix(by_column(matrix, None, "matrix"))
        self._set(matrix=tuple(map(tuple, rows.tolist())), n_categories=rows.shape[1])
        self._set(epsilon=loss_of_table(self, "matrix"))

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the entries of the matrix times a power of two that makes them integers."""
        ratios = [[value.as_integer_ratio() for value in row] for row in self.matrix]
        unit = max(denominator for row in ratios for _, denominator in row)
        return np.array([[top * (unit // bottom) for top, bottom in row] for row in ratios], dtype=object)


def loss_of_table(mechanism: FiniteMechanism, name: str) -> float:
    """Return the privacy loss of exact weights, or raise ValueError; `name` is the argument that they come from."""
    for y, row in enumerate(mechanism._weights):
        if any(row) and not all(row):
            raise ValueError(
                f"{name} must give each answer a positive probability for every category or for none, got answer "
                f"{y} with both: it reveals something for certain, so no ε holds"
            )
    ratio, *_ = worst_ratio(mechanism._weights, mechanism._column_sums)
    assert isinstance(ratio, Fraction)
    loss = log_upper_bound(ratio)
    if not loss <= MAX_EPSILON:
        raise ValueError(f"{name} must have a privacy loss of at most {MAX_EPSILON:g}, got {loss:.6g}")
    return loss
