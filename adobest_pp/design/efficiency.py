"""How much one answer of a mechanism tells, and how far that is from the most that ε-LDP allows."""

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_probabilities
from adobest_pp._text import brief
from adobest_pp.design.optimal import optimal_mechanism
from adobest_pp.design.set_program import sum_zero_basis
from adobest_pp.mechanisms.base import Mechanism

__all__ = ["asymptotic_variance", "efficiency"]


def asymptotic_variance(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the summed variance of an efficient estimator of θ, for one answer: divide it by n for n of them.

    Parameters
    ----------
    mechanism : Mechanism
        Any that tells its information, as those of this package do.
    theta : array of shape (K,)
        The truth; sums to one.
    subset : array, optional
        The published subset, for a mechanism that publishes one.

    Returns
    -------
    float
        Tr[(BᵀFB)⁻¹], with F the Fisher information and B a basis of the vectors whose sum is zero; ``inf`` where the
        answers do not determine θ.

    Notes
    -----
    Subset selection, unary encoding and local hashing have too many answers to list: see
    `adobest_pp.mechanisms.information`. For local hashing it is the mean over random hashes.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> theta = [0.25, 0.25, 0.25, 0.25]
    >>> srr, selection = ad.SRR(4, epsilon=1.0), ad.SubsetSelection(4, epsilon=1.0, size=1)
    >>> round(ad.asymptotic_variance(srr, theta), 9) == round(ad.asymptotic_variance(selection, theta), 9)
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, got {brief(mechanism)}")
    shares = check_probabilities(theta, mechanism.n_categories)
    basis = sum_zero_basis(mechanism.n_categories)
    information = basis.T @ mechanism.information(shares, subset=subset) @ basis
    values = np.linalg.eigvalsh((information + information.T) / 2)
    if values[0] <= 1e-12 * values[-1]:
        return np.inf
    return float(np.sum(1 / values))


def efficiency(mechanism: Mechanism, theta: ArrayLike, *, subset: ArrayLike | None = None) -> float:
    """Return the least variance that any mechanism of the same ε can have, over that of this one: at most 1.

    Parameters
    ----------
    mechanism, theta, subset
        As of `asymptotic_variance`.

    Returns
    -------
    float
        A proved bound over the variance; NaN for more than 20 categories, where no bound is proved.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> round(ad.efficiency(ad.SRR(4, epsilon=4.0), [0.25] * 4), 3)
    1.0
    """
    variance = asymptotic_variance(mechanism, theta, subset=subset)
    return optimal_mechanism(theta, mechanism.epsilon).lower_bound / variance
