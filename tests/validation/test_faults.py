"""Every program fails where the thing that it checks is broken."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import oracles
from adobest_pp import RRRR, likelihood, sample, simulate_adaptive
from adobest_pp.diagnostics import comparison as accuracy
from adobest_pp.mechanisms import exact, rrrr
from adobest_pp.model import tensors
from adobest_pp.samplers.sgld.loop import Langevin
from validation import (
    best_subset,
    calibration,
    contraction,
    damaged_files,
    error_rates,
    faults,
    goodness_of_fit,
    gradients,
    honest_optimum,
    hostile_questions,
    intervals,
    paper_sampler,
    privacy,
    sampler_accuracy,
    utilities,
)
from validation.common import Options
from validation.kills import Kills

QUICK = Options(quick=True)


def failing(found):
    """The names of the findings that failed."""
    return {one.name for one in found if not one.passed}


# ---------------------------------------------------------------- privacy
def test_a_smaller_epsilon2_is_found_not_to_be_the_largest(monkeypatch):
    largest = rrrr._largest_epsilon2
    monkeypatch.setattr(rrrr, "_largest_epsilon2", lambda *arguments: 0.9 * largest(*arguments))
    assert "largest_epsilon2" in failing(privacy.theorem_one(True, 1))


def test_the_epsilon2_of_the_authors_is_found_to_break_the_promise(monkeypatch):
    def weights(mechanism):
        sizes = range(mechanism.n_categories)
        return [
            exact.exp_weight(oracles.program_epsilon2(size, mechanism.epsilon, mechanism.kappa) if size else 0.0)
            for size in sizes
        ]

    monkeypatch.setattr(RRRR, "_keep2", property(weights))
    assert "private" in failing(privacy.theorem_one(True, 1))


def test_a_program_that_keeps_its_promise_is_not_said_to_break_it(monkeypatch):
    monkeypatch.setattr(privacy, "program_mechanism", RRRR)
    monkeypatch.setattr(privacy, "PAPER", privacy.PAPER[:6:2])
    assert "program" in failing(privacy.authors_program(True, 1))


# ---------------------------------------------------------------- gradients
@pytest.fixture
def one_data_set(monkeypatch):
    several = gradients.data_sets
    monkeypatch.setattr(gradients, "data_sets", lambda quick, rng: several(quick, rng)[:2])


@pytest.mark.usefixtures("one_data_set", "interpreted")
@pytest.mark.parametrize(
    ("place", "name", "finding"),
    [
        (likelihood, "gradient", "likelihood"),
        (likelihood, "phi_gradient", "differences"),
        (tensors, "marginal_log_likelihood", "ops"),
        (Langevin, "gradient", "every_batch"),
    ],
)
def test_a_gradient_off_by_a_factor_is_found(monkeypatch, place, name, finding):
    right = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *arguments: 1.0001 * right(*arguments))
    assert finding in failing(gradients.findings(QUICK))


@pytest.mark.usefixtures("one_data_set", "interpreted")
def test_a_gradient_that_is_no_number_is_found(monkeypatch):
    right, calls = likelihood.gradient, []

    def last_missing(*arguments):
        calls.append(1)
        return right(*arguments) * (np.nan if len(calls) > 1 else 1)

    monkeypatch.setattr(likelihood, "gradient", last_missing)
    assert "likelihood" in failing(gradients.findings(QUICK))


@pytest.mark.usefixtures("one_data_set", "interpreted")
def test_batches_that_leave_responses_out_are_found(monkeypatch):
    right = gradients.LangevinSettings.randomness

    def skewed(*arguments):
        steps, batches, noise = right(*arguments)
        return steps, batches // 2, noise

    monkeypatch.setattr(gradients.LangevinSettings, "randomness", skewed)
    assert failing(gradients.findings(QUICK)) == {"random_batches"}


# ---------------------------------------------------------------- utilities
def test_a_utility_that_prefers_a_subset_is_found(monkeypatch):
    monkeypatch.setattr(utilities, "fisher", lambda ranked, coefficients: -1 - 0.1 * np.arange(ranked.size)[::-1])
    assert "paper" in failing(utilities.findings(QUICK))


def test_a_choice_that_is_not_the_best_is_found(monkeypatch):
    monkeypatch.setattr(honest_optimum, "select_subset", lambda theta, *_: [int(np.argmin(theta))])
    assert "nested" in failing(honest_optimum.findings(QUICK))


# ---------------------------------------------------------------- samplers
@pytest.mark.parametrize("fault", ["shifted", "wide"])
def test_draws_that_are_not_of_the_posterior_are_found(monkeypatch, fault):
    def wrong(responses, **settings):
        tree = sample(responses, **settings)
        theta = tree["posterior"]["theta"]
        mean, sd = theta.mean(("chain", "draw")), theta.std(("chain", "draw"))
        planted = np.abs(theta + 0.2 * sd * [1, -1] if fault == "shifted" else mean + 1.2 * (theta - mean))
        planted = planted / planted.sum("category")
        tree["posterior"]["theta"] = planted.transpose(*theta.dims)
        return tree

    monkeypatch.setattr(sampler_accuracy, "sample", wrong)
    found = failing(sampler_accuracy.quadrature_findings(sampler_accuracy.SMALL[:1], 1))
    assert {"quadrature, NUTS", "quadrature, Gibbs"} <= found


def compared(verdicts, distances=(0.0, 0.01, 0.3, 0.1), ratios=(1.0, 1.0, 2.0, 4.0)):
    names = list(sampler_accuracy.SAMPLERS)
    variables = {
        "verdict": ("sampler", list(verdicts)),
        "tv_reference": ("sampler", list(distances)),
        "sd_ratio": (("sampler", "category"), np.array([ratios, ratios]).T),
    }
    return xr.Dataset(variables, {"sampler": names})


def test_findings_about_the_sizes_of_the_paper_depend_on_the_comparison():
    mixed, same = "not_mixed", "indistinguishable"
    low, high = sampler_accuracy.Case(10, 1.0, 5000), sampler_accuracy.Case(10, 5.0, 5000)
    right = [
        sampler_accuracy.Found(low, compared(["reference", mixed, mixed, mixed])),
        sampler_accuracy.Found(high, compared(["reference", same, "biased", "biased"])),
    ]
    assert not failing(sampler_accuracy.size_findings(right))
    perfect = compared(["reference", same, same, same], (0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0))
    wrong = [sampler_accuracy.Found(case, perfect) for case in (low, high)]
    found = failing(sampler_accuracy.size_findings(wrong))
    assert len(found) == 6
    assert "SGLD" in found


def loop_run(case, estimate=0.1, r_hat=2.0, spread=1.0):
    rules = paper_sampler.STEPS
    values = (dict.fromkeys(rules, value) for value in (estimate, r_hat, spread))
    return paper_sampler.Found(case, *values, one_draw=0.12 if case.epsilon == 1 else 0.012)


@pytest.mark.parametrize(
    ("low", "high", "names"),
    [
        ({}, {"estimate": 0.01}, set()),
        ({"estimate": 0.02}, {"estimate": 0.01}, {"estimate_by_epsilon", "estimate_as_a_draw"}),
        ({}, {"estimate": 0.04}, {"estimate_by_epsilon"}),
        ({}, {"estimate": 0.001}, {"estimate"}),
        ({"r_hat": 1.01}, {"estimate": 0.01}, {"mixing"}),
        ({"spread": 4.0}, {"estimate": 0.01}, {"warm_start"}),
    ],
)
def test_answers_about_the_papers_loop_depend_on_its_runs(low, high, names):
    found = [loop_run(paper_sampler.Case(10, 1.0, 1.0, 5000), **low)]
    found.append(loop_run(paper_sampler.Case(10, 5.0, 1.0, 5000), **high))
    assert failing(paper_sampler.run_findings(found)) == names


@pytest.mark.parametrize(
    ("causes", "widest", "names"),
    [
        (("at_the_posterior", "gradient_noise"), 1.5, set()),
        (("not_mixed", "gradient_noise"), 1.5, {"stationary_small_epsilon"}),
        (("at_the_posterior", "rest"), 1.05, {"stationary_high_epsilon", "cause"}),
    ],
)
def test_answers_about_the_stationary_law_depend_on_what_is_explained(causes, widest, names):
    cases = [paper_sampler.Case(10, epsilon, 1.0, 5000) for epsilon in (1.0, 5.0)]
    longer = (1.01, 0.1, 0.95, widest)
    found = [{"case": case, "longer": longer, "cause": cause} for case, cause in zip(cases, causes, strict=True)]
    assert failing(paper_sampler.stationary_findings(found)) == names


def test_the_answers_that_are_gone_through_again_are_those_that_were_given():
    """With ε = 5 and 2000 people the posterior is narrow: its mean is the estimate of any chain, within 0.03."""
    case = paper_sampler.Case(3, 5.0, 1.0, 2000)
    responses, estimate = paper_sampler.collect(case, 1)
    again, draws = paper_sampler.replay(responses, "0.5/t", 2)
    np.testing.assert_allclose(again, estimate, atol=0.03)
    np.testing.assert_allclose(draws.mean(axis=0), again, atol=0.01)
    assert np.ptp(estimate) > 0.1


@pytest.mark.parametrize("factor", [10.0, 0.01])
def test_a_comparison_with_wrong_standard_errors_is_found(monkeypatch, factor):
    right = accuracy.rank_tests

    def wrong(*arguments):
        found = right(*arguments)
        errors = {name: factor * getattr(found, name) for name in ("location_error", "scale_error")}
        return found._replace(**errors)

    monkeypatch.setattr(accuracy, "rank_tests", wrong)
    monkeypatch.setattr(error_rates, "PRIORS", (1.0,) * 4)
    monkeypatch.setattr(error_rates, "SIZES", (3, 3))
    alarms, power = failing(error_rates.false_alarms(True, 1)), failing(error_rates.power(True, 1))
    assert ("false alarms, all of the grid" in alarms) == (factor > 1)
    assert (len(power) == 2) == (factor < 1)


def test_rates_are_held_to_what_chance_allows():
    def rows(alarms, of=300):
        values = [0.0024] * alarms + [0.5] * (of - alarms)
        return [dict.fromkeys(error_rates.TESTS, value) | {"verdict": "biased"} for value in values]

    assert error_rates.alarms(rows(7)) == 7
    assert error_rates.as_claimed(rows(8))
    assert not error_rates.as_claimed(rows(12))
    assert not error_rates.as_claimed([{"verdict": "not_mixed"}])
    assert error_rates.alarms([{"verdict": "not_mixed"}]) == 0
    assert str(error_rates.interval(3, 300)) == "1.0 [0.2, 2.9]"


def test_a_posterior_that_does_not_contract_is_found(monkeypatch):
    monkeypatch.setattr(contraction, "COLLECTIONS", {"SRR": contraction.COLLECTIONS["SRR"]})
    monkeypatch.setattr(contraction, "sample", lambda *arguments, **settings: sample(*arguments, 1e4, **settings))
    assert "slope, SRR" in failing(contraction.findings(QUICK))


def test_a_loop_that_does_not_learn_is_found(monkeypatch):
    setting = best_subset.Setting((0.45, 0.35, 0.2), 3.0, 0.8, ("entropy",))

    def stuck(theta, policy, **settings):
        return simulate_adaptive(np.full(theta.size, 1 / theta.size), policy, **settings)

    monkeypatch.setattr(best_subset, "SETTINGS", (setting,))
    monkeypatch.setattr(best_subset, "simulate_adaptive", stuck)
    assert "exact" in failing(best_subset.findings(QUICK))


def test_miscalibrated_samplers_are_found_and_calibrated_ones_are_not_called_overconfident(monkeypatch):
    monkeypatch.setattr(calibration, "MECHANISMS", ("SRR",))
    settings = calibration.SAMPLERS
    planted = {"Gibbs": settings["Gibbs"] | {"prior": 100.0}, "SGLD, last 1000 only": settings["NUTS"]}
    monkeypatch.setattr(calibration, "SAMPLERS", settings | planted)
    assert failing(calibration.findings(QUICK)) == {"Gibbs, K = 4", "overconfident"}


# ---------------------------------------------------------------- faults
@pytest.mark.parametrize(
    ("killed", "name"),
    [(Kills(3, 50, 1, ()), "lost"), (Kills(3, 50, 0, ("recording: unreadable",)), "read")],
)
def test_an_answer_that_is_lost_is_found(killed, name):
    assert failing(faults.kill_findings(killed, quick=True)) == {name}
    assert not failing(faults.kill_findings(Kills(3, 50, 0, ()), quick=True))
    assert failing(faults.kill_findings(Kills(3, 50, 0, ()), quick=False)) == {"killed"}


def hungry(text):
    return sum(bytearray(150_000_000)[::4096])


def raw(text):
    raise OverflowError("int too large to convert to float")


def talkative(text):
    raise ValueError("a\nb")


# A process that already holds much is out of memory before it is measured: that is found as well.
@pytest.mark.parametrize(
    ("read", "expected"), [(hungry, "answered in |MemoryError|no memory"), (raw, "OverflowError"), (talkative, "a")]
)
def test_a_reader_that_takes_too_much_or_fails_otherwise_is_found(read, expected, capsys):
    hostile = hostile_questions.Hostile("planted", "", read)
    found = hostile_questions.attempt(hostile)
    assert found.outcome == "wrong"
    assert re.search(expected, found.said)
    assert failing(hostile_questions.report([hostile], [found], quick=True)) == {"hostile"}
    assert "wrong: 'planted'" in capsys.readouterr().out


def test_a_reader_that_takes_too_long_is_found():
    assert hostile_questions.judged(hostile_questions.Reading("refused", 1.01, 3.0, "no")).outcome == "wrong"
    assert hostile_questions.judged(hostile_questions.Reading("refused", 0.99, 3.0, "no")).outcome == "refused"


def test_a_reader_that_is_ended_is_found():
    found = hostile_questions.attempt(hostile_questions.Hostile("planted", "", lambda text: os.kill(os.getpid(), 9)))
    assert (found.outcome, found.said) == ("wrong", "the process was ended: SIGKILL")


def test_hostile_questions_are_within_their_bounds():
    """Some of them here; all in ``python -m validation.faults``."""
    found = hostile_questions.hostile_findings(quick=True, seed=1)
    assert [one.name for one in found] == ["hostile"]
    assert not failing(found)


def read_or(error):
    def read(path):
        if path.read_bytes() != b"a" * 2000:
            raise error("damaged")
        return True

    return read


@pytest.mark.parametrize(
    ("read", "patience", "names"),
    [
        (read_or(ValueError), 30.0, set()),
        (Path.read_bytes, 30.0, {"silently"}),
        (read_or(KeyError), 30.0, {"ended"}),
        (read_or(ValueError), -1.0, {"ended"}),
    ],
)
def test_a_kind_of_file_that_does_not_notice_damage_is_found(monkeypatch, read, patience, names):
    monkeypatch.setattr(damaged_files, "PATIENCE", patience)
    kind = damaged_files.Kind("text", lambda path: path.write_bytes(b"a" * 2000), read)
    assert failing(damaged_files.damage_findings(QUICK, [kind])) == names


# ---------------------------------------------------------------- what is shown
def test_intervals_that_are_too_short_are_found_not_to_hold_the_truth(monkeypatch):
    def too_short(draws):
        return np.quantile(draws, [0.25, 0.75], axis=0)

    monkeypatch.setattr(intervals.intervals, "shortest_intervals", too_short)
    monkeypatch.setattr(intervals, "RHOS", (0.01,))
    assert "as shown, ρ = 0.01" in failing(intervals.findings(QUICK))


@pytest.mark.parametrize("p_value", [0.001, 0.5])
def test_a_check_that_does_not_look_at_the_answers_is_found(monkeypatch, p_value):
    monkeypatch.setattr(goodness_of_fit, "check", lambda job: (p_value, 1, p_value < 0.005))
    alarms = {"false_alarms", "false_alarms, worst cell"}
    wrong = {*alarms, *goodness_of_fit.SILENT} if p_value < 0.005 else {*goodness_of_fit.FAULTS}
    assert failing(goodness_of_fit.findings(QUICK)) == wrong
