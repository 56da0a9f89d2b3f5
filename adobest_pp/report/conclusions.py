"""What a reader should take away, in plain words; every number comes from the findings."""

import math
from typing import Any

import numpy as np

from adobest_pp._text import prior_in_words
from adobest_pp.diagnostics._verdicts import FALSE_ALARM, MIN_REFERENCE_ESS, SAME
from adobest_pp.intervals import in_words, range_in_words
from adobest_pp.likelihood.answer_fit import misfit_in_words
from adobest_pp.mechanisms import audit
from adobest_pp.report.answer_sources import Poll
from adobest_pp.report.findings import REFERENCE, Findings

__all__ = [
    "conclusions",
    "contraction_in_words",
    "divergences",
    "estimate_in_words",
    "privacy_in_words",
    "samplers_in_words",
]

# From this probability on, a category is said to be the first.
CLEARLY = 0.95

# Intervals hold the truth where up to this share of the draws diverges (validation/intervals.py).
FEW_DIVERGED = 0.01

# As many categories that may be empty are named.
MOST_NAMED = 5

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
    estimated = findings.estimated.sel(sampler=REFERENCE)
    diverged = divergences(findings)
    misfit = misfit_in_words(findings.fit_p_value)
    sentences = [misfit] if misfit else []
    prior = prior_in_words(findings.prior)
    if estimated["verdict"].item() != "reference":
        sentences.append(
            f"No conclusion: the {estimated['verdict'].item()} (NUTS under {prior}). Sample again with more draws."
        )
        return sentences + _of_divergences(diverged, findings)
    sentences += [_leader(findings), *_of_empty(findings), *_of_samplers(findings)]
    if many := _of_divergences(diverged, findings):
        sentences += many
    elif not misfit:
        few = f" ({diverged:,} of its {_n_draws(findings):,} draws diverged, too few to matter)" if diverged else ""
        sentences.append(
            f"Report the estimate and its intervals: they are those of NUTS under {prior}, which has converged{few}."
        )
    if findings.poll.truth is not None:
        size = findings.estimated.sizes["category"]
        within = round(float(estimated["coverage"]) * size)
        sentences.append(
            f"The truth is known here: the estimate is {estimated['tv_truth'].item():.3f} away from it in total "
            f"variation, and {within} of {size} of its 95 % intervals hold the true share."
        )
    return sentences


def divergences(findings: Findings) -> int:
    """Return how many draws of the estimate diverged."""
    return int(findings.posterior["sample_stats"]["diverging"].sum())


def estimate_in_words(findings: Findings) -> str:
    """Return what the estimate and its intervals are."""
    return (
        f"Posterior means, by NUTS under {prior_in_words(findings.prior)}, and the shortest intervals that hold 95 % "
        "of the posterior. A category whose interval begins at zero may be empty: “up to” is its upper end."
    )


def samplers_in_words(findings: Findings) -> str:
    """Return what the samplers are graded under."""
    prior = prior_in_words(findings.sampler_prior)
    graded = f"The samplers are graded under {prior}, each against NUTS."
    return (
        f"{graded} Gibbs sampling and SGLD need a fixed prior; the estimate above has its own."
        if isinstance(findings.prior, str)
        else graded
    )


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


def _n_draws(findings: Findings) -> int:
    return int(findings.posterior["sample_stats"]["diverging"].size)


def _of_divergences(diverged: int, findings: Findings) -> list[str]:
    draws = _n_draws(findings)
    if diverged <= FEW_DIVERGED * draws:
        return []
    return [
        f"{diverged:,} of {draws:,} draws of the estimate diverged: its intervals may be wrong near the edge of the "
        "simplex. Another prior, or more draws, would help."
    ]


def _leader(findings: Findings) -> str:
    estimate = findings.estimate()
    first = int(estimate["mean"].values.argmax())
    mean, low, high = (float(estimate[name][first]) for name in ("mean", "lower", "upper"))
    leads = float(np.mean(findings.theta().values.argmax(axis=-1) == first))
    claim = "has the largest share" if leads > CLEARLY else "has the largest estimate, but it is open which is first"
    chance = f"{leads:.3f}" if leads < 0.9995 else "more than 0.999"
    return (
        f"“{estimate['category'].values[first]}” {claim}: {100 * mean:.1f} % (95 % interval: "
        f"{range_in_words(low, high)}). The posterior probability that no other is larger is {chance}."
    )


def _of_empty(findings: Findings) -> list[str]:
    """Return a sentence on the categories whose intervals begin at zero, the largest first."""
    estimate = findings.estimate()
    empty = estimate.isel(category=estimate["lower"].values == 0)
    empty = empty.isel(category=np.argsort(-empty["upper"].values, kind="stable"))
    if not empty.sizes["category"]:
        return []
    ends = zip(*(empty[name].values[:MOST_NAMED] for name in ("category", "lower", "upper")), strict=True)
    named = ", ".join(f"“{label}” ({in_words(lower, upper)})" for label, lower, upper in ends)
    more = empty.sizes["category"] - MOST_NAMED
    return [f"May be empty: {named}{f' and {more} more' if more > 0 else ''}."]


def _of_samplers(findings: Findings) -> list[str]:
    graded = findings.comparison
    reference = graded.sel(sampler=REFERENCE)["verdict"].item()
    if reference != "reference":
        return [f"The samplers could not be graded: the {reference} under {prior_in_words(findings.sampler_prior)}."]
    return [
        _of_sampler(name, graded.sel(sampler=name)) for name in graded["sampler"].values.tolist() if name != REFERENCE
    ]


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
