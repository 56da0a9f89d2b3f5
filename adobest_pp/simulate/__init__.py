"""Collections of simulated people: their answers protect nobody."""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.simulate.simulation import OnlineRun as OnlineRun
    from adobest_pp.simulate.simulation import simulate_adaptive as simulate_adaptive
    from adobest_pp.simulate.simulation import simulate_rounds as simulate_rounds

_HOMES = {
    "OnlineRun": "simulation",
    "simulate_adaptive": "simulation",
    "simulate_rounds": "simulation",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
