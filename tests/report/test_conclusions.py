"""Conclusions follow the findings, whatever they are."""

import dataclasses

import numpy as np
import pytest

from adobest_pp import RRRR, SRR, Responses
from adobest_pp._wording import explanation_in_words
from adobest_pp.intervals import summary
from adobest_pp.report.findings import Poll
from adobest_pp.report.folder import conclusions, contraction_in_words, estimate_in_words, privacy_in_words
from tests.report.conftest import HOSTILE


def poll_with(mechanism):
    return Poll("?", Responses(mechanism), "Here.", "Nobody is at risk.", None, {})


def with_divergences(findings, count):
    """The findings with so many draws that diverged."""
    posterior = findings.posterior.copy(deep=True)
    posterior["sample_stats"]["diverging"].values.ravel()[:] = np.arange(2000) < count
    return dataclasses.replace(findings, posterior=posterior)


def changed(findings, **columns):
    """The findings with other entries for some samplers."""
    graded = findings.comparison.copy(deep=True)
    for name, (sampler, value) in columns.items():
        graded[name] = graded[name].astype(object)
        graded[name].loc[{"sampler": sampler}] = value
    return dataclasses.replace(findings, comparison=graded)


def test_the_leader_is_named_with_the_chance_that_it_leads(hostile_findings):
    flat = hostile_findings.theta.values.reshape(-1, 8)
    shown = summary(hostile_findings.posterior)
    low, high = float(shown["lower"][0]), float(shown["upper"][0])
    first = conclusions(hostile_findings)[0]
    assert f"“<script>alert(1)</script>” has the largest share: {100 * flat[:, 0].mean():.1f} %" in first
    assert f"(95 % interval: {100 * low:.1f} % to {100 * high:.1f} %)" in first
    assert "more than 0.999" in first


def test_what_the_intervals_are_is_told(hostile_findings):
    assert "contain a share in 95 of 100 collections, whatever the shares are" in estimate_in_words(hostile_findings)
    planted = dataclasses.replace(hostile_findings)
    planted.__dict__["estimate"] = summary(hostile_findings.posterior, kind="posterior")
    assert "the shortest intervals that contain 95 % of the posterior" in estimate_in_words(planted)


def test_a_tie_is_called_one(hostile_findings):
    tied = hostile_findings.posterior.copy(deep=True)
    theta = tied["posterior"]["theta"].values
    theta[..., 0] = theta[..., 1] = 0.4
    theta[:, ::2, 0] += 0.01
    theta[:, 1::2, 1] += 0.01
    theta[..., 2:] = 0.19 / 6
    found = conclusions(dataclasses.replace(hostile_findings, posterior=tied))[0]
    assert "another may be larger" in found
    assert "no other is larger is 0.500" in found


def test_divergences_are_told_and_nothing_is_recommended(hostile_findings):
    sentences = conclusions(with_divergences(hostile_findings, 21))
    assert any(sentence.startswith("21 of 2,000 draws of the estimate diverged") for sentence in sentences)
    assert not any(sentence.startswith("Report") for sentence in sentences)


def test_few_divergences_are_told_beside_the_advice(hostile_findings):
    sentences = conclusions(with_divergences(hostile_findings, 20))
    (advice,) = [sentence for sentence in sentences if sentence.startswith("Report")]
    assert "20 of its 2,000 draws diverged" in advice
    (advice,) = [s for s in conclusions(with_divergences(hostile_findings, 0)) if s.startswith("Report")]
    assert "diverged" not in advice


def test_answers_that_do_not_fit_are_told_first_and_nothing_is_recommended(hostile_findings):
    planted = hostile_findings.posterior.copy(deep=True)
    for p_value, fits in ((0.0101, True), (0.01, False), (1e-9, False), (float("nan"), True)):
        planted.attrs["fit_p_value"] = p_value
        sentences = conclusions(dataclasses.replace(hostile_findings, posterior=planted))
        assert sentences[0].startswith("The answers do not fit the mechanism") is not fits
        assert any(sentence.startswith("Report") for sentence in sentences) is fits


def test_only_rare_categories_may_be_empty_and_others_cannot_be_told_from_zero(hostile_findings):
    planted = dataclasses.replace(hostile_findings)
    columns = {"lower": np.zeros(8), "upper": 0.01 * np.arange(8) + 0.005, "may_be_empty": np.arange(8) != 1}
    shown = hostile_findings.estimate.assign({name: ("category", values) for name, values in columns.items()})
    planted.__dict__["estimate"] = shown
    empty, rest = conclusions(planted)[1:3]
    # A true share of 5 % often fits zero best, so an interval up to 7.5 % does not make a category empty.
    assert empty == f"May be empty: “{HOSTILE[0]}” (up to 0.5 %)."
    assert rest.startswith(
        f"Cannot be distinguished from zero, nor from any share in the interval: “{HOSTILE[7]}” (up to 7.5 %)"
    )
    assert rest.endswith(" and 2 more.")
    # Of draws alone nobody can tell: no category is said to be empty then.
    planted.__dict__["estimate"] = shown.drop_vars("may_be_empty")
    assert not any("May be empty" in sentence for sentence in conclusions(planted))
    planted.__dict__["estimate"] = shown.assign(lower=("category", np.full(8, 0.001)))
    assert not any("empty" in sentence or "told from" in sentence for sentence in conclusions(planted))


