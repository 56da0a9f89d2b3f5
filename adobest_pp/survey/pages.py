"""The HTML pages of a survey: the overview over all waves, beside a report of each, and two texts to hand out.

The texts are drafts of a consent form and of a page for the data-protection officer. They are filled from the survey
alone. What they say about privacy follows from its budget; what the file cannot know, such as the legal basis, is
marked to be filled in.
"""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from adobest_pp import __version__
from adobest_pp._checks import check_path
from adobest_pp._files import check_target, replacing
from adobest_pp._text import render
from adobest_pp._wording import most_sure, percent
from adobest_pp.mechanisms import Mechanism, audit, guess_bound
from adobest_pp.report.handout import REPORT, has_excel, write_estimate
from adobest_pp.survey.budget import Spending, all_waves, epsilon_of_changes, policy_of, spending
from adobest_pp.survey.definition import Survey, SurveyQuestion
from adobest_pp.survey.results import SurveyResult, change_in_words, write_tables

OVERVIEW = "index.html"
# Groups with fewer people are not named for how few of them answered.
LEAST_ASKED = 10
TEXTS = ("consent.html", "data-protection.html")
DRAFT = "Draft, written by a program from the plan of the survey. Have it checked by a lawyer before you use it."


def write_report(result: SurveyResult, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write the report of a survey.

    Parameters
    ----------
    result : SurveyResult
        Of `estimate_survey`.
    folder : path
        Made if it does not exist.
    overwrite : bool, default False
        Whether to replace files that are there.

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
        about: dict[str, Any] = {"title": title, "protection": protection_in_words(survey)}
        written += write_estimate(tables, place / wave, overwrite=overwrite, **about)
    with replacing(place / OVERVIEW, overwrite=overwrite) as path:
        path.write_text(overview(result, waves), encoding="utf-8")
    return [place / OVERVIEW, *written]


def overview(result: SurveyResult, waves: list[str]) -> str:
    """Return the page over all waves as HTML."""
    survey, rows = result.survey, result.changes.to_dict("records")
    changes = [row | {"words": change_in_words(row["change"], row["lower"], row["upper"])} for row in rows]
    return render(
        "adobest_pp.survey",
        "overview.html",
        survey=survey,
        pages=[(wave, f"{wave}/{REPORT}") for wave in waves],
        questions=[_question(result, each, waves) for each in survey.questions],
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
    """Return how strongly two questions are associated, as a row of a table."""
    shown = "{cramers_v:.2f} ({cramers_v_lower:.2f} to {cramers_v_upper:.2f})".format(**row)
    clear = "they go together" if row["cramers_v_lower"] > 0 else "not known whether they go together"
    return row | {"people": f"{row['people']:,}", "words": f"{clear}: {shown}"}


def _question(result: SurveyResult, question: SurveyQuestion, waves: list[str]) -> dict[str, Any]:
    """Return everybody's shares of a question by wave, and its median and other measures if it is ordered."""
    name, table = question.name, result.estimates
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
    """Return how many answered, by wave and question, with the group in which the smallest share did."""
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


# The texts to hand out.


def write_texts(survey: Survey, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write the consent form and the page for the data-protection officer of a survey as HTML, ready to print.

    The other parameters are those of `write_report`.
    """
    place = check_path(folder, "folder")
    values = values_of(survey)
    place.mkdir(parents=True, exist_ok=True)
    for name in TEXTS:
        check_target(place / name, overwrite=overwrite, name="folder")
    for name in TEXTS:
        with replacing(place / name, overwrite=overwrite) as path:
            path.write_text(render("adobest_pp.survey", name, **values), encoding="utf-8")
    return [place / name for name in TEXTS]


def values_of(survey: Survey) -> dict[str, Any]:
    """Return what the texts say, as plain values."""
    way = spending(survey).spending
    return {
        "survey": survey,
        "draft": DRAFT,
        "questions": [_protection_of(survey, each, way) for each in survey.questions],
        "way": way.way,
        "asked_each": {1: "one", 2: "two"}.get(way.questions_each, str(way.questions_each)),
        "n_private": len(survey.private_questions),
        "epsilon": f"{survey.budget.epsilon:.3g}",
        "answer_epsilon": f"{way.epsilon:.3g}",
        "wave_epsilon": f"{survey.wave_epsilon:.3g}",
        "factor": f"{math.exp(survey.budget.epsilon):.3g}",
        "answer_factor": f"{math.exp(way.epsilon):.3g}",
        "sure": most_sure(survey.budget.epsilon),
        "answer_sure": most_sure(way.epsilon),
        "several": survey.people.same and len(survey.waves) > 1,
        "changed": _changed(survey, way),
        "public": survey.public,
        "on_devices": survey.people.on_devices,
        "has_id": survey.people.id is not None and not survey.people.on_devices,
        "version": __version__,
    }


def _changed(survey: Survey, way: Spending) -> dict[str, str] | None:
    """Return how sure somebody can become of people whose memoized answers change, once or in every wave."""
    if not survey.is_memoized:
        return None
    once, always = (epsilon_of_changes(survey, way, n) for n in (1, len(survey.waves)))
    return {
        "once": f"{once:.3g}",
        "always": f"{always:.3g}",
        "once_sure": most_sure(once),
        "always_sure": most_sure(always),
    }


def protection_in_words(survey: Survey) -> list[str]:
    """Return how people are protected, in sentences for readers who are not statisticians."""
    way = spending(survey).spending
    where = (
        "Each device changed the answer at random, by published rules, before it sent it: nobody's true answer was "
        "collected."
        if survey.people.on_devices
        else "The true answers were in a file of the people who ran the survey. Every answer was changed at random, by "
        "published rules, and everything in this report is made from the changed answers alone."
    )
    sentences = [
        f"{where} So an answer that was kept may be true or not, and nobody who sees it can be sure.",
        f"How strong this is: somebody who thinks that two answers of a person are equally likely, and then sees all "
        f"that was kept of this person, can be at most {most_sure(survey.budget.epsilon)} sure of one of them.",
    ]
    if (changed := _changed(survey, way)) is not None:
        sentences.append(
            "The same people answered in every wave. A person's answer was changed once for all waves, and this "
            "changed answer again in each wave. So more waves do not reveal more about somebody whose answer stays the "
            f"same. If a person's answer differed in one wave, one can be at most {changed['once_sure']} sure."
        )
    if way.way != "split":
        drawn = {1: "one question was", 2: "two questions were"}[way.questions_each]
        sentences.append(f"Nobody answered all questions: {drawn} drawn for each person at random.")
    openly = [each.text for each in survey.questions if not each.sensitive]
    if openly:
        sentences.append(f"These questions were asked openly, and are not protected: {' '.join(openly)}")
    return sentences


def _protection_of(survey: Survey, question: SurveyQuestion, way: Spending) -> dict[str, Any]:
    """Return what the texts say of a question: how often the best guess is right, and the exact loss."""
    found: dict[str, Any] = {"text": question.text, "labels": question.labels, "sensitive": question.sensitive}
    if not question.sensitive:
        return found
    theta, times = np.array(question.shares), len(survey.waves) if survey.people.same else 1
    if survey.is_memoized:
        mechanism: Mechanism = all_waves(question, way, times)
    else:
        mechanism = policy_of(survey, question, way, survey.people.expected).mechanism
    adapts = mechanism.publishes_subset or question.mechanism == "design"
    is_one_answer = times == 1 or survey.is_memoized
    # A question that adapts is not known yet, and answers of several waves are many. Then the texts have the bound for
    # every mechanism of this ε.
    exact = is_one_answer and not adapts
    guess = mechanism.best_guess(theta) if exact else guess_bound(times * way.epsilon, theta)
    return found | {
        "with_answer": f"{100 * guess:.0f} %",
        "without": f"{100 * theta.max():.0f} %",
        "is_guess": question.guess is not None,
        "mechanism": "memoized randomized response" if survey.is_memoized else question.mechanism,
        "loss": f"{float(audit(mechanism).loss):.6g}",
    }
