"""Stochastic-gradient Langevin dynamics as a PyMC step method."""

from collections.abc import Sequence
from dataclasses import field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.blocking import RaveledVars
from pymc.distributions.transforms import _default_transform, log
from pymc.model import modelcontext
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import join_nonshared_inputs, make_shared_replacements
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from adobest_pp._types import Floats, Integers
from adobest_pp.samplers.registry import DIFFUSIONS
from adobest_pp.samplers.sgld.loop import Langevin, advance
from adobest_pp.samplers.sgld.settings import LangevinSettings, Schedule
from adobest_pp.samplers.steps import surrogate_of, value_variables

if TYPE_CHECKING:
    from pymc import Model


# Step sizes, batches and noise, from `LangevinSettings.randomness`.
Randomness = tuple[Floats, Integers, Floats]


@dataclass_state
class SGLDState(StepMethodState):
    """What a chain needs to continue, besides its point and its random stream: updates made and what pieces carry."""

    n_updates: int
    anchor: np.ndarray | None
    memory: np.ndarray
    settings: LangevinSettings = field(metadata={"frozen": True})


class SGLD(ArrayStepShared):
    """Stochastic-gradient Langevin dynamics: a gradient estimator, a diffusion and steps.

    By default it is the paper's [2]_: one update estimates the gradient of the log-posterior from a batch of responses
    drawn with replacement, takes half a step γ along it, adds noise of variance γ, and reflects what became negative
    [1]_. There is no Metropolis correction, so the error falls with the step. For exact draws use
    `sample(..., "nuts")`.

    Parameters
    ----------
    vars : variable or list of variables (or of their names), optional
        Positive, untransformed variables of the model (``default_transform=None``); all by default.
    batch_size : int or None, default 50
        Responses in a batch (at most all of them); None uses all data at every update. Observed variables of different
        lengths have a batch each, and n, for the steps, is the largest length.
    step_size : float, optional
        A constant step γ. The default, with `schedule` left out as well, is the paper's 0.5/n for ``"reflected"``,
        ``"preconditioned"``, ``"skew_reflected"`` and ``"mirrored"``. For the other diffusions it is 0.1, and 0.1·m/n
        with batches of m, whose noise grows with n, unless the gradient is ``"control_variates"``.
    schedule : Schedule, optional
        Another rule for the steps: `DecayingSteps`, or any function of the update and the number of responses.
    updates_per_draw : int, default 1
        Updates made for each draw that is kept.
    diffusion : str, default "reflected"
        A registered name. ``"reflected"`` is the paper's; ``"preconditioned"`` is the expanded mean of [3]_, which is
        better where categories may be empty; ``"log_ratio"`` moves log-ratios of θ in the metric of the information,
        and ``"mirrored"`` without one; ``"cox_ingersoll_ross"`` makes exact transitions of Gamma processes. These
        and ``"skew_reflected"``, ``"sghmc"``, ``"sgnht"``, ``"barker"`` and ``"amagold"`` are explained in
        `adobest_pp.samplers.sgld.diffusions`, with references.
    gradient : str, default "minibatch"
        A registered name. ``"minibatch"`` estimates the whole gradient from a batch; ``"control_variates"`` estimates
        only the change since an anchor near the mode, so that its noise does not grow with n; ``"svrg"`` does the same
        with a new snapshot in every period; ``"full"`` takes all evidence. With control variates, a chain that has left
        its anchor gets a new one at its position before its next draw (`has_left`). ``"control_variates"`` and
        ``"svrg"`` do not work with ``"cox_ingersoll_ross"``, whose shapes they may estimate as negative.

    Notes
    -----
    In a model such as that of `frequency_model(responses, surrogate=True)` the gradient comes from the compiled
    evidence of the answers, and takes 2 µs an update for any number of responses. In any other model it comes from the
    model's graph, and takes 30 µs for 10⁴ responses (K = 20); there the diffusion is ``"reflected"``,
    ``"preconditioned"`` or ``"skew_reflected"``, and the gradient ``"minibatch"`` or ``"full"``.

    Sampler stats: ``sgld_step_size`` and ``sgld_gradient_norm`` of a draw's last update, and ``sgld_reflections``
    (coordinates) and ``sgld_rejected`` (updates rejected because they were not finite), summed over the draw.

    See Also
    --------
    adobest_pp.sample : The same sampler without a model to write.
    adobest_pp.samplers.sgld.loop : The equations.

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
    surrogate = True
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
        self.estimator: Langevin | ModelGradient
        if surrogate is None:
            point = model.initial_point() if initial_point is None else initial_point
            self.estimator = ModelGradient(values, model, point, self.settings, compile_kwargs or {})
        else:
            self.estimator = Langevin(surrogate.evidence, surrogate.row_of, surrogate.prior, self.settings)
        self.populations = self.estimator.populations()
        self.n_updates = 0
        super().__init__(values, self.estimator.shared, blocked=blocked, rng=rng)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain, with a random stream of its own and the current data."""
        super().setup_chain(rng, tune, draws)
        self.populations = self.estimator.populations()
        self.estimator.restart()
        self.n_updates = 0

    @property
    def anchor(self) -> np.ndarray | None:
        """θ at the anchor of control variates; None without them."""
        found = self.estimator.anchor if isinstance(self.estimator, Langevin) else None
        return None if found is None else found.theta

    @anchor.setter
    def anchor(self, theta: np.ndarray | None) -> None:
        if isinstance(self.estimator, Langevin):
            self.estimator.anchor = None if theta is None else self.estimator.anchor_at(theta)

    @property
    def memory(self) -> np.ndarray:
        """What the diffusion, and then the gradient, carry from update to update."""
        return np.concatenate([getattr(self.estimator.diffusion, "memory", np.empty(0)), self.estimator.memory])

    @memory.setter
    def memory(self, values: np.ndarray) -> None:
        of_diffusion = getattr(self.estimator.diffusion, "memory", np.empty(0))
        of_diffusion[:] = values[: of_diffusion.size]
        self.estimator.memory = values[of_diffusion.size :].copy()

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, list[dict[str, Any]]]:
        """Make the updates of one draw."""
        phi = np.array(q0.data, dtype=np.float64)
        todo = self.settings.updates_per_draw
        randomness = self.settings.randomness(self.rng, self.n_updates, todo, self.populations, phi.size)
        if isinstance(self.estimator, Langevin):
            norm, reflections, rejected = self._updates_of_surrogate(self.estimator, phi, randomness)
        else:
            norm, reflections, rejected = self.estimator.updates(self.rng, phi, randomness)
        self.n_updates += todo
        stats = {
            "sgld_step_size": randomness[0][-1],
            "sgld_gradient_norm": norm,
            "sgld_reflections": reflections,
            "sgld_rejected": rejected,
        }
        return RaveledVars(phi.astype(q0.data.dtype, copy=False), q0.point_map_info), [stats]

    def _updates_of_surrogate(
        self, langevin: Langevin, phi: Floats, randomness: "Randomness"
    ) -> tuple[float, int, int]:
        """Run all updates in one compiled loop.

        Diffusions that move θ alone, or that have another law for Σφ, leave Σφ to be drawn: it is independent of θ, and
        follows Gamma(Σρ) in the model.
        """
        own_total = langevin.pieces[0].floor is not None
        if not own_total:
            phi *= self.rng.gamma(langevin.total) / phi.sum()
        stats = langevin.updates(self.rng, phi, randomness, np.empty((1, phi.size)))
        if not own_total:
            phi *= self.rng.gamma(langevin.prior.sum()) / phi.sum()
        norm, reflections, rejected = stats[0].tolist()
        return norm, int(reflections), int(rejected)

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


