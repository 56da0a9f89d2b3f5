"""Any weighted family of sets: the general form of an extremal mechanism."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_epsilon, check_n_categories, check_numbers
from adobest_pp._text import brief
from adobest_pp._types import Answers, Floats, Masks
from adobest_pp.mechanisms.base import ExtremalMechanism, FiniteMechanism
from adobest_pp.mechanisms.exact import UNIT, exp_weight, log_ratio
from adobest_pp.mechanisms.information import from_matrix
from adobest_pp.mechanisms.registry import MAX_WEIGHT_BITS

# Weights that are not integers are rounded to integers of this many bits.
WEIGHT_BITS = 48
# The largest relative difference that rounding may leave between the total weights of the categories.
BALANCE = 1e-9


@dataclass(frozen=True, init=False)
class SetFamily(ExtremalMechanism, FiniteMechanism):
    """A mechanism that answers with a set of a given family: sets that contain the truth have odds e^ε : 1.

    P(A|x) = c_A·(1 + (e^ε−1)·1[x∈A]). Every extremal ε-LDP mechanism has this form [1]_: block designs, subset
    selection, Hadamard response, and the best question for a given θ.

    Parameters
    ----------
    sets : sequence of sequences of int, or boolean masks of shape (m, K)
        Distinct sets. K is the largest index plus one, or the width of the masks.
    weights : sequence of m positive numbers
        Weights of the sets, up to a factor. The sets that contain a category must have the same total weight for every
        category: otherwise some ratio of probabilities would exceed e^ε.
    epsilon : float
        Privacy budget of one answer.

    Notes
    -----
    An answer is the index of a set. Weights are rounded to integers. If the totals are then unequal, the odds are
    lowered just enough to keep ε exactly.

    References
    ----------
    .. [1] P. Kairouz, S. Oh and P. Viswanath (2016), Extremal mechanisms for local differential privacy, Journal of
       Machine Learning Research 17.

    Examples
    --------
    >>> from adobest_pp import SetFamily
    >>> fano = [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]]
    >>> SetFamily(fano, [1] * 7, epsilon=1.0)
    SetFamily(n_categories=7, epsilon=1.0, n_sets=7)
    """

    sets: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    epsilon: float
    n_categories: int = field(init=False)

    def __init__(
        self, sets: ArrayLike | Sequence[Sequence[int]], weights: Sequence[float] | ArrayLike, epsilon: float
    ) -> None:
        members, k = _check_sets(sets)
        self._set(sets=members, n_categories=check_n_categories(k))
        self._set(weights=_check_weights(weights, len(members)), epsilon=check_epsilon(epsilon))
        self._check_balance()

    def __repr__(self) -> str:
        return f"SetFamily(n_categories={self.n_categories}, epsilon={self.epsilon!r}, n_sets={len(self.sets)})"

    # Exact quotients of the weights.
    transition_matrix = FiniteMechanism.transition_matrix

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[a, x] that the production path draws from."""
        return np.asarray(self._weights_by_support(self._masks) * np.array(self.weights, dtype=object)[:, None])

    def support(self, answers: Answers) -> Masks:
        """Return the sets."""
        return np.asarray(self._masks[answers])

    def log_weight(self, answers: Answers) -> Floats:
        """Return ln c of the sets."""
        total = self._total(self._keep, max(self._inside))
        share = np.array([weight * UNIT / total for weight in self.weights])
        return np.asarray(np.log(share[answers]))

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        share = np.exp(self.log_weight(np.arange(len(self.sets))))
        return from_matrix(share[:, None] * (1 + math.expm1(self.log_odds) * self._masks), theta)

    @property
    def log_odds(self) -> float:
        """The logarithm of the odds that are used: ε, or slightly less if rounded weights have unequal totals."""
        return float(log_ratio(Fraction(self._keep, UNIT)))

    def _total(self, keep: int, inside: int) -> int:
        """Return the column sum of a category, if the sets that contain it have the total weight `inside`."""
        return sum(self.weights) * UNIT + (keep - UNIT) * inside

    def _check_balance(self) -> None:
        held = sum(map(len, self.sets))
        # This comes first because K may be far larger than the number of members, and `_inside` has length K.
        if 0 < held < self.n_categories:
            seen = {x for members in self.sets for x in members}
            missing = next(x for x in range(self.n_categories) if x not in seen)
            raise ValueError(f"sets must contain every category, got none with category {missing}")
        inside = self._inside
        if max(inside) - min(inside) > Fraction(BALANCE) * max(inside):
            high, low = inside.index(max(inside)), inside.index(min(inside))
            share = [inside[x] / sum(self.weights) for x in (high, low)]
            loss, x, other = self._worst_at_full_odds()
            raise ValueError(
                "weights must have the same total over the sets with each category, "
                f"got the share {share[0]:.6g} for category {high} and {share[1]:.6g} for category {low}: "
                f"the privacy loss between categories {x} and {other} would be {loss:.6g}, above ε = {self.epsilon:g}"
            )

    def _worst_at_full_odds(self) -> tuple[float, int, int]:
        """Return the loss that odds of e^ε would have with these totals, and its two categories."""
        keep = exp_weight(self.epsilon)
        order = sorted(range(self.n_categories), key=self._inside.__getitem__)
        place = {x: i for i, x in enumerate(order)}
        totals = [self._total(keep, self._inside[x]) for x in order]
        # Sorted by total: the largest share comes first.
        within, without = ([odds / total for total in totals] for odds in (keep, UNIT))
        worst = (0.0, 0, 0)
        for members in self.sets:
            held = {place[x] for x in members}
            shares = [(within[i], order[i]) for i in (min(held), max(held))] if held else []
            if len(held) < self.n_categories:
                first = next(i for i in range(self.n_categories) if i not in held)
                last = next(i for i in reversed(range(self.n_categories)) if i not in held)
                shares += [(without[i], order[i]) for i in (first, last)]
            (high, x), (low, other) = max(shares), min(shares)
            worst = max(worst, (high / low, x, other))
        ratio, x, other = worst
        return math.log(ratio), x, other

    @cached_property
    def _masks(self) -> Masks:
        masks = np.zeros((len(self.sets), self.n_categories), dtype=bool)
        for mask, members in zip(masks, self.sets, strict=True):
            mask[list(members)] = True
        return masks

    @cached_property
    def _inside(self) -> list[int]:
        """The total weight of the sets that contain each category."""
        totals = [0] * self.n_categories
        for members, weight in zip(self.sets, self.weights, strict=True):
            for x in members:
                totals[x] += weight
        return totals

    @cached_property
    def _keep(self) -> int:
        """The largest integer odds with which no ratio of two probabilities exceeds ⌊e^ε·UNIT⌋/UNIT."""
        low, high = UNIT, exp_weight(self.epsilon)
        limit, least, most = high, min(self._inside), max(self._inside)
        while low < high:
            middle = -(-(low + high) // 2)
            if middle * self._total(middle, most) <= limit * self._total(middle, least):
                low = middle
            else:
                high = middle - 1
        return low


def _check_sets(sets: Any) -> tuple[tuple[tuple[int, ...], ...], int]:
    allowed = "one or more distinct sets, each a list of distinct category indices or a boolean mask"
    refusal = f"sets must be {allowed}, got {brief(sets)}"
    try:
        rows = [_row(each) for each in sets]
    except TypeError:
        raise ValueError(refusal) from None
    is_mask = [isinstance(row, np.ndarray) and row.dtype == bool for row in rows]
    masked = any(is_mask)
    if masked and not all(is_mask):
        raise ValueError(f"sets must be lists of category indices or boolean masks, not both, got {brief(sets)}")
    if masked and len({row.size for row in rows}) > 1:
        raise ValueError(f"sets must be masks of equal length, got lengths {sorted({row.size for row in rows})}")
    members = [tuple(np.flatnonzero(row).tolist()) if masked else tuple(sorted(map(int, row))) for row in rows]
    whole = all(len(set(each)) == len(each) and (not each or each[0] >= 0) for each in members)
    if not members or not whole or len(set(members)) < len(members):
        raise ValueError(refusal)
    k = rows[0].size if masked else 1 + max((each[-1] for each in members if each), default=-1)
    return tuple(members), k


def _row(each: Any) -> Any:
    """Return a list of plain integers as it is, any other set as an array, or raise TypeError."""
    if isinstance(each, list | tuple) and {*map(type, each)} <= {int}:
        return each
    array = as_numbers(each, "biu")
    if array.ndim != 1:
        raise TypeError
    return array


def _check_weights(weights: Any, n_sets: int) -> tuple[int, ...]:
    allowed = f"{n_sets} positive numbers, one for each set"
    integers = list(weights) if isinstance(weights, Sequence) else []
    if not integers or any(type(value) is not int for value in integers):
        array = check_numbers(weights, "fiu", "weights", allowed).astype(np.float64)
        if array.ndim != 1 or not (np.isfinite(array).all() and array.size and array.max() > 0):
            raise ValueError(f"weights must be {allowed}, got {brief(weights)}")
        unit = Fraction(1 << WEIGHT_BITS) / Fraction(float(array.max()))
        integers = [round(Fraction(value) * unit) for value in array.tolist()]
    if len(integers) != n_sets or min(integers) <= 0:
        raise ValueError(f"weights must be {allowed}, got {brief(weights)}")
    if max(integers).bit_length() > MAX_WEIGHT_BITS:
        raise ValueError(f"weights must be below 2^{MAX_WEIGHT_BITS}, got one of {max(integers).bit_length()} bits")
    divisor = math.gcd(*integers)
    return tuple(value // divisor for value in integers)
