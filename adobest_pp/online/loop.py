"""Algorithm 1, compiled: choose a subset, take answers, sample; and again."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.design.subset_choice import choose_size
from adobest_pp.online.fast_random import seed_state, uniform
from adobest_pp.online.hamiltonian import ExactState, hamiltonian_updates, new_exact_state
from adobest_pp.online.langevin import Workspace, langevin_updates, new_workspace
from adobest_pp.online.records import KINDS, RESPONSES, publish, record

__all__ = ["Chain", "Plan", "draw_chain", "new_chain", "run", "sample_round", "simulate_answer"]


class Plan(NamedTuple):
    """How the loop is run: the method (see `choose_size`), m, people per round, and the sampler."""

    code: int
    alpha: float
    smallest_size: int
    batch_size: int
    round_size: int
    exact: bool


class Chain(NamedTuple):
    """The state of the sampler, changed in place: generator, φ, the categories in order of the last choice, ρ."""

    state: NDArray[np.uint64]
    phi: NDArray[np.float64]
    order: NDArray[np.int64]
    prior: NDArray[np.float64]
    work: Workspace
    hamiltonian: ExactState


def new_chain(prior: NDArray[np.float64], batch_size: int, seed: int | np.random.SeedSequence | None) -> Chain:
    """Return a chain at Θ₀ = 1/K, and at the prior mean of Σφ (kept where its square is a number)."""
    k = prior.size
    start = np.full(k, np.clip(prior, 1e-150, 1e150).mean())
    return Chain(seed_state(seed), start, np.arange(k), prior, new_workspace(k, batch_size), new_exact_state(prior))


@njit(cache=True, error_model="numpy")
def sample_round(plan, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    """Sample on all that is recorded, with one gradient for each of `steps` (whose sizes are those of SGLD).

    θ of the updates from number `first_kept` on is added to `mean`; returns how many that are.
    """
    if plan.exact:
        return hamiltonian_updates(
            chain.state, chain.phi, records, chain.prior, steps.size, mean, first_kept, chain.hamiltonian
        )[2]
    return langevin_updates(
        chain.state, chain.phi, records, chain.prior, steps, plan.batch_size, mean, first_kept, chain.work
    )


@njit(cache=True, error_model="numpy")
def draw_chain(plan, chain, records, steps, draws):  # type: ignore[no-untyped-def]
    """Sample with each row of `steps` and write θ after the last of them into `draws`, of shape (kept, K)."""
    first = len(steps) - len(draws)
    for j in range(len(steps)):
        sample_round(plan, chain, records, steps[j], chain.phi, steps.shape[1])
        if j >= first:
            draws[j - first] = chain.phi / chain.phi.sum()


@njit(cache=True, error_model="numpy")
def run(plan, chain, records, coefficients, x, first_round, steps, sizes, path, path_every):  # type: ignore[no-untyped-def]
    """Run Algorithm 1 on simulated people, for as many rounds as there are rows of `steps`.

    Each person takes one uniform number of the generator; each round then takes what its updates take.

    Parameters
    ----------
    plan, chain, records, coefficients
        Settings, sampler, responses so far (with room for all T) and the mechanism's `Coefficients`.
    x : int64[T]
        The people's categories.
    first_round : int
        The round that ``steps[0]`` belongs to.
    steps : float64[rounds, M]
        Step sizes of each round.
    sizes : int32[T]
        |S_t| of each person, written.
    path : float64[P, K]
        Θ_t after every `path_every` rounds, written.

    Returns
    -------
    int
        The round to go on with: earlier than asked where the tables of subsets are full.
    """
    for r in range(first_round, first_round + len(steps)):
        if records.used[KINDS] == records.near.size:
            return r
        size = choose_size(plan.code, plan.alpha, chain.phi, coefficients, chain.order, plan.smallest_size)
        v = publish(records, chain.order, size, coefficients)
        for _ in range(min(plan.round_size, x.size - records.used[RESPONSES])):
            t = records.used[RESPONSES]
            answer = simulate_answer(uniform(chain.state), x[t], chain.order, size, coefficients)
            record(records, answer, v, size)
            sizes[t] = size
        sample_round(plan, chain, records, steps[r - first_round], chain.phi, steps.shape[1])
        if (r + 1) % path_every == 0:
            path[(r + 1) // path_every - 1] = chain.phi / chain.phi.sum()
    return first_round + len(steps)


@njit(cache=True, error_model="numpy")
def simulate_answer(u, x, order, size, coefficients):  # type: ignore[no-untyped-def]
    """Return RRRR's answer for x under the subset ``order[:size]``, from one uniform number. For simulation only."""
    inner, outer, cross = coefficients.inner[size], coefficients.outer[size], coefficients.cross[size]
    place = 0
    while order[place] != x:
        place += 1
    is_member = place < size
    truth = inner + coefficients.inner_own[size] if is_member else outer + coefficients.outer_own[size]
    if u < truth:
        return x
    u -= truth
    # What is left is shared out among the other categories: `inner` each in S, `cross` or `outer` each outside.
    n_inside = size - is_member
    n_outside = order.size - 1 - n_inside
    # Rounding may leave a little too much, and divided by a tiny share that is more than an integer holds.
    if u < n_inside * inner or n_outside == 0:
        other = np.int64(min(u / inner, n_inside - 1.0))
        return order[other + (is_member and other >= place)]
    other = size + np.int64(min((u - n_inside * inner) / (cross if is_member else outer), n_outside - 1.0))
    return order[other + (not is_member and other >= place)]
