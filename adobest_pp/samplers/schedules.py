"""Step sizes of stochastic-gradient Langevin dynamics, as a function of the update and of the number of responses.

With a fixed step the sampler has a bias that shrinks with the step, and never stops moving; with steps that fall
as t^(−b), ½ < b ≤ 1, the bias vanishes in the limit [1]_, ever more slowly.

References
----------
.. [1] M. Welling and Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers
from adobest_pp._text import brief

__all__ = [
    "ConstantSteps",
    "DecayingSteps",
    "MetricSteps",
    "PaperSteps",
    "Schedule",
    "evaluate_schedule",
    "schedule_from_settings",
    "schedule_settings",
]


class Schedule(Protocol):
    """A function that returns the step size of each update."""

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
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
        object.__setattr__(self, "step_size", _check_positive(self.step_size, "step_size"))

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
        """Return γ for each update."""
        return np.full(np.broadcast_shapes(np.shape(update), np.shape(n_responses)), float(self.step_size))


@dataclass(frozen=True)
class DecayingSteps:
    """Steps a/t^b at update t = 1, 2, …, whatever the number of responses."""

    scale: float
    power: float = 0.55

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_positive(self.scale, "scale"))
        if not _is_number(self.power) or not 0 <= self.power <= 1:
            raise ValueError(f"power must be a number from 0 to 1, got {brief(self.power)}")
        object.__setattr__(self, "power", float(self.power))

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
        """Return γ for each update."""
        t, _ = np.broadcast_arrays(np.asarray(update, dtype=np.float64), n_responses)
        return np.asarray(self.scale / t**self.power)


@dataclass(frozen=True)
class PaperSteps:
    """Steps 0.5/n with n responses at hand.

    In the online loop n = t, the number of people asked so far: this is the 0.5/t of the paper's text. On a fixed data
    set all n responses are at hand at every update, and the step is the constant 0.5/n, as in the paper's last round.
    (Without any response, the step is that of one response.)
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_positive(self.scale, "scale"))

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
        """Return γ for each update."""
        _, n = np.broadcast_arrays(update, np.maximum(n_responses, 1))
        return np.asarray(self.scale / n)


@dataclass(frozen=True)
class MetricSteps:
    """Steps h of a diffusion in which the posterior has a width of about one, whatever n.

    With batches of m responses, whose noise adds a share of the order of h·n/m to variances, they are h·m/n; without
    a batch size (gradients with control variates, or on all evidence) h itself.
    """

    step_size: float = 0.1
    batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", _check_positive(self.step_size, "step_size"))

    def __call__(self, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
        """Return γ for each update."""
        _, n = np.broadcast_arrays(update, np.maximum(n_responses, 1))
        return np.asarray(self.step_size * (1.0 if self.batch_size is None else np.minimum(self.batch_size / n, 1.0)))


def evaluate_schedule(schedule: Schedule, update: ArrayLike, n_responses: ArrayLike) -> NDArray[np.float64]:
    """Return the step size of each update, or raise ValueError if one is not a positive number.

    Parameters
    ----------
    schedule : Schedule
        Any function of the update and the number of responses; one number stands for all updates.
    update : array of int
        Numbers of the updates, from 1.
    n_responses : array of int
        Responses at hand at each of them.

    Returns
    -------
    array of float
        Positive and finite, of the shape that `update` and `n_responses` broadcast to.
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


def schedule_settings(schedule: Schedule) -> dict[str, Any] | str:
    """Return plain values from which `schedule_from_settings` builds an equal schedule, or the repr of a function."""
    if isinstance(schedule, ConstantSteps | DecayingSteps | PaperSteps | MetricSteps):
        return {"schedule": type(schedule).__name__, **asdict(schedule)}
    return brief(schedule)


def schedule_from_settings(settings: dict[str, Any] | str) -> Schedule:
    """Build the schedule whose `schedule_settings` these are."""
    kinds: dict[str, Callable[..., Schedule]] = {
        kind.__name__: kind for kind in (ConstantSteps, DecayingSteps, PaperSteps, MetricSteps)
    }
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


def _check_positive(value: Any, name: str) -> float:
    """Return a positive number as a float, or raise ValueError."""
    if not _is_number(value) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name} must be a positive number, got {brief(value)}")
    return float(value)


def _is_number(value: Any) -> bool:
    """Tell whether this is a real number that fits into double precision."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(float(value))
    except OverflowError:
        return False
