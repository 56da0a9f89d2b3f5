"""SGLD with control variates: its parts against definitions, and its draws against quadrature.

Moments are held to four Monte Carlo errors (one false alarm in 16 000 each, on fixed seeds) and 2 % of an sd.
"""

import json

import numpy as np
import pytest
from scipy import integrate, special, stats

import adobest_pp as ad
import oracles
from adobest_pp._numerics import seed_state
from adobest_pp.samplers.sgld_cv import control_variates, dynamics
from adobest_pp.samplers.sgld_cv import sampler as sgld_cv
from adobest_pp.samplers.sgld_cv.dynamics import FULL, Target, write_force
from tests.samplers import harness
from tests.strategies import simulated

BIAS = 0.02


def gradient_at(x, target, batch, state):
    """One estimate of ∂ln p/∂x."""
    force = np.empty(x.size)
    write_force(state, x, target, batch, force)
    return force


def sampled(responses, prior=1.0, **settings):
    defaults = {"draws": 2000, "tune": 500, "random_seed": 3, "progressbar": False}
    return ad.sample(responses, "sgld_cv", prior, **(defaults | settings))


def choices(tree):
    return json.loads(tree.attrs["sampler_choices"])


def pieces(responses, prior, seed=0):
    """Return a target around some draws, and x of them."""
    rng = np.random.default_rng(seed)
    evidence = responses.evidence()
    k, rows = responses.n_categories, control_variates.rows_of(evidence)
    theta = rng.dirichlet(np.full(k, 5.0), size=200)
    coordinates, x = dynamics.coordinates_of(theta, prior, np.full(k, 0.01), rng)
    anchor = control_variates.anchor_at(theta.mean(axis=0), evidence, rows)
    fixed = dynamics.Prior(prior, np.zeros(1), False, -1.0, 1.0)
    return Target(fixed, coordinates, rows, anchor), x


# Gradients


def on_simplex(slope, theta):
    """A constant in all categories has no meaning there."""
    return slope - theta @ slope


