"""Is the sampling right? Functions of draws, never of samplers; each returns a labelled Dataset."""

from adobest_pp.diagnostics.accuracy import compare

__all__ = ["compare"]
