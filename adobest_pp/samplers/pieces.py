"""The pieces of a run of Langevin dynamics, made from its settings for given evidence and prior."""

import numpy as np
from numpy.typing import NDArray

from adobest_pp.data.evidence import Evidence
from adobest_pp.samplers.anchored_batch import AnchoredBatch, has_left
from adobest_pp.samplers.augmentation import dirichlet
from adobest_pp.samplers.control_variates import Anchor, anchor_at, rows_of
from adobest_pp.samplers.cox_ingersoll_ross import CoxIngersollRoss
from adobest_pp.samplers.first_draws import first_draws, near_mode
from adobest_pp.samplers.full_evidence import FullEvidence
from adobest_pp.samplers.langevin_kernels import Diffusion, Gradient, langevin_draws
from adobest_pp.samplers.langevin_settings import LangevinSettings
from adobest_pp.samplers.log_ratio import metric_at
from adobest_pp.samplers.minibatch import Minibatch
from adobest_pp.samplers.mirrored import Mirrored
from adobest_pp.samplers.preconditioned import Preconditioned
from adobest_pp.samplers.reflected import Reflected

__all__ = ["DIFFUSIONS_OF_PHI", "Langevin", "of_phi"]

Array = NDArray[np.float64]

# The diffusions that move φ itself under its prior, which is all that they need of a model.
DIFFUSIONS_OF_PHI = ("reflected", "preconditioned")


def of_phi(name: str, prior: Array) -> Reflected | Preconditioned:
    """Return one of the diffusions that move φ itself."""
    return Reflected(prior) if name == "reflected" else Preconditioned(prior)


class Langevin:
    """A gradient estimator and a diffusion on the posterior of φ, where θ = φ/Σφ.

    Parameters
    ----------
    evidence : Evidence
        Collapsed responses.
    row_of : array of int, shape (n,), or None
        The row of evidence of each response. None for counted answers: they are numbered in the order of the rows, and
        no memory is needed for each.
    prior : array of shape (K,)
        Concentration of the Dirichlet prior.
    settings : LangevinSettings
        Which pieces.

    Attributes
    ----------
    n_responses : int
        The number of responses n.
    diffusion : Diffusion
        With its metric, where it has one.
    mode : Anchor or None
        An anchor near the mode, where a piece needs it: the first of control variates, and where the metric is taken.
    """

    def __init__(
        self, evidence: Evidence, row_of: NDArray[np.int64] | None, prior: Array, settings: LangevinSettings
    ) -> None:
        self.evidence, self.prior, self.settings = evidence, prior, settings
        self.n_responses = evidence.n_responses
        self._row_of = None if row_of is None else np.ascontiguousarray(row_of, dtype=np.int64)
        self._ends = np.cumsum(evidence.count)
        needs_mode = settings.gradient == "control_variates" or settings.diffusion == "log_ratio"
        self._rows = rows_of(evidence) if needs_mode else None
        self.mode = self.anchor(near_mode(evidence, prior, np.random.default_rng(0))) if needs_mode else None
        self.diffusion = self._diffusion()

    def _diffusion(self) -> Diffusion:
        name = self.settings.diffusion
        if name == "log_ratio":
            assert self.mode is not None
            return metric_at(self.mode, self.prior)
        if name == "cox_ingersoll_ross":
            return CoxIngersollRoss(self.prior, float(self.n_responses))
        return Mirrored(self.prior) if name == "mirrored" else of_phi(name, self.prior)

    def anchor(self, theta: Array) -> Anchor:
        """Return the anchor of control variates at θ."""
        assert self._rows is not None
        return anchor_at(theta, self.evidence, self._rows)

    def start(self, rng: np.random.Generator) -> Array:
        """Return φ for a chain to start from, with Σφ at its mean.

        θ is a draw of the prior, as in the paper; or, where the mode is known, of a normal approximation there.
        """
        phi = np.empty(self.prior.size)
        if self._rows is None:
            dirichlet(rng, self.prior, phi)
        else:
            phi[:] = first_draws(self.evidence, self._rows, self.prior, 1, rng)[0][0]
        return phi * self.total

    @property
    def total(self) -> float:
        """The mean of Σφ as the diffusion has it."""
        n = self.n_responses if self.settings.diffusion == "cox_ingersoll_ross" else 0
        return float(self.prior.sum() + n)

    def estimator(self, batches: NDArray[np.int64], anchor: Anchor | None) -> Gradient:
        """Return the gradient estimator for batches of responses (T, m); empty ones stand for all of them."""
        size = batches.shape[1]
        if size == 0:
            return FullEvidence(self.evidence)
        rows, scale = self._rows_of(batches), self.n_responses / size
        if anchor is None:
            return Minibatch(self.evidence, rows, scale)
        return AnchoredBatch(self.evidence, rows, scale, anchor)

    def _rows_of(self, responses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of evidence of each of these responses, given by their numbers."""
        if self._row_of is not None:
            return self._row_of[responses]
        return np.searchsorted(self._ends, responses, side="right")

    def first_anchor(self) -> Anchor | None:
        """Return the anchor near the mode, or None where the gradient has none."""
        return self.mode if self.settings.gradient == "control_variates" else None

    def next_anchor(self, phi: Array, anchor: Anchor | None) -> Anchor | None:
        """Return the anchor to go on with: another, where φ is, if the chain has left it (see `has_left`)."""
        theta = phi / phi.sum()
        return self.anchor(theta) if anchor is not None and has_left(theta, anchor) else anchor

    def updates(
        self,
        rng: np.random.Generator,
        phi: Array,
        randomness: tuple[Array, NDArray[np.int64], Array],
        anchor: Anchor | None,
        draws: Array,
    ) -> Array:
        """Move φ in place by all updates, write θ into `draws` (D, K), and return the stats of `langevin_draws`."""
        steps, batches, noise = randomness
        stats = np.empty((len(draws), 3))
        langevin_draws(self.diffusion, self.estimator(batches, anchor), rng, phi, steps, noise, draws, stats)
        return stats
