"""The function that makes one run of a study: its arguments, what it may declare, and how it is found by name."""

import hashlib
import inspect
import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from adobest_pp._files import cache_folder
from adobest_pp._text import brief

RunFunction = Callable[..., Mapping[str, float]]


@dataclass(frozen=True)
class Run:
    """The first argument of a run function: which run it makes, and where its random numbers come from.

    Attributes
    ----------
    seed : int
        Seed of the study.
    number : int
        Number of the run within its cell, from 0.
    settings : mapping
        The settings of the cell, which the function also gets as keywords.
    measures : tuple of str
        The measures that the study keeps. The function may leave out all others.
    """

    seed: int
    number: int
    settings: Mapping[str, Any]
    measures: tuple[str, ...] = ()

    def sequence(self, **shared: Any) -> np.random.SeedSequence:
        """Return a seed that is a function of the study's seed, the number of the run, and settings.

        Parameters
        ----------
        **shared
            Any plain values. Cells that pass the same ones get the same seed, so that they are compared in pairs.
            By default the seed depends on all settings of the cell.
        """
        text = canonical(shared or {"cell": dict(self.settings)})
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return np.random.SeedSequence((self.seed, int.from_bytes(digest), self.number))

    def rng(self, **shared: Any) -> np.random.Generator:
        """Return a generator with the seed of `sequence`."""
        return np.random.default_rng(self.sequence(**shared))


class Measure(NamedTuple):
    """What a measure means, and its unit."""

    meaning: str
    unit: str = "1"


def declares[F: RunFunction](
    measures: Mapping[str, Measure], check: Callable[..., object] | None = None
) -> Callable[[F], F]:
    """Declare the measures of a run function with a decorator, which is optional.

    Parameters
    ----------
    measures : mapping of str to Measure
        All that the function can measure. A study that asks for others raises ValueError before it begins.
    check : callable, optional
        Called with the settings of every cell before a study begins; raises ValueError for those that cannot be run.
    """

    def decorate(function: F) -> F:
        vars(function).update(study_measures=dict(measures), study_check=check)
        return function

    return decorate


def measures_of(name: str) -> dict[str, Measure]:
    """Return the measures that a run function declares; none if it was not decorated."""
    found: dict[str, Measure] = getattr(find_run(name), "study_measures", {})
    return found


def find_run(name: str) -> RunFunction:
    """Import a function by its name, ``"module:function"``, or raise ValueError."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        raise ValueError(f"run must name a function as 'module:function', got {brief(name)}: {problem}") from None
    if not callable(found):
        raise ValueError(f"run must name a function as 'module:function', got {brief(name)}, which is not a function")
    function: RunFunction = found
    return function


def check_call(name: str, measures: Collection[str], cells: Collection[Mapping[str, Any]]) -> None:
    """Raise ValueError if a run function cannot be called with the settings of some cell, or lacks a measure."""
    function = find_run(name)
    declared = measures_of(name)
    for measure in measures if declared else ():
        if measure not in declared:
            raise ValueError(f"measures must be of {_known(measure, declared)}, got {measure!r}")
    _, *parameters = inspect.signature(function).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {parameter.name: parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    for cell in cells:
        for setting in cell:
            if not takes_any and setting not in named:
                raise ValueError(f"{setting} must be a setting of {name}: {_known(setting, named)}")
        for setting, parameter in named.items():
            if parameter.default is parameter.empty and setting not in cell:
                raise ValueError(f"{setting} must be given in [grid] or [settings]: {name} needs it in every cell")
        if check := getattr(function, "study_check", None):
            check(**cell)


def make_run(function: RunFunction, run: Run) -> dict[str, float]:
    """Call a run function, and return the measures that were asked for."""
    found = function(run, **run.settings)
    missing = [name for name in run.measures if name not in found]
    if missing:
        raise ValueError(f"a run must return {', '.join(map(repr, missing))}, got {', '.join(map(repr, found))} only")
    return {name: float(found[name]) for name in run.measures}


def canonical(value: Any) -> str:
    """Return JSON that is the same for equal values, 1 or 1.0, on every machine."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _known(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return ", ".join(map(repr, known)) + (f" (did you mean {close[0]!r}?)" if close else "")


# The task of a worker: make a few runs of one cell, and return their numbers.

NOT_RUN, DONE, FAILED = 0, 1, 2

_LONGEST_ERROR = 1000
# Seconds to wait for a process that compiles.
_COMPILING = 3600.0
# In this process: the kinds of run that are compiled, and the sources that were found equal to the driver's.
_compiled: set[str] = set()
_checked: set[str] = set()


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run: its measures, or the text of its error, and how long it took."""

    run: int
    measures: Mapping[str, float]
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Batch:
    """Some runs of one cell: `index` is its place in the store, `sources` those of the process that asks for them."""

    index: int
    function: str
    settings: Mapping[str, Any]
    seed: int
    runs: tuple[int, ...]
    measures: tuple[str, ...]
    sources: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The same text for runs that compile the same functions and take about as long."""
        settings = {name: value for name, value in self.settings.items() if not isinstance(value, float)}
        return canonical([self.function, settings, self.measures])


def run_batch(batch: Batch) -> list[Outcome]:
    """Make the runs of a batch; an exception in one of them is its outcome."""
    _check_sources(batch.sources)
    return [_outcome(batch, number) for number in batch.runs]


def _check_sources(sources: Mapping[str, str]) -> None:
    from adobest_pp.studies.grid import differing, hashes_of

    if (key := canonical(sources)) in _checked:
        return
    if names := differing(sources, hashes_of(sources)):
        raise ValueError(f"worker must have the sources that the study is run with; they differ in {names}")
    _checked.add(key)


def _outcome(batch: Batch, number: int) -> Outcome:
    start = time.perf_counter()
    try:
        with nullcontext() if batch.kind in _compiled else compiling_alone():
            values = make_run(find_run(batch.function), Run(batch.seed, number, batch.settings, batch.measures))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic in compiled code is no Exception
        return Outcome(number, {}, time.perf_counter() - start, _text(problem))
    _compiled.add(batch.kind)
    return Outcome(number, values, time.perf_counter() - start)


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Let only one process of this user and machine compile at a time.

    Two processes that compile the same functions at once can corrupt Numba's cache on disk, whose index they both
    rewrite; and the second need not compile at all. The lock is an empty database in the user's own cache folder. If
    there is no such folder, no process waits.
    """
    connection = None
    try:
        path = cache_folder() / "compiling.lock"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # nobody else may lock it
        connection = sqlite3.connect(path, timeout=_COMPILING, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
    except (OSError, sqlite3.Error):
        pass
    try:
        yield
    finally:
        if connection is not None:
            connection.close()


def _text(problem: BaseException) -> str:
    """Return an exception as one line of printable text."""
    try:
        text = str(problem)
    except Exception:
        text = "(no text)"
    line = " ".join(f"{type(problem).__name__}: {text[:_LONGEST_ERROR]}".split())
    escaped = (sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line)
    return "".join(escaped)[:_LONGEST_ERROR]
