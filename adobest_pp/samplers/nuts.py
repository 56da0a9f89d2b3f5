"""The ground truth: NUTS on the marginal posterior of θ.

The log-density on the unconstrained space, prior and transform included, is one function of K, prior and evidence
that Numba compiles to C once and keeps on disk: neither a second fit nor a second process compiles anything.
"""

import functools
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import nutpie
import pandas as pd  # type: ignore[import-untyped]
from numba import carray, njit, types
from numpy.typing import NDArray
from nutpie.compile_pymc import CompiledPyMCModel

from adobest_pp._simplex import log_theta, pull_to_free
from adobest_pp.likelihood import kernel_arguments, value_and_gradient
from adobest_pp.responses import Responses

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["sample_nuts"]

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
        adaptation="low_rank",
    )
    return tree


def _posterior(responses: Responses, prior: NDArray[np.float64]) -> CompiledPyMCModel:
    """Return what `nutpie.compile_pymc_model` would, around functions that are compiled already."""
    k = responses.n_categories
    log_density, expand = compiled_functions()
    return CompiledPyMCModel(
        dims={"theta": ("category",)},
        reparameterized_names=[],
        compiled_logp_func=log_density,
        compiled_expand_func=expand,
        initial_point_func=lambda seed: np.random.default_rng(seed).uniform(-1, 1, size=k - 1),
        shared_data={},
        shared_var_keys={},
        user_data=_pack(prior, *kernel_arguments(responses.evidence())),
        n_expanded=k,
        shape_info=(["theta"], [slice(0, k)], [(k,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=k - 1,
        _shapes={"theta": (k,)},
        _coords={"category": pd.Index(responses.categories)},
    )


def _pack(*arrays: NDArray[Any]) -> NDArray[np.int64]:
    """Join prior and evidence in one block of 8-byte words, after the numbers of rows, set members and offsets."""
    *_, count, members, offsets = arrays
    header = np.array([count.size, members.size, offsets.size])
    return np.concatenate([header, *(np.ascontiguousarray(array).view(np.int64) for array in arrays)])


@functools.cache
def compiled_functions() -> tuple[Any, Any]:
    """Return the C functions for nutpie, compiled or read from Numba's cache."""
    return numba.cfunc(_LOG_DENSITY, cache=True)(_log_density), numba.cfunc(_EXPAND, cache=True)(_expand)


def _log_density(dim, free_, gradient_, value_, block_):  # type: ignore[no-untyped-def]
    header = carray(block_, 3, np.int64)
    u, m, o = header[0], header[1], header[2]
    k = dim + 1
    start = 3 + k
    reals = carray(block_, start + 3 * u, np.float64)
    words = carray(block_, start + 6 * u + m + o, np.int64)
    value, gradient = log_density(
        carray(free_, dim),
        reals[3:start],
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
    logs = log_theta(carray(free_, dim))
    theta = carray(theta_, n_expanded)
    for i in range(n_expanded):
        theta[i] = np.exp(logs[i])
    return 0


@njit(cache=True)
def log_density(  # type: ignore[no-untyped-def]
    free, prior, base, own, inside, category, set_index, count, members, offsets
):
    """Return the log-density of the free coordinates, up to a constant, and its gradient."""
    logs = log_theta(free)
    theta = np.exp(logs)
    value, slope = value_and_gradient(theta, base, own, inside, category, set_index, count, members, offsets)
    # The Jacobian of the softmax is Πθ, which turns the prior's exponents ρ−1 into ρ.
    for i in range(theta.size):
        value += prior[i] * logs[i]
        slope[i] = slope[i] * theta[i] + prior[i]
    return value, pull_to_free(slope, theta)
