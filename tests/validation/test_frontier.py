"""The study of the frontier: what its names stand for, its points, and statements that fail where they are false."""

import json

import numpy as np
import pytest
import xarray as xr

from adobest_pp import sample
from adobest_pp.plots.comparison import is_on_frontier
from adobest_pp.studies import cells_of
from validation import frontier, frontier_run
from validation.common import Options


def failing(found):
    return {one.name for one in found if not one.passed}


def test_the_study_has_the_papers_settings_and_those_in_which_nothing_collapses():
    cells = cells_of(frontier.study_of(quick=False, seed=1))
    paper = [cell for cell in cells if cell["mechanism"] == "rrrr"]
    names = ("n_categories", "epsilon", "rho", "kappa")
    assert len({tuple(cell[name] for name in names) for cell in paper}) == 36
    large = {(c["mechanism"], c["n_categories"], c["people"]) for c in cells if c["mechanism"] != "rrrr"}
    assert {(mechanism, k) for mechanism, k, _ in large} == {
        (mechanism, k) for mechanism in ("subset_selection", "unary_encoding") for k in (20, 100)
    }
    assert max(people for *_, people in large) == 1_000_000
    for cell in cells:
        frontier_run.options_of(cell["sampler"])


def test_a_name_stands_for_pieces_and_a_step():
    assert frontier_run.options_of("nuts") == {"sampler": "nuts"}
    found = frontier_run.options_of("reflected minibatch:500 30")
    assert (found["diffusion"], found["gradient"], found["batch_size"]) == ("reflected", "minibatch", 500)
    assert found["schedule"].scale == 15.0
    assert frontier_run.options_of("log_ratio full 1")["batch_size"] is None


@pytest.mark.parametrize(
    "sampler", ["nuts", "gibbs", "sgld_cv", "reflected minibatch 1", "reflected control_variates 1", "reflected full 1"]
)
def test_gradients_are_counted_by_row(sampler):
    responses = frontier_run.answers("rrrr", np.full(4, 0.25), 1.0, 0.9, 100, np.random.default_rng(1))
    options = frontier_run.options_of(sampler)
    tree = sample(responses, draws=30, tune=100, chains=2, random_seed=1, progressbar=False, **options)
    rows = responses.evidence().n_rows
    found = frontier_run.gradients_of(tree, rows)
    if sampler == "nuts":
        steps = tree["sample_stats"]["n_steps"].values
        assert steps.min() * 260 * rows <= found <= steps.max() * 260 * rows
    elif sampler == "sgld_cv":
        chosen = json.loads(tree.attrs["sampler_choices"])
        assert found == 260 * chosen["updates_per_draw"] * (chosen["batch"] or rows) + 5 * rows
    else:
        each = {"gibbs": rows, "reflected full 1": 20 * rows}.get(sampler, 20 * 50)
        assert found == 260 * each + 5 * rows * ("control_variates" in sampler)


def test_the_distance_is_that_of_means_and_standard_deviations():
    rng = np.random.default_rng(2)
    right = rng.normal(0.3, 0.1, size=(4, 5000, 2))
    wide = 0.3 + 1.5 * (right - right.mean(axis=(0, 1))) + [0.1, 0.0]
    shift = (0.3 - right.mean(axis=(0, 1)) + [0.1, 0.0]) / right.std(axis=(0, 1))
    assert frontier_run.distance(wide, right) == pytest.approx(np.sqrt(np.mean(shift**2 + 0.25)))
    assert frontier_run.distance(right, right) == 0


def test_the_frontier_has_the_points_that_no_other_beats():
    cost, error = np.array([[1.0, 2.0], [2.0, 3.0], [np.nan, 1.0]]), np.array([[0.5, 0.5], [0.2, 0.3], [0.0, 0.5]])
    assert is_on_frontier(cost, error).tolist() == [[True, False], [True, False], [False, True]]


SAMPLERS = [
    *("nuts", "gibbs", "sgld_cv", "reflected minibatch 30", "reflected control_variates 30"),
    *("log_ratio minibatch 1", "log_ratio control_variates 1"),
]


def planted(**distances):
    """Runs of ten settings in which every statement holds, but for the distances that are given."""
    typical = dict(zip(SAMPLERS, (0.04, 0.3, 0.04, 0.6, 0.2, 0.5, 0.06), strict=True)) | distances
    cells = [(sampler, setting) for setting in range(10) for sampler in SAMPLERS]
    size = len(cells)
    distance = np.array([typical[sampler] for sampler, _ in cells]) * (1 + 0.01 * np.arange(size) / size)
    seconds = np.array([{"nuts": 0.5, "sgld_cv": 0.1}.get(sampler, 0.2) for sampler, _ in cells])
    values = {
        "distance": distance,
        "distance_of_a_quarter": 2 * distance,
        "r_hat": np.ones(size),
        "cpu_seconds": seconds,
        "gradients": 1e6 * seconds,
        "rows": np.full(size, 100.0),
    }
    coords = {"mechanism": ["rrrr"] * size, "sampler": [sampler for sampler, _ in cells]}
    return xr.Dataset(
        {name: ("cell", each) for name, each in values.items()}, {name: ("cell", each) for name, each in coords.items()}
    )


def test_points_are_medians_over_settings():
    points = frontier.points_of(planted())
    assert points["sampler"].values.tolist() == SAMPLERS
    assert points["distance"].sel(sampler="gibbs", length=1.0).item() == pytest.approx(0.3, rel=0.02)
    assert points["distance"].sel(sampler="gibbs", length=0.25).item() == pytest.approx(0.6, rel=0.02)
    assert points["cpu_seconds"].sel(sampler="nuts").values.tolist() == pytest.approx([0.25, 0.5])
    assert points["close"].sel(sampler="sgld_cv").values.tolist() == [1, 1]
    assert points["frontier_cpu_seconds"].sel(sampler="sgld_cv").all()
    assert not points["frontier_cpu_seconds"].sel(sampler="gibbs").any()


def test_planted_faults_fail_the_quick_mode(monkeypatch, capsys):
    def wide(responses, **settings):
        tree = sample(responses, **settings)
        if settings["sampler"] == "sgld_cv":
            theta = tree["posterior"]["theta"]
            mean = theta.mean(("chain", "draw"))
            tree["posterior"]["theta"] = (mean + 1.3 * (theta - mean)).transpose(*theta.dims)
        return tree

    assert not failing(frontier.findings(Options(quick=True)))
    monkeypatch.setattr(frontier_run, "sample", wide)
    assert "sgld_cv" in failing(frontier.findings(Options(quick=True)))
    assert "sgld_cv" in capsys.readouterr().out
