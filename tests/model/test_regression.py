"""The regression that is ready to sample; its density is tested with the reference posteriors."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.model.logit import LogitLogLikelihood
from tests.refusals import refuses

TABLE = np.linspace(-1, 1, 40).reshape(20, 2)
RESPONSES = ad.Responses.from_arrays(ad.SRR(3, 1.0), np.arange(20) % 3, categories=["a", "b", "c"])


@pytest.mark.parametrize(
    ("covariates", "names"),
    [
        (TABLE, ["x0", "x1"]),
        (pd.DataFrame(TABLE, columns=["age", "income"]), ["age", "income"]),
        (xr.DataArray(TABLE, {"covariate": ["age", "town"]}, ("response", "covariate")), ["age", "town"]),
    ],
)
def test_terms_have_the_names_of_the_covariates(covariates, names):
    model = ad.model.regression_model(RESPONSES, covariates)
    assert list(model.coords["term"]) == ["intercept", *names]
    assert list(model.coords["contrast"]) == ["b", "c"]
    nodes = model.compile_logp().f.maker.fgraph.toposort()
    assert any(isinstance(node.op, LogitLogLikelihood) for node in nodes)


def test_bad_arguments_are_refused():
    with refuses("responses"):
        ad.model.regression_model([0, 1], TABLE)
    with refuses("covariates"):
        ad.model.regression_model(RESPONSES, TABLE[1:])
    with refuses("covariates"):
        ad.model.regression_model(RESPONSES, np.full((20, 1), np.nan))
    with refuses("scale"):
        ad.model.regression_model(RESPONSES, TABLE, scale=-1)
