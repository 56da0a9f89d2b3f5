"""Location and scale of two sets of draws, compared by ranks: tests whose error is known whatever the distribution.

Where the posterior is sparse, the standard deviation of a category that is nearly always empty depends on a handful of
draws, and no estimate of its error can be trusted. Ranks have no heavy tails. The draws of both samplers are ranked
together and mapped to normal scores z (van der Waerden), equal draws to the same score. The test of location compares
the means of z, that of scale its standard deviations (Klotz). Their Monte-Carlo standard errors come from the effective
sample sizes of z and z². For a Gaussian posterior nothing is lost: there z is (θ − mean)/sd.
"""

from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata


@dataclass(frozen=True, eq=False)
class RankTests:
    """Two sets of draws against each other; arrays by category.

    Attributes
    ----------
    location : array of shape (K,)
        Difference of the means of normal scores.
    location_error : array of shape (K,)
        In Monte-Carlo standard errors.
    scale : array of shape (K,)
        Ratio of the standard deviations of normal scores.
    scale_error : array of shape (K,)
        Of its logarithm, in Monte-Carlo standard errors.
    ess : float
        The smallest effective sample size that these errors rest on; 0 where draws do not move.
    """

    location: NDArray[np.float64]
    location_error: NDArray[np.float64]
    scale: NDArray[np.float64]
    scale_error: NDArray[np.float64]
    ess: float


def normal_scores(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the normal scores of two sets of draws (chain, draw, K), ranked together category by category."""
    k = first.shape[-1]
    pooled = np.concatenate([first.reshape(-1, k), second.reshape(-1, k)])
    # Blom's scores: the expected value of the r-th of n sorted normal draws. Equal draws share the mean of their ranks.
    scores = ndtri((rankdata(pooled, axis=0) - 0.375) / (len(pooled) + 0.25))
    count = first.shape[0] * first.shape[1]
    return scores[:count].reshape(first.shape), scores[count:].reshape(second.shape)


def rank_tests(first: NDArray[np.float64], second: NDArray[np.float64]) -> RankTests:
    """Compare two sets of normal scores (chain, draw, K) of `normal_scores`.

    The errors use the mean of the variances of both sets, which equal distributions share. So a sampler that has not
    yet seen a rare value does not make its own error small.
    """
    squares = [(scores - scores.mean(axis=(0, 1))) ** 2 for scores in (first, second)]
    variances = [square.mean(axis=(0, 1)) for square in squares]
    ess = [[_ess(first), _ess(second)], [_ess(squares[0]), _ess(squares[1])]]
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = [1 / part[0] + 1 / part[1] for part in ess]
        location = first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))
        scale = np.sqrt(variances[0] / variances[1])
        # Of ln sd = ½ ln variance, by the delta method.
        relative = _pooled(squares) / np.mean(variances, axis=0) ** 2 / 4
        return RankTests(
            location,
            np.where(location == 0, 0.0, location / np.sqrt(np.mean(variances, axis=0) * rates[0])),
            scale,
            np.where(scale == 1, 0.0, np.log(scale) / np.sqrt(relative * rates[1])),
            float(np.nan_to_num(ess, nan=0.0).min()),
        )


def _ess(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(array_stats.ess(values, 0, 1, method="mean"))


def _pooled(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean of the two variances within."""
    return np.asarray(np.mean([part.var(axis=(0, 1)) for part in parts], axis=0))
