"""Draws that pilots start from: a normal law among positive shares, and a posterior that folding would miss."""

import numpy as np
import pytest
from scipy import stats

from adobest_pp import RRRR, AdaptiveSubset, simulate_adaptive
from adobest_pp.samplers.sgld_cv import control_variates as module
from adobest_pp.samplers.sgld_cv.control_variates import _moved, _truncated, initial_draws, rows_of
from adobest_pp.samplers.sgld_cv.sampler import sgld_cv_draws
from tests.strategies import simulated


@pytest.mark.parametrize(("center", "highest"), [(0.3, 1.0), (-0.4, 0.5), (0.9, 0.6), (3.0, 1.0), (-50.0, 1.0)])
def test_truncated_draws_have_the_law_of_scipy(center: float, highest: float) -> None:
    # Kolmogorov and Smirnov's test at 0.1 %, for one fixed seed.
    sd, n = 0.2, 4000
    found = _truncated(np.full(n, center), sd, np.full(n, highest), np.random.default_rng(1))
    assert found.min() >= 0
    assert found.max() <= highest
    if center > -1:
        law = stats.truncnorm(-center / sd, (highest - center) / sd, loc=center, scale=sd)
        assert stats.kstest(found, law.cdf).pvalue > 1e-3
    else:  # 250 sds outside
        assert found.max() == 0


def test_moved_draws_have_the_law_that_rejection_gives() -> None:
    # The oracle draws from the normal law among shares of sum 1 and keeps what is positive.
    theta, rng = np.array([0.1, 0.3, 0.6]), np.random.default_rng(2)
    root = rng.standard_normal((3, 3))
    precision = 20 * root @ root.T
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:]
    spread = np.linalg.cholesky(np.linalg.inv(basis @ precision @ basis.T))
    draws = theta + rng.standard_normal((40_000, 2)) @ spread.T @ basis
    expected = draws[(draws > 0).all(axis=1)]
    found = _moved(theta, precision, 4000, rng)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    for category in range(3):
        assert stats.ks_2samp(found[:, category], expected[:, category]).pvalue > 1e-3


@pytest.mark.long
def test_a_posterior_that_knows_sums_alone_is_found() -> None:
    # Nearly everybody holds one of 50 categories, and subsets that leave the others out tell but their sum. Folded
    # draws would have the first share at a fifth, from where chains left the finite numbers whatever the step.
    k = 50
    theta = np.full(k, 0.004 / (k - 1))
    theta[0] = 0.996
    asked = simulate_adaptive(
        theta,
        AdaptiveSubset(RRRR(k, 1.0, 0.9), "honest", sampler="exact", adapt_every=k),
        n_people=500 * k,
        random_seed=3,
    )
    evidence = asked.responses.evidence()
    first, _ = initial_draws(evidence, rows_of(evidence), np.ones(k), 400, np.random.default_rng(4))
    assert first[:, 0].mean() == pytest.approx(0.96, abs=0.03)
    variables, _, record = sgld_cv_draws(evidence, np.ones(k), draws=400, tune=300, chains=2, seed=5)
    assert not record["biased"]
    assert record["updates_per_draw"] < 30
    assert variables["theta"][..., 0].mean() == pytest.approx(first[:, 0].mean(), abs=0.02)


def test_draws_that_folding_hardly_moves_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_moved", lambda *_: pytest.fail("moved, though folding is enough"))
    evidence = simulated(RRRR(3, 1.0, 0.9), 3000, seed=6).evidence()
    draws, sd = initial_draws(evidence, rows_of(evidence), np.ones(3), 400, np.random.default_rng(7))
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.3)
