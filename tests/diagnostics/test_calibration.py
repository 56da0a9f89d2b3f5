"""Exact samplers are found calibrated, and samplers that claim too much are not."""

import time

import numpy as np
import pytest
import xarray as xr
from scipy.stats import chisquare

from adobest_pp import (
    RRRR,
    SRR,
    CountMeanSketch,
    ProjectiveGeometryResponse,
    Responses,
    SubsetSelection,
    frequency_model,
    sample,
)
from adobest_pp._dirichlet import draw_dirichlet
from adobest_pp.diagnostics import calibration, model_calibration
from adobest_pp.diagnostics.calibration import _exactly, _rank
from adobest_pp.plots import plot_calibration
from adobest_pp.samplers.gibbs import gibbs_chain
from tests.diagnostics import samplers
from tests.refusals import refuses


def gibbs(responses, seed):
    return sample(responses, "gibbs", draws=500, tune=100, chains=1, random_seed=seed, progressbar=False)


def conjugate(width=1.0, shift=0.0):
    """Exact draws where everybody answers truthfully (ε is large), made narrower or moved on request."""

    def fit(responses, seed):
        counts = np.bincount(responses.answers, minlength=3)
        theta = np.random.default_rng(seed).dirichlet(1 + counts, size=(1, 400))
        theta = theta.mean(axis=1, keepdims=True) + width * (theta - theta.mean(axis=1, keepdims=True))
        theta += shift * theta[..., :2].std(axis=1).mean() * np.array([1, -1, 0])
        theta = np.maximum(theta, 0)
        theta /= theta.sum(axis=-1, keepdims=True)
        coords = {"category": list(responses.categories)}
        return xr.DataTree.from_dict(
            {"posterior": xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, coords)}
        )

    return fit


def relabelled(responses, seed):
    return conjugate()(Responses(SRR(3, 5.0), categories=["a", "b", "c"]), seed)


def calibrated(fit, replications=150, **options):
    return calibration(fit, SRR(3, 30.0), n_people=50, replications=replications, random_seed=1, **options)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [SRR(3, 3.0), RRRR(3, 3.0), SubsetSelection(3, 3.0, 1)], ids=repr)
def test_exact_gibbs_is_calibrated(mechanism):
    result = calibration(gibbs, mechanism, n_people=60, replications=60, random_seed=3, progressbar=False)
    assert result.p_value_overall > 0.01
    assert result.attrs["replications"] == 60
    assert abs(result.coverage.sel(level=0.9).mean() - 0.9) < 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    "mechanism",
    [
        ProjectiveGeometryResponse(6, 2.0),
        ProjectiveGeometryResponse(9, 1.5, 3),
        CountMeanSketch(6, 2.0),
        CountMeanSketch(6, 2.0, n_hashes=3, n_values=2),
    ],
    ids=repr,
)
def test_mechanisms_for_many_categories_are_calibrated(mechanism):
    def fit(responses, seed):
        return sample(responses, "nuts", prior=1.0, draws=400, tune=400, chains=1, random_seed=seed, progressbar=False)

    result = calibration(fit, mechanism, n_people=150, replications=150, random_seed=4, progressbar=False)
    assert result.p_value_overall > 0.01
    assert np.all(np.abs(result.coverage - result.level) < 4 * result.coverage_error)


def test_exact_draws_pass_and_stay_in_the_envelope():
    result = calibrated(conjugate())
    assert result.p_value_overall > 0.01
    inside = (result.ecdf_difference >= result.lower) & (result.ecdf_difference <= result.upper)
    assert inside.all()
    assert np.all(np.abs(result.coverage - result.level) < 4 * result.coverage_error)


@pytest.mark.parametrize("width", [0.6, 1.7], ids=["overconfident", "underconfident"])
def test_wrong_widths_are_found(width):
    result = calibrated(conjugate(width))
    assert result.p_value_overall < 1e-3
    off = (result.coverage - result.level).sel(level=0.8)
    assert np.all(off < 0) if width < 1 else np.all(off > 0)
    assert ((result.ecdf_difference < result.lower) | (result.ecdf_difference > result.upper)).any()


