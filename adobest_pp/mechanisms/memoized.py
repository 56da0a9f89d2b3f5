"""Memoized answers, for the same question to the same people again and again.

A device draws a permanent answer z₀ of budget ε_∞ once, and keeps it. In each wave it randomizes z₀ again. However
many waves there are, the collector learns no more about x than z₀ itself would reveal, ε_∞; one wave alone reveals
less. If the device randomized x anew in each wave, the budgets would add up without end.

**When x changes.** A device draws a permanent answer for every category at the start, and uses that of the person's
current category. So what it remembers does not depend on x, and nothing is drawn when x changes. The bound ε_∞ is for
people whose x stays the same. If x differs in d of the waves, the loss can be larger, by up to 2d times the
instantaneous budget: answers from different permanent answers fit together less well, so a change can be noticed
(`epsilon_of_changes`).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import MAX_EPSILON, check_epsilon, check_integer
from adobest_pp._text import brief
from adobest_pp._types import Answers, Floats, Integers, Masks
from adobest_pp.evidence import Evidence, pattern_rows
from adobest_pp.mechanisms.base import MAX_OUTPUTS, AuditCase, Counts, Drawing, Mechanism, Published, quotients, rows_of
from adobest_pp.mechanisms.exact import Source, log_upper_bound
from adobest_pp.mechanisms.guessing import guess_from_matrix
from adobest_pp.mechanisms.information import from_matrix
from adobest_pp.mechanisms.privacy import worst_ratio
from adobest_pp.mechanisms.published_question import MAX_TABLE
from adobest_pp.mechanisms.registry import mechanism_from_settings
from adobest_pp.mechanisms.srr import SRR

# Stands for a wave in which the person did not take part.
NO_ANSWER = -1
# Products of more probabilities than this may underflow.
MAX_WAVES = 60


@dataclass(frozen=True)
class Memoized(Mechanism):
    """Several waves of one person's answers: each randomizes the same permanent answer again, as in RAPPOR [1]_.

    Parameters
    ----------
    permanent : Mechanism
        Draws the permanent answer, one number, from x. Its ε bounds what any number of waves reveals.
    instantaneous : Mechanism
        Draws the answer of a wave, one number, from the permanent answer: it has as many categories as `permanent` has
        answers.
    n_waves : int
        How many waves an answer has.

    Attributes
    ----------
    epsilon : float
        ε of the permanent answer.
    wave_epsilon : float
        The exact loss of one wave alone.

    Notes
    -----
    An answer is a row of `n_waves` numbers, −1 for a wave that the person missed. Whether somebody misses a wave must
    not depend on x: ε does not cover it.

    See Also
    --------
    Memoized.from_budgets : Randomized response with given budgets of all waves and of one.
    Allowance : Keeps the permanent answers on a person's device.

    References
    ----------
    .. [1] Ú. Erlingsson, V. Pihur and A. Korolova (2014), RAPPOR: randomized aggregatable privacy-preserving ordinal
       response, ACM CCS.

    Examples
    --------
    >>> from adobest_pp import SRR, Memoized
    >>> mechanism = Memoized(SRR(4, epsilon=2.0), SRR(4, epsilon=2.0), n_waves=10)
    >>> mechanism.epsilon, round(mechanism.wave_epsilon, 3)
    (2.0, 1.233)
    """

    permanent: Mechanism
    instantaneous: Mechanism
    n_waves: int
    n_categories: int = field(init=False, repr=False)
    epsilon: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set(n_waves=check_integer(self.n_waves, "n_waves", 1, MAX_WAVES))
        for name in ("permanent", "instantaneous"):
            _check_part(getattr(self, name), name)
        needed, got = self.permanent.n_outputs, self.instantaneous.n_categories
        if got != needed:
            raise ValueError(
                f"instantaneous must have {needed} categories, one for each answer of permanent, got {got}"
            )
        self._set(n_categories=self.permanent.n_categories, epsilon=self.permanent.epsilon)

    @classmethod
    def from_budgets(cls, n_categories: int, epsilon: float, wave_epsilon: float, n_waves: int) -> Self:
        """Build the mechanism from randomized response, with given budgets of all waves together and of one wave.

        Parameters
        ----------
        n_categories, n_waves : int
            Numbers of categories K and of waves.
        epsilon, wave_epsilon : float
            Budget of the permanent answer, ε_∞, and of one wave, which is smaller.

        Examples
        --------
        >>> from adobest_pp import Memoized
        >>> mechanism = Memoized.from_budgets(6, epsilon=2.0, wave_epsilon=1.0, n_waves=3)
        >>> round(mechanism.wave_epsilon, 9), round(mechanism.instantaneous.epsilon, 3)
        (1.0, 1.715)
        """
        k, total = check_integer(n_categories, "n_categories", 2, math.isqrt(MAX_TABLE)), check_epsilon(epsilon)
        wave = check_epsilon(wave_epsilon, "wave_epsilon")
        if wave >= total:
            raise ValueError(f"wave_epsilon must be below epsilon, {total:g}, got {wave:g}")
        # SRR(ε) keeps the truth with probability a = (e^ε−1)/(e^ε+K−1) and forgets it otherwise, so a multiplies. This
        # is the ε₂ with a(ε₂) = a(wave)/a(total), without a difference of rounded numbers.
        second = math.log1p(math.expm1(wave) * (math.expm1(total) + k) / (math.exp(wave) * math.expm1(total - wave)))
        if second > MAX_EPSILON:
            raise ValueError(f"wave_epsilon must be further below epsilon, {total:g}, got {wave!r}")
        made, step = cls(SRR(k, total), SRR(k, second), n_waves), 1e-15
        while made.wave_epsilon > wave:  # rounding
            second, step = second * (1 - step), 2 * step
            made = cls(made.permanent, SRR(k, second), n_waves)
        return made

    @cached_property
    def wave_epsilon(self) -> float:
        """The exact loss of one wave alone, rounded up."""
        # If both are randomized response, all answers have the same loss, by symmetry.
        is_alike = isinstance(self.permanent, SRR) and isinstance(self.instantaneous, SRR)
        answers = range(1 if is_alike else self.instantaneous.n_outputs)
        ratio, *_ = worst_ratio(*self._weights_of([(y,) for y in answers]))
        return log_upper_bound(ratio)  # type: ignore[arg-type]

    def epsilon_of_changes(self, changes: int) -> float:
        """Return a bound on the loss for people whose x differs from its usual value in up to `changes` waves.

        It holds between any two such histories of x: ε_∞ between two constant histories, and for each of the two the
        instantaneous budget of each wave that differs. It is at most the instantaneous budget of all waves.
        """
        d = check_integer(changes, "changes", 0, self.n_waves)
        again = self.instantaneous.epsilon
        return min(self.epsilon + 2 * d * again, self.n_waves * again) if d else self.epsilon

    # What the device does.

    def permanent_answers(self, rng: np.random.Generator | None = None) -> Integers:
        """Draw the permanent answers of a device, one for each category, so that they do not depend on x."""
        return np.asarray(self.permanent.privatize(np.arange(self.n_categories), rng=rng))

    def randomize(self, x: Integers, source: Source, subset: Masks) -> Integers:
        """Draw a permanent answer for each person, and all waves from it, for people whose x stays the same."""
        kept = self.permanent.randomize(x, source, subset)
        return np.column_stack([self.instantaneous.randomize(kept, source, subset) for _ in range(self.n_waves)])

    def audit_cases(self) -> Iterator[AuditCase]:
        """Yield the weights of all waves together or, if too many, of the permanent answer, which bounds them."""
        if self._n_bags * self.n_categories > MAX_OUTPUTS:
            yield from self.permanent.audit_cases()
            return
        bags = self._bags
        weights, totals = self._weights_of(bags)
        yield AuditCase(self.n_waves, bags, list(range(self.n_categories)), np.array(weights, dtype=object), totals)

    # What an answer is.

    @property
    def answer_dims(self) -> dict[str, int]:
        """An answer has a number for each wave."""
        return {"wave": self.n_waves}

    @property
    def n_outputs(self) -> int:
        """The number of possible answers of a person who takes part in every wave."""
        return int(self.instantaneous.n_outputs**self.n_waves)

    def outputs(self) -> Integers:
        """Return every possible answer of a person who takes part in every wave."""
        self._check_few_outputs()
        return np.array(list(product(range(self.instantaneous.n_outputs), repeat=self.n_waves)))

    @property
    def answer_type(self) -> np.dtype[Any]:
        """The integer type that answers are stored in."""
        return np.min_scalar_type(-self.instantaneous.n_outputs)

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return rows of a number for each wave, or raise ValueError."""
        most = self.instantaneous.n_outputs - 1
        allowed = f"rows of {self.n_waves} numbers from 0 to {most}, or {NO_ANSWER} for a wave without an answer"
        rows = rows_of(answers, self.n_waves, allowed)
        if rows.dtype == bool or (rows.size and (rows.min() < NO_ANSWER or rows.max() > most)):
            raise ValueError(f"answers must be {allowed}, got other numbers")
        return rows.astype(np.int64)

    # What an answer says about θ.

    def transition_matrix(self) -> Floats:
        """Return ``G[y, x] = P(Y = outputs()[y] | X=x)``, or raise ValueError if there are too many answers."""
        return self.chances(self.outputs())

    def chances(self, answers: Answers) -> Floats:
        """Return P(answer | x) of checked answers, of shape (n, K): given z₀, the waves are independent."""
        first, again = self._matrices
        # The last row, at index −1, is for a wave without an answer.
        again = np.vstack([again, np.ones(again.shape[1])])
        given = np.ones((len(answers), again.shape[1]))
        for wave in answers.T:
            given *= again[wave]
        return np.asarray(given @ first)

    def wave_matrix(self) -> Floats:
        """Return ``G[y, x]`` of one wave: the product of the two channels."""
        first, again = self._matrices
        return np.asarray(again @ first)

    def evidence(self, answers: Answers, published: Published) -> tuple[Evidence, Integers]:
        """Return one row for each distinct bag of answers: their order contains no information."""
        bags, row_of = np.unique(np.sort(answers, axis=1).astype(np.int64), axis=0, return_inverse=True)
        return pattern_rows(row_of.ravel(), self.chances(bags))

    def answer_counts(self, answers: Answers, published: Published, theta: Floats, listed: Integers) -> Counts:
        """Count each answer in each wave. Waves of one person are correlated through the permanent answer."""
        first, again = self._matrices
        m, held = len(again), first @ theta
        taken = (answers != NO_ANSWER).astype(np.float64)
        both = taken.T @ taken
        observed = np.array([np.bincount(wave[wave >= 0], minlength=m) for wave in answers.T], dtype=np.float64)
        single = again @ held
        joint = (again * held) @ again.T
        covariance = np.kron(both, joint - np.outer(single, single))
        for wave in range(self.n_waves):
            place = slice(wave * m, (wave + 1) * m)
            covariance[place, place] = both[wave, wave] * (np.diag(single) - np.outer(single, single))
        slope = np.kron(np.diag(both)[:, None], again @ first).astype(np.float64)
        return Counts(observed.ravel(), np.zeros(observed.size), slope, covariance)

    def _information(self, theta: Floats, subset: Masks) -> Floats:
        if self._n_bags > MAX_OUTPUTS:
            raise NotImplementedError(f"Memoized of {self.n_waves} waves has more than {MAX_OUTPUTS:,} bags of answers")
        return from_matrix(self._bag_matrix, theta)

    def total_information(self, answers: Answers, published: Published, theta: Floats) -> Floats:
        """Return the information in all answers: the observed one if waves are missing or bags too many to list."""
        if self._n_bags <= MAX_OUTPUTS and (answers != NO_ANSWER).all():
            return len(answers) * self.information(theta)
        evidence, _ = self.evidence(answers, published)
        rows = evidence.matrix() / (evidence.matrix() @ theta)[:, None]
        return np.asarray((rows.T * evidence.count) @ rows)

    def _best_guess(self, theta: Floats, subset: Masks) -> float:
        # With too many bags to list, an upper bound: a guess from the permanent answer is at least as good.
        if self._n_bags > MAX_OUTPUTS:
            return self.permanent._best_guess(theta, subset)
        return guess_from_matrix(self._bag_matrix, theta)

    def drawing(self) -> Drawing:
        """Draw the truth, the permanent answer, and each wave from it."""
        first, again = (np.cumsum(matrix, axis=0) for matrix in self._matrices)
        table = np.zeros((1 + len(first) + len(again), max(2, first.shape[1], again.shape[1])))
        table[0, :2] = self.n_waves, len(first)
        table[1 : 1 + len(first), : first.shape[1]] = first
        table[1 + len(first) :, : again.shape[1]] = again
        return self._drawing("draw_waves", table)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build the mechanism of these settings."""
        permanent, instantaneous = (mechanism_from_settings(settings[name]) for name in ("permanent", "instantaneous"))
        return cls(permanent, instantaneous, settings["n_waves"])

    # Bags: answers without their order.

    @property
    def _n_bags(self) -> int:
        return math.comb(self.n_waves + self.instantaneous.n_outputs - 1, self.n_waves)

    @property
    def _bags(self) -> list[tuple[int, ...]]:
        return list(combinations_with_replacement(range(self.instantaneous.n_outputs), self.n_waves))

    @cached_property
    def _bag_matrix(self) -> Floats:
        """P(bag | x): the probability of one answer times the number of its orders."""
        bags = self._bags
        repeats = (Counter(bag).values() for bag in bags)
        orders = [math.factorial(self.n_waves) // math.prod(map(math.factorial, each)) for each in repeats]
        return np.asarray(self.chances(np.array(bags)) * np.array(orders, dtype=np.float64)[:, None])

    def _weights_of(self, answers: list[tuple[int, ...]]) -> tuple[list[list[int]], list[int]]:
        """Return integers W[y, x], and for each x the total to divide them by, to get P(answer | x)."""
        first, again = (_exact(part) for part in (self.permanent, self.instantaneous))
        sums = [sum(column) for column in zip(*again, strict=True)]
        unit = math.lcm(*sums)
        scaled = [[weight * (unit // total) for weight, total in zip(row, sums, strict=True)] for row in again]
        columns = list(zip(*first, strict=True))
        weights = []
        for answer in answers:
            given = [math.prod(scaled[y][z] for y in answer) for z in range(len(first))]
            weights.append([sum(a * b for a, b in zip(given, column, strict=True)) for column in columns])
        waves = len(answers[0])
        return weights, [sum(column) * unit**waves for column in columns]

    @cached_property
    def _matrices(self) -> tuple[Floats, Floats]:
        """P(z₀ | x) and P(y | z₀), each the exact quotients rounded."""
        return quotients(_exact(self.permanent)), quotients(_exact(self.instantaneous))


def _check_part(part: Any, name: str) -> None:
    allowed = "a mechanism whose answer is one number and that publishes no subset"
    is_one = isinstance(part, Mechanism) and not part.answer_dims and not part.publishes_subset
    if not is_one or not hasattr(part, "exact_weights"):
        raise ValueError(f"{name} must be {allowed}, got {brief(part)}")
    entries = part.n_outputs * part.n_categories
    if entries > MAX_TABLE:
        raise ValueError(f"{name} must have at most {MAX_TABLE:,} answers times categories, got {entries:,}")


def _exact(part: Any) -> list[list[int]]:
    return [[int(weight) for weight in row] for row in np.asarray(part.exact_weights(), dtype=object).tolist()]
