"""The log-likelihood of each response under each draw, for model comparison."""

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from adobest_pp.data.responses import Responses
from adobest_pp.likelihood.core import row_probabilities

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["add_log_likelihood"]


def add_log_likelihood(tree: "xr.DataTree", responses: Responses) -> None:
    """Add the group ``log_likelihood`` with ``y`` by chain, draw and response, as `arviz.loo` reads it."""
    import xarray as xr

    theta = np.asarray(tree["posterior"]["theta"].transpose("chain", "draw", "category").values, dtype=np.float64)
    evidence, row_of = responses.evidence_and_index()
    terms = np.empty((*theta.shape[:2], len(responses)))
    _row_logs(theta.reshape(-1, theta.shape[2]), evidence, row_of, terms.reshape(-1, len(responses)))
    coords = {name: tree["posterior"][name].values for name in ("chain", "draw")}
    tree["log_likelihood"] = xr.DataTree(xr.Dataset({"y": (("chain", "draw", "response"), terms)}, coords))


@njit(cache=True)
def _row_logs(thetas, evidence, row_of, out):  # type: ignore[no-untyped-def]
    for s in range(len(thetas)):
        h = row_probabilities(thetas[s], evidence)
        for u in range(h.size):
            h[u] = np.log(h[u]) + evidence.log_scale[u] if h[u] > 0.0 else -np.inf
        for i in range(row_of.size):
            out[s, i] = h[row_of[i]]
