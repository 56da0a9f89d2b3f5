"""The definition of a survey in one TOML file: its questions, its budget, its people and its waves.

pydantic checks the file, and errors name the line of a mistake. `EXAMPLE` is what `adobest survey new` writes.
"""

import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from adobest_pp._checks import MAX_EPSILON, check_path
from adobest_pp._text import brief, check_labels
from adobest_pp.collect.policies import DEFAULT_MECHANISM, mechanism_name
from adobest_pp.design.overview import LEAST_EPSILON, shape

Text = Annotated[str, Field(min_length=1, max_length=2000)]
# A name is also that of a file and of a column.
NAME = re.compile(r"[\w][\w .-]{0,59}")
MOST_QUESTIONS, MOST_WAVES = 50, 50
# How far the shares of a margin may be from a sum of one: they are often rounded to per cent.
ROUNDED = 0.01
# The columns that are kept of every person, whatever the survey says.
KEPT = ("row", "person")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, str_strip_whitespace=True)


class SurveyQuestion(_Part):
    """One question: its name, its text, and its possible answers, or the bins of a number."""

    name: str
    text: Text
    bins: list[float] | None = None
    labels: Annotated[list[str], Field(validate_default=True)] = []
    ordered: bool = False
    sensitive: bool = True
    column: str | None = None
    mechanism: str = DEFAULT_MECHANISM
    guess: list[float] | None = None

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError("must be letters, digits, spaces, dots, dashes and underscores, at most 60")
        return name

    @field_validator("bins")
    @classmethod
    def _bins(cls, bins: list[float] | None) -> list[float] | None:
        if bins is not None and (
            len(bins) < 3 or not all(map(math.isfinite, bins)) or any(low >= high for low, high in pairwise(bins))
        ):
            raise ValueError("must be at least three rising numbers, the ends of the bins")
        return bins

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: list[str], info: ValidationInfo) -> list[str]:
        if "bins" not in info.data:
            return labels  # the mistake is in the bins
        if info.data["bins"] is not None:
            made = bin_labels(info.data["bins"])
            if labels and labels != made:
                raise ValueError("must be left out if there are bins, whose labels are made from their ends")
            return made
        if len(labels) < 2:
            raise ValueError("must be at least two possible answers, unless there are bins")
        return list(check_labels(labels, len(labels)))

    @field_validator("mechanism")
    @classmethod
    def _mechanism(cls, name: str) -> str:
        return mechanism_name(name)

    @model_validator(mode="after")
    def _guess(self) -> "SurveyQuestion":
        if self.guess is not None and (
            len(self.guess) != len(self.labels)
            or not all(0 <= share <= 1 for share in self.guess)
            or abs(sum(self.guess) - 1) > ROUNDED
        ):
            raise ValueError(f"guess must be {len(self.labels)} shares that sum to 1, one for each label")
        return self

    @property
    def source(self) -> str:
        """The column of the file of people."""
        return self.column or self.name

    @property
    def has_order(self) -> bool:
        """Whether the answers go from less to more: then there are medians and quartiles."""
        return self.ordered or self.bins is not None

    @property
    def shares(self) -> list[float]:
        """The shares that the survey is planned for: the guess, or proportional to 1, 1/2, 1/3 and so on."""
        guess = self.guess or shape("uneven", len(self.labels)).tolist()
        return [share / math.fsum(guess) for share in guess]


class Budget(_Part):
    """What one person may lose over all questions and waves, and how it is spent."""

    epsilon: Annotated[float, Field(gt=0, le=MAX_EPSILON)]
    spend: Literal["auto", "split", "one", "pair"] = "auto"
    wave_epsilon: Annotated[float, Field(gt=0, le=MAX_EPSILON)] | None = None
    associations: bool = False
    half_width: Annotated[float, Field(gt=0, lt=0.5)] | None = None


class People(_Part):
    """Who is asked, and which columns of their file are public."""

    expected: Annotated[int, Field(ge=1)]
    on_devices: bool = False
    same: bool = False
    id: str | None = None
    fixed: list[str] = []
    groups: list[str] = []
    choices: dict[str, list[str]] = {}
    weight: str | None = None
    ignore_case: bool = False
    missing: list[str] = []


