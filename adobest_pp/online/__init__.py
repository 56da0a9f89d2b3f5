"""Algorithm 1: ask for a subset, record an answer, sample; for real collections, and as a compiled simulation.

Names are imported on first use: samplers draw their random numbers by `fast_random`, and the loop uses samplers.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.online.collect_file import collect_csv as collect_csv
    from adobest_pp.online.collector import AdaptiveCollector as AdaptiveCollector
    from adobest_pp.online.design_collector import DesignCollector as DesignCollector
    from adobest_pp.online.plain_collector import PlainCollector as PlainCollector
    from adobest_pp.online.simulation import OnlineRun as OnlineRun
    from adobest_pp.online.simulation import simulate as simulate

_HOMES = {
    "AdaptiveCollector": "collector",
    "DesignCollector": "design_collector",
    "OnlineRun": "simulation",
    "PlainCollector": "plain_collector",
    "collect_csv": "collect_file",
    "simulate": "simulation",
}

__all__ = [*_HOMES]


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
