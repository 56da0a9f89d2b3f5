"""Hadamard response: the answer is a column of a Hadamard matrix that is likely to be +1 in the row of the truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_epsilon, check_n_categories, check_private
from adobest_pp.mechanisms.base import (
    AuditCase,
    Counts,
    Drawing,
    ExtremalMechanism,
    Published,
    multinomial,
    refuse_subset,
)
from adobest_pp.mechanisms.exact import UNIT, exp_weight, source_of

MAX_OUTPUTS = 20_000
MAX_COUNTED = 1024


@dataclass(frozen=True)
class HadamardResponse(ExtremalMechanism):
    """Hadamard response, with answers of ⌈log₂(K+1)⌉ bits [1]_.

    With H the Hadamard matrix of Sylvester whose order M is the least power of two above K, an answer y is e^ε times as
    likely where ``H[x+1, y]`` is +1 as where it is −1; half of each row is.

    Parameters
    ----------
    n_categories : int
        Number of categories K, at least 2.
    epsilon : float
        Privacy budget of one answer.

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
        object.__setattr__(self, "n_categories", check_n_categories(self.n_categories))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))

    @property
    def n_outputs(self) -> int:
        """The number M of possible answers."""
        return 1 << self.n_categories.bit_length()

    def transition_matrix(self) -> NDArray[np.float64]:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (M, K), where that is not too large."""
        return self._by_support(math.exp(self.epsilon + self._log_weight), math.exp(self._log_weight))

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x] that the production path draws against; columns have equal sums."""
        return self._by_support(self._keep, UNIT, dtype=object)

    def privatize(
        self, x: ArrayLike, *, subset: ArrayLike | None = None, rng: np.random.Generator | None = None
    ) -> int | NDArray[np.int64]:
        """Randomize private categories into columns; see `Mechanism.privatize`."""
        refuse_subset(self, subset)
        truth = check_private(x, self.n_categories)
        source, row = source_of(rng), truth.ravel() + 1
        agrees = source.bernoulli(self._keep, self._keep + UNIT, row.size)
        drawn = source.below(self.n_outputs // 2, row.size)
        # Any column but for one bit, at which the row has a 1; that bit then makes it agree, or not.
        bit = np.floor(np.log2(row)).astype(np.int64)
        low = drawn & ((1 << bit) - 1)
        column = ((drawn - low) << 1) | low
        odd = np.bitwise_count(row & column) % 2 == 1
        answer = column | ((odd == agrees).astype(np.int64) << bit)
        return int(answer[0]) if truth.ndim == 0 else answer.reshape(truth.shape)

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the one case there is: column 1, whose entries are +1 in row 2 and −1 in row 1."""
        yield AuditCase(0, [1], [1, 0], np.array([[self._keep, UNIT]], dtype=object))

    def support(self, answers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return where the column is +1."""
        rows = np.arange(1, self.n_categories + 1)
        return np.asarray(np.bitwise_count(answers.astype(np.int64)[:, None] & rows) % 2 == 0)

    def log_weight(self, answers: NDArray[Any]) -> NDArray[np.float64]:
        """Return the same for all answers."""
        return np.full(len(answers), self._log_weight)

    def answer_counts(
        self, answers: NDArray[Any], published: Published, theta: NDArray[np.float64], listed: NDArray[np.int64]
    ) -> Counts | None:
        """Count each answer, where there are not too many of them."""
        if self.n_outputs > MAX_COUNTED:
            return None
        n, matrix = len(answers), self.transition_matrix()
        observed = np.bincount(answers, minlength=len(matrix)).astype(np.float64)
        return Counts(observed, np.zeros(len(matrix)), n * matrix, multinomial(n, matrix @ theta))

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        return 1 / (1 + math.exp(-self.epsilon)), 0.5

    def drawing(self) -> Drawing:
        """Draw from the cumulative table of the answers, where it is not too large."""
        if self.n_outputs * self.n_categories > MAX_OUTPUTS * 50:
            raise NotImplementedError
        from adobest_pp.mechanisms.drawing import draw_from_table

        return Drawing(draw_from_table, np.cumsum(self.transition_matrix(), axis=0))

    def _by_support(self, inside: Any, outside: Any, dtype: Any = np.float64) -> NDArray[Any]:
        if self.n_outputs > MAX_OUTPUTS:
            raise ValueError(
                f"HadamardResponse with {self.n_categories} categories has {self.n_outputs} possible answers; "
                f"at most {MAX_OUTPUTS} are enumerated"
            )
        table = np.full((self.n_outputs, self.n_categories), outside, dtype=dtype)
        table[self.support(np.arange(self.n_outputs))] = inside
        return table

    @property
    def _log_weight(self) -> float:
        return math.log(2 / self.n_outputs) - math.log(math.exp(self.epsilon) + 1)

    @cached_property
    def _keep(self) -> int:
        return exp_weight(self.epsilon)