RESPONSES = {
    "rrrr": lambda: simulated(ad.RRRR(6, 1.0, 0.8), 300, seed=1),
    "srr": lambda: simulated(ad.SRR(4, 2.0), 50, seed=2),
    "subset_selection": lambda: simulated(ad.SubsetSelection(7, 1.0, size=3), 400, seed=3),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_gradient_on_all_evidence_is_the_definition(name):
    responses = RESPONSES[name]()
    rows = control_variates.rows_of(responses.evidence())
    theta = np.random.default_rng(0).dirichlet(np.ones(responses.n_categories))
    slope, masses = np.empty(theta.size), np.empty(rows.offsets.size)
    control_variates.full_gradient(theta, *rows[:6], masses, masses.copy(), slope)
    exact = oracles.gradient(theta, oracles.rows_of(responses))
    np.testing.assert_allclose(on_simplex(slope, theta), on_simplex(exact, theta), rtol=1e-9, atol=1e-9)


def test_gradient_of_patterns_is_that_of_the_matrix():
    rng = np.random.default_rng(1)
    matrix = rng.dirichlet(np.full(5, 3.0), size=4).T
    responses = ad.Responses.from_arrays(ad.Channel(matrix), rng.integers(5, size=80))
    evidence = responses.evidence()
    rows, theta, dense = control_variates.rows_of(evidence), rng.dirichlet(np.ones(4)), evidence.matrix()
    slope, masses = np.empty(4), np.empty(rows.offsets.size + len(rows.patterns))
    control_variates.full_gradient(theta, *rows[:6], masses, masses.copy(), slope)
    h = dense @ theta
    exact = (dense * (evidence.count / h)[:, None]).sum(axis=0)
    np.testing.assert_allclose(on_simplex(slope, theta), on_simplex(exact, theta), rtol=1e-9)
    anchor = control_variates.anchor_at(theta, evidence, rows)
    information = (dense * (evidence.count / h**2)[:, None]).T @ dense
    np.testing.assert_allclose(anchor.information, information, rtol=1e-9)
    assert sgld_cv.choose_batch(0.1, 1.0, rows) == FULL


@pytest.mark.parametrize("name", RESPONSES)
def test_batches_are_unbiased_and_exact_to_second_order(name):
    """All rows in turn, weighted by how often they are drawn, give the gradient; far from the anchor as well."""
    responses = RESPONSES[name]()
    evidence = responses.evidence()
    rows = control_variates.rows_of(evidence)
    rng = np.random.default_rng(0)
    hat, theta = rng.dirichlet(np.ones(responses.n_categories), size=2)
    anchor = control_variates.anchor_at(hat, evidence, rows)
    dense = oracles.rows_of(responses)
    delta, slope = np.empty(hat.size), np.empty(hat.size)
    control_variates.taylor_gradient(theta, *anchor[:3], delta, slope)
    near = hat + 1e-4 * (theta - hat)
    small, part = np.empty(hat.size), np.empty(hat.size)
    control_variates.taylor_gradient(near, *anchor[:3], part, small)
    exact = on_simplex(oracles.gradient(near, dense), near)
    np.testing.assert_allclose(on_simplex(small, near), exact, atol=1e-5 * np.abs(exact).max())
    estimates = []
    for seed in range(200):
        estimate = slope.copy()
        parts = (rows.places, rows.members, rows.threshold, rows.alias)
        arguments = (rows.n_responses, delta, anchor.relative, *parts, estimate)
        control_variates.add_batch(seed_state(seed), 40, *arguments)
        estimates.append(on_simplex(estimate, theta))
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(200)
    off = np.mean(estimates, axis=0) - on_simplex(oracles.gradient(theta, dense), theta)
    # Four standard errors of 200 independent estimates: one false alarm in 16 000 for each category, on fixed seeds.
    assert (np.abs(off) <= 4 * error + 1e-9).all()


def test_rows_are_drawn_by_their_counts():
    evidence = simulated(ad.RRRR(5, 1.0, 0.9), 500, seed=4).evidence()
    rows = control_variates.rows_of(evidence)
    shares = rows.threshold + np.bincount(rows.alias, 1 - rows.threshold, minlength=rows.alias.size)
    np.testing.assert_allclose(shares / rows.alias.size, evidence.count / evidence.n_responses, rtol=1e-9)


# Coordinates


@pytest.mark.parametrize("rho", [0.01, 0.1, 1.0, 30.0])
def test_quantiles_are_those_of_the_gamma_law(rho):
    tables, index = dynamics.quantile_tables(np.array([rho]))
    for z in (-3.0, -0.4, 0.0, 0.71, 2.2, 4.0):
        rates, logs, spare, theta = np.empty((4, 1))
        dynamics.write_theta(np.array([z]), tables, index, np.zeros(1), rates, logs, spare, theta)
        exact = stats.gamma.isf(stats.norm.sf(z), rho) if z > 0 else stats.gamma.ppf(stats.norm.cdf(z), rho)
        # Below the smallest number that a double has, only the power law is left.
        expected = np.log(exact) if exact > 1e-290 else (stats.norm.logcdf(z) + special.gammaln(1 + rho)) / rho
        assert logs[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("batch", [FULL, 5000])
def test_gradient_of_the_coordinates_is_that_of_the_log_density(batch):
    responses = RESPONSES["rrrr"]()
    prior = np.array([0.3, 1.0, 2.0, 1.0, 0.5, 4.0])
    target, x = pieces(responses, prior)
    rows = oracles.rows_of(responses)
    coordinates = target.coordinates

    def log_density(x):
        """The density of φ, times dφ/dz, from the definitions."""
        z = coordinates.center + coordinates.factor @ x
        phi = np.exp(coordinates.log_scale) * stats.gamma.isf(stats.norm.sf(z), prior)
        jacobian = stats.norm.logpdf(z) - stats.gamma.logpdf(phi / np.exp(coordinates.log_scale), prior)
        total = phi.sum()
        of_total = -prior.sum() * np.log(total) - np.log(total) ** 2 / (2 * coordinates.total_sd**2)
        of_phi = ((prior - 1) * np.log(phi)).sum() + jacobian.sum()
        return of_phi + of_total + oracles.log_likelihood(phi / total, rows)

    place = x[3]
    numeric = [(log_density(place + 1e-4 * e) - log_density(place - 1e-4 * e)) / 2e-4 for e in np.eye(prior.size)]
    found = gradient_at(place, target, batch, seed_state(1))
    # A batch of 5000 rows is off by less than one unit here (four of its standard errors).
    np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-3 if batch == FULL else 1.0)


def test_the_largest_curvature_is_found():
    target, x = pieces(RESPONSES["rrrr"](), np.ones(6))
    state, step = seed_state(1), 1e-4
    largest = 0.0
    for place in sgld_cv._some(x, sgld_cv.CURVATURE_PLACES):
        ends = [[gradient_at(place + s * e, target, FULL, state) for e in np.eye(6)] for s in (step, -step)]
        hessian = (np.array(ends[1]) - np.array(ends[0])) / (2 * step)
        largest = max(largest, np.abs(np.linalg.eigvalsh((hessian + hessian.T) / 2)).max())
    found = sgld_cv.largest_curvature(x, target, FULL, state)
    assert 0.8 * largest <= found <= 1.01 * largest


# Draws


@pytest.mark.parametrize(("k", "rho", "epsilon", "n"), [(2, 0.01, 3.0, 2000), (3, 0.1, 0.5, 2000), (3, 0.1, 1.0, 0)])
def test_small_priors_and_empty_categories(k, rho, epsilon, n):
    responses = simulated(ad.SRR(k, epsilon), n, seed=11) if n else ad.Responses(ad.SRR(k, epsilon))
    exact = {2: oracles.posterior_moments_k2, 3: oracles.posterior_moments_k3}[k]
    mean, sd = exact(oracles.rows_of(responses), np.full(k, rho))
    theta = sampled(responses, rho)["posterior"]["theta"].values
    for i in range(k):
        harness.check_moment(theta[..., i], "mean", mean[i], BIAS * sd[i])
        harness.check_moment(theta[..., i], "sd", sd[i], BIAS * sd[i])


def test_batches_give_the_exact_posterior_too(monkeypatch):
    monkeypatch.setattr(sgld_cv, "WORTH_A_BATCH", 0.0)
    case = harness.Case("rrrr", 3, 2000)
    tree = sampled(case.responses(), case.prior)
    assert choices(tree)["batch"] >= sgld_cv.SMALLEST_BATCH
    harness.check_posterior(tree["posterior"]["theta"].values, case, BIAS)


def test_batches_are_chosen_where_answers_are_all_different():
    responses = simulated(ad.SubsetSelection(12, 1.0), 600, seed=5)
    tree = sampled(responses, draws=500)
    chosen = choices(tree)
    assert 0 < chosen["batch"] < 100
    reference = ad.sample(responses, "nuts", draws=500, tune=300, random_seed=1, progressbar=False)
    compared = ad.diagnostics.compare({"nuts": reference, "cv": tree}, reference="nuts")
    assert compared["verdict"].sel(sampler="cv").item().startswith("indistinguishable")


def test_a_step_that_is_too_long_is_halved(monkeypatch):
    monkeypatch.setattr(sgld_cv, "REACH", 20.0)
    monkeypatch.setattr(sgld_cv, "LONGEST_STEP", 3.0)
    case = harness.Case("srr", 3, 7)
    tree = sampled(case.responses(), case.prior)
    assert choices(tree)["halvings"] > 0
    harness.check_posterior(tree["posterior"]["theta"].values, case, BIAS)


@pytest.mark.parametrize(("k", "n"), [(2, 7), (3, 500)])
def test_learned_prior_is_the_exact_posterior(k, n):
    responses = simulated(ad.SRR(k, 1.0), n, seed=11)
    mean, sd, center, spread = oracles.posterior_moments_learned(oracles.rows_of(responses), k)
    tree = sampled(responses, "learned", draws=3000)
    theta, log_a = tree["posterior"]["theta"].values, np.log(tree["posterior"]["concentration"].values)
    for i in range(k):
        harness.check_moment(theta[..., i], "mean", mean[i], BIAS * sd[i])
        harness.check_moment(theta[..., i], "sd", sd[i], BIAS * sd[i])
    harness.check_moment(log_a, "mean", center, BIAS * spread)
    harness.check_moment(log_a, "sd", spread, BIAS * spread)


def test_the_concentration_moves_between_two_updates_of_theta():
    """Each update of θ sees one concentration, from its first kick to its last; the force is then that of the new."""
    chain = sgld_cv.Chains(simulated(ad.SRR(4, 1.0), 60, seed=2).evidence(), "learned", 2, 0)
    ends = []
    for learned in (True, False):
        prior = chain.target.prior._replace(learned=learned, log_scale=np.array([-2.0]))
        if not learned:
            prior = prior._replace(weights=np.full(4, np.exp(-2.0)), log_scale=np.zeros(1))
        target, x, momentum = chain.target._replace(prior=prior), chain.x[0].copy(), np.ones(4)
        draws, force = np.empty((1, 4 + learned)), np.empty(4)
        arguments = (FULL, 0.2, 1.0, dynamics.REFRESH, draws, force, np.zeros(4))
        dynamics.underdamped_draws(seed_state(np.random.SeedSequence(1)), x, momentum, target, *arguments)
        ends.append((x, momentum))
        if learned:
            assert draws[0, 4] == pytest.approx(np.exp(-2.0))
            assert prior.log_scale[0] != -2.0
            np.testing.assert_allclose(force, gradient_at(x, target, FULL, chain.states[0]), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(*ends)


def test_concentration_given_theta_follows_its_density():
    k, total, mean, sd = 5, -40.0, -1.0, 1.0

    def density(u):
        a = np.exp(u)
        return np.exp(special.gammaln(k * a) - k * special.gammaln(a) + a * total - (u - mean) ** 2 / (2 * sd**2))

    mass, first, second = (integrate.quad(lambda u, p=p: u**p * density(u), -8, 4)[0] for p in range(3))
    state, draws, log_a = seed_state(7), [], 0.0
    for _ in range(20_000):
        log_a = dynamics.draw_log_concentration(state, log_a, k, total, mean, sd)
        draws.append(log_a)
    chain = np.array(draws).reshape(4, -1)
    harness.check_moment(chain, "mean", first / mass)
    harness.check_moment(chain, "sd", np.sqrt(second / mass - (first / mass) ** 2))


def test_a_part_of_much_evidence_has_rows_of_the_whole(monkeypatch):
    monkeypatch.setattr(control_variates, "ROWS", 10)
    evidence = simulated(ad.RRRR(6, 1.0, 0.8), 300, seed=1).evidence()
    part = control_variates.some_rows(evidence, np.random.default_rng(0))
    whole = {tuple(row) for row in evidence.matrix().round(12)}
    assert part.n_rows == part.n_responses == 10
    assert all(tuple(row) in whole for row in part.matrix().round(12))


CALIBRATED = {
    "set_family": lambda: ad.SetFamily([[0, 1, 2], [1, 2, 3], [2, 3, 0], [3, 0, 1]], [1] * 4, 1.0),
    "channel": lambda: ad.Channel([[0.5, 0.2, 0.1, 0.1], [0.3, 0.5, 0.3, 0.2], [0.2, 0.3, 0.6, 0.7]]),
}


@pytest.mark.parametrize("name", CALIBRATED)
def test_ranks_of_the_truth_are_uniform(name):
    """Simulation-based calibration, with a false alarm in one of a thousand runs; `benchmarks/sgld.py` has more."""

    def fit(responses, seed):
        return sampled(responses, draws=150, tune=140, chains=2, random_seed=seed)

    found = ad.diagnostics.calibration(
        fit, CALIBRATED[name](), n_people=200, replications=40, random_seed=1, progressbar=False
    )
    assert float(found["p_value_overall"]) > 0.001
    # Of 40 independent truths, three standard errors of the coverage.
    assert float(found["coverage"].sel(level=0.95).mean()) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40)


# The call


def test_every_choice_is_recorded_and_the_run_repeats():
    responses = RESPONSES["rrrr"]()
    tree = sampled(responses, draws=60, tune=100, chains=2, random_seed=None)
    again = ad.sample(responses, progressbar=False, **ad.recorded_arguments(tree.attrs))
    np.testing.assert_array_equal(tree["posterior"]["theta"], again["posterior"]["theta"])
    assert choices(tree) == choices(again)
    assert {"step", "batch", "updates_per_draw", "curvature", "noise", "halvings", "pilots"} < set(choices(tree))
    assert tree["sample_stats"]["sgld_cv_virial"].dims == ("chain", "draw")


def test_one_chain_of_one_draw():
    theta = sampled(RESPONSES["srr"](), draws=1, tune=100, chains=1)["posterior"]["theta"].values
    assert theta.shape == (1, 1, 4)
    np.testing.assert_allclose(theta.sum(axis=-1), 1.0)


def test_there_may_be_more_chains_than_first_draws():
    chains = sgld_cv.Chains(RESPONSES["srr"]().evidence(), np.ones(4), sgld_cv.FIRST_DRAWS + 1, 0)
    assert chains.x.shape == (sgld_cv.FIRST_DRAWS + 1, 4)
    assert np.isfinite(chains.x).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": 0.001}, "prior must be at least 0.01 for 'sgld_cv', got 0.001; use 'nuts' for smaller ones"),
        ({"tune": 50}, "tune of 'sgld_cv' must be"),
        ({"batch_size": 50}, "options must be left out for 'sgld_cv', got batch_size"),
        ({"prior": "flat"}, "prior must be"),
    ],
)
def test_refuses_what_it_cannot_do(settings, message):
    with pytest.raises(ValueError, match=message):
        sampled(RESPONSES["srr"](), **settings)


