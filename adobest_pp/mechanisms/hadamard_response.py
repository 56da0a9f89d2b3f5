"""Hadamard response: the answer is a column of a Hadamard matrix that is likely to be +1 in the row of the truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from adobest_pp._checks import check_epsilon, check_n_categories
from adobest_pp._types import Answers, Integers, Masks
from adobest_pp.evidence import HADAMARD
from adobest_pp.mechanisms.base import AuditCase, Drawing, NumberedMechanism
from adobest_pp.mechanisms.exact import UNIT, Source

# The most entries of the table that predictive draws use.
_MAX_DRAWN = 1_000_000


@dataclass(frozen=True)
class HadamardResponse(NumberedMechanism):
    """Hadamard response, with answers of ⌈log₂(K+1)⌉ bits [1]_.

    H is Sylvester's Hadamard matrix, whose order M is the smallest power of two above K. An answer y is e^ε times as
    likely if ``H[x+1, y]`` is +1 as if it is −1. Half of each row is +1.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.

    References
    ----------
    .. [1] J. Acharya, Z. Sun and H. Zhang (2019), Hadamard response: estimating distributions privately, efficiently,
       and with little communication, AISTATS.

    Examples
    --------
    >>> from adobest_pp import HadamardResponse
    >>> HadamardResponse(3, epsilon=1.0).transition_matrix().round(3)
    array([[0.366, 0.366, 0.366],
           [0.134, 0.366, 0.134],
           [0.366, 0.134, 0.134],
           [0.134, 0.134, 0.366]])
    """

    n_categories: int
    epsilon: float

    def __post_init__(self) -> None:
        self._set(n_categories=check_n_categories(self.n_categories), epsilon=check_epsilon(self.epsilon))

    @property
    def n_outputs(self) -> int:
        """The number M of possible answers."""
        return 1 << self.n_categories.bit_length()

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw whether the column has +1 in the row of the truth, and one of those columns."""
        row = x + 1
        agrees = source.bernoulli(self._keep, self._keep + UNIT, row.size)
        drawn = source.below(self.n_outputs // 2, row.size)
        # All bits of the column are drawn but one, where the row has a 1. It is set so that the column agrees or not.
        bit = np.floor(np.log2(row)).astype(np.int64)
        low = drawn & ((1 << bit) - 1)
        column = ((drawn - low) << 1) | low
        odd = np.bitwise_count(row & column) % 2 == 1
        return np.asarray(column | ((odd == agrees).astype(np.int64) << bit))

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case: column 1, whose entries are +1 in row 2 and −1 in row 1."""
        yield AuditCase(0, [1], [1, 0], np.array([[self._keep, UNIT]], dtype=object))

    def support(self, answers: Answers) -> Masks:
        """Return the rows in which the column is +1."""
        rows = np.arange(1, self.n_categories + 1)
        return np.asarray(np.bitwise_count(answers.astype(np.int64)[:, None] & rows) % 2 == 0)

    def _is_member(self, x: int, answers: Integers) -> Masks:
        return np.asarray(np.bitwise_count(answers & (x + 1)) % 2 == 0)

    def structure(self) -> Integers:
        """Return the block of the fast Walsh–Hadamard transform."""
        return np.array([HADAMARD, 3, self.n_outputs])

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        return 1 / (1 + math.exp(-self.epsilon)), 0.5

    def drawing(self) -> Drawing:
        """Draw from the cumulative table of the answers, if it is not too large."""
        if self.n_outputs * self.n_categories > _MAX_DRAWN:
            raise NotImplementedError
        return self._drawing("draw_from_table", np.cumsum(self.transition_matrix(), axis=0))

    @property
    def _weight(self) -> float:
        return 2 / (self.n_outputs * (math.exp(self.epsilon) + 1))

    @property
    def _log_weight(self) -> float:
        return math.log(2 / self.n_outputs) - math.log(math.exp(self.epsilon) + 1)