class Survey(_Part):
    """A survey: what `read_survey` returns."""

    title: Text
    organization: Text = "(name of your organization)"
    contact: Text = "(how to reach you)"
    purpose: Text = "(what the answers are for)"
    waves: Annotated[list[str], Field(min_length=1, max_length=MOST_WAVES)] = ["1"]
    budget: Budget
    people: People
    margins: dict[str, dict[str, float]] = {}
    questions: Annotated[list[SurveyQuestion], Field(min_length=1, max_length=MOST_QUESTIONS)]

    @field_validator("waves")
    @classmethod
    def _waves(cls, waves: list[str]) -> list[str]:
        if len(set(waves)) < len(waves) or not all(NAME.fullmatch(wave) for wave in waves):
            raise ValueError("must be different names of letters, digits, spaces, dots, dashes and underscores")
        return waves

    @model_validator(mode="after")
    def _fits_together(self) -> "Survey":
        people, sensitive = self.people, [each for each in self.questions if each.sensitive]
        names = Counter(each.name.casefold() for each in self.questions)
        twice = next((each.name for each in self.questions if names[each.name.casefold()] > 1), None)
        if twice is not None:
            raise _At(("questions",), f"must have different names, got {twice!r} twice")
        if not sensitive:
            raise _At(("questions",), "must have at least one that is sensitive: others are not randomized")
        columns = [each.source for each in self.questions] + self.public + ([people.id] if people.id else [])
        double = next((name for name, times in Counter(columns).items() if times > 1), None)
        if double is not None:
            raise _At(("people",), f"must name columns once, got {double!r} twice: a private column is not public")
        reserved = next((name for name in self.public if name in KEPT), None)
        if reserved is not None:
            raise _At(("people",), f"must name other columns than {', '.join(KEPT)}, got {reserved!r}")
        if people.same and len(self.waves) > 1 and people.id is None:
            raise _At(("people", "same"), "must come with id, the column that identifies people in the next wave")
        for column, labels in people.choices.items():
            if column not in people.groups:
                raise _At(("people", "choices"), f"must be of columns of people.groups, got {column!r}")
            if len(set(labels)) < max(2, len(labels)):
                raise _At(("people", "choices"), f"must have at least two different labels, got others for {column!r}")
            if column in self.margins and set(labels) != set(self.margins[column]):
                raise _At(("people", "choices"), f"must have the labels of margins.{column} for {column!r}")
        unknown = [column for column in self.margins if column not in people.groups]
        if unknown:
            raise _At(("margins", unknown[0]), "must be of a column of people.groups")
        for column, margin in self.margins.items():
            total = math.fsum(margin.values())
            if not all(0 < share <= 1 for share in margin.values()) or abs(total - 1) > ROUNDED:
                raise _At(
                    ("margins", column), f"must be shares of the population that sum to 1, got a sum of {total:g}"
                )
        self._check_memoized(sensitive)
        least = self.wave_epsilon / len(sensitive)
        if least < LEAST_EPSILON and self.budget.spend in ("auto", "split"):
            waves = f" in {len(self.waves)} waves" if people.same and len(self.waves) > 1 else ""
            raise _At(
                ("budget", "epsilon"),
                f"must leave at least {LEAST_EPSILON:g} for each answer, got {self.budget.epsilon:g} for "
                f"{len(sensitive)} questions{waves}, or {least:.2g} for each: ask fewer questions, or draw one for "
                'each person (spend = "one")',
            )
        return self

    def _check_memoized(self, sensitive: list[SurveyQuestion]) -> None:
        """Raise `_At` if answers cannot be memoized as the survey says."""
        wave, people, place = self.budget.wave_epsilon, self.people, ("budget", "wave_epsilon")
        if wave is None:
            return
        if not people.same or len(self.waves) < 2:
            raise _At(place, "must come with people.same = true and several waves: it is for people who answer again")
        if wave >= self.budget.epsilon:
            raise _At(place, f"must be below budget.epsilon, {self.budget.epsilon:g}, got {wave:g}")
        if people.on_devices:
            raise _At(place, "must be left out if people answer in browsers, which keep no permanent answer")
        other = next((each for each in sensitive if each.mechanism not in (DEFAULT_MECHANISM, "srr")), None)
        if other is not None:
            raise _At(place, f"must be left out, or the mechanism of {other.name!r}: memoized answers have their own")

    @property
    def is_memoized(self) -> bool:
        """Whether everybody keeps a permanent answer to each question, which is randomized again in each wave."""
        return self.budget.wave_epsilon is not None

    @property
    def asked_columns(self) -> dict[str, list[str]]:
        """The public columns that people are asked for on their own devices: those whose labels the survey has."""
        known = {column: list(margin) for column, margin in self.margins.items()} | self.people.choices
        return {column: known[column] for column in self.people.groups if column in known}

    @property
    def public(self) -> list[str]:
        """The public columns that are kept with the answers, without the identifier."""
        people = self.people
        if people.on_devices:
            return list(self.asked_columns)
        named = [*people.groups, *people.fixed, *([] if people.weight is None else [people.weight])]
        return list(dict.fromkeys(named))

    @property
    def private_questions(self) -> list[SurveyQuestion]:
        """The sensitive questions."""
        return [each for each in self.questions if each.sensitive]

    @property
    def wave_epsilon(self) -> float:
        """The budget of one wave alone: the whole budget, unless the same people answer in several waves."""
        if self.budget.wave_epsilon is not None:
            return self.budget.wave_epsilon
        return self.budget.epsilon / (len(self.waves) if self.people.same else 1)

    def question(self, name: str) -> SurveyQuestion:
        """Return the question of this name, or raise ValueError."""
        found = next((each for each in self.questions if each.name == name), None)
        if found is None:
            raise ValueError(f"question must be one of {', '.join(each.name for each in self.questions)}, got {name!r}")
        return found

    def wave(self, name: str | None) -> str:
        """Return the wave of this name, the only one if None, or raise ValueError."""
        if name is None and len(self.waves) == 1:
            return self.waves[0]
        if name not in self.waves:
            raise ValueError(f"wave must be one of {', '.join(self.waves)}, got {brief(name)}")
        return str(name)


