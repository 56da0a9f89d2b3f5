"""Grade samplers on the reference posteriors, each within a budget of time or of gradient evaluations.

Each sampler runs in a process of its own, so the others continue if one hangs or crashes. On each reference it makes
250, 500, 1,000, … draws per chain, after as many tuning draws, as long as the next run is within the budget. The last
run is graded; the errors of all runs show how fast the error falls with the work.

Time is CPU time, in all threads of the sampler's process: other programs on the machine hardly change it, and a sampler
gains nothing by taking more cores. Wall time only stops runs that hang.
"""

import json
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._checks import check_count, check_integer, check_positive
from adobest_pp._progress import SlowProgress
from adobest_pp._text import brief
from adobest_pp._wording import verdict_in_words
from adobest_pp.answers.draws import theta_of
from adobest_pp.diagnostics import references
from adobest_pp.diagnostics.comparison import MEANINGS as COMPARED
from adobest_pp.diagnostics.comparison import compare
from adobest_pp.diagnostics.references import Reference
from adobest_pp.samplers.registry import Drawn, Sampler, resolve
from adobest_pp.samplers.sampling import sample

# Draws per chain of the first run and of the longest one.
FIRST_DRAWS, MOST_DRAWS = 250, 4000
RUNS = int(math.log2(MOST_DRAWS // FIRST_DRAWS)) + 1
# The first call compiles, and is not timed. It may take this many seconds if the budget is smaller.
TO_COMPILE = 60.0
# A run is stopped after this many times its budget in wall time, however little CPU time it has used.
PATIENCE = 10.0
# Threads of linear algebra wait for each other busily, which would count as CPU time. The caller's settings win.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
FAILED = "failed"
SDS = "standard deviations of the reference"

# Long name and units of each variable of the result.
MEANINGS = {
    "verdict": (f"verdict of diagnostics.compare, or {FAILED!r}", ""),
    "fault": ("what the verdict rests on", ""),
    "in_words": ("the verdict in words, or why there is none", ""),
    "problem": ("why a run failed; empty if none did", ""),
    "mean_shift": ("largest difference of means to the reference", SDS),
    "sd_ratio": ("standard deviation over that of the reference, where it is farthest from 1", "1"),
    "tail_error": COMPARED["tail_error"],
    "error": ("root mean square over categories of mean_shift and sd_ratio − 1", SDS),
    **{name: COMPARED[name] for name in ("energy_p_value", "stein_discrepancy", "stein_p_value")},
    **{name: COMPARED[name] for name in ("r_hat", "ess_bulk", "ess_tail")},
    "draws": ("draws kept of each chain", "draws"),
    "seconds": ("CPU time of the run, of all threads", "s"),
    "gradients": ("gradient evaluations of the run, on all answers", "1"),
    "ess_per_second": ("smallest bulk effective sample size per second of CPU time", "1/s"),
    "ess_per_gradient": ("smallest bulk effective sample size per gradient evaluation", "1"),
}
WORDS = ("verdict", "fault", "in_words", "problem")
BY_RUN = ("error", "draws", "seconds", "gradients")


def grade(
    samplers: Any,
    group: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    budget: float = 30.0,
    gradients: float | None = None,
    chains: int = 4,
    random_seed: int = 1,
    progressbar: bool = True,
) -> xr.Dataset:
    """Grade a sampler, or several, on the reference posteriors.

    Parameters
    ----------
    samplers : str, function, PyMC step class, or mapping of str to these
        What `sample` takes: a registered name such as ``"nuts"``; a function
        ``(responses, prior, draws, tune, chains, seed)`` that returns θ as an array of shape (chains, draws, K) or as a
        tree; or a step class. Where the prior is learned, `prior` is ``"learned"``, which a sampler takes if it was
        registered with ``learned=True``. In the group ``"regression"`` a function also gets `covariates`, by name, if
        it has that argument; `prior` is the sd of the normal prior of the coefficients, and it returns these in an
        array of shape (chain, draw, term, contrast): see `regression_model`. Samplers that take neither fail on these
        references, and ``problem`` says why.
    group : str or sequence of str, optional
        Groups of `references.groups`; by default all.
    names : sequence of str, optional
        Names of `references.names`, in place of groups.
    budget : float, default 30
        Seconds of CPU time for a run on one reference. A run that takes longer is stopped, and the one before it is
        graded.
    gradients : float, optional
        Gradient evaluations for a run on one reference. `budget` then only stops runs that hang.
    chains : int, default 4
        Chains of each run.
    random_seed : int, default 1
        Seed of the first run on a reference; each further run adds 1.
    progressbar : bool, default True
        Whether to show a progress bar after two seconds.

    Returns
    -------
    xarray.Dataset
        By sampler and reference: ``verdict`` and ``fault`` as in `compare`, or ``"failed"``; ``in_words``;
        ``problem``, a sentence if a run raised an error, crashed, hung or returned no valid draws;
        ``mean_shift``, ``sd_ratio`` and ``tail_error``, each of the worst category; ``error``, the root mean square of
        the differences of means and standard deviations, in sds of the reference; energy and Stein tests, R-hat,
        effective sample sizes, ``seconds``, ``gradients``, ``ess_per_second`` and ``ess_per_gradient``. All are of the
        last run. Also by run: ``run_error``, ``run_draws``, ``run_seconds`` and ``run_gradients``. The
        coordinate ``group`` has the group of each reference; the attributes give settings and versions.

    Notes
    -----
    **Gradient evaluations** are read from trees: from the attribute ``gradient_evaluations``, which a function sets on
    its tree or in `samplers.Drawn`; from ``n_steps`` in ``sample_stats``, as NUTS records it for kept draws, where
    tuning counts as much again; or from what ``"sgld"`` and ``"sgld_cv"`` record, where a batch counts by its share of
    distinct answers. Otherwise they are NaN, and a run with a budget in `gradients` fails.

    **Time** is CPU time: of all threads of the sampler's process, and of processes that it started and that have ended.
    So results do not depend on what else the machine does, and several cores gain nothing. Work of a graphics card does
    not count. The first call on a reference, which may compile, is not timed. A run that hangs without using the CPU is
    stopped after ten times the budget in wall time; on Windows this is the only limit. Unless you set
    ``OMP_NUM_THREADS``, linear algebra has one thread.

    **Processes.** Each sampler has a process of its own, with the same module path. Functions are sent there by
    cloudpickle, so those of a notebook work, too. What they print goes to standard error.

    See Also
    --------
    compare : Grades draws.
    adobest_pp.plots.plot_grades : Draws the error against the work.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> result = ad.diagnostics.grade("gibbs", names=["srr_two"], budget=5, progressbar=False)
    >>> result.verdict.values.tolist()
    [['indistinguishable']]
    """
    chosen = _check_samplers(samplers)
    wanted = _check_names(group, names)
    limits = RunBudget(
        check_positive(budget, "budget"), None if gradients is None else check_positive(gradients, "gradients")
    )
    n_chains, seed = check_count(chains, "chains"), check_integer(random_seed, "random_seed", 0, 2**31)
    rows: list[list[dict[str, Any]]] = []
    with SlowProgress(len(chosen) * len(wanted), "Grading", progressbar) as progress:
        for label, sampler in chosen.items():
            with SamplerProcess(sampler) as worker:
                rows.append([])
                for name in wanted:
                    progress.advance(0, f"{label} on {name}")
                    rows[-1].append(_graded(worker, references.load(name), limits, n_chains, seed))
                    progress.advance(1)
    settings: dict[str, Any] = {"budget": limits.seconds, "chains": n_chains, "random_seed": seed}
    settings |= {} if limits.gradients is None else {"gradients": limits.gradients}
    settings |= {"archive_version": references.archive_version()}
    settings |= {f"{package}_version": version(package) for package in ("adobest_pp", "numpy", "pymc", "nutpie")}
    return _dataset(list(chosen), wanted, rows, settings)


class RunBudget(NamedTuple):
    """The budget of a run on one reference."""

    seconds: float
    gradients: float | None


class SamplerRun(NamedTuple):
    """The draws of one run, with the dimensions of the reference's, and what they cost."""

    values: NDArray[np.float64]
    seconds: float
    gradients: float


class NoDraws(Exception):
    """A run returned no valid draws; the message says why."""


def _check_samplers(samplers: Any) -> dict[str, Sampler]:
    if isinstance(samplers, Mapping):
        found = {label: resolve(sampler) for label, sampler in samplers.items()}
        if not found or not all(isinstance(label, str) for label in found):
            raise ValueError(f"samplers must be a mapping of at least one label to a sampler, got {brief(samplers)}")
        return found
    one = resolve(samplers)
    return {one.name: one}


def _check_names(group: Any, names: Any) -> list[str]:
    if names is None:
        groups = [group] if group is None or isinstance(group, str) else group
        if not isinstance(groups, Sequence) or not groups:
            raise ValueError(f"group must be a name or a sequence of names of groups, got {brief(group)}")
        return list(dict.fromkeys(name for one in groups for name in references.names(one)))
    if group is not None:
        raise ValueError("group must be left out where names are given")
    known = references.names()
    if isinstance(names, str) or not isinstance(names, Sequence) or not names or not set(names) <= set(known):
        raise ValueError(f"names must be some of {', '.join(map(repr, known))}, got {brief(names)}")
    return list(dict.fromkeys(names))


# One sampler on one reference.


def _graded(
    worker: "SamplerProcess", reference: Reference, limits: RunBudget, chains: int, seed: int
) -> dict[str, Any]:
    name, runs, problem = reference.draws.attrs["reference"], list[SamplerRun](), ""
    try:
        worker.run(name, FIRST_DRAWS, chains, seed, max(limits.seconds, TO_COMPILE))
        for i in range(RUNS):
            run = worker.run(name, FIRST_DRAWS << i, chains, seed + i, limits.seconds)
            if limits.gradients is not None and math.isnan(run.gradients):
                raise NoDraws("its gradient evaluations are not known: return samplers.Drawn with gradient_evaluations")
            runs.append(run)
            if 2 * run.seconds > limits.seconds or (limits.gradients or np.inf) < 2 * run.gradients:
                break
    except NoDraws as failure:
        problem = str(failure)
    row: dict[str, Any] = {"problem": problem, "runs": [_work(run, reference) for run in runs]}
    if not runs:
        return row | {"verdict": FAILED, "fault": "", "in_words": f"{FAILED}: {problem}"}
    right = reference.parameters
    labels = {dim: right[dim].values for dim in right.dims[2:]}
    posterior = xr.Dataset({right.name: (right.dims, runs[-1].values)}, labels)
    found = compare({"sampler": xr.DataTree.from_dict({"posterior": posterior})}, reference).sel(sampler="sampler")
    ratios, ess = found["sd_ratio"].values, float(found["ess_bulk"])
    return {
        **row,
        **{key: found[key].item() for key in MEANINGS if key in found and not found[key].ndim},
        **_work(runs[-1], reference),
        "in_words": verdict_in_words(found),
        "mean_shift": float(np.abs(found["mean_shift"]).max()),
        "sd_ratio": float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-300))))]),
        "tail_error": float(found["tail_error"].max()),
        "ess_per_second": ess / runs[-1].seconds,
        "ess_per_gradient": ess / runs[-1].gradients,
    }


