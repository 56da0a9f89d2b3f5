"""The paper's gradient estimator: a batch of responses, each standing for n/m of them [1]_.

References
----------
.. [1] M. Welling and Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import add_to_set, row_probability, row_pull, set_mass

__all__ = ["Minibatch", "add_minibatch"]


class Minibatch(NamedTuple):
    """Evidence, the rows of each update's batch (T, m), and n/m: how many responses one of the batch stands for."""

    evidence: Evidence
    rows: NDArray[np.int64]
    scale: float


@njit(cache=True)
def add_minibatch(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add ``scale · Σ_{u ∈ batch} (g_{u,i}/h_u − 1)/Σφ`` to `slope`, with h at θ = φ/Σφ.

    That is O(1) for a row without a set and O(|S|) for a row with one. NaN if rounding made a probability non-positive;
    the diffusion then rejects the update.
    """
    evidence, rows, scale = gradient.evidence, gradient.rows[update], gradient.scale
    total = phi.sum()
    shared = 0.0
    for j in range(rows.size):
        u = rows[j]
        v = evidence.set_index[u]
        mass = set_mass(v, phi, evidence) if v >= 0 else 0.0
        # With φ in the place of θ, h is Σφ times as large. That makes the division by Σφ that the chain rule asks for.
        h = row_probability(u, phi, total, mass, evidence)
        by_total, by_mass = row_pull(u, scale / h if h > 0.0 else np.nan, evidence, slope)
        shared += by_total
        if v >= 0:
            add_to_set(v, by_mass, evidence, slope)
    shared -= scale * rows.size / total
    for i in range(phi.size):
        slope[i] += shared
