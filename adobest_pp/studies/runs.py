"""One run of one cell: a truth is drawn, people are asked, and the estimate is measured against the truth."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.data.responses import Responses
from adobest_pp.mechanisms import RRRR, Mechanism, SubsetSelection, audit, check_rrrr
from adobest_pp.online import simulate
from adobest_pp.samplers.schedules import ConstantSteps
from adobest_pp.studies.grid import Cell
from adobest_pp.studies.measures import MEASURES
from adobest_pp.studies.posterior import Posterior, exact_posterior
from adobest_pp.studies.published import published_mechanism

__all__ = ["MEASURES", "run_once", "seed_of", "truth_of"]

_OF_POSTERIOR = ("exact_tv", "coverage", "width")


def seed_of(study_seed: int, cell: Cell, run: int) -> np.random.SeedSequence:
    """Return the seed of a run's people, answers and sampler: a function of the settings, not of their place in a grid.

    The prior of exact inference is left out: both priors see the same answers.
    """
    settings = json.loads(cell.key())
    del settings["prior"]
    return _seed(study_seed, settings, run)


def truth_of(study_seed: int, cell: Cell, run: int) -> NDArray[np.float64]:
    """Return θ* ~ Dirichlet(ρ), of shape (K,): the same for all methods of a run, which are thus compared in pairs."""
    rng = np.random.default_rng(_seed(study_seed, {"n_categories": cell.n_categories, "rho": cell.rho}, run))
    return draw_dirichlet(rng, np.full(cell.n_categories, cell.rho))


def run_once(cell: Cell, study_seed: int, run: int, measures: Sequence[str]) -> dict[str, float]:
    """Run one cell once.

    Parameters
    ----------
    cell : Cell
        The settings.
    study_seed, run : int
        Seed of the study and number of the run.
    measures : sequence of str
        Which of `MEASURES` to take.

    Returns
    -------
    dict
        One number for each of `measures`, the same on every machine with the same libraries.
    """
    theta = truth_of(study_seed, cell, run)
    seed = seed_of(study_seed, cell, run)
    outcome = _ask(cell, theta, seed) if cell.mechanism == "subset_selection" else _collect(cell, theta, seed)
    # Under SGLD the estimate is its own, and the posterior is needed only where it is asked for.
    if cell.sampler == "exact" or not set(measures).isdisjoint(_OF_POSTERIOR):
        outcome = replace(outcome, posterior=exact_posterior(outcome.responses, cell.prior, _fit_seed(seed)))
    return {name: _measure(name, outcome, theta) for name in measures}


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a run leaves: the answers, |S_t| (none for subset selection), SGLD's estimate and the exact posterior."""

    responses: Responses
    sizes: NDArray[np.int32] | None
    sgld: NDArray[np.float64] | None
    posterior: Posterior | None = None

    @property
    def exact(self) -> Posterior:
        assert self.posterior is not None
        return self.posterior


def _collect(cell: Cell, theta: NDArray[np.float64], seed: np.random.SeedSequence) -> _Outcome:
    """Run Algorithm 1.

    With the exact sampler a subset is chosen for K people at a time, 500 times in all with the paper's T = 500 K, which
    is what it can afford; and the collection makes no estimate of its own, since that of the exact posterior follows.
    """
    published, exact = cell.budgets == "published", cell.sampler == "exact"
    run = simulate(
        theta,
        _mechanism(cell),
        "semi_adaptive" if cell.alpha is not None else cell.method,
        alpha=cell.alpha,
        n_people=cell.n_people,
        sampler=cell.sampler,
        # As in the authors' program, where these are the published ones; its SRR publishes the empty subset.
        schedule=ConstantSteps(0.5 / cell.n_people) if published else None,
        smallest_size=1 if published and cell.method != "nonadaptive" else 0,
        adapt_every=cell.n_categories if exact else 1,
        final_updates=2 if exact else 2000,
        path_length=1,
        random_seed=seed,
    )
    return _Outcome(run.responses, run.sizes, None if exact else run.chain_mean)


def _ask(cell: Cell, theta: NDArray[np.float64], seed: np.random.SeedSequence) -> _Outcome:
    """Have people answer by subset selection, which does not adapt."""
    mechanism, rng = SubsetSelection(cell.n_categories, cell.epsilon), np.random.default_rng(seed)
    x = rng.choice(cell.n_categories, size=cell.n_people, p=theta)
    return _Outcome(Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), None, None)


def _fit_seed(seed: np.random.SeedSequence) -> int:
    """Return the seed of exact inference, apart from those that `simulate` makes for its people and its chain."""
    return int(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 2)).generate_state(1)[0])


def _mechanism(cell: Cell) -> RRRR:
    # What does not depend on κ publishes the empty subset only, for which every κ is the same SRR.
    kappa = 0.9 if cell.kappa is None else cell.kappa
    make = published_mechanism if cell.budgets == "published" and cell.kappa is not None else RRRR
    return make(cell.n_categories, cell.epsilon, kappa)


def _measure(name: str, outcome: _Outcome, theta: NDArray[np.float64]) -> float:
    match name:
        case "tv":
            return _distance(outcome.exact.mean if outcome.sgld is None else outcome.sgld, theta)
        case "exact_tv":
            return _distance(outcome.exact.mean, theta)
        case "coverage":
            return float(np.mean((outcome.exact.low <= theta) & (theta <= outcome.exact.high)))
        case "width":
            return float(np.mean(outcome.exact.high - outcome.exact.low))
        case "mean_size":
            return float("nan") if outcome.sizes is None else float(outcome.sizes.mean())
        case "true_epsilon":
            losses = _losses(outcome.responses.mechanism)
            used = losses if outcome.sizes is None else set(outcome.sizes.tolist())
            return float(max(losses[size] for size in used))
        case "honest":
            return float("nan") if outcome.sizes is None else _honest(outcome.responses, theta)
    raise ValueError(f"measures must be of {', '.join(map(repr, MEASURES))}, got {name!r}")


def _distance(estimate: NDArray[np.float64], theta: NDArray[np.float64]) -> float:
    return float(np.abs(estimate - theta).sum() / 2)


def _honest(responses: Responses, theta: NDArray[np.float64]) -> float:
    """Average P(Y_t = X_t) = Σ θ_x G[x, x] over the subsets S_t that were published."""
    mechanism, subsets = check_rrrr(responses.mechanism), responses.subsets
    inner, inner_own, outer, outer_own, _ = mechanism.coefficients
    sizes = subsets.sum(axis=1)
    own = np.where(subsets, (inner + inner_own)[sizes, None], (outer + outer_own)[sizes, None])
    return float((own @ theta)[responses.subset_index].mean())


@lru_cache(maxsize=64)
def _losses(mechanism: Mechanism) -> dict[int, float]:
    """Return the exact privacy loss for each subset size."""
    return {row.size: row.loss for row in audit(mechanism).rows}


def _seed(study_seed: int, settings: dict[str, object], run: int) -> np.random.SeedSequence:
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16).digest()
    return np.random.SeedSequence((study_seed, int.from_bytes(digest), run))
