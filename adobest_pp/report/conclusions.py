"""What a reader should take away, in plain sentences that are made from the findings alone."""

import math

import numpy as np
import xarray as xr

from adobest_pp._wording import (
    UP_TO,
    explanation_in_words,
    fault_in_words,
    intervals_in_words,
    prior_in_words,
    range_in_words,
    sampler_in_words,
    verdict_in_words,
)
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.diagnostics import Cause
from adobest_pp.diagnostics.comparison import FALSE_ALARM, Fault, Verdict
from adobest_pp.intervals import COVERING
from adobest_pp.likelihood.without_prior import misfit_in_words
from adobest_pp.mechanisms import audit
from adobest_pp.report.findings import REFERENCE, Findings, Poll
from adobest_pp.samplers.checks import CONVERGED

# Above this probability, a category is said to have the largest share.
CLEARLY = 0.95

# Intervals hold the truth where up to this share of the draws diverges (validation/intervals.py).
FEW_DIVERGED = 0.01

# The most categories that the sentence on empty categories names.
MOST_NAMED = 5

# Why samplers were left out, by the reasons of `adobest_pp.samplers.choice.left_out`.
LEFT_OUT = {
    "different": "each step visits all of {n:,} answers, most of which are different, and would take too long",
    "reference": "there is nothing to grade it against",
    "number": "it numbers all of {n:,} answers, which would fill the memory",
    "prior": "it takes no prior below Dirichlet(0.01)",
}


def privacy_in_words(poll: Poll) -> list[str]:
    """Return what the mechanism promises to a person, and how the promise was checked."""
    mechanism = poll.responses.mechanism
    epsilon = float(mechanism.epsilon)
    checked = audit(mechanism)
    sure = 1 / (1 + math.exp(-epsilon))
    bound = f"at most {math.ceil(1000 * sure) / 10:g} %" if sure <= 0.999 else "more than 99.9 %"
    return [
        poll.protection,
        "A device randomizes its answer before it sends it. What the device sends is at most "
        f"e^{epsilon:g} = {math.exp(epsilon):.3g} times as likely under one true answer as under any other "
        f"(ε = {epsilon:g}).",
        "For example, somebody who thinks that two answers of a person are equally likely, and then sees what the "
        f"device sent, can be {bound} sure of one of the two. This holds for everybody, including the collector, and "
        "whatever else they know.",
        "It does not hide who took part. Asking the same person twice doubles ε.",
        f"The promise was checked in exact arithmetic for {checked.subject}: the largest ratio is "
        f"e^{checked.loss:.6g}, so it {'holds' if checked.holds else 'DOES NOT HOLD'}.",
    ]


def conclusions(findings: Findings) -> list[str]:
    """Return what to conclude: the estimate, which sampler to trust, and how close to the truth it is."""
    name = str(findings.posterior.attrs["sampler"])
    estimated, title = findings.estimated.sel(sampler=name), sampler_in_words(name)
    diverged, n_draws = divergences(findings), findings.theta[..., 0].size
    misfit = misfit_in_words(findings.fit_p_value)
    sentences = [misfit] if misfit else []
    prior = prior_in_words(findings.prior)
    if estimated["verdict"].item() != Verdict.REFERENCE:
        sentences.append(
            f"No conclusion: {title} has not converged ({fault_in_words(estimated)}) under {prior}. Sample again with "
            "more draws."
        )
        return sentences + _of_divergences(diverged, n_draws)
    if findings.is_biased:
        return [*sentences, f"No conclusion: {title} says of its own draws that they are biased under {prior}."]
    sentences += [_leader(findings), *_of_empty(findings), *_of_samplers(findings)]
    if many := _of_divergences(diverged, n_draws):
        sentences += many
    elif not misfit:
        few = f" {diverged:,} of its {n_draws:,} draws diverged, too few to matter." if diverged else ""
        sentences.append(f"Report the estimate and its intervals: {title} has converged under {prior}.{few}")
    if findings.poll.truth is not None:
        shown, truth = findings.estimate, findings.poll.truth
        size = shown.sizes["category"]
        within = int(((shown["lower"].values <= truth) & (truth <= shown["upper"].values)).sum())
        sentences.append(
            f"The truth is known here: the estimate is {estimated['tv_truth'].item():.3f} away from it in total "
            f"variation, and {within} of {size} of its 95 % intervals hold the true share."
        )
    return sentences


