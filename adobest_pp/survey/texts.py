"""Texts of a survey to hand out: a consent form, and a page for the data-protection officer. Both are drafts.

They are filled from the survey alone. What is said about privacy follows from its budget; what nobody can know from the
file, such as the legal basis, is marked to be filled in.
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
from adobest_pp._wording import most_sure
from adobest_pp.mechanisms import Mechanism, audit, guess_bound
from adobest_pp.survey.budget import all_waves, epsilon_of_changes, policy_of, spending
from adobest_pp.survey.definition import Survey

TEXTS = ("consent.html", "data-protection.html")
DRAFT = "Draft, written by a program from the plan of the survey. Have it checked by a lawyer before you use it."


def write_texts(survey: Survey, folder: str | os.PathLike[str], overwrite: bool = False) -> list[Path]:
    """Write the consent form and the page for the data-protection officer, as HTML that prints.

    Parameters
    ----------
    survey : Survey
        What `read_survey` returns.
    folder : path
        Made if it does not exist.
    overwrite : bool, default False
        Whether to replace texts that are there.
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
    made = spending(survey)
    way, d = made.spending, len(survey.private_questions)
    several = survey.people.same and len(survey.waves) > 1
    return {
        "survey": survey,
        "draft": DRAFT,
        "questions": [_question(survey, each.name) for each in survey.questions],
        "way": way.way,
        "asked_each": {1: "one", 2: "two"}.get(way.questions_each, str(way.questions_each)),
        "n_private": d,
        "epsilon": f"{survey.budget.epsilon:.3g}",
        "answer_epsilon": f"{way.epsilon:.3g}",
        "wave_epsilon": f"{survey.wave_epsilon:.3g}",
        "factor": f"{math.exp(survey.budget.epsilon):.3g}",
        "answer_factor": f"{math.exp(way.epsilon):.3g}",
        "sure": most_sure(survey.budget.epsilon),
        "answer_sure": most_sure(way.epsilon),
        "several": several,
        "changed": _changed(survey),
        "public": survey.public,
        "on_devices": survey.people.on_devices,
        "has_id": survey.people.id is not None and not survey.people.on_devices,
        "version": __version__,
    }


def _changed(survey: Survey) -> dict[str, str] | None:
    """Return how sure somebody can become of people whose memoized answers change: in one wave, and at all."""
    if not survey.is_memoized:
        return None
    way = spending(survey).spending
    once, always = (epsilon_of_changes(survey, way, n) for n in (1, len(survey.waves)))
    return {
        "once": f"{once:.3g}",
        "always": f"{always:.3g}",
        "once_sure": most_sure(once),
        "always_sure": most_sure(always),
    }


def protection_in_words(survey: Survey) -> list[str]:
    """Return how people are protected, in sentences for readers who are not statisticians."""
    made = spending(survey)
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
    if (changed := _changed(survey)) is not None:
        sentences.append(
            "The same people answered in every wave. A person's answer was changed once for all waves, and this "
            "changed answer again in each wave. So more waves do not tell more about somebody whose answer stays the "
            f"same. If a person's answer differed in one wave, one can be at most {changed['once_sure']} sure."
        )
    if made.spending.way != "split":
        each = {1: "one question", 2: "two questions"}[made.spending.questions_each]
        sentences.append(f"Nobody answered all questions: {each} were drawn for each person at random.")
        sentences[-1] = sentences[-1].replace("one question were", "one question was")
    openly = [each.text for each in survey.questions if not each.sensitive]
    if openly:
        sentences.append(f"These questions were asked openly, and are not protected: {' '.join(openly)}")
    return sentences


def _question(survey: Survey, name: str) -> dict[str, Any]:
    """Return what the texts say of a question: how well anybody guesses its answer, and the exact loss."""
    question = survey.question(name)
    found: dict[str, Any] = {"text": question.text, "labels": question.labels, "sensitive": question.sensitive}
    if not question.sensitive:
        return found
    way, theta = spending(survey).spending, np.array(question.shares)
    times = len(survey.waves) if survey.people.same else 1
    if survey.is_memoized:
        mechanism: Mechanism = all_waves(question, way, times)
    else:
        mechanism = policy_of(survey, question, way, survey.people.expected).mechanism
    adapts = mechanism.publishes_subset or question.mechanism == "design"
    is_one_answer = times == 1 or survey.is_memoized
    # What may change with the answers is not known yet, and answers of several waves are many: then the bound for every
    # mechanism of this ε is told.
    exact = is_one_answer and not adapts
    guess = mechanism.best_guess(theta) if exact else guess_bound(times * way.epsilon, theta)
    return found | {
        "with_answer": f"{100 * guess:.0f} %",
        "without": f"{100 * theta.max():.0f} %",
        "is_guess": question.guess is not None,
        "mechanism": "memoized randomized response" if survey.is_memoized else question.mechanism,
        "loss": f"{float(audit(mechanism).loss):.6g}",
    }
