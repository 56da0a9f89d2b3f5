"""What step methods of a Dirichlet θ given private answers have in common: the way to θ and back, and the prior."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pymc.model import modelcontext
from pymc.pytensorf import compile as compile_graph
from pymc.step_methods.compound import BlockedStep, Competence
from pymc.util import get_random_generator
from pytensor.graph.traversal import ancestors

from adobest_pp.samplers.model_structure import dirichlet_and_evidence, value_variables

if TYPE_CHECKING:
    from pymc import Model

__all__ = ["DirichletStep"]

Point = dict[str, NDArray[Any]]


class DirichletStep(BlockedStep):
    """A step method of one variable, `theta`, that has a Dirichlet prior and enters one `PrivateResponse` alone."""

    def __init__(
        self,
        theta: Any,
        *,
        model: "Model | None" = None,
        rng: Any = None,
        compile_kwargs: dict[str, Any] | None = None,
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

    def theta_of(self, point: Point) -> NDArray[np.float64]:
        """Return θ at a point of the model."""
        return np.array(self._to_theta(point[self._name]), dtype=np.float64)

    def prior_of(self, point: Point) -> NDArray[np.float64]:
        """Return the concentrations given the other variables."""
        return np.array(self._prior(*(point[name] for name in self._prior_inputs)), dtype=np.float64)

    def moved(self, point: Point, theta: NDArray[np.float64]) -> Point:
        """Return the point with another θ."""
        # A share that single precision rounds to zero would have infinite free coordinates.
        kept = np.maximum(theta, np.finfo(self._dtype).tiny).astype(self._dtype)
        return {**point, self._name: np.asarray(self._to_value(kept))}

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically: the user asks for it."""
        return Competence.INCOMPATIBLE
