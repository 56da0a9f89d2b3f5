"""A real collection that adapts nothing: everybody is asked the same. Its file is as crash-safe as the others'."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer
from adobest_pp._text import brief
from adobest_pp.answers.response_files import Stored
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.collection_file import KeptCollection
from adobest_pp.collect.state import people_of, read_json
from adobest_pp.mechanisms import Mechanism
from adobest_pp.samplers.sampling import fresh_seed

__all__ = ["PlainCollector", "rebuild_plain"]


class _Unsettled(NamedTuple):
    """Answers that a call is about to write and then to keep; `n` answers came before them."""

    event: dict[str, Any]
    answers: NDArray[np.int64]
    n: int
    people: dict[str, Any] | None


class PlainCollector(KeptCollection):
    """Collect private answers by one mechanism that publishes nothing, such as subset selection.

    Devices answer by ``mechanism.privatize(x)``; hand the answer to `record`.

    Parameters
    ----------
    mechanism : Mechanism
        What the devices run: any that publishes no subset.
    categories : sequence of K labels, optional
        Category names.
    random_seed : int, optional
        Seed of the estimate. It plays no part in anyone's privacy.

    See Also
    --------
    collect_csv : Asks everyone in a file, with this or another collector.
    AdaptiveCollector : Chooses what to ask from the answers so far.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.SubsetSelection(3, epsilon=1.0)
    >>> collector = ad.collect.PlainCollector(mechanism, categories=["red", "green", "blue"])
    >>> collector.record(mechanism.privatize([0, 2, 2]))  # what only the devices know
    >>> len(collector.responses)
    3
    """

    def __init__(
        self, mechanism: Mechanism, categories: Sequence[Any] | None = None, random_seed: int | None = None
    ) -> None:
        self._responses = Responses(mechanism, categories)
        if mechanism.publishes_subset:
            raise ValueError(
                f"mechanism must publish no subset, got {brief(mechanism)}: AdaptiveCollector asks with RRRR"
            )
        seed = fresh_seed() if random_seed is None else random_seed
        self._seed = check_integer(seed, "random_seed", 0, 2**63 - 1)
        self._journal = None
        self._unsettled: _Unsettled | None = None

    @property
    def mechanism(self) -> Mechanism:
        """What the devices run."""
        return self._responses.mechanism

    @property
    def responses(self) -> Responses:
        """Everything recorded so far; add to it with `record` only."""
        self._settle()
        return self._responses

    def __repr__(self) -> str:
        return f"<PlainCollector: {len(self._responses)} answers, {self.mechanism!r}>"

    def record(self, y: ArrayLike) -> None:
        """Record one answer or several. Bad input changes nothing.

        Parameters
        ----------
        y : int or array of int
            What the mechanism answered.
        """
        self._record(y, None)

    def _publish(self) -> tuple[Mechanism, dict[str, Any], None]:
        return self.mechanism, {}, None

    def _record(self, y: ArrayLike, told: None, person: int | None = None) -> None:
        self._settle()
        answers = self._responses._check_answers(y)
        if not len(answers):
            return
        self._fold_journal()
        named, people = self._of_person(person)
        event = {"answers": answers.tolist(), **named}
        self._unsettled = _Unsettled(event, answers, len(self._responses), people)
        self._write(event)
        self._settle()

    def _settle(self) -> None:
        todo = self._unsettled
        if todo is not None and (self._journal is None or self._journal.has(todo.event)):
            if len(self._responses) == todo.n:
                self._responses._store(todo.answers, None)
            self._people = todo.people
        self._unsettled = None

    def _described(self) -> dict[str, Any]:
        return self.mechanism.settings()

    def _attributes(self) -> dict[str, str]:
        return {"collector_settings": json.dumps({"method": "plain", "random_seed": self._seed})}

    def _seed_of_estimate(self) -> int:
        return int(np.random.SeedSequence([self._seed, len(self._responses)]).generate_state(1)[0])

    @property
    def _own_prior(self) -> str:
        return "learned"


def rebuild_plain(stored: Stored) -> PlainCollector:
    """Return the collector of a file, as it was after the last event of its journal, or raise ValueError."""
    settings, responses = read_json(stored.attributes, "collector_settings"), stored.responses
    if settings.get("method") != "plain":
        raise ValueError("the settings of a collection that adapts nothing must say so")
    seed = check_integer(settings.get("random_seed"), "random_seed", 0, 2**63 - 1)
    collector = PlainCollector(responses.mechanism, responses.categories, seed)
    collector._responses = responses
    collector._people = people_of(stored)
    return collector
