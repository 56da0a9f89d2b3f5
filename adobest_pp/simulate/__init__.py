"""Collections of simulated people. The package is itself the function: ``ad.simulate(…)`` works once it is imported."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

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


class _Callable(ModuleType):
    """The import system sets ``adobest_pp.simulate`` to this package, over the function of that name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.simulate(*args, **options)


sys.modules[__name__].__class__ = _Callable
