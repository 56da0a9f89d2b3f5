"""The samplers of the field, piece by piece: each update against its formula, and what each one promises."""

import math

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.samplers.registry import LANGEVIN
from adobest_pp.samplers.sgld import diffusions
from adobest_pp.samplers.sgld.loop import Langevin, add_slope, advance, begin
from adobest_pp.samplers.sgld.settings import LangevinSettings
from tests.refusals import refuses
from tests.samplers import harness
from tests.strategies import simulated

PRIOR = np.array([0.7, 1.0, 2.0, 1.5])
EMPTY = np.empty((1, 0), dtype=np.int64)


def run_of(n=200, **settings):
    responses = simulated(ad.RRRR(4, 2.0, 0.8), n, seed=3)
    return Langevin(*responses.evidence_and_index(), PRIOR, LangevinSettings.of(**settings))


def unit_gradient(run, y, factor):
    """The gradient of ln p with respect to x, where y = ŷ + L·x are the log-ratios, by differences."""

    def log_density(z):
        theta = np.append(np.exp(z), 1.0)
        theta /= theta.sum()
        return PRIOR @ np.log(theta) + ad.likelihood.log_likelihood(theta, run.evidence)

    ends = [[log_density(y + s * e) for e in np.eye(y.size)] for s in (1e-5, -1e-5)]
    return factor.T @ (np.array(ends[0]) - ends[1]) / 2e-5


def one_update(run, theta, step, noise, rng):
    slope = np.empty(theta.size)
    phi = theta.copy()
    begin(run.diffusion, phi, step, slope)
    add_slope(run.estimator(EMPTY), 0, phi, slope)
    result = advance(run.diffusion, rng, phi, slope, step, noise)
    return phi, result


def ratios(phi):
    return np.log(phi[:-1] / phi[-1])


@pytest.mark.parametrize("name", ["sghmc", "sgnht", "barker"])
def test_updates_in_unit_coordinates_are_those_of_the_formulas(name):
    run, rng = run_of(diffusion=name, gradient="full"), np.random.default_rng(1)
    phi, factor, h = rng.dirichlet(np.full(4, 5.0)), run.diffusion.factor, 0.1
    v, friction = np.zeros(3), diffusions.DIFFUSION
    for _ in range(3):
        noise, seed = rng.standard_normal(4), int(rng.integers(1000))
        by_x = unit_gradient(run, ratios(phi), factor)
        if name == "barker":
            z = math.sqrt(h) * noise[:3]
            chance = 1 / (1 + np.exp(-z * by_x))
            signs = np.where(np.random.default_rng(seed).random(3) < chance, 1, -1)
            move = signs * z
        else:
            v = v + h * by_x - h * friction * v + math.sqrt(2 * h) * noise[:3]
            friction = friction + h * (v @ v / 3 - 1) if name == "sgnht" else friction
            move = h * v
        expected = ratios(phi) + factor @ move
        given = np.random.default_rng(seed)
        phi, result = one_update(run, phi, h, noise, given)
        assert result == 0
        used = 3 * (name == "barker")  # one for each coordinate, and none beyond
        assert given.random() == np.random.default_rng(seed).random(used + 1)[-1]
        np.testing.assert_allclose(ratios(phi), expected, rtol=1e-6, atol=1e-7)


