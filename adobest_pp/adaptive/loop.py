"""Algorithm 1, compiled: choose a subset, take answers, sample; and again."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from adobest_pp._random import seed_state, uniform
from adobest_pp.adaptive.gibbs import GibbsState, gibbs_updates, new_gibbs_state
from adobest_pp.adaptive.hamiltonian import ExactState, hamiltonian_updates, new_exact_state
from adobest_pp.adaptive.langevin import Workspace, langevin_updates, new_workspace
from adobest_pp.adaptive.records import KINDS, RESPONSES, Records, publish, record
from adobest_pp.design.subsets import choose_size
from adobest_pp.mechanisms.drawing import simulate_answer


class LoopPlan(NamedTuple):
    """How the loop is run: the utility (see `choose_size`), m, and people per round."""

    code: tuple[()]
    alpha: float
    smallest_size: int
    batch_size: int
    round_size: int


class Chain(NamedTuple):
    """The state of the sampler, changed in place: generator, φ, the categories in order of the last choice, ρ.

    `work` tells which sampler it is: SGLD has a `Workspace`, the exact one an `ExactState`, Gibbs a `GibbsState`.
    """

    state: NDArray[np.uint64]
    phi: NDArray[np.float64]
    order: NDArray[np.int64]
    prior: NDArray[np.float64]
    work: Workspace | ExactState | GibbsState


def new_chain(
    prior: NDArray[np.float64], batch_size: int, seed: int | np.random.SeedSequence | None, sampler: str = "sgld"
) -> Chain:
    """Return a chain at Θ₀ = 1/K, and at the prior mean of Σφ (kept where its square is a number)."""
    k = prior.size
    start = np.full(k, np.clip(prior, 1e-150, 1e150).mean())
    makers: dict[str, Callable[[], Workspace | ExactState | GibbsState]] = {
        "sgld": lambda: new_workspace(k, batch_size),
        "exact": lambda: new_exact_state(prior),
        "gibbs": lambda: new_gibbs_state(prior),
    }
    work = makers[sampler]()
    return Chain(seed_state(seed), start, np.arange(k), prior, work)


def sample_round(
    batch_size: int,
    chain: Chain,
    records: Records,
    steps: NDArray[np.float64],
    mean: NDArray[np.float64],
    first_kept: int,
) -> int:
    """Sample on all that is recorded, with one gradient for each of `steps` (whose sizes are those of SGLD).

    θ of the updates from number `first_kept` on is added to `mean`; returns how many that are. It takes m and not the
    plan, whose type is the utility's: so it is compiled once for all utilities.
    """
    updates: Callable[..., int] = _ROUNDS[type(chain.work)]
    return updates(batch_size, chain, records, steps, mean, first_kept)


def _exact_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    return hamiltonian_updates(chain.state, chain.phi, records, chain.prior, steps.size, mean, first_kept, chain.work)[
        2
    ]


def _gibbs_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    return gibbs_updates(chain.state, chain.phi, records, chain.prior, steps.size, mean, first_kept, chain.work)


def _sgld_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    return langevin_updates(
        chain.state, chain.phi, records, chain.prior, steps, batch_size, mean, first_kept, chain.work
    )


_ROUNDS: dict[type, Callable[..., int]] = {
    Workspace: _sgld_round,
    ExactState: _exact_round,
    GibbsState: _gibbs_round,
}


@overload(sample_round, inline="always")
def _compiled_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    """Choose the sampler when the loop is compiled: it compiles the one that it runs and no other."""
    return _ROUNDS[chain.types[chain.fields.index("work")].instance_class]


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
        sample_round(plan.batch_size, chain, records, steps[r - first_round], chain.phi, steps.shape[1])
        if (r + 1) % path_every == 0:
            total = chain.phi.sum()
            for i in range(chain.phi.size):
                path[(r + 1) // path_every - 1, i] = chain.phi[i] / total
    return first_round + len(steps)
