"""Everything again, slowly, straight from the definitions: fast code is compared with it.

Nothing here imports adobest_pp. Tests and validation programs use it alike.
"""

from oracles.algorithm import algorithm_1 as algorithm_1
from oracles.algorithm import langevin_update as langevin_update
from oracles.likelihoods import gradient as gradient
from oracles.likelihoods import log_likelihood as log_likelihood
from oracles.likelihoods import phi_gradient_of_the_paper as phi_gradient_of_the_paper
from oracles.mechanisms import exp_bracket as exp_bracket
from oracles.mechanisms import program_epsilon2 as program_epsilon2
from oracles.mechanisms import rrrr_matrix as rrrr_matrix
from oracles.mechanisms import srr_probability as srr_probability
from oracles.mechanisms import subset_selection_matrix as subset_selection_matrix
from oracles.mechanisms import theorem_epsilon2 as theorem_epsilon2
from oracles.posteriors import concentration_posterior as concentration_posterior
from oracles.posteriors import learned_draws as learned_draws
from oracles.posteriors import learned_posterior_k2 as learned_posterior_k2
from oracles.posteriors import posterior_moments_k2 as posterior_moments_k2
from oracles.posteriors import posterior_moments_k3 as posterior_moments_k3
from oracles.posteriors import posterior_moments_learned as posterior_moments_learned
from oracles.response_rows import answer_rows as answer_rows
from oracles.response_rows import rows_of as rows_of
from oracles.utilities import DENSE_UTILITIES as DENSE_UTILITIES
from oracles.utilities import fisher_utility as fisher_utility
from oracles.utilities import honest_utility as honest_utility
from oracles.utilities import precise as precise
from oracles.utilities import precise_rrrr_matrix as precise_rrrr_matrix
from oracles.utilities import squared_error as squared_error
