"""Write the folder of a report: a page, draws, a table and figures."""

import base64
import json
import math
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from adobest_pp import __version__, plots
from adobest_pp._checks import check_flag, check_path
from adobest_pp._files import netcdf_bytes, replacing, write_whole
from adobest_pp._text import brief, csv_cell, render
from adobest_pp._wording import (
    UP_TO,
    explanation_in_words,
    fault_in_words,
    interval_in_words,
    intervals_in_words,
    percent,
    prior_in_words,
    range_in_words,
    sampler_in_words,
    verdict_cells,
    verdict_columns,
    verdict_in_words,
)
from adobest_pp.answers.draws import thetas_of
from adobest_pp.answers.gather.gathered import Gathered
from adobest_pp.diagnostics import Cause
from adobest_pp.diagnostics.comparison import FALSE_ALARM, Fault, Verdict
from adobest_pp.diagnostics.draws import r_hat
from adobest_pp.diagnostics.grading import plain
from adobest_pp.intervals import COVERING
from adobest_pp.likelihood.without_prior import misfit_in_words
from adobest_pp.mechanisms import audit
from adobest_pp.plots._common import save_figure
from adobest_pp.report.findings import MOST_LISTED, REFERENCE, Findings, Poll
from adobest_pp.samplers.checks import CONVERGED

# The attribute of a sampler's draws that has what was chosen.
CHOICES = {"sgld": "sampler_settings", "sgld_cv": "sampler_choices"}
VERSIONS = ("pymc", "nutpie", "numpy", "numba")

# The figures, and what each shows.
DESCRIPTIONS = {
    "estimate": "The estimate by category, with 95 % intervals.",
    "comparison": "How the means, standard deviations and quantiles of each sampler differ from those of NUTS, and its "
    "efficiency. Filled markers of means and standard deviations are beyond what Monte-Carlo error explains.",
    "traces": "The chains of the categories that mix worst. Chains that have mixed look alike and have no trend.",
    "ranks": "The share of each chain's draws up to a rank, less the share of all draws up to it. Chains that have "
    "mixed stay near zero (dashed line).",
    "contraction": "Squared error and radius of the posterior against the number of answers, on logarithmic axes.",
}
# All files that a report may have.
REPORT, POSTERIOR, TABLE = "report.html", "posterior.nc", "comparison.csv"
FILES = (REPORT, POSTERIOR, TABLE, *(f"figures/{name}.{kind}" for name in DESCRIPTIONS for kind in ("png", "svg")))


