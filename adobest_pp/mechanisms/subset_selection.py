"""Subset selection (Ye and Barg): the answer is a set of categories that contains the truth more often than not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_epsilon, check_integer, check_n_categories, check_private
from adobest_pp.mechanisms.base import AuditCase, Mechanism
from adobest_pp.mechanisms.exact import UNIT, exp_weight, source_of, uniform_subsets

MAX_OUTPUTS = 20_000
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, init=False)
class SubsetSelection(Mechanism):
    """Subset selection, the minimax-optimal mechanism when nothing is known about θ [1]_.

    The answer is a set Z of d categories, with odds e^ε : 1 of any set that contains the truth against any
    set that does not.

    Parameters
    ----------
    n_categories : int
        Number of categories K, at least 2.
    epsilon : float
        Privacy budget of one answer.
    size : int, optional
        Number d of categories in an answer, 1 … K−1. By default the one with the least worst-case squared
        error, near K/(e^ε+1).

    References
    ----------
    .. [1] M. Ye and A. Barg (2018), Optimal schemes for discrete distribution estimation under locally
       differential privacy, IEEE Transactions on Information Theory 64(8).

    Examples
    --------
    >>> from adobest_pp import SubsetSelection
    >>> SubsetSelection(20, epsilon=1.0).size
    5
    """

    n_categories: int
    epsilon: float
    size: int

    def __init__(self, n_categories: int, epsilon: float, size: int | None = None) -> None:
        k = check_n_categories(n_categories)
        budget = check_epsilon(epsilon)
        object.__setattr__(self, "n_categories", k)
        object.__setattr__(self, "epsilon", budget)
        best = _best_size(k, budget) if size is None else check_integer(size, "size", 1, k - 1)
        object.__setattr__(self, "size", best)

    @property
    def n_outputs(self) -> int:
        """The number of possible answers, C(K, d)."""
        return math.comb(self.n_categories, self.size)

    def outputs(self) -> NDArray[np.int64]:
        """Return every possible answer in lexicographic order, of shape (C(K, d), d)."""
        if self.n_outputs > MAX_OUTPUTS:
            raise ValueError(
                f"SubsetSelection with {self.n_categories} categories and size {self.size} has about "
                f"10^{math.log10(self.n_outputs):.1f} possible answers; at most {MAX_OUTPUTS} are enumerated: "
                "use fewer categories, or linear_form(), which describes them all"
            )
        return np.array(list(combinations(range(self.n_categories), self.size)), dtype=np.int64)

    def transition_matrix(self) -> NDArray[np.float64]:
        """Return ``G[z, x] = P(Z = outputs()[z] | X=x)``, of shape (C(K, d), K), where that is not too large."""
        inside, log_scale = self.linear_form()
        return np.where(self._contains(), 1 + inside, 1.0) * math.exp(log_scale)

    def linear_form(self) -> tuple[float, float]:
        """Return (inside, log_scale): an answer Z has probability e^log_scale · (1 + inside·θ(Z)).

        The scale is kept apart as a logarithm because 1/C(K, d) leaves double precision for large K.
        """
        k, d = self.n_categories, self.size
        odds = (d * math.exp(self.epsilon) + k - d) / (k - d)
        return math.expm1(self.epsilon), -math.log(odds) - math.log(math.comb(k - 1, d))

    def privatize(self, x: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """Randomize private categories into sets of categories.

        Parameters
        ----------
        x : int or array of int
            Private categories, 0 … K−1.
        rng : numpy.random.Generator, optional
            None is the production path: exact, from the operating system's entropy. A Generator is for
            simulation only: reproducible, but its probabilities are rounded and its state can be guessed.

        Returns
        -------
        array of int
            Answers, of the shape of `x` with one more axis of length d. Categories are in increasing order, so
            that the order tells nothing.

        Notes
        -----
        ε covers the answer, not the time it takes. On the production path the randomness drawn and the operations on it
        are the same whether the truth is in the answer or not; the last rare redraws depend on the entropy alone.
        ``python -m validation.side_channel`` measures what is left.
        """
        truth = check_private(x, self.n_categories)
        flat = truth.ravel()
        answers = np.empty((flat.size, self.size), dtype=np.int64)
        for start in range(0, flat.size, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            answers[part] = self._privatize(flat[part], rng)
        return answers.reshape(*truth.shape, self.size)

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the integers W[z, x] that the production path draws against; columns have equal sums."""
        contains = self._contains()
        weights = np.full(contains.shape, UNIT, dtype=object)
        weights[contains] = self._keep
        return weights

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the one case there is: any answer, with a category in it and one outside."""
        answer = tuple(range(self.size))
        yield AuditCase(self.size, [answer], [0, self.size], np.array([[self._keep, UNIT]], dtype=object))

    def settings(self) -> dict[str, Any]:
        """Return plain values that build an equal mechanism."""
        return {
            "mechanism": "SubsetSelection",
            "n_categories": self.n_categories,
            "epsilon": self.epsilon,
            "size": self.size,
        }

    def _privatize(self, x: NDArray[np.int64], rng: np.random.Generator | None) -> NDArray[np.int64]:
        source = source_of(rng)
        k, d, rows = self.n_categories, self.size, np.arange(x.size)
        contains = source.bernoulli(d * self._keep, d * self._keep + (k - d) * UNIT, x.size)
        rest = np.zeros((x.size, k - 1), dtype=bool)
        for is_in in (True, False):
            # On a device both sizes are drawn for everybody: how long one takes would tell whether the truth is in.
            drawn = np.flatnonzero((contains == is_in) | (rng is None))
            subsets = uniform_subsets(source, k - 1, d - is_in, drawn.size)
            rest[drawn] = np.where((contains == is_in)[drawn, None], subsets, rest[drawn])
        others = np.arange(k - 1)
        mask = np.empty((x.size, k), dtype=bool)
        mask[rows[:, None], others + (others >= x[:, None])] = rest
        mask[rows, x] = contains
        return np.nonzero(mask)[1].reshape(x.size, d)

    def _contains(self) -> NDArray[np.bool_]:
        outputs = self.outputs()
        contains = np.zeros((len(outputs), self.n_categories), dtype=bool)
        np.put_along_axis(contains, outputs, True, axis=1)
        return contains

    @cached_property
    def _keep(self) -> int:
        return exp_weight(self.epsilon)


def _best_size(n_categories: int, epsilon: float) -> int:
    """Return the d that minimizes the worst-case risk; factors without d are left out."""
    d = np.arange(1, n_categories)
    rest = n_categories - d
    # Divided by e^ε, so that a large budget does not overflow.
    risk = (d + rest * math.exp(-epsilon)) ** 2 / (d * rest)
    return int(d[np.argmin(risk)])
