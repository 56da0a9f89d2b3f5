"""The loop of stochastic-gradient Langevin dynamics, compiled for any gradient estimator and any diffusion.

A sampler is three parts: an estimate of the gradient of the log-likelihood with respect to φ (θ = φ/Σφ), of
`gradients`; a diffusion that takes one step along it, of `diffusions`; and this loop. The types of their tuples tell
the compiler which functions to take, so that a run compiles its own alone. Batches and normal noise are passed in, and
the same arrays repeat a run. docs/math.md, sections 2 and 4, has the equations.

Nothing here imports PyMC or checks bounds.
"""

from collections.abc import Iterator

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from adobest_pp.evidence import Evidence
from adobest_pp.samplers.gibbs import BLOCK, MAX_ROWS, Block, dirichlet
from adobest_pp.samplers.sgld.diffusions import ADVANCE, BEGIN, Diffusion, LogRatio, begin_at_zero, diffusion_of
from adobest_pp.samplers.sgld.gradients import ADD, AnchoredBatch, FullEvidence, Gradient, Minibatch, has_left
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, anchor_at, initial_draws, near_mode, rows_of

Array = NDArray[np.float64]


# One update: each function calls that of the tuple's type, in Python and when it is compiled.


def add_slope(gradient: Gradient, update: int, phi: Array, slope: Array) -> None:
    """Add the estimated gradient of the log-likelihood with respect to φ to `slope`, for the batch of an update."""
    ADD[type(gradient)](gradient, update, phi, slope)


def begin(diffusion: Diffusion, phi: Array, step: float, slope: Array) -> None:
    """Write what the gradient of the log-likelihood is added to: the slope of the prior, or zeros."""
    BEGIN.get(type(diffusion), begin_at_zero)(diffusion, phi, step, slope)


def advance(
    diffusion: Diffusion,
    rng: np.random.Generator,
    phi: Array,
    slope: Array,
    step: float,
    noise: Array,
) -> int:
    """Move φ in place by one step of the diffusion; `slope` is overwritten.

    Returns
    -------
    int
        How many coordinates were reflected; −1 if the step was not finite, and φ is left as it was.
    """
    return int(ADVANCE[type(diffusion)](diffusion, rng, phi, slope, step, noise))


