"""Command lines with bad options, files of people with bad rows, and their allowed outcomes.

A command ends with exit code 0 or 1 and its result, or with exit code 2 and one sentence on standard error; never
with a traceback, and never with a private value in anything that it prints.
"""

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adobest_pp import RRRR, Responses, audit
from adobest_pp.cli.main import main

SECRETS = ("quetzal", "axolotl", "okapi")
PEOPLE = "id,vote\n" + "".join(f"{i},{SECRETS[i % 3]}\n" for i in range(12))
WORDS = (
    "",
    " ",
    "a",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "0.0",
    "1e999",
    "1e-400",
    "2147483648",
    "9" * 400,
    "0x10",
    "1_0",
    "²",
)
WORDS += ("1,5", "1 ", "½", "True", "None", "[1]", "\t", "a,b", "--", "x" * 3000, "e", "1e", "2", "3", "0.5", "1")


@dataclass(frozen=True)
class Command:
    """A command line, and what its exit code must be: 2, or what a function of the folder says."""

    arguments: tuple[str, ...]
    code: int | None = 2  # None: 0 or 1, or 2, with the word of the oracle
    files: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return " ".join(self.arguments)[:200]


def attempt(command: Command) -> tuple[str, str]:
    """Run the command in an empty folder of its own, and return "refused", "right" or "wrong" with what it printed."""
    with _folder() as folder:
        (folder / "people.csv").write_text(PEOPLE, encoding="utf-8")
        for name, content in command.files:
            (folder / name).write_text(content, encoding="utf-8", newline="")
        before = {path.name for path in folder.iterdir()}
        code, printed, said = run(command.arguments)
        left = {path.name for path in folder.iterdir()} - before
        collected = folder / "out.nc"
        responses = Responses.from_netcdf(collected) if code == 0 and collected.exists() else None
    if any(secret in printed + said for secret in (*SECRETS, "secret")) and "okapi" not in " ".join(command.arguments):
        shown_as_label = code == 0 and "secret" not in printed + said
        if not shown_as_label:
            return "wrong", f"a private value is shown: {said}"
    if "Traceback" in said or code not in (0, 1, 2):
        return "wrong", f"exit code {code}: {said[-300:]}"
    if code == 2:
        if command.code not in (2, None):
            return "wrong", f"a right command was refused: {said}"
        if left or printed.strip():
            return "wrong", f"refused, but left {sorted(left)} and printed {printed[:100]!r}"
        lines = [line for line in said.splitlines() if line.strip()]
        return ("refused", said) if len(lines) == 1 or "Usage:" in said else ("wrong", f"not one sentence: {said}")
    if command.code == 2:
        return "wrong", f"taken: exit code {code}"
    if command.arguments[0] == "collect" and (responses is None or len(responses) != 12):
        return "wrong", "collected, but not everybody"
    return "right", printed


