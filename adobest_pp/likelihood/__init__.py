"""The marginal likelihood of collapsed responses.

- `log_likelihood`, `gradient`, `phi_gradient` and `maximum_likelihood`, with checked arguments.
- `grid_posterior`: the posterior of two or three categories on a grid.
- `core`: the compiled functions behind them, which every sampler calls.
"""

from adobest_pp.likelihood.marginal import (
    GridPosterior,
    gradient,
    grid_posterior,
    log_likelihood,
    maximum_likelihood,
    phi_gradient,
)

__all__ = ["GridPosterior", "gradient", "grid_posterior", "log_likelihood", "maximum_likelihood", "phi_gradient"]