def _work(run: SamplerRun, reference: Reference) -> dict[str, float]:
    """Return the cost of a run, and its error; see `MEANINGS`."""
    right = reference.parameters.values
    sd, right_sd = (values.std(axis=(0, 1)) for values in (run.values, right))
    shift = (run.values.mean(axis=(0, 1)) - right.mean(axis=(0, 1))) / right_sd
    error = float(np.sqrt(np.mean(shift**2 + (sd / right_sd - 1) ** 2)))
    return {"draws": run.values.shape[1], "seconds": run.seconds, "gradients": run.gradients, "error": error}


def _dataset(
    samplers: list[str], names: list[str], rows: list[list[dict[str, Any]]], settings: dict[str, Any]
) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for key, (meaning, units) in MEANINGS.items():
        values = [[row.get(key, "" if key in WORDS else np.nan) for row in line] for line in rows]
        variables[key] = (("sampler", "reference"), np.array(values), {"long_name": meaning, "units": units})
    for key in BY_RUN:
        by_run = np.full((len(samplers), len(names), RUNS), np.nan)
        for i, line in enumerate(rows):
            for j, row in enumerate(line):
                by_run[i, j, : len(row["runs"])] = [run[key] for run in row["runs"]]
        meaning, units = MEANINGS[key]
        variables[f"run_{key}"] = (("sampler", "reference", "run"), by_run, {"long_name": meaning, "units": units})
    about = references.described()
    coords = {
        "sampler": samplers,
        "reference": names,
        "group": ("reference", [about[name]["group"] for name in names]),
        "n_categories": ("reference", [len(about[name]["categories"]) for name in names]),
    }
    return xr.Dataset(variables, coords, settings)


