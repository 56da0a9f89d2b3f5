"""Stochastic-gradient Langevin dynamics: the paper's gradient and diffusion, and the loop for any other.

A sampler has three parts: an estimate of the gradient of the log-likelihood with respect to φ (θ = φ/Σφ), a diffusion
that takes one step along it, and this loop. Other estimators are in `gradients`, other diffusions in `diffusions`. The
types of their tuples tell the compiler which functions to call, so a run compiles only its own. Batches and normal
noise are passed in, so the same arrays repeat a run. docs/math.md, sections 2 and 4, has the equations.

Nothing here imports PyMC or checks bounds.

References
----------
.. [1] M. Welling and Y. W. Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML.
.. [2] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an Adaptive
   Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.
"""

import functools
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from scipy.special import polygamma

from adobest_pp._numerics import TINY
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.core import add_to_listed, add_to_other, listed_mass, other_mass, row_probability, row_pull
from adobest_pp.samplers.checks import warn_of_long_steps, warn_of_reflections
from adobest_pp.samplers.gibbs import BLOCK, MAX_ROWS, Block, dirichlet, run_chains
from adobest_pp.samplers.registry import (
    DIFFUSIONS,
    GRADIENTS,
    LANGEVIN,
    PIECES,
    Drawn,
    LangevinPiece,
    register_diffusion,
    register_gradient,
    register_sampler,
)
from adobest_pp.samplers.sgld.settings import LangevinSettings
from adobest_pp.samplers.sgld_cv.control_variates import Anchor, anchor_at, has_left, initial_draws, near_mode, rows_of
from adobest_pp.transforms import blocks

# The paper's estimator: a batch of responses, each standing for n/m of them [1]_.


@njit(cache=True)
def add_minibatch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add ``scale · Σ_{u ∈ batch} (g_{u,i}/h_u − 1)/Σφ`` to `slope`, with h at θ = φ/Σφ.

    This costs O(1) for a row without a set and O(|S|) for a row with one. It adds NaN if rounding made a probability
    non-positive; the diffusion then rejects the update.
    """
    evidence, rows, scale = gradient.evidence, gradient.rows[update], gradient.scale
    offsets, members, patterns = evidence.offsets, evidence.members, evidence.patterns
    structure, n_sets = blocks(evidence.structure), offsets.size - 1
    total = phi.sum()
    shared = 0.0
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = 0.0
        if 0 <= v < n_sets:
            mass = listed_mass(v, phi, offsets, members)
        elif v >= 0:
            mass = other_mass(v - n_sets, phi, patterns, structure)
        # With φ in place of θ, h is Σφ times as large, which is the division by Σφ that the chain rule asks for.
        h = row_probability(u, phi, total, mass, evidence)
        by_total, by_mass = row_pull(u, scale / h if h > 0.0 else np.nan, evidence, slope)
        shared += by_total
        if 0 <= v < n_sets:
            add_to_listed(v, by_mass, offsets, members, slope)
        elif v >= 0:
            add_to_other(v - n_sets, by_mass, patterns, structure, slope)
    shared -= scale * rows.size / total
    for i in range(phi.size):
        slope[i] += shared


@register_gradient("minibatch", add=add_minibatch, nonnegative=True)
class Minibatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), and n/m: how many responses one of the batch stands for."""

    evidence: Evidence
    rows: Integers
    scale: float

    @classmethod
    def build(cls, run: "Langevin", rows: Integers) -> "Minibatch":
        """Return the estimator for the batches of a run."""
        return cls(run.evidence, rows, run.n_responses / rows.shape[1])


# The paper's: Langevin dynamics [1]_ on the Gamma surrogate φ, reflected at zero [2]_.


@njit(cache=True, inline="always")
def prior_gradient(phi, prior, floor, slope):  # type: ignore[no-untyped-def]
    """Write ∂ ln p(φ)/∂φ_i = (ρ_i − 1)/φ_i − 1 of independent Gamma(ρ_i, 1), taken at max(φ_i, floor), into `slope`."""
    for i in range(phi.size):
        slope[i] = (prior[i] - 1.0) / max(phi[i], floor) - 1.0


