"""The gradients, diffusions and loop of SGLD against their definitions, and the step-size schedules."""

import math
import subprocess
import sys

import numpy as np
import pytest

import oracles
from adobest_pp import RRRR, SRR, Channel, ConstantSteps, DecayingSteps, PaperSteps, Responses, SubsetSelection
from adobest_pp.evidence import Evidence
from adobest_pp.samplers.registry import DIFFUSIONS as DIFFUSIONS_BY_NAME
from adobest_pp.samplers.sgld import loop
from adobest_pp.samplers.sgld.diffusions import (
    CoxIngersollRoss,
    LogRatio,
    Mirrored,
    Preconditioned,
    by_log_ratio,
    move_log_ratios,
)
from adobest_pp.samplers.sgld.gradients import AnchoredBatch, FullEvidence
from adobest_pp.samplers.sgld.loop import Minibatch, Reflected, least_phi, metric_at
from adobest_pp.samplers.sgld.settings import LangevinSettings, MetricSteps
from adobest_pp.samplers.sgld_cv.control_variates import anchor_at, has_left
from adobest_pp.samplers.sgld_cv.control_variates import rows_of as laid_out
from oracles import rows_of
from tests.strategies import simulated

MECHANISMS = [SRR(6, 1.0), RRRR(6, 2.0, 0.8), RRRR(6, 0.3, 0.3), SubsetSelection(6, 1.0, size=2)]
DIFFUSIONS = [Reflected, Preconditioned]
PRIOR = np.array([0.5, 1.0, 2.0, 3.5, 1.0, 0.1])
RNG = np.random.default_rng(0)


def slope_of(gradient, phi):
    slope = np.zeros(phi.size)
    loop.add_slope(gradient, 0, phi, slope)
    return slope


def moved(diffusion, phi, slope, step, noise):
    """Return φ after a step from a copy, and what `advance` returned."""
    phi, slope = phi.copy(), np.array(slope, dtype=np.float64)
    return phi, loop.advance(diffusion, RNG, phi, slope, step, noise)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_batch_gradient_is_that_of_the_paper_on_the_same_indices(mechanism):
    responses = simulated(mechanism, 300, seed=2)
    rows, row_of = rows_of(responses), responses.evidence_index()
    evidence = responses.evidence()
    rng = np.random.default_rng(0)
    for _ in range(20):
        phi = rng.gamma(1.0, size=6) + 1e-3
        batch = rng.integers(0, 300, size=17)
        found = slope_of(Minibatch(evidence, row_of[batch][None], 300 / 17), phi)
        expected = 300 / 17 * oracles.phi_gradient_of_the_paper(phi, rows[batch])
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_full_gradient_is_that_of_all_responses(mechanism):
    responses = simulated(mechanism, 300, seed=2)
    evidence = responses.evidence()
    phi = np.random.default_rng(1).gamma(2.0, size=6)
    full = slope_of(FullEvidence(evidence), phi)
    batch = slope_of(Minibatch(evidence, responses.evidence_index()[None], 1.0), phi)
    np.testing.assert_allclose(full, oracles.phi_gradient_of_the_paper(phi, rows_of(responses)), rtol=1e-9)
    np.testing.assert_allclose(full, batch, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, Channel(np.array([[0.5, 0.3, 0.2], [0.5, 0.7, 0.8]]))], ids=repr)
def test_control_variates_on_all_responses_are_the_gradient_whatever_the_anchor(mechanism):
    responses = simulated(mechanism, 300, seed=2)
    evidence, row_of = responses.evidence_and_index()
    rng = np.random.default_rng(1)
    for hat in rng.dirichlet(np.ones(mechanism.n_categories), size=3):
        anchor = anchor_at(hat, evidence, laid_out(evidence))
        phi = rng.gamma(2.0, size=mechanism.n_categories)
        found = slope_of(AnchoredBatch(evidence, row_of[None], 1.0, anchor), phi)
        np.testing.assert_allclose(found, slope_of(FullEvidence(evidence), phi), rtol=1e-8, atol=1e-8)


