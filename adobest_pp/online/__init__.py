"""Algorithm 1: ask for a subset, record an answer, sample; for real collections, and as a compiled simulation."""

from adobest_pp.online.simulation import OnlineRun, simulate

__all__ = ["OnlineRun", "simulate"]