def as_records(result: xr.Dataset) -> dict[str, Any]:
    """Return the result of `grade` as plain values for JSON: settings, and a record for each sampler and reference.

    Unknown values are None.
    """
    records = []
    for sampler in result["sampler"].values.tolist():
        for name in result["reference"].values.tolist():
            row = result.sel(sampler=sampler, reference=name)
            record = {"sampler": sampler, "reference": name, "group": row["group"].item()}
            record |= {key: plain(row[key].item()) for key in MEANINGS}
            done = row["run_error"].notnull().values
            runs = {key: row[f"run_{key}"].values[done].tolist() for key in BY_RUN}
            record["runs"] = {key: [plain(value) for value in values] for key, values in runs.items()}
            records.append(record)
    return {"settings": {str(key): plain(value) for key, value in result.attrs.items()}, "grades": records}


def plain(value: Any) -> Any:
    """Return a value for JSON: of NumPy as one of Python, and None for NaN and infinity."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# The process of a sampler. A message is the length of a pickle, and the pickle.

PROGRAM = "import sys; sys.path[:0] = {path!r}; from adobest_pp.diagnostics.grading import serve; serve()"


class SamplerProcess:
    """The process of one sampler; use it as a context manager. It starts with the first run, and again after a stop."""

    def __init__(self, sampler: Sampler) -> None:
        import cloudpickle  # type: ignore[import-untyped]

        self._sampler = cloudpickle.dumps(sampler)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "SamplerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, name: str, draws: int, chains: int, seed: int, seconds: float) -> SamplerRun:
        """Run the sampler on a reference, or raise NoDraws."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        over = threading.Event()

        def stop() -> None:
            over.set()
            process.kill()

        timer = threading.Timer(PATIENCE * seconds, stop)
        timer.start()
        try:
            _send(process.stdin, pickle.dumps((name, draws, chains, seed, seconds)))
            reply = pickle.loads(_receive(process.stdout))
        except (OSError, EOFError):
            self._end()
            limit = f"{seconds:g} s of CPU time"
            if over.is_set():
                limit = f"{PATIENCE * seconds:g} s of wall time, with a budget of {limit}"
            elif process.returncode != -OUT_OF_TIME:
                raise NoDraws(f"its process crashed (exit code {process.returncode})") from None
            raise NoDraws(f"stopped, as {draws} draws took longer than {limit}") from None
        finally:
            timer.cancel()
        if isinstance(reply, str):
            raise NoDraws(reply)
        return SamplerRun(*reply)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            program = PROGRAM.format(path=[str(Path(folder).absolute()) for folder in sys.path])
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=ONE_THREAD | os.environ,
            )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                _send(self._process.stdin, self._sampler)
                ready = pickle.loads(_receive(self._process.stdout))  # before any clock starts
            except (OSError, EOFError):
                ready = "its process did not start"
            if ready:
                self._end()
                raise NoDraws(ready)
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _send(stream: Any, message: bytes) -> None:
    stream.write(len(message).to_bytes(8, "big") + message)
    stream.flush()


