"""Runs with exact inference: against quadrature, under both priors on the same answers, for every mechanism."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import adobest_pp as ad
import oracles
from adobest_pp.studies import runs
from adobest_pp.studies.grid import Cell
from adobest_pp.studies.measures import MEASURES
from adobest_pp.studies.posterior import Posterior, exact_posterior
from oracles import rows_of
from tests.strategies import simulated

HONEST = Cell(4, 1.0, 0.9, 0.3, "rrrr", "honest", "flat", "exact", "theorem1", 50)
SRR = replace(HONEST, method="nonadaptive", kappa=None)
SUBSET_SELECTION = replace(SRR, mechanism="subset_selection", method="fixed")
SGLD = replace(HONEST, sampler="sgld")


@pytest.mark.parametrize("prior", ["flat", "learned"])
@pytest.mark.parametrize("mechanism", [ad.SRR(3, 1.0), ad.RRRR(3, 1.0), ad.SubsetSelection(3, 1.0)], ids=repr)
def test_posterior_is_that_of_quadrature(mechanism, prior):
    responses = simulated(mechanism, 200, seed=3)
    rows = rows_of(responses)
    if prior == "flat":
        mean, sd = oracles.posterior_moments_k3(rows, np.ones(3))
    else:
        mean, sd, *_ = oracles.posterior_moments_learned(rows, 3)
    posterior = exact_posterior(responses, prior, seed=1)
    # Four Monte Carlo errors of 256 effective draws: one false alarm in 16 000 each, on a fixed seed.
    assert np.all(np.abs(posterior.mean - mean) < 0.25 * sd)


def test_intervals_are_central_and_of_95_percent():
    posterior = exact_posterior(ad.Responses(ad.SRR(3, 1.0)), "flat", seed=1)
    beta = stats.beta(1, 2)
    shares = beta.cdf([posterior.low, posterior.high])
    # Of 200 effective draws, the share below a quantile has an error of 0.011.
    np.testing.assert_allclose(shares, np.repeat([[0.025], [0.975]], 3, axis=1), atol=0.044)


@pytest.mark.parametrize("prior", ["flat", "learned"])
@pytest.mark.parametrize(
    "cell", [HONEST, SRR, SUBSET_SELECTION, SGLD], ids=lambda cell: f"{cell.method}-{cell.sampler}"
)
def test_every_measure_of_every_kind_of_cell(cell, prior):
    cell = replace(cell, prior=prior)
    result = runs.run_once(cell, 1, 0, list(MEASURES))
    assert list(result) == list(MEASURES)
    undefined = {"mean_size", "honest"} if cell.mechanism == "subset_selection" else set()
    assert {name for name, value in result.items() if np.isnan(value)} == undefined
    assert (result["tv"] == result["exact_tv"]) == (cell.sampler == "exact")
    assert 0 < result["tv"] < 1
    assert 0 <= result["coverage"] <= 1
    assert 0 < result["width"] < 1
    assert result["true_epsilon"] <= cell.epsilon
    assert result["true_epsilon"] == pytest.approx(cell.epsilon, abs=1e-6)
    assert runs.run_once(cell, 1, 0, ["width", "tv"]) == {"width": result["width"], "tv": result["tv"]}


@pytest.mark.parametrize("cell", [HONEST, SUBSET_SELECTION, SGLD], ids=lambda cell: f"{cell.method}-{cell.sampler}")
def test_both_priors_see_the_same_answers_and_runs_see_others(cell, monkeypatch):
    seen = []

    def spy(responses, prior, seed):
        seen.append((prior, seed, responses.evidence()))
        return Posterior(*np.full((3, 4), 0.25))

    monkeypatch.setattr(runs, "exact_posterior", spy)
    for prior, run in (("flat", 0), ("learned", 0), ("flat", 1)):
        runs.run_once(replace(cell, prior=prior), 1, run, ["exact_tv"])
    flat, learned, other = seen
    assert (flat[0], learned[0]) == ("flat", "learned")
    assert flat[1:] == learned[1:]
    assert flat[1] != other[1]
    assert flat[2] != other[2]


def test_measures_of_the_posterior_by_hand(monkeypatch):
    truth = runs.truth_of(1, SRR, 0)
    below, above = np.array([[0.1, 0.1, 0.1, -0.01], [0.1, -0.02, 0.0, 0.2]])
    planted = Posterior(np.array([0.4, 0.3, 0.2, 0.1]), truth - below, truth + above)
    monkeypatch.setattr(runs, "exact_posterior", lambda *_: planted)
    result = runs.run_once(SRR, 1, 0, ["coverage", "width", "exact_tv"])
    assert result["coverage"] == 0.5  # one truth is above its interval, and one below
    assert result["width"] == pytest.approx(np.mean([0.2, 0.08, 0.1, 0.19]))
    assert result["exact_tv"] == pytest.approx(max(0, *[(planted.mean - truth)[list(a)].sum() for a in _events(4)]))


def _events(n):
    """All sets of categories: TV is the greatest difference of their probabilities."""
    return [[i for i in range(n) if code >> i & 1] for code in range(1, 2**n)]


def test_sgld_runs_are_the_same_with_and_without_exact_inference():
    alone = runs.run_once(SGLD, 1, 0, ["tv", "mean_size"])
    assert alone.items() <= runs.run_once(SGLD, 1, 0, ["tv", "exact_tv", "mean_size"]).items()


@pytest.mark.parametrize("cell", [HONEST, SUBSET_SELECTION], ids=lambda cell: cell.method)
def test_intervals_hold_truths_from_their_prior(cell):
    """Truths from Dirichlet(1), the flat prior: 95 % of the intervals hold them, whatever the mechanism."""
    cell = replace(cell, rho=1.0)
    coverage = [runs.run_once(cell, 2, run, ["coverage"])["coverage"] for run in range(50)]
    # Categories of a run are not independent: four standard errors of the runs' own spread.
    assert abs(np.mean(coverage) - 0.95) < 4 * np.std(coverage, ddof=1) / np.sqrt(len(coverage)) + 0.005
