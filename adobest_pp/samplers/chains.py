"""Whole chains of the compiled samplers, without PyMC, which adds some hundred microseconds to each draw.

Each is a generator over blocks of draws, so that the caller can show progress or stop.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.samplers.augmentation import dirichlet, gibbs_draws
from adobest_pp.samplers.pieces import Langevin

__all__ = ["gibbs_chain", "sgld_chain"]

# The most draws in a block, random numbers held at once, and rows of evidence visited. A block takes a second or two:
# Ctrl-C is handled between blocks only.
BLOCK = 200
MAX_NUMBERS = 2_000_000
MAX_ROWS = 100_000_000

Block = tuple[NDArray[np.float64], dict[str, NDArray[np.generic]]]


def gibbs_chain(
    evidence: Evidence, prior: NDArray[np.float64], n_draws: int, rng: np.random.Generator
) -> Iterator[Block]:
    """Yield blocks of θ and of stats, from a start drawn from the prior.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    prior : array of shape (K,)
        Concentration of the Dirichlet prior.
    n_draws : int
        Draws in all.
    rng : numpy.random.Generator
        The chain's own.
    """
    theta = np.empty(prior.size)
    dirichlet(rng, prior, theta)
    block = max(1, min(BLOCK, MAX_ROWS // (10 * (evidence.n_rows + prior.size * (evidence.n_sets + 1)))))
    for start in range(0, n_draws, block):
        draws = np.empty((min(block, n_draws - start), prior.size))
        before = theta.copy()
        gibbs_draws(rng, theta, prior, evidence, draws)
        distance = 0.5 * np.abs(np.diff(draws, axis=0, prepend=before[None])).sum(axis=1)
        yield draws, {"gibbs_distance": distance}


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
