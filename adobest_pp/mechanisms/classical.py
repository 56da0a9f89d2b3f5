"""The classical designs of randomized response, by their names: a yes/no question, with dice, cards or a birthday.

In all of them category 0 is "no" and category 1 is "yes", and so are the answers 0 and 1. A design is two
probabilities, P(yes | no) and P(yes | yes). They are fractions, such as those of a die, so that ε, the audit and the
draws are exact.

ε covers what the collector sees if the person keeps the random part secret: the die, the cards, the answer to the
innocuous question. If some answer is impossible for one of the two categories, ε is infinite, and the design raises
ValueError. For example, if people can be forced to say "yes" but never "no", whoever says "no" reveals the truth.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_integer
from adobest_pp._text import brief
from adobest_pp.mechanisms.base import FiniteMechanism
from adobest_pp.mechanisms.channel import loss_of_table

# The largest denominator of a probability, and the most cards of a person.
MAX_DENOMINATOR, MAX_DRAWS = 1 << 64, 100
_TEXT = re.compile(r"[0-9]{1,20}/[0-9]{1,20}|[0-9]?\.[0-9]{1,20}")


class _Probability:
    """A field that accepts a probability as people write it, and stores it as a fraction."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, design: Any, owner: type | None = None) -> Fraction:
        if design is None:  # so that a dataclass finds no default
            raise AttributeError(self._name)
        value: Fraction = vars(design)[self._name]
        return value

    def __set__(self, design: Any, value: Fraction | str | float) -> None:
        vars(design)[self._name] = check_fraction(value, self._name)


@dataclass(frozen=True)
class _Design(FiniteMechanism):
    """A yes/no question, given by the probability of "yes" (or of a red card) for people of each category."""

    n_categories: int = field(init=False, default=2, repr=False)
    epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        self._set(epsilon=loss_of_table(self, type(self).__name__))

    def _check(self) -> None:
        """Raise ValueError if the settings do not fit together."""

    @property
    @abstractmethod
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(yes | no) and P(yes | yes)."""

    def exact_weights(self) -> NDArray[np.object_]:
        """Return the two probabilities over their common denominator."""
        unit = math.lcm(*(chance.denominator for chance in self.chances))
        yes = [int(chance * unit) for chance in self.chances]
        return np.array([[unit - each for each in yes], yes], dtype=object)

    def published_odds(self, subset: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return none: devices use the fractions themselves."""
        return ()


@dataclass(frozen=True)
class _Mirrored(_Design):
    """An answer that is right with probability p, and the opposite otherwise."""

    p: _Probability = _Probability()

    def _check(self) -> None:
        if self.p == Fraction(1, 2):
            raise ValueError("p must differ from 1/2, got 1/2: answers would contain no information")

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(yes | no) and P(yes | yes); in the crosswise design, "yes" means "the same"."""
        return 1 - self.p, self.p


@dataclass(frozen=True)
class Warner(_Mirrored):
    """Warner's design: chance decides whether a person answers "I did it" or "I did not do it" [1]_.

    Parameters
    ----------
    p : fraction
        Probability of the statement "I did it", not 1/2: a Fraction, a text such as ``"2/3"``, or a decimal number.

    Attributes
    ----------
    epsilon : float
        The logarithm of the larger of p/(1−p) and (1−p)/p, rounded up.

    References
    ----------
    .. [1] S. L. Warner (1965), Randomized response: a survey technique for eliminating evasive answer bias, Journal of
       the American Statistical Association 60.

    Examples
    --------
    >>> from adobest_pp import Warner
    >>> round(Warner("3/4").epsilon, 4)
    1.0986
    """


@dataclass(frozen=True)
class Crosswise(_Mirrored):
    """The crosswise design: a person says whether two answers, one of them innocuous, are the same [1]_.

    Answer 1 means "the same" (both yes, or both no), 0 means "different".

    Parameters
    ----------
    p : fraction
        Share of people who would say yes to the innocuous question, such as a birthday in the first quarter; not 1/2.
        Nobody who sees the answer may know a person's answer to it.

    Attributes
    ----------
    epsilon : float
        The logarithm of the larger of p/(1−p) and (1−p)/p, rounded up.

    References
    ----------
    .. [1] J.-W. Yu, G.-L. Tian and M.-L. Tang (2008), Two new models for survey sampling with sensitive characteristic:
       design and analysis, Metrika 67.

    Examples
    --------
    >>> from adobest_pp import Crosswise
    >>> Crosswise("1/4").transition_matrix()
    array([[0.25, 0.75],
           [0.75, 0.25]])
    """


@dataclass(frozen=True)
class ForcedResponse(_Design):
    """The forced-response design: chance tells a person to say "yes", to say "no", or to answer honestly [1]_.

    Parameters
    ----------
    forced_yes, forced_no : fraction
        Probabilities of the two forced answers, each above 0, together below 1. With a die that forces "yes" on 6 and
        "no" on 1, both are ``"1/6"``.

    References
    ----------
    .. [1] R. F. Boruch (1971), Assuring confidentiality of responses in social research: a note on strategies, The
       American Sociologist 6.

    Examples
    --------
    >>> from adobest_pp import ForcedResponse
    >>> round(ForcedResponse("1/6", "1/6").epsilon, 4)
    1.6094
    """

    forced_yes: _Probability = _Probability()
    forced_no: _Probability = _Probability()

    def _check(self) -> None:
        if self.forced_yes + self.forced_no >= 1:
            total = self.forced_yes + self.forced_no
            raise ValueError(f"forced_no must be below 1 together with forced_yes, got a sum of {total}")

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(yes | no) and P(yes | yes)."""
        return self.forced_yes, 1 - self.forced_no


