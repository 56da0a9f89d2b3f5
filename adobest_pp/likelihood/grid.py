"""The posterior of two or three categories on a grid: exact to the eye, at once, for pictures and lessons.

A Dirichlet(ρ) prior is the same as independent shares s ~ Beta(ρ₀, ρ₁+ρ₂) and t ~ Beta(ρ₁, ρ₂), with θ₀ = s and
θ₁ = (1−s)·t. Cells of equal prior probability in (s, t) have a posterior mass in proportion to their likelihood. The
grid is narrowed several times to the cells that matter, so that a posterior of a million answers fills it as well.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, xlogy

from adobest_pp._checks import check_integer, check_prior, check_probability
from adobest_pp.data.gathered import Gathered, check_responses
from adobest_pp.data.responses import Responses

__all__ = ["GridPosterior", "grid_posterior"]

# Cells whose likelihood is e^−25 times the greatest hold nothing that is seen.
NEGLIGIBLE = 25.0
NARROWINGS = 4


class GridPosterior(NamedTuple):
    """The posterior on M or M×M cells: θ of their centers (…, K), their masses, which sum to one, and ln p(θ) there."""

    theta: NDArray[np.float64]
    mass: NDArray[np.float64]
    log_density: NDArray[np.float64]

    def mean(self) -> NDArray[np.float64]:
        """Return the posterior mean, of shape (K,)."""
        return np.asarray(self.mass.ravel() @ self._flat())

    def sd(self) -> NDArray[np.float64]:
        """Return the posterior standard deviation of each share, of shape (K,)."""
        return np.sqrt(self.mass.ravel() @ (self._flat() - self.mean()) ** 2)

    def interval(self, probability: float = 0.95) -> NDArray[np.float64]:
        """Return the ends of the intervals with equal tails, of shape (2, K)."""
        check_probability(probability)
        tails = [(1 - probability) / 2, (1 + probability) / 2]
        ends = []
        for column in self._flat().T:
            values, place = np.unique(column, return_inverse=True)  # all cells of a row share their θ₀
            mass = np.bincount(place, self.mass.ravel())
            ends.append(np.interp(tails, np.cumsum(mass) - mass / 2, values))
        return np.array(ends).T

    def level(self, probability: float) -> float:
        """Return ln p(θ) at the edge of the smallest region that holds this probability."""
        check_probability(probability)
        heights = self.log_density.ravel()
        order = np.argsort(-heights)
        held = np.cumsum(self.mass.ravel()[order])
        return float(heights[order[min(int(np.searchsorted(held, probability)), held.size - 1)]])

    def _flat(self) -> NDArray[np.float64]:
        return self.theta.reshape(-1, self.theta.shape[-1])


def grid_posterior(responses: Responses | Gathered, prior: ArrayLike = 1.0, cells: int = 100) -> GridPosterior:
    """Return the posterior of two or three shares on a grid.

    Parameters
    ----------
    responses : Responses
        Answers about K = 2 or K = 3 categories.
    prior : float or array of shape (K,), default 1.0
        Concentration ρ of the Dirichlet prior.
    cells : int, default 100
        Cells along each of the K−1 axes.

    Returns
    -------
    GridPosterior

    See Also
    --------
    adobest_pp.sample : For any number of categories.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> ad.likelihood.grid_posterior(responses).mean().round(3).tolist()
    [0.572, 0.428]
    """
    check_responses(responses)
    k = responses.n_categories
    if k not in (2, 3):
        raise ValueError(f"responses must be about 2 or 3 categories for a grid, got {k}")
    m = check_integer(cells, "cells", 10, 1000)
    rho = check_prior(prior, k, responses.categories)
    evidence = responses.evidence()
    rows, count = evidence.matrix(), evidence.count
    ends = np.tile([0.0, 1.0], (k - 1, 1))
    for narrowing in range(NARROWINGS):
        edges = [np.linspace(low, high, m + 1) for low, high in ends]
        theta = _shares([(edge[1:] + edge[:-1]) / 2 for edge in edges], rho)
        value: NDArray[np.float64] = np.log(theta @ rows.T) @ count
        value -= value.max()
        if narrowing < NARROWINGS - 1:
            ends = np.array([_narrow(value, axis, edge) for axis, edge in enumerate(edges)])
    mass = np.exp(value)
    return GridPosterior(theta, mass / mass.sum(), value + xlogy(rho - 1, theta).sum(axis=-1))


def _shares(quantiles: list[NDArray[np.float64]], rho: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return θ at all pairs of quantiles of the shares s and t under the prior."""
    first = betaincinv(rho[0], rho[1:].sum(), quantiles[0])
    if len(quantiles) == 1:
        return np.stack([first, 1 - first], axis=-1)
    s, t = np.meshgrid(first, betaincinv(rho[1], rho[2], quantiles[1]), indexing="ij")
    return np.stack([s, (1 - s) * t, (1 - s) * (1 - t)], axis=-1)


def _narrow(value: NDArray[np.float64], axis: int, edges: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the cells along an axis that matter, and of one more on either side."""
    others = tuple(i for i in range(value.ndim) if i != axis)
    kept = np.flatnonzero(value.max(axis=others) > -NEGLIGIBLE)
    return edges[max(kept[0] - 1, 0)], edges[min(kept[-1] + 2, len(edges) - 1)]
