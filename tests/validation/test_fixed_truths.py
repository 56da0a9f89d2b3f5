"""Coverage for fixed truths: that it is computed rightly, and that its statements fail where they are false."""

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.likelihood import grid_posterior
from validation import fixed_truths
from validation.fixed_truths import GUARDED, PRIORS, RHOS, SHOWN, Cell, Grid, Setting

FINE = {rho: dict.fromkeys(PRIORS, 0.1) for rho in RHOS}


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_the_test_rejects_what_the_interval_does_not_hold(share):
    mechanism = ad.SubsetSelection(8, 1.0)
    coverage, _ = fixed_truths.exact_coverage(mechanism, 500, share)
    assert fixed_truths.quick_coverage(mechanism, 500, share) == pytest.approx(coverage, abs=1e-12)


def test_truths_are_shares():
    for k in fixed_truths.CATEGORIES:
        for theta in fixed_truths.truths(k).values():
            assert theta.size == k
            assert theta.min() >= 0
            assert theta.sum() == pytest.approx(1)


def test_the_grid_has_the_posterior_under_the_flat_prior():
    mechanism, grid = ad.SRR(2, 1.0), Grid(None)
    exact = grid_posterior(ad.Responses.from_arrays(mechanism, np.repeat([0, 1], [120, 180])), cells=1000)
    mass = grid.posterior(mechanism, 300, 120)
    assert mass @ grid.theta == pytest.approx(exact.mean()[0], abs=1e-5)
    assert grid.ends(mass)["equal tails"] == pytest.approx(tuple(exact.interval()[:, 0]), abs=2e-3)


def test_the_grid_has_the_mass_of_the_learned_prior():
    # Of a symmetric prior, half of the mass is on either side, and most of it near 0 and 1 where a is small.
    prior = Grid(PRIORS["learned"]).prior
    assert prior.sum() == pytest.approx(1)
    assert prior @ Grid.theta == pytest.approx(0.5)
    assert prior[Grid.theta < 1e-3].sum() > 0.2


def cell(candidate, coverage, error=0.005):
    return Cell(candidate, Setting("rare", 6, 1.0, 1000), 0.01, coverage, error, 0.0, 0.1)


def failing(cells, rest=(), errors=FINE, apart=0.01):
    rest = [*rest, cell("RRRR", 0.95)]
    return {one.name for one in fixed_truths.simulated_findings(cells, rest, errors, apart) if not one.passed}


def test_statements_fail_where_they_are_false():
    right = [cell(SHOWN, 0.95), cell(GUARDED, 0.95), cell("learned, shortest", 0.7), cell("flat, shortest", 0.2)]
    assert not failing(right)
    assert failing([*right, cell(SHOWN, 0.88)]) == {"shown"}
    assert not failing([*right, cell(SHOWN, 0.95), cell(SHOWN, 0.89, error=0.01)])  # not shown to be below
    assert failing([cell(SHOWN, 0.99), *right[1:]]) == {"shown"}
    assert failing([*right[:3], cell("flat, shortest", 0.95)]) == {"candidates"}
    assert failing(right, rest=[cell("design", 0.8)]) == {"others"}
    assert failing(right, apart=0.06) == {"nuts"}
    assert failing(right, errors=FINE | {0.1: FINE[0.1] | {"flat": 0.09}}) == {"accuracy"}
