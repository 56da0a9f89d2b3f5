"""Planted rates are found, and the Bernstein–von Mises line is the inverse information by other means."""

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

mpl.use("Agg")
from matplotlib import pyplot as plt

from adobest_pp import RRRR, SRR, Responses, SubsetSelection, sample, utility
from adobest_pp.diagnostics.contraction import (
    checkpoints,
    contraction,
    fit_slope,
    information,
    inverse_information_trace,
)
from adobest_pp.plots.comparison import plot_contraction
from oracles import rows_of
from tests.refusals import refuses
from tests.strategies import simulated

THETA = np.array([0.5, 0.3, 0.2])
NS = (100, 300, 1000, 3000, 10_000)


def tree_of(theta):
    """A tree of draws (chain, draw, K), as `sample` makes them."""
    names = ("chain", "draw", "category")
    coords = {name: np.arange(size) for name, size in zip(names, theta.shape, strict=True)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (names, theta)}, coords)})


def planted(power, scale=0.1, runs=12, seed=0):
    """Posteriors whose mean is about as far from the truth as their own spread, and both fall as n^(−power/2)."""
    rng = np.random.default_rng(seed)

    def draw(n):
        noise = rng.standard_normal((2, 200, 3)) + rng.standard_normal(3)
        return tree_of(THETA + scale * (n / 100) ** (-power / 2) * (noise - noise.mean(axis=-1, keepdims=True)))

    return {n: [draw(n) for _ in range(runs)] for n in NS}


@pytest.mark.parametrize("power", [1.0, 0.6])
def test_a_planted_slope_is_recovered_within_its_standard_error(power):
    result = contraction({"planted": planted(power)}, THETA)
    off = abs(float(result["slope"][0]) + power)
    assert off < 2 * float(result["slope_se"][0])
    assert 0 < float(result["slope_se"][0]) < 0.15


def test_the_two_laws_are_told_apart_on_one_call():
    result = contraction({"fast": planted(1.0), "slow": planted(0.6, seed=1)}, THETA)
    fast, slow = result["slope"].values
    assert slow - fast > 3 * np.hypot(*result["slope_se"].values)
    assert dict(result.sizes) == {"label": 2, "n": 5}
    assert result["runs"].values.tolist() == [12, 12]
    assert np.isnan(result["bvm"]).all()


@pytest.mark.parametrize(("runs", "expected"), [(10, 0.923), (1, 0.919)])
def test_the_standard_error_is_calibrated(runs, expected):
    """Errors scattered about a law: two standard errors hold the slope as often as Student's t says (9 and 8 df)."""
    rng = np.random.default_rng(3)
    ns = np.geomspace(100, 10_000, 10).astype(np.int64)
    held = []
    for _ in range(600):
        slope, error = fit_slope(ns, 5 * ns**-0.8 * np.exp(0.3 * rng.standard_normal((runs, ns.size))))
        held.append(abs(slope + 0.8) < 2 * error)
    assert np.mean(held) == pytest.approx(expected, abs=4 * np.sqrt(0.92 * 0.08 / 600))


def test_the_slope_of_one_run_is_that_of_least_squares():
    ns, error = np.array(NS), np.array([0.5, 0.1, 0.07, 0.02, 0.004])
    expected = linregress(np.log(ns), np.log(error))
    assert fit_slope(ns, error[None]) == pytest.approx((expected.slope, expected.stderr))


def test_error_and_radius_are_those_of_the_draws():
    steps = np.linspace(0, 1, 101)
    draws = THETA + 0.02 * steps[None, :, None] * np.array([1.0, -1.0, 0.0])
    result = contraction({"a": {50: tree_of(draws)}, "b": {50: tree_of(draws), 70: tree_of(draws)}}, THETA)
    assert result["error"].sel(label="a", n=50) == pytest.approx(2 * 0.02**2 * np.mean(steps**2))
    assert result["radius"].sel(label="b", n=70) == pytest.approx(0.02 * np.sqrt(2) * 0.95)
    assert np.isnan(result["error"].sel(label="a", n=70))
    assert np.isnan(result["slope"].sel(label="a"))
    assert result["slope"].sel(label="b") == pytest.approx(0.0, abs=1e-12)
    assert result.attrs["probability"] == 0.95
    several = contraction({"a": {50: [tree_of(draws), tree_of(2 * draws - THETA)]}}, THETA)
    error = result["error"].sel(label="a", n=50)
    assert several["error"].item() == pytest.approx(2.5 * error)  # of one and of four times that
    assert several["error_se"].item() == pytest.approx(1.5 * error)