def test_a_bias_is_found_where_it_is():
    result = calibrated(conjugate(shift=1.0))
    assert np.all(result.p_value[:2] < 1e-3)
    assert result.p_value[2] > 0.01


def test_a_wrong_prior_is_found():
    result = calibration(gibbs, SRR(3, 2.0), prior=[8.0, 1.0, 1.0], n_people=10, replications=60, random_seed=1)
    assert result.p_value_overall < 1e-3


def test_ranks_and_their_shares_agree():
    result = calibrated(conjugate(), replications=30, n_ranked=49)
    assert result["rank"].min() >= 0
    assert result["rank"].max() <= 49
    np.testing.assert_array_equal(np.floor(result.pit * 50), result["rank"])
    np.testing.assert_allclose(result.truth.sum("category"), 1)
    np.testing.assert_allclose(result.coverage_error, np.sqrt(result.level * (1 - result.level) / 30))
    assert result.attrs["random_seed"] == 1


def test_ranks_are_uniform_with_ties_as_without():
    rng = np.random.default_rng(2)
    ranks = np.array([_rank(values[1:], values[0], rng) for values in rng.integers(0, 2, size=(8000, 5, 3)) * 1.0])
    counts = np.array([np.bincount(column, minlength=5) for column in ranks.T])
    assert chisquare(counts.sum(axis=0)).pvalue > 1e-4
    np.testing.assert_array_equal(_rank(np.array([[1.0], [2.0], [4.0]]), np.array([3.0]), rng), [2])


@pytest.mark.parametrize("count", [7, 50, 120])
def test_the_truth_is_ranked_among_as_many_different_draws_as_stated(count):
    sample = _exactly(np.arange(240.0).reshape(3, 40, 2), count)
    assert sample.shape == (count, 2)
    assert len(np.unique(sample[:, 0])) == count


def test_all_categories_together_have_the_level_that_is_stated():
    result = calibrated(conjugate(shift=0.2), replications=40)
    assert result.p_value.min() < 1 / 3
    assert result.p_value_overall.item() == pytest.approx(3 * result.p_value.min().item())
    # Right ranks, simulated: those of all three categories stay within the envelope with 95 %, not with 95 %³.
    pit = np.sort(np.random.default_rng(1).random((2000, 3, 1, 40)))
    ecdf = np.concatenate([np.mean(part <= result.point.values[:, None], axis=-1) for part in np.split(pit, 20)])
    off = ecdf - result.point.values
    left = ((off < result.lower.values) | (off > result.upper.values)).any(axis=(1, 2))
    assert 0.02 < left.mean() < 0.08


def test_the_smallest_budget_still_makes_what_the_statistics_need():
    assert calibrated(conjugate(), replications=100, budget=5e-324, progressbar=False).attrs["replications"] == 2


def test_a_budget_ends_it_cleanly():
    def slow(responses, seed):
        time.sleep(0.05)
        return conjugate()(responses, seed)

    result = calibrated(slow, replications=100, budget=0.3, progressbar=False)
    assert 1 <= result.attrs["replications"] < 20
    assert result.attrs["replications_wanted"] == 100
    assert result.sizes["replication"] == result.attrs["replications"]


def test_people_are_asked_as_told_and_seeds_repeat():
    seen = []

    def collect(x, rng):
        mechanism = RRRR(3, 5.0)
        responses = Responses(mechanism, categories=["a", "b", "c"])
        responses.append(mechanism.privatize(x, subset=[0], rng=rng), [0])
        seen.append(len(x))
        return responses

    arguments = {"n_people": 30, "replications": 5, "collect": collect, "random_seed": 4}
    one, two = (calibration(gibbs, RRRR(3, 5.0), **arguments) for _ in range(2))
    assert seen == [30] * 10
    assert one.category.values.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(one.pit, two.pit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": 3}, "fit must be a sampler, or a function"),
        ({"fit": "nonsense"}, "fit must be a sampler, or a function"),
        ({"fit": lambda r, s: 3}, "fit must return a DataTree, got int"),
        ({"fit": relabelled}, "fit must return draws of the categories"),
        ({"mechanism": 3}, "mechanism must be a Mechanism"),
        ({"levels": [1.5]}, "levels must be"),
        ({"budget": -1}, "budget must be"),
        ({"replications": 1}, "replications must be"),
        ({"n_ranked": 5000}, "fit must return at least n_ranked = 5000 draws, got 400"),
    ],
)
def test_refusals(options, message):
    arguments = {"fit": conjugate(), "mechanism": SRR(3, 5.0), "replications": 3} | options
    with pytest.raises(ValueError, match=message):
        calibration(**arguments)


