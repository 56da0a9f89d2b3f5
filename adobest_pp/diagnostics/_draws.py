"""Draws of θ as the diagnostics take them: out of labelled trees, checked, and thinned to be nearly independent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp._checks import is_learned
from adobest_pp._text import brief
from adobest_pp.responses import Responses

FEWEST_DRAWS = 4

# The quantiles that stand for the tails.
TAILS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Draws:
    """What one sampler made: θ of shape (chain, draw, K), how well it mixed, and its attributes."""

    name: str
    theta: NDArray[np.float64]
    categories: tuple[str, ...]
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]
    r_hat: NDArray[np.float64]
    wall_time: float
    responses: Responses | None
    prior: NDArray[np.float64] | str | None

    @property
    def flat(self) -> NDArray[np.float64]:
        """All draws, of shape (chain · draw, K)."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    def by_response_order(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return draws (n, K) with the categories in the order of the responses (and of the prior)."""
        order = self.categories if self.responses is None else self.responses.categories
        return theta[:, [self.categories.index(label) for label in order]]

    @property
    def effective(self) -> float:
        """The smallest bulk ESS; 0 where draws do not move."""
        return float(np.nan_to_num(self.ess_bulk, nan=0.0).min())


def read(draws: Mapping[str, xr.DataTree]) -> dict[str, Draws]:
    """Read trees of draws, with the categories of all in the order of the first, or refuse."""
    if not isinstance(draws, Mapping) or not draws:
        raise ValueError(f"draws must be a mapping of names to DataTrees, got {brief(draws)}")
    categories = None
    trees = {}
    for name, tree in draws.items():
        theta = _theta(name, tree)
        labels = theta["category"].values.tolist()
        if categories is None:
            first, categories = name, labels
        if sorted(labels) != sorted(categories):
            raise ValueError(f"draws must share their categories: {name!r} has {labels}, {first!r} has {categories}")
        trees[name] = (tree, theta.sel(category=categories))
    return {str(name): _draws(str(name), tree, theta) for name, (tree, theta) in trees.items()}


def _theta(name: str, tree: Any) -> xr.DataArray:
    allowed = "a DataTree with posterior/theta by chain, draw and category"
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree or "theta" not in tree["posterior"]:
        raise ValueError(f"draws must be {allowed}, got {type(tree).__name__} without it for {name!r}")
    theta = tree["posterior"].to_dataset()["theta"]
    if set(theta.dims) != {"chain", "draw", "category"} or "category" not in theta.coords:
        raise ValueError(f"draws must be {allowed}, got theta by {', '.join(map(str, theta.dims))} for {name!r}")
    if theta.sizes["draw"] < FEWEST_DRAWS or not np.isfinite(theta.values).all():
        raise ValueError(f"draws must be at least {FEWEST_DRAWS} finite ones in each chain, got others for {name!r}")
    return theta.transpose("chain", "draw", "category")


def _draws(name: str, tree: xr.DataTree, theta: xr.DataArray) -> Draws:
    values = np.ascontiguousarray(theta.values, dtype=np.float64)
    attributes = {**tree["posterior"].attrs, **tree.attrs}
    observed = tree["observed_data"].to_dataset() if "observed_data" in tree else None
    responses = Responses.from_xarray(observed) if observed is not None and "answer" in observed else None
    categories = tuple(str(label) for label in theta["category"].values)
    prior = attributes.get("prior")
    if prior is not None and not is_learned(prior):
        prior = np.asarray(prior, dtype=np.float64)
    if responses is not None and sorted(responses.categories) != sorted(categories):
        raise ValueError(f"draws must be of the categories of their responses, got {categories} for {name!r}")
    with np.errstate(invalid="ignore", divide="ignore"):
        ess_bulk = array_stats.ess(values, 0, 1, method="bulk")
        ess_tail = array_stats.ess(values, 0, 1, method="tail", prob=TAILS)
        r_hat = array_stats.rhat(values, 0, 1)
    moves = np.ptp(values, axis=(0, 1)) > 0
    return Draws(
        name=name,
        theta=values,
        categories=categories,
        ess_bulk=np.where(moves, ess_bulk, np.nan),
        ess_tail=np.where(moves, ess_tail, np.nan),
        r_hat=np.where(moves, r_hat, np.nan),
        wall_time=float(attributes.get("sampling_time", np.nan)),
        responses=responses,
        prior=prior,
    )


def thinned(theta: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return about `count` of the draws (chain, draw, K), evenly spaced in each chain, of shape (·, K)."""
    chains, draws, k = theta.shape
    per_chain = min(draws, max(1, count // chains))
    # In the middle of equal stretches: of two chains run on, none is nearer to the start than the other.
    places = ((np.arange(per_chain) + 0.5) * draws / per_chain).astype(np.int64)
    return theta[:, places].reshape(-1, k)


def independent(draws: Draws, most: int) -> NDArray[np.float64]:
    """Return at most `most` draws that are all but independent.

    Half as many as the effective sample size: spaced at one autocorrelation time draws of an AR(1) chain
    still correlate by 0.14, at two by 0.02.
    """
    return thinned(draws.theta, int(min(most, draws.effective / 2)))
