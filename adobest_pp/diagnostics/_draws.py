"""Draws of θ as the diagnostics take them: out of labelled trees, checked, and thinned to be nearly independent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp._checks import is_learned
from adobest_pp._labels import same_labels
from adobest_pp._text import brief
from adobest_pp.data.responses import Responses

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
        theta = theta_of(tree, f"draws[{name!r}]")
        if theta.sizes["draw"] < FEWEST_DRAWS:
            count = theta.sizes["draw"]
            raise ValueError(f"draws[{name!r}] must have at least {FEWEST_DRAWS} draws in each chain, got {count}")
        labels = theta["category"].values.tolist()
        if categories is None:
            first, categories = name, labels
        if sorted(labels) != sorted(categories):
            raise ValueError(f"draws must share their categories: {name!r} has {labels}, {first!r} has {categories}")
        trees[name] = (tree, theta.sel(category=categories))
    return {str(name): _draws(str(name), tree, theta) for name, (tree, theta) in trees.items()}


def theta_of(tree: Any, name: str, categories: Sequence[str] | None = None) -> xr.DataArray:
    """Return θ of a tree of draws by chain, draw and category, or raise ValueError.

    Parameters
    ----------
    tree : DataTree
        As `sample` returns it.
    name : str
        What the caller calls it, for errors.
    categories : sequence of str, optional
        The labels that it must have, and the order to bring them to.
    """
    allowed = f"{name} must hold posterior/theta by chain, draw and category"
    if not isinstance(tree, xr.DataTree) or "posterior" not in tree or "theta" not in tree["posterior"]:
        raise ValueError(f"{allowed}, got {type(tree).__name__} without it")
    theta = tree["posterior"].to_dataset()["theta"]
    if set(theta.dims) != {"chain", "draw", "category"} or "category" not in theta.coords:
        raise ValueError(f"{allowed}, got theta by {', '.join(map(str, theta.dims))}")
    values = theta.transpose("chain", "draw", "category").values
    if values.size == 0 or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise ValueError(f"{name} must have finite draws, got none or others")
    labels = [str(label) for label in theta["category"].values.tolist()]
    if categories is not None and not same_labels(labels, categories):
        raise ValueError(f"{name} must have the categories {brief(list(categories))}, got {brief(labels)}")
    dims = ("chain", "draw", "category")
    labelled = xr.DataArray(values.astype(np.float64), coords={"category": labels}, dims=dims)
    return labelled if categories is None else labelled.sel(category=list(categories))


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
    return Draws(
        name=name,
        theta=values,
        categories=categories,
        **mixing(values),
        wall_time=float(attributes.get("sampling_time", np.nan)),
        responses=responses,
        prior=prior,
    )


def mixing(theta: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return bulk and tail ESS and the rank-normalized split R-hat of draws (chain, draw, K), each of shape (K,).

    NaN where draws do not move, of which ArviZ says that all are effective; R-hat also of a single chain.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        values = {
            "ess_bulk": array_stats.ess(theta, 0, 1, method="bulk"),
            "ess_tail": array_stats.ess(theta, 0, 1, method="tail", prob=TAILS),
            "r_hat": array_stats.rhat(theta, 0, 1),
        }
    moves = np.ptp(theta, axis=(0, 1)) > 0
    return {name: np.where(moves, value, np.nan) for name, value in values.items()}


def thinned(theta: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return about `count` of the draws (chain, draw, K), evenly spaced in each chain, of shape (·, K)."""
    chains, draws, k = theta.shape
    per_chain = min(draws, max(1, count // chains))
    # In the middle of equal stretches: of two chains run on, none is nearer to the start than the other.
    places = ((np.arange(per_chain) + 0.5) * draws / per_chain).astype(np.int64)
    return theta[:, places].reshape(-1, k)


def independent(values: NDArray[np.float64], ess: float, most: int) -> NDArray[np.float64]:
    """Return at most `most` of the values (chain, draw, K) of draws that are all but independent.

    Half as many as the effective sample size: spaced at one autocorrelation time draws of an AR(1) chain
    still correlate by 0.14, at two by 0.02.
    """
    return thinned(values, int(min(most, ess / 2)))
