"""Every value has its words, and they say what the figures are."""

from itertools import product

import pytest
import xarray as xr

from adobest_pp._wording import (
    fault_in_words,
    interval_in_words,
    intervals_in_words,
    percent,
    prior_in_words,
    range_in_words,
    verdict_in_words,
)
from adobest_pp.diagnostics import Fault, Verdict
from tests.refusals import refuses


def row(verdict, fault="", **figures):
    plain = {"r_hat": 1.4, "ess_bulk": 80.0, "energy_p_value": 0.0025, "stein_p_value": 0.0005}
    location = {"location_category": "", "location_measure": "", "location_size": float("nan")}
    scale = {"scale_category": "", "scale_measure": "", "scale_size": float("nan")}
    return xr.Dataset(plain | location | scale | {"verdict": verdict, "fault": fault} | figures)


def test_every_verdict_with_every_fault_has_words_of_its_own():
    found = {(verdict, fault): verdict_in_words(row(verdict, fault)) for verdict, fault in product(Verdict, Fault)}
    assert "{" not in "".join(found.values())
    assert len({found[verdict, Fault.ESS] for verdict in Verdict}) == len(Verdict)
    assert len({found[Verdict.NOT_MIXED, fault] for fault in Fault if fault is not Fault.MARGINAL}) == len(Fault) - 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("reference",), "reference"),
        (("reference_not_converged", "ess"), "reference not converged: ESS 80"),
        (("indistinguishable",), "indistinguishable from the reference"),
        (("not_mixed", "r_hat"), "not mixed: R-hat 1.40"),
        (("not_mixed", "stuck"), "not mixed: the draws of a category are all equal"),
        (("no_verdict",), "no verdict: the reference has not converged"),
        (("biased", "energy"), "biased: joint distribution differs (energy distance, p = 0.0025)"),
        (("biased", "stein"), "biased: not the posterior (Stein discrepancy, p = 0.0005)"),
    ],
)
def test_verdicts_in_words(values, words):
    assert verdict_in_words(row(*values)) == words


@pytest.mark.parametrize("wrong", [None, "biased", xr.Dataset(), row(("sampler", ["biased"] * 2)), row("unknown")])
def test_what_is_no_row_is_refused(wrong):
    with refuses("row"):
        verdict_in_words(wrong)


def test_an_r_hat_is_not_rounded_to_its_limit():
    assert fault_in_words(row("not_mixed", "r_hat", r_hat=1.0502)) == "R-hat 1.050"
    assert fault_in_words(row("reference_not_converged", "r_hat", r_hat=1.012)) == "R-hat 1.012"


def test_a_bias_is_told_by_its_measure_and_category():
    mean = {"location_category": "{b}", "location_measure": "mean_shift", "location_size": -0.4}
    sd = {"scale_category": "c", "scale_measure": "sd_ratio", "scale_size": 0.7}
    assert fault_in_words(row("biased", "marginal", **mean)) == "mean off by 0.4 sd in {b}"
    assert fault_in_words(row("biased", "marginal", **mean, **sd)) == "mean off by 0.4 sd in {b}, sd 0.70× in c"
    scores = mean | sd | {"location_measure": "location", "scale_measure": "scale"}
    found = fault_in_words(row("biased", "marginal", **scores))
    assert found == "normal scores off by 0.4 in {b}, sd of normal scores 0.70× in c"


def test_priors_in_words():
    assert prior_in_words(0.5) == "the prior Dirichlet(0.5)"
    assert "learns" in prior_in_words("learned")


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.121, "12.1 %"),
        (0.0005, "0.1 %"),
        (0.000499, "0.050 %"),
        (0.0000123, "0.0012 %"),
        (1e-9, "0.0 %"),
        (0, "0.0 %"),
    ],
)
def test_a_small_share_is_not_shown_as_zero(share, words):
    assert percent(share) == words


@pytest.mark.parametrize(
    ("lower", "upper", "words", "sentence"),
    [
        (0.121, 0.15, "12.1 – 15.0 %", "12.1 % to 15.0 %"),
        (0.0, 0.013, "below 1.3 %", "below 1.3 %"),
        (0.0, 0.0001, "below 0.1 %", "below 0.1 %"),
        (0.0001, 0.00049, "0.010 – 0.049 %", "0.010 % to 0.049 %"),
        (0.00004, 0.0031, "0.0040 – 0.3 %", "0.0040 % to 0.3 %"),
        (0.972, 1.0, "at least 97.2 %", "at least 97.2 %"),
        (0.9999, 1.0, "above 99.9 %", "above 99.9 %"),
        (0.0, 1.0, "0 – 100 %", "0 % to 100 %"),
    ],
)
def test_intervals_in_words(lower, upper, words, sentence):
    assert interval_in_words(lower, upper) == words
    assert range_in_words(lower, upper) == sentence


def test_up_to_is_said_only_of_categories_that_may_be_empty():
    columns = {"lower": [0.0, 0.0, 0.1, 0.0], "upper": [0.013, 0.013, 0.2, 0.0001]}
    estimate = xr.Dataset({name: ("category", values) for name, values in columns.items()})
    assert intervals_in_words(estimate)[:3] == ["below 1.3 %", "below 1.3 %", "10.0 – 20.0 %"]
    found = intervals_in_words(estimate.assign(may_be_empty=("category", [True, False, False, True])))
    assert found == ["up to 1.3 %", "below 1.3 %", "10.0 – 20.0 %", "below 0.1 %"]
