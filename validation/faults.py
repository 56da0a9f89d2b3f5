"""Bad inputs, kills, hostile questions and damaged files, counted: how many were tried, refused, wrong and lost.

Public functions get bad arguments, commands get bad options, and files of people break the rules. Each has one of two
outcomes: a result that an oracle confirms, or an error of one sentence. Answers that a process acknowledged before it
was killed are there afterwards. Hostile questions are answered or refused within a second and 100 MB. A file that was
damaged is refused, or read as it was.

There are some thirty thousand bad inputs. A full run tries one of six of them, a quick one of forty, drawn by the seed:
another seed tries others. Run with ``python -m validation.faults``.
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
from validation.common import Finding, Options, each, finding, main, table
from validation.damaged_files import damage_findings
from validation.hostile_questions import hostile_findings
from validation.kills import Kills, kill_while_collecting
from validation.public_functions import entries

# One of so many bad inputs is tried, in a quick run and in a full one.
SHARES = {True: 40, False: 6}
FEWEST_INPUTS, FEWEST_KILLS = 2_000, 200
# Processes forked from this one, and real commands, which take seconds to start.
KILLS = {True: (6, 0), False: (200, 10)}
SHOWN = 20


@dataclass(frozen=True)
class Tally:
    """How many bad inputs had each outcome, and what was wrong."""

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
    """Try a random share of the bad inputs."""
    rng = np.random.default_rng(seed)

    def share(cases: Sequence[Any]) -> list[Any]:
        chosen = rng.choice(len(cases), size=-(-len(cases) // SHARES[quick]), replace=False)
        return [cases[i] for i in sorted(chosen)]

    with quiet():
        return [
            tally("arguments of functions", share(bad_inputs.cases(entries())), bad_inputs.attempt),
            tally("options of commands", share(bad_commands.options()), bad_commands.attempt),
            tally("files of people", share(bad_commands.people_files()), bad_commands.attempt),
            tally("matrices to audit", share(bad_commands.matrices()), bad_commands.attempt),
        ]


class quiet(warnings.catch_warnings):
    """Silence the warnings of very short chains and of unused figures."""

    def __enter__(self) -> Any:
        import matplotlib as mpl

        mpl.use("Agg")
        logging.disable(logging.WARNING)
        return super().__enter__()

    def __exit__(self, *reason: object) -> None:
        logging.disable(logging.NOTSET)
        super().__exit__(*reason)


def input_findings(tallies: Sequence[Tally], quick: bool) -> list[Finding]:
    """Print the counts, and return the findings about them."""
    print("Bad inputs: refused with one sentence, or right, as an oracle confirms\n")
    rows = [[one.name, one.tried, *(one.outcomes[name] for name in ("refused", "right", "wrong"))] for one in tallies]
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 5))])
    table(["", "tried", "refused", "right", "wrong"], rows, name="bad_inputs")
    wrong = [line for one in tallies for line in one.wrong]
    for line in wrong[:SHOWN]:
        print(f"   wrong: {ascii(line)[:200]}")
    _, tried, refused, *_ = rows[-1]
    found = [
        finding("outcomes", "no bad input has another outcome", not wrong, wrong=len(wrong)),
        finding("refused", "most are refused", refused > tried / 2, refused=refused, tried=tried),
    ]
    if not quick:
        text = f"at least {FEWEST_INPUTS:,} bad inputs were tried"
        found.append(finding("tried", text, tried >= FEWEST_INPUTS, tried=tried))
    return found


def kill_findings(killed: Kills, quick: bool) -> list[Finding]:
    """Print what was lost and wrong after kills, and return the findings about it."""
    print("\nProcesses killed while they record answers, save, or ask the people of a file\n")
    row = [killed.tried, killed.answers, killed.lost, len(killed.wrong)]
    table(["tried", "answers kept", "lost", "wrong"], [row], name="kills")
    for line in killed.wrong[:SHOWN]:
        print(f"   wrong: {ascii(line)[:200]}")
    found = [
        finding("lost", "no answer that was acknowledged is lost", killed.lost == 0, lost=killed.lost),
        finding(
            "read",
            "every file is read, and has the answers that it should",
            not killed.wrong and (quick or killed.answers > 0),
            wrong=len(killed.wrong),
        ),
    ]
    if not quick:
        text = f"at least {FEWEST_KILLS} processes were killed"
        found.append(finding("killed", text, killed.tried >= FEWEST_KILLS, killed=killed.tried))
    return found


def findings(options: Options) -> list[Finding]:
    """Count bad inputs, kills, hostile questions and damaged files."""
    found = input_findings(bad_input_tallies(options.quick, options.seed), options.quick)
    killed = kill_while_collecting(*KILLS[options.quick], seed=options.seed)
    found += kill_findings(killed, options.quick)
    found += hostile_findings(options.quick, options.seed)
    return found + damage_findings(options)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
