"""Estimates of the gradient of a log-posterior from minibatches of responses: for our evidence, or for any model.

Both take the indices of a batch, and give the same gradient for the same indices. The diffusion decides how close to
zero the slope of the prior is taken: see `reflected.least_phi`.
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
from adobest_pp.samplers.langevin_settings import LangevinSettings
from adobest_pp.samplers.pieces import DIFFUSIONS_OF_PHI, Langevin, of_phi
from adobest_pp.samplers.reflected import TINY, Reflected, least_phi, prior_gradient

if TYPE_CHECKING:
    from pymc import Model

    from adobest_pp.samplers.model_structure import Surrogate

__all__ = ["EvidenceGradient", "GradientEstimator", "ModelGradient"]

Array = NDArray[np.float64]
# Step sizes, batches and noise, as of `LangevinSettings.randomness`.
Randomness = tuple[Array, NDArray[np.int64], Array]


class GradientEstimator(Protocol):
    """What a stochastic-gradient step method needs of its target."""

    shared: dict[Any, Any]
    anchor: Array | None

    def populations(self) -> tuple[int, ...]:
        """Return the numbers of responses that batches are drawn from, each batch from its own."""
        ...

    def restart(self) -> None:
        """Forget the chain."""
        ...

    def updates(self, rng: np.random.Generator, phi: Array, randomness: Randomness) -> tuple[float, int, int]:
        """Move φ in place by one update per step; return the norm of the last gradient, reflections and rejections."""
        ...


class EvidenceGradient:
    """Langevin dynamics on the Gamma surrogate of a Dirichlet given responses, compiled, on collapsed evidence.

    Parameters
    ----------
    surrogate : Surrogate
        The prior, the evidence, and the row of evidence of each response.
    settings : LangevinSettings
        Which pieces.
    """

    def __init__(self, surrogate: "Surrogate", settings: LangevinSettings) -> None:
        self.shared: dict[Any, Any] = {}
        self.langevin = Langevin(surrogate.evidence, surrogate.row_of, surrogate.prior, settings)
        self.restart()

    @property
    def anchor(self) -> Array | None:
        """θ at the anchor of control variates."""
        return None if self._anchor is None else self._anchor.theta

    @anchor.setter
    def anchor(self, theta: Array | None) -> None:
        self._anchor = None if theta is None else self.langevin.anchor(theta)

    def restart(self) -> None:
        """Go back to the first anchor."""
        self._anchor = self.langevin.first_anchor()

    def populations(self) -> tuple[int, ...]:
        """Return the number of responses, alone."""
        return (self.langevin.n_responses,)

    def gradient(self, phi: Array, batch: NDArray[np.int64], floor: float) -> Array:
        """Return the gradient estimated from the responses of a batch; an empty one stands for all of them."""
        out = np.empty(phi.size)
        prior_gradient(phi, self.langevin.prior, floor, out)
        kernels.add_slope(self.langevin.estimator(batch[None], self._anchor), 0, phi, out)
        return out

    def updates(self, rng: np.random.Generator, phi: Array, randomness: Randomness) -> tuple[float, int, int]:
        """Run all updates in one compiled loop.

        Diffusions that move θ alone, or Σφ under a law of their own, leave Σφ to be drawn: it is independent of θ, and
        follows Gamma(Σρ) in the model.
        """
        langevin = self.langevin
        own_total = langevin.settings.diffusion in DIFFUSIONS_OF_PHI
        if not own_total:
            phi *= rng.gamma(langevin.total) / phi.sum()
        self._anchor = langevin.next_anchor(phi, self._anchor)
        stats = langevin.updates(rng, phi, randomness, self._anchor, np.empty((1, phi.size)))
        if not own_total:
            phi *= rng.gamma(langevin.prior.sum()) / phi.sum()
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
    settings : LangevinSettings
        Responses in a batch of each population, or all of them; and the diffusion.
    compile_kwargs : dict
        Passed to the PyTensor compilation.
    """

    def __init__(
        self,
        variables: list[Any],
        model: "Model",
        initial_point: dict[str, Any],
        settings: LangevinSettings,
        compile_kwargs: dict[str, Any],
    ) -> None:
        _check_pieces(settings)
        batch_size = settings.batch_size
        self.anchor: Array | None = None
        self._diffusion = of_phi(settings.diffusion, np.empty(0))
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

    def restart(self) -> None:
        """Nothing is remembered of a chain."""

    def updates(self, rng: np.random.Generator, phi: Array, randomness: Randomness) -> tuple[float, int, int]:
        """Run the updates one by one."""
        reflections = rejected = 0
        norm = 0.0
        for step, batch, white in zip(*randomness, strict=True):
            slope = self.gradient(phi, batch, least_phi(step) if isinstance(self._diffusion, Reflected) else TINY)
            norm = float(np.linalg.norm(slope))
            reflected = kernels.advance(self._diffusion, rng, phi, slope, step, white)
            reflections += max(reflected, 0)
            rejected += reflected < 0
        return norm, reflections, rejected


def _check_pieces(settings: LangevinSettings) -> None:
    """Raise ValueError for pieces that only the posterior of one Dirichlet given private answers has."""
    rule = "for a model that is not frequency_model(responses, surrogate=True)"
    if settings.diffusion not in DIFFUSIONS_OF_PHI:
        allowed = " or ".join(map(repr, DIFFUSIONS_OF_PHI))
        raise ValueError(f"diffusion must be {allowed} {rule}, got {settings.diffusion!r}")
    if settings.gradient == "control_variates":
        raise ValueError(f"gradient must be 'minibatch' or 'full' {rule}, got 'control_variates'")


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
