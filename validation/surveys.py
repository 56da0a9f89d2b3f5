"""Whole surveys of simulated people: whether intervals hold the truth, and plans choose the right way to spend.

A survey has 3,000 people in each of three waves, four sensitive questions, weights, twelve regions, three ages with
known margins, and blanks (`validation.simulated_survey`). Shares differ by region and age, and from wave to wave.

- Coverage: how often the 95 % intervals that the report shows hold the share of the population, for everybody, in
  every group with at least 50 answers, and for the change between two waves.
- The same people again: how often the interval of a change contains it if people answer in both waves, drawn anew or
  memoized, and few or many of them change.
- Budgets: the errors of estimates when the budget is split, when one question is drawn for each person, and when a
  pair is, against the ratio of errors that the plan computes.

Answers are drawn fast, by a generator, and shares get fewer draws than for users: 400 (`few_draws`).
Exits with 1 if a finding is not reproduced.
"""

import sys
import tomllib
from collections import defaultdict
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adobest_pp import SRR, Memoized
from adobest_pp._checks import MAX_EPSILON
from adobest_pp.answers.responses import Responses
from adobest_pp.answers.store import PublicColumns
from adobest_pp.estimates.changes import Measured, change_between
from adobest_pp.estimates.estimate import smooth, terms_of_people
from adobest_pp.intervals import covering_intervals
from adobest_pp.likelihood.without_prior import direct_estimate
from adobest_pp.mechanisms import build_mechanism
from adobest_pp.survey.budget import Spending, spending, ways_to_spend
from adobest_pp.survey.collecting import Answers
from adobest_pp.survey.definition import Survey
from adobest_pp.survey.results import estimate_answers
from validation.common import Finding, Options, each, finding, keep, main, table
from validation.estimates import few_draws
from validation.simulated_survey import CELLS, LABELS, WAVES, People, simulate, survey_text, truth_of

PEOPLE, EPSILON = 3000, 3.0
SURVEYS, ERRORS, PANEL_RUNS = 200, 400, 500
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
    with few_draws():
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
    found = each(partial(covered, options.seed), range(n), "surveys", not options.quick)
    groups: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for cells, _ in found:
        for key, (inside, of) in cells.items():
            groups[key][0] += inside
            groups[key][1] += of
    rates = {key: inside / of for key, (inside, of) in groups.items()}
    by_survey = np.array([sum(a for a, _ in cells.values()) / sum(b for _, b in cells.values()) for cells, _ in found])
    overall = float(by_survey.mean())
    error = float(by_survey.std(ddof=1) / np.sqrt(n))
    of_changes = np.array([inside / of for _, (inside, of) in found])
    changes, change_error = float(of_changes.mean()), float(of_changes.std(ddof=1) / np.sqrt(n))
    print(
        f"\nCoverage of 95 % intervals in {n} surveys, {PEOPLE:,} people a wave, {len(WAVES)} waves, ε = {EPSILON:g}:\n"
    )
    rows = [[column or "–", group, groups[column, group][1], rates[column, group]] for column, group in groups]
    table(["column", "group", "intervals", "coverage"], rows, 3, "survey coverage")
    worst = min(rates, key=lambda key: rates[key])
    # Categories of a question depend on each other, so the error is that over surveys.
    of_worst = [cells[worst][0] / cells[worst][1] for cells, _ in found if worst in cells]
    worst_error = float(np.std(of_worst, ddof=1) / np.sqrt(len(of_worst)))
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
            (rates[worst] - 1.96 * worst_error, rates[worst] + 1.96 * worst_error),
            coverage=rates[worst],
            groups=len(rates),
        ),
        finding(
            "changes between waves",
            f"intervals of changes between waves hold {changes:.1%} of them",
            changes >= OVERALL[0] - slack,
            (changes - 1.96 * change_error, changes + 1.96 * change_error),
            coverage=changes,
        ),
    ]


# The same people again: people, the share of them who move to the last category, and how they answer.
PANELS = {
    f"{n} people, {moved:.0%} move, {kind}": (n, moved, kind)
    for n in (100, 800)
    for moved in (0.0, 0.02, 0.25)
    for kind in ("drawn anew", "memoized", "open")
}
PANEL_SHARES = np.array([0.62, 0.25, 0.13])


def change_of_panel(seed: int, panel: str, number: int) -> NDArray[np.bool_]:
    """Return whether the interval of each change holds it, for people of whom some answer in one wave only."""
    n, moved, kind = PANELS[panel]
    rng, k = np.random.default_rng([seed, 3, number]), PANEL_SHARES.size
    first = rng.choice(k, size=n, p=PANEL_SHARES)
    x = [first, np.where(rng.random(n) < moved, k - 1, first)]
    mechanism: Any = SRR(k, MAX_EPSILON if kind == "open" else EPSILON)
    kept = np.tile(np.arange(k), (n, 1))
    if kind == "memoized":
        mechanism = Memoized.from_budgets(k, EPSILON, EPSILON / 2, 1)
        kept = mechanism.permanent.privatize(kept, rng=rng)
    waves = []
    for true in x:
        people = np.flatnonzero(rng.random(n) < 0.9)
        drawn = (mechanism.instantaneous if kind == "memoized" else mechanism).privatize(
            kept[people, true[people]], rng=rng
        )
        answers = drawn.reshape(-1, *mechanism.answer_dims.values())
        responses = Responses.from_arrays(mechanism, answers)
        direct = direct_estimate(responses, smooth(responses))
        assert direct is not None
        terms = terms_of_people(responses, np.ones(people.size), None)
        lower, upper = covering_intervals(direct)
        waves.append(Measured(direct.estimate, lower, upper, terms, people.tolist()))
    found = change_between(*waves)
    truth = moved * (np.arange(k) == k - 1) - moved * PANEL_SHARES
    return np.asarray((found.lower - 1e-12 <= truth) & (truth <= found.upper + 1e-12))


def panels(options: Options) -> list[Finding]:
    """Return whether intervals of changes hold them for the same people."""
    n = 40 if options.quick else PANEL_RUNS
    rows: list[list[Any]] = []
    for panel in PANELS:
        held = np.array(each(partial(change_of_panel, options.seed, panel), range(n), panel))
        rows.append([panel, n, float(held.mean()), float(held.mean(axis=0).min())])
    print(f"\nChanges of the same people, {n} panels each:\n")
    table(["panel", "panels", "coverage", "least of a category"], rows, 3, "changes of the same people")
    mean, least = float(np.mean([row[2] for row in rows])), float(min(row[2] for row in rows))
    error = float(np.sqrt(0.05 * 0.95 / n))
    return [
        finding(
            "changes of the same people",
            f"intervals of changes of the same people hold {mean:.1%} of them, and {least:.1%} in the worst of "
            f"{len(rows)} panels",
            least >= OVERALL[0] - 3 * error,
            coverage=mean,
            least=least,
        )
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
    return [*budgets(options), *panels(options), *coverage(options)]


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
