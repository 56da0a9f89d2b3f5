"""Every sampler against exact posteriors of every mechanism, with no, few and many responses."""

import numpy as np
import pytest

import adobest_pp as ad
from tests.samplers import harness


def nuts(responses, prior, seed):
    return _theta(responses, "nuts", prior, seed, draws=1000, tune=500)


def gibbs(responses, prior, seed):
    return _theta(responses, "gibbs", prior, seed, draws=4000, tune=200)


def reflected(responses, prior, seed):
    return _full_batch(responses, prior, seed, diffusion="reflected")


def preconditioned(responses, prior, seed):
    return _full_batch(responses, prior, seed, diffusion="preconditioned")


def log_ratio(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="log_ratio", gradient="control_variates", step_size=0.04)


def log_ratio_on_all_evidence(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="log_ratio", gradient="full", step_size=0.04)


def cox_ingersoll_ross(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="cox_ingersoll_ross", gradient="full", step_size=0.05)


def mirrored(responses, prior, seed):
    step = 0.4 / (len(responses) + 20)
    return _pieces(responses, prior, seed, diffusion="mirrored", gradient="control_variates", step_size=step)


def reflected_with_control_variates(responses, prior, seed):
    step = 0.4 / (len(responses) + 20)
    return _pieces(responses, prior, seed, diffusion="reflected", gradient="control_variates", step_size=step)


def svrg(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="log_ratio", gradient="svrg", step_size=0.04)


def skew_reflected(responses, prior, seed):
    return _full_batch(responses, prior, seed, diffusion="skew_reflected")


def sghmc(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="sghmc", gradient="control_variates", step_size=0.05)


def sgnht(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="sgnht", gradient="control_variates", step_size=0.05)


def barker(responses, prior, seed):
    return _pieces(responses, prior, seed, diffusion="barker", gradient="control_variates", step_size=0.04)


def amagold(responses, prior, seed):
    """Exact with long steps and batches of ten."""
    options = {"gradient": "control_variates", "step_size": 0.2, "batch_size": 10, "updates_per_draw": 10}
    return _theta(responses, "amagold", prior, seed, draws=4000, tune=300, **options)


def _pieces(responses, prior, seed, **options):
    return _theta(responses, "sgld", prior, seed, draws=2000, tune=300, updates_per_draw=40, **options)


def sgld_cv(responses, prior, seed):
    return _theta(responses, "sgld_cv", prior, seed, draws=2000, tune=500)


def _full_batch(responses, prior, seed, diffusion):
    step = 0.4 / (len(responses) + 20)
    options = {"batch_size": None, "step_size": step, "updates_per_draw": 20, "diffusion": diffusion}
    return _theta(responses, "sgld", prior, seed, draws=4000, tune=500, **options)


def _theta(responses, sampler, prior, seed, **settings):
    tree = ad.sample(responses, sampler, prior, random_seed=seed, progressbar=False, **settings)
    return tree["posterior"]["theta"].values


# The bias that is allowed, in standard deviations of the posterior: none for exact samplers.
SAMPLERS = {
    nuts: 0.0,
    gibbs: 0.0,
    reflected: 0.1,
    preconditioned: 0.05,
    log_ratio: 0.05,
    log_ratio_on_all_evidence: 0.05,
    cox_ingersoll_ross: 0.05,
    mirrored: 0.05,
    reflected_with_control_variates: 0.1,
    sgld_cv: 0.02,
    svrg: 0.05,
    skew_reflected: 0.1,
    sghmc: 0.05,
    sgnht: 0.05,
    barker: 0.05,
    amagold: 0.0,
}


# Few and many answers of the mechanism that has every kind of row; few answers of every other mechanism for one sampler
# of each gradient. The other cases take a minute.
QUICK = [harness.Case("rrrr", 3, 7), harness.Case("rrrr", 3, 2000)]
FEW = [harness.Case(name, 3, 7) for name in harness.MECHANISMS]
OF_EACH_GRADIENT = (nuts, gibbs, reflected, log_ratio, sgld_cv, svrg)


def is_quick(sampler, case):
    return case in QUICK or (case in FEW and sampler in OF_EACH_GRADIENT)


PAIRS = [
    pytest.param(
        sampler, case, marks=[] if is_quick(sampler, case) else pytest.mark.long, id=f"{sampler.__name__}-{case}"
    )
    for sampler in SAMPLERS
    for case in harness.CASES
]


@pytest.mark.parametrize(("sampler", "case"), PAIRS)
def test_posterior_is_the_exact_one(sampler, case):
    draws = sampler(case.responses(), case.prior, seed=3)
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0)
    harness.check_posterior(draws, case, bias=SAMPLERS[sampler])


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_same_seed_gives_same_draws(sampler):
    harness.check_repeats(sampler, harness.Case("rrrr", 3, 7))
