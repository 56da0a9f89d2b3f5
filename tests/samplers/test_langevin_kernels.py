"""The compiled pieces of SGLD against their definitions, and the step-size schedules."""

import math
import subprocess
import sys

import numpy as np
import pytest

import oracles
from adobest_pp import RRRR, SRR, ConstantSteps, DecayingSteps, PaperSteps, Responses, SubsetSelection
from adobest_pp.data.evidence import Evidence
from adobest_pp.samplers import langevin_kernels as kernels
from oracles import rows_of
from tests.strategies import simulated

MECHANISMS = [SRR(6, 1.0), RRRR(6, 2.0, 0.8), RRRR(6, 0.3, 0.3), SubsetSelection(6, 1.0, size=2)]
DIFFUSIONS = [kernels.REFLECTED, kernels.PRECONDITIONED]
PRIOR = np.array([0.5, 1.0, 2.0, 3.5, 1.0, 0.1])
NO_FLOOR = kernels.TINY


def oracle_gradient(phi, rows, scale):
    """The paper's gradient with its slip put right: ρ, not α, in the prior's."""
    likelihood = oracles.phi_gradient_of_the_paper(phi, rows) if len(rows) else 0.0
    return (PRIOR - 1) / phi - 1 + scale * likelihood


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_batch_gradient_is_that_of_the_paper_on_the_same_indices(mechanism):
    responses = simulated(mechanism, 300, seed=2)
    rows, row_of = rows_of(responses), responses.evidence_index()
    evidence = responses.evidence()
    rng = np.random.default_rng(0)
    out = np.full(6, np.nan)
    for _ in range(20):
        phi = rng.gamma(1.0, size=6) + 1e-3
        batch = rng.integers(0, 300, size=17)
        kernels.phi_gradient(phi, row_of[batch], 300 / 17, PRIOR, NO_FLOOR, evidence, out)
        np.testing.assert_allclose(out, oracle_gradient(phi, rows[batch], 300 / 17), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_full_gradient_is_that_of_all_responses(mechanism):
    responses = simulated(mechanism, 300, seed=2)
    evidence = responses.evidence()
    phi = np.random.default_rng(1).gamma(2.0, size=6)
    full, batch = np.empty(6), np.empty(6)
    kernels.full_phi_gradient(phi, PRIOR, NO_FLOOR, evidence, full)
    kernels.phi_gradient(phi, responses.evidence_index(), 1.0, PRIOR, NO_FLOOR, evidence, batch)
    np.testing.assert_allclose(full, oracle_gradient(phi, rows_of(responses), 1.0), rtol=1e-10)
    np.testing.assert_allclose(full, batch, rtol=1e-10)


def test_without_responses_the_gradient_is_that_of_the_gamma_prior():
    evidence = Responses(SRR(6, 1.0)).evidence()
    phi = np.linspace(0.1, 3.0, 6)
    full, batch = np.empty(6), np.empty(6)
    kernels.full_phi_gradient(phi, PRIOR, NO_FLOOR, evidence, full)
    kernels.phi_gradient(phi, np.zeros(0, dtype=np.int64), 0.0, PRIOR, NO_FLOOR, evidence, batch)
    expected = (PRIOR - 1) / phi - 1
    np.testing.assert_allclose(full, expected, rtol=1e-12)
    np.testing.assert_allclose(batch, expected, rtol=1e-12)


def test_slip_of_the_paper_noise_enters_with_the_root_of_the_step():
    """On a normal target far from zero the chain is autoregressive, and its variance is known for every step.

    With noise γ·W instead of √γ·W the variance would be γ times this: a tenth, and a hundredth.
    """
    rng = np.random.default_rng(4)
    sigma2, n_coordinates = 4.0, 4000
    for step in (0.1, 0.01):
        phi = 100 + np.sqrt(sigma2) * rng.standard_normal(n_coordinates)
        for _ in range(int(40 / step)):
            kernels.move(kernels.REFLECTED, phi, (100 - phi) / sigma2, step, rng.standard_normal(n_coordinates))
        exact = step / (1 - (1 - step / (2 * sigma2)) ** 2)
        assert abs(phi.var() / exact - 1) < 4 * math.sqrt(2 / n_coordinates)


@pytest.mark.parametrize("m", [9, 1])
@pytest.mark.parametrize("diffusion", DIFFUSIONS)
def test_updates_are_those_of_the_formulas(diffusion, m):
    responses = simulated(RRRR(6, 1.0), 200, seed=7)
    rows, row_of = rows_of(responses), responses.evidence_index()
    evidence = responses.evidence()
    rng = np.random.default_rng(8)
    start = rng.gamma(2.0, size=6)
    steps, batches, noise = rng.uniform(0.01, 0.3, 30), rng.integers(0, 200, (30, m)), rng.standard_normal((30, 6))

    expected, reflections = start.copy(), 0
    for step, batch, white in zip(steps, batches, noise, strict=True):
        # The slope of the prior is taken no closer to zero than the width of the noise, where that does not shrink.
        reach = expected if diffusion == kernels.PRECONDITIONED else np.maximum(expected, math.sqrt(step))
        slope = (PRIOR - 1) / reach - 1 + 200 / m * oracles.phi_gradient_of_the_paper(expected, rows[batch])
        if diffusion == kernels.PRECONDITIONED:
            proposal = expected + step / 2 * (expected * slope + 1) + np.sqrt(step * expected) * white
        else:
            proposal = expected + step / 2 * slope + math.sqrt(step) * white
        reflections += (proposal < 0).sum()
        expected = np.abs(proposal)
    assert reflections > 0

    phi, draws, stats = start.copy(), np.empty((3, 6)), np.empty((3, 3))
    kernels.langevin_draws(diffusion, phi, steps, row_of[batches], noise, PRIOR, evidence, draws, stats)
    np.testing.assert_allclose(phi, expected, rtol=1e-9)
    np.testing.assert_allclose(draws[-1], expected / expected.sum(), rtol=1e-9)
    assert stats[-1, 0] == pytest.approx(np.linalg.norm(slope), rel=1e-9)
    np.testing.assert_array_equal(stats[:, 1:].sum(axis=0), [reflections, 0])


def test_preconditioned_drift_of_the_prior_pulls_to_its_mean():
    phi = np.array([0.0, 0.5, 4.0])
    prior = np.array([2.0, 0.3, 1.0])
    gradient = np.empty(3)
    kernels.prior_gradient(phi, prior, kernels.slope_floor(kernels.PRECONDITIONED, 0.1), gradient)
    before = phi.copy()
    kernels.move(kernels.PRECONDITIONED, phi, gradient, 0.1, np.zeros(3))
    np.testing.assert_allclose(phi[1:], (before + 0.05 * (prior - before))[1:])
    assert phi[0] > 0


def test_reflected_prior_slope_cannot_throw_far_from_zero():
    prior = np.array([0.01, 5.0, 1.0])
    gradient = np.empty(3)
    for step in (1e-6, 1e-2):
        phi = np.zeros(3)
        kernels.prior_gradient(phi, prior, kernels.slope_floor(kernels.REFLECTED, step), gradient)
        assert kernels.move(kernels.REFLECTED, phi, gradient, step, np.zeros(3)) >= 0
        assert np.all(phi <= 2.1 * math.sqrt(step))


@pytest.mark.parametrize("diffusion", DIFFUSIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_steps_that_are_not_finite_are_refused(diffusion, bad):
    phi = np.array([1.0, 2.0, 3.0])
    assert kernels.move(diffusion, phi, np.array([0.1, bad, 0.1]), 0.1, np.zeros(3)) == -1
    np.testing.assert_array_equal(phi, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("diffusion", DIFFUSIONS)
def test_refused_updates_are_counted(diffusion):
    evidence = simulated(SRR(6, 1.0), 20, seed=1).evidence()
    phi, draws, stats = np.ones(6), np.empty((1, 6)), np.empty((1, 3))
    noise = np.zeros((3, 6))
    noise[1, 2] = np.inf
    batches = np.zeros((3, 0), dtype=np.int64)
    kernels.langevin_draws(diffusion, phi, np.full(3, 0.01), batches, noise, PRIOR, evidence, draws, stats)
    assert stats[0, 2] == 1
    assert np.isfinite(phi).all()


def test_probability_rounded_to_nothing_is_refused():
    phi, out = np.ones(2), np.empty(2)
    one = np.zeros(1, dtype=np.int64)
    zero = np.zeros(1)
    members = np.zeros(0, dtype=np.int32)
    codes = np.zeros((0, 0), dtype=np.uint16)
    impossible = Evidence(zero, zero, zero, zero, one, one - 1, one + 1, members, one, np.zeros((0, 2)), codes)
    kernels.phi_gradient(phi, one, 1.0, np.ones(2), NO_FLOOR, impossible, out)
    assert kernels.move(kernels.REFLECTED, phi, out, 0.1, np.zeros(2)) == -1


def test_schedules():
    t = np.array([1, 4, 100])
    np.testing.assert_allclose(ConstantSteps(0.2)(t, 50), [0.2, 0.2, 0.2])
    np.testing.assert_allclose(DecayingSteps(0.3, 0.5)(t, 50), [0.3, 0.15, 0.03])
    np.testing.assert_allclose(DecayingSteps(0.3, 1.0)(t, 50), 0.3 / t)
    np.testing.assert_allclose(DecayingSteps(0.3, 0.0)(t, 50), 0.3)
    np.testing.assert_allclose(PaperSteps()(t, 50), 0.01)
    np.testing.assert_allclose(PaperSteps()(t, t), 0.5 / t)
    np.testing.assert_allclose(PaperSteps()(t, 0), 0.5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ConstantSteps(0.0), "step_size must be a positive number, got 0.0"),
        (lambda: ConstantSteps(math.inf), "step_size must be"),
        (lambda: DecayingSteps(-1.0), "scale must be a positive number"),
        (lambda: DecayingSteps(1.0, 1.5), "power must be a number from 0 to 1, got 1.5"),
        (lambda: PaperSteps("a"), "scale must be a positive number"),
    ],
)
def test_schedules_refuse(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_compiled_parts_need_no_pymc():
    parts = ("langevin_kernels", "schedules", "langevin_settings", "augmentation", "chains", "sampling")
    program = (
        "import sys, importlib\n"
        f"for part in {parts}: importlib.import_module('adobest_pp.samplers.' + part)\n"
        "assert not {'pymc', 'pytensor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
