"""Standard randomized response: the truth with probability e^ε/(e^ε+K−1), otherwise any other category."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_epsilon, check_n_categories
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import Evidence, set_rows
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, Mechanism, Published
from adobest_pp.mechanisms.exact import UNIT, Source, randomized_response
from adobest_pp.mechanisms.guessing import guess_from_sets


@dataclass(frozen=True)
class SRR(Mechanism):
    """Standard (K-ary) randomized response.

    Parameters
    ----------
    n_categories : int
        Number of categories K, at least 2.
    epsilon : float
        Privacy budget of one answer.

    See Also
    --------
    RRRR : Randomized response restricted to a published subset.
    SubsetSelection : Answers with a set of categories.

    Examples
    --------
    >>> from adobest_pp import SRR
    >>> SRR(3, epsilon=1.0).transition_matrix().round(3)
    array([[0.576, 0.212, 0.212],
           [0.212, 0.576, 0.212],
           [0.212, 0.212, 0.576]])
    """

    n_categories: int
    epsilon: float
    answers_are_categories: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._set(n_categories=check_n_categories(self.n_categories), epsilon=check_epsilon(self.epsilon))

    def transition_matrix(self) -> Floats:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (K, K)."""
        other, own = self._levels
        return np.full((self.n_categories, self.n_categories), other) + own * np.eye(self.n_categories)

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Keep the truth, or replace it with any other category."""
        return randomized_response(source, x, self.n_categories, self._keep)

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return one row for each category that occurs: base + own·θ[y]."""
        used, row_of = np.unique(answers, return_inverse=True)
        base, own = self._levels
        return set_rows(row_of, np.full(used.size, -1), self.n_categories, base=base, own=own, category=used), row_of

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count each category."""
        observed = np.bincount(answers, minlength=self.n_categories)[listed].astype(np.float64)
        return self._named_counts(len(answers), observed, theta, listed)

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        # The support set of an answer is one category.
        first = np.full(self.n_categories, 1 / self.n_categories)
        weight = self.n_categories * self._levels[0]
        return guess_from_sets(np.sort(theta)[::-1], math.exp(self.epsilon), first, weight)

    def naming(self) -> tuple[float, float]:
        """Return the probabilities to name the truth and another category; see `Mechanism.naming`."""
        base, own = self._levels
        return base + own, base

    def drawing(self) -> Drawing:
        """Draw as RRRR does with an empty subset, which uses the outer coefficients only."""
        coefficients = np.zeros((5, self.n_categories))
        coefficients[2], coefficients[3] = self._levels
        return self._drawing("draw_category", coefficients)

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x] that the production path draws from; columns have equal sums."""
        return self._weights_by_support(np.eye(self.n_categories, dtype=bool))

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the only case; by symmetry the first two categories have the worst ratio."""
        yield AuditCase(0, [0], [0, 1], np.array([[self._keep, UNIT]], dtype=object))

    @property
    def _levels(self) -> tuple[float, float]:
        """The numbers (base, own): an answer y has probability base + own·θ[y]."""
        other = 1 / (math.exp(self.epsilon) + self.n_categories - 1)
        return other, math.expm1(self.epsilon) * other
