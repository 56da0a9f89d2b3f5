"""Half-widths of the intervals that a collection would show: people, answers, inference and intervals, simulated."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adobest_pp.intervals import covering_intervals, shortest_intervals

if TYPE_CHECKING:
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
        The prior of the estimate. Only one that prefers some categories counts: other intervals do not rest on it.
    rng : numpy.random.Generator
        Draws people, answers and the seed of the sampler.
    """
    from adobest_pp.data.responses import Responses
    from adobest_pp.likelihood.direct import direct_estimate
    from adobest_pp.samplers.quick_draws import quick_draws

    truth = rng.choice(theta.size, size=people, p=theta / theta.sum())
    answers = candidate.mechanism.privatize(truth, subset=candidate.subset, rng=rng)
    responses = Responses.from_arrays(candidate.mechanism, answers, candidate.subset)
    direct = direct_estimate(responses, theta) if isinstance(prior, str) or np.ptp(prior) == 0 else None
    if direct is not None:
        lower, upper = covering_intervals(direct)
        return np.asarray((upper - lower) / 2)
    draws = quick_draws(responses, prior, DRAWS, TUNE, CHAINS, int(rng.integers(2**31)))
    lower, upper = shortest_intervals(np.clip(draws, 0.0, 1.0))
    return np.asarray((upper - lower) / 2)
