"""The page of the paper's study: its statements beside what the runs say, as proved and as published."""

import json
import platform
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import adobest_pp
from adobest_pp._progress import SlowProgress
from adobest_pp.studies import page as plain
from adobest_pp.studies.summary import check_study, done, markdown_table, median_rows, medians, write_csv
from validation.paper.comparisons import Statement, paper_part, published_part
from validation.paper.equal_privacy import equal_privacy_section, short_answer
from validation.paper.figures import adaptive, plot_errors, plot_sizes
from validation.paper.methods import method_label
from validation.paper.reference import ReferenceRow, read_reference
from validation.paper.size_statements import honest_response_statement
from validation.paper.statements import METHODOLOGY, published_note, published_statements, statements

__all__ = ["write_page"]

_PAPER = (
    "S. Aydın and S. Yıldırım, *Bayesian Frequency Estimation Under Local Differential Privacy With an Adaptive "
    "Randomized Response Mechanism*, ACM Transactions on Knowledge Discovery from Data, doi:10.1145/3706584, whose "
    "words are in quotation marks below; and their program, soneraydin/AdOBEst_LDP on GitHub, commit 9080c23"
)

JSON = ("study", "sources", "accepted_sources", "created_with")
# What the paper has at each κ.
FIGURES = {0.8: (" (Figure 3)", " (Figure 5)"), 0.9: (" (Figure 4)", " (Figure 6)")}
CONTENTS = {
    ".csv": "medians, quartiles and intervals",
    ".md": "the same, as a page",
    ".json": "seed, versions, study",
}


def write_page(
    dataset: xr.Dataset,
    folder: str | Path,
    as_published: xr.Dataset | None = None,
    equal_privacy: xr.Dataset | None = None,
    reference: str | Path | None = None,
    *,
    progressbar: bool = False,
) -> list[Path]:
    """Write figures, tables, settings and the page (``README.md``) of a study, finished or not.

    Parameters
    ----------
    dataset : xarray.Dataset
        A study, with the dimensions (cell, run).
    folder : path
        Where to write; made if it is not there. Files of the same names are replaced.
    as_published : xarray.Dataset, optional
        The study with the budgets of the authors' program, to set beside it.
    equal_privacy : xarray.Dataset, optional
        The study with SGLD's and the exact estimate from the same answers.
    reference : path, optional
        Errors of runs of the authors' program, CSV.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.

    Returns
    -------
    list of Path
        What was written, the page last.
    """
    given = {"study": dataset, "as_published": as_published, "equal_privacy": equal_privacy}
    studies = {name: one if one is None else _labelled(one, name) for name, one in given.items()}
    _check_others(as_published, equal_privacy, reference)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with SlowProgress(4, "writing the page", progressbar) as progress:
        short = short_answer(dataset, as_published, equal_privacy)
        answers = _statement_parts(dataset, as_published)
        progress.advance(1)
        answers += equal_privacy_section(dataset, as_published, equal_privacy, Path(reference) if reference else None)
        written = [*_tables(studies, target), _write_settings(studies, target)]
        progress.advance(1)
        rows = [] if reference is None else read_reference(Path(reference))
        labelled = _labelled(dataset, "study")
        figures, drawn = _figures(labelled, studies["as_published"], rows, target)
        progress.advance(2)
    settings = markdown_table(["setting", "value"], plain.settings_rows(dataset))
    parts = [plain.title(dataset), f"Beside the paper: {_PAPER}.", *short, "## Settings", settings]
    far = [f"- {name.replace('_', ' ')}: {plain.how_far(one)}" for name, one in studies.items() if one is not None]
    parts += ["## Progress", "\n".join(far), *answers, "## Figures", *figures, "## Tables and settings"]
    parts.append("\n".join(f"- [{path.name}]({path.name}): {CONTENTS[path.suffix]}" for path in written))
    return [*drawn, *written, plain.write_text(parts, target / "README.md")]


def _labelled(dataset: xr.Dataset, name: str) -> xr.Dataset:
    """Name the cells as readers know the methods, or raise ValueError for what is no study of the paper's methods."""
    check_study(dataset)
    missing = {"K", "epsilon", "kappa", "rho", "method", "budgets"} - set(dataset.coords)
    if missing:
        raise ValueError(f"{name} must be a study by paper_run, got one without {', '.join(sorted(missing))}")
    labels = [method_label(method) for method in dataset["method"].values.tolist()]
    return dataset.assign_coords(label=("cell", np.array(labels, dtype=object)))


def _check_others(
    as_published: xr.Dataset | None, equal_privacy: xr.Dataset | None, reference: str | Path | None
) -> None:
    """Refuse studies that have nothing of what they are given for, which would be left out without a word."""
    if as_published is not None and published_part(as_published).sizes["cell"] == 0:
        raise ValueError("as_published must be a study with cells of budgets 'published', got one with none")
    if equal_privacy is not None:
        if "exact_tv" not in equal_privacy:
            known = ", ".join(map(repr, equal_privacy.data_vars))
            raise ValueError(f"equal_privacy must be a study with the measure 'exact_tv', got one with {known}")
        if paper_part(equal_privacy).sizes["cell"] == 0:
            raise ValueError("equal_privacy must be a study with cells of budgets 'theorem1', got one with none")
    if reference is not None and as_published is None:
        raise ValueError("reference must be given with as_published, which it is compared with, got it alone")