class _At(ValueError):
    """A mistake at a place of the file that pydantic does not know."""

    def __init__(self, place: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.place = place


def bin_labels(bins: Sequence[float]) -> list[str]:
    """Return the labels of bins: a number at an end is in the bin that begins there, the last end in the last bin.

    Examples
    --------
    >>> from adobest_pp.survey.definition import bin_labels
    >>> bin_labels([0, 0.5, 10, 50])
    ['0 to below 0.5', '0.5 to below 10', '10 to 50']
    """
    # Every digit counts; and a hyphen at the beginning would be a formula to a spreadsheet.
    ends = [(str(int(end)) if float(end).is_integer() else repr(float(end))).replace("-", "−") for end in bins]
    *others, last = pairwise(ends)
    return [*(f"{low} to below {high}" for low, high in others), f"{last[0]} to {last[1]}"]


def read_survey(path: str | os.PathLike[str]) -> Survey:
    """Read a survey, or raise ValueError with the line of the first mistake.

    Parameters
    ----------
    path : path
        A TOML file, such as `adobest survey new` writes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from adobest_pp.survey import EXAMPLE, read_survey
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "survey.toml"
    ...     _ = path.write_text(EXAMPLE, encoding="utf-8")
    ...     survey = read_survey(path)
    >>> survey.budget.epsilon, [question.name for question in survey.private_questions]
    (2.0, ['cannabis', 'drink_drive', 'income_hidden'])
    """
    place, name = check_path(path), os.fspath(path)
    if not place.is_file():
        raise FileNotFoundError(f"path must name a survey, got {name!r}, which does not exist: adobest survey new")
    try:
        text = place.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{name}: a survey must be text in UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{name}: not TOML: {problem}") from None
    try:
        return Survey.model_validate(content)
    except ValidationError as problem:
        raise ValueError(_mistakes(problem, text, name)) from None


def _mistakes(problem: ValidationError, text: str, name: str) -> str:
    """Return the first mistake of a survey with its line, and how many more there are."""
    errors: list[Any] = problem.errors(include_url=False)
    # Missing fields come last: another mistake is often the misspelt name of one.
    first = min(errors, key=lambda each: (each["type"] == "missing", each["type"] == "value_error"))
    reason = first.get("ctx", {}).get("error")
    place = reason.place if isinstance(reason, _At) else tuple(first["loc"])
    given = "" if isinstance(reason, _At) or isinstance(first["input"], dict) else f", got {brief(first['input'])}"
    if first["type"] == "missing":
        what, place = f"must have {place[-1]}", place[:-1]
    elif first["type"] == "extra_forbidden":
        allowed = ", ".join(sorted(_fields_at(place[:-1])))
        what, given = f"is not known: known are {allowed}", ""
    elif reason is not None:
        what = str(reason)
    else:
        what = re.sub(r"^(Input|String|Value|List) should", "must", first["msg"])
    # Such as questions[2].labels.
    words = "".join(f"[{each + 1}]" if isinstance(each, int) else f".{each}" for each in place).removeprefix(".")
    more = f" (and {len(errors) - 1} more mistakes)" if len(errors) > 1 else ""
    return f"{name}, line {line_of(text, place)}: {words or 'the survey'} {what}{given}{more}"


def _fields_at(place: Sequence[str | int]) -> list[str]:
    parts: dict[Any, type[BaseModel]] = {"questions": SurveyQuestion, "budget": Budget, "people": People}
    return list((parts[place[0]] if place and place[0] in parts else Survey).model_fields)


def line_of(text: str, place: Sequence[str | int]) -> int:
    r"""Return the line of a TOML text in which a place begins: its key, or else its table, or else 1.

    Examples
    --------
    >>> from adobest_pp.survey.definition import line_of
    >>> line_of('[[questions]]\nname = "a"\n[[questions]]\nname = "b"', ("questions", 1, "name"))
    4
    """
    lines = text.splitlines()
    headers = {i: name for i, line in enumerate(lines) if (name := _header(line)) is not None}
    number = next((each for each in place[1:2] if isinstance(each, int)), None)
    depth = 2 if len(place) > 2 and place[0] == "margins" else 1
    table = ".".join(map(str, place[:depth]))
    mine = [i for i, name in headers.items() if name == table]
    mine = mine or [i for i, name in headers.items() if name.startswith(f"{table}.")]
    first, last, line, rest = 0, min(headers, default=len(lines)), 1, place
    if mine:
        first = mine[min(number or 0, len(mine) - 1)]
        last, line = next((i for i in headers if i > first), len(lines)), first + 1
        rest = place[depth if number is None else 2 :]
    key = next((each for each in rest if isinstance(each, str)), None)
    wanted = re.compile(rf"\s*[\"']?{re.escape(key or '')}[\"']?\s*[=.]")
    return next((i + 1 for i in range(first, last) if key and wanted.match(lines[i])), line)


def _header(line: str) -> str | None:
    """Return the name of the table that a line of TOML begins, or None."""
    found = re.fullmatch(r"\s*(?:\[([^\[\]=,]+)\]|\[\[([^\[\]=,]+)\]\])\s*(?:#.*)?", line)
    name = "" if found is None else found[1] or found[2]
    return ".".join(part.strip().strip("\"'") for part in name.split(".")) or None


def folder_of(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a survey's answers: ``survey-answers`` beside ``survey.toml``."""
    place = Path(path)
    return place.with_name(f"{place.stem}-answers")


EXAMPLE = """\
# A survey: what is asked, how private it is, and who is asked. Change what you need, then run
#   adobest survey check survey.toml     what it means for one person, and whether something is wrong
#   adobest survey plan survey.toml      how wide the intervals will be, and how to spend the budget

title = "Health and habits"
organization = "Institute of Public Health"
contact = "survey@example.org"
purpose = "To plan advice and care in the twelve regions."

# The waves of the survey, in order. One is enough.
waves = ["2026", "2027", "2028"]

[budget]
# What one person may lose over all questions and all waves: the odds of any guess about the person rise by a factor of
# at most e^epsilon.
epsilon = 2.0
# How a person's budget is spent in a wave: "split" over all questions; "one" question is drawn for each person, and
# has all of it; a "pair" is drawn, and each has half; "auto" takes what gives the narrowest intervals.
spend = "auto"
# For people who answer in every wave: what one wave alone may reveal. Each answer is then randomized once, and this
# permanent answer is randomized again in each wave. epsilon covers all waves, for people whose answers stay the same.
# wave_epsilon = 1.0
# Do you want to know whether answers to two questions are associated? Then somebody must answer both.
associations = false
# The half-width of a 95 % interval that you would like, on average. Leave it out if you have none in mind.
half_width = 0.05

[people]
expected = 3000
# Do people answer on their own devices (adobest survey serve)? Otherwise you hold a file of their answers.
on_devices = false
# Do the same people answer in every wave? Then their budget is divided by the number of waves,
# unless wave_epsilon is set.
same = false
# The column that identifies people. It is never kept, only a random name in its place.
id = "id"
# Public columns that never change for a person: they show if somebody else answers under the same id.
fixed = ["born"]
# Public columns to estimate by, and the column of weights. They are kept with the answers, so they are no secret.
groups = ["region", "age"]
weight = "weight"
# On their own devices, people are asked for the groups that have margins below, or labels here:
# choices = { region = ["north", "south"] }
# Read "NEVER" as "never", and these values as no answer.
ignore_case = true
missing = ["n/a"]

# The shares of groups in the population, if you know them: the answers are weighted to them.
[margins.age]
"18-39" = 0.40
"40-64" = 0.38
"65+" = 0.22

[[questions]]
name = "cannabis"
text = "How often did you use cannabis in the past year?"
labels = ["never", "once or twice", "monthly", "weekly"]
# What you expect, if you have an idea: the plan is for these shares.
guess = [0.80, 0.11, 0.05, 0.04]

[[questions]]
name = "drink_drive"
text = "Did you drive after drinking in the past month?"
labels = ["no", "yes"]

[[questions]]
name = "income_hidden"
text = "Did you have income that you did not declare?"
labels = ["no", "some", "a lot"]

# A question that is not sensitive is asked openly: its answers are kept as they are, and cost no budget.
[[questions]]
name = "sport"
text = "How often do you do sports?"
labels = ["daily", "weekly", "less"]
sensitive = false
"""
