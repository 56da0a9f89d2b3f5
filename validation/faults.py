"""Bad inputs and kills, counted: how many were tried, refused, wrong and lost.

Every public function with structurally bad arguments, every command with bad options, and files of people that break a
rule have two outcomes: a result that an oracle confirms, or one sentence. What a process has acknowledged before it is
killed is there afterwards.

Run with ``python -m validation.faults``; ``--quick`` tries a share of them.
"""

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation import bad_commands, bad_inputs
from validation.common import conclude, each, parse, table
from validation.kills import Kills, kill_while_collecting
from validation.public_functions import entries

QUICK_SHARE = 40  # of so many bad inputs one is tried
FEWEST_INPUTS, FEWEST_KILLS = 2_000, 200
# Processes forked from this one, and real commands, which take seconds to start.
KILLS = {True: (6, 0), False: (200, 10)}
SHOWN = 20


@dataclass(frozen=True)
class Tally:
    """What came of some bad inputs: how many of each outcome, and what was wrong."""

    name: str
    outcomes: Counter[str]
    wrong: list[str]

    @property
    def tried(self) -> int:
        """How many there were."""
        return self.outcomes.total()


def tally(name: str, cases: Sequence[Any], attempt: Callable[[Any], tuple[str, str]]) -> Tally:
    """Make every attempt and count the outcomes."""
    found = each(attempt, cases, name)
    wrong = [f"{case}: {said}" for case, (outcome, said) in zip(cases, found, strict=True) if outcome == "wrong"]
    return Tally(name, Counter(outcome for outcome, _ in found), wrong)


def bad_input_tallies(quick: bool, seed: int) -> list[Tally]:
    """Try the bad inputs, or a random share of them."""
    rng = np.random.default_rng(seed)

    def share(cases: Sequence[Any]) -> list[Any]:
        if not quick:
            return list(cases)
        chosen = rng.choice(len(cases), size=-(-len(cases) // QUICK_SHARE), replace=False)
        return [cases[i] for i in sorted(chosen)]

    with quiet():
        return [
            tally("arguments of functions", share(bad_inputs.cases(entries())), bad_inputs.attempt),
            tally("options of commands", share(bad_commands.options()), bad_commands.attempt),
            tally("files of people", share(bad_commands.people_files()), bad_commands.attempt),
            tally("matrices to audit", share(bad_commands.matrices()), bad_commands.attempt),
        ]


class quiet(warnings.catch_warnings):
    """Without the warnings of chains of four draws and of figures that nobody looks at."""

    def __enter__(self) -> Any:
        import matplotlib as mpl

        mpl.use("Agg")
        logging.disable(logging.WARNING)
        return super().__enter__()

    def __exit__(self, *reason: object) -> None:
        logging.disable(logging.NOTSET)
        super().__exit__(*reason)


def input_verdicts(tallies: Sequence[Tally], quick: bool) -> dict[str, bool]:
    """Print the counts, and return the statements about them."""
    print("Bad inputs: refused by one sentence, or right, as an oracle confirms\n")
    rows = [[one.name, one.tried, *(one.outcomes[name] for name in ("refused", "right", "wrong"))] for one in tallies]
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 5))])
    table(["", "tried", "refused", "right", "wrong"], rows)
    wrong = [line for one in tallies for line in one.wrong]
    for line in wrong[:SHOWN]:
        print(f"   wrong: {ascii(line)[:200]}")
    statements = {
        "no bad input has another outcome": not wrong,
        "most are refused": sum(one.outcomes["refused"] for one in tallies) > rows[-1][1] / 2,
    }
    if not quick:
        statements[f"at least {FEWEST_INPUTS:,} bad inputs were tried"] = rows[-1][1] >= FEWEST_INPUTS
    return statements


def kill_verdicts(found: Kills, quick: bool) -> dict[str, bool]:
    """Print what was lost and wrong after kills, and return the statements about it."""
    print("\nProcesses killed while they record answers, save, or ask the people of a file\n")
    table(["tried", "answers kept", "lost", "wrong"], [[found.tried, found.answers, found.lost, len(found.wrong)]])
    for line in found.wrong[:SHOWN]:
        print(f"   wrong: {ascii(line)[:200]}")
    statements = {
        "no answer that was acknowledged is lost": found.lost == 0,
        "every file is read, and has the answers that it should": not found.wrong and (quick or found.answers > 0),
    }
    if not quick:
        statements[f"at least {FEWEST_KILLS} processes were killed"] = found.tried >= FEWEST_KILLS
    return statements


def main(argv: Sequence[str] | None = None) -> int:
    """Count bad inputs and kills."""
    options = parse(__doc__, argv)
    verdicts = input_verdicts(bad_input_tallies(options.quick, options.seed), options.quick)
    killed = kill_while_collecting(*KILLS[options.quick], seed=options.seed)
    return conclude(verdicts | kill_verdicts(killed, options.quick))


if __name__ == "__main__":
    sys.exit(main())
