"""Estimates of the gradient of a log-posterior from minibatches of responses: for our evidence, or for any model.

Both take the indices of a batch, and give the same gradient for the same indices. The diffusion decides how close to
zero the slope of the prior is taken: see `langevin_kernels.slope_floor`.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import join_nonshared_inputs, make_shared_replacements
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from adobest_pp.samplers import langevin_kernels as kernels

if TYPE_CHECKING:
    from pymc import Model

    from adobest_pp.samplers.model_structure import Surrogate

__all__ = ["EvidenceGradient", "GradientEstimator", "ModelGradient"]

Array = NDArray[np.float64]


class GradientEstimator(Protocol):
    """What a stochastic-gradient step method needs of its target."""

    shared: dict[Any, Any]

    def populations(self) -> tuple[int, ...]:
        """Return the numbers of responses that batches are drawn from, each batch from its own."""
        ...

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from a batch, one population's after the other; an empty one stands for all."""
        ...

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Move φ in place by one update per step; return the norm of the last gradient, reflections and rejections."""
        ...


class EvidenceGradient:
    """The gradient of the Gamma surrogate of a Dirichlet given responses, compiled, on collapsed evidence.

    Parameters
    ----------
    surrogate : Surrogate
        The prior, the evidence, and the row of evidence of each response.
    """

    def __init__(self, surrogate: "Surrogate") -> None:
        self.shared: dict[Any, Any] = {}
        self._evidence = surrogate.evidence
        self._row_of = np.ascontiguousarray(surrogate.row_of, dtype=np.int64)
        self._prior = surrogate.prior

    def populations(self) -> tuple[int, ...]:
        """Return the number of responses, alone."""
        return (self._row_of.size,)

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from the responses of a batch; an empty one stands for all of them."""
        out = np.empty(phi.size)
        if batch.size == 0:
            kernels.full_phi_gradient(phi, self._prior, floor, self._evidence, out)
        else:
            scale = self._row_of.size / batch.size
            kernels.phi_gradient(phi, self._row_of[batch], scale, self._prior, floor, self._evidence, out)
        return out

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Run all updates in one compiled loop."""
        stats, draw = np.empty((1, 3)), np.empty((1, phi.size))
        rows = self._row_of[batches]
        kernels.langevin_draws(diffusion, phi, steps, rows, noise, self._prior, self._evidence, draw, stats)
        norm, reflections, rejected = stats[0].tolist()
        return norm, int(reflections), int(rejected)


class ModelGradient:
    """The gradient of any PyMC model with respect to some of its variables, from a batch of its data.

    The elementwise log-densities of the observed variables that depend on the given ones are indexed along their first
    axis and scaled by n/m, each by its own n. Observed variables of equal length are assumed to be about the same
    responses, and share a batch. A scalar observation enters every gradient; without a batch size, all data do.

    Parameters
    ----------
    variables : list
        Value variables of the model.
    model : pymc.Model
        The model.
    initial_point : dict
        A point of the model, for shapes.
    batch_size : int or None
        Responses in a batch of each population; None for all of them.
    compile_kwargs : dict
        Passed to the PyTensor compilation.
    """

    def __init__(
        self,
        variables: list[Any],
        model: "Model",
        initial_point: dict[str, Any],
        batch_size: int | None,
        compile_kwargs: dict[str, Any],
    ) -> None:
        self.shared = make_shared_replacements(initial_point, variables, model)
        self._batch_size = batch_size
        self._size = sum(np.size(initial_point[variable.name]) for variable in variables)
        observed = model.logp(vars=model.observed_RVs, sum=False) if model.observed_RVs else []
        prior = model.logp(vars=[*model.free_RVs, *model.potentials])
        (prior, *observed), joined = join_nonshared_inputs(initial_point, [prior, *observed], variables, self.shared)
        observed = [term for term in observed if joined in ancestors([term])]
        vectors = [term for term in observed if term.ndim]
        batched = [] if batch_size is None else vectors
        self._n_batched = len(batched)
        inputs, slope = _slope(joined, prior, batched, [term for term in observed if term not in batched])
        options = {"on_unused_input": "ignore", **compile_kwargs}
        self._slope = compile_graph(inputs, slope, **options)
        self._slope.trust_input = True
        self._dtype = joined.dtype
        self._lengths = compile_graph([joined], [term.shape[0] for term in vectors], **options)
        self._n = self._read_lengths()

    def _read_lengths(self) -> list[int]:
        return [int(length) for length in self._lengths(np.ones(self._size, dtype=self._dtype))]

    def populations(self) -> tuple[int, ...]:
        """Read the lengths of the observed data as they are now (they may be `pymc.Data` that have changed)."""
        self._n = self._read_lengths()
        return tuple(dict.fromkeys(self._n))

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from a batch, one population's after the other; an empty one stands for all."""
        point = phi.astype(self._dtype, copy=False)
        if not self._n_batched:
            return np.asarray(self._slope(point, np.asarray(floor)), dtype=np.float64)
        lengths = list(dict.fromkeys(self._n))
        if batch.size == 0:
            parts = [np.arange(n) for n in lengths]
        else:
            parts = np.split(batch, np.cumsum([min(self._batch_size or n, n) for n in lengths[:-1]]))
        chosen = [parts[lengths.index(n)] for n in self._n]
        scales = [np.asarray(n / max(part.size, 1)) for n, part in zip(self._n, chosen, strict=True)]
        return np.asarray(self._slope(point, np.asarray(floor), *chosen, *scales), dtype=np.float64)

    def updates(
        self, diffusion: int, phi: Array, steps: Array, batches: NDArray[np.int64], noise: Array
    ) -> tuple[float, int, int]:
        """Run the updates one by one."""
        reflections = rejected = 0
        norm = 0.0
        for step, batch, white in zip(steps, batches, noise, strict=True):
            slope = self.gradient(phi, batch, kernels.slope_floor(diffusion, step))
            norm = float(np.linalg.norm(slope))
            reflected = kernels.move(diffusion, phi, slope, step, white)
            reflections += max(reflected, 0)
            rejected += reflected < 0
        return norm, reflections, rejected


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