def _receive(stream: Any) -> bytes:
    size = stream.read(8)
    message = stream.read(int.from_bytes(size, "big"))
    if len(size) < 8 or len(message) < int.from_bytes(size, "big"):
        raise EOFError
    return bytes(message)


def serve() -> None:
    """Answer requests for runs until the input ends: the program of the process."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that what a sampler prints does not mix with the replies
    try:
        sampler, problem = pickle.loads(_receive(source)), ""
    except Exception as error:  # whatever its module raises
        problem = f"it cannot be imported in a process of its own: {_sentence(error)}"
    _send(sink, pickle.dumps(problem))
    logging.getLogger("adobest_pp").setLevel(logging.CRITICAL)  # the verdict says what a warning would
    loaded: dict[str, Reference] = {}
    while not problem:
        try:
            name, draws, chains, seed, seconds = pickle.loads(_receive(source))
        except EOFError:
            return
        if name not in loaded:
            loaded = {name: references.load(name)}
        _stop_after(seconds)
        try:
            reply: Any = tuple(run_once(sampler, loaded[name], draws, chains, seed))
        except Exception as error:  # whatever it raises
            reply = _sentence(error)
        _stop_after(0.0)
        _send(sink, pickle.dumps(reply))


# The signal that ends a process which has used up its CPU time.
OUT_OF_TIME = getattr(signal, "SIGPROF", 0)


def _stop_after(seconds: float) -> None:
    """End this process after this many seconds of CPU time, in all its threads; 0 cancels that."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def processor_seconds() -> float:
    """Return the CPU time of this process, and of processes that it started and that have ended."""
    past = os.times()
    return time.process_time() + past.children_user + past.children_system


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, NoDraws) else f"{type(error).__name__}: {text}"


