"""What every collection has in common: its file, kept up to date by a journal, and its estimate."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from adobest_pp._checks import check_flag, check_path
from adobest_pp._dirichlet import ESTIMATE_PRIOR
from adobest_pp._files import check_target, netcdf_bytes
from adobest_pp.answers.journal import Journal
from adobest_pp.answers.response_files import COLLECTION, Stored, read_stored
from adobest_pp.answers.responses import Responses
from adobest_pp.intervals import PROBABILITY, summary
from adobest_pp.mechanisms import Mechanism

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["KeptCollection", "resumed"]


NOTE = (
    "Answers since the last save follow the netCDF part of this file; adobest_pp.Responses.from_netcdf reads them all"
)

# A journal longer than this, in bytes, and than the netCDF part is folded into that part.
LONG_JOURNAL = 4_000_000


class KeptCollection(ABC):
    """A collection that may be kept in a file. A subclass says what it writes there beside the responses."""

    _journal: Journal | None
    # Of a collection from a file of people: what that file was, and how many of its people have been asked.
    _people: dict[str, Any] | None = None

    @property
    @abstractmethod
    def responses(self) -> Responses:
        """Everything recorded so far; add to it with `record` only."""

    @abstractmethod
    def _settle(self) -> None:
        """Keep what was written, even if the call that wrote it was interrupted after that."""

    @abstractmethod
    def _attributes(self) -> dict[str, str]:
        """Return settings and state, as attributes of the file."""

    @abstractmethod
    def _described(self) -> dict[str, Any]:
        """Return the settings that a collection must share with another to be continued as that one."""

    @abstractmethod
    def _publish(self) -> tuple[Mechanism, dict[str, Any], Any]:
        """Return what the next device runs, the further arguments of its `privatize`, and what `_record` must know."""

    @abstractmethod
    def _record(self, y: ArrayLike, told: Any, person: int | None = None) -> None:
        """Record answers of people who were told this; `person` is the one of the file that the answer belongs to."""

    @abstractmethod
    def _seed_of_estimate(self) -> int:
        """Return a function of the collection's seed and of its answers."""

    @property
    @abstractmethod
    def _own_prior(self) -> Any:
        """The prior under which questions are chosen."""

    @property
    def did_not_answer(self) -> int:
        """How many people in the file of people had no value, and were not asked; 0 for a collection of no file."""
        self._settle()
        return int((self._people or {}).get("empty", 0))

    def estimate(
        self,
        draws: int = 1000,
        probability: float = PROBABILITY,
        prior: ArrayLike | Literal["learned", "own"] = ESTIMATE_PRIOR,
    ) -> "xr.Dataset":
        """Return mean and interval of θ given all answers so far, from the exact posterior; the chain does not move.

        The draws are those of ``sample(collector.responses, "nuts", prior)``; where more than 2500 answers are all
        different, those of ``"sgld_cv"``, which is at the same posterior in seconds, unless it says that it is not. The
        attribute ``sampler`` tells which. What chose the questions, the paper's SGLD by default, plays no part: its
        draws are too narrow or too wide for an interval.

        Parameters
        ----------
        draws : int
            Draws of each of four chains.
        probability : float
            How often the interval of a category holds its share, whatever the shares are (see `intervals.summary`).
        prior : float, array of shape (K,), "learned" or "own"
            As in `sample`; ``"own"`` is the prior under which questions are chosen. The mean under a flat prior is far
            from the truth where most categories are empty, so the default learns how uneven θ is. Intervals rest on the
            prior only if it prefers some categories.

        Returns
        -------
        xarray.Dataset
            ``mean``, ``lower`` and ``upper`` by category, whether it ``may_be_empty``, and the shares of the interval's
            width that are due to the ``sample`` and to ``privacy`` (`adobest_pp.intervals.summary`); in the attributes
            sampler, prior, kind of interval, probability, draws, answers and seed, which is a function of the
            collection's own and of its answers.
        """
        from adobest_pp.samplers.choice import quick_sample

        chosen = self._own_prior if isinstance(prior, str) and prior == "own" else prior
        seed = self._seed_of_estimate()
        tree = quick_sample(self.responses, chosen, draws, seed)
        names = ("sampler", "prior", "learned_prior", "draws", "chains", "n_responses", "random_seed", "fit_p_value")
        told = {name: tree.attrs[name] for name in names if name in tree.attrs}
        return summary(tree, probability).assign_attrs(told)

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
        check_path(path)
        check_flag(overwrite, "overwrite")
        self._settle()
        attributes = {COLLECTION: NOTE, **self._attributes()}
        if self._people is not None:
            attributes["collector_people"] = json.dumps(self._people)
        before = self._journal
        check_target(path, overwrite=overwrite or (before is not None and before.is_at(path)))
        netcdf = netcdf_bytes(self.responses.to_xarray().assign_attrs(attributes), checksum=False)
        try:
            self._journal = Journal.create(path, netcdf, overwrite=overwrite, own=before)
        except BaseException:
            # Interrupted after the new file took the place of the old one: then this is the collection's file.
            if before is not None and not before.is_at(before.path):
                self._journal = Journal.created(path, netcdf) or before
            raise
        finally:
            if before is not None and self._journal is not before:
                assert self._journal is not None
                self._journal.holds = before.holds
                before.close()

    def close(self) -> None:
        """Close the file that the collection is kept in; another collector may then load it."""
        self._settle()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

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

    def _of_person(self, person: int | None) -> tuple[dict[str, int], dict[str, Any] | None]:
        """Return what an event says of a person in the file, and what is known of that file after it."""
        if person is None or self._people is None:
            return {}, None
        return {"person": person}, self._people | {"asked": person + 1}

    def _write(self, event: dict[str, Any]) -> None:
        if self._journal is not None:
            self._journal.write(event)


def resumed[C: KeptCollection](path: str | os.PathLike[str], rebuild: Callable[[Stored, str], C]) -> C:
    """Return the collection in a file, open for it alone; `rebuild` makes it from what is stored in the named file."""
    name = os.fspath(check_path(path))
    if not Path(path).is_file():
        raise FileNotFoundError(f"path must name a collection, got {name!r}, which does not exist")
    journal = Journal.claim(path)
    try:
        stored = read_stored(path)
        if COLLECTION not in stored.attributes or stored.tail is None:
            raise ValueError(f"path must name a file of AdaptiveCollector.save, got {name!r}")
        collector = rebuild(stored, name)
        journal.resume(stored.tail)
    except BaseException:
        journal.close()
        raise
    collector._journal = journal
    return collector
