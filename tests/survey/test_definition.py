"""survey.toml: what it may say, and that an error has the line of the mistake."""

import numpy as np
import pytest

from adobest_pp.survey import EXAMPLE, Survey, read_survey, spending
from adobest_pp.survey.budget import (
    Spending,
    all_waves,
    epsilon_of_changes,
    half_width,
    people_needed,
    ways_to_spend,
)
from tests.cli.test_main import run_here
from tests.refusals import refuses


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "survey.toml"
    target.write_text(EXAMPLE, encoding="utf-8")
    return target


def line(text, part):
    return EXAMPLE.splitlines().index(next(each for each in EXAMPLE.splitlines() if each.startswith(part))) + 1 + text


@pytest.mark.parametrize(
    ("before", "after", "at", "expected"),
    [
        ("epsilon = 2.0", 'epsilon = "2"', "epsilon", "budget.epsilon must be a valid number, got '2'"),
        ("epsilon = 2.0", "epsilon = 31.0", "epsilon", "budget.epsilon must be less than or equal to 30, got 31"),
        ("epsilon = 2.0", "epsilom = 2.0", "epsilon", "budget.epsilom is not known: known are associations, epsilon"),
        ("epsilon = 2.0", "epsilon = 0.02", "epsilon", "budget.epsilon must leave at least 0.01 for each answer"),
        ("expected = 3000", "expected = 0", "expected", "people.expected must be greater than or equal to 1, got 0"),
        ('"65+" = 0.22', '"65+" = 0.32', "[margins.age]", "margins.age must be shares of the population that sum to 1"),
        ("[margins.age]", "[margins.sex]", "[margins.age]", "margins.sex must be of a column of people.groups"),
        ('labels = ["no", "yes"]', 'labels = ["no"]', 'labels = ["no", "yes"]', "questions[2].labels must be at least"),
        ('labels = ["no", "yes"]', 'labels = ["no", "no"]', 'labels = ["no", "yes"]', "questions[2].labels categories"),
        (
            'labels = ["no", "yes"]',
            "bins = [0, 9, 9]",
            'labels = ["no", "yes"]',
            "questions[2].bins must be at least",
        ),
        (
            'labels = ["no", "yes"]',
            "bins = [0, 9]",
            'labels = ["no", "yes"]',
            "questions[2].bins must be at least",
        ),
        (
            'labels = ["no", "yes"]',
            "bins = [0, 9, inf]",
            'labels = ["no", "yes"]',
            "three rising numbers, the ends",
        ),
        ('labels = ["no", "yes"]', 'bins = [0, "9", 10]', 'labels = ["no", "yes"]', "bins[2] must be a valid number"),
        (
            'labels = ["no", "yes"]',
            'labels = ["no", "yes"]\nbins = [0, 9, 10]',
            'labels = ["no", "yes"]',
            "questions[2].labels must be left out if there are bins",
        ),
        ("sensitive = false", "ordered = 1", "sensitive", "questions[4].ordered must be a valid boolean, got 1"),
        ('name = "sport"', 'name = "../x"', 'name = "sport"', "questions[4].name must be letters, digits"),
        ("sensitive = false", "sensitive = 0", "sensitive", "questions[4].sensitive must be a valid boolean, got 0"),
        ("guess = [0.80", "guess = [0.90", "[[questions]]", "questions[1] guess must be 4 shares that sum to 1"),
        (
            'spend = "auto"',
            'spend = "all"',
            "spend",
            "spend must be 'auto', 'split', 'one' or 'pair', got 'all'",
        ),
        ('groups = ["region", "age"]', 'groups = ["region", "age", "sport"]', "[people]", "got 'sport' twice"),
        ('groups = ["region", "age"]', 'groups = ["region", "age", "row"]', "[people]", "other columns than row"),
        ('name = "sport"', 'name = "Cannabis"', "[[questions]]", "different names, got 'cannabis' twice"),
        ('waves = ["2026"', 'waves = ["2027"', "waves", "waves must be different names"),
    ],
)
def test_a_mistake_is_told_with_its_line(path, before, after, at, expected):
    assert EXAMPLE.count(before) == 1
    path.write_text(EXAMPLE.replace(before, after), encoding="utf-8")
    with pytest.raises(ValueError, match=r"survey\.toml, line \d+: ") as info:
        read_survey(path)
    assert expected in str(info.value)
    assert f"line {line(0, at)}: " in str(info.value)
    assert "\n" not in str(info.value)


