"""SGLD's bias shrinks with its step, at equal cost; the study's reference is exact."""

import logging

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

mpl.use("Agg")
from matplotlib import pyplot as plt

import oracles
from adobest_pp import SRR, Responses, sample
from adobest_pp.diagnostics.step_sizes import LONG_NAMES, _grade, step_size_study
from adobest_pp.plots.step_sizes import plot_step_sizes
from oracles import rows_of

RESPONSES = Responses.from_arrays(SRR(3, 3.0), np.repeat([0, 1, 2], [110, 60, 30]))
PRIOR = np.array([2.0, 3.0, 1.5])
STEPS = (0.001, 0.03, 0.5)


@pytest.fixture(scope="module")
def reference():
    return sample(RESPONSES, "gibbs", PRIOR, draws=5000, random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def study(reference):
    return step_size_study(
        RESPONSES,
        reference,
        step_sizes=STEPS,
        batch_sizes=[20, None],
        budget=4_000_000,
        random_seed=2,
        progressbar=False,
    )


def test_the_reference_is_that_of_quadrature(reference):
    mean, sd = oracles.posterior_moments_k3(rows_of(RESPONSES), PRIOR)
    theta = reference["posterior"]["theta"].values
    np.testing.assert_allclose(theta.mean(axis=(0, 1)), mean, atol=0.05 * sd.min())
    np.testing.assert_allclose(theta.std(axis=(0, 1)), sd, rtol=0.05)


def test_bias_shrinks_with_the_step(study):
    batches = study.sel(batch_size=20)
    excess = np.abs(np.log(batches["sd_ratio"]))
    assert np.all(excess.diff("step_size") > 0)
    assert np.all(excess.isel(step_size=0) < 0.1)
    assert np.all(batches["sd_ratio"].isel(step_size=-1) > 1.5)
    first, last = (batches["mean_error"].isel(step_size=place) for place in (0, -1))
    assert np.all(first < 4 * batches["mean_error_mcse"].isel(step_size=0) + 0.05)
    assert np.all(last > 2 * first)
    assert np.all(batches["tv"].isel(step_size=-1) > batches["tv"].isel(step_size=0))


def test_mixing_grows_with_the_step_until_it_is_biased(study):
    batches = study.sel(batch_size=20, diffusion="reflected")
    assert float(batches["ess"][1]) > float(batches["ess"][0])
    assert np.all(batches["r_hat"] < 1.1)


def test_the_exact_gradient_has_less_bias_and_mixes_less_at_equal_cost(study):
    at = study.isel(step_size=0)
    assert np.all(at["ess"].sel(batch_size=200) < at["ess"].sel(batch_size=20))
    middle = np.abs(np.log(study["sd_ratio"].isel(step_size=1)))
    assert np.all(middle.sel(batch_size=200) < middle.sel(batch_size=20))


def test_every_setting_costs_the_same(study):
    assert np.all(study["gradients"] == 4_000_000)
    assert set(study.data_vars) == set(LONG_NAMES)
    assert study["batch_size"].values.tolist() == [20, 200]
    assert study.attrs["budget"] == 4_000_000
    assert study.attrs["prior"] == PRIOR.tolist()
    assert np.all(study["seconds"] > 0)


def test_grades_are_what_they_say():
    theta = np.random.default_rng(1).dirichlet([4.0, 3.0, 2.0], size=(2, 400))
    theta[1, :, 2] = np.sort(theta[1, :, 2])  # one category has not mixed
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": list("abc")})
    tree = xr.DataTree.from_dict({"posterior": posterior})
    tree.attrs = {"sampler_settings": '{"updates_per_draw": 3}', "sampling_time": 1.5}
    mean, sd = np.array([0.4, 0.4, 0.2]), np.array([0.1, 0.2, 0.3])
    row = _grade(tree, mean, sd, batch_size=5)
    error = theta.mean(axis=(0, 1)) - mean
    assert row["mean_error"] == pytest.approx(np.sqrt(np.mean((error / sd) ** 2)))
    assert row["sd_ratio"] == pytest.approx(np.sqrt(theta.var(axis=(0, 1)).sum() / np.sum(sd**2)))
    assert row["tv"] == pytest.approx(np.abs(error).sum() / 2)
    assert (row["seconds"], row["gradients"]) == (1.5, 2 * 2 * 400 * 3 * 5)
    assert row["r_hat"] > 1.2
    assert row["ess"] < 50
    tree["posterior"]["theta"][..., 0] = 0.5  # and one does not move
    stuck = _grade(tree, mean, sd, batch_size=5)
    assert np.isnan([stuck["r_hat"], stuck["ess"]]).all()


def test_small_budgets_repeat_by_seed_and_warn_of_nothing(reference, caplog):
    options = {"batch_sizes": [100], "diffusions": ["reflected"], "budget": 60_000, "progressbar": False}
    with caplog.at_level(logging.WARNING, logger="adobest_pp"):
        once, again = (step_size_study(RESPONSES, reference, random_seed=3, **options) for _ in range(2))
    assert not caplog.records
    xr.testing.assert_identical(once.drop_vars("seconds"), again.drop_vars("seconds"))
    np.testing.assert_allclose(once["step_size"], 0.5 / 200 * np.array([0.1, 1, 10, 100]))
    assert np.all(once["gradients"] <= 60_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_sizes": [-1.0]}, r"step_sizes must be positive numbers, got \[-1.0\]"),
        ({"step_sizes": []}, "step_sizes must be at least one"),
        ({"batch_sizes": [10, 10]}, "batch_sizes must be at least one value, each given once"),
        ({"batch_sizes": [201]}, "batch_sizes must be an integer from 1 to 200, got 201"),
        (
            {"diffusions": ["free"]},
            "diffusions must be among 'reflected', 'preconditioned', 'log_ratio', .*, got 'free'",
        ),
        ({"batch_sizes": [10], "budget": 100}, "budget must be an integer of at least 1600, got 100"),
        ({"prior": [1.0, 2.0]}, "prior must be"),
    ],
)
def test_step_size_study_refuses_wrong_arguments(reference, options, message):
    with pytest.raises(ValueError, match=message):
        step_size_study(RESPONSES, reference, **options)


