"""The two budgets of RRRR as the authors' program sets them. **They are not ε-LDP**: for comparison only.

The program takes no logarithm in the formula of Theorem 1, and puts |S| in the place of |Sᶜ|. What it runs for a
claimed ε of 0.5 truly loses up to 0.92, for instance; `RRRR.from_budgets` says how much in every case.
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
        What the program is told.
    """
    second = [published_epsilon2(size, epsilon, kappa) for size in range(n_categories)]
    return RRRR.from_budgets(n_categories, kappa * epsilon, second)
