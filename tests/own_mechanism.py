"""A mechanism of one's own, as a user writes it in a file of their own: a neighbour is likelier than a stranger."""

from dataclasses import dataclass

import numpy as np

from adobest_pp.mechanisms import FiniteMechanism, register
from adobest_pp.mechanisms.exact import UNIT, exp_weight


@register
@dataclass(frozen=True)
class Neighbors(FiniteMechanism):
    """Answer the truth with odds e^ε, the next category with odds e^(ε/2), any other with odds 1."""

    n_categories: int
    epsilon: float

    def exact_weights(self):
        """Return the odds as integers; every column has the same sum."""
        weights = np.full((self.n_categories, self.n_categories), UNIT, dtype=object)
        x = np.arange(self.n_categories)
        weights[(x + 1) % self.n_categories, x] = exp_weight(self.epsilon / 2)
        weights[x, x] = exp_weight(self.epsilon)
        return weights
