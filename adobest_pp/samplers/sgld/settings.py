"""Settings of stochastic-gradient Langevin dynamics: its steps, gradient and diffusion.

With a fixed step the sampler keeps moving, with a bias that shrinks with the step. With steps that fall as t^(−b),
½ < b ≤ 1, the bias vanishes in the limit, ever more slowly (Welling and Teh, the first reference of `SGLD`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import as_numbers, check_count, check_integer, check_real
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.samplers.registry import DIFFUSIONS, GRADIENTS, LangevinPiece

# Step sizes, as a function of the update and of the number of responses.


class Schedule(Protocol):
    """A function that returns the step size of each update."""

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> Floats:
        """Return γ for updates 1, 2, … made with `n_responses` responses at hand; the two broadcast."""
        ...


@dataclass(frozen=True)
class ConstantSteps:
    """The same step γ at every update.

    The authors' program has ``ConstantSteps(0.5 / T)`` for a run of T people (soneraydin/AdOBEst_LDP, commit 9080c23,
    experiments_for_SGDL.m, line 45).
    """

    step_size: float

    def __post_init__(self) -> None:
        _make_positive(self, "step_size")

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> Floats:
        """Return γ for each update."""
        return np.full(np.broadcast_shapes(np.shape(update), np.shape(n_responses)), float(self.step_size))


@dataclass(frozen=True)
class DecayingSteps:
    """Steps a/t^b at update t = 1, 2, …, whatever the number of responses."""

    scale: float
    power: float = 0.55

    def __post_init__(self) -> None:
        _make_positive(self, "scale")
        power = check_real(self.power, "power", "a number from 0 to 1", lambda x: 0 <= x <= 1)
        object.__setattr__(self, "power", power)

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> Floats:
        """Return γ for each update."""
        t, _ = np.broadcast_arrays(np.asarray(update, dtype=np.float64), n_responses)
        return np.asarray(self.scale / t**self.power)


@dataclass(frozen=True)
class PaperSteps:
    """Steps 0.5/n with n responses at hand.

    In the online loop n = t, the number of people asked so far: this is the 0.5/t of the paper's text. On a fixed data
    set all n responses are at hand at every update, and the step is the constant 0.5/n, as in the paper's last round.
    Without any response, the step is that for one response.
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        _make_positive(self, "scale")

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> Floats:
        """Return γ for each update."""
        _, n = np.broadcast_arrays(update, np.maximum(n_responses, 1))
        return np.asarray(self.scale / n)


@dataclass(frozen=True)
class MetricSteps:
    """Steps h for diffusions in which the posterior has a width of about one, whatever n.

    The noise of batches of m responses makes variances too large by a share of the order of h·n/m, so with a batch size
    the steps are h·m/n. Without one (gradients with control variates, or on all evidence) they are h.
    """

    step_size: float = 0.1
    batch_size: int | None = None

    def __post_init__(self) -> None:
        _make_positive(self, "step_size")

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> Floats:
        """Return γ for each update."""
        _, n = np.broadcast_arrays(update, np.maximum(n_responses, 1))
        return np.asarray(self.step_size * (1.0 if self.batch_size is None else np.minimum(self.batch_size / n, 1.0)))


def evaluate_schedule(schedule: Schedule, update: ArrayLike, n_responses: ArrayLike) -> Floats:
    """Return the step size of each update, or raise ValueError if one is not a positive, finite number.

    `schedule` may be any function of the numbers of the updates, from 1, and of the responses at hand. It may return
    one number for all updates. The result has the shape that `update` and `n_responses` broadcast to.
    """
    shape = np.broadcast_shapes(np.shape(update), np.shape(n_responses))
    allowed = f"a function that returns positive numbers, one or of a shape that broadcasts to {shape}"
    try:
        returned = schedule(update, n_responses)
    except Exception as problem:
        raise ValueError(
            f"schedule must be {allowed}, got {brief(schedule)}, which raised {brief(problem)}"
        ) from problem
    try:
        steps = np.broadcast_to(as_numbers(returned, "fiu").astype(np.float64), shape)
    except (TypeError, ValueError):
        got = f"an array of shape {returned.shape}" if isinstance(returned, np.ndarray) else brief(returned)
        raise ValueError(f"schedule must be {allowed}, got {brief(schedule)}, which returned {got}") from None
    wrong = ~(np.isfinite(steps) & (steps > 0))
    if wrong.any():
        raise ValueError(f"schedule must be {allowed}, got {brief(schedule)}, which returned {steps[wrong].flat[0]}")
    return np.ascontiguousarray(steps)


