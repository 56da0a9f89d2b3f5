"""The commands `adobest compare` (collect, grade, write, print) and `adobest grade`."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from adobest_pp._checks import check_count, check_integer, check_positive
from adobest_pp._progress import SlowProgress
from adobest_pp.answers.gather.gather import is_table
from adobest_pp.cli.tables import (
    HINT,
    check_figure,
    check_no_report,
    draw,
    labels_in,
    make_known,
    naming_responses,
    print_grades,
    print_verdicts,
)
from adobest_pp.diagnostics.draws import FEWEST_DRAWS
from adobest_pp.intervals.many import check_threshold
from adobest_pp.mechanisms import Mechanism, build_mechanism, find_mechanism
from adobest_pp.report.findings import Poll, grade_samplers, n_stages, poll_of_people, poll_of_responses, simulated_poll
from adobest_pp.report.folder import FILES, conclusions, summary, write_report
from adobest_pp.samplers.registry import resolve
from adobest_pp.samplers.sampling import fresh_seed

# The most CPU time of a run with a budget of gradients: the sampler may hang.
MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Request:
    """Where the answers come from. Options that were not given are None."""

    people: int | None
    data: Path | None
    column: str | None
    categories: str | None
    responses: str | None
    question: str | None
    collection: dict[str, Any]  # epsilon, mechanism, kappa, utility, alpha
    allow_copies: bool = False
    ask_again: bool = False

    def check(self) -> None:
        """Raise ValueError if options contradict each other."""
        if self.question is not None and not self.question.isprintable():
            raise ValueError(f"--question must be one line of printable text, got {self.question!r}")
        if self.people is not None:
            check_count(self.people, "--people")
        if sum(option is not None for option in (self.people, self.data, self.responses)) > 1:
            raise ValueError("--people, --data and --responses must not be given together: choose one of them")
        if self.ask_again and self.data is None:
            raise ValueError("--ask-again must come with --data: it is about the people in that file")
        if self.responses is not None:
            self._check_responses(self.responses)
            return
        if self.allow_copies:
            raise ValueError("--allow-copies must come with --responses: it is about those files")
        if (self.data is None) != (self.column is None):
            raise ValueError("--data and --column must be given together: a file, and its column of private values")
        if self.categories is not None and self.data is None:
            raise ValueError("--categories must come with --data: it lists the possible values of that file")

    def _check_responses(self, path: str) -> None:
        """Raise ValueError for options that do not fit these answers."""
        given = {name for name, value in self.collection.items() if value is not None}
        given |= {name for name in ("categories", "column") if getattr(self, name) is not None}
        if self._names_class:
            given.remove("mechanism")  # it says where to find the class that the answers name
        for name in sorted(given & {"utility", "alpha"} if is_table(path) else given):
            raise ValueError(f"--{name} must be left out with --responses: these answers are collected already")
        described = {"mechanism", "epsilon", "categories"}
        if given - {"column"} and not described <= given:
            missing = ", ".join(f"--{name}" for name in sorted(described - given))
            raise ValueError(
                f"--mechanism, --epsilon and --categories must be given together with --responses, got none for "
                f"{missing}; leave all of them out if the files have them"
            )

    @property
    def _names_class(self) -> bool:
        """Whether ``--mechanism module:Class`` is given without the settings that would build it."""
        name, epsilon = self.collection["mechanism"], self.collection["epsilon"]
        return name is not None and ":" in name and epsilon is None and self.categories is None

    def poll(self, seed: int, progressbar: bool, kept: Path) -> Poll:
        """Collect, simulate or read the answers. Answers of people are kept in a file as they come in."""
        make_known(self.collection["mechanism"])
        if self.responses is not None:
            with naming_responses(self.responses, HINT):
                labels = labels_in(self.categories)
                mechanism = self._mechanism(labels)
                poll = poll_of_responses(
                    self.responses, self.question, mechanism, labels, self.column, progressbar, self.allow_copies
                )
            self._check_class(poll)
            return poll
        options = {name: value for name, value in self.collection.items() if value is not None}
        options |= {"question": self.question, "random_seed": seed, "progressbar": progressbar}
        if self.data is None:
            return simulated_poll(**options | ({} if self.people is None else {"n_people": self.people}))
        assert self.column is not None
        # Asking people again would spend their privacy budget again.
        with _made(kept.parent):
            options |= {"categories": labels_in(self.categories), "ask_again": self.ask_again}
            return poll_of_people(self.data, self.column, out=kept, **options)

    def _check_class(self, poll: Poll) -> None:
        """Raise ValueError if ``--mechanism module:Class`` names another class than the answers."""
        if self._names_class:
            named, found = find_mechanism(self.collection["mechanism"]), poll.responses.mechanism
            if type(found) is not named:
                raise ValueError(
                    f"--mechanism must be that of the answers, {type(found).__name__}, got {named.__name__}"
                )

    def _mechanism(self, labels: list[str] | None) -> Mechanism | None:
        """Return the mechanism that the options state for answers in tables, if they do."""
        name, settings = self.collection["mechanism"], {"epsilon": self.collection["epsilon"]}
        if name is None or labels is None:
            return None
        if self.collection["kappa"] is not None:
            settings["kappa"] = self.collection["kappa"]
        return build_mechanism(name, n_categories=len(labels), **settings)


def run(
    request: Request,
    out: Path,
    prior: float | Literal["learned"],
    draws: int,
    seed: int | None,
    asked: dict[str, Any],
    *,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run the whole job, with progress on standard error and results on standard output."""
    import matplotlib as mpl

    mpl.use("Agg")  # figures go to files, not to a display
    # Check everything before anybody is asked, so that nobody has to answer again because a later step failed.
    request.check()
    check_integer(draws, "--draws", FEWEST_DRAWS)
    if asked["threshold"] is not None:
        check_threshold(asked["threshold"], "--above")
    _check_writable(out)
    check_no_report(out, FILES, overwrite)
    chosen = fresh_seed() if seed is None else seed
    show = not (quiet or as_json)
    kept = out / "responses.db"
    poll = request.poll(chosen, show, kept)
    stages = n_stages(poll, prior)
    alone = stages == 1  # the only sampler has a bar of its own
    with SlowProgress(stages, "comparing", show and not alone) as progress:
        begun = count()  # a stage is done when the next one begins
        on_stage = lambda stage: progress.advance(min(next(begun), 1), stage)  # noqa: E731
        findings = grade_samplers(poll, prior, draws, chosen, on_stage, show and alone, **asked)
        progress.advance(1)
    with SlowProgress(1, "writing the report", show) as progress:
        written = write_report(findings, out, overwrite) + ([] if request.data is None else [kept])
        progress.advance(1)
    if as_json:
        print(json.dumps(summary(findings) | {"files": [str(path) for path in written]}, indent=2))  # noqa: T201
    elif not quiet:
        cautions = [poll.asked] if request.data is None else [poll.asked, poll.origin, poll.protection]
        print_verdicts(findings.comparison, findings.sampler_prior, conclusions(findings) + cautions, written)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it if the block fails and the folder is empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a folder with answers in it stays
            for path in missing:
                path.rmdir()
        raise


