"""Samplers of thousands of categories: on sets that are only numbered, and without arrays of K² numbers."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.samplers import gibbs, nuts
from adobest_pp.samplers.sgld_cv import control_variates, dynamics
from adobest_pp.samplers.sgld_cv.sampler import is_diagonal, sgld_cv_draws
from tests.strategies import evidence_of


def answered(mechanism, n, seed):
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1.0, mechanism.n_categories + 1)
    people = rng.choice(shares.size, size=n, p=shares / shares.sum())
    return ad.Responses.from_arrays(mechanism, mechanism.privatize(people, rng=rng))


def both(mechanism, n):
    return [evidence_of(answered(mechanism, n, 1), structured)[0] for structured in (True, False)]


@pytest.mark.parametrize(
    "mechanism",
    [
        ad.HadamardResponse(12, epsilon=1.0),
        ad.HadamardResponse(60, epsilon=2.0),
        ad.ProjectiveGeometryResponse(30, epsilon=2.0),
        ad.ProjectiveGeometryResponse(60, epsilon=1.0),
        ad.CountMeanSketch(12, epsilon=1.0),
        ad.CountMeanSketch(60, epsilon=2.0),
    ],
    ids=repr,
)
def test_densities_are_those_of_member_lists(mechanism):
    structured, listed = both(mechanism, 3000)
    rng, k = np.random.default_rng(2), mechanism.n_categories
    free = np.append(rng.normal(size=k) - 1, -1.5)
    scales, shifts = rng.uniform(0.01, 0.1, size=k), rng.integers(2, size=k).astype(float)
    prior, boosted = np.full(k, 0.5), np.arange(k) % 2 == 0
    given = rng.normal(size=k - 1 + int(boosted.sum()))
    for density, arguments in (
        (nuts.learned_log_density, (free, scales, shifts, -2.0, 2.0)),
        (nuts.log_density, (given, prior, boosted)),
    ):
        found, expected = density(*arguments, structured), density(*arguments, listed)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-10 * np.abs(expected[1]).max())


@pytest.mark.parametrize("shares", [np.ones(12), np.append(np.full(11, 1e-4), 1.0)], ids=["even", "one"])
def test_gibbs_allocates_people_as_bayes_does(shares):
    """Means over 400 allocations within 5 standard errors: one run in a hundred thousand fails by chance."""
    structured, _ = both(ad.HadamardResponse(12, epsilon=1.0), 500)
    theta, rng = shares / shares.sum(), np.random.default_rng(3)
    rows = structured.matrix()
    expected = theta * ((structured.count / (rows @ theta)) @ rows)
    found, allocation = [], np.empty(12, dtype=np.int64)
    for _ in range(400):
        gibbs.allocate(rng, theta, structured, allocation)
        assert allocation.sum() == 500
        found.append(allocation.copy())
    error = np.maximum(np.std(found, axis=0), 0.05) / 20
    assert (np.abs(np.mean(found, axis=0) - expected) < 5 * error).all()


def test_first_draws_of_each_share_are_near_its_estimate():
    responses = answered(ad.HadamardResponse(300, epsilon=2.0), 100_000, 4)
    evidence = responses.evidence()
    truth = 1 / np.arange(1.0, 301)
    draws, size = control_variates.separate_draws(evidence, np.full(300, 0.1), 200, np.random.default_rng(5))
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    assert (size > 0).all()
    sd = draws[:, :10].std(axis=0)
    assert (np.abs(draws[:, :10].mean(axis=0) - truth[:10] / truth.sum()) < 5 * sd).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "n"),
    [(ad.HadamardResponse(300, epsilon=2.0), 100_000), (ad.SRR(2500, epsilon=2.0), 200_000)],
    ids=repr,
)
def test_diagonal_coordinates_have_the_posterior_of_blocks(mechanism, n):
    """Gradients and Metropolis moves, within 5 standard errors; the second has a concentration far below 0.03."""
    from arviz_stats.base import array_stats

    from adobest_pp.samplers.blocks import blocks_draws

    evidence = answered(mechanism, n, 6).evidence()
    assert is_diagonal(control_variates.rows_of(evidence))
    found = []
    for drawn in (
        sgld_cv_draws(evidence, "learned", 600, 200, 2, 7)[0],
        blocks_draws(evidence, "learned", 800, 200, 2, 7)[0],
    ):
        log_a = np.log(drawn["concentration"])
        values = np.dstack([drawn["theta"], log_a, log_a**2])
        error = values.std(axis=(0, 1)) / np.sqrt(array_stats.ess(values, chain_axis=0, draw_axis=1))
        found.append((values.mean(axis=(0, 1)), error))
    z = (found[0][0] - found[1][0]) / np.hypot(found[0][1], found[1][1])
    assert np.abs(z[-2:]).max() < 5
    assert np.abs(z[np.argsort(found[1][0])[-150:]]).max() < 5


def test_a_normal_number_of_a_quantile_is_the_inverse_of_its_table():
    z = np.array([-30.0, -16.5, -9.01, -2.0, 0.3, 2.71, 13.9])
    tables, index = dynamics.quantile_tables(np.full(z.size, 0.03))
    logs, spare = np.empty(z.size), np.empty((3, z.size))
    dynamics.write_theta(z, tables, index, np.zeros(z.size), spare[0], logs, spare[1], spare[2])
    np.testing.assert_allclose([dynamics._normal_of(each, tables[0]) for each in logs], z, rtol=1e-9)


def test_information_that_is_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(control_variates, "MOST_ENTRIES", 1000)
    evidence = answered(ad.HadamardResponse(300, epsilon=2.0), 1000, 8).evidence()
    with pytest.raises(ValueError, match="too much to compute"):
        control_variates.anchor_at(np.full(300, 1 / 300), evidence, control_variates.rows_of(evidence))