def test_the_fit_may_leave_out_small_n():
    errors = {100: 1.0, 1000: 0.1, 10_000: 0.01, 10: 1.0}
    trees = {
        n: tree_of(THETA + np.sqrt(error / 2) * np.tile([1.0, -1.0, 0.0], (2, 5, 1))) for n, error in errors.items()
    }
    assert float(contraction({"a": trees}, THETA, fit_from=100)["slope"][0]) == pytest.approx(-1.0)
    assert float(contraction({"a": trees}, THETA, fit_from=1000)["slope"][0]) == pytest.approx(-1.0)
    every = contraction({"a": trees}, THETA)
    assert float(every["slope"][0]) > -0.9
    assert every["n"].values.tolist() == [10, 100, 1000, 10_000]


def test_bvm_of_srr_is_its_closed_form():
    """Σh(1−h)/own² is the variance of the unbiased estimator; U1 is minus that, the least probable left out."""
    mechanism = SRR(3, np.log(3.0))  # base 1/5, own 2/5: h = (0.40, 0.32, 0.28)
    responses = Responses.from_arrays(mechanism, np.repeat([0, 1, 2], [40, 32, 28]))
    h = np.array([0.40, 0.32, 0.28])
    variances = h * (1 - h) / 0.4**2
    trace = inverse_information_trace(responses.evidence(), THETA)
    assert trace == pytest.approx(variances.sum(), rel=1e-12)
    assert trace - variances[2] == pytest.approx(-utility(THETA, RRRR(3, np.log(3.0)), "fisher")[0], rel=1e-9)
    tree = sample(responses, "gibbs", draws=50, tune=10, random_seed=1, progressbar=False)
    result = contraction({"gibbs": {100: tree}}, THETA)
    assert float(result["bvm"][0, 0]) == pytest.approx(2 * variances.sum() / 100, rel=1e-12)
    assert float(result["inverse_information"][0, 0]) == pytest.approx(variances.sum(), rel=1e-12)


@given(
    kind=st.sampled_from([lambda k: SRR(k, 1.2), lambda k: RRRR(k, 1.5, 0.8), lambda k: SubsetSelection(k, 1.0)]),
    k=st.integers(2, 6),
    seed=st.integers(0, 1000),
)
def test_information_is_that_of_dense_rows(kind, k, seed):
    responses = simulated(kind(k), 400, seed)
    theta = np.random.default_rng(seed).dirichlet(np.full(k, 3.0))
    rows = rows_of(responses)
    scores = rows / (rows @ theta)[:, None]
    # Scaled rows of subset selection have the same scores: a constant factor cancels.
    dense = scores.T @ scores / len(rows)
    np.testing.assert_allclose(information(responses.evidence(), theta), dense, rtol=1e-9)
    # θ without its last component: the covariance of the others, and of minus their sum.
    reduced = (scores[:, :-1] - scores[:, -1:]).T @ (scores[:, :-1] - scores[:, -1:]) / len(rows)
    covariance = np.linalg.inv(reduced)
    trace = inverse_information_trace(responses.evidence(), theta)
    assert trace == pytest.approx(np.trace(covariance) + covariance.sum(), rel=1e-6)


def test_what_does_not_determine_theta_has_no_finite_line():
    responses = Responses.from_arrays(SRR(3, 1.0), [0, 0, 0, 1])
    assert inverse_information_trace(responses.evidence(), THETA) < np.inf
    alike = Responses.from_arrays(SRR(3, 1.0), [0, 0])
    assert inverse_information_trace(alike.evidence(), THETA) == np.inf
    two = Responses.from_arrays(SRR(4, 1.0), [0, 1, 1]).evidence()
    for theta in np.random.default_rng(1).dirichlet(np.ones(4), size=30):  # rounding leaves a zero of either sign
        assert inverse_information_trace(two, theta) == np.inf


