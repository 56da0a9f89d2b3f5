"""A real adaptive collection: what to ask next, what was answered, and what is known so far. x never reaches it."""

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import check_integer, check_subset
from adobest_pp._files import replacing
from adobest_pp.adaptation import Utility, choose_size, select_subset
from adobest_pp.intervals import PROBABILITY, summary
from adobest_pp.mechanisms import RRRR
from adobest_pp.online.journal import Journal, read_events
from adobest_pp.online.loop import new_chain, sample_round
from adobest_pp.online.records import FIRST_SET, KINDS, RESPONSES, add_set, new_records, record_many, reserve
from adobest_pp.online.settings import LoopSettings
from adobest_pp.responses import Responses, read_responses
from adobest_pp.samplers.schedules import Schedule, schedule_from_settings, schedule_settings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AdaptiveCollector"]


class AdaptiveCollector:
    """Collect private answers adaptively, Algorithm 1 of the paper [1]_.

    Publish `next_subset()` to a person, whose device answers by ``mechanism.privatize(x, subset)``; hand the answer to
    `record`. Nothing else about the person is needed, and nothing else is kept.

    Parameters
    ----------
    mechanism : RRRR
        What the devices run.
    utility : str or Utility, default "honest"
        What the subset is chosen for: ``"fisher"``, ``"entropy"``, ``"tv1"``, ``"tv2"``, ``"mse"``, ``"honest"``, one
        of your own; or ``"semi_adaptive"`` (with `alpha`) or ``"nonadaptive"``.
    prior : float or array of shape (K,)
        ρ of the Dirichlet prior that subsets are chosen under (`estimate` has a prior of its own).
    updates, batch_size : int
        M updates of the sampler for each choice of a subset (gradients, for the exact one), and the responses m in a
        batch of SGLD.
    step_size, schedule
        Step sizes of SGLD, as of `ReflectedSGLD`; the paper's 0.5/t by default.
    adapt_every : int, default 1
        How many answers to take between two choices: the size of a round, published to all of its people.
    sampler : {"sgld", "exact"}
        What draws Θ_t: the paper's sampler, or one that leaves the true posterior invariant.
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
    ...     collector.record(mechanism.privatize(x, collector.next_subset()))
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
        self._custom = utility if isinstance(utility, Utility) else None
        self._settings = LoopSettings.of(
            mechanism,
            "honest" if isinstance(utility, Utility) else utility,
            alpha=alpha,
            prior=prior,
            updates=updates,
            batch_size=batch_size,
            step_size=step_size,
            schedule=schedule,
            adapt_every=adapt_every,
            sampler=sampler,
        )
        self._responses = Responses(mechanism, categories)
        seed = None if random_seed is None else check_integer(random_seed, "random_seed", 0)
        self._chain = new_chain(self._settings.prior, self._settings.plan.batch_size, seed)
        self._records = new_records(mechanism.coefficients, 16, counted=self._settings.plan.exact)
        self._published: NDArray[np.int64] | None = None
        self._rounds = 0
        self._waiting = 0
        self._journal: Journal | None = None

    @property
    def mechanism(self) -> RRRR:
        """What the devices run."""
        return self._settings.mechanism

    @property
    def responses(self) -> Responses:
        """Everything recorded so far; add to it with `record` only."""
        return self._responses

    def __repr__(self) -> str:
        method = self._custom.name if self._custom else self._settings.method
        return f"<AdaptiveCollector: {len(self._responses)} answers, {method!r}, {self.mechanism!r}>"

    def next_subset(self) -> NDArray[np.int64]:
        """Return the categories to publish to the next person, in increasing order.

        Once `adapt_every` answers have come in since the last choice, the sampler runs on all of them and a new subset
        is chosen; until then it is the same again.
        """
        if self._published is None or self._waiting >= self._settings.plan.round_size:
            before = self._state()
            if self._waiting:
                self._sample()
            self._published = self._choose()
            try:
                self._write({"adapted": self._state()})
            except BaseException:
                self._restore(before)
                raise
        return self._published.copy()

    def record(self, y: ArrayLike, subset: ArrayLike | None = None) -> None:
        """Record one answer, or several that were given under one subset. On bad input nothing changes.

        Parameters
        ----------
        y : int or array of int
            What the mechanism answered.
        subset : indices or boolean mask, optional
            The subset that was published to these people; the last published one by default. Answers may come late
            and in any order.
        """
        if subset is None and self._published is None:
            raise ValueError("subset must be given, or published by next_subset() first: none has been published yet")
        if len(self._responses) != self._records.used[RESPONSES]:
            raise ValueError("responses must be added to by record() only, got some that were added otherwise")
        mask = check_subset(self._published if subset is None else subset, self.mechanism.n_categories)
        answers = self._responses.check_answers(y)
        self._write({"answers": answers.tolist(), "subset": np.flatnonzero(mask).tolist()})
        self._responses.append(answers, mask)
        self._add_records(answers, mask)
        self._waiting += len(answers)

    def estimate(
        self,
        draws: int = 1000,
        probability: float = PROBABILITY,
        prior: ArrayLike | Literal["learned", "own"] = "learned",
    ) -> "xr.Dataset":
        """Return mean and interval of θ given all answers so far, from the exact posterior; the chain does not move.

        The draws are those of ``sample(collector.responses, "nuts", prior)``. What chose the subsets, the paper's SGLD
        by default, plays no part: its draws spread too little or too much for an interval.

        Parameters
        ----------
        draws : int
            Draws of each of four chains.
        probability : float
            The share of the draws within the interval: the shortest that holds so many, from zero where the category
            may be empty (see `adobest_pp.intervals.shortest_intervals`).
        prior : float, array of shape (K,), "learned" or "own"
            As of `sample`; ``"own"`` is the one that the subsets are chosen under. Intervals under a flat prior do not
            hold the truth where most categories are empty, so that the default learns how uneven θ is.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``lower`` and ``upper`` by category; in the attributes sampler, prior, kind of interval,
            probability, draws, answers and seed, which is a function of the collection's own and of its answers.
        """
        from adobest_pp.samplers.api import sample

        chosen = self._settings.prior if isinstance(prior, str) and prior == "own" else prior
        seed = int(np.random.SeedSequence([int(word) for word in self._chain.state]).generate_state(1)[0])
        tree = sample(self._responses, "nuts", chosen, draws=draws, random_seed=seed, progressbar=False)
        names = ("sampler", "prior", "learned_prior", "draws", "chains", "n_responses", "random_seed", "fit_p_value")
        told = {name: tree.attrs[name] for name in names if name in tree.attrs}
        return summary(tree["posterior"].to_dataset()["theta"], probability).assign_attrs(told)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the collection to a file, and keep it up to date from now on.

        The file is a response file (`Responses.from_netcdf` and xarray read it, as it was saved last). From this call
        on, and after `load`, every answer is in a journal beside it before `record` returns, so that a crash loses
        none. Saving again starts a new journal. One collector at a time may be on a file.
        """
        if self._custom:
            raise ValueError(f"utility must be one of the built-in ones to be saved, got {self._custom.name!r}")
        schedule_from_settings(schedule_settings(self._settings.schedule))
        snapshot = uuid.uuid4().hex[:12]
        dataset = self._responses.to_xarray().assign_attrs(
            collector_settings=json.dumps(self._settings.describe()),
            collector_state=json.dumps(self._state()),
            collector_snapshot=snapshot,
        )
        journal = Journal(path, snapshot)
        try:
            with replacing(path) as temporary:
                dataset.to_netcdf(temporary, engine="h5netcdf")
        except BaseException:
            journal.remove()
            raise
        if self._journal is not None:
            self._journal.remove()
        self._journal = journal

    def close(self) -> None:
        """Let go of the file that the collection is kept in; another collector may then load it."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AdaptiveCollector":
        """Go on with a saved collection as if it had never stopped."""
        responses, attributes = read_responses(path)
        if "collector_snapshot" not in attributes:
            raise ValueError(f"path must name a file of AdaptiveCollector.save, got {os.fspath(path)!r}")
        settings = json.loads(attributes["collector_settings"])
        names = ("prior", "updates", "batch_size", "adapt_every", "sampler", "alpha")
        collector = cls(
            responses.mechanism,  # type: ignore[arg-type]
            settings["method"],
            schedule=schedule_from_settings(settings["schedule"]),
            categories=responses.categories,
            **{name: settings[name] for name in names if name in settings},
        )
        answers, index, subsets = responses.answers, responses.subset_index, responses.subsets
        # A run of answers under one subset at a time, in the order they came.
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        for start, part in zip(starts, np.split(answers, starts[1:]), strict=False):
            collector.record(part, subsets[index[start]])
        collector._restore(json.loads(attributes["collector_state"]))
        journal = Journal(path, attributes["collector_snapshot"])
        for event in read_events(path, attributes["collector_snapshot"]):
            if "adapted" in event:
                collector._restore(event["adapted"])
            else:
                collector.record(event["answers"], np.array(event["subset"], dtype=np.int64))
        collector._journal = journal
        return collector

    def _sample(self) -> None:
        n, n_updates = len(self._responses), self._settings.updates
        steps = self._settings.steps(self._rounds * n_updates, n_updates, n)
        sample_round(self._settings.plan, self._chain, self._records, steps, self._chain.phi, n_updates)
        self._rounds += 1
        self._waiting = 0

    def _choose(self) -> NDArray[np.int64]:
        if self._custom:
            return np.sort(select_subset(self._chain.phi / self._chain.phi.sum(), self.mechanism, self._custom))
        plan, chain = self._settings.plan, self._chain
        size = choose_size(plan.code, plan.alpha, chain.phi, self.mechanism.coefficients, chain.order, 0)
        return np.sort(chain.order[:size])

    def _add_records(self, answers: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
        """Bring the sampler's records up to the responses; kinds and subsets have the same order in both."""
        coefficients, size = self.mechanism.coefficients, int(mask.sum())
        self._records = reserve(self._records, coefficients, len(answers), 1)
        kind = FIRST_SET + self._responses.find_subset(mask)
        if kind == self._records.used[KINDS]:
            self._records.masks[kind] = mask
            add_set(self._records, size, coefficients)
        record_many(self._records, answers, kind, size)

    def _state(self) -> dict[str, Any]:
        return {
            "generator": [int(word) for word in self._chain.state],
            "phi": self._chain.phi.tolist(),
            "order": self._chain.order.tolist(),
            "center": self._chain.hamiltonian.center.tolist(),
            "published": None if self._published is None else self._published.tolist(),
            "rounds": self._rounds,
            "waiting": self._waiting,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._chain.state[:] = np.array(state["generator"], dtype=np.uint64)
        self._chain.phi[:] = state["phi"]
        self._chain.order[:] = state["order"]
        self._chain.hamiltonian.center[:] = state["center"]
        published = state["published"]
        self._published = None if published is None else np.array(published, dtype=np.int64)
        self._rounds, self._waiting = state["rounds"], state["waiting"]

    def _write(self, event: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.write(event)
