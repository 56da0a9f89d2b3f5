"""Algorithm 1, compiled: choose a subset, take an answer, sample; for as many simulated people as there is room."""

import numpy as np
from numba import njit

from adobest_pp.adaptation.choice import choose_size
from adobest_pp.fast_random import uniform
from adobest_pp.online.langevin import langevin_updates
from adobest_pp.online.records import RESPONSES, SETS, publish, record

__all__ = ["run", "simulate_answer"]


@njit(cache=True, error_model="numpy")
def run(  # type: ignore[no-untyped-def]
    state, x, code, alpha, smallest_size, coefficients, prior, phi, order, records, steps, batch_size, round_size, sizes,
    path, path_every, work,
):  # fmt: skip
    """Run Algorithm 1 on the people not asked yet, until all are or the tables of subsets are full.

    Parameters
    ----------
    state : uint64[4]
        The generator. Each person takes one uniform number; each round then takes what its updates take.
    x : int64[T]
        The simulated people's categories.
    code, alpha, smallest_size, coefficients
        The method and the mechanism, see `choose_size`.
    prior, phi, order : arrays of shape (K,)
        ρ, the chain, and the categories in the order of the last choice; the last two in place.
    records : Records
        With room for all T responses.
    steps : float64[rounds, M]
        Step sizes of each round.
    batch_size, round_size : int
        m, and how many people are asked between two choices.
    sizes : int32[T]
        |S_t| of each person, written.
    path : float64[P, K]
        Θ_t after every `path_every` rounds, written.
    work : Workspace
        Overwritten.

    Returns
    -------
    bool
        Whether everyone has been asked.
    """
    t = records.used[RESPONSES]
    while t < x.size:
        if records.used[SETS] == records.near.size:
            return False
        size = choose_size(code, alpha, phi, coefficients, order, smallest_size)
        v = publish(records, order, size, coefficients)
        for _ in range(min(round_size, x.size - t)):
            record(records, simulate_answer(uniform(state), x[t], order, size, coefficients), v, size)
            sizes[t] = size
            t += 1
        r = (t - 1) // round_size
        langevin_updates(state, phi, records, prior, coefficients, steps[r], batch_size, phi, steps.shape[1], work)
        if (r + 1) % path_every == 0:
            path[(r + 1) // path_every - 1] = phi / phi.sum()
    return True


@njit(cache=True, error_model="numpy")
def simulate_answer(u, x, order, size, coefficients):  # type: ignore[no-untyped-def]
    """Return RRRR's answer for x under the subset ``order[:size]``, from one uniform number. For simulation only."""
    inner, outer, cross = coefficients.inner[size], coefficients.outer[size], coefficients.cross[size]
    place = 0
    while order[place] != x:
        place += 1
    truth = inner + coefficients.inner_own[size] if place < size else outer + coefficients.outer_own[size]
    if u < truth:
        return x
    u -= truth
    # What is left is shared out among the categories but x: `inner` each in S, `cross` or `outer` each outside.
    n_inside = size - 1 if place < size else size
    n_outside = order.size - 1 - n_inside
    if u < n_inside * inner or n_outside == 0:
        other = min(np.int64(u / inner), n_inside - 1)
        return order[other + (place < size and other >= place)]
    other = min(np.int64((u - n_inside * inner) / (cross if place < size else outer)), n_outside - 1)
    other += size
    return order[other + (place >= size and other >= place)]