def test_a_trajectory_of_amagold_is_that_of_the_formulas_and_returns_to_its_start():
    updates, h, beta = 4, 0.6, diffusions.DAMPING
    run, rng = run_of(diffusion="amagold", gradient="full", updates_per_draw=updates), np.random.default_rng(4)
    start = run.mode.theta
    factor, k = run.diffusion.factor, 4
    momentum = run.diffusion.memory[diffusions.NUMBERS + k : diffusions.NUMBERS + 2 * k - 1]
    momentum[:] = first = rng.standard_normal(3)
    noise = rng.standard_normal((updates, 4))

    def density(y):
        theta = np.append(np.exp(y), 1.0) / (1 + np.exp(y).sum())
        return PRIOR @ np.log(theta) + ad.likelihood.log_likelihood(theta, run.evidence)

    y, v, rho = ratios(start) + factor @ first * h / 2, first.copy(), 0.0
    for t in range(1, updates):
        by_x = unit_gradient(run, y, factor)
        new = ((1 - h * beta) * v + h * by_x + math.sqrt(4 * h * beta) * noise[t, :3]) / (1 + h * beta)
        rho, v = rho - h / 2 * by_x @ (v + new), new
        y = y + factor @ v * (h / 2 if t == updates - 1 else h)
    chance = math.exp(min(0.0, density(y) - density(ratios(start)) + rho))
    assert 0.05 < chance < 0.95  # so that both ends are seen

    ends = []
    for uniform in (1 - 0.9 * chance, 1 - min(1.0, 1.1 * chance)):
        run.restart()
        run.diffusion.memory[diffusions.NUMBERS + k : diffusions.NUMBERS + 2 * k - 1] = first
        phi = start.copy()
        for t in range(updates):
            phi, result = one_update(run, phi, h, noise[t], generator_of(uniform))
        ends.append((phi, result, run.diffusion.memory[diffusions.NUMBERS + k : diffusions.NUMBERS + 2 * k - 1].copy()))
    (accepted, yes, after), (returned, no, turned) = ends
    assert (yes, no) == (0, -1)
    np.testing.assert_allclose(ratios(accepted), y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(after, v, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(returned, start)
    np.testing.assert_array_equal(turned, -first)


def generator_of(value):
    """A generator whose next double is close to a value: found by search, as compiled code takes real generators."""
    for seed in range(100_000):
        if abs(np.random.default_rng(seed).random() - value) < 1e-3:
            return np.random.default_rng(seed)
    raise AssertionError


@pytest.mark.long
def test_amagold_is_right_where_its_steps_and_batches_make_sghmc_wrong():
    """Minibatches of 20 of 2000 and steps ten times the default: SGHMC has sds half again too large."""
    case = harness.Case("rrrr", 3, 2000)
    _, sd = case.moments()
    options = {"batch_size": 20, "step_size": 0.05, "updates_per_draw": 20}
    sizes = {"draws": 3000, "tune": 500, "random_seed": 3, "progressbar": False}
    wide, right = (
        ad.sample(case.responses(), name, case.prior, **options, **sizes)["posterior"]["theta"].values
        for name in ("sghmc", "amagold")
    )
    assert (wide.std(axis=(0, 1)) > 1.15 * sd).all()
    harness.check_posterior(right, case)


@pytest.mark.parametrize("mechanism", [ad.SRR(4, 1.0), ad.RRRR(4, 2.0, 0.8), ad.SubsetSelection(4, 1.0)], ids=repr)
def test_svrg_on_all_responses_is_the_gradient_and_at_its_snapshot_needs_no_batch(mechanism):
    responses = simulated(mechanism, 100, seed=2)
    run = Langevin(*responses.evidence_and_index(), PRIOR, LangevinSettings.of(gradient="svrg", batch_size=100))
    rng, everybody, one = np.random.default_rng(1), np.arange(100)[None], np.array([[7]])
    for _ in range(3):
        run.restart()
        run.memory = np.zeros(9)
        here, there = rng.gamma(2.0, size=4), rng.gamma(2.0, size=4)
        for phi, batch in ((here, one), (there, everybody)):  # the snapshot is taken at the first
            found, exact = np.zeros(4), np.zeros(4)
            add_slope(run.estimator(batch)._replace(period=1000.0), 0, phi, found)
            add_slope(run.estimator(EMPTY), 0, phi, exact)
            np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(run.memory[1:5], here / here.sum())
        assert run.memory[0] == 2


def test_svrg_takes_a_snapshot_in_every_period():
    run = run_of(100, gradient="svrg", batch_size=20)
    phi, places = np.ones(4), []
    for update in range(11):
        phi = phi + 0.1 * np.arange(4)
        add_slope(run.estimator(np.zeros((1, 20), dtype=np.int64)), 0, phi, np.zeros(4))
        places.append(update if np.allclose(run.memory[1:5], phi / phi.sum()) else None)
    assert [place for place in places if place is not None] == [0, 5, 10]
    run.restart()
    assert not run.memory.size  # the next chain has a snapshot of its own


@pytest.mark.parametrize("gradient", ["control_variates", "svrg"])
def test_gradients_are_right_on_average_over_all_batches(gradient):
    """Batches of one response, each of them once: far from the anchor or snapshot, where the batch counts."""
    run, phi = run_of(40, gradient=gradient, batch_size=1), np.array([3.0, 0.2, 1.0, 0.5])
    total, exact = np.zeros(4), np.zeros(4)
    if gradient == "svrg":
        add_slope(run.estimator(np.array([[0]])), 0, np.ones(4), np.zeros(4))  # takes the snapshot
    for place in range(40):
        run.memory[:1] = 1.0  # no other snapshot is due
        add_slope(run.estimator(np.array([[place]])), 0, phi, total)
    add_slope(run_of(40, gradient="full").estimator(EMPTY), 0, phi, exact)
    np.testing.assert_allclose(total / 40, exact, rtol=1e-8, atol=1e-8)


def test_a_skew_step_is_that_of_the_formula():
    run, rng, k = run_of(diffusion="skew_reflected"), np.random.default_rng(5), 4
    turn = np.zeros((k, k))
    for i in range(k):
        turn[i, (i + 1) % k], turn[(i + 1) % k, i] = diffusions.TURN, -diffusions.TURN
    np.testing.assert_array_equal(turn, -turn.T)
    push = np.eye(k) + turn
    for phi in (np.full(k, 9.0), np.array([0.01, 3.0, 4.0, 5.0])):
        slope, noise = rng.standard_normal(k), np.array([-2.0, 0.1, 0.2, -0.3])
        expected = phi + 0.1 / 2 * push @ slope + math.sqrt(0.1) * noise
        if expected[0] < 0:
            expected += -2 * expected[0] * push[:, 0]
        found = phi.copy()
        crossed = advance(run.diffusion, rng, found, slope.copy(), 0.1, noise)
        assert crossed == (phi[0] < 1)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_reflections_turn_with_the_drift():
    """Under ρ = 1 the density is greatest at the faces: pushed back along e_i alone, means are off by 1 to 4 sds."""
    prior = np.array([1.0, 1.0, 3.0])
    draws = ad.sample(
        ad.Responses(ad.SRR(3, 1.0)), "skew_reflected", prior, draws=4000, tune=500, batch_size=None, step_size=0.02,
        updates_per_draw=20, random_seed=2, progressbar=False,
    )["posterior"]["theta"].values  # fmt: skip
    mean = prior / prior.sum()
    sd = np.sqrt(mean * (1 - mean) / (prior.sum() + 1))
    for i in range(3):
        harness.check_moment(draws[..., i], "mean", mean[i], 0.03 * sd[i])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "amagold" else pytest.mark.long) for name in LANGEVIN]
)
def test_a_published_name_is_sgld_with_its_piece_and_is_recorded(name):
    responses = simulated(ad.SRR(3, 1.0), 60, seed=1)
    sizes = {"draws": 20, "tune": 10, "chains": 2, "random_seed": 4, "progressbar": False}
    tree = ad.sample(responses, name, **sizes)
    same = ad.sample(responses, "sgld", **LANGEVIN[name], **sizes)
    np.testing.assert_array_equal(tree["posterior"]["theta"], same["posterior"]["theta"])
    assert tree.attrs["sampler"] == name
    arguments = ad.recorded_arguments(tree.attrs)
    assert LANGEVIN[name].items() <= arguments.items()
    again = ad.sample(responses, progressbar=False, **arguments)
    np.testing.assert_array_equal(tree["posterior"]["theta"], again["posterior"]["theta"])
    with refuses("prior"):
        ad.sample(responses, name, "learned", **sizes)


def test_a_trajectory_needs_two_updates():
    with refuses("updates_per_draw"):
        ad.sample(simulated(ad.SRR(3, 1.0), 60, seed=1), "amagold", updates_per_draw=1)
