"""The folder of a report: a page, draws, a table and figures."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xarray as xr

from adobest_pp import __version__
from adobest_pp._checks import check_path
from adobest_pp._files import netcdf_bytes, replacing, write_whole
from adobest_pp._text import brief, csv_cell
from adobest_pp._wording import explanation_in_words, verdict_in_words
from adobest_pp.report.conclusions import conclusions, divergences
from adobest_pp.report.figures import save_figures
from adobest_pp.report.findings import Findings
from adobest_pp.report.html import page

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
    estimate = findings.estimate()
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
    tables = {"comparison": findings.comparison, "estimate": findings.estimate()}
    tables |= {} if findings.contraction is None else {"contraction": findings.contraction}
    tables |= {f"explanation/{name}": found for name, found in findings.explanations.items()}
    tree = xr.DataTree.from_dict(tables)
    if isinstance(findings.prior, str):
        tree["posterior"] = findings.posterior
    for name, draws in findings.draws.items():
        tree[name] = draws
    tree.attrs = {"question": findings.poll.question, **settings}
    return tree
