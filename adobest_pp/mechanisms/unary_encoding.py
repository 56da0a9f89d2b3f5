"""Unary encoding: one bit for each category, each randomized on its own (basic RAPPOR and the optimized variant)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_epsilon, check_n_categories
from adobest_pp._text import brief
from adobest_pp._types import Answers, Bits, Floats, Integers, Masks
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, ExtremalMechanism, Published, rows_of
from adobest_pp.mechanisms.exact import UNIT, Source, exp_weight
from adobest_pp.mechanisms.guessing import guess_from_sets
from adobest_pp.mechanisms.information import from_independent_sets


@dataclass(frozen=True)
class UnaryEncoding(ExtremalMechanism):
    """Unary encoding: the answer is K bits, and the bit of the truth is likelier to be 1 than the others [1]_ [2]_.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    kind : {"optimized", "symmetric"}
        Optimized (OUE): the bit of the truth is 1 with probability ½, the others with 1/(e^ε+1). Symmetric (SUE, as in
        basic RAPPOR): every bit is correct with probability e^(ε/2)/(e^(ε/2)+1).

    Notes
    -----
    An answer is a row of K zeros and ones. `Responses.from_arrays` takes the 0/1 matrix (n, K) that other libraries
    return.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur and A. Korolova (2014), RAPPOR: randomized aggregatable privacy-preserving ordinal
       response, ACM CCS.
    .. [2] T. Wang, J. Blocki, N. Li and S. Jha (2017), Locally differentially private protocols for frequency
       estimation, USENIX Security.

    Examples
    --------
    >>> from adobest_pp import UnaryEncoding
    >>> UnaryEncoding(2, epsilon=1.0).transition_matrix().round(3)
    array([[0.366, 0.366],
           [0.134, 0.366],
           [0.366, 0.134],
           [0.134, 0.134]])
    """

    n_categories: int
    epsilon: float
    kind: str = "optimized"
    answer_columns = ("answer",)  # an answer is a set
    answer_type = np.dtype(np.uint8)
    _people_at_once = 1 << 14

    def __post_init__(self) -> None:
        self._set(n_categories=check_n_categories(self.n_categories), epsilon=check_epsilon(self.epsilon))
        if not isinstance(self.kind, str) or self.kind not in ("optimized", "symmetric"):
            raise ValueError(f"kind must be 'optimized' or 'symmetric', got {brief(self.kind)}")

    @property
    def n_outputs(self) -> int:
        """The number 2^K of possible answers."""
        return 1 << self.n_categories

    def outputs(self) -> Integers:
        """Return every possible answer, of shape (2^K, K), for K up to 14."""
        self._check_few_outputs()
        return np.array(list(product((0, 1), repeat=self.n_categories)), dtype=np.int64)

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        truth, other = self._probabilities
        return from_independent_sets(theta, math.expm1(self.epsilon), other, (1 - truth) / (1 - other))

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        truth, other = self._probabilities
        first = other * (1 - other) ** np.arange(self.n_categories, dtype=np.float64)
        return guess_from_sets(np.sort(theta)[::-1], math.exp(self.epsilon), first, (1 - truth) / (1 - other))

    @property
    def answer_dims(self) -> dict[str, int]:
        """An answer has one bit for each category."""
        return {"category": self.n_categories}

    def check_answers(self, answers: ArrayLike) -> Answers:
        """Return rows of K zeros and ones, or raise ValueError."""
        rows = rows_of(answers, self.n_categories, f"rows of {self.n_categories} zeros and ones")
        if rows.size and (rows.min() < 0 or rows.max() > 1):
            raise ValueError(f"answers must be rows of zeros and ones, got {rows[(rows < 0) | (rows > 1)].flat[0]}")
        return rows.astype(np.uint8, copy=False)

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Bits:
        """Draw every bit independently."""
        (truth_one, truth_zero), (other_one, other_zero) = self._odds
        # A bit of either kind is drawn for everybody and every category, so that the work does not depend on x.
        others = source.bernoulli(other_one, other_one + other_zero, x.size * self.n_categories)
        own = source.bernoulli(truth_one, truth_one + truth_zero, x.size)
        shape = (x.size, self.n_categories)
        bits = np.where(np.arange(self.n_categories) == x[:, None], own[:, None], others.reshape(shape))
        return bits.astype(np.uint8)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: an answer with a bit that is 1 and one that is 0, and their categories."""
        (truth_one, truth_zero), (other_one, other_zero) = self._odds
        weights = [[truth_one * other_zero, truth_zero * other_one]]
        yield AuditCase(0, ["1 0 …"], [0, 1], np.array(weights, dtype=object))

    def support(self, answers: Answers) -> Masks:
        """Return the bits that are 1."""
        return np.asarray(answers, dtype=bool)

    def log_weight(self, answers: Answers) -> Floats:
        """Return ln w, which depends on the number of bits that are 1."""
        return self.log_weight_of_size(np.sum(answers, axis=1, dtype=np.int64))

    def log_weight_of_size(self, sizes: Integers) -> Floats:
        """Return ln w for this many bits that are 1."""
        truth, other = self._probabilities
        return np.asarray(
            math.log1p(-truth) + sizes * math.log(other) + (self.n_categories - 1 - sizes) * math.log1p(-other)
        )

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count the ones of each category."""
        return self._named_counts(len(answers), np.sum(answers[:, listed], axis=0, dtype=np.float64), theta, listed)

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        return self._probabilities

    def drawing(self) -> Drawing:
        """Draw every bit independently."""
        return self._drawing("draw_bits", [self._probabilities])

    @property
    def _probabilities(self) -> tuple[float, float]:
        """The probabilities that the bit of the truth is 1, and that any other bit is."""
        if self.kind == "optimized":
            return 0.5, 1 / (math.exp(self.epsilon) + 1)
        return 1 / (math.exp(-self.epsilon / 2) + 1), 1 / (math.exp(self.epsilon / 2) + 1)

    @cached_property
    def _odds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The integer odds one : zero of the bit of the truth, and of any other bit."""
        if self.kind == "optimized":
            return (1, 1), (UNIT, exp_weight(self.epsilon))
        half = exp_weight(self.epsilon / 2)
        return (half, UNIT), (UNIT, half)
