"""Moves of blocks against quadrature, against NUTS, and against their own pieces."""

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad

import adobest_pp as ad
import oracles
from adobest_pp.likelihood import core
from adobest_pp.likelihood.marginal import grid_posterior
from adobest_pp.samplers import blocks


def answered(mechanism, n, seed, fall=1.0):
    rng = np.random.default_rng(seed)
    shares = np.arange(1.0, mechanism.n_categories + 1) ** -fall
    people = rng.choice(shares.size, size=n, p=shares / shares.sum())
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(people, rng=rng))


@pytest.mark.parametrize(
    ("mechanism", "rho"),
    [
        (ad.SRR(3, epsilon=1.0), 0.3),
        (ad.HadamardResponse(3, epsilon=1.0), 1.0),
        (ad.SubsetSelection(3, epsilon=2.0), 3.0),
    ],
    ids=repr,
)
def test_draws_have_the_posterior_of_a_grid(mechanism, rho):
    """Means and sds within 4.5 standard errors: one run in some ten thousand fails by chance."""
    responses = answered(mechanism, 300, 1)
    exact = grid_posterior(responses, rho, cells=300)
    tree = ad.sample(responses, "blocks", rho, draws=4000, tune=500, chains=4, random_seed=2, progressbar=False)
    theta = tree.posterior.theta
    from arviz_stats.base import array_stats

    effective = array_stats.ess(theta.values, chain_axis=0, draw_axis=1)
    flat = theta.values.reshape(-1, 3)
    assert (np.abs(flat.mean(axis=0) - exact.mean()) < 4.5 * exact.sd() / np.sqrt(effective)).all()
    np.testing.assert_allclose(flat.std(axis=0), exact.sd(), rtol=4.5 * np.sqrt(1 / effective.min()))


