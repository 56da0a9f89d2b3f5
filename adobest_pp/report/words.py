"""What a reader should take away, in plain words; every number comes from the findings."""

import math
from typing import Any

import numpy as np

from adobest_pp.diagnostics._verdicts import MIN_REFERENCE_ESS, SAME
from adobest_pp.mechanisms import audit
from adobest_pp.report.job import REFERENCE, Findings

__all__ = ["conclusions", "contraction_in_words", "privacy_in_words"]

NAMES = {"nuts": "NUTS", "gibbs": "Gibbs sampling", "sgld": "SGLD with the paper's steps"}


def privacy_in_words(mechanism: Any, simulated: bool) -> list[str]:
    """Return what the mechanism promises to a person, and how the promise was checked."""
    epsilon = float(mechanism.epsilon)
    checked = audit(mechanism)
    sure = 1 / (1 + math.exp(-epsilon))
    sentences = [
        "Every answer is randomized on the device that gives it, before it leaves. Of any two true answers, the "
        f"randomized one speaks for one at most e^{epsilon:g} = {math.exp(epsilon):.3g} times as much as for the other "
        f"(ε = {epsilon:g}).",
        "In other words: whoever held two answers of a person for equally likely, and sees what the device sent, can "
        f"be at most {sure:.0%} sure of one of them. That holds against everybody, the collector included, whatever "
        "else they know.",
        "It does not hide that somebody took part, and it adds up: to ask the same person twice doubles ε.",
        f"The promise was checked in exact arithmetic for {checked.subject}: the worst ratio of all is "
        f"e^{checked.loss:.6g}, so it {'holds' if checked.holds else 'DOES NOT HOLD'}.",
    ]
    if simulated:
        sentences.append("The people of this report are simulated by a seeded generator: nobody's privacy is at stake.")
    return sentences


def conclusions(findings: Findings) -> list[str]:
    """Return what to conclude: the estimate, which sampler to trust, and how near the truth it came."""
    graded = findings.comparison
    reference = graded.sel(sampler=REFERENCE)
    if reference["verdict"].item() != "reference":
        return [
            f"No conclusion: NUTS, which the others are held to, has not converged ({reference['verdict'].item()}). "
            "Sample again with more draws."
        ]
    sentences = [_leader(findings)]
    for name in graded["sampler"].values.tolist():
        if name != REFERENCE:
            sentences.append(_of_sampler(name, graded.sel(sampler=name)))
    sentences.append("Report the estimate and the intervals of NUTS, which has converged.")
    if findings.poll.truth is not None:
        within = round(float(reference["coverage"]) * graded.sizes["category"])
        sentences.append(
            f"The truth is known here: the estimate of NUTS is {reference['tv_truth'].item():.3f} away from it in "
            f"total variation, and {within} of {graded.sizes['category']} of its 95 % intervals hold the true share."
        )
    return sentences


def contraction_in_words(findings: Findings) -> str:
    """Return what the figure of contraction shows."""
    if findings.poll.truth is None:
        return (
            "The truth is not known, so the distance is to the final estimate of NUTS: the picture shows how fast the "
            "posterior closes in, not how far it is from the truth. The dashed line counts the error of the estimate "
            "as well as its spread; the last points count the spread alone, and should lie at half of it."
        )
    part = findings.contraction.sel(label=REFERENCE)
    slope = float(part["slope"])
    told = (
        f"The slope of NUTS is {slope:.2f} here; it tends to −1 as answers come in. ".replace("-", "−")
        if np.isfinite(slope)
        else ""
    )
    return (
        f"How far the posterior is from the true shares, against the number of answers. {told}The dashed line is where "
        "a right posterior is on average over many polls, given what these answers tell; one poll scatters around it."
    )


def _leader(findings: Findings) -> str:
    theta = findings.theta()
    labels = theta["category"].values
    flat = theta.values.reshape(-1, labels.size)
    first, second = np.argsort(-flat.mean(axis=0))[:2]
    low, high = np.quantile(flat[:, first], [0.025, 0.975])
    ahead = float(np.mean(flat[:, first] > flat[:, second]))
    return (
        f"“{labels[first]}” has the largest share: {flat[:, first].mean():.1%} (95 % interval {low:.1%} to "
        f"{high:.1%}). It is ahead of “{labels[second]}” with posterior probability {ahead:.3f}."
    )


def _of_sampler(name: str, row: Any) -> str:
    verdict, title = row["verdict"].item(), NAMES.get(name, name)
    if verdict == SAME:
        return f"{title} is indistinguishable from NUTS here: its draws may be used as well."
    if verdict.startswith("not mixed"):
        ess = float(row["ess_bulk"])
        more = f"; it would need about {MIN_REFERENCE_ESS / ess:.0f} times as many draws" if ess > 0 else ""
        return (
            f"{title} has {verdict}: its chains do not agree, and its intervals must not be used{more}. Its mean is "
            f"{row['tv_reference'].item():.3f} away from that of NUTS in total variation."
        )
    return (
        f"{title} is {verdict}: it has mixed, but to another distribution than the posterior, "
        f"{row['tv_reference'].item():.3f} away in the total variation of its mean. More draws will not mend that."
    )