def run_once(sampler: Sampler, reference: Reference, draws: int, chains: int, seed: int) -> SamplerRun:
    """Run a sampler here, and check what it returns."""
    responses = reference.responses
    if reference.covariates is not None:
        return _run_regression(sampler, reference, draws, chains, seed)
    prior = reference.draws.attrs["prior_concentration"]
    began = processor_seconds()
    found = sample(responses, sampler, prior, draws, draws, chains, seed, progressbar=False)
    seconds = processor_seconds() - began
    theta = theta_of(found, "the tree", responses.categories).values
    if theta.shape[:2] != (chains, draws):
        raise NoDraws(f"must return {draws} draws of {chains} chains each, got {theta.shape[1]} of {theta.shape[0]}")
    return SamplerRun(theta, seconds, gradients_of(found, draws, responses.evidence().n_rows))


def _run_regression(sampler: Sampler, reference: Reference, draws: int, chains: int, seed: int) -> SamplerRun:
    """Run a sampler on a regression, if it takes one, and check the coefficients that it returns."""
    if not sampler.takes_covariates:
        raise NoDraws("takes no regression: a function that does has the argument covariates")
    right, responses = reference.parameters, reference.responses
    began = processor_seconds()
    found = sampler.draw(
        responses, reference.draws.attrs["prior_sd"], draws, draws, chains, seed, covariates=reference.covariates
    )
    seconds = processor_seconds() - began
    gradients = math.nan
    if isinstance(found, xr.DataTree):
        gradients = gradients_of(found, draws, responses.evidence().n_rows)
        found = found["posterior"]["coefficient"].transpose(*right.dims).values
    elif isinstance(found, Drawn):
        gradients = float(found.attributes.get("gradient_evaluations", math.nan))
        found = found.variables["coefficient"]
    values, shape = np.asarray(found, dtype=np.float64), (chains, draws, *right.shape[2:])
    if values.shape != shape:
        raise NoDraws(
            f"must return coefficients of shape {shape}, by {', '.join(map(str, right.dims))}, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise NoDraws(f"must return finite coefficients, got {int((~np.isfinite(values)).sum())} that are not")
    return SamplerRun(values, seconds, gradients)


def gradients_of(tree: xr.DataTree, draws: int, rows: int) -> float:
    """Return the gradient evaluations on all rows of a run with as many tuning draws as draws; NaN if not known."""
    if "gradient_evaluations" in tree.attrs:
        return float(tree.attrs["gradient_evaluations"])
    if "sample_stats" in tree and "n_steps" in tree["sample_stats"]:
        return 2.0 * float(tree["sample_stats"]["n_steps"].sum())
    for attribute, batch in (("sampler_settings", "batch_size"), ("sampler_choices", "batch")):
        settings = json.loads(tree.attrs.get(attribute, "{}"))
        if "updates_per_draw" in settings:
            share = (settings[batch] or rows) / rows
            return float(tree["posterior"].sizes["chain"] * 2 * draws * settings["updates_per_draw"] * share)
    return math.nan