# The gradient of any model. Like `Langevin.gradient` it takes the indices of a batch, and it gives the same numbers.


class ModelGradient:
    """The gradient of any PyMC model with respect to some of its variables, from a batch of its data.

    The elementwise log-densities of the observed variables that depend on the given ones are indexed along their first
    axis and scaled by n/m, each with its own n. Observed variables of equal length are assumed to describe the same
    responses, and share a batch. A scalar observation enters every gradient; without a batch size, all data do.

    `variables` are value variables of the model, `initial_point` is needed for shapes only, the batch size in
    `settings` holds for each population, and `compile_kwargs` are passed to PyTensor.
    """

    def __init__(
        self,
        variables: list[Any],
        model: "Model",
        initial_point: dict[str, Any],
        settings: LangevinSettings,
        compile_kwargs: dict[str, Any],
    ) -> None:
        _check_parts(settings)
        self.memory = np.empty(0)
        self.shared = make_shared_replacements(initial_point, variables, model)
        self._batch_size = settings.batch_size
        self._size = sum(np.size(initial_point[variable.name]) for variable in variables)
        self._piece = DIFFUSIONS.find(settings.diffusion)
        self.diffusion = self._piece.build(SimpleNamespace(prior=np.ones(self._size)))
        observed = model.logp(vars=model.observed_RVs, sum=False) if model.observed_RVs else []
        prior = model.logp(vars=[*model.free_RVs, *model.potentials])
        (prior, *observed), joined = join_nonshared_inputs(initial_point, [prior, *observed], variables, self.shared)
        observed = [term for term in observed if joined in ancestors([term])]
        vectors = [term for term in observed if term.ndim]
        batched = [] if settings.batch_size is None else vectors
        self._n_batched = len(batched)
        inputs, slope = _slope(joined, prior, batched, [term for term in observed if term not in batched])
        options = {"on_unused_input": "ignore", **compile_kwargs}
        self._slope = compile_graph(inputs, slope, **options)
        self._slope.trust_input = True
        self._dtype = joined.dtype
        self._lengths = compile_graph([joined], [term.shape[0] for term in vectors], **options)
        self.populations()

    def populations(self) -> tuple[int, ...]:
        """Read the current lengths of the observed data, which may be `pymc.Data` that have changed."""
        self._n = [int(length) for length in self._lengths(np.ones(self._size, dtype=self._dtype))]
        return tuple(dict.fromkeys(self._n))

    def gradient(self, phi: Floats, batch: Integers, floor: float) -> Floats:
        """Return the gradient estimated from a batch, in which populations follow each other; empty means all data."""
        point = phi.astype(self._dtype, copy=False)
        if not self._n_batched:
            return np.asarray(self._slope(point, np.asarray(floor)), dtype=np.float64)
        lengths = list(dict.fromkeys(self._n))
        parts = [np.arange(n) for n in lengths]
        if batch.size:
            parts = np.split(batch, np.cumsum([min(self._batch_size or n, n) for n in lengths[:-1]]))
        chosen = [parts[lengths.index(n)] for n in self._n]
        scales = [np.asarray(n / max(part.size, 1)) for n, part in zip(self._n, chosen, strict=True)]
        return np.asarray(self._slope(point, np.asarray(floor), *chosen, *scales), dtype=np.float64)

    def restart(self) -> None:
        """Do nothing: a chain has no state here."""

    def updates(self, rng: np.random.Generator, phi: Floats, randomness: Randomness) -> tuple[float, int, int]:
        """Run the updates one by one."""
        reflections = rejected = 0
        norm = 0.0
        for step, batch, white in zip(*randomness, strict=True):
            slope = self.gradient(phi, batch, self._piece.floor(step))
            norm = float(np.linalg.norm(slope))
            reflected = advance(self.diffusion, rng, phi, slope, step, white)
            reflections += max(reflected, 0)
            rejected += reflected < 0
        return norm, reflections, rejected


