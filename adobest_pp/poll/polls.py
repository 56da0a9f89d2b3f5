"""A poll in files: its questions, each a collection, and the desk that takes answers in.

The answers to the first question are the collection ``poll.db``, those to the second ``poll-2.db``, and so on. Beside
them, the SQLite database ``poll.db-desk`` has what a server needs.

An answer comes in with a token. In one transaction the desk notes that the token is spent and keeps the answer in its
inbox. Then it is on disk, and is acknowledged. Both tables are in random order, so that nothing on disk links a token
to an answer. Every half second the answers of the inbox move to the collections, several at a time. A note in the desk
says how many answers the collection had before, so that after a crash it is known whether they have arrived.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from adobest_pp._checks import check_count, check_epsilon, check_path
from adobest_pp._files import as_os_error, check_target, connect, lock, replacing, telling, unlock
from adobest_pp._text import brief, check_labels
from adobest_pp.answers.responses import Responses
from adobest_pp.collect import Collection
from adobest_pp.collect.policies import DEFAULT_MECHANISM, mechanism_name, policy_by_name
from adobest_pp.mechanisms.published_question import ASKABLE, PublishedQuestion

# How many times a design or a subset is chosen while the expected people answer. The projector can ask for it earlier.
ROUNDS = 8
MAX_QUESTIONS, MAX_WORDS, MAX_TOKEN = 50, 1000, 100
ALL, ONE = "all", "one"
_TABLES = (
    "CREATE TABLE parts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE spent (token BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE inbox (id BLOB PRIMARY KEY, question INTEGER NOT NULL, number INTEGER NOT NULL, "
    "answer TEXT NOT NULL, leaving INTEGER NOT NULL) WITHOUT ROWID",
)


@dataclass(frozen=True)
class PollQuestion:
    """One question of a poll.

    Parameters
    ----------
    text : str
        The question, as people read it.
    categories : sequence of str
        The possible answers.
    epsilon : float, default 1
        Privacy budget of one answer.
    mechanism : str
        ``"subset-selection"`` (the default), ``"srr"``, ``"hadamard-response"``, ``"projective-geometry-response"``,
        ``"count-mean-sketch"``, ``"rrrr"`` or ``"design"``.
    people : int, default 200
        How many people are expected. A design is chosen for those who are left.
    """

    text: str
    categories: Sequence[str]
    epsilon: float = 1.0
    mechanism: str = DEFAULT_MECHANISM
    people: int = 200


class Refusal(Exception):
    """A request that is refused: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def create_poll(
    path: str | os.PathLike[str],
    questions: Sequence[PollQuestion],
    *,
    title: str | None = None,
    each_person: str = ALL,
    public: Mapping[str, Sequence[str]] | None = None,
    steps: Sequence[dict[str, Any]] | None = None,
    random_seed: int | None = None,
) -> None:
    """Write the files of a new poll.

    Parameters
    ----------
    path : path
        The collection of the first question; the others, and the desk, are beside it.
    questions : sequence of PollQuestion
        What is asked.
    title : str, optional
        The heading of the pages; the first question by default.
    each_person : {"all", "one"}
        Whether a person answers all questions, which adds up their ε, or one that is drawn at random.
    public : mapping, optional
        Public columns that everybody is asked for, such as the region, with the possible labels. They are sent as they
        are, and kept with the answer.
    steps : sequence of dict, optional
        A lesson plan for the projector.
    random_seed : int, optional
        Seed of the samplers that choose questions. It plays no part in anyone's privacy.
    """
    target = check_target(path, overwrite=False)
    if not 0 < len(questions) <= MAX_QUESTIONS or not all(isinstance(each, PollQuestion) for each in questions):
        raise ValueError(f"questions must be 1 to {MAX_QUESTIONS} of PollQuestion, got {brief(list(questions))}")
    if each_person not in (ALL, ONE):
        raise ValueError(f"each_person must be {ALL!r} or {ONE!r}, got {brief(each_person)}")
    asked_for = {
        _checked_text(name): list(check_labels(labels, len(labels))) for name, labels in (public or {}).items()
    }
    asked: list[dict[str, Any]] = []
    collections = []
    for i, question in enumerate(questions):
        file = f"{target.stem}-{i + 1}{target.suffix}" if i else target.name
        about: dict[str, Any] = {"text": _checked_text(question.text), "file": file, "people": question.people}
        asked.append(about | {"mechanism": mechanism_name(question.mechanism)})
        collections.append(_collection(question, random_seed))
    places = [check_target(target.with_name(each["file"]), overwrite=False) for each in asked]
    desk = check_target(f"{target}-desk", overwrite=False)
    settings = {
        "title": _checked_text(title or asked[0]["text"]),
        "name": secrets.token_urlsafe(9),
        "each_person": each_person,
        "public": asked_for,
        "steps": None if steps is None else list(steps),
        "questions": asked,
    }
    with ExitStack() as on_failure:
        for place, collection in zip(places, collections, strict=True):
            collection.copy(place)
            on_failure.callback(place.unlink, missing_ok=True)
        _write_desk(desk, settings)
        on_failure.pop_all()