@njit(cache=True)
def least_phi(step):  # type: ignore[no-untyped-def]
    """Return the smallest φ at which the slope (ρ − 1)/φ of the prior is taken.

    Without a bound, the diffusion with ρ ≠ 1 jumps arbitrarily far from a point close to zero. Its steps do not resolve
    distances below the width √γ of their noise, so the slope is taken no closer to zero than that. There is no error
    for ρ = 1. For ρ < 1 the prior has a mass of about (√γ)^ρ below √γ, and a reflected step holds only a part of it, so
    small shares come out too large. No bound fixes this: of those from √γ/10 to 1.5·√γ, √γ has the smallest error.
    Smaller steps do not help either, as (√γ)^ρ hardly depends on them. `sample` warns of it.
    """
    return max(math.sqrt(step), TINY)


@njit(cache=True)
def advance_reflected(diffusion, rng, phi, slope, step, noise):  # type: ignore[no-untyped-def]
    """Move φ to |φ + (γ/2)·slope + √γ·W|.

    The noise enters with √γ: with γ, as the paper prints it, the chain would collapse on the mode as γ → 0.
    """
    for i in range(phi.size):
        slope[i] = phi[i] + 0.5 * step * slope[i] + math.sqrt(step) * noise[i]
    return reflect(phi, slope)


@njit(cache=True)
def reflect(phi, proposal):  # type: ignore[no-untyped-def]
    """Move φ to |proposal|; return how many coordinates were reflected, or −1 if it is not finite and φ stays."""
    reach = 0.0
    for i in range(phi.size):
        reach += abs(proposal[i])
    if not math.isfinite(reach):
        return -1
    reflections = 0
    for i in range(phi.size):
        reflections += proposal[i] < 0.0
        phi[i] = abs(proposal[i])
    return reflections


class OfPrior(NamedTuple):
    """What a diffusion needs that rests on the prior alone: ρ."""

    prior: Floats

    @classmethod
    def build(cls, run: "Langevin") -> "OfPrior":
        """Return the diffusion for a run."""
        return cls(run.prior)


@register_diffusion("reflected", advance=advance_reflected, floor=least_phi)
class Reflected(OfPrior):
    """ρ of the prior."""


# One update. Each function calls the one that belongs to the type of the tuple, in Python and in compiled code.


def add_slope(gradient: Any, update: int, phi: Floats, slope: Floats) -> None:
    """Add the estimated gradient of the log-likelihood with respect to φ to `slope`, for the batch of an update."""
    PIECES[type(gradient)].function(gradient, update, phi, slope)


def begin(diffusion: Any, phi: Floats, step: float, slope: Floats) -> None:
    """Write the slope of the prior, or zeros, to which the gradient of the log-likelihood is then added."""
    floor = PIECES[type(diffusion)].floor
    if floor is None:
        slope[:] = 0.0
    else:
        prior_gradient(phi, diffusion.prior, floor(step), slope)