def test_what_is_missing_and_what_is_no_toml_is_told(path):
    path.write_text(EXAMPLE.replace("expected = 3000\n", ""), encoding="utf-8")
    with refuses("people"):
        read_survey(path)
    path.write_text('title = "a\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"not TOML: .* line 1"):
        read_survey(path)
    path.write_bytes(b"title = '\xff'")
    with pytest.raises(ValueError, match="save it as UTF-8"):
        read_survey(path)
    with refuses("path", FileNotFoundError):
        read_survey(path.parent / "none.toml")
    same = EXAMPLE.replace("same = false", "same = true").replace('id = "id"\n', "")
    path.write_text(same, encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 34: people.same must come with id"):
        read_survey(path)


def test_bins_make_their_labels_and_a_question_needs_one_of_both(path):
    path.write_text(EXAMPLE.replace('labels = ["no", "yes"]', "bins = [-2.5, 0, 10, 1000000]"), encoding="utf-8")
    survey = read_survey(path)
    question = survey.question("drink_drive")
    assert question.labels == ["−2.5 to below 0", "0 to below 10", "10 to 1000000"]
    assert question.has_order
    assert not survey.question("cannabis").has_order
    assert Survey.model_validate(survey.model_dump()) == survey
    path.write_text(EXAMPLE.replace('labels = ["no", "yes"]\n', ""), encoding="utf-8")
    header = [i for i, each in enumerate(EXAMPLE.splitlines(), start=1) if each == "[[questions]]"][1]
    with pytest.raises(ValueError, match=rf"line {header}: questions\[2\].labels must be at least two .* bins"):
        read_survey(path)


def survey_of(d, epsilon, people=3000, **budget):
    questions = [{"name": f"q{i}", "text": "?", "labels": ["a", "b", "c"]} for i in range(d)]
    about = {"title": "t", "budget": {"epsilon": epsilon, **budget}, "people": {"expected": people}}
    return Survey.model_validate(about | {"questions": questions})


def test_the_same_people_share_their_budget_over_the_waves():
    about = survey_of(2, 6.0).model_dump() | {"waves": ["a", "b", "c"]}
    assert Survey.model_validate(about).wave_epsilon == 6.0
    about["people"] |= {"same": True, "id": "id"}
    assert Survey.model_validate(about).wave_epsilon == 2.0


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_nobody_spends_more_than_the_budget_in_any_way(d, epsilon):
    for name, way in ways_to_spend(survey_of(d, epsilon)).items():
        assert way.person_epsilon == pytest.approx(epsilon, rel=1e-12)
        assert way.way == name
        assert way.share == pytest.approx(way.questions_each / d)


def test_the_choice_is_the_narrowest_and_associations_need_two_answers():
    small, large = spending(survey_of(4, 0.5)), spending(survey_of(2, 16.0))
    assert small.spending.way == "one"
    assert large.spending.way == "split"
    assert "each with the whole budget" in small.reason
    pair = spending(survey_of(4, 0.5, associations=True))
    assert pair.spending.way == "pair"
    assert "two answers of the same person" in pair.reason
    named = spending(survey_of(4, 0.5, spend="split"))
    assert named.spending.way == "split"
    assert named.reason.startswith("The survey says so")
    with refuses("survey"):
        spending("survey.toml")


def test_for_small_budgets_variances_are_those_of_the_formula():
    """Splitting multiplies the variance by d², drawing one question by d, a pair by 2 d (math.md, section 10)."""
    d, survey = 5, survey_of(5, 0.2)
    alone = half_width(survey.questions[0], Spending("split", 1, 0.2, 1.0), 3000)
    made = spending(survey)
    ratio = {name: (found["q0"].half_width / alone) ** 2 for name, found in made.prospects.items()}
    assert ratio["one"] == pytest.approx(d, rel=1e-6)
    assert ratio["split"] == pytest.approx(d**2, rel=0.2)
    assert ratio["pair"] == pytest.approx(2 * d, rel=0.15)


def test_the_number_of_people_gives_the_wanted_half_width():
    survey = survey_of(3, 2.0, half_width=0.04)
    made = spending(survey)
    n = people_needed(survey, made)
    reached = spending(survey, n).prospects[made.spending.way]
    assert np.mean([each.half_width for each in reached.values()]) == pytest.approx(0.04, rel=0.01)
    assert people_needed(survey_of(3, 2.0), made) is None


def test_new_check_and_plan_by_commands(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert run_here(capsys, "survey", "new", path).returncode == 0
    again = run_here(capsys, "survey", "new", path)
    assert again.returncode == 2
    assert path.read_text(encoding="utf-8") == EXAMPLE
    checked = " ".join(run_here(capsys, "survey", "check", path).stdout.split())
    assert "Each person spends at most ε = 2 in all, 3 waves: one question is drawn for each person." in checked
    assert "a factor of at most e^ε = 7.39" in checked
    assert "Asked openly, kept as they are and outside the budget: sport." in checked
    planned = run_here(capsys, "survey", "plan", path)
    assert "Take one." in planned.stdout
    assert "never 80%, once or twice 11%" in " ".join(planned.stdout.split())
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(EXAMPLE.replace("epsilon = 2.0", "epsilon = -1.0"), encoding="utf-8")
    done = run_here(capsys, "survey", "check", wrong)
    assert done.returncode == 2
    assert "budget.epsilon must be greater than 0, got -1.0" in done.stderr


MEMOIZED = EXAMPLE.replace("# wave_epsilon", "wave_epsilon").replace("same = false", "same = true")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("same = true", "same = false", "must come with people.same = true and several waves"),
        ("wave_epsilon = 1.0", "wave_epsilon = 2.0", "must be below budget.epsilon, 2, got 2"),
        ("on_devices = false", "on_devices = true", "must be left out if people answer in browsers"),
        ('name = "drink_drive"', 'name = "drink_drive"\nmechanism = "rrrr"', "or the mechanism of 'drink_drive'"),
    ],
)
def test_memoized_waves_that_cannot_be_are_refused_at_their_line(path, before, after, expected):
    path.write_text(MEMOIZED.replace(before, after), encoding="utf-8")
    at = next(i for i, each in enumerate(MEMOIZED.splitlines(), start=1) if each.startswith("wave_epsilon"))
    with pytest.raises(ValueError, match=f"line {at}: budget.wave_epsilon ") as info:
        read_survey(path)
    assert expected in str(info.value)


def test_memoized_budgets_are_for_all_waves_and_for_one(path, capsys):
    path.write_text(MEMOIZED, encoding="utf-8")
    survey = read_survey(path)
    way = spending(survey).spending
    assert (way.person_epsilon, way.epsilon * way.questions_each) == (2.0, 1.0)
    assert epsilon_of_changes(survey, way, 0) == 2.0 < epsilon_of_changes(survey, way, 1)
    printed = " ".join(run_here(capsys, "survey", "check", path).stdout.split())
    assert "memoized: ε = 2 bounds what all waves together tell, and ε = 1 what one wave alone tells" in printed
    assert (
        f"differ in one wave, all waves together tell at most ε = {epsilon_of_changes(survey, way, 1):.3g}" in printed
    )


def test_a_change_costs_as_much_as_the_dearest_questions_that_a_person_may_be_asked(path):
    path.write_text(MEMOIZED, encoding="utf-8")
    survey = read_survey(path)
    for way in ways_to_spend(survey).values():
        costs = [all_waves(each, way, len(survey.waves)).epsilon_of_changes(1) for each in survey.private_questions]
        assert len(set(costs)) > 1
        dearest = sorted(costs, reverse=True)[: way.questions_each]
        assert epsilon_of_changes(survey, way, 1) == pytest.approx(sum(dearest), rel=1e-12)
