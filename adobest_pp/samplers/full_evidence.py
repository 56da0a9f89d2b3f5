"""The gradient on all responses, without noise: each distinct row of evidence once, weighted by its count."""

from typing import NamedTuple

from numba import njit

from adobest_pp.data.evidence import Evidence
from adobest_pp.likelihood.core import value_and_gradient

__all__ = ["FullEvidence", "add_full_evidence"]


class FullEvidence(NamedTuple):
    """All evidence."""

    evidence: Evidence


@njit(cache=True)
def add_full_evidence(gradient, update, phi, slope):  # type: ignore[no-untyped-def]
    """Add ``Σ count·(g_i/h − 1)/Σφ`` over all rows to `slope`."""
    evidence = gradient.evidence
    total = phi.sum()
    _, by_theta = value_and_gradient(phi / total, evidence)
    n = evidence.count.sum()
    for i in range(phi.size):
        slope[i] += (by_theta[i] - n) / total
