"""The answers of a survey: one collection for each wave and question, with the public columns of the people.

The answers of ``survey.toml`` are in the folder ``survey-answers``, in ``<wave>/<question>.db``. Each answer is kept
with its row, the public columns and a name of the person. That name is an HMAC of the person's id, whose key is in
``survey.key``. So the answers without the key do not show who gave them, but those of one person in two waves belong
together. People who were asked and gave no answer are recorded, too.

What a person has spent is counted from the answers themselves, so it needs no other file that could be lost. A wave
that would spend more than the survey's ε is refused before anybody is asked.

If answers are memoized, every person has a permanent answer for each category to each question that is drawn for them.
Permanent answers are drawn before x is looked at. They are what people's devices would keep, and are in ``survey.key``,
too. They are on disk before anybody is asked, and a wave is refused if those of somebody who has answered are missing.

The key, the wave and the person's name determine which question is drawn for a person. So a wave that was stopped
continues with the same questions, and nobody answers two of them.
"""

import hmac
import logging
import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adobest_pp._checks import MAX_EPSILON, check_path
from adobest_pp._files import lock, replacing, seal, unlock, unseal
from adobest_pp._progress import SlowProgress, raising_interrupts
from adobest_pp._text import brief
from adobest_pp._types import Floats, Integers
from adobest_pp.answers.responses import Responses
from adobest_pp.answers.store import PublicColumns, read_collection
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
# The schema of the file of the key.
SCHEMA = "adobest_pp.survey_key"
# Stands for the wave of permanent answers, whose budget is spent once for all waves; no wave has this name.
ALL_WAVES = ""
# Budgets that differ by rounding only are equal.
ROUNDING = 1e-9


class Answers(NamedTuple):
    """The answers to one question in one wave, and the public columns of the people."""

    responses: Responses
    public: PublicColumns

    def silent(self) -> list[int]:
        """Return the places in `public.silent` of people who have not answered later either."""
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
    """Return the file of the answers to a question in a wave, from a poll if one was served."""
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
    """Return the answers to the question and wave of these names in the survey at `path`, or None before it begins."""
    file = file_of(path, wave, question)
    return Answers(*read_collection(file)) if file.exists() else None


class PeopleRead(NamedTuple):
    """A file of people as a survey reads it. Nothing of it is shown."""

    codes: dict[str, Integers]
    public: list[dict[str, str | int]]
    ids: list[str] | None

    def __repr__(self) -> str:
        return f"<PeopleRead: {len(self.public)} people>"


