"""What a run of stochastic-gradient Langevin dynamics is set to, and the randomness that it needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_integer
from adobest_pp._text import brief
from adobest_pp.samplers.langevin_kernels import DIFFUSIONS
from adobest_pp.samplers.schedules import (
    ConstantSteps,
    PaperSteps,
    Schedule,
    evaluate_schedule,
    schedule_from_settings,
    schedule_settings,
)

__all__ = ["LangevinSettings"]


@dataclass(frozen=True)
class LangevinSettings:
    """Settings of a run; build with `LangevinSettings.of`, which checks them.

    Attributes
    ----------
    batch_size : int or None
        Responses in a batch; None uses all of them at every update.
    schedule : Schedule
        The step size of each update.
    updates_per_draw : int
        Updates between draws that are kept.
    diffusion : str
        ``"reflected"`` or ``"preconditioned"``.
    """

    batch_size: int | None
    schedule: Schedule
    updates_per_draw: int
    diffusion: str

    @classmethod
    def of(
        cls,
        batch_size: int | None = 50,
        step_size: float | None = None,
        schedule: Schedule | None = None,
        updates_per_draw: int = 1,
        diffusion: str = "reflected",
    ) -> "LangevinSettings":
        """Check the settings; without a step size or a schedule, the steps are the paper's 0.5/n."""
        if step_size is not None and schedule is not None:
            raise ValueError(f"step_size must be left out where a schedule is given, got {brief(step_size)}")
        if schedule is not None and not callable(schedule):
            raise ValueError(
                f"schedule must be a function of the update and the number of responses, got {brief(schedule)}"
            )
        if not isinstance(diffusion, str) or diffusion not in DIFFUSIONS:
            raise ValueError(f"diffusion must be one of {', '.join(map(repr, DIFFUSIONS))}, got {brief(diffusion)}")
        default: Schedule = PaperSteps() if step_size is None else ConstantSteps(step_size)
        steps = default if schedule is None else schedule
        size = None if batch_size is None else check_integer(batch_size, "batch_size", 1)
        return cls(size, steps, check_count(updates_per_draw, "updates_per_draw"), diffusion)

    def randomness(
        self, rng: np.random.Generator, done: int, n_updates: int, populations: Sequence[int], size: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return step sizes (T,), batches of response indices (T, m) and noise (T, size) of the next T updates.

        Batches are drawn with replacement, min(batch_size, n) at a time, and those of several populations stand side
        by side. Where there is nothing to draw they are empty, which the gradients take as all responses.
        """
        steps = evaluate_schedule(self.schedule, done + 1 + np.arange(n_updates), max(populations, default=0))
        batches = [rng.integers(0, max(n, 1), size=(n_updates, min(self.batch_size or 0, n))) for n in populations]
        indices = np.concatenate([np.empty((n_updates, 0), dtype=np.int64), *batches], axis=1)
        return steps, indices, rng.standard_normal((n_updates, size))

    def describe(self) -> dict[str, Any]:
        """Return plain values to store with a run, as JSON; `LangevinSettings.options` takes them back."""
        return {
            "batch_size": self.batch_size,
            "schedule": schedule_settings(self.schedule),
            "updates_per_draw": self.updates_per_draw,
            "diffusion": self.diffusion,
        }

    @staticmethod
    def options(description: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `LangevinSettings.of` that give settings of this description."""
        return description | {"schedule": schedule_from_settings(description["schedule"])}
