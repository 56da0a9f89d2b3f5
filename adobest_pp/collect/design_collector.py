"""A real collection in rounds: publish the best question so far, take answers to any question, go on after a crash.

The file of a collection has every question that was published, so an answer is understood whenever it comes. A question
that was published is not computed again: a resumed collection asks what the first one would have asked.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_count, check_integer
from adobest_pp._labels import check_labels
from adobest_pp._text import brief
from adobest_pp.answers.question_answers import QUESTIONS, QuestionAnswers
from adobest_pp.answers.response_files import Stored
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.collection_file import KeptCollection
from adobest_pp.collect.state import people_of, read_json
from adobest_pp.design.rounds import ROUNDS, check_design_prior, check_rounds, check_start, next_question, round_ends
from adobest_pp.mechanisms import Mechanism, SubsetSelection, mechanism_from_settings
from adobest_pp.mechanisms.published_question import PublishedQuestion
from adobest_pp.mechanisms.reading import loads
from adobest_pp.samplers.sampling import fresh_seed

__all__ = ["DesignCollector", "rebuild_design"]


# The settings that a collector is built from again, beside its mechanism and its labels.
SETTINGS = ("n_people", "prior", "rounds", "random_seed")
_COUNT = 2**62


class _Unsettled(NamedTuple):
    """What a call is about to write and then to keep; `n` answers and `rounds` rounds came before it."""

    event: dict[str, Any]
    n: int
    rounds: int
    people: dict[str, Any] | None


class DesignCollector(KeptCollection):
    """Collect private answers in rounds, each by the best question for the posterior so far.

    ``AdaptiveCollector(mechanism, method="design", …)`` makes it. Publish ``next_question().to_json()``; a device reads
    it by `read_question`, which refuses a question that does not keep ε, and answers by
    ``question.mechanism.privatize(x)``; hand the answer to `record` with ``question.number``.

    Parameters
    ----------
    mechanism : SubsetSelection
        What is asked in the first round, and where a design gains next to nothing.
    n_people : int
        How many people will be asked in all. A design is for those who are left; more may answer.
    prior : float, array of shape (K,) or "learned"
        ρ of the Dirichlet prior under which questions are chosen.
    rounds : int, optional
        In how many rounds of equal size; 8 by default.
    categories : sequence of K labels, optional
        Category names.
    random_seed : int, optional
        Seed of the sampler. It plays no part in anyone's privacy.

    See Also
    --------
    simulate : The same for simulated people, with ``method="design"``.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> collector = ad.AdaptiveCollector(ad.SubsetSelection(3, epsilon=1.0), method="design", n_people=1000)
    >>> question = collector.next_question()
    >>> collector.record(question.mechanism.privatize([0, 2, 2]), question.number)
    >>> len(collector.responses)
    3
    """

    def __init__(
        self,
        mechanism: SubsetSelection,
        n_people: int,
        prior: ArrayLike | str = "learned",
        rounds: int | None = None,
        categories: Sequence[Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        self.mechanism = check_start(mechanism)
        labels = check_labels(categories, mechanism.n_categories)
        self.n_people = check_count(n_people, "n_people")
        self._prior = check_design_prior(prior, mechanism.n_categories, labels)
        self.rounds = min(ROUNDS, self.n_people) if rounds is None else check_rounds(rounds, self.n_people)
        self._ends = round_ends(self.n_people, self.rounds)
        seed = fresh_seed() if random_seed is None else random_seed
        self._seed = check_integer(seed, "random_seed", 0, 2**63 - 1)
        self._answers = QuestionAnswers([self.mechanism], labels)
        # What was published for each round so far: the number of the question, and what was known and predicted.
        self._records: list[dict[str, Any]] = []
        self._journal = None
        self._unsettled: _Unsettled | None = None

    @property
    def responses(self) -> Responses:
        """Everything recorded so far; add to it with `record` only."""
        self._settle()
        return self._answers.responses

    @property
    def records(self) -> list[dict[str, Any]]:
        """For each round that was begun: its question, the answers at hand, and why and with what prediction.

        ``predicted_variance`` is the sum of the variances that is predicted for the end, to compare with
        ``variance``, that of the posterior, in later rounds.
        """
        self._settle()
        return [dict(record) for record in self._records]

    def __repr__(self) -> str:
        asked = f"{len(self._answers)} of {self.n_people} answers, round {len(self._records)} of {len(self._ends)}"
        return f"<DesignCollector: {asked}, {self.mechanism!r}>"

    def next_question(self) -> PublishedQuestion:
        """Return the question to publish to the next person.

        Once a round's answers have come in, whatever question they are to, the exact posterior is sampled and a new
        question chosen, which takes a second or so. Until then the question stays the same.
        """
        self._settle()
        due = min(int(np.searchsorted(self._ends, len(self._answers), side="right")), len(self._ends) - 1)
        if not self._records or self._records[-1]["round"] < due:
            self._fold_journal()
            self._keep(self._publishing(due), self._people)
        number = self._records[-1]["number"]
        return PublishedQuestion(number, self._answers.questions[number], self._answers.categories)

    def record(self, y: ArrayLike, question: int | PublishedQuestion | None = None) -> None:
        """Record one answer, or several to one question. Bad input changes nothing.

        Parameters
        ----------
        y : int or array of int
            What the question's mechanism answered.
        question : int or PublishedQuestion, optional
            The question, or its number; the last published one by default. Answers to older ones may come late.
        """
        self._record(y, question)

    def _publish(self) -> tuple[Mechanism, dict[str, Any], PublishedQuestion]:
        question = self.next_question()
        return question.mechanism, {}, question

    def _record(self, y: ArrayLike, told: int | PublishedQuestion | None, person: int | None = None) -> None:
        self._settle()
        if not self._records:
            raise ValueError("question must be published by next_question() first: none has been published yet")
        number = self._records[-1]["number"] if told is None else self._check_question(told)
        answers = self._answers.questions[number].check_answers(y)
        if len(answers):
            named, people = self._of_person(person)
            self._keep({"answers": answers.tolist(), "question": number, **named}, people)

    def _check_question(self, question: Any) -> int:
        """Return the number of a question that was published here, or raise ValueError."""
        if isinstance(question, PublishedQuestion):
            known = question.number < len(self._answers.questions)
            if not known or self._answers.questions[question.number] != question.mechanism:
                raise ValueError(f"question must be one that was published here, got {brief(question.mechanism)}")
            return question.number
        return check_integer(question, "question", 0, len(self._answers.questions) - 1)

    def _publishing(self, due: int) -> dict[str, Any]:
        """Return the event of a new round: its question, if that is new, and the record."""
        n, questions = len(self._answers), self._answers.questions
        mechanism, told = self._choose(due, questions[self._records[-1]["number"]]) if n else (self.mechanism, {})
        number = questions.index(mechanism) if mechanism in questions else len(questions)
        record = {"round": due, "number": number, "answers": n, **told}
        return {"published": record} | ({"settings": mechanism.settings()} if number == len(questions) else {})

    def _choose(self, due: int, last: Mechanism) -> tuple[Mechanism, dict[str, Any]]:
        """Return the best question, and what was known and predicted."""
        seed = int(np.random.SeedSequence(self._seed, spawn_key=(due,)).generate_state(1)[0])
        left = max(self.n_people - len(self._answers), 1)
        chosen = next_question(self._answers.responses, self.mechanism, left, self._prior, seed, cast(Any, last))
        told = chosen.describe()
        del told["question"]
        return chosen.mechanism, told | {"mean": chosen.mean.tolist()}

    def _keep(self, event: dict[str, Any], people: dict[str, Any] | None) -> None:
        """Write an event, and then bring it about: not before it is on disk."""
        self._unsettled = _Unsettled(event, len(self._answers), len(self._records), people)
        self._write(event)
        self._settle()

    def _settle(self) -> None:
        todo = self._unsettled
        if todo is not None and (self._journal is None or self._journal.has(todo.event)):
            event = todo.event
            if "settings" in event:
                self._answers.publish(mechanism_from_settings(event["settings"]))
            if "published" in event and len(self._records) == todo.rounds:
                self._records.append(event["published"])
            if "answers" in event and len(self._answers) == todo.n:
                number = event["question"]
                checked = self._answers.questions[number].check_answers(event["answers"])
                self._answers.append(checked, number)
            self._people = todo.people
        self._unsettled = None

    def _described(self) -> dict[str, Any]:
        prior = self._prior if isinstance(self._prior, str) else self._prior.tolist()
        own = {"mechanism": "design", "prior": prior, "n_people": self.n_people, "rounds": self.rounds}
        return self.mechanism.settings() | own

    def _attributes(self) -> dict[str, str]:
        settings = {name: self._described()[name] for name in ("prior", "n_people", "rounds")}
        return {
            "collector_settings": json.dumps({"method": "design", **settings, "random_seed": self._seed}),
            "collector_state": json.dumps({"records": self._records}),
            QUESTIONS: json.dumps([question.settings() for question in self._answers.questions]),
        }

    def _seed_of_estimate(self) -> int:
        return int(np.random.SeedSequence([self._seed, len(self._answers)]).generate_state(1)[0])

    @property
    def _own_prior(self) -> NDArray[np.float64] | str:
        return self._prior


def rebuild_design(stored: Stored) -> DesignCollector:
    """Return the collector of a file, as it was after the last event of its journal, or raise ValueError."""
    responses, attributes, tail = stored
    events = [] if tail is None else tail.events
    settings, state = (read_json(attributes, name) for name in ("collector_settings", "collector_state"))
    questions = [mechanism_from_settings(each) for each in loads(attributes[QUESTIONS])]
    missing = [name for name in SETTINGS if name not in settings]
    if missing or not isinstance(questions[0], SubsetSelection):
        raise ValueError(f"the settings of a collection in rounds must have {', '.join(SETTINGS)}")
    given = {name: settings[name] for name in SETTINGS}
    collector = DesignCollector(questions[0], categories=responses.categories, **given)
    # What was published in the journal is part of the responses already, in the order of its numbers.
    collector._answers = QuestionAnswers.stored(responses, [part.settings() for part in _parts(responses)], [])
    records = state.get("records")
    later = [event["published"] for event in events if "published" in event]
    collector._records = _check_records(
        [*(records if isinstance(records, list) else [None]), *later], len(collector._answers.questions)
    )
    collector._people = people_of(stored)
    return collector


def _parts(responses: Responses) -> Sequence[Mechanism]:
    return getattr(responses.mechanism, "parts", (responses.mechanism,))


def _check_records(records: list[Any], n_questions: int) -> list[dict[str, Any]]:
    """Return the records of the rounds, or raise ValueError."""
    for record in records:
        if not isinstance(record, dict):
            raise ValueError("the records of the rounds must be JSON objects")
        check_integer(record.get("number"), "number", 0, n_questions - 1)
        check_integer(record.get("round"), "round", 0, _COUNT)
    return records
