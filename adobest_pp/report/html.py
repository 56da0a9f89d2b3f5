"""The report as one HTML page, from ``templates/report.html``, which escapes all text."""

import base64
from collections.abc import Mapping

import numpy as np

from adobest_pp._text import render
from adobest_pp._wording import intervals_in_words, verdict_cells, verdict_columns
from adobest_pp.report.conclusions import (
    conclusions,
    contraction_in_words,
    estimate_in_words,
    privacy_in_words,
    samplers_in_words,
)
from adobest_pp.report.figures import Figure, most_probable
from adobest_pp.report.findings import Findings

# No script, and no request to any host.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

DESCRIPTIONS = {
    "estimate": "The estimate by category, with 95 % intervals.",
    "comparison": "How the means, standard deviations and quantiles of each sampler differ from those of NUTS, and its "
    "efficiency. Filled markers of means and standard deviations are beyond what Monte-Carlo error explains.",
    "traces": "The chains of the categories that mix worst. Chains that have mixed look alike and have no trend.",
    "ranks": "The share of each chain's draws up to a rank, less the share of all draws up to it. Chains that have "
    "mixed stay near zero (dashed line).",
    "contraction": "Squared error and radius of the posterior against the number of answers, on logarithmic axes.",
}


def page(findings: Findings, figures: Mapping[str, Figure], settings: Mapping[str, object]) -> str:
    """Return the whole report.

    Parameters
    ----------
    findings : Findings
        The result of `grade_samplers`.
    figures : mapping of str to Figure
        The result of `save_figures`. The page includes them.
    settings : mapping
        Printed under "How to repeat this".
    """
    graded, listed = findings.comparison, most_probable(findings)
    return render(
        "adobest_pp.report",
        "report.html",
        policy=POLICY,
        poll=findings.poll,
        conclusions=conclusions(findings),
        privacy=privacy_in_words(findings.poll),
        about_estimate=estimate_in_words(findings),
        estimate_headings=[
            *("category", "estimate", "95 % interval", "of its width, due to privacy"),
            *([] if findings.poll.truth is None else ["true share"]),
        ],
        estimate_rows=_estimate_rows(findings, listed),
        left_out=findings.estimate().sizes["category"] - len(listed),
        about_samplers=samplers_in_words(findings),
        verdict_headings=verdict_columns(findings.reference),
        verdict_rows=[verdict_cells(graded, name) for name in graded["sampler"].values.tolist()],
        causes=_causes(findings),
        about_contraction=contraction_in_words(findings),
        figures={name: base64.b64encode(each.svg.read_bytes()).decode("ascii") for name, each in figures.items()},
        descriptions=DESCRIPTIONS,
        settings=settings,
    )


def _estimate_rows(findings: Findings, listed: list[str]) -> list[list[str]]:
    estimate, truth = findings.estimate(), findings.poll.truth
    known, shown = estimate["category"].values.tolist(), estimate.sel(category=listed)
    columns = (shown["mean"].values, intervals_in_words(shown), shown["privacy"].values)
    rows = [
        [str(label), f"{100 * mean:.1f} %", interval, f"{100 * privacy:.0f} %"]
        for label, mean, interval, privacy in zip(listed, *columns, strict=True)
    ]
    if truth is None:
        return rows
    return [[*row, f"{100 * truth[known.index(label)]:.1f} %"] for label, row in zip(listed, rows, strict=True)]


def _causes(findings: Findings) -> dict[str, list[list[str]]]:
    """Return the causes of the error of each sampler that does not sample the posterior, as rows of a table."""
    return {
        name: [
            [cause.replace("_", " "), *("–" if np.isnan(value) else f"{value:.3f}" for value in values)]
            for cause, *values in zip(
                found["cause"].values.tolist(), found["part"].values, found["part_mcse"].values, strict=True
            )
        ]
        for name, found in findings.explanations.items()
    }
