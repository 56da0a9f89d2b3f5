"""Estimates of the gradient of a log-posterior from minibatches of responses: of our evidence, or of any model.

Both take the indices of a batch, and on the same indices give the same gradient. How steeply the prior is taken
close to zero is up to the diffusion: see `kernels.slope_floor`.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import join_nonshared_inputs, make_shared_replacements
from pytensor.graph.replace import graph_replace

from adobest_pp.likelihood import kernel_arguments
from adobest_pp.samplers import kernels

if TYPE_CHECKING:
    from pymc import Model

    from adobest_pp.responses import Responses

__all__ = ["EvidenceGradient", "GradientEstimator", "ModelGradient"]

Array = NDArray[np.float64]


class GradientEstimator(Protocol):
    """What a stochastic-gradient step method needs of its target."""

    shared: dict[Any, Any]

    def n_responses(self) -> int:
        """Return how many responses batches are drawn from."""
        ...

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from the responses of a batch; an empty one stands for all of them."""
        ...

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Move φ in place by one update per step; return the last gradient's norm, reflections and refusals."""
        ...


class EvidenceGradient:
    """The gradient of the Gamma surrogate of a Dirichlet given responses, compiled, on collapsed evidence.

    Parameters
    ----------
    responses : Responses
        The data.
    prior : array of shape (K,)
        ρ of the prior.
    """

    def __init__(self, responses: "Responses", prior: Array) -> None:
        self.shared: dict[Any, Any] = {}
        self._arguments = kernel_arguments(responses.evidence())
        self._row_of = np.ascontiguousarray(responses.evidence_index(), dtype=np.int64)
        self._prior = prior

    def n_responses(self) -> int:
        """Return the number of responses."""
        return self._row_of.size

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from the responses of a batch; an empty one stands for all of them."""
        out = np.empty(phi.size)
        if batch.size == 0:
            kernels.full_phi_gradient(phi, self._prior, floor, *self._arguments, out)
        else:
            *rows, _, members, offsets = self._arguments
            scale = self.n_responses() / batch.size
            kernels.phi_gradient(phi, self._row_of[batch], scale, self._prior, floor, *rows, members, offsets, out)
        return out

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Run all updates in one compiled loop."""
        stats = np.empty(3)
        gradient = np.empty(phi.size)
        rows = self._row_of[batches]
        kernels.langevin_updates(diffusion, phi, steps, rows, noise, self._prior, *self._arguments, gradient, stats)
        return float(stats[0]), int(stats[1]), int(stats[2])


class ModelGradient:
    """The gradient of any PyMC model by some of its variables, from the log-densities of a batch of its data.

    The observed variables' elementwise log-densities are indexed along their first axis, which must be the same
    responses for all of them. Compiled once.

    Parameters
    ----------
    variables : list
        Value variables of the model.
    model : pymc.Model
        The model.
    initial_point : dict
        A point of the model, for shapes.
    compile_kwargs : dict
        Passed to the PyTensor compilation.
    """

    def __init__(
        self, variables: list[Any], model: "Model", initial_point: dict[str, Any], compile_kwargs: dict[str, Any]
    ) -> None:
        self.shared = make_shared_replacements(initial_point, variables, model)
        terms = model.logp(vars=model.observed_RVs, sum=False) if model.observed_RVs else []
        if any(term.ndim == 0 for term in terms):
            raise ValueError("the observed variables of the model must have one log-density per response, got a scalar")
        rest = model.logp(vars=[*model.free_RVs, *model.potentials])
        (rest, *terms), joined = join_nonshared_inputs(initial_point, [rest, *terms], variables, self.shared)
        batch, scale, floor = pt.lvector("batch"), pt.dscalar("scale"), pt.dscalar("floor")
        by_rest = pytensor.gradient.grad(rest, joined, disconnected_inputs="ignore")
        slope = graph_replace(by_rest, {joined: pt.maximum(joined, floor)}, strict=False)
        if terms:
            batch_logp = pt.add(*[term[batch].sum() for term in terms]) if len(terms) > 1 else terms[0][batch].sum()
            slope += scale * pytensor.gradient.grad(batch_logp, joined, disconnected_inputs="ignore")
        inputs = [joined, batch, scale, floor]
        self._slope = compile_graph(inputs, slope, on_unused_input="ignore", **compile_kwargs)
        self._slope.trust_input = True
        lengths = [term.shape[0] for term in terms]
        self._lengths = compile_graph([joined], lengths, on_unused_input="ignore", **compile_kwargs)
        self._size = sum(np.size(initial_point[variable.name]) for variable in variables)
        self._n = self.n_responses()

    def n_responses(self) -> int:
        """Read the length of the observed data as it is now (it may be a `pymc.Data` that has changed)."""
        lengths = {int(length) for length in self._lengths(np.ones(self._size))}
        if len(lengths) > 1:
            raise ValueError(
                f"the observed variables of the model must be about the same responses, got {sorted(lengths)} of them"
            )
        self._n = lengths.pop() if lengths else 0
        return self._n

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from the responses of a batch; an empty one stands for all of them."""
        chosen = batch if batch.size else np.arange(self._n)
        return np.asarray(self._slope(phi, chosen, np.asarray(self._n / max(chosen.size, 1)), np.asarray(floor)))

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Run the updates one by one."""
        reflections = refused = 0
        norm = 0.0
        for step, batch, white in zip(steps, batches, noise, strict=True):
            slope = self.gradient(phi, batch, kernels.slope_floor(diffusion, step))
            norm = float(np.linalg.norm(slope))
            reflected = kernels.move(diffusion, phi, slope, step, white)
            reflections += max(reflected, 0)
            refused += reflected < 0
        return norm, reflections, refused
