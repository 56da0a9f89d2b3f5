"""Reflected stochastic-gradient Langevin dynamics, in pieces: gradients, diffusions, the loop, the step method."""