def _check_writable(folder: Path) -> None:
    """Raise ValueError unless the path is a folder that can be written to, or could be made. Does not make it."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"--out must name a folder that can be written to, got {str(folder)!r}")


# `adobest grade`.


def grade(
    samplers: list[str],
    groups: list[str] | None,
    names: list[str] | None,
    budget: str,
    seed: int,
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Grade samplers on the reference posteriors, print a table or JSON, and return the exit code."""
    from adobest_pp.diagnostics import grade as run
    from adobest_pp.diagnostics.grading import FAILED, as_records

    target = check_figure(out)
    if "" not in sys.path:
        sys.path.insert(0, "")  # module:function may be in the current folder
    short = [name.rpartition(":")[2] for name in samplers]
    labels = short if len(set(short)) == len(short) else samplers
    chosen = {label: resolve(name) for label, name in zip(labels, samplers, strict=True)}
    seconds, gradients = _budget(budget)
    result = run(chosen, groups, names, seconds, gradients, random_seed=seed, progressbar=not as_json)
    if target is not None:
        draw("plot_grades", result, target)
    if as_json:
        print(json.dumps(as_records(result), ensure_ascii=False, indent=2))  # noqa: T201
    else:
        print_grades(result)
    return int((result["verdict"] == FAILED).any())


def _budget(text: str) -> tuple[float, float | None]:
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "g") else (text, "s")
    try:
        amount = check_positive(float(number), "--budget")
        return (amount, None) if unit == "s" else (MOST_SECONDS, amount)
    except ValueError:
        raise ValueError(f"--budget must be seconds such as 30s or gradients such as 20000g, got {text!r}") from None
