"""The privacy loss of any finite mechanism, and its audit in rational arithmetic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from numbers import Integral, Rational
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import MAX_EPSILON, check_epsilon, check_n_categories, check_numbers, check_real
from adobest_pp._text import brief
from adobest_pp._types import Floats
from adobest_pp.mechanisms.base import AuditCase, Mechanism
from adobest_pp.mechanisms.exact import exp_bounds, log_ratio

# The entries of a matrix of floats are rounded probabilities: a relative excess below this is rounding.
MATRIX_ROUNDING = Fraction(1, 1 << 40)
_COLUMN_SUM_TOLERANCE = 1e-9
FLOAT_ROUNDING = Fraction(1, 1 << 50)
# The loss of an RRRR may be the sum of its two budgets, each at most MAX_EPSILON.
LARGEST_LOSS = 2 * MAX_EPSILON + 1


@dataclass(frozen=True)
class AuditRow:
    """The worst ratio P(y|x)/P(y|x′) among the mechanisms of one subset size.

    `least` equals `loss` if the probabilities are known. For a matrix with stated rounding, every channel that rounds
    to it has a loss between `least` and `loss`.
    """

    size: int
    checked: int
    loss: float
    slack: float
    x: int
    x_prime: int
    y: Any
    holds: bool
    least: float


@dataclass(frozen=True)
class Audit:
    """The exact privacy loss of a mechanism, with one row per subset size.

    `rounded` is True if the subject was a matrix of floats: an excess within their rounding is then allowed. `rounding`
    is the stated error of the entries. With it, the promise `holds` if every channel within that error keeps it, and is
    `broken` if none does. It is possible that neither is true.
    """

    subject: str
    epsilon: float
    rows: tuple[AuditRow, ...]
    rounded: bool = False
    rounding: float | None = None

    @property
    def worst(self) -> AuditRow:
        """The row with the least slack. If all rows have the same promise, it has the largest loss."""
        return min(self.rows, key=lambda row: row.slack)

    @property
    def loss(self) -> float:
        """The largest loss over all sizes."""
        return max(row.loss for row in self.rows)

    @property
    def slack(self) -> float:
        """The unused budget, ε − loss; negative if the promise is broken."""
        return self.worst.slack

    @property
    def holds(self) -> bool:
        """Whether every ratio is at most e^ε."""
        return all(row.holds for row in self.rows)

    @property
    def least(self) -> float:
        """A lower bound of the loss: `loss` itself, except for a matrix with stated rounding."""
        return max(row.least for row in self.rows)

    @property
    def broken(self) -> bool:
        """Whether the promise is certainly broken: more digits of a rounded matrix would not change that."""
        return not self.holds and (self.rounding is None or self.least > self.epsilon)


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
    audit : The same in rational arithmetic, and the worst pair.

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


def audit(subject: Mechanism | ArrayLike, epsilon: float | None = None, rounding: float | None = None) -> Audit:
    """Check a mechanism against its promise in rational arithmetic.

    Parameters
    ----------
    subject : Mechanism or array of shape (outputs, K)
        A mechanism is audited by the integer weights that its production path draws from. For RRRR, these are the
        weights of every subset for K ≤ 10, and of one subset of each size for larger K. A matrix ``G[y, x]`` of floats
        is assumed to be rounded to a relative 2⁻⁴⁰, unless its rounding is stated.
    epsilon : float, optional
        The promise. By default it is the ε of the mechanism, or of each part of a `Mixed`. Required for a matrix.
    rounding : float, optional
        For a matrix only: how far each entry may be from the true probability, such as 1e-6 for six digits. The promise
        then holds only if it holds for every channel that may round to the matrix: every matrix within the rounding
        whose columns sum to one. `Audit.loss` is the exact largest loss of these; none has less than `Audit.least`.

    Returns
    -------
    Audit
        For each subset size the exact loss, the slack and the worst (x, x′, y).

    Raises
    ------
    ValueError
        If the subject is not a mechanism: negative weights, floats as weights, a column of zeros, an ε below 0.

    Examples
    --------
    >>> from adobest_pp import RRRR, audit
    >>> audit(RRRR(20, epsilon=1.0, kappa=0.9)).holds
    True

    Six digits of a channel with ε = 1 do not prove ε = 1, but they do prove ε = 1.00002:

    >>> from adobest_pp import SRR
    >>> written = SRR(4, epsilon=1.0).transition_matrix().round(6)
    >>> result = audit(written, 1.0, rounding=1e-6)
    >>> result.holds, result.broken, round(result.least, 6), round(result.loss, 6)
    (False, False, 0.999991, 1.000006)
    >>> audit(written, 1.00002, rounding=1e-6).holds
    True
    """
    if isinstance(subject, Mechanism):
        if rounding is not None:
            raise ValueError(f"rounding must be left out for a mechanism: its weights are exact, got {brief(rounding)}")
        promise = None if epsilon is None else check_epsilon(epsilon)
        rows = [row for part in subject.components() for row in _audit_mechanism(part, promise)]
        return Audit(repr(subject), subject.epsilon if promise is None else promise, tuple(rows))
    if epsilon is None:
        raise ValueError("epsilon must be given to audit a matrix: it is the promise to check")
    promise = check_epsilon(epsilon)
    if rounding is not None:
        error = check_real(rounding, "rounding", "a number above 0 and at most 0.1", lambda x: 0 < x <= 0.1)
        return _audit_rounded(_check_entries(subject), promise, error)
    matrix = check_matrix(subject)
    weights = np.array([[Fraction(value) for value in row] for row in matrix.tolist() if any(row)], dtype=object)
    outputs = [y for y, row in enumerate(matrix) if row.any()]
    case = AuditCase(0, outputs, list(range(matrix.shape[1])), weights)
    bound = exp_bounds(promise)[0] * (1 + MATRIX_ROUNDING)
    return Audit(f"matrix of shape {matrix.shape}", promise, (audit_row([case], promise, bound),), True)


def _audit_mechanism(mechanism: Mechanism, promise: float | None) -> list[AuditRow]:
    """Return a row for each subset size, held to the promise, or to the mechanism's own by default."""
    allowed, name = f"a number from 0 to {LARGEST_LOSS:g}", f"epsilon of {type(mechanism).__name__}"
    own = check_real(getattr(mechanism, "epsilon", None), name, allowed, lambda x: 0 <= x <= LARGEST_LOSS)
    epsilon = own if promise is None else promise
    bound = exp_bounds(epsilon)[0]
    cases = (_check_case(case, mechanism) for case in mechanism.audit_cases())
    rows = [audit_row([*same], epsilon, bound) for _, same in groupby(cases, key=lambda case: case.size)]
    if not rows:
        raise ValueError(f"audit_cases of {type(mechanism).__name__} must yield at least one case, got none")
    return rows


