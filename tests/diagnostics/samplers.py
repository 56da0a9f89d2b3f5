"""Samplers of the posterior of two categories, from outside the package: an exact one, and broken ones."""

import os
import time

import numpy as np
import xarray as xr

from adobest_pp.diagnostics import references
from adobest_pp.samplers import Drawn

GRID = (np.arange(20_000) + 0.5) / 20_000


def exact(responses, prior, draws, tune, chains, seed):
    """Draw θ of two categories from its density on a fine grid."""
    theta = np.stack([GRID, 1 - GRID], axis=1)
    evidence = responses.evidence()
    log_density = evidence.count @ np.log(evidence.matrix() @ theta.T) + np.log(theta) @ (np.asarray(prior) - 1)
    weights = np.exp(log_density - log_density.max())
    rng = np.random.default_rng(seed)
    first = (
        rng.choice(GRID, size=(chains, draws), p=weights / weights.sum())
        + rng.uniform(-0.5, 0.5, (chains, draws)) / 20_000
    )
    return np.stack([first, 1 - first], axis=-1)


def wide(*arguments):
    """Draw with a standard deviation that is 1.1 times too large."""
    theta = exact(*arguments)
    center = theta.mean(axis=(0, 1))
    return np.clip(center + 1.1 * (theta - center), 0, 1)


def half(*arguments):
    """Miss the upper half of the posterior."""
    theta = exact(*arguments)
    low = theta[..., 0] <= np.median(theta[..., 0])
    first = np.stack([np.resize(chain[keep, 0], len(chain)) for chain, keep in zip(theta, low, strict=True)])
    return np.stack([first, 1 - first], axis=-1)


def shuffled(*arguments):
    """Mix up the draws of one category."""
    theta = exact(*arguments)
    theta[..., 0] = np.random.default_rng(0).permutation(theta[..., 0].ravel()).reshape(theta.shape[:2])
    return theta


def swapped(*arguments):
    """Swap the categories."""
    return exact(*arguments)[..., ::-1]


BROKEN = (wide, half, shuffled, swapped)


# Samplers that return no draws.


def raises(responses, prior, draws, tune, chains, seed):
    raise RuntimeError("chain 3\nbroke")


def hangs(*arguments):
    time.sleep(1000)


def spin(seconds):
    """Keep the processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def spins_later(responses, prior, draws, *others):
    if draws > 250:
        spin(1000)
    return exact(responses, prior, draws, *others)


def crashes(*arguments):
    os._exit(3)


def missing(*arguments):
    theta = exact(*arguments)
    theta[-1, -1] = np.nan
    return theta


def too_few(*arguments):
    return exact(*arguments)[:, :-1]


def one_dim(*arguments):
    return exact(*arguments)[0]


def nothing(*arguments):
    print("in the way of the replies?")  # noqa: T201


def tree_of(theta, categories):
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": list(categories)})
    return xr.DataTree.from_dict({"posterior": posterior})


def other_labels(*arguments):
    return tree_of(exact(*arguments), ["yes", "no"])


def counted(responses, prior, draws, tune, chains, seed):
    """Tell the gradients: ten for each draw."""
    theta = exact(responses, prior, draws, tune, chains, seed)
    return Drawn({"theta": theta}, attributes={"gradient_evaluations": 10 * chains * (draws + tune)})


# Samplers of a regression.


def archived(responses, prior, draws, tune, chains, seed, covariates):
    """Return draws of the archive itself, in another order: certainly right, and at once."""
    known = references.load("srr_regression").parameters
    flat = known.transpose("chain", "draw", ...).values.reshape(-1, covariates.shape[1] + 1, responses.n_categories - 1)
    chosen = np.random.default_rng(seed).choice(len(flat), chains * draws, replace=chains * draws > len(flat))
    return flat[chosen].reshape(chains, draws, *flat.shape[1:])


def wide_archived(*arguments, covariates):
    draws = archived(*arguments, covariates=covariates)
    mean = draws.mean(axis=(0, 1))
    return mean + 1.2 * (draws - mean)


def with_nan(responses, prior, draws, tune, chains, seed, covariates):
    draws = np.zeros((chains, draws, 3, 2))
    draws[1, 5] = np.nan
    return draws