def test_control_variates_near_their_anchor_need_no_batch():
    responses = simulated(RRRR(6, 2.0, 0.8), 300, seed=2)
    evidence, row_of = responses.evidence_and_index()
    theta = np.random.default_rng(2).dirichlet(np.full(6, 5.0))
    anchor = anchor_at(theta, evidence, laid_out(evidence))
    near = theta * np.exp(1e-4 * np.arange(6))
    exact = slope_of(FullEvidence(evidence), near)
    for one in row_of[:5]:
        found = slope_of(AnchoredBatch(evidence, np.array([[one]]), 300.0, anchor), near)
        np.testing.assert_allclose(found, exact, atol=1e-4 * np.abs(exact).max())


def test_a_chain_has_left_its_anchor_where_chi_square_says_so():
    responses = simulated(SRR(6, 1.0), 3000, seed=2)
    evidence = responses.evidence()
    theta = np.full(6, 1 / 6)
    anchor = anchor_at(theta, evidence, laid_out(evidence))
    direction = np.array([1, -1, 0, 0, 0, 0]) / np.sqrt(2)
    unit = direction / math.sqrt(direction @ anchor.information @ direction)
    limit = math.sqrt(5 + 5 * math.sqrt(10))
    assert not has_left(theta + 0.99 * limit * unit, anchor)
    assert has_left(theta + 1.01 * limit * unit, anchor)


def test_without_responses_the_gradient_is_that_of_the_gamma_prior():
    evidence = Responses(SRR(6, 1.0)).evidence()
    phi = np.linspace(0.1, 3.0, 6)
    slope = np.full(6, np.nan)
    loop.begin(Preconditioned(PRIOR), phi, 0.1, slope)
    np.testing.assert_allclose(slope, (PRIOR - 1) / phi - 1, rtol=1e-12)
    np.testing.assert_array_equal(slope_of(FullEvidence(evidence), phi), 0.0)


def test_slip_of_the_paper_noise_enters_with_the_root_of_the_step():
    """On a normal target far from zero the chain is autoregressive, and its variance is known for every step.

    With noise γ·W instead of √γ·W the variance would be γ times this: a tenth, and a hundredth.
    """
    rng = np.random.default_rng(4)
    sigma2, n_coordinates = 4.0, 4000
    for step in (0.1, 0.01):
        phi = 100 + np.sqrt(sigma2) * rng.standard_normal(n_coordinates)
        for _ in range(int(40 / step)):
            phi, _ = moved(Reflected(PRIOR), phi, (100 - phi) / sigma2, step, rng.standard_normal(n_coordinates))
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
        reach = expected if diffusion is Preconditioned else np.maximum(expected, math.sqrt(step))
        slope = (PRIOR - 1) / reach - 1 + 200 / m * oracles.phi_gradient_of_the_paper(expected, rows[batch])
        if diffusion is Preconditioned:
            proposal = expected + step / 2 * (expected * slope + 1) + np.sqrt(step * expected) * white
        else:
            proposal = expected + step / 2 * slope + math.sqrt(step) * white
        reflections += (proposal < 0).sum()
        expected = np.abs(proposal)
    assert reflections > 0

    phi, draws, stats = start.copy(), np.empty((3, 6)), np.empty((3, 3))
    gradient = Minibatch(evidence, row_of[batches], 200 / m)
    loop.langevin_draws(diffusion(PRIOR), gradient, RNG, phi, steps, noise, draws, stats)
    np.testing.assert_allclose(phi, expected, rtol=1e-9)
    np.testing.assert_allclose(draws[-1], expected / expected.sum(), rtol=1e-9)
    assert stats[-1, 0] == pytest.approx(np.linalg.norm(slope), rel=1e-9)
    np.testing.assert_array_equal(stats[:, 1:].sum(axis=0), [reflections, 0])


