"""The answers of a survey: one collection for each wave and question, with the public columns of the people.

The answers of ``survey.toml`` are in the folder ``survey-answers``, in ``<wave>/<question>.db``. Every answer has its
row, the public columns and a name of the person beside it. That name is an HMAC of the person's id, whose key is in
``survey.key``: whoever has the answers alone cannot tell who gave them, and the answers of one person in two waves
belong together. Who was asked and gave no answer is recorded, too.

What a person has spent is counted from the answers that are there, so no other file can be lost or forgotten: a wave
that would spend more than the survey's ε is refused before anybody is asked.

If answers are memoized, every person has a permanent answer to each question that is drawn for them: one for every
category, drawn before x is looked at. They are what people's devices would keep, and are in ``survey.key``, too. They
are on disk before anybody is asked, and a wave is refused if those of somebody who has answered are not there.

Which question is drawn for a person follows from the key, the wave and the person's name: a wave that was stopped goes
on with the same questions, and nobody answers two of them.
"""

import hmac
import logging
import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adobest_pp._checks import MAX_EPSILON, check_path
from adobest_pp._files import replacing, seal, unseal
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.responses import Responses
from adobest_pp.answers.store import PublicColumns, read_collection, read_public
from adobest_pp.collect.collection import Collection
from adobest_pp.collect.people_file import ROW, Asked, Ledger, Values, ask_in_turn, new_entry
from adobest_pp.collect.people_table import NO_VALUE, as_bins, as_categories, as_numbers, read_texts
from adobest_pp.collect.policies import SameQuestion
from adobest_pp.mechanisms import SRR, Memoized
from adobest_pp.mechanisms.published_question import PublishedQuestion
from adobest_pp.survey.budget import Spending, all_waves, policy_of, spending
from adobest_pp.survey.definition import Survey, SurveyQuestion, folder_of, read_survey

logger = logging.getLogger("adobest_pp")

PERSON = "person"
# The poll of a wave on people's own devices; its other files are named after it.
POLL = "poll.db"
# Of the file of the key.
SCHEMA = "adobest_pp.survey_key"
# The wave of what is spent on permanent answers, once for all waves: no wave has this name.
ALL_WAVES = ""
# Budgets that differ by rounding only are equal.
ROUNDING = 1e-9


class Answers(NamedTuple):
    """The answers to one question in one wave, and what is public of the people."""

    responses: Responses
    public: PublicColumns

    def silent(self) -> list[int]:
        """Return the places of the people in `public.silent` who have not answered later either."""
        late = {*self.public.answered.get(PERSON, ())}
        return [i for i, person in enumerate(self.public.silent.get(PERSON, ())) if person not in late]

    def weights(self, column: str | None) -> Floats | None:
        """Return the weights of the answers, or None if the survey has none."""
        known = self.public.answered.get(column or "")
        return None if known is None else np.array([float(each) for each in known])


class WaveCounts(NamedTuple):
    """How many people of a wave were asked a question, and how many gave an answer."""

    asked: int
    answered: int


def file_of(path: str | os.PathLike[str], wave: str, question: str) -> Path:
    """Return the file of the answers to a question in a wave: of a poll if one was served, else of a file of people."""
    place = folder_of(path) / wave
    if (place / f"{POLL}-desk").exists():
        names = [each.name for each in read_survey(path).private_questions]
        number = names.index(question) + 1 if question in names else 0
        return place / {0: "none", 1: POLL}.get(number, f"{Path(POLL).stem}-{number}.db")
    return place / f"{question}.db"


def poll_of(path: str | os.PathLike[str], wave: str) -> Path:
    """Return the file of the poll of a wave on people's own devices."""
    return folder_of(path) / wave / POLL


def read_answers(path: str | os.PathLike[str], wave: str, question: str) -> Answers | None:
    """Return the answers to a question in a wave, or None if nobody was asked yet.

    Parameters
    ----------
    path : path
        The survey.
    wave, question : str
        Their names.
    """
    file = file_of(path, wave, question)
    return Answers(read_collection(file), read_public(file)) if file.exists() else None


