"""The ground truth: NUTS on the marginal posterior of θ.

The log-density on the unconstrained space, with prior and transform, is one function of K, prior and evidence. Numba
compiles it once and keeps it on disk (see `adobest_pp.samplers.nuts.densities`): a second fit or a second process
compiles nothing. `sample_nuts`, at the end, is what others call.
"""

import dataclasses
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
import nutpie
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from adobest_pp._checks import is_learned
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses
from adobest_pp.evidence import Evidence
from adobest_pp.likelihood.marginal import climb, gradient, log_likelihood
from adobest_pp.samplers.nuts.densities import choose_coordinates, compiled_functions, pack

if TYPE_CHECKING:
    import xarray as xr

# Posteriors that end at the boundary of the simplex bend sharply: at nutpie's 0.8 one draw in a hundred diverges.
TARGET_ACCEPT = 0.95
ADAPTATION: Literal["low_rank"] = "low_rank"
# A category is held for certain if the log-likelihood falls by this many nats without it. And the most steps of the
# search for a θ that has it empty.
CERTAIN = 10.0
MOST_CLIMBS = 50


# The posterior, in coordinates that suit it.


def _posterior(
    responses: Responses | Gathered, prior: NDArray[np.float64] | str, log_concentration: tuple[float, float]
) -> Any:
    """Return the posterior as nutpie takes it."""
    if not is_known():
        return from_pymc(responses, prior, log_concentration)
    evidence = responses.evidence()
    if isinstance(prior, str):
        scales, shifts, start = choose_coordinates(evidence, log_concentration[0])
        block = pack(scales, shifts, evidence, log_concentration)
        return from_c_functions(block, start, responses.categories, learned=True)
    boosted = prior < 1
    if boosted.any():
        boosted &= ~held_for_certain(evidence, prior)
    start = np.zeros(responses.n_categories - 1 + int(boosted.sum()))
    return from_c_functions(pack(prior, boosted, evidence), start, responses.categories, learned=False)