def test_exact_posteriors_of_srr_follow_their_line():
    """n·E‖θ−θ*‖² is about twice the trace: within four standard errors over runs of the line at the last n."""
    rng = np.random.default_rng(8)
    mechanism = SRR(3, 2.0)
    trees = {n: [] for n in (200, 800, 3200)}
    for seed in range(15):
        answers = mechanism.privatize(rng.choice(3, size=3200, p=THETA), rng=rng)
        for n, first in checkpoints(Responses.from_arrays(mechanism, answers), list(trees)).items():
            trees[n].append(sample(first, "gibbs", draws=200, tune=100, chains=2, random_seed=seed, progressbar=False))
    result = contraction({"gibbs": trees}, THETA).sel(label="gibbs")
    last = result.isel(n=-1)
    assert abs(float(last["error"] - last["bvm"])) < 4 * float(last["error_se"])
    assert abs(float(result["slope"]) + 1) < 3 * float(result["slope_se"])


@pytest.mark.parametrize("mechanism", [SRR(4, 1.0), RRRR(4, 1.0), SubsetSelection(4, 1.0, 2)])
def test_checkpoints_are_prefixes(mechanism):
    responses = simulated(mechanism, 60, seed=2)
    prefixes = checkpoints(responses, [60, 7, 25])
    assert list(prefixes) == [7, 25, 60]
    for n, first in prefixes.items():
        assert len(first) == n
        np.testing.assert_array_equal(first.answers, responses.answers[:n])
        np.testing.assert_array_equal(rows_of(first), rows_of(responses)[:n])
        assert first.categories == responses.categories
    labelled = Responses.from_arrays(SRR(2, 1.0), [0, 1, 1], categories=["no", "yes"])
    assert checkpoints(labelled, [2])[2].categories == ("no", "yes")


@pytest.mark.parametrize(
    ("posteriors", "options", "message"),
    [
        ({}, {}, "posteriors must be a mapping"),
        ({"a": {}}, {}, "posteriors must map 'a'"),
        ({"a": {0: tree_of(np.ones((1, 4, 3)) / 3)}}, {}, "the n of posteriors must be an integer of at least 1"),
        ({"a": {5: tree_of(np.ones((1, 4, 2)) / 2)}}, {}, "truth must be 2 finite"),
        ({"a": {5: xr.DataTree()}}, {}, "posteriors must hold posterior/theta"),
        ({"a": {5: [], 6: []}}, {}, "posteriors must hold as many runs of 'a' at every n"),
        ({"a": {5: tree_of(np.ones((1, 4, 3)) / 3)}}, {"probability": 95}, "probability must be a number between"),
    ],
)
def test_contraction_refuses_wrong_arguments(posteriors, options, message):
    with pytest.raises(ValueError, match=message):
        contraction(posteriors, THETA, **options)


def test_checkpoints_refuse_more_than_there_are():
    with refuses("ns"):
        checkpoints(Responses.from_arrays(SRR(2, 1.0), [0, 1, 1]), [4])
    with refuses("evidence"):
        information(Responses(SRR(2, 1.0)).evidence(), [0.5, 0.5])


def test_the_figure_shows_the_errors_and_the_line(tmp_path):
    result = contraction({"fast": planted(1.0, runs=3), "single": planted(0.6, runs=1)}, THETA)
    result["bvm"][0] = 10.0 / result["n"]
    error, radius = plot_contraction(result)
    lines = [line for line in error.get_lines() if len(line.get_xdata())]
    drawn = {tuple(np.round(line.get_ydata(), 12)) for line in lines}
    for values in (result["error"].values[0], result["error"].values[1], result["bvm"].values[0]):
        assert tuple(np.round(values, 12)) in drawn
    np.testing.assert_array_equal(radius.get_lines()[1].get_ydata(), result["radius"].sel(label="single"))
    assert error.get_xscale() == error.get_yscale() == "log"
    labels = [text.get_text() for text in error.get_legend().get_texts()]
    assert any(label.startswith("fast: slope −") for label in labels)
    assert any("Bernstein" in label for label in labels)
    error.figure.savefig(tmp_path / "figure.png")
    with refuses("axes"):
        plot_contraction(result, axes=[error])
    plt.close("all")