def test_step_size_study_refuses_a_reference_of_something_else(reference):
    bare = xr.DataTree.from_dict({"posterior": reference["posterior"].to_dataset()})
    with pytest.raises(ValueError, match="prior must be given"):
        step_size_study(RESPONSES, bare)
    learned = reference.copy()
    learned.attrs["prior"] = "learned"
    with pytest.raises(ValueError, match="prior must be a positive number, or 3 of them, got 'learned'"):
        step_size_study(RESPONSES, learned)
    with pytest.raises(ValueError, match="reference must have the categories"):
        step_size_study(Responses.from_arrays(SRR(2, 1.0), [0, 1]), reference)
    named = Responses.from_arrays(SRR(3, 1.0), [0, 1], categories=["a", "b", "c"])
    with pytest.raises(ValueError, match="reference must have the categories"):
        step_size_study(named, reference)
    stuck = sample(RESPONSES, "gibbs", PRIOR, draws=1, tune=0, chains=1, random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="reference must have draws that vary"):
        step_size_study(RESPONSES, stuck)
    with pytest.raises(ValueError, match="responses must be"):
        step_size_study(Responses(SRR(3, 1.0)), reference)


def test_the_figure_shows_the_study(study, tmp_path):
    panels = plot_step_sizes(study)
    for panel, name in zip(panels, ("mean_error", "sd_ratio", "r_hat", "ess"), strict=True):
        line = {line.get_label(): line for line in panel.get_lines()}["reflected, batch 20"]
        np.testing.assert_array_equal(line.get_ydata(), study[name].sel(diffusion="reflected", batch_size=20))
        assert panel.get_xlabel() == "step size γ"
    assert len(panels[1].get_legend().get_texts()) == 5
    panels[0].figure.savefig(tmp_path / "figure.png")
    with pytest.raises(ValueError, match="axes must be four"):
        plot_step_sizes(study, axes=panels[:2])
    plt.close("all")
