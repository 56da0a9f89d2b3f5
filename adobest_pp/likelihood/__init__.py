"""The marginal likelihood of collapsed responses.

- `log_likelihood`, `gradient`, `phi_gradient` and `maximum_likelihood`, with checked arguments.
- `core`: the compiled functions behind them, which every sampler calls.
"""

from adobest_pp.likelihood.marginal import gradient, log_likelihood, maximum_likelihood, phi_gradient

__all__ = ["gradient", "log_likelihood", "maximum_likelihood", "phi_gradient"]
