"""The subset to publish next, from an estimate of θ."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_alpha, check_probabilities
from adobest_pp.design.subset_choice import best_size, semi_adaptive_size, sort_descending
from adobest_pp.design.utilities import Utility, find_utility, ranked_values
from adobest_pp.mechanisms import RRRR, check_rrrr

__all__ = ["select_subset", "semi_adaptive_subset"]


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
    is chosen. The online loop makes the same choice in compiled code (``adobest_pp.design.subset_choice``).

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
