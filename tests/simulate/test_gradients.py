"""The slopes that the samplers of the loop follow, on records with many sets of every size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adobest_pp as ad
import oracles
from adobest_pp._numerics import integer, normal, seed_state
from adobest_pp.adaptive.hamiltonian import _log_density, _update_metric, new_exact_state
from adobest_pp.adaptive.langevin import langevin_updates, new_workspace
from adobest_pp.adaptive.records import KINDS, RESPONSES, ROWS, new_records, publish, record, reserve
from adobest_pp.likelihood import core
from adobest_pp.samplers.sgld.loop import Minibatch, Reflected, langevin_draws


def dense_matrix(mechanism, subset):
    """G by the oracle, which is slow; for many categories by the mechanism, which is held to the oracle elsewhere."""
    if mechanism.n_categories > 10:
        return mechanism.transition_matrix(subset)
    return oracles.rrrr_matrix(mechanism.n_categories, subset, mechanism.epsilon1, mechanism.epsilon2(len(subset)))


def collected(mechanism, n, seed, counted, n_sets=12):
    """Records of n answers under sets of all sizes, and the dense rows of G of the same answers."""
    rng = np.random.default_rng(seed)
    k, coefficients = mechanism.n_categories, mechanism.coefficients
    records = reserve(new_records(coefficients, 1, 1, counted=counted), coefficients, n, n)
    orders = [rng.permutation(k) for _ in range(n_sets)]
    sizes = [0, 1, k - 1, *rng.integers(0, k, size=n_sets - 3)]
    theta = rng.dirichlet(np.ones(k))
    matrices = [dense_matrix(mechanism, order[:size]) for order, size in zip(orders, sizes, strict=True)]
    rows, answers = [], []
    for _ in range(n):
        v = rng.integers(n_sets)
        order, size, matrix = orders[v], int(sizes[v]), matrices[v]
        answer = int(rng.choice(k, p=matrix @ theta / (matrix @ theta).sum()))
        record(records, answer, publish(records, order, size, coefficients), size)
        rows.append(matrix[answer])
        answers.append(answer)
    return records, np.array(rows), np.array(answers)


# Sets are kept in blocks of eight members: with up to 60 categories there are sets of several, full and not.
cases = given(
    st.one_of(st.integers(2, 9), st.integers(11, 60)),
    st.floats(0.01, 8.0),
    st.sampled_from([0.3, 0.9, 1.0]),
    st.integers(1, 60),
    st.integers(0, 2**32),
)


@settings(max_examples=60)
@cases
def test_a_langevin_update_moves_along_the_slope_of_its_batch(k, epsilon, kappa, n, seed):
    records, rows, _ = collected(ad.RRRR(k, epsilon, kappa), n, seed, counted=False)
    rng = np.random.default_rng(seed)
    prior, phi, step, m = rng.gamma(2.0, size=k), rng.gamma(1.0, size=k) + 0.01, 1e-3, 7
    state = seed_state(seed)
    followed = state.copy()
    draws = (None, lambda bound: integer(followed, bound), lambda: normal(followed))
    expected = phi
    for _ in range(3):
        expected = oracles.langevin_update(expected, rows, prior, step, m, draws)
    moved, mean = phi.copy(), np.zeros(k)
    kept = langevin_updates(state, moved, records, prior, np.full(3, step), m, mean, 2, new_workspace(k, m))
    np.testing.assert_allclose(moved, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mean, expected / expected.sum(), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(state, followed)
    assert kept == 1


def test_an_update_without_responses_is_on_the_prior_alone():
    records = new_records(ad.RRRR(4, 1.0).coefficients)
    state, phi, prior, step = seed_state(1), np.array([0.5, 1.0, 1.5, 0.2]), np.array([0.5, 1.0, 2.0, 3.0]), 1e-2
    noise_state = state.copy()
    noise = np.array([normal(noise_state) for _ in range(4)])
    expected = np.abs(phi + step / 2 * ((prior - 1) / phi - 1) + np.sqrt(step) * noise)
    langevin_updates(state, phi, records, prior, np.array([step]), 50, phi, 1, new_workspace(4, 50))
    np.testing.assert_allclose(phi, expected, rtol=1e-14)


def log_posterior(z, rows, prior):
    """ln density of z = ln φ up to a constant: Gamma(ρ, 1) with its Jacobian, and the likelihood of θ = φ/Σφ."""
    phi = np.exp(z)
    return prior @ z - phi.sum() + oracles.log_likelihood(phi / phi.sum(), rows)


def exact_value_and_slope(z, records, prior, with_value=True):
    slope, phi = np.empty(z.size), np.empty(z.size)
    value = _log_density(z, phi, records, prior, slope, with_value)
    np.testing.assert_allclose(phi, np.exp(z), rtol=1e-14)
    return value, slope


@settings(max_examples=60)
@cases
def test_the_density_and_slope_of_the_exact_sampler(k, epsilon, kappa, n, seed):
    """The slope by the chain rule from the oracle's; the value up to a constant, which two points share."""
    records, rows, _ = collected(ad.RRRR(k, epsilon, kappa), n, seed, counted=True)
    rng = np.random.default_rng(seed)
    prior, z = rng.gamma(2.0, size=k), rng.normal(size=k)
    phi = np.exp(z)
    theta = phi / phi.sum()
    expected = prior - phi + theta * (oracles.gradient(theta, rows) - n)
    value, slope = exact_value_and_slope(z, records, prior)
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(exact_value_and_slope(z, records, prior, with_value=False)[1], slope)
    elsewhere = rng.normal(size=k)
    difference = exact_value_and_slope(elsewhere, records, prior)[0] - value
    expected = log_posterior(elsewhere, rows, prior) - log_posterior(z, rows, prior)
    assert difference == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_slope_of_the_exact_sampler_by_finite_differences():
    """Central differences with Richardson's correction: an error of order h⁴."""
    k = 6
    records, rows, _ = collected(ad.RRRR(k, 1.0), 80, 3, counted=True)
    rng = np.random.default_rng(3)
    prior, z = rng.gamma(2.0, size=k), rng.normal(size=k)
    slope = exact_value_and_slope(z, records, prior)[1]

    def central(direction, h):
        return (log_posterior(z + h * direction, rows, prior) - log_posterior(z - h * direction, rows, prior)) / (2 * h)

    numeric = [(4 * central(e, 1e-3) - central(e, 2e-3)) / 3 for e in np.eye(k)]
    np.testing.assert_allclose(slope, numeric, rtol=1e-8, atol=1e-8)


