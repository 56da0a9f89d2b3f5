"""A real adaptive collection: what to ask next, what was answered, and the estimate so far. x never reaches it."""

import inspect
import json
import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_subset
from adobest_pp._text import brief
from adobest_pp.adaptive.loop import new_chain, sample_round
from adobest_pp.adaptive.records import FIRST_SET, KINDS, RESPONSES, add_set, new_records, record_many, reserve
from adobest_pp.adaptive.settings import LoopSettings
from adobest_pp.answers.journal import Journal
from adobest_pp.answers.question_answers import QUESTIONS
from adobest_pp.answers.response_files import Stored
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.collection_file import KeptCollection, resumed
from adobest_pp.collect.design_collector import DesignCollector, rebuild_design
from adobest_pp.collect.plain_collector import PlainCollector, rebuild_plain
from adobest_pp.collect.state import check_own_utility, rebuild, restore_chain, store_chain
from adobest_pp.design.utilities import Utility
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.samplers.sgld.settings import Schedule, schedule_from_settings, schedule_settings

__all__ = ["AdaptiveCollector"]


METHODS = ("utility", "design")


class _Unsettled(NamedTuple):
    """Answers that `record` is about to write and then to keep; `n` answers came before them."""

    event: dict[str, Any]
    answers: NDArray[np.int64]
    mask: NDArray[np.bool_]
    n: int
    waiting: int
    people: dict[str, Any] | None


