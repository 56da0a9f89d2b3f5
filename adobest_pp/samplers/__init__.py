"""Samplers of θ given responses. Names are imported on first use: the compiled parts need no PyMC.

- `sample`: one call from responses to labelled draws, with NUTS, Gibbs, SGLD or a sampler of your own;
  `recorded_arguments` repeats it.
- `register_sampler`, `register_diffusion` and `register_gradient`: names for samplers and pieces of SGLD of your own.
  `resolve` finds a sampler, and `Drawn` is what one may return.
- `SGLD`, `SGLDCV` and `DataAugmentationGibbs`: PyMC step methods for models of your own.
- `nuts`, `gibbs`, `sgld`, `sgld_cv` and `blocks`: one algorithm each. `choice` decides which one a command uses,
  `checks` what convergence means.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.samplers.registry import Drawn as Drawn
    from adobest_pp.samplers.registry import register_diffusion as register_diffusion
    from adobest_pp.samplers.registry import register_gradient as register_gradient
    from adobest_pp.samplers.registry import register_sampler as register_sampler
    from adobest_pp.samplers.registry import resolve as resolve
    from adobest_pp.samplers.sampling import recorded_arguments as recorded_arguments
    from adobest_pp.samplers.sampling import sample as sample
    from adobest_pp.samplers.sgld.step import SGLD as SGLD
    from adobest_pp.samplers.steps import SGLDCV as SGLDCV
    from adobest_pp.samplers.steps import DataAugmentationGibbs as DataAugmentationGibbs

_HOMES = {
    "DataAugmentationGibbs": "steps",
    "Drawn": "registry",
    "SGLD": "sgld.step",
    "SGLDCV": "steps",
    "recorded_arguments": "sampling",
    "register_diffusion": "registry",
    "register_gradient": "registry",
    "register_sampler": "registry",
    "resolve": "registry",
    "sample": "sampling",
}

__all__ = [*_HOMES]


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
