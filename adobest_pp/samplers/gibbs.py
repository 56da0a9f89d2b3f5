"""Gibbs sampling by data augmentation as a PyMC step method."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pymc.model import modelcontext
from pymc.pytensorf import compile as compile_graph
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.util import get_random_generator
from pytensor.graph.traversal import ancestors

from adobest_pp.samplers.augmentation import gibbs_draws
from adobest_pp.samplers.model_structure import dirichlet_and_evidence, value_variables

if TYPE_CHECKING:
    from pymc import Model

__all__ = ["DataAugmentationGibbs"]


class DataAugmentationGibbs(BlockedStep):
    """Draw the people behind the answers given θ, then θ given the people. It is exact, and has nothing to tune.

    The cost of a step grows with the distinct rows of evidence, not with the responses. Successive draws are close to
    each other where the answers say little about the people (small ε): use `sample(..., "nuts")` there.

    Parameters
    ----------
    theta : variable or str
        The category probabilities, with a Dirichlet prior. Its concentration may depend on other variables of the
        model, which other step methods then sample. It must enter one `PrivateResponse` and nothing else.

    Notes
    -----
    Sampler stat: ``gibbs_distance``, the total variation distance between successive θ.

    See Also
    --------
    adobest_pp.sample : The same sampler without a model to write.
    adobest_pp.samplers.augmentation : How people are allocated.

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
        concentration, self._evidence = dirichlet_and_evidence(model, rv)
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

    def step(self, point: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
        """Make one sweep."""
        theta = np.array(self._to_theta(point[self._name]), dtype=np.float64)
        before = theta.copy()
        prior = np.array(self._prior(*(point[name] for name in self._prior_inputs)), dtype=np.float64)
        gibbs_draws(self.rng, theta, prior, self._evidence, np.empty((1, theta.size)))
        # A share that single precision rounds to zero would have infinite free coordinates.
        kept = np.maximum(theta, np.finfo(self._dtype).tiny).astype(self._dtype)
        moved = {**point, self._name: np.asarray(self._to_value(kept))}
        return moved, [{"gibbs_distance": 0.5 * np.abs(theta - before).sum()}]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never chosen automatically: the user asks for it."""
        return Competence.INCOMPATIBLE
