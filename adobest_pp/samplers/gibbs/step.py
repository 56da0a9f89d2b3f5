"""Gibbs sampling by data augmentation as a PyMC step method."""

from typing import Any, ClassVar

import numpy as np
from pymc.step_methods.compound import StepMethodState

from adobest_pp.samplers.gibbs.sampler import gibbs_draws
from adobest_pp.samplers.model_structure import DirichletStep, Point


class DataAugmentationGibbs(DirichletStep):
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
    adobest_pp.samplers.gibbs.sampler : How people are allocated.

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
