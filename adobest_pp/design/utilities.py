"""The utilities by which RRRR chooses its subset, and the choice itself, compiled without a single matrix.

Every utility takes θ in descending order with Σθ = 1 and the `Coefficients` of the mechanism. It returns a value for
each k = 0 … K−1, where S holds the k most probable categories. Notation as in docs/math.md, section 3: H = θ(S), T = 1
− H, c = K − k, u = inner_own/inner = e^ε₁ − 1. Two facts keep the formulas short and accurate:

- at both ends, k = 0 and k = K−1, RRRR is SRR on all categories (with ε and with ε₁), so only 0 < k < K−1, where
  c ≥ 2, needs the general formula;
- each is a sum of non-negative terms, with 1 − θ[0] computed as the sum of the others: nothing cancels when θ is
  nearly one-hot or ε is large.

One rule chooses everywhere. Categories are ordered by θ, ties by index. Sizes whose utilities agree to within `TIE`
(relative) are tied, and the smallest is chosen, so that rounding does not break a tie.
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_alpha, check_probabilities
from adobest_pp._numerics import copy_into
from adobest_pp._text import brief
from adobest_pp.mechanisms import RRRR, Coefficients, check_rrrr

TIE = 1e-12
# Up to this many categories insertion sort beats merging.
RUN = 32


@njit(cache=True, error_model="numpy")
def fisher(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U1 = −Tr F⁻¹ without the least probable category; −inf where F is singular. O(K) for all k.

    G⁻¹ is an unbiased estimator of θ from one answer, and Tr F⁻¹ its summed variance. In S it is
    (1{Y=i} − inner)/inner_own; outside it is (1{Y=i} + w·1{Y∈S})/outer_own + constant, which takes three values.
    """
    n = theta.size
    values = np.empty(n)
    rest = suffix_sums(theta)[1]
    head, absent, spread = theta[0], rest, theta[0] * rest
    for k in range(1, n):
        values[k] = -_own_variance(k, head, absent, spread, coefficients.inner_own[k] / coefficients.inner[k])
        if k == n - 1:
            values[0] = -_own_variance(k, head, absent, spread, coefficients.outer_own[0] / coefficients.outer[0])
        head += theta[k]
        absent += 1 - theta[k]
        spread += theta[k] * (1 - theta[k])
    kept, pairs, last = 0.0, 0.0, theta[n - 1]  # over the categories outside S except the last
    for k in range(n - 2, 0, -1):
        pairs += theta[k] * kept
        kept += theta[k]
        values[k] -= _outside_variance(k, n - k - 1, kept, pairs, last, coefficients)
    for k in range(n):
        if not values[k] > -np.inf:
            values[k] = -np.inf
    return values


@njit(cache=True, error_model="numpy")
def _own_variance(k, head, absent, spread, u):  # type: ignore[no-untyped-def]
    """Return Σ h(1−h)/own² over k categories with h = shared·(1 + uθ), 1 − h = shared·(k + u(1−θ))."""
    return spread + (absent + k * head) / u + (k / u) ** 2


@njit(cache=True, error_model="numpy")
def _outside_variance(k, m, kept, pairs, last, coefficients):  # type: ignore[no-untyped-def]
    """Return the summed variance of the m = c−1 categories kept outside S, each as a sum over pairs of outcomes."""
    inner, inner_own = coefficients.inner[k], coefficients.inner_own[k]
    outer, own, cross = coefficients.outer[k], coefficients.outer_own[k], coefficients.cross[k]
    tail = kept + last
    head = 1 - tail
    shared = cross * head + outer * tail
    inside = k * inner + inner_own * head  # P(Y ∈ S)
    w = (outer - cross * own / inner_own) / (inner + inner_own)
    others = (m - 1) * tail + last  # Σ (T − θ_i) over the kept categories
    this = m * shared + own * kept  # Σ P(Y = i)
    rest = m * m * shared + own * others  # Σ P(Y ∉ S, Y ≠ i)
    both = (
        m * m * shared * shared + shared * own * (others + m * kept) + own * own * (2 * pairs + kept * last)
    )  # Σ P(Y = i)·P(Y ∉ S, Y ≠ i)
    return (this * inside * (1 - w) ** 2 + both + w * w * inside * rest) / own / own