def divergences(findings: Findings) -> int:
    """Return how many draws of the estimate diverged."""
    stats = findings.posterior["sample_stats"].to_dataset()
    return int(stats["diverging"].sum()) if "diverging" in stats else 0


def estimate_in_words(findings: Findings) -> str:
    """Return what the estimate and its intervals are."""
    sampler, prior = sampler_in_words(findings.posterior.attrs["sampler"]), prior_in_words(findings.prior)
    covers = findings.estimate.attrs["interval"] == COVERING
    text = "95 % intervals, which hold a share in 95 of 100 collections, whatever the shares are"
    if not covers:
        text = "the shortest intervals that hold 95 % of the posterior, which are right if the prior is"
    return (
        f"Posterior means, by {sampler} under {prior}, and {text}. {UP_TO} "
        "Each interval has two sources: the table tells the share of its width that is due to privacy; the rest, which "
        "as many honest answers would have too, is due to the sample."
    )


def samplers_in_words(findings: Findings) -> str:
    """Return what the samplers are graded against, and under which prior."""
    if not findings.is_graded:
        title = sampler_in_words(findings.reference)
        return f"{title} samples the posterior unless it says otherwise, but there is no other to grade it against."
    graded = f"The samplers are graded against NUTS, under {prior_in_words(findings.sampler_prior)}."
    if isinstance(findings.prior, str):
        return f"{graded} Gibbs sampling and SGLD need a fixed prior; the estimate above learns its own."
    return graded


def contraction_in_words(findings: Findings) -> str:
    """Return what the figure of contraction shows, or why there is none."""
    if findings.contraction is None:
        if isinstance(findings.poll.responses, Gathered):
            return "No figure shows how the estimate changed as answers came in: gathered answers have no order."
        return "No figure shows how the estimate changed as answers came in: it would take too long to make."
    part = findings.contraction.sel(label=REFERENCE)
    if findings.poll.truth is None:
        text = (
            "The truth is not known, so the distance is to the final estimate of NUTS. The figure shows how "
            "fast the posterior contracts, not how far it is from the truth."
        )
        line = (
            " The dashed line counts both the error of the estimate and its spread. The last points count the spread "
            "alone: with many answers, and shares away from zero, they tend to half of the line. They are lower with "
            "few answers or a strong prior."
        )
    else:
        slope = f"{float(part['slope']):.2f}".replace("-", "−")
        known = f" The slope of NUTS is {slope} here." if np.isfinite(part["slope"]) else ""
        text = f"The distance of the posterior from the true shares, against the number of answers.{known}"
        line = (
            " For shares away from zero, as answers come in, the slope tends to −1 and the error to the dashed line on "
            "average over many polls. A single poll scatters around the line; with few answers the prior keeps it "
            "below."
        )
    return text + (line if np.isfinite(part["bvm"]).any() else "")


def _of_divergences(diverged: int, n_draws: int) -> list[str]:
    if diverged <= FEW_DIVERGED * n_draws:
        return []
    return [
        f"{diverged:,} of {n_draws:,} draws of the estimate diverged: its intervals may be wrong near the edge of the "
        "simplex. Use another prior, or more draws."
    ]


def _leader(findings: Findings) -> str:
    estimate = findings.estimate
    first = int(estimate["mean"].values.argmax())
    mean, low, high = (float(estimate[name][first]) for name in ("mean", "lower", "upper"))
    leads = float(np.mean(findings.theta.values.argmax(axis=-1) == first))
    claim = "has the largest share" if leads > CLEARLY else "has the largest estimate, but another may be larger"
    chance = f"{leads:.3f}" if leads < 0.9995 else "more than 0.999"
    return (
        f"“{estimate['category'].values[first]}” {claim}: {100 * mean:.1f} % (95 % interval: "
        f"{range_in_words(low, high)}). The posterior probability that no other is larger is {chance}."
    )


