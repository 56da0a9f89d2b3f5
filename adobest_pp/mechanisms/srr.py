"""Standard randomized response: the truth with probability e^ε/(e^ε+K−1), otherwise any other category."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_epsilon, check_n_categories, check_private
from adobest_pp.mechanisms.base import AuditCase, Mechanism
from adobest_pp.mechanisms.exact import UNIT, exp_weight, randomized_response, source_of


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_categories", check_n_categories(self.n_categories))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))

    def transition_matrix(self) -> NDArray[np.float64]:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (K, K)."""
        other, own = self.linear_form()
        return np.full((self.n_categories, self.n_categories), other) + own * np.eye(self.n_categories)

    def linear_form(self) -> tuple[float, float]:
        """Return (base, own): an answer y has probability base + own·θ[y]."""
        other = 1 / (math.exp(self.epsilon) + self.n_categories - 1)
        return other, math.expm1(self.epsilon) * other

    @overload
    def privatize(self, x: int, rng: np.random.Generator | None = None) -> int: ...
    @overload
    def privatize(self, x: ArrayLike, rng: np.random.Generator | None = None) -> int | NDArray[np.int64]: ...
    def privatize(self, x: ArrayLike, rng: np.random.Generator | None = None) -> int | NDArray[np.int64]:
        """Randomize private categories.

        Parameters
        ----------
        x : int or array of int
            Private categories, 0 … K−1.
        rng : numpy.random.Generator, optional
            None is the production path: exact, from the operating system's entropy. A Generator is for
            simulation only: reproducible, but its probabilities are rounded and its state can be guessed.

        Returns
        -------
        int or array of int
            Answers, of the shape of `x`.

        Notes
        -----
        ε covers the answer, not the time it takes. The randomness drawn and the operations on it are the same for every
        x. ``python -m validation.side_channel`` measures what is left.
        """
        truth = check_private(x, self.n_categories)
        answer = randomized_response(source_of(rng), truth.ravel(), self.n_categories, self._keep)
        return int(answer[0]) if truth.ndim == 0 else answer.reshape(truth.shape)

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[y, x] that the production path draws against; columns have equal sums."""
        weights = np.full((self.n_categories, self.n_categories), UNIT, dtype=object)
        np.fill_diagonal(weights, self._keep)
        return weights

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the one case there is; by symmetry the first two categories hold the worst ratio."""
        yield AuditCase(0, [0], [0, 1], np.array([[self._keep, UNIT]], dtype=object))

    def settings(self) -> dict[str, Any]:
        """Return plain values that build an equal mechanism."""
        return {"mechanism": "SRR", "n_categories": self.n_categories, "epsilon": self.epsilon}

    @cached_property
    def _keep(self) -> int:
        return exp_weight(self.epsilon)
