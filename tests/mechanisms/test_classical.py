"""The classical designs against their definitions, their estimators, and what was published about them."""

import csv
import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import adobest_pp as ad
from adobest_pp import likelihood
from adobest_pp.mechanisms import PublishedQuestion, audit, read_question
from tests.cli.test_main import run_here
from tests.mechanisms.harness import check_mechanism
from tests.refusals import refuses


def warner(answer, x):
    """Two in three cards say "I did it", the others "I did not do it"."""
    return sum(chance for chance, statement in ((2 / 3, 1), (1 / 3, 0)) if (x == statement) == answer[0])


def crosswise(answer, x):
    """A quarter would say yes to the other question."""
    return sum(chance for chance, other in ((0.25, 1), (0.75, 0)) if (x == other) == answer[0])


def forced(answer, x):
    """A die: 1 and 2 force a yes, 6 a no."""
    return sum(Fraction(1, 6) for die in range(1, 7) if answer[0] == (1 if die <= 2 else 0 if die == 6 else x))


def unrelated(answer, x):
    """A coin decides for the innocuous question, to which one in ten says yes."""
    return (answer[0] == x) / 2 + (0.1 if answer[0] else 0.9) / 2


def kuk(answer, x):
    """Two cards of a deck with 80 % or 30 % red ones."""
    red = 0.8 if x else 0.3
    return math.comb(2, answer[0]) * red ** answer[0] * (1 - red) ** (2 - answer[0])


DESIGNS = [
    (ad.Warner("2/3"), warner),
    (ad.Crosswise("1/4"), crosswise),
    (ad.ForcedResponse("1/3", "1/6"), forced),
    (ad.UnrelatedQuestion("1/2", "1/10"), unrelated),
    (ad.Kuk("4/5", "3/10", draws=2), kuk),
]
names = pytest.mark.parametrize(
    ("mechanism", "definition"), DESIGNS, ids=[type(mechanism).__name__ for mechanism, _ in DESIGNS]
)


@names
def test_it_is_what_the_paper_defines(mechanism, definition):
    check_mechanism(mechanism, definition)


@pytest.mark.parametrize(
    ("mechanism", "ratio"),
    [
        (ad.Warner("3/4"), 3),
        (ad.Warner("1/4"), 3),
        (ad.Crosswise("1/5"), 4),
        (ad.ForcedResponse("1/6", "1/6"), 5),
        (ad.ForcedResponse("1/3", "1/6"), 4),
        (ad.UnrelatedQuestion("1/2", "1/10"), 11),
        (ad.Kuk("4/5", "1/5"), 4),
        (ad.Kuk("4/5", "1/5", draws=3), 64),
    ],
)
def test_its_budget_is_the_exact_ratio(mechanism, ratio):
    assert mechanism.epsilon == pytest.approx(math.log(ratio), rel=1e-15)
    result = audit(mechanism)
    assert result.holds
    assert 0 <= result.slack < 1e-14


@names
def test_the_largest_likelihood_is_the_estimator_of_the_paper(mechanism, definition):
    """π̂ = (λ̂ − P(yes|no))/(P(yes|yes) − P(yes|no)), and its variance λ(1−λ)/n over the square of the difference."""
    counts = [230, 170] if mechanism.n_outputs == 2 else [120, 180, 100]
    n, draws = sum(counts), mechanism.n_outputs - 1
    evidence = ad.Responses.from_arrays(mechanism, np.repeat(np.arange(draws + 1), counts)).evidence()
    if draws == 1:  # with several cards the likelihood uses more than their mean
        low, high = (float(chance) for chance in mechanism.chances)
        rate = counts[1] / n
        expected = (rate - low) / (high - low)
        found = minimize_scalar(
            lambda t: -likelihood.log_likelihood([1 - t, t], evidence), bounds=(0, 1), method="bounded",
            options={"xatol": 1e-10},
        ).x  # fmt: skip
        assert found == pytest.approx(expected, abs=1e-6)
        theta = np.array([1 - expected, expected])
        direction = np.array([-1.0, 1.0])
        variance = 1 / (n * direction @ mechanism.information(theta) @ direction)
        assert variance == pytest.approx(rate * (1 - rate) / n / (high - low) ** 2, rel=1e-9)


def test_intervals_are_shown_for_a_design():
    mechanism = ad.ForcedResponse("1/6", "1/6")
    x = np.random.default_rng(1).random(4000) < 0.2
    answers = mechanism.privatize(x.astype(int), rng=np.random.default_rng(2))
    responses = ad.Responses.from_arrays(mechanism, answers, categories=["no", "yes"])
    table = ad.intervals.summary(ad.sample(responses, draws=500, random_seed=1, progressbar=False)).sel(category="yes")
    expected = (answers.mean() - 1 / 6) / (2 / 3)
    error = math.sqrt(answers.mean() * (1 - answers.mean()) / 4000) / (2 / 3)
    assert table["lower"].item() == pytest.approx(expected - 1.96 * error, abs=0.15 * error)
    assert table["upper"].item() == pytest.approx(expected + 1.96 * error, abs=0.15 * error)
    assert table["mean"].item() == pytest.approx(expected, abs=0.2 * error)


@names
def test_it_is_published_and_answered_by_a_device(mechanism, definition):
    text = PublishedQuestion(4, mechanism, ("no", "yes")).to_json()
    question = read_question(text, epsilon=mechanism.epsilon)
    assert question.mechanism == mechanism
    assert question.privatize(1) in range(mechanism.n_outputs)
    with refuses("question"):
        read_question(text, epsilon=mechanism.epsilon * 0.999)


