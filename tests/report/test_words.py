"""Conclusions follow the findings, whatever they are."""

import dataclasses

import numpy as np
import pytest

from adobest_pp import RRRR, SRR
from adobest_pp.report.words import conclusions, contraction_in_words, privacy_in_words


def changed(findings, **columns):
    """The findings with other entries for some samplers."""
    graded = findings.comparison.copy(deep=True)
    graded["verdict"] = graded["verdict"].astype(object)
    for name, (sampler, value) in columns.items():
        graded[name].loc[{"sampler": sampler}] = value
    return dataclasses.replace(findings, comparison=graded)


def test_the_leader_is_named_with_the_chance_that_it_leads(hostile_findings):
    theta = hostile_findings.theta()
    ahead = float((theta[..., 0] > theta[..., 1]).mean())
    assert (
        f"“<script>alert(1)</script>” has the largest share: {float(theta[..., 0].mean()):.1%}"
        in conclusions(hostile_findings)[0]
    )
    assert f"posterior probability {ahead:.3f}" in conclusions(hostile_findings)[0]


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [
        ("indistinguishable from the reference", "may be used as well"),
        ("biased: sd 1.26× in red", "More draws will not mend that"),
        ("not mixed: R-hat 1.40", "intervals must not be used"),
    ],
)
def test_each_verdict_has_its_advice(hostile_findings, verdict, advice):
    sentences = conclusions(changed(hostile_findings, verdict=("gibbs", verdict)))
    (told,) = [sentence for sentence in sentences if sentence.startswith("Gibbs")]
    assert advice in told


def test_without_a_reference_nothing_is_concluded(hostile_findings):
    sentences = conclusions(changed(hostile_findings, verdict=("nuts", "reference not converged: R-hat 1.20")))
    assert len(sentences) == 1
    assert sentences[0].startswith("No conclusion")


def test_without_a_truth_nothing_is_said_of_it(hostile_findings):
    unknown = dataclasses.replace(hostile_findings, poll=dataclasses.replace(hostile_findings.poll, truth=None))
    assert not any("truth" in sentence for sentence in conclusions(unknown))
    assert "not known" in contraction_in_words(unknown)


def test_the_privacy_sentence_takes_the_true_loss():
    leaky = RRRR.from_budgets(4, epsilon1=1.0, epsilon2=1.0)
    text = " ".join(privacy_in_words(leaky, simulated=False))
    assert f"e^{leaky.epsilon:g} = {np.exp(leaky.epsilon):.3g} times" in text
    assert "simulated" not in text
    assert "simulated" in " ".join(privacy_in_words(SRR(4, 1.0), simulated=True))
