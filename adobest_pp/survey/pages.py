"""The report of a survey: an overview over all waves, a report of each wave, tables, and the texts to hand out."""

import os
from pathlib import Path
from typing import Any

from adobest_pp import __version__
from adobest_pp._checks import check_path
from adobest_pp._files import check_target, replacing
from adobest_pp._text import render
from adobest_pp.report.handout import REPORT, has_excel, percent, write_estimate
from adobest_pp.survey.results import SurveyResult, change_in_words, write_tables
from adobest_pp.survey.texts import protection_in_words, write_texts

OVERVIEW = "index.html"
# Groups with fewer people are not named for how few of them answered.
LEAST_ASKED = 10


def write_report(result: SurveyResult, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write the report of a survey.

    Parameters
    ----------
    result : SurveyResult
        Of `estimate_survey`.
    folder : path
        Made if it does not exist.
    overwrite : bool, default False
        Whether to replace an earlier report.

    Returns
    -------
    list of Path
        ``index.html``, the overview; the tables of `write_tables`; the texts of `write_texts`; and for each wave a
        folder with its report, tables and figures.
    """
    place = check_path(folder, "folder")
    place.mkdir(parents=True, exist_ok=True)
    check_target(place / OVERVIEW, overwrite=overwrite, name="folder")
    survey = result.survey
    written = write_tables(result, place, overwrite)
    written += write_texts(survey, place, overwrite)
    waves = list(dict.fromkeys(wave for wave, _ in result.datasets))
    for wave in waves:
        tables = {survey.question(name).text: found for (each, name), found in result.datasets.items() if each == wave}
        title = survey.title if len(survey.waves) == 1 else f"{survey.title}, {wave}"
        written += write_estimate(
            tables, place / wave, title=title, protection=protection_in_words(survey), overwrite=overwrite
        )
    with replacing(place / OVERVIEW, overwrite=overwrite) as path:
        path.write_text(overview(result, waves), encoding="utf-8")
    return [place / OVERVIEW, *written]


def overview(result: SurveyResult, waves: list[str]) -> str:
    """Return the page over all waves as HTML."""
    survey = result.survey
    changes = [row | {"words": change_in_words(row["change"], row["lower"], row["upper"])} for row in _changes(result)]
    return render(
        "adobest_pp.survey",
        "overview.html",
        survey=survey,
        pages=[(wave, f"{wave}/{REPORT}") for wave in waves],
        questions=[_question(result, each.name, waves) for each in survey.questions],
        changes=changes,
        by_chance=max(1, round(0.05 * len(changes))),
        associations=[_association_in_words(row) for row in result.associations.to_dict("records")],
        protection=protection_in_words(survey),
        response=_response(result),
        left_out=[
            f"{each['question']}, {each['wave']}, {each['group']} ({each['people']})" for each in result.left_out
        ],
        has_excel=has_excel(),
        version=__version__,
        seed=result.seed,
    )


def _association_in_words(row: dict[str, Any]) -> dict[str, Any]:
    """Return how strongly two questions go together, as a row of a table."""
    shown = "{cramers_v:.2f} ({cramers_v_lower:.2f} to {cramers_v_upper:.2f})".format(**row)
    clear = "they go together" if row["cramers_v_lower"] > 0 else "not known whether they go together"
    return row | {"people": f"{row['people']:,}", "words": f"{clear}: {shown}"}


def _changes(result: SurveyResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.changes.to_dict("records")
    return rows


def _question(result: SurveyResult, name: str, waves: list[str]) -> dict[str, Any]:
    """Return everybody's shares of a question by wave, and its median and other measures if it has an order."""
    question, table = result.survey.question(name), result.estimates
    mine = table[(table["question"] == name) & (table["column"] == "")].set_index(["category", "wave"])
    known = [wave for wave in waves if (wave, name) in result.datasets]
    rows = [
        (label, [(percent(mine.loc[(label, wave), "share"]), mine.loc[(label, wave), "interval"]) for wave in known])
        for label in question.labels
    ]
    scales = result.scales[result.scales["question"] == name].set_index(["measure", "wave"])["in_words"]
    measures = [
        (measure, [scales.loc[measure, wave] for wave in known])
        for measure in scales.index.get_level_values("measure").unique()
    ]
    return {
        "name": name,
        "text": question.text,
        "waves": known,
        "rows": rows,
        "measures": measures,
        "bins": question.bins,
    }


def _response(result: SurveyResult) -> list[dict[str, Any]]:
    """Return who answered, by wave and question, with the group of which the smallest share did."""
    rows = []
    for (wave, name), part in result.response.groupby(["wave", "question"], sort=False):
        everybody = part[part["column"] == ""].iloc[0]
        groups = part[(part["column"] != "") & (part["asked"] >= LEAST_ASKED)]
        lowest = "–"
        if len(groups):
            least = groups.loc[(groups["answered"] / groups["asked"]).idxmin()]
            lowest = f"{least['column']} {least['group']}: {least['answered'] / least['asked']:.0%}"
        share = f"{everybody['answered'] / everybody['asked']:.0%}"
        counts = {"asked": f"{everybody['asked']:,}", "answered": f"{everybody['answered']:,}"}
        rows.append({"wave": wave, "question": name, "share": share, "lowest": lowest} | counts)
    return rows
