"""Whole surveys of simulated people: whether intervals hold the truth, and plans choose the right way to spend.

A survey has 3,000 people in each of three waves, four sensitive questions, weights, twelve regions, three ages with
known margins, and blanks (`validation.simulated_survey`). Shares differ by region and age, and from wave to wave.

- Coverage: how often the 95 % intervals that the report shows hold the share of the population, for everybody, in
  every group with at least 50 answers, and for the change between two waves.
- Budgets: the errors of estimates when the budget is split, when one question is drawn for each person, and when a
  pair is, against the ratio of errors that the plan computes.

Answers are drawn fast, by a generator. Exits with 1 if a finding is not reproduced.
"""

import sys
import tomllib
from collections import defaultdict
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp.answers.responses import Responses
from adobest_pp.answers.store import PublicColumns
from adobest_pp.likelihood.without_prior import direct_estimate
from adobest_pp.mechanisms import build_mechanism
from adobest_pp.survey.budget import Spending, spending, ways_to_spend
from adobest_pp.survey.collecting import Answers
from adobest_pp.survey.definition import Survey
from adobest_pp.survey.results import estimate_answers
from validation.common import Finding, Options, each, finding, keep, main, table
from validation.simulated_survey import CELLS, LABELS, WAVES, People, simulate, survey_text, truth_of

PEOPLE, EPSILON = 3000, 3.0
SURVEYS, ERRORS = 200, 400
# The log-odds of later categories move so far from wave to wave.
SHIFTS = (0.0, 0.1, 0.25)
# What coverage must be: over all cells, and in every group with this many answers.
OVERALL, IN_GROUPS, LEAST_PEOPLE = (0.93, 0.97), 0.90, 50
# Budgets at which ways to spend them are compared, and how far the measured ratio may be from the plan's.
BUDGETS, CLOSE = (0.5, 2.0, 8.0), 0.10

Cells = dict[tuple[str, str], tuple[int, int]]


def survey_of(epsilon: float, spend: str = "auto") -> Survey:
    """Return the survey."""
    return Survey.model_validate(tomllib.loads(survey_text(PEOPLE, epsilon, spend)))


def asked_of(n: int, way: Spending, rng: np.random.Generator) -> dict[str, NDArray[np.bool_]]:
    """Return who is asked each question."""
    sets = list(combinations(LABELS, way.questions_each))
    drawn = rng.integers(len(sets), size=n)
    return {name: np.array([name in each for each in sets])[drawn] for name in LABELS}


def answers_of(people: People, way: Spending, rng: np.random.Generator) -> dict[str, Answers]:
    """Return the answers of people to the questions that are drawn for them, with their public columns."""
    found = {}
    for name, asked in asked_of(people.cells.size, way, rng).items():
        mechanism = build_mechanism("subset-selection", n_categories=len(LABELS[name]), epsilon=way.epsilon)
        gave = asked & (people.codes[name] >= 0)
        answers = mechanism.privatize(people.codes[name][gave], rng=rng)
        responses = Responses.from_arrays(mechanism, answers, categories=LABELS[name])
        columns = [_columns(people, np.flatnonzero(rows)) for rows in (gave, asked & ~gave)]
        found[name] = Answers(responses, PublicColumns(*columns))
    return found


def _columns(people: People, rows: NDArray[np.int64]) -> dict[str, list[str | int]]:
    cells = [CELLS[i] for i in people.cells[rows].tolist()]
    return {
        "person": [str(row) for row in rows.tolist()],
        "region": [region for region, _ in cells],
        "age": [age for _, age in cells],
        "weight": [str(weight) for weight in people.weights[rows].tolist()],
    }


def covered(seed: int, number: int) -> tuple[Cells, tuple[int, int]]:
    """Return by group how many intervals of a survey hold the truth, and how many there are; and those of changes."""
    rng, survey = np.random.default_rng([seed, number]), survey_of(EPSILON)
    way = spending(survey).spending
    answers: dict[tuple[str, str], Answers] = {}
    for wave, shift in zip(WAVES, SHIFTS, strict=True):
        found = answers_of(simulate(PEOPLE, rng, shift=shift), way, rng)
        answers |= {(wave, name): each for name, each in found.items()}
    result = estimate_answers(survey, answers)
    truth = {(wave, name): truth_of(name, shift) for wave, shift in zip(WAVES, SHIFTS, strict=True) for name in LABELS}
    cells: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in result.estimates.to_dict("records"):
        if row["people"] >= LEAST_PEOPLE:
            place = LABELS[row["question"]].index(row["category"])
            share = truth[row["wave"], row["question"]][row["column"], row["group"]][place]
            cell = cells[row["column"], row["group"]]
            cell[0] += row["lower"] <= share <= row["upper"]
            cell[1] += 1
    inside = 0
    for row in result.changes.to_dict("records"):
        place = LABELS[row["question"]].index(row["category"])
        before, after = (truth[row[wave], row["question"]]["", "everybody"][place] for wave in ("before", "after"))
        inside += row["lower"] <= after - before <= row["upper"]
    return {key: (a, b) for key, (a, b) in cells.items()}, (inside, len(result.changes))