class PeopleRead(NamedTuple):
    """A file of people as a survey reads it. Nothing of it is shown."""

    codes: dict[str, Integers]
    public: list[dict[str, str | int]]
    ids: list[str] | None

    def __repr__(self) -> str:
        return f"<PeopleRead: {len(self.public)} people>"


def read_people(survey: Survey, people: str | os.PathLike[str]) -> PeopleRead:
    """Read a file of people, and check it before anybody is asked, or raise ValueError.

    Parameters
    ----------
    survey : Survey
        What `read_survey` returns.
    people : path
        A file of people; `adobest_pp.collect.people_table` has the rules.
    """
    about = survey.people
    public = [*survey.public, *([] if about.id is None else [about.id])]
    numbers = [each.source for each in survey.questions if each.bins is not None]
    labelled = [each.source for each in survey.questions if each.bins is None]
    texts = read_texts(people, labelled, [*numbers, *public])
    codes: dict[str, Integers] = {}
    for each in survey.questions:
        try:
            given = texts[each.source]
            codes[each.name] = (
                as_categories(given, each.source, each.labels, about.ignore_case, about.missing)[0]
                if each.bins is None
                else as_bins(given, each.source, each.bins, about.missing)
            )
        except ValueError as problem:
            raise ValueError(f"question {each.name!r}: {problem}") from None
    n = len(texts[survey.questions[0].source])
    if not n:
        raise ValueError(f"people must name a file with at least one person, got none in {os.fspath(people)!r}")
    if about.weight is not None:
        texts[about.weight] = [repr(each) for each in _weights(texts[about.weight], about.weight).tolist()]
    for column, margin in survey.margins.items():
        absent = sorted({text for text in texts[column] if text not in margin})
        if absent:
            raise ValueError(
                f"margins.{column} must have a share of everybody's {column}, got none of {brief(absent)}: add it, or "
                "leave these people out of the file"
            )
    ids = None if about.id is None else _ids(texts[about.id], about.id)
    rows: list[dict[str, str | int]] = [
        {ROW: row + 1, **{name: texts[name][row] for name in survey.public}} for row in range(n)
    ]
    return PeopleRead(codes, rows, ids)


def _weights(texts: Sequence[str], column: str) -> Floats:
    """Return everybody's weight, or raise ValueError."""
    weights = as_numbers(texts, column)
    for row, weight in enumerate(weights.tolist(), start=1):
        if not 0 < weight < np.inf:
            got = "none" if np.isnan(weight) else f"{weight:g}"
            raise ValueError(f"column {column!r} must hold a positive weight of everybody, got {got} in row {row}")
    return weights


def _ids(texts: list[str], column: str) -> list[str]:
    """Return everybody's id, or raise ValueError."""
    if "" in texts:
        raise ValueError(f"column {column!r} must hold an id of everybody, got none in row {texts.index('') + 1}")
    twice = next((each for each, times in Counter(texts).items() if times > 1), None)
    if twice is not None:
        first = texts.index(twice)
        raise ValueError(
            f"column {column!r} must hold different ids, got the same in rows {first + 1} and "
            f"{texts.index(twice, first + 1) + 1}: one person would answer twice"
        )
    return texts


