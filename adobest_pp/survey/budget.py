"""How a person's budget is spent on several questions, and how wide the intervals will be (docs/math.md, section 10).

The budgets of all answers of one person add up, whatever the questions. Three ways to spend ε on d sensitive questions:

- *split*: everybody answers every question, each answer with ε/d;
- *one*: one question is drawn for each person, at random and in public, and has all of ε; a question has n/d answers;
- *pair*: two questions are drawn for each person, each answer with ε/2; a question has 2n/d answers.

For small ε, the variance of an estimate is proportional to 1/(n ε²): splitting multiplies it by d², drawing one by d,
and a pair by 2d. So drawing one is better, unless associations are wanted, which need two answers of one person. For
large ε, where privacy costs little, splitting is better: everybody's answers count.

If answers are memoized, each person has a permanent answer for all waves to each of these questions, of budget ε, ε/d
or ε/2, and the questions that are drawn for a person are the same in every wave.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from adobest_pp._text import brief
from adobest_pp.collect.policies import Policy, SameQuestion, policy_by_name
from adobest_pp.design.overview import DESIGN, LEAST_EPSILON, candidate, unit_half_widths
from adobest_pp.design.plan import non_private_unit
from adobest_pp.mechanisms import Memoized
from adobest_pp.survey.definition import Survey, SurveyQuestion

# Half-widths within this share of the least count as equal: then everybody answers everything.
AS_GOOD = 0.02


class Spending(NamedTuple):
    """One way to spend the budget in a wave.

    Attributes
    ----------
    way : {"split", "one", "pair"}
        How.
    questions_each : int
        How many sensitive questions a person answers.
    epsilon : float
        The budget of one answer.
    share : float
        The share of the people who are asked a question.
    permanent : float, optional
        The budget of a permanent answer, for all waves, if answers are memoized; `epsilon` is then that of one wave.
    """

    way: str
    questions_each: int
    epsilon: float
    share: float
    permanent: float | None = None

    @property
    def person_epsilon(self) -> float:
        """What one person spends in one wave, or in all waves if answers are memoized."""
        return self.questions_each * (self.epsilon if self.permanent is None else self.permanent)


class Prospect(NamedTuple):
    """What to expect of a question: people who are asked, and the mean half-width of its 95 % intervals."""

    people: int
    half_width: float


class Budgeted(NamedTuple):
    """The way that was chosen, why, all ways that this survey could take by name, and prospects by way and question."""

    spending: Spending
    reason: str
    ways: dict[str, Spending]
    prospects: dict[str, dict[str, Prospect]]


def ways_to_spend(survey: Survey) -> dict[str, Spending]:
    """Return the ways to spend the budget of a wave on the sensitive questions of a survey."""
    d, epsilon = len(survey.private_questions), survey.wave_epsilon
    ways = {"split": Spending("split", d, epsilon / d, 1.0)}
    if d > 1:
        ways["one"] = Spending("one", 1, epsilon, 1 / d)
    if d > 2:
        ways["pair"] = Spending("pair", 2, epsilon / 2, 2 / d)
    if survey.is_memoized:
        total = survey.budget.epsilon
        ways = {name: way._replace(permanent=total / way.questions_each) for name, way in ways.items()}
    return {name: way for name, way in ways.items() if way.epsilon >= LEAST_EPSILON}


def policy_of(survey: Survey, question: SurveyQuestion, way: Spending, n_people: int) -> Policy:
    """Return how a sensitive question is asked in one wave."""
    k = len(question.labels)
    if way.permanent is not None:
        return SameQuestion(Memoized.from_budgets(k, way.permanent, way.epsilon, n_waves=1))
    return policy_by_name(question.mechanism, k, way.epsilon, n_people, {})


def all_waves(question: SurveyQuestion, way: Spending, n_waves: int) -> Memoized:
    """Return the mechanism of all memoized answers of one person to a question."""
    assert way.permanent is not None
    return Memoized.from_budgets(len(question.labels), way.permanent, way.epsilon, n_waves)


def epsilon_of_changes(survey: Survey, way: Spending, changes: int) -> float:
    """Return what a person can lose whose memoized answers in `changes` waves differ from those in the others."""
    losses = [all_waves(each, way, len(survey.waves)).epsilon_of_changes(changes) for each in survey.private_questions]
    return math.fsum(sorted(losses)[-way.questions_each :])


def half_width(question: SurveyQuestion, way: Spending, people: float) -> float:
    """Return the mean half-width of the 95 % intervals of a question, by the formula for many people."""
    theta = np.array(question.shares)
    # A design and RRRR adapt to the shares. They are planned as what they approach.
    name = question.mechanism if question.mechanism != DESIGN or theta.size <= 12 else "subset-selection"
    # One wave of memoized answers is randomized response.
    name = name if way.permanent is None else "srr"
    unit = unit_half_widths(candidate(name, theta, way.epsilon), theta)
    return float(unit.mean()) / math.sqrt(people)


def spending(survey: Survey, people: int | None = None) -> Budgeted:
    """Choose how to spend the budget of a survey, or take the way that it names.

    Parameters
    ----------
    survey : Survey
        What `read_survey` returns.
    people : int, optional
        How many will answer; by default what the survey expects.

    Examples
    --------
    >>> from adobest_pp.survey import Survey, spending
    >>> about = {"title": "Habits", "budget": {"epsilon": 1.0}, "people": {"expected": 3000}}
    >>> asked = [{"name": name, "text": name, "labels": ["no", "yes"]} for name in "abcd"]
    >>> spending(Survey.model_validate(about | {"questions": asked})).spending
    Spending(way='one', questions_each=1, epsilon=1.0, share=0.25, permanent=None)
    """
    if not isinstance(survey, Survey):
        raise ValueError(f"survey must be what read_survey returns, got {brief(survey)}")
    n = survey.people.expected if people is None else people
    ways = ways_to_spend(survey)
    prospects = {
        name: {
            each.name: Prospect(round(n * way.share), half_width(each, way, n * way.share))
            for each in survey.private_questions
        }
        for name, way in ways.items()
    }
    means = {name: float(np.mean([each.half_width for each in found.values()])) for name, found in prospects.items()}
    chosen, reason = _choice(survey, means)
    return Budgeted(ways[chosen], reason, ways, prospects)


def _choice(survey: Survey, means: dict[str, float]) -> tuple[str, str]:
    wanted, d = survey.budget.spend, len(survey.private_questions)
    shown = ", ".join(f"{name} ±{100 * mean:.1f} points" for name, mean in means.items())
    if d == 1:
        return "split", "There is one sensitive question: it has the whole budget."
    if wanted != "auto":
        name = "split" if wanted == "pair" and d == 2 else wanted
        if name not in means:
            raise ValueError(f"budget.spend must leave at least {LEAST_EPSILON:g} for each answer, got {wanted!r}")
        return name, f"The survey says so; mean half-widths would be: {shown}."
    pairs = survey.budget.associations
    allowed = {name: mean for name, mean in means.items() if name != "one" or not pairs}
    best = min(allowed, key=lambda name: (allowed[name] > (1 + AS_GOOD) * min(allowed.values()), name != "split"))
    why = {
        "split": "Everybody answers every question: with this budget, more answers are worth more than clearer ones",
        "one": "One question is drawn for each person: fewer answers, each with the whole budget, are worth more",
        "pair": "Two questions are drawn for each person",
    }[best]
    if pairs:
        why = "Associations need two answers of the same person. This way of getting them has the narrowest intervals"
    return best, f"{why} (mean half-widths: {shown})."


def people_needed(survey: Survey, budgeted: Budgeted) -> int | None:
    """Return how many people are needed for the wanted half-width in the chosen way; None if the survey has none."""
    wanted = survey.budget.half_width
    if wanted is None:
        return None
    way = budgeted.spending
    units = [half_width(each, way, 1) for each in survey.private_questions]
    return math.ceil((float(np.mean(units)) / wanted) ** 2 / way.share)


def honest_half_width(survey: Survey) -> float:
    """Return the mean half-width that as many honest answers to all questions would have."""
    units = [non_private_unit(np.array(each.shares)) for each in survey.private_questions]
    return float(np.mean(units)) / math.sqrt(survey.people.expected)


def as_plan(survey: Survey, budgeted: Budgeted) -> dict[str, Any]:
    """Return the plan of a survey as plain values."""
    return {
        "way": budgeted.spending.way,
        "reason": budgeted.reason,
        "person_epsilon": survey.budget.epsilon,
        "wave_epsilon": survey.wave_epsilon,
        "answer_epsilon": budgeted.spending.epsilon,
        "ways": {name: way._asdict() for name, way in budgeted.ways.items()},
        "prospects": {
            name: {question: each._asdict() for question, each in found.items()}
            for name, found in budgeted.prospects.items()
        },
        "shares": {each.name: dict(zip(each.labels, each.shares, strict=True)) for each in survey.private_questions},
        "people_needed": people_needed(survey, budgeted),
    }
