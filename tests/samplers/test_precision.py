"""Models in single precision are sampled as well, by double-precision kernels."""

import numpy as np
import pymc as pm
import pytensor
import pytest

import adobest_pp as ad
from tests.samplers.test_sgld import by_the_graph
from tests.strategies import simulated

RESPONSES = simulated(ad.RRRR(3, 1.0), 60, seed=1)
QUIET = {"chains": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}
STEPS = {
    "nuts": lambda: None,
    "gibbs": lambda: ad.DataAugmentationGibbs("theta"),
    "sgld by the graph": lambda: by_the_graph("phi", step_size=0.01),
    "sgld": lambda: ad.SGLD("phi", step_size=0.01),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in ("nuts", "sgld by the graph"))) for name in STEPS]
)
def test_single_precision(name, request):
    """NUTS as compiled by Numba; the others with graphs that are interpreted, which call the same kernels."""
    if name != "nuts":
        request.getfixturevalue("interpreted")
    check_single_precision(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STEPS if name != "nuts"])
def test_single_precision_of_compiled_graphs(name):
    check_single_precision(name)


def check_single_precision(name):
    with pytensor.config.change_flags(floatX="float32"), ad.frequency_model(RESPONSES, surrogate="sgld" in name):
        theta = pm.sample(30, tune=30, step=STEPS[name](), **QUIET)["posterior"]["theta"].values
    np.testing.assert_allclose(theta.sum(axis=-1), 1.0, rtol=1e-5)
    assert theta.std(axis=1).min() > 0


@pytest.mark.usefixtures("interpreted")
def test_a_share_too_small_for_single_precision():
    with pytensor.config.change_flags(floatX="float32"), ad.frequency_model(RESPONSES, 1e-3) as model:
        step = ad.DataAugmentationGibbs("theta", rng=1)
        point = model.initial_point()
        for _ in range(200):
            point, _ = step.step(point)
            assert all(np.isfinite(value).all() for value in point.values())