@overload(add_slope)
def _compiled_add_slope(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    chosen = ADD[gradient.instance_class]
    return lambda gradient, update, phi, slope: chosen(gradient, update, phi, slope)


@overload(begin)
def _compiled_begin(diffusion, phi, step, slope):  # type: ignore[no-untyped-def]
    chosen = BEGIN.get(diffusion.instance_class, begin_at_zero)
    return lambda diffusion, phi, step, slope: chosen(diffusion, phi, step, slope)


@overload(advance)
def _compiled_advance(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    chosen = ADVANCE[diffusion.instance_class]
    return lambda diffusion, rng, phi, slope, step, noise: chosen(diffusion, rng, phi, slope, step, noise)


# The loop.


@njit(cache=True)
def langevin_draws(diffusion, gradient, rng, phi, steps, noise, draws, stats):  # type: ignore[no-untyped-def]
    """Run one update for each step size, moving φ in place, and write θ after every T/D of them.

    Parameters
    ----------
    diffusion : Diffusion
        What takes a step.
    gradient : Gradient
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


# A run: gradient, diffusion and loop for given evidence and prior.


class Langevin:
    """A gradient estimator and a diffusion on the posterior of φ, where θ = φ/Σφ.

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
    diffusion : Diffusion
        With its metric, where it has one.
    mode : Anchor or None
        An anchor near the mode, where it is needed: the first of control variates, and where the metric is taken.
    """

    def __init__(
        self, evidence: Evidence, row_of: NDArray[np.int64] | None, prior: Array, settings: LangevinSettings
    ) -> None:
        self.evidence, self.prior, self.settings = evidence, prior, settings
        self.n_responses = evidence.n_responses
        self._row_of = None if row_of is None else np.ascontiguousarray(row_of, dtype=np.int64)
        self._ends = np.cumsum(evidence.count)
        needs_mode = settings.gradient == "control_variates" or settings.diffusion == "log_ratio"
        self._rows = rows_of(evidence) if needs_mode else None
        self.mode = self.anchor(near_mode(evidence, prior, np.random.default_rng(0))) if needs_mode else None
        self.diffusion = diffusion_of(settings.diffusion, prior, self.n_responses, self.mode)

    def anchor(self, theta: Array) -> Anchor:
        """Return the anchor of control variates at θ."""
        assert self._rows is not None
        return anchor_at(theta, self.evidence, self._rows)

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
        n = self.n_responses if self.settings.diffusion == "cox_ingersoll_ross" else 0
        return float(self.prior.sum() + n)

    @property
    def log_share_variance(self) -> float:
        """The largest variance of a category's ln θ in a step of size one, at the mode; 0 without a metric.

        Under a small concentration ρ, ln θ of an empty category is spread over 1/ρ below a cliff of width one. A
        metric that suits the spread makes steps that overshoot the cliff.
        """
        if self.mode is None or not isinstance(self.diffusion, LogRatio):
            return 0.0
        theta, k = self.mode.theta, self.prior.size
        by_ratio = np.eye(k)[:, : k - 1] - theta[: k - 1]  # of ln θ with respect to ln(θ_i/θ_K)
        return float(np.einsum("ij,jk,ik->i", by_ratio, self.diffusion.metric, by_ratio, optimize=True).max())

    def estimator(self, batches: NDArray[np.int64], anchor: Anchor | None) -> Gradient:
        """Return the gradient estimator for batches of responses (T, m); empty ones stand for all of them."""
        size = batches.shape[1]
        if size == 0:
            return FullEvidence(self.evidence)
        rows, scale = self._rows_of(batches), self.n_responses / size
        if anchor is None:
            return Minibatch(self.evidence, rows, scale)
        return AnchoredBatch(self.evidence, rows, scale, anchor)

    def _rows_of(self, responses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of evidence of each of these responses, given by their numbers."""
        if self._row_of is not None:
            return self._row_of[responses]
        return np.searchsorted(self._ends, responses, side="right")

    def first_anchor(self) -> Anchor | None:
        """Return the anchor near the mode, or None where the gradient has none."""
        return self.mode if self.settings.gradient == "control_variates" else None

    def next_anchor(self, phi: Array, anchor: Anchor | None) -> Anchor | None:
        """Return the anchor to go on with: another, where φ is, if the chain has left it (see `has_left`)."""
        theta = phi / phi.sum()
        return self.anchor(theta) if anchor is not None and has_left(theta, anchor) else anchor

    def updates(
        self,
        rng: np.random.Generator,
        phi: Array,
        randomness: tuple[Array, NDArray[np.int64], Array],
        anchor: Anchor | None,
        draws: Array,
    ) -> Array:
        """Move φ in place by all updates, write θ into `draws` (D, K), and return the stats of `langevin_draws`."""
        steps, batches, noise = randomness
        stats = np.empty((len(draws), 3))
        langevin_draws(self.diffusion, self.estimator(batches, anchor), rng, phi, steps, noise, draws, stats)
        return stats


# The most random numbers held at once.
MAX_NUMBERS = 2_000_000


def sgld_chain(langevin: Langevin, n_draws: int, rng: np.random.Generator) -> Iterator[Block]:
    """Yield blocks of θ = φ/Σφ and of stats.

    Parameters
    ----------
    langevin : Langevin
        Gradient, diffusion and settings.
    n_draws, rng
        As for `gibbs_chain`.
    """
    settings, evidence, n, k = langevin.settings, langevin.evidence, langevin.n_responses, langevin.prior.size
    phi, anchor = langevin.start(rng), langevin.first_anchor()
    per_update = k + min(settings.batch_size or 0, n)
    rows = per_update if settings.batch_size else evidence.n_rows + k * (evidence.n_sets + 1)
    most_updates = min(MAX_NUMBERS // per_update, MAX_ROWS // rows)
    block = max(1, min(BLOCK, most_updates // settings.updates_per_draw))
    for start in range(0, n_draws, block):
        draws = np.empty((min(block, n_draws - start), k))
        done, todo = start * settings.updates_per_draw, len(draws) * settings.updates_per_draw
        randomness = settings.randomness(rng, done, todo, (n,), k)
        anchor = langevin.next_anchor(phi, anchor)
        stats = langevin.updates(rng, phi, randomness, anchor, draws)
        yield (
            draws,
            {
                "sgld_step_size": randomness[0][settings.updates_per_draw - 1 :: settings.updates_per_draw],
                "sgld_gradient_norm": stats[:, 0],
                "sgld_reflections": stats[:, 1].astype(np.int64),
                "sgld_rejected": stats[:, 2].astype(np.int64),
            },
        )
