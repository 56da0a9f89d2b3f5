"""Collections of simulated people."""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.simulate.simulation import OnlineRun as OnlineRun
    from adobest_pp.simulate.simulation import simulate as simulate

_HOMES = {
    "OnlineRun": "simulation",
    "simulate": "simulation",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
