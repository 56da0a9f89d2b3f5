"""Stochastic-gradient Langevin dynamics as a PyMC step method."""

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pymc.blocking import RaveledVars
from pymc.distributions.transforms import _default_transform, log
from pymc.model import modelcontext
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state

from adobest_pp.samplers.gradients import EvidenceGradient, GradientEstimator, ModelGradient
from adobest_pp.samplers.langevin_settings import LangevinSettings
from adobest_pp.samplers.model_structure import surrogate_of, value_variables
from adobest_pp.samplers.schedules import Schedule

if TYPE_CHECKING:
    from pymc import Model

__all__ = ["SGLD"]


@dataclass_state
class SGLDState(StepMethodState):
    """What a chain needs to go on: besides its point and its random stream, updates made and the anchor's θ."""

    n_updates: int
    anchor: np.ndarray | None
    settings: LangevinSettings = field(metadata={"frozen": True})


class SGLD(ArrayStepShared):
    """Stochastic-gradient Langevin dynamics: a gradient estimator, a diffusion and steps.

    By default it is the paper's [2]_: one update estimates the gradient of the log-posterior from a batch of responses
    drawn with replacement, takes half a step γ along it, adds noise of variance γ, and reflects what became negative
    [1]_. There is no Metropolis correction: the error falls with the step, and for exact draws use
    `sample(..., "nuts")`.

    Parameters
    ----------
    vars : variable or list of variables (or of their names), optional
        Positive, untransformed variables of the model (``default_transform=None``); all by default.
    batch_size : int or None, default 50
        Responses in a batch (all of them at most); None uses the whole data at every update. Observed variables of
        different lengths have a batch each, and n, for the steps, is the greatest of the lengths.
    step_size : float, optional
        A constant step γ. The default, with `schedule` left out as well, is the paper's 0.5/n; for ``"log_ratio"`` and
        ``"cox_ingersoll_ross"`` it is 0.1, and 0.1·m/n with minibatches of m, whose noise grows with n.
    schedule : Schedule, optional
        Another rule for the steps: `DecayingSteps`, or any function of the update and the number of responses.
    updates_per_draw : int, default 1
        Updates made for each draw that is kept.
    diffusion : {"reflected", "preconditioned", "log_ratio", "cox_ingersoll_ross", "mirrored"}
        The paper's; the expanded mean of [3]_, which is better where categories may be empty; log-ratios of θ in the
        metric of the information; exact transitions of Gamma processes; log-ratios of θ without a metric. Their
        references are in the files of these names in `adobest_pp.samplers`.
    gradient : {"minibatch", "control_variates", "full"}
        A batch for the whole gradient; a batch for what has changed since an anchor near the mode, whose noise does not
        grow with n; or all evidence. A chain that has left its anchor takes another, where it is, before its next draw
        (`anchored_batch.has_left`). ``"control_variates"`` does not go with ``"cox_ingersoll_ross"``, whose shapes it
        may estimate as negative.

    Notes
    -----
    In a model such as that of `frequency_model(responses, surrogate=True)` the gradient comes from the compiled
    evidence of the answers, and takes 2 µs an update for any number of responses. In any other model it comes from the
    model's graph, and takes 30 µs for 10⁴ responses (K = 20); there the diffusion is ``"reflected"`` or
    ``"preconditioned"``, and the gradient has no control variates.

    Sampler stats: ``sgld_step_size`` and ``sgld_gradient_norm`` of a draw's last update, and ``sgld_reflections``
    (coordinates) and ``sgld_rejected`` (updates rejected because they were not finite), summed over the draw.

    See Also
    --------
    adobest_pp.sample : The same sampler without a model to write.
    adobest_pp.samplers.langevin_kernels : The equations.

    References
    ----------
    .. [1] M. Welling and Y. W. Teh, Bayesian Learning via Stochastic Gradient Langevin Dynamics, ICML 2011.
    .. [2] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.
    .. [3] S. Patterson and Y. W. Teh, Stochastic Gradient Riemannian Langevin Dynamics on the Probability
       Simplex, NeurIPS 2013.

    Examples
    --------
    >>> import pymc as pm
    >>> import adobest_pp as ad
    >>> with ad.frequency_model(responses, surrogate=True) as model:  # doctest: +SKIP
    ...     draws = pm.sample(step=ad.SGLD(model["phi"]))
    """

    name = "sgld"
    _state_class = SGLDState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "sgld_step_size": (np.float64, []),
        "sgld_gradient_norm": (np.float64, []),
        "sgld_reflections": (np.int64, []),
        "sgld_rejected": (np.int64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        batch_size: int | None = 50,
        step_size: float | None = None,
        schedule: Schedule | None = None,
        updates_per_draw: int = 1,
        diffusion: str = "reflected",
        gradient: str = "minibatch",
        model: "Model | None" = None,
        rng: Any = None,
        initial_point: dict[str, Any] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        self.settings = LangevinSettings.of(batch_size, step_size, schedule, updates_per_draw, diffusion, gradient)
        values = model.value_vars if vars is None else value_variables(vars, model, "vars")
        _check_positive_and_untransformed(values, model)
        surrogate = surrogate_of(model, values)
        self.estimator: GradientEstimator
        if surrogate is None:
            point = model.initial_point() if initial_point is None else initial_point
            self.estimator = ModelGradient(values, model, point, self.settings, compile_kwargs or {})
        else:
            self.estimator = EvidenceGradient(surrogate, self.settings)
        self.populations = self.estimator.populations()
        self.n_updates = 0
        super().__init__(values, self.estimator.shared, blocked=blocked, rng=rng)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain: its own random stream, the first update, and the data as they are now."""
        super().setup_chain(rng, tune, draws)
        self.populations = self.estimator.populations()
        self.estimator.restart()
        self.n_updates = 0

    @property
    def anchor(self) -> np.ndarray | None:
        """θ at the anchor of control variates; None without them."""
        return self.estimator.anchor

    @anchor.setter
    def anchor(self, theta: np.ndarray | None) -> None:
        self.estimator.anchor = theta

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, list[dict[str, Any]]]:
        """Make the updates of one draw."""
        phi = np.array(q0.data, dtype=np.float64)
        todo = self.settings.updates_per_draw
        randomness = self.settings.randomness(self.rng, self.n_updates, todo, self.populations, phi.size)
        norm, reflections, rejected = self.estimator.updates(self.rng, phi, randomness)
        self.n_updates += todo
        stats = {
            "sgld_step_size": randomness[0][-1],
            "sgld_gradient_norm": norm,
            "sgld_reflections": reflections,
            "sgld_rejected": rejected,
        }
        return RaveledVars(phi.astype(q0.data.dtype, copy=False), q0.point_map_info), [stats]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically: it is not exact."""
        return Competence.INCOMPATIBLE


def _check_positive_and_untransformed(values: Sequence[Any], model: "Model") -> None:
    for value in values:
        rv = model.values_to_rvs[value]
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            raise ValueError(
                f"vars must be untransformed: create {rv.name!r} with default_transform=None, "
                f"got it with the transform {transform.name!r}"
            )
        if _default_transform(rv.owner.op, rv) is not log:
            raise ValueError(f"vars must have all positive numbers as their support, got {rv.name!r}, a {rv.owner.op}")