def _check_case(case: Any, mechanism: Mechanism) -> AuditCase:
    """Return a case if its weights can be those of a mechanism, or raise ValueError."""
    name = f"audit_cases of {type(mechanism).__name__}"
    if not isinstance(case, AuditCase):
        raise ValueError(f"{name} must yield AuditCase objects, got {brief(case)}")
    weights = np.asarray(case.weights, dtype=object)
    inputs, totals = case.inputs, case.totals
    shape = (len(case.outputs), len(inputs))
    if weights.shape != shape or shape[0] == 0 or (totals is not None and len(totals) != shape[1]):
        raise ValueError(
            f"{name} must have weights of shape (outputs, inputs) = {shape} and a total for each input, got weights of "
            f"shape {weights.shape}"
        )
    k = check_n_categories(mechanism.n_categories)
    if len({*inputs}) < max(2, shape[1]) or not all(isinstance(x, Integral) and 0 <= x < k for x in inputs):
        raise ValueError(f"{name} must have two or more distinct inputs from 0 to {k - 1}, got {brief(inputs)}")
    for row in weights.tolist():
        if {*map(type, row)} != {int} and not all(isinstance(weight, Rational) for weight in row):
            wrong = next(weight for weight in row if not isinstance(weight, Rational))
            raise ValueError(f"{name} must have exact weights, integers or fractions, got {brief(wrong)}")
        if min(row) < 0:
            raise ValueError(f"{name} must have weights of at least 0, got {brief(min(row))}")
    if totals is not None and not all(isinstance(total, Rational) and total > 0 for total in totals):
        raise ValueError(f"{name} must have positive integers as totals, got {brief(totals)}")
    if not weights.any():
        raise ValueError(f"{name} must have a positive weight, got zeros only")
    # A table of all answers: its columns are distributions up to a common factor.
    if totals is None and len(case.outputs) > 1 and len(case.outputs) == mechanism.n_outputs:
        sums = [sum(column) for column in weights.T.tolist()]
        if min(sums) != max(sums):
            low, high = (inputs[sums.index(each)] for each in (min(sums), max(sums)))
            raise ValueError(f"{name} must have columns with equal sums, got different ones for {low} and {high}")
    return case._replace(weights=weights)


def worst_ratio(
    rows: Sequence[Sequence[Any]], totals: Sequence[int] | None = None
) -> tuple[Fraction | float, int, int, int]:
    """Return the largest ratio of two shares in one row, its two columns and its row. It is infinite for a share of 0.

    Rows are integers or fractions of at least 0, not all zero. Each column is divided by its total, if there are any.
    """
    if totals is not None and min(totals) == max(totals):
        totals = None
    order = sorted(range(len(totals)), key=totals.__getitem__) if totals is not None else []
    ascending = [totals[i] for i in order] if totals is not None else []
    # The largest ratio so far is high·under to low·over.
    high: Any = 0
    low, over, under, y = 1, 1, 1, 0
    for i, row in enumerate(rows):
        if totals is None:
            top, bottom, its_over, its_under = max(row), min(row), 1, 1
        else:
            # Of equal weights, the smallest total gives the largest share, and the largest total the smallest.
            in_order = [row[j] for j in order]
            top, its_over = _extreme(dict(zip(reversed(in_order), reversed(ascending), strict=True)), largest=True)
            bottom, its_under = _extreme(dict(zip(in_order, ascending, strict=True)), largest=False)
        if top and top * its_under * low * over > high * under * bottom * its_over:
            high, low, over, under, y = top, bottom, its_over, its_under, i
        if not low:
            break
    columns = range(len(rows[y]))
    x = next(j for j in columns if rows[y][j] == high and (totals is None or totals[j] == over))
    other = next(j for j in columns if rows[y][j] == low and (totals is None or totals[j] == under))
    return Fraction(high * under) / (low * over) if low else math.inf, x, other, y


