"""Kill collections at random moments, and count what is lost and what is wrong afterwards.

Most of the killed processes are forked from this one, which has everything imported and compiled, so that a kill takes
at most half a second; some are the real command. ``python -m validation.kills 200 10`` kills 200 forks and 10 commands.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from adobest_pp import RRRR, AdaptiveSubset, Collection, Responses
from adobest_pp.collect import collect_csv

MECHANISM = RRRR(4, 1.0)
LABELS = ("red", "green", "blue", "none")
# After this many answers a new file is begun, so that reading stays quick.
LONG = 400
PEOPLE = 400
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Kills:
    """How many processes were killed, how many answers they had kept, how many of those were lost, and what was wrong.

    Attributes
    ----------
    tried, answers, lost : int
        Counts.
    wrong : tuple of str
        One sentence for each file that could not be read, or had other answers than it should.
    """

    tried: int
    answers: int
    lost: int
    wrong: tuple[str, ...]

    def __add__(self, other: "Kills") -> "Kills":
        answers, lost = self.answers + other.answers, self.lost + other.lost
        return Kills(self.tried + other.tried, answers, lost, self.wrong + other.wrong)


def kill_while_collecting(forked: int, commands: int, seed: int = 1) -> Kills:
    """Kill some forked processes, half of them in `record` and half in `collect_csv`, and some real commands."""
    moments = random.Random(seed)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        people = _write_people(place / "people.csv", PEOPLE, seed)
        if forked:
            _collect(_write_people(place / "few.csv", 10, seed), place / "few.db")  # compiles what the children run
        return (
            _kill_recording(place, forked - forked // 2, moments)
            + _kill_collecting(place, people, forked // 2, moments)
            + _kill_commands(place, people, commands, moments)
        )


def _kill_recording(folder: Path, kills: int, moments: random.Random) -> Kills:
    """Kill a process that records answers, adapts, closes and opens; no answer whose `record` returned may be lost."""
    tried, kept, lost, wrong = 0, 0, 0, []
    files = itertools.count()
    path, known = folder / f"recorded-{next(files)}.db", 0
    _begin(path)
    while tried < kills:
        printed = _fork(partial(_record_forever, path), path, 0.06, signal.SIGKILL, moments)
        tried += 1
        acknowledged = max([known, *map(int, printed.split())])
        try:
            answers = _answers(path)
        except (ValueError, OSError) as problem:
            wrong.append(f"recording: {problem}")
            break
        expected = [_answer(i) for i in range(acknowledged + 1)]
        lost += max(0, acknowledged - len(answers))
        if answers != expected[: len(answers)] or len(answers) > acknowledged + 1:
            wrong.append(f"recording: {len(answers)} answers that are not the {acknowledged} that were acknowledged")
        kept += len(answers) - known
        known = len(answers)
        if known > LONG:
            path, known = folder / f"recorded-{next(files)}.db", 0
            _begin(path)
    return Kills(tried, kept, lost, tuple(wrong))


def _begin(path: Path) -> None:
    policy = AdaptiveSubset(MECHANISM, adapt_every=3)
    Collection.create(path, policy=policy, categories=LABELS, random_seed=1).close()


def _record_forever(path: Path, tell: Callable[[str], None]) -> None:
    collection = Collection.open(path)
    for i in itertools.count(len(collection)):
        question = collection.next_question()
        collection.record(_answer(i), question if i % 5 else 0)
        tell(f"{i + 1}\n")
        if i % 25 == 0:
            collection.close()
            collection = Collection.open(path)


def _answer(i: int) -> int:
    """Return the answer number `i`. It is a function of `i`, so any process can check it."""
    return i * 7 % 4


def _answers(path: Path) -> list[int]:
    found: list[int] = Responses.read(path).answers.tolist()
    return found


def _kill_collecting(folder: Path, people: Path, kills: int, moments: random.Random) -> Kills:
    """Kill or stop a process that asks the people of a file, again and again until all have answered."""
    out = itertools.count()

    def attempt(path: Path, how: signal.Signals) -> None:
        _fork(lambda tell: _collect(people, path), path, 0.3, how, moments)

    return _interrupt(lambda: folder / f"collected-{next(out)}.db", attempt, kills, moments)


def _collect(people: Path, out: Path) -> None:
    collect_csv(
        people, "vote", 1.0, "rrrr", categories=LABELS, progressbar=False, random_seed=1, out=out, ask_again=True
    )


def _kill_commands(folder: Path, people: Path, kills: int, moments: random.Random) -> Kills:
    """Kill or stop the real command, which takes a while until it begins."""
    out = itertools.count()

    def attempt(path: Path, how: signal.Signals) -> None:
        before = _size(path)
        with _command(people, path) as process:
            while process.poll() is None and _size(path) == before:
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.3))
            process.send_signal(how)

    return _interrupt(lambda: folder / f"command-{next(out)}.db", attempt, kills, moments)


def _command(people: Path, out: Path) -> "subprocess.Popen[bytes]":
    options = ["--column", "vote", "--epsilon", "1", "--mechanism", "rrrr", "--seed", "1", "--quiet", "--ask-again"]
    options += ["--categories", ",".join(LABELS)]
    command = [sys.executable, "-m", "adobest_pp", "collect", str(people), *options, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _interrupt(
    new_path: Callable[[], Path],
    attempt: Callable[[Path, signal.Signals], None],
    kills: int,
    moments: random.Random,
) -> Kills:
    """Interrupt a collection again and again. An answer that is in the file once must stay there unchanged."""
    tried, kept, lost, wrong = 0, 0, 0, []
    path, known = new_path(), list[int]()
    while tried < kills:
        attempt(path, moments.choice(SIGNALS))
        tried += 1
        try:
            answers = _answers(path) if path.exists() else []
        except (ValueError, OSError) as problem:
            wrong.append(f"collecting: {problem}")
            path, known = new_path(), list[int]()
            continue
        lost += max(0, len(known) - len(answers))
        if answers[: len(known)] != known[: len(answers)] or len(answers) > PEOPLE:
            wrong.append(f"collecting: {len(answers)} answers that are not a continuation of {len(known)}")
        kept += len(answers) - len(known)
        known = answers
        if len(known) == PEOPLE:
            path, known = new_path(), list[int]()
    return Kills(tried, kept, lost, tuple(wrong))


def _write_people(path: Path, n: int, seed: int) -> Path:
    votes = np.random.default_rng(seed).choice(LABELS[:3], size=n)
    path.write_text("vote\n" + "".join(f"{vote}\n" for vote in votes), encoding="utf-8")
    return path


def _fork(
    work: Callable[[Callable[[str], None]], None], path: Path, most: float, how: signal.Signals, moments: random.Random
) -> str:
    """Run `work` in a fork of this process, kill it, and return what it reported until then.

    Three times in four it is killed up to `most` seconds after it began to write, otherwise after it started.
    """
    before, waits = _size(path), moments.random() < 0.75
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of the threads that there may be
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work(lambda text: _tell(write, text))
            code = 0
        except (Exception, KeyboardInterrupt):
            code = 2
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while waits and _size(path) == before and os.waitid(os.P_PID, child, ended) is None:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, most))
        os.kill(child, how)
        content = pipe.read()
    os.waitpid(child, 0)
    return content


def _size(path: Path) -> int:
    """Return how much was written: while a collection is open, SQLite writes beside its file."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in files if each.exists()) if path.exists() else -1


def _tell(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode())


def print_counts(arguments: Sequence[str]) -> None:
    """Print the counts of ``python -m validation.kills FORKED COMMANDS``."""
    forked, commands = map(int, arguments)
    began = time.perf_counter()
    found = kill_while_collecting(forked, commands)
    seconds = time.perf_counter() - began
    print(
        f"{found.tried} kills in {seconds:.0f} s, {found.answers} answers, {found.lost} lost, {len(found.wrong)} wrong"
    )
    for sentence in found.wrong:
        print(sentence)


if __name__ == "__main__":
    print_counts(sys.argv[1:])