def held_for_certain(evidence: Evidence, prior: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which categories must have a share: without it the answers would be at least e^10 times less likely.

    A prior of small concentration ρ gives an empty category 1/ρ times the weight, which must be outweighed too: below
    ρ = 0.05 the factor is e^7/ρ.
    """
    k = evidence.n_categories
    if evidence.n_responses == 0:
        return np.zeros(k, dtype=bool)
    theta, _ = climb(evidence, tolerance=0.01, max_iterations=200)
    least = log_likelihood(theta, evidence) - np.maximum(CERTAIN, CERTAIN - 3 - np.log(prior))
    return np.array([_falls_below(least[i], theta * (np.arange(k) != i), evidence) for i in range(k)])


def _falls_below(level: float, rest: NDArray[np.float64], evidence: Evidence) -> bool:
    """Return whether no θ on the categories of `rest` has a log-likelihood of `level`: climb there from `rest`."""
    if not rest.any():
        return True
    theta, n, kept = rest / rest.sum(), evidence.n_responses, rest > 0
    for _ in range(MOST_CLIMBS):
        value, slope = log_likelihood(theta, evidence), gradient(theta, evidence)
        if value >= level:
            return False
        # The log-likelihood is concave: on these categories it exceeds its value by at most max ∇ − n.
        if value + slope[kept].max() - n < level:
            return True
        theta = theta * slope / n
        theta /= theta.sum()
    return True


# How our compiled density reaches nutpie: through its private class if we know it, else through its public function.
#
# nutpie compiles PyMC models again in every process, which takes half a minute. Its class for a compiled model takes C
# functions that are already compiled, but it is not a public interface. If another version of nutpie has changed that
# class, the same posterior goes through `nutpie.compile_pymc_model`: slower to start, and with other draws of the same
# distribution.

# What the class for a compiled model has in the versions that this was written for (0.16).
KNOWN_FIELDS = {
    "dims",
    "reparameterized_names",
    "compiled_logp_func",
    "compiled_expand_func",
    "initial_point_func",
    "shared_data",
    "shared_var_keys",
    "user_data",
    "n_expanded",
    "shape_info",
    "logp_func",
    "expand_func",
    "_n_dim",
    "_shapes",
    "_coords",
    "_transform_adapt_args",
}


def is_known() -> bool:
    """Tell whether nutpie's class for a compiled model is the one that this was written for."""
    try:
        from nutpie.compile_pymc import CompiledPyMCModel

        return {field.name for field in dataclasses.fields(CompiledPyMCModel)} == KNOWN_FIELDS
    except (ImportError, TypeError):
        return False


def from_c_functions(
    block: NDArray[np.int64], start: NDArray[np.float64], categories: tuple[str, ...], learned: bool
) -> Any:
    """Return what `nutpie.compile_pymc_model` would, around the C functions of `densities`.

    Parameters
    ----------
    block : array of int
        Prior and evidence, from `densities.pack`.
    start : array
        Where chains begin, but for a number between −1 and 1 added to each unconstrained coordinate.
    categories : tuple of str
        The labels.
    learned : bool
        Whether the concentration is learned, and drawn with θ.
    """
    from nutpie.compile_pymc import CompiledPyMCModel

    k = len(categories)
    shapes: dict[str, tuple[int, ...]] = {"theta": (k,)} | ({"concentration": ()} if learned else {})
    log_density, expand = compiled_functions()
    return CompiledPyMCModel(
        dims={"theta": ("category",)},
        reparameterized_names=[],
        compiled_logp_func=log_density,
        compiled_expand_func=expand,
        initial_point_func=lambda seed: start + np.random.default_rng(seed).uniform(-1, 1, size=start.size),
        shared_data={},
        shared_var_keys={},
        user_data=block,
        n_expanded=k + learned,
        shape_info=(list(shapes), [slice(0, k), slice(k, k + 1)][: len(shapes)], list(shapes.values())),
        logp_func=None,
        expand_func=None,
        _n_dim=start.size,
        _shapes=shapes,
        _coords={"category": pd.Index(categories)},
    )


def from_pymc(
    responses: Responses | Gathered,
    prior: NDArray[np.float64] | str,
    log_concentration: tuple[float, float] = LOG_CONCENTRATION,
) -> Any:
    """Return the posterior compiled by nutpie itself, from the PyMC model that says the same."""
    from adobest_pp.model.frequency import frequency_model

    if log_concentration != LOG_CONCENTRATION:
        raise RuntimeError(f"the law of ln a must be the package's with nutpie {nutpie.__version__}, which is unknown")
    return nutpie.compile_pymc_model(frequency_model(responses, prior))


# Sampling.


def sample_nuts(
    responses: Responses | Gathered,
    *,
    prior: NDArray[np.float64] | str,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | None,
    progressbar: bool,
    cores: int | None = None,
    log_mean: float = LOG_CONCENTRATION[0],
    log_sd: float = LOG_CONCENTRATION[1],
) -> "xr.DataTree":
    """Draw from the posterior of θ under a Dirichlet prior.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected; with none the posterior is the prior.
    prior : array of shape (K,) or "learned"
        The concentrations of the Dirichlet prior, positive; or the prior whose concentration a, the same for all
        categories, is learned: ln a is normal.
    draws, tune, chains : int
        Draws to keep and to discard in each chain, and the number of chains.
    random_seed : int, optional
        Equal seeds give equal draws.
    progressbar : bool
        Whether to show progress.
    cores : int, optional
        How many chains run at once; by default as many as the machine has cores.
    log_mean, log_sd : float
        Mean and standard deviation of ln a where it is learned. Only `validation/hyperprior.py` gives others.

    Returns
    -------
    xarray.DataTree
        With ``theta`` (chain, draw, category) in ``posterior``, and ``sample_stats``; and ``concentration``
        (chain, draw) where it is learned.
    """
    background = nutpie.sample(
        _posterior(responses, prior, (log_mean, log_sd)),
        blocking=False,
        draws=draws,
        tune=tune,
        chains=chains,
        cores=cores,
        seed=random_seed,
        progress_bar=progressbar,
        save_warmup=False,
        adaptation=ADAPTATION,
        target_accept=TARGET_ACCEPT,
    )
    tree = _finished(background)
    # Compiled from a PyMC model, the tree has its other variables too.
    wanted = ["theta", "concentration"] if is_learned(prior) else ["theta"]
    tree["posterior"] = tree["posterior"].to_dataset()[wanted]
    _check_complete(tree["posterior"].to_dataset(), chains, draws)
    return tree


def _finished(background: Any) -> "xr.DataTree":
    """Wait for the draws. Ctrl-C ends the sampler and is raised, where nutpie would return what it has so far."""
    try:
        tree: xr.DataTree = background.wait()
    except BaseException:
        background.cancel()
        raise
    return tree


def _check_complete(posterior: "xr.Dataset", chains: int, draws: int) -> None:
    """Raise RuntimeError unless every chain has all of its draws, and all of them are numbers."""
    for name, variable in posterior.data_vars.items():
        values = variable.values
        whole = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=2)
        if whole.shape != (chains, draws) or not whole.all():
            kept = ", ".join(map(str, whole.sum(axis=1)))
            raise RuntimeError(
                f"NUTS did not finish: of {draws} draws in each of {chains} chains, {name} is a number in {kept}"
            )


def describe_nuts() -> dict[str, Any]:
    """Return plain values to store with a run: what it was set to, and the versions that its draws depend on."""
    return {
        "target_accept": TARGET_ACCEPT,
        "adaptation": ADAPTATION,
        "nutpie_version": version("nutpie"),
        "numba_version": numba.__version__,
    }
