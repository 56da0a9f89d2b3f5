"""Exact randomness: rational bounds on exponentials, and draws from the operating system's entropy.

A probability here is a ratio of two Python integers, and draws have exactly that probability: no float is rounded.
`UNIT` is the integer that stands for 1, and `exp_weight(ε)` the integer, rounded down, that stands for e^ε.
"""

import os
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adobest_pp._text import brief
from adobest_pp._types import Integers, Masks

UNIT = 1 << 64
_CONTEXT = Context(prec=60)
_AT_ONCE = 1 << 14


def exp_bounds(exponent: float) -> tuple[Fraction, Fraction]:
    """Bracket e^exponent between two rationals, for exponent ≥ 0.

    `decimal` rounds exp correctly, so the neighbors of its result with 60 digits are rigorous bounds.
    """
    value = _CONTEXT.exp(Decimal(exponent))
    lower = Fraction(value.next_minus(_CONTEXT))
    upper = Fraction(value.next_plus(_CONTEXT))
    return max(lower, Fraction(1)), upper


def exp_weight(exponent: float) -> int:
    """Return ⌊e^exponent · UNIT⌋ or one less: e^exponent rounded down, to a relative 2⁻⁶³."""
    lower, _ = exp_bounds(exponent)
    return lower.numerator * UNIT // lower.denominator


def log_ratio(ratio: Fraction) -> Decimal:
    """Return ln(ratio) to about 60 digits, for ratio ≥ 1."""
    quotient = _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return _CONTEXT.ln(quotient)


def log_upper_bound(ratio: Fraction) -> float:
    """Return the smallest float L ≥ 0 for which `exp_bounds` proves that e^L ≥ ratio."""
    bound = float(log_ratio(ratio))
    while exp_bounds(bound)[0] < ratio:
        bound = float(np.nextafter(bound, np.inf))
    return bound


