"""Count-mean sketch: randomized response on the value of one of k public hash functions.

Apple's original [1]_ hashes into many values and flips the bits of a vector with one bit for each value. Here the value
itself is randomized, and there are about e^ε + 1 values. Of all known ways to randomize a sketch, this has the smallest
error [2]_. Both have the same likelihood: an answer names the categories that are hashed to one of its values.

References
----------
.. [1] Differential Privacy Team, Apple (2017), Learning with privacy at scale, Apple Machine Learning Journal 1(8).
.. [2] M. Pan (2024), Improving count-mean sketch as the leading locally differentially private frequency estimator for
   large dictionaries, arXiv:2406.03785.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_epsilon, check_integer, check_n_categories
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import SKETCH
from adobest_pp.mechanisms.base import (
    MAX_COUNTED,
    AuditCase,
    Counts,
    Drawing,
    NumberedMechanism,
    Published,
    output_counts,
)
from adobest_pp.mechanisms.exact import UNIT, Source, randomized_response
from adobest_pp.mechanisms.local_hashing import hash_categories, xxh32

MAX_HASHES = 1 << 20
MAX_VALUES = 1 << 16
# By default there are enough functions for this many free values for each category, and at least this many functions.
_VALUES_EACH, _LEAST_HASHES = 8, 64
# Hashes that are computed at a time.
_NUMBERS_AT_ONCE = 1 << 22
# The most integers with the values of all functions: 1 GiB.
_MOST_WORDS = 1 << 27


@dataclass(frozen=True, init=False)
class CountMeanSketch(NumberedMechanism):
    """Count-mean sketch, optimized: randomized response on one of k public hashes of the category.

    A person draws one of the k functions, hashes the category with it into g values, and randomizes the value. The
    answer is the number of the function times g, plus the value.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    n_hashes : int, optional
        Number k of hash functions, which have k·(g−1) free values. There must be more of these than categories, or
        answers cannot identify the shares. With r times as many, a random family has about r/(r−1) times the variance
        of all functions. The default has r = 8, and at least 64 functions.
    n_values : int, optional
        Number g of values of a function. The default, the nearest integer to e^ε + 1, has the smallest variance.

    Notes
    -----
    Function j is xxHash32 of the category's decimal digits with the seed j, modulo g, as in `LocalHashing`, where every
    person has another function. However many people answer, there are at most k·g distinct answers.
    `ProjectiveGeometryResponse` is the same with linear functions over a field. It needs far fewer functions, and is
    better for many categories: here a gradient reads the k·K values of all functions.

    Examples
    --------
    >>> from adobest_pp import CountMeanSketch
    >>> CountMeanSketch(100, epsilon=1.0)
    CountMeanSketch(n_categories=100, epsilon=1.0, n_hashes=264, n_values=4)
    """

    n_categories: int
    epsilon: float
    n_hashes: int
    n_values: int

    def __init__(
        self, n_categories: int, epsilon: float, n_hashes: int | None = None, n_values: int | None = None
    ) -> None:
        k, budget = check_n_categories(n_categories), check_epsilon(epsilon)
        best = min(round(math.exp(budget)) + 1, MAX_VALUES)
        g = best if n_values is None else check_integer(n_values, "n_values", 2, MAX_VALUES)
        enough = min(max(-(-_VALUES_EACH * (k - 1) // (g - 1)), _LEAST_HASHES), MAX_HASHES)
        functions = enough if n_hashes is None else check_integer(n_hashes, "n_hashes", 1, MAX_HASHES)
        self._set(n_categories=k, epsilon=budget, n_hashes=functions, n_values=g)

    @property
    def n_outputs(self) -> int:
        """The number of pairs of a function and a value."""
        return self.n_hashes * self.n_values

    def hashes(self, functions: Integers) -> NDArray[np.uint16]:
        """Return the values of all categories under some of the functions, of shape (n, K)."""
        hashed = hash_categories(functions.astype(np.uint32), self.n_categories)
        return np.asarray((hashed % np.uint32(self.n_values)).astype(np.uint16))

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw a function, and apply randomized response to the hash of the truth."""
        drawn = source.below(self.n_hashes, x.size)
        # On a device every category is hashed, so that the work does not depend on x.
        own = self.hashes(drawn)[np.arange(x.size), x] if source.on_device else self._own_hashes(drawn, x)
        return drawn * self.n_values + randomized_response(source, own.astype(np.int64), self.n_values, self._keep)

    def _own_hashes(self, functions: Integers, x: Integers) -> Integers:
        """Return the value of each category under its function, one of each for n people."""
        order = np.argsort(x, kind="stable")
        found, first = np.empty(x.size, dtype=np.int64), np.flatnonzero(np.diff(x[order], prepend=-1))
        for people in np.split(order, first[1:]):
            if people.size:
                hashed = xxh32(str(x[people[0]]).encode(), functions[people].astype(np.uint32))
                found[people] = hashed % np.uint32(self.n_values)
        return found

    @property
    def _people_at_once(self) -> int:
        return max(1, _NUMBERS_AT_ONCE // self.n_categories)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: a function that hashes two categories to different values, and one of these values."""
        for function in range(self.n_hashes):
            values = self.hashes(np.array([function]))[0]
            other = int((values != values[0]).argmax())
            if other:
                output = function * self.n_values + int(values[0])
                yield AuditCase(0, [output], [0, other], np.array([[self._keep, UNIT]], dtype=object))
                return
        # No function distinguishes any two categories.
        yield AuditCase(0, [0], [0, 1], np.array([[UNIT, UNIT]], dtype=object))

    def support(self, answers: Answers) -> Masks:
        """Return the categories that the function hashes to the value."""
        function, value = np.divmod(answers.astype(np.int64), self.n_values)
        used, place = np.unique(function, return_inverse=True)
        return np.asarray(self.hashes(used)[place] == value[:, None])

    def _is_member(self, x: int, answers: Integers) -> Masks:
        function, value = np.divmod(answers, self.n_values)
        return np.asarray(xxh32(str(x).encode(), function.astype(np.uint32)) % np.uint32(self.n_values) == value)

    def structure(self) -> Integers:
        """Return the block of the hashes: the values of all categories, as many in each integer as fit."""
        return self._block

    @cached_property
    def _block(self) -> Integers:
        bits = next(bits for bits in (1, 2, 4, 8, 16) if self.n_values <= 1 << bits)
        shift = (64 // bits).bit_length() - 1
        width = ((self.n_categories - 1) >> shift) + 1
        if self.n_hashes * width > _MOST_WORDS:
            raise ValueError(
                f"n_categories must be smaller for a posterior with count-mean sketch, got {self.n_categories:,}: the "
                f"values of {self.n_hashes:,} functions take {self.n_hashes * width / 2**27:,.1f} GiB "
                "(ProjectiveGeometryResponse keeps none)"
            )
        block = np.empty(6 + self.n_hashes * width, dtype=np.int64)
        block[:6] = SKETCH, block.size, self.n_outputs, self.n_values, self.n_categories, shift
        words = block[6:].reshape(self.n_hashes, width)
        places = np.arange(0, 64, bits, dtype=np.uint64)
        for start in range(0, self.n_hashes, self._people_at_once):
            functions = np.arange(start, min(start + self._people_at_once, self.n_hashes))
            values = np.zeros((functions.size, width << shift), dtype=np.uint64)
            values[:, : self.n_categories] = self.hashes(functions)
            packed = values.reshape(functions.size, width, 1 << shift) << places
            words[functions] = np.bitwise_or.reduce(packed, axis=2).view(np.int64)
        return block

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count each answer or, if there are too many, answers of some of the functions."""
        g = self.n_values
        functions = np.linspace(0, self.n_hashes - 1, min(self.n_hashes, max(1, MAX_COUNTED // g))).astype(np.int64)
        counted = (functions[:, None] * g + np.arange(min(g, MAX_COUNTED))).ravel()
        matrix: Floats = self._weight * (1 + math.expm1(self.epsilon) * self.support(counted).astype(np.float64))
        return output_counts(answers, matrix, theta, counted)

    def naming_over_hashes(self) -> tuple[float, float, float] | None:
        """Return the means of `naming`, and r/(r − 1) for r times as many free values as categories."""
        free = self.n_hashes * (self.n_values - 1) / (self.n_categories - 1)
        kept = self.n_hashes * self._weight * math.exp(self.epsilon)
        return (kept, 1 / self.n_values, free / (free - 1)) if free > 1 else None

    def drawing(self) -> Drawing:
        """Draw a function, and randomize the hash of the truth."""
        kept = self.n_hashes * self._weight * math.exp(self.epsilon)
        return self._drawing("draw_sketched", [[kept, self.n_values, self.n_hashes]])

    @property
    def _weight(self) -> float:
        """The probability w of an answer whose value is not the hash of the truth."""
        return 1 / (self.n_hashes * (math.exp(self.epsilon) + self.n_values - 1))
