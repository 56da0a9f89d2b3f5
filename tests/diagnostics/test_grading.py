"""Samplers are graded on reference posteriors within a budget; broken ones are caught, and spoil nothing."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import adobest_pp as ad
from adobest_pp.cli.main import main
from adobest_pp.diagnostics import calibration, compare, grade, grading, references
from adobest_pp.diagnostics.grading import FAILED, FIRST_DRAWS, RUNS, as_records
from adobest_pp.samplers.registry import resolve
from tests.diagnostics import samplers
from tests.diagnostics.samplers import BROKEN, exact, tree_of
from tests.refusals import refuses
from validation import pages

QUICK = {"names": ["srr_two"], "budget": 5.0, "progressbar": False}


class Here:
    """Runs a sampler in this process, which is faster."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, name, draws, chains, seed, seconds):
        try:
            return grading.run_once(self.sampler, references.load(name), draws, chains, seed)
        except Exception as error:
            raise grading.NoDraws(grading._sentence(error)) from None


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(grading, "SamplerProcess", Here)


@pytest.mark.usefixtures("here")
def test_a_right_sampler_of_ten_lines_passes():
    """A right sampler is called biased with a probability of 1 %; the seed is fixed."""
    result = grade(exact, **QUICK)
    assert dict(result.sizes) == {"sampler": 1, "reference": 1, "run": RUNS}
    row = result.sel(sampler="exact", reference="srr_two")
    assert row.verdict == "indistinguishable"
    assert row.problem == ""
    assert row.draws == 4000
    assert row.ess_bulk > 10_000
    assert row.ess_per_second == pytest.approx(row.ess_bulk.item() / row.seconds.item())
    assert np.isnan(row.gradients)
    assert row.run_draws.values.tolist() == [FIRST_DRAWS << i for i in range(RUNS)]
    assert row.run_error[-1] == row.error
    assert (row.run_error < 0.3).all()
    assert row.error < 0.05
    assert abs(row.sd_ratio - 1) < 0.05
    assert row.group == "easy"
    assert row.stein_p_value > 0.0025
    assert result.attrs["archive_version"] == references.archive_version()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("sampler", BROKEN)
def test_a_broken_sampler_is_caught_by_all(sampler):
    """Each has a bias that the tests find with a probability near 1, on fixed seeds."""
    row = grade(sampler, **QUICK).isel(sampler=0, reference=0)
    assert row.verdict == (FAILED if sampler is samplers.shuffled else "biased")

    reference = references.load("srr_two")
    theta = sampler(reference.responses, reference.draws.attrs["prior_concentration"], 4000, 0, 4, 1)
    tree = tree_of(theta, reference.responses.categories)
    if sampler is samplers.shuffled:
        with refuses("draws"):
            compare({"broken": tree}, reference)
    else:
        assert compare({"broken": tree}, reference).verdict.sel(sampler="broken") == "biased"

    if sampler is samplers.shuffled:
        with pytest.raises(RuntimeError, match="sampler 'shuffled' must return shares"):
            calibrated(sampler, 2)
    elif sampler is not samplers.wide:
        assert calibrated(sampler, 40) < 0.001


def calibrated(sampler, replications):
    """Return the p-value of uniform ranks."""
    options = {"n_people": 50, "replications": replications, "random_seed": 1, "progressbar": False}
    return calibration(sampler, ad.SRR(2, 2.0), **options).p_value_overall


@pytest.mark.long
def test_a_standard_deviation_that_is_a_tenth_too_large_is_not_calibrated():
    """The variance of the ranks is 8 % too small, or 4.5 standard errors with 2,500 replications."""
    assert calibrated(samplers.wide, 2500) < 0.001
    assert calibrated(exact, 2500) > 0.01


def test_what_fails_is_told_and_the_others_are_kept():
    """Each in a process of its own."""
    chosen = {"raises": samplers.raises, "crashes": samplers.crashes, "exact": exact}
    result = grade(chosen, **QUICK).isel(reference=0)
    assert result.verdict.values.tolist() == [FAILED, FAILED, "indistinguishable"]
    assert "raised RuntimeError: 'chain 3" in result.problem.values[0]
    assert "exit code 3" in result.problem.values[1]


@pytest.mark.usefixtures("here")
def test_what_is_wrong_with_draws_is_told_in_a_sentence():
    bad = ("missing", "too_few", "one_dim", "nothing", "other_labels", "shuffled")
    result = grade({name: getattr(samplers, name) for name in bad}, **QUICK).isel(reference=0)
    for name in bad:
        row = result.sel(sampler=name)
        assert row.verdict == FAILED
        assert len(row.problem.item()) > 20
        assert "\n" not in row.problem.item()
        assert np.isnan(row.ess_bulk)


