"""How our compiled density reaches nutpie: through its private class if we know it, else through its public function.

nutpie compiles PyMC models again in every process, which takes half a minute. Its class for a compiled model takes C
functions that are already compiled, but it is not a public interface. If another version of nutpie has changed that
class, the same posterior goes through `nutpie.compile_pymc_model`: slower to start, and with other draws of the same
distribution.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import nutpie
import pandas as pd  # type: ignore[import-untyped]
from numpy.typing import NDArray

from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp.samplers.densities import compiled_functions

if TYPE_CHECKING:
    from adobest_pp.data.gathered import Gathered
    from adobest_pp.data.responses import Responses

__all__ = ["from_c_functions", "from_pymc", "is_known"]

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
    responses: "Responses | Gathered",
    prior: NDArray[np.float64] | str,
    log_concentration: tuple[float, float] = LOG_CONCENTRATION,
) -> Any:
    """Return the posterior compiled by nutpie itself, from the PyMC model that says the same."""
    from adobest_pp.model.frequency import frequency_model

    if log_concentration != LOG_CONCENTRATION:
        raise RuntimeError(f"the law of ln a must be the package's with nutpie {nutpie.__version__}, which is unknown")
    return nutpie.compile_pymc_model(frequency_model(responses, prior))
