"""Homework, exam and syllabus: numbers are computed, times add up, and students get no solutions."""

import re

import pytest

import adobest_pp as ad
from adobest_pp.mechanisms import guess_bound
from adobest_pp.teaching import numbers_in
from adobest_pp.teaching.pages import LESSONS, exam_page, homework_page, load_file, makers, syllabus_page


@pytest.fixture(scope="module")
def problems():
    return load_file("problems")


@pytest.fixture(scope="module")
def plans():
    return {plan.title: plan for plan in load_file("syllabus").PLANS}


def test_numbers_of_solutions_are_what_the_code_computes(problems):
    for given in (problems.HOMEWORK, problems.EXAM):
        assert len(given) == 10
        numbers = [list(numbers_in(problem.solution)) for problem in given]
        assert all(numbers)
        assert [one for each in numbers for one in each if not one.holds] == []
    assert ad.SRR(4, 3.0).best_guess(problems.SPECIES) == pytest.approx(guess_bound(3.0, problems.SPECIES), rel=1e-12)


def test_the_exam_has_a_point_for_each_minute(problems):
    assert sum(problem.points for problem in problems.EXAM) == 90
    assert all(1 <= problem.after <= len(LESSONS) for problem in (*problems.HOMEWORK, *problems.EXAM))


def test_times_add_up(plans):
    assert plans["One hour"].minutes == 60
    assert plans["One day"].minutes == 300
    assert [step.minutes for step in plans["One term"].steps] == [90] * 12
    lessons = [step.lesson for step in plans["One term"].steps if step.lesson]
    assert lessons == list(range(1, len(LESSONS) + 1))


def test_homework_is_given_once_and_after_its_lesson(problems, plans):
    taught, given = 0, []
    for step in plans["One term"].steps:
        taught = max(taught, step.lesson or 0)
        given += step.homework
        assert all(problems.HOMEWORK[number - 1].after <= taught for number in step.homework)
    assert sorted(given) == list(range(1, 11))


def test_students_get_no_solutions_and_no_exam(problems):
    assert homework_page(lecturer=True).count(">Solution<") == 10
    assert ">Solution<" not in homework_page()
    assert exam_page(solved=True).count(">Solution<") == 10
    assert ">Solution<" not in exam_page(solved=False)
    assert {"homework", "syllabus"} <= set(makers())
    assert not {"exam", "exam-paper"} & set(makers())
    assert {"exam", "exam-paper"} <= set(makers(lecturer=True))
    for page in (homework_page(), exam_page(solved=True), syllabus_page(), syllabus_page(lecturer=True)):
        assert "(now " not in page
        assert not re.search(r"""(src|href)\s*=\s*["'](?!data:,|[a-z_-]+\.html")""", page)
    assert "exam.html" not in syllabus_page()