def advance(diffusion: Any, rng: np.random.Generator, phi: Floats, slope: Floats, step: float, noise: Floats) -> int:
    """Move φ in place by one step of the diffusion; `slope` is overwritten.

    Returns
    -------
    int
        How many coordinates were reflected; −1 if the step was not finite and φ is unchanged.
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
    """Run one update for each of the T step sizes, moving φ in place, and write θ after every T/D into `draws` (D, K).

    `gradient` has batches for all updates. `noise` (T, K) is standard normal; diffusions with other noise take it from
    `rng`. For each draw, `stats` (D, 3) gets the norm of the last gradient, and how many coordinates were reflected and
    how many updates rejected.
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

    Pieces from other packages have a loop of their own, which is compiled in each process. Numba's cache on disk checks
    this file alone, so it would run an old version of a function that has changed. Also, a compiled function does not
    distinguish a class from another of the same name and fields.
    """
    ours = all(piece.module.startswith("adobest_pp.") for piece in (diffusion, gradient))
    return langevin_draws if ours else njit(langevin_draws.py_func)


# A run: gradient, diffusion and loop for given evidence and prior.


def metric_at(anchor: Anchor, prior: Floats) -> tuple[Floats, Floats]:
    """Return the metric C of log-ratios at an anchor, and the lower triangular L with C = L·Lᵀ, each (K−1, K−1).

    C is the inverse of the information about ln(θ_i/θ_K). The answers say nothing about ln θ_i of an empty category.
    There the prior bounds the variance, by that of the logarithm of its Gamma variable, ψ′(ρ_i).
    """
    theta, k = anchor.theta, prior.size
    jacobian = (np.diag(theta) - np.outer(theta, theta))[:, : k - 1]
    of_logs = polygamma(1, prior)
    of_prior = np.diag(of_logs[:-1]) + of_logs[-1]
    metric = np.linalg.inv(jacobian.T @ anchor.information @ jacobian + np.linalg.inv(of_prior))
    metric = (metric + metric.T) / 2
    return metric, np.linalg.cholesky(metric)


class Langevin:
    """A gradient estimator and a diffusion for the posterior of φ, where θ = φ/Σφ, and the state of a chain.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    row_of : array of int, shape (n,), or None
        The row of evidence of each response. None for counted answers: these are numbered in the order of the rows,
        which takes no memory for each.
    prior : array of shape (K,)
        Concentration of the Dirichlet prior.
    settings : LangevinSettings
        Which gradient and diffusion.

    Attributes
    ----------
    n_responses : int
        The number of responses n.
    mode : Anchor or None
        An anchor near the mode, if a piece needs one.
    diffusion : named tuple
        Built for each chain.
    anchor : Anchor or None
        The anchor of control variates: at the mode first, then at the position of a chain that has left its anchor.
    memory : array
        What the gradient estimator keeps from one block of updates to the next; empty at the start of a chain.
    """

    # A step method passes these shared variables on. No other variable of a model enters here.
    shared: dict[Any, Any] = {}  # noqa: RUF012

    def __init__(self, evidence: Evidence, row_of: Integers | None, prior: Floats, settings: LangevinSettings) -> None:
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

    def anchor_at(self, theta: Floats) -> Anchor:
        """Return the anchor of control variates at θ."""
        assert self._rows is not None
        return anchor_at(theta, self.evidence, self._rows)

    def metric(self) -> tuple[Floats, Floats]:
        """Return the inverse of the information about log-ratios at the mode, and its Cholesky factor."""
        assert self.mode is not None
        return metric_at(self.mode, self.prior)

    def start(self, rng: np.random.Generator) -> Floats:
        """Return φ for a chain to start from, with Σφ at its mean.

        θ is a draw from the prior, as in the paper, or from a normal approximation at the mode if that is known.
        """
        phi = np.empty(self.prior.size)
        if self._rows is None:
            dirichlet(rng, self.prior, phi)
        else:
            phi[:] = initial_draws(self.evidence, self._rows, self.prior, 1, rng)[0][0]
        return phi * self.total

    @property
    def total(self) -> float:
        """The mean of Σφ under the diffusion."""
        return float(self.prior.sum() + getattr(self.diffusion, "n_responses", 0.0))

    @property
    def log_share_variance(self) -> float:
        """The largest variance of a category's ln θ in a step of size one, at the mode; 0 without a metric.

        Under a small concentration ρ, ln θ of an empty category spreads over 1/ρ below a cliff of width one. With a
        metric that suits this spread, steps overshoot the cliff.
        """
        if self.mode is None or not hasattr(self.diffusion, "metric"):
            return 0.0
        theta, k = self.mode.theta, self.prior.size
        by_ratio = np.eye(k)[:, : k - 1] - theta[: k - 1]  # of ln θ with respect to ln(θ_i/θ_K)
        return float(np.einsum("ij,jk,ik->i", by_ratio, self.diffusion.metric, by_ratio, optimize=True).max())

    def estimator(self, batches: Integers) -> Any:
        """Return the gradient for batches of responses (T, m); empty batches mean all responses, if there are any."""
        piece = self.pieces[1] if batches.shape[1] else GRADIENTS.find("full")
        if self._row_of is not None:
            return piece.build(self, self._row_of[batches])
        return piece.build(self, np.searchsorted(self._ends, batches, side="right"))

    def populations(self) -> tuple[int, ...]:
        """Return the numbers of responses that batches are drawn from: one."""
        return (self.n_responses,)

    def gradient(self, phi: Floats, batch: Integers, floor: float) -> Floats:
        """Return the gradient of the log-posterior of φ estimated from the responses of a batch."""
        out = np.empty(phi.size)
        prior_gradient(phi, self.prior, floor, out)
        add_slope(self.estimator(batch[None]), 0, phi, out)
        return out

    def updates(
        self, rng: np.random.Generator, phi: Floats, randomness: tuple[Floats, Integers, Floats], draws: Floats
    ) -> Floats:
        """Move φ in place by all updates, write θ into `draws` (D, K), and return the stats of `langevin_draws`.

        An anchor that the chain has left (`has_left`) is first replaced by one at φ.
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

# As many as the paper makes for each person who answers.
UPDATES_PER_DRAW = 20


@register_sampler("sgld")
def sample_sgld(
    responses: Responses | Gathered,
    prior: Floats,
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