@pytest.mark.long
def test_what_hangs_is_stopped_and_what_it_made_before_is_graded(monkeypatch):
    """By the clock what sleeps, and by the time of the processor what works on."""
    monkeypatch.setattr(grading, "TO_COMPILE", 1.0)
    monkeypatch.setattr(grading, "PATIENCE", 10.0)
    chosen = {"hangs": samplers.hangs, "spins later": samplers.spins_later, "exact": exact}
    result = grade(chosen, **QUICK | {"budget": 1.0}).isel(reference=0)
    assert result.verdict.values.tolist() == [FAILED, "indistinguishable", "indistinguishable"]
    assert "250 draws took longer than 10 s of wall time" in result.problem.values[0]
    later = result.sel(sampler="spins later")
    assert later.draws == 250
    assert "500 draws took longer than 1 s of CPU time" in later.problem.item()


def test_time_is_that_of_the_processor_in_all_threads_and_ended_processes():
    began = grading.processor_seconds()
    time.sleep(0.3)
    assert grading.processor_seconds() - began < 0.2
    work = "import time\nwhile time.process_time() < 0.4: pass"
    threads = [threading.Thread(target=samplers.spin, args=(0.3,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    in_threads = grading.processor_seconds() - began
    assert in_threads >= 0.55
    subprocess.run([sys.executable, "-c", work], check=True)
    assert grading.processor_seconds() - began >= in_threads + 0.35


@pytest.mark.usefixtures("here")
def test_a_budget_of_gradients():
    chosen = {"counted": samplers.counted, "exact": exact}
    result = grade(chosen, gradients=50_000.0, **QUICK).isel(reference=0)
    row = result.sel(sampler="counted")
    assert row.gradients == 10 * 4 * 1000  # one of 80,000 would be beyond the budget
    assert row.draws == 500
    assert row.ess_per_gradient == pytest.approx(row.ess_bulk.item() / 40_000)
    assert "gradient evaluations are not known" in result.sel(sampler="exact").problem.item()


REGRESSION = {"names": ["srr_regression"], "budget": 30.0, "progressbar": False}


@pytest.mark.usefixtures("here")
def test_a_regression_is_graded_by_its_coefficients():
    """Draws of the archive are right, and those that are 1.2 times too wide are not; fixed seeds."""
    chosen = {"right": samplers.archived, "wide": samplers.wide_archived, "nan": samplers.with_nan, "gibbs": "gibbs"}
    result = grade(chosen, **REGRESSION).isel(reference=0)
    assert result.verdict.values.tolist() == ["indistinguishable", "biased", FAILED, FAILED]
    assert result.group == "regression"
    assert result.error.sel(sampler="right") < 0.2
    assert result.stein_p_value.sel(sampler="right") > 0.0025
    assert "finite coefficients, got 6 that are not" in result.problem.sel(sampler="nan").item()
    assert result.problem.sel(sampler="gibbs").item().startswith("takes no regression")


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_nuts_and_step_classes_take_a_regression():
    result = grade("nuts", gradients=30_000, **REGRESSION).isel(reference=0, sampler=0)
    assert result.verdict == "indistinguishable"
    assert result.gradients > 0
    reference = references.load("srr_regression")
    run = grading.run_once(resolve(pm.Metropolis), reference, 20, 2, 1)
    assert run.values.shape == (2, 20, 3, 2)
    with refuses("covariates"):
        ad.sample(reference.responses, "nuts", covariates=reference.covariates)


def test_where_gradients_are_known_from():
    tree = tree_of(np.full((2, 5, 2), 0.5), "ab")
    assert np.isnan(grading.gradients_of(tree, 5, 2))
    tree["sample_stats"] = xr.Dataset({"n_steps": (("chain", "draw"), np.full((2, 5), 3))})
    assert grading.gradients_of(tree, 5, 2) == 60  # 30 of kept draws, and as many of tuning
    mechanism = ad.SRR(2, 1.0)
    responses = ad.Responses.from_arrays(mechanism, np.arange(100) % 2)
    options = {"draws": 5, "tune": 5, "chains": 2, "random_seed": 1, "progressbar": False}
    sgld = ad.sample(responses, "sgld", batch_size=10, updates_per_draw=7, **options)
    assert grading.gradients_of(sgld, 5, 2) == pytest.approx(2 * 10 * 7 * 5)  # ten answers are five times two rows


@pytest.mark.long
def test_functions_of_a_notebook_are_graded():
    step = 0.5

    def mine(responses, prior, draws, tune, chains, seed):
        return np.full((chains, draws, 2), step)

    row = grade(mine, **QUICK).isel(sampler=0, reference=0)
    assert row.verdict == "not_mixed"
    assert row.fault == "stuck"


@pytest.mark.usefixtures("here")
def test_records_are_json():
    result = grade({"exact": exact, "raises": samplers.raises}, **QUICK)
    records = json.loads(json.dumps(as_records(result), allow_nan=False))
    first, second = records["grades"]
    assert first["sampler"] == "exact"
    assert first["verdict"] == "indistinguishable"
    assert first["gradients"] is None
    assert len(first["runs"]["seconds"]) == RUNS
    assert second["error"] is None
    assert records["settings"]["budget"] == 5.0
    panels = ad.plots.plot_grades(result)
    assert panels.shape == (1,)
    assert len(panels[0].lines) == 2
    with refuses("work"):
        ad.plots.plot_grades(result, "hours")


def test_what_is_asked_for_is_checked():
    with refuses("samplers"):
        grade({})
    with refuses("sampler"):
        grade({"mine": 3})
    with refuses("group"):
        grade("nuts", group="nonsense")
    with refuses("group"):
        grade("nuts", group="easy", names=["srr"])
    with refuses("names"):
        grade("nuts", names=["nonsense"])
    with refuses("budget"):
        grade("nuts", budget=0)
    with refuses("gradients"):
        grade("nuts", gradients=-1)


def test_the_page_of_kept_results_is_drawn(monkeypatch):
    """From tables as `validation.leaderboard` keeps them: unknown numbers are a dash, failed samplers have no runs."""
    kept = {
        "grades": [["a", "easy", "srr", 10, "indistinguishable"], ["b", "easy", "srr", 10, FAILED]],
        "points": [["a", "srr", 250, 0.1, "–", 0.2], ["a", "srr", 500, 0.2, "–", 0.1]],
    }
    columns = {
        "grades": ["sampler", "group", "reference", "K", "verdict"],
        "points": ["sampler", "reference", "draws", "seconds", "gradients", "error"],
    }
    monkeypatch.setattr(pages, "frame", lambda program, name: pd.DataFrame(kept[name], columns=columns[name]))
    drawn = pages.error_against_work()
    assert drawn.run_error.values.tolist() == [[[0.2, 0.1]]]
    assert np.isnan(drawn.run_gradients).all()
    assert len(ad.plots.plot_grades(drawn)[0].lines) == 1


def test_the_sentences_of_the_page_are_computed():
    columns = ["sampler", "group", "reference", "verdict", "ESS/s", "why"]
    rows = [
        ["sgld_cv", "easy", "a", "indistinguishable", 400.0, ""],
        ["sgld_cv", "easy", "b", "indistinguishable", 100.0, ""],
        ["sgld_cv", "regression", "c", FAILED, np.nan, "takes no regression: …"],
        ["nuts", "easy", "a", "indistinguishable", 60.0, ""],
        ["nuts", "easy", "b", "indistinguishable", 15.0, ""],
        ["nuts", "regression", "c", "indistinguishable", 7.0, ""],
        ["slow", "easy", "a", "indistinguishable", 9000.0, ""],
        ["slow", "easy", "b", FAILED, np.nan, "failed: stopped, as 250 draws took longer than 3 s"],
        ["slow", "regression", "c", "biased", 1.0, ""],
    ]
    grades = pd.DataFrame(rows, columns=columns)
    easy, regression = pages.group_winners(grades)
    assert easy == (
        "**Easy**: `sgld_cv` is the fastest of those that are right on 2 of 2, with 200 effective draws a second; "
        "`nuts` has 30."
    )
    assert regression.endswith("with 7 effective draws a second. It is the only one.")
    assert pages.beyond(grades) == [
        "`nuts`: right on 2 of the 2; and right where `sgld_cv` is not: `c`.",
        "`slow`: right on 1 of the 2, too slow for the budget on 1.",
    ]


# The command.


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["grade", *arguments, "--reference", "srr_two", "--budget", "5s"])
    return ended.value.code


def test_the_command_prints_a_table_and_draws(capsys, tmp_path):
    figure = tmp_path / "grades.png"
    assert run("tests.diagnostics.samplers:exact", "--out", str(figure)) == 0
    printed = capsys.readouterr().out
    assert "exact on reference posteriors" in printed
    assert "indistinguishable" in printed
    assert figure.stat().st_size > 5000


@pytest.mark.usefixtures("here")
def test_the_command_prints_json_and_exits_with_1_where_a_sampler_failed(capsys):
    names = ("tests.diagnostics.samplers:exact", "tests.diagnostics.samplers:raises")
    assert run(*names, "--json") == 1
    grades = json.loads(capsys.readouterr().out)["grades"]
    assert [one["verdict"] for one in grades] == ["indistinguishable", FAILED]


@pytest.mark.parametrize("name", ["nonsense:sampler", "tests.diagnostics.samplers:nonsense", ":"])
def test_the_command_refuses_what_cannot_be_imported(name, capsys):
    assert run(name) == 2
    assert "sampler must be" in capsys.readouterr().err


def test_the_command_refuses_other_budgets(capsys):
    for budget in ("soon", "-3s", ""):
        with pytest.raises(SystemExit):
            main(["grade", "nuts", "--budget", budget])
        assert "--budget must be" in capsys.readouterr().err
