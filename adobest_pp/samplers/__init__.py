"""Samplers of θ given responses. Names are imported on first use: the compiled parts need no PyMC.

- `sample`: one call from responses to labelled draws, with NUTS, Gibbs or SGLD; `recorded_arguments` repeats it.
- `SGLD`, `SGLDCV` and `DataAugmentationGibbs`: PyMC step methods for models of your own.
- `nuts`, `gibbs`, `sgld` and `sgld_cv`: one algorithm each. `choice` decides which one a command uses, `checks` what
  convergence means.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.samplers.sampling import recorded_arguments as recorded_arguments
    from adobest_pp.samplers.sampling import sample as sample
    from adobest_pp.samplers.sgld.step import SGLD as SGLD
    from adobest_pp.samplers.steps import SGLDCV as SGLDCV
    from adobest_pp.samplers.steps import DataAugmentationGibbs as DataAugmentationGibbs

_HOMES = {
    "DataAugmentationGibbs": "steps",
    "SGLD": "sgld.step",
    "SGLDCV": "steps",
    "recorded_arguments": "sampling",
    "sample": "sampling",
}

__all__ = [*_HOMES]


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
