"""Dirichlet draws that do not underflow to zero if concentrations are small.

With ρ = 0.01 one share in three is below 10⁻⁴³. NumPy uses stick-breaking there, so a share below the rounding error of
the rest becomes exactly zero. Here shares are drawn on the log scale, and stay positive [1]_.

References
----------
.. [1] G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
   Mathematical Software 26(3).
"""

from typing import Final

import numpy as np

from adobest_pp._types import Floats, Integers

# The learned prior, θ ~ Dirichlet(a, …, a): mean and standard deviation of ln a. With 95 % probability a is between
# 0.0025 (nearly everybody in one category) and 7.4 (nearly equal shares). `python -m validation.hyperprior` compares it
# with others.
LOG_CONCENTRATION = (-2.0, 2.0)

# The prior of every estimate that people see: in `plan`, collections, reports and commands. If most categories are
# empty, its mean is several times closer to the truth than under the flat prior, and otherwise as close. Its intervals
# miss rare answers, so the intervals that people see do not use it (`adobest_pp.intervals`). The default of `sample` is
# the paper's flat prior, which every sampler accepts. `python -m validation.fixed_truths` shows the trade-off.
ESTIMATE_PRIOR: Final = "learned"

# NumPy's gamma variates of this shape and above are zero less than once in 10³⁰ draws.
SAFE = 0.1


def draw_dirichlet(rng: np.random.Generator, concentration: Floats) -> Floats:
    """Draw θ ~ Dirichlet(ρ): a share is zero only if it is below the smallest double, 5·10⁻³²⁴.

    Parameters
    ----------
    rng : numpy.random.Generator
        Advanced by the draw. If all concentrations are at least 0.1, the draw is NumPy's own.
    concentration : array of shape (K,)
        ρ, positive.
    """
    if concentration.min() >= SAFE:
        return rng.dirichlet(concentration)
    theta = np.exp(draw_log_dirichlet(rng, concentration))
    return np.asarray(theta / theta.sum())


def draw_log_dirichlet(rng: np.random.Generator, concentration: Floats) -> Floats:
    """Draw ln θ for θ ~ Dirichlet(ρ), through ln Gamma(ρ) = ln Gamma(ρ + 1) + ln(U)/ρ with U uniform on (0, 1]."""
    logs = np.log(rng.standard_gamma(concentration + 1)) + np.log1p(-rng.random(concentration.size)) / concentration
    return np.asarray(logs - np.logaddexp.reduce(logs))


def draw_people(rng: np.random.Generator, theta: Floats, n_people: int) -> Integers:
    """Draw the categories x of simulated people from θ, of shape (n_people,); θ must sum to one."""
    return rng.choice(theta.size, size=n_people, p=theta)