def read_people(survey: Survey, people: str | os.PathLike[str]) -> PeopleRead:
    """Read a file of people by the rules of `adobest_pp.collect.people_table`, or raise ValueError.

    Everything is checked here, before anybody is asked.
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
    weights = as_numbers(texts, column)
    for row, weight in enumerate(weights.tolist(), start=1):
        if not 0 < weight < np.inf:
            got = "none" if np.isnan(weight) else f"{weight:g}"
            raise ValueError(f"column {column!r} must hold a positive weight of everybody, got {got} in row {row}")
    return weights


def _ids(texts: list[str], column: str) -> list[str]:
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
        The wave; may be left out if there is only one.
    progressbar, random_seed
        As in `collect_csv`.

    Returns
    -------
    dict of WaveCounts
        By question: how many people of the wave were asked so far, and how many answered.

    Notes
    -----
    If it is stopped, call it again: it continues where it stopped, and asks nobody twice. It then also asks people who
    were added to the file, or who had given no answer.
    """
    survey = read_survey(path)
    name = survey.wave(wave)
    if survey.people.on_devices:
        raise ValueError(
            "people.on_devices must be false to randomize a file of people: the survey says that their devices do it"
        )
    with _alone(path):
        way = spending(survey).spending
        found, secret = read_people(survey, people), _secret(path)
        about = _Wave(path, survey, name, way, found, _persons(secret.key, name, found), secret)
        before = _answered_before(path, survey)
        _check_same_people(about, before)
        _check_budget(about, before)
        ledger, texts = Ledger(people), _as_values(found, survey)
        entry = new_entry(
            hmac.digest(secret.key, f"wave {name}".encode(), "sha256").hex()[:32],
            f"the {len(survey.private_questions)} questions of {Path(path).name}, wave {name}",
            way.person_epsilon,
            way.way,
            folder_of(path) / name,
        )
        known = ledger.find(entry.collection)
        if found.ids is None and known is not None and not ledger.is_same(known, texts):
            raise ValueError(
                f"people must be those of the wave {name!r} so far, got a file in which rows were changed, moved or "
                "removed: without people.id, it is not known who has answered"
            )
        is_repeated = any(each in before for each in about.persons)
        if known is None or known.rows != len(texts):
            ledger.enter(entry, texts, ask_again=is_repeated)
        if known is None and len(ledger.entries) > 1:
            logger.warning("%s", ledger.in_words())
        if survey.is_memoized:
            about = about._replace(secret=_with_permanent_answers(about, before))
        todo = {each.name: _to_ask(about, each) for each in survey.questions}
        with SlowProgress(sum(map(len, todo.values())), "collecting", progressbar) as progress:
            for question in survey.questions:
                draw = _draw_again if survey.is_memoized and question.sensitive else PublishedQuestion.privatize
                with _opened(about, question, random_seed) as collection:
                    ask_in_turn(collection, todo[question.name], lambda: progress.advance(1), draw)
    return counts(path, survey, name)


