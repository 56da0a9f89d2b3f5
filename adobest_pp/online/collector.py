"""A real adaptive collection: what to ask next, what was answered, and the estimate so far. x never reaches it."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_path, check_subset
from adobest_pp._files import check_target, netcdf_bytes
from adobest_pp.data.journal import Journal
from adobest_pp.data.response_files import COLLECTION, read_stored
from adobest_pp.data.responses import Responses
from adobest_pp.design.utilities import Utility
from adobest_pp.intervals import PROBABILITY, summary
from adobest_pp.mechanisms import RRRR, check_rrrr
from adobest_pp.online.loop import new_chain, ready, sample_round
from adobest_pp.online.loop_settings import LoopSettings
from adobest_pp.online.records import FIRST_SET, KINDS, RESPONSES, add_set, new_records, record_many, reserve
from adobest_pp.online.state import check_own_utility, rebuild, restore_chain, store_chain
from adobest_pp.samplers.schedules import Schedule, schedule_from_settings, schedule_settings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AdaptiveCollector"]

NOTE = (
    "Answers since the last save follow the netCDF part of this file; adobest_pp.Responses.from_netcdf reads them all"
)

# A journal longer than this, in bytes, and than the netCDF part is folded into that part.
LONG_JOURNAL = 4_000_000


class _Unsettled(NamedTuple):
    """Answers that `record` is about to write and then to keep; `n` answers came before them."""

    event: dict[str, Any]
    answers: NDArray[np.int64]
    mask: NDArray[np.bool_]
    n: int
    waiting: int
    people: dict[str, Any] | None


class AdaptiveCollector:
    """Collect private answers adaptively, Algorithm 1 of the paper [1]_.

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
        M updates of the sampler for each choice of a subset (gradients, for the exact one), and the responses m in a
        batch of SGLD (8 at most with control variates).
    step_size, schedule
        Step sizes of SGLD, as of `SGLD`; the paper's 0.5/t by default.
    adapt_every : int, default 1
        How many answers to take between two choices: the size of a round, published to all of its people.
    sampler : {"sgld", "exact", "sgld_cv"}
        What draws Θ_t: the paper's sampler; one that leaves the true posterior invariant; or SGLD with control
        variates, which is close to that one, takes at most about twice the time of the paper's, and chooses its steps.
    alpha : float, optional
        The mass that ``"semi_adaptive"`` asks of the subset.
    categories : sequence of K labels, optional
        Category names.
    random_seed : int, optional
        Seed of the sampler. It plays no part in anyone's privacy.

    See Also
    --------
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
        self._people: dict[str, Any] | None = None
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

    def _record(self, y: ArrayLike, subset: ArrayLike | None, person: int | None = None) -> None:
        """Record answers; `person` is the row in the file of people that the answer belongs to."""
        self._settle()
        if subset is None and self._published is None:
            raise ValueError("subset must be given, or published by next_subset() first: none has been published yet")
        if len(self._responses) != self._records.used[RESPONSES]:
            raise ValueError("responses must be added to by record() only, got some that were added otherwise")
        given = self._published if subset is None else subset
        mask = check_subset(given, self.mechanism.n_categories, self._responses.categories)
        answers = self.mechanism.check_answers(y)
        if not answers.size:
            return
        event: dict[str, Any] = {"answers": answers.tolist(), "subset": np.flatnonzero(mask).tolist()}
        people = None
        if person is not None and self._people is not None:
            event["person"], people = person, self._people | {"asked": person + 1}
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

    def estimate(
        self,
        draws: int = 1000,
        probability: float = PROBABILITY,
        prior: ArrayLike | Literal["learned", "own"] = "learned",
    ) -> "xr.Dataset":
        """Return mean and interval of θ given all answers so far, from the exact posterior; the chain does not move.

        The draws are those of ``sample(collector.responses, "nuts", prior)``. The sampler that chose the subsets, the
        paper's SGLD by default, plays no part: its draws are too narrow or too wide for an interval.

        Parameters
        ----------
        draws : int
            Draws of each of four chains.
        probability : float
            The share of the draws within the interval: the shortest that holds so many, from zero where the category
            may be empty (see `adobest_pp.intervals.shortest_intervals`).
        prior : float, array of shape (K,), "learned" or "own"
            As in `sample`; ``"own"`` is the prior under which the subsets are chosen. Intervals under a flat prior do
            not hold the truth where most categories are empty, so the default learns how uneven θ is.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``lower`` and ``upper`` by category; in the attributes sampler, prior, kind of interval,
            probability, draws, answers and seed, which is a function of the collection's own and of its answers.
        """
        from adobest_pp.data.draws import theta_of
        from adobest_pp.samplers.sampling import sample

        chosen = self._settings.prior if isinstance(prior, str) and prior == "own" else prior
        seed = int(np.random.SeedSequence([int(word) for word in self._chain.state]).generate_state(1)[0])
        tree = sample(self._responses, "nuts", chosen, draws=draws, random_seed=seed, progressbar=False)
        names = ("sampler", "prior", "learned_prior", "draws", "chains", "n_responses", "random_seed", "fit_p_value")
        told = {name: tree.attrs[name] for name in names if name in tree.attrs}
        return summary(theta_of(tree), probability).assign_attrs(told)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the collection to a file, and keep it up to date from now on.

        From this call on, and after `load`, every answer is in the file before `record` returns, so a crash loses none.
        The file is the whole collection: a copy of it is a copy of the collection. `Responses.from_netcdf` reads all
        its answers, also while they come in; xarray opens it as it was last saved. One collector at a time may have a
        file open. Saving again to the same file makes it smaller. Saving to another file leaves the first as it is, and
        continues in the new one.

        Parameters
        ----------
        path : path
            A new file, or the collection's own.
        overwrite : bool, default False
            Replace another file that exists; never one that another collector has open.
        """
        schedule_from_settings(schedule_settings(self._settings.schedule))
        self._settle()
        before = self._journal
        check_target(path, overwrite=overwrite or (before is not None and before.is_at(path)))
        attributes = {
            COLLECTION: NOTE,
            "collector_settings": json.dumps(self._settings.describe()),
            "collector_state": json.dumps(self._state()),
            **({} if self._people is None else {"collector_people": json.dumps(self._people)}),
        }
        netcdf = netcdf_bytes(self._responses.to_xarray().assign_attrs(attributes))
        self._journal = Journal.create(path, netcdf, overwrite=overwrite, own=before)
        if before is not None:
            self._journal.holds = before.holds
            before.close()

    def close(self) -> None:
        """Close the file that the collection is kept in; another collector may then load it."""
        self._settle()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @classmethod
    def load(cls, path: str | os.PathLike[str], utility: Utility | None = None) -> "AdaptiveCollector":
        """Resume a saved collection as if it had never stopped.

        Parameters
        ----------
        path : path
            The file of `save`.
        utility : Utility, optional
            The utility of your own that the collection was made with, if it was: the file has only its name.
        """
        name = os.fspath(check_path(path))
        if not Path(path).is_file():
            raise FileNotFoundError(f"path must name a collection, got {name!r}, which does not exist")
        journal = Journal.claim(path)
        try:
            stored = read_stored(path)
            if COLLECTION not in stored.attributes or stored.tail is None:
                raise ValueError(f"path must name a file of AdaptiveCollector.save, got {name!r}")
            check_own_utility(stored.attributes, utility, name)
            try:
                collector = rebuild(cls, stored, utility)
            except (ValueError, TypeError, OverflowError) as reason:
                raise ValueError(f"path must name an undamaged collection, got {name!r}: {reason}") from None
            journal.resume(stored.tail)
        except BaseException:
            journal.close()
            raise
        collector._journal = journal
        return collector

    def _sample(self) -> None:
        n, n_updates = len(self._responses), self._settings.updates
        steps = self._settings.steps(self._rounds * n_updates, n_updates, n)
        self._chain = ready(self._chain, self._records)
        sample_round(self._settings.plan, self._chain, self._records, steps, self._chain.phi, n_updates)
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

    def _fold_journal(self) -> None:
        """Save again once the journal is long. If that fails, the journal continues."""
        journal = self._journal
        if journal is None or journal.size <= max(LONG_JOURNAL, journal.netcdf_size):
            return
        if journal.is_at(journal.path):
            with suppress(OSError):
                self.save(journal.path)

    @contextmanager
    def _unhurried(self) -> Iterator[Callable[[], None]]:
        """Keep new answers in memory until the function that is yielded is called, or the block ends."""

        def write() -> None:
            if self._journal is not None:
                self._journal.flush()

        if self._journal is not None:
            self._journal.holds = True
        try:
            yield write
        finally:
            write()
            if self._journal is not None:
                self._journal.holds = False

    def _write(self, event: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.write(event)