def _check_parts(settings: LangevinSettings) -> None:
    """Raise ValueError for settings that work only for the posterior of one Dirichlet given private answers."""
    rule = "for a model that is not frequency_model(responses, surrogate=True)"
    if DIFFUSIONS.find(settings.diffusion).floor is None:
        raise ValueError(f"diffusion must be one of φ, such as 'reflected', {rule}, got {settings.diffusion!r}")
    if settings.gradient not in ("minibatch", "full"):
        raise ValueError(f"gradient must be 'minibatch' or 'full' {rule}, got {settings.gradient!r}")


def _slope(joined: Any, prior: Any, batched: list[Any], full: list[Any]) -> tuple[list[Any], Any]:
    """Return the inputs φ, floor, batches and scales, and the slope of the prior, of batched and of full terms."""
    floor = pt.dscalar("floor")
    batches = [pt.lvector(f"batch_{i}") for i in range(len(batched))]
    scales = [pt.dscalar(f"scale_{i}") for i in range(len(batched))]
    by_prior = pytensor.gradient.grad(prior, joined, disconnected_inputs="ignore")
    slope = graph_replace(by_prior, {joined: pt.maximum(joined, floor.astype(joined.dtype))}, strict=False)
    logps = [term.sum() for term in full]
    logps += [scale * term[batch].sum() for term, batch, scale in zip(batched, batches, scales, strict=True)]
    if logps:
        slope += pytensor.gradient.grad(sum(logps), joined, disconnected_inputs="ignore")
    return [joined, floor, *batches, *scales], slope
