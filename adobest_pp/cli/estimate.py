"""The command `adobest estimate`: from a file of randomized answers to a table, and to a folder to pass on."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp._wording import UP_TO, percent
from adobest_pp.answers.gather.gather import read_answers, read_with_columns
from adobest_pp.cli.tables import (
    HINT,
    check_no_report,
    csv_rows,
    labels_in,
    largest,
    make_known,
    naming_responses,
    print_lines,
    print_table,
)
from adobest_pp.estimates.estimate import EVERYBODY, estimate
from adobest_pp.likelihood.without_prior import misfit_in_words
from adobest_pp.mechanisms import build_mechanism

if TYPE_CHECKING:
    import xarray as xr

POOLED = (
    "Shares of groups are partially pooled: a group with few people borrows from all others. Its interval uses its own "
    "answers alone, so it is valid even if the group is unlike all others."
)


def run(
    file: str,
    groups: list[str],
    weights: str | None,
    margins: Path | None,
    question: str | None,
    out: Path | None,
    described: dict[str, Any],
    seed: int,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Estimate, print the table or JSON, and write the folder."""
    from adobest_pp.report.handout import REPORT, TABLES, write_estimate
    from adobest_pp.report.handout import as_json as json_of

    if out is not None:
        check_no_report(out, (REPORT, *TABLES), overwrite)
    table = table_of(file, groups, weights, margins, described, seed, progressbar=not as_json)
    questions = {"A private question" if question is None else question: table}
    written = []
    if out is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        written = write_estimate(questions, out, title=question or "What the survey found", overwrite=overwrite)
    if as_json:
        print(json.dumps(json.loads(json_of(questions)) | {"files": [str(each) for each in written]}, indent=1))  # noqa: T201
        return
    print_estimate(table, file)
    print_lines(*(f"Written: {each}" for each in written))


def table_of(
    file: str,
    groups: list[str],
    weights: str | None,
    margins: Path | None,
    described: dict[str, Any],
    seed: int,
    *,
    progressbar: bool,
) -> "xr.Dataset":
    """Read the answers and public columns of a file, and estimate."""
    if len(set(groups)) < len(groups):
        raise ValueError(f"--group must name different columns, got {brief(groups)}")
    if margins is not None and not groups:
        raise ValueError("--margins must come with --group: they are the shares of these groups in the population")
    shares = None if margins is None else read_margins(margins, groups)
    make_known(described["mechanism"])
    labels = labels_in(described["categories"])
    mechanism = None
    given = [name for name in ("mechanism", "epsilon", "categories") if described[name] is not None]
    if given and len(given) < 3:
        raise ValueError("--mechanism, --epsilon and --categories must be given together, or not at all")
    if labels is not None:
        mechanism = build_mechanism(described["mechanism"], n_categories=len(labels), epsilon=described["epsilon"])
    how = {"mechanism": mechanism, "categories": labels, "column": described["column"]}
    with naming_responses(file, HINT, "FILE"), SlowProgress(2, "estimating", progressbar) as progress:
        if not groups and weights is None:
            found = estimate(read_answers(file, **how, progressbar=False), random_seed=seed)
            progress.advance(2)
            return found
        responses, public = read_with_columns(file, [*groups, *([] if weights is None else [weights])], **how)
        progress.advance(1)
        by = {name: public[name] for name in groups} or None
        weighed = None if weights is None else _numbers(public[weights], weights)
        found = estimate(responses, groups=by, weights=weighed, margins=shares, random_seed=seed)
        progress.advance(1)
        return found


def _numbers(values: list[Any], name: str) -> list[float]:
    """Return a column of weights, which may have decimal commas, as numbers, or raise ValueError."""
    numbers = []
    for i, value in enumerate(values):
        try:
            numbers.append(float(str(value).replace(",", ".")))
        except ValueError:
            what = "nothing" if value in (None, "") else "no number"
            raise ValueError(
                f"--weights must name a column of positive numbers, got {what} in row {i} of {name!r}"
            ) from None
    return numbers


def read_margins(path: Path, groups: list[str]) -> dict[str, dict[str, float]]:
    """Return the shares of groups in the population, by column and label, from a CSV file."""
    allowed = "--margins must name a CSV file with the columns group, share, and column if there are several --group"
    columns = ("group", "share") if len(groups) == 1 else ("group", "share", "column")
    margins: dict[str, dict[str, float]] = {}
    for i, row in enumerate(csv_rows(path, columns, allowed)):
        column = row.get("column") or groups[0]
        try:
            share = float(row["share"].strip().replace(",", "."))
        except (AttributeError, ValueError):
            raise ValueError(f"--margins must have a number for share in each row, got none in line {i + 2}") from None
        part = margins.setdefault(column, {})
        if row["group"] in part:
            raise ValueError(f"--margins must name each group once, got {brief(row['group'])} again in line {i + 2}")
        part[row["group"]] = share
    if not margins:
        raise ValueError(f"{allowed}, got no rows in {str(path)!r}")
    return margins


def print_estimate(table: "xr.Dataset", file: str) -> None:
    """Print the shares of everybody, of many categories only the largest, and the shares of groups."""
    table, left_out = largest(table, table["share"].sel(group=EVERYBODY), file)
    everybody = table.sel(group=EVERYBODY)
    columns = ("category", "share", "interval", "in_words")
    rows = [
        [label, percent(share), interval, words]
        for label, share, interval, words in zip(*(everybody[name].values for name in columns), strict=True)
    ]
    people, epsilon = int(table.attrs["n_responses"]), float(table.attrs["epsilon"])
    title = f"{people:,} people, each answer {epsilon:g}-locally-differentially private"
    privacy = float((everybody["privacy"] * (everybody["upper"] - everybody["lower"])).sum())
    width = float((everybody["upper"] - everybody["lower"]).sum())
    misfit = misfit_in_words(float(table.attrs["fit_p_value"]))
    sentences = [
        *left_out,
        f"A 95 % interval contains the true share in 95 of 100 surveys, whatever that share is. {UP_TO}",
        f"About {100 * privacy / width:.0f} % of their width is due to privacy. The rest is due to the sample, and "
        "honest answers would have it, too.",
        *([misfit] if misfit else []),
    ]
    print_table(
        title, ["category", "share", "95 % interval", "in words"], rows, sentences, words=["category", "in words"]
    )
    groups = [name for name in table["group"].values.tolist() if name != EVERYBODY]
    if not groups:
        return
    rows = []
    for name in groups:
        one = table.sel(group=name)
        for i, label in enumerate(one["category"].values.tolist()):
            first = [name, f"{int(one['people']):,}"] if i == 0 else ["", ""]
            rows.append([*first, label, percent(one["share"][i]), one["interval"].values[i]])
    left_out = json.loads(table.attrs["left_out"])
    sentences = [POOLED]
    if left_out:
        named = ", ".join(f"“{name}” ({n})" for name, n in left_out.items())
        sentences.append(f"Too few people to estimate, but included in everybody: {named}.")
    headings = ["group", "people", "category", "share", "95 % interval"]
    print_table("By group", headings, rows, sentences, words=["group", "category"])
