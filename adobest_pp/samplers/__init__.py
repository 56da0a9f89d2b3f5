"""Samplers of θ given responses. The compiled parts import without PyMC."""
