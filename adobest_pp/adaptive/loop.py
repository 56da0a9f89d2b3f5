"""Algorithm 1, compiled: choose a subset, take answers, update the sampler, repeat. It also checks the settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_alpha, check_count, check_integer, check_prior
from adobest_pp._numerics import seed_state, uniform
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.adaptive.gibbs import GibbsState, gibbs_updates, new_gibbs_state
from adobest_pp.adaptive.hamiltonian import ExactState, hamiltonian_updates, new_exact_state
from adobest_pp.adaptive.langevin import Workspace, langevin_updates, new_workspace
from adobest_pp.adaptive.records import KINDS, RESPONSES, Records, publish, record
from adobest_pp.design.utilities import GIVEN, UTILITIES, UTILITY_CODES, Utility, best_size, choose_size, ranked_values
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.mechanisms.drawing import simulate_answer
from adobest_pp.samplers.sgld.settings import LangevinSettings, Schedule, evaluate_schedule, schedule_settings

SAMPLERS = ("sgld", "gibbs", "exact")


class LoopPlan(NamedTuple):
    """What compiled code needs: the utility (see `choose_size`), the batch size m, and people per round."""

    code: tuple[()]
    alpha: float
    smallest_size: int
    batch_size: int
    round_size: int


@dataclass(frozen=True)
class LoopSettings:
    """Checked settings of Algorithm 1; build them with `LoopSettings.of`. `utility` is a name or the user's own."""

    mechanism: RRRR
    utility: str | Utility
    alpha: float | None
    prior: Floats
    updates: int
    schedule: Schedule
    sampler: str
    plan: LoopPlan

    @classmethod
    def of(
        cls,
        mechanism: RRRR,
        utility: str | Utility,
        *,
        alpha: float | None,
        prior: ArrayLike,
        updates: int,
        batch_size: int,
        step_size: float | None,
        schedule: Schedule | None,
        adapt_every: int,
        sampler: str,
        smallest_size: int = 0,
        categories: Sequence[str] | None = None,
    ) -> "LoopSettings":
        """Check every setting, or raise ValueError."""
        check_rrrr(mechanism)
        chosen = _check_utility(utility)
        if (alpha is not None) != (chosen == "semi_adaptive"):
            given = f"{brief(alpha)} with {_name_of(chosen)!r}"
            raise ValueError(f"alpha must be given for 'semi_adaptive' and for no other utility, got {given}")
        if not isinstance(sampler, str) or sampler not in SAMPLERS:
            raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got {brief(sampler)}")
        m = check_count(batch_size, "batch_size")
        plan = LoopPlan(
            UTILITY_CODES[chosen] if isinstance(chosen, str) else GIVEN,
            0.0 if alpha is None else check_alpha(alpha),
            check_integer(smallest_size, "smallest_size", 0, mechanism.n_categories - 1),
            m,
            check_count(adapt_every, "adapt_every"),
        )
        densities = check_prior(prior, mechanism.n_categories, categories)
        steps = LangevinSettings.of(m, step_size, schedule).schedule
        return cls(mechanism, chosen, alpha, densities, check_count(updates, "updates"), steps, sampler, plan)

    def choose_size(self, chain: "Chain") -> int:
        """Sort ``chain.order`` by φ, and return the size of the next subset, ``order[:size]``."""
        plan = self.plan
        if isinstance(self.utility, str):
            coefficients = self.mechanism.coefficients
            return int(choose_size(plan.code, plan.alpha, chain.phi, coefficients, chain.order, plan.smallest_size))
        values, chain.order[:] = ranked_values(self.utility, chain.phi / chain.phi.sum(), self.mechanism)
        return int(best_size(values, plan.smallest_size))

    def steps(self, done: int | Integers, n_updates: int, n_responses: int | Integers) -> Floats:
        """Return the step sizes of the `n_updates` after the first `done`, given `n_responses`."""
        return evaluate_schedule(self.schedule, done + 1 + np.arange(n_updates), n_responses)

    def describe(self) -> dict[str, Any]:
        """Return plain values to store with a run."""
        return {
            **self.mechanism.settings(),
            "utility": _name_of(self.utility),
            **({} if self.alpha is None else {"alpha": self.alpha}),
            "prior": self.prior.tolist(),
            "updates": self.updates,
            "batch_size": self.plan.batch_size,
            "schedule": schedule_settings(self.schedule),
            "adapt_every": self.plan.round_size,
            "smallest_size": self.plan.smallest_size,
            "sampler": self.sampler,
        }


