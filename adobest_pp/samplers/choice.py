"""Draws of the exact posterior in the least time: for estimates, and for whoever needs many posteriors."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_prior
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.samplers.checks import BIASED, NOT_CONVERGED, without_warnings_of
from adobest_pp.samplers.sgld_cv.sampler import LEAST_PRIOR, sgld_cv_draws

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["MANY_ROWS", "has_many_rows", "quick_draws", "quick_sample"]


# NUTS visits every distinct answer at each step. With more of them than this, SGLD with control variates is quicker
# (0.2 to 0.5 s instead of 1.4 to 4 s, K = 20, 10,000 answers of subset selection under the learned prior), and two
# chains of 800 draws are closer to long runs: 0.0002 to 0.007 in TV, where a chain of 500 of NUTS is 0.0003 to 0.010
# off.
MANY_ROWS = 2500


def has_many_rows(responses: Responses | Gathered) -> bool:
    """Tell whether answers hardly ever repeat, so that SGLD with control variates is quicker than NUTS."""
    if len(responses) <= MANY_ROWS:
        return False
    stored = isinstance(responses, Gathered) and responses.store is not None
    return stored or responses.evidence().n_rows > MANY_ROWS


def quick_sample(
    responses: Responses | Gathered,
    prior: ArrayLike | Literal["learned"],
    draws: int,
    random_seed: int,
    progressbar: bool = False,
) -> "xr.DataTree":
    """Return the draws of `sample`, by the quickest sampler at the posterior; the attribute ``sampler`` names it.

    By NUTS, unless answers hardly ever repeat: then by SGLD with control variates, and by NUTS after all where that
    cannot take the prior, leaves the finite numbers, says of itself that it is not at the posterior, or has not
    converged. Answers in a store, which NUTS could not hold in memory, have no such way out: warnings tell.

    Parameters
    ----------
    responses : Responses or Gathered
        What the posterior is given.
    prior, draws, random_seed, progressbar
        As of `sample`.
    """
    from adobest_pp.samplers.sampling import sample

    options: dict[str, Any] = {"draws": draws, "random_seed": random_seed, "progressbar": progressbar}
    if has_many_rows(responses) and isinstance(responses, Gathered) and responses.store is not None:
        return sample(responses, "sgld_cv", prior, **options)
    if has_many_rows(responses) and _is_possible(prior, responses):
        try:
            with without_warnings_of(BIASED, NOT_CONVERGED) as left_out:
                tree = sample(responses, "sgld_cv", prior, **options)
            if not left_out:
                return tree
        except RuntimeError:
            pass  # its chains left the finite numbers
    return sample(responses, "nuts", prior, **options)


def _is_possible(prior: Any, responses: Responses | Gathered) -> bool:
    """Tell whether SGLD with control variates takes a prior, or raise ValueError if nothing takes it."""
    if isinstance(prior, str):
        return True
    return bool(check_prior(prior, responses.n_categories, responses.categories).min() >= LEAST_PRIOR)


def quick_draws(
    responses: Responses, prior: NDArray[np.float64] | str, draws: int, tune: int, chains: int, seed: int
) -> NDArray[np.float64]:
    """Return draws of θ, all chains as one, of shape (chains·draws, K), for one of many posteriors.

    By SGLD with control variates, which is at the posterior and the fastest; by NUTS where that cannot take the prior,
    leaves the finite numbers, or says of itself that it is not at the posterior.
    """
    k = responses.n_categories
    if isinstance(prior, str) or prior.min() >= LEAST_PRIOR:
        try:
            with without_warnings_of(BIASED) as left_out:
                variables, _, _ = sgld_cv_draws(responses.evidence(), prior, draws, tune, chains, seed)
            if not left_out:
                return variables["theta"].reshape(-1, k)
        except RuntimeError:
            pass  # its chains left the finite numbers
    from adobest_pp.samplers.nuts.sampler import sample_nuts

    sizes = {"draws": draws, "tune": tune, "chains": chains, "cores": 1}
    tree = sample_nuts(responses, prior=prior, random_seed=seed, progressbar=False, **sizes)
    return np.asarray(tree["posterior"]["theta"].values, dtype=np.float64).reshape(-1, k)
