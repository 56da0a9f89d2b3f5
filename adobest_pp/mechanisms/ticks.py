"""Several ticks: a person ticks any of many options, and one budget covers the whole set.

Two people may differ in every option, so the options that are asked share the budget. If ε is small, asking each person
about all K options at ε/K each gives K² times the variance of one option at ε. Asking about one random option with all
of ε gives K times. So each person is asked about `n_asked` options, drawn at random and independently of the ticks, and
each of these ticks is randomized with ε/`n_asked`.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import as_numbers, check_epsilon, check_integer
from adobest_pp._types import Integers
from adobest_pp.mechanisms.base import AuditCase, rows_of
from adobest_pp.mechanisms.exact import UNIT, exp_bounds, exp_weight, source_of, uniform_subsets
from adobest_pp.mechanisms.privacy import Audit, audit_row
from adobest_pp.mechanisms.srr import SRR

# Stands for an option that the person was not asked about.
NOT_ASKED = -1
MAX_OPTIONS = 1000


@dataclass(frozen=True, init=False)
class Ticks:
    """Which of K options does a person tick? Randomized response on some options, with one budget for the set.

    Parameters
    ----------
    n_options : int
        Number of options K.
    epsilon : float
        Privacy budget of all ticks of a person together.
    n_asked : int, optional
        How many options a person is asked about. The default has the least variance for options that half of the
        people tick: 1 if ε is small, all if it is large.

    Attributes
    ----------
    tick : SRR
        The mechanism of each tick that is asked about: two categories, 0 for no and 1 for yes.

    Examples
    --------
    >>> from adobest_pp import Ticks
    >>> Ticks(8, epsilon=1.0).n_asked, Ticks(3, epsilon=9.0).n_asked
    (1, 3)
    >>> Ticks(8, epsilon=1.0).audit().holds
    True
    """

    n_options: int
    epsilon: float
    n_asked: int
    tick: SRR = field(repr=False, compare=False)

    def __init__(self, n_options: int, epsilon: float, n_asked: int | None = None) -> None:
        k, budget = check_integer(n_options, "n_options", 1, MAX_OPTIONS), check_epsilon(epsilon)
        asked = _best_number(k, budget) if n_asked is None else check_integer(n_asked, "n_asked", 1, k)
        values = {"n_options": k, "epsilon": budget, "n_asked": asked, "tick": SRR(2, _share(budget, asked))}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def privatize(self, x: ArrayLike, *, rng: np.random.Generator | None = None) -> Integers:
        """Randomize the ticks of one person or of several.

        Parameters
        ----------
        x : array of bool or of 0 and 1, shape (K,) or (n, K)
            What people tick.
        rng : numpy.random.Generator, optional
            For simulation only; None is exact, from the operating system's entropy.

        Returns
        -------
        array of int, of the same shape
            1 for yes and 0 for no, both randomized, and −1 for options that were not asked about.
        """
        bits = self._check_private(x)
        rows, source = np.atleast_2d(bits), source_of(rng)
        asked = uniform_subsets(source, self.n_options, self.n_asked, len(rows))
        # Every option is randomized, asked or not.
        ticked = self.tick.randomize(rows.ravel(), source, np.zeros(0, dtype=bool)).reshape(rows.shape)
        return np.where(asked, ticked, NOT_ASKED).reshape(bits.shape)

    def audit(self) -> Audit:
        """Return the exact loss between two sets that differ in all the options that are asked."""
        case = AuditCase(
            self.n_asked,
            [(1,) * self.n_asked],
            [(1 << self.n_asked) - 1, 0],
            np.array([[self._keep**self.n_asked, UNIT**self.n_asked]], dtype=object),
        )
        return Audit(repr(self), self.epsilon, (audit_row([case], self.epsilon, exp_bounds(self.epsilon)[0]),))

    def check_answers(self, answers: ArrayLike) -> Integers:
        """Return rows of K numbers with `n_asked` zeros and ones and −1 elsewhere, or raise ValueError."""
        allowed = f"rows of {self.n_options} numbers, 0 or 1 for the {self.n_asked} options that were asked, else -1"
        rows = rows_of(answers, self.n_options, allowed).astype(np.int64)
        if rows.size and (rows.min() < NOT_ASKED or rows.max() > 1 or ((rows >= 0).sum(axis=1) != self.n_asked).any()):
            raise ValueError(f"answers must be {allowed}, got other rows")
        return rows

    def by_option(self, answers: ArrayLike) -> list[Integers]:
        """Return for each option the answers of the people who were asked about it, which are answers of `tick`.

        Examples
        --------
        >>> import numpy as np, adobest_pp as ad
        >>> ticks = ad.Ticks(3, epsilon=2.0)
        >>> answers = ticks.privatize(np.tile([True, False, True], (900, 1)), rng=np.random.default_rng(1))
        >>> columns = ticks.by_option(answers)
        >>> len(columns), sum(map(len, columns))
        (3, 900)
        >>> ad.Responses.from_arrays(ticks.tick, columns[0], categories=["no", "yes"]).n_categories
        2
        """
        rows = self.check_answers(answers)
        return [column[column != NOT_ASKED] for column in rows.T]

    def settings(self) -> dict[str, Any]:
        """Return plain values that build an equal mechanism with ``Ticks(**settings)``."""
        return {"n_options": self.n_options, "epsilon": self.epsilon, "n_asked": self.n_asked}

    @cached_property
    def _keep(self) -> int:
        return exp_weight(self.tick.epsilon)

    def _check_private(self, x: ArrayLike) -> Integers:
        message = f"x must be rows of {self.n_options} zeros and ones, or True and False (their values are not shown)"
        try:
            bits = as_numbers(x, "biu")
        except TypeError:
            raise ValueError(message) from None
        if bits.ndim not in (1, 2) or bits.shape[-1] != self.n_options or ((bits != 0) & (bits != 1)).any():
            raise ValueError(message)
        return bits.astype(np.int64)


def _share(epsilon: float, n_asked: int) -> float:
    """Return the largest float of at most ε/n with which n ticks keep ε in exact arithmetic."""
    share = epsilon / n_asked
    while Fraction(exp_weight(share), UNIT) ** n_asked > exp_bounds(epsilon)[0]:
        share = float(np.nextafter(share, 0.0))
    return share


def _best_number(n_options: int, epsilon: float) -> int:
    """Return the number of options to ask for the least variance of a share of one half."""

    def variance(n_asked: int) -> float:
        squared = math.tanh(epsilon / n_asked / 2) ** 2
        return n_options / n_asked / squared if squared else math.inf

    return min(range(1, n_options + 1), key=variance)
