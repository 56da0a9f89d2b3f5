"""The choices of `sgld_cv`: a step from the curvature, and a batch from the noise, that a pilot has met.

For a normal target of curvature λ the positions of BAOAB are exact for any step below 2/√λ, so its bias comes from how
the curvature changes within a step. In seven of the paper's settings, the stiffest among them, runs of some 20 000
effective draws with step·√λ = `REACH`, λ being the largest that pilots meet, had the sds of runs with steps 3.5 times
shorter to within 3 %, which is what such runs can tell; at 1.9 one was 10 % off, and at 2.2 chains exploded.

An estimate of the gradient whose variance is V kicks momenta by step·√V more; friction takes that out at a rate of
2·friction·step, so variances are too large by step·V/(2·friction): the batch makes that `EXCESS` at most.

Where the concentration a of the prior is learned, the gradient is linear in it, and so is the curvature, which is
measured at the median of a and far above it. Between them a sum of largest eigenvalues is an upper bound. The posterior
of a may span orders of magnitude (shares that are all alike allow any large a), so the step follows a along a chain.
"""

import math
from dataclasses import asdict, dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.samplers.control_variates import Rows
from adobest_pp.samplers.underdamped import FULL, Target, underdamped_draws

__all__ = ["FRICTION", "Choices", "choose", "choose_batch", "choose_step", "largest_curvature", "noise_of_a_row"]

FRICTION = 1.0
REACH, SHORTEST_STEP, LONGEST_STEP = 1.3, 0.01, 0.7
EXCESS = 0.01
SMALLEST_BATCH = 8
# Time between draws, in units in which the posterior has a width of one: most draws are then effective.
TIME_PER_DRAW = 2.5
# All evidence is taken unless a batch is so many times cheaper: it has no noise at all, not even from rare rows.
WORTH_A_BATCH = 2.0
# Where the noise is measured, how often and by what batches; and where the curvature is, by what steps of the power
# method.
NOISE_PLACES, NOISE_REPEATS, NOISE_BATCH = 12, 16, 64
CURVATURE_PLACES, POWER_STEPS, DIFFERENCE, SMALLEST = 30, 8, 1e-4, 1e-300
# A concentration, over the one that a pilot met, at which the prior outweighs all answers.
FAR = 1e9


@dataclass(frozen=True)
class Choices:
    """What was chosen for a run, and what it rests on.

    Attributes
    ----------
    step, friction : float
        Of the underdamped dynamics.
    batch : int
        Rows in a batch; 0 for all evidence.
    updates_per_draw : int
        Updates between draws.
    curvature : float
        The largest that the pilot met.
    noise : float
        The variance of the gradient from a single row; None where all evidence costs as little as any batch.
    halvings : int
        How often the step was halved because a run was not right.
    stiff_from, stiffness : float
        How the step depends on a concentration that is learned (`concentration.step_at`); None where it is given.
    """

    step: float
    batch: int
    updates_per_draw: int
    curvature: float
    noise: float | None
    halvings: int = 0
    friction: float = FRICTION
    stiff_from: float | None = None
    stiffness: float | None = None

    def halved(self, times: int) -> "Choices":
        """Return the same with a shorter step."""
        step = self.step / 2**times
        return replace(self, step=step, updates_per_draw=updates_per_draw(step), halvings=self.halvings + times)

    def describe(self) -> dict[str, float | None]:
        """Return plain numbers."""
        return asdict(self)


def choose(x: NDArray[np.float64], target: Target, state: NDArray[np.uint64]) -> Choices:
    """Return step and batch for a run, from what is met at the positions x (N, K)."""
    noise, batch = None, choose_batch(0.0, 0.0, target.rows)
    if batch != FULL:
        noise = noise_of_a_row(x, target, state)
        batch = choose_batch(LONGEST_STEP, noise, target.rows)
    curvature = largest_curvature(x, target, batch, state)
    step = choose_step(curvature)
    if noise is not None and batch != FULL:
        batch = choose_batch(step, noise, target.rows)
    choices = Choices(step, batch, updates_per_draw(step), curvature, noise)
    return _following_the_concentration(choices, x, target, state) if target.prior.learned else choices


def _following_the_concentration(
    choices: Choices, x: NDArray[np.float64], target: Target, state: NDArray[np.uint64]
) -> Choices:
    """Add from which concentration on, and how fast, the curvature is beyond what the step suits."""
    a = math.exp(target.prior.log_scale[0])
    far = FAR * max(1.0, a)
    prior = target.prior._replace(log_scale=np.array([math.log(far)]))
    slope = largest_curvature(x, target._replace(prior=prior), choices.batch, state) / far
    suited = (REACH / choices.step) ** 2
    return replace(choices, stiff_from=a + max(0.0, suited - choices.curvature) / slope, stiffness=slope / suited)


