"""Algorithm 1: ask for a subset, record an answer, sample; for real collections, and as a compiled simulation."""

from adobest_pp.online.collect_file import collect_csv
from adobest_pp.online.collector import AdaptiveCollector
from adobest_pp.online.simulation import OnlineRun, simulate

__all__ = ["AdaptiveCollector", "OnlineRun", "collect_csv", "simulate"]