@dataclass(frozen=True, eq=False)
class Columns:
    """For each category, the cumulative weights of the answers: integers of any size."""

    ends: list[list[int]]

    @cached_property
    def thresholds(self) -> NDArray[np.uint64]:
        """The first 64 binary digits of each sum over the last one, without the last, of shape (m−1, K)."""
        digits = np.empty((len(self.ends[0]) - 1, len(self.ends)), dtype=np.uint64)
        for x, column in enumerate(self.ends):
            digits[:, x] = [min((end << 64) // column[-1], (1 << 64) - 1) for end in column[:-1]]
        return digits


class OperatingSystem:
    """The production source: exact probabilities from the operating system's entropy."""

    on_device: ClassVar[bool] = True

    def bernoulli(self, weight: int, total: int, n: int) -> Masks:
        """Draw n events of probability exactly weight/total.

        A uniform number is compared with weight/total, 64 binary digits at a time. More digits are needed only on a
        tie, with probability 2⁻⁶⁴.
        """
        if weight >= total:
            return np.ones(n, dtype=bool)
        threshold, remainder = divmod(weight << 64, total)
        words = _words(n)
        events = words < np.uint64(threshold)
        for tie in np.flatnonzero(words == np.uint64(threshold)):
            events[tie] = self.bernoulli(remainder, total, 1)[0]
        return events

    def below(self, bound: int, n: int) -> Integers:
        """Draw n integers exactly uniform on 0 … bound−1, by rejection."""
        words = _words(n)
        excess = (1 << 64) % bound
        if excess:
            limit = np.uint64((1 << 64) - excess)
            while (rejected := np.flatnonzero(words >= limit)).size:
                words[rejected] = _words(rejected.size)
        return (words % np.uint64(bound)).astype(np.int64)

    def choose(self, columns: Columns, x: Integers) -> Integers:
        """Draw, for each x, an index y with probability proportional to the weights of column x.

        The first 64 binary digits of a uniform number are compared with those of every cumulative weight. More are
        drawn only on a tie, with probability 2⁻⁶⁴ for each weight. There is no rejection, because the number of redraws
        would depend on the sum of the column, and so reveal x. So would arithmetic with the sums, whose lengths differ.
        """
        chosen = np.empty(x.size, dtype=np.int64)
        for start in range(0, x.size, _AT_ONCE):
            part = x[start : start + _AT_ONCE]
            words, alone = _words(part.size), part.size == 1
            # One person's device compares with every column, so that the memory that it reads does not depend on x.
            thresholds = columns.thresholds if alone else columns.thresholds[:, part]
            places, ties = np.count_nonzero(words >= thresholds, axis=0), (words == thresholds).any(axis=0)
            if alone:
                places, ties = places[part], ties[part]
            for tie in np.flatnonzero(ties):
                places[tie] = _place(columns.ends[part[tie]], int(words[tie]))
            chosen[start : start + _AT_ONCE] = places
        return chosen


class Simulation:
    """The simulation source: fast and reproducible, with probabilities rounded to floats."""

    on_device: ClassVar[bool] = False

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def bernoulli(self, weight: int, total: int, n: int) -> Masks:
        """Draw n events of probability weight/total, rounded to a float."""
        return self.rng.random(n) < weight / total

    def below(self, bound: int, n: int) -> Integers:
        """Draw n integers uniform on 0 … bound−1."""
        return self.rng.integers(bound, size=n)

    def choose(self, columns: Columns, x: Integers) -> Integers:
        """Draw indices with probabilities rounded to floats."""
        ends = np.array([[end / column[-1] for end in column] for column in columns.ends]).T
        parts = np.split(x, range(_AT_ONCE, x.size, _AT_ONCE))
        chosen = [(self.rng.random(part.size) >= ends[:-1, part]).sum(axis=0) for part in parts]
        return np.concatenate(chosen).astype(np.int64)


Source = OperatingSystem | Simulation


def source_of(rng: np.random.Generator | None) -> Source:
    """Return the exact source for None and the simulation source for a Generator."""
    if rng is None:
        return OperatingSystem()
    if isinstance(rng, np.random.Generator):
        return Simulation(rng)
    allowed = "None (exact, from the operating system) or a numpy.random.Generator (simulation)"
    raise ValueError(f"rng must be {allowed}, got {brief(rng)}")


def randomized_response(source: Source, position: Integers, size: int, keep: int) -> Integers:
    """Apply SRR on {0, …, size−1} to each position, with odds keep : UNIT for the truth against any other."""
    if size == 1:
        return position
    n = position.size
    kept = source.bernoulli(keep, keep + (size - 1) * UNIT, n)
    other = (position + 1 + source.below(size - 1, n)) % size
    return np.where(kept, position, other)


def uniform_subsets(source: Source, population: int, size: int, n: int) -> Masks:
    """Draw n uniform subsets of `size` out of `population` elements, as masks of shape (n, population).

    Floyd's algorithm [1]_ for all n subsets at once: for each j of the last `size` elements, a random element up to j
    joins, or j itself if that element is in the subset already.

    References
    ----------
    .. [1] J. Bentley and R. W. Floyd (1987), A sample of brilliance, Communications of the ACM 30(9).
    """
    mask = np.zeros((n, population), dtype=bool)
    rows = np.arange(n)
    for j in range(population - size, population):
        pick = source.below(j + 1, n)
        pick[mask[rows, pick]] = j
        mask[rows, pick] = True
    return mask


def _words(n: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64).copy()


def _place(column: list[int], digits: int) -> int:
    """Return the index that a uniform number selects, given its first 64 binary digits; draw more if needed."""
    total, n_digits = column[-1], 64
    while True:
        level, ends = digits * total, [end << n_digits for end in column]
        if not any(level < end < level + total for end in ends):
            return sum(level >= end for end in ends)
        digits, n_digits = digits << 64 | int(_words(1)[0]), n_digits + 64