@pytest.mark.long
@pytest.mark.parametrize("start", [0.003, 3.0])
def test_the_concentration_has_its_exact_posterior_from_any_start(start, monkeypatch):
    """Answers that leave it between 0.005 and 0.5. Mean, sd and median within 4.5 standard errors."""
    from arviz_stats.base import array_stats

    monkeypatch.setattr(blocks, "likely_concentration", lambda *_: start)
    responses = answered(ad.SRR(300, epsilon=2.0), 6000, 2)
    evidence, counts = responses.evidence(), np.zeros(300)
    counts[evidence.category] = evidence.count
    grid = np.linspace(math.log(1e-3), math.log(10), 50)
    exact = oracles.concentration_posterior(counts, math.expm1(2.0), grid)
    center = exact @ grid
    sd, below = math.sqrt(exact @ (grid - center) ** 2), np.cumsum(exact) - exact / 2
    drawn, _ = blocks.blocks_draws(evidence, "learned", 1500, 300, 2, 5)
    log_a = np.log(drawn["concentration"])
    values = np.dstack([log_a, (log_a - center) ** 2, np.interp(log_a, grid, below)])
    effective = array_stats.ess(values, chain_axis=0, draw_axis=1)
    errors = values.std(axis=(0, 1)) / np.sqrt(effective)
    assert (np.abs(values.mean(axis=(0, 1)) - [center, sd**2, 0.5]) < 4.5 * errors).all()
    assert effective.min() > 100


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [ad.HadamardResponse(12, epsilon=2.0), ad.RRRR(8, epsilon=2.0)], ids=repr)
def test_the_learned_prior_is_that_of_nuts(mechanism):
    """As above, with the errors of both."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(3)
    subset = {"subset": [0, 1]} if mechanism.publishes_subset else {}
    responses = ad.Responses(mechanism)
    responses.append(mechanism.privatize(rng.integers(3, size=2000) ** 2, rng=rng, **subset), **subset)
    found = []
    for sampler, draws in (("blocks", 3000), ("nuts", 1000)):
        options = {"draws": draws, "tune": 500, "chains": 2, "random_seed": 4, "progressbar": False}
        posterior = ad.sample(responses, sampler, "learned", **options).posterior
        theta, log_a = posterior.theta.values, np.log(posterior.concentration.values)
        values = np.dstack([theta, theta**2, log_a, log_a**2])
        effective = array_stats.ess(values, chain_axis=0, draw_axis=1)
        found.append((values.mean(axis=(0, 1)), values.std(axis=(0, 1)) / np.sqrt(effective)))
    (mean, error), (other, other_error) = found
    assert (np.abs(mean - other) < 4.5 * np.hypot(error, other_error)).all()


def test_a_table_is_a_density_and_draws_what_it_says():
    """Masses, the distribution function and its inverse, and 20,000 draws within 4.5 standard errors."""
    a, n, state = 0.2, 20_000, blocks.seed_state(11)
    sums, heights = blocks.empty_tables()
    for beta in (-30.0, -2.0, 0.0, 4.0, 6.0):
        row = blocks.row_of(beta)
        drawn = np.array([blocks._draw(state, a, beta, sums, heights) for _ in range(n)])
        places = np.array([-12.0, -7.0, -3.0, -1.0, 0.3, 1.0])
        density = [math.exp(blocks._log_q(x, a, beta, sums, heights)) for x in places]
        levels = [math.exp(blocks._log_level(x, a, row, sums, heights)) for x in places]
        for i in range(places.size - 1):
            x = np.linspace(*places[i : i + 2], 1001)
            mass = np.trapezoid([math.exp(blocks._log_q(each, a, beta, sums, heights)) for each in x], x)
            assert mass == pytest.approx(levels[i + 1] - levels[i], abs=1e-4)
            error = math.sqrt(max(mass * (1 - mass), 1e-4) / n)
            assert np.mean((places[i] < drawn) & (drawn < places[i + 1])) == pytest.approx(mass, abs=4.5 * error)
        back = [blocks._at_level(math.log(level), a, row, sums, heights) for level in levels if level < 1 - 1e-9]
        np.testing.assert_allclose(back, places[: len(back)], atol=1e-6)
        # And it is near the one that it stands for; below the first edge it lacks e^(β·t), at most 0.03 here.
        exact = a * places + blocks.beta_of(row) * np.exp(places) - 0.5 * np.exp(2 * places)
        held = exact > exact.max() - 30
        assert np.ptp((np.log(density) - exact)[held]) < 0.04
    normal = quad(lambda x: math.exp(blocks._log_q(x, a, 9.0, sums, heights)), -5, 5, points=[2.2])[0]
    assert normal == pytest.approx(1.0, abs=1e-6)


def test_the_diagonal_of_the_information_is_that_of_the_matrix():
    for mechanism in (ad.HadamardResponse(12, epsilon=1.0), ad.SRR(5, epsilon=1.0), ad.SubsetSelection(8, epsilon=1.0)):
        evidence = answered(mechanism, 500, 5).evidence()
        theta = np.random.default_rng(6).dirichlet(np.ones(mechanism.n_categories))
        relative = evidence.matrix() / (evidence.matrix() @ theta)[:, None] - 1
        np.testing.assert_allclose(core.information_diagonal(theta, evidence), evidence.count @ relative**2, rtol=1e-9)


def test_a_run_repeats_and_says_what_it_was():
    responses = answered(ad.SRR(300, epsilon=2.0), 20_000, 7)
    trees = [
        ad.sample(responses, "blocks", "learned", draws=50, tune=50, chains=2, random_seed=8, progressbar=False)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(trees[0].posterior.theta, trees[1].posterior.theta)
    record = json.loads(trees[0].attrs["sampler_choices"])
    assert {*record} == {"block_size", "accepted_blocks", "accepted_concentrations"}
    assert all(0.1 < rate < 0.9 for rate in record["accepted_blocks"])
    assert trees[0].posterior.theta.values.min() > 0


def test_several_concentrations_are_refused():
    responses = answered(ad.SRR(3, epsilon=1.0), 10, 9)
    with pytest.raises(ValueError, match="prior must be one concentration"):
        ad.sample(responses, "blocks", [1.0, 1.0, 2.0], progressbar=False)