# The example of `rrreg` in the documentation of R's package rr, version 1.4, which says that it replicates Table 3 of
# G. Blair, K. Imai and Y.-Y. Zhou (2015), Design and analysis of the randomized response technique, JASA 110: estimates
# and standard errors of a logistic regression of a forced-response item with a die. Terms: intercept, assets, married,
# age/10, its square, education, female.
PRINTED = [-0.34017, 0.07896, -0.26743, -0.35283, 0.04099, -0.00691, -0.55439]
PRINTED_ERRORS = [0.50856, 0.04136, 0.25451, 0.26423, 0.02603, 0.04558, 0.16244]
NIGERIA = os.environ.get("ADOBEST_NIGERIA", "")


@pytest.mark.skipif(not NIGERIA, reason="ADOBEST_NIGERIA names no file: write.csv(rr::nigeria, 'nigeria.csv') in R")
def test_a_regression_finds_what_r_prints_for_its_public_data():
    import pymc as pm

    names = ["rr.q1", "cov.asset.index", "cov.married", "cov.age", "cov.education", "cov.female"]
    with Path(NIGERIA).open(newline="", encoding="utf-8") as file:
        people = [[row[name] for name in names] for row in csv.DictReader(file)]
    table = np.array([row for row in people if not {*row} & {"", "NA"}], dtype=float)
    y, (assets, married, age, education, female) = table[:, 0].astype(int), table[:, 1:].T
    assert len(y) == 2423
    terms = np.column_stack([assets, married, age / 10, (age / 10) ** 2, education, female])
    responses = ad.Responses.from_arrays(ad.ForcedResponse("1/6", "1/6"), y, categories=["no", "yes"])
    with pm.Model() as model:
        slope = pm.Flat("slope", shape=7)
        weights = pm.math.stack([pm.math.zeros_like(slope), slope], axis=1)
        ad.PrivateResponse("y", ad.model.multinomial_logit(terms, weights), responses)
    value, gradient = model.compile_logp(), model.compile_dlogp()
    found = minimize(
        lambda b: -value({"slope": b}), np.zeros(7), jac=lambda b: -gradient({"slope": b}), method="BFGS",
        options={"gtol": 1e-6},
    ).x  # fmt: skip
    np.testing.assert_allclose(found, PRINTED, atol=2e-5)
    # Standard errors as there: from the sum over people of the outer products of their scores.
    x = np.column_stack([np.ones(len(y)), terms])
    yes, matrix = 1 / (1 + np.exp(-x @ found)), responses.mechanism.transition_matrix()
    chance = matrix[y, 0] * (1 - yes) + matrix[y, 1] * yes
    scores = ((matrix[y, 1] - matrix[y, 0]) * yes * (1 - yes) / chance)[:, None] * x
    np.testing.assert_allclose(scores.sum(axis=0), 0, atol=1e-2)
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(scores.T @ scores))), PRINTED_ERRORS, atol=2e-5)


def test_decimal_numbers_mean_what_they_say():
    assert ad.Warner(0.7) == ad.Warner("7/10") == ad.Warner("0.7") == ad.Warner(Fraction(7, 10))
    assert hash(ad.Warner(0.7)) == hash(ad.Warner("7/10"))
    assert ad.Warner(0.7) != ad.Crosswise(0.7)
    assert ad.Warner(1e-5).p == Fraction(1, 100_000)
    assert ad.Warner(".25").p == Fraction(1, 4)


@pytest.mark.parametrize(
    "value",
    [
        0,
        1,
        "0/1",
        1.2,
        -0.1,
        "x",
        "1/0",
        "1e-999999999",
        "1/9" * 20,
        " 1/3",
        "１/３",
        True,
        None,
        math.nan,
        math.inf,
        f"1/{2**64 + 1}",
    ],
)
def test_what_is_no_fraction_is_refused(value):
    with refuses("p"):
        ad.Warner(value)
    with refuses("share"):
        ad.UnrelatedQuestion("1/2", value)


def test_designs_without_information_or_without_privacy_are_refused():
    for make, name in (
        (lambda: ad.Warner("1/2"), "p"),
        (lambda: ad.Crosswise(0.5), "p"),
        (lambda: ad.ForcedResponse("1/2", "1/2"), "forced_no"),
        (lambda: ad.ForcedResponse("1/2", "0"), "forced_no"),
        (lambda: ad.Kuk("1/3", "1/3"), "red_no"),
        (lambda: ad.Kuk("1/3", "1/2", draws=0), "draws"),
        (lambda: ad.Kuk("1/3", "1/2", draws=1.5), "draws"),
    ):
        with refuses(name):
            make()
    with pytest.raises(ValueError, match="Kuk must have a privacy loss of at most 30"):
        ad.Kuk("9/10", "1/10", draws=20)


def test_the_command_audits_it(capsys):
    line = ("audit", "--mechanism", "warner", "--setting", "p=3/4")
    done = run_here(capsys, *line, "--epsilon", 1.1)
    assert done.returncode == 0, done.stderr
    assert "1.098612288668" in done.stdout
    broken = run_here(capsys, *line, "--epsilon", 1)
    assert broken.returncode == 1
    assert "more than the promised e^1" in broken.stdout
    assert run_here(capsys, "audit", "--mechanism", "kuk", "--setting", "red_yes=4/5", "--setting", "red_no=1/5",
                    "--setting", "draws=2", "--epsilon", 3).returncode == 0  # fmt: skip
    for wrong in (("--setting", "q=1/2"), ("--setting", "p"), ("--setting", "p=1/3", "--setting", "p=1/4")):
        refused = run_here(capsys, "audit", "--mechanism", "warner", *wrong, "--epsilon", 1)
        assert refused.returncode == 2
        assert "--setting" in refused.stderr
