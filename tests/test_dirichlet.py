"""Draws of sparse Dirichlet distributions, which end in exact zeros if they are made by NumPy."""

import numpy as np
import pytest
from scipy import stats

from adobest_pp._dirichlet import draw_dirichlet, draw_log_dirichlet
from adobest_pp.studies import Run, collect

FALSE_ALARM = 1e-5


@pytest.mark.parametrize("rho", [0.01, 0.03, 0.1, 2.0])
def test_every_category_has_its_beta_distribution(rho):
    rng, k = np.random.default_rng(1), 5
    draws = np.array([draw_dirichlet(rng, np.full(k, rho)) for _ in range(4000)])
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    # At some points alone: five draws in a hundred are 1 to all digits with ρ = 0.01, which is no continuous variable.
    for column in draws.T:
        for point in (1e-300, 1e-100, 1e-20, 1e-3, 0.5):
            below = stats.beta(rho, (k - 1) * rho).cdf(point)
            assert stats.binomtest(int((column < point).sum()), len(column), below).pvalue > FALSE_ALARM


def test_unequal_concentrations_have_their_means():
    rng, concentration = np.random.default_rng(2), np.array([0.002, 0.01, 0.5, 2.0])
    draws = np.array([draw_dirichlet(rng, concentration) for _ in range(4000)])
    exact = stats.dirichlet(concentration)
    errors = (draws.mean(axis=0) - exact.mean()) / np.sqrt(exact.var() / len(draws))
    assert np.abs(errors).max() < stats.norm.isf(FALSE_ALARM / 8)


def test_logarithms_do_not_underflow():
    rng, rho, k = np.random.default_rng(3), 1e-4, 3
    logs = np.array([draw_log_dirichlet(rng, np.full(k, rho)) for _ in range(2000)])
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.logaddexp.reduce(logs, axis=1), 0, atol=1e-12)
    # Given that it is not the largest, −ρ ln θ of a category is close to exponential, as each has its turn.
    assert stats.chisquare(np.bincount(logs.argmax(axis=1), minlength=k)).pvalue > FALSE_ALARM
    gaps = -rho * np.sort(logs, axis=1)[:, 0]
    assert gaps.mean() == pytest.approx(1 + 1 / 2, rel=0.15)  # of two exponentials, the greater


def test_what_numpy_does_right_stays_as_it_was():
    for concentration in (np.full(4, 0.1), np.array([0.3, 1.0, 5.0])):
        expected = np.random.default_rng(4).dirichlet(concentration)
        np.testing.assert_array_equal(draw_dirichlet(np.random.default_rng(4), concentration), expected)


def test_the_truth_of_a_sparse_study_has_no_zeros():
    cell = {"mechanism": "srr", "n_categories": 20, "epsilon": 1.0, "rho": 0.01, "people": 1}
    truths = np.array([collect(Run(1, run, cell), **cell).theta for run in range(50)])
    # NumPy has up to half of the shares at zero; of these, one in 1700 is below the smallest double.
    assert (truths == 0).mean() < 0.005