def test_chains_that_never_stay_finite_are_refused(monkeypatch):
    monkeypatch.setattr(sgld_cv, "MOST_HALVINGS", 0)
    monkeypatch.setattr(sgld_cv, "REACH", 1e9)
    monkeypatch.setattr(sgld_cv, "LONGEST_STEP", 100.0)
    with pytest.raises(RuntimeError, match=r"'sgld_cv' did not finish: .* use 'nuts'"):
        sampled(RESPONSES["srr"]())


def test_quantiles_below_the_grid_fall_no_faster_than_they_do():
    """Where a learned concentration is tiny, chains get there; steeper quantiles would drive them to minus infinity."""
    rho, z = 0.03, np.linspace(-120.0, -16.0, 209)
    tables, index = dynamics.quantile_tables(np.full(z.size, rho))
    rates, logs, spare, theta = (np.empty(z.size) for _ in range(4))
    dynamics.write_theta(z, tables, index, np.zeros(z.size), rates, logs, spare, theta)
    np.testing.assert_allclose(logs, (special.log_ndtr(z) + special.gammaln(1 + rho)) / rho, rtol=1e-2)
    right = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(z)) / rho
    assert (rates <= right * (1 + 1e-6)).all()
    np.testing.assert_allclose(rates, right, rtol=1e-2)
