"""The folder of a report: a page, draws, a table and figures."""

import base64
import json
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from adobest_pp import __version__, plots
from adobest_pp._checks import check_path
from adobest_pp._files import netcdf_bytes, replacing, write_whole
from adobest_pp._text import brief, csv_cell, render
from adobest_pp._wording import (
    explanation_in_words,
    intervals_in_words,
    verdict_cells,
    verdict_columns,
    verdict_in_words,
)
from adobest_pp.answers.draws import thetas_of
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.plots._common import save_figure
from adobest_pp.report.conclusions import (
    conclusions,
    contraction_in_words,
    divergences,
    estimate_in_words,
    privacy_in_words,
    samplers_in_words,
)
from adobest_pp.report.findings import Findings

# The attribute of a sampler's draws that has what was chosen.
CHOICES = {"sgld": "sampler_settings", "sgld_cv": "sampler_choices"}
VERSIONS = ("pymc", "nutpie", "numpy", "numba")


def write_report(findings: Findings, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``report.html``, ``posterior.nc``, ``comparison.csv`` and the figures.

    Parameters
    ----------
    findings : Findings
        Of `grade_samplers`.
    folder : path
        Made if it does not exist. Files of an earlier report in it are replaced.

    Returns
    -------
    list of Path
        The files. ``adobest_pp.answers.read_tree("posterior.nc")``, which checks the file, or ``xarray.open_datatree``
        has ``estimate`` (mean, interval and its two sources by category), its draws (``posterior``, if the prior is
        learned), the draws of each sampler under its name, as `sample` returned them, ``comparison``,
        ``explanation/sgld`` (if SGLD does not sample the posterior) and ``contraction`` (unless answers were gathered,
        or are too many).
    """
    place = check_path(folder, "folder")
    if not isinstance(findings, Findings):
        raise ValueError(f"findings must be those of grade_samplers, got {brief(findings)}")
    place.mkdir(parents=True, exist_ok=True)
    settings = settings_of(findings)
    figures = save_figures(findings, place / "figures")
    report, posterior, table = (place / name for name in ("report.html", "posterior.nc", "comparison.csv"))
    write_whole(posterior, netcdf_bytes(_as_tree(findings, settings)), overwrite=True)
    with replacing(table) as path:
        _as_cells(findings.comparison).to_csv(path, index=False, encoding="utf-8")
    with replacing(report) as path:
        path.write_text(page(findings, figures, settings), encoding="utf-8")
    return [report, posterior, table, *(path for figure in figures.values() for path in (figure.png, figure.svg))]


def _as_cells(comparison: xr.Dataset) -> Any:
    """Return a table by sampler and category, in which no label is a formula to a spreadsheet."""
    table = comparison.to_dataframe().reset_index()
    text = table.select_dtypes(exclude="number").columns
    table[text] = table[text].map(lambda cell: csv_cell(cell) if isinstance(cell, str) else cell)
    return table


def settings_of(findings: Findings) -> dict[str, Any]:
    """Return the settings as plain values: of the collection, the samplers, the seed and the versions."""
    first = findings.draws[findings.reference]
    return {
        "collection": json.dumps(findings.poll.settings, ensure_ascii=False),
        "sampler": findings.posterior.attrs["sampler"],
        "prior": _law(findings, findings.prior),
        "prior of the samplers": _law(findings, findings.sampler_prior),
        "draws": first.attrs["draws"],
        "tune": first.attrs["tune"],
        "chains": first.attrs["chains"],
        **{name: tree.attrs[key] for name, key in CHOICES.items() if (tree := findings.draws.get(name)) is not None},
        "seed": findings.random_seed,
        "adobest_pp": __version__,
        **{name: version(name) for name in VERSIONS},
    }


def _law(findings: Findings, prior: float | str) -> str:
    """Return a prior as a formula."""
    return str(findings.posterior.attrs["learned_prior"]) if isinstance(prior, str) else f"Dirichlet({prior:g})"


def summary(findings: Findings) -> dict[str, Any]:
    """Return the findings as plain values for JSON, with the verdicts in words beside them; unknown values are None."""
    graded = findings.comparison
    estimate = findings.estimate
    columns = {name: estimate[name].values.tolist() for name in ("category", *estimate.data_vars)}
    by_sampler = [name for name, variable in graded.items() if variable.dims == ("sampler",)]
    return {
        "question": findings.poll.question,
        "n_responses": len(findings.poll.responses),
        "mechanism": findings.poll.responses.mechanism.settings(),
        "asked": findings.poll.asked,
        "prior": findings.prior,
        "interval": estimate.attrs["interval"],
        "probability": estimate.attrs["probability"],
        "fit_p_value": _plain(findings.fit_p_value),
        "sampler": findings.posterior.attrs["sampler"],
        "sampler_prior": findings.sampler_prior,
        "left_out": findings.left_out,
        "estimate": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "samplers": {
            name: {"verdict_in_words": verdict_in_words(row)}
            | {str(key): _plain(row[key].item()) for key in by_sampler}
            | _explained(findings, name)
            for name in graded["sampler"].values.tolist()
            for row in [graded.sel(sampler=name)]
        },
        "divergences": divergences(findings),
        "conclusions": conclusions(findings),
        "seed": findings.random_seed,
    }


def _explained(findings: Findings, name: str) -> dict[str, Any]:
    """Return why a sampler does not sample the posterior, as plain values and in words; nothing where it is."""
    if name not in findings.explanations:
        return {}
    found = findings.explanations[name]
    parts = zip(*(found[part].values.tolist() for part in ("cause", "part", "part_mcse")), strict=True)
    return {
        "main_cause": found["main_cause"].item(),
        "explanation_in_words": explanation_in_words(found),
        "parts": {cause: {"part": _plain(part), "mcse": _plain(mcse)} for cause, part, mcse in parts},
    }


def _plain(value: float | str) -> float | str | None:
    if isinstance(value, str):
        return value or None
    return value if abs(value) < float("inf") else None


def _as_tree(findings: Findings, settings: dict[str, Any]) -> xr.DataTree:
    tables = {"comparison": findings.comparison, "estimate": findings.estimate}
    tables |= {} if findings.contraction is None else {"contraction": findings.contraction}
    tables |= {f"explanation/{name}": found for name, found in findings.explanations.items()}
    tree = xr.DataTree.from_dict(tables)
    if isinstance(findings.prior, str):
        tree["posterior"] = findings.posterior
    for name, draws in findings.draws.items():
        tree[name] = draws
    tree.attrs = {"question": findings.poll.question, **settings}
    return tree


# The figures.

MOST_LISTED = 30
MOST_TRACED = 4
RESOLUTION = 150


class Figure(NamedTuple):
    """The files of one figure."""

    png: Path
    svg: Path


def save_figures(findings: Findings, folder: Path) -> dict[str, Figure]:
    """Draw all figures that there is something for into a folder, each as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    restless = least_mixed(findings)
    listed = most_probable(findings)
    drawings: dict[str, Callable[[], Any]] = {
        "estimate": lambda: plots.plot_estimates(
            {"estimate": findings.posterior}, findings.poll.truth, categories=listed
        ),
        "traces": lambda: plots.plot_traces(findings.draws, restless),
        "ranks": lambda: plots.plot_ranks(findings.draws, restless),
    }
    if findings.is_graded:
        drawings["comparison"] = lambda: plots.plot_comparison(findings.comparison.sel(category=listed))
    if (closing := findings.contraction) is not None:
        drawings["contraction"] = lambda: plots.plot_contraction(closing)
    return {name: _save(name, draw, folder) for name, draw in drawings.items()}


def most_probable(findings: Findings) -> list[Any]:
    """Return the categories to list, in their own order: all, or the most probable if there are too many."""
    mean = findings.estimate["mean"]
    chosen = np.sort(np.argsort(-mean.values, kind="stable")[:MOST_LISTED])
    return list(mean["category"].values[chosen].tolist())


def least_mixed(findings: Findings) -> list[Any]:
    """Return the categories whose chains disagree most, in any sampler."""
    thetas = list(thetas_of(findings.draws).values())
    worst = np.array([mixing(theta.values)["r_hat"] for theta in thetas]).max(axis=0)
    chosen = np.sort(np.argsort(-np.nan_to_num(worst, nan=np.inf), kind="stable")[:MOST_TRACED])
    return list(thetas[0]["category"].values[chosen].tolist())


def _save(name: str, draw: Callable[[], Any], folder: Path) -> Figure:
    with plt.style.context("default"):
        figure = np.asarray(draw(), dtype=object).ravel()[0].figure
        return Figure(*save_figure(figure, folder, name, RESOLUTION))


# The page, from ``templates/report.html``, which escapes all text.

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
        left_out=findings.estimate.sizes["category"] - len(listed),
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
    estimate, truth = findings.estimate, findings.poll.truth
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