@raising_interrupts()
def collect_wave(
    path: str | os.PathLike[str],
    people: str | os.PathLike[str],
    wave: str | None = None,
    progressbar: bool = True,
    random_seed: int | None = None,
) -> dict[str, WaveCounts]:
    """Randomize the answers of a file of people to the questions of a survey, each by its own exact draw.

    A file of true answers is central collection, which local privacy is meant to avoid: use this for simulation, or for
    data that you hold anyway.

    Parameters
    ----------
    path : path
        The survey.
    people : path
        One person a row: questions, public columns and id, as the survey names them.
    wave : str, optional
        The wave; may be left out if there is one.
    progressbar : bool
        Whether to show progress once it takes longer than two seconds.
    random_seed : int, optional
        Seed of the samplers that choose questions. It plays no part in anyone's privacy.

    Returns
    -------
    dict of WaveCounts
        By question: how many people of the wave were asked so far, and how many answered.

    Notes
    -----
    If it is stopped, call it again: it goes on where it stopped, and asks nobody twice. People who were added to the
    file, or who had given no answer, are asked then.
    """
    survey = read_survey(path)
    name = survey.wave(wave)
    if survey.people.on_devices:
        raise ValueError(
            "people.on_devices must be false to randomize a file of people: the survey says they answer alone"
        )
    way = spending(survey).spending
    found = read_people(survey, people)
    secret = _secret(path)
    key = secret.key
    persons = _persons(key, name, found)
    before = _answered_before(path, survey)
    _check_same_people(survey, persons, found, before)
    _check_budget(survey, name, way, persons, before)
    ledger, texts = Ledger(people), _as_values(found, survey)
    entry = new_entry(
        hmac.digest(key, f"wave {name}".encode(), "sha256").hex()[:32],
        f"the {len(survey.private_questions)} questions of {Path(path).name}, wave {name}",
        way.person_epsilon,
        way.way,
        folder_of(path) / name,
    )
    known = ledger.find(entry.collection)
    if found.ids is None and known is not None and not ledger.is_same(known, texts):
        raise ValueError(
            f"people must be those of the wave {name!r} so far, got a file in which rows were changed, moved or "
            "removed: without people.id, nobody could tell who has answered"
        )
    is_repeated = any(each in before for each in persons)
    if known is None or known.rows != len(texts):
        ledger.enter(entry, texts, ask_again=is_repeated)
    if known is None and len(ledger.entries) > 1:
        logger.warning("%s", ledger.in_words())
    n_each = max(1, round(len(persons) * way.share))
    if survey.is_memoized:
        secret = _with_permanent_answers(path, survey, way, secret, persons, before)
    todo = {each.name: _to_ask(path, survey, each, name, way, persons, found, secret) for each in survey.questions}
    with SlowProgress(sum(map(len, todo.values())), "collecting", progressbar) as progress:
        for question in survey.questions:
            draw = _draw_again if survey.is_memoized and question.sensitive else PublishedQuestion.privatize
            with _opened(path, survey, name, question, way, n_each, random_seed) as collection:
                ask_in_turn(collection, todo[question.name], lambda: progress.advance(1), draw)
    return counts(path, survey, name)


def _to_ask(
    path: str | os.PathLike[str],
    survey: Survey,
    question: SurveyQuestion,
    wave: str,
    way: Spending,
    persons: list[str],
    found: PeopleRead,
    secret: "_Secret",
) -> list[Asked]:
    """Return who is still to be asked a question: those for whom it was drawn, and who have not answered it.

    If answers are memoized, the value of a person is the permanent answer of the person's category.
    """
    done = read_answers(path, wave, question.name)
    over = set() if done is None else {*done.public.answered.get(PERSON, ())}
    noted = set() if done is None else {*done.public.silent.get(PERSON, ())}
    kept = secret.permanent[question.name]["answers"] if survey.is_memoized and question.sensitive else None
    people = []
    for row, (person, x) in enumerate(zip(persons, found.codes[question.name].tolist(), strict=True)):
        is_drawn = not question.sensitive or question.name in _drawn(secret.key, survey, wave, person, way)
        if is_drawn and person not in over and (x != NO_VALUE or person not in noted):
            value = x if kept is None or x == NO_VALUE else kept[person][x]
            people.append(Asked(value, {PERSON: person, **found.public[row]}))
    return people


def counts(path: str | os.PathLike[str], survey: Survey, wave: str) -> dict[str, WaveCounts]:
    """Return by question how many people of a wave were asked, and how many answered; nothing before it began."""
    result = {}
    for question in survey.questions:
        answers = read_answers(path, wave, question.name)
        if answers is not None:
            n = len(answers.responses)
            result[question.name] = WaveCounts(n + len(answers.silent()), n)
    return result


def _draw_again(question: PublishedQuestion, permanent: int) -> list[int]:
    """Randomize a permanent answer as a device does in one wave."""
    mechanism = question.mechanism
    assert isinstance(mechanism, Memoized)
    return [int(mechanism.instantaneous.privatize(permanent))]


