"""SGLD that is at the posterior: control variates, normal coordinates, underdamped dynamics, and every choice made.

Pilots find where the posterior is and how wide: each runs in the coordinates that suit the draws of the one before,
around an anchor at their mean, and is twice as long, until chains agree. Then the step and the batch are chosen
(`sgld_cv_choices`), and the run is made. Along it the virial −x·∂ln p/∂x is averaged, coordinate by coordinate: its
mean is 1 at the posterior, and the ratio of variances beside a normal one. Where it shows a bias of more than
`MOST_BIAS` standard deviations beyond its own error, or a chain has left the finite numbers, the step is halved and the
run made again. Draws that are still biased, or narrower than the information allows, are never silent.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.data.evidence import Evidence
from adobest_pp.online.fast_random import seed_state
from adobest_pp.samplers.agreement import rank_rhat
from adobest_pp.samplers.concentration import Prior
from adobest_pp.samplers.control_variates import anchor_at, rows_of
from adobest_pp.samplers.first_draws import first_draws
from adobest_pp.samplers.narrowness import too_narrow
from adobest_pp.samplers.normal_coordinates import coordinates_of
from adobest_pp.samplers.packed_sets import PackedSets
from adobest_pp.samplers.problems import BIASED, logger
from adobest_pp.samplers.sgld_cv_choices import FRICTION, Choices, choose
from adobest_pp.samplers.underdamped import Target, underdamped_draws

__all__ = ["LEAST_PRIOR", "LEAST_TUNE", "Chains", "check_prior_of_sgld_cv", "sgld_cv_draws"]

LEAST_PRIOR = 0.01
# Of the coordinates where the concentration is learned, and may be smaller for a while.
LEAST_SHAPE = 0.03
LEAST_TUNE = 100
MOST_BIAS = 0.02
# A virial is called wrong beyond so many of its standard errors: a false alarm in one of some thousand runs.
MOST_ERRORS = 4.5
# A larger error excuses no more: it is that of a few bursts, which steps make that are too long for a part of the
# posterior. Of N draws it is about 1/√(2N) where they are right; so many times that is never too large.
MOST_ERROR, TIMES_EXPECTED = 0.1, 3.0
MOST_HALVINGS = 6
# Pilots until chains must agree, and at most; and what they agree at.
PILOTS, MOST_PILOTS, MAX_RHAT = 3, 8, 1.1
# Draws that the first coordinates rest on, and those of a chain that only forget its start.
FIRST_DRAWS, SETTLING = 400, 20
# Parts that a chain is made in: Ctrl-C is heard between them, and their virials tell its error.
PARTS = 20


@dataclass(frozen=True, eq=False)
class Run:
    """What the chains made.

    Attributes
    ----------
    draws : array of shape (chain, draw, ·)
        θ, and a after it where it is learned.
    x, log_scales : array of shape (chain, ·)
        x and ln a at the ends.
    virial : array of shape (chain, part, K)
        Its mean in each part.
    """

    draws: NDArray[np.float64]
    x: NDArray[np.float64]
    log_scales: NDArray[np.float64]
    virial: NDArray[np.float64]

    @property
    def bias(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bias of the sd of each coordinate, as a share of it, and its standard error."""
        parts = self.virial.reshape(-1, self.virial.shape[-1])
        bias = (parts.mean(axis=0) - 1) / 2
        if len(parts) < 2:
            return bias, np.full_like(bias, np.inf)
        return bias, parts.std(axis=0, ddof=1) / math.sqrt(len(parts)) / 2

    def is_finite(self) -> bool:
        """Whether all draws are numbers."""
        return bool(np.isfinite(self.draws).all())

    def is_right(self) -> bool:
        """Whether, besides, no coordinate is biased."""
        bias, error = self.bias
        n = self.draws.shape[0] * self.draws.shape[1]
        if np.isfinite(error).all():
            error = np.minimum(error, max(MOST_ERROR, TIMES_EXPECTED / math.sqrt(2 * n)))
        return self.is_finite() and bool((np.abs(bias) <= MOST_BIAS + MOST_ERRORS * error).all())

    def describe(self) -> dict[str, float]:
        """Return the mean bias of the coordinates, and the worst with its error, as shares of an sd."""
        bias, error = self.bias
        worst = int(np.argmax(np.abs(bias)))
        return {
            "sd_bias": float(bias.mean()),
            "worst_sd_bias": float(bias[worst]),
            "worst_sd_bias_error": float(error[worst]),
        }