def updates_per_draw(step: float) -> int:
    """Return how many updates are between draws."""
    return math.ceil(TIME_PER_DRAW / step)


def largest_curvature(x: NDArray[np.float64], target: Target, batch: int, state: NDArray[np.uint64]) -> float:
    """Return the largest eigenvalue of −∂²ln p/∂x² met at some of the positions x (N, K), by the power method."""
    return float(_largest_curvature(_some(x, CURVATURE_PLACES), *target, batch, state))


@njit(cache=True, error_model="numpy")
def _largest_curvature(places, prior, coordinates, rows, anchor, batch, state):  # type: ignore[no-untyped-def]
    k, largest = places.shape[1], 1.0
    here, moved, nothing, none = np.empty(k), np.empty(k), np.zeros(k), np.empty((0, k))
    for p in range(len(places)):
        place = places[p].copy()
        # Both ends of a difference see the same batch.
        underdamped_draws(
            state.copy(), place, nothing, prior, coordinates, rows, anchor, batch, 0.0, 0.0, 1, none, here, nothing
        )
        direction, length = here / max(math.sqrt((here * here).sum()), SMALLEST), 0.0
        for _ in range(POWER_STEPS):
            place[:] = places[p] + DIFFERENCE * direction
            underdamped_draws(
                state.copy(), place, nothing, prior, coordinates, rows, anchor, batch, 0.0, 0.0, 1, none, moved, nothing
            )
            change = (here - moved) / DIFFERENCE
            length = math.sqrt((change * change).sum())
            direction = change / max(length, SMALLEST)
        largest = max(largest, length)
    return largest


def noise_of_a_row(x: NDArray[np.float64], target: Target, state: NDArray[np.uint64]) -> float:
    """Return the variance of ∂ln p/∂x from a batch of one row, of the worst coordinate, averaged over positions x."""
    return float(NOISE_BATCH * _variances(_some(x, NOISE_PLACES), *target, state).mean(axis=0).max())


@njit(cache=True, error_model="numpy")
def _variances(places, prior, coordinates, rows, anchor, state):  # type: ignore[no-untyped-def]
    """Return the variance of estimates from `NOISE_BATCH` rows at each of the places, of shape (N, K)."""
    k = places.shape[1]
    variances, gradients = np.empty(places.shape), np.empty((NOISE_REPEATS, k))
    nothing, none = np.zeros(k), np.empty((0, k))
    for p in range(len(places)):
        for i in range(NOISE_REPEATS):
            x = places[p].copy()
            underdamped_draws(
                state,
                x,
                nothing,
                prior,
                coordinates,
                rows,
                anchor,
                NOISE_BATCH,
                0.0,
                0.0,
                1,
                none,
                gradients[i],
                nothing,
            )
        for j in range(k):
            variances[p, j] = gradients[:, j].var() * NOISE_REPEATS / (NOISE_REPEATS - 1)
    return variances


def _some(x: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.asarray(x[np.linspace(0, len(x) - 1, min(len(x), count)).astype(int)])


def choose_step(curvature: float) -> float:
    """Return the step for a largest curvature."""
    return min(LONGEST_STEP, max(SHORTEST_STEP, REACH / math.sqrt(curvature)))


def choose_batch(step: float, noise: float, rows: Rows) -> int:
    """Return the size of a batch, or `FULL` where all evidence costs no more."""
    wanted = step * noise / (2 * FRICTION * EXCESS)
    batch = max(SMALLEST_BATCH, math.ceil(min(wanted, 1e9)))
    if len(rows.packed):
        return min(batch, max(SMALLEST_BATCH, len(rows.packed)))  # a pass over all of them would take seconds
    return FULL if len(rows.patterns) or WORTH_A_BATCH * cost_of(batch, rows) >= cost_of(FULL, rows) else batch


def cost_of(batch: int, rows: Rows) -> float:
    """Return the cost of a gradient, in units of about a nanosecond: rows, members of their sets, and the anchor."""
    k = rows.patterns.shape[1]
    if batch == FULL:
        return 4.0 * len(rows.numbers) + 3.0 * rows.members.size + 2.0 * rows.patterns.size
    members = rows.numbers[:, 3] @ (rows.places[:, 3] - rows.places[:, 2]) / max(rows.n_responses, 1.0)
    return float(batch * (15.0 + 3.0 * members) + 0.4 * k**2)
