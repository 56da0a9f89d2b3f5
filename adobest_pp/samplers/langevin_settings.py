"""What a run of stochastic-gradient Langevin dynamics is set to, and the randomness that it needs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_integer
from adobest_pp._text import brief
from adobest_pp.samplers.langevin_kernels import DIFFUSIONS, GRADIENTS
from adobest_pp.samplers.schedules import (
    ConstantSteps,
    MetricSteps,
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
        ``"reflected"``, ``"preconditioned"``, ``"log_ratio"``, ``"cox_ingersoll_ross"`` or ``"mirrored"``.
    gradient : str
        ``"minibatch"``, ``"control_variates"`` or ``"full"``.
    """

    batch_size: int | None
    schedule: Schedule
    updates_per_draw: int
    diffusion: str
    gradient: str

    @classmethod
    def of(
        cls,
        batch_size: int | None = 50,
        step_size: float | None = None,
        schedule: Schedule | None = None,
        updates_per_draw: int = 1,
        diffusion: str = "reflected",
        gradient: str = "minibatch",
    ) -> "LangevinSettings":
        """Check the settings. A batch of all responses (None) is the gradient on all evidence."""
        if step_size is not None and schedule is not None:
            raise ValueError(f"step_size must be left out where a schedule is given, got {brief(step_size)}")
        if schedule is not None and not callable(schedule):
            raise ValueError(
                f"schedule must be a function of the update and the number of responses, got {brief(schedule)}"
            )
        _check_name(diffusion, DIFFUSIONS, "diffusion")
        _check_name(gradient, GRADIENTS, "gradient")
        size = None if batch_size is None else check_integer(batch_size, "batch_size", 1)
        if size is None or gradient == "full":
            size, gradient = None, "full"
        if gradient == "control_variates" and diffusion == "cox_ingersoll_ross":
            raise ValueError(
                "gradient must be 'minibatch' or 'full' with diffusion='cox_ingersoll_ross', got 'control_variates': "
                "its estimate of a shape may be negative, and no such process exists"
            )
        steps = _default_steps(diffusion, gradient, size) if schedule is None else schedule
        if step_size is not None:
            steps = ConstantSteps(step_size)
        return cls(size, steps, check_count(updates_per_draw, "updates_per_draw"), diffusion, gradient)

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
            "gradient": self.gradient,
        }

    @staticmethod
    def options(description: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `LangevinSettings.of` that give settings of this description."""
        return description | {"schedule": schedule_from_settings(description["schedule"])}


def _check_name(given: Any, known: Collection[str], name: str) -> None:
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {brief(given)}")


def _default_steps(diffusion: str, gradient: str, batch_size: int | None) -> Schedule:
    """Return the paper's 0.5/n, or steps in units of the metric for diffusions that have one.

    For mirrored dynamics 0.5/n is right as well. The curvature of the log-density of log-ratios is at most n/2, about,
    so its discretization makes sds at most 3 % too wide.
    """
    if diffusion not in ("log_ratio", "cox_ingersoll_ross"):
        return PaperSteps()
    return MetricSteps(batch_size=batch_size if gradient == "minibatch" else None)