def _opened(
    path: str | os.PathLike[str],
    survey: Survey,
    wave: str,
    question: SurveyQuestion,
    way: Spending,
    n_people: int,
    seed: int | None,
) -> Collection:
    """Return the collection of a question in a wave, new or resumed, or raise FileExistsError if it asks otherwise."""
    file, k = file_of(path, wave, question.name), len(question.labels)
    if question.sensitive:
        policy: Any = policy_of(survey, question, way, n_people)
    else:
        # Asked openly: at the largest ε that there is, an answer is what the person said.
        policy = SameQuestion(SRR(k, MAX_EPSILON))
    wanted = Collection.create(policy=policy, categories=question.labels, random_seed=seed)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        wanted.copy(file)
        return Collection.open(file)
    saved = Collection.open(file)
    if saved.mechanism != wanted.mechanism or saved.categories != wanted.categories:
        saved.close()
        raise FileExistsError(
            f"the survey must ask {question.name!r} in wave {wave!r} as it began, got other labels, mechanism or "
            f"budget than {str(file)!r} has: undo the change, or begin a new wave"
        )
    return saved


class _Secret(NamedTuple):
    """The key of a survey, and by question how permanent answers were drawn, and those of each person."""

    key: bytes
    permanent: dict[str, dict[str, Any]]

    def __repr__(self) -> str:
        return "<_Secret: nothing of it is shown>"


def _write_secret(file: Path, secret: _Secret, overwrite: bool) -> None:
    with replacing(file, overwrite=overwrite) as temporary:
        os.chmod(temporary, 0o600)
        temporary.write_bytes(seal({"schema": SCHEMA, "key": secret.key.hex(), "permanent": secret.permanent}))


def _secret(path: str | os.PathLike[str]) -> _Secret:
    """Return the key of a survey, which is made at the first wave, and the permanent answers so far."""
    file = Path(check_path(path)).with_suffix(".key")
    if not file.exists():
        if folder_of(path).exists():
            raise FileNotFoundError(
                f"the key of the survey, {str(file)!r}, must be there, because answers are: restore it, as nobody "
                "could tell who has answered"
            )
        _write_secret(file, _Secret(secrets.token_bytes(32), {}), overwrite=False)
    try:
        content = unseal(file.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError
        return _Secret(bytes.fromhex(content["key"]), dict(content.get("permanent", {})))
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"the key of the survey, {str(file)!r}, is damaged: restore it from a copy") from None


def _with_permanent_answers(
    path: str | os.PathLike[str],
    survey: Survey,
    way: Spending,
    secret: _Secret,
    persons: list[str],
    before: "dict[str, _Before]",
) -> _Secret:
    """Return permanent answers of everybody to the questions that are drawn for them; those that are new are kept."""
    file, permanent = Path(path).with_suffix(".key"), dict(secret.permanent)
    for question in survey.private_questions:
        mechanism = all_waves(question, way, 1)
        settings = {"mechanism": mechanism.permanent.settings(), "labels": question.labels}
        known = permanent.get(question.name, settings | {"answers": {}})
        if {name: known[name] for name in settings} != settings:
            raise ValueError(
                f"the survey must ask {question.name!r} in every wave as it began, got other labels or another budget "
                "than permanent answers have: undo the change"
            )
        asked = [each for each in persons if question.name in _drawn(secret.key, survey, "", each, way)]
        new = [each for each in asked if each not in known["answers"]]
        if any(each in before and (ALL_WAVES, question.name) in before[each].spent for each in new):
            raise ValueError(
                f"the key of the survey, {str(file)!r}, must have the permanent answers of everybody who has answered "
                f"{question.name!r}, got an older copy: restore the latest, for new ones would cost their budget again"
            )
        drawn = mechanism.permanent.privatize(np.tile(np.arange(mechanism.n_categories), (len(new), 1)))
        made = known["answers"] | dict(zip(new, np.asarray(drawn).tolist(), strict=True))
        permanent[question.name] = settings | {"answers": made}
    found = _Secret(secret.key, permanent)
    _write_secret(file, found, overwrite=True)
    return found


