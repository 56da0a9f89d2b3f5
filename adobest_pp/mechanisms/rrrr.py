"""Randomly restricted randomized response (RRRR): a person answers within a published subset and one more category."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import (
    check_epsilon,
    check_integer,
    check_kappa,
    check_n_categories,
    check_numbers,
    check_subset,
)
from adobest_pp._text import brief, by_label
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import Evidence, set_rows, unique_rows
from adobest_pp.mechanisms.base import AuditCase, Counts, Drawing, Mechanism, Published
from adobest_pp.mechanisms.exact import UNIT, Source, exp_weight, log_upper_bound, randomized_response
from adobest_pp.mechanisms.registry import MAX_BUDGETS

MAX_CATEGORIES_FOR_EVERY_SUBSET = 10


class Coefficients(NamedTuple):
    """The five distinct probabilities of RRRR for every subset size k = 0 … K−1, each an array of shape (K,).

    An answer y in S has probability ``inner + inner_own·θ[y]``, and an answer outside has
    ``outer + outer_own·θ[y] + (cross − outer)·θ(S)``. Size 0 is SRR on all categories, without `inner` and `cross`.
    """

    inner: Floats
    inner_own: Floats
    outer: Floats
    outer_own: Floats
    cross: Floats


@dataclass(frozen=True)
class RRRR(Mechanism):
    """Randomly restricted randomized response, exactly ε-LDP for every subset (Theorem 1 of [1]_).

    A subset S of likely categories is published. A person in S answers by randomized response on S and one random
    category outside. A person outside S first applies randomized response within the complement.

    Parameters
    ----------
    n_categories, epsilon
        As in `SRR`.
    kappa : float, default 0.9
        Share of the budget that is spent inside the subset, ε₁ = κε, in (0, 1]. ε₂ is the largest that keeps ε.

    Attributes
    ----------
    epsilon1 : float
        The budget of randomized response within the subset.

    See Also
    --------
    RRRR.from_budgets : Any two budgets, and the privacy loss that they have.
    SRR : RRRR with the empty subset.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> from adobest_pp import RRRR
    >>> RRRR(4, epsilon=1.0, kappa=0.8).transition_matrix([0, 1]).round(3)
    array([[0.527, 0.237, 0.237, 0.237],
           [0.237, 0.527, 0.237, 0.237],
           [0.118, 0.118, 0.322, 0.205],
           [0.118, 0.118, 0.205, 0.322]])
    """

    publishes_subset: ClassVar[bool] = True
    answers_are_categories: ClassVar[bool] = True

    n_categories: int
    epsilon: float
    kappa: float | None = 0.9
    epsilon1: float = field(init=False, repr=False)
    _budgets: tuple[float, tuple[float, ...]] | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set(n_categories=check_n_categories(self.n_categories))
        if self._budgets:
            self._set(epsilon1=self._budgets[0])
            self._set(epsilon=log_upper_bound(self._worst_ratio()))
            return
        epsilon, kappa = check_epsilon(self.epsilon), check_kappa(self.kappa)
        self._set(epsilon=epsilon, kappa=kappa, epsilon1=kappa * epsilon)

    @classmethod
    def from_budgets(cls, n_categories: int, epsilon1: float, epsilon2: float | Sequence[float]) -> "RRRR":
        """Build the mechanism with any two budgets. Its `epsilon` is the privacy loss that they have.

        Parameters
        ----------
        n_categories : int
            Number of categories K.
        epsilon1 : float
            Budget within the subset, at least 0.
        epsilon2 : float or sequence of K floats
            Budget within the complement, at least 0: one for all subset sizes, or one for each size 0 … K−1.

        Returns
        -------
        RRRR
            With ``kappa = None`` and `epsilon` the largest loss over all subsets.

        Examples
        --------
        >>> from adobest_pp import RRRR
        >>> round(RRRR.from_budgets(10, 0.4, 0.5).epsilon, 3)
        0.83
        """
        k = check_integer(n_categories, "n_categories", 2, MAX_BUDGETS)
        first = check_epsilon(epsilon1, "epsilon1", allow_zero=True)
        allowed = f"one number, or one for each of the {k} subset sizes"
        numbers = float(epsilon2) if isinstance(epsilon2, Fraction) else by_label(epsilon2, None, "epsilon2")
        array = check_numbers(numbers, "fiu", "epsilon2", allowed)
        if array.shape not in ((), (k,)):
            raise ValueError(f"epsilon2 must be {allowed}, got {brief(epsilon2)}")
        second = tuple(
            check_epsilon(value, "epsilon2", allow_zero=True) for value in np.broadcast_to(array, k).tolist()
        )
        return cls(k, math.nan, None, _budgets=(first, second))

    def epsilon2(self, size: int) -> float:
        """Return ε₂, the budget within the complement, for a subset of `size` categories."""
        return self._epsilon2[check_integer(size, "size", 0, self.n_categories - 1)]

    @cached_property
    def coefficients(self) -> Coefficients:
        """The distinct probabilities for every subset size, from which matrices, likelihood and utilities follow."""
        size = np.arange(self.n_categories)
        rest = self.n_categories - size
        e1 = math.exp(self.epsilon1)
        epsilon2 = np.array(self._epsilon2)
        inner = 1 / (e1 + size)
        outer = np.where(size > 0, e1 * inner, 1.0) / (np.exp(epsilon2) + rest - 1)
        columns = Coefficients(
            inner, math.expm1(self.epsilon1) * inner, outer, np.expm1(epsilon2) * outer, inner / rest
        )
        for column in columns:
            column.flags.writeable = False
        return columns

    def transition_matrix(self, subset: ArrayLike) -> Floats:
        """Return ``G[y, x] = P(Y=y | X=x)``, of shape (K, K), when `subset` is published.

        Parameters
        ----------
        subset : indices or boolean mask
            The categories of S, at most K−1. The empty subset gives SRR.
        """
        mask = check_subset(subset, self.n_categories)
        inner, inner_own, outer, outer_own, cross = (column[mask.sum()] for column in self.coefficients)
        inside_y, inside_x = mask[:, None], mask[None, :]
        shared = np.where(inside_y, inner, np.where(inside_x, cross, outer))
        return np.asarray(shared + np.diag(np.where(mask, inner_own, outer_own)))

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw the category outside S (from the truth, if it is outside), then answer within S and that category."""
        members, others = np.flatnonzero(subset), np.flatnonzero(~subset)
        k, c = members.size, others.size
        rank = np.where(subset, np.cumsum(subset), np.cumsum(~subset)) - 1
        inside = subset[x]
        position = np.where(inside, rank[x], k)

        # A device makes both draws for everybody. If it made only one, its time would reveal who is inside.
        drawn = np.flatnonzero(~inside | source.on_device)
        extra = source.below(c, x.size)
        randomized = extra.copy()
        randomized[drawn] = randomized_response(source, rank[x[drawn]], c, self._keep2[k])
        extra = np.where(inside, extra, randomized)
        chosen = randomized_response(source, position, k + 1, self._keep1)
        return np.where(chosen == k, others[extra], np.append(members, -1)[chosen])

    def exact_weights(self, subset: ArrayLike) -> NDArray[np.object_]:
        """Return the integers W[y, x] that the production path draws from; columns have equal sums."""
        mask = check_subset(subset, self.n_categories)
        return self._weights(mask, int(mask.sum()))

    def published_odds(self, subset: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the odds within the subset and within the rest of the categories."""
        return self._keep1, self._keep2[len(subset or ())]

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield every subset for K ≤ 10, and one of each size for larger K: by symmetry, that is enough."""
        if self.n_categories > MAX_CATEGORIES_FOR_EVERY_SUBSET:
            yield from self._size_cases()
            return
        everyone = list(range(self.n_categories))
        for size in everyone:
            for subset in combinations(everyone, size):
                yield AuditCase(size, everyone, everyone, self.exact_weights(subset))

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return rows for each set. Answers inside their set need only its size."""
        k = self.n_categories
        codes, code_of = np.unique(published.row * k + answers, return_inverse=True)
        index, answer = codes // k, codes % k
        size = published.subsets.sum(axis=1)[index]
        free = published.subsets[index, answer] | (size == 0)

        # Rows without a set come first. A set is needed only if some answer is outside it.
        needed = np.zeros(len(published.subsets), dtype=bool)
        needed[index[~free]] = True
        packed = np.packbits(published.subsets[needed], axis=1)
        distinct, rank = unique_rows(packed)
        rank_of_set = np.cumsum(needed) - 1
        set_index = np.where(free, -1, rank[rank_of_set[index]] if len(rank) else -1)
        keys = np.where(free, self._free_rank[size], k + set_index) * k + answer
        _, first, row_of_code = np.unique(keys, return_index=True, return_inverse=True)
        row_of = row_of_code[code_of]
        base, own, inside = self._levels(size[first], set_index[first] >= 0)
        levels = {"base": base, "own": own, "inside": inside}
        return set_rows(row_of, set_index[first], k, packed[distinct], category=answer[first], **levels), row_of

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count each category inside and outside the published subset, and the answers inside it by its size.

        Given the subsets, answers are independent. If earlier answers chose the subsets, the sums are martingales with
        the same variances.
        """
        index, subsets = published
        k, size = self.n_categories, subsets.sum(axis=1)
        people = np.bincount(index, minlength=len(subsets)).astype(np.float64)
        inner, inner_own, outer, outer_own, cross = (column[size][:, None] for column in self.coefficients)
        of_size = (size[:, None] == np.unique(size)[None, :]).astype(np.float64)

        inside = subsets[index, answers]
        observed = [np.bincount(answers[inside == side], minlength=k)[listed] for side in (True, False)]
        observed += [of_size.T @ np.bincount(index[inside], minlength=len(subsets))]

        members = subsets.astype(np.float64)
        near, far = members[:, listed], 1 - members[:, listed]
        eye = (np.arange(k) == listed[:, None]).astype(np.float64)
        slopes = [(people @ (near * inner_own))[:, None] * eye]
        slopes += [(people @ (far * outer_own))[:, None] * eye + (people[:, None] * (cross - outer) * far).T @ members]
        slopes += [of_size.T @ (people[:, None] * inner_own * members)]
        constants = [people @ (near * inner), people @ (far * outer), of_size.T @ (people * inner[:, 0] * size)]

        mass = (members @ theta)[:, None]
        of_inner = near * (inner + inner_own * theta[listed])
        of_outer = far * (outer + outer_own * theta[listed] + (cross - outer) * mass)
        of_any = inner * size[:, None] + inner_own * mass
        means = np.hstack([of_inner, of_outer, of_size * of_any])
        squares = np.diag(people @ means)  # an indicator is its own square
        first, last = slice(0, listed.size), slice(2 * listed.size, None)
        squares[first, last] = (people[:, None] * of_inner).T @ of_size
        squares[last, first] = squares[first, last].T
        covariance = squares - (people[:, None] * means).T @ means
        constant, slope = np.concatenate(constants), np.vstack(slopes)
        return Counts(np.concatenate(observed).astype(np.float64), constant, slope, covariance)

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        # The best guess is the answer, or the most frequent category inside or outside S.
        inner, inner_own, outer, outer_own, cross = (column[subset.sum()] for column in self.coefficients)
        likeliest = np.max(theta[subset], initial=0.0)
        inside = np.maximum((inner + inner_own) * theta[subset], inner * theta.max())
        other = max(cross * likeliest, outer * theta[~subset].max())
        outside = np.maximum((outer + outer_own) * theta[~subset], other)
        return float(inside.sum() + outside.sum())

    def drawing(self) -> Drawing:
        """Draw with the coefficients for the size of the published subset."""
        return self._drawing("draw_category", np.stack(self.coefficients))

    def settings(self) -> dict[str, Any]:
        """Return plain values that build an equal mechanism."""
        plain = super().settings()
        if plain.pop("_budgets") is None:
            return plain
        del plain["kappa"]
        return plain | {"epsilon1": self.epsilon1, "epsilon2": list(self._epsilon2)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "RRRR":
        """Build the mechanism of these settings."""
        if "epsilon1" in settings:
            return cls.from_budgets(settings["n_categories"], settings["epsilon1"], settings["epsilon2"])
        return cls(settings["n_categories"], settings["epsilon"], settings["kappa"])

    def _levels(self, size: Integers, has_set: Masks) -> tuple[Floats, Floats, Floats]:
        """Return base, own and inside of answers, given the sizes of their subsets and whether they are outside."""
        inner, inner_own, outer, outer_own, cross = (column[size] for column in self.coefficients)
        is_inner = ~has_set & (size > 0)
        inside = np.where(has_set, cross - outer, 0.0)
        return np.where(is_inner, inner, outer), np.where(is_inner, inner_own, outer_own), inside

    @cached_property
    def _free_rank(self) -> Integers:
        """For each subset size, the rank of its rows without a set: by falling base, then by own."""
        base, own, _ = self._levels(np.arange(self.n_categories), np.zeros(self.n_categories, dtype=bool))
        return np.asarray(np.unique(np.stack([-base, own], axis=1), axis=0, return_inverse=True)[1], dtype=np.int64)

    def _weights(self, inside: Masks, size: int) -> NDArray[np.object_]:
        """Return W[y, x] for some categories; `inside` says which of them are in the subset of `size` categories."""
        rest = self.n_categories - size
        keep1, keep2 = self._keep1 if size else UNIT, self._keep2[size]
        total2 = keep2 + (rest - 1) * UNIT
        weights = np.full((inside.size, inside.size), keep1 * UNIT * rest, dtype=object)
        weights[np.ix_(~inside, inside)] = UNIT * total2
        weights[inside, :] = UNIT * rest * total2
        own = {True: keep1 * rest * total2, False: keep1 * keep2 * rest}
        np.fill_diagonal(weights, [own[bool(member)] for member in inside])
        return weights

    def _size_cases(self) -> Iterator[AuditCase]:
        # Two categories inside and three outside cover every entry of the table in docs/math.md, section 1.
        for size in range(self.n_categories):
            candidates = [0, 1][:size] + list(range(size, min(size + 3, self.n_categories)))
            weights = self._weights(np.array(candidates) < size, size)
            yield AuditCase(size, candidates, candidates, weights)

    def _worst_ratio(self) -> Fraction:
        """Return the largest ratio of all `_size_cases` without building their tables."""
        worst = (1, 1)
        for size in range(self.n_categories):
            rest = self.n_categories - size
            keep1, keep2 = self._keep1 if size else UNIT, self._keep2[size]
            # The weights of an answer outside the subset: for its category, for others outside, and for those inside.
            weights = [keep1 * keep2 * rest]
            weights += [keep1 * UNIT * rest] if rest > 1 else []
            weights += [UNIT * (keep2 + (rest - 1) * UNIT)] if size else []
            for high, low in ((max(weights), min(weights)), (keep1, UNIT)):
                if high * worst[1] > worst[0] * low:
                    worst = (high, low)
        return Fraction(*worst)

    @cached_property
    def _epsilon2(self) -> tuple[float, ...]:
        if self._budgets:
            return self._budgets[1]
        return tuple(
            _largest_epsilon2(self.epsilon, self.epsilon1, size, self.n_categories - size)
            for size in range(self.n_categories)
        )

    @cached_property
    def _keep1(self) -> int:
        return exp_weight(self.epsilon1)

    @cached_property
    def _keep2(self) -> tuple[int, ...]:
        """The integers that stand for e^ε₂, by integer arithmetic: no ratio exceeds ⌊e^ε·UNIT⌋/UNIT."""
        if self._budgets:
            return tuple(exp_weight(value) for value in self._budgets[1])
        keep = exp_weight(self.epsilon)
        weights = []
        for size in range(self.n_categories):
            rest = self.n_categories - size
            gap = self._keep1 * rest - keep
            bounded = size > 0 and rest > 1 and gap > 0
            weights.append(min(keep, keep * (rest - 1) * UNIT // gap) if bounded else keep)
        return tuple(weights)


def _largest_epsilon2(epsilon: float, epsilon1: float, size: int, rest: int) -> float:
    """Return the largest ε₂ that keeps ε (Theorem 1), without cancellation as ε₁ → ε."""
    if size == 0 or rest == 1 or epsilon - epsilon1 >= math.log(rest):
        return epsilon
    shrink = rest * math.expm1(epsilon1 - epsilon) / (rest - 1)
    return min(epsilon, -math.log1p(shrink)) if shrink > -1 else epsilon


def check_rrrr(mechanism: Any, name: str = "mechanism") -> RRRR:
    """Return the mechanism if it is an RRRR, or raise ValueError."""
    if not isinstance(mechanism, RRRR):
        raise ValueError(f"{name} must be an RRRR, the only mechanism that publishes a subset, got {brief(mechanism)}")
    return mechanism
