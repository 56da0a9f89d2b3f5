"""A collection of real people's answers: what to ask next, what was answered, and the estimate so far.

x never reaches it. The store comes first: an answer counts once it is in the store, and memory follows, even if a call
was interrupted in between.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import ArrayLike

from adobest_pp._checks import check_integer
from adobest_pp._dirichlet import ESTIMATE_PRIOR
from adobest_pp._text import brief, check_labels
from adobest_pp.answers.responses import Responses, check_mechanism
from adobest_pp.answers.store import (
    Content,
    PublicColumns,
    QuestionAnswers,
    Store,
    event_of,
    public_columns,
    question_of,
)
from adobest_pp.collect.policies import Chooser, Policy, chooser_of, policy_from_settings
from adobest_pp.design.utilities import Utility
from adobest_pp.intervals import PROBABILITY, summary
from adobest_pp.mechanisms import Mechanism, mechanism_from_settings
from adobest_pp.mechanisms.published_question import PublishedQuestion
from adobest_pp.samplers.sampling import fresh_seed
from adobest_pp.samplers.sgld.settings import schedule_from_settings

if TYPE_CHECKING:
    import xarray as xr


class _Unsettled(NamedTuple):
    """What a call is about to write. It counts once the store has this version, or `waiting` holds it."""

    version: int
    events: list[dict[str, Any]]
    state: dict[str, Any] | None
    questions: int
    answers: int
    asked: int | None
    waiting: tuple[list[dict[str, Any]], dict[str, Any] | None] | None


class Collection:
    """Private answers as they come in, in memory or in a file. Build with `create` or `open`.

    Publish `next_question()` to a person, whose device answers by ``question.privatize(x)``; pass the answer to
    `record`. Nothing else about the person is needed or kept.

    In a file, every answer is on disk before `record` returns: a crash, ``kill -9`` or a full disk loses none. One
    program at a time may have a collection open; `Responses.read` reads its answers meanwhile. An open collection has
    ``<file>-wal`` and two more files beside it; after `close` it is one file.

    See Also
    --------
    SameQuestion, AdaptiveSubset, Rounds : What is asked.
    collect_csv : Randomizes a file of people.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> policy = ad.AdaptiveSubset(ad.RRRR(3, epsilon=1.0))
    >>> collection = ad.Collection.create(policy=policy, categories=["red", "green", "blue"], random_seed=1)
    >>> for x in [0, 1, 0, 2, 0]:  # what only the devices know
    ...     question = collection.next_question()
    ...     collection.record(question.privatize(x), question)
    >>> len(collection.responses)
    5
    """

    def __init__(self, store: Store, chooser: Chooser, held: QuestionAnswers, header: dict[str, Any]) -> None:
        self._store, self._chooser, self._held, self._header = store, chooser, held, header
        # The number of the current question.
        self._asked_now = -1
        # The state that was written last.
        self._adopted: dict[str, Any] = {}
        # What is known of the file of people, if there is one, and how many of them were asked: None once somebody else
        # has answered.
        self._people: dict[str, Any] | None = None
        self._asked: int | None = 0
        # The events with answers, and those of people who gave none but whose public columns were kept.
        self._kept: list[dict[str, Any]] = []
        self._unsettled: _Unsettled | None = None
        # Events and state that wait to be written together, within `holding`.
        self._waiting: tuple[list[dict[str, Any]], dict[str, Any] | None] | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        policy: Policy,
        categories: Sequence[Any] | None = None,
        random_seed: int | None = None,
    ) -> "Collection":
        """Begin a collection.

        Parameters
        ----------
        path : path, optional
            A new file to keep it in; by default it is in memory, and `copy` writes it to a file.
        policy : SameQuestion, AdaptiveSubset or Rounds
            What is asked.
        categories : sequence of K labels, optional
            Category names.
        random_seed : int, optional
            Seed of the samplers. It plays no part in anyone's privacy.
        """
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a SameQuestion, AdaptiveSubset or Rounds, got {brief(policy)}")
        check_mechanism(policy.mechanism)
        seed = fresh_seed() if random_seed is None else check_integer(random_seed, "random_seed", 0, 2**63 - 1)
        labels = check_labels(categories, policy.mechanism.n_categories)
        chooser = chooser_of(policy, labels, seed)
        header = {
            "name": secrets.token_hex(16),
            "mechanism": chooser.mechanism.settings(),
            "categories": list(labels),
            "policy": chooser.name,
            "policy_settings": chooser.settings(),
            "random_seed": seed,
        }
        made = cls(Store.in_memory(header), chooser, QuestionAnswers(labels), header)
        made._publish()
        if path is not None:
            made.copy(path)
            made._store = Store.open(path)[0]
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str], utility: Utility | None = None) -> "Collection":
        """Resume a collection in a file as if it had never stopped.

        Parameters
        ----------
        path : path
            The file.
        utility : Utility, optional
            Your own utility, if the collection was made with one: the file has only its name.
        """
        store, content = Store.open(path)
        try:
            return cls._restored(store, content, utility)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as reason:
            store.close()
            text = str(reason)
            if text.startswith("utility must"):
                raise ValueError(f"{text} ({os.fspath(path)!r})") from None
            raise ValueError(f"path must name an undamaged collection, got {os.fspath(path)!r}: {text}") from None
        except BaseException:
            store.close()
            raise

    @classmethod
    def _restored(cls, store: Store, content: Content, utility: Utility | None) -> "Collection":
        header, state = content.header, content.state
        mechanism = mechanism_from_settings(header.get("mechanism", {}))
        policy = policy_from_settings(header.get("policy"), mechanism, header.get("policy_settings"), utility)
        held = QuestionAnswers.stored(content)
        seed = check_integer(header.get("random_seed"), "random_seed", 0, 2**63 - 1)
        if not isinstance(header.get("name"), str):
            raise ValueError("it has no name")
        made = cls(store, chooser_of(policy, held.categories, seed), held, header)
        made._chooser.take(held)
        made._chooser.restore(state.get("chooser", {}), len(held))
        made._adopt(state)
        for event in content.events:
            made._asked = _count(event, made._asked)
        made._kept = [event for event in content.events if "answers" in event]
        return made

    @property
    def path(self) -> str | None:
        """The file of the collection; None in memory."""
        return None if self._store.path is None else str(self._store.path)

    @property
    def name(self) -> str:
        """A random name, by which the ledger of a file of people identifies the collection."""
        return str(self._header["name"])

    @property
    def mechanism(self) -> Mechanism:
        """What the first question asks devices to run."""
        return self._chooser.mechanism

    @property
    def categories(self) -> tuple[str, ...]:
        """The category labels."""
        return self._held.categories

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the policy."""
        return dict(self._header["policy_settings"])

    @property
    def responses(self) -> Responses:
        """Everything recorded so far."""
        self._settle()
        return self._held.responses

    @property
    def questions(self) -> tuple[PublishedQuestion, ...]:
        """Every question that was published, by its number."""
        self._settle()
        return tuple(self._held.questions)

    @property
    def records(self) -> list[dict[str, Any]]:
        """With `Rounds`, for each round: its question, the answers so far, and the prediction; else empty.

        ``predicted_variance`` is the sum of the variances predicted for the end of the collection; compare it with the
        ``variance`` of the posterior in later rounds.
        """
        self._settle()
        return [dict(record) for record in self._chooser.state().get("records", ())]

    @property
    def did_not_answer(self) -> int:
        """How many rows of the file of people have an empty value and were skipped; 0 if not collected from a file."""
        return int((self.people or {}).get("empty", 0))

    @property
    def people(self) -> dict[str, Any] | None:
        """What is known of the file of people; None if not collected from a file, or if others have answered too."""
        self._settle()
        known = self._asked is not None and self._people is not None
        return {**(self._people or {}), "asked": self._asked} if known else None

    @property
    def public(self) -> PublicColumns:
        """The public columns of people who answered, and of those who did not; see `record`."""
        self._settle()
        return public_columns(self._kept)

    def __len__(self) -> int:
        self._settle()
        return len(self._held)

    def __repr__(self) -> str:
        return f"<Collection: {len(self)} answers, {self._chooser.name}, {self.mechanism!r}>"

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def next_question(self) -> PublishedQuestion:
        """Return the question to publish to the next person.

        It stays the same until the policy chooses another: after `adapt_every` answers, or once a round's answers have
        come in, whatever question they answer. Choosing may take a second or so.
        """
        self._settle()
        if self._chooser.is_due(len(self._held)):
            self._publish()
        return self._held.questions[self._asked_now]

    def record(
        self,
        answer: ArrayLike,
        question: PublishedQuestion | int | None = None,
        *,
        person: int | None = None,
        public: Mapping[str, str | int] | None = None,
    ) -> None:
        """Record one answer, or several to one question. Bad input changes nothing.

        If Ctrl-C interrupts the call, ``len(collection)`` shows whether the answer was recorded.

        Parameters
        ----------
        answer : int or array of int
            What ``question.privatize`` returned.
        question : PublishedQuestion or int, optional
            The question, or its number; the last published one by default. Late answers to older ones are accepted.
        person : int, optional
            The place of the person in the file of people, if there is one.
        public : mapping, optional
            What to keep of the person beside the one answer, by column: text and integers that are no secret, such as
            region and age. `public` returns it in the order of the answers.
        """
        self._settle()
        number = self._asked_now if question is None else self._check_question(question)
        answers = self._held.check_answers(answer, number)
        if public is not None and len(answers) != 1:
            raise ValueError(f"public must come with one answer, got {len(answers)} answers")
        if len(answers):
            event = {"answers": answers.tolist(), "question": number}
            event |= {} if person is None else {"person": check_integer(person, "person", 0)}
            self._commit([event if public is None else event | {"public": _checked_public(public)}])

    def record_silent(self, public: Mapping[str, str | int]) -> None:
        """Record that a person gave no answer, with the same public columns as those who did."""
        self._settle()
        self._commit([{"answers": [], "question": self._asked_now, "public": _checked_public(public)}])

    def estimate(
        self,
        draws: int = 1000,
        probability: float = PROBABILITY,
        prior: ArrayLike | Literal["learned", "own"] = ESTIMATE_PRIOR,
        progressbar: bool = False,
    ) -> "xr.Dataset":
        """Return mean and interval of θ given all answers so far. This changes nothing in the collection.

        The draws are those of ``sample(collection.responses, "nuts", prior)``. With more than 2500 distinct answers
        they are those of ``"sgld_cv"``, which samples the same posterior in seconds, unless it warns. The attribute
        ``sampler`` names the sampler. The sampler that chooses questions, by default the paper's SGLD, is not used: its
        draws are too narrow or too wide for an interval.

        Parameters
        ----------
        draws : int
            Draws of each of four chains.
        probability : float
            How often the interval of a category holds its share, whatever the shares are (see `intervals.summary`).
        prior : float, array of shape (K,), "learned" or "own"
            As in `sample`; ``"own"`` is the prior under which questions are chosen. The mean under a flat prior is far
            from the truth if most categories are empty, so the default learns how uneven θ is. Intervals depend on the
            prior only if it prefers some categories.
        progressbar : bool
            Whether to show progress once it takes longer than two seconds.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``lower`` and ``upper`` by category, whether it ``may_be_empty``, and the shares of the interval's
            width that are due to the ``sample`` and to ``privacy`` (`adobest_pp.intervals.summary`). Attributes name
            the sampler, prior, kind of interval, probability, draws, answers, and the seed, which follows from the
            answers: the report of `adobest compare` has the same estimate.
        """
        from adobest_pp.samplers.choice import quick_sample, seed_of_answers

        responses = self.responses
        chosen = self._chooser.prior if isinstance(prior, str) and prior == "own" else prior
        tree = quick_sample(responses, chosen, draws, seed_of_answers(responses), progressbar)
        names = (
            "sampler",
            "prior_concentration",
            "learned_prior",
            "draws",
            "chains",
            "n_responses",
            "random_seed",
            "fit_p_value",
        )
        attributes = {name: tree.attrs[name] for name in names if name in tree.attrs}
        return summary(tree, probability).assign_attrs(attributes)

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Write the whole collection to a new file, which `open` resumes. This collection stays where it is."""
        if "schedule" in self.settings:
            schedule_from_settings(self.settings["schedule"])  # the user's own cannot be stored
        self.flush()
        self._store.copy(path)

    def close(self) -> None:
        """Close the file, so that another program may open it. In memory, do nothing."""
        self.flush()
        if self._store.path is not None:
            self._store.close()

    def note_people(self, people: dict[str, Any]) -> None:
        """Write what is known of the file of people."""
        self._settle()
        self._commit([], self._state() | {"people": people})

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep answers in memory until `flush` or the end of the block: only answers that nobody has seen yet."""
        self._waiting = ([], None)
        try:
            yield
        finally:
            try:
                self.flush()
            finally:
                self._waiting = None

    def flush(self) -> None:
        """Write the answers that `holding` has kept in memory."""
        self._settle()
        if self._waiting is not None and self._waiting != ([], None):
            waiting, self._waiting = self._waiting, ([], None)
            version = self._store.version
            try:
                self._store.write(*waiting)
            except BaseException:
                if self._store.version == version:
                    self._waiting = waiting
                raise

    def _check_question(self, question: Any) -> int:
        """Return the number of a question that was published here, or raise ValueError."""
        questions = self._held.questions
        if isinstance(question, PublishedQuestion):
            # Mechanism and subset make the question; a device may have got its categories as other text.
            if question.number < len(questions):
                known = questions[question.number]
                if (known.mechanism, known.subset) == (question.mechanism, question.subset):
                    return question.number
            raise ValueError(f"question must be one that was published here, got {brief(question.mechanism)}")
        return check_integer(question, "question", 0, len(questions) - 1)

    def _publish(self) -> None:
        """Choose a question and publish it; if that fails, everything is as before."""
        before, state = self._chooser.state(), None
        try:
            choice = self._chooser.choose(self._held)
            number = self._held.find(*choice)
            is_new = number < 0
            state = self._state() | {"question": len(self._held.questions) if is_new else number}
            self._commit([event_of(choice.mechanism, choice.subset, self.mechanism)] if is_new else [], state)
        except BaseException:
            self._settle()
            if state is None or self._adopted is not state:
                self._chooser.restore(before, len(self._held))
            raise

    def _state(self) -> dict[str, Any]:
        return {"question": self._asked_now, "chooser": self._chooser.state(), "people": self._people}

    def _commit(self, events: list[dict[str, Any]], state: dict[str, Any] | None = None) -> None:
        """Write events and state, and apply them once they are on disk."""
        asked = self._asked
        for event in events:
            asked = _count(event, asked)
        waiting = None
        if self._waiting is not None:
            kept, last = self._waiting
            waiting = ([*kept, *events], last if state is None else state)
        n_questions, n_answers = len(self._held.questions), len(self._held)
        self._unsettled = _Unsettled(self._store.version + 1, events, state, n_questions, n_answers, asked, waiting)
        if waiting is None:
            self._store.write(events, state)
        else:
            self._waiting = waiting
        self._settle()

    def _settle(self) -> None:
        """Apply what was written, even if the call that wrote it was interrupted after that."""
        todo = self._unsettled
        if todo is None:
            return
        is_held = todo.waiting is not None and self._waiting is todo.waiting
        if is_held or (todo.waiting is None and self._store.version >= todo.version):
            for event in todo.events:
                if "answers" not in event:
                    if len(self._held.questions) == todo.questions:
                        self._held.publish(*question_of(event, self.mechanism))
                elif not event["answers"]:
                    self._kept.append(event)
                elif len(self._held) == todo.answers:
                    number = event["question"]
                    self._held.append(self._held.check_answers(event["answers"], number), number)
                    self._kept.append(event)
            self._asked = todo.asked
            self._chooser.take(self._held)
            if todo.state is not None:
                self._adopt(todo.state)
        self._unsettled = None

    def _adopt(self, state: dict[str, Any]) -> None:
        self._asked_now = check_integer(state.get("question"), "question", 0, len(self._held.questions) - 1)
        people = state.get("people")
        if people is not None and not isinstance(people, dict):
            raise ValueError("what is known of the file of people must be a JSON object")
        self._people, self._adopted = people, state


def _count(event: dict[str, Any], asked: int | None) -> int | None:
    """Return how many people of the file have been asked after an event; None once somebody else has answered."""
    if not event.get("answers"):
        return asked
    return asked + 1 if asked is not None and event.get("person") == asked else None


def _checked_public(public: Any) -> dict[str, str | int]:
    """Return public columns of a person as they are stored, or raise ValueError."""
    if not isinstance(public, Mapping):
        raise ValueError(f"public must be text or integers by column, got {brief(public)}")
    for name, value in public.items():
        if not isinstance(name, str) or not isinstance(value, str | int):
            raise ValueError(f"public must be text or integers by column, got {brief({name: value})}")
    return dict(public)
