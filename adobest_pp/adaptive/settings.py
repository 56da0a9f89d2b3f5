"""What the collector and the simulation are set to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_alpha, check_count, check_integer, check_prior
from adobest_pp._text import brief
from adobest_pp.adaptive.loop import Chain, LoopPlan
from adobest_pp.design.subsets import GIVEN, UTILITY_CODES, best_size, choose_size
from adobest_pp.design.utilities import UTILITIES, Utility, ranked_values
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.samplers.sgld.settings import LangevinSettings, Schedule, evaluate_schedule, schedule_settings

SAMPLERS = ("sgld", "gibbs", "exact")


@dataclass(frozen=True)
class LoopSettings:
    """Checked settings of Algorithm 1; build with `LoopSettings.of`. `utility` is a name, or one of the user's own."""

    mechanism: RRRR
    utility: str | Utility
    alpha: float | None
    prior: NDArray[np.float64]
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
            raise ValueError(f"alpha must be given for 'semi_adaptive' and for it alone, got {given}")
        if not isinstance(sampler, str) or sampler not in SAMPLERS:
            raise ValueError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}, got {brief(sampler)}")
        langevin = LangevinSettings.of(check_count(batch_size, "batch_size"), step_size, schedule)
        plan = LoopPlan(
            UTILITY_CODES[chosen] if isinstance(chosen, str) else GIVEN,
            0.0 if alpha is None else check_alpha(alpha),
            check_integer(smallest_size, "smallest_size", 0, mechanism.n_categories - 1),
            check_count(batch_size, "batch_size"),
            check_count(adapt_every, "adapt_every"),
        )
        densities = check_prior(prior, mechanism.n_categories, categories)
        n_updates = check_count(updates, "updates")
        return cls(mechanism, chosen, alpha, densities, n_updates, langevin.schedule, sampler, plan)

    def choose_size(self, chain: Chain) -> int:
        """Sort ``chain.order`` by φ, and return the size of the next subset, ``order[:size]``."""
        plan = self.plan
        if isinstance(self.utility, str):
            coefficients = self.mechanism.coefficients
            return int(choose_size(plan.code, plan.alpha, chain.phi, coefficients, chain.order, plan.smallest_size))
        values, chain.order[:] = ranked_values(self.utility, chain.phi / chain.phi.sum(), self.mechanism)
        return int(best_size(values, plan.smallest_size))

    def steps(
        self, done: int | NDArray[np.int64], n_updates: int, n_responses: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the step sizes of the updates that follow the first `done`, made with `n_responses` at hand."""
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
    """Return the name of a utility of ours, or a utility of the user's own, or raise ValueError."""
    if isinstance(utility, Utility) and utility.name not in UTILITY_CODES:
        return utility
    name = utility.name if isinstance(utility, Utility) else utility
    if isinstance(utility, Utility) and utility != UTILITIES.get(name):
        raise ValueError(f"utility must have a name of its own, got {name!r}, which is taken")
    if not isinstance(name, str) or name not in UTILITY_CODES:
        allowed = f"one of {', '.join(map(repr, UTILITY_CODES))} or a Utility"
        raise ValueError(f"utility must be {allowed}, got {brief(utility)}")
    return name


def _name_of(utility: str | Utility) -> str:
    return utility if isinstance(utility, str) else utility.name
