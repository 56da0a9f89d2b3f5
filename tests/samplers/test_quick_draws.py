"""Quick draws are of control variates, or of NUTS where that sampler says that it is not at the posterior."""

import logging

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.samplers import quick_draws as home
from adobest_pp.samplers.problems import logger
from adobest_pp.samplers.quick_draws import quick_draws

RESPONSES = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0, 0, 0, 1, 2, 0, 1])
SIZES = (40, 100, 2, 1)


def of_nuts(prior):
    tree = ad.sample(RESPONSES, "nuts", prior, draws=40, tune=100, chains=2, random_seed=1, progressbar=False)
    return tree["posterior"]["theta"].values.reshape(-1, 3)


def biased(*_):
    logger.warning("The draws are biased.")
    return {"theta": np.zeros((2, 40, 3))}, {}, {}


def lost(*_):
    raise RuntimeError("not finite")


def test_they_are_of_control_variates(monkeypatch):
    monkeypatch.setattr("adobest_pp.samplers.nuts.sample_nuts", lambda *_, **__: pytest.fail("nobody asked"))
    assert quick_draws(RESPONSES, np.ones(3), *SIZES).shape == (80, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampler", [biased, lost])
def test_nuts_takes_over_in_silence(sampler, monkeypatch, caplog):
    monkeypatch.setattr(home, "sgld_cv_draws", sampler)
    with caplog.at_level(logging.WARNING, "adobest_pp"):
        draws = quick_draws(RESPONSES, np.ones(3), *SIZES)
    np.testing.assert_array_equal(draws, of_nuts(1.0))
    assert "biased" not in caplog.text
    assert not logger.filters


@pytest.mark.filterwarnings("ignore")
def test_nuts_has_the_priors_that_control_variates_refuse(monkeypatch):
    monkeypatch.setattr(home, "sgld_cv_draws", lambda *_: pytest.fail("it refuses them"))
    np.testing.assert_array_equal(quick_draws(RESPONSES, np.full(3, 0.005), *SIZES), of_nuts(0.005))
