"""The marginal likelihood of collapsed responses, compiled: value, gradient and maximum."""

from adobest_pp.likelihood.marginal import gradient, log_likelihood, maximum_likelihood, phi_gradient

__all__ = ["gradient", "log_likelihood", "maximum_likelihood", "phi_gradient"]
