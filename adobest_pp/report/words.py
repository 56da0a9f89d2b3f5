"""What a reader should take away, in plain words; every number comes from the findings."""

import math
from typing import Any

import numpy as np

from adobest_pp.diagnostics._verdicts import FALSE_ALARM, MIN_REFERENCE_ESS, SAME
from adobest_pp.mechanisms import audit
from adobest_pp.polls import Poll
from adobest_pp.report.job import REFERENCE, Findings

__all__ = ["conclusions", "contraction_in_words", "divergences", "privacy_in_words"]

# From this probability on, a category is said to be the first.
CLEARLY = 0.95

NAMES = {"nuts": "NUTS", "gibbs": "Gibbs sampling", "sgld": "SGLD with the paper's steps"}


def privacy_in_words(poll: Poll) -> list[str]:
    """Return what the mechanism promises to a person, and how the promise was checked."""
    mechanism = poll.responses.mechanism
    epsilon = float(mechanism.epsilon)
    checked = audit(mechanism)
    sure = 1 / (1 + math.exp(-epsilon))
    bound = f"at most {math.ceil(1000 * sure) / 10:g} %" if sure <= 0.999 else "more than 99.9 %"
    return [
        poll.protection,
        "A device randomizes its answer before it sends it. Of any two true answers, what it sends speaks for one at "
        f"most e^{epsilon:g} = {math.exp(epsilon):.3g} times as much as for the other (ε = {epsilon:g}).",
        "In other words: whoever held two answers of a person for equally likely, and sees what the device sent, can "
        f"be {bound} sure of one of them. That holds against everybody, the collector included, whatever else they "
        "know.",
        "It does not hide that somebody took part, and it adds up: to ask the same person twice doubles ε.",
        f"The promise was checked in exact arithmetic for {checked.subject}: the worst ratio of all is "
        f"e^{checked.loss:.6g}, so it {'holds' if checked.holds else 'DOES NOT HOLD'}.",
    ]


def conclusions(findings: Findings) -> list[str]:
    """Return what to conclude: the estimate, which sampler to trust, and how near the truth it came."""
    graded = findings.comparison
    reference = graded.sel(sampler=REFERENCE)
    diverged = divergences(findings)
    if reference["verdict"].item() != "reference":
        return [
            f"No conclusion: the {reference['verdict'].item()} (NUTS, which the other samplers are held to). Sample "
            "again with more draws.",
            *_of_divergences(diverged),
        ]
    sentences = [_leader(findings)]
    for name in graded["sampler"].values.tolist():
        if name != REFERENCE:
            sentences.append(_of_sampler(name, graded.sel(sampler=name)))
    if diverged:
        sentences += _of_divergences(diverged)
    else:
        sentences.append("Report the estimate and the intervals of NUTS, which has converged.")
    if findings.poll.truth is not None:
        within = round(float(reference["coverage"]) * graded.sizes["category"])
        sentences.append(
            f"The truth is known here: the estimate of NUTS is {reference['tv_truth'].item():.3f} away from it in "
            f"total variation, and {within} of {graded.sizes['category']} of its 95 % intervals hold the true share."
        )
    return sentences


def divergences(findings: Findings) -> int:
    """Return how many draws of the reference diverged."""
    return int(findings.draws[REFERENCE]["sample_stats"]["diverging"].sum())


def contraction_in_words(findings: Findings) -> str:
    """Return what the figure of contraction shows."""
    part = findings.contraction.sel(label=REFERENCE)
    if findings.poll.truth is None:
        told = (
            "The truth is not known, so the distance is to the final estimate of NUTS: the picture shows how fast the "
            "posterior closes in, not how far it is from the truth."
        )
        line = (
            " The dashed line counts the error of the estimate as well as its spread. The last points count the spread "
            "alone: with many answers, and shares away from zero, they come to lie at half of it, and lower with few "
            "answers or a strong prior."
        )
    else:
        slope = f"{float(part['slope']):.2f}".replace("-", "−")
        known = f" The slope of NUTS is {slope} here." if np.isfinite(part["slope"]) else ""
        told = f"How far the posterior is from the true shares, against the number of answers.{known}"
        line = (
            " For shares away from zero the slope tends to −1, and the error to the dashed line on average over many "
            "polls, as answers come in; one poll scatters around it, and with few answers the prior holds it below."
        )
    return told + (line if np.isfinite(part["bvm"]).any() else "")


def _of_divergences(diverged: int) -> list[str]:
    if not diverged:
        return []
    return [
        f"{diverged:,} draws of NUTS diverged: its intervals may be wrong near the edge of the simplex. A prior that "
        "is less extreme, or more draws, would help."
    ]


def _leader(findings: Findings) -> str:
    estimate = findings.estimate()
    first = int(estimate["mean"].values.argmax())
    mean, low, high = (float(estimate[name][first]) for name in ("mean", "lower", "upper"))
    leads = float(np.mean(findings.theta().values.argmax(axis=-1) == first))
    claim = "has the largest share" if leads > CLEARLY else "has the largest estimate, but it is open which is first"
    chance = f"{leads:.3f}" if leads < 0.9995 else "more than 0.999"
    return (
        f"“{estimate['category'].values[first]}” {claim}: {mean:.1%} (95 % interval {low:.1%} to {high:.1%}). "
        f"The posterior probability that no other is larger is {chance}."
    )


def _of_sampler(name: str, row: Any) -> str:
    verdict, title = row["verdict"].item(), NAMES.get(name, name)
    away = f"Its mean is {row['tv_reference'].item():.3f} away from that of NUTS in total variation."
    if verdict == SAME:
        return f"{title} is indistinguishable from NUTS here: its draws may be used as well."
    if verdict.startswith("not mixed: ESS"):
        more = math.ceil(MIN_REFERENCE_ESS / float(row["ess_bulk"]))
        return f"{title} has {verdict}: too few of its draws are effective; {more} times as many would do. {away}"
    if verdict.startswith("not mixed"):
        # Chains that have not met tell nothing of how long they would take.
        return f"{title} has {verdict}: its chains do not agree, and its intervals must not be used. {away}"
    if name == "gibbs":
        return (
            f"{title} is {verdict}: more than Monte-Carlo error explains. Both are exact, so that one of them has not "
            f"mixed, or this is one of the {FALSE_ALARM:.0%} of false alarms: repeat with another seed. {away}"
        )
    return (
        f"{title} is {verdict}: it has mixed, but to another distribution than the posterior, and more draws will not "
        f"mend that. {away}"
    )
