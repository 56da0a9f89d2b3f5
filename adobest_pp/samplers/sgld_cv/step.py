"""SGLD with control variates as a PyMC step method."""

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from adobest_pp._random import seed_state
from adobest_pp.samplers.model_structure import DirichletStep, Point
from adobest_pp.samplers.sgld_cv.dynamics import position_of, underdamped_draws
from adobest_pp.samplers.sgld_cv.sampler import FRICTION, Chains, Choices, check_prior_of_sgld_cv

if TYPE_CHECKING:
    from pymc import Model

# The pilots: draws of each chain, chains, and their seed. They are made once.
TUNE, CHAINS, SEED = 500, 4, 0


@dataclass_state
class SGLDCVState(StepMethodState):
    """What a chain needs to go on: where it is in its coordinates, its momentum, its generator and θ there."""

    x: np.ndarray
    momentum: np.ndarray
    words: np.ndarray
    theta: np.ndarray
    choices: Choices = field(metadata={"frozen": True})


class SGLDCV(DirichletStep):
    """SGLD that samples the posterior, for θ with a Dirichlet prior of constant concentration.

    Pilots choose the anchor of the control variates, the coordinates, the step and the batch when the step method is
    made, as `sample(..., "sgld_cv")` does; chains then go on from where the model starts them.

    Parameters
    ----------
    theta : variable or str
        The category probabilities. They must enter one `PrivateResponse` and nothing else, and no other variable may
        enter their concentrations, of at least 0.01.

    Notes
    -----
    Sampler stat: ``sgld_cv_virial``. Its mean is 1 for draws of the posterior: see `adobest_pp.samplers.sgld_cv`.

    See Also
    --------
    adobest_pp.sample : The same sampler without a model to write, with a check of the finished run.

    Examples
    --------
    >>> import pymc as pm
    >>> import adobest_pp as ad
    >>> with ad.frequency_model(responses) as model:  # doctest: +SKIP
    ...     draws = pm.sample(step=ad.SGLDCV(model["theta"]))
    """

    name = "sgld_cv"
    _state_class = SGLDCVState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"sgld_cv_virial": (np.float64, [])}

    def __init__(
        self,
        theta: Any,
        *,
        model: "Model | None" = None,
        rng: Any = None,
        compile_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(theta, model=model, rng=rng, compile_kwargs=compile_kwargs)
        if self._prior_inputs:
            raise ValueError(
                f"theta must have a constant concentration, got one that depends on {', '.join(self._prior_inputs)}"
            )
        prior = self.prior_of({})
        check_prior_of_sgld_cv(prior)
        chains = Chains(self.evidence, prior, CHAINS, SEED)
        chains.warm_up(TUNE, lambda _: None)
        self._target, self.choices = chains.target, chains.choices
        self._restart()

    def _restart(self) -> None:
        k = self.evidence.n_categories
        self.x, self.theta = np.zeros(k), np.full(k, np.nan)
        self.momentum = self.rng.standard_normal(k)
        self.words = seed_state(int(self.rng.integers(2**63)))

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain: its own random stream, and another momentum."""
        super().setup_chain(rng, tune, draws)
        self._restart()

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """Make the updates of one draw."""
        theta, k = self.theta_of(point), self.evidence.n_categories
        if not np.allclose(theta, self.theta, rtol=1e-6, atol=1e-12):
            self.x = position_of(theta, self._target.coordinates, self.rng)
        draw, force, virial = np.empty((1, k)), np.empty(k), np.zeros(k)
        options = (self.choices.batch, self.choices.step, FRICTION, self.choices.updates_per_draw)
        underdamped_draws(self.words, self.x, self.momentum, *self._target, *options, draw, force, virial)
        if not np.isfinite(draw).all():
            raise RuntimeError(f"'sgld_cv' did not finish: it left the finite numbers at a step of {options[1]:.2g}")
        self.theta = draw[0]
        mean = virial.mean() / self.choices.updates_per_draw
        return self.moved(point, self.theta), [{"sgld_cv_virial": float(mean)}]
