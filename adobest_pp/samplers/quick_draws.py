"""Draws of the exact posterior in the least time, for whoever needs many posteriors: rounds, plans and studies."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.responses import Responses
from adobest_pp.samplers.problems import logger
from adobest_pp.samplers.sgld_cv import LEAST_PRIOR, sgld_cv_draws

__all__ = ["quick_draws"]


def quick_draws(
    responses: Responses, prior: NDArray[np.float64] | str, draws: int, tune: int, chains: int, seed: int
) -> NDArray[np.float64]:
    """Return draws of θ, all chains as one, of shape (chains·draws, K).

    By SGLD with control variates, which is at the posterior and the fastest; by NUTS where that cannot take the prior,
    leaves the finite numbers, or says of itself that it is not at the posterior.
    """
    k = responses.n_categories
    if isinstance(prior, str) or prior.min() >= LEAST_PRIOR:
        try:
            with _warnings() as told:
                variables, _, _ = sgld_cv_draws(responses.evidence(), prior, draws, tune, chains, seed)
            if not told:
                return variables["theta"].reshape(-1, k)
        except RuntimeError:
            pass  # its chains left the finite numbers
    from adobest_pp.samplers.nuts import sample_nuts

    sizes = {"draws": draws, "tune": tune, "chains": chains, "cores": 1}
    tree = sample_nuts(responses, prior=prior, random_seed=seed, progressbar=False, **sizes)
    return np.asarray(tree["posterior"]["theta"].values, dtype=np.float64).reshape(-1, k)


@contextmanager
def _warnings() -> Iterator[list[logging.LogRecord]]:
    """Collect what the sampler would warn of: here it is a reason to take NUTS, and nothing that a person needs."""
    records: list[logging.LogRecord] = []

    def keep(record: logging.LogRecord) -> bool:
        records.append(record)
        return False

    logger.addFilter(keep)
    try:
        yield records
    finally:
        logger.removeFilter(keep)