@settings(max_examples=40)
@cases
def test_the_loop_follows_the_slopes_of_the_one_likelihood(k, epsilon, kappa, n, seed):
    """Codes and evidence of the same answers: the loop's own form of h is that of `likelihood.core`, up to a factor."""
    mechanism = ad.RRRR(k, epsilon, kappa)
    records, _, answers = collected(mechanism, n, seed, counted=True)
    subsets, index = records.masks[2 : records.used[KINDS]], records.set_of[:n]
    evidence, row_of = ad.Responses.from_arrays(mechanism, answers, subsets, index).evidence_and_index()
    rng = np.random.default_rng(seed)
    prior, z = rng.gamma(2.0, size=k), rng.normal(size=k)
    phi = np.exp(z)
    theta = phi / phi.sum()
    expected = prior - phi + theta * (core.value_and_gradient(theta, evidence)[1] - n)
    np.testing.assert_allclose(exact_value_and_slope(z, records, prior)[1], expected, rtol=1e-9, atol=1e-9)

    m, steps, state = min(7, n), np.array([1e-3]), seed_state(seed)
    followed, moved, draws = state.copy(), phi.copy(), (np.empty((1, k)), np.empty((1, 3)))
    langevin_updates(state, phi, records, prior, steps, 7, phi, 1, new_workspace(k, 7))
    batch = np.array([[row_of[integer(followed, n)] for _ in range(m)]])
    noise = np.array([[normal(followed) for _ in range(k)]])
    langevin_draws(Reflected(prior), Minibatch(evidence, batch, n / m), rng, moved, steps, noise, *draws)
    np.testing.assert_allclose(phi, moved, rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@cases
def test_the_records_hold_every_set_and_every_answer_once(k, epsilon, kappa, n, seed):
    mechanism = ad.RRRR(k, epsilon, kappa)
    records, rows, answers = collected(mechanism, n, seed, counted=True)
    used, code = records.used, records.code[:n]
    assert used[RESPONSES] == n
    np.testing.assert_array_equal(code & np.uint64(0xFFFFFFFF), answers)
    masks = records.masks[records.set_of[:n] + 2]
    for mask, answer, row in zip(masks, answers, rows, strict=True):
        np.testing.assert_allclose(mechanism.transition_matrix(mask)[answer], row, rtol=1e-12)
    # Counted records look for equal sets among all of a size, and merge equal responses.
    assert len(np.unique(records.masks[2 : used[KINDS]], axis=0)) == used[KINDS] - 2
    pairs, counts = np.unique(code, return_counts=True)
    kept = (records.row_kind[: used[ROWS]].astype(np.uint64) << np.uint64(32)) | records.row_answer[
        : used[ROWS]
    ].astype(np.uint64)
    np.testing.assert_array_equal(np.sort(kept), pairs)
    np.testing.assert_array_equal(records.row_count[: used[ROWS]][np.argsort(kept)], counts)


def test_records_that_grow_keep_what_they_hold():
    mechanism = ad.RRRR(5, 1.0)
    for counted in (False, True):
        records, *_ = collected(mechanism, 40, 5, counted=counted)
        grown = reserve(records, mechanism.coefficients, 1000, 1000)
        assert grown.code.size >= 1040
        for name in records._fields:
            old = getattr(records, name)
            np.testing.assert_array_equal(getattr(grown, name)[: len(old)], old)
        assert reserve(grown, mechanism.coefficients, 1, 1) is grown


@settings(max_examples=40)
@cases
def test_the_metric_is_the_information_about_each_category_at_one_step_of_em(k, epsilon, kappa, n, seed):
    records, rows, _ = collected(ad.RRRR(k, epsilon, kappa), n, seed, counted=True)
    prior = np.random.default_rng(seed).gamma(2.0, size=k)
    exact = new_exact_state(prior)
    center = exact.center.copy()
    _update_metric(records, prior, exact)
    behind = rows * center / (rows @ center)[:, None]
    precision = exact.prior_precision + ((behind - center) ** 2).sum(axis=0)
    np.testing.assert_allclose(exact.width, precision**-0.5, rtol=1e-9)
    np.testing.assert_allclose(exact.center, (prior + behind.sum(axis=0)) / (prior.sum() + n), rtol=1e-9)
