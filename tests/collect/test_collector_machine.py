"""Any interleaving of what can happen to a collection: either its answers are all there, or one clear sentence.

The oracle is a plain list of the answers that were acknowledged, and the state of the collector's own sampler. Kills,
full disks and interrupts come at any of the calls that change a file, and within a write at any byte.
"""

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from adobest_pp import RRRR, AdaptiveCollector, Responses
from tests.collect.saved import split

MECHANISM = RRRR(3, 1.0)
SUBSETS = [[], [0], [1, 2], [0, 2]]
CALLS = ("write", "fsync", "ftruncate", "replace", "link", "fchmod", "lseek")

answers = st.lists(st.integers(0, 2), min_size=1, max_size=3)
moments = st.tuples(st.integers(0, 9), st.integers(0, 80))


class Killed(BaseException):
    """The process is gone: whatever it would do next, it does not do."""


@contextmanager
def failing(moment, problem, *, dead=False):
    """Let the call of this number fail, after some bytes if it is a write; of a dead process, all later ones too."""
    number, size = moment
    real = {name: getattr(os, name) for name in CALLS}
    done = 0

    def wrap(name):
        def call(*arguments, **keywords):
            nonlocal done
            done += 1
            if done == number + 1 or (dead and done > number):
                if name == "write" and done == number + 1:
                    real[name](arguments[0], memoryview(arguments[1])[:size])
                raise problem
            return real[name](*arguments, **keywords)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrap(name))
        yield


@cache
def compiled(sampler):
    """Compile what a collector calls: a compiler that cannot write its cache is not what is tested here."""
    with tempfile.TemporaryDirectory() as folder:
        collector = AdaptiveCollector(MECHANISM, adapt_every=1, sampler=sampler, updates=2, random_seed=1)
        collector.save(Path(folder) / "poll.nc")
        for answer in (0, 1, 2, 0):
            collector.record(answer, SUBSETS[0])
        collector.next_subset()
        collector.close()


