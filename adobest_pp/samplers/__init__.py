"""Samplers of θ given responses. Names are imported on first use: the compiled parts need no PyMC."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adobest_pp.samplers.gibbs import DataAugmentationGibbs as DataAugmentationGibbs
    from adobest_pp.samplers.sampling import recorded_arguments as recorded_arguments
    from adobest_pp.samplers.sampling import sample as sample
    from adobest_pp.samplers.sgld import ReflectedSGLD as ReflectedSGLD

_HOMES = {
    "DataAugmentationGibbs": "gibbs",
    "ReflectedSGLD": "sgld",
    "recorded_arguments": "sampling",
    "sample": "sampling",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
