"""What the comparison takes of each sampler: its draws, how well they mixed, and draws thinned to be independent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp._checks import SUM_TOLERANCE, check_prior, is_learned
from adobest_pp._labels import same_labels
from adobest_pp.answers.draws import responses_of, thetas_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses

FEWEST_DRAWS = 4

# The quantiles that stand for the tails.
TAILS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of one sampler: θ of shape (chain, draw, K), how well they mixed, and what they were sampled from.

    θ and `prior` have the categories in the order of `categories`; `responses` have an order of their own.
    """

    name: str
    theta: NDArray[np.float64]
    categories: tuple[str, ...]
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]
    r_hat: NDArray[np.float64]
    wall_time: float
    responses: Responses | Gathered | None
    prior: NDArray[np.float64] | str | None

    @property
    def flat(self) -> NDArray[np.float64]:
        """All draws, of shape (chain · draw, K)."""
        return self.theta.reshape(-1, self.theta.shape[-1])

    @property
    def effective(self) -> float:
        """The smallest bulk ESS; 0 where draws do not move."""
        return float(np.nan_to_num(self.ess_bulk, nan=0.0).min())


def read(draws: Mapping[str, xr.DataTree]) -> dict[str, Draws]:
    """Read trees of draws, all with the categories in the order of the first, or raise ValueError."""
    thetas = thetas_of(draws)
    for name, theta in thetas.items():
        if theta.sizes["draw"] < FEWEST_DRAWS:
            count = theta.sizes["draw"]
            raise ValueError(f"draws[{name!r}] must have at least {FEWEST_DRAWS} draws in each chain, got {count}")
    return {str(name): _draws(str(name), tree, thetas[str(name)]) for name, tree in draws.items()}


def check_on_simplex(draws: Draws) -> None:
    """Raise ValueError if draws are not probabilities, as where columns were mixed up."""
    if (smallest := draws.theta.min()) < 0:
        raise ValueError(f"draws[{draws.name!r}] must have draws of at least 0, got {smallest:.3g}")
    sums = draws.theta.sum(axis=-1).ravel()
    farthest = sums[np.abs(sums - 1).argmax()]
    if abs(farthest - 1) > SUM_TOLERANCE:
        name = f"draws[{draws.name!r}]"
        raise ValueError(f"{name} must have draws that sum to 1 over the categories, got a sum of {farthest:.6g}")


def in_order(values: NDArray[np.float64], given: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
    """Return values by category (..., K) in another order of the same labels."""
    return values[..., [list(given).index(label) for label in wanted]]


def _draws(name: str, tree: xr.DataTree, theta: xr.DataArray) -> Draws:
    values = np.ascontiguousarray(theta.values)
    categories = tuple(theta["category"].values.tolist())
    attributes = {**tree["posterior"].attrs, **tree.attrs}
    responses = responses_of(tree)
    if responses is not None and not same_labels(responses.categories, categories):
        raise ValueError(f"draws must be of the categories of their responses, got {categories} for {name!r}")
    prior = attributes.get("prior")
    if prior is not None and not is_learned(prior):
        own = [str(label) for label in tree["posterior"].to_dataset()["theta"]["category"].values.tolist()]
        given = own if responses is None else responses.categories
        prior = in_order(check_prior(prior, len(categories)), given, categories)
    wall_time = float(attributes.get("sampling_time", np.nan))
    return Draws(name, values, categories, **mixing(values), wall_time=wall_time, responses=responses, prior=prior)


def mixing(theta: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return ArviZ's bulk ESS, tail ESS and rank-normalized split R-hat of draws (chain, draw, K), each of shape (K,).

    All three are NaN for a category whose draws are all equal (ArviZ calls such draws effective). R-hat is also NaN
    for a single chain.
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
    # Each from the middle of its stretch, so that the start of a chain counts no more than its end.
    places = ((np.arange(per_chain) + 0.5) * draws / per_chain).astype(np.int64)
    return theta[:, places].reshape(-1, k)


def independent(values: NDArray[np.float64], ess: float, most: int) -> NDArray[np.float64]:
    """Return at most `most` values (chain, draw, K), spaced so that they are nearly independent.

    It keeps half as many as the effective sample size. Draws of an AR(1) chain that are one autocorrelation time apart
    still correlate by 0.14; two apart, by 0.02.
    """
    return thinned(values, int(min(most, ess / 2)))
