"""The two budgets of RRRR as the authors' program sets them for its utilities. **They are not ε-LDP**: to compare only.

The program (soneraydin/AdOBEst_LDP on GitHub, commit 9080c23, AdOBEst_LDP.m, lines 37 to 41) takes no logarithm in the
formula of Theorem 1, and puts |S| in the place of |Sᶜ|. For a claimed ε of 0.5, for instance, the true loss is up to
0.92; `RRRR.from_budgets` says how much in every case. Its SRR and its semi-adaptive methods have other budgets
(lines 32 to 34), ε₁ = ε and ε₂ = 0, which keep ε.
"""

import math

from adobest_pp.mechanisms import RRRR

__all__ = ["published_epsilon2", "published_mechanism"]


def published_epsilon2(size: int, epsilon: float, kappa: float) -> float:
    """Return ε₂ as the program has it for a subset of `size` categories, which breaks the promise of ε."""
    epsilon1 = kappa * epsilon
    if size > 0 and epsilon - epsilon1 < math.log(size):
        return min(epsilon, (size - 1) / (math.exp(epsilon1 - epsilon) * size - 1))
    return epsilon


def published_mechanism(n_categories: int, epsilon: float, kappa: float) -> RRRR:
    """Return what the program runs where it claims ε; the mechanism's own `epsilon` is its true, larger loss.

    Parameters
    ----------
    n_categories : int
        Number of categories K.
    epsilon, kappa : float
        The program's settings.
    """
    second = [published_epsilon2(size, epsilon, kappa) for size in range(n_categories)]
    return RRRR.from_budgets(n_categories, kappa * epsilon, second)