def _statement_parts(dataset: xr.Dataset, as_published: xr.Dataset | None) -> list[str]:
    found = statements(dataset)
    heading = "## What the paper says, and what these runs say"
    if not found:
        return [
            heading,
            "This study has none of the comparisons that the paper's statements are about: they are left out.",
        ]
    others = {} if as_published is None else {s.title: s for s in published_statements(as_published, dataset)}
    found.append(honest_response_statement())
    headings = ["", "statement", "verdict", *(["as published"] if others else [])]
    rows = [
        [i, one.title, one.verdict, *([others[one.title].verdict if one.title in others else "–"] if others else [])]
        for i, one in enumerate(found, 1)
    ]
    texts = [_statement(i, one, others.get(one.title)) for i, one in enumerate(found, 1)]
    note = [] if as_published is None or not others else [published_note(as_published)]
    counts = [f"With the budgets of Theorem 1: {_counts(found)}."]
    counts += [f"As published: {_counts(list(others.values()))}."] if others else []
    return [heading, METHODOLOGY, *note, " ".join(counts), markdown_table(headings, rows), *texts]


def _counts(found: list[Statement]) -> str:
    return ", ".join(f"{n} {verdict}" for verdict, n in Counter(one.verdict for one in found).most_common())


def _statement(i: int, one: Statement, published: Statement | None) -> str:
    lines = [f"**The paper:** {one.paper}", f"**Criterion:** {one.criterion}", f"**Found:** {one.found}", one.table]
    if published is not None:
        lines += [f"**As published: {published.verdict}.** {published.found}", published.table]
    return "\n\n".join([f"### {i}. {one.title}: {one.verdict}", *lines])


def _tables(studies: Mapping[str, xr.Dataset | None], target: Path) -> list[Path]:
    written = []
    for name, dataset in studies.items():
        if dataset is not None:
            for measure in (one for one in ("tv", "exact_tv") if one in dataset):
                stem = "medians" + f"_{name}" * (name != "study") + f"_{measure}" * (measure != "tv")
                table, csv = medians(dataset, measure), target / f"{stem}.csv"
                write_csv([table], csv)
                text = [f"# Medians of {measure}", plain.INTERVALS, markdown_table(*median_rows(table))]
                written += [csv, plain.write_text(text, target / f"{stem}.md")]
    return written


def _write_settings(studies: Mapping[str, xr.Dataset | None], target: Path) -> Path:
    """Write all that is needed to repeat the studies and the page."""
    recorded: dict[str, Any] = {name: dict(one.attrs) for name, one in studies.items() if one is not None}
    for attributes in recorded.values():
        attributes |= {key: json.loads(attributes[key]) for key in JSON if key in attributes}
    recorded["page_made_with"] = {name: version(name) for name in ("numpy", "scipy", "xarray", "matplotlib")}
    recorded["page_made_with"] |= {"adobest_pp": adobest_pp.__version__, "python": platform.python_version()}
    return plain.write_text([json.dumps(recorded, indent=2, ensure_ascii=False)], target / "settings.json")


def _figures(
    dataset: xr.Dataset, published: xr.Dataset | None, rows: list[ReferenceRow], target: Path
) -> tuple[list[str], list[Path]]:
    """Draw the paper's Figures 3 to 6, as the program runs the methods and as proved, and its Figure 2."""
    from adobest_pp.plots import plot_honest_response

    ours = {"budgets of Theorem 1": dataset}
    sides = ours if published is None else {"as the program runs it": published} | ours
    parts: list[str] = []
    written: list[Path] = []
    for kappa in np.unique(dataset["kappa"].dropna("cell").values).tolist():
        figure, sizes = FIGURES.get(kappa, ("", ""))
        for measure, name in (("tv", "SGLD's estimate"), ("exact_tv", "the exact posterior mean")):
            if measure in dataset and np.isfinite(done(dataset, measure)).any():
                drawn = plot_errors(sides, kappa, measure, rows)
                caption = f"TV error of {name}, κ = {kappa:g}{figure}"
                parts += plain.save(drawn, target, f"{measure}_kappa_{kappa:g}", caption, written)
        if "mean_size" in dataset and np.isfinite(done(dataset, "mean_size")[adaptive(dataset)]).any():
            caption = f"Average |S|, κ = {kappa:g}{sizes}; |S| = 0 is SRR on all categories"
            parts += plain.save(plot_sizes(sides, kappa), target, f"subset_sizes_kappa_{kappa:g}", caption, written)
    panels = plot_honest_response()
    caption = "P(Y = X) of RRRR by subset size (Figure 2), from the mechanism itself"
    parts += plain.save(panels[0].figure, target, "honest_response", caption, written)
    return [_figures_note(published is not None, bool(rows)), *parts], written


def _figures_note(published: bool, reference: bool) -> str:
    note = "Each has the panels of the figure of the paper that it names."
    if published:
        note += (
            " The rows *as the program runs it* are our runs with the program's budgets, step and subsets: they stand "
            "for the authors' figures, which are not copied here. Errors are on a logarithmic scale; in the paper it "
            "goes from 0 to 1. SRR and the semi-adaptive methods have no κ, and are the same in both."
        )
    if reference:
        note += (
            " A white diamond is the median of ten runs of the authors' program itself, made by us with Octave "
            "(reference_tv.csv: K = 10, κ = 0.8, ε = 0.5 and 1, five of the twelve methods)."
        )
    return note
