"""Whether a PyMC model is one that a compiled sampler knows, and what its prior is."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pymc.exceptions import NotConstantValueError
from pymc.pytensorf import constant_fold
from pymc.util import get_value_vars_from_user_vars
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import DirichletRV, GammaRV

from adobest_pp._marginal import PointwiseLogLikelihood
from adobest_pp.distributions import PrivateResponseRV
from adobest_pp.responses import Responses

if TYPE_CHECKING:
    from pymc import Model

__all__ = ["check_responses", "dirichlet_concentration", "surrogate_prior", "value_variables"]

Array = NDArray[np.float64]

# For graphs that are evaluated once: compiling them would take longer.
INTERPRETED = Mode("py", "fast_compile")


def check_responses(responses: Any) -> Responses:
    """Return the responses, or refuse what is none."""
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")
    return responses


def value_variables(variables: Any, model: "Model", name: str) -> list[Any]:
    """Return the value variables of free variables of the model, given as such or by their names, or refuse."""
    given = variables if isinstance(variables, list | tuple) else [variables]
    free = {rv.name: rv for rv in model.free_RVs}
    known = [*model.free_RVs, *model.value_vars]
    found = [free.get(each, each) if isinstance(each, str) else each for each in given]
    for each in found:
        if not any(each is variable for variable in known):
            shown = repr(getattr(each, "name", None) or each)
            raise ValueError(f"{name} must be among the free variables {', '.join(free)} of the model, got {shown}")
    return list(get_value_vars_from_user_vars(found, model))


def surrogate_prior(model: "Model", values: Sequence[Any], responses: Responses) -> Array:
    """Return ρ, of shape (K,), of a model that is φ_i ~ Gamma(ρ_i, 1) and `responses` given θ = φ/Σφ, or refuse."""
    if len(model.free_RVs) != 1 or len(values) != 1 or model.potentials:
        raise ValueError(
            "responses must be left out for a model with more than phi and the responses, "
            f"got one with {', '.join(rv.name for rv in [*model.free_RVs, *model.potentials])}"
        )
    phi = model.free_RVs[0]
    allowed = (
        f"vars must be Gamma(rho, 1) of shape ({responses.n_categories},), with constant rho, to go with responses"
    )
    if not isinstance(phi.owner.op, GammaRV):
        raise ValueError(f"{allowed}, got {phi.name!r}, a {phi.owner.op}")
    try:
        rho, scale = constant_fold(phi.owner.op.dist_params(phi.owner))
    except NotConstantValueError:
        raise ValueError(f"{allowed}, got {phi.name!r} with other parameters") from None
    # The length of a dimension of the model is a shared variable, so it is not constant to PyTensor.
    shape = tuple(map(int, phi.shape.eval(mode=INTERPRETED)))
    if shape != (responses.n_categories,) or not np.all(scale == 1):
        raise ValueError(f"{allowed}, got {phi.name!r} of shape {shape} with rate {1 / scale}")
    _check_likelihood(model, phi, responses, lambda value: value / value.sum())
    return np.array(np.broadcast_to(rho, shape), dtype=np.float64)


def dirichlet_concentration(model: "Model", theta: Any, responses: Responses) -> Any:
    """Return the concentration, a graph, of a model where `theta` is Dirichlet and that of `responses`, or refuse."""
    if not isinstance(theta.owner.op, DirichletRV):
        raise ValueError(f"theta must have a Dirichlet prior, got {theta.name!r}, a {theta.owner.op}")
    if theta.ndim != 1:
        raise ValueError(f"theta must be one vector of probabilities, got {theta.name!r} with {theta.ndim} dimensions")
    _check_likelihood(model, theta, responses, lambda value: value)
    return theta.owner.op.dist_params(theta.owner)[0]


def _check_likelihood(model: "Model", rv: Any, responses: Responses, theta_of: Callable[[Array], Array]) -> None:
    """Refuse a model where `rv` enters anything but a `PrivateResponse` of θ = theta_of(rv) with these responses."""
    others = [other for other in [*model.basic_RVs, *model.potentials] if other is not rv]
    dependent = [other for other in others if rv in ancestors([other])]
    if len(dependent) != 1 or not isinstance(dependent[0].owner.op, PrivateResponseRV):
        raise ValueError(
            f"{rv.name!r} must enter one PrivateResponse and nothing else in the model, "
            f"got {', '.join(other.name for other in dependent) or 'nothing'}"
        )
    (answers,) = dependent
    (term,) = model.logp(vars=[answers], sum=False)
    nodes = [variable.owner for variable in ancestors([term]) if variable.owner]
    (node,) = {node for node in nodes if isinstance(node.op, PointwiseLogLikelihood)}
    evidence, index = responses.evidence_and_index()
    expected: list[Any] = [*evidence, index]
    held = constant_fold(node.inputs[1:])
    if not all(np.array_equal(mine, theirs) for mine, theirs in zip(expected, held, strict=True)):
        raise ValueError(f"responses must be those of {answers.name!r} in the model, got {responses!r}")
    if not _is_function(rv, answers.owner.op.dist_params(answers.owner)[0], theta_of, responses.n_categories):
        raise ValueError(
            f"{answers.name!r} must be given {'phi / phi.sum()' if isinstance(rv.owner.op, GammaRV) else 'theta'} "
            f"of {rv.name!r}, got another function of it"
        )


def _is_function(rv: Any, graph: Any, function: Callable[[Array], Array], size: int) -> bool:
    """Return whether the graph is this function of the variable, by its values at a point without symmetry."""
    point = np.sqrt(np.arange(2.0, size + 2))
    if isinstance(rv.owner.op, DirichletRV):
        point /= point.sum()
    compiled = pytensor.function([rv], graph, mode=INTERPRETED, on_unused_input="ignore")
    value = np.ravel(compiled(point.astype(rv.dtype)))
    tolerance = 1e-10 if rv.dtype == "float64" else 1e-5
    return value.shape == (size,) and np.allclose(value, function(point), rtol=tolerance, atol=0)
