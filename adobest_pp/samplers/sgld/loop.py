"""The loop of stochastic-gradient Langevin dynamics, compiled for any gradient estimator and any diffusion.

A sampler is three parts: an estimate of the gradient of the log-likelihood with respect to φ (θ = φ/Σφ), of
`gradients`; a diffusion that takes one step along it, of `diffusions`; and this loop. The types of their tuples tell
the compiler which functions to take, so that a run compiles its own alone. Batches and normal noise are passed in, and
the same arrays repeat a run. docs/math.md, sections 2 and 4, has the equations.

Nothing here imports PyMC or checks bounds.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.samplers.checks import warn_of_long_steps, warn_of_reflections
from adobest_pp.samplers.gibbs import BLOCK, MAX_ROWS, Block, dirichlet, run_chains
from adobest_pp.samplers.registry import DIFFUSIONS, GRADIENTS, LANGEVIN, PIECES, Drawn, LangevinPiece, register_sampler
from adobest_pp.samplers.sgld.diffusions import metric_at, prior_gradient
from adobest_pp.samplers.sgld.gradients import has_left
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, anchor_at, initial_draws, near_mode, rows_of

Array = NDArray[np.float64]


# One update: each function calls that of the tuple's type, in Python and when it is compiled.


def add_slope(gradient: Any, update: int, phi: Array, slope: Array) -> None:
    """Add the estimated gradient of the log-likelihood with respect to φ to `slope`, for the batch of an update."""
    PIECES[type(gradient)].function(gradient, update, phi, slope)


def begin(diffusion: Any, phi: Array, step: float, slope: Array) -> None:
    """Write what the gradient of the log-likelihood is added to: the slope of the prior, or zeros."""
    floor = PIECES[type(diffusion)].floor
    if floor is None:
        slope[:] = 0.0
    else:
        prior_gradient(phi, diffusion.prior, floor(step), slope)


def advance(diffusion: Any, rng: np.random.Generator, phi: Array, slope: Array, step: float, noise: Array) -> int:
    """Move φ in place by one step of the diffusion; `slope` is overwritten.

    Returns
    -------
    int
        How many coordinates were reflected; −1 if the step was not finite, and φ is left as it was.
    """
    return int(PIECES[type(diffusion)].function(diffusion, rng, phi, slope, step, noise))


@overload(add_slope)
def _compiled_add_slope(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    chosen = PIECES[gradient.instance_class].function
    return lambda gradient, update, phi, slope: chosen(gradient, update, phi, slope)


@overload(begin)
def _compiled_begin(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    floor = PIECES[diffusion.instance_class].floor
    if floor is None:
        return lambda diffusion, phi, step, slope: slope.fill(0.0)
    return lambda diffusion, phi, step, slope: prior_gradient(phi, diffusion.prior, floor(step), slope)


@overload(advance)
def _compiled_advance(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    chosen = PIECES[diffusion.instance_class].function
    return lambda diffusion, rng, phi, slope, step, noise: chosen(diffusion, rng, phi, slope, step, noise)


# The loop.


@njit(cache=True)
def langevin_draws(diffusion, gradient, rng, phi, steps, noise, draws, stats):  # type: ignore[no-untyped-def]
    """Run one update for each step size, moving φ in place, and write θ after every T/D of them.

    Parameters
    ----------
    diffusion : named tuple
        What takes a step.
    gradient : named tuple
        What it goes along, with batches for all T updates.
    rng : numpy.random.Generator
        Advanced by diffusions whose noise is not normal.
    phi : array of shape (K,)
        Moved in place.
    steps : array of shape (T,)
        Step sizes γ.
    noise : array of shape (T, K)
        Standard normal.
    draws : array of shape (D, K)
        Overwritten.
    stats : array of shape (D, 3)
        Overwritten, for each draw: the norm of its last gradient, its reflected coordinates and its rejected updates.
    """
    n_draws, n_updates = len(draws), steps.size // len(draws)
    slope = np.empty(phi.size)
    for d in range(n_draws):
        stats[d, 1], stats[d, 2] = 0.0, 0.0
        for t in range(d * n_updates, (d + 1) * n_updates):
            begin(diffusion, phi, steps[t], slope)
            add_slope(gradient, t, phi, slope)
            if t == (d + 1) * n_updates - 1:
                stats[d, 0] = np.linalg.norm(slope)
            reflections = advance(diffusion, rng, phi, slope, steps[t], noise[t])
            stats[d, 1] += max(reflections, 0)
            stats[d, 2] += reflections < 0
        total = phi.sum()
        for i in range(phi.size):
            draws[d, i] = phi[i] / total


@functools.cache
def loop_of(diffusion: LangevinPiece, gradient: LangevinPiece) -> Any:
    """Return the loop for two pieces.

    Pieces of yours have a loop of their own, compiled anew in each process. Numba's cache on disk looks at this file
    alone, and would run an old version of a function that you have changed since. And a compiled function takes a class
    for another that it has seen before if both have the same name and fields.
    """
    ours = all(piece.module.startswith("adobest_pp.") for piece in (diffusion, gradient))
    return langevin_draws if ours else njit(langevin_draws.py_func)


# A run: gradient, diffusion and loop for given evidence and prior.


class Langevin:
    """A gradient estimator and a diffusion on the posterior of φ, where θ = φ/Σφ, and what a chain carries along.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    row_of : array of int, shape (n,), or None
        The row of evidence of each response. None for counted answers: they are numbered in the order of the rows, and
        no memory is needed for each.
    prior : array of shape (K,)
        Concentration of the Dirichlet prior.
    settings : LangevinSettings
        Which gradient and diffusion.

    Attributes
    ----------
    n_responses : int
        The number of responses n.
    mode : Anchor or None
        An anchor near the mode, where a piece needs it.
    diffusion : named tuple
        As the registered diffusion builds it for each chain.
    anchor : Anchor or None
        That of control variates: the mode at first, then where the chain is if it has left its anchor.
    memory : array
        What the gradient estimator keeps from one block of updates to the next; empty at the start of a chain.
    """

    # What a step method needs of its target; here no other variable of a model enters.
    shared: dict[Any, Any] = {}  # noqa: RUF012

    def __init__(
        self, evidence: Evidence, row_of: NDArray[np.int64] | None, prior: Array, settings: LangevinSettings
    ) -> None:
        self.evidence, self.prior, self.settings = evidence, prior, settings
        self.n_responses = evidence.n_responses
        self._row_of = None if row_of is None else np.ascontiguousarray(row_of, dtype=np.int64)
        self._ends = np.cumsum(evidence.count)
        self.pieces = DIFFUSIONS.find(settings.diffusion), GRADIENTS.find(settings.gradient)
        self._rows = rows_of(evidence) if any(piece.at_mode for piece in self.pieces) else None
        self.mode = None if self._rows is None else self.anchor_at(near_mode(evidence, prior, np.random.default_rng(0)))
        self.restart()

    def restart(self) -> None:
        """Begin a chain."""
        self.anchor = self.mode if self.pieces[1].at_mode else None
        self.memory = np.empty(0)
        self.diffusion = self.pieces[0].build(self)

    def anchor_at(self, theta: Array) -> Anchor:
        """Return the anchor of control variates at θ."""
        assert self._rows is not None
        return anchor_at(theta, self.evidence, self._rows)

    def metric(self) -> tuple[Array, Array]:
        """Return the inverse of the information about log-ratios at the mode, and its Cholesky factor."""
        assert self.mode is not None
        return metric_at(self.mode, self.prior)

    def start(self, rng: np.random.Generator) -> Array:
        """Return φ for a chain to start from, with Σφ at its mean.

        θ is a draw of the prior, as in the paper; or, where the mode is known, of a normal approximation there.
        """
        phi = np.empty(self.prior.size)
        if self._rows is None:
            dirichlet(rng, self.prior, phi)
        else:
            phi[:] = initial_draws(self.evidence, self._rows, self.prior, 1, rng)[0][0]
        return phi * self.total

    @property
    def total(self) -> float:
        """The mean of Σφ as the diffusion has it."""
        return float(self.prior.sum() + getattr(self.diffusion, "n_responses", 0.0))

    @property
    def log_share_variance(self) -> float:
        """The largest variance of a category's ln θ in a step of size one, at the mode; 0 without a metric.

        Under a small concentration ρ, ln θ of an empty category is spread over 1/ρ below a cliff of width one. A
        metric that suits the spread makes steps that overshoot the cliff.
        """
        if self.mode is None or not hasattr(self.diffusion, "metric"):
            return 0.0
        theta, k = self.mode.theta, self.prior.size
        by_ratio = np.eye(k)[:, : k - 1] - theta[: k - 1]  # of ln θ with respect to ln(θ_i/θ_K)
        return float(np.einsum("ij,jk,ik->i", by_ratio, self.diffusion.metric, by_ratio, optimize=True).max())

    def estimator(self, batches: NDArray[np.int64]) -> Any:
        """Return the gradient for batches of responses (T, m); empty ones stand for all responses, if there are any."""
        piece = self.pieces[1] if batches.shape[1] else GRADIENTS.find("full")
        return piece.build(self, self._rows_of(batches))

    def _rows_of(self, responses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of evidence of each of these responses, given by their numbers."""
        if self._row_of is not None:
            return self._row_of[responses]
        return np.searchsorted(self._ends, responses, side="right")

    def populations(self) -> tuple[int, ...]:
        """Return the numbers of responses that batches are drawn from: one."""
        return (self.n_responses,)

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient of the log-posterior of φ estimated from the responses of a batch."""
        out = np.empty(phi.size)
        prior_gradient(phi, self.prior, floor, out)
        add_slope(self.estimator(batch[None]), 0, phi, out)
        return out

    def updates(
        self, rng: np.random.Generator, phi: Array, randomness: tuple[Array, NDArray[np.int64], Array], draws: Array
    ) -> Array:
        """Move φ in place by all updates, write θ into `draws` (D, K), and return the stats of `langevin_draws`.

        An anchor that the chain has left (see `has_left`) is replaced first, by one where φ is.
        """
        steps, batches, noise = randomness
        theta = phi / phi.sum()
        if self.anchor is not None and has_left(theta, self.anchor):
            self.anchor = self.anchor_at(theta)
        stats = np.empty((len(draws), 3))
        gradient = self.estimator(batches)
        run = loop_of(self.pieces[0], PIECES[type(gradient)])
        run(self.diffusion, gradient, rng, phi, steps, noise, draws, stats)
        return stats


# The most random numbers held at once.
MAX_NUMBERS = 2_000_000


def sgld_chain(langevin: Langevin, n_draws: int, rng: np.random.Generator) -> Iterator[Block]:
    """Yield blocks of θ = φ/Σφ and of stats, as `gibbs_chain` does."""
    settings, evidence, n, k = langevin.settings, langevin.evidence, langevin.n_responses, langevin.prior.size
    langevin.restart()
    phi = langevin.start(rng)
    per_update = k + min(settings.batch_size or 0, n)
    rows = per_update if settings.batch_size else evidence.n_rows + k * (evidence.n_sets + 1)
    most_updates = min(MAX_NUMBERS // per_update, MAX_ROWS // rows)
    block = max(1, min(BLOCK, most_updates // settings.updates_per_draw))
    for start in range(0, n_draws, block):
        draws = np.empty((min(block, n_draws - start), k))
        done, todo = start * settings.updates_per_draw, len(draws) * settings.updates_per_draw
        randomness = settings.randomness(rng, done, todo, (n,), k)
        stats = langevin.updates(rng, phi, randomness, draws)
        yield (
            draws,
            {
                "sgld_step_size": randomness[0][settings.updates_per_draw - 1 :: settings.updates_per_draw],
                "sgld_gradient_norm": stats[:, 0],
                "sgld_reflections": stats[:, 1].astype(np.int64),
                "sgld_rejected": stats[:, 2].astype(np.int64),
            },
        )


# The entry point.

# The paper makes this many updates for each person that answers.
UPDATES_PER_DRAW = 20


@register_sampler("sgld")
def sample_sgld(
    responses: Responses | Gathered,
    prior: Array,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    *,
    progressbar: bool = False,
    updates_per_draw: int = UPDATES_PER_DRAW,
    batch_size: int | None = 50,
    step_size: float | None = None,
    schedule: Any = None,
    diffusion: str = "reflected",
    gradient: str = "minibatch",
) -> Drawn:
    """Draw θ by a gradient estimator and a diffusion; the options are those of `SGLD`."""
    settings = LangevinSettings.of(batch_size, step_size, schedule, updates_per_draw, diffusion, gradient)
    evidence, row_of = (
        responses.evidence_and_index() if isinstance(responses, Responses) else (responses.evidence(), None)
    )
    langevin = Langevin(evidence, row_of, prior, settings)
    theta, stats = run_chains(
        lambda rng: sgld_chain(langevin, tune + draws, rng), draws, tune, chains, seed, progressbar
    )
    warn_of_long_steps(langevin.log_share_variance * float(stats["sgld_step_size"].max(initial=0.0)), prior)
    warn_of_reflections(float(stats["sgld_reflections"].mean()) / settings.updates_per_draw, prior)
    return Drawn({"theta": theta}, stats, {"sampler_settings": json.dumps(settings.describe())})


for _name, _pieces in LANGEVIN.items():
    register_sampler(_name, defaults=_pieces)(sample_sgld)