def sgld_cv_draws(
    evidence: Evidence | PackedSets,
    prior: NDArray[np.float64] | str,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]], dict[str, Any]]:
    """Draw θ from its posterior under a Dirichlet prior.

    Parameters
    ----------
    evidence : Evidence or PackedSets
        Collapsed responses, or all of them as packed sets.
    prior : array of shape (K,) or "learned"
        Concentrations ρ, at least `LEAST_PRIOR`; or the prior whose concentration a is learned, as for NUTS.
    draws, chains : int
        Draws to keep of each chain, and chains.
    tune : int
        Draws of each chain that the first three pilots make in all, at least `LEAST_TUNE`.
    seed : int
        Equal seeds give equal draws.
    advance : function of int
        Told how many draws were made, for progress: of `tune` and `draws` in all chains.

    Returns
    -------
    variables : dict
        ``theta`` of shape (chain, draw, K), and ``concentration`` of shape (chain, draw) where it is learned.
    stats : dict of arrays of shape (chain, draw)
        The virial, averaged over the coordinates and over the part of the run that a draw belongs to.
    record : dict
        Every choice, as plain numbers, and whether the draws turned out as ``biased``, which is logged, too.
    """
    if not isinstance(prior, str):
        check_prior_of_sgld_cv(prior)
    k = evidence.n_categories
    chain = Chains(evidence, prior, chains, seed)
    pilots = chain.warm_up(tune, advance)
    chain.run(SETTLING, Run.is_finite, None)
    run = chain.run(draws, Run.is_right, advance)
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
    record = chain.choices.describe() | {"pilots": pilots} | run.describe()
    record["biased"] = bool(narrow.any()) or not run.is_right()
    return variables, {"sgld_cv_virial": run.virial.mean(axis=2)[:, parts]}, record


def check_prior_of_sgld_cv(prior: NDArray[np.float64]) -> None:
    """Raise ValueError for concentrations whose coordinates doubles cannot tell apart."""
    if not prior.min() >= LEAST_PRIOR:
        raise ValueError(
            f"prior must be at least {LEAST_PRIOR:g} for 'sgld_cv', got {prior.min():g}; use 'nuts' for smaller ones"
        )


