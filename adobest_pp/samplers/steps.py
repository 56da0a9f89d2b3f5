"""PyMC step methods for a Dirichlet θ given private answers.

They read the prior, and the evidence from the model's log-probability.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.exceptions import NotConstantValueError
from pymc.model import modelcontext
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import constant_fold
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import DirichletRV, GammaRV

from adobest_pp._numerics import seed_state
from adobest_pp._types import Floats, Integers
from adobest_pp.evidence import Evidence
from adobest_pp.model.ops import MarginalLogLikelihood, PointwiseLogLikelihood
from adobest_pp.model.private_response import PrivateResponseRV
from adobest_pp.samplers.gibbs import gibbs_draws
from adobest_pp.samplers.sgld_cv.dynamics import position_of, underdamped_draws
from adobest_pp.samplers.sgld_cv.sampler import FRICTION, Chains, Choices, check_prior_of_sgld_cv

if TYPE_CHECKING:
    from pymc import Model


# For graphs that are evaluated once: compiling them would take longer.
INTERPRETED = Mode("py", "fast_compile")


class Surrogate(NamedTuple):
    """The model φ_i ~ Gamma(ρ_i, 1), with answers given θ = φ/Σφ: ρ, the evidence, and the row of each answer.

    Gathered answers are only counted, so `row_of` is None.
    """

    prior: Floats
    evidence: Evidence
    row_of: Integers | None


def value_variables(variables: Any, model: "Model", name: str) -> list[Any]:
    """Return the value variables of free variables of the model, given as such or by name, or raise ValueError."""
    given = variables if isinstance(variables, list | tuple) else [variables]
    free = {rv.name: rv for rv in model.free_RVs}
    known = [*model.free_RVs, *model.value_vars]
    found = [free.get(each, each) if isinstance(each, str) else each for each in given]
    for each in found:
        if not any(each is variable for variable in known):
            shown = repr(getattr(each, "name", None) or each)
            raise ValueError(f"{name} must be among the free variables {', '.join(free)} of the model, got {shown}")
    return list(get_value_vars_from_user_vars(found, model))


def surrogate_of(model: "Model", values: Sequence[Any]) -> Surrogate | None:
    """Return what the compiled gradient needs if the model is the Gamma surrogate, and None if it is another."""
    if len(model.free_RVs) != 1 or len(values) != 1 or len(model.potentials) > 1:
        return None
    if model.potentials and model.observed_RVs:
        return None
    phi = model.free_RVs[0]
    if not isinstance(phi.owner.op, GammaRV) or phi.ndim != 1:
        return None
    try:
        rho, scale = constant_fold(phi.owner.op.dist_params(phi.owner))
        evidence, row_of = _evidence_of(model, phi, lambda value: value / value.sum())
    except (NotConstantValueError, ValueError):
        return None
    if not np.all(scale == 1):
        return None
    return Surrogate(np.array(np.broadcast_to(rho, evidence.n_categories), dtype=np.float64), evidence, row_of)


def dirichlet_and_evidence(model: "Model", theta: Any) -> tuple[Any, Evidence]:
    """Return the concentration, a graph, of a Dirichlet `theta`, and the evidence about it, or raise ValueError."""
    if not isinstance(theta.owner.op, DirichletRV):
        raise ValueError(f"theta must have a Dirichlet prior, got {theta.name!r}, a {theta.owner.op}")
    if theta.ndim != 1:
        raise ValueError(f"theta must be one vector of probabilities, got {theta.name!r} with {theta.ndim} dimensions")
    evidence, _ = _evidence_of(model, theta, lambda value: value)
    return theta.owner.op.dist_params(theta.owner)[0], evidence


def _evidence_of(model: "Model", rv: Any, theta_of: Callable[[Floats], Floats]) -> tuple[Evidence, Integers | None]:
    """Return the evidence of the `PrivateResponse` of θ = theta_of(rv), and the row of each response.

    Gathered answers have no such rows. Raises ValueError if `rv` enters anything else.
    """
    others = [other for other in [*model.basic_RVs, *model.potentials] if other is not rv]
    dependent = [other for other in others if rv in ancestors([other])]
    if len(dependent) == 1 and dependent[0] in model.potentials:
        return _evidence_of_potential(dependent[0], rv, theta_of), None
    if len(dependent) != 1 or not isinstance(dependent[0].owner.op, PrivateResponseRV):
        raise ValueError(
            f"{rv.name!r} must enter one PrivateResponse and nothing else in the model, "
            f"got {', '.join(other.name for other in dependent) or 'nothing'}"
        )
    (answers,) = dependent
    (term,) = model.logp(vars=[answers], sum=False)
    found = _nodes_of(PointwiseLogLikelihood, term)
    if len(found) != 1:
        raise ValueError(f"{answers.name!r} must be given one vector theta for all responses, got a matrix")
    (node,) = found
    *arrays, row_of = constant_fold(node.inputs[1:])
    evidence = Evidence(*arrays)
    if not _is_function(rv, answers.owner.op.dist_params(answers.owner)[0], theta_of, evidence.n_categories):
        raise ValueError(
            f"{answers.name!r} must be given {'phi / phi.sum()' if isinstance(rv.owner.op, GammaRV) else 'theta'} "
            f"of {rv.name!r}, got another function of it"
        )
    return evidence, row_of


def _nodes_of(op: type[Any], term: Any) -> list[Any]:
    """Return the different nodes of an Op in the graph of a term."""
    nodes = dict.fromkeys(variable.owner for variable in ancestors([term]) if variable.owner)
    return [node for node in nodes if isinstance(node.op, op)]


def _evidence_of_potential(term: Any, rv: Any, theta_of: Callable[[Floats], Floats]) -> Evidence:
    """Return the evidence of gathered answers, whose log-likelihood is a potential."""
    found = _nodes_of(MarginalLogLikelihood, term)
    if len(found) != 1:
        raise ValueError(f"{rv.name!r} must enter one PrivateResponse and nothing else in the model, got {term.name}")
    theta, *arrays = found[0].inputs
    evidence = Evidence(*constant_fold(arrays))
    expected = pt.add(found[0].outputs[0], evidence.constant)
    _, (value, right) = _at_a_point(rv, evidence.n_categories, term, expected)
    if not _is_function(rv, theta, theta_of, evidence.n_categories) or not np.isclose(value, right, rtol=1e-9):
        raise ValueError(f"{term.name!r} must be the PrivateResponse of {rv.name!r} alone, got another function of it")
    return evidence


def _at_a_point(rv: Any, size: int, *graphs: Any) -> tuple[Floats, list[Any]]:
    """Return a point without symmetry, and the values of graphs there."""
    point = np.sqrt(np.arange(2.0, size + 2))
    if isinstance(rv.owner.op, DirichletRV):
        point /= point.sum()
    compiled = pytensor.function([rv], list(graphs), mode=INTERPRETED, on_unused_input="ignore")
    return point, compiled(point.astype(rv.dtype))


def _is_function(rv: Any, graph: Any, function: Callable[[Floats], Floats], size: int) -> bool:
    """Return whether the graph is this function of the variable, by its values at a point."""
    point, (found,) = _at_a_point(rv, size, graph)
    value = np.ravel(found)
    tolerance = 1e-10 if rv.dtype == "float64" else 1e-5
    return value.shape == (size,) and np.allclose(value, function(point), rtol=tolerance, atol=0)


# What the step methods share: the way to θ and back, and the prior.

Point = dict[str, NDArray[Any]]


class DirichletStep(BlockedStep):
    """A step method of one variable, `theta`, that has a Dirichlet prior and enters one `PrivateResponse` alone."""

    def __init__(
        self, theta: Any, *, model: "Model | None" = None, rng: Any = None, compile_kwargs: dict[str, Any] | None = None
    ) -> None:
        model = modelcontext(model)
        self.vars = value_variables(theta, model, "theta")
        if len(self.vars) != 1:
            raise ValueError(f"theta must be one variable, got {len(self.vars)}")
        self.rng = get_random_generator(rng)
        self._name = self.vars[0].name
        rv = model.values_to_rvs[self.vars[0]]
        concentration, self.evidence = dirichlet_and_evidence(model, rv)
        self._compile(model, rv, concentration, compile_kwargs or {})
        self._prepare()

    def _prepare(self) -> None:
        """Do what a step method does once, when it is made."""

    def _compile(self, model: "Model", rv: Any, concentration: Any, compile_kwargs: dict[str, Any]) -> None:
        """Compile the ways from the model's value to θ and back, and the concentration given other variables."""
        (value,) = self.vars
        transform = model.rvs_to_transforms[rv]
        probabilities = rv.type("probabilities")
        inputs = rv.owner.inputs
        forward = probabilities if transform is None else transform.forward(probabilities, *inputs)
        backward = value if transform is None else transform.backward(value, *inputs)
        self._dtype = rv.dtype
        self._to_value = compile_graph([probabilities], forward, **compile_kwargs)
        self._to_theta = compile_graph([value], backward, **compile_kwargs)
        (prior,) = model.replace_rvs_by_values([concentration])
        others = [other for other in model.value_vars if other in ancestors([prior])]
        self._prior_inputs = [other.name for other in others]
        self._prior = compile_graph(others, prior, **compile_kwargs)

    def theta_of(self, point: Point) -> Floats:
        """Return θ at a point of the model."""
        return np.array(self._to_theta(point[self._name]), dtype=np.float64)

    def prior_of(self, point: Point) -> Floats:
        """Return the concentrations given the other variables."""
        return np.array(self._prior(*(point[name] for name in self._prior_inputs)), dtype=np.float64)

    def moved(self, point: Point, theta: Floats) -> Point:
        """Return the point with another θ."""
        # A share that single precision rounds to zero would have infinite free coordinates.
        kept = np.maximum(theta, np.finfo(self._dtype).tiny).astype(self._dtype)
        return {**point, self._name: np.asarray(self._to_value(kept))}

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically: the user asks for it."""
        return Competence.INCOMPATIBLE


class DataAugmentationGibbs(DirichletStep):
    """Draw the people behind the answers given θ, then θ given the people. It is exact, and has nothing to tune.

    The cost of a step grows with the distinct rows of evidence, not with the responses. If the answers say little about
    the people (small ε), successive draws are close to each other: use `sample(..., "nuts")` there.

    Parameters
    ----------
    theta : variable or str
        The category probabilities, with a Dirichlet prior. Its concentration may depend on other variables of the
        model, which other step methods then sample. `theta` must enter one `PrivateResponse` and nothing else.

    Notes
    -----
    Sampler stat: ``gibbs_distance``, the total variation distance between successive θ.

    See Also
    --------
    adobest_pp.sample : The same sampler without a model to write.
    adobest_pp.samplers.gibbs : How people are allocated.

    References
    ----------
    .. [1] M. A. Tanner and W. H. Wong, The Calculation of Posterior Distributions by Data Augmentation, Journal
       of the American Statistical Association, 1987.

    Examples
    --------
    >>> import pymc as pm
    >>> import adobest_pp as ad
    >>> with ad.frequency_model(responses) as model:  # doctest: +SKIP
    ...     draws = pm.sample(step=ad.DataAugmentationGibbs(model["theta"]))
    """

    name = "data_augmentation_gibbs"
    _state_class = StepMethodState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"gibbs_distance": (np.float64, [])}

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """Make one sweep."""
        theta = self.theta_of(point)
        before = theta.copy()
        gibbs_draws(self.rng, theta, self.prior_of(point), self.evidence, np.empty((1, theta.size)))
        return self.moved(point, theta), [{"gibbs_distance": 0.5 * np.abs(theta - before).sum()}]


# The pilots, which are made once: draws of each chain, chains, and their seed.
TUNE, CHAINS, SEED = 500, 4, 0


@dataclass_state
class SGLDCVState(StepMethodState):
    """What a chain needs to continue: its position x, its momentum, its generator and its θ."""

    x: np.ndarray
    momentum: np.ndarray
    words: np.ndarray
    theta: np.ndarray
    choices: Choices = field(metadata={"frozen": True})


class SGLDCV(DirichletStep):
    """SGLD that samples the posterior, for θ with a Dirichlet prior of constant concentration.

    When the step method is made, pilots choose the anchor of the control variates, the coordinates, the step and the
    batch, as in `sample(..., "sgld_cv")`. Chains then start where the model starts them.

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

    def _prepare(self) -> None:
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
        """Start a chain, with a random stream and a momentum of its own."""
        super().setup_chain(rng, tune, draws)
        self._restart()

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """Make the updates of one draw."""
        theta, k = self.theta_of(point), self.evidence.n_categories
        if not np.allclose(theta, self.theta, rtol=1e-6, atol=1e-12):
            self.x = position_of(theta, self._target.coordinates, self.rng)
        draw, force, virial = np.empty((1, k)), np.empty(k), np.zeros(k)
        options = (self.choices.batch, self.choices.step, FRICTION, self.choices.updates_per_draw)
        underdamped_draws(self.words, self.x, self.momentum, self._target, *options, draw, force, virial)
        if not np.isfinite(draw).all():
            raise RuntimeError(f"'sgld_cv' did not finish: its chain is not finite at a step of {options[1]:.2g}")
        self.theta = draw[0]
        mean = virial.mean() / self.choices.updates_per_draw
        return self.moved(point, self.theta), [{"sgld_cv_virial": float(mean)}]
