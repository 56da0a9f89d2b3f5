"""The usual regression, ready to sample: shares of each person that depend on public covariates."""

from typing import Any

import pymc as pm
import pytensor.tensor as pt

from adobest_pp._checks import check_positive
from adobest_pp._text import brief
from adobest_pp.answers.responses import Responses
from adobest_pp.model.logit import check_covariates, multinomial_logit
from adobest_pp.model.private_response import PrivateResponse


def regression_model(responses: Responses, covariates: Any, scale: float = 1.5) -> pm.Model:
    """Return the PyMC model of private answers that public covariates explain: a multinomial logit.

    Parameters
    ----------
    responses : Responses
        One answer per person.
    covariates : array of shape (n, P)
        Public numbers, one row per person, in the order of the responses. Sampling is easier if they are centered and
        scaled. Columns of pandas, or labels of the dimension ``covariate`` of xarray, are their names.
    scale : float, default 1.5
        The standard deviation of the normal prior of each coefficient.

    Returns
    -------
    pymc.Model
        With ``coefficient`` by ``term``, the intercept and the covariates, and by ``contrast``, the categories after
        the first: θ of a person is the softmax of (0, c₁, …), c = (1, covariates)·coefficient. A coefficient is a
        change of log-odds against the first category. ``y`` has the observed answers.

    See Also
    --------
    multinomial_logit : θ of each person, for models of your own.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> responses = ad.Responses.from_arrays(ad.SRR(2, epsilon=1.0), [0, 0, 1], categories=["no", "yes"])
    >>> model = ad.model.regression_model(responses, [[-1.0], [0.0], [1.0]])
    >>> list(model.coords["term"]), list(model.coords["contrast"])
    (['intercept', 'x0'], ['yes'])
    """
    if not isinstance(responses, Responses):
        raise ValueError(f"responses must be Responses, got {brief(responses)}")
    table = check_covariates(covariates)
    if len(table) != len(responses):
        raise ValueError(f"covariates must have {len(responses)} rows, one for each response, got {len(table)}")
    sd = check_positive(scale, "scale")
    if hasattr(covariates, "columns"):
        names = covariates.columns
    elif "covariate" in getattr(covariates, "coords", ()):
        names = covariates["covariate"].values
    else:
        names = [f"x{i}" for i in range(table.shape[1])]
    coords = {"term": ["intercept", *map(str, names)], "contrast": list(responses.categories[1:])}
    with pm.Model(coords=coords) as model:
        coefficient = pm.Normal("coefficient", sigma=sd, dims=("term", "contrast"))
        first = pt.zeros((1 + table.shape[1], 1))
        theta = multinomial_logit(table, pt.concatenate([first, coefficient], axis=1))
        PrivateResponse("y", theta, responses, dims="response")
    return model