class Collection(RuleBasedStateMachine):
    """A collection, its file, and copies of it, each with what must be in it."""

    @initialize(every=st.sampled_from([1, 3]), sampler=st.sampled_from(["sgld", "gibbs", "exact"]))
    def begin(self, every, sampler):
        compiled(sampler)
        self.folder = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda descriptor: None)  # nobody pulls the plug here
        self.path = self.folder / "poll.nc"
        self.collector = AdaptiveCollector(MECHANISM, adapt_every=every, sampler=sampler, updates=2, random_seed=1)
        self.collector.save(self.path)
        self.oracle, self.state = [], self.collector._state()
        self.copies = []

    def teardown(self):
        if hasattr(self, "folder"):
            self.patch.undo()
            self.collector.close()
            shutil.rmtree(self.folder)

    # ------------------------------------------------------------ what a program does
    @rule(y=answers, subset=st.sampled_from(SUBSETS))
    def record(self, y, subset):
        self.collector.record(y, subset)
        self.oracle += [(one, subset) for one in y]
        self.confirm()

    @rule()
    def adapt(self):
        self.collector.next_subset()
        self.confirm()

    @rule()
    def save(self):
        self.collector.save(self.path)
        self.confirm()
        assert split(self.path)[2] == []

    @rule(elsewhere=st.booleans())
    def save_elsewhere(self, elsewhere):
        """A file that is there is refused; with a new name, the old file stays as it is."""
        if self.copies and not elsewhere:
            with pytest.raises(FileExistsError, match="which exists"):
                self.collector.save(self.copies[0][0])
            return
        old, self.path = self.path, self.folder / f"poll-{len(os.listdir(self.folder))}.nc"
        self.collector.save(self.path)
        self.copies.append((old, list(self.oracle), self.collector._state()))
        self.confirm()

    @rule()
    def copy(self):
        copy = self.folder / f"copy-{len(os.listdir(self.folder))}.nc"
        shutil.copy(self.path, copy)
        self.copies.append((copy, list(self.oracle), self.collector._state()))

    @rule()
    def load_again(self):
        with pytest.raises(ValueError, match="in use by another collector"):
            AdaptiveCollector.load(self.path)
        self.collector.close()
        self.collector = AdaptiveCollector.load(self.path)
        self.confirm()

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def go_on_with_a_copy(self, data):
        place = data.draw(st.integers(0, len(self.copies) - 1))
        kept = (self.path, self.oracle, self.collector._state())
        self.collector.close()
        self.path, self.oracle, state = self.copies[place]
        self.copies[place] = kept
        self.collector = AdaptiveCollector.load(self.path)
        assert self.collector._state() == state
        self.confirm()

    # ------------------------------------------------------------ what happens to it
    @rule(moment=moments, y=answers, subset=st.sampled_from(SUBSETS), what=st.sampled_from(["record", "adapt", "save"]))
    def kill(self, moment, y, subset, what):
        """Nothing that was acknowledged is lost, and what was not is there whole or not at all."""
        before, twin = self.collector._state(), self.twin()
        attempt(twin, what, y, subset, twin._journal.path)
        after, extra = twin._state(), [(one, subset) for one in y] if what == "record" else []
        twin.close()
        acknowledged = False
        with failing(moment, Killed(), dead=True), suppress(Killed):
            attempt(self.collector, what, y, subset, self.path)
            acknowledged = True
        self.collector.close()
        self.remove_leftovers()
        self.collector = AdaptiveCollector.load(self.path)
        whole = (self.oracle + extra, after)
        assert (self.on_disk(), self.collector._state()) in (
            [whole] if acknowledged else [(self.oracle, before), whole]
        )
        self.oracle = self.on_disk()
        self.confirm()

    @rule(moment=moments, y=answers, subset=st.sampled_from(SUBSETS), what=st.sampled_from(["record", "adapt", "save"]))
    def fill_the_disk(self, moment, y, subset, what):
        """One sentence, and everything is as before; or the call had no need of more space."""
        state, told = self.collector._state(), None
        with failing(moment, OSError(errno.ENOSPC, "No space left on device")):
            try:
                attempt(self.collector, what, y, subset, self.path)
                self.oracle += [(one, subset) for one in y] if what == "record" else []
            except OSError as problem:
                told = str(problem)
        if told is not None:
            assert f"'{self.path}' could not be written, and nothing was changed: No space left on device" in told
            assert self.collector._state() == state
        assert not [name for name in os.listdir(self.folder) if name.endswith(".tmp")]
        self.confirm()

    @rule(moment=moments, y=answers, subset=st.sampled_from(SUBSETS), what=st.sampled_from(["record", "adapt", "save"]))
    def interrupt(self, moment, y, subset, what):
        """Whatever became of the call, the collector and its file say the same."""
        with failing(moment, KeyboardInterrupt()), suppress(KeyboardInterrupt):
            attempt(self.collector, what, y, subset, self.path)
        assert not [name for name in os.listdir(self.folder) if name.endswith(".tmp")]
        if len(self.collector.responses) > len(self.oracle):
            self.oracle += [(one, subset) for one in y]
        self.confirm()

    @rule(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    def damage(self, place, bit):
        """A file that was cut, or has another bit or a line less, is refused, or all that was acknowledged is there."""
        content = self.path.read_bytes()
        netcdf, heading, lines = split(self.path)
        anywhere = int(place * len(content))
        behind = len(netcdf) + int(place * (len(content) - len(netcdf)))
        gone = int(place * len(lines))
        damages = [content[:anywhere], content[:behind], flipped(content, anywhere, bit), flipped(content, behind, bit)]
        damages.append(b"".join([netcdf, *heading, *lines[:gone], *lines[gone + 1 :]]))
        other = self.folder / "damaged.nc"
        for damaged in damages:
            other.write_bytes(damaged)
            told = found = None
            try:
                found = AdaptiveCollector.load(other)
            except ValueError as problem:
                told = repr(problem)
            if found is None:
                assert told.startswith("ValueError(")
                assert "damaged.nc" in told
                assert "\\n" not in told
            else:
                assert found._state() == self.collector._state()
                assert listed(found.responses) == self.oracle
                found.close()
        other.unlink()

    # ------------------------------------------------------------ what must hold
    def twin(self):
        """Return the same collection on a copy of the file: what happens to it if nothing comes between."""
        copy = self.folder / "twin.nc"
        shutil.copy(self.path, copy)
        return AdaptiveCollector.load(copy)

    def confirm(self):
        assert listed(self.collector.responses) == self.oracle
        assert self.on_disk() == self.oracle

    def on_disk(self):
        return listed(Responses.from_netcdf(self.path))

    def remove_leftovers(self):
        """What a killed process could not remove is a file that nobody asks for."""
        for name in os.listdir(self.folder):
            if name.endswith(".tmp"):
                (self.folder / name).unlink()


def flipped(content, at, bit):
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def attempt(collector, what, y, subset, path):
    if what == "record":
        collector.record(y, subset)
    elif what == "adapt":
        collector.next_subset()
    else:
        collector.save(path)


def listed(responses):
    subsets = [np.flatnonzero(mask).tolist() for mask in responses.subsets]
    return [(int(y), subsets[s]) for y, s in zip(responses.answers, responses.subset_index, strict=True)]


# Without shrinking: every step reads files, and a failing example is short enough.
PHASES = (Phase.explicit, Phase.generate)
Collection.TestCase.settings = settings(max_examples=12, stateful_step_count=16, phases=PHASES)


class TestCollection(Collection.TestCase):
    """A moderate number of histories."""


@pytest.mark.slow
class TestManyCollections(Collection.TestCase):
    """The same at length."""

    settings = settings(max_examples=400, stateful_step_count=40, phases=PHASES)
