"""Command lines that run in this process, in an empty folder."""

import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from adobest_pp.cli.main import main

SECRETS = ("quetzal", "axolotl", "okapi")
PEOPLE = "id,vote\n" + "".join(f"{i},{SECRETS[i % 3]}\n" for i in range(12))


class Ended(NamedTuple):
    """Exit code, standard output, standard error, and the files that a command left."""

    code: int
    printed: str
    said: str
    left: set[str]


def run(arguments: Sequence[str], files: Mapping[str, str] | None = None) -> Ended:
    """Run a command line beside a file of people and other files. The exit code of a traceback is 99."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, content in {"people.csv": PEOPLE, **(files or {})}.items():
            Path(name).write_text(content, encoding="utf-8", newline="")
        before = set(os.listdir())
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(list(arguments))
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException as problem:
                code = 99
                err.write(f"Traceback: {type(problem).__name__}: {problem}")
        return Ended(code, out.getvalue(), err.getvalue(), set(os.listdir()) - before)


def refusal(arguments: Sequence[str], files: Mapping[str, str] | None = None) -> str:
    """Run a command that must be refused: exit code 2, one sentence, no output, no file, no private value."""
    ended = run(arguments, files)
    assert ended.code == 2, f"exit code {ended.code}: {ended.said[-300:]}"
    assert not ended.printed.strip()
    assert not ended.left
    lines = [line for line in ended.said.splitlines() if line.strip()]
    assert len(lines) == 1 or "Usage:" in ended.said, ended.said
    private = [secret for secret in (*SECRETS, "secret") if secret not in " ".join(arguments)]
    assert not any(secret in ended.said for secret in private), ended.said
    return ended.said
