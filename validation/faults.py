"""Kills, hostile questions and damaged files, counted: how many were tried, refused, wrong and lost.

Answers that a process acknowledged before it was killed are there afterwards. Hostile questions are answered or refused
within a second and 100 MB. A file that was damaged is refused, or read as it was. Run with
``python -m validation.faults``. Bad arguments and options are tried by ``pytest tests/contracts``.
"""

import sys

from validation.common import Finding, Options, finding, main, table
from validation.damaged_files import damage_findings
from validation.hostile_questions import hostile_findings
from validation.kills import Kills, kill_while_collecting

FEWEST_KILLS = 200
# Processes forked from this one, and real commands, which take seconds to start.
KILLS = {True: (6, 0), False: (200, 10)}
SHOWN = 20


def kill_findings(killed: Kills, quick: bool) -> list[Finding]:
    """Print what was lost and wrong after kills, and return the findings about it."""
    print("Processes killed while they record answers, save, or ask the people of a file\n")
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
    """Count kills, hostile questions and damaged files."""
    killed = kill_while_collecting(*KILLS[options.quick], seed=options.seed)
    found = kill_findings(killed, options.quick)
    found += hostile_findings(options.quick, options.seed)
    return found + damage_findings(options)


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
