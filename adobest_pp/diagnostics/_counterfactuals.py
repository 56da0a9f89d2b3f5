"""What a run of SGLD would have given, had one thing been different: the runs that `explain` compares."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.diagnostics._draws import mixing

__all__ = [
    "Errors",
    "errors_of",
    "is_costly",
    "longer",
    "with_control_variates",
    "with_full_gradient",
    "with_half_steps",
]

# The effective draws that every counterfactual should have; how many times as many updates as the run it may make for
# that; and the updates, over all chains, within which it is kept: a second or two. A run that has not mixed is made at
# least `LEAST_LONGER` times as long, whatever that costs.
ENOUGH_ESS = 400.0
MOST_LONGER, LEAST_LONGER = 16, 4
MOST_UPDATES = 1_000_000

# Rows, members of sets and entries of patterns that a run on all evidence may visit: some seconds.
MOST_VISITS = 2_000_000_000


@dataclass(frozen=True, eq=False)
class Errors:
    """How far the means and standard deviations of draws are from those of the reference, by category.

    Attributes
    ----------
    mean_shift, sd_ratio : array of shape (K,)
        The difference of means in standard deviations of the reference, and the ratio of standard deviations.
    noise : array of shape (K,)
        What the Monte-Carlo errors of both samples add to `squared` on average.
    mcse : array of shape (K,)
        The Monte-Carlo standard error of `squared`.
    r_hat, ess_bulk : float
        The largest and the smallest of a category.
    """

    mean_shift: NDArray[np.float64]
    sd_ratio: NDArray[np.float64]
    noise: NDArray[np.float64]
    mcse: NDArray[np.float64]
    r_hat: float
    ess_bulk: float

    @property
    def raw(self) -> NDArray[np.float64]:
        """The squared 2-Wasserstein distance of two normal distributions, in sds of the reference."""
        return np.asarray(self.mean_shift**2 + (self.sd_ratio - 1) ** 2)

    @property
    def squared(self) -> NDArray[np.float64]:
        """The same without what Monte-Carlo error adds: zero on average for right draws, so it may be negative."""
        return np.asarray(self.raw - self.noise)


def errors_of(theta: NDArray[np.float64], reference: NDArray[np.float64]) -> Errors:
    """Compare draws (chain, draw, K) with those of a reference."""
    sd, right_sd = (part.std(axis=(0, 1)) for part in (theta, reference))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = [array_stats.mcse(part, 0, 1, method="mean") / right_sd for part in (theta, reference)]
        spread = [array_stats.mcse(part, 0, 1, method="sd") / right_sd for part in (theta, reference)]
        shift = (theta.mean(axis=(0, 1)) - reference.mean(axis=(0, 1))) / right_sd
        ratio = sd / right_sd
    # An error of the reference's sd moves the ratio by so many times as much.
    spread[1] = spread[1] * ratio
    of_mean, of_ratio = (np.hypot(*parts) ** 2 for parts in (mean, spread))
    # The variance of (d + e)², e normal with variance v, is 4 d² v + 2 v².
    variance = 4 * shift**2 * of_mean + 2 * of_mean**2 + 4 * (ratio - 1) ** 2 * of_ratio + 2 * of_ratio**2
    mixed = mixing(theta)
    worst = {"r_hat": float(np.max(mixed["r_hat"])), "ess_bulk": float(np.min(mixed["ess_bulk"]))}
    return Errors(shift, ratio, of_mean + of_ratio, np.sqrt(variance), **worst)


def longer(settings: Mapping[str, Any], ess: float, mixed: bool) -> tuple[dict[str, Any], int]:
    """Return the settings with more updates between draws, and how many times as many."""
    updates = _updates(settings)
    wanted = MOST_LONGER if not ess >= ENOUGH_ESS / MOST_LONGER else int(np.ceil(ENOUGH_ESS / ess))
    times = max(min(wanted, MOST_UPDATES // updates), 1 if mixed else LEAST_LONGER)
    chains = max(settings["chains"], 2)  # one chain has no R-hat
    return dict(settings) | {"chains": chains, "updates_per_draw": times * settings["updates_per_draw"]}, times


def is_costly(settings: Mapping[str, Any], evidence: Evidence) -> bool:
    """Tell whether gradients of all evidence would take more than some seconds."""
    return _updates(settings) * (evidence.n_rows + evidence.members.size + evidence.patterns.size) > MOST_VISITS


def _updates(settings: Mapping[str, Any]) -> int:
    return int(settings["chains"] * (settings["draws"] + settings["tune"]) * settings["updates_per_draw"])


def with_full_gradient(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the gradient of all responses at every update."""
    return dict(settings) | {"batch_size": None}


def with_control_variates(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with batches of the same size, of which only the change from an anchor is taken."""
    return dict(settings) | {"gradient": "control_variates"}


def with_half_steps(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with steps half as long and twice as many of them: the same time of the diffusion."""
    steps = settings["schedule"]
    size = "step_size" if hasattr(steps, "step_size") else "scale"
    # Of steps that fall, a/t^b, those of updates 2t − 1 and 2t make up the one of update t: each is ½ a/(t/2)^b.
    factor = 0.5 * 2 ** getattr(steps, "power", 0.0)
    halved = replace(steps, **{size: factor * getattr(steps, size)})
    return dict(settings) | {"schedule": halved, "updates_per_draw": 2 * settings["updates_per_draw"]}