@contextmanager
def _alone(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a survey: what people have spent is counted before they are asked, and permanent answers are drawn once."""
    try:
        guard = lock(_key_file(path))
    except BlockingIOError:
        raise ValueError(
            f"path must name a survey that no other program collects now, got {os.fspath(path)!r}: wait until that ends"
        ) from None
    try:
        yield
    finally:
        unlock(guard, _key_file(path))


class _Wave(NamedTuple):
    """A wave that is collected: how the budget is spent, the people, their random names, and the key of the survey."""

    path: str | os.PathLike[str]
    survey: Survey
    name: str
    way: Spending
    found: PeopleRead
    persons: list[str]
    secret: "_Secret"

    def __repr__(self) -> str:
        return f"<_Wave {self.name!r}: nothing else of it is shown>"


def _to_ask(wave: _Wave, question: SurveyQuestion) -> list[Asked]:
    """Return the people who have not answered a question that was drawn for them.

    If answers are memoized, the value of a person is the permanent answer of the person's category.
    """
    done, name = read_answers(wave.path, wave.name, question.name), question.name
    over = set() if done is None else {*done.public.answered.get(PERSON, ())}
    noted = set() if done is None else {*done.public.silent.get(PERSON, ())}
    kept = wave.secret.permanent[name]["answers"] if wave.survey.is_memoized and question.sensitive else None
    people = []
    for row, (person, x) in enumerate(zip(wave.persons, wave.found.codes[name].tolist(), strict=True)):
        is_drawn = not question.sensitive or name in _drawn(wave, person)
        if is_drawn and person not in over and (x != NO_VALUE or person not in noted):
            value = x if kept is None or x == NO_VALUE else kept[person][x]
            people.append(Asked(value, {PERSON: person, **wave.found.public[row]}))
    return people


def counts(path: str | os.PathLike[str], survey: Survey, wave: str) -> dict[str, WaveCounts]:
    """Return by question how many people of a wave were asked, and how many answered; empty before it begins."""
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


def _opened(wave: _Wave, question: SurveyQuestion, seed: int | None) -> Collection:
    """Return the collection of a question in a wave, new or resumed; raise FileExistsError if its question differs."""
    file = file_of(wave.path, wave.name, question.name)
    if question.sensitive:
        n_people = max(1, round(len(wave.persons) * wave.way.share))
        policy: Any = policy_of(wave.survey, question, wave.way, n_people)
    else:
        # Asked openly: at the largest ε, an answer is what the person said.
        policy = SameQuestion(SRR(len(question.labels), MAX_EPSILON))
    wanted = Collection.create(policy=policy, categories=question.labels, random_seed=seed)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        wanted.copy(file)
        return Collection.open(file)
    saved = Collection.open(file)
    if saved.mechanism != wanted.mechanism or saved.categories != wanted.categories:
        saved.close()
        raise FileExistsError(
            f"the survey must ask {question.name!r} in wave {wave.name!r} as it began, got other labels, mechanism or "
            f"budget than {str(file)!r} has: undo the change, or begin a new wave"
        )
    return saved


class _Secret(NamedTuple):
    """The key of a survey, and by question how permanent answers were drawn, and those of each person."""

    key: bytes
    permanent: dict[str, dict[str, Any]]

    def __repr__(self) -> str:
        return "<_Secret: nothing of it is shown>"


def _key_file(path: str | os.PathLike[str]) -> Path:
    return check_path(path).with_suffix(".key")


def _write_secret(file: Path, secret: _Secret, overwrite: bool) -> None:
    with replacing(file, overwrite=overwrite) as temporary:
        os.chmod(temporary, 0o600)
        temporary.write_bytes(seal({"schema": SCHEMA, "key": secret.key.hex(), "permanent": secret.permanent}))


def _secret(path: str | os.PathLike[str]) -> _Secret:
    """Return the key of a survey, which is made at the first wave, and the permanent answers so far."""
    file = _key_file(path)
    if not file.exists():
        if folder_of(path).exists():
            raise FileNotFoundError(
                f"the key of the survey, {str(file)!r}, must exist, because there are answers: restore it, as "
                "otherwise it is not known who has answered"
            )
        _write_secret(file, _Secret(secrets.token_bytes(32), {}), overwrite=False)
    try:
        content = unseal(file.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError
        return _Secret(bytes.fromhex(content["key"]), dict(content.get("permanent", {})))
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"the key of the survey, {str(file)!r}, is damaged: restore it from a copy") from None


def _with_permanent_answers(wave: _Wave, before: "dict[str, _Before]") -> _Secret:
    """Return the key with permanent answers of everybody to the questions drawn for them; the file keeps new ones."""
    file, permanent = _key_file(wave.path), dict(wave.secret.permanent)
    for question in wave.survey.private_questions:
        mechanism = all_waves(question, wave.way, 1)
        settings = {"mechanism": mechanism.permanent.settings(), "labels": question.labels}
        known = permanent.get(question.name, settings | {"answers": {}})
        if {name: known[name] for name in settings} != settings:
            raise ValueError(
                f"the survey must ask {question.name!r} in every wave as it began, got other labels or another budget "
                "than permanent answers have: undo the change"
            )
        asked = [each for each in wave.persons if question.name in _drawn(wave, each)]
        new = [each for each in asked if each not in known["answers"]]
        if any(each in before and (ALL_WAVES, question.name) in before[each].spent for each in new):
            raise ValueError(
                f"the key of the survey, {str(file)!r}, must have the permanent answers of everybody who has answered "
                f"{question.name!r}, got an older copy: restore the latest, for new ones would cost their budget again"
            )
        drawn = mechanism.permanent.privatize(np.tile(np.arange(mechanism.n_categories), (len(new), 1)))
        made = known["answers"] | dict(zip(new, np.asarray(drawn).tolist(), strict=True))
        permanent[question.name] = settings | {"answers": made}
    found = _Secret(wave.secret.key, permanent)
    _write_secret(file, found, overwrite=True)
    return found


def _persons(key: bytes, wave: str, found: PeopleRead) -> list[str]:
    """Return a name of every person, the same in all waves if there are ids."""
    ids = [f"row {wave} {row[ROW]}" for row in found.public] if found.ids is None else [f"id {id}" for id in found.ids]
    return [hmac.digest(key, each.encode(), "sha256").hex()[:16] for each in ids]


def _drawn(wave: _Wave, person: str) -> Sequence[str]:
    """Return the questions that are drawn for a person in a wave, in public, and always the same.

    They are the same in all waves if answers are memoized.
    """
    names = [each.name for each in wave.survey.private_questions]
    if wave.way.questions_each == len(names):
        return names
    sets, among = list(combinations(names, wave.way.questions_each)), _current(wave)
    digest = hmac.digest(wave.secret.key, f"draw {among} {person}".encode(), "sha256")
    return sets[int.from_bytes(digest, "big") % len(sets)]


def _current(wave: _Wave) -> str:
    """Return the wave for which questions are drawn and budgets are spent: all of them if answers are memoized."""
    return ALL_WAVES if wave.survey.is_memoized else wave.name


class _Before(NamedTuple):
    """What the answers so far say of a person: budgets by wave and question, and fixed columns."""

    spent: dict[tuple[str, str], float]
    fixed: dict[str, Any]


def _answered_before(path: str | os.PathLike[str], survey: Survey) -> dict[str, _Before]:
    """Return what every person has spent, by the answers in the folder of the survey, whatever the survey says now."""
    found: dict[str, _Before] = defaultdict(lambda: _Before({}, {}))
    open_questions = {each.name for each in survey.questions if not each.sensitive}
    for file in sorted(folder_of(path).glob("*/*.db")):
        wave, question = file.parent.name, file.stem
        answers = Answers(*read_collection(file))
        epsilons = answers.responses.epsilons.tolist()
        columns, is_memoized = answers.public.answered, isinstance(answers.responses.mechanism, Memoized)
        for i, person in enumerate(columns.get(PERSON, ())):
            before = found[str(person)]
            if question not in open_questions:
                before.spent[ALL_WAVES if is_memoized else wave, question] = epsilons[i]
            before.fixed.update({name: columns[name][i] for name in survey.people.fixed if name in columns})
    return dict(found)


def _check_same_people(wave: _Wave, before: dict[str, _Before]) -> None:
    """Raise ValueError if somebody under the id of an earlier answer differs in a column that never changes."""
    people = wave.survey.people
    for column in [] if wave.found.ids is None else people.fixed:
        rows = [
            int(row[ROW])
            for person, row in zip(wave.persons, wave.found.public, strict=True)
            if person in before and before[person].fixed.get(column, row[column]) != row[column]
        ]
        if rows:
            raise ValueError(
                f"people must be the same under the same {people.id}, got another {column!r} than before for "
                f"{len(rows)} of them (first in row {rows[0]}): these look like other people, so nobody was asked"
            )


def _check_budget(wave: _Wave, before: dict[str, _Before]) -> None:
    """Raise ValueError if somebody would spend more than the survey's ε."""
    survey, current = wave.survey, _current(wave)
    worst, who = 0.0, 0
    for row, person in enumerate(wave.persons, start=1):
        spent = before[person].spent if person in before else {}
        others = sum(epsilon for (each, _), epsilon in spent.items() if each != current)
        mine = sum(epsilon for (each, _), epsilon in spent.items() if each == current)
        total = others + max(mine, wave.way.person_epsilon)
        if total > worst:
            worst, who = total, row
    if worst > survey.budget.epsilon * (1 + ROUNDING):
        hint = "" if survey.people.same else ", and people.same = true plans for people who answer in every wave"
        raise ValueError(
            f"budget.epsilon must allow what everybody spends, {survey.budget.epsilon:g} in all, but the person in row "
            f"{who} would have spent {worst:g} after wave {wave.name!r}: nobody was asked; leave out people who have "
            f"answered{hint}"
        )


def _as_values(found: PeopleRead, survey: Survey) -> Values:
    """Return all private columns of the people as one, for the ledger."""
    rows = np.column_stack([found.codes[each.name] for each in survey.private_questions])
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    return Values(place.reshape(-1).astype(np.int64), [" ".join(map(str, row)) for row in distinct.tolist()])