def _of_empty(findings: Findings) -> list[str]:
    """Return a sentence on the categories that may be empty, and one on others whose intervals begin at zero."""
    estimate = findings.estimate
    zero = estimate["lower"].values == 0
    empty = estimate["may_be_empty"].values & zero if "may_be_empty" in estimate else np.zeros(zero.size, dtype=bool)
    sentences = (("May be empty", empty), ("Zero is not ruled out, though the answers prefer a share", zero & ~empty))
    return [f"{text}: {_named(estimate.isel(category=which))}." for text, which in sentences if which.any()]


def _named(some: xr.Dataset) -> str:
    """Return categories with their intervals, the largest first."""
    ordered = some.isel(category=np.argsort(-some["upper"].values, kind="stable"))
    pairs = zip(ordered["category"].values, intervals_in_words(ordered), strict=True)
    named = ", ".join(f"“{label}” ({interval})" for label, interval in list(pairs)[:MOST_NAMED])
    more = some.sizes["category"] - MOST_NAMED
    return f"{named}{f' and {more} more' if more > 0 else ''}"


def _of_samplers(findings: Findings) -> list[str]:
    graded = findings.comparison
    rows = {name: graded.sel(sampler=name) for name in graded["sampler"].values.tolist()}
    reference = rows.pop(findings.reference)
    if reference["verdict"].item() != Verdict.REFERENCE:
        prior, fault = prior_in_words(findings.sampler_prior), fault_in_words(reference)
        return [f"The samplers could not be graded: NUTS has not converged ({fault}) under {prior}."]
    sentences = []
    for name, row in rows.items():
        why = [explanation_in_words(findings.explanations[name], "It")] if name in findings.explanations else []
        sentences.append(" ".join([*_of_sampler(findings, name, row), *why]))
    left_out, n = findings.left_out, len(findings.poll.responses)
    for reason in dict.fromkeys(left_out.values()):
        titles = [sampler_in_words(name) for name, why_not in left_out.items() if why_not == reason]
        named = f"{', '.join(titles[:-1])} and {titles[-1]} are" if len(titles) > 1 else f"{titles[0]} is"
        sentences.append(f"{named} left out: {LEFT_OUT[reason].format(n=n)}.")
    return sentences


def _of_sampler(findings: Findings, name: str, row: xr.Dataset) -> list[str]:
    verdict, fault, title = row["verdict"].item(), fault_in_words(row), sampler_in_words(name)
    away = f"Its mean is {row['tv_reference'].item():.3f} away from that of NUTS in total variation."
    if verdict == Verdict.INDISTINGUISHABLE:
        return [f"{title} is indistinguishable from NUTS here: its draws may be used as well."]
    if verdict == Verdict.NOT_MIXED and row["fault"].item() == Fault.ESS:
        more = math.ceil(CONVERGED.min_ess / float(row["ess_bulk"]))
        return [f"{title} has too few effective draws ({fault}): {more} times as many draws would be enough.", away]
    if verdict == Verdict.NOT_MIXED:
        # How long chains that have not mixed would take is not known.
        return [f"{title} has not mixed ({fault}): do not use its intervals.", away]
    text = f"{title} is {verdict_in_words(row)}. Monte-Carlo error does not explain this."
    if name == "gibbs":
        why = (
            "Both samplers are exact, so either one of them has not mixed, or this is one of the "
            f"{FALSE_ALARM:.0%} of false alarms: repeat with another seed."
        )
        return [text, why, away]
    if name in findings.explanations and findings.explanations[name]["main_cause"].item() == Cause.NOT_MIXED:
        return [text, away]  # though R-hat does not show it
    return [text, "Its chains have mixed, but not to the posterior: more draws will not help.", away]
