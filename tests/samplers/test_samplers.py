"""Every sampler against exact posteriors of every mechanism, with no, few and many responses."""

import numpy as np
import pytest

import adobest_pp as ad
from tests.samplers import harness

# What each kind of SGLD shares: all answers in each update, or a minibatch of them.
ALL_ANSWERS = {"sampler": "sgld", "draws": 4000, "tune": 500, "updates_per_draw": 20, "batch_size": None}
MINIBATCHES = {"sampler": "sgld", "draws": 2000, "tune": 300, "updates_per_draw": 40}

# The bias that is allowed, in standard deviations of the posterior (none for exact samplers), and the settings. Without
# a step size, SGLD has one that falls with the number of answers.
SAMPLERS = {
    "nuts": (0.0, {"sampler": "nuts", "draws": 1000, "tune": 500}),
    "gibbs": (0.0, {"sampler": "gibbs", "draws": 4000, "tune": 200}),
    "reflected": (0.1, ALL_ANSWERS | {"diffusion": "reflected"}),
    "preconditioned": (0.05, ALL_ANSWERS | {"diffusion": "preconditioned"}),
    "log_ratio": (0.05, MINIBATCHES | {"diffusion": "log_ratio", "gradient": "control_variates", "step_size": 0.04}),
    "log_ratio_on_all_evidence": (
        0.05,
        MINIBATCHES | {"diffusion": "log_ratio", "gradient": "full", "step_size": 0.04},
    ),
    "cox_ingersoll_ross": (
        0.05,
        MINIBATCHES | {"diffusion": "cox_ingersoll_ross", "gradient": "full", "step_size": 0.05},
    ),
    "mirrored": (0.05, MINIBATCHES | {"diffusion": "mirrored", "gradient": "control_variates"}),
    "reflected_with_control_variates": (0.1, MINIBATCHES | {"diffusion": "reflected", "gradient": "control_variates"}),
    "sgld_cv": (0.02, {"sampler": "sgld_cv", "draws": 2000, "tune": 500}),
    "svrg": (0.05, MINIBATCHES | {"diffusion": "log_ratio", "gradient": "svrg", "step_size": 0.04}),
    "skew_reflected": (0.1, ALL_ANSWERS | {"diffusion": "skew_reflected"}),
    "sghmc": (0.05, MINIBATCHES | {"diffusion": "sghmc", "gradient": "control_variates", "step_size": 0.05}),
    "sgnht": (0.05, MINIBATCHES | {"diffusion": "sgnht", "gradient": "control_variates", "step_size": 0.05}),
    "barker": (0.05, MINIBATCHES | {"diffusion": "barker", "gradient": "control_variates", "step_size": 0.04}),
    # Exact with long steps and batches of ten.
    "amagold": (
        0.0,
        {"sampler": "amagold", "draws": 4000, "tune": 300, "updates_per_draw": 10}
        | {"gradient": "control_variates", "step_size": 0.2, "batch_size": 10},
    ),
}


def draws_of(name, case, seed, **changes):
    responses, settings = case.responses(), SAMPLERS[name][1] | changes
    if "diffusion" in settings:
        settings = {"step_size": 0.4 / (len(responses) + 20)} | settings
    tree = ad.sample(responses, prior=case.prior, random_seed=seed, progressbar=False, **settings)
    return tree["posterior"]["theta"].values


# Few answers of the mechanism that has every kind of row, for the samplers that do not share their gradient and their
# kind of diffusion with another; many of them for one sampler of each gradient; few of every other mechanism for three
# samplers. The other cases take a minute.
FEW, MANY = harness.Case("rrrr", 3, 7), harness.Case("rrrr", 3, 2000)
OTHERS = [harness.Case(name, 3, 7) for name in harness.MECHANISMS]
OF_EACH_KIND = ("nuts", "gibbs", "reflected", "preconditioned", "log_ratio", "sgld_cv", "svrg")
OF_EACH_GRADIENT = ("nuts", "gibbs", "reflected", "log_ratio", "sgld_cv")
OF_EACH_MECHANISM = ("nuts", "gibbs", "sgld_cv")


def is_quick(name, case):
    names = {FEW: OF_EACH_KIND, MANY: OF_EACH_GRADIENT}.get(case, OF_EACH_MECHANISM)
    return name in names and (case in (FEW, MANY) or case in OTHERS)


PAIRS = [
    pytest.param(name, case, marks=[] if is_quick(name, case) else pytest.mark.long, id=f"{name}-{case}")
    for name in SAMPLERS
    for case in harness.CASES
]


@pytest.mark.parametrize(("name", "case"), PAIRS)
def test_posterior_is_the_exact_one(name, case):
    draws = draws_of(name, case, seed=3)
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0)
    harness.check_posterior(draws, case, bias=SAMPLERS[name][0])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in OF_EACH_KIND else pytest.mark.long) for name in SAMPLERS]
)
def test_same_seed_gives_same_draws(name):
    once, again, other = (draws_of(name, FEW, seed, draws=30, tune=100) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)