def exact(prior):
    """Draws that are independent and exact: everybody answers truthfully. Some shares underflow to zero."""

    def fit(responses, seed):
        rng, counts = np.random.default_rng(seed), np.bincount(responses.answers, minlength=5)
        return tree_of([draw_dirichlet(rng, prior + counts) for _ in range(99)])

    return fit


def exact_gibbs(prior):
    """The same by Gibbs sampling, whose shares stop at the smallest normal double instead."""

    def fit(responses, seed):
        rng = np.random.default_rng(seed)
        (block,) = gibbs_chain(responses.evidence(), np.full(5, prior), 100, rng)
        return tree_of(block[0][1:])

    return fit


def tree_of(theta):
    coords = {"category": list(range(5))}
    return xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"theta": (("chain", "draw", "category"), np.array([theta]))}, coords)}
    )


@pytest.mark.parametrize(
    ("fit", "prior", "n_people"), [(exact, 0.001, 0), (exact_gibbs, 0.01, 0), (exact_gibbs, 0.01, 50)]
)
def test_exact_draws_pass_under_a_sparse_prior(fit, prior, n_people):
    """Shares that underflow are equal for ranks. Overall p-values are below 1e-3 once in 1000, on a fixed seed."""
    options = {"prior": prior, "n_people": n_people, "replications": 60, "random_seed": 2, "progressbar": False}
    result = calibration(fit(prior), SRR(5, 30.0), **options)
    assert result.p_value_overall > 1e-3
    # Intervals of ties hold too much, never too little.
    assert np.all(result.coverage - result.level > -4.5 * result.coverage_error)


# A PyMC model under its own prior.


class Watched:
    """Builds a model, and remembers the responses, so that a fit can do without it."""

    def __call__(self, responses):
        self.responses = responses
        return frequency_model(responses)


def model_calibrated(sampler, replications=60, **options):
    build = Watched()

    def fit(model, seed):
        assert model.observed_RVs
        return samplers.tree_of(sampler(build.responses, np.ones(2), 300, 0, 2, seed), build.responses.categories)

    template = Responses.from_arrays(SRR(2, 2.0), np.zeros(50, dtype=int), categories=["no", "yes"])
    return model_calibration(
        build, template, fit, replications=replications, random_seed=1, progressbar=False, **options
    )


def test_a_model_is_calibrated_under_its_own_prior():
    """A right sampler fails with a probability of 1 %, on a fixed seed."""
    result = model_calibrated(
        samplers.exact, scalars=lambda draws: xr.Dataset({"odds": draws.theta[..., 0] / draws.theta[..., 1]})
    )
    assert result.scalar.values.tolist() == ["odds"]
    assert result.p_value_overall > 0.01
    assert np.abs(result.coverage - result.level).max() < 0.25
    assert np.ptp(result.truth.values) > 0.5
    assert plot_calibration(result).shape == (2,)


@pytest.mark.parametrize("sampler", [samplers.half, pytest.param(samplers.swapped, marks=pytest.mark.long)])
def test_a_broken_fit_of_a_model_is_found(sampler):
    result = model_calibrated(sampler)
    assert result.scalar.values.tolist() == ["theta[no]", "theta[yes]"]
    assert result.p_value_overall < 0.001


def test_what_a_fit_of_a_model_returns_is_checked():
    template = Responses.from_arrays(SRR(2, 2.0), np.zeros(5, dtype=int))
    for change in ({"fit": lambda model, seed: None}, {"scalars": lambda draws: 3}, {"fit": 3}, {"scalars": 3}):
        fit = {"fit": lambda model, seed: samplers.tree_of(np.full((2, 99, 2), 0.5), "01")} | change
        with refuses(next(iter(change))):
            model_calibration(frequency_model, template, **fit, replications=2, random_seed=1, progressbar=False)