def write_report(findings: Findings, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write ``report.html``, ``posterior.nc``, ``comparison.csv`` and the figures.

    Parameters
    ----------
    findings : Findings
        Of `grade_samplers`.
    folder : path
        Made if it does not exist.
    overwrite : bool, default False
        Whether to replace the files of an earlier report in it.

    Returns
    -------
    list of Path
        The files. ``posterior.nc``, which ``adobest_pp.answers.read_tree`` opens and checks, has ``estimate`` (mean,
        interval and its two sources by category), its draws (``posterior``, if none of the samplers made them), the
        draws of each sampler under its name, as `sample` returned them, ``comparison``, ``explanation/sgld`` (if SGLD
        does not sample the posterior) and ``contraction`` (unless answers were gathered, or are too many).
    """
    place = check_path(folder, "folder")
    if not isinstance(findings, Findings):
        raise ValueError(f"findings must be a result of grade_samplers, got {brief(findings)}")
    if not check_flag(overwrite, "overwrite") and (taken := [name for name in FILES if (place / name).exists()]):
        raise FileExistsError(
            f"folder must have no report yet, got {os.fspath(folder)!r} with {taken[0]}: overwrite=True replaces it"
        )
    place.mkdir(parents=True, exist_ok=True)
    settings = settings_of(findings)
    figures = save_figures(findings, place / "figures")
    report, posterior, table = (place / name for name in (REPORT, POSTERIOR, TABLE))
    write_whole(posterior, netcdf_bytes(_as_tree(findings, settings)), overwrite=True)
    with replacing(table) as path:
        # Samplers are graded under a prior that all of them can use, so their means are not the report's estimate.
        cells = _as_cells(findings.comparison)
        cells.insert(0, "prior", _law(findings, findings.sampler_prior))
        cells.to_csv(path, index=False, encoding="utf-8")
    with replacing(report) as path:
        path.write_text(page(findings, figures, settings), encoding="utf-8")
    return [report, posterior, table, *(path for figure in figures.values() for path in figure)]


def _as_cells(comparison: xr.Dataset) -> Any:
    """Return a table by sampler and category, in which a spreadsheet takes no label for a formula."""
    table = comparison.to_dataframe().reset_index()
    text = table.select_dtypes(exclude="number").columns
    table[text] = table[text].map(lambda cell: csv_cell(cell) if isinstance(cell, str) else cell)
    return table


def settings_of(findings: Findings) -> dict[str, Any]:
    """Return what repeats the report: settings of the collection and the samplers, the seed, and versions."""
    first = findings.draws[findings.reference]
    return {
        "collection": json.dumps(findings.poll.settings, ensure_ascii=False),
        "sampler": findings.posterior.attrs["sampler"],
        "prior": _law(findings, findings.prior),
        "prior of the samplers": _law(findings, findings.sampler_prior),
        **{name: first.attrs[name] for name in ("draws", "tune", "chains")},
        **{name: tree.attrs[key] for name, key in CHOICES.items() if (tree := findings.draws.get(name)) is not None},
        "seed": findings.random_seed,
        "adobest_pp": __version__,
        **{name: version(name) for name in VERSIONS},
    }


def _law(findings: Findings, prior: float | str) -> str:
    return str(findings.posterior.attrs["learned_prior"]) if isinstance(prior, str) else f"Dirichlet({prior:g})"


def summary(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values for JSON, with the verdicts in words beside them; unknown values are None."""
    graded = findings.comparison
    estimate = findings.estimate
    by_sampler = [name for name, variable in graded.items() if variable.dims == ("sampler",)]
    return {
        "question": findings.poll.question,
        "n_responses": len(findings.poll.responses),
        "mechanism": findings.poll.responses.mechanism.settings(),
        "asked": findings.poll.asked,
        "prior": findings.prior,
        "interval": estimate.attrs["interval"],
        "probability": estimate.attrs["probability"],
        "fit_p_value": plain(findings.fit_p_value),
        "sampler": findings.posterior.attrs["sampler"],
        "sampler_prior": findings.sampler_prior,
        "left_out": findings.left_out,
        "estimate": _records(estimate),
        **_of_many(findings),
        "samplers": {
            name: {"verdict_in_words": verdict_in_words(row)}
            | {str(key): None if (value := row[key].item()) == "" else plain(value) for key in by_sampler}
            | _explained(findings, name)
            for name in graded["sampler"].values.tolist()
            for row in [graded.sel(sampler=name)]
        },
        "divergences": divergences(findings),
        "conclusions": conclusions(findings),
        "seed": findings.random_seed,
    }


def _records(table: xr.Dataset) -> list[dict[str, Any]]:
    """Return the rows of a table by one dimension, its label first."""
    (dim,) = table.dims
    names = [dim, *(name for name, values in table.data_vars.items() if values.dims == (dim,))]
    columns = {str(name): table[name].values.tolist() for name in names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _of_many(findings: Findings) -> dict[str, Any]:
    """Return the largest categories and the rest, those above a threshold, and groups, where there are any."""
    found: dict[str, Any] = {}
    if (listed := findings.largest) is not None:
        rest = {"share": "rest", "lower": "rest_lower", "upper": "rest_upper"}
        found["largest"] = _records(listed)
        found["rest"] = {name: listed[column].item() for name, column in rest.items()}
    if (sure := findings.above) is not None:
        found["above"] = {name: sure.attrs[name] for name in ("threshold", "error", "rate")}
        found["above"]["categories"] = _records(sure)
    if (groups := findings.sums) is not None:
        found["groups"] = _records(groups)
    return found


def _explained(findings: Findings, name: str) -> dict[str, Any]:
    """Return why a sampler does not sample the posterior, as plain values and in words; nothing if it does."""
    if name not in findings.explanations:
        return {}
    found = findings.explanations[name]
    parts = zip(*(found[part].values.tolist() for part in ("cause", "part", "part_mcse")), strict=True)
    return {
        "main_cause": found["main_cause"].item(),
        "explanation_in_words": explanation_in_words(found),
        "parts": {cause: {"part": plain(part), "mcse": plain(mcse)} for cause, part, mcse in parts},
    }


def _as_tree(findings: Findings, settings: dict[str, Any]) -> xr.DataTree:
    tables = {"comparison": findings.comparison, "estimate": findings.estimate}
    tables |= {} if findings.contraction is None else {"contraction": findings.contraction}
    many = {"largest": findings.largest, "above": findings.above, "sums": findings.sums}
    tables |= {name: table for name, table in many.items() if table is not None}
    tables |= {f"explanation/{name}": found for name, found in findings.explanations.items()}
    tree = xr.DataTree.from_dict(tables)
    if isinstance(findings.prior, str) and not any(each is findings.posterior for each in findings.draws.values()):
        tree["posterior"] = findings.posterior
    for name, draws in findings.draws.items():
        tree[name] = draws
    tree.attrs = {"question": findings.poll.question, **settings}
    return tree


# The figures.

MOST_TRACED = 4
RESOLUTION = 150


def save_figures(findings: Findings, folder: Path) -> dict[str, tuple[Path, Path]]:
    """Draw all figures that have data into a folder, each as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    restless = least_mixed(findings)
    listed = most_probable(findings)
    drawings: dict[str, Callable[[], Any]] = {
        "estimate": lambda: _plot_estimate(findings, listed),
        "traces": lambda: plots.plot_traces(findings.draws, restless),
        "ranks": lambda: plots.plot_ranks(findings.draws, restless),
    }
    if findings.is_graded:
        drawings["comparison"] = lambda: plots.plot_comparison(findings.comparison.sel(category=listed))
    if (closing := findings.contraction) is not None:
        drawings["contraction"] = lambda: plots.plot_contraction(closing)
    saved = {}
    for name, draw in drawings.items():
        with plt.style.context("default"):
            saved[name] = save_figure(np.ravel(np.asarray(draw(), dtype=object))[0].figure, folder, name, RESOLUTION)
    return saved


def _plot_estimate(findings: Findings, listed: list[Any]) -> Any:
    if findings.largest is not None:
        return plots.plot_ranked(findings.posterior, findings.threshold, findings.poll.truth)
    return plots.plot_estimates({"estimate": findings.posterior}, findings.poll.truth, categories=listed)


def most_probable(findings: Findings) -> list[Any]:
    """Return the categories to list, in their own order: all, or the most probable if there are too many."""
    mean = findings.estimate["mean"]
    chosen = np.sort(np.argsort(-mean.values, kind="stable")[:MOST_LISTED])
    return list(mean["category"].values[chosen].tolist())


def least_mixed(findings: Findings) -> list[Any]:
    """Return the categories whose chains disagree most, in any sampler."""
    thetas = list(thetas_of(findings.draws).values())
    worst = np.array([r_hat(theta.values) for theta in thetas]).max(axis=0)
    chosen = np.sort(np.argsort(-np.nan_to_num(worst, nan=np.inf), kind="stable")[:MOST_TRACED])
    return list(thetas[0]["category"].values[chosen].tolist())


# The page, from ``templates/report.html``, which escapes all text.

# The page allows no script, and no request to any host.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(findings: Findings, figures: Mapping[str, tuple[Path, Path]], settings: Mapping[str, object]) -> str:
    """Return the report as HTML, with the figures of `save_figures` in it and the settings at its end."""
    graded, listed = findings.comparison, most_probable(findings)
    return render(
        "adobest_pp.report",
        "report.html",
        policy=POLICY,
        title=findings.poll.question,
        poll=findings.poll,
        conclusions=conclusions(findings),
        privacy=privacy_in_words(findings.poll),
        about_estimate=estimate_in_words(findings),
        estimate_headings=[
            *("category", "estimate", "95 % interval", "of its width, due to privacy"),
            *([] if findings.largest is None else ["rank", "chance to belong here"]),
            *([] if findings.poll.truth is None else ["true share"]),
        ],
        estimate_rows=_estimate_rows(findings, listed),
        left_out=findings.estimate.sizes["category"] - len(listed),
        about_above=above_in_words(findings),
        above_rows=[] if findings.above is None else _share_rows(findings.above),
        group_rows=[] if findings.sums is None else _share_rows(findings.sums),
        about_samplers=samplers_in_words(findings),
        verdict_headings=verdict_columns(findings.reference),
        verdict_rows=[verdict_cells(graded, name) for name in graded["sampler"].values.tolist()],
        causes=_causes(findings),
        about_contraction=contraction_in_words(findings),
        figures={name: base64.b64encode(svg.read_bytes()).decode("ascii") for name, (_, svg) in figures.items()},
        descriptions=DESCRIPTIONS,
        settings=settings,
    )


def _estimate_rows(findings: Findings, listed: list[str]) -> list[list[str]]:
    """Return the rows of the table of the estimate: all categories, or of many the largest and the rest."""
    estimate, many, truth = findings.estimate, findings.largest, findings.poll.truth
    shown = estimate.sel(category=listed) if many is None else many
    labels = shown["category"].values.tolist()
    due = estimate["privacy"].sel(category=labels).values
    rows = [[*row, f"{100 * privacy:.0f} %"] for row, privacy in zip(_share_rows(shown), due, strict=True)]
    if many is not None:
        rows = [[*row, rank, belongs] for row, rank, belongs in zip(rows, *_ranks(many), strict=True)]
        left = estimate.sizes["category"] - len(labels)
        interval = interval_in_words(many["rest_lower"].item(), many["rest_upper"].item())
        rows.append([f"the {left:,} others together", percent(many["rest"].item()), interval, "", "", ""])
    if truth is None:
        return rows
    known = dict(zip(estimate["category"].values.tolist(), truth.tolist(), strict=True))
    shares = [known[label] for label in labels]
    shares += [1 - sum(shares)] if many is not None else []
    return [[*row, percent(share)] for row, share in zip(rows, shares, strict=True)]


def _share_rows(table: xr.Dataset) -> list[list[str]]:
    """Return label, mean and interval of each row of a table by category or group."""
    (dim,) = table["mean"].dims
    columns = (table[dim].values, table["mean"].values, intervals_in_words(table))
    return [[str(label), percent(mean), interval] for label, mean, interval in zip(*columns, strict=True)]


def _ranks(many: xr.Dataset) -> tuple[list[str], list[str]]:
    """Return the interval of each rank, and the probability that the category is among those listed."""
    chances = [f"{chance:.2f}" if chance < 0.995 else "> 0.99" for chance in many["belongs"].values.tolist()]
    if "rank_lower" not in many:
        return ["–"] * len(chances), chances
    ends = zip(many["rank_lower"].values.tolist(), many["rank_upper"].values.tolist(), strict=True)
    return [f"{low:,}" if low == high else f"{low:,} – {high:,}" for low, high in ends], chances


def _causes(findings: Findings) -> dict[str, list[list[str]]]:
    """Return the causes of the error of each sampler that does not sample the posterior, as rows of a table."""
    rows = {}
    for name, found in findings.explanations.items():
        columns = (found[each].values.tolist() for each in ("cause", "part", "part_mcse"))
        rows[name] = [
            [cause.replace("_", " "), *("–" if np.isnan(value) else f"{value:.3f}" for value in values)]
            for cause, *values in zip(*columns, strict=True)
        ]
    return rows


# Sentences for the reader, made from the findings alone.

# Above this probability, a category is said to have the largest share.
CLEARLY = 0.95

# Intervals hold the truth where up to this share of the draws diverges (validation/intervals.py).
FEW_DIVERGED = 0.01

# A category may be empty if the answers fit that best, and its interval ends below this share.
RARE = 0.01

# The most categories that the sentence on empty categories names.
MOST_NAMED = 5

# Why samplers were left out, by the reasons of `adobest_pp.samplers.choice.left_out`.
LEFT_OUT = {
    "categories": "that would take too long with {k:,} categories",
    "different": "each step visits all of {n:,} answers, most of which are different, and would take too long",
    "reference": "there is no reference to grade against",
    "number": "numbering all of {n:,} answers would fill the memory",
    "prior": "the prior is below Dirichlet(0.01)",
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
        return [*sentences, f"No conclusion: {title} reports that its own draws are biased under {prior}."]
    sentences += [_leader(findings), *_of_asked(findings), *_of_empty(findings), *_of_samplers(findings)]
    if many := _of_divergences(diverged, n_draws):
        sentences += many
    elif not misfit:
        few = f" {diverged:,} of its {n_draws:,} draws diverged, too few to matter." if diverged else ""
        sentences.append(f"Report the estimate and its intervals: {title} has converged under {prior}.{few}")
    if (truth := findings.poll.truth) is not None:
        low, high = (findings.estimate[end].values for end in ("lower", "upper"))
        within = int(((low <= truth) & (truth <= high)).sum())
        sentences.append(
            f"The truth is known here: the estimate is {estimated['tv_truth'].item():.3f} away from it in total "
            f"variation, and {within} of {truth.size} of its 95 % intervals hold the true share."
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
    text = "95 % intervals, which contain a share in 95 of 100 collections, whatever the shares are"
    if not covers:
        text = "the shortest intervals that contain 95 % of the posterior, which are right if the prior is"
    return (
        f"Posterior means, by {sampler} under {prior}, and {text}. {UP_TO} "
        "The width of an interval has two sources. The table shows the share due to privacy; the rest is due to the "
        f"sample, and as many honest answers would have it, too.{_of_list(findings)}"
    )


def _of_list(findings: Findings) -> str:
    """Return what the columns of a table of the largest categories mean, if there are too many for all."""
    many = findings.largest
    if many is None:
        return ""
    k = many.sizes["category"]
    text = (
        f" The table lists the {k} largest estimates. “Chance to belong here”: the posterior probability that the "
        f"category is among the {k} largest."
    )
    if many.attrs["interval"] != COVERING:
        return text
    sure = int((many["rank_upper"] <= k).sum())
    return (
        f"{text} Their intervals are wider than those of single categories, because the same answers chose the list: "
        "on average 95 % of them hold their shares, whatever the shares are. “Rank”: all ranks are right at once in 95 "
        f"of 100 collections, and by theirs {sure} of the {k} belong here."
    )


def above_in_words(findings: Findings) -> str:
    """Return what the list of categories above the threshold means; nothing without a threshold."""
    sure = findings.above
    if sure is None:
        return ""
    covers = sure.attrs["interval"] == COVERING
    error = (
        "in at most 5 of 100 collections, whatever the shares are, some listed category is not above it"
        if covers
        else "the posterior probability that some listed category is not above it is at most 5 %"
    )
    return f"{_how_many_above(sure)}: {error}."


def _how_many_above(sure: xr.Dataset) -> str:
    n = sure.sizes["category"]
    listed = {0: "No category is", 1: "1 category is"}.get(n, f"{n:,} categories are")
    return f"{listed} surely above {100 * sure.attrs['threshold']:g} %"


def samplers_in_words(findings: Findings) -> str:
    """Return what the samplers are graded against, and under which prior."""
    if not findings.is_graded:
        title = sampler_in_words(findings.reference)
        return f"{title[0].upper()}{title[1:]} samples the posterior, but there is no other to compare it with."
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
            "The truth is not known, so the distance is to the final estimate of NUTS. The figure shows how fast the "
            "posterior contracts, not how far it is from the truth."
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
            "average over many polls. A single poll scatters around the line; with few answers the prior pulls the "
            "average below it."
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
        f"“{estimate['category'].values[first]}” {claim}: {percent(mean)} (95 % interval: "
        f"{range_in_words(low, high)}). The posterior probability that no other is larger is {chance}."
    )


def _of_asked(findings: Findings) -> list[str]:
    """Return sentences on the categories above a threshold and on groups, where they were asked for."""
    sentences = []
    if (sure := findings.above) is not None:
        named = f": {_named(sure)}" if sure.sizes["category"] else ""
        sentences.append(f"{_how_many_above(sure)}{named}.")
    if (groups := findings.sums) is not None:
        sentences.append(f"The largest of {groups.sizes['group']:,} groups: {_named(groups, 'group')}.")
    return sentences


def _of_empty(findings: Findings) -> list[str]:
    """Return a sentence on the categories that may be empty, and one on others whose intervals begin at zero.

    If a share of several per cent fits, too, it says little that zero fits best. So only a category that is certainly
    rare is said to be perhaps empty.
    """
    estimate = findings.estimate
    zero = estimate["lower"].values == 0
    empty = estimate["may_be_empty"].values & zero if "may_be_empty" in estimate else np.zeros(zero.size, dtype=bool)
    empty &= estimate["upper"].values < RARE
    sentences = (
        ("May be empty", empty),
        ("Cannot be distinguished from zero, nor from any share in the interval", zero & ~empty),
    )
    return [f"{text}: {_named(estimate.isel(category=which))}." for text, which in sentences if which.any()]


def _named(some: xr.Dataset, dim: str = "category") -> str:
    """Return categories or groups with their intervals, the largest first."""
    ordered = some.isel({dim: np.argsort(-some["upper"].values, kind="stable")})
    pairs = zip(ordered[dim].values, intervals_in_words(ordered), strict=True)
    named = ", ".join(f"“{label}” ({interval})" for label, interval in list(pairs)[:MOST_NAMED])
    more = some.sizes[dim] - MOST_NAMED
    return f"{named}{f' and {more:,} more' if more > 0 else ''}"


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
        sentences.append(f"{named} left out: {LEFT_OUT[reason].format(n=n, k=findings.poll.responses.n_categories)}.")
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
        # Nobody knows how long chains that have not mixed would take.
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