@njit(cache=True, error_model="numpy")
def entropy(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U2 = Σ h ln h, the negative entropy of the answer. O(K²) for all k: one logarithm per answer outside S."""
    n = theta.size
    values = np.empty(n)
    tail = suffix_sums(theta)
    rest = tail[1]
    values[0] = _srr_entropy(theta, rest, coefficients.outer[0], coefficients.outer_own[0])
    values[n - 1] = _srr_entropy(theta, rest, coefficients.inner[n - 1], coefficients.inner_own[n - 1])
    count, logs = 0.0, 0.0  # Σ and Σ·ln of 1 + uθ in S, without the first: the same terms for every k
    for k in range(1, n - 1):
        inner, inner_own = coefficients.inner[k], coefficients.inner_own[k]
        outer, own, cross = coefficients.outer[k], coefficients.outer_own[k], coefficients.cross[k]
        total = _h_ln_h(inner + inner_own * theta[0], k * inner + inner_own * rest)
        if k > 1:
            relative = 1 + inner_own / inner * theta[k - 1]
            count += relative
            logs += relative * np.log(relative)
        total += inner * (logs + np.log(inner) * count)
        shared = cross * (1 - tail[k]) + outer * tail[k]
        for y in range(k, n):
            h = shared + own * theta[y]
            total += h * np.log(h)
        values[k] = total
    return values


@njit(cache=True, error_model="numpy")
def _srr_entropy(theta, rest, shared, own):  # type: ignore[no-untyped-def]
    total = _h_ln_h(shared + own * theta[0], (theta.size - 1) * shared + own * rest)
    for y in range(1, theta.size):
        h = shared + own * theta[y]
        total += h * np.log(h)
    return total


@njit(cache=True, error_model="numpy")
def _h_ln_h(h, missing):  # type: ignore[no-untyped-def]
    """Return h·ln h given also 1 − h: near h = 1 the logarithm of h alone has lost its digits."""
    return h * np.log1p(-missing) if missing < 0.5 else h * np.log(h)


@njit(cache=True, error_model="numpy")
def tv1(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U3 = ½ Σ θ_x |G[y,x] − h(y)|. O(K log K) for all k.

    For each y the differences average to zero over x, so half of Σ|·| is the sum of the positive ones. In S this sum
    is inner_own·θ_y(1−θ_y). Outside S, with gap = outer − cross, the term x = y is always positive. The others are
    gap·H − own·θ_y (x outside S) and −gap·T − own·θ_y (x in S), and change sign once along the sorted θ.
    """
    n = theta.size
    values = np.empty(n)
    tail = suffix_sums(theta)
    squares = suffix_sums(theta * theta)
    spread = theta[0] * tail[1]
    for k in range(1, n - 1):
        inner, inner_own = coefficients.inner[k], coefficients.inner_own[k]
        outer, own, cross = coefficients.outer[k], coefficients.outer_own[k], coefficients.cross[k]
        gap = (outer * inner_own - cross * own) / (inner + inner_own)  # outer − cross, also when ε is small
        head = 1 - tail[k]
        total = inner_own * spread + gap * head * tail[k] + own * (tail[k] - squares[k])
        if gap >= 0:
            s = first_below(theta, k, n, own, gap * head)
            total += gap * head * tail[k] * (n - s) - (gap * head + own * tail[k]) * tail[s] + own * squares[s]
        else:
            s = first_below(theta, k, n, own, -gap * tail[k])
            total -= head * (gap * tail[k] * (n - s) + own * tail[s])
        values[k] = total
        spread += theta[k] * (1 - theta[k])
    spread += theta[n - 1] * (1 - theta[n - 1])
    values[0] = coefficients.outer_own[0] * spread
    values[n - 1] = coefficients.inner_own[n - 1] * spread
    return values


@njit(cache=True, error_model="numpy")
def tv2(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U4 = −½ Σ|h − θ|. O(K log K) for all k.

    Σ(θ − h) = 0, so half of Σ|·| is the sum of the positive θ − h. These belong to the most probable categories in S
    and outside it: θ − h is inner·((k+1)θ − 1) in S and (k·inner + c·outer)·θ − (cross·H + outer·T) outside.
    """
    n = theta.size
    values = np.empty(n)
    tail = suffix_sums(theta)
    head = np.zeros(n + 1)
    copy_into(head[1:], np.cumsum(theta))
    above = 0  # how many categories of S have (k+1)θ > 1: this grows with k
    for k in range(1, n - 1):
        inner, outer = coefficients.inner[k], coefficients.outer[k]
        while above < k and (k + 1) * theta[above] > 1:
            above += 1
        total = inner * ((k + 1) * head[above] - above)
        slope = k * inner + (n - k) * outer
        shared = coefficients.cross[k] * (1 - tail[k]) + outer * tail[k]
        s = first_below(theta, k, n, slope, shared)
        values[k] = -(total + slope * (tail[k] - tail[s]) - shared * (s - k))
    above = first_below(theta, np.int64(0), n, float(n), 1.0)
    excess = n * head[above] - above
    values[0] = -coefficients.outer[0] * excess
    values[n - 1] = -coefficients.inner[n - 1] * excess
    return values


@njit(cache=True, error_model="numpy")
def mse(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U5 = Σ G[y,x]²θ_x²/h(y) − 1, minus the squared error of guessing X from Y. O(K²) for all k.

    Since Σh = 1, −U5 = Σ_y (h² − Σ_x G²θ²)/h, and each numerator is twice Σ GθG'θ' over the pairs {x, x'}.
    In S this is inner·(u·θ_y(1−θ_y) + pairs)/(1 + uθ_y), where `pairs` is the sum of θ_xθ_x' over all pairs.
    """
    n = theta.size
    values = np.empty(n)
    tail = suffix_sums(theta)
    spread = theta * (1 - theta)
    spread[0] = theta[0] * tail[1]
    pairs_tail = np.zeros(n + 1)
    for i in range(n - 1, -1, -1):
        pairs_tail[i] = pairs_tail[i + 1] + theta[i] * tail[i + 1]
    values[0] = -2 * _srr_error(theta, spread, pairs_tail[0], coefficients.outer[0], coefficients.outer_own[0])
    last = coefficients.inner[n - 1], coefficients.inner_own[n - 1]
    values[n - 1] = -2 * _srr_error(theta, spread, pairs_tail[0], last[0], last[1])
    inside, head, pairs_head = 0.0, 0.0, 0.0
    for k in range(1, n - 1):
        u = coefficients.inner_own[k] / coefficients.inner[k]
        inside += (u * spread[k - 1] + pairs_tail[0]) / (1 + u * theta[k - 1])
        pairs_head += theta[k - 1] * head
        head += theta[k - 1]
        outer, own, cross = coefficients.outer[k], coefficients.outer_own[k], coefficients.cross[k]
        shared = cross * head + outer * tail[k]
        fixed = cross * cross * pairs_head + cross * outer * head * tail[k] + outer * outer * pairs_tail[k]
        outside = (fixed + own * theta[k] * (cross * head + outer * tail[k + 1])) / (shared + own * theta[k])
        for y in range(k + 1, n):
            outside += (fixed + own * theta[y] * (shared - outer * theta[y])) / (shared + own * theta[y])
        values[k] = -2 * (coefficients.inner[k] * inside + outside)
    return values


@njit(cache=True, error_model="numpy")
def _srr_error(theta, spread, pairs, shared, own):  # type: ignore[no-untyped-def]
    u = own / shared
    total = 0.0
    for y in range(theta.size):
        total += (u * spread[y] + pairs) / (1 + u * theta[y])
    return shared * total


@njit(cache=True, error_model="numpy")
def honest(theta, coefficients):  # type: ignore[no-untyped-def]
    """Return U6 = P(Y = X). O(K) for all k."""
    n = theta.size
    values = np.empty(n)
    values[0] = coefficients.outer[0] + coefficients.outer_own[0]
    values[n - 1] = coefficients.inner[n - 1] + coefficients.inner_own[n - 1]
    tail = theta[n - 1]
    for k in range(n - 2, 0, -1):
        tail += theta[k]
        inside = coefficients.inner[k] + coefficients.inner_own[k]
        values[k] = (1 - tail) * inside + tail * (coefficients.outer[k] + coefficients.outer_own[k])
    return values


@njit(cache=True, error_model="numpy")
def suffix_sums(terms):  # type: ignore[no-untyped-def]
    """Return the sums of terms[i:] for i = 0 … K, added from the end, where the small terms are."""
    sums = np.empty(terms.size + 1)
    sums[terms.size] = 0.0
    for i in range(terms.size - 1, -1, -1):
        sums[i] = sums[i + 1] + terms[i]
    return sums


@njit(cache=True, error_model="numpy")
def first_below(theta, low, high, factor, level):  # type: ignore[no-untyped-def]
    """Return the first i in low … high−1 with factor·θ[i] ≤ level, or `high`, by bisection on the descending θ."""
    while low < high:
        middle = (low + high) // 2
        if factor * theta[middle] <= level:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, error_model="numpy")
def sort_descending(theta, order):  # type: ignore[no-untyped-def]
    """Sort `order` by descending θ, ties by index, in place; return the sorted θ, divided by its sum."""
    n = order.size
    for start in range(0, n, RUN):
        _insertion_sort(theta, order, start, min(start + RUN, n))
    width = RUN
    while width < n:
        for start in range(0, n - width, 2 * width):
            _merge(theta, order, start, start + width, min(start + 2 * width, n))
        width *= 2
    ranked = np.empty(theta.size)
    total = 0.0
    for i in range(theta.size - 1, -1, -1):
        ranked[i] = theta[order[i]]
        total += ranked[i]
    for i in range(theta.size):
        ranked[i] /= total
    return ranked


@njit(cache=True, error_model="numpy")
def _precedes(theta, i, j):  # type: ignore[no-untyped-def]
    return theta[i] > theta[j] or (theta[i] == theta[j] and i < j)


@njit(cache=True, error_model="numpy")
def _insertion_sort(theta, order, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start + 1, stop):
        item = order[i]
        j = i
        while j > start and _precedes(theta, item, order[j - 1]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = item


@njit(cache=True, error_model="numpy")
def _merge(theta, order, start, middle, stop):  # type: ignore[no-untyped-def]
    """Merge two sorted runs. Runs that are already in order, as most are from one step to the next, cost nothing."""
    if not _precedes(theta, order[middle], order[middle - 1]):
        return
    left = order[start:middle].copy()
    i, j, place = 0, middle, start
    while i < left.size:
        if j < stop and _precedes(theta, order[j], left[i]):
            order[place] = order[j]
            j += 1
        else:
            order[place] = left[i]
            i += 1
        place += 1


# The choice of a subset, which the loop of Algorithm 1 makes at every step.
#
# Each utility has a type of its own, so that a loop compiles only the one that it uses.
Given = namedtuple("Given", ())  # the size was chosen elsewhere, by a utility that is not compiled
NonAdaptive = namedtuple("NonAdaptive", ())  # size 0, which is SRR
SemiAdaptive = namedtuple("SemiAdaptive", ())  # the smallest size whose mass reaches α
Fisher = namedtuple("Fisher", ())
Entropy = namedtuple("Entropy", ())
Tv1 = namedtuple("Tv1", ())
Tv2 = namedtuple("Tv2", ())
Mse = namedtuple("Mse", ())
Honest = namedtuple("Honest", ())

GIVEN = Given()
_KERNELS = {Fisher: fisher, Entropy: entropy, Tv1: tv1, Tv2: tv2, Mse: mse, Honest: honest}
UTILITY_CODES: dict[str, tuple[()]] = {"nonadaptive": NonAdaptive(), "semi_adaptive": SemiAdaptive()}
UTILITY_CODES |= {kernel.__name__: kind() for kind, kernel in _KERNELS.items()}


@njit(cache=True, error_model="numpy")
def choose_size(code, alpha, theta, coefficients, order, smallest_size):  # type: ignore[no-untyped-def]
    """Return the size k that a utility, one of `UTILITY_CODES` or `GIVEN`, chooses; the subset is ``order[:k]``.

    `alpha` is the mass that ``semi_adaptive`` has to reach. θ is divided by its sum, so φ will do. `order` is any
    permutation of 0 … K−1, and is replaced by the order of θ; starting from the order of the last step is fast.
    `smallest_size` 0 allows SRR. `GIVEN` returns `smallest_size` and ``nonadaptive`` 0; they do not change `order`.
    """
    return _choose_size(code, alpha, theta, coefficients, order, smallest_size)


def _choose_size(code: Any, alpha: Any, theta: Any, coefficients: Any, order: Any, smallest_size: Any) -> int:
    """Stand in for what `_choice_of` compiles."""
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
    """Return the smallest size from `smallest_size` up whose value is within `TIE` of the greatest."""
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
    # Eight times 0.1 adds up to slightly less than 0.8, and must count as 0.8.
    while k < ranked.size - 1 and mass < alpha - TIE:
        mass += ranked[k]
        k += 1
    return k


# The utilities by name.


@dataclass(frozen=True)
class Utility:
    """A rule that chooses a subset: a value for every subset size, of which the greatest wins.

    Parameters
    ----------
    name : str
        Its name in tables and messages.
    reference : str
        Its formula, or where to find it.
    function : callable
        ``function(sorted_theta, coefficients)`` → K values for k = 0 … K−1, finite or ``-inf``, never NaN. θ is
        in descending order and sums to one; S holds its first k categories; `coefficients` are
        ``RRRR.coefficients``. Compiled with Numba or plain Python.

    Examples
    --------
    The probability that an honest answer names a category of S:

    >>> import numpy as np
    >>> import adobest_pp as ad
    >>> def inside(theta, coefficients):
    ...     mass = np.concatenate([[0.0], np.cumsum(theta)[:-1]])
    ...     return mass * (coefficients.inner + coefficients.inner_own)
    >>> mine = ad.Utility("inside", "θ(S)·P(Y = X | X ∈ S)", inside)
    >>> ad.select_subset([0.1, 0.7, 0.15, 0.05], ad.RRRR(4, epsilon=1.0), mine)
    array([1])
    """

    name: str
    reference: str
    function: Callable[[NDArray[np.float64], Coefficients], NDArray[np.float64]]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"function must be a function of sorted θ and coefficients, got {brief(self.function)}")


# The numbering is the paper's. The authors' program swaps U3 and U4 and omits the ½
# (soneraydin/AdOBEst_LDP, commit 9080c23, calculate_utility.m, lines 20 to 25).
UTILITIES = {
    item.name: item
    for item in (
        Utility("fisher", "U1 = −Tr F⁻¹, without the least probable category", fisher),
        Utility("entropy", "U2 = Σ h ln h", entropy),
        Utility("tv1", "U3 = ½ Σ θ_x |G[y,x] − h(y)|", tv1),
        Utility("tv2", "U4 = −½ Σ |h − θ|", tv2),
        Utility("mse", "U5 = Σ G[y,x]² θ_x² / h(y) − 1", mse),
        Utility("honest", "U6 = P(Y = X)", honest),
    )
}


def utility(theta: ArrayLike, mechanism: RRRR, name: str | Utility) -> NDArray[np.float64]:
    """Return a utility for every subset size k = 0 … K−1, where S holds the k most probable categories.

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum within 1e-6 of 1. They are divided by their sum.
    mechanism : RRRR
        The mechanism that will run with the subset.
    name : {"fisher", "entropy", "tv1", "tv2", "mse", "honest"} or Utility
        U1 … U6 of [1]_ in this order, or your own.

    Returns
    -------
    array of shape (K,)
        Greater is better. ``fisher`` is ``-inf`` where the answers do not identify θ (ε₂ = 0).

    See Also
    --------
    select_subset : The categories that the greatest value chooses.

    Notes
    -----
    h = Gθ is the distribution of the answer. The time is O(K log K) for ``fisher``, ``tv1``, ``tv2`` and
    ``honest``, O(K²) for ``entropy`` and ``mse``; no K×K matrix is formed.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data, section 4.3.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.utility([0.1, 0.7, 0.15, 0.05], ad.RRRR(4, epsilon=1.0, kappa=0.9), "honest").round(3)
    array([0.475, 0.576, 0.515, 0.451])
    """
    mechanism = check_rrrr(mechanism)
    probabilities = check_probabilities(theta, mechanism.n_categories)
    return ranked_values(find_utility(name), probabilities, mechanism)[0]


def ranked_values(
    chosen: Utility, theta: NDArray[np.float64], mechanism: RRRR
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the value of every size and the categories in descending order of θ, or raise ValueError."""
    order = np.arange(theta.size)
    ranked = sort_descending(theta, order)
    # Adding zero turns the -0.0 of a negated empty sum into 0.0.
    returned = chosen.function(ranked, mechanism.coefficients)
    try:
        values = as_numbers(returned, "fiu").astype(np.float64) + 0.0
    except TypeError:
        values = np.empty(0)
    if values.shape != (theta.size,) or not np.all(values < np.inf):
        raise ValueError(
            f"the function of utility {chosen.name!r} must return {theta.size} values, each finite or -inf, "
            f"got {brief(returned)}"
        )
    return values, order


def find_utility(name: str | Utility) -> Utility:
    """Return the utility with this name, or the given `Utility`, or raise ValueError."""
    if isinstance(name, Utility):
        return name
    if not isinstance(name, str) or name not in UTILITIES:
        raise ValueError(f"utility must be one of {', '.join(map(repr, UTILITIES))} or a Utility, got {brief(name)}")
    return UTILITIES[name]


def select_subset(theta: ArrayLike, mechanism: RRRR, name: str | Utility) -> NDArray[np.int64]:
    """Return the subset with the greatest utility among the k most probable categories, k = 0 … K−1.

    Parameters
    ----------
    theta, mechanism, name
        As in `utility`.

    Returns
    -------
    array of int, of shape (k,) with k = 0 … K−1
        The categories, most probable first. Empty when SRR on all categories is best.

    See Also
    --------
    utility : The values that are compared.
    semi_adaptive_subset : Chooses by mass alone.

    Notes
    -----
    Categories with equal θ are ordered by index. Sizes whose values agree to 1e-12 (relative) are tied, and the
    smallest is chosen. Algorithm 1 makes the same choice in compiled code.

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
        Category probabilities, as in `utility`.
    alpha : float
        The mass to reach, 0 … 1, with a slack of 1e-12 for rounded sums.

    Returns
    -------
    array of int, of shape (k,) with k = 0 … K−1
        The categories, most probable first. At least one category stays out, even if the others do not reach `alpha`.

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
