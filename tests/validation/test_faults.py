"""Every program fails where the thing that it checks is broken."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import oracles
from adobest_pp import RRRR, likelihood, sample, simulate
from adobest_pp.diagnostics import comparison as accuracy
from adobest_pp.mechanisms import exact, rrrr
from adobest_pp.model import tensors
from adobest_pp.samplers.gradients import EvidenceGradient
from validation import (
    bad_commands,
    bad_inputs,
    best_subset,
    calibration,
    contraction,
    error_rates,
    faults,
    goodness_of_fit,
    gradients,
    honest_optimum,
    intervals,
    privacy,
    public_functions,
    sampler_accuracy,
    utilities,
)
from validation.kills import Kills


def failing(verdicts):
    return {statement for statement, holds in verdicts.items() if not holds}


def failed(capsys):
    """The statements that a program printed a FAIL before."""
    return {line[6:] for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL  ")}


# ---------------------------------------------------------------- privacy
def test_a_smaller_epsilon2_is_found_not_to_be_the_largest(monkeypatch):
    largest = rrrr._largest_epsilon2
    monkeypatch.setattr(rrrr, "_largest_epsilon2", lambda *arguments: 0.9 * largest(*arguments))
    assert "no larger ε₂ is possible" in failing(privacy.theorem_one(True, 1))


def test_the_epsilon2_of_the_authors_is_found_to_break_the_promise(monkeypatch):
    def weights(mechanism):
        sizes = range(mechanism.n_categories)
        return [
            exact.exp_weight(oracles.program_epsilon2(size, mechanism.epsilon, mechanism.kappa) if size else 0.0)
            for size in sizes
        ]

    monkeypatch.setattr(RRRR, "_keep2", property(weights))
    assert "RRRR is ε-LDP in rational arithmetic, for every subset" in failing(privacy.theorem_one(True, 1))


def test_a_program_that_keeps_its_promise_is_not_said_to_break_it(monkeypatch):
    monkeypatch.setattr(privacy, "program_mechanism", RRRR)
    monkeypatch.setattr(privacy, "PAPER", privacy.PAPER[:6:2])
    assert "the authors' program breaks ε in all 12 settings" in failing(privacy.authors_program(True, 1))


# ---------------------------------------------------------------- gradients
@pytest.fixture
def one_data_set(monkeypatch):
    several = gradients.data_sets
    monkeypatch.setattr(gradients, "data_sets", lambda quick, rng: several(quick, rng)[:2])


@pytest.mark.usefixtures("one_data_set")
@pytest.mark.parametrize(
    ("place", "name", "statement"),
    [
        (likelihood, "gradient", "the likelihood and its gradients by θ and φ are those of the definitions"),
        (likelihood, "phi_gradient", "central differences of the compiled functions agree"),
        (tensors, "marginal_log_likelihood", "so they are of the PyTensor ops"),
        (EvidenceGradient, "gradient", "the mean over all batches of one response is that gradient"),
    ],
)
def test_a_gradient_off_by_a_factor_is_found(monkeypatch, capsys, place, name, statement):
    right = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *arguments: 1.0001 * right(*arguments))
    assert gradients.main(["--quick"]) == 1
    assert statement in failed(capsys)


@pytest.mark.usefixtures("one_data_set")
def test_batches_that_leave_responses_out_are_found(monkeypatch, capsys):
    right = gradients.LangevinSettings.randomness

    def skewed(*arguments):
        steps, batches, noise = right(*arguments)
        return steps, batches // 2, noise

    monkeypatch.setattr(gradients.LangevinSettings, "randomness", skewed)
    assert gradients.main(["--quick"]) == 1
    assert failed(capsys) == {"the mean over random batches is, within its standard error"}


# ---------------------------------------------------------------- utilities
def test_a_utility_that_prefers_a_subset_is_found(monkeypatch, capsys):
    monkeypatch.setattr(utilities, "fisher", lambda ranked, coefficients: -1 - 0.1 * np.arange(ranked.size)[::-1])
    assert utilities.main(["--quick"]) == 1
    assert "in every setting of the paper, −Tr F⁻¹ chooses k = 0" in failed(capsys)


def test_a_choice_that_is_not_the_best_is_found(monkeypatch, capsys):
    monkeypatch.setattr(honest_optimum, "select_subset", lambda theta, *_: [int(np.argmin(theta))])
    assert honest_optimum.main(["--quick"]) == 1
    assert "`honest` over the K nested subsets is as large as over all subsets" in failed(capsys)


# ---------------------------------------------------------------- samplers
@pytest.mark.parametrize("fault", ["shifted", "wide"])
def test_draws_that_are_not_of_the_posterior_are_found(monkeypatch, fault):
    def wrong(responses, **settings):
        tree = sample(responses, **settings)
        theta = tree["posterior"]["theta"]
        mean, sd = theta.mean(("chain", "draw")), theta.std(("chain", "draw"))
        planted = theta + 0.2 * sd if fault == "shifted" else mean + 1.2 * (theta - mean)
        tree["posterior"]["theta"] = planted.transpose(*theta.dims)
        return tree

    monkeypatch.setattr(sampler_accuracy, "sample", wrong)
    statements = failing(sampler_accuracy.quadrature_verdicts(sampler_accuracy.SMALL[:1], 1))
    assert any("NUTS has the means and sds" in statement for statement in statements)
    assert any("Gibbs has the means and sds" in statement for statement in statements)


def compared(verdicts, distances=(0.0, 0.01, 0.3, 0.1), ratios=(1.0, 1.0, 2.0, 4.0)):
    names = list(sampler_accuracy.SAMPLERS)
    variables = {
        "verdict": ("sampler", list(verdicts)),
        "tv_reference": ("sampler", list(distances)),
        "sd_ratio": (("sampler", "category"), np.array([ratios, ratios]).T),
    }
    return xr.Dataset(variables, {"sampler": names})


def test_findings_about_the_sizes_of_the_paper_depend_on_the_comparison():
    mixed, same = "not mixed: R-hat 2.0", sampler_accuracy.SAME
    low, high = sampler_accuracy.Case(10, 1.0, 5000), sampler_accuracy.Case(10, 5.0, 5000)
    right = [
        sampler_accuracy.Found(low, 0.2, compared(["reference", mixed, mixed, mixed])),
        sampler_accuracy.Found(high, 0.01, compared(["reference", same, "biased: sd 2.00×", "biased: sd 4.00×"])),
    ]
    assert not failing(sampler_accuracy.size_verdicts(right))
    perfect = compared(["reference", same, same, same], (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0))
    wrong = [sampler_accuracy.Found(case, 0.04, perfect) for case in (low, high)]
    statements = failing(sampler_accuracy.size_verdicts(wrong))
    assert len(statements) == 8
    assert "SGLD with the paper's steps is nowhere indistinguishable from NUTS" in statements


@pytest.mark.parametrize("factor", [10.0, 0.01])
def test_a_comparison_with_wrong_standard_errors_is_found(monkeypatch, factor):
    right = accuracy.rank_tests

    def wrong(*arguments):
        found = right(*arguments)
        errors = {name: factor * getattr(found, name) for name in ("location_error", "scale_error")}
        return dataclasses.replace(found, **errors)

    monkeypatch.setattr(accuracy, "rank_tests", wrong)
    monkeypatch.setattr(error_rates, "PRIORS", (1.0,) * 4)
    monkeypatch.setattr(error_rates, "SIZES", (3, 3))
    alarms, power = failing(error_rates.false_alarms(True, 1)), failing(error_rates.power(True, 1))
    assert any("all of the grid" in statement for statement in alarms) == (factor > 1)
    assert (len(power) == 2) == (factor < 1)


def test_rates_are_held_to_what_chance_allows():
    def rows(alarms, of=300):
        values = [0.0024] * alarms + [0.5] * (of - alarms)
        return [dict.fromkeys(error_rates.TESTS, value) | {"verdict": "biased"} for value in values]

    assert error_rates.alarms(rows(7)) == 7
    assert error_rates.as_claimed(rows(8))
    assert not error_rates.as_claimed(rows(12))
    assert not error_rates.as_claimed([{"verdict": "not mixed: R-hat 1.2"}])
    assert error_rates.interval(3, 300) == "1.0 [0.2, 2.9]"


def test_a_posterior_that_does_not_contract_is_found(monkeypatch, capsys):
    monkeypatch.setattr(contraction, "COLLECTIONS", {"SRR": contraction.COLLECTIONS["SRR"]})
    monkeypatch.setattr(contraction, "sample", lambda *arguments, **settings: sample(*arguments, 1e4, **settings))
    assert contraction.main(["--quick"]) == 1
    assert any("slope" in statement for statement in failed(capsys))


def test_a_loop_that_does_not_learn_is_found(monkeypatch, capsys):
    setting = best_subset.Setting((0.45, 0.35, 0.2), 3.0, 0.8, ("entropy",))

    def stuck(theta, *arguments, **settings):
        return simulate(np.full(theta.size, 1 / theta.size), *arguments, **settings)

    monkeypatch.setattr(best_subset, "SETTINGS", (setting,))
    monkeypatch.setattr(best_subset, "simulate", stuck)
    assert best_subset.main(["--quick"]) == 1
    assert "exact sampling: other subsets are at most half as frequent then" in failed(capsys)


def test_miscalibrated_samplers_are_found_and_calibrated_ones_are_not_called_overconfident(monkeypatch, capsys):
    monkeypatch.setattr(calibration, "MECHANISMS", ("SRR",))
    settings = calibration.SAMPLERS
    planted = {"Gibbs": settings["Gibbs"] | {"prior": 100.0}, "SGLD as in the paper": settings["NUTS"]}
    monkeypatch.setattr(calibration, "SAMPLERS", settings | planted)
    assert calibration.main(["--quick"]) == 1
    statements = failed(capsys)
    assert len(statements) == 2
    assert any("K = 4, Gibbs: calibrated" in statement for statement in statements)
    assert any("hold the truth in less than" in statement for statement in statements)


# ---------------------------------------------------------------- faults
def test_a_function_that_takes_anything_is_found(monkeypatch, capsys):
    monkeypatch.setattr("adobest_pp.likelihood.marginal.check_probabilities", lambda theta, k: np.ones(k) / k)
    some = [entry for entry in public_functions.entries() if entry.name == "likelihood.log_likelihood"]
    found = faults.tally("functions", bad_inputs.cases(some), bad_inputs.attempt)
    assert "no bad input has another outcome" in failing(faults.input_verdicts([found], quick=True))
    assert "   wrong: " in capsys.readouterr().out


def test_a_command_that_shows_a_private_value_is_found(monkeypatch):
    def leaky(path, column, categories):
        raise ValueError(f"column must not have this: {Path(path).read_text()!r}")

    monkeypatch.setattr("adobest_pp.online.collect_file.read_column", leaky)
    found = faults.tally("files", bad_commands.people_files()[12:14:2], bad_commands.attempt)
    assert found.outcomes["wrong"] == 1


@pytest.mark.parametrize(
    ("killed", "statement"),
    [
        (Kills(3, 50, 1, ()), "no answer that was acknowledged is lost"),
        (Kills(3, 50, 0, ("recording: unreadable",)), "every file is read, and has the answers that it should"),
    ],
)
def test_an_answer_that_is_lost_is_found(killed, statement):
    assert failing(faults.kill_verdicts(killed, quick=True)) == {statement}
    assert not failing(faults.kill_verdicts(Kills(3, 50, 0, ()), quick=True))
    assert failing(faults.kill_verdicts(Kills(3, 50, 0, ()), quick=False)) == {"at least 200 processes were killed"}


# ---------------------------------------------------------------- what is shown
def test_intervals_with_equal_tails_are_found_not_to_hold_the_truth(monkeypatch, capsys):
    def equal_tails(draws):
        return np.quantile(draws, [0.025, 0.975], axis=0)

    monkeypatch.setattr(intervals.intervals, "shortest_intervals", equal_tails)
    monkeypatch.setattr(intervals, "RHOS", (0.01,))
    assert intervals.main(["--quick"]) == 1
    assert "ρ = 0.01, learned prior: intervals as shown hold the truth in 95 % or more" in failed(capsys)


@pytest.mark.parametrize("p_value", [0.001, 0.5])
def test_a_check_that_does_not_look_at_the_answers_is_found(monkeypatch, capsys, p_value):
    monkeypatch.setattr(goodness_of_fit, "check", lambda job: (p_value, 1, p_value < 0.005))
    assert goodness_of_fit.main(["--quick"]) == 1
    alarms = {"right answers do not fit in at most 1 % of the runs"}
    silent = {f"leaves no trace: {name}" for name in goodness_of_fit.SILENT}
    missed = {f"found in at least 95 %: {name}" for name in goodness_of_fit.FAULTS}
    assert failed(capsys) == (alarms | silent if p_value < 0.005 else missed)