def test_preconditioned_drift_of_the_prior_pulls_to_its_mean():
    phi = np.array([0.0, 0.5, 4.0])
    prior = np.array([2.0, 0.3, 1.0])
    slope = np.empty(3)
    loop.begin(Preconditioned(prior), phi, 0.1, slope)
    after, _ = moved(Preconditioned(prior), phi, slope, 0.1, np.zeros(3))
    np.testing.assert_allclose(after[1:], (phi + 0.05 * (prior - phi))[1:])
    assert after[0] > 0


def test_reflected_prior_slope_cannot_throw_far_from_zero():
    prior = np.array([0.01, 5.0, 1.0])
    slope = np.empty(3)
    for step in (1e-6, 1e-2):
        loop.begin(Reflected(prior), np.zeros(3), step, slope)
        phi, reflections = moved(Reflected(prior), np.zeros(3), slope, step, np.zeros(3))
        assert reflections >= 0
        assert np.all(phi <= 2.1 * least_phi(step))


def every_diffusion(k=3):
    """All but AMAGOLD, whose first update does not look at the gradient."""
    evidence, prior = simulated(SRR(k, 1.0), 50, seed=1).evidence(), np.linspace(0.5, 2.0, k)
    names = [name for name in DIFFUSIONS_BY_NAME.names() if name != "amagold"]
    return [loop.Langevin(evidence, None, prior, LangevinSettings.of(diffusion=name)).diffusion for name in names]


@pytest.mark.parametrize("diffusion", every_diffusion(), ids=lambda diffusion: type(diffusion).__name__)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_steps_that_are_not_finite_are_refused(diffusion, bad):
    phi, result = moved(diffusion, np.array([1.0, 2.0, 3.0]), [0.1, bad, 0.1], 0.1, np.zeros(3))
    assert result == -1
    np.testing.assert_array_equal(phi, [1.0, 2.0, 3.0])


def log_density_of_ratios(y, rows, prior):
    """Dirichlet(ρ) with the Jacobian Πθ of y_i = ln(θ_i/θ_K), and the likelihood."""
    theta = np.append(np.exp(y), 1.0)
    theta /= theta.sum()
    return prior @ np.log(theta) + oracles.log_likelihood(theta, rows)


def test_log_ratios_follow_the_slope_of_their_density():
    responses = simulated(RRRR(6, 2.0, 0.8), 300, seed=2)
    rows, rng = rows_of(responses), np.random.default_rng(4)
    y = rng.normal(size=5)
    theta = np.append(np.exp(y), 1.0)
    theta /= theta.sum()
    slope = slope_of(FullEvidence(responses.evidence()), theta)
    by_log_ratio(theta, PRIOR, slope)
    ends = [[log_density_of_ratios(y + s * e, rows, PRIOR) for e in np.eye(5)] for s in (1e-5, -1e-5)]
    np.testing.assert_allclose(slope[:5], (np.array(ends[0]) - ends[1]) / 2e-5, rtol=1e-6, atol=1e-5)


def test_a_metric_step_is_that_of_the_formula_and_a_mirrored_one_has_none():
    responses = simulated(RRRR(6, 2.0, 0.8), 300, seed=2)
    evidence, rng = responses.evidence(), np.random.default_rng(4)
    theta, noise, step = rng.dirichlet(np.full(6, 3.0)), rng.standard_normal(6), 0.2
    diffusion = LogRatio(PRIOR, *metric_at(anchor_at(theta, evidence, laid_out(evidence)), PRIOR))
    np.testing.assert_allclose(diffusion.factor @ diffusion.factor.T, diffusion.metric, rtol=1e-9)
    slope = slope_of(FullEvidence(evidence), theta)
    by_y = slope.copy()
    by_log_ratio(theta, PRIOR, by_y)
    y, by_y = np.log(theta[:5] / theta[5]), by_y[:5]
    for kind, move in (
        (diffusion, step / 2 * diffusion.metric @ by_y + math.sqrt(step) * diffusion.factor @ noise[:5]),
        (Mirrored(PRIOR), step / 2 * by_y + math.sqrt(step) * noise[:5]),
    ):
        expected = np.append(np.exp(y + move), 1.0)
        after, result = moved(kind, theta, slope, step, noise)
        assert result == 0
        np.testing.assert_allclose(after, expected / expected.sum(), rtol=1e-9)


