"""One run of one cell: a truth is drawn, people are asked, and the estimate is measured against the truth."""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from adobest_pp.mechanisms import RRRR, audit
from adobest_pp.online import OnlineRun, simulate
from adobest_pp.samplers.schedules import ConstantSteps
from adobest_pp.studies.design import Cell
from adobest_pp.studies.measures import MEASURES
from adobest_pp.studies.published import published_mechanism

__all__ = ["MEASURES", "run_once", "seed_of", "truth_of"]


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
    return rng.dirichlet(np.full(cell.n_categories, cell.rho))


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
    outcome = _collect(cell, theta, seed_of(study_seed, cell, run))
    return {name: _measure(name, outcome, theta) for name in measures}


def _collect(cell: Cell, theta: NDArray[np.float64], seed: np.random.SeedSequence) -> OnlineRun:
    published = cell.budgets == "published"
    return simulate(
        theta,
        _mechanism(cell),
        "semi_adaptive" if cell.alpha is not None else cell.method,
        alpha=cell.alpha,
        n_people=cell.n_people,
        sampler=cell.sampler,
        # As in the authors' program, where these are the published ones.
        schedule=ConstantSteps(0.5 / cell.n_people) if published else None,
        smallest_size=1 if published else 0,
        path_length=1,
        random_seed=seed,
    )


def _mechanism(cell: Cell) -> RRRR:
    # What does not depend on κ publishes the empty subset only, for which every κ is the same SRR.
    kappa = 0.9 if cell.kappa is None else cell.kappa
    make = published_mechanism if cell.budgets == "published" else RRRR
    return make(cell.n_categories, cell.epsilon, kappa)


def _measure(name: str, outcome: OnlineRun, theta: NDArray[np.float64]) -> float:
    match name:
        case "tv":
            return float(np.abs(outcome.estimate - theta).sum() / 2)
        case "mean_size":
            return float(outcome.sizes.mean())
        case "true_epsilon":
            mechanism = outcome.responses.mechanism
            assert isinstance(mechanism, RRRR)
            losses = _losses(mechanism)
            return max(losses[size] for size in set(outcome.sizes.tolist()))
        case "honest":
            return _honest(outcome, theta)
    raise ValueError(f"measures must be of {', '.join(map(repr, MEASURES))}, got {name!r}")


def _honest(outcome: OnlineRun, theta: NDArray[np.float64]) -> float:
    """Average P(Y_t = X_t) = Σ θ_x G[x, x] over the subsets S_t that were published."""
    mechanism, subsets = outcome.responses.mechanism, outcome.responses.subsets
    assert isinstance(mechanism, RRRR)
    inner, inner_own, outer, outer_own, _ = mechanism.coefficients
    sizes = subsets.sum(axis=1)
    own = np.where(subsets, (inner + inner_own)[sizes, None], (outer + outer_own)[sizes, None])
    return float((own @ theta)[outcome.responses.subset_index].mean())


@lru_cache(maxsize=64)
def _losses(mechanism: RRRR) -> tuple[float, ...]:
    """Return the exact privacy loss for each subset size."""
    return tuple(row.loss for row in audit(mechanism).rows)


def _seed(study_seed: int, settings: dict[str, object], run: int) -> np.random.SeedSequence:
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16).digest()
    return np.random.SeedSequence((study_seed, int.from_bytes(digest), run))
