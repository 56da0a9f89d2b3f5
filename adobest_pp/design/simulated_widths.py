"""Half-widths of the intervals that a collection would show: people, answers, inference and intervals, simulated."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adobest_pp.intervals import shortest_intervals

if TYPE_CHECKING:
    from adobest_pp.data.responses import Responses
    from adobest_pp.design.candidates import Candidate

__all__ = ["simulated_half_widths"]

# Of one simulated collection.
CHAINS, DRAWS, TUNE = 2, 300, 300


def simulated_half_widths(
    candidate: "Candidate",
    theta: NDArray[np.float64],
    people: int,
    prior: NDArray[np.float64] | str,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return half the widths of the 95 % intervals of one simulated collection, of shape (K,).

    Parameters
    ----------
    candidate : Candidate
        The mechanism, and the subset that is published, if it publishes one.
    theta : array of shape (K,)
        The shares that people are drawn from.
    people : int
        How many answer.
    prior : array of shape (K,) or "learned"
        The prior of the estimate.
    rng : numpy.random.Generator
        Draws people, answers and the seed of the sampler.
    """
    from adobest_pp.data.responses import Responses

    truth = rng.choice(theta.size, size=people, p=theta / theta.sum())
    answers = candidate.mechanism.privatize(truth, subset=candidate.subset, rng=rng)
    responses = Responses.from_arrays(candidate.mechanism, answers, candidate.subset)
    draws = _draws(responses, prior, int(rng.integers(2**31)))
    lower, upper = shortest_intervals(np.clip(draws, 0.0, 1.0))
    return np.asarray((upper - lower) / 2)


def _draws(responses: "Responses", prior: NDArray[np.float64] | str, seed: int) -> NDArray[np.float64]:
    """Return draws of θ, of shape (n, K): by SGLD with control variates, and by NUTS where that gives up."""
    from adobest_pp.samplers.sgld_cv import LEAST_PRIOR, sgld_cv_draws

    if isinstance(prior, str) or prior.min() >= LEAST_PRIOR:
        try:
            with _biases() as biases:
                variables, _, _ = sgld_cv_draws(responses.evidence(), prior, DRAWS, TUNE, CHAINS, seed)
            if not biases:
                return variables["theta"].reshape(-1, responses.n_categories)
        except RuntimeError:
            pass
    from adobest_pp.samplers.nuts import sample_nuts

    sizes = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS}
    tree = sample_nuts(responses, prior=prior, random_seed=seed, progressbar=False, **sizes)
    return np.asarray(tree["posterior"]["theta"]).reshape(-1, responses.n_categories)


@contextmanager
def _biases() -> Iterator[list[logging.LogRecord]]:
    """Collect what the sampler would warn of: here it is a reason to take NUTS, and nothing that a planner needs."""
    from adobest_pp.samplers.problems import logger

    records: list[logging.LogRecord] = []

    def keep(record: logging.LogRecord) -> bool:
        records.append(record)
        return False

    logger.addFilter(keep)
    try:
        yield records
    finally:
        logger.removeFilter(keep)
