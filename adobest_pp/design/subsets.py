"""The choice of a subset, compiled: what the online loop calls at every step.

One rule everywhere. Categories are ordered by θ, equal ones by index. Sizes whose utilities agree to within `TIE`
(relative) are tied and the smallest of them is taken, so that values that are equal and were rounded apart stay tied.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_alpha, check_probabilities
from adobest_pp.design import utilities
from adobest_pp.design.utilities import Utility, find_utility, ranked_values, sort_descending
from adobest_pp.mechanisms import RRRR, check_rrrr

TIE = 1e-12


# Each utility is a type of its own, so that a loop compiles the one that it uses and none of the others.
class Given(NamedTuple):
    """The size was chosen elsewhere, by a utility that is not compiled: it is the smallest one allowed."""


class NonAdaptive(NamedTuple):
    """Size 0, which is SRR."""


class SemiAdaptive(NamedTuple):
    """The smallest size whose mass reaches α."""


class Fisher(NamedTuple):
    """U1."""


class Entropy(NamedTuple):
    """U2."""


class Tv1(NamedTuple):
    """U3."""


class Tv2(NamedTuple):
    """U4."""


class Mse(NamedTuple):
    """U5."""


class Honest(NamedTuple):
    """U6."""


GIVEN = Given()
UTILITY_CODES: dict[str, tuple[()]] = {
    "nonadaptive": NonAdaptive(),
    "semi_adaptive": SemiAdaptive(),
    "fisher": Fisher(),
    "entropy": Entropy(),
    "tv1": Tv1(),
    "tv2": Tv2(),
    "mse": Mse(),
    "honest": Honest(),
}
_KERNELS = {type(code): getattr(utilities, name) for name, code in UTILITY_CODES.items() if hasattr(utilities, name)}


@njit(cache=True, error_model="numpy")
def choose_size(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
    """Return the size k that a utility chooses; the subset is then ``order[:k]``.

    Parameters
    ----------
    code : Given, NonAdaptive, …
        One of `UTILITY_CODES`, or `GIVEN`.
    alpha : float
        The mass that ``semi_adaptive`` asks for; the others ignore it.
    theta : float64[K]
        Non-negative, not all zero; divided by its sum here, so that φ does as well.
    coefficients : Coefficients
        Of the RRRR mechanism.
    order : int64[K]
        Any permutation of 0 … K−1, replaced by the order of θ: the order of the step before makes that cheap.
    smallest_size : int
        The first candidate: 0 (then SRR is among them), or more. `GIVEN` returns it, and ``nonadaptive`` returns 0,
        which is SRR; neither of these two changes `order`.
    """
    return _choose_size(code, alpha, theta, coefficients, order, smallest_size)


def _choose_size(code: Any, alpha: Any, theta: Any, coefficients: Any, order: Any, smallest_size: Any) -> int:
    """Stand for what `_choice_of` compiles."""
    raise NotImplementedError


@overload(_choose_size, inline="always")
def _choice_of(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
    kind = code.instance_class

    def given(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
        return smallest_size

    def nonadaptive(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
        return 0

    def semi_adaptive(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
        return max(smallest_size, semi_adaptive_size(alpha, sort_descending(theta, order)))

    def by_utility(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
        return best_size(values(sort_descending(theta, order), coefficients), smallest_size)

    values: Any = _KERNELS.get(kind)
    return {Given: given, NonAdaptive: nonadaptive, SemiAdaptive: semi_adaptive}.get(kind, by_utility)


@njit(cache=True, error_model="numpy")
def best_size(values, smallest_size):  # type: ignore[no-untyped-def]
    """Return the smallest size, from `smallest_size` up, whose value is within `TIE` of the greatest."""
    best = values[smallest_size]
    for k in range(smallest_size + 1, values.size):
        best = max(best, values[k])
    level = best - TIE * abs(best)
    k = smallest_size
    while values[k] < level:
        k += 1
    return k


@njit(cache=True, error_model="numpy")
def semi_adaptive_size(alpha, ranked):  # type: ignore[no-untyped-def]
    """Return the smallest k in 0 … K−1 whose k greatest probabilities reach `alpha`, or K−1 if none do."""
    mass = 0.0
    k = 0
    # Eight tenths add up to a little less than 0.8, and reach it.
    while k < ranked.size - 1 and mass < alpha - TIE:
        mass += ranked[k]
        k += 1
    return k


# The subset to publish next, from an estimate of θ.


def select_subset(theta: ArrayLike, mechanism: RRRR, name: str | Utility) -> NDArray[np.int64]:
    """Return the categories of the subset with the greatest utility, among the K sets of most probable ones.

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum of 1 to within 1e-6, by which they are divided.
    mechanism : RRRR
        The mechanism that will run with the subset.
    name : {"fisher", "entropy", "tv1", "tv2", "mse", "honest"} or Utility
        What to maximise.

    Returns
    -------
    array of int, of shape (k,) with k = 0 … K−1
        The most probable first. Empty when SRR on all categories is best.

    See Also
    --------
    utility : The values that are compared.
    semi_adaptive_subset : By mass alone.

    Notes
    -----
    Equal θ are ordered by category index. Sizes whose values agree to 1e-12 (relative) are tied, and the smallest
    is chosen. The online loop makes the same choice in compiled code (``adobest_pp.design.subsets``).

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.select_subset([0.1, 0.7, 0.15, 0.05], ad.RRRR(4, epsilon=1.0, kappa=0.9), "honest")
    array([1])
    """
    mechanism = check_rrrr(mechanism)
    probabilities = check_probabilities(theta, mechanism.n_categories)
    values, order = ranked_values(find_utility(name), probabilities, mechanism)
    return order[: best_size(values, 0)]


def semi_adaptive_subset(theta: ArrayLike, alpha: float) -> NDArray[np.int64]:
    """Return the smallest set of most probable categories whose mass reaches `alpha`.

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum of 1 to within 1e-6, by which they are divided.
    alpha : float
        The mass to reach, 0 … 1, up to a slack of 1e-12 for rounded sums.

    Returns
    -------
    array of int, of shape (k,) with k = 0 … K−1
        The most probable first. At least one category stays out, also when the mass of the others is below `alpha`.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.semi_adaptive_subset([0.2, 0.1, 0.6, 0.1], alpha=0.8)
    array([2, 0])
    """
    probabilities = check_probabilities(theta)
    order = np.arange(probabilities.size)
    ranked = sort_descending(probabilities, order)
    return order[: semi_adaptive_size(check_alpha(alpha), ranked)]