def _extreme(total_of: dict[Any, int], largest: bool) -> tuple[Any, int]:
    """Return the weight with the largest or smallest share, and its total."""
    pairs = iter(total_of.items())
    best, total = next(pairs)
    for weight, its in pairs:
        if (weight * total > best * its) == largest:
            best, total = weight, its
    return best, total


def audit_row(cases: list[AuditCase], epsilon: float, bound: Fraction) -> AuditRow:
    """Return the worst ratio of some cases, held to a bound of e^ε."""
    found = [(*worst_ratio(case.weights.tolist(), case.totals), case) for case in cases]
    ratio, x, x_prime, y, case = max(found, key=lambda each: each[0])
    loss = _loss(ratio)
    worst = (case.inputs[x], case.inputs[x_prime], case.outputs[y])
    slack = float(Decimal(epsilon) - loss)
    return AuditRow(case.size, len(cases), float(loss), slack, *worst, ratio <= bound, float(loss))


def _loss(ratio: Fraction | float) -> Decimal:
    return log_ratio(ratio) if isinstance(ratio, Fraction) else Decimal("Infinity")


def _audit_rounded(matrix: Floats, epsilon: float, rounding: float) -> Audit:
    """Audit every channel within the rounding of a matrix.

    The other entries of its column narrow the interval [low, high] of an entry, which can have every value in it. The
    two entries of a ratio are in different columns, so the ratio high/low is attained.
    """
    low, high = _bounds(matrix, rounding)
    most: tuple[Fraction | float, int, int, int] = (Fraction(0), 0, 0, 0)
    least = Fraction(1)
    for y in range(len(matrix)):
        for x in range(matrix.shape[1]):
            for other in range(matrix.shape[1]):
                if x != other and high[y][x]:
                    ratio = high[y][x] / low[y][other] if low[y][other] else math.inf
                    most = max(most, (ratio, x, other, y), key=lambda item: item[0])
                    least = max(least, low[y][x] / high[y][other] if high[y][other] else least)
    ratio, x, x_prime, y = most
    loss = _loss(max(ratio, Fraction(1)))
    holds = ratio <= exp_bounds(epsilon)[0]
    slack = float(Decimal(epsilon) - loss)
    row = AuditRow(0, 1, float(loss), slack, x, x_prime, y, holds, float(log_ratio(least)))
    return Audit(f"matrix of shape {matrix.shape}", epsilon, (row,), True, rounding)


def _bounds(matrix: Floats, rounding: float) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Return the smallest and the largest value of each entry among all channels that round to the matrix."""
    # Entries and rounding were read as floats: each is off by less than FLOAT_ROUNDING.
    slack = Fraction(rounding) + FLOAT_ROUNDING
    entries = [[Fraction(value) for value in row] for row in matrix.tolist()]
    low = [[max(value - slack, Fraction(0)) for value in row] for row in entries]
    high = [[min(value + slack, Fraction(1)) for value in row] for row in entries]
    for x in range(matrix.shape[1]):
        floor, ceiling = sum(row[x] for row in low), sum(row[x] for row in high)
        if not floor <= 1 <= ceiling:
            total = float(matrix[:, x].sum())
            raise ValueError(
                f"matrix must be G[y, x] with columns that sum to one within the rounding {rounding:g} of their "
                f"entries, got a sum of {total!r} in column {x}"
            )
        for below, above in zip(low, high, strict=True):
            least, greatest = below[x], above[x]
            below[x] = max(least, 1 - (ceiling - greatest))
            above[x] = min(greatest, 1 - (floor - least))
    return low, high


def _check_entries(matrix: ArrayLike) -> Floats:
    allowed = "a two-dimensional array of probabilities G[y, x] with at least two columns"
    array = check_numbers(matrix, "fiu", "matrix", allowed).astype(np.float64)
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] == 0:
        raise ValueError(f"matrix must be {allowed}, got shape {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ValueError(f"matrix must be {allowed}, got a negative or non-finite entry")
    return array


def check_matrix(matrix: ArrayLike) -> Floats:
    """Return ``G[y, x]`` as an array of floats whose columns sum to one, or raise ValueError."""
    array = _check_entries(matrix)
    sums = array.sum(axis=0)
    if np.abs(sums - 1).max() > _COLUMN_SUM_TOLERANCE:
        column = int(np.abs(sums - 1).argmax())
        raise ValueError(
            f"matrix must be G[y, x] with columns that sum to one, got a sum of {sums[column]} in column {column}: "
            "if its entries have few digits, state their rounding"
        )
    return array
