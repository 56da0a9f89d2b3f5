"""SGLD that samples the posterior: control variates, normal coordinates, underdamped dynamics, and every choice made.

Pilots find where the posterior is and how wide. Each runs in the coordinates that suit the draws of the one before,
around an anchor at their mean, and is twice as long, until chains agree. Then the step and the batch are chosen
(`choose`), and the run is made. Along it the virial −x·∂ln p/∂x is averaged, coordinate by coordinate: for draws of the
posterior its mean is 1, and near a normal one it is the ratio of variances. If it shows a bias of more than `MOST_BIAS`
standard deviations beyond its own error, or draws are not finite, the step is halved and the run repeated. A warning is
logged if draws are still biased, or narrower than the information allows.

`control_variates` has the gradient and the first draws, `dynamics` the coordinates and the dynamics.
"""

import itertools
import json
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._numerics import seed_state
from adobest_pp._progress import SlowProgress
from adobest_pp._types import Floats, Masks
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import information_diagonal
from adobest_pp.samplers.blocks import FIRST_WIDTH, MOVES, WANTED_OF_A, likely_concentration, separate_shares
from adobest_pp.samplers.checks import BIASED, PILOT, logger, rank_rhat, width_check
from adobest_pp.samplers.registry import Drawn, register_sampler
from adobest_pp.samplers.sgld_cv.control_variates import (
    PackedSets,
    Rows,
    anchor_at,
    initial_draws,
    no_anchor,
    rows_of,
    separate_draws,
)
from adobest_pp.samplers.sgld_cv.dynamics import (
    FULL,
    Prior,
    Target,
    coordinates_of,
    move_along,
    underdamped_draws,
    write_force,
)

# The choices: a step from the curvature, and a batch from the noise, which are measured at draws of a pilot.
#
# For a normal target of curvature λ the positions of BAOAB are exact for any step below 2/√λ, so the bias comes from
# changes of the curvature within a step. In seven of the paper's settings, the stiffest among them, runs of some
# 20 000 effective draws with step·√λ = `REACH`, where λ is the largest in pilots, had the sds of runs with steps 3.5
# times shorter to within 3 %, the precision of such runs. At 1.9 one was 10 % off, and at 2.2 chains exploded.
#
# An estimate of the gradient with variance V adds kicks of step·√V to momenta. Friction removes them at a rate of
# 2·friction·step, so variances are too large by step·V/(2·friction). The batch makes that at most `EXCESS`.
#
# If the concentration a of the prior is learned, the gradient is linear in it, and so is the curvature, which is
# measured at the median of a and far above it. Between them the sum of the largest eigenvalues is an upper bound. The
# posterior of a may span orders of magnitude (shares that are all alike allow any large a), so the step follows a along
# a chain.

FRICTION = 1.0
REACH, SHORTEST_STEP, LONGEST_STEP = 1.3, 0.01, 0.7
EXCESS = 0.01
SMALLEST_BATCH = 8
# Time between draws, in units in which the posterior has a width of one. Most draws are then effective.
TIME_PER_DRAW = 2.5
# All evidence is used unless a batch is this many times cheaper: it has no noise, not even from rare rows.
WORTH_A_BATCH = 2.0
# The noise: positions, repetitions and batch size. The curvature: positions, steps of the power method and their size.
NOISE_PLACES, NOISE_REPEATS, NOISE_BATCH = 12, 16, 64
CURVATURE_PLACES, POWER_STEPS, DIFFERENCE, SMALLEST = 30, 8, 1e-4, 1e-300
# This many times the concentration of a pilot, the prior outweighs all answers.
FAR = 1e9


