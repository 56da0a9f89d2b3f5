"""The utilities by name, and what a user passes to add one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_probabilities
from adobest_pp._text import brief
from adobest_pp.design import utility_kernels as kernels
from adobest_pp.design.subset_choice import sort_descending
from adobest_pp.mechanisms import RRRR, Coefficients, check_rrrr

__all__ = ["UTILITIES", "Utility", "utility"]


@dataclass(frozen=True)
class Utility:
    """What a subset is chosen by: a value for every subset size, the greatest of which is chosen.

    Parameters
    ----------
    name : str
        Its name in tables and messages.
    reference : str
        Its formula, or where it stands.
    function : callable
        ``function(sorted_theta, coefficients)`` → K values for k = 0 … K−1, finite or ``-inf``, never NaN. θ is
        sorted in descending order and sums to one; S is the first k categories of it; `coefficients` are
        ``RRRR.coefficients``. Compiled with Numba or plain Python.

    Examples
    --------
    The probability that an honest answer names one of S:

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


# The numbering is the paper's; the authors' program has U3 and U4 the other way round, without the ½
# (soneraydin/AdOBEst_LDP, commit 9080c23, calculate_utility.m, lines 20 to 25).
UTILITIES = {
    item.name: item
    for item in (
        Utility("fisher", "U1 = −Tr F⁻¹, without the least probable category", kernels.fisher),
        Utility("entropy", "U2 = Σ h ln h", kernels.entropy),
        Utility("tv1", "U3 = ½ Σ θ_x |G[y,x] − h(y)|", kernels.tv1),
        Utility("tv2", "U4 = −½ Σ |h − θ|", kernels.tv2),
        Utility("mse", "U5 = Σ G[y,x]² θ_x² / h(y) − 1", kernels.mse),
        Utility("honest", "U6 = P(Y = X)", kernels.honest),
    )
}


def utility(theta: ArrayLike, mechanism: RRRR, name: str | Utility) -> NDArray[np.float64]:
    """Return a utility for every subset size k = 0 … K−1, S being the k most probable categories.

    Parameters
    ----------
    theta : array of shape (K,)
        Category probabilities: non-negative, with a sum of 1 to within 1e-6, by which they are divided.
    mechanism : RRRR
        The mechanism whose subset is to be chosen.
    name : {"fisher", "entropy", "tv1", "tv2", "mse", "honest"} or Utility
        U1 … U6 of [1]_ in this order, or your own.

    Returns
    -------
    array of shape (K,)
        Greater is better. ``-inf`` for ``fisher`` where the answers do not identify θ (ε₂ = 0).

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
    """Return the values for every size, and the categories in the order of θ; raise ValueError for wrong values."""
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
    """Return the utility of that name, or the given one, or raise ValueError."""
    if isinstance(name, Utility):
        return name
    if not isinstance(name, str) or name not in UTILITIES:
        raise ValueError(f"utility must be one of {', '.join(map(repr, UTILITIES))} or a Utility, got {brief(name)}")
    return UTILITIES[name]