# The schedules that a run records, and that can be rebuilt from its record.
_KINDS = (ConstantSteps, DecayingSteps, PaperSteps, MetricSteps)


def schedule_settings(schedule: Schedule) -> dict[str, Any] | str:
    """Return plain values from which `schedule_from_settings` builds an equal schedule, or the repr of a function."""
    if isinstance(schedule, _KINDS):
        return {"schedule": type(schedule).__name__, **asdict(schedule)}
    return brief(schedule)


def schedule_from_settings(settings: dict[str, Any] | str) -> Schedule:
    """Build the schedule whose `schedule_settings` these are."""
    kinds: dict[str, Callable[..., Schedule]] = {kind.__name__: kind for kind in _KINDS}
    allowed = f"schedule must be one of {', '.join(kinds)} to be rebuilt"
    if not isinstance(settings, dict) or not isinstance(settings.get("schedule"), str):
        raise ValueError(f"{allowed}, got {brief(settings).strip(chr(39))}")
    values = dict(settings)
    name = values.pop("schedule")
    if name not in kinds:
        raise ValueError(f"{allowed}, got {brief(name)}")
    try:
        return kinds[name](**values)
    except TypeError:
        raise ValueError(f"{allowed}, got {name} with {brief(values)}") from None


def _make_positive(schedule: Any, name: str) -> None:
    """Make a field of a schedule a float, or raise ValueError if it is not a positive number."""
    number = check_real(getattr(schedule, name), name, "a positive number", lambda x: 0 < x < math.inf)
    object.__setattr__(schedule, name, number)


# All settings of a run, and the randomness that it needs.


@dataclass(frozen=True)
class LangevinSettings:
    """Settings of a run, as in `SGLD`; build them with `LangevinSettings.of`, which checks them."""

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
        """Check the settings. Without a batch size, the gradient is that on all evidence."""
        if step_size is not None and schedule is not None:
            raise ValueError(f"step_size must be left out where a schedule is given, got {brief(step_size)}")
        if schedule is not None and not callable(schedule):
            raise ValueError(
                f"schedule must be a function of the update and the number of responses, got {brief(schedule)}"
            )
        moves, along = DIFFUSIONS.find(diffusion), GRADIENTS.find(gradient)
        size = None if batch_size is None else check_integer(batch_size, "batch_size", 1)
        if size is None or gradient == "full":
            size, gradient, along = None, "full", GRADIENTS.find("full")
        if moves.nonnegative and not along.nonnegative:
            raise ValueError(
                f"gradient must be 'minibatch' or 'full' with diffusion={diffusion!r}, got {gradient!r}: "
                "its estimate of a shape may be negative, and no such process exists"
            )
        steps = _default_steps(moves, along, size) if schedule is None else schedule
        if step_size is not None:
            steps = ConstantSteps(step_size)
        return cls(size, steps, check_count(updates_per_draw, "updates_per_draw"), diffusion, gradient)

    def randomness(
        self, rng: np.random.Generator, done: int, n_updates: int, populations: Sequence[int], size: int
    ) -> tuple[Floats, Integers, Floats]:
        """Return step sizes (T,), batches of response indices (T, m) and noise (T, size) of the next T updates.

        Batches are drawn with replacement, min(batch_size, n) at a time; those of several populations are columns side
        by side. Empty batches, without a batch size or without responses, mean all responses.
        """
        steps = evaluate_schedule(self.schedule, done + 1 + np.arange(n_updates), max(populations, default=0))
        batches = [rng.integers(0, max(n, 1), size=(n_updates, min(self.batch_size or 0, n))) for n in populations]
        indices = np.concatenate([np.empty((n_updates, 0), dtype=np.int64), *batches], axis=1)
        return steps, indices, rng.standard_normal((n_updates, size))

    def describe(self) -> dict[str, Any]:
        """Return plain values to store with a run, as JSON."""
        return vars(self) | {"schedule": schedule_settings(self.schedule)}


def _default_steps(diffusion: LangevinPiece, gradient: LangevinPiece, batch_size: int | None) -> Schedule:
    """Return the paper's 0.5/n, or steps in units of the metric for diffusions that have one.

    For mirrored dynamics 0.5/n is right as well: the curvature of the log-density of log-ratios is at most about n/2,
    so the discretization makes sds at most 3 % too wide.
    """
    if not diffusion.unit_steps:
        return PaperSteps()
    return MetricSteps(batch_size=None if gradient.at_mode else batch_size)