def _persons(key: bytes, wave: str, found: PeopleRead) -> list[str]:
    """Return a name of every person, the same in all waves if there are ids."""
    ids = [f"row {wave} {row[ROW]}" for row in found.public] if found.ids is None else [f"id {id}" for id in found.ids]
    return [hmac.digest(key, each.encode(), "sha256").hex()[:16] for each in ids]


def _drawn(key: bytes, survey: Survey, wave: str, person: str, way: Spending) -> Sequence[str]:
    """Return the questions that are drawn for a person in a wave: at random, in public, and always the same.

    They are the same in all waves if answers are memoized.
    """
    names = [each.name for each in survey.private_questions]
    if way.questions_each == len(names):
        return names
    sets = list(combinations(names, way.questions_each))
    digest = hmac.digest(key, f"draw {ALL_WAVES if survey.is_memoized else wave} {person}".encode(), "sha256")
    return sets[int.from_bytes(digest, "big") % len(sets)]


class _Before(NamedTuple):
    """What is known of a person from the answers so far: budgets by wave and question, and fixed columns."""

    spent: dict[tuple[str, str], float]
    fixed: dict[str, Any]


def _answered_before(path: str | os.PathLike[str], survey: Survey) -> dict[str, _Before]:
    """Return what every person has spent in this survey, from the answers in its folder, whatever the survey says."""
    found: dict[str, _Before] = defaultdict(lambda: _Before({}, {}))
    open_questions = {each.name for each in survey.questions if not each.sensitive}
    for file in sorted(folder_of(path).glob("*/*.db")):
        wave, question = file.parent.name, file.stem
        answers = Answers(read_collection(file), read_public(file))
        epsilons = answers.responses.epsilons.tolist()
        columns, is_memoized = answers.public.answered, isinstance(answers.responses.mechanism, Memoized)
        for i, person in enumerate(columns.get(PERSON, ())):
            before = found[str(person)]
            if question not in open_questions:
                before.spent[ALL_WAVES if is_memoized else wave, question] = epsilons[i]
            before.fixed.update({name: columns[name][i] for name in survey.people.fixed if name in columns})
    return dict(found)


def _check_same_people(survey: Survey, persons: list[str], found: PeopleRead, before: dict[str, _Before]) -> None:
    """Raise ValueError if somebody under the id of an earlier answer differs in what never changes."""
    for column in [] if found.ids is None else survey.people.fixed:
        rows = [
            int(row[ROW])
            for person, row in zip(persons, found.public, strict=True)
            if person in before and before[person].fixed.get(column, row[column]) != row[column]
        ]
        if rows:
            raise ValueError(
                f"people must be the same under the same {survey.people.id}, got another {column!r} than before for "
                f"{len(rows)} of them (first in row {rows[0]}): these look like other people, so nobody was asked"
            )


def _check_budget(survey: Survey, wave: str, way: Spending, persons: list[str], before: dict[str, _Before]) -> None:
    """Raise ValueError if somebody would spend more than the survey's ε."""
    worst, who = 0.0, 0
    for row, person in enumerate(persons, start=1):
        spent = before[person].spent if person in before else {}
        current = ALL_WAVES if survey.is_memoized else wave
        others = sum(epsilon for (each, _), epsilon in spent.items() if each != current)
        mine = sum(epsilon for (each, _), epsilon in spent.items() if each == current)
        total = others + max(mine, way.person_epsilon)
        if total > worst:
            worst, who = total, row
    if worst > survey.budget.epsilon * (1 + ROUNDING):
        hint = "" if survey.people.same else ", and people.same = true plans for people who answer in every wave"
        raise ValueError(
            f"budget.epsilon must allow what everybody spends, {survey.budget.epsilon:g} in all, but the person in row "
            f"{who} would have spent {worst:g} after wave {wave!r}: nobody was asked; leave out who has answered{hint}"
        )


def _as_values(found: PeopleRead, survey: Survey) -> Values:
    """Return all private columns of the people as one, for the ledger."""
    rows = np.column_stack([found.codes[each.name] for each in survey.private_questions])
    _, place = np.unique(rows, axis=0, return_inverse=True)
    distinct = np.unique(rows, axis=0)
    return Values(place.reshape(-1).astype(np.int64), [" ".join(map(str, row)) for row in distinct.tolist()])
