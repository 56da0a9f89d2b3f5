"""The usual program, ready to sample: category frequencies with a Dirichlet prior."""

import pymc as pm
from numpy.typing import ArrayLike

from adobest_pp._checks import check_prior
from adobest_pp._simplex import simplex
from adobest_pp._text import brief
from adobest_pp.distributions import PrivateResponse
from adobest_pp.responses import Responses

__all__ = ["frequency_model"]


def frequency_model(responses: Responses, prior: ArrayLike = 1.0, surrogate: bool = False) -> pm.Model:
    """Return the PyMC model of category frequencies given randomized answers.

    Parameters
    ----------
    responses : Responses
        What was collected.
    prior : float or array of shape (K,), default 1.0
        The concentrations ρ of the Dirichlet prior on θ; K of them with labels are brought to the order of the
        categories.
    surrogate : bool, default False
        Write θ as φ/Σφ with independent φ_i ~ Gamma(ρ_i, 1), untransformed: the same posterior of θ on variables
        that are positive only, which is what reflected SGLD moves on.

    Returns
    -------
    pymc.Model
        With ``theta`` labelled by ``category``, and the observed ``y``, one answer per ``response``.

    See Also
    --------
    adobest_pp.PrivateResponse : The likelihood, for models of one's own.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> [variable.name for variable in ad.frequency_model(responses).free_RVs]
    ['theta']
    """
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}")
    if not isinstance(surrogate, bool):
        raise ValueError(f"surrogate must be True or False, got {brief(surrogate)}")
    concentration = check_prior(prior, responses.n_categories, responses.categories)
    with pm.Model(coords={"category": responses.categories}) as model:
        if surrogate:
            phi = pm.Gamma("phi", concentration, 1, default_transform=None, dims="category")
            theta = pm.Deterministic("theta", phi / phi.sum(), dims="category")
        else:
            theta = pm.Dirichlet("theta", a=concentration, default_transform=simplex, dims="category")
        PrivateResponse("y", theta, responses, dims="response")
    return model