class Chains:
    """Chains that go on from where they are, in coordinates that are learned from their draws."""

    def __init__(
        self, evidence: Evidence | PackedSets, prior: NDArray[np.float64] | str, chains: int, seed: int
    ) -> None:
        self.evidence, self.rows, self.learned = evidence, rows_of(evidence), isinstance(prior, str)
        self.mean, self.sd = LOG_CONCENTRATION
        k = evidence.n_categories
        first = np.full(k, math.exp(self.mean)) if isinstance(prior, str) else prior
        self.weights = np.ones(k) if self.learned else first
        self.rng = np.random.default_rng(seed)
        self.states = [seed_state(sequence) for sequence in np.random.SeedSequence(seed).spawn(chains + 1)]
        self.halvings = 0
        theta, sd = first_draws(evidence, self.rows, first, max(FIRST_DRAWS, 4 * k), self.rng)
        self.least_size = sd / 2
        if self.learned:
            theta = np.column_stack([theta, np.full(len(theta), first[0])])
        self.learn(theta[: len(theta) // chains * chains].reshape(chains, -1, theta.shape[1]))

    def learn(self, draws: NDArray[np.float64]) -> None:
        """Take coordinates, anchor, step and batch that suit draws (chain, draw, ·), and stand at the last of each."""
        k = self.weights.size
        theta = draws[..., :k].reshape(-1, k)
        scale = float(np.median(draws[..., k])) if self.learned else 1.0
        self.log_scales = np.log(draws[:, -1, k:]) if self.learned else np.zeros((len(draws), 1))
        shape = np.maximum(scale * self.weights, LEAST_SHAPE) if self.learned else self.weights
        coordinates, x = coordinates_of(theta, shape, self.least_size, self.rng)
        center = theta.mean(axis=0)
        anchor = anchor_at(center / center.sum(), self.evidence, self.rows)
        self.target = Target(self._prior(np.array([math.log(scale)])), coordinates, self.rows, anchor)
        self.choices = choose(x, self.target, self.states[-1]).halved(self.halvings)
        self.x = x.reshape(*draws.shape[:2], k)[:, -1]

    def warm_up(self, tune: int, advance: Callable[[int], None]) -> int:
        """Make pilots until chains agree, and learn from each; return how many it took."""
        lengths = [tune // 7, 2 * tune // 7, tune - tune // 7 - 2 * tune // 7]
        for pilot in range(MOST_PILOTS):
            run = self.run(lengths[min(pilot, PILOTS - 1)], Run.is_finite, advance if pilot < PILOTS else None)
            settled = run.draws[:, run.draws.shape[1] // 3 :]
            self.learn(settled)
            if pilot >= PILOTS - 1 and _agree(settled):
                break
        return pilot + 1

    def too_narrow(self, draws: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which categories have draws (chain, draw, ·) that are far narrower than the information allows."""
        k = self.weights.size
        scale = float(draws[..., k].mean()) if self.learned else 1.0
        return too_narrow(draws[..., :k].reshape(-1, k), scale * self.weights, self.target.anchor.information)

    def _prior(self, log_scale: NDArray[np.float64], choices: Choices | None = None) -> Prior:
        prior = Prior(self.weights, log_scale, self.learned, self.mean, self.sd)
        if choices is None or choices.stiff_from is None or choices.stiffness is None:
            return prior
        return prior._replace(stiff_from=choices.stiff_from, stiffness=choices.stiffness)

    def run(self, n_draws: int, is_good: Callable[[Run], bool], advance: Callable[[int], None] | None) -> Run:
        """Make draws of every chain, with the step halved until they are good, and stand at their ends."""
        while True:
            run = self._once(n_draws, advance)
            if is_good(run) or self.halvings >= MOST_HALVINGS:
                break
            self.halvings, advance = self.halvings + 1, None
            self.choices = self.choices.halved(1)
        if not run.is_finite():
            raise RuntimeError(
                "'sgld_cv' did not finish: its chains leave the finite numbers at a step of "
                f"{self.choices.step:.2g}; use 'nuts'"
            )
        self.x, self.log_scales = run.x, run.log_scales
        return run

    def _once(self, n_draws: int, advance: Callable[[int], None] | None) -> Run:
        choices, x, log_scales = self.choices, self.x.copy(), self.log_scales.copy()
        chains, k = x.shape
        bounds = np.linspace(0, n_draws, min(PARTS, n_draws) + 1).astype(int)
        draws, virial = np.empty((chains, n_draws, k + self.learned)), np.zeros((chains, bounds.size - 1, k))
        settings = (choices.batch, choices.step, FRICTION, choices.updates_per_draw)
        for c in range(chains):
            momentum, force = self.rng.standard_normal(k), np.empty(k)
            target = self.target._replace(prior=self._prior(log_scales[c], choices))
            for part, (start, stop) in enumerate(itertools.pairwise(bounds)):
                out = draws[c, start:stop]
                underdamped_draws(self.states[c], x[c], momentum, *target, *settings, out, force, virial[c, part])
                virial[c, part] /= (stop - start) * choices.updates_per_draw
                if advance is not None:
                    advance(int(stop - start))
        return Run(draws, x, log_scales, virial)


def _agree(theta: NDArray[np.float64]) -> bool:
    """Return whether halves of chains agree: the warm-up is over."""
    half = theta.shape[1] // 2
    # The share of an empty category may be zero in all draws.
    halves = theta[:, : 2 * half, np.ptp(theta, axis=(0, 1)) > 0].reshape(2 * len(theta), half, -1)
    # Written so that NaN, of a chain that does not move, counts as a failure.
    return bool((rank_rhat(halves) <= MAX_RHAT).all())
