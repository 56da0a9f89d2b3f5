"""What the collector and the simulation are set to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_alpha, check_count, check_integer, check_prior
from adobest_pp._text import brief
from adobest_pp.design import UTILITY_CODES
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.online.loop import Plan
from adobest_pp.samplers.langevin_settings import LangevinSettings
from adobest_pp.samplers.schedules import Schedule, evaluate_schedule, schedule_settings

__all__ = ["LoopSettings"]

SAMPLERS = ("sgld", "exact")


@dataclass(frozen=True)
class LoopSettings:
    """Checked settings of Algorithm 1; build with `LoopSettings.of`."""

    mechanism: RRRR
    utility: str
    alpha: float | None
    prior: NDArray[np.float64]
    updates: int
    schedule: Schedule
    sampler: str
    plan: Plan

    @classmethod
    def of(
        cls,
        mechanism: RRRR,
        utility: str,
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
        name: str = "utility",
    ) -> "LoopSettings":
        """Check every setting, or refuse; `name` is what the caller calls the utility."""
        check_rrrr(mechanism)
        if not isinstance(utility, str) or utility not in UTILITY_CODES:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, UTILITY_CODES))}, got {brief(utility)}")
        if (alpha is not None) != (utility == "semi_adaptive"):
            given = f"{brief(alpha)} with {utility!r}"
            raise ValueError(f"alpha must be given for 'semi_adaptive' and for it alone, got {given}")
        if not isinstance(sampler, str) or sampler not in SAMPLERS:
            raise ValueError(f"sampler must be 'sgld' or 'exact', got {brief(sampler)}")
        langevin = LangevinSettings.of(check_count(batch_size, "batch_size"), step_size, schedule)
        plan = Plan(
            UTILITY_CODES[utility],
            0.0 if alpha is None else check_alpha(alpha),
            check_integer(smallest_size, "smallest_size", 0, mechanism.n_categories - 1),
            check_count(batch_size, "batch_size"),
            check_count(adapt_every, "adapt_every"),
            sampler == "exact",
        )
        densities = check_prior(prior, mechanism.n_categories, categories)
        n_updates = check_count(updates, "updates")
        return cls(mechanism, utility, alpha, densities, n_updates, langevin.schedule, sampler, plan)

    def steps(
        self, done: int | NDArray[np.int64], n_updates: int, n_responses: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the step sizes of the updates that follow the first `done`, made with `n_responses` at hand."""
        return evaluate_schedule(self.schedule, done + 1 + np.arange(n_updates), n_responses)

    def describe(self) -> dict[str, Any]:
        """Return plain values to store with a run."""
        return {
            **self.mechanism.settings(),
            "utility": self.utility,
            **({} if self.alpha is None else {"alpha": self.alpha}),
            "prior": self.prior.tolist(),
            "updates": self.updates,
            "batch_size": self.plan.batch_size,
            "schedule": schedule_settings(self.schedule),
            "adapt_every": self.plan.round_size,
            "smallest_size": self.plan.smallest_size,
            "sampler": self.sampler,
        }