@dataclass(frozen=True)
class Choices:
    """The choices for a run, and what they rest on.

    Attributes
    ----------
    step, friction : float
        Of the underdamped dynamics.
    batch : int
        Rows in a batch; 0 for all evidence.
    updates_per_draw : int
        Updates between draws.
    curvature : float
        The largest in the pilot.
    noise : float
        The variance of the gradient from a single row; None if all evidence costs as little as any batch.
    halvings : int
        How often the step was halved because a run was biased or not finite.
    stiff_from, stiffness : float
        How the step depends on a learned concentration (`step_at`); None if it is given.
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


def choose(x: Floats, target: Target, state: NDArray[np.uint64]) -> Choices:
    """Return step and batch for a run, from curvature and noise at the positions x (N, K)."""
    noise, batch = None, choose_batch(0.0, 0.0, target.rows)
    if batch != FULL:
        noise = noise_of_a_row(x, target, state)
        batch = choose_batch(LONGEST_STEP, noise, target.rows)
    curvature = largest_curvature(x, target, batch, state)
    step = min(LONGEST_STEP, max(SHORTEST_STEP, REACH / math.sqrt(curvature)))
    if noise is not None and batch != FULL:
        batch = choose_batch(step, noise, target.rows)
    choices = Choices(step, batch, updates_per_draw(step), curvature, noise)
    return _following_the_concentration(choices, x, target, state) if target.prior.learned else choices


def _following_the_concentration(choices: Choices, x: Floats, target: Target, state: NDArray[np.uint64]) -> Choices:
    """Add the concentration beyond which the curvature is too large for the step, and how fast it grows."""
    a = math.exp(target.prior.log_scale[0])
    far = FAR * max(1.0, a)
    prior = target.prior._replace(log_scale=np.array([math.log(far)]))
    slope = largest_curvature(x, target._replace(prior=prior), choices.batch, state) / far
    suited = (REACH / choices.step) ** 2
    return replace(choices, stiff_from=a + max(0.0, suited - choices.curvature) / slope, stiffness=slope / suited)


def updates_per_draw(step: float) -> int:
    """Return how many updates are between draws."""
    return math.ceil(TIME_PER_DRAW / step)


def largest_curvature(x: Floats, target: Target, batch: int, state: NDArray[np.uint64]) -> float:
    """Return the largest eigenvalue of −∂²ln p/∂x² at some of the positions x (N, K), by the power method."""
    return float(_largest_curvature(_some(x, CURVATURE_PLACES), target, batch, state))


@njit(cache=True, error_model="numpy")
def _largest_curvature(places, target, batch, state):  # type: ignore[no-untyped-def]
    k, largest = places.shape[1], 1.0
    here, moved = np.empty(k), np.empty(k)
    for p in range(len(places)):
        # Both ends of a difference see the same batch.
        write_force(state.copy(), places[p], target, batch, here)
        direction, length = here / max(math.sqrt((here * here).sum()), SMALLEST), 0.0
        for _ in range(POWER_STEPS):
            write_force(state.copy(), places[p] + DIFFERENCE * direction, target, batch, moved)
            change = (here - moved) / DIFFERENCE
            length = math.sqrt((change * change).sum())
            direction = change / max(length, SMALLEST)
        largest = max(largest, length)
    return largest


def noise_of_a_row(x: Floats, target: Target, state: NDArray[np.uint64]) -> float:
    """Return the variance of ∂ln p/∂x from a batch of one row, of the worst coordinate, averaged over positions x."""
    return float(NOISE_BATCH * _variances(_some(x, NOISE_PLACES), target, state).mean(axis=0).max())


@njit(cache=True, error_model="numpy")
def _variances(places, target, state):  # type: ignore[no-untyped-def]
    """Return the variance of estimates from `NOISE_BATCH` rows at each of the places, of shape (N, K)."""
    variances, gradients = np.empty(places.shape), np.empty((NOISE_REPEATS, places.shape[1]))
    for p in range(len(places)):
        for i in range(NOISE_REPEATS):
            write_force(state, places[p], target, NOISE_BATCH, gradients[i])
        for j in range(places.shape[1]):
            variances[p, j] = gradients[:, j].var() * NOISE_REPEATS / (NOISE_REPEATS - 1)
    return variances


def _some(x: Floats, count: int) -> Floats:
    return np.asarray(x[np.linspace(0, len(x) - 1, min(len(x), count)).astype(int)])


def choose_batch(step: float, noise: float, rows: Rows) -> int:
    """Return the size of a batch, or `FULL` if all evidence costs no more."""
    wanted = step * noise / (2 * FRICTION * EXCESS)
    batch = max(SMALLEST_BATCH, math.ceil(min(wanted, 1e9)))
    if len(rows.packed):
        return min(batch, max(SMALLEST_BATCH, len(rows.packed)))  # a pass over all of them would take seconds
    if len(rows.patterns) or is_diagonal(rows):
        return FULL
    return FULL if WORTH_A_BATCH * cost_of(batch, rows) >= cost_of(FULL, rows) else batch


def cost_of(batch: int, rows: Rows) -> float:
    """Return the cost of a gradient in about nanoseconds: rows, members of their sets, and the anchor."""
    k = rows.patterns.shape[1]
    if batch == FULL:
        return 4.0 * len(rows.numbers) + 3.0 * rows.members.size + 2.0 * rows.patterns.size
    members = rows.numbers[:, 3] @ (rows.places[:, 3] - rows.places[:, 2]) / max(rows.n_responses, 1.0)
    return float(batch * (15.0 + 3.0 * members) + 0.4 * k**2)


# Beyond this many categories the coordinates are diagonal: if all evidence costs less than K² products, or always.
MANY, VERY_MANY = 300, 2000


def is_diagonal(rows: Rows) -> bool:
    """Tell whether chains move each category by itself, with gradients on all evidence."""
    k = rows.patterns.shape[1]
    return bool(rows.structure.size) or k > VERY_MANY or (k > MANY and cost_of(FULL, rows) < k**2)


# The run, its check, and the chains.

LEAST_PRIOR = 0.01
# The smallest shape of the coordinates, for a learned concentration, which may be smaller for a while.
LEAST_SHAPE = 0.03
LEAST_TUNE = 100
MOST_BIAS = 0.02
# A virial counts as wrong beyond this many of its standard errors: a false alarm in one of some thousand runs.
MOST_ERRORS = 4.5
# The standard error counts at most as this: a larger one comes from a few bursts, a sign of steps that are too long for
# a part of the posterior. For N right draws it is about 1/√(2N), and up to this multiple of that is always accepted.
MOST_ERROR, TIMES_EXPECTED = 0.1, 3.0
MOST_HALVINGS = 6
# Pilots until chains must agree, and at most.
PILOTS, MOST_PILOTS = 3, 8
# Draws for the first coordinates, unless there are more chains, and draws of each chain discarded before the run.
FIRST_DRAWS, SETTLING = 400, 20
# The parts of a chain: Ctrl-C is handled between them, and the differences of their virials give the error.
PARTS = 20
# How fast pilots tune the width of moves of a learned concentration.
GAIN = 0.1


@dataclass(frozen=True, eq=False)
class ChainRuns:
    """The draws of all chains, and where these ended.

    Attributes
    ----------
    draws : array of shape (chain, draw, ·)
        θ, followed by a if it is learned.
    x, log_scales : array of shape (chain, ·)
        x and ln a at the ends.
    virial : array of shape (chain, part, K)
        Its mean in each part.
    """

    draws: Floats
    x: Floats
    log_scales: Floats
    virial: Floats

    @property
    def bias(self) -> tuple[Floats, Floats]:
        """The relative bias of the sd of each coordinate, and its standard error."""
        parts = self.virial.reshape(-1, self.virial.shape[-1])
        bias = (parts.mean(axis=0) - 1) / 2
        if len(parts) < 2:
            return bias, np.full_like(bias, np.inf)
        return bias, parts.std(axis=0, ddof=1) / math.sqrt(len(parts)) / 2

    def is_finite(self) -> bool:
        """Whether all draws are finite."""
        return bool(np.isfinite(self.draws).all())

    def is_right(self) -> bool:
        """Whether all draws are finite, and no coordinate is biased."""
        bias, error = self.bias
        n = self.draws.shape[0] * self.draws.shape[1]
        if np.isfinite(error).all():
            error = np.minimum(error, max(MOST_ERROR, TIMES_EXPECTED / math.sqrt(2 * n)))
        return self.is_finite() and bool((np.abs(bias) <= MOST_BIAS + MOST_ERRORS * error).all())

    def describe(self) -> dict[str, float]:
        """Return the mean bias of the coordinates, and the worst with its error, relative to the sds."""
        bias, error = self.bias
        worst = int(np.argmax(np.abs(bias)))
        return {
            "sd_bias": float(bias.mean()),
            "worst_sd_bias": float(bias[worst]),
            "worst_sd_bias_error": float(error[worst]),
        }


class Chains:
    """Chains that continue from where they are, in coordinates that are learned from their draws."""

    def __init__(self, evidence: Evidence | PackedSets, prior: Floats | str, chains: int, seed: int) -> None:
        self.evidence, self.rows, self.learned = evidence, rows_of(evidence), isinstance(prior, str)
        self.mean, self.sd = LOG_CONCENTRATION
        k = evidence.n_categories
        first = np.full(k, math.exp(self.mean)) if isinstance(prior, str) else prior
        self.weights = np.ones(k) if self.learned else first
        self.rng = np.random.default_rng(seed)
        self.diagonal = not isinstance(evidence, PackedSets) and is_diagonal(self.rows)
        self.states = [seed_state(sequence) for sequence in np.random.SeedSequence(seed).spawn(chains + 1)]
        self.halvings, self.gain = 0, GAIN
        self.widths = np.full(chains, FIRST_WIDTH)
        if isinstance(evidence, Evidence) and self.diagonal:
            if self.learned:
                found = separate_shares(evidence, LOG_CONCENTRATION)
                first = np.full(k, likely_concentration(found, LOG_CONCENTRATION))
            theta, self.least_size = separate_draws(evidence, first, max(FIRST_DRAWS, chains), self.rng)
        else:
            theta, sd = initial_draws(evidence, self.rows, first, max(FIRST_DRAWS, 4 * k, chains), self.rng)
            self.least_size = sd / 2
        if self.learned:
            theta = np.column_stack([theta, np.full(len(theta), first[0])])
        self.learn(theta[: len(theta) // chains * chains].reshape(chains, -1, theta.shape[1]))

    def learn(self, draws: Floats) -> None:
        """Choose coordinates, anchor, step and batch for draws (chain, draw, ·), and continue from the last of each."""
        k = self.weights.size
        theta = draws[..., :k].reshape(-1, k)
        scale = float(np.median(draws[..., k])) if self.learned else 1.0
        self.log_scales = np.log(draws[:, -1, k:]) if self.learned else np.zeros((len(draws), 1))
        shape = np.maximum(scale * self.weights, LEAST_SHAPE) if self.learned else self.weights
        coordinates, x = coordinates_of(theta, shape, self.least_size, self.rng, self.diagonal)
        center = theta.mean(axis=0) / theta.mean(axis=0).sum()
        anchor = no_anchor(center, self.rows) if self.diagonal else anchor_at(center, self.evidence, self.rows)
        if isinstance(self.evidence, Evidence) and self.diagonal and self.learned:
            self.separate = separate_shares(self.evidence, LOG_CONCENTRATION, center)
        self.target = Target(self._prior(np.array([math.log(scale)])), coordinates, self.rows, anchor)
        self.choices = choose(x, self.target, self.states[-1]).halved(self.halvings)
        self.x = x.reshape(*draws.shape[:2], k)[:, -1]

    def warm_up(self, tune: int, advance: Callable[[int], None]) -> int:
        """Make pilots until chains agree, and learn from each; return their number."""
        lengths = [tune // 7, 2 * tune // 7, tune - tune // 7 - 2 * tune // 7]
        for pilot in range(MOST_PILOTS):
            run = self.run(lengths[min(pilot, PILOTS - 1)], ChainRuns.is_finite, advance if pilot < PILOTS else None)
            settled = run.draws[:, run.draws.shape[1] // 3 :]
            self.learn(settled)
            if pilot >= PILOTS - 1 and _agree(settled):
                break
        self.gain = 0.0
        return pilot + 1

    def too_narrow(self, draws: Floats) -> Masks:
        """Return which categories have draws (chain, draw, ·) far narrower than the information allows."""
        k = self.weights.size
        scale = float(draws[..., k].mean()) if self.learned else 1.0
        information = self.target.anchor.information
        if isinstance(self.evidence, Evidence) and self.diagonal:
            information = information_diagonal(self.target.anchor.theta, self.evidence)
        return width_check(draws[..., :k].reshape(-1, k), scale * self.weights, information)

    def _prior(self, log_scale: Floats, choices: Choices | None = None) -> Prior:
        prior = Prior(self.weights, log_scale, self.learned, self.mean, self.sd)
        if choices is None or choices.stiff_from is None or choices.stiffness is None:
            return prior
        return prior._replace(stiff_from=choices.stiff_from, stiffness=choices.stiffness)

    def run(
        self, n_draws: int, is_good: Callable[[ChainRuns], bool], advance: Callable[[int], None] | None
    ) -> ChainRuns:
        """Make draws with every chain, halving the step until they are good, and continue from their ends."""
        while True:
            run = self._once(n_draws, advance)
            if is_good(run) or self.halvings >= MOST_HALVINGS:
                break
            self.halvings, advance = self.halvings + 1, None
            self.choices = self.choices.halved(1)
        if not run.is_finite():
            raise RuntimeError(
                f"'sgld_cv' did not finish: its chains are not finite even at a step of {self.choices.step:.2g}; "
                "use 'nuts', or 'blocks' for more than a few hundred categories"
            )
        self.x, self.log_scales = run.x, run.log_scales
        return run

    def _once(self, n_draws: int, advance: Callable[[int], None] | None) -> ChainRuns:
        choices, x, log_scales = self.choices, self.x.copy(), self.log_scales.copy()
        chains, k = x.shape
        bounds = np.linspace(0, n_draws, min(PARTS, n_draws) + 1).astype(int)
        draws, virial = np.empty((chains, n_draws, k + self.learned)), np.zeros((chains, bounds.size - 1, k))
        settings = (choices.batch, choices.step, FRICTION, choices.updates_per_draw)
        momenta, forces = self.rng.standard_normal((chains, k)), np.empty((chains, k))

        def advanced(c: int, part: int, start: int, stop: int) -> int:
            target = self.target._replace(prior=self._prior(log_scales[c], choices))
            moving = (self.states[c], x[c], momenta[c], target)
            # With diagonal coordinates a learned concentration also moves together with shares, between draws.
            bounds, moves = (range(start, stop + 1), MOVES) if self.diagonal and self.learned else ((start, stop), 0)
            for first, last in itertools.pairwise(bounds):
                underdamped_draws(*moving, *settings, draws[c, first:last], forces[c], virial[c, part])
                for _ in range(moves):
                    self._move_along(c, x[c], log_scales[c])
            virial[c, part] /= (stop - start) * choices.updates_per_draw
            return stop - start

        with ThreadPoolExecutor(min(chains, os.cpu_count() or 1) if self.diagonal else 1) as pool:
            for part, (start, stop) in enumerate(itertools.pairwise(bounds.tolist())):
                # Threads pay off if an update takes long. They do not change a chain.
                run = pool.map if self.diagonal else map
                for n_made in run(advanced, range(chains), *([each] * chains for each in (part, start, stop))):
                    if advance is not None:
                        advance(n_made)
        return ChainRuns(draws, x, log_scales, virial)

    def _move_along(self, c: int, x: Floats, log_scale: Floats) -> None:
        """Move the concentration of chain c and small shares together, in place; pilots tune how far."""
        settings = ((self.mean, self.sd), self.widths[c], self.separate, self.evidence)
        moved = move_along(self.states[c], x, self.target.coordinates, log_scale, *settings)
        self.widths[c] *= math.exp(self.gain * (moved - WANTED_OF_A))


def _agree(theta: Floats) -> bool:
    """Return whether halves of chains agree, which ends the warm-up."""
    half = theta.shape[1] // 2
    # Shares that never change, such as zeros of an empty category, are left out.
    halves = theta[:, : 2 * half, np.ptp(theta, axis=(0, 1)) > 0].reshape(2 * len(theta), half, -1)
    # Written so that NaN, of a chain that does not move, counts as a failure.
    return bool((rank_rhat(halves) <= PILOT.max_r_hat).all())


# The entry point.


def sgld_cv_draws(
    evidence: Evidence | PackedSets,
    prior: Floats | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, Floats], dict[str, Floats], dict[str, Any]]:
    """Draw θ from its posterior under a Dirichlet prior. Parameters not listed are as in `blocks.blocks_draws`.

    Parameters
    ----------
    evidence : Evidence or PackedSets
        Collapsed responses, or all of them as packed sets.
    prior : array of shape (K,) or "learned"
        Concentrations ρ, at least `LEAST_PRIOR`; or the prior whose concentration a is learned, as for NUTS.
    tune : int
        Draws of each chain in the first three pilots together, at least `LEAST_TUNE`.

    Returns
    -------
    variables : dict
        As from `blocks.blocks_draws`.
    stats : dict of arrays of shape (chain, draw)
        The virial, averaged over the coordinates and over the part of the run that a draw belongs to.
    record : dict
        Every choice, as plain numbers, and whether the draws are ``biased``, which is also logged.
    """
    if not isinstance(prior, str):
        check_prior_of_sgld_cv(prior)
    k = evidence.n_categories
    chain = Chains(evidence, prior, chains, seed)
    pilots = chain.warm_up(tune, advance)
    chain.run(SETTLING, ChainRuns.is_finite, None)
    run = chain.run(draws, ChainRuns.is_right, advance)
    narrow = chain.too_narrow(run.draws)
    if narrow.any():
        logger.warning(
            "The chains of 'sgld_cv' hardly move: draws of %d of %d categories are narrower than the answers allow; "
            "use 'nuts'.",
            narrow.sum(),
            k,
            extra={"problem": BIASED},
        )
    elif not run.is_right():
        logger.warning("The draws of 'sgld_cv' are biased, whatever the step: use 'nuts'.", extra={"problem": BIASED})
    variables = {"theta": run.draws[..., :k]} | ({"concentration": run.draws[..., k]} if chain.learned else {})
    parts = np.arange(draws) * run.virial.shape[1] // draws
    record = asdict(chain.choices) | {"pilots": pilots} | run.describe()
    record["biased"] = bool(narrow.any()) or not run.is_right()
    return variables, {"sgld_cv_virial": run.virial.mean(axis=2)[:, parts]}, record


@register_sampler("sgld_cv", learned=True, least_tune=LEAST_TUNE)
def sample_sgld_cv(
    responses: Responses | Gathered,
    prior: Floats | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    *,
    progressbar: bool = False,
) -> Drawn:
    """Draw θ by SGLD with control variates; the sets of a large store are read from the store."""
    from adobest_pp.samplers.choice import packed_sets

    with SlowProgress(chains * (tune + draws), "Sampling", progressbar) as progress:
        evidence = (packed_sets(responses) if isinstance(responses, Gathered) else None) or responses.evidence()
        found = sgld_cv_draws(evidence, prior, draws, tune, chains, seed, progress.advance)
    return Drawn(found[0], found[1], {"sampler_choices": json.dumps(found[2])})


def check_prior_of_sgld_cv(prior: Floats) -> None:
    """Raise ValueError for concentrations that are too small for coordinates in double precision."""
    if not prior.min() >= LEAST_PRIOR:
        raise ValueError(
            f"prior must be at least {LEAST_PRIOR:g} for 'sgld_cv', got {prior.min():g}; use 'nuts' for smaller ones"
        )
