"""Collections of real people's answers."""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.collect.adaptive_collector import AdaptiveCollector as AdaptiveCollector
    from adobest_pp.collect.design_collector import DesignCollector as DesignCollector
    from adobest_pp.collect.people_file import collect_csv as collect_csv
    from adobest_pp.collect.plain_collector import PlainCollector as PlainCollector
    from adobest_pp.collect.policies import AdaptiveSubset as AdaptiveSubset

_HOMES = {
    "AdaptiveSubset": "policies",
    "AdaptiveCollector": "adaptive_collector",
    "DesignCollector": "design_collector",
    "PlainCollector": "plain_collector",
    "collect_csv": "people_file",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