class _OfMethod(KeptCollection):
    """Makes the collector of the method that is asked for."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        method = options.pop("method", "utility")
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {brief(method)}")
        return object.__new__(cls) if method == "utility" else _design_collector(args, options)


class AdaptiveCollector(_OfMethod):
    """Collect private answers adaptively: Algorithm 1 of the paper [1]_, or, with ``method="design"``, in rounds.

    With ``method="design"`` you get a `DesignCollector`, which has its own arguments: `n_people`, `rounds`, `prior`,
    `categories` and `random_seed`. The rest of this page is about Algorithm 1.

    Publish `next_subset()` to a person, whose device answers by ``mechanism.privatize(x, subset=subset)``; hand the
    answer to `record`. Nothing else about the person is needed, and nothing else is kept.

    Parameters
    ----------
    mechanism : RRRR
        What the devices run.
    utility : str or Utility, default "honest"
        How the subset is chosen: ``"fisher"``, ``"entropy"``, ``"tv1"``, ``"tv2"``, ``"mse"``, ``"honest"``, one of
        your own, ``"semi_adaptive"`` (with `alpha`) or ``"nonadaptive"``.
    prior : float or array of shape (K,)
        ρ of the Dirichlet prior under which subsets are chosen (`estimate` has its own prior).
    updates, batch_size : int
        M updates of the sampler for each choice of a subset (sweeps of Gibbs, gradients of the exact one), and the
        responses m in a batch of SGLD.
    step_size, schedule
        Step sizes of SGLD, as of `SGLD`; the paper's 0.5/t by default.
    adapt_every : int, default 1
        How many answers to take between two choices: the size of a round, published to all of its people.
    sampler : {"sgld", "gibbs", "exact"}
        What draws Θ_t, warm-started from Θ_{t-1}: the paper's SGLD; the paper's Gibbs sampler, whose sweeps are on
        counts here; or Hamiltonian Monte Carlo. ``"gibbs"`` and ``"exact"`` leave the true posterior invariant. None of
        them gives independent draws.
    alpha : float, optional
        The mass that ``"semi_adaptive"`` asks of the subset, best with ``RRRR(K, epsilon, kappa=1.0)``.
    categories : sequence of K labels, optional
        Category names.
    random_seed : int, optional
        Seed of the sampler. It plays no part in anyone's privacy.
    method : {"utility", "design"}
        By the utility of a subset, or by the best question, in rounds.

    See Also
    --------
    DesignCollector : What ``method="design"`` makes.
    simulate : The whole loop compiled, for simulated people.
    sample : Exact draws from the posterior of ``collector.responses``.

    References
    ----------
    .. [1] S. Aydın and S. Yıldırım, Bayesian Frequency Estimation Under Local Differential Privacy With an
       Adaptive Randomized Response Mechanism, ACM Transactions on Knowledge Discovery from Data.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> mechanism = ad.RRRR(3, epsilon=1.0)
    >>> collector = ad.AdaptiveCollector(mechanism, categories=["red", "green", "blue"], random_seed=1)
    >>> for x in [0, 1, 0, 2, 0]:  # what only the devices know
    ...     collector.record(mechanism.privatize(x, subset=collector.next_subset()))
    >>> len(collector.responses)
    5
    """

    def __init__(
        self,
        mechanism: RRRR,
        utility: str | Utility = "honest",
        prior: ArrayLike = 1.0,
        updates: int = 20,
        batch_size: int = 50,
        step_size: float | None = None,
        schedule: Schedule | None = None,
        adapt_every: int = 1,
        sampler: str = "sgld",
        alpha: float | None = None,
        categories: Sequence[Any] | None = None,
        random_seed: int | None = None,
        *,
        method: Literal["utility"] = "utility",
    ) -> None:
        self._responses = Responses(check_rrrr(mechanism), categories)
        self._settings = LoopSettings.of(
            mechanism,
            utility,
            alpha=alpha,
            prior=prior,
            updates=updates,
            batch_size=batch_size,
            step_size=step_size,
            schedule=schedule,
            adapt_every=adapt_every,
            sampler=sampler,
            categories=self._responses.categories,
        )
        seed = None if random_seed is None else check_integer(random_seed, "random_seed", 0)
        self._chain = new_chain(self._settings.prior, self._settings.plan.batch_size, seed, sampler)
        self._records = new_records(mechanism.coefficients, 16, counted=sampler != "sgld")
        self._published: NDArray[np.int64] | None = None
        self._rounds = 0
        self._waiting = 0
        self._journal: Journal | None = None
        self._unsettled: _Unsettled | None = None

    @property
    def mechanism(self) -> RRRR:
        """What the devices run."""
        return self._settings.mechanism

    @property
    def responses(self) -> Responses:
        """Everything recorded so far; add to it with `record` only."""
        self._settle()
        return self._responses

    def __repr__(self) -> str:
        utility = self._settings.describe()["utility"]
        return f"<AdaptiveCollector: {len(self._responses)} answers, {utility!r}, {self.mechanism!r}>"

    def next_subset(self) -> NDArray[np.int64]:
        """Return the categories to publish to the next person, in increasing order.

        Once `adapt_every` answers have come in since the last choice, the sampler runs on all answers and a new subset
        is chosen. Until then the subset stays the same.
        """
        self._settle()
        if self._published is None or self._waiting >= self._settings.plan.round_size:
            self._fold_journal()
            before, event = self._state(), {}
            try:
                if self._waiting:
                    self._sample()
                self._published = self._choose()
                event = {"adapted": self._state()}
                self._write(event)
            except BaseException:
                if self._journal is None or not self._journal.has(event):
                    self._restore(before)
                raise
        return self._published.copy()

    def record(self, y: ArrayLike, subset: ArrayLike | None = None) -> None:
        """Record one answer, or several that were given under one subset. Bad input changes nothing.

        If Ctrl-C interrupts the call, the answer is recorded or not: ``len(collector.responses)`` tells which.

        Parameters
        ----------
        y : int or array of int
            What the mechanism answered.
        subset : indices or boolean mask, optional
            The subset that was published to these people; the last published one by default. Answers may come late
            and in any order.
        """
        self._record(y, subset)

    def _record(self, y: ArrayLike, told: ArrayLike | None, person: int | None = None) -> None:
        self._settle()
        if told is None and self._published is None:
            raise ValueError("subset must be given, or published by next_subset() first: none has been published yet")
        if len(self._responses) != self._records.used[RESPONSES]:
            raise ValueError("responses must be added to by record() only, got some that were added otherwise")
        given = self._published if told is None else told
        mask = check_subset(given, self.mechanism.n_categories, self._responses.categories)
        answers = self.mechanism.check_answers(y)
        if not answers.size:
            return
        named, people = self._of_person(person)
        event: dict[str, Any] = {"answers": answers.tolist(), "subset": np.flatnonzero(mask).tolist(), **named}
        self._unsettled = _Unsettled(event, answers, mask, len(self._responses), self._waiting + len(answers), people)
        self._write(event)
        self._settle()

    def _settle(self) -> None:
        """Keep the answers of a `record` call that were written, even if the call was interrupted after that."""
        todo = self._unsettled
        if todo is None:
            return
        if self._journal is None or self._journal.has(todo.event):
            if len(self._responses) == todo.n:
                self._responses.append(todo.answers, todo.mask)
            if self._records.used[RESPONSES] == todo.n:
                self._add_records(todo.answers, todo.mask, self._responses.find_subset(todo.mask))
            self._waiting, self._people = todo.waiting, todo.people
        self._unsettled = None

    def _attributes(self) -> dict[str, str]:
        schedule_from_settings(schedule_settings(self._settings.schedule))
        return {
            "collector_settings": json.dumps(self._settings.describe()),
            "collector_state": json.dumps(self._state()),
        }

    def _described(self) -> dict[str, Any]:
        return self._settings.describe()

    def _publish(self) -> tuple[RRRR, dict[str, Any], NDArray[np.int64]]:
        subset = self.next_subset()
        return self.mechanism, {"subset": subset}, subset

    def _seed_of_estimate(self) -> int:
        return int(np.random.SeedSequence([int(word) for word in self._chain.state]).generate_state(1)[0])

    @property
    def _own_prior(self) -> NDArray[np.float64]:
        return self._settings.prior

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], utility: Utility | None = None
    ) -> "AdaptiveCollector | DesignCollector | PlainCollector":
        """Resume a saved collection, of any collector, as if it had never stopped.

        Parameters
        ----------
        path : path
            The file of `save`.
        utility : Utility, optional
            The utility of your own that the collection was made with, if it was: the file has only its name.
        """

        def rebuilt(stored: Stored, name: str) -> "AdaptiveCollector | DesignCollector | PlainCollector":
            in_rounds, plain = QUESTIONS in stored.attributes, not stored.responses.mechanism.publishes_subset
            if not (in_rounds or plain):
                check_own_utility(stored.attributes, utility, name)
            elif utility is not None:
                what = "in rounds" if in_rounds else "that adapts nothing"
                raise ValueError(f"utility must be left out for {name!r}, a collection {what}, got {brief(utility)}")
            try:
                if in_rounds:
                    return rebuild_design(stored)
                return rebuild_plain(stored) if plain else rebuild(cls, stored, utility)
            except (ValueError, TypeError, OverflowError) as reason:
                raise ValueError(f"path must name an undamaged collection, got {name!r}: {reason}") from None

        return resumed(path, rebuilt)

    def _sample(self) -> None:
        n, n_updates = len(self._responses), self._settings.updates
        steps = self._settings.steps(self._rounds * n_updates, n_updates, n)
        sample_round(self._settings.plan.batch_size, self._chain, self._records, steps, self._chain.phi, n_updates)
        self._rounds += 1
        self._waiting = 0

    def _choose(self) -> NDArray[np.int64]:
        size = self._settings.choose_size(self._chain)
        return np.sort(self._chain.order[:size])

    def _add_records(self, answers: NDArray[np.int64], mask: NDArray[np.bool_], place: int) -> None:
        """Bring the sampler's records up to the responses; kinds and subsets have the same order in both."""
        coefficients, size = self.mechanism.coefficients, int(mask.sum())
        self._records = reserve(self._records, coefficients, len(answers), 1)
        kind = FIRST_SET + place
        if kind == self._records.used[KINDS]:
            self._records.masks[kind] = mask
            add_set(self._records, size, coefficients)
        record_many(self._records, answers, kind, size)

    def _state(self) -> dict[str, Any]:
        published = None if self._published is None else self._published.tolist()
        return store_chain(self._chain) | {"published": published, "rounds": self._rounds, "waiting": self._waiting}

    def _restore(self, state: dict[str, Any]) -> None:
        restore_chain(self._chain, state)
        published = state["published"]
        self._published = None if published is None else np.array(published, dtype=np.int64)
        self._rounds, self._waiting = state["rounds"], state["waiting"]


def _design_collector(args: tuple[Any, ...], options: dict[str, Any]) -> DesignCollector:
    """Make the collector of method 'design', or raise ValueError for arguments that it does not have."""
    if len(args) > 1:
        raise ValueError(f"arguments of method 'design' must be given by name, got {brief(args[1])}")
    allowed = list(inspect.signature(DesignCollector).parameters)
    for name, value in options.items():
        if name not in allowed:
            raise ValueError(f"{name} must be left out for method 'design', got {brief(value)}")
    if "n_people" not in options:
        raise ValueError("n_people must be given for method 'design': how many people will be asked in all")
    return DesignCollector(*args, **options)