def test_the_metric_is_the_curvature_where_answers_tell_and_the_prior_where_they_do_not():
    """With very many answers and no information at all: the inverse Hessian, and the covariance of ln φ_i − ln φ_K."""
    responses = simulated(SRR(3, 3.0), 200_000, seed=2)
    evidence, rows, prior = responses.evidence(), rows_of(responses), np.ones(3)
    theta = oracles_maximum(rows)
    found = metric_at(anchor_at(theta, evidence, laid_out(evidence)), prior)[0]
    y, step, unit = np.log(theta[:2] / theta[2]), 1e-3, np.eye(2)

    def density(*moves):
        return log_density_of_ratios(y + step * sum(moves), rows, prior)

    hessian = [
        [(density(a, b) - density(a, -b) - density(-a, b) + density(-a, -b)) / (4 * step**2) for b in unit]
        for a in unit
    ]
    np.testing.assert_allclose(found, np.linalg.inv(-np.array(hessian)), rtol=0.02)
    nothing = Responses(SRR(3, 3.0)).evidence()
    of_prior = metric_at(anchor_at(theta, nothing, laid_out(nothing)), prior)[0]
    np.testing.assert_allclose(of_prior, math.pi**2 / 6 * np.array([[2.0, 1.0], [1.0, 2.0]]), rtol=1e-9)


