"""Conclusions follow the findings, whatever they are."""

import dataclasses

import numpy as np
import pytest

from adobest_pp import RRRR, SRR, Responses
from adobest_pp.polls import Poll
from adobest_pp.report.words import conclusions, contraction_in_words, privacy_in_words


def poll_with(mechanism):
    return Poll("?", Responses(mechanism), "Here.", "Nobody is at risk.", None, {})


def changed(findings, **columns):
    """The findings with other entries for some samplers."""
    graded = findings.comparison.copy(deep=True)
    graded["verdict"] = graded["verdict"].astype(object)
    for name, (sampler, value) in columns.items():
        graded[name].loc[{"sampler": sampler}] = value
    return dataclasses.replace(findings, comparison=graded)


def test_the_leader_is_named_with_the_chance_that_it_leads(hostile_findings):
    flat = hostile_findings.theta().values.reshape(-1, 8)
    low, high = np.quantile(flat[:, 0], [0.025, 0.975])
    first = conclusions(hostile_findings)[0]
    assert f"“<script>alert(1)</script>” has the largest share: {flat[:, 0].mean():.1%}" in first
    assert f"(95 % interval {low:.1%} to {high:.1%})" in first
    assert "more than 0.999" in first


def test_a_tie_is_called_one(hostile_findings):
    tied = hostile_findings.draws["nuts"].copy(deep=True)
    theta = tied["posterior"]["theta"].values
    theta[..., 0] = theta[..., 1] = 0.4
    theta[:, ::2, 0] += 0.01
    theta[:, 1::2, 1] += 0.01
    told = conclusions(dataclasses.replace(hostile_findings, draws=hostile_findings.draws | {"nuts": tied}))[0]
    assert "it is open which is first" in told
    assert "no other is larger is 0.500" in told


def test_divergences_are_told_and_nothing_is_recommended(hostile_findings):
    diverged = hostile_findings.draws["nuts"].copy(deep=True)
    diverged["sample_stats"]["diverging"].values[0, :7] = True
    sentences = conclusions(dataclasses.replace(hostile_findings, draws=hostile_findings.draws | {"nuts": diverged}))
    assert any(sentence.startswith("7 draws of NUTS diverged") for sentence in sentences)
    assert not any(sentence.startswith("Report") for sentence in sentences)


def test_the_truth_is_counted_within_the_intervals(hostile_findings):
    flat = hostile_findings.theta().values.reshape(-1, 8)
    low, high = np.quantile(flat, [0.025, 0.975], axis=0)
    truth = hostile_findings.poll.truth
    within = int(np.sum((low <= truth) & (truth <= high)))
    assert f"and {within} of 8 of its 95 % intervals" in conclusions(hostile_findings)[-1]


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [
        ("indistinguishable from the reference", "may be used as well"),
        ("biased: sd 1.26× in red", "more draws will not mend that"),
        ("not mixed: R-hat 1.40", "intervals must not be used"),
        ("not mixed: ESS 80", "5 times as many would do"),
    ],
)
def test_each_verdict_has_its_advice(hostile_findings, verdict, advice):
    sentences = conclusions(changed(hostile_findings, verdict=("sgld", verdict), ess_bulk=("sgld", 80.0)))
    (told,) = [sentence for sentence in sentences if sentence.startswith("SGLD")]
    assert advice in told


def test_an_exact_sampler_is_not_told_to_be_wrong(hostile_findings):
    sentences = conclusions(changed(hostile_findings, verdict=("gibbs", "biased: sd 1.26× in red")))
    (told,) = [sentence for sentence in sentences if sentence.startswith("Gibbs")]
    assert "Both are exact" in told


def test_without_a_reference_nothing_is_concluded(hostile_findings):
    sentences = conclusions(changed(hostile_findings, verdict=("nuts", "reference not converged: R-hat 1.20")))
    assert len(sentences) == 1
    assert sentences[0].startswith("No conclusion")


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
