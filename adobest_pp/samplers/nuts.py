"""The ground truth: NUTS on the marginal posterior of θ.

The log-density on the unconstrained space, prior and transform included, is one function of K, prior and evidence
that Numba compiles to C once and keeps on disk: neither a second fit nor a second process compiles anything.

Where a concentration ρ of the prior is below one, ln θ of an empty category spreads over 1/ρ and ends at a cliff, which
NUTS cannot follow. There θ ∝ ψ·U^(1/ρ), with ψ ~ Dirichlet(ρ+1) and U uniform, is the same prior [1]_; −ln U is one
coordinate more, with a scale of one. Categories that the answers show to be held have no need of it.

References
----------
.. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
   Mathematical Software 26(3).
"""

import functools
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
import nutpie
import pandas as pd  # type: ignore[import-untyped]
from numba import carray, njit, types
from numpy.typing import NDArray
from nutpie.compile_pymc import CompiledPyMCModel

from adobest_pp._simplex import log_theta, pull_to_free
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood import climb, kernel_arguments, log_likelihood, value_and_gradient
from adobest_pp.responses import Responses

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["describe_nuts", "sample_nuts"]

# Posteriors that end at the boundary of the simplex bend sharply: at nutpie's 0.8 one draw in a hundred diverges.
TARGET_ACCEPT = 0.95
ADAPTATION: Literal["low_rank"] = "low_rank"

_REALS = types.CPointer(types.double)
_LOG_DENSITY = types.int64(types.uint64, _REALS, _REALS, _REALS, types.voidptr)
_EXPAND = types.int64(types.uint64, types.uint64, _REALS, _REALS, types.voidptr)


def sample_nuts(
    responses: Responses,
    *,
    prior: NDArray[np.float64],
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | None,
    progressbar: bool,
) -> "xr.DataTree":
    """Draw from the posterior of θ under a Dirichlet prior.

    Parameters
    ----------
    responses : Responses
        What was collected; with none the posterior is the prior.
    prior : array of shape (K,)
        The concentrations of the Dirichlet prior, positive.
    draws, tune, chains : int
        Draws to keep and to discard in each chain, and the number of chains.
    random_seed : int, optional
        Equal seeds give equal draws.
    progressbar : bool
        Whether to show progress.

    Returns
    -------
    xarray.DataTree
        With ``theta`` (chain, draw, category) in ``posterior``, and ``sample_stats``.
    """
    tree: xr.DataTree = nutpie.sample(
        _posterior(responses, prior),
        draws=draws,
        tune=tune,
        chains=chains,
        seed=random_seed,
        progress_bar=progressbar,
        save_warmup=False,
        adaptation=ADAPTATION,
        target_accept=TARGET_ACCEPT,
    )
    return tree


def describe_nuts() -> dict[str, Any]:
    """Return plain values to store with a run: what it was set to, and the versions that its draws depend on."""
    return {
        "target_accept": TARGET_ACCEPT,
        "adaptation": ADAPTATION,
        "nutpie_version": version("nutpie"),
        "numba_version": numba.__version__,
    }