def test_the_truth_is_counted_within_the_intervals(hostile_findings):
    shown = summary(hostile_findings.posterior)
    low, high = shown["lower"].values, shown["upper"].values
    truth = hostile_findings.poll.truth
    within = int(np.sum((low <= truth) & (truth <= high)))
    assert f"and {within} of 8 of its 95 % intervals" in conclusions(hostile_findings)[-1]


@pytest.mark.parametrize(
    ("verdict", "fault", "advice"),
    [
        ("indistinguishable", "", "may be used as well"),
        ("biased", "energy", "joint distribution differs (energy distance, p = 0.001). Monte-Carlo error does not"),
        ("biased", "energy", "more draws will not help"),
        ("not_mixed", "r_hat", "has not mixed (R-hat 1.40): do not use its intervals"),
        ("not_mixed", "stuck", "do not use its intervals"),
        ("not_mixed", "ess", "has too few effective draws (ESS 80): 5 times as many draws would be enough"),
    ],
)
def test_each_verdict_has_its_advice(hostile_findings, verdict, fault, advice):
    values = {"verdict": verdict, "fault": fault, "ess_bulk": 80.0, "r_hat": 1.4, "energy_p_value": 0.001}
    sentences = conclusions(changed(hostile_findings, **{name: ("sgld", value) for name, value in values.items()}))
    (found,) = [sentence for sentence in sentences if sentence.startswith("SGLD with the paper's steps")]
    assert advice in found


def test_a_sampler_that_is_not_at_the_posterior_is_told_why(hostile_findings):
    (found,) = [s for s in conclusions(hostile_findings) if s.startswith("SGLD with the paper's steps")]
    assert found.endswith(explanation_in_words(hostile_findings.explanations["sgld"], "It"))
    (right,) = [s for s in conclusions(hostile_findings) if s.startswith("SGLD with control variates")]
    assert right.endswith("is indistinguishable from NUTS here: its draws may be used as well.")


def test_an_exact_sampler_is_not_told_to_be_wrong(hostile_findings):
    sentences = conclusions(changed(hostile_findings, verdict=("gibbs", "biased"), fault=("gibbs", "energy")))
    (found,) = [sentence for sentence in sentences if sentence.startswith("Gibbs")]
    assert "Both samplers are exact" in found


def test_without_a_reference_nothing_is_concluded(hostile_findings):
    estimated = hostile_findings.estimated.copy(deep=True)
    estimated["verdict"], estimated["fault"] = ("sampler", ["reference_not_converged"]), ("sampler", ["ess"])
    estimated["ess_bulk"][:] = 390.0
    sentences = conclusions(dataclasses.replace(hostile_findings, estimated=estimated))
    assert len(sentences) == 1
    assert sentences[0].startswith("No conclusion: NUTS has not converged (ESS 390) under a prior that learns")


def test_without_a_reference_the_samplers_are_not_graded(hostile_findings):
    values = {"verdict": "reference_not_converged", "fault": "r_hat", "r_hat": 1.2}
    sentences = conclusions(changed(hostile_findings, **{name: ("nuts", value) for name, value in values.items()}))
    assert any(sentence.startswith("The samplers could not be graded") for sentence in sentences)
    assert not any(sentence.startswith(("SGLD", "Gibbs")) for sentence in sentences)


def test_without_a_truth_nothing_is_said_of_it(hostile_findings):
    unknown = dataclasses.replace(hostile_findings, poll=dataclasses.replace(hostile_findings.poll, truth=None))
    assert not any("The truth is known" in sentence for sentence in conclusions(unknown))
    assert "not known" in contraction_in_words(unknown)


def test_the_privacy_sentence_takes_the_true_loss():
    leaky = RRRR.from_budgets(4, epsilon1=1.0, epsilon2=1.0)
    text = " ".join(privacy_in_words(poll_with(leaky)))
    assert f"e^{leaky.epsilon:g} = {np.exp(leaky.epsilon):.3g} times" in text
    assert text.startswith("Nobody is at risk.")


@pytest.mark.parametrize(
    ("epsilon", "bound"), [(0.01, "at most 50.3 %"), (1.0, "at most 73.2 %"), (8.0, "more than 99.9 %")]
)
def test_the_bound_is_never_rounded_down(epsilon, bound):
    assert f"can be {bound} sure" in " ".join(privacy_in_words(poll_with(SRR(4, epsilon))))