def coverage(options: Options) -> list[Finding]:
    """Return whether the intervals hold the truth as often as they say."""
    n = 3 if options.quick else SURVEYS
    found = each(partial(covered, options.seed), range(n), "surveys")
    groups: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for cells, _ in found:
        for key, (inside, of) in cells.items():
            groups[key][0] += inside
            groups[key][1] += of
    rates = {key: inside / of for key, (inside, of) in groups.items()}
    by_survey = np.array([sum(a for a, _ in cells.values()) / sum(b for _, b in cells.values()) for cells, _ in found])
    overall = float(by_survey.mean())
    error = float(by_survey.std(ddof=1) / np.sqrt(n))
    changes = sum(inside for _, (inside, _) in found) / sum(of for _, (_, of) in found)
    print(
        f"\nCoverage of 95 % intervals in {n} surveys, {PEOPLE:,} people a wave, {len(WAVES)} waves, ε = {EPSILON:g}:\n"
    )
    rows = [[column or "–", group, groups[column, group][1], rates[column, group]] for column, group in groups]
    table(["column", "group", "intervals", "coverage"], rows, 3, "survey coverage")
    worst = min(rates, key=lambda key: rates[key])
    slack = 0.15 if options.quick else 0.0
    interval = (overall - 1.96 * error, overall + 1.96 * error)
    return [
        finding(
            "survey coverage",
            f"95 % intervals of {n} whole surveys hold {overall:.1%} of the shares",
            OVERALL[0] - slack <= overall <= OVERALL[1] + slack,
            interval,
            coverage=overall,
            surveys=n,
        ),
        finding(
            "survey coverage in groups",
            f"in the worst group with {LEAST_PEOPLE} answers or more ({worst[1]}), they hold {rates[worst]:.1%}",
            rates[worst] >= IN_GROUPS - slack,
            coverage=rates[worst],
            groups=len(rates),
        ),
        finding(
            "changes between waves",
            f"intervals of changes between waves hold {changes:.1%} of them",
            changes >= OVERALL[0] - slack,
            coverage=changes,
        ),
    ]


def squared_errors(seed: int, epsilon: float, way: str, number: int) -> NDArray[np.float64]:
    """Return the squared errors of all shares of a survey without weights, in one wave."""
    rng = np.random.default_rng([seed, 7, number])
    spent = ways_to_spend(survey_of(epsilon))[way]
    found = answers_of(_even(rng), spent, rng)
    errors = []
    for name, answers in found.items():
        truth = truth_of(name)["", "everybody"]
        direct = direct_estimate(answers.responses, truth)
        assert direct is not None
        errors.append((direct.estimate - truth) ** 2)
    return np.concatenate(errors)


def _even(rng: np.random.Generator) -> People:
    """Return people who answer all questions, drawn from the whole population alike."""
    codes = {name: rng.choice(len(LABELS[name]), size=PEOPLE, p=truth_of(name)["", "everybody"]) for name in LABELS}
    return People(np.zeros(PEOPLE, dtype=np.int64), np.ones(PEOPLE), codes)


def planned(epsilon: float) -> dict[str, float]:
    """Return the mean half-width that the plan computes for each way, for the true shares."""
    content: dict[str, Any] = tomllib.loads(survey_text(PEOPLE, epsilon))
    for question in content["questions"]:
        question["guess"] = truth_of(question["name"])["", "everybody"].tolist()
    made = spending(Survey.model_validate(content))
    return {way: float(np.mean([each.half_width for each in found.values()])) for way, found in made.prospects.items()}


def budgets(options: Options) -> list[Finding]:
    """Return whether ways to spend a budget compare as the plan says."""
    n = 40 if options.quick else ERRORS
    rows, ratios = [], []
    for epsilon in BUDGETS:
        plans = planned(epsilon)
        errors = {
            way: np.array(
                each(partial(squared_errors, options.seed, epsilon, way), range(n), f"{way}, ε = {epsilon:g}")
            )
            for way in plans
        }
        # The plan's mean half-width is over questions, whose number of categories differs.
        sizes = [len(labels) for labels in LABELS.values()]
        weights = np.concatenate([np.full(size, 1 / (size * len(sizes))) for size in sizes])
        roots = {way: float(np.sqrt(found.mean(axis=0)) @ weights) for way, found in errors.items()}
        for way in ("one", "pair"):
            plan, measured = plans[way] / plans["split"], roots[way] / roots["split"]
            ratios.append(measured / plan)
            rows.append([epsilon, way, plan, measured, measured / plan])
    print(f"\nErrors relative to splitting the budget, {n} surveys each:\n")
    table(["ε", "way", "the plan's ratio", "measured", "measured / plan"], rows, 3, "ways to spend")
    far = float(np.max(np.abs(np.array(ratios) - 1)))
    limit = 0.3 if options.quick else CLOSE
    keep(largest_distance=far)
    return [
        finding(
            "ways to spend",
            f"the ratio of errors between two ways to spend a budget is within {far:.1%} of the plan's",
            far <= limit,
            distance=far,
        )
    ]


def findings(options: Options) -> list[Finding]:
    """Return all findings."""
    return [*budgets(options), *coverage(options)]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