def _posterior(responses: Responses, prior: NDArray[np.float64]) -> CompiledPyMCModel:
    """Return what `nutpie.compile_pymc_model` would, around functions that are compiled already."""
    k = responses.n_categories
    evidence = responses.evidence()
    boosted = prior < 1
    if boosted.any():
        boosted &= ~held_for_certain(evidence)
    n_free = k - 1 + int(boosted.sum())
    log_density, expand = compiled_functions()
    return CompiledPyMCModel(
        dims={"theta": ("category",)},
        reparameterized_names=[],
        compiled_logp_func=log_density,
        compiled_expand_func=expand,
        initial_point_func=lambda seed: np.random.default_rng(seed).uniform(-1, 1, size=n_free),
        shared_data={},
        shared_var_keys={},
        user_data=_pack(prior, boosted.astype(np.int64), *kernel_arguments(evidence)),
        n_expanded=k,
        shape_info=(["theta"], [slice(0, k)], [(k,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=n_free,
        _shapes={"theta": (k,)},
        _coords={"category": pd.Index(responses.categories)},
    )


def _pack(*arrays: NDArray[Any]) -> NDArray[np.int64]:
    """Join prior and evidence in one block of 8-byte words, after the numbers of categories, rows, members, offsets."""
    prior, *_, count, members, offsets = arrays
    header = np.array([prior.size, count.size, members.size, offsets.size])
    return np.concatenate([header, *(np.ascontiguousarray(array).view(np.int64) for array in arrays)])


def held_for_certain(evidence: Evidence) -> NDArray[np.bool_]:
    """Return which categories must have a share: without it the answers would be e^10 times less likely."""
    k = evidence.n_categories
    if evidence.n_responses == 0:
        return np.zeros(k, dtype=bool)
    theta, _ = climb(evidence, tolerance=0.01, max_iterations=200)
    least = log_likelihood(theta, evidence) - 10
    others = theta * (1 - np.eye(k))
    return np.array([not rest.any() or log_likelihood(rest / rest.sum(), evidence) < least for rest in others])


@functools.cache
def compiled_functions() -> tuple[Any, Any]:
    """Return the C functions for nutpie, compiled or read from Numba's cache."""
    return numba.cfunc(_LOG_DENSITY, cache=True)(_log_density), numba.cfunc(_EXPAND, cache=True)(_expand)


def _log_density(dim, free_, gradient_, value_, block_):  # type: ignore[no-untyped-def]
    header = carray(block_, 4, np.int64)
    k, u, m, o = header[0], header[1], header[2], header[3]
    start = 4 + 2 * k
    reals = carray(block_, start + 3 * u, np.float64)
    words = carray(block_, start + 6 * u + m + o, np.int64)
    value, gradient = log_density(
        carray(free_, dim),
        reals[4 : 4 + k],
        words[4 + k : start],
        reals[start : start + u],
        reals[start + u : start + 2 * u],
        reals[start + 2 * u : start + 3 * u],
        words[start + 3 * u : start + 4 * u],
        words[start + 4 * u : start + 5 * u],
        words[start + 5 * u : start + 6 * u],
        words[start + 6 * u : start + 6 * u + m],
        words[start + 6 * u + m :],
    )
    carray(value_, 1)[0] = value
    out = carray(gradient_, dim)
    finite = np.isfinite(value)
    for i in range(dim):
        out[i] = gradient[i]
        finite &= np.isfinite(gradient[i])
    return 0 if finite else 1


def _expand(dim, n_expanded, free_, theta_, block_):  # type: ignore[no-untyped-def]
    prior = carray(block_, 4 + n_expanded, np.float64)[4:]
    boosted = carray(block_, 4 + 2 * n_expanded, np.int64)[4 + n_expanded :]
    _, theta = boosted_theta(carray(free_, dim), prior, boosted)
    out = carray(theta_, n_expanded)
    for i in range(n_expanded):
        out[i] = theta[i]
    return 0


@njit(cache=True)
def boosted_theta(free, prior, boosted):  # type: ignore[no-untyped-def]
    """Return ln ψ and θ of the free coordinates: K−1 of ψ, then ln(−ln U) of each boosted category."""
    n = prior.size
    log_psi = log_theta(free[: n - 1])
    theta = log_psi.copy()
    extra = n - 1
    largest = -np.inf
    for i in range(n):
        if boosted[i]:
            theta[i] -= np.exp(free[extra]) / prior[i]
            extra += 1
        largest = max(largest, theta[i])
    total = 0.0
    for i in range(n):
        theta[i] = np.exp(theta[i] - largest)
        total += theta[i]
    for i in range(n):
        theta[i] /= total
    return log_psi, theta


@njit(cache=True)
def log_density(  # type: ignore[no-untyped-def]
    free, prior, boosted, base, own, inside, category, set_index, count, members, offsets
):
    """Return the log-density of the free coordinates, up to a constant, and its gradient."""
    log_psi, theta = boosted_theta(free, prior, boosted)
    value, slope = value_and_gradient(theta, base, own, inside, category, set_index, count, members, offsets)
    average = 0.0
    for i in range(theta.size):
        average += slope[i] * theta[i]
    gradient = np.empty(free.size)
    extra = theta.size - 1
    for i in range(theta.size):
        # The Jacobian of the softmax is Πψ, which turns the exponents of the Dirichlet from ρ−1 into ρ.
        exponent = prior[i]
        slope[i] = theta[i] * (slope[i] - average)
        if boosted[i]:
            exponent += 1
            gap = np.exp(free[extra])
            value += free[extra] - gap
            gradient[extra] = 1 - gap - slope[i] * gap / prior[i]
            extra += 1
        value += exponent * log_psi[i]
        slope[i] += exponent
    gradient[: theta.size - 1] = pull_to_free(slope, np.exp(log_psi))
    return value, gradient