def _check_utility(utility: Any) -> str | Utility:
    """Return the name of a built-in utility, or the user's own utility, or raise ValueError."""
    if isinstance(utility, Utility) and utility.name not in UTILITY_CODES:
        return utility
    name = utility.name if isinstance(utility, Utility) else utility
    if isinstance(utility, Utility) and utility != UTILITIES.get(name):
        raise ValueError(f"utility must have a name of its own, got {name!r}, the name of a built-in utility")
    if not isinstance(name, str) or name not in UTILITY_CODES:
        allowed = f"one of {', '.join(map(repr, UTILITY_CODES))} or a Utility"
        raise ValueError(f"utility must be {allowed}, got {brief(utility)}")
    return name


def _name_of(utility: str | Utility) -> str:
    return utility if isinstance(utility, str) else utility.name


class Chain(NamedTuple):
    """The state of the sampler, changed in place: generator, φ, the categories in the order of the last choice, ρ.

    The type of `work` is the sampler: `Workspace` for SGLD, `ExactState` for the exact one, `GibbsState` for Gibbs.
    """

    state: NDArray[np.uint64]
    phi: Floats
    order: Integers
    prior: Floats
    work: Workspace | ExactState | GibbsState


def new_chain(
    prior: Floats, batch_size: int, seed: int | np.random.SeedSequence | None, sampler: str = "sgld"
) -> Chain:
    """Return a chain at Θ₀ = 1/K, with Σφ at its prior mean (clipped so that its square is finite)."""
    k = prior.size
    start = np.full(k, np.clip(prior, 1e-150, 1e150).mean())
    makers: dict[str, Callable[[], Workspace | ExactState | GibbsState]] = {
        "sgld": lambda: new_workspace(k, batch_size),
        "exact": lambda: new_exact_state(prior),
        "gibbs": lambda: new_gibbs_state(prior),
    }
    return Chain(seed_state(seed), start, np.arange(k), prior, makers[sampler]())


def sample_round(batch_size: int, chain: Chain, records: Records, steps: Floats, mean: Floats, first_kept: int) -> int:
    """Update the chain on all recorded responses, with one gradient for each of `steps` (the step sizes of SGLD).

    Adds θ after update `first_kept` and later ones to `mean`, and returns how many these are. It takes the batch size
    in place of the plan, whose type depends on the utility, so it is compiled once for all utilities.
    """
    updates: Callable[..., int] = _ROUNDS[type(chain.work)]
    return updates(batch_size, chain, records, steps, mean, first_kept)


def _exact_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    state, phi, _, prior, work = chain
    return hamiltonian_updates(state, phi, records, prior, steps.size, mean, first_kept, work)[2]


def _gibbs_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    return gibbs_updates(chain.state, chain.phi, records, chain.prior, steps.size, mean, first_kept, chain.work)


def _sgld_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    state, phi, _, prior, work = chain
    return langevin_updates(state, phi, records, prior, steps, batch_size, mean, first_kept, work)


_ROUNDS: dict[type, Callable[..., int]] = {Workspace: _sgld_round, ExactState: _exact_round, GibbsState: _gibbs_round}


@overload(sample_round, inline="always")
def _compiled_round(batch_size, chain, records, steps, mean, first_kept):  # type: ignore[no-untyped-def]
    """Choose the sampler when the loop is compiled, so that only this one is compiled."""
    return _ROUNDS[chain.types[chain.fields.index("work")].instance_class]


@njit(cache=True, error_model="numpy")
def run(plan, chain, records, coefficients, x, first_round, steps, sizes, path, path_every):  # type: ignore[no-untyped-def]
    """Run Algorithm 1 on simulated people of the categories `x` (T,), one round for each row of `steps` (rounds, M).

    The first round is `first_round`. Each person takes one uniform number from the generator; the updates of the round
    take theirs after that. `records` have room for all people. |S_t| of each person is written into `sizes` (T,), and
    Θ_t after every `path_every` rounds into `path` (P, K). Returns the next round to run: if the tables of subsets are
    full, rounds are left.
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
