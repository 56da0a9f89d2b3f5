"""The usual program, ready to sample: category frequencies with a Dirichlet prior."""

from typing import Literal

import pymc as pm
from numpy.typing import ArrayLike
from pytensor.tensor.variable import TensorVariable

from adobest_pp._checks import check_flag, check_prior, is_learned
from adobest_pp._dirichlet import LOG_CONCENTRATION
from adobest_pp._text import brief
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.answers.responses import Responses, check_responses
from adobest_pp.model.private_response import PrivateResponse
from adobest_pp.model.simplex import simplex


def frequency_model(
    responses: Responses | Gathered, prior: ArrayLike | Literal["learned"] = 1.0, surrogate: bool = False
) -> pm.Model:
    """Return the PyMC model of category frequencies given randomized answers.

    Parameters
    ----------
    responses : Responses or Gathered
        What was collected, or what `gather` has counted.
    prior : float or array of shape (K,) or "learned", default 1.0
        The concentrations ρ of the Dirichlet prior on θ; K of them with labels are put in the order of the categories.
        With ``"learned"`` it is one variable, ``concentration``, for all categories.
    surrogate : bool, default False
        Write θ as φ/Σφ with independent φ_i ~ Gamma(ρ_i, 1), untransformed: the same posterior of θ on variables
        that are positive only, which is what reflected SGLD moves on.

    Returns
    -------
    pymc.Model
        With ``theta`` labeled by ``category``, and the observed ``y``, one answer per ``response``; of gathered
        answers ``y`` is the log-likelihood.

    See Also
    --------
    adobest_pp.PrivateResponse : The likelihood, for models of your own.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> [variable.name for variable in ad.frequency_model(responses).free_RVs]
    ['theta']
    """
    check_responses(responses)
    k, is_surrogate = responses.n_categories, check_flag(surrogate, "surrogate")
    if isinstance(prior, str) and (is_surrogate or not is_learned(prior)):
        allowed = f"a positive number, or {k} of them, or 'learned' (without surrogate)"
        raise ValueError(f"prior must be {allowed}, got {brief(prior)}")
    rho = None if isinstance(prior, str) else check_prior(prior, k, responses.categories)
    with pm.Model(coords={"category": responses.categories}) as model:
        if rho is None:
            theta = _learned_theta()
        elif is_surrogate:
            phi = pm.Gamma("phi", rho, 1, default_transform=None, dims="category")
            theta = pm.Deterministic("theta", phi / phi.sum(), dims="category")
        else:
            theta = pm.Dirichlet("theta", a=rho, default_transform=simplex, dims="category")
        PrivateResponse("y", theta, responses, dims="response")
    return model


def _learned_theta() -> TensorVariable:
    """Add θ ~ Dirichlet(a, …, a) with ln a normal to the model in context.

    θ is φ/Σφ with φ ~ Gamma(a), and φ is written as a Gamma(a+1) variable times U^(1/a), U uniform, which is the same.
    NUTS then need not follow the orders of magnitude of an empty category, which grow as 1/a.
    """
    mean, sd = LOG_CONCENTRATION
    concentration = pm.LogNormal("concentration", mu=mean, sigma=sd)
    boosted = pm.Gamma("boosted", concentration + 1, 1, dims="category")
    gap = pm.Exponential("gap", 1, dims="category")
    return pm.Deterministic("theta", pm.math.softmax(pm.math.log(boosted) - gap / concentration), dims="category")
