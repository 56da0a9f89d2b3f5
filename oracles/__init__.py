"""Everything again, slowly, straight from the definitions: what the fast paths are held to.

Nothing here imports adobest_pp. Tests and validation programs use it alike.
"""

from oracles.algorithm import algorithm_1, invert, langevin_update
from oracles.likelihoods import gradient, log_likelihood, phi_gradient_of_the_paper
from oracles.mechanisms import (
    exp_bracket,
    program_epsilon2,
    rrrr_matrix,
    srr_probability,
    subset_selection_matrix,
    theorem_epsilon2,
)
from oracles.posteriors import (
    beta_quadrature,
    concentration_posterior,
    learned_draws,
    learned_posterior_k2,
    posterior_moments_k2,
    posterior_moments_k3,
    posterior_moments_learned,
)
from oracles.response_rows import answer_row, answer_rows, rows_of
from oracles.utilities import (
    DENSE_UTILITIES,
    entropy_utility,
    fisher_utility,
    honest_utility,
    mse_utility,
    precise,
    precise_rrrr_matrix,
    squared_error,
    tv1_utility,
    tv2_utility,
)

__all__ = [
    "DENSE_UTILITIES",
    "algorithm_1",
    "answer_row",
    "answer_rows",
    "beta_quadrature",
    "concentration_posterior",
    "entropy_utility",
    "exp_bracket",
    "fisher_utility",
    "gradient",
    "honest_utility",
    "invert",
    "langevin_update",
    "learned_draws",
    "learned_posterior_k2",
    "log_likelihood",
    "mse_utility",
    "phi_gradient_of_the_paper",
    "posterior_moments_k2",
    "posterior_moments_k3",
    "posterior_moments_learned",
    "precise",
    "precise_rrrr_matrix",
    "program_epsilon2",
    "rows_of",
    "rrrr_matrix",
    "squared_error",
    "srr_probability",
    "subset_selection_matrix",
    "theorem_epsilon2",
    "tv1_utility",
    "tv2_utility",
]
