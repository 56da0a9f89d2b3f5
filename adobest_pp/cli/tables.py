"""Shared by the commands: reading labels, groups and names of mechanisms; tables with sentences below them."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adobest_pp._checks import check_prior, is_learned
from adobest_pp._files import check_target, replacing
from adobest_pp._text import brief, listed, visible
from adobest_pp._wording import (
    CENTRAL,
    UP_TO,
    intervals_in_words,
    percent,
    prior_in_words,
    sampler_in_words,
    verdict_cells,
    verdict_columns,
)
from adobest_pp.mechanisms import RRRR, Audit, find_mechanism

if TYPE_CHECKING:
    import xarray as xr

    from adobest_pp.collect import Collection


# Of more categories, a terminal shows the largest.
MOST_PRINTED = 30

FIGURE_ENDINGS = (".png", ".svg", ".pdf")
# The longest line of the name of a mechanism in a table.
NAME_WIDTH = 20
# What to do about files that do not name the mechanism.
HINT = "name it with --mechanism, its --epsilon, and the possible values in their order with --categories"


def labels_in(text: str | None, option: str = "--categories") -> list[str] | None:
    """Return the labels that an option gives, or None without it, or raise ValueError.

    Labels are separated by commas. ``@name`` reads them from a text file with one label per line, which may have
    commas.
    """
    if text is None or not text.startswith("@"):
        return listed(text, option)
    path = text[1:]
    try:
        with open(path, encoding="utf-8-sig") as handle:
            lines = [line.strip() for line in handle.read().splitlines()]
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not a text file in UTF-8"
        raise ValueError(
            f"{option} must be labels, or @ and a file with one per line, got {brief(text)}: {reason}"
        ) from None
    if not lines or not all(lines):
        line = lines.index("") + 1 if lines else 1
        raise ValueError(f"{option} must name a file with a label in every line, got none in line {line} of {path!r}")
    return lines


def csv_rows(path: Path, columns: Sequence[str], allowed: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file with these columns, or raise ValueError that says what is `allowed`."""
    import csv

    from adobest_pp.answers.gather.tables import csv_encoding, csv_separator

    try:
        encoding = "utf-8-sig" if csv_encoding(path) == "utf8" else "utf-16"
        with path.open(encoding=encoding, newline="") as file:
            table = csv.DictReader(file, delimiter=csv_separator(path, columns))
            rows, headings = list(table), table.fieldnames
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        reason = getattr(problem, "strerror", None) or "it is not a CSV file in UTF-8"
        raise ValueError(f"{allowed}, got {str(path)!r}: {reason}") from None
    if not {*columns} <= {*(headings or ())}:
        raise ValueError(f"{allowed}, got {brief(headings)} in {str(path)!r}")
    return rows


def read_groups(path: Path) -> dict[str, str]:
    """Return the group of each category in a CSV file, or raise ValueError."""
    allowed = "--groups must name a CSV file with the columns category and group"
    groups: dict[str, str] = {}
    for row in csv_rows(path, ("category", "group"), allowed):
        category, group = row["category"], row["group"]
        if groups.setdefault(category, group) != group:
            raise ValueError(f"{allowed}, each category in one group, got {brief(category)} in two")
    return groups