def run(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Return the exit code, standard output and standard error of a command line."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as problem:  # what would be a traceback
            code = 99
            err.write(f"Traceback: {type(problem).__name__}: {problem}")
    return code, out.getvalue(), err.getvalue()


@contextmanager
def _folder() -> Iterator[Path]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


# ---------------------------------------------------------------- options
def _number(word: str, legal: Callable[[float], bool]) -> int:
    """Return the exit code for an option that takes a number: 2 unless Python reads a legal number from the word."""
    try:
        return 0 if legal(float(word)) else 2
    except (ValueError, OverflowError):
        return 2


def _whole(word: str, legal: Callable[[float], bool]) -> int:
    try:
        return 0 if legal(int(word)) else 2
    except ValueError:
        return 2


def options() -> list[Command]:
    """Return command lines with each option in turn set to each of the words."""
    commands = []
    rrrr = ("audit", "--mechanism", "rrrr", "--categories", "4", "--epsilon", "1")
    collect = ("collect", "people.csv", "--column", "vote", "--epsilon", "1", "--out", "out.nc", "--seed", "1")
    adaptive = (*collect, "--mechanism", "rrrr")
    compare = ("compare", "--people", "5", "--draws", "4", "--out", "report")
    utilities = ("utilities", "--theta", "0.5,0.3,0.2", "--epsilon", "1")
    plan = ("plan", "--categories", "3", "--mechanism", "srr", "--no-simulate", "--people", "1000", "--epsilon", "1")
    table = ("mechanisms", "--categories", "3", "--epsilon", "1")
    for word in WORDS:
        budget, share = _number(word, lambda e: 0 < e <= 30), _number(word, lambda e: 0 < e <= 1)
        commands += [
            Command((*rrrr[:5], "--epsilon", word), budget),
            Command((*rrrr, "--kappa", word), share),
            Command((*rrrr[:3], "--categories", word, "--epsilon", "1"), _whole(word, lambda k: 2 <= k <= 1000)),
            Command((*rrrr, "--size", word)),
            Command((*rrrr, "--rounding", word)),
            Command(("audit", "--mechanism", word, "--categories", "4", "--epsilon", "1")),
            Command(("audit", "--mechanism", "srr", "--categories", "4", "--epsilon", "1", "--kappa", word)),
            Command(("audit", "--mechanism", "subset", "--categories", "4", "--epsilon", "1", "--kappa", word)),
            Command(("audit", "--matrix", word, "--epsilon", "1")),
            Command((*utilities[:3], "--epsilon", word), budget),
            Command((*utilities, "--kappa", word), share),
            Command(("utilities", "--theta", word, "--epsilon", "1")),
            Command((*collect[:2], "--column", word, *collect[4:])),
            Command((*collect, "--epsilon", word), budget),
            Command((*collect, "--mechanism", word)),
            Command((*collect, "--kappa", word)),
            Command((*collect, "--mechanism", "design", "--utility", word)),
            Command((*adaptive, "--kappa", word), share),
            Command((*adaptive, "--utility", word)),
            Command((*adaptive, "--alpha", word)),
            Command((*adaptive, "--adapt-every", word), _whole(word, lambda n: 1 <= n < 2**31)),
            Command((*collect, "--categories", word)),
            Command(("collect", word, *collect[2:])),
            Command((*compare, "--prior", word), 2 if _number(word, lambda p: 0 < p < float("inf")) else None),
            Command((*compare, "--epsilon", word), 2 if budget else None),
            Command((*compare, "--mechanism", word)),
            Command((*compare, "--kappa", word)),
            Command((*compare, "--mechanism", "rrrr", "--kappa", word), 2 if share else None),
            Command((*compare, "--mechanism", "rrrr", "--utility", word)),
            Command((*compare, "--alpha", word)),
            Command((*compare, "--responses", word)),
            Command((*compare, "--data", word)),
            Command((*compare, "--column", word)),
            Command((*plan, "--epsilon", word), _number(word, lambda e: 0.01 <= e <= 30)),
            Command((*plan, "--people", word), _whole(word, lambda n: 1 <= n < 2**31)),
            Command((*plan, "--half-width", word)),
            Command((*plan, "--shape", word)),
            Command((*plan, "--theta", word)),
            Command((*plan, "--responses", word)),
            Command((*plan, "--mechanism", word)),
            Command((*plan, "--prior", word), _number(word, lambda p: 1e-100 <= p <= 1e100)),
            Command((*plan, "--out", word)),
            Command((*table[:3], "--epsilon", word), _number(word, lambda e: 0.01 <= e <= 30)),
            Command((*table, "--theta", word)),
            Command((*table, "--out", word)),
            Command(("study", "run", word, "--store", "store.zarr")),
            Command(("study", "status", word)),
            Command(("study", "export", word, "--out", "out.csv")),
        ]
    # A legal `compare` runs the whole job: other tests do.
    return [command for command in commands if command.code is not None]


# ---------------------------------------------------------------- files
def people_files() -> list[Command]:
    """Return collections from files of people that break a rule; "secret" stands for what must not be shown."""
    row = "secret-cell"
    contents = [
        "", "\n", "vote", "vote\n", "vote\n\n", "id\n1\n", "id;vote\n1;a\n", f"id,vote\n1,{row}\n\n2,b\n",
        f"\nvote\n{row}\nb\n", f"id,vote\n1,{row}\n2\n", f"id,vote\n1,{row}\n2,b,c\n", f"vote,vote\n{row},b\n",
        f"vote, vote\n{row},b\n", f'id,vote\n1,"{row}\n2,b\n', f"vote\n{row}\0\nb\n", f'vote\n"{row}\nc"\nb\n',
        f"vote\n{row}\x1b[31m\nb\n", f"vote\n{row}\n\u200b\nb\n",
        f"vote\n{row}\n{row}\u200b\nb\n",
        f"vote\n{row} a\n{row}\u00a0a\n", f"vote\n{row}\n{row}\n", f"VOTE\n{row}\nb\n", f"{row}\nb\n",
        f"vote\n{row}\n" + "b" * 200_000 + "\n", f"id,vote\n1,{row}\n2,\n", f'vote\n{row}\n""\n',
        f"\ufeff\ufeffvote\n{row}\nb\n",
    ]  # fmt: skip
    base = ("collect", "people.csv", "--column", "vote", "--epsilon", "1", "--out", "out.nc")
    compare = ("compare", "--data", "people.csv", "--column", "vote", "--draws", "4", "--out", "report")
    commands = [Command(line, 2, (("people.csv", content),)) for content in contents for line in (base, compare)]
    unknown = [f"vote\n{row}\nb\na\n", f"vote\na\nb\nA {row}\n", f"vote\na\n{row}\n"]
    return commands + [Command((*base, "--categories", "a,b"), 2, (("people.csv", content),)) for content in unknown]


def matrices() -> list[Command]:
    """Return audits of matrices, with the verdict of brute force over the corners of the rounding."""
    written = RRRR(3, 1.0).transition_matrix([0])
    commands = []
    for digits in (2, 4, 6, 12):
        text = "\n".join(",".join(f"{value:.{digits}f}" for value in line) for line in written) + "\n"
        for rounding in (None, 10.0**-digits, 0.5 * 10.0**-digits, 1e-9):
            for epsilon in (0.9, 0.999, 1.0, 1.001, 1.1, 2.0):
                extra = () if rounding is None else ("--rounding", repr(rounding))
                line = ("audit", "--matrix", "matrix.csv", "--epsilon", repr(epsilon), *extra)
                commands.append(Command(line, _verdict(text, epsilon, rounding), (("matrix.csv", text),)))
    bad = [
        "",
        "a,b\n",
        "1\n",
        "0.5,0.5\n0.5\n",
        "nan,1\n1,0\n",
        "-0.5,0.5\n1.5,0.5\n",
        "0.5,0.5\n0.5,0.6\n",
        "1e999,0\n0,1\n",
    ]
    return commands + [
        Command(("audit", "--matrix", "matrix.csv", "--epsilon", "1"), 2, (("matrix.csv", text),)) for text in bad
    ]


def _verdict(text: str, epsilon: float, rounding: float | None) -> int:
    """Return the exit code by interval arithmetic in floating point. No case is close to its limit."""
    entries = np.array([[float(cell) for cell in line.split(",")] for line in text.split()])
    if rounding is None:
        if np.abs(entries.sum(axis=0) - 1).max() > 1e-9:
            return 2
        return 0 if audit(entries, epsilon).holds else 1
    low, high = np.maximum(entries - rounding, 0), entries + rounding
    if (low.sum(axis=0) > 1 + 1e-12).any() or (high.sum(axis=0) < 1 - 1e-12).any():
        return 2
    room_up, room_down = 1 - (low.sum(axis=0) - low), 1 - (high.sum(axis=0) - high)
    most, least = np.minimum(high, room_up), np.maximum(low, room_down)
    ratios = [np.log(most[y, x] / least[y, z]) for y in range(3) for x in range(3) for z in range(3) if x != z]
    return 0 if max(ratios) <= epsilon + 1e-14 else 1


def commands() -> list[Command]:
    """Return all command lines."""
    return [*options(), *people_files(), *matrices()]
