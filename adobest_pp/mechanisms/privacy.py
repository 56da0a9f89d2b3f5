"""The privacy loss of any finite mechanism, and its audit in rational arithmetic."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_epsilon
from adobest_pp.mechanisms.base import AuditCase, Mechanism
from adobest_pp.mechanisms.exact import exp_bounds, log_ratio

# A matrix of floats stands for probabilities that were rounded: excess below this (relative) is rounding.
MATRIX_ROUNDING = Fraction(1, 1 << 40)
_COLUMN_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AuditRow:
    """The worst ratio P(y|x)/P(y|x′) among the mechanisms of one subset size."""

    size: int
    checked: int
    loss: float
    slack: float
    x: int
    x_prime: int
    y: Any
    holds: bool


@dataclass(frozen=True)
class Audit:
    """The exact privacy loss of a mechanism, one row per subset size.

    `rounded` tells that the subject was a matrix of floats, for which an excess within their rounding is allowed.
    """

    subject: str
    epsilon: float
    rows: tuple[AuditRow, ...]
    rounded: bool = False

    @property
    def worst(self) -> AuditRow:
        """The row with the largest loss, so the least slack."""
        return min(self.rows, key=lambda row: row.slack)

    @property
    def loss(self) -> float:
        """The largest loss over all sizes."""
        return self.worst.loss

    @property
    def slack(self) -> float:
        """The budget that is promised but not used, ε − loss; negative where the promise is broken."""
        return self.worst.slack

    @property
    def holds(self) -> bool:
        """Whether every ratio is at most e^ε."""
        return all(row.holds for row in self.rows)


def privacy_loss(matrix: ArrayLike) -> float:
    """Return the ε of a finite mechanism: the largest ln(P(y|x)/P(y|x′)) over all y, x and x′.

    Parameters
    ----------
    matrix : array of shape (outputs, K)
        ``G[y, x] = P(Y=y | X=x)``; each column sums to one.

    Returns
    -------
    float
        ``inf`` when an output is possible for one category and impossible for another.

    See Also
    --------
    audit : The same in rational arithmetic, with the worst pair.

    Examples
    --------
    >>> from adobest_pp import SRR, privacy_loss
    >>> round(privacy_loss(SRR(4, epsilon=1.5).transition_matrix()), 12)
    1.5
    """
    rows = check_matrix(matrix)
    largest, smallest = rows.max(axis=1), rows.min(axis=1)
    possible = largest > 0
    if np.any(smallest[possible] == 0):
        return math.inf
    return float(np.max(np.log(largest[possible]) - np.log(smallest[possible])))


def audit(subject: Mechanism | ArrayLike, epsilon: float | None = None) -> Audit:
    """Check a mechanism against its promise in rational arithmetic.

    Parameters
    ----------
    subject : Mechanism or array of shape (outputs, K)
        A mechanism is audited by the integer weights that its production path draws against: for RRRR every
        subset for K ≤ 10, one subset of each size beyond. A matrix ``G[y, x]`` of floats is taken as rounded
        to a relative 2⁻⁴⁰.
    epsilon : float, optional
        The promise; by default the mechanism's own. A matrix needs one.

    Returns
    -------
    Audit
        With, for each subset size, the exact loss, the slack and the worst (x, x′, y).

    Examples
    --------
    >>> from adobest_pp import RRRR, audit
    >>> audit(RRRR(20, epsilon=1.0, kappa=0.9)).holds
    True
    """
    if isinstance(subject, Mechanism):
        promise = subject.epsilon if epsilon is None else check_epsilon(epsilon)
        bound = exp_bounds(promise)[0]
        by_size = groupby(subject.audit_cases(), key=lambda case: case.size)
        rows = tuple(_audit_row([*cases], promise, bound) for _, cases in by_size)
        return Audit(repr(subject), promise, rows)
    if epsilon is None:
        raise ValueError("epsilon must be given to audit a matrix: it is the promise to check")
    promise = check_epsilon(epsilon)
    matrix = check_matrix(subject)
    weights = np.array([[Fraction(value) for value in row] for row in matrix.tolist() if any(row)], dtype=object)
    outputs = [y for y, row in enumerate(matrix) if row.any()]
    case = AuditCase(0, outputs, list(range(matrix.shape[1])), weights)
    bound = exp_bounds(promise)[0] * (1 + MATRIX_ROUNDING)
    return Audit(f"matrix of shape {matrix.shape}", promise, (_audit_row([case], promise, bound),), True)


def _audit_row(cases: list[AuditCase], epsilon: float, bound: Fraction) -> AuditRow:
    worst: tuple[Fraction | float, int, int, Any] = (Fraction(0), 0, 0, 0)
    for case in cases:
        for output, row in zip(case.outputs, case.weights, strict=True):
            high, low = int(np.argmax(row)), int(np.argmin(row))
            ratio = Fraction(row[high]) / Fraction(row[low]) if row[low] else math.inf
            if ratio > worst[0]:
                worst = (ratio, case.inputs[high], case.inputs[low], output)
    ratio, x, x_prime, y = worst
    loss = log_ratio(ratio) if isinstance(ratio, Fraction) else Decimal("Infinity")
    slack = float(Decimal(epsilon) - loss)
    return AuditRow(cases[0].size, len(cases), float(loss), slack, x, x_prime, y, ratio <= bound)


def check_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return ``G[y, x]`` as an array of floats whose columns sum to one, or raise ValueError."""
    allowed = "a two-dimensional array of probabilities G[y, x] with at least two columns"
    try:
        array = as_numbers(matrix, "fiu").astype(np.float64)
    except TypeError:
        raise ValueError(f"matrix must be {allowed}, got {matrix!r}") from None
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"matrix must be {allowed}, got shape {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"matrix must be {allowed}, got a negative or non-finite entry")
    sums = array.sum(axis=0)
    if np.abs(sums - 1).max() > _COLUMN_SUM_TOLERANCE:
        column = int(np.abs(sums - 1).argmax())
        raise ValueError(
            f"matrix must be G[y, x] with columns that sum to one, got a sum of {sums[column]} in column {column}"
        )
    return array
