"""Stochastic-gradient Langevin dynamics: settings, gradients, diffusions, the loop, the step method."""
