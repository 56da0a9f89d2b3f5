"""Surveys: several questions of one budget, in waves, by groups of people, from one file to the report.

- `read_survey` reads ``survey.toml``; `Survey` says what is asked, of whom, and with what budget.
- `spending` says how a person's budget is spent, and why.
- `collect_wave` randomizes a file of people; `read_answers` returns answers with the public columns of the people.
- `estimate_survey` estimates all questions and waves.
"""

from typing import TYPE_CHECKING

from adobest_pp._lazy import lazy_names

if TYPE_CHECKING:
    from adobest_pp.survey.budget import Spending as Spending
    from adobest_pp.survey.budget import spending as spending
    from adobest_pp.survey.collecting import Answers as Answers
    from adobest_pp.survey.collecting import collect_wave as collect_wave
    from adobest_pp.survey.collecting import read_answers as read_answers
    from adobest_pp.survey.definition import EXAMPLE as EXAMPLE
    from adobest_pp.survey.definition import Survey as Survey
    from adobest_pp.survey.definition import read_survey as read_survey

_HOMES = {
    "Answers": "collecting",
    "EXAMPLE": "definition",
    "Spending": "budget",
    "Survey": "definition",
    "collect_wave": "collecting",
    "read_answers": "collecting",
    "read_survey": "definition",
    "spending": "budget",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