def _write_desk(desk: Path, settings: dict[str, Any]) -> None:
    parts = {"poll": json.dumps(settings), "secret": secrets.token_hex(32), "joined": "0", "open": "yes", "leaving": ""}
    with replacing(desk, overwrite=False) as temporary:
        try:
            with closing(sqlite3.connect(temporary)) as connection, connection:
                for table in _TABLES:
                    connection.execute(table)
                connection.executemany("INSERT INTO parts VALUES (?, ?)", parts.items())
        except sqlite3.Error as problem:
            raise as_os_error(problem) from None


def _collection(question: PollQuestion, random_seed: int | None) -> Collection:
    """Return the collection of a question, in memory, or raise ValueError if browsers cannot answer it."""
    people, epsilon = check_count(question.people, "people"), check_epsilon(question.epsilon)
    name = mechanism_name(question.mechanism)
    # The server decides when a round ends, so the policy may choose after every answer.
    options = {"rounds": people} if name == "design" else {}
    policy = policy_by_name(name, len(list(question.categories)), epsilon, people, options)
    if type(policy.mechanism).__name__ not in ASKABLE:
        raise ValueError(f"mechanism must be one that browsers know ({', '.join(ASKABLE)}), got {brief(name)}")
    collection = Collection.create(policy=policy, categories=question.categories, random_seed=random_seed)
    collection.next_question().to_json()
    return collection


def _checked_text(text: Any) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_WORDS:
        raise ValueError(f"text must be a question of at most {MAX_WORDS} characters, got {brief(text)}")
    return " ".join(text.split())


