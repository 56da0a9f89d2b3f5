"""Algorithm 1, compiled: choose a subset, take an answer, update the sampler. Simulations and collections run it."""