def oracles_maximum(rows):
    """The θ of greatest likelihood, by expectation-maximization."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    theta = np.full(rows.shape[1], 1 / rows.shape[1])
    for _ in range(2000):
        theta = theta * ((counts / (distinct @ theta)) @ distinct) / counts.sum()
    return theta


def test_log_ratios_of_an_empty_category_stay_positive():
    phi = np.array([0.5, 0.5, 0.0])
    assert move_log_ratios(phi, np.array([900.0, -900.0, 0.0])) == 0
    np.testing.assert_allclose(phi, [1.0, 0.0, 0.0], atol=1e-300)


@pytest.mark.parametrize("step", [0.05, 1.0, 20.0])
def test_transitions_of_cox_ingersoll_ross_have_their_exact_moments(step):
    """From φ, mean a + (φ − a)e^(−h) and variance a(1 − e^(−h))² + 2φe^(−h)(1 − e^(−h)), without answers: a = ρ.

    Means and variances of 4000 draws within five standard errors: a false alarm in some 10⁵ of runs, on fixed seeds.
    """
    prior, start = np.array([0.1, 1.0, 3.0]), np.array([2.0, 0.01, 5.0])
    rng, n = np.random.default_rng(3), 4000
    draws = np.empty((n, 3))
    for i in range(n):
        phi = start.copy()
        assert loop.advance(CoxIngersollRoss(prior, 0.0), rng, phi, np.zeros(3), step, np.zeros(3)) == 0
        draws[i] = phi
    q = math.exp(-step)
    mean, variance = prior + (start - prior) * q, prior * (1 - q) ** 2 + 2 * start * q * (1 - q)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / n)).all()
    kurtosis = ((draws - draws.mean(axis=0)) ** 4).mean(axis=0) / draws.var(axis=0) ** 2
    assert (np.abs(draws.var(axis=0) / variance - 1) < 5 * np.sqrt((kurtosis - 1) / n)).all()


def test_steps_too_short_for_cox_ingersoll_ross_are_rejected_and_end():
    diffusion, start = CoxIngersollRoss(np.array([0.3, 0.3]), 0.0), np.array([0.2, 0.5])
    for step, code in ((5e-324, -1), (1e-300, -1), (1e-19, -1), (1e-9, 0)):
        phi = start.copy()
        assert loop.advance(diffusion, np.random.default_rng(1), phi, np.zeros(2), step, np.zeros(2)) == code
        np.testing.assert_allclose(phi, start, rtol=0 if code else 1e-3)


def test_shapes_of_cox_ingersoll_ross_count_the_people_expected():
    """After a very long time φ is Gamma(a): a_i = ρ_i + Σ P(x = i | y, θ), which sums to Σρ + n."""
    responses = simulated(SRR(3, 1.0), 40, seed=2)
    rows, prior, theta = rows_of(responses), np.array([0.5, 1.0, 2.0]), np.array([0.2, 0.5, 0.3])
    shapes = prior + (theta * rows / (rows @ theta)[:, None]).sum(axis=0)
    rng, n = np.random.default_rng(3), 4000
    draws = np.empty((n, 3))
    for i in range(n):
        phi = 7.0 * theta
        slope = slope_of(FullEvidence(responses.evidence()), phi)
        loop.advance(CoxIngersollRoss(prior, 40.0), rng, phi, slope, 50.0, np.zeros(3))
        draws[i] = phi
    assert (np.abs(draws.mean(axis=0) - shapes) < 5 * np.sqrt(shapes / n)).all()


@pytest.mark.parametrize("diffusion", DIFFUSIONS)
def test_refused_updates_are_counted(diffusion):
    evidence = simulated(SRR(6, 1.0), 20, seed=1).evidence()
    phi, draws, stats = np.ones(6), np.empty((1, 6)), np.empty((1, 3))
    noise = np.zeros((3, 6))
    noise[1, 2] = np.inf
    gradient = FullEvidence(evidence)
    loop.langevin_draws(diffusion(PRIOR), gradient, RNG, phi, np.full(3, 0.01), noise, draws, stats)
    assert stats[0, 2] == 1
    assert np.isfinite(phi).all()


def test_probability_rounded_to_nothing_is_refused():
    one = np.zeros(1, dtype=np.int64)
    zero = np.zeros(1)
    members = np.zeros(0, dtype=np.int32)
    codes = np.zeros((0, 0), dtype=np.uint16)
    impossible = Evidence(zero, zero, zero, zero, one, one - 1, one + 1, members, one, np.zeros((0, 2)), codes)
    slope = slope_of(Minibatch(impossible, one[None], 1.0), np.ones(2))
    assert moved(Reflected(PRIOR), np.ones(2), slope, 0.1, np.zeros(2))[1] == -1


def test_schedules():
    t = np.array([1, 4, 100])
    np.testing.assert_allclose(ConstantSteps(0.2)(t, 50), [0.2, 0.2, 0.2])
    np.testing.assert_allclose(DecayingSteps(0.3, 0.5)(t, 50), [0.3, 0.15, 0.03])
    np.testing.assert_allclose(DecayingSteps(0.3, 1.0)(t, 50), 0.3 / t)
    np.testing.assert_allclose(DecayingSteps(0.3, 0.0)(t, 50), 0.3)
    np.testing.assert_allclose(PaperSteps()(t, 50), 0.01)
    np.testing.assert_allclose(PaperSteps()(t, t), 0.5 / t)
    np.testing.assert_allclose(PaperSteps()(t, 0), 0.5)
    np.testing.assert_allclose(MetricSteps()(t, 5000), 0.1)
    np.testing.assert_allclose(MetricSteps(0.2, 50)(t, [0, 50, 500]), [0.2, 0.2, 0.02])


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
    parts = ("checks", "choice", "sampling", "gibbs", "sgld.settings", "sgld.loop", "sgld_cv.sampler")
    program = (
        "import sys, importlib\n"
        f"for part in {parts}: importlib.import_module('adobest_pp.samplers.' + part)\n"
        "assert not {'pymc', 'pytensor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
