"""The likelihood in PyTensor and PyMC: all that needs either."""