def read_shares(text: str) -> list[float]:
    """Return the numbers of ``--theta``, or raise ValueError."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--theta must be numbers separated by commas, got {text!r}") from None


def read_prior(text: str) -> Any:
    """Return the prior that ``--prior`` names, or raise ValueError."""
    if is_learned(text):
        return text
    try:
        concentration = float(text)
        check_prior(concentration, 2)
    except ValueError:
        raise ValueError(f"--prior must be 'learned' or a positive number, got {text!r}") from None
    return concentration


def make_known(mechanism: str | None) -> None:
    """Import and register the class given as ``module:Class``, also from the current folder.

    For the rest of the command its name is known, also in files.
    """
    if mechanism is None or ":" not in mechanism:
        return
    if "" not in sys.path:
        sys.path.insert(0, "")
    find_mechanism(mechanism)


@contextmanager
def naming_responses(path: str, hint: str, option: str = "--responses") -> Iterator[None]:
    """Name the option in errors, and say what to do if files are damaged or (`hint`) do not name the mechanism."""
    from adobest_pp.answers.gather.gather import DamagedAnswers, UnnamedMechanism

    try:
        yield
    except DamagedAnswers as problem:
        first, reason = next(iter(problem.damaged.items()))
        others = f" and {len(problem.damaged) - 1} more" if len(problem.damaged) > 1 else ""
        raise ValueError(
            f"{option} must name whole files, got {first!r} ({reason}){others}: move what is damaged elsewhere "
            f"to continue with the {len(problem.gathered):,} answers of the other {len(problem.gathered.files):,}"
        ) from None
    except UnnamedMechanism:
        raise ValueError(f"{option} {path!r} does not name the mechanism of its answers: {hint}") from None
    except (ValueError, OSError) as problem:
        text = str(problem)
        if not text.startswith("paths must "):
            raise
        allowed = text.removeprefix("paths must ").replace("pass allow_copies=True", "give --allow-copies")
        raise ValueError(f"{option} must {allowed}") from None


def check_figure(out: Path | None) -> Path | None:
    """Return the path of the figure, which must not exist yet, or raise ValueError before anything is computed."""
    if out is None:
        return None
    if out.suffix.lower() not in FIGURE_ENDINGS:
        raise ValueError(f"--out must end in {', '.join(FIGURE_ENDINGS)}, got {str(out)!r}")
    return check_target(out, overwrite=False, name="--out")


def draw(plot: str, table: Any, target: Path) -> None:
    """Write the figure that a function of `adobest_pp.plots` makes of a table."""
    import matplotlib as mpl
    import numpy as np

    from adobest_pp import plots

    mpl.use("Agg")
    figure = np.ravel(getattr(plots, plot)(table))[0].figure
    try:
        with replacing(target, overwrite=False, name="--out") as path:
            figure.savefig(path, format=target.suffix.lower().removeprefix("."), dpi=150)
    finally:
        mpl.pyplot.close(figure)


def check_no_report(out: Path, names: Sequence[str], overwrite: bool) -> None:
    """Raise FileExistsError if a folder has one of these files of a report, and they must not be replaced."""
    if not overwrite and (taken := [name for name in names if (out / name).exists()]):
        raise FileExistsError(
            f"--out must name a folder without a report, got {str(out)!r} with {taken[0]}: --overwrite replaces it"
        )


# Tables.


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    sentences: Iterable[str] = (),
    *,
    words: Sequence[str] = (),
    bold: object = None,
    widths: tuple[int, int] | None = None,
) -> None:
    """Print a table, and sentences below it. Cells and sentences may contain any text.

    Columns in `words` are text, aligned left; the others are numbers. `widths` limits the characters of both kinds. The
    row that begins with `bold` is bold.
    """
    table = Table(title=escape(visible(title)))
    for heading in headings:
        is_words = heading in words
        width = None if widths is None else widths[not is_words]
        # People type the names of mechanisms, so break them only after a hyphen.
        table.add_column(
            heading, justify="left" if is_words else "right", max_width=width, no_wrap=heading == "mechanism"
        )
    for row in rows:
        style = "bold" if bold is not None and row[0] == bold else None
        cells = [escape(visible(cell)) for cell in row]
        if headings[0] == "mechanism":
            cells[0] = "\n".join(wrap(cells[0], NAME_WIDTH))
        table.add_row(*cells, style=style)
    Console().print(table)
    print_lines(*sentences)


def print_lines(*lines: str) -> None:
    """Print lines that may contain any text."""
    for line in lines:
        Console().print(visible(line), highlight=False, markup=False)


def print_utilities(theta: list[float], mechanism: RRRR) -> None:
    """Print the six utilities for every subset size, and mark the size that each chooses."""
    from adobest_pp.design import UTILITIES, select_subset, semi_adaptive_subset, utility

    columns = [utility(theta, mechanism, name) for name in UTILITIES]
    sizes = [len(select_subset(theta, mechanism, name)) for name in UTILITIES]
    rows = [
        [k, *(f"{column[k]:.4g}{'*' if k == size else ''}" for column, size in zip(columns, sizes, strict=True))]
        for k in range(mechanism.n_categories)
    ]
    order = semi_adaptive_subset(theta, 1.0).tolist()
    sentences = [
        f"S holds the k most probable categories, in this order: {', '.join(map(str, order))}.",
        "* the size that the utility chooses: the one with the largest value; of several, the smallest.",
    ]
    print_table(str(mechanism), ["k", *UTILITIES], rows, sentences)


def print_audit(result: Audit) -> None:
    """Print the exact loss of every subset size, and whether the promise holds."""
    headings = ["size", "checked", "loss", "slack", "x", "x′", "y", "holds"]
    rows = [
        [*(each.size, each.checked, f"{each.loss:.12f}", f"{each.slack:.2e}"),
         *(each.x, each.x_prime, each.y, "yes" if each.holds else "NO")]
        for each in result.rows
    ]  # fmt: skip
    print_table(f"{result.subject}, promised ε = {result.epsilon:g}", headings, rows, [_audit_verdict(result)])


def _audit_verdict(result: Audit) -> str:
    worst = result.worst
    if result.rounding is not None and not result.broken:
        which = f"the channels that round to this matrix (each entry ± {result.rounding:g})"
        if result.holds:
            return f"Holds for all {which}: their losses are at most {worst.loss:.12g}, within ε = {result.epsilon:g}."
        return (
            f"Not shown: of {which}, some have a loss up to {worst.loss:.12g}, more than the promised "
            f"{result.epsilon:g}, and all have at least {result.least:.12g}. Give more digits, or promise a little "
            f"more than {worst.loss:.6g}."
        )
    if result.holds:
        how = "up to the rounding of the matrix (2^-40)" if result.rounded else "in exact arithmetic"
        return f"Holds: the worst ratio is e^{worst.loss:.12g}, at most e^{result.epsilon:g}, {how}."
    if result.rounding is not None:
        return (
            f"Does not hold: every channel that rounds to this matrix (each entry ± {result.rounding:g}) "
            f"has a loss of at least {result.least:.6g}, more than the promised {result.epsilon:g}."
        )
    return (
        f"Does not hold: P(y={worst.y} | x={worst.x}) is e^{worst.loss:.6g} times P(y={worst.y} | "
        f"x={worst.x_prime}), more than the promised e^{result.epsilon:g}."
    )


def print_collection(
    collection: "Collection", path: Path, about: list[str], prior: float | Literal["learned"], *, listed: bool
) -> None:
    """Print the estimate of a collection, where its answers are, and what protects the people in it."""
    estimate = collection.estimate(prior=prior, progressbar=True)
    estimate, left_out = largest(estimate, estimate["mean"], path)
    epsilon = collection.responses.mechanism.epsilon
    columns = (estimate[name].values for name in ("category", "mean", "privacy"))
    rows = [
        [label, percent(mean), interval, f"{100 * privacy:.0f} %"]
        for label, mean, privacy, interval in zip(*columns, intervals_in_words(estimate), strict=True)
    ]
    sampler = sampler_in_words(estimate.attrs["sampler"])
    sentences = [
        *left_out,
        f"By {sampler} under {prior_in_words(prior)}. {UP_TO}",
        "“Due to privacy” is the share of the interval's width that privacy causes. The rest is due to the sample, and "
        "honest answers would have it, too.",
        *about,
        *_of_empty_values(collection),
        f"Randomized answers: {path}",
        CENTRAL,
    ]
    if not listed:
        sentences.append(
            "The list of categories was read from the file, so it shows that somebody has each of them. "
            "Name the possible values with --categories if that is sensitive."
        )
    title = f"{len(collection.responses):,} people, each answer {epsilon:g}-locally-differentially private"
    headings = ["category", "estimate", "95 % interval", "due to privacy"]
    print_table(title, headings, rows, sentences, words=["category"])


def largest(table: "xr.Dataset", shares: "xr.DataArray", path: str | Path) -> tuple["xr.Dataset", list[str]]:
    """Return the rows of a table that a terminal shows, and a sentence on the categories that are left out."""
    n_categories = table.sizes["category"]
    if n_categories <= MOST_PRINTED:
        return table, []
    sentence = (
        f"These are the {MOST_PRINTED} largest of {n_categories:,}. The same answers chose them, so somewhat fewer "
        f"than 95 of 100 of these intervals may hold. adobest compare --responses {path} sums the rest, and its "
        "intervals allow for the choice."
    )
    return table.isel(category=(-shares).argsort()[:MOST_PRINTED].values), [sentence]


def _of_empty_values(collection: "Collection") -> list[str]:
    n = collection.did_not_answer
    who = "1 person in the file has" if n == 1 else f"{n:,} people in the file have"
    return [f"{who} an empty value: they did not answer, and are not in the estimate."] if n else []


def print_verdicts(comparison: "xr.Dataset", prior: float | str, sentences: list[str], written: list[Any]) -> None:
    """Print the verdict on each sampler, conclusions, and where the report is."""
    samplers = comparison["sampler"].values.tolist()
    headings = verdict_columns("nuts" if "nuts" in samplers else samplers[0])
    shown = [i for i, heading in enumerate(headings) if heading not in ("coverage", "ESS")]  # 80 characters
    asked = "Are the samplers right?" if len(samplers) > 1 else "Has the sampler converged?"
    cells = [verdict_cells(comparison, name) for name in samplers]
    print_table(
        f"{asked} Under {prior_in_words(prior)}:",
        [headings[i] for i in shown],
        [[row[i] for i in shown] for row in cells],
        [f"• {sentence}" for sentence in sentences],
        words=headings[:2],
        widths=(26, 7),
    )
    Console().print(f"\nReport: {visible(written[0])}", highlight=False, markup=False, soft_wrap=True)


def print_grades(result: "xr.Dataset") -> None:
    """Print the grades of samplers on reference posteriors: a table for each sampler."""
    figures = {"mean_shift": ".2f", "sd_ratio": ".2f", "ess_per_second": ",.0f", "ess_per_gradient": ".2g"}
    for name in result["sampler"].values.tolist():
        rows, sentences = [], []
        for reference in result["reference"].values.tolist():
            row = result.sel(sampler=name, reference=reference)
            values = ((row[figure].item(), form) for figure, form in figures.items())
            cells = [format(value, form) if abs(value) < float("inf") else "–" for value, form in values]
            rows.append([reference, row["verdict"].item().replace("_", " "), *cells])
            if row["verdict"] != "indistinguishable":
                sentences.append(f"• {reference}: {row['in_words'].item()}")
            elif problem := row["problem"].item():
                sentences.append(f"• {reference}: {problem}")
        headings = ["reference", "verdict", "mean off", "sd ratio", "ESS/s", "ESS/grad."]
        print_table(f"{name} on reference posteriors", headings, rows, sentences, words=headings[:2])
    print_lines(
        "“mean off”, in standard deviations of the reference, and “sd ratio” are those of the worst category. The "
        f"references are those of archive {result.attrs['archive_version']}."
    )
