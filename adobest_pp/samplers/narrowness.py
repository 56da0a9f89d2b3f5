"""Whether draws are narrower than answers and prior allow: chains that are frozen agree, and tell nothing else.

The variance of a share is at least its variance given others, and that is at least the inverse of the information
that is expected under the posterior (van Trees), which the information at the mean is close to where shares are held.
So the shares that are held are told given the others, whose posterior ends at zero and may have any width.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["too_narrow"]

# A category is held, and its share nearly normal, if it is so many standard deviations above zero.
HELD = 4.0
# Its draws are too narrow below this part of the sd that the information allows. Of 25 effective draws, the fewest that
# pass for converged, less than one set in 10¹⁰ is.
LEAST_PART = 0.3
ENOUGH_DRAWS = 100


def too_narrow(
    draws: NDArray[np.float64], concentration: NDArray[np.float64], information: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which categories have draws that are far too narrow.

    Parameters
    ----------
    draws : array of shape (N, K)
        Of θ. Fewer than 100 tell too little, and none is too narrow.
    concentration : array of shape (K,)
        Of the Dirichlet prior; its mean where it is learned.
    information : array of shape (K, K)
        Minus the second derivatives of the log-likelihood, near the mean.
    """
    found = np.zeros(draws.shape[1], dtype=np.bool_)
    if len(draws) < ENOUGH_DRAWS:
        return found
    mean = draws.mean(axis=0)
    # A concentration below one only makes the posterior wider.
    of_prior = np.maximum(concentration - 1, 0) / np.maximum(mean, np.finfo(float).tiny ** 0.25) ** 2
    precision = information + np.diag(of_prior)
    held = np.flatnonzero(mean > HELD * _sds(precision))
    if held.size < 2:
        return found
    sd = _sds(precision[np.ix_(held, held)])
    found[held] = draws[:, held].std(axis=0) < LEAST_PART * sd
    return found


def _sds(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sds of shares of a given sum, of shape (K,), for a precision of shape (K, K)."""
    basis = np.linalg.svd(np.ones((1, len(precision))))[2][1:]
    # One more answer, as in `first_draws`: without any, nothing is held.
    inverse = np.linalg.inv(basis @ precision @ basis.T + np.eye(len(basis)))
    return np.asarray(np.sqrt(np.einsum("ij,ik,jk->k", inverse, basis, basis, optimize=True)))