class Desk:
    """Takes answers in, each once a token. All its calls must come from one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        name = str(path)
        if not path.is_file():
            raise FileNotFoundError(f"path must name a poll of `adobest poll new`, got {name!r}, which is not there")

        def damaged(what: str) -> ValueError:
            return ValueError(f"path must name an undamaged poll, got {name!r}, {what}")

        try:
            self._guard = lock(path)
        except BlockingIOError as reason:
            raise ValueError(f"path must not be in use: {reason}") from None
        with ExitStack() as on_failure, telling(name, damaged):
            on_failure.callback(unlock, self._guard, path)
            self._connection, found = connect(path, "rw")
            on_failure.callback(self._connection.close)
            if found != set(_TABLES):
                raise damaged("which is another database")
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            parts = dict(self._connection.execute("SELECT name, value FROM parts"))
            if not {"poll", "secret", "joined", "open", "leaving"} <= parts.keys():
                raise damaged("in which a part is missing")
            self.settings: dict[str, Any] = json.loads(parts["poll"])
            self._secret = bytes.fromhex(parts["secret"])
            self.joined, self.is_open = int(parts["joined"]), parts["open"] == "yes"
            on_failure.pop_all()

    def join(self) -> tuple[str, int | None]:
        """Return a new token, and the question that is drawn for the person; None where all are asked."""
        if not self.is_open:
            raise Refusal(410, "This poll is closed.")
        drawn = None
        if self.settings["each_person"] == ONE:
            drawn = secrets.randbelow(len(self.settings["questions"]))
        body = f"{'a' if drawn is None else drawn}.{secrets.token_urlsafe(16)}"
        with self._transaction():
            self._connection.execute("UPDATE parts SET value = ? WHERE name = 'joined'", (str(self.joined + 1),))
        self.joined += 1
        return f"{body}.{self._sign(body)}", drawn

    def question_of(self, token: Any) -> int | None:
        """Return the question that a token is for, None for any, or raise Refusal if it is not ours."""
        text = token if isinstance(token, str) and len(token) <= MAX_TOKEN and token.isascii() else ""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(signature, self._sign(body)):
            raise Refusal(403, "The token is not one of this poll: load the page again.")
        first = body.partition(".")[0]
        return None if first == "a" else int(first)

    def take(self, token: str, question: int, number: int, answer: Any, public: Any = None) -> None:
        """Keep a checked answer on disk, with what is public of the person, or raise Refusal if the token is spent."""
        if not self.is_open:
            raise Refusal(410, "This poll is closed.")
        only = self.question_of(token)
        if only is not None and only != question:
            raise Refusal(403, "Another question was drawn for you.")
        key = hmac.digest(self._secret, f"{question} {token}".encode(), "sha256")[:16]
        kept = answer if public is None else {"answer": answer, "public": public}
        row = (secrets.token_bytes(16), question, number, json.dumps(kept))
        try:
            with self._transaction():
                self._connection.execute("INSERT INTO spent VALUES (?)", (key,))
                self._connection.execute("INSERT INTO inbox VALUES (?, ?, ?, ?, 0)", row)
        except sqlite3.IntegrityError:
            raise Refusal(409, "Your answer has been counted already.") from None

    def waiting(self) -> list[tuple[int, int]]:
        """Return the questions, and their numbers, that have answers in the inbox."""
        return list(self._connection.execute("SELECT DISTINCT question, number FROM inbox WHERE leaving = 0"))

    def begin_leaving(self, question: int, number: int, before: int) -> None:
        """Note that the answers to a question go to its collection, which had `before` answers."""
        note = json.dumps({"question": question, "number": number, "before": before})
        mark = "UPDATE inbox SET leaving = 1 WHERE question = ? AND number = ?"
        with self._transaction():
            self._connection.execute(mark, (question, number))
            self._connection.execute("UPDATE parts SET value = ? WHERE name = 'leaving'", (note,))

    def leaving(self) -> tuple[dict[str, int], list[Any]] | None:
        """Return the note about answers on their way, and the answers in random order; None if there are none."""
        (note,) = self._connection.execute("SELECT value FROM parts WHERE name = 'leaving'").fetchone()
        if not note:
            return None
        rows = self._connection.execute("SELECT answer FROM inbox WHERE leaving = 1")
        return json.loads(note), [json.loads(text) for (text,) in rows]

    def end_leaving(self) -> None:
        """Forget answers that have arrived."""
        with self._transaction():
            self._connection.execute("DELETE FROM inbox WHERE leaving = 1")
            self._connection.execute("UPDATE parts SET value = '' WHERE name = 'leaving'")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # with it goes the order of arrival

    def close_poll(self) -> None:
        """Take no more answers, permanently."""
        with self._transaction():
            self._connection.execute("UPDATE parts SET value = 'no' WHERE name = 'open'")
        self.is_open = False

    def close(self) -> None:
        """Close the desk, which is then one file."""
        with suppress(sqlite3.Error):  # on a full disk: whoever opens the desk next recovers what is beside it
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        unlock(self._guard, self.path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit the block to disk, or roll it back if it raises; raise Refusal if the disk is full or fails."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as problem:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error) and not isinstance(problem, sqlite3.IntegrityError):
                raise Refusal(507, f"This could not be kept: {as_os_error(problem).strerror}.") from None
            raise

    def _sign(self, body: str) -> str:
        return hmac.new(self._secret, body.encode(), hashlib.sha256).hexdigest()[:32]


class OpenPoll:
    """A poll of `create_poll` that is open, with two threads: one for the desk, one for the collections."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        first = Path(os.path.realpath(check_path(path)))
        self.at_desk = ThreadPoolExecutor(1, "desk")
        self.at_files = ThreadPoolExecutor(1, "collections")
        self._collections: list[Collection] = []
        self._is_ready = False
        try:
            self.desk: Desk = self.at_desk.submit(Desk, Path(f"{first}-desk")).result()
            self.settings = self.desk.settings
            self.at_files.submit(self._open, first.parent).result()
        except BaseException:
            self.close()
            raise

    def _open(self, folder: Path) -> None:
        for question in self.settings["questions"]:
            self._collections.append(Collection.open(folder / Path(question["file"]).name))
        self.counts = [len(collection) for collection in self._collections]
        self._resume()
        # By question: what is published now, and every question that was.
        self.published = [collection.next_question() for collection in self._collections]
        self.known = [{each.number: each for each in collection.questions} for collection in self._collections]
        self.texts = [question.to_json() for question in self.published]
        self._chosen_at = list(self.counts)
        self.rounds = [max(1, len(collection.records)) for collection in self._collections]
        self._is_ready = True

    def question(self, index: Any, number: Any) -> PublishedQuestion:
        """Return a question that was published, also in an earlier round, or raise Refusal."""
        if type(index) is not int or not 0 <= index < len(self.known):
            raise Refusal(400, "The poll has no such question.")
        if type(number) is not int or number not in self.known[index]:
            raise Refusal(400, "No such question was published.")
        return self.known[index][number]

    def public(self, given: Any) -> dict[str, str] | None:
        """Return the person's labels of the public columns, or raise Refusal; None if the poll asks for none."""
        asked: dict[str, list[str]] = self.settings.get("public") or {}
        if not asked:
            return None
        if not isinstance(given, dict) or any(given.get(name) not in labels for name, labels in asked.items()):
            raise Refusal(400, f"Choose one of the labels of each of: {', '.join(asked)}.")
        return {name: given[name] for name in asked}

    @property
    def total_epsilon(self) -> float:
        """What a person spends in total: the sum over the questions, or the largest ε if one is drawn."""
        budgets = [question.mechanism.epsilon for question in self.published]
        return sum(budgets) if self.settings["each_person"] == ALL else max(budgets)

    def drain(self) -> bool:
        """Move answers from the desk to the collections, in the thread of the files; return whether there were any."""
        # First those that could not arrive the last time, as on a full disk: there is one note for all on their way.
        has_moved = self._resume()
        for question, number in self.at_desk.submit(self.desk.waiting).result():
            self.at_desk.submit(self.desk.begin_leaving, question, number, self.counts[question]).result()
            has_moved = self._resume()
        for index, asked in enumerate(self.settings["questions"]):
            if self.counts[index] - self._chosen_at[index] >= max(1, asked["people"] // ROUNDS):
                self.advance(index)
        return has_moved

    def _resume(self) -> bool:
        """Pass answers that are on their way to their collection, unless it has them; return whether there were any."""
        found = self.at_desk.submit(self.desk.leaving).result()
        if found is None:
            return False
        note, answers = found
        collection = self._collections[note["question"]]
        arrived = len(collection) - note["before"]
        if arrived == 0 and answers:
            if self.settings.get("public"):
                with collection.holding():  # all of them, or none
                    for each in answers:
                        collection.record([each["answer"]], note["number"], public=each["public"])
            else:
                collection.record(answers, note["number"])
        elif arrived != len(answers):
            raise ValueError(
                f"{collection.path!r} must be left alone between two runs of its poll: its answers changed"
            )
        self.counts[note["question"]] = len(collection)
        self.at_desk.submit(self.desk.end_leaving).result()
        return True

    def advance(self, index: int) -> None:
        """Choose the next question if the policy allows it, in the thread of the files."""
        before = self.published[index]
        question = self._collections[index].next_question()
        self._chosen_at[index] = self.counts[index]
        self.known[index][question.number] = question
        self.published[index], self.texts[index] = question, question.to_json()
        self.rounds[index] += question is not before and self.can_advance(index)

    def can_advance(self, index: int) -> bool:
        """Return whether the question may change."""
        return self.settings["questions"][index]["mechanism"] in ("rrrr", "design")

    def responses(self, index: int) -> Responses:
        """Return the answers to a question, in the thread of the files."""
        return self._collections[index].responses

    def close(self) -> None:
        """Move the last answers to the collections, and close all files."""
        try:
            self.at_files.submit(self._close_files).result()
        finally:
            if hasattr(self, "desk"):
                self.at_desk.submit(self.desk.close).result()
            self.at_files.shutdown()
            self.at_desk.shutdown()

    def _close_files(self) -> None:
        try:
            if self._is_ready:
                self.drain()
        finally:
            for collection in self._collections:
                collection.close()


# The poll of ``adobest class``: three prepared questions, and steps for the projector.
#
# ``class_plan.json`` has the questions, and for each step its minutes, the panels to show, what to say, and the lesson
# that continues from there. The first question is harmless: a show of hands checks its intervals.


def read_plan() -> dict[str, Any]:
    """Return ``class_plan.json``, where each lesson has its number and title."""
    from adobest_pp.teaching.pages import LESSONS

    plan: dict[str, Any] = json.loads(files(__package__).joinpath("class_plan.json").read_text(encoding="utf-8"))
    numbers = {lesson.name: number for number, lesson in enumerate(LESSONS, start=1)}
    for step in plan["steps"]:
        if "lesson" in step:
            number = numbers[step["lesson"]]
            step["lesson"] = {"number": number, "title": LESSONS[number - 1].title}
    return plan


def prepare_class(path: str | os.PathLike[str], epsilon: float | None = None) -> bool:
    """Write the poll of a class at the path of `create_poll`, unless it exists, and return whether it was written.

    `epsilon` is the privacy budget of each question, by default that of the plan. An existing class must have the same.
    """
    given = None if epsilon is None else check_epsilon(epsilon)
    if Path(check_path(path)).exists():
        _check_class(path, given)
        return False
    plan = read_plan()
    budget = plan["epsilon"] if given is None else given
    questions = [PollQuestion(each["text"], each["categories"], budget) for each in plan["questions"]]
    create_poll(path, questions, title=plan["title"], steps=plan["steps"])
    return True


def _check_class(path: str | os.PathLike[str], epsilon: float | None) -> None:
    with closing(OpenPoll(path)) as poll:
        kept = poll.published[0].mechanism.epsilon
        if poll.settings["steps"] is None:
            raise ValueError(
                f"out must be a new file or one of `adobest class`, got {brief(str(path))}: "
                "`adobest poll serve` serves other polls"
            )
    if epsilon is not None and epsilon != kept:
        raise ValueError(
            f"epsilon must be that of the class in {brief(str(path))}, {kept:g}, got {epsilon:g}: "
            "leave it out to resume, or give another out"
        )
