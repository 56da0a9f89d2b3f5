"""Do chains agree? The rank-normalized R-hat [1]_ of all categories at once.

It is ArviZ's, which takes one variable at a time: for short pilots that took longer than to draw them.

References
----------
.. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021), Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["rank_rhat"]

Floats = NDArray[np.float64]


def rank_rhat(draws: Floats) -> Floats:
    """Return R-hat of each variable, from draws (chain, draw, variable); NaN where a variable does not move."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    folded = np.abs(parts - np.median(parts, axis=(0, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(_rhat(_normal_scores(parts)), _rhat(_normal_scores(folded)))


def _normal_scores(draws: Floats) -> Floats:
    from scipy.stats import rankdata  # here, because it takes as long to import as most commands take in all

    flat = draws.reshape(-1, draws.shape[-1])
    return np.asarray(ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)).reshape(draws.shape))


def _rhat(draws: Floats) -> Floats:
    n = draws.shape[1]
    between = n * draws.mean(axis=1).var(axis=0, ddof=1)
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    return np.asarray(np.sqrt((between / within + n - 1) / n))