@dataclass(frozen=True)
class UnrelatedQuestion(_Design):
    """The unrelated-question design: chance decides whether the question is the sensitive or an innocuous one [1]_.

    Parameters
    ----------
    p : fraction
        Probability of the sensitive question.
    share : fraction
        Share of people who say yes to the innocuous question, known or assumed. The two questions must be independent.
        Estimates and ε depend on this share.

    References
    ----------
    .. [1] B. G. Greenberg, A.-L. A. Abul-Ela, W. R. Simmons and D. G. Horvitz (1969), The unrelated question randomized
       response model: theoretical framework, Journal of the American Statistical Association 64.

    Examples
    --------
    >>> from adobest_pp import UnrelatedQuestion
    >>> UnrelatedQuestion("1/2", "1/4").chances
    (Fraction(1, 8), Fraction(5, 8))
    """

    p: _Probability = _Probability()
    share: _Probability = _Probability()

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(yes | no) and P(yes | yes)."""
        innocuous = (1 - self.p) * self.share
        return innocuous, self.p + innocuous


@dataclass(frozen=True)
class Kuk(_Design):
    """Kuk's design: a person draws cards from one of two decks, and says how many were red [1]_.

    Parameters
    ----------
    red_yes, red_no : fraction
        Shares of red cards in the deck for people whose answer is yes, and in the other deck; they differ.
    draws : int, default 1
        How many cards a person draws, with replacement. An answer is the number of red ones, 0 … `draws`.

    References
    ----------
    .. [1] A. Y. C. Kuk (1990), Asking sensitive questions indirectly, Biometrika 77.

    Examples
    --------
    >>> from adobest_pp import Kuk
    >>> round(Kuk("4/5", "1/5").epsilon, 4), round(Kuk("4/5", "1/5", draws=2).epsilon, 4)
    (1.3863, 2.7726)
    """

    red_yes: _Probability = _Probability()
    red_no: _Probability = _Probability()
    draws: int = 1

    def _check(self) -> None:
        self._set(draws=check_integer(self.draws, "draws", 1, MAX_DRAWS))
        if self.red_yes == self.red_no:
            raise ValueError(f"red_no must differ from red_yes, got {self.red_no} for both")

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(red | no) and P(red | yes), for one card."""
        return self.red_no, self.red_yes

    def exact_weights(self) -> NDArray[np.object_]:
        """Return binomial weights of the number of red cards."""
        black, red = super().exact_weights()
        return np.array([math.comb(self.draws, y) * red**y * black ** (self.draws - y) for y in range(self.draws + 1)])


def check_fraction(value: Any, name: str) -> Fraction:
    """Return a probability between 0 and 1 exactly, or raise ValueError.

    A decimal number is taken as written: 0.7 is 7/10, though the float is not.
    """
    allowed = f"a fraction between 0 and 1, such as '1/6', with a denominator of at most {MAX_DENOMINATOR:,}"
    try:
        # `Fraction` accepts any text, and does not finish if an exponent has nine digits.
        is_text = isinstance(value, str) and _TEXT.fullmatch(value)
        if isinstance(value, bool) or not (is_text or isinstance(value, Real)):
            raise ValueError
        found = Fraction(value if is_text or isinstance(value, Rational) else repr(float(value)))
        if not 0 < found < 1 or found.denominator > MAX_DENOMINATOR:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}") from None
    return found
